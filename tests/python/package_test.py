"""The package as a whole: errors, types, PyTorch in the same process, the examples."""

import os
import pickle
import site
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import poem

SOURCES = Path(__file__).resolve().parents[2]


def python(*arguments, cwd=None, env={}):
    """What Python prints, given these arguments and more of the environment; a failure shows all of it."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, **env},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: exit code {done.returncode}: {done.stdout}")
    return done.stdout


class Errors(unittest.TestCase):
    def test_have_parts(self):
        with self.assertRaises(ValueError) as raised:
            poem.metrics.fpr95([], [1.0])
        error = raised.exception
        self.assertIsInstance(error, poem.Error)
        self.assertEqual(str(error), f"{error.where}: {error.problem} ({error.remedy})")
        self.assertEqual(error.problem, "there are no scores")
        self.assertEqual(str(poem.Error("a", "b")), "a: b")

    def test_travel_between_processes(self):
        error = pickle.loads(pickle.dumps(poem.Error("pool", "is empty", "give rows")))
        self.assertEqual((error.where, error.problem, error.remedy), ("pool", "is empty", "give rows"))

    def test_memory_that_runs_out_is_a_memory_error_of_one_line(self):
        work = """
import resource
import numpy as np, poem
def pages():
    return int(open("/proc/self/statm").read().split()[0])
features, labels = np.random.default_rng(6).random((10**6, 16)), np.zeros(10**6, int)
poem.Score("knn").fit(features[:100], labels[:100])
room = 32 << 20  # the features in float32 take twice as much
resource.setrlimit(resource.RLIMIT_AS, (pages() * resource.getpagesize() + room, resource.RLIM_INFINITY))
try:
    poem.Score("knn").fit(features, labels)
except MemoryError as error:
    assert str(error).startswith("not enough memory") and len(str(error).splitlines()) == 1, error
else:
    raise AssertionError("there was enough")
"""
        python("-c", work, env={"OMP_NUM_THREADS": "1"})


class Processes(unittest.TestCase):
    def test_a_forked_process_computes_what_its_parent_does(self):
        work = """
import multiprocessing
import numpy as np, poem

features = np.random.default_rng(7).normal(size=(20000, 64)).astype(np.float32)
scores = features.ravel().astype(float)

def knn(): return poem.Score("knn").fit(features, np.arange(20000) % 5).score(features[:3000])
def mine(): return poem.mine(features, features + 1, features, 100).chosen
def fpr95(): return poem.metrics.fpr95(scores, scores - 1)

expected = [f() for f in (knn, mine, fpr95)]

def work(_):
    return all(np.allclose(f(), e, rtol=1e-4) for f, e in zip((knn, mine, fpr95), expected))

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(work, range(4)).get(timeout=60) == [True] * 4
"""
        python("-c", work, env={"OMP_NUM_THREADS": "2"})


class Package(unittest.TestCase):
    def test_version_is_that_of_the_program(self):
        printed = subprocess.run([os.environ["POEM_PROGRAM"], "--version"], check=True, capture_output=True, text=True)
        self.assertIn(poem.__version__, printed.stdout)

    def test_everything_is_described(self):
        for name, part in [(n, getattr(m, n)) for m in (poem, poem.metrics) for n in m.__all__]:
            self.assertTrue(part.__doc__, name)
            for member in vars(part) if isinstance(part, type) else []:
                if not member.startswith("_"):
                    self.assertTrue(getattr(part, member).__doc__, f"{name}.{member}")

    def test_stubs_name_what_there_is_and_the_example_keeps_to_them(self):
        with tempfile.TemporaryDirectory() as folder:
            # Of a class of pybind11, only what is in it can be compared.
            (Path(folder) / "allowed").write_text(r"poem\.(_core\.|metrics\.)?[A-Z][A-Za-z]*(\.__init__)?")
            python("-m", "mypy.stubtest", "--allowlist=allowed", "--ignore-unused-allowlist", "poem", cwd=folder)
            example = str(SOURCES / "examples/python/evaluate_features.py")
            python("-m", "mypy", "--cache-dir", folder, "--strict", example)

    def test_stubs_take_what_runs_and_refuse_what_does_not(self):
        code = """
