"""How well scores separate ID from OOD. Higher scores mean ID; equal scores count as ties.

Every function takes one score per input, ID first, and returns shares of 1.
"""

from numpy.typing import ArrayLike

from ._core import OodMetrics, ood_metrics

__all__ = ["OodMetrics", "aupr", "auroc", "fpr95", "ood_metrics"]


def fpr95(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """The share of OOD that passes the largest threshold that keeps 95 % of ID."""
    return ood_metrics(id_scores, ood_scores).fpr95


def auroc(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """The probability that an ID score is above an OOD score; ties count one half."""
    return ood_metrics(id_scores, ood_scores).auroc


def aupr(id_scores: ArrayLike, ood_scores: ArrayLike, *, ood_positive: bool = False) -> float:
    """Average precision with ID as the positive class, or OOD if ood_positive."""
    metrics = ood_metrics(id_scores, ood_scores)
    return metrics.aupr_out if ood_positive else metrics.aupr_in
