"""Figure 1, the ensemble-size figure, and the table of closeness to the laws."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from ntkgp.report.claims import (
    Claim,
    Scores,
    Verdict,
    above,
    all_of,
    below,
    between,
    certain,
    difference,
    interval,
)
from ntkgp.report.closeness import Closeness, closeness, shown
from ntkgp.report.section import Section
from ntkgp.report.style import BLUE, GREEN, RED, by_method, failures, look, save_figure, table

DRAWN = ("deep-ensemble", "rp-param", "ntkgp-param")
"""The ensembles of the paper's figure."""
SIZES = (2, 5, 10, 20)
FEW = 5
"""Members that count as few."""


def report(results: dict[str, Any], stem: Path) -> Section:
    """Write the figures beside the results."""
    sizes = ensemble_sizes(results, stem.with_name(f"{stem.name}-sizes"))
    text = "\n".join([closeness_table(results), *failures(results["runs"])])
    return Section(text, [figure_1(results, stem), *sizes], claims(results))


def claims(results: dict[str, Any]) -> list[Claim]:
    """Those that Figure 1 is to show."""
    if _drawn(results) != list(DRAWN):
        return []
    against_ntkgp = {
        method: [closeness(results, run, "ntkgp") for run in _runs(results, method)]
        for method in DRAWN
    }
    made = [
        similar_means(results),
        matching_spread(against_ntkgp),
        more_confident(results, against_ntkgp),
    ]
    few = [size for size in SIZES if size <= FEW and size < results["config"]["members"]]
    return [*made, small_means(results, max(few)), small_spread(results, max(few))] if few else made


def groups(run: dict[str, Any], size: int) -> NDArray[Any]:
    """The members of an ensemble as ensembles of this size, (groups, size, grid)."""
    outputs = np.array(run["outputs"])
    n = len(outputs) // size
    return outputs[: n * size].reshape(n, size, -1)


def mean_errors(results: dict[str, Any], method: str, size: int | None = None) -> Scores:
    """Root mean square of (mean - NTKGP mean) / NTKGP std, by repeat.

    Of the whole ensemble, or the mean over its groups of `size` members.
    """
    law = results["laws"]["ntkgp"]

    def error(run: dict[str, Any]) -> float:
        means = groups(run, size or len(run["outputs"])).mean(axis=1)
        scaled = (means - np.array(law["mean"])) / np.array(law["std"])
        return float(np.sqrt(np.mean(scaled**2, axis=1)).mean())

    return {run["seed"]: error(run) for run in _runs(results, method)}


def similar_means(results: dict[str, Any]) -> Claim:
    errors = {
        method: interval(mean_errors(results, method).values())
        for method in ("ntkgp-param", "rp-param")
    }
    return Claim(
        "Figure 1",
        "NTKGP-param and RP-param have means similar to the analytic NTKGP posterior's (verdict: "
        "within one of its standard deviations, root mean square)",
        f"in its standard deviations: {by_method(errors, 2)}",
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
        f"{look(method).title} {inside.shown(2)} / {outside.shown(2)}"
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


def more_confident(results: dict[str, Any], measured: dict[str, list[Closeness]]) -> Claim:
    nngp = closeness(results, results["laws"]["nngp"] | {"members": 1}, "ntkgp").std_ratio_outside
    ratios = {
        method: interval([c.std_ratio_outside for c in measured[method]])
        for method in ("deep-ensemble", "rp-param")
    }
    return Claim(
        "Figure 1",
        "the analytic NNGP and the other ensembles are more confident than the NTKGP posterior away "
        "from the data",
        f"ratio of standard deviations outside the data: NNGP {nngp:.2f}, {by_method(ratios, 2)}",
        all_of(certain(nngp < 1), *(below(ratio, 1.0) for ratio in ratios.values())),
    )


def small_means(results: dict[str, Any], size: int) -> Claim:
    """In groups of `size` members, the mean is worse than RP-param's."""
    few, all_members = (
        difference(mean_errors(results, "ntkgp-param", k), mean_errors(results, "rp-param", k))
        for k in (size, None)
    )
    return Claim(
        "Figure 7",
        "with few members the mean of NTKGP-param is a worse approximation of the NTKGP posterior's "
        f"than RP-param's (verdict: a larger error with {size} members)",
        f"NTKGP-param less RP-param, in the posterior's standard deviations: {few.shown(2)} with {size} "
        f"members, {all_members.shown(2)} with all",
        above(few),
    )


def small_spread(results: dict[str, Any], size: int) -> Claim:
    """The mean over groups of `size` members of each ensemble, with K - 1 in the denominator."""

    def ratios(run: dict[str, Any]) -> NDArray[Any]:
        found = [
            closeness(
                results,
                {"members": size, "mean": group.mean(axis=0), "std": group.std(axis=0, ddof=1)},
                "ntkgp",
            )
            for group in groups(run, size)
        ]
        return np.mean([(c.std_ratio_inside, c.std_ratio_outside) for c in found], axis=0)

    of_runs = np.array([ratios(run) for run in _runs(results, "ntkgp-param")])
    inside, outside = (interval(list(column)) for column in of_runs.T)
    return Claim(
        "Figure 7",
        "the spread of NTKGP-param matches even with few members (verdict: standard deviations of "
        f"{size} members within a half, inside and outside the data)",
        f"ratio of standard deviations inside / outside: {inside.shown(2)} / {outside.shown(2)}",
        all_of(between(inside, 0.5, 1.5), between(outside, 0.5, 1.5)),
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


def figure_1(results: dict[str, Any], stem: Path) -> Path:
    """The analytic NTKGP in every panel, against NNGP and three ensembles."""
    nngp = results["laws"]["nngp"]
    panels = [("Analytic NNGP", np.array(nngp["mean"]), np.array(nngp["std"]))]
    for method in _drawn(results):
        outputs = _outputs(results, method)
        panels.append((look(method).title, outputs.mean(axis=0), outputs.std(axis=0)))
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
    return save_figure(figure, stem)


def ensemble_sizes(results: dict[str, Any], stem: Path) -> list[Path]:
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
    for row, method in zip(axes, drawn, strict=True):
        row[0].set_ylabel(look(method).title)
        for axis, size in zip(row, sizes, strict=True):
            outputs = _outputs(results, method)[:size]
            _panel(axis, results, outputs.mean(axis=0), outputs.std(axis=0))
    for axis, size in zip(axes[0], sizes, strict=True):
        axis.set_title(f"K = {size}")
    for axis in axes[-1]:
        axis.set_xlabel("x")
    _legend(axes[0, -1])
    return [save_figure(figure, stem)]


def _drawn(results: dict[str, Any]) -> list[str]:
    """The methods of the paper's figure that this run has."""
    return [method for method in DRAWN if _runs(results, method)]


def _runs(results: dict[str, Any], method: str) -> list[dict[str, Any]]:
    return [run for run in results["runs"] if run["method"] == method]


def _outputs(results: dict[str, Any], method: str) -> NDArray[Any]:
    """Members of the first ensemble of a method, (k, grid)."""
    return np.array(_runs(results, method)[0]["outputs"])


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
    title = "bands: 95 % intervals, noise included"
    axis.legend(fontsize=7, title=title, title_fontsize=7, loc="upper center", ncols=2)
