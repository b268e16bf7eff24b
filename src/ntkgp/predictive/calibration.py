"""Calibration on held-out rows: the temperature of class probabilities, the noise of predictions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ntkgp.core.search import minimise
from ntkgp.predictive.distributions import Mixture, Normal

NOISE_SPREAD = 0.25
"""How far, in logarithms, the noise of predictions is believed to be from that of training."""
TEMPERATURE_SPREAD = 0.25
"""How far, in logarithms, the temperature of members is believed to be from that of their law."""


def member_probabilities(logits: NDArray[Any], temperature: float) -> NDArray[Any]:
    """softmax(z/T) of each member or sample, (k, n, classes)."""
    return special.softmax(logits / temperature, axis=-1)


def mean_probabilities(logits: NDArray[Any], temperature: float) -> NDArray[Any]:
    """1/K Σ_k softmax(z_k/T), (n, classes) (Appendix F)."""
    return member_probabilities(logits, temperature).mean(axis=0)


def best_temperature(
    logits: NDArray[Any],
    labels: NDArray[Any],
    sample_weight: NDArray[Any] | None = None,
    expected: float | None = None,
) -> float:
    """T that minimises the cross-entropy of the mean probabilities on held-out data (Section 3.5).

    Args:
        logits: (k, n, classes), of each member, or sample of a law.
        labels: (n,), from 0.
        sample_weight: (n,), of the rows; None if all count alike.
        expected: T as it is believed to be before, if it is: log T is normal around its logarithm, with
            standard deviation `TEMPERATURE_SPREAD`.

    A handful of rows without a mistake must not make T zero. Where nothing is expected of T, labels are
    smoothed in the manner of Platt (1999), (n + 1)/(n + 2) for the true class and the rest shared by
    the others. With many rows neither has an effect. The search spans four decades either side of the
    logits' own size, or of what is expected, and starts from a grid, because the cross-entropy of a
    mixture need not have one minimum.
    """
    size = expected or float(np.std(logits)) or 1.0
    n, n_classes = logits.shape[1:]
    targets = np.eye(n_classes)[labels]
    if expected is None:
        targets = (targets * (n + 1) + (1 - targets) / (n_classes - 1)) / (n + 2)

    def cross_entropy(log_temperature: float) -> float:
        probabilities = mean_probabilities(logits, size * 10**log_temperature)
        logs = np.log(np.maximum(probabilities, np.finfo(float).tiny))
        believed = (
            0.0
            if expected is None
            else (log_temperature * np.log(10) / TEMPERATURE_SPREAD) ** 2 / 2
        )
        return believed / n - float(
            np.average(np.sum(targets * logs, axis=1), weights=sample_weight)
        )

    return float(size * 10 ** minimise(cross_entropy, -4.0, 4.0))


def best_noise_std(
    predicted: Mixture | Normal,
    y: NDArray[Any],
    expected: float | None = None,
    relative_var: NDArray[Any] | float = 1.0,
) -> NDArray[Any]:
    """σ of each output that makes held-out y (n, c) most likely under N(μ_*, epistemic var + rσ²).

    For a mixture that is the normal with its moments (Appendix F). Its own noise is not used.

    Args:
        predicted: at the rows held out.
        y: their targets (n, c).
        expected: σ as it is believed to be before, if it is: log σ is normal around its logarithm,
            with standard deviation `NOISE_SPREAD`. A handful of rows may not make σ vanish.
        relative_var: r, the noise variance of each row over σ², (n, c), (n,), or one for all.
    """
    relative = np.asarray(relative_var)
    relative = relative[:, None] if relative.ndim == 1 else relative
    parts = ((y - predicted.mean) ** 2, predicted.epistemic_var, relative)
    squares, epistemic, relative = (np.broadcast_to(part, y.shape).T for part in parts)
    columns = zip(squares, epistemic, relative, strict=True)
    return np.array([_best_noise(*column, expected) for column in columns])


def _best_noise(
    squares: NDArray[Any],
    epistemic: NDArray[Any],
    relative: NDArray[Any],
    expected: float | None,
) -> float:
    size = expected or float(np.sqrt(np.mean(squares))) or 1.0

    def loss(log_std: float) -> float:
        var = epistemic + relative * (size * 10**log_std) ** 2
        likelihood = 0.5 * float(np.sum(squares / var + np.log(var)))
        believed = 0.0 if expected is None else (log_std * np.log(10) / NOISE_SPREAD) ** 2 / 2
        return likelihood + believed

    return float(size * 10 ** minimise(loss, -3.0, 1.0 if expected is None else 3.0))
