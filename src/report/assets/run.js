// The pieces of a run's report that are not in report.js: scores with a movable threshold, and galleries.

// How many of the ascending values are at least the threshold.
function countFrom(sorted, threshold) {
  let low = 0,
    high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < threshold) low = middle + 1;
    else high = middle;
  }
  return sorted.length - low;
}

// The largest threshold that keeps this share of the ascending values.
const thresholdKeeping = (sorted, share) => sorted[sorted.length - Math.ceil(share * sorted.length - 1e-9)];

// How many ID and OOD images reach each of some thresholds, from the highest down: all that curves need. The
// thresholds are scores of ID or OOD images, as many as a plot can show.
function sweep(id, ood, most = 250) {
  const thresholds = [Infinity];
  for (const sorted of [id, ood]) {
    const step = Math.max(1, sorted.length / most);
    for (let i = 0; i < sorted.length; i += step) thresholds.push(sorted[Math.floor(i)]);
  }
  thresholds.sort((a, b) => b - a);
  const counts = thresholds.map((threshold) => [countFrom(id, threshold), countFrom(ood, threshold)]);
  return counts.concat([[id.length, ood.length]]);
}

function rocSeries(label, id, ood) {
  const counts = sweep(id, ood);
  return {label, x: counts.map(([, fp]) => fp / ood.length), y: counts.map(([tp]) => tp / id.length)};
}

const SHARE = {percent: true, low: 0, high: 1};

// {sets: [name], runs: [{label, id, ood: [scores or null, one per set]}]}: ROC curves of several runs, one tab per set.
pieces.rocs = (piece) => {
  const runs = piece.runs.map((run) => ({...run, id: numbers(run.id)}));
  const curves = (set, k) => ({
    kind: "lines",
    title: `ROC, ${set}`,
    diagonal: true,
    x: {...SHARE, label: "OOD taken for ID (FPR)"},
    y: {...SHARE, label: "ID kept (TPR)"},
    height: 340,
    series: runs
      .map((run, i) => (run.ood[k] ? {...rocSeries(run.label, run.id, numbers(run.ood[k])), ink: 1 + (i % 7)} : null))
      .filter((one) => one !== null),
  });
  return draw({
    kind: "tabs",
    label: "Test set",
    tabs: piece.sets.map((set, k) => ({title: set, piece: curves(set, k)})).filter((tab) => tab.piece.series.length),
  });
};

// {score, threshold or null, sets: [{name, scores}], ID first, scores ascending}: histograms and curves that follow
// one threshold, moved with the slider, by dragging in a histogram, or typed.
pieces.threshold = (piece) => {
  const [id, ...sets] = piece.sets.map((set) => ({name: set.name, scores: numbers(set.scores)}));
  const state = new ThresholdState(id, sets, piece.threshold);
  return element(
    "div",
    {},
    thresholdControls(state, piece),
    scoreHistograms(state, piece.score),
    thresholdTable(state),
    scoreCurves(state),
  );
};

class ThresholdState {
  constructor(id, sets, detector) {
    Object.assign(this, {id, sets, listeners: new Map()});
    const [low, high] = extent([id.scores, ...sets.map((set) => set.scores)]);
    const span = high - low || 1;
    Object.assign(this, {low: low - 0.01 * span, high: high + 0.01 * span});
    const start = detector ?? thresholdKeeping(id.scores, 0.95);
    this.value = Number.isFinite(start) ? start : start > 0 ? this.high : this.low; // scores may be infinite
  }
  // Calls use(threshold) now and after every move. A plot that is drawn again replaces its earlier entry.
  follow(node, use) {
    this.listeners.set(node, use);
    use(this.value);
  }
  move(value) {
    if (!Number.isFinite(value)) return;
    this.value = value;
    for (const use of this.listeners.values()) use(value);
  }
  kept(set) {
    return countFrom(set.scores, this.value);
  }
  share(set) {
    return this.kept(set) / set.scores.length;
  }
}

