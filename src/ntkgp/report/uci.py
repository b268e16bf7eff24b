"""The table of UCI regression sets."""

from pathlib import Path
from typing import Any

import numpy as np

from ntkgp.report.section import Section
from ntkgp.report.style import table


def report(results: dict[str, Any], stem: Path) -> Section:
    """Tables of NLL and RMSE; there is no figure."""
    return Section("\n\n".join(score_table(results, score) for score in ("nll", "rmse")) + NOTE)


NOTE = (
    "\n± standard error over splits (their number). * where the mean, rounded as published, is below "
    "the published figure of deep ensembles (Lakshminarayanan et al., 2017)."
)


def score_table(results: dict[str, Any], score: str) -> str:
    models = list(dict.fromkeys(run["model"] for run in results["runs"]))
    index = ("nll", "rmse").index(score)
    rows = [
        [name, f"{published[index]:.2f}"]
        + [cell(results["runs"], name, model, score, published[index]) for model in models]
        for name, published in results["published"].items()
        if any(run["set"] == name for run in results["runs"])
    ]
    return table([score.upper(), "published", *models], rows)


def cell(runs: list[dict[str, Any]], name: str, model: str, score: str, published: float) -> str:
    values = [run[score] for run in runs if (run["set"], run["model"]) == (name, model)]
    if not values:
        return ""
    digits = 5 if name.startswith("naval") and score == "rmse" else 3
    star = "*" if round(float(np.mean(values)), 2) < published else ""
    shown = f"{np.mean(values):.{digits}f}"
    if len(values) > 1:
        shown += f" ± {np.std(values, ddof=1) / len(values) ** 0.5:.{digits}f}"
    return f"{shown} ({len(values)}){star}"
