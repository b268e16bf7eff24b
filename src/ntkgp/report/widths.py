"""The figure of closeness to the law against width."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from ntkgp.report.claims import Claim, below, difference
from ntkgp.report.closeness import Closeness, closeness, mean_and_error, shown
from ntkgp.report.section import Section
from ntkgp.report.style import look, save_figure, table

TITLES = Closeness(
    mean_error="error of the mean / (law std/√K)",  # type: ignore[arg-type]
    std_ratio_inside="std ratio inside the data",  # type: ignore[arg-type]
    std_ratio_outside="std ratio outside the data",  # type: ignore[arg-type]
)


Measured = dict[str, dict[int, list[Closeness]]]
"""By method and width, one for each ensemble."""


def report(results: dict[str, Any], stem: Path) -> Section:
    """Write the figure beside the results."""
    measured: Measured = {}
    for run in results["runs"]:
        by_width = measured.setdefault(run["method"], {})
        by_width.setdefault(run["width"], []).append(closeness(results, run))
    return Section(closeness_table(measured), [figure(measured, stem)], claims(measured))


def closeness_table(measured: Measured) -> str:
    rows = [
        [method, str(width), str(len(values)), *(shown(list(c)) for c in zip(*values, strict=True))]
        for method, by_width in measured.items()
        for width, values in sorted(by_width.items())
    ]
    head = ["method", "width", "ensembles", "mean error", "std ratio in", "std ratio out"]
    return f"{table(head, rows)}\n±: standard error over ensembles."


def figure(measured: Measured, stem: Path) -> Path:
    """One panel for each measure, against width; bars are standard errors."""
    drawn, axes = plt.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
    for field, axis in enumerate(axes):
        for method, by_width in measured.items():
            title, colour, line, marker = look(method)
            widths = sorted(by_width)
            points = [mean_and_error([c[field] for c in by_width[w]]) for w in widths]
            means, errors = zip(*points, strict=True)
            axis.errorbar(
                widths, means, errors, color=colour, marker=marker, ls=line, capsize=3, label=title
            )
        axis.axhline(1, color="black", lw=0.8, ls=":")
        axis.set_xscale("log", base=2)
        axis.set_xlabel("width")
        axis.set_title(TITLES[field], fontsize=10)
    axes[0].legend()
    return save_figure(drawn, stem)


def claims(measured: Measured) -> list[Claim]:
    """Corollary 1 in numbers: at the largest width the mean is nearer to the law than at the least."""
    made = []
    for method, by_width in measured.items():
        least, most = min(by_width), max(by_width)
        if least == most:
            continue
        wide, narrow = (
            {repeat: c.mean_error for repeat, c in enumerate(by_width[width])}
            for width in (most, least)
        )
        gap = difference(wide, narrow)
        made.append(
            Claim(
                "Corollary 1",
                f"{look(method).title} approaches the NTKGP posterior as the network widens",
                f"error of the mean at width {most} less that at {least}: {gap.shown(2)}",
                below(gap),
            )
        )
    return made