// The slider and the field follow the threshold and move it.
function thresholdInputs(state) {
  const slider = element("input", {
    type: "range",
    id: "threshold",
    min: state.low,
    max: state.high,
    step: (state.high - state.low) / 1000,
    "aria-label": "Threshold",
  });
  const field = element("input", {
    type: "number",
    id: "threshold-value",
    step: "any",
    "aria-label": "Threshold as a number",
  });
  slider.addEventListener("input", () => state.move(Number(slider.value)));
  field.addEventListener("change", () => state.move(parseFloat(field.value)));
  state.follow(slider, (threshold) => {
    slider.value = threshold;
    slider.setAttribute("aria-valuetext", shortNumber(threshold));
    if (document.activeElement !== field || Number(field.value) !== threshold) field.value = threshold;
  });
  return [slider, field];
}

// "Keeps 95.0 % of the ID images (190 of 200) and rejects 61.2 % of the OOD images."
function thresholdSummary(state) {
  const summary = element("p", {id: "threshold-summary", role: "status"});
  state.follow(summary, () => {
    const rejected = state.sets.map((set) => 1 - state.share(set)).reduce((a, b) => a + b, 0) / state.sets.length;
    summary.replaceChildren(
      "Keeps ",
      element("strong", {}, percent(state.share(state.id))),
      ` of the ID images (${count(state.kept(state.id))} of ${count(state.id.scores.length)}) and rejects `,
      element("strong", {}, percent(rejected)),
      ` of the OOD images${state.sets.length > 1 ? `, the mean over ${state.sets.length} sets` : ""}.`,
    );
  });
  return summary;
}

function thresholdControls(state, piece) {
  const button = (text, value) => {
    const node = element("button", {type: "button"}, text);
    node.addEventListener("click", () => state.move(value));
    return node;
  };
  const help =
    `An image counts as ID if its score (${piece.score || "score"}) is at least the threshold. ` +
    "Move the threshold with the slider or by dragging in a histogram, or type it.";
  return element(
    "div",
    {},
    element("p", {class: "quiet"}, help),
    element(
      "div",
      {class: "controls"},
      thresholdInputs(state),
      button(`${percent(0.95, 0)} of ID kept`, thresholdKeeping(state.id.scores, 0.95)),
      piece.threshold === null ? null : button("the detector's own", piece.threshold),
    ),
    thresholdSummary(state),
  );
}

function thresholdTable(state) {
  const caption = "At this threshold";
  const rows = state.sets.map((set) => {
    const cells = {fpr: element("td", {}), kept: element("td", {}), rejected: element("td", {})};
    state.follow(cells.fpr, () => {
      const kept = state.kept(set);
      cells.fpr.textContent = percent(kept / set.scores.length, 2);
      cells.kept.textContent = count(kept);
      cells.rejected.textContent = count(set.scores.length - kept);
    });
    return element("tr", {}, element("th", {scope: "row", class: "text"}, set.name), Object.values(cells));
  });
  const head = tableHead(["set", "FPR", "taken for ID", "rejected"], 1);
  const table = element("table", {id: "threshold-table"}, element("caption", {}, caption), head);
  table.append(element("tbody", {}, rows));
  return scrolling(caption, table);
}

// A range with most of the scores; the others count in the outermost bars.
function bulk(state) {
  const lists = [state.id, ...state.sets].map((set) => set.scores);
  const quantile = (list, share) => list[Math.min(list.length - 1, Math.floor(share * list.length))];
  const [low, high] = extent(lists.map((list) => [quantile(list, 0.005), quantile(list, 0.995)]));
  const span = high - low || 1;
  return {low: low - 0.02 * span, high: high + 0.02 * span};
}

function scoreHistograms(state, score) {
  const range = bulk(state);
  return grid(
    state.sets.map((set) =>
      draw({
        kind: "histogram",
        title: `ID and ${set.name}`,
        x: {label: `${score || "score"} (higher is ID)`, ...range},
        height: 220,
        series: [
          {label: "ID", values: state.id.scores},
          {label: set.name, values: set.scores},
        ],
        onPlot: (plot) => dragThreshold(state, plot, range),
      }),
    ),
  );
}

