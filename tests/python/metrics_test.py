"""poem.metrics against scikit-learn and against counting."""

import unittest

import numpy as np
import poem
from poem import metrics
from sklearn.metrics import average_precision_score, roc_auc_score

rng = np.random.default_rng(1)
ID, OOD = rng.normal(1, 1, 700), rng.normal(0, 1, 500)
TIED_ID, TIED_OOD = np.round(2 * ID), np.round(2 * OOD)


def counted_fpr95(id_scores, ood_scores):
    """The largest threshold that keeps 95 % of ID, found by trying every score."""
    kept = [t for t in id_scores if np.sum(id_scores >= t) >= 0.95 * len(id_scores)]
    return np.mean(ood_scores >= max(kept))


class Metrics(unittest.TestCase):
    def test_equal_those_of_scikit_learn(self):
        for id_scores, ood_scores in [(ID, OOD), (TIED_ID, TIED_OOD), (ID, ID), ([1.0], [1.0])]:
            scores = np.concatenate([id_scores, ood_scores])
            is_id = np.arange(len(scores)) < len(id_scores)
            self.assertAlmostEqual(metrics.auroc(id_scores, ood_scores), roc_auc_score(is_id, scores), 12)
            self.assertAlmostEqual(metrics.aupr(id_scores, ood_scores), average_precision_score(is_id, scores), 12)
            self.assertAlmostEqual(
                metrics.aupr(id_scores, ood_scores, ood_positive=True), average_precision_score(~is_id, -scores), 12
            )

    def test_fpr95_is_that_of_the_largest_threshold_that_keeps_95_percent(self):
        for id_scores, ood_scores in [(ID, OOD), (TIED_ID, TIED_OOD), (OOD, ID)]:
            self.assertEqual(metrics.fpr95(id_scores, ood_scores), counted_fpr95(id_scores, ood_scores))

    def test_all_at_once(self):
        m = metrics.ood_metrics(ID, OOD)
        self.assertEqual((m.id_count, m.ood_count), (700, 500))
        self.assertEqual(m.fpr95, np.mean(OOD >= m.threshold))
        self.assertEqual(m.auroc, metrics.auroc(ID, OOD))
        best = min((np.mean(ID < t) + np.mean(OOD >= t)) / 2 for t in np.concatenate([ID, OOD]))
        self.assertAlmostEqual(m.detection_error, best, 12)

    def test_take_any_numbers_in_any_order(self):
        expected = metrics.auroc(TIED_ID, TIED_OOD)
        for dtype in [np.float16, np.float32, ">f8", np.int8, np.int64]:
            self.assertEqual(metrics.auroc(TIED_ID.astype(dtype), TIED_OOD.astype(dtype)), expected)
        self.assertEqual(metrics.auroc(list(TIED_ID), tuple(TIED_OOD)), expected)
        spread = np.repeat(TIED_ID, 3)
        self.assertEqual(metrics.auroc(spread[::3], TIED_OOD[::-1]), expected)

    def test_refuse_what_is_not_one_number_per_input(self):
        for bad, words in [
            ([1.0, np.nan], "index 1 is NaN"),
            ([], "no scores"),
            (np.zeros((3, 1)), "shape 3×1 of float64"),
            (np.zeros(3, complex), "complex128"),
            (np.zeros(3, bool), "bool"),
            (["a"], "<U1"),
            (None, "object"),
            (3.0, "shape ()"),
            ([[1], [1, 2]], "is a list whose parts differ in shape (give one number per row)"),
        ]:
            with self.assertRaisesRegex(poem.Error, words.replace("(", r"\(").replace(")", r"\)")):
                metrics.fpr95(ID, bad)
        for arguments, where in [(([], OOD), "id_scores"), ((ID, [np.nan]), "ood_scores")]:
            with self.assertRaises(poem.Error) as raised:
                metrics.fpr95(*arguments)
            self.assertEqual(raised.exception.where, where)


if __name__ == "__main__":
    unittest.main()
