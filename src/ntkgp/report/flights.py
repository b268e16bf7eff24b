"""Figure 2: NLL against the test window, and error against precision."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from ntkgp.experiments.flights import KEPT_SHARES
from ntkgp.report.claims import (
    Claim,
    Interval,
    Scores,
    above,
    all_of,
    below,
    difference,
    interval,
)
from ntkgp.report.section import Section
from ntkgp.report.style import (
    NTKGP,
    band_meaning,
    by_method,
    draw_band,
    failures,
    look,
    save_figure,
    table,
)

FEWEST = 0.001
"""Share of the rows on which an error still says something."""


def report(results: dict[str, Any], stem: Path) -> Section:
    """Write the figure beside the results."""
    return Section(window_tables(results), [figure(results, stem)], claims(results))


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
    notes = ["±: 95 % confidence over repeats.", *failures(results["runs"])]
    return "\n\n".join([*blocks, *notes])


def figure(results: dict[str, Any], stem: Path) -> Path:
    """NLL by window; RMSE above each precision; RMSE on the most confident share."""
    drawn, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    starts = np.array(results["config"]["window_starts"]) / 1e6
    thresholds = np.array(results["precision_thresholds"])
    for method in methods(results):
        runs = runs_of(results, method)
        draw_band(axes[0], starts, by_window(results, method, "nll"), method)
        draw_band(axes[1], thresholds, [minutes_above(run) for run in runs], method)
        kept = [[run["minutes"] * e for e in run["kept_errors"]] for run in runs]
        draw_band(axes[2], 100 * KEPT_SHARES, kept, method)
    axes[0].set(xlabel="first row of the test window, millions", ylabel="NLL")
    axes[1].set(
        xlabel="precision threshold τ (delay of variance 1)",
        ylabel="RMSE above τ, minutes",
        xscale="log",
        ylim=(0, None),
    )
    axes[2].set(xlabel="most confident share kept, %", ylabel="RMSE, minutes", ylim=(0, None))
    axes[2].invert_xaxis()
    repeats = max((len(runs_of(results, method)) for method in methods(results)), default=0)
    axes[0].legend(fontsize=7, title=band_meaning(repeats), title_fontsize=7)
    return save_figure(drawn, stem)


def minutes_above(run: dict[str, Any]) -> list[float | None]:
    """RMSE above each precision, where enough rows are left."""
    return [
        run["minutes"] * error if error is not None and fraction >= FEWEST else None
        for error, fraction in zip(run["curve_errors"], run["curve_fractions"], strict=True)
    ]


def claims(results: dict[str, Any]) -> list[Claim]:
    if not all(runs_of(results, name) for name in ("deep-ensemble", *NTKGP)):
        return []
    made = [unshifted(results), graceful(results), later(results), precise(results)]
    return [*made, magnified(results)]


def in_window(results: dict[str, Any], method: str, window: int) -> Scores:
    """NLL in one window, by repeat."""
    return {run["repeat"]: run["windows"][window]["nll"] for run in runs_of(results, method)}


def unshifted(results: dict[str, Any]) -> Claim:
    theirs = in_window(results, "deep-ensemble", 0)
    gaps = {name: difference(in_window(results, name, 0), theirs) for name in NTKGP}
    return Claim(
        "Figure 2, left",
        "with little shift NTKGP is slightly worse than deep ensembles (verdict: higher NLL in the "
        "first window)",
        f"NLL less that of deep ensembles: {by_method(gaps, 3)}",
        all_of(*(above(gap) for gap in gaps.values())),
    )


def later(results: dict[str, Any]) -> Claim:
    windows = range(1, len(results["config"]["window_starts"]))
    gaps = {
        name: [
            difference(in_window(results, name, i), in_window(results, "deep-ensemble", i))
            for i in windows
        ]
        for name in NTKGP
    }
    values = "; ".join(
        f"{look(name).title} {', '.join(gap.shown(3) for gap in own)}" for name, own in gaps.items()
    )
    return Claim(
        "Figure 2, left",
        "NTKGP is better than deep ensembles at the later windows (verdict: lower NLL in each)",
        f"NLL less that of deep ensembles, window by window: {values}",
        all_of(*(below(gap) for own in gaps.values() for gap in own)),
    )


def graceful(results: dict[str, Any]) -> Claim:
    """The worst later window less the first one."""

    def rise(method: str) -> Scores:
        nlls = {
            run["repeat"]: [window["nll"] for window in run["windows"]]
            for run in runs_of(results, method)
        }
        return {repeat: max(own[1:]) - own[0] for repeat, own in nlls.items()}

    gaps = {name: difference(rise(name), rise("deep-ensemble")) for name in NTKGP}
    values = {name: interval(rise(name).values()) for name in ("deep-ensemble", *NTKGP)}
    return Claim(
        "Figure 2, left",
        "NTKGP fails more gracefully: its NLL rises less from the first window to the worst",
        f"rise of the NLL: {by_method(values, 3)}",
        all_of(*(below(gap) for gap in gaps.values())),
    )


def usable_thresholds(results: dict[str, Any]) -> list[int]:
    """Those that tell rows apart, and above which every method has one row in a thousand."""
    fractions = [_curves(results, name, "curve_fractions") for name in methods(results)]
    kept = np.array([run for own in fractions for run in own.values()])
    told_apart = (kept.min(axis=0) >= FEWEST) & (kept.min(axis=0) < 1)
    return np.flatnonzero(told_apart).tolist()


def precise(results: dict[str, Any]) -> Claim:
    """At each usable threshold.

    Each of the comparisons is made at a level that leaves 95 % for all of them together.
    """
    names = methods(results)
    errors = {name: _curves(results, name, "curve_errors") for name in names}
    pairs = [(a, b) for a in NTKGP for b in names if b not in NTKGP]
    usable = usable_thresholds(results)
    level = 1 - 0.05 / max(1, len(usable) * len(pairs))
    gaps = {(a, b): [_at(errors[a], errors[b], i, level) for i in usable] for a, b in pairs}
    values = ", ".join(
        f"{look(a).title} against {look(b).title} at {sum(gap.mean < 0 for gap in own)}, beyond chance at "
        f"{[below(gap) for gap in own].count('holds')}"
        for (a, b), own in gaps.items()
    )
    return Claim(
        "Figure 2, right",
        "NTKGP has lower error than every other method at all precision thresholds",
        f"mean error lower, of {len(usable)} thresholds: {values}",
        all_of(*(below(gap) for own in gaps.values() for gap in own)),
    )


def magnified(results: dict[str, Any]) -> Claim:
    """How much more NTKGP gains at the highest usable threshold than at the lowest."""
    usable = usable_thresholds(results) or [0]
    theirs = _curves(results, "deep-ensemble", "curve_errors")

    def gain(method: str, i: int) -> Scores:
        ours = _curves(results, method, "curve_errors")
        return {
            repeat: theirs[repeat][i] - ours[repeat][i] for repeat in ours.keys() & theirs.keys()
        }

    gaps = {name: difference(gain(name, usable[-1]), gain(name, usable[0])) for name in NTKGP}
    return Claim(
        "Figure 2, right",
        "the contrast is magnified for more confident predictions (verdict: error of deep ensembles "
        "less that of NTKGP, larger at the highest precision threshold than at the lowest)",
        f"grows by, in standard deviations of the delay: {by_method(gaps, 3)}",
        all_of(*(above(gap) for gap in gaps.values())),
    )


def _curves(results: dict[str, Any], method: str, field: str) -> dict[int, list[float]]:
    return {
        run["repeat"]: [float("nan") if v is None else v for v in run[field]]
        for run in runs_of(results, method)
    }


def _at(
    first: dict[int, list[float]], second: dict[int, list[float]], i: int, level: float
) -> Interval:
    one, other = ({r: curve[i] for r, curve in curves.items()} for curves in (first, second))
    return difference(one, other, level)
