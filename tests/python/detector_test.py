"""poem.Detector on a detector that the program trains here, against the file of scores that poem eval writes."""

import csv
import os
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import numpy as np
import poem

SIZE = 16
CONFIG = f"""
data: {{train: "world:train:64", outliers: "world:outliers:64", size: {SIZE}, validation: 0.25}}
network: {{name: wideresnet, depth: 10, width: 1}}
mining: {{pool: 64}}
threshold: {{tpr: 0.5}}
train: {{epochs: 1, batch: 16, outlier_batch: 16, learning_rate: 0.01}}
"""
rng = np.random.default_rng(4)
IMAGES = rng.integers(0, 256, (700, SIZE, SIZE, 3), np.uint8) // rng.integers(1, 9, (700, 1, 1, 3), np.uint8)


def run(*arguments, folder):
    subprocess.run(
        [os.environ["POEM_PROGRAM"], "--quiet", *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )


def write_bmp(path, image):
    """24 bits per pixel, rows from the bottom up, blue first; a row of 16 pixels needs no padding."""
    pixels = image[::-1, :, ::-1].tobytes()
    header = struct.pack("<IiiHHIIiiII", 40, SIZE, SIZE, 1, 24, 0, len(pixels), 0, 0, 0, 0)
    path.write_bytes(b"BM" + struct.pack("<III", 54 + len(pixels), 0, 54) + header + pixels)


class Detector(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        (cls.folder / "tiny.yaml").write_text(CONFIG)
        run("train", "tiny.yaml", "--out", "run", folder=cls.folder)
        cls.detector = poem.Detector.load(cls.folder / "run" / "detector.safetensors")
        cls.predictions = cls.detector.predict(IMAGES)

    def test_says_what_it_is(self):
        self.assertEqual(self.detector.class_names, "car boat house tree fish mug key mushroom".split())
        self.assertEqual((self.detector.size, self.detector.score), (SIZE, "energy"))
        self.assertIn("8 classes", repr(self.detector))

    def test_predicts_what_poem_eval_scores(self):
        np.save(self.folder / "images.npy", IMAGES)
        run("eval", "run", "--id=images.npy", "--ood=same=images.npy", "--out=results", folder=self.folder)
        with open(self.folder / "results" / "scores.csv") as file:
            rows = [row for row in csv.DictReader(file) if row["set"] == "id"]
        p = self.predictions
        np.testing.assert_allclose(p["score"], [float(row["energy"]) for row in rows], rtol=1e-6)
        self.assertEqual([self.detector.class_names[c] for c in p["class"]], [row["predicted"] for row in rows])
        np.testing.assert_array_equal(p["known"], [row["verdict"] == "known" for row in rows])

    def test_predicts_what_poem_predict_says(self):
        np.save(self.folder / "images.npy", IMAGES)
        run("calibrate", "run", "--id=images.npy", "--tpr=0.5", "--unsure=0.9", "--out=unsure.safetensors", folder=self.folder)
        run("predict", "unsure.safetensors", "images.npy", "--format=csv", "--out=predicted.csv", folder=self.folder)
        with open(self.folder / "predicted.csv") as file:
            rows = list(csv.DictReader(file))
        p = poem.Detector.load(self.folder / "unsure.safetensors").predict(IMAGES)
        for field in ("score", "probability", "p_value", "threshold"):
            np.testing.assert_allclose(p[field], [float(row[field]) for row in rows], rtol=1e-4, atol=1e-6)
        self.assertTrue(0 < p["unsure"].mean() < 1)
        np.testing.assert_array_equal(p["unsure"], [row["verdict"] == "unsure" for row in rows])

    def test_fields_fit_together(self):
        p = self.predictions
        self.assertEqual(p.dtype.names, ("class", "known", "unsure", "probability", "score", "threshold", "p_value"))
        self.assertFalse(p["unsure"].any())  # the detector has one threshold only
        self.assertEqual(p.shape, (len(IMAGES),))
        np.testing.assert_array_equal(p["known"], p["score"].astype(float) >= self.detector.threshold)
        np.testing.assert_array_equal(p["threshold"], self.detector.threshold)
        self.assertTrue(((p["probability"] >= 1 / 8) & (p["probability"] <= 1)).all())
        self.assertTrue(0 < p["known"].mean() < 1)  # the test compares something

    def test_channels_first_orders_and_strides_change_nothing(self):
        images, expected = IMAGES[:40], self.predictions[:40]
        for same in [
            images.transpose(0, 3, 1, 2),
            np.ascontiguousarray(images.transpose(0, 3, 1, 2)),
            np.asfortranarray(images),
            np.repeat(images, 2, axis=0)[::2],
            list(images),
        ]:
            found = self.detector.predict(same)
            np.testing.assert_array_equal(found["class"], expected["class"])
            np.testing.assert_allclose(found["score"], expected["score"], rtol=1e-4, atol=1e-5)

    def test_reads_files(self):
        paths = [self.folder / f"{i}.bmp" for i in range(5)]
        for path, image in zip(paths, IMAGES):
            write_bmp(path, image)
        for given in [paths, [str(path) for path in paths], tuple(paths)]:
            np.testing.assert_allclose(
                self.detector.predict(given)["score"], self.predictions["score"][:5], rtol=1e-4, atol=1e-5
            )
        self.assertEqual(self.detector.predict(paths[2])["class"], self.predictions["class"][2])
        self.assertEqual(len(self.detector.predict([])), 0)
        self.assertEqual(len(self.detector.predict(IMAGES[:0])), 0)

    def test_files_keep_their_order_and_the_first_bad_one_is_named(self):
        paths = [self.folder / f"many{i}.bmp" for i in range(len(IMAGES))]
        for path, image in zip(paths, IMAGES):
            write_bmp(path, image)
        order = np.random.default_rng(3).permutation(len(IMAGES))
        np.testing.assert_allclose(
            self.detector.predict([paths[i] for i in order])["score"], self.predictions["score"][order], rtol=1e-4, atol=1e-5
        )
        paths[650].write_bytes(b"BM123")
        paths[600].write_bytes(b"BM123")
        with self.assertRaises(poem.Error) as raised:
            self.detector.predict(paths)
        self.assertEqual(raised.exception.where, str(paths[600]))
        self.assertIn("image files", raised.exception.remedy)

    def test_resizes_other_sizes(self):
        large = IMAGES[:5].repeat(2, axis=1).repeat(2, axis=2)
        np.testing.assert_allclose(
            self.detector.predict(large)["score"], self.predictions["score"][:5], rtol=1e-3, atol=1e-3
        )

    def test_several_threads_may_share_one(self):
        found = []
        work = lambda: found.append(self.detector.predict(IMAGES[:40])["score"])
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 4)
        for scores in found:
            np.testing.assert_allclose(scores, self.predictions["score"][:40], rtol=1e-4, atol=1e-5)

    def test_predicts_in_a_forked_process(self):
        paths = [self.folder / f"forked{i}.bmp" for i in range(40)]
        for path, image in zip(paths, IMAGES):
            write_bmp(path, image)
        work = """
import multiprocessing
import numpy as np, poem
detector = poem.Detector.load("run")
images, paths = np.load("forked.npy"), [f"forked{i}.bmp" for i in range(40)]

def work(given):
    return detector.predict(given)["score"]

expected = work(images)
with multiprocessing.get_context("fork").Pool(1) as pool:
    for given in (images, paths):
        np.testing.assert_allclose(pool.map_async(work, [given]).get(timeout=60)[0], expected, rtol=1e-4, atol=1e-5)
"""
        np.save(self.folder / "forked.npy", IMAGES[:40])
        environment = {**os.environ, "OMP_NUM_THREADS": "2"}
        subprocess.run([sys.executable, "-c", work], cwd=self.folder, env=environment, check=True)

    def test_refuses_what_are_not_images(self):
        broken, text = self.folder / "broken.bmp", self.folder / "text.txt"
        broken.write_bytes(b"BM123")
        text.write_text("no image")
        for bad, words in [
            (IMAGES.astype(np.float32), "images: has shape 700×16×16×3 of float32 .*uint8"),
            (IMAGES.astype(np.int64), "of int64"),
            (IMAGES[0], "images: has shape 16×16×3 .*images × height × width × 3"),
            (IMAGES[..., :1], "images: has shape 700×16×16×1"),
            (IMAGES[:2, :0], "images: has shape 2×0×16×3"),
            (IMAGES[:, :3], "images: has shape 700×3×16×3"),
            (None, "images: has shape .* of object .*uint8.*, or paths of images: a str or os.PathLike"),
            (iter(["a.png"]), "images: has shape .* or paths"),
            (np.array(["a.png"]), "images: has shape 1 of <U5 .* or paths"),
            (["a.png", 3], "images: has shape 2 of .* or paths"),
            ([IMAGES[0], IMAGES[0, :8, :8]], "images: is a list whose parts differ in shape .*of one size"),
            ([IMAGES[0], "a.png"], "images: is a list whose parts differ in shape .*or paths"),
            (self.folder / "nowhere.png", "nowhere.png"),
            ([broken], "broken.bmp"),
            ([text], "text.txt"),
            (["world:test:3"], "world:test:3: .*give the paths of image files"),
            ([self.folder], "give the paths of image files"),
        ]:
            with self.assertRaisesRegex(poem.Error, words):
                self.detector.predict(bad)
        for bad in ["a\0.png", ["a.png", Path("b\0.png")]]:
            with self.assertRaisesRegex(ValueError, "^embedded null byte$"):
                self.detector.predict(bad)

    def test_is_loaded_from_its_run_too(self):
        scores = poem.Detector.load(self.folder / "run").predict(IMAGES[:40])["score"]
        np.testing.assert_allclose(scores, self.predictions["score"][:40], rtol=1e-4, atol=1e-5)

    def test_refuses_what_is_no_detector(self):
        weights = self.folder / "weights.pth"
        weights.write_bytes(b"\x80\x02" * 8)
        for path, words in [
            (self.folder / "nowhere", "cannot open"),
            (self.folder / "tiny.yaml", "is a config, not a detector .name the folder of a training"),
            (weights, "is a file of PyTorch, not a detector"),
            (self.folder, "is a folder of runs, not a detector"),
        ]:
            with self.assertRaisesRegex(poem.Error, words) as raised:
                poem.Detector.load(path)
            self.assertEqual(raised.exception.where, str(path))
        for bad in ["run\0", b"run\0", Path("run\0")]:
            with self.assertRaisesRegex(ValueError, "^embedded null byte$"):
                poem.Detector.load(bad)
        with self.assertRaisesRegex(poem.Error, "n\udce4me"):  # a name that is not UTF-8
            poem.Detector.load(os.fsdecode(b"n\xe4me"))

    def test_without_a_threshold_it_does_not_predict(self):
        run("train", "tiny.yaml", "--out=open", "--set", "data.validation=0", folder=self.folder)
        detector = poem.Detector.load(str(self.folder / "open" / "detector.safetensors"))
        self.assertIsNone(detector.threshold)
        with self.assertRaisesRegex(poem.Error, "has no threshold"):
            detector.predict(IMAGES)


if __name__ == "__main__":
    unittest.main()