import numpy as np
import poem
from numpy.typing import NDArray
from pathlib import Path

def use(detector: poem.Detector, image: NDArray[np.uint8]) -> None:
    poem.Detector.load("a")
    poem.Detector.load(b"a")
    poem.Detector.load(Path("a"))
    detector.predict(image)
    detector.predict([image, image])
    detector.predict("a.png")
    detector.predict(["a.png", Path("b.png")])
    detector.predict([image, "a.png"])  # type: ignore[list-item]
    detector.predict(None)  # type: ignore[call-overload]
    detector.predict(["a.png", 3])  # type: ignore[list-item]
    poem.Mined()  # type: ignore[call-arg]
    poem.Detector()  # type: ignore[call-arg]
    poem.metrics.OodMetrics()  # type: ignore[call-arg]
"""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "use.py").write_text(code)
            python("-m", "mypy", "--cache-dir", folder, "--strict", "use.py", cwd=folder)

    def test_shares_a_process_with_pytorch(self):
        work = """
z = torch.randn(50, 6)
rows = poem.mine(z, z + 1, z, 5).chosen
assert z[rows].shape == (5, 6)
try:
    poem.mine(z, z + 1, z, 99)
except poem.Error as error:
    assert error.where == "n"
try:
    torch.zeros(2) + torch.zeros(3)
except RuntimeError as error:
    assert "size of tensor" in str(error), error
try:
    poem.mine(z, z + 1, z.clone().requires_grad_(), 5)
except RuntimeError as error:
    assert "detach" in str(error)
"""
        python("-c", "import torch, poem" + work)
        python("-c", "import poem, torch" + work)

    def test_pytorch_is_not_needed(self):
        python("-c", "import sys, poem; assert 'torch' not in sys.modules")

    def test_is_installed_where_python_looks(self):
        build = Path(os.environ["POEM_PROGRAM"]).parent
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                ["cmake", "--install", build, "--component", "python"],
                check=True,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "DESTDIR": folder},
            )
            found = list(Path(folder).rglob("poem/__init__.py"))
            self.assertEqual(len(found), 1)
            installed = found[0].parents[1]
            self.assertIn(f"/{installed.relative_to(folder)}", [*sys.path, site.getusersitepackages()])
            self.assertEqual(
                sorted(path.name for path in (installed / "poem").iterdir()),
                sorted(path.name for path in Path(poem.__file__).parent.iterdir() if path.name != "__pycache__"),
            )
            python("-c", f"import sys; sys.path.insert(0, {str(installed)!r}); import poem; print(poem.__file__)")


class Examples(unittest.TestCase):
    def test_mining_loop_learns(self):
        lines = python(str(SOURCES / "examples/python/mining_loop.py"), "4").splitlines()
        self.assertEqual(len(lines), 4)
        fpr95 = [float(line.split()[-1].rstrip("%")) for line in lines]
        self.assertLess(fpr95[-1], fpr95[0])

    def test_features_are_evaluated(self):
        rng = np.random.default_rng(5)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "ood").mkdir()
            labels = np.arange(200) % 3
            centres = 4 * np.eye(3, 8)
            arrays = {
                "train": centres[labels] + rng.random((200, 8)),
                "labels": labels,
                "weight": centres / 4,
                "bias": np.zeros(3),
                "id": centres[labels] + rng.random((200, 8)),
                "ood/near": rng.random((50, 8)) + 1,
                "ood/far": rng.random((50, 8)),
            }
            for path, array in arrays.items():
                np.save(folder / f"{path}.npy", array)
            lines = python(str(SOURCES / "examples/python/evaluate_features.py"), name).splitlines()
        self.assertEqual(len(lines), 1 + 14 * 2)
        knn = next(line.split() for line in lines if line.startswith("knn") and "near" in line)
        self.assertEqual(knn[2:], ["0.00%", "100.00%", "100.00%", "100.00%"])  # they lie apart


if __name__ == "__main__":
    unittest.main()
