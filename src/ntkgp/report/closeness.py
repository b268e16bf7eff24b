"""How close an ensemble of finite networks is to its infinite-width law."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Closeness(NamedTuple):
    """One ensemble against its law on a grid of test inputs.

    An ensemble of K exact draws from the law has mean_error near 1 and both ratios near 1.
    """

    mean_error: float
    """Root mean square of (ensemble mean - law mean) in units of law std / √K."""
    std_ratio_inside: float
    """Median of ensemble std / law std between the first and the last training input."""
    std_ratio_outside: float
    """The same beyond them."""


def closeness(results: dict[str, Any], run: dict[str, Any], law_name: str = "") -> Closeness:
    """Measure one run of a results file, by its members' mean and standard deviation on the grid.

    Against the law of its method, or another one by its name.
    """
    law = results["laws"][law_name or run["law"]]
    law_mean, law_std = np.array(law["mean"]), np.array(law["std"])
    error = (np.array(run["mean"]) - law_mean) / (law_std / run["members"] ** 0.5)
    ratio = np.array(run["std"]) / law_std
    grid = np.array(results["grid"])
    inside = (grid >= min(results["x"])) & (grid <= max(results["x"]))
    return Closeness(
        mean_error=float(np.sqrt(np.mean(error**2))),
        std_ratio_inside=float(np.median(ratio[inside])),
        std_ratio_outside=float(np.median(ratio[~inside])),
    )


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Mean and its standard error over independent repeats; NaN error for one repeat."""
    array: NDArray[Any] = np.array(values)
    error = array.std(ddof=1) / len(array) ** 0.5 if len(array) > 1 else np.nan
    return float(array.mean()), float(error)


def shown(values: list[float]) -> str:
    """ "mean ± standard error", or the single value."""
    mean, error = mean_and_error(values)
    return f"{mean:.2f}" if np.isnan(error) else f"{mean:.2f} ± {error:.2f}"
