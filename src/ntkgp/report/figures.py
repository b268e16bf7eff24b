"""Figures in one style, written as PNG and SVG. Only this module imports matplotlib."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.files import replacing
from ntkgp.report.intervals import interval
from ntkgp.report.looks import look

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


def subplots(
    rows: int, columns: int, size: tuple[float | int, float | int], **options: Any
) -> tuple["matplotlib.figure.Figure", NDArray[Any]]:
    """A figure of so many inches, and its axes (rows, columns)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def draw_band(
    axis: "matplotlib.axes.Axes",
    x: NDArray[Any],
    repeats: Sequence[Sequence[float | None]],
    method: str,
) -> None:
    """The mean over repeats (r, points) with a band as in `band_meaning`; a gap where one has no value."""
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


def legend_of_bands(axis: "matplotlib.axes.Axes", n_repeats: int) -> None:
    """A legend that says what bands are. The interval of two repeats would hide the figure."""
    meaning = "bands: 95 % confidence" if n_repeats > 2 else "bands: range of 2 repeats"
    axis.legend(fontsize=7, title=meaning if n_repeats > 1 else None, title_fontsize=7)


def save_figure(figure: "matplotlib.figure.Figure", stem: Path) -> None:
    """Write stem.png and stem.svg."""
    for kind in ("png", "svg"):
        with replacing(stem.with_name(f"{stem.name}.{kind}")) as file:
            figure.savefig(file, format=kind, dpi=150)
