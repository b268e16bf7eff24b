"""One look for all figures and tables: readable in print and by colour-blind eyes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ntkgp.core.files import replacing
from ntkgp.report.claims import Interval, interval

# Okabe and Ito's palette, distinguishable with any colour vision and in grey.
BLUE, RED, GREEN, ORANGE = "#0072b2", "#d55e00", "#009e73", "#e69f00"
PURPLE, SKY = "#cc79a7", "#56b4e9"


class Look(NamedTuple):
    """How a method is named and drawn: colour, line and marker differ between any two."""

    title: str
    colour: str
    line: str
    marker: str


LOOKS = {
    "deep-ensemble": Look("Deep ensemble", "black", "-", "o"),
    "rp-param": Look("RP-param", SKY, "--", "s"),
    "rp-fn": Look("RP-fn", PURPLE, "-.", "D"),
    "ntkgp-param": Look("NTKGP-param", RED, "-", "^"),
    "ntkgp-fn": Look("NTKGP-fn", ORANGE, "--", "v"),
    "ntkgp-lin": Look("NTKGP-Lin", GREEN, ":", "P"),
    "ntkgp": Look("Analytic NTKGP", BLUE, ":", "*"),
}


NTKGP = ("ntkgp-param", "ntkgp-fn")
"""The paper's own, about which its claims are."""


def look(method: str) -> Look:
    """That of a method, known here or not."""
    return LOOKS.get(method, Look(method, "0.5", ":", "x"))


def by_method(values: Mapping[str, Interval], digits: int, factor: int = 1) -> str:
    """One number for each method, in a line."""
    return ", ".join(
        f"{look(m).title} {value.shown(digits, factor)}" for m, value in values.items()
    )


def draw_band(
    axis: Axes, x: NDArray[Any], repeats: Sequence[Sequence[float | None]], method: str
) -> None:
    """The mean over repeats (r, points) with a band as `band_meaning` says; gaps where one has no value."""
    values = np.array([[np.nan if v is None else v for v in run] for run in repeats], float)
    title, colour, line, marker = look(method)
    mean = values.mean(axis=0)
    every = max(1, len(x) // 10)
    axis.plot(
        x, mean, color=colour, ls=line, marker=marker, markevery=every, ms=4, lw=1.5, label=title
    )
    if len(values) > 2:
        half = np.array([interval(list(column)).half for column in values.T])
        axis.fill_between(x, mean - half, mean + half, color=colour, alpha=0.15, lw=0)
    elif len(values) == 2:
        axis.fill_between(x, *values, color=colour, alpha=0.15, lw=0)


def band_meaning(n_repeats: int) -> str | None:
    """For a legend. The confidence interval of two repeats is so wide that it would hide the figure."""
    if n_repeats < 2:
        return None
    return "bands: 95 % confidence" if n_repeats > 2 else "bands: range of 2 repeats"


def save_figure(figure: Figure, stem: Path) -> Path:
    """Write stem.png and stem.svg, close the figure, and return the stem."""
    for kind in ("png", "svg"):
        with replacing(stem.with_name(f"{stem.name}.{kind}")) as file:
            figure.savefig(file, format=kind, dpi=150)
    plt.close(figure)
    return stem


def failures(runs: list[dict[str, Any]]) -> list[str]:
    """A line for each ensemble that has lost members, whose training was not finite in the end."""
    return [
        f"{look(run['method']).title}, repeat {run.get('repeat', run.get('seed', 0))}: members "
        f"{', '.join(map(str, run['failed']))} failed and are left out."
        for run in runs
        if run.get("failed")
    ]


def table(head: list[str], rows: list[list[str]]) -> str:
    """Columns aligned for a terminal, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def line(cells: list[str]) -> str:
        first = cells[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "  ".join([first, *rest])

    return "\n".join([line(head), "  ".join("-" * width for width in widths), *map(line, rows)])
