// A panel of a picture: heat maps below lines below points. {title, x, y, square?, cells: [{label, ink, rows, columns,
// strengths, scale?}], lines: [{label, ink, dash, x, y}], points: [{label, ink, mark, x, y}]}; strengths are bytes in
// base64, row by row from the bottom.
"use strict";

const MARKS = {
  dot: (x, y) => `M${x} ${y}h0`,
  cross: (x, y) => `M${x - 2} ${y - 2}l4 4m-4 0l4 -4`,
};

// One path per strength that occurs, made of runs of cells in a row.
function cellPaths({rows, columns, strengths}, plot) {
  const bytes = Uint8Array.from(atob(strengths), (c) => c.charCodeAt(0));
  const {left, right, top, bottom} = plot.box;
  const x = (i) => (left + ((right - left) * i) / columns).toFixed(1),
    y = (i) => (bottom - ((bottom - top) * i) / rows).toFixed(1);
  const paths = new Map();
  for (let row = 0; row < rows; ++row) {
    for (let first = 0, end; first < columns; first = end) {
      const strength = bytes[row * columns + first];
      for (end = first + 1; end < columns && bytes[row * columns + end] === strength;) ++end;
      if (strength === 0) continue;
      paths.set(strength, `${paths.get(strength) ?? ""}M${x(first)} ${y(row)}H${x(end)}V${y(row + 1)}H${x(first)}Z`);
    }
  }
  return [...paths].map(([strength, d]) =>
    mark("path", {
      d,
      fill: "currentColor",
      "fill-opacity": (strength / 255).toFixed(3),
      "shape-rendering": "crispEdges",
    }),
  );
}

const strongest = ({strengths}) => Math.max(...Uint8Array.from(atob(strengths), (c) => c.charCodeAt(0))) / 255;

function markPath(one, plot) {
  const xs = numbers(one.x),
    ys = numbers(one.y);
  let path = "";
  for (let i = 0; i < xs.length; ++i) {
    const x = plot.x(xs[i]),
      y = plot.y(ys[i]);
    if (Number.isFinite(x) && Number.isFinite(y)) path += MARKS[one.mark](Number(x.toFixed(1)), Number(y.toFixed(1)));
  }
  return path;
}

const markStyle = (one) => ({
  class: "marks",
  fill: "none",
  stroke: "currentColor",
  "stroke-linecap": "round",
  "stroke-width": one.mark === "dot" ? 3.2 : 1.3,
});

// The sign of an entry in the legend.
function sample(one) {
  if (one.strengths !== undefined) {
    const rect = (x, width, opacity) =>
      mark("rect", {x, y: 1, width, height: 8, fill: "currentColor", "fill-opacity": opacity});
    return one.scale ? [0.1, 0.4, 0.7, 1].map((share, i) => rect(1 + 5 * i, 5, share)) : rect(1, 20, strongest(one));
  }
  if (one.mark) return mark("path", {d: MARKS[one.mark](11, 5), ...markStyle(one)});
  return mark("path", {d: "M0 5H22", stroke: "currentColor", "stroke-width": 2, "stroke-dasharray": dashOf(one, 0)});
}

// Points have a rim in the colour of the page, so that they stand out from cells and from each other.
function pointMarks(one, plot) {
  const style = {...markStyle(one), d: markPath(one, plot)};
  const rim = {...style, class: null, style: "stroke: var(--paper)", "stroke-width": style["stroke-width"] + 1.6};
  return mark("g", {class: `ink-${one.ink}`}, mark("path", rim), mark("path", style));
}

pieces.panel = (piece) => {
  const draw = (svg, width) => {
    const plot = axes(svg, width, piece.square ? width - 4 : heightFor(width), piece.x, piece.y);
    const line = (one) =>
      mark("path", {
        class: `series ink-${one.ink}`,
        "stroke-dasharray": dashOf(one, 0),
        d: linePath(plot.x, plot.y, numbers(one.x), numbers(one.y)),
      });
    plot.inside.append(
      ...piece.cells.map((one) => mark("g", {class: `ink-${one.ink}`}, cellPaths(one, plot))),
      ...piece.lines.map(line),
      ...piece.points.map((one) => pointMarks(one, plot)),
    );
  };
  const shown = [...piece.cells, ...piece.lines, ...piece.points];
  return figure(
    {
      title: piece.title,
      description: piece.description ?? `${piece.title}. ${shown.map((one) => one.label).join(", ")}.`,
      legend: legend(shown, sample),
      table: piece.points.length
        ? () => ({
            columns: ["points", piece.x.label, piece.y.label],
            rows: piece.points.flatMap((one) => {
              const ys = numbers(one.y);
              return Array.from(numbers(one.x), (x, i) => [one.label, x, ys[i]]);
            }),
          })
        : null,
    },
    draw,
  );
};
