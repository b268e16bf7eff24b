"""Figure 2: NLL against the test window, and error against precision."""

import numpy as np

from ntkgp.experiments.compared import NTKGP, failures, methods_of, runs_of
from ntkgp.experiments.results import Record, Results
from ntkgp.report.claims import Claim, above, all_of, below
from ntkgp.report.figures import draw_band, legend_of_bands, subplots
from ntkgp.report.intervals import MEANING, Interval, Scores, difference, interval
from ntkgp.report.looks import by_method, look
from ntkgp.report.section import Drawing, Section
from ntkgp.report.tables import table

FEWEST = 0.001
"""Share of the rows on which an error still says something."""


def report(results: Results) -> Section:
    """Two tables by window, one figure, and the claims."""
    return Section(window_tables(results), [figure(results)], claims(results))


def by_window(results: Results, method: str, score: str) -> list[list[float]]:
    """(repeats, windows); NLL of the standardised delay, RMSE in minutes."""
    return [
        [window[score] * (run["minutes"] if score == "rmse" else 1) for window in run["windows"]]
        for run in runs_of(results, method)
    ]


def window_tables(results: Results) -> str:
    starts = [f"from {start:,}" for start in results["config"]["window_starts"]]
    blocks = []
    for score, title in (("nll", "NLL, standardised delay"), ("rmse", "RMSE, minutes")):
        rows = []
        for method in methods_of(results):
            values = by_window(results, method, score)
            shown = (interval(column).shown(3) for column in zip(*values, strict=True))
            rows.append(
                {title: look(method).title, "repeats": str(len(values))}
                | dict(zip(starts, shown, strict=True))
            )
        blocks.append(table(rows))
    return "\n\n".join([*blocks, MEANING, *failures(results)])


def figure(results: Results) -> Drawing:
    """NLL by window; RMSE above each precision; RMSE on the most confident share."""
    drawn, ((left, middle, right),) = subplots(1, 3, (12, 3.6))
    starts = np.array(results["config"]["window_starts"]) / 1e6
    thresholds, shares = (np.array(results[n]) for n in ("precision_thresholds", "kept_shares"))
    methods = methods_of(results)
    for method in methods:
        runs = runs_of(results, method)
        draw_band(left, starts, by_window(results, method, "nll"), method)
        draw_band(middle, thresholds, [minutes_above(run) for run in runs], method)
        kept = [[run["minutes"] * e for e in run["kept_errors"]] for run in runs]
        draw_band(right, 100 * shares, kept, method)
    left.set(xlabel="first row of the test window, millions", ylabel="NLL")
    middle.set(
        xlabel="precision threshold τ (delay of variance 1)",
        ylabel="RMSE above τ, minutes",
        xscale="log",
        ylim=(0, None),
    )
    right.set(xlabel="most confident share kept, %", ylabel="RMSE, minutes", ylim=(0, None))
    right.invert_xaxis()
    legend_of_bands(left, max((len(runs_of(results, m)) for m in methods), default=0))
    return Drawing(
        drawn,
        "Left: the further in time from training, the higher the NLL. Middle and right: error on the "
        "flights of which a method is surest, by precision and by share.",
    )


def minutes_above(run: Record) -> list[float | None]:
    """RMSE above each precision, where enough rows are left."""
    return [
        run["minutes"] * error if error is not None and fraction >= FEWEST else None
        for error, fraction in zip(run["curve_errors"], run["curve_fractions"], strict=True)
    ]


def claims(results: Results) -> list[Claim]:
    if not all(runs_of(results, name) for name in ("deep-ensemble", *NTKGP)):
        return []
    made = [unshifted(results), graceful(results), later(results), precise(results)]
    return [*made, magnified(results)]


def in_window(results: Results, method: str, window: int) -> Scores:
    """NLL in one window, by repeat."""
    return {run["repeat"]: run["windows"][window]["nll"] for run in runs_of(results, method)}


def unshifted(results: Results) -> Claim:
    theirs = in_window(results, "deep-ensemble", 0)
    gaps = {name: difference(in_window(results, name, 0), theirs) for name in NTKGP}
    return Claim(
        "Figure 2, left",
        "with little shift NTKGP is slightly worse than deep ensembles (verdict: higher NLL in the "
        "first window)",
        f"NLL less that of deep ensembles: {by_method(gaps, 3)}",
        all_of(*(above(gap) for gap in gaps.values())),
    )


def later(results: Results) -> Claim:
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


def graceful(results: Results) -> Claim:
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


def usable_thresholds(results: Results) -> list[int]:
    """Those that tell rows apart, and above which every method has one row in a thousand."""
    fractions = [_curves(results, name, "curve_fractions") for name in methods_of(results)]
    kept = np.array([run for own in fractions for run in own.values()])
    told_apart = (kept.min(axis=0) >= FEWEST) & (kept.min(axis=0) < 1)
    return np.flatnonzero(told_apart).tolist()


def precise(results: Results) -> Claim:
    """At each usable threshold.

    Each of the comparisons is made at a level that leaves 95 % for all of them together.
    """
    names = methods_of(results)
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


def magnified(results: Results) -> Claim:
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


def _curves(results: Results, method: str, field: str) -> dict[int, list[float]]:
    return {
        run["repeat"]: [float("nan") if v is None else v for v in run[field]]
        for run in runs_of(results, method)
    }


def _at(
    first: dict[int, list[float]], second: dict[int, list[float]], i: int, level: float
) -> Interval:
    one, other = ({r: curve[i] for r, curve in curves.items()} for curves in (first, second))
    return difference(one, other, level)
