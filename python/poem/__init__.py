"""Out-of-distribution detection with outlier mining: poem's library with NumPy arrays in and out.

    mined = poem.mine(id_features, outlier_features, pool_features, 1000, seed=epoch)
    scores = poem.Score("knn").fit(train, labels).score(test)
    poem.metrics.fpr95(id_scores, ood_scores)
    poem.Detector.load("runs/mine/detector.safetensors").predict(images)

A mistake that the caller can correct is a poem.Error, which is a ValueError. Other threads run while poem computes.
"""

from . import metrics
from ._core import Detector, Mined, Posterior, Score, __version__, mine, score_names
from ._error import Error

__all__ = ["Detector", "Error", "Mined", "Posterior", "Score", "__version__", "metrics", "mine", "score_names"]
