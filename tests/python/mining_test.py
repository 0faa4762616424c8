"""poem.Posterior and poem.mine against NumPy's linear algebra and against the program."""

import os
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

import numpy as np
import poem

rng = np.random.default_rng(2)
FEATURES = rng.normal(size=(300, 5))
TARGETS = rng.normal(size=300)
PIXELS = np.zeros((1, 10**6), np.float32)  # as many features as no covariance matrix can have
ID, OUTLIERS, POOL = (rng.normal(centre, 1, (400, 6)).astype(np.float32) for centre in [-1, 1, 0])


class Posterior(unittest.TestCase):
    def test_mean_and_covariance_are_those_of_bayesian_regression(self):
        posterior = poem.Posterior(FEATURES, TARGETS, prior_variance=3, noise_variance=0.2, scale=4)
        precision = FEATURES.T @ FEATURES / 0.2 + np.eye(5) / 3
        np.testing.assert_allclose(posterior.mean, np.linalg.solve(precision, FEATURES.T @ TARGETS / 0.2), rtol=1e-10)
        np.testing.assert_allclose(posterior.covariance, 4 * np.linalg.inv(precision), rtol=1e-10, atol=1e-16)

    def test_draws_have_this_mean_and_covariance(self):
        posterior = poem.Posterior(FEATURES[:20], TARGETS[:20])
        draws = posterior.draw(7, 20000)
        self.assertEqual(draws.shape, (20000, 5))
        deviations = np.sqrt(np.diag(posterior.covariance))
        np.testing.assert_allclose(draws.mean(0), posterior.mean, atol=4 * deviations.max() / np.sqrt(20000))
        np.testing.assert_allclose(np.cov(draws.T), posterior.covariance, atol=0.05 * deviations.max() ** 2)

    def test_draws_depend_on_the_seed_alone(self):
        posterior = poem.Posterior(FEATURES, TARGETS)
        np.testing.assert_array_equal(posterior.draw(3), posterior.draw(3, 10)[0])
        self.assertFalse(np.array_equal(posterior.draw(3), posterior.draw(4)))

    def test_a_changed_copy_of_the_mean_does_not_change_the_posterior(self):
        posterior = poem.Posterior(FEATURES, TARGETS)
        mean = posterior.mean.copy()
        posterior.mean[:] = 0
        np.testing.assert_array_equal(posterior.mean, mean)

    def test_refuses_what_does_not_fit(self):
        bad = FEATURES.copy()
        bad[4, 2] = np.inf
        for arguments, words in [
            ((FEATURES, TARGETS[:-1]), "targets: has 299 numbers for 300 rows"),
            ((bad, TARGETS), "feature 2 of row 4 is inf"),
            ((FEATURES, np.where(TARGETS > 2, np.nan, TARGETS)), "target of row"),
            ((FEATURES.astype(int), TARGETS), "features: has shape 300×5 of int64 .*float32"),
            ((FEATURES[0], TARGETS), "features: has shape 5 of float64 .*rows"),
            ((FEATURES[:0], TARGETS[:0]), "features: has shape 0×5 .*at least one row"),
            ((FEATURES[:, :0], TARGETS), "features: has shape 300×0 .*at least one feature"),
            (([[1.0], [1.0, 2.0]], [0, 0]), "features: is a list whose parts differ in shape .*rows × features"),
            ((FEATURES, [[0], [1, 2]]), "targets: is a list whose parts differ in shape .*one number per row"),
            ((PIXELS, [0]), "^features: needs .* of memory.*features of the last layer, not pixels"),
        ]:
            with self.assertRaisesRegex(poem.Error, words):
                poem.Posterior(*arguments)
        for name in ["prior_variance", "noise_variance", "scale"]:
            with self.assertRaisesRegex(poem.Error, f"^{name}: 0 is not above 0"):
                poem.Posterior(FEATURES, TARGETS, **{name: 0})
        with self.assertRaisesRegex(poem.Error, "seed: is -1"):
            poem.Posterior(FEATURES, TARGETS).draw(-1)
        with self.assertRaisesRegex(poem.Error, "count: is 0"):
            poem.Posterior(FEATURES, TARGETS).draw(1, 0)
        for count in (10**12, 2**62):
            with self.assertRaisesRegex(poem.Error, "count: needs .* of memory"):
                poem.Posterior(FEATURES, TARGETS).draw(1, count)

    def test_remedies_are_for_python(self):
        with self.assertRaises(poem.Error) as raised:
            poem.Posterior(np.repeat(FEATURES, 2, axis=1) * 1e9, TARGETS, prior_variance=1e9)
        self.assertIn("lower prior_variance", raised.exception.remedy)
        bad = FEATURES * np.nan
        with self.assertRaises(poem.Error) as infinite:
            poem.Posterior(bad, TARGETS)
        for error in (raised.exception, infinite.exception):
            self.assertNotRegex(error.remedy, "option|config|train")


