"""How good predictions of held-out rows are: the same scores for our models and for simple ones."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ntkgp.predictive import metrics
from ntkgp.predictive.distributions import Normal, StudentT

LEVELS = (0.5, 0.9, 0.95)
"""Of the intervals whose coverage is told."""
TITLES = {
    "rmse": "RMSE", "r2": "R²", "accuracy": "accuracy", "nll": "NLL", "crps": "CRPS",
    "brier": "Brier", "coverage_50": "in 50 %", "coverage_90": "in 90 %", "coverage_95": "in 95 %",
    "ece": "ECE", "seconds": "seconds",
}  # fmt: skip
"""Of the columns in a table for people."""


class Scored(NamedTuple):
    """A model's scores on rows that it was not trained on."""

    values: dict[str, float]
    losses: NDArray[np.float64]
    """The negative log probability, or density, of each row's target."""


def score_numbers(y: NDArray[Any], predicted: Normal) -> Scored:
    """Of a distribution for each target, (n,).

    ece is the mean difference between the share of targets inside central intervals and what it should
    be, over the levels 5 %, 10 %, …, 95 %.

    >>> p = Normal(np.zeros(4), np.zeros(4), np.ones(4))
    >>> score_numbers(np.array([-0.5, 0.5, 1.0, -1.0]), p).values["coverage_50"]
    0.5
    """
    losses = -np.asarray(predicted.log_prob(y), np.float64)
    residual = y - predicted.mean
    spread = float(np.sum((y - y.mean()) ** 2))
    coverage = {
        f"coverage_{100 * level:g}": metrics.interval_coverage(y, *predicted.interval(level))
        for level in LEVELS
    }
    return Scored(
        {
            "rmse": metrics.rmse(y, predicted.mean),
            "r2": 1 - float(np.sum(residual**2)) / spread if spread else float("nan"),
            "nll": float(losses.mean()),
            "crps": _crps(y, predicted),
            **coverage,
            "ece": metrics.regression_calibration_error(predicted.cdf(y)),
        },
        losses,
    )


def _crps(y: NDArray[Any], predicted: Normal) -> float:
    if isinstance(predicted, StudentT):
        return metrics.crps_samples(y, predicted.sample(200))
    return metrics.crps_gaussian(y, predicted.mean, predicted.std)


def score_classes(labels: NDArray[Any], probabilities: NDArray[Any]) -> Scored:
    """Of class probabilities (n, C), labels from 0.

    >>> score_classes(np.array([0, 1]), np.array([[0.9, 0.1], [0.6, 0.4]])).values["accuracy"]
    0.5
    """
    of_truth = probabilities[np.arange(len(labels)), labels]
    return Scored(
        {
            "accuracy": metrics.accuracy(labels, probabilities),
            "nll": metrics.classification_nll(labels, probabilities),
            "brier": metrics.brier_score(labels, probabilities),
            "ece": metrics.expected_calibration_error(labels, probabilities),
        },
        -np.log(np.maximum(of_truth, np.finfo(np.float64).tiny)),
    )


def shown(name: str, values: dict[str, float]) -> dict[str, str]:
    """One row of a table for people."""
    row = {"": name}
    for key, value in values.items():
        title = TITLES.get(key, key)
        if key.startswith("coverage") or key == "accuracy":
            row[title] = f"{100 * value:.1f} %"
        elif key == "seconds":
            row[title] = f"{value:.0f}" if np.isfinite(value) else "–"
        else:
            row[title] = f"{value:.4g}"
    return row


class Difference(NamedTuple):
    """Mean loss of one model less that of another, on the same rows."""

    mean: float
    error: float
    """Its standard error."""

    @property
    def verdict(self) -> str:
        """better, worse, or no different within two standard errors."""
        if abs(self.mean) <= 2 * self.error:
            return "level"
        return "better" if self.mean < 0 else "worse"


def difference(one: Scored, other: Scored) -> Difference:
    """Paired, row by row.

    >>> one, other = (Scored({}, np.array(losses)) for losses in ([1.0, 2.0], [2.0, 3.0]))
    >>> difference(one, other)
    Difference(mean=-1.0, error=0.0)
    """
    each = one.losses - other.losses
    return Difference(float(each.mean()), float(each.std() / len(each) ** 0.5))
