"""Scores of predictions (Section 4): arrays in, arrays out.

Regression takes arrays of one shape, (n,) or (n, c), each entry a point; classification takes labels
(n,) of integers 0 ... C-1 and probabilities (n, C). Everything is computed in float64.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]

CENTRAL_LEVELS: Floats = np.arange(1, 20) / 20
"""Levels 5 %, 10 %, ..., 95 % at which a calibration curve is read unless told otherwise."""

CONFIDENCE_THRESHOLDS: Floats = np.arange(101) / 100
"""The range 0 ≤ τ ≤ 1 of Figure 3 (right), in steps of 0.01."""


class ErrorCurve(NamedTuple):
    """Error on the points at least as confident as each threshold τ (Figures 2 and 3, right).

    A threshold that keeps no point has fraction 0 and error NaN: there is no error to speak of, a
    plot leaves a gap there, and curves of several runs over the same thresholds still stack.

    The paper keeps points "larger than" τ; here, as in Lakshminarayanan et al. (2017), τ itself is
    kept too. They differ only for points exactly at τ, such as a saturated softmax at τ = 1.
    """

    thresholds: Floats  # τ, (m,)
    errors: Floats  # on the points kept, (m,); NaN where there is none
    fractions: Floats  # share of all points that is kept, (m,)


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    """Root mean squared error, √(1/n Σ_i (y_i - μ_i)²); arrays of one shape, (n,) or (n, c).

    >>> rmse(y=[1.0, 2.0], mean=[4.0, -2.0]) == 12.5**0.5
    True
    """
    y, mean = _alike(y=y, mean=mean)
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def gaussian_nll(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Negative log density, 1/n Σ_i [(y_i - μ_i)² / 2σ_i² + ½ log 2πσ_i²], all (n,) or (n, c) (Figure 2).

    >>> round(gaussian_nll(y=[0.0, 1.0], mean=[0.0, 0.0], std=[1.0, 1.0]), 4)
    1.1689
    """
    y, mean, std = _alike(y=y, mean=mean, std=_positive("std", std))
    return float(np.mean(((y - mean) / std) ** 2 / 2 + np.log(std)) + np.log(2 * np.pi) / 2)