// The threshold as a line that the pointer or a finger can drag.
function dragThreshold(state, plot, range) {
  const {left, right, top, bottom} = plot.box;
  const line = mark("path", {class: "threshold"}),
    knob = mark("circle", {class: "threshold", r: 6, cy: top});
  const area = mark("rect", {class: "drag", x: left, y: top - 8, width: right - left, height: bottom - top + 8});
  const moveTo = (event) => {
    const box = area.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    state.move(range.low + share * (range.high - range.low));
  };
  area.addEventListener("pointerdown", (event) => {
    area.setPointerCapture(event.pointerId);
    moveTo(event);
  });
  area.addEventListener("pointermove", (event) => {
    if (area.hasPointerCapture(event.pointerId)) moveTo(event);
  });
  plot.svg.append(line, knob, area);
  state.follow(plot.svg, (threshold) => {
    const x = Math.min(right, Math.max(left, plot.x(threshold))); // one beyond the plot is shown at its edge
    line.setAttribute("d", `M${x} ${top}V${bottom}`);
    knob.setAttribute("cx", x);
  });
}

// One curve per set; points mark the threshold. point(kept ID, kept OOD, all OOD) is a point of the curve.
function scoreCurve(state, {title, x, y, point, diagonal}) {
  const series = state.sets.map((set) => {
    const points = sweep(state.id.scores, set.scores)
      .map(([tp, fp]) => point(tp, fp, set.scores.length))
      .filter(([px, py]) => Number.isFinite(px) && Number.isFinite(py));
    return {label: set.name, x: points.map(([px]) => px), y: points.map(([, py]) => py)};
  });
  const onPlot = (plot) => {
    const marks = series.map((one, i) => mark("circle", {class: `dot ink-${inkOf(one, i)}`, r: 4.5}));
    plot.svg.append(...marks); // not clipped, so that they are whole at the corners
    state.follow(plot.svg, () =>
      state.sets.forEach((set, i) => {
        const [px, py] = point(state.kept(state.id), state.kept(set), set.scores.length);
        fill(marks[i], {cx: plot.x(px || 0), cy: plot.y(Number.isFinite(py) ? py : 1)}, []);
      }),
    );
  };
  const axis = (label) => ({...SHARE, label});
  return draw({kind: "lines", title, x: axis(x), y: axis(y), height: 300, series, onPlot, diagonal});
}

// ROC, and precision against recall with ID and with OOD as the positive class.
function scoreCurves(state) {
  const ids = state.id.scores.length;
  const curves = [
    {
      title: "ROC",
      x: "OOD taken for ID (FPR)",
      y: "ID kept (TPR)",
      point: (tp, fp, n) => [fp / n, tp / ids],
      diagonal: true,
    },
    {
      title: "Precision and recall of ID",
      x: "recall: ID kept",
      y: "precision",
      point: (tp, fp) => [tp / ids, tp / (tp + fp)],
    },
    {
      title: "Precision and recall of OOD",
      x: "recall: OOD rejected",
      y: "precision",
      point: (tp, fp, n) => [(n - fp) / n, (n - fp) / (n - fp + ids - tp)],
    },
  ];
  return grid(curves.map((curve) => scoreCurve(state, curve)));
}

// Copies each tile of a contact sheet onto its own canvas.
function cutSheet(sheet, {tile, columns}, canvases) {
  canvases.forEach((canvas, i) => {
    const x = (i % columns) * tile,
      y = Math.floor(i / columns) * tile;
    canvas.getContext("2d").drawImage(sheet, x, y, tile, tile, 0, 0, tile, tile);
  });
}

// {title, remark, src, tile, columns, tiles: [[line of caption]]}: the tiles of a contact sheet, each with its caption.
pieces.gallery = (piece) => {
  const side = {width: piece.tile, height: piece.tile};
  const canvases = piece.tiles.map((lines, i) =>
    element("canvas", {...side, role: "img", "aria-label": lines.join(", ") || `image ${i + 1}`}),
  );
  const caption = (lines) => lines.map((line) => element("span", {}, line));
  const whole = element(
    "figure",
    {class: "gallery"},
    element("figcaption", {}, piece.title),
    piece.remark ? element("p", {class: "quiet"}, piece.remark) : null,
    element(
      "ul",
      {},
      piece.tiles.map((lines, i) => element("li", {}, canvases[i], caption(lines))),
    ),
  );
  const sheet = new Image();
  sheet.onload = () => cutSheet(sheet, piece, canvases);
  sheet.onerror = () =>
    whole.append(element("p", {class: "note"}, "This sheet's picture cannot be shown: it is damaged."));
  sheet.src = piece.src;
  return whole;
};
