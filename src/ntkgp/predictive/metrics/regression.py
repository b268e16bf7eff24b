"""Scores of predicted numbers: arrays of one shape, (n,) or (n, c), each entry a point."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ntkgp.predictive.metrics.checks import (
    Floats,
    as_alike,
    as_open,
    as_positive,
    as_unit,
    as_values,
)

CENTRAL_LEVELS: Floats = np.arange(1, 20) / 20
"""The default levels of a calibration curve: 5 %, 10 %, ..., 95 %."""


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    """Root mean squared error, √(1/n Σ_i (y_i - μ_i)²); arrays of one shape, (n,) or (n, c).

    >>> rmse(y=[1.0, 2.0], mean=[4.0, -2.0]) == 12.5**0.5
    True
    """
    y, mean = as_alike(y=y, mean=mean)
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def gaussian_nll(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Negative log density, 1/n Σ_i [(y_i - μ_i)² / 2σ_i² + ½ log 2πσ_i²], all (n,) or (n, c) (Figure 2).

    >>> round(gaussian_nll(y=[0.0, 1.0], mean=[0.0, 0.0], std=[1.0, 1.0]), 4)
    1.1689
    """
    y, mean, std = as_alike(y=y, mean=mean, std=as_positive("std", std))
    return float(np.mean(((y - mean) / std) ** 2 / 2 + np.log(std)) + np.log(2 * np.pi) / 2)