def crps_gaussian(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Continuous ranked probability score ∫ (F(z) - 1{y ≤ z})² dz of normals, averaged over points.

    σ [ζ (2Φ(ζ) - 1) + 2φ(ζ) - 1/√π] with ζ = (y - μ)/σ; in the unit of y, less is better; all
    (n,) or (n, c).

    >>> round(crps_gaussian(y=[0.0], mean=[0.0], std=[1.0]), 4)
    0.2337
    """
    y, mean, std = _alike(y=y, mean=mean, std=_positive("std", std))
    return float(np.mean(_mean_abs(y - mean, std) - std / np.sqrt(np.pi)))


def crps_mixture(y: ArrayLike, means: ArrayLike, stds: ArrayLike) -> float:
    """The same score of uniform mixtures of normals, without approximation (Grimit et al., 2006).

    1/K Σ_k A(y - μ_k, σ_k²) - 1/2K² Σ_jk A(μ_j - μ_k, σ_j² + σ_k²), where A(μ, σ²) = E|N(μ, σ²)|.
    Means and stds (k, n) or (k, n, c), y without the first axis; time k² n.

    >>> round(crps_mixture(y=[0.0], means=[[0.0], [0.0]], stds=[[1.0], [1.0]]), 4)
    0.2337
    """
    means, stds = _alike(means=means, stds=_positive("stds", stds))
    y = _values("y", y, shape=means.shape[1:])
    to_y = _mean_abs(y - means, stds).mean(axis=0)
    apart = np.zeros_like(y)
    for mean, std in zip(means, stds, strict=True):  # one member at a time: memory k n, not k² n
        apart += _mean_abs(means - mean, np.hypot(stds, std)).mean(axis=0) / len(means)
    return float(np.mean(to_y - apart / 2))


def crps_samples(y: ArrayLike, samples: ArrayLike, *, unbiased: bool = True) -> float:
    """The same score from draws of the predictive distribution, E|X - y| - ½ E|X - X'|.

    The second mean runs over pairs of draws. `unbiased` leaves out the s pairs of a draw with
    itself: right on average for the law that was sampled, though it may be negative. With
    `unbiased=False` they count, as zeros: exactly the score of the s draws as a law of their own,
    never negative, on average E|X - X'| / 2s above that of the law sampled. Samples (s, n) or
    (s, n, c), y without the first axis.

    >>> crps_samples(y=[0.0], samples=[[-1.0], [1.0]])
    0.0
    >>> crps_samples(y=[0.0], samples=[[-1.0], [1.0]], unbiased=False)
    0.5
    """
    samples = _values("samples", samples)
    y, s = _values("y", y, shape=samples.shape[1:]), len(samples)
    if unbiased and s < 2:
        raise ValueError("samples must hold at least 2 draws, or pass unbiased=False; got 1.")
    error = np.sort(samples - y, axis=0)
    rank = np.arange(1, s + 1).reshape(-1, *[1] * y.ndim)
    apart = 2 * ((2 * rank - s - 1) * error).sum(axis=0)  # Σ_ij |X_i - X_j| by order statistics
    pairs = s * (s - 1) if unbiased else s**2
    return float(np.mean(np.abs(error).mean(axis=0) - apart / pairs / 2))


def interval_coverage(y: ArrayLike, low: ArrayLike, high: ArrayLike) -> float:
    """Share of points inside their interval, 1/n Σ_i 1{low_i ≤ y_i ≤ high_i}; all (n,) or (n, c).

    >>> interval_coverage(y=[0.0, 1.0, 2.0, 9.0], low=[0.0] * 4, high=[2.0] * 4)
    0.75
    """
    y, low, high = _alike(y=y, low=low, high=high)
    if np.any(low > high):
        raise ValueError(f"low must not exceed high; it does at {np.sum(low > high)} points.")
    return float(np.mean((low <= y) & (y <= high)))


def calibration_curve(pit: ArrayLike, levels: ArrayLike = CENTRAL_LEVELS) -> Floats:
    """Share of observations inside the central interval of each level p, 1/n Σ_i 1{|2u_i - 1| ≤ p}.

    u = F(y) is the predictive distribution function at the observation ("probability integral
    transform"), of any shape: `Normal.cdf(y)`, `Mixture.cdf(y)`. The central interval of level p
    lies between the quantiles (1 - p)/2 and (1 + p)/2. Calibrated predictions give p back.

    >>> calibration_curve(pit=[0.5, 0.3, 0.8, 0.99], levels=[0.5, 0.9]).tolist()
    [0.5, 0.75]
    """
    pit, levels = _unit("pit", pit), _unit("levels", levels, ndim=1)
    off_centre = np.sort(np.abs(2 * pit - 1), axis=None)
    return np.searchsorted(off_centre, levels, side="right") / pit.size


def regression_calibration_error(pit: ArrayLike, levels: ArrayLike = CENTRAL_LEVELS) -> float:
    """Mean over levels p of |observed - expected coverage| of central intervals.

    1/m Σ_p |1/n Σ_i 1{|2u_i - 1| ≤ p} - p|, with u as for `calibration_curve`. It sees a wrong
    width; a shift hides where it leaves coverage right, as when y always exceeds the median.

    >>> round(regression_calibration_error(pit=[0.5] * 3, levels=[0.5, 0.9]), 2)
    0.3
    """
    return float(np.mean(np.abs(calibration_curve(pit, levels) - np.asarray(levels))))


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
    y, mean, std = _alike(y=y, mean=mean, std=_positive("std", std))
    precision = 1 / std**2
    if thresholds is None:
        thresholds = np.unique(precision)
    squares = _curve(precision, (y - mean) ** 2, _values("thresholds", thresholds, ndim=1))
    return squares._replace(errors=np.sqrt(squares.errors))


def accuracy(labels: ArrayLike, probabilities: ArrayLike) -> float:
    """1/n Σ_i 1{argmax_c p_ic = y_i}, of equals the first; labels y (n,), probabilities p (n, C).

    >>> accuracy(labels=[0, 1], probabilities=[[0.9, 0.1], [0.6, 0.4]])
    0.5
    """
    p = _probabilities(probabilities)
    return float(np.mean(p.argmax(axis=1) == _labels(labels, p)))


def classification_nll(labels: ArrayLike, probabilities: ArrayLike) -> float:
    """Negative log probability of the true class, -1/n Σ_i log p_i(y_i); labels (n,), the rest (n, C).

    A probability of zero counts as the smallest positive normal float64, 2.2e-308: the point costs
    708.4, and the mean stays finite.

    >>> round(classification_nll(labels=[0, 1], probabilities=[[0.5, 0.5], [0.75, 0.25]]), 4)
    1.0397
    """
    p = _probabilities(probabilities)
    of_truth = p[np.arange(len(p)), _labels(labels, p)]
    return float(-np.mean(np.log(np.maximum(of_truth, np.finfo(np.float64).tiny))))


def brier_score(labels: ArrayLike, probabilities: ArrayLike) -> float:
    """Brier score 1/n Σ_i Σ_c (p_ic - 1{y_i = c})², between 0 and 2; labels (n,), the rest (n, C).

    The sum runs over all classes: for two classes it is twice the one-probability form.

    >>> brier_score(labels=[0, 1], probabilities=[[0.5, 0.5], [1.0, 0.0]])
    1.25
    """
    p = _probabilities(probabilities)
    one_hot = _labels(labels, p)[:, None] == np.arange(p.shape[1])
    return float(np.mean(np.sum((p - one_hot) ** 2, axis=1)))


def expected_calibration_error(
    labels: ArrayLike, probabilities: ArrayLike, *, bins: int = 15
) -> float:
    """Σ_b n_b/n |accuracy_b - confidence_b| over equal bins of the confidence max_c p_c (Guo et al., 2017).

    Bin b = 1 ... B holds confidences in ((b - 1)/B, b/B]; labels (n,), probabilities (n, C).

    >>> labels, p = [0, 0, 1], [[0.9, 0.1], [0.6, 0.4], [0.6, 0.4]]
    >>> round(expected_calibration_error(labels, p, bins=2), 4)
    0.0333
    """
    if bins < 1:
        raise ValueError(f"bins must be at least 1; got {bins}.")
    p = _probabilities(probabilities)
    gap = (p.argmax(axis=1) == _labels(labels, p)) - p.max(axis=1)
    which = np.searchsorted(np.arange(1, bins) / bins, p.max(axis=1), side="left")
    return float(np.sum(np.abs(np.bincount(which, weights=gap))) / len(p))


def predictive_entropy(probabilities: ArrayLike) -> Floats:
    """Entropy at each point, -Σ_c p_ic log p_ic in nats with 0 log 0 = 0: (n, C) -> (n,).

    >>> predictive_entropy([[0.5, 0.5], [1.0, 0.0]]).round(4).tolist()
    [0.6931, 0.0]
    """
    return special.entr(_probabilities(probabilities)).sum(axis=1)


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
    p = _probabilities(probabilities)
    wrong = p.argmax(axis=1) != _labels(labels, p, lowest=-1)
    return _curve(p.max(axis=1), wrong.astype(np.float64), _unit("thresholds", thresholds, ndim=1))


def auroc(in_scores: ArrayLike, out_scores: ArrayLike) -> float:
    """Area under the ROC curve, P(out > in) + ½ P(out = in) over all pairs of scores (n,) and (m,).

    Higher scores mean "out of distribution" (entropy, or minus the confidence): 1 tells the two
    apart, ½ is chance. Time O((n + m) log n).

    >>> auroc(in_scores=[0.0, 1.0], out_scores=[1.0, 2.0])
    0.875
    """
    inside = np.sort(_values("in_scores", in_scores, ndim=1))
    outside = _values("out_scores", out_scores, ndim=1)
    below, at_most = (np.searchsorted(inside, outside, side=side) for side in ("left", "right"))
    return float(np.mean((below + at_most) / 2) / len(inside))


def fpr_at_tpr(in_scores: ArrayLike, out_scores: ArrayLike, *, tpr: float = 0.95) -> float:
    """Share of in-distribution points flagged when at least `tpr` of the others are: FPR95 by default.

    Positive means out of distribution. A point is flagged if its score is at least t, the highest
    threshold that flags the share `tpr` of out_scores (m,); 1/n Σ_i 1{in_i ≥ t} is returned. Where
    in-distribution counts as positive instead (as in ODIN), FPR95 means another number:
    fpr_at_tpr(-out_scores, -in_scores).

    >>> fpr_at_tpr(in_scores=[0.0, 1.0, 2.0, 5.0], out_scores=[2.0, 3.0, 4.0])
    0.5
    """
    inside = _values("in_scores", in_scores, ndim=1)
    outside = np.sort(_values("out_scores", out_scores, ndim=1))[::-1]
    if not 0 < tpr <= 1:
        raise ValueError(f"tpr must be above 0 and at most 1; got {tpr!r}.")
    reached = np.arange(1, len(outside) + 1) / len(outside) >= tpr
    return float(np.mean(inside >= outside[np.argmax(reached)]))


def _mean_abs(mean: Floats, std: Floats) -> Floats:
    """E|N(μ, σ²)| = μ (2Φ(μ/σ) - 1) + 2σ φ(μ/σ)."""
    zeta = mean / std
    return mean * special.erf(zeta / 2**0.5) + std * np.sqrt(2 / np.pi) * np.exp(-(zeta**2) / 2)


def _curve(confidence: Floats, loss: Floats, thresholds: Floats) -> ErrorCurve:
    """Mean loss over entries with confidence at least each threshold, by sums from the top."""
    order = np.argsort(confidence, axis=None)
    kept = order.size - np.searchsorted(confidence.ravel()[order], thresholds, side="left")
    from_top = np.concatenate([[0.0], np.cumsum(loss.ravel()[order[::-1]])])
    errors = np.where(kept > 0, from_top[kept] / np.maximum(kept, 1), np.nan)
    return ErrorCurve(thresholds.copy(), errors, kept / order.size)


def _values(
    name: str, value: ArrayLike, *, ndim: int | None = None, shape: tuple[int, ...] | None = None
) -> Floats:
    array = np.asarray(value, np.float64)
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} axes; got shape {array.shape}.")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, one per point; got {array.shape}.")
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"{name} must be an array of at least one point; got {array.shape}.")
    bad = np.sum(~np.isfinite(array))
    if bad:
        raise ValueError(f"{name} must be finite; got {bad} NaN or infinite of {array.size}.")
    return array


def _alike(**arrays: ArrayLike) -> list[Floats]:
    """Arrays of one shape. (n,) against (n, 1) is refused: NumPy would stretch them to (n, n)."""
    checked = [_values(name, value) for name, value in arrays.items()]
    if any(array.shape != checked[0].shape for array in checked):
        got = ", ".join(str(array.shape) for array in checked)
        raise ValueError(f"{', '.join(arrays)} must all have one shape; got {got}.")
    return checked


def _positive(name: str, value: ArrayLike) -> Floats:
    array = _values(name, value)
    if array.min() <= 0:
        raise ValueError(f"{name} must be > 0: a density needs a width; got {array.min()}.")
    return array


def _unit(name: str, value: ArrayLike, *, ndim: int | None = None) -> Floats:
    array = _values(name, value, ndim=ndim)
    if array.min() < 0 or array.max() > 1:
        got = f"{array.min()} ... {array.max()}"
        raise ValueError(f"{name} must lie between 0 and 1; got values in {got}.")
    return array


def _probabilities(value: ArrayLike) -> Floats:
    p = _values("probabilities", value, ndim=2)
    if np.any(p < 0):
        raise ValueError(f"probabilities must not be negative; got {p.min()}. Are these logits?")
    off = np.abs(p.sum(axis=1) - 1).max()
    if off > 1e-4:
        raise ValueError(
            f"probabilities must sum to 1 ± 1e-4 in each row; got a row {off:.2g} off."
        )
    return p


def _labels(value: ArrayLike, probabilities: Floats, lowest: int = 0) -> NDArray[np.intp]:
    labels, (n, classes) = np.asarray(value), probabilities.shape
    if labels.shape != (n,):
        raise ValueError(f"labels must be {(n,)}, as many as probabilities; got {labels.shape}.")
    if labels.dtype.kind not in "iu":
        raise ValueError(f"labels must be integers, the number of a class; got {labels.dtype}.")
    if labels.min() < lowest or labels.max() >= classes:
        got = f"{labels.min()} ... {labels.max()}"
        raise ValueError(f"labels must lie in {lowest} ... {classes - 1}; got {got}.")
    return labels.astype(np.intp)
