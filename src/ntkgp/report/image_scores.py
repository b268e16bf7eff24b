"""What the results of an experiment on images say, method by method and repeat by repeat."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.report.claims import Scores

NAMES = {
    "digits": ("digits", "letters"),
    "mnist": ("MNIST", "NotMNIST"),
    "cifar": ("CIFAR-10", "SVHN"),
}
AT_CONFIDENCE = 0.6


def runs_of(results: dict[str, Any], method: str, scale: str = "matched") -> list[dict[str, Any]]:
    """The ensembles of a method, or the analytic law as "ntkgp"."""
    return [
        run
        for run in results["runs"]
        if run["method"] == method and run["scale"] == scale and run["kind"] in ("ensemble", "law")
    ]


def final(
    results: dict[str, Any], method: str, score: str, scale: str = "matched"
) -> dict[int, Any]:
    """A score of the whole ensembles, by repeat."""
    return {
        run.get("repeat", 0): run["by_size"][-1][score] for run in runs_of(results, method, scale)
    }


def error_at(
    results: dict[str, Any], method: str, confidence: float, scale: str = "matched"
) -> Scores:
    """Error on the points above a confidence, by repeat; NaN where there is none."""
    index = round(confidence * 100)
    curves = final(results, method, "curve_errors", scale)
    return {
        repeat: float("nan") if curve[index] is None else curve[index]
        for repeat, curve in curves.items()
    }


def mean_entropy(
    results: dict[str, Any], method: str, where: str, scale: str = "matched"
) -> Scores:
    """From the histogram, by repeat."""
    bins = results["entropy_bins"]
    centres = (np.arange(bins) + 0.5) / bins * np.log(results["classes"])
    counts = final(results, method, f"entropies_{where}", scale)
    return {repeat: float(count @ centres / count.sum()) for repeat, count in _arrays(counts)}


def _arrays(lists: dict[int, Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    return ((repeat, np.array(values)) for repeat, values in lists.items())
