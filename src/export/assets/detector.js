// Runs a detector in the visitor's browser: images are dropped, pasted or chosen, and never leave it.
"use strict";

function bytesOf(base64) {
  const text = atob(base64),
    bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  return bytes;
}

const urlOf = (base64, type) => URL.createObjectURL(new Blob([bytesOf(base64)], {type}));
const scriptUrl = (base64) => urlOf(base64, "text/javascript");

// onnxruntime-web with everything from the page's own data: nothing is fetched.
async function loadModel({runtime, model}) {
  const ort = await import(scriptUrl(runtime.script));
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmPaths = {mjs: scriptUrl(runtime.glue), wasm: urlOf(runtime.wasm, "application/wasm")};
  const session = await ort.InferenceSession.create(bytesOf(model));
  return (pixels, size) => session.run({images: new ort.Tensor("uint8", pixels, [1, 3, size, size])});
}

// ------------------------------------------------------------------------------------------------------------ pixels

// The pixels of an image file: {width, height, data: red, green, blue and alpha in turn}.
async function decode(file) {
  const options = {imageOrientation: "from-image", premultiplyAlpha: "none", colorSpaceConversion: "none"};
  const bitmap = await createImageBitmap(file, options);
  const canvas = element("canvas", {width: bitmap.width, height: bitmap.height});
  const context = canvas.getContext("2d", {willReadFrequently: true});
  context.drawImage(bitmap, 0, 0);
  return context.getImageData(0, 0, bitmap.width, bitmap.height);
}

// For each pixel of the result, the source pixels along one side and their weights, as in src/images/resize.cpp: the
// shorter side becomes `size`, and the middle is kept. Shrinking averages areas; growing is bilinear.
function taps(length, size, shorter) {
  const scaled = Math.floor((length * size) / shorter),
    first = Math.floor((scaled - size) / 2);
  return Array.from({length: size}, (_, i) => {
    const place = first + i;
    if (shorter >= size) {
      const begin = place * length,
        list = [];
      for (let k = Math.floor(begin / scaled); k * scaled < begin + length; ++k) {
        list.push([k, Math.min(begin + length, (k + 1) * scaled) - Math.max(begin, k * scaled)]);
      }
      return list.map(([k, weight]) => [k, weight / length]);
    }
    const at = Math.max(0, ((place + 0.5) * length) / scaled - 0.5),
      low = Math.floor(at);
    return [
      [low, 1 - (at - low)],
      [Math.min(length - 1, low + 1), at - low],
    ];
  });
}

// Red, green and blue planes of size × size pixels: what the network sees.
function fitPixels({width, height, data}, size) {
  const shorter = Math.min(width, height);
  const rows = taps(height, size, shorter),
    columns = taps(width, size, shorter);
  const planes = new Uint8Array(3 * size * size),
    line = new Float64Array(4 * width); // a row of the result before its columns are resized
  rows.forEach((row, y) => {
    line.fill(0);
    for (const [r, weight] of row) {
      for (let i = 0; i < line.length; ++i) line[i] += weight * data[r * line.length + i];
    }
    columns.forEach((column, x) => {
      for (let channel = 0; channel < 3; ++channel) {
        let sum = 0;
        for (const [c, weight] of column) sum += weight * line[4 * c + channel];
        planes[(channel * size + y) * size + x] = Math.floor(sum + 0.5 + 1e-9); // half up, whatever rounding did
      }
    });
  });
  return planes;
}

