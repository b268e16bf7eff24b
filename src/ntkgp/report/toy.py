"""Figure 1, the ensemble-size figure, and the table of closeness to the laws."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from ntkgp.report.claims import Claim, Verdict, all_of, below, between, interval
from ntkgp.report.closeness import Closeness, closeness, shown
from ntkgp.report.section import Section
from ntkgp.report.style import BLUE, GREEN, RED, save_figure, table

TITLES = {
    "deep-ensemble": "Deep ensemble",
    "rp-param": "RP-param",
    "ntkgp-param": "NTKGP-param",
}
SIZES = (2, 5, 10, 20)


def report(results: dict[str, Any], out: Path) -> Section:
    """Write the figures beside the results."""
    stems = [figure_1(results, out), *ensemble_sizes(results, out)]
    return Section(closeness_table(results), stems, claims(results))


def claims(results: dict[str, Any]) -> list[Claim]:
    """Those that Figure 1 is to show."""
    against_ntkgp = {
        method: [closeness(results, run, "ntkgp") for run in runs]
        for method in TITLES
        if (runs := [run for run in results["runs"] if run["method"] == method])
    }
    if against_ntkgp.keys() != TITLES.keys():
        return []
    return [
        similar_means(results, against_ntkgp),
        matching_spread(against_ntkgp),
        more_confident(against_ntkgp),
    ]


def similar_means(results: dict[str, Any], measured: dict[str, list[Closeness]]) -> Claim:
    members = results["config"]["members"]
    errors = {
        method: interval([c.mean_error / members**0.5 for c in measured[method]])
        for method in ("ntkgp-param", "rp-param")
    }
    shown = ", ".join(f"{TITLES[method]} {error.shown(2)}" for method, error in errors.items())
    return Claim(
        "Figure 1",
        "NTKGP-param and RP-param have means similar to the analytic NTKGP posterior's (verdict: "
        "within one of its standard deviations, root mean square)",
        f"in its standard deviations: {shown}",
        all_of(*(below(error, 1.0) for error in errors.values())),
    )


def matching_spread(measured: dict[str, list[Closeness]]) -> Claim:
    """A ratio within a quarter of 1, inside and outside the data."""
    ratios = {
        method: [
            interval(list(values))
            for values in zip(
                *((c.std_ratio_inside, c.std_ratio_outside) for c in runs), strict=True
            )
        ]
        for method, runs in measured.items()
    }
    shown = ", ".join(
        f"{TITLES[method]} {inside.shown(2)} / {outside.shown(2)}"
        for method, (inside, outside) in ratios.items()
    )
    matches = {
        method: all_of(*(between(ratio, 0.75, 1.25) for ratio in both))
        for method, both in ratios.items()
    }
    opposite: dict[Verdict, Verdict] = {"holds": "does not hold", "does not hold": "holds"}
    return Claim(
        "Figure 1",
        "only NTKGP-param's variances match the analytic NTKGP posterior's (verdict: standard "
        "deviations within a quarter, inside and outside the data, and not so for the others)",
        f"ratio of standard deviations inside / outside: {shown}",
        all_of(
            matches.pop("ntkgp-param"),
            *(opposite.get(verdict, "undecided") for verdict in matches.values()),
        ),
    )


def more_confident(measured: dict[str, list[Closeness]]) -> Claim:
    ratios = {
        method: interval([c.std_ratio_outside for c in measured[method]])
        for method in ("deep-ensemble", "rp-param")
    }
    shown = ", ".join(f"{TITLES[method]} {ratio.shown(2)}" for method, ratio in ratios.items())
    return Claim(
        "Figure 1",
        "the other ensembles are more confident than the NTKGP posterior away from the data",
        f"ratio of standard deviations outside the data: {shown}",
        all_of(*(below(ratio, 1.0) for ratio in ratios.values())),
    )


def closeness_table(results: dict[str, Any]) -> str:
    """One row a method, mean ± standard error over its ensembles."""
    rows = []
    for method in dict.fromkeys(run["method"] for run in results["runs"]):
        runs = [run for run in results["runs"] if run["method"] == method]
        measured = [closeness(results, run) for run in runs]
        rows.append(
            [
                method,
                runs[0]["law"],
                str(len(runs)),
                *(shown(list(column)) for column in zip(*measured, strict=True)),
                f"{np.median([run['objectives'] for run in runs]):.1f}",
                f"{np.mean([run['seconds'] for run in runs]):.1f}",
            ]
        )
    head = [
        "method",
        "law",
        "ensembles",
        "mean error",
        "std ratio in",
        "std ratio out",
        "objective",
    ]
    note = (
        f"K = {results['config']['members']}, solver {results['config']['solver']}. "
        "mean error: RMS of (ensemble mean - law mean) / (law std/√K), 1 for exact draws.\n"
        "std ratio: median of ensemble std / law std, inside and outside the training inputs. "
        "±: standard error over ensembles."
    )
    return f"{table([*head, 'seconds'], rows)}\n{note}"


def figure_1(results: dict[str, Any], out: Path) -> Path:
    """The analytic NTKGP in every panel, against NNGP and three ensembles."""
    nngp = results["laws"]["nngp"]
    panels = [("Analytic NNGP", np.array(nngp["mean"]), np.array(nngp["std"]))]
    for method, title in _drawn(results).items():
        outputs = _outputs(results, method)
        panels.append((title, outputs.mean(axis=0), outputs.std(axis=0)))
    size = (3.25 * len(panels), 3.2)
    figure, axes = plt.subplots(
        1, len(panels), figsize=size, sharex=True, sharey=True, layout="constrained", squeeze=False
    )
    for axis, (title, mean, std) in zip(axes[0], panels, strict=True):
        _panel(axis, results, mean, std)
        axis.set_title(title)
        axis.set_xlabel("x")
    axes[0, 0].set_ylabel("y")
    _legend(axes[0, -1])
    return save_figure(figure, out / "figure-1")


def ensemble_sizes(results: dict[str, Any], out: Path) -> list[Path]:
    """The first members of each ensemble alone, against the analytic NTKGP."""
    drawn = _drawn(results)
    if not drawn:
        return []
    sizes = [size for size in SIZES if size <= results["config"]["members"]]
    figure, axes = plt.subplots(
        len(drawn),
        len(sizes),
        figsize=(3.2 * len(sizes), 2.7 * len(drawn)),
        sharex=True,
        sharey=True,
        layout="constrained",
        squeeze=False,
    )
    for row, (method, title) in zip(axes, drawn.items(), strict=True):
        row[0].set_ylabel(title)
        for axis, size in zip(row, sizes, strict=True):
            outputs = _outputs(results, method)[:size]
            _panel(axis, results, outputs.mean(axis=0), outputs.std(axis=0))
    for axis, size in zip(axes[0], sizes, strict=True):
        axis.set_title(f"K = {size}")
    for axis in axes[-1]:
        axis.set_xlabel("x")
    _legend(axes[0, -1])
    return [save_figure(figure, out / "ensemble-sizes")]


def _drawn(results: dict[str, Any]) -> dict[str, str]:
    """The methods of the paper's figure that this run has."""
    present = {run["method"] for run in results["runs"]}
    return {method: title for method, title in TITLES.items() if method in present}


def _outputs(results: dict[str, Any], method: str) -> NDArray[Any]:
    """Members of the first ensemble of a method, (k, grid)."""
    return np.array(next(r["outputs"] for r in results["runs"] if r["method"] == method))


def _panel(axis: Axes, results: dict[str, Any], mean: NDArray[Any], std: NDArray[Any]) -> None:
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


def _legend(axis: Axes) -> None:
    axis.legend(fontsize=7, loc="upper center", ncols=2)