class Mine(unittest.TestCase):
    def test_chooses_the_rows_nearest_the_boundary_of_the_draw(self):
        mined = poem.mine(ID, OUTLIERS, POOL, 50, seed=3)
        np.testing.assert_array_equal(mined.weights, mined.posterior.draw(3))
        logits = POOL.astype(np.float64) @ mined.weights
        np.testing.assert_allclose(mined.logits, logits, rtol=1e-5, atol=1e-6)
        expected = np.argsort(np.abs(mined.logits), kind="stable")[:50]
        np.testing.assert_array_equal(mined.chosen, expected)
        self.assertEqual((mined.chosen.dtype, mined.logits.dtype), (np.int64, np.float32))

    def test_the_posterior_is_that_of_targets_on_both_sides(self):
        target, noise = 2.0, 1e-9  # next to no noise on the targets
        mined = poem.mine(ID, OUTLIERS, POOL, 1, noise_variance=noise, target=target)
        x = np.concatenate([ID, OUTLIERS]).astype(np.float64)
        y = np.repeat([-target, target], 400)
        np.testing.assert_allclose(mined.posterior.mean, np.linalg.lstsq(x, y, rcond=None)[0], atol=1e-4)

    def test_is_what_the_program_chooses(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, array in [("id", ID), ("outliers", OUTLIERS), ("pool", POOL)]:
                np.save(Path(folder) / f"{name}.npy", array)
            options = ["--select=40", "--seed=9", "--out=chosen.npy", "--prior-variance=2", "--noise=single"]
            subprocess.run(
                [os.environ["POEM_PROGRAM"], "mine", "--id=id.npy", "--outliers=outliers.npy", "--pool=pool.npy"]
                + options,
                cwd=folder,
                check=True,
                capture_output=True,
            )
            expected = np.load(Path(folder) / "chosen.npy")
        mined = poem.mine(ID, OUTLIERS, POOL, 40, 9, prior_variance=2, target_noise="single")
        np.testing.assert_array_equal(mined.chosen, expected)

    def test_order_strides_and_types_change_nothing(self):
        expected = poem.mine(ID, OUTLIERS, POOL, 50).chosen
        for change in [
            np.asfortranarray,
            lambda a: np.repeat(a, 2, axis=0)[::2],
            lambda a: np.concatenate([a, a], axis=1)[:, : a.shape[1]],
            lambda a: a[::-1][::-1],
            lambda a: a.astype(np.float64),
            lambda a: a.astype(">f4"),
        ]:
            np.testing.assert_array_equal(poem.mine(change(ID), change(OUTLIERS), change(POOL), 50).chosen, expected)
        frozen = POOL.copy()
        frozen.flags.writeable = False
        np.testing.assert_array_equal(poem.mine(ID, OUTLIERS, frozen, 50).chosen, expected)

    def test_float16_is_taken_as_it_is(self):
        half = POOL.astype(np.float16)
        expected = poem.mine(ID, OUTLIERS, half.astype(np.float32), 50).chosen
        np.testing.assert_array_equal(poem.mine(ID, OUTLIERS, half, 50).chosen, expected)

    def test_refuses_what_is_not_finite_and_names_it(self):
        for which, name in enumerate(["id", "outliers", "pool"]):
            arrays = [ID.copy(), OUTLIERS.copy(), POOL.copy()]
            for value in [np.nan, np.inf]:
                arrays[which][17, 3] = value
                with self.assertRaisesRegex(poem.Error, f"^{name}: .*feature 3 of row 17 is {value}"):
                    poem.mine(*arrays, 5)
        with self.assertRaisesRegex(poem.Error, "pool: .*exceed float32"):
            poem.mine(ID, OUTLIERS, POOL.astype(np.float64) * 1e300, 5)

    def test_refuses_what_does_not_fit(self):
        for arguments, words in [
            ((ID, OUTLIERS, POOL, 401), "n: is 401, but the pool has 400 rows"),
            ((ID, OUTLIERS, POOL, -1), "n: is -1"),
            ((ID, OUTLIERS[:, :5], POOL, 5), "outliers: has 5 features, but id has 6"),
            ((ID, OUTLIERS, POOL[:, :5], 5), "pool: has 5 features"),
            ((ID, OUTLIERS, POOL[0], 5), "pool: has shape 6 of float32"),
            ((ID.astype(np.longdouble), OUTLIERS, POOL, 5), "id: has shape 400×6 of float128"),
            ((ID, OUTLIERS, POOL, 5, -3), "seed: is -3"),
        ]:
            with self.assertRaisesRegex(poem.Error, words):
                poem.mine(*arguments)
        with self.assertRaisesRegex(poem.Error, "target_noise: is 'none'"):
            poem.mine(ID, OUTLIERS, POOL, 5, target_noise="none")
        with self.assertRaisesRegex(poem.Error, "^id: needs .* of memory.*features of the last layer, not pixels"):
            poem.mine(PIXELS, PIXELS, PIXELS, 1)
        for name, value in [("prior_variance", 0), ("noise_variance", 0), ("scale", 0), ("target", np.inf)]:
            with self.assertRaisesRegex(poem.Error, f"^{name}: {value} is not"):
                poem.mine(ID, OUTLIERS, POOL, 5, **{name: value})

    def test_other_threads_run_meanwhile(self):
        wide = rng.standard_normal((20000, 300), dtype=np.float32)
        shifted = wide + 1
        span = []

        def work():
            span.append(time.perf_counter())
            poem.mine(wide, shifted, wide, 10)
            span.append(time.perf_counter())

        thread = threading.Thread(target=work)
        thread.start()
        ticks = []
        while thread.is_alive():
            ticks.append(time.perf_counter())
            time.sleep(0.001)
        self.assertGreater(sum(span[0] < tick < span[1] for tick in ticks), 10)


if __name__ == "__main__":
    unittest.main()