def crps_gaussian(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Continuous ranked probability score ∫ (F(z) - 1{y ≤ z})² dz of normals, averaged over points.

    σ [ζ (2Φ(ζ) - 1) + 2φ(ζ) - 1/√π] with ζ = (y - μ)/σ; in the unit of y, less is better; all
    (n,) or (n, c).

    >>> round(crps_gaussian(y=[0.0], mean=[0.0], std=[1.0]), 4)
    0.2337
    """
    y, mean, std = as_alike(y=y, mean=mean, std=as_positive("std", std))
    return float(np.mean(_mean_abs(y - mean, std) - std / np.sqrt(np.pi)))


def crps_mixture(y: ArrayLike, means: ArrayLike, stds: ArrayLike) -> float:
    """The same score of uniform mixtures of normals, without approximation (Grimit et al., 2006).

    1/K Σ_k A(y - μ_k, σ_k²) - 1/2K² Σ_jk A(μ_j - μ_k, σ_j² + σ_k²), where A(μ, σ²) = E|N(μ, σ²)|.
    Means and stds (k, n) or (k, n, c), y without the first axis; time k² n.

    >>> round(crps_mixture(y=[0.0], means=[[0.0], [0.0]], stds=[[1.0], [1.0]]), 4)
    0.2337
    """
    means, stds = as_alike(means=means, stds=as_positive("stds", stds))
    y = as_values("y", y, shape=means.shape[1:])
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
    samples = as_values("samples", samples)
    y, s = as_values("y", y, shape=samples.shape[1:]), _count_of(samples, unbiased)
    error = np.sort(samples - y, axis=0)
    rank = np.arange(1, s + 1).reshape(-1, *[1] * y.ndim)
    apart = 2 * ((2 * rank - s - 1) * error).sum(axis=0)  # Σ_ij |X_i - X_j| by order statistics
    pairs = s * (s - 1) if unbiased else s**2
    return float(np.mean(np.abs(error).mean(axis=0) - apart / pairs / 2))


def pinball_loss(y: ArrayLike, predicted: ArrayLike, q: ArrayLike | float) -> float:
    """Loss of predicted quantiles, 1/n Σ_i max{q (y_i - f_i), (q - 1)(y_i - f_i)}; less is better.

    On average it is least for the true quantile of probability q (Koenker and Bassett, 1978). y is
    (n,) or (n, c). For one number q predictions have the shape of y; for q (m,) they have one more
    axis (..., m), as `predict(X, quantiles=q)` returns them, and the mean runs over it too.

    >>> pinball_loss(y=[1.0, 1.0], predicted=[0.0, 2.0], q=0.9)
    0.5
    >>> round(pinball_loss(y=[1.0], predicted=[[0.0, 2.0]], q=[0.1, 0.9]), 4)
    0.1
    """
    y, levels = as_values("y", y), as_open("q", q)
    predicted = as_values("predicted", predicted, shape=y.shape + levels.shape)
    error = y.reshape(y.shape + (1,) * levels.ndim) - predicted
    return float(np.mean(np.maximum(levels * error, (levels - 1) * error)))


def interval_score(y: ArrayLike, low: ArrayLike, high: ArrayLike, level: float) -> float:
    """Width of central intervals plus a fine for each miss (Gneiting and Raftery, 2007, Eq. 43).

    1/n Σ_i [(u_i - l_i) + 2/α (l_i - y_i)₊ + 2/α (y_i - u_i)₊] with α = 1 - level; all (n,) or
    (n, c), in the unit of y. On average it is least for the true quantiles α/2 and 1 - α/2.

    >>> round(interval_score(y=[0.0, 3.0], low=[-1.0, -1.0], high=[1.0, 1.0], level=0.9), 4)
    22.0
    """
    y, low, high = _as_interval(y, low, high)
    missed = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return float(np.mean(high - low + 2 / (1 - as_open("level", level, ndim=0)) * missed))


def energy_score(y: ArrayLike, samples: ArrayLike, *, unbiased: bool = True) -> float:
    """The score of `crps_samples` for several targets jointly, E‖X - y‖ - ½ E‖X - X'‖.

    Lengths are Euclidean, over the last axis: give targets of one unit, or scaled ones. It sees
    whether targets go together, which a mean over targets does not (Gneiting and Raftery, 2007,
    Eq. 22). `unbiased` as in `crps_samples`; y (n, c), samples (s, n, c), time s² n c.

    >>> energy_score(y=[[0.0, 0.0]], samples=[[[3.0, 4.0]], [[-3.0, -4.0]]])
    0.0
    >>> energy_score(y=[[0.0, 0.0]], samples=[[[3.0, 4.0]], [[-3.0, -4.0]]], unbiased=False)
    2.5
    """
    samples = as_values("samples", samples, ndim=3)
    y, s = as_values("y", y, shape=samples.shape[1:]), _count_of(samples, unbiased)
    apart = np.zeros(len(y))
    for draw in samples:  # one draw at a time: memory s n c, not s² n c
        apart += np.linalg.norm(samples - draw, axis=-1).sum(axis=0)
    pairs = s * (s - 1) if unbiased else s**2
    return float(np.mean(np.linalg.norm(samples - y, axis=-1).mean(axis=0) - apart / pairs / 2))


def interval_coverage(y: ArrayLike, low: ArrayLike, high: ArrayLike) -> float:
    """Share of points inside their interval, 1/n Σ_i 1{low_i ≤ y_i ≤ high_i}; all (n,) or (n, c).

    >>> interval_coverage(y=[0.0, 1.0, 2.0, 9.0], low=[0.0] * 4, high=[2.0] * 4)
    0.75
    """
    y, low, high = _as_interval(y, low, high)
    return float(np.mean((low <= y) & (y <= high)))


def calibration_curve(pit: ArrayLike, levels: ArrayLike = CENTRAL_LEVELS) -> Floats:
    """Share of observations inside the central interval of each level p, 1/n Σ_i 1{|2u_i - 1| ≤ p}.

    u = F(y) is the predictive distribution function at the observation ("probability integral
    transform"), of any shape: `Normal.cdf(y)`, `Mixture.cdf(y)`. The central interval of level p
    lies between the quantiles (1 - p)/2 and (1 + p)/2. Calibrated predictions give p back.

    >>> calibration_curve(pit=[0.5, 0.3, 0.8, 0.99], levels=[0.5, 0.9]).tolist()
    [0.5, 0.75]
    """
    pit, levels = as_unit("pit", pit), as_unit("levels", levels, ndim=1)
    off_centre = np.sort(np.abs(2 * pit - 1), axis=None)
    return np.searchsorted(off_centre, levels, side="right") / pit.size


def regression_calibration_error(pit: ArrayLike, levels: ArrayLike = CENTRAL_LEVELS) -> float:
    """Mean over levels p of |observed - expected coverage| of central intervals.

    1/m Σ_p |1/n Σ_i 1{|2u_i - 1| ≤ p} - p|, with u as for `calibration_curve`. It detects a
    wrong width. It misses a shift that leaves coverage right, such as y always above the median.

    >>> round(regression_calibration_error(pit=[0.5] * 3, levels=[0.5, 0.9]), 2)
    0.3
    """
    return float(np.mean(np.abs(calibration_curve(pit, levels) - np.asarray(levels))))


def _as_interval(y: ArrayLike, low: ArrayLike, high: ArrayLike) -> list[Floats]:
    arrays = as_alike(y=y, low=low, high=high)
    swapped = int(np.sum(arrays[1] > arrays[2]))
    if swapped:
        raise ValueError(f"low must not exceed high; it does at {swapped} points.")
    return arrays


def _count_of(samples: Floats, unbiased: bool) -> int:
    if unbiased and len(samples) < 2:
        raise ValueError("samples must hold at least 2 draws, or pass unbiased=False; got 1.")
    return len(samples)


def _mean_abs(mean: Floats, std: Floats) -> Floats:
    """E|N(μ, σ²)| = μ (2Φ(μ/σ) - 1) + 2σ φ(μ/σ)."""
    zeta = mean / std
    return mean * special.erf(zeta / 2**0.5) + std * np.sqrt(2 / np.pi) * np.exp(-(zeta**2) / 2)
