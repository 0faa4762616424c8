// Pieces of a study's report beside those of report.js.

// {title, x, names: [..], middle: [..], low: [..], high: [..]}: a point and an interval for every name, against a line at
// 0. An interval that is not known (null) leaves the point alone.
pieces.intervals = (piece) => {
  const middle = numbers(piece.middle), low = numbers(piece.low), high = numbers(piece.high);
  const xAxis = fitAxis(piece.x, [middle, low, high, [0]]);
  const row = 24;
  const draw = (svg, width) => {
    const longest = Math.max(...piece.names.map((name) => name.length), 1);
    const left = Math.min(0.4 * width, 12 + 7 * longest), height = row * piece.names.length + 49, bottom = height - 40;
    const x = scale(xAxis, left, width - 12);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    for (const tick of ticks(xAxis.low, xAxis.high, false, Math.max(2, Math.floor((width - left) / 80)))) {
      svg.append(mark("path", {class: "grid-line", d: `M${x(tick)} 4V${bottom}`}),
                 mark("text", {x: x(tick), y: bottom + 16, "text-anchor": "middle"}, tickText(xAxis, tick)));
    }
    svg.append(mark("path", {class: "diagonal", d: `M${x(0)} 4V${bottom}`}));
    const letters = Math.floor((left - 12) / 6.5);
    piece.names.forEach((name, k) => {
      const y = 4 + row * (k + 0.5);
      const shown = name.length > letters ? `${name.slice(0, letters - 1)}…` : name;
      const group = mark("g", {class: "ink-1"});
      if (Number.isFinite(low[k])) {
        group.append(mark("path", {class: "series", d: `M${x(low[k])} ${y - 5}V${y + 5}M${x(low[k])} ${y}H${x(high[k])}` +
                                                       `M${x(high[k])} ${y - 5}V${y + 5}`}));
      }
      group.append(mark("circle", {class: "dot", cx: x(middle[k]), cy: y, r: 4}));
      svg.append(mark("text", {x: left - 6, y: y + 4, "text-anchor": "end"}, shown), group);
    });
    svg.append(mark("path", {class: "axis", d: `M${left} ${bottom}H${width - 12}`}),
               mark("text", {x: (left + width) / 2, y: height - 5, "text-anchor": "middle"}, piece.x.label ?? ""));
  };
  return figure({
    title: piece.title,
    description: piece.description ?? `${piece.title}. ${piece.names.map((name, k) => `${name}: ${shortNumber(middle[k])}` +
      (Number.isFinite(low[k]) ? ` (${shortNumber(low[k])} to ${shortNumber(high[k])})` : "")).join("; ")}.`,
    table: () => ({columns: ["name", "difference", "from", "to"],
                   rows: piece.names.map((name, k) => [name, middle[k], low[k], high[k]])}),
  }, draw);
};
