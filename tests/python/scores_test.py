"""Every post-hoc score against its formula (docs/scores.md) in NumPy, SciPy or scikit-learn."""

import threading
import unittest

import numpy as np
import poem
from scipy.special import logsumexp, softmax
from sklearn.neighbors import NearestNeighbors

CLASSES, WIDTH = 4, 12
rng = np.random.default_rng(3)
LABELS = rng.integers(0, CLASSES, 400)
TRAIN = np.abs(rng.normal(np.eye(CLASSES, WIDTH)[LABELS] * 3, 1))  # as after a ReLU
TEST = np.abs(rng.normal(1, 1, (90, WIDTH)))
WEIGHT, BIAS = rng.normal(size=(CLASSES, WIDTH)), rng.normal(size=CLASSES)


def logits(features):
    return features @ WEIGHT.T + BIAS


def energy(features, weight=WEIGHT):
    return logsumexp(features @ weight.T + BIAS, axis=1)


def unit(features):
    return features / np.linalg.norm(features, axis=1, keepdims=True)


def distances(train, labels, test):
    """Squared Mahalanobis distances to the class means, one covariance for all."""
    means = np.stack([train[labels == c].mean(0) for c in np.unique(labels)])
    centred = np.concatenate([train[labels == c] - means[i] for i, c in enumerate(np.unique(labels))])
    precision = np.linalg.pinv(centred.T @ centred / len(train))
    difference = test[:, None] - means
    return np.einsum("nci,ij,ncj->nc", difference, precision, difference)


def gen(features):
    p = softmax(logits(features), axis=1)
    return -(p**0.1 * (1 - p) ** 0.1).sum(1)


def knn(features):
    nearest = NearestNeighbors(n_neighbors=50, algorithm="brute").fit(unit(TRAIN))
    return -nearest.kneighbors(unit(features))[0][:, -1]


def rmds(features):
    to_all = distances(TRAIN, np.zeros(len(TRAIN)), features)[:, 0]
    return to_all - distances(TRAIN, LABELS, features).min(1)


def dice(features):
    contribution = WEIGHT * TRAIN.mean(0)
    return energy(features, WEIGHT * (contribution > np.percentile(contribution, 90)))


def scaled(features, percent, prune):
    kept = np.where(features >= np.percentile(features, percent, axis=1, keepdims=True), features, 0)
    scale = np.exp(features.sum(1, keepdims=True) / kept.sum(1, keepdims=True))
    return energy((kept if prune else features) * scale)


