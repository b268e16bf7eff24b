"""Figure 2: NLL against the test window, and error against precision."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from ntkgp.experiments.flights import KEPT_SHARES
from ntkgp.report.claims import Claim, above, all_of, below, difference, interval
from ntkgp.report.section import Section
from ntkgp.report.style import draw_band, look, save_figure, table

NTKGP = ("ntkgp-param", "ntkgp-fn")


def report(results: dict[str, Any], out: Path) -> Section:
    """Write the figure beside the results."""
    return Section(window_tables(results), [figure(results, out / "flights")], claims(results))


def methods(results: dict[str, Any]) -> list[str]:
    return [name for name in results["config"]["methods"] if runs_of(results, name)]


def runs_of(results: dict[str, Any], method: str) -> list[dict[str, Any]]:
    return [run for run in results["runs"] if run["method"] == method]


def by_window(results: dict[str, Any], method: str, score: str) -> list[list[float]]:
    """(repeats, windows); NLL of the standardised delay, RMSE in minutes."""
    factor = {"nll": lambda run: 1.0, "rmse": lambda run: run["minutes"]}[score]
    return [
        [factor(run) * window[score] for window in run["windows"]]
        for run in runs_of(results, method)
    ]


def window_tables(results: dict[str, Any]) -> str:
    starts = [f"from {start:,}" for start in results["config"]["window_starts"]]
    blocks = []
    for score, title in (("nll", "NLL, standardised delay"), ("rmse", "RMSE, minutes")):
        rows = [
            [
                look(method).title,
                str(len(runs_of(results, method))),
                *(
                    interval(column).shown(3)
                    for column in zip(*by_window(results, method, score), strict=True)
                ),
            ]
            for method in methods(results)
        ]
        blocks.append(table([title, "repeats", *starts], rows) if rows else "no ensembles yet")
    return "\n\n".join([*blocks, "±: 95 % confidence over repeats."])


def figure(results: dict[str, Any], stem: Path) -> Path:
    """NLL by window; RMSE above each precision; RMSE on the most confident share."""
    drawn, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    starts = np.array(results["config"]["window_starts"]) / 1e6
    thresholds = np.array(results["precision_thresholds"])
    for method in methods(results):
        runs = runs_of(results, method)
        draw_band(axes[0], starts, by_window(results, method, "nll"), method)
        minutes = [
            [None if e is None else run["minutes"] * e for e in run["curve_errors"]] for run in runs
        ]
        draw_band(axes[1], thresholds, minutes, method)
        kept = [[run["minutes"] * e for e in run["kept_errors"]] for run in runs]
        draw_band(axes[2], 100 * KEPT_SHARES, kept, method)
    axes[0].set(xlabel="first row of the test window, millions", ylabel="NLL")
    axes[1].set(xlabel="precision threshold τ", ylabel="RMSE above τ, minutes", xscale="log")
    axes[2].set(xlabel="most confident share kept, %", ylabel="RMSE, minutes")
    axes[2].invert_xaxis()
    axes[0].legend(fontsize=7)
    return save_figure(drawn, stem)


def claims(results: dict[str, Any]) -> list[Claim]:
    if not all(runs_of(results, name) for name in ("deep-ensemble", *NTKGP)):
        return []
    return [unshifted(results), graceful(results), later(results), precise(results)]


def nll_gaps(results: dict[str, Any], window: int) -> dict[str, Any]:
    """NLL of each NTKGP method less that of deep ensembles, in one window."""
    theirs = [run[window] for run in by_window(results, "deep-ensemble", "nll")]
    return {
        name: difference([run[window] for run in by_window(results, name, "nll")], theirs)
        for name in NTKGP
    }


def _shown(gaps: dict[str, Any], digits: int = 3) -> str:
    return ", ".join(f"{look(name).title} {gap.shown(digits)}" for name, gap in gaps.items())


def unshifted(results: dict[str, Any]) -> Claim:
    gaps = nll_gaps(results, 0)
    return Claim(
        "Figure 2, left",
        "with little shift NTKGP is slightly worse than deep ensembles",
        f"NLL less that of deep ensembles, first window: {_shown(gaps)}",
        all_of(*(above(gap) for gap in gaps.values())),
    )


def later(results: dict[str, Any]) -> Claim:
    gaps = nll_gaps(results, -1)
    return Claim(
        "Figure 2, left",
        "at the later windows NTKGP is better than deep ensembles",
        f"NLL less that of deep ensembles, last window: {_shown(gaps)}",
        all_of(*(below(gap) for gap in gaps.values())),
    )


def graceful(results: dict[str, Any]) -> Claim:
    """The worst later window less the first one."""

    def loss(method: str) -> list[float]:
        return [max(run[1:]) - run[0] for run in by_window(results, method, "nll")]

    gaps = {name: difference(loss(name), loss("deep-ensemble")) for name in NTKGP}
    shown = ", ".join(
        f"{look(name).title} {interval(loss(name)).shown(3)}" for name in ("deep-ensemble", *NTKGP)
    )
    return Claim(
        "Figure 2, left",
        "NTKGP fails more gracefully: its NLL rises less from the first window to the worst",
        f"rise of the NLL: {shown}",
        all_of(*(below(gap) for gap in gaps.values())),
    )


def precise(results: dict[str, Any]) -> Claim:
    """At each threshold where every method keeps at least one row in a thousand."""

    def curves(method: str, field: str) -> np.ndarray:
        values = [run[field] for run in runs_of(results, method)]
        return np.array([[np.nan if v is None else v for v in run] for run in values], float)

    names = methods(results)
    kept = np.min([curves(name, "curve_fractions").min(axis=0) for name in names], axis=0)
    usable = np.flatnonzero(kept >= 0.001)
    errors = {name: curves(name, "curve_errors") for name in names}
    baselines = np.min([errors[name] for name in names if name not in NTKGP], axis=0)
    lower = {
        name: [below(difference(list(errors[name][:, i]), list(baselines[:, i]))) for i in usable]
        for name in NTKGP
    }
    shown = ", ".join(
        f"{look(name).title} clearly lower at {v.count('holds')}, clearly higher at "
        f"{v.count('does not hold')}"
        for name, v in lower.items()
    )
    return Claim(
        "Figure 2, right",
        "NTKGP has lower error than every other method at all precision thresholds",
        f"of {len(usable)} thresholds that keep one row in a thousand: {shown}",
        all_of(*(verdict for v in lower.values() for verdict in v)),
    )
