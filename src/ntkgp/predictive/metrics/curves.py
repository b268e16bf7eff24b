"""Error on the points that a model is sure of, against how sure (Figures 2 and 3, right)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ntkgp.predictive.metrics.checks import (
    Floats,
    as_alike,
    as_labels,
    as_positive,
    as_probabilities,
    as_unit,
    as_values,
)

CONFIDENCE_THRESHOLDS: Floats = np.arange(101) / 100
"""The range 0 ≤ τ ≤ 1 of Figure 3 (right), in steps of 0.01."""


class ErrorCurve(NamedTuple):
    """Error on the points at least as confident as each threshold τ (Figures 2 and 3, right).

    A threshold that keeps no point has fraction 0 and error NaN. A plot leaves a gap there, and the
    curves of several runs over the same thresholds still stack.

    The paper keeps points "larger than" τ; here, as in Lakshminarayanan et al. (2017), τ itself is
    kept too. They differ only for points exactly at τ, such as a saturated softmax at τ = 1.
    """

    thresholds: Floats  # τ, (m,)
    errors: Floats  # on the points kept, (m,); NaN where there is none
    fractions: Floats  # share of all points that is kept, (m,)


def error_vs_precision(
    y: ArrayLike, mean: ArrayLike, std: ArrayLike, *, thresholds: ArrayLike | None = None
) -> ErrorCurve:
    """RMSE on the points with predictive precision 1/σ_i² ≥ τ, for each threshold τ (Figure 2, right).

    y, mean and std (n,) or (n, c), thresholds (m,); without them every distinct precision is one,
    in ascending order. To compare methods give them all the same.

    >>> y, mean, std = [1.0, 3.0], [0.0, 0.0], [1.0, 2.0]
    >>> curve = error_vs_precision(y, mean, std, thresholds=[0.0, 1.0, 2.0])
    >>> curve.errors.round(3).tolist(), curve.fractions.tolist()
    ([2.236, 1.0, nan], [1.0, 0.5, 0.0])
    """
    y, mean, std = as_alike(y=y, mean=mean, std=as_positive("std", std))
    precision = 1 / std**2
    if thresholds is None:
        thresholds = np.unique(precision)
    squares = _curve(precision, (y - mean) ** 2, as_values("thresholds", thresholds, ndim=1))
    return squares._replace(errors=np.sqrt(squares.errors))


def error_vs_confidence(
    labels: ArrayLike, probabilities: ArrayLike, *, thresholds: ArrayLike = CONFIDENCE_THRESHOLDS
) -> ErrorCurve:
    """Share of errors among points of confidence max_c p_c ≥ τ, for each threshold τ (Figure 3, right).

    Points in and out of distribution go in together. A label of -1 says out of distribution:
    whatever is predicted there is an error. Labels (n,), probabilities (n, C), thresholds (m,).

    >>> p = [[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]]
    >>> curve = error_vs_confidence([0, 1, -1], p, thresholds=[0.5, 0.7, 0.85, 1.0])
    >>> curve.errors.round(3).tolist(), curve.fractions.round(3).tolist()
    ([0.333, 0.5, 0.0, nan], [1.0, 0.667, 0.333, 0.0])
    """
    p = as_probabilities(probabilities)
    wrong = p.argmax(axis=1) != as_labels(labels, p, lowest=-1)
    levels = as_unit("thresholds", thresholds, ndim=1)
    return _curve(p.max(axis=1), wrong.astype(np.float64), levels)


def _curve(confidence: Floats, loss: Floats, thresholds: Floats) -> ErrorCurve:
    """Mean loss over entries with confidence at least each threshold, by sums from the top."""
    order = np.argsort(confidence, axis=None)
    kept = order.size - np.searchsorted(confidence.ravel()[order], thresholds, side="left")
    from_top = np.concatenate([[0.0], np.cumsum(loss.ravel()[order[::-1]])])
    errors = np.where(kept > 0, from_top[kept] / np.maximum(kept, 1), np.nan)
    return ErrorCurve(thresholds.copy(), errors, kept / order.size)
