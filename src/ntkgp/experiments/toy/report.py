"""Figures 1 and 7, and the table of closeness to the laws."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.experiments.compared import failures, runs_of
from ntkgp.experiments.results import Results
from ntkgp.experiments.toy.claims import claims, drawn_methods
from ntkgp.experiments.toy.closeness import closeness, columns
from ntkgp.laws.table import LAWS
from ntkgp.report.figures import subplots
from ntkgp.report.intervals import MEANING
from ntkgp.report.looks import BLUE, GREEN, RED, look
from ntkgp.report.section import Drawing, Section
from ntkgp.report.tables import table

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

SIZES = (2, 5, 10, 20)
"""Members of the ensembles that Figure 7 draws."""
Moments = tuple[NDArray[Any], NDArray[Any]]
"""Mean and standard deviation over the grid."""


def report(results: Results) -> Section:
    """The figures are of each method's first ensemble, the table and the claims of all."""
    text = "\n".join([closeness_table(results), *failures(results)])
    return Section(text, [figure_1(results), *ensemble_sizes(results)], claims(results))


def closeness_table(results: Results) -> str:
    """One row for each method, with the mean over its ensembles."""
    rows = []
    for method in dict.fromkeys(run["method"] for run in results["runs"]):
        runs = runs_of(results, method)
        rows.append(
            {
                "method": method,
                "law": runs[0]["law"],
                "ensembles": str(len(runs)),
                **columns([closeness(results, run) for run in runs]),
                "objective": f"{np.median([run['objectives'] for run in runs]):.1f}",
                "seconds": f"{np.mean([run['seconds'] for run in runs]):.1f}",
            }
        )
    note = (
        f"K = {results['config']['members']}, solver {results['config']['solver']}. "
        "mean error: RMS of (ensemble mean - law mean) / (law std/√K), 1 for exact draws.\n"
        "std ratio: median of ensemble std / law std, inside and outside the training inputs. "
        f"{MEANING}"
    )
    return "\n".join([table(rows), note, *noise_free(results)])


def noise_free(results: Results) -> list[str]:
    """Why a method is so far from a law with σ = 0."""
    methods = {run["method"] for run in results["runs"] if not LAWS[run["law"]].noisy}
    return [
        f"{look(method).title}: its law has σ = 0, so it runs through every noisy target and its std "
        "there is almost 0.\nNo training of finite length gets that close, and an error counted in that "
        "std is huge. The figure shows the fit itself."
        for method in sorted(methods)
    ]


def figure_1(results: Results) -> Drawing:
    """The analytic NTKGP in every panel, against NNGP and three ensembles."""
    nngp = results["laws"]["nngp"]
    panels = {"Analytic NNGP": (np.array(nngp["mean"]), np.array(nngp["std"]))}
    for method in drawn_methods(results):
        panels[look(method).title] = _moments(results, method)
    return Drawing(
        _panels(results, {"y": panels}, (3.25, 3.2)),
        "Orange in every panel: the exact NTKGP posterior. Blue: what the title says. Compare how wide "
        "the two bands are away from the data: NTKGP-param is to be as unsure as the posterior, the "
        "others are surer than they should be.",
    )


def ensemble_sizes(results: Results) -> list[Drawing]:
    """The first members of each ensemble alone, against the analytic NTKGP."""
    sizes = [size for size in SIZES if size <= results["config"]["members"]]
    rows = {
        look(method).title: {f"K = {size}": _moments(results, method, size) for size in sizes}
        for method in drawn_methods(results)
    }
    if not rows:
        return []
    figure = _panels(results, rows, (3.2, 2.7))
    return [Drawing(figure, "The first K members of each ensemble alone.", "-sizes")]


def _moments(results: Results, method: str, size: int | None = None) -> Moments:
    """Mean and spread of the first members of a method's first ensemble, over the grid."""
    outputs = np.array(runs_of(results, method)[0]["outputs"])[:size]
    return outputs.mean(axis=0), outputs.std(axis=0)


def _panels(
    results: Results, rows: Mapping[str, Mapping[str, Moments]], inches: tuple[float, float]
) -> "matplotlib.figure.Figure":
    """A row for each label, in it a panel for each title."""
    n, m = len(rows), len(next(iter(rows.values())))
    figure, axes = subplots(n, m, (inches[0] * m, inches[1] * n), sharex=True, sharey=True)
    for line, (label, panels) in zip(axes, rows.items(), strict=True):
        line[0].set_ylabel(label)
        for axis, (title, moments) in zip(line, panels.items(), strict=True):
            _panel(axis, results, *moments)
            if axis in axes[0]:
                axis.set_title(title)
    for axis in axes[-1]:
        axis.set_xlabel("x")
    axes[0, -1].legend(
        title="bands: 95 % intervals, noise included",
        fontsize=7,
        title_fontsize=7,
        loc="upper center",
        ncols=2,
    )
    return figure


def _panel(
    axis: "matplotlib.axes.Axes", results: Results, mean: NDArray[Any], std: NDArray[Any]
) -> None:
    """One predictive in blue beside the analytic NTKGP in red: means and 95% intervals."""
    grid, ntkgp = np.array(results["grid"]), results["laws"]["ntkgp"]
    pairs = [
        (RED, "//", "analytic NTKGP", np.array(ntkgp["mean"]), np.array(ntkgp["std"])),
        (BLUE, None, "this method", mean, std),
    ]
    for colour, hatch, label, middle, spread in pairs:
        half = 1.96 * np.sqrt(spread**2 + results["noise_std"] ** 2)
        axis.plot(grid, middle, color=colour, label=label, lw=1.5)
        axis.fill_between(
            grid, middle - half, middle + half, facecolor=colour, alpha=0.2, hatch=hatch, lw=0
        )
        for edge in (middle - half, middle + half):
            axis.plot(grid, edge, color=colour, lw=0.6, alpha=0.8)
    axis.plot(grid, grid * np.sin(grid), "k:", lw=1.2, label="x sin x")
    axis.plot(
        results["x"], results["y"], "o", color=GREEN, ms=4, mec="black", mew=0.4, label="data"
    )
    axis.set_ylim(-6.5, 8.5)
