// Pieces of a study's report that are not in report.js.

// The axis of intervals. It shows them completely unless they are much longer than the differences of their middles;
// then it shows enough to distinguish the middles. Intervals that reach beyond the axis end in an arrow.
function intervalAxis(axis, middle, low, high) {
  const [first, last] = extent([middle, [0]]);
  const [lowest, highest] = extent([low, high, middle, [0]]);
  const room = 0.5 * (last - first) || highest - lowest;
  return fitAxis(axis, [[Math.max(lowest, first - room), Math.min(highest, last + room)]]);
}

// A line with a bar at each end, or an arrow at the edge of the box.
function intervalPath(x, y, low, high, {left, right}) {
  const end = (at) => {
    if (at < left) return `M${left + 6} ${y - 5}L${left} ${y}L${left + 6} ${y + 5}`;
    if (at > right) return `M${right - 6} ${y - 5}L${right} ${y}L${right - 6} ${y + 5}`;
    return `M${at} ${y - 5}V${y + 5}`;
  };
  return `M${Math.max(left, x(low))} ${y}H${Math.min(right, x(high))}${end(x(low))}${end(x(high))}`;
}

// {title, x, names: [..], middle: [..], low: [..], high: [..]}: one point with an interval per name, and a line at 0. If
// an interval is unknown (null), only the point is drawn.
pieces.intervals = (piece) => {
  const middle = numbers(piece.middle),
    low = numbers(piece.low),
    high = numbers(piece.high);
  const xAxis = intervalAxis(piece.x, middle, low, high);
  const draw = (svg, width) => {
    const {x, y, box} = namedRows(svg, width, piece.names, 24, xAxis);
    svg.append(mark("path", {class: "diagonal", d: `M${x(0)} ${box.top}V${box.bottom}`}));
    piece.names.forEach((_, k) => {
      const group = mark("g", {class: "ink-1"});
      if (Number.isFinite(low[k]))
        group.append(mark("path", {class: "series", d: intervalPath(x, y(k), low[k], high[k], box)}));
      group.append(mark("circle", {class: "dot", cx: x(middle[k]), cy: y(k), r: 4}));
      svg.append(group);
    });
  };
  const range = (k) => (Number.isFinite(low[k]) ? ` (${shortNumber(low[k])} to ${shortNumber(high[k])})` : "");
  const words = piece.names.map((name, k) => `${name}: ${shortNumber(middle[k])}${range(k)}`);
  return figure(
    {
      title: piece.title,
      description: piece.description ?? `${piece.title}. ${words.join("; ")}.`,
      table: () => ({
        columns: ["name", "difference", "from", "to"],
        rows: piece.names.map((name, k) => [name, middle[k], low[k], high[k]]),
      }),
    },
    draw,
  );
};
