"""What the results of an experiment on images say, method by method and repeat by repeat."""

from typing import Any

import numpy as np

from ntkgp.experiments.results import Record, Results
from ntkgp.report.intervals import Scores

AT_CONFIDENCE = 0.6


def runs_of(results: Results, method: str, scale: str) -> list[Record]:
    """The ensembles of a method by one rule for κ, or the analytic law as "ntkgp"."""
    return [
        run
        for run in results["runs"]
        if run["method"] == method and run["scale"] == scale and run["kind"] in ("ensemble", "law")
    ]


def final(results: Results, method: str, scale: str, score: str) -> dict[int, Any]:
    """A score of the whole ensembles, by repeat."""
    runs = runs_of(results, method, scale)
    return {run.get("repeat", 0): run["by_size"][-1][score] for run in runs}


def error(results: Results, method: str, scale: str) -> Scores:
    """Error on test images, by repeat."""
    return final(results, method, scale, "error")


def confident_error(results: Results, method: str, scale: str) -> Scores:
    """Error on the images of both sets above a confidence, by repeat; NaN where there is none."""
    thresholds = np.array(results["confidence_thresholds"])
    index = int(np.argmin(np.abs(thresholds - AT_CONFIDENCE)))
    curves = final(results, method, scale, "curve_errors")
    return {r: float("nan") if c[index] is None else c[index] for r, c in curves.items()}


def entropy_outside(results: Results, method: str, scale: str) -> Scores:
    """Mean entropy on images from elsewhere, from its histogram, by repeat."""
    edges = np.array(results["entropy_edges"])
    centres = (edges[1:] + edges[:-1]) / 2
    counts = final(results, method, scale, "entropies_outside")
    return {repeat: float(np.average(centres, weights=own)) for repeat, own in counts.items()}