// The same pixels as a picture.
function thumbnail(planes, size) {
  const canvas = element("canvas", {width: size, height: size, class: "thumbnail"});
  const picture = new ImageData(size, size);
  for (let i = 0; i < size * size; ++i) {
    for (let channel = 0; channel < 3; ++channel) picture.data[4 * i + channel] = planes[channel * size * size + i];
    picture.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d").putImageData(picture, 0, 0);
  return canvas;
}

// ---------------------------------------------------------------------------------------------------------- the page

// Where the scores of the images lie among those of known images.
function scoreFigure(piece, judged) {
  return draw({
    kind: "histogram",
    title: "Scores of known images, and of yours",
    description: `Histogram of the scores of known images. The threshold is ${shortNumber(piece.threshold)}.`,
    x: {label: `${piece.score} (higher means known)`},
    height: 220,
    series: [{label: "known images", values: piece.id_scores}],
    onPlot: (plot) => {
      const {left, right, top, bottom} = plot.box;
      const place = (score) => Math.min(right, Math.max(left, plot.x(score))); // one beyond the plot: at its edge
      plot.svg.append(mark("path", {class: "threshold", d: `M${place(piece.threshold)} ${top}V${bottom}`}));
      for (const {score, known} of judged) {
        plot.svg.append(mark("circle", {class: `dot ink-${known ? 3 : 2}`, r: 5, cx: place(score), cy: bottom - 8}));
      }
    },
  });
}

async function judge(file, run, piece) {
  const planes = fitPixels(await decode(file), piece.size);
  const {verdict, score, probability} = await run(planes, piece.size);
  const label = Number(verdict.data[0]);
  const unsure = label < 0 && piece.unsure !== null && score.data[0] >= piece.unsure;
  return {
    picture: thumbnail(planes, piece.size),
    known: label >= 0,
    word: unsure ? "unsure" : label < 0 ? "unknown" : probability ? piece.classes[label] : "known",
    score: score.data[0],
    probability: probability?.data[0],
  };
}

function resultRow(name, result) {
  const cells = result.problem
    ? ["", result.problem, "", ""]
    : [
        result.picture,
        result.word,
        percent(result.probability),
        element("data", {value: result.score}, shortNumber(result.score)),
      ];
  const row = element("tr", {}, element("th", {scope: "row", class: "text"}, name));
  cells.forEach((cell, i) => row.append(element("td", i < 2 ? {class: "text"} : {}, cell)));
  return row;
}

// {classes, score, threshold, unsure (the lower threshold) or null, size, id_scores or null, model, runtime: {script,
// glue, wasm}}: the model and the files of the runtime as base64
pieces.detector = (piece) => {
  const status = element("p", {class: "quiet", role: "status"}, "Loading the detector …");
  const chooser = element("input", {type: "file", multiple: true, accept: "image/*", disabled: true});
  const body = element("tbody"),
    plot = element("div");
  const titles = ["image", "as the network sees it", "verdict", "probability", "score"];
  const head = titles.map((title, i) => element("th", {scope: "col", class: i < 3 ? "text" : false}, title));
  const table = element("table", {hidden: true}, element("thead", {}, element("tr", {}, head)), body);
  const judged = [];
  const showPlot = () => piece.id_scores && plot.replaceChildren(scoreFigure(piece, judged));

  const loaded = loadModel(piece);
  const unsure = piece.unsure === null ? "" : `, unsure from ${shortNumber(piece.unsure)}`;
  const ready = () => {
    chooser.disabled = false;
    status.textContent = `${counted(judged.length, "image")} judged; known from a score of ${shortNumber(piece.threshold)}${unsure}`;
  };
  loaded.then(ready, (error) => {
    status.textContent = `This browser cannot run the detector: ${error.message ?? error}`;
  });

  let last = loaded.catch(() => {}); // one image after the other
  const add = (files) => {
    for (const file of files) {
      last = last.then(async () => {
        const run = await loaded;
        const result = await judge(file, run, piece).catch(() => ({problem: "cannot be read as an image"}));
        if (!result.problem) judged.push(result);
        body.prepend(resultRow(file.name, result));
        table.hidden = false;
        showPlot();
        ready();
      });
    }
  };
  chooser.addEventListener("change", () => add(chooser.files));
  document.addEventListener("paste", (event) => add(event.clipboardData.files));
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    add(event.dataTransfer.files);
  });
  showPlot();
  const label = element("label", {class: "drop"}, "Drop images here, paste one, or choose files: ", chooser);
  return element("div", {}, label, status, plot, element("div", {class: "scroll", tabindex: 0}, table));
};
