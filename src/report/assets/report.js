// Draws a report in the browser. The page contains a list of pieces as JSON (#data); pieces[KIND](PIECE) fills the
// element with data-piece=N. Names in the data may contain any characters, so nothing here is parsed as HTML: every
// text becomes a text node.
"use strict";

const pieces = {}; // by kind: a function from the piece's data to an element

// ---------------------------------------------------------------------------------------------------------- elements

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

// element("p", {class: "note"}, "text", element("b", {}, "bold"))
function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// The same for an SVG element.
function mark(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

// Calls draw(width) as soon as the element has a width, and whenever the width changes. It watches a ruler above the
// element, not the element itself: drawing changes the element's height, and browsers report such a change as an error.
function onWidth(node, draw) {
  let last = 0;
  const ruler = element("div");
  node.before(ruler);
  new ResizeObserver(([entry]) => {
    const width = Math.round(entry.contentRect.width);
    if (width === 0 || width === last) return;
    last = width;
    draw(width);
  }).observe(ruler);
}

// ----------------------------------------------------------------------------------------------------------- numbers

// A list of numbers, plain or packed as base64; null becomes NaN.
function numbers(list) {
  if (!list) return [];
  if (list.float32 === undefined) return list.map((value) => (value === null ? NaN : value));
  return new Float32Array(Uint8Array.from(atob(list.float32), (c) => c.charCodeAt(0)).buffer);
}

function shortNumber(value) {
  if (!Number.isFinite(value)) return value === Infinity ? "∞" : value === -Infinity ? "−∞" : "–";
  const size = Math.abs(value);
  const text =
    size !== 0 && (size < 1e-4 || size >= 1e7)
      ? value.toExponential(2)
      : String(Number(value.toPrecision(size >= 1000 ? 7 : 4)));
  return text.replaceAll("-", "−");
}

// Keeps a figure and its percent sign on one line.
const percent = (share, digits = 1) => (Number.isFinite(share) ? `${(100 * share).toFixed(digits)}\u00a0%` : "–");
const count = (n) => n.toLocaleString("en");
const counted = (n, what) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;
const axisNumber = (axis, value) => (axis.percent ? percent(value) : shortNumber(value));

// A power of ten as 10⁻¹².
function powerText(value) {
  const digits = String(Math.round(Math.log10(value))).replace("-", "⁻");
  return `10${digits.replace(/[0-9]/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit])}`;
}

function tickText(axis, value) {
  if (axis.log && (value < 1e-2 || value > 1e4)) return powerText(value);
  return axis.percent ? `${shortNumber(100 * value)}\u00a0%` : shortNumber(value);
}

function extent(lists) {
  let low = Infinity,
    high = -Infinity;
  for (const list of lists) {
    for (const value of list) {
      if (Number.isFinite(value)) {
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
  }
  return low <= high ? [low, high] : [0, 1];
}

// About `most` round numbers inside an axis, at least two if possible; on a logarithmic axis powers of ten. The loops
// count, so that they end even if a step is too small or too large for the numbers.
function ticks({low, high, log, whole}, most) {
  const list = [];
  if (log) {
    const first = Math.ceil(Math.log10(low) - 1e-9),
      last = Math.floor(Math.log10(high) + 1e-9);
    const step = Math.max(1, Math.ceil((last - first + 1) / most));
    for (let power = first; power <= last && list.length <= most; power += step) list.push(10 ** power);
    return list;
  }
  const rough = (high - low) / most,
    unit = 10 ** Math.floor(Math.log10(rough));
  const round = unit * [1, 2, 5, 10].find((factor) => factor * unit >= rough * (1 - 1e-9));
  const step = whole ? Math.max(1, round) : round;
  const first = Math.ceil(low / step - 1e-9);
  for (let i = first; i * step <= high + step * 1e-9 && list.length <= most; ++i) list.push(i * step);
  return list.length < 2 && most < 20 ? ticks({low, high, whole}, 2 * most) : list;
}

// Maps the values of an axis to the range between two pixels.
function scale({low, high, log}, from, to) {
  const unit = log ? Math.log10 : (value) => value;
  const a = unit(low),
    b = unit(high);
  return (value) => from + ((to - from) * (unit(value) - a)) / (b - a);
}

// Whether the two ends differ only by rounding errors. Ticks between such ends would be too close to count.
const isFlat = (low, high) => !(high - low > 1e-9 * Math.max(Math.abs(low), Math.abs(high)));

// The axis of the piece, completed from the data.
function fitAxis(axis, lists) {
  const kept = axis.log ? lists.map((list) => Array.from(list).filter((value) => value > 0)) : lists;
  let [low, high] = extent(kept);
  const span = isFlat(low, high) ? Math.abs(high) || 1 : high - low;
  const margin = axis.log || axis.tight ? 0 : (axis.margin ?? 0.04) * span;
  low = axis.low ?? (low >= 0 && low - margin < 0 && !axis.log ? 0 : low - margin);
  high = axis.high ?? high + margin;
  if (isFlat(low, high)) {
    const room = Math.max(0.5, 1e-6 * Math.abs(high));
    low = axis.log ? low / 2 : low - room;
    high = axis.log ? high * 2 : high + room;
  }
  return {...axis, low, high};
}

// ------------------------------------------------------------------------------------------------------------- plots

let figureNumber = 0;

// A figure around what draw(svg, width) draws: title, legend, picture with a description, and the same data as a table.
// table() returns {columns, rows} and is called when the reader opens the table.
function figure({title, description, legend, table, readout}, draw) {
  const svg = mark("svg", {role: "img", "aria-label": description});
  const whole = element(
    "figure",
    {class: "plot"},
    element("figcaption", {}, title),
    legend,
    element("div", {class: "picture"}, svg),
    readout,
    table ? lazyTable(title, table) : null,
  );
  onWidth(svg, (width) => {
    svg.replaceChildren();
    draw(svg, width);
  });
  return whole;
}

function lazyTable(title, table) {
  const details = element("details", {}, element("summary", {}, "Data"));
  details.addEventListener("toggle", () => {
    if (details.open && !details.querySelector("table")) details.append(dataTable(title, table()));
  });
  return details;
}

// A table that can be sorted, and scrolls if it is too wide.
function scrolling(caption, table) {
  makeSortable(table);
  return element("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": caption}, table);
}

// Titles of columns; the first `words` columns contain words, the others figures.
const tableHead = (titles, words = 0) =>
  element(
    "thead",
    {},
    element(
      "tr",
      {},
      titles.map((title, i) => element("th", {scope: "col", class: i < words ? "text" : null}, title)),
    ),
  );

// {columns: [title], rows: [[cell]]} as a table.
function dataTable(caption, {columns, rows}) {
  const cell = (value) => (typeof value === "number" ? shortNumber(value) : value);
  const row = ([name, ...values]) =>
    element(
      "tr",
      {},
      element("th", {scope: "row"}, cell(name)),
      values.map((value) => element("td", {}, cell(value))),
    );
  const body = element("tbody", {}, rows.map(row));
  return scrolling(caption, element("table", {}, element("caption", {}, caption), tableHead(columns), body));
}

// A single series gets a legend only if the piece asks for it.
function legend(series, shape, always = false) {
  if (series.length < 2 && !always) return null;
  return element(
    "ul",
    {class: "legend"},
    series.map((one, i) =>
      element(
        "li",
        {},
        mark("svg", {class: `ink-${inkOf(one, i)}`, viewBox: "0 0 22 10", "aria-hidden": "true"}, shape(one, i)),
        one.label,
      ),
    ),
  );
}

// Lines differ in their dashes as well as in their colours.
const DASHES = [null, "7 3", "2 3", "9 3 2 3"];
const inkOf = (one, i) => one.ink ?? 1 + (i % 7);
const dashOf = (one, i) => DASHES[(one.dash ?? i) % DASHES.length];

// Lines and numbers along the x axis at the bottom of a box, and its label.
function drawXAxis(svg, x, axis, {left, right, top, bottom}) {
  for (const tick of ticks(axis, Math.max(2, Math.floor((right - left) / 55)))) {
    svg.append(
      mark("path", {class: "grid-line", d: `M${x(tick)} ${top}V${bottom}`}),
      mark("text", {x: x(tick), y: bottom + 16, "text-anchor": "middle"}, tickText(axis, tick)),
    );
  }
  svg.append(
    mark("path", {class: "axis", d: `M${left} ${top}V${bottom}H${right}`}),
    mark("text", {x: (left + right) / 2, y: bottom + 35, "text-anchor": "middle"}, axis.label ?? ""),
  );
}

function drawYAxis(svg, y, axis, marked, {left, right, top, bottom}) {
  for (const tick of marked) {
    svg.append(
      mark("path", {class: "grid-line", d: `M${left} ${y(tick)}H${right}`}),
      mark("text", {x: left - 6, y: y(tick) + 4, "text-anchor": "end"}, tickText(axis, tick)),
    );
  }
  const place = `translate(11 ${(top + bottom) / 2}) rotate(-90)`;
  svg.append(mark("text", {transform: place, "text-anchor": "middle"}, axis.label ?? ""));
}

// Draws axes into a picture of this width. Returns the scales x and y, the inner box, the clipped group `inside` it,
// and svg.
function axes(svg, width, height, xAxis, yAxis) {
  const marked = ticks(yAxis, 5);
  const widest = Math.max(...marked.map((tick) => tickText(yAxis, tick).length), 2);
  const box = {left: 14 + 7 * widest + (yAxis.label ? 16 : 0), right: width - 10, top: 10, bottom: height - 40};
  const x = scale(xAxis, box.left, box.right),
    y = scale(yAxis, box.bottom, box.top);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  drawYAxis(svg, y, yAxis, marked, box);
  drawXAxis(svg, x, xAxis, box);
  const id = `clip${++figureNumber}`;
  const inside = mark("g", {"clip-path": `url(#${id})`});
  const edge = {x: box.left, y: box.top - 2, width: box.right - box.left, height: box.bottom - box.top + 4};
  svg.append(mark("clipPath", {id}, mark("rect", edge)), inside);
  return {svg, x, y, box, inside};
}

// Names down the left side, one per row, above an x axis. Returns the scale x and the middle y(k) of each row.
function namedRows(svg, width, names, rowHeight, xAxis) {
  const longest = Math.max(...names.map((name) => name.length), 1);
  const box = {left: Math.min(0.4 * width, 12 + 7 * longest), right: width - 12, top: 4};
  box.bottom = box.top + rowHeight * names.length + 1;
  const x = scale(xAxis, box.left, box.right),
    y = (k) => box.top + rowHeight * (k + 0.5);
  svg.setAttribute("viewBox", `0 0 ${width} ${box.bottom + 40}`);
  drawXAxis(svg, x, xAxis, box);
  const letters = Math.floor((box.left - 12) / 6.5);
  names.forEach((name, k) => {
    const shown = name.length > letters ? `${name.slice(0, letters - 1)}…` : name;
    svg.append(mark("text", {x: box.left - 6, y: y(k) + 4, "text-anchor": "end"}, mark("title", {}, name), shown));
  });
  return {x, y, box};
}

const heightFor = (width) => Math.round(Math.min(320, Math.max(190, 0.56 * width)));

// A line through the points. A value that is not a number leaves a gap.
function linePath(x, y, xs, ys) {
  let path = "",
    down = false;
  for (let i = 0; i < xs.length; ++i) {
    const px = x(xs[i]),
      py = y(ys[i]);
    const drawn = Number.isFinite(px) && Number.isFinite(py);
    if (drawn) path += `${down ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`;
    down = drawn;
  }
  return path;
}

function bandPath(x, y, xs, low, high) {
  const known = Array.from(xs.keys()).filter((i) => Number.isFinite(low[i]) && Number.isFinite(high[i]));
  const point = (i, values) => `${x(xs[i]).toFixed(1)} ${y(values[i]).toFixed(1)}`;
  if (known.length < 2) return "";
  return `M${known.map((i) => point(i, high)).join("L")}L${known
    .reverse()
    .map((i) => point(i, low))
    .join("L")}Z`;
}

// One line with its band. A single point is drawn as a dot.
function drawLine(plot, one, i) {
  const group = mark("g", {class: `ink-${inkOf(one, i)}`});
  if (one.lows.length)
    group.append(mark("path", {class: "band", d: bandPath(plot.x, plot.y, one.xs, one.lows, one.highs)}));
  const d = linePath(plot.x, plot.y, one.xs, one.ys);
  group.append(mark("path", {class: "series", "stroke-dasharray": dashOf(one, i), d}));
  plot.inside.append(group);
  if (one.ys.filter(Number.isFinite).length === 1) plot.svg.append(dots(plot, one, i, 4));
}

const lineSample = (one, i) =>
  mark("path", {d: "M0 5H22", stroke: "currentColor", "stroke-width": 2.5, "stroke-dasharray": dashOf(one, i)});

// {title, x, y: axes {label, low, high, log, percent, whole, tight}, series: [{label, x, y, low?, high?, ink?, dash?}],
// legend?: also of one series}: lines, with bands if there are low and high. Moving the pointer over it shows the
// values. `onPlot` is called after every drawing.
pieces.lines = (piece) => {
  const series = piece.series.map((one) => ({
    ...one,
    xs: numbers(one.x),
    ys: numbers(one.y),
    lows: numbers(one.low),
    highs: numbers(one.high),
  }));
  const xAxis = fitAxis(
    {tight: true, ...piece.x},
    series.map((one) => one.xs),
  );
  const yAxis = fitAxis(
    piece.y,
    series.flatMap((one) => [one.ys, one.lows, one.highs]),
  );
  const readout = element("p", {class: "readout", "aria-hidden": "true"});
  const draw = (svg, width) => {
    const plot = axes(svg, width, piece.height ?? heightFor(width), xAxis, yAxis);
    if (piece.diagonal)
      plot.inside.append(mark("path", {class: "diagonal", d: linePath(plot.x, plot.y, [0, 1], [0, 1])}));
    series.forEach((one, i) => drawLine(plot, one, i));
    readOff(svg, plot, series, xAxis, yAxis, readout);
    piece.onPlot?.(plot);
  };
  const description = piece.description ?? describe(piece, series, yAxis);
  const table = () => seriesTable(piece, series);
  const lines = legend(series, lineSample, piece.legend);
  return figure({title: piece.title, readout, description, legend: lines, table}, draw);
};

// The points of a series. They are not clipped, so that a point on the edge is whole.
function dots(plot, {xs, ys, names, ...one}, i, radius) {
  const title = (k) => (names ? mark("title", {}, names[k]) : null);
  const circle = (x, k) =>
    Number.isFinite(x) && Number.isFinite(ys[k])
      ? mark("circle", {class: "dot", cx: plot.x(x).toFixed(1), cy: plot.y(ys[k]).toFixed(1), r: radius}, title(k))
      : null;
  return mark("g", {class: `ink-${inkOf(one, i)}`}, Array.from(xs, circle));
}

// "Loss. x: epoch, y: loss. POEM from 2.3 to 0.4; random from 2.3 to 0.5."
function describe(piece, series, yAxis) {
  const words = series.map((one) => {
    const known = Array.from(one.ys).filter(Number.isFinite);
    if (known.length === 0) return `${one.label ?? "values"}: none`;
    return `${one.label ?? "values"} from ${axisNumber(yAxis, known[0])} to ${axisNumber(yAxis, known[known.length - 1])}`;
  });
  return `${piece.title}. ${piece.y.label ?? ""} against ${piece.x.label ?? ""}. ${words.join("; ")}.`;
}

// One row per distinct x if the series share them, otherwise one per point.
function seriesTable(piece, series) {
  const rows = new Map();
  series.forEach((one, i) =>
    Array.from(one.xs).forEach((x, k) => {
      if (!rows.has(x)) rows.set(x, [x, ...series.map(() => "")]);
      const band = one.lows.length ? ` (${shortNumber(one.lows[k])} … ${shortNumber(one.highs[k])})` : "";
      rows.get(x)[i + 1] = axisNumber(piece.y, one.ys[k]) + band;
    }),
  );
  return {
    columns: [piece.x.label ?? "x", ...series.map((one) => one.label ?? piece.y.label ?? "y")],
    rows: [...rows.values()].sort((a, b) => a[0] - b[0]),
  };
}

// A cursor at the x nearest to the pointer, and the values there as text.
function readOff(svg, plot, series, xAxis, yAxis, readout) {
  const cursor = mark("path", {class: "cursor"});
  plot.inside.append(cursor);
  svg.onpointermove = (event) => {
    const at =
      ((event.clientX - svg.getBoundingClientRect().left) * svg.viewBox.baseVal.width) /
      svg.getBoundingClientRect().width;
    let best = NaN;
    for (const one of series) {
      for (const x of one.xs) if (!(Math.abs(plot.x(x) - at) >= Math.abs(plot.x(best) - at))) best = x;
    }
    if (!Number.isFinite(best)) return;
    cursor.setAttribute("d", `M${plot.x(best)} ${plot.box.top}V${plot.box.bottom}`);
    cursor.style.visibility = "visible";
    const values = series
      .map((one) => [one.label, one.ys[Array.from(one.xs).indexOf(best)]])
      .filter(([, y]) => Number.isFinite(y))
      .map(([label, y]) => `${series.length > 1 ? `${label} ` : ""}${axisNumber(yAxis, y)}`);
    readout.textContent = `${xAxis.label ?? "x"} ${axisNumber(xAxis, best)}: ${values.join(", ")}`;
  };
  svg.onpointerleave = () => {
    cursor.style.visibility = "hidden";
    readout.textContent = "";
  };
}

const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

// Possible places of a name beside its point: right, left, and above or below these.
function namePlaces(name, x, y) {
  const width = 6.8 * name.length;
  return [0, -11, 11].flatMap((shift) => [
    {text: x + 9, anchor: "start", left: x + 9, right: x + 9 + width, top: y + shift - 6, bottom: y + shift + 6},
    {text: x - 9, anchor: "end", left: x - 9 - width, right: x - 9, top: y + shift - 6, bottom: y + shift + 6},
  ]);
}

// Names of points, each at the first place where it covers no other name or point. A name without such a place is only
// in the table.
function pointNames(plot, {xs, ys, names = []}) {
  const point = (k) => [plot.x(xs[k]), plot.y(ys[k])];
  const taken = names.map((_, k) => {
    const [x, y] = point(k);
    return {left: x - 5, right: x + 5, top: y - 5, bottom: y + 5};
  });
  const {left, right, bottom} = plot.box;
  const free = (box) =>
    box.left > left && box.right < right + 10 && box.bottom < bottom + 4 && !taken.some((other) => overlap(box, other));
  return names.map((name, k) => {
    const place = namePlaces(name, ...point(k)).find(free);
    if (!place) return "";
    taken.push(place);
    return mark("text", {x: place.text, y: place.bottom - 2, "text-anchor": place.anchor}, name);
  });
}

// {title, x, y, series: [{label, x, y, names?, ink?}]}: points; those with names are labelled.
pieces.scatter = (piece) => {
  const series = piece.series.map((one) => ({...one, xs: numbers(one.x), ys: numbers(one.y)}));
  const xAxis = fitAxis(
    {margin: 0.08, ...piece.x},
    series.map((one) => one.xs),
  );
  const yAxis = fitAxis(
    {margin: 0.08, ...piece.y},
    series.map((one) => one.ys),
  );
  const draw = (svg, width) => {
    const plot = axes(svg, width, piece.height ?? heightFor(width), xAxis, yAxis);
    series.forEach((one, i) => svg.append(dots(plot, one, i, one.names ? 5 : 3), ...pointNames(plot, one)));
  };
  const points = series.flatMap((one) =>
    Array.from(one.xs, (x, k) => [one.names?.[k] ?? one.label ?? "", x, one.ys[k]]),
  );
  const words = `${piece.title}. ${piece.y.label} against ${piece.x.label}, ${counted(points.length, "point")}.`;
  return figure(
    {
      title: piece.title,
      description: piece.description ?? words,
      legend: legend(series, () => mark("circle", {cx: 11, cy: 5, r: 4, fill: "currentColor"})),
      table: () => ({columns: ["point", piece.x.label ?? "x", piece.y.label ?? "y"], rows: points}),
    },
    draw,
  );
};

// How many values fall into each of `bins` equal parts of the axis. Values beyond the axis count in the outermost parts.
function binned(values, {low, high}, bins) {
  const counts = new Array(bins).fill(0);
  for (const value of values) {
    if (Number.isNaN(value)) continue;
    counts[Math.min(bins - 1, Math.max(0, Math.floor(((value - low) / (high - low)) * bins)))] += 1;
  }
  return counts;
}

// The outline of bars with these heights, from left to right.
function stepPath(plot, heights, edge) {
  const steps = heights.map((height, k) => `V${plot.y(height).toFixed(1)}H${plot.x(edge(k + 1)).toFixed(1)}`);
  return `M${plot.x(edge(0))} ${plot.y(0)}${steps.join("")}V${plot.y(0)}Z`;
}

const areaSample = () =>
  mark("rect", {
    x: 1,
    y: 1,
    width: 20,
    height: 8,
    fill: "currentColor",
    "fill-opacity": 0.25,
    stroke: "currentColor",
  });

// {title, x, bins?, series: [{label, values, ink?}]}: shares of each series by value.
pieces.histogram = (piece) => {
  const bins = piece.bins ?? 50;
  const series = piece.series.map((one) => ({...one, list: numbers(one.values)}));
  const xAxis = fitAxis(
    {tight: true, ...piece.x},
    series.map((one) => one.list),
  );
  const shares = series.map((one) => binned(one.list, xAxis, bins).map((n) => n / Math.max(1, one.list.length)));
  const yAxis = {label: "share", percent: true, low: 0, high: 1.05 * Math.max(1e-9, ...shares.flat())};
  const edge = (i) => xAxis.low + ((xAxis.high - xAxis.low) * i) / bins;
  const draw = (svg, width) => {
    const plot = axes(svg, width, piece.height ?? heightFor(width), xAxis, yAxis);
    shares.forEach((heights, i) => {
      const d = stepPath(plot, heights, edge);
      plot.inside.append(mark("path", {class: `area ink-${inkOf(series[i], i)}`, d}));
    });
    piece.onPlot?.(plot);
  };
  const sizes = series.map((one) => `${one.label}: ${counted(one.list.length, "value")}`);
  return figure(
    {
      title: piece.title,
      description: piece.description ?? `${piece.title}. Histogram of ${sizes.join(", ")}.`,
      legend: legend(series, areaSample),
      table: () => ({
        columns: ["from", "to", ...series.map((one) => one.label)],
        rows: shares[0].map((_, k) => [edge(k), edge(k + 1), ...shares.map((heights) => percent(heights[k], 2))]),
      }),
    },
    draw,
  );
};

// "birds: mined set 12 %, pool 4 %; cars: …"
function describeBars(names, series, xAxis) {
  const label = (one) => (series.length > 1 ? `${one.label} ` : "");
  const values = (k) => series.map((one) => label(one) + axisNumber(xAxis, one.list[k])).join(", ");
  return names.map((name, k) => `${name}: ${values(k)}`).join("; ");
}

// {title, x, names: [..], series: [{label, values, ink?}]}: horizontal bars, one per series and name.
pieces.bars = (piece) => {
  const series = piece.series.map((one) => ({...one, list: numbers(one.values)}));
  const xAxis = fitAxis(
    {low: 0, ...piece.x},
    series.map((one) => one.list),
  );
  const thick = series.length > 1 ? 8 : 14,
    whole = series.length * (thick + 1) - 1; // of a name's bars
  const draw = (svg, width) => {
    const {x, y} = namedRows(svg, width, piece.names, whole + 9, xAxis);
    const bar = (one, i, k) =>
      mark("rect", {
        class: `bar ink-${inkOf(one, i)}`,
        x: x(0),
        y: y(k) - whole / 2 + i * (thick + 1),
        height: thick,
        width: Math.max(0, x(one.list[k]) - x(0)) || 0,
      });
    svg.append(...piece.names.flatMap((_, k) => series.map((one, i) => bar(one, i, k))));
  };
  return figure(
    {
      title: piece.title,
      description: piece.description ?? `${piece.title}. ${describeBars(piece.names, series, xAxis)}.`,
      legend: legend(series, () => mark("rect", {x: 1, y: 1, width: 20, height: 8, fill: "currentColor"})),
      table: () => ({
        columns: ["name", ...series.map((one) => one.label ?? piece.x.label)],
        rows: piece.names.map((name, k) => [name, ...series.map((one) => axisNumber(xAxis, one.list[k]))]),
      }),
    },
    draw,
  );
};

// ---------------------------------------------------------------------------------------------------------- controls

function draw(piece) {
  return pieces[piece.kind](piece);
}

// Side by side if there is room. The parts of the plots in a row are aligned, however long their legends are.
function grid(parts) {
  const aligned = parts.every((part) => part.matches(".plot"));
  return element("div", {class: aligned ? "grid aligned" : "grid"}, parts);
}

// {pieces: [..]}: a grid of pieces.
pieces.grid = (piece) => grid(piece.pieces.map(draw));

let tabsNumber = 0;

// {label, tabs: [{title, piece}]}: shows one piece at a time. Arrow keys move between the titles.
pieces.tabs = (piece) => {
  const number = ++tabsNumber;
  const titles = piece.tabs.map((tab, i) =>
    element(
      "button",
      {type: "button", role: "tab", id: `tab${number}-${i}`, "aria-controls": `panel${number}-${i}`},
      tab.title,
    ),
  );
  const panels = piece.tabs.map((tab, i) =>
    element("div", {role: "tabpanel", id: `panel${number}-${i}`, "aria-labelledby": `tab${number}-${i}`}),
  );
  const select = (chosen) =>
    titles.forEach((title, i) => {
      title.setAttribute("aria-selected", i === chosen);
      title.tabIndex = i === chosen ? 0 : -1;
      panels[i].hidden = i !== chosen;
      if (i === chosen && panels[i].childElementCount === 0) panels[i].append(draw(piece.tabs[i].piece));
    });
  titles.forEach((title, i) => {
    title.addEventListener("click", () => select(i));
    title.addEventListener("keydown", (event) => {
      const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
      if (!step) return;
      const next = (i + step + titles.length) % titles.length;
      select(next);
      titles[next].focus();
      event.preventDefault();
    });
  });
  select(0);
  return element("div", {class: "tabs"}, element("div", {role: "tablist", "aria-label": piece.label}, titles), panels);
};

// Steps through `names` with a slider and a Play button; show(i) shows one. Starts with `first`.
function player({label, names, seconds = 0.6, first = 0}, show) {
  const slider = element("input", {type: "range", min: 0, max: names.length - 1, step: 1, "aria-label": label});
  const name = element("output", {});
  const button = element("button", {type: "button"}, "Play");
  let timer = null;
  const go = (i) => {
    slider.value = i;
    slider.setAttribute("aria-valuetext", names[i]);
    name.textContent = names[i];
    show(i);
  };
  const stop = () => {
    clearInterval(timer);
    timer = null;
    button.textContent = "Play";
  };
  const play = () => {
    if (Number(slider.value) === names.length - 1) go(0);
    button.textContent = "Pause";
    timer = setInterval(() => {
      go(Math.min(names.length - 1, Number(slider.value) + 1));
      if (Number(slider.value) === names.length - 1) stop();
    }, 1000 * seconds);
  };
  button.addEventListener("click", () => (timer ? stop() : play()));
  slider.addEventListener("input", () => {
    stop();
    go(Number(slider.value));
  });
  go(first);
  return element("div", {class: "controls"}, names.length > 1 ? [button, slider] : null, name);
}

// {label, frames: [{title, piece}], seconds?, first?}: pieces that are shown one after the other.
pieces.frames = (piece) => {
  const place = element("div", {});
  const shown = piece.frames.map(() => null);
  const show = (i) => place.replaceChildren((shown[i] ??= draw(piece.frames[i].piece)));
  const controls = player(
    {
      label: piece.label,
      names: piece.frames.map((frame) => frame.title),
      seconds: piece.seconds,
      first: piece.first,
    },
    show,
  );
  return element("div", {}, controls, place);
};

// ------------------------------------------------------------------------------------------------------------ tables

// The sort key of a cell: its number if it starts with one, otherwise its text.
function sortKey(row, column) {
  const text = row.cells[column].textContent.trim();
  const number = parseFloat(text.replaceAll("−", "-").replaceAll(",", ""));
  return Number.isNaN(number) ? text : number;
}

function sortBy(table, header) {
  const down = header.getAttribute("aria-sort") === "ascending";
  for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [sortKey(row, header.cellIndex), row]);
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  rows.sort(([a], [b]) => (down ? compare(b, a) : compare(a, b)));
  body.append(...rows.map(([, row]) => row));
}

function makeSortable(table) {
  for (const header of table.tHead.rows[0].cells) {
    const button = element("button", {type: "button"}, ...header.childNodes);
    button.addEventListener("click", () => sortBy(table, header));
    header.append(button);
  }
}

// ------------------------------------------------------------------------------------------------------------- start

// A piece that cannot be drawn shows a message; the others are drawn all the same.
document.addEventListener("DOMContentLoaded", () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  for (const place of document.querySelectorAll("[data-piece]")) {
    try {
      place.append(draw(data[place.dataset.piece]));
    } catch (error) {
      place.append(element("p", {class: "note"}, `This part could not be drawn: ${error.message}`));
      console.error(error);
    }
  }
  document.querySelectorAll("table.sortable").forEach(makeSortable);
});
