"""How close an ensemble of finite networks is to its infinite-width law."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ntkgp.experiments.results import Record, Results
from ntkgp.predictive.closeness import mean_error
from ntkgp.report.intervals import interval


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


def closeness(results: Results, run: Record, law_name: str = "") -> Closeness:
    """Measure one run of a results file, by its members' mean and standard deviation on the grid.

    Against the law of its method, or another one by its name.
    """
    law = results["laws"][law_name or run["law"]]
    law_mean, law_std = np.array(law["mean"]), np.array(law["std"])
    ratio = np.array(run["std"]) / law_std
    grid = np.array(results["grid"])
    inside = (grid >= min(results["x"])) & (grid <= max(results["x"]))
    return Closeness(
        mean_error=mean_error(np.array(run["mean"]) - law_mean, law_std, run["members"]),
        std_ratio_inside=float(np.median(ratio[inside])),
        std_ratio_outside=float(np.median(ratio[~inside])),
    )


def columns(measured: Sequence[Closeness]) -> dict[str, str]:
    """Columns of a table: means over ensembles of one kind."""
    titles = ("mean error", "std ratio in", "std ratio out")
    shown = (interval(values).shown(2) for values in zip(*measured, strict=True))
    return dict(zip(titles, shown, strict=True))
