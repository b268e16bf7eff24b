"""Figure 2: NLL against the test window, and error against precision."""

from collections.abc import Callable

import numpy as np

from ntkgp.experiments.compared import NTKGP, failures, methods_of, runs_of
from ntkgp.experiments.results import Record, Results
from ntkgp.report.claims import HOLDS, Claim, above, all_of, below
from ntkgp.report.figures import draw_band, legend_of_bands, subplots
from ntkgp.report.intervals import MEANING, Interval, Scores, difference, interval
from ntkgp.report.looks import by_method, look
from ntkgp.report.section import Drawing, Section
from ntkgp.report.tables import table

FEWEST = 0.001
"""The least share of rows for which an error means something."""
Score = Callable[[Record], float]
"""The score of one ensemble."""


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
    makers = (unshifted, graceful, later, precise, magnified)
    return [make(results) for make in makers]


def by_repeat(results: Results, method: str, score: Score) -> Scores:
    return {run["repeat"]: score(run) for run in runs_of(results, method)}


def less_deep_ensembles(results: Results, score: Score) -> dict[str, Interval]:
    """The score of each NTKGP method less that of deep ensembles."""
    theirs = by_repeat(results, "deep-ensemble", score)
    return {name: difference(by_repeat(results, name, score), theirs) for name in NTKGP}


def nll_in(window: int) -> Score:
    return lambda run: run["windows"][window]["nll"]


def rise(run: Record) -> float:
    """NLL of the worst later window less that of the first one."""
    first, *others = (window["nll"] for window in run["windows"])
    return max(others) - first


def error_above(threshold: int) -> Score:
    """RMSE in standard deviations of the delay, above one precision; NaN if no row is left."""
    return lambda run: np.array(run["curve_errors"], float)[threshold].item()


def unshifted(results: Results) -> Claim:
    gaps = less_deep_ensembles(results, nll_in(0))
    return Claim(
        "Figure 2, left",
        "with little shift NTKGP is slightly worse than deep ensembles (verdict: higher NLL in the "
        "first window)",
        f"NLL less that of deep ensembles: {by_method(gaps, 3)}",
        all_of(*map(above, gaps.values())),
    )


def later(results: Results) -> Claim:
    windows = range(1, len(results["config"]["window_starts"]))
    gaps = [less_deep_ensembles(results, nll_in(window)) for window in windows]
    values = "; ".join(
        f"{look(name).title} {', '.join(own[name].shown(3) for own in gaps)}" for name in NTKGP
    )
    return Claim(
        "Figure 2, left",
        "NTKGP is better than deep ensembles at the later windows (verdict: lower NLL in each)",
        f"NLL less that of deep ensembles, window by window: {values}",
        all_of(*(below(gap) for own in gaps for gap in own.values())),
    )


def graceful(results: Results) -> Claim:
    methods = ("deep-ensemble", *NTKGP)
    rises = {name: interval(by_repeat(results, name, rise).values()) for name in methods}
    return Claim(
        "Figure 2, left",
        "NTKGP fails more gracefully: its NLL rises less from the first window to the worst",
        f"rise of the NLL: {by_method(rises, 3)}",
        all_of(*map(below, less_deep_ensembles(results, rise).values())),
    )


def usable_thresholds(results: Results) -> list[int]:
    """The thresholds that tell rows apart and leave every method one row in a thousand."""
    kept = np.array([run["curve_fractions"] for run in results["runs"]]).min(axis=0)
    return np.flatnonzero((kept >= FEWEST) & (kept < 1)).tolist()


def precise(results: Results) -> Claim:
    """The claim at each usable threshold.

    Each of the comparisons is made at a level that leaves 95 % for all of them together.
    """
    pairs = [(a, b) for a in NTKGP for b in methods_of(results) if b not in NTKGP]
    usable = usable_thresholds(results)
    level = 1 - 0.05 / max(1, len(usable) * len(pairs))

    def gap(one: str, other: str, threshold: int) -> Interval:
        score = error_above(threshold)
        return difference(by_repeat(results, one, score), by_repeat(results, other, score), level)

    gaps = {(a, b): [gap(a, b, threshold) for threshold in usable] for a, b in pairs}
    values = ", ".join(
        f"{look(a).title} against {look(b).title} at {sum(one.mean < 0 for one in own)}, beyond chance at "
        f"{[below(one) for one in own].count(HOLDS)}"
        for (a, b), own in gaps.items()
    )
    return Claim(
        "Figure 2, right",
        "NTKGP has lower error than every other method at all precision thresholds",
        f"mean error lower, of {len(usable)} thresholds: {values}",
        all_of(*(below(one) for own in gaps.values() for one in own)),
    )


def magnified(results: Results) -> Claim:
    """How much more NTKGP gains at the highest usable threshold than at the lowest."""
    usable = usable_thresholds(results) or [0]
    lowest, highest = error_above(usable[0]), error_above(usable[-1])
    gaps = less_deep_ensembles(results, lambda run: lowest(run) - highest(run))
    return Claim(
        "Figure 2, right",
        "the contrast is magnified for more confident predictions (verdict: error of deep ensembles "
        "less that of NTKGP, larger at the highest precision threshold than at the lowest)",
        f"grows by, in standard deviations of the delay: {by_method(gaps, 3)}",
        all_of(*map(above, gaps.values())),
    )
