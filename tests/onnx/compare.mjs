// Runs exported models in onnxruntime and compares their outputs with poem's own.
//
//   node compare.mjs FOLDER
//
// NAME.json lies beside every NAME.onnx: `shape` and `images` (uint8), and under `outputs` the values expected of each
// output. Models run on all images at once and on one image at a time.
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";

const TOLERANCE = 1e-4;
const require = createRequire(new URL("../browser/", import.meta.url));
const ort = require("onnxruntime-web");
ort.env.wasm.numThreads = 1;

function compare(found, expected, what) {
  const names = [Object.keys(found), Object.keys(expected)].map((list) => list.sort().join(" "));
  if (names[0] !== names[1]) throw new Error(`${what}: outputs ${names[0]}, expected ${names[1]}`);
  for (const [name, values] of Object.entries(expected)) {
    const data = found[name].data;
    if (data.length !== values.length) throw new Error(`${what}: ${name} has ${data.length} values, expected ${values.length}`);
    values.forEach((value, i) => {
      const near = Math.abs(Number(data[i]) - value) <= TOLERANCE * Math.max(1, Math.abs(value));
      if (!near) throw new Error(`${what}: ${name}[${i}] is ${data[i]}, expected ${value}`);
    });
  }
}

async function check(folder, name) {
  const { shape, images, outputs } = JSON.parse(readFileSync(`${folder}/${name}.json`));
  const session = await ort.InferenceSession.create(readFileSync(`${folder}/${name}.onnx`));
  const [count, ...one] = shape, pixels = one.reduce((a, b) => a * b);
  const run = (first, n) => session.run({
    images: new ort.Tensor("uint8", Uint8Array.from(images.slice(first * pixels, (first + n) * pixels)), [n, ...one]) });
  compare(await run(0, count), outputs, `${count} images`);
  for (let i = 0; i < count; ++i) {
    const part = Object.entries(outputs).map(([key, values]) => {
      const width = values.length / count;
      return [key, values.slice(i * width, (i + 1) * width)];
    });
    compare(await run(i, 1), Object.fromEntries(part), `image ${i}`);
  }
  await session.release();
}

const folder = process.argv[2];
const names = readdirSync(folder).filter((file) => file.endsWith(".onnx")).map((file) => file.slice(0, -5));
let failures = names.length === 0 ? 1 : 0;
for (const name of names) {
  await check(folder, name).catch((error) => {
    console.error(`${name}: ${error.message ?? error}`);
    ++failures;
  });
}
console.log(`${names.length} models compared, ${failures} differ`);
process.exit(failures === 0 ? 0 : 1);