def vim(features):
    origin = -np.linalg.pinv(WEIGHT) @ BIAS
    outside = np.linalg.eigh((TRAIN - origin).T @ (TRAIN - origin) / len(TRAIN))[1][:, : WIDTH - WIDTH // 2]
    residual = lambda x: np.linalg.norm((x - origin) @ outside, axis=1)
    alpha = logits(TRAIN).max(1).sum() / residual(TRAIN).sum()
    return energy(features) - alpha * residual(features)


def fdbd(features):
    scores = []
    for h, z in zip(features, logits(features)):
        best = z.argmax()
        others = [c for c in range(CLASSES) if c != best]
        gaps = [(z[best] - z[c]) / np.linalg.norm(WEIGHT[best] - WEIGHT[c]) for c in others]
        scores.append(np.mean(gaps) / np.linalg.norm(h - TRAIN.mean(0)))
    return scores


FORMULAS = {
    "msp": lambda x: softmax(logits(x), axis=1).max(1),
    "maxlogit": lambda x: logits(x).max(1),
    "energy": energy,
    "gen": gen,
    "mds": lambda x: -distances(TRAIN, LABELS, x).min(1) / 2,
    "rmds": rmds,
    "ssd": lambda x: -distances(unit(TRAIN), LABELS, unit(x)).min(1) / 2,
    "knn": knn,
    "react": lambda x: energy(np.minimum(x, np.percentile(TRAIN, 90))),
    "dice": dice,
    "ash": lambda x: scaled(x, 90, True),
    "scale": lambda x: scaled(x, 85, False),
    "vim": vim,
    "fdbd": fdbd,
}


class Scores(unittest.TestCase):
    def test_follow_their_formulas(self):
        self.assertEqual(sorted(FORMULAS), sorted(poem.score_names()))
        for name, formula in FORMULAS.items():
            with self.subTest(name):
                score = poem.Score(name).fit(TRAIN, LABELS, WEIGHT, BIAS)
                found = score.score(TEST)
                self.assertEqual(found.dtype, np.float32)
                np.testing.assert_allclose(found, formula(TEST), rtol=2e-4, atol=2e-5)

    def test_of_logits_need_neither_features_nor_a_fit(self):
        for name in ["msp", "maxlogit", "energy", "gen"]:
            found = poem.Score(name).score(logits=logits(TEST))
            np.testing.assert_allclose(found, FORMULAS[name](TEST), rtol=2e-4, atol=2e-5)

    def test_of_features_need_no_last_layer(self):
        for name in ["mds", "rmds", "ssd", "knn"]:
            found = poem.Score(name).fit(TRAIN, LABELS).score(TEST)
            np.testing.assert_allclose(found, FORMULAS[name](TEST), rtol=2e-4, atol=2e-5)

    def test_given_logits_replace_computed_ones(self):
        score = poem.Score("vim").fit(TRAIN, LABELS, WEIGHT, BIAS)
        np.testing.assert_allclose(score.score(TEST, logits(TEST) + 5), score.score(TEST) + 5, rtol=1e-5)

    def test_class_numbers_may_have_gaps(self):
        expected = poem.Score("mds").fit(TRAIN, LABELS).score(TEST)
        np.testing.assert_array_equal(poem.Score("mds").fit(TRAIN, LABELS * 10**12).score(TEST), expected)

    def test_order_and_strides_change_nothing(self):
        score = poem.Score("fdbd").fit(TRAIN, LABELS, WEIGHT, BIAS)
        expected = score.score(TEST)
        np.testing.assert_array_equal(score.score(np.asfortranarray(TEST)), expected)
        np.testing.assert_array_equal(score.score(np.repeat(TEST, 2, axis=0)[::2]), expected)
        score.fit(np.asfortranarray(TRAIN), np.repeat(LABELS, 2)[::2], np.asfortranarray(WEIGHT), BIAS)
        np.testing.assert_array_equal(score.score(TEST), expected)

    def test_arrays_that_change_later_do_not_change_a_fit(self):
        for name in poem.score_names():
            arrays = [TRAIN.astype(np.float32), LABELS.copy(), WEIGHT.astype(np.float32), BIAS.astype(np.float32)]
            score = poem.Score(name).fit(*arrays)
            expected = score.score(TEST)
            for array in arrays:
                array[:] = 0
            np.testing.assert_array_equal(score.score(TEST), expected)

    def test_several_threads_may_share_one(self):
        score = poem.Score("knn").fit(TRAIN, LABELS)
        expected = score.score(TEST)
        found = []
        threads = [threading.Thread(target=lambda: found.append(score.score(TEST))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 8)
        for scores in found:
            np.testing.assert_array_equal(scores, expected)


class BadInput(unittest.TestCase):
    def expect(self, words, call, *arguments, **named):
        with self.assertRaisesRegex(poem.Error, words):
            call(*arguments, **named)

    def test_names(self):
        self.expect("score: is 'knm' .*knn", poem.Score, "knm")
        self.expect("'odin'.*needs the network's gradients", poem.Score, "odin")
        self.expect("'reject'.*outputs beyond the classes", poem.Score, "reject")

    def test_what_a_score_needs_and_does_not_get(self):
        self.expect("score 'knn': is not fitted", poem.Score("knn").score, TEST)
        self.expect("score 'knn': needs features", poem.Score("knn").fit)
        self.expect("score 'knn': needs labels", poem.Score("knn").fit, TRAIN)
        self.expect("score 'react': needs weight", poem.Score("react").fit, TRAIN, LABELS)
        self.expect("score 'react': needs bias", poem.Score("react").fit, TRAIN, LABELS, WEIGHT)
        self.expect("score 'msp': needs weight", poem.Score("msp").fit, bias=BIAS)
        self.expect("score 'energy': needs logits", poem.Score("energy").score)
        self.expect("score 'energy': needs logits", poem.Score("energy").score, TEST)
        fitted = poem.Score("vim").fit(TRAIN, LABELS, WEIGHT, BIAS)
        self.expect("score 'vim': needs features", fitted.score, logits=logits(TEST))

    def test_shapes_and_types(self):
        fit = poem.Score("vim").fit
        self.expect("features: has shape 12 of float64", fit, TRAIN[0], LABELS, WEIGHT, BIAS)
        self.expect("features: has shape 400×12 of int64", fit, TRAIN.astype(int), LABELS, WEIGHT, BIAS)
        self.expect("features: has 11 columns, expected 12", fit, TRAIN[:, 1:], LABELS, WEIGHT, BIAS)
        self.expect("labels: has shape 400 of float64", fit, TRAIN, LABELS * 1.0, WEIGHT, BIAS)
        self.expect("labels: has 399 labels for 400", fit, TRAIN, LABELS[1:], WEIGHT, BIAS)
        self.expect("labels: row 0 has label -1 ", fit, TRAIN, LABELS * 0 - 1, WEIGHT, BIAS)
        self.expect("labels: row 0 has label 4, but the head has 4", fit, TRAIN, LABELS * 0 + 4, WEIGHT, BIAS)
        large = LABELS.astype(np.uint64)
        large[7] = 2**63 + 5
        self.expect("labels: row 7 has label 9223372036854775813 ", fit, TRAIN, large, WEIGHT, BIAS)
        self.expect("labels: is a list whose parts differ in shape", fit, TRAIN, [[0], [0, 1]], WEIGHT, BIAS)
        self.expect("weight: is a list whose parts differ in shape", fit, TRAIN, LABELS, [[0.0], [0.0, 1.0]], BIAS)
        self.expect("weight: has shape 12 of float64", fit, TRAIN, LABELS, WEIGHT[0], BIAS)
        self.expect("weight: has 4 rows and bias 3", fit, TRAIN, LABELS, WEIGHT, BIAS[1:])
        self.expect("weight: has shape 4×12 of int64", fit, TRAIN, LABELS, WEIGHT.astype(int), BIAS)
        score = fit(TRAIN, LABELS, WEIGHT, BIAS).score
        self.expect("features: has 11 columns", score, TEST[:, 1:])
        self.expect("features: has shape 0×12", score, TEST[:0])
        self.expect("logits: has 89 rows, but features has 90", score, TEST, logits(TEST)[1:])
        self.expect("logits: has 3 columns, expected 4", score, TEST, logits(TEST)[:, 1:])

    def test_values(self):
        for value in [np.nan, np.inf]:
            bad = TRAIN.copy()
            bad[3, 1] = value
            self.expect(f"features: feature 1 of row 3 is {value} .remove", poem.Score("knn").fit, bad, LABELS)
            score = poem.Score("knn").fit(TRAIN, LABELS)
            self.expect(f"features: feature 1 of row 3 is {value}", score.score, bad)
            self.expect("logits: row 3 has a value that is not finite", poem.Score("msp").score, logits=bad)
        self.expect("1e.39|float32", poem.Score("knn").fit, TRAIN * 1e39, LABELS)
        self.expect("varies by .* loses .* in float32", poem.Score("knn").fit, TRAIN * 1e-9 + 1, LABELS)
        self.expect("cannot be fitted: all training rows", poem.Score("knn").fit, TRAIN * 0 + 1, LABELS)

    def test_values_that_are_not_finite_only_in_the_logits_or_the_score(self):
        score, huge = poem.Score("msp").fit(weight=WEIGHT * 1e20, bias=BIAS), np.repeat(TEST, 40, axis=0).astype(np.float32)
        huge[3000] *= 1e20  # beyond the first block
        self.expect("features: row 3000 has logits that are not finite in float32 .rescale", score.score, huge)
        poem.Score("knn").fit(TRAIN, LABELS, WEIGHT * 1e20, BIAS).score(huge)  # needs no logits
        ash = poem.Score("ash").fit(weight=np.full((2, 2), 0.1), bias=BIAS[:2])
        rows = np.array([[1, 1], [2e38, 2e38]])  # the sum of the second is infinite in float32, its logits are not
        self.expect("features: row 1 has a score that is not a number .rescale", ash.score, rows)

    def test_pixels_instead_of_features(self):
        pixels = rng.random((4, 10**6), np.float32)
        for name in ["mds", "rmds", "ssd", "vim"]:
            self.expect(
                "^features: needs .* of memory.*features of the last layer, not pixels",
                *(poem.Score(name).fit, pixels, [0, 1, 2, 3], pixels, BIAS),
            )
        poem.Score("knn").fit(np.repeat(pixels, 13, axis=0)[:, :150528], np.arange(52))  # needs no such matrix


if __name__ == "__main__":
    unittest.main()
