"""Figures 3 to 6 and 8: error against ensemble size and confidence, and entropies, for any images."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ntkgp.metrics.curves import CONFIDENCE_THRESHOLDS
from ntkgp.report.claims import (
    Claim,
    Interval,
    Verdict,
    above,
    all_of,
    below,
    between,
    difference,
    interval,
)
from ntkgp.report.section import Section
from ntkgp.report.style import draw_band, look, save_figure, table

NAMES = {
    "digits": ("digits", "letters"),
    "mnist": ("MNIST", "NotMNIST"),
    "cifar": ("CIFAR-10", "SVHN"),
}
NTKGP, BASELINES = ("ntkgp-param", "ntkgp-fn"), ("deep-ensemble", "rp-param", "rp-fn")
AT_CONFIDENCE = 0.6
SIZES = (1, 3, 10)
"""Of the ensembles whose entropies are drawn."""


def report(results: dict[str, Any], out: Path) -> Section:
    """Write the figures beside the results."""
    scales = results["config"]["target_scales"]
    stems = []
    for scale in scales:
        suffix = "" if scale == "matched" else f"-{scale}-kappa"
        stems.append(errors_figure(results, scale, out / f"{results['experiment']}{suffix}"))
        stems.append(
            entropy_figure(results, scale, out / f"{results['experiment']}-entropies{suffix}")
        )
    text = "\n\n".join(score_table(results, scale) for scale in scales)
    return Section("\n\n".join([text, *law_lines(results)]), stems, claims(results))


def runs_of(results: dict[str, Any], method: str, scale: str = "matched") -> list[dict[str, Any]]:
    """The ensembles of a method, or the analytic law as "ntkgp"."""
    return [
        run
        for run in results["runs"]
        if run["method"] == method and run["scale"] == scale and run["kind"] != "choice"
    ]


def drawn(results: dict[str, Any], scale: str) -> list[str]:
    methods = [*results["config"]["methods"], "ntkgp"]
    return [method for method in methods if runs_of(results, method, scale)]


def final(results: dict[str, Any], method: str, score: str, scale: str = "matched") -> list[Any]:
    """A score of the whole ensembles, one for each repeat."""
    return [run["by_size"][-1][score] for run in runs_of(results, method, scale)]


def error_at(
    results: dict[str, Any], method: str, confidence: float, scale: str = "matched"
) -> list[float]:
    """Error on the points above a confidence, one for each repeat; 0 where there is none."""
    index = round(confidence * 100)
    curves = final(results, method, "curve_errors", scale)
    return [curve[index] or 0.0 for curve in curves]


def mean_entropy(
    results: dict[str, Any], method: str, where: str, scale: str = "matched"
) -> list[float]:
    """From the histogram, one for each repeat."""
    bins = results["entropy_bins"]
    centres = (np.arange(bins) + 0.5) / bins * np.log(results["classes"])
    counts = np.array(final(results, method, f"entropies_{where}", scale), float)
    return (counts @ centres / counts.sum(axis=1)).tolist()


def score_table(results: dict[str, Any], scale: str) -> str:
    inside, outside = NAMES[results["experiment"]]
    head = [
        "method",
        "repeats",
        "K",
        f"{inside} error %",
        "NLL",
        "ECE %",
        "AUROC",
        f"error % above {AT_CONFIDENCE}",
        "seconds",
    ]
    rows = []
    for method in drawn(results, scale):
        runs = runs_of(results, method, scale)
        rows.append(
            [
                look(method).title,
                str(len(runs)),
                str(runs[0]["by_size"][-1]["members"]),
                interval(final(results, method, "error", scale)).shown(2, 100),
                interval(final(results, method, "nll", scale)).shown(4),
                interval(final(results, method, "ece", scale)).shown(2, 100),
                interval(final(results, method, "auroc", scale)).shown(4),
                interval(error_at(results, method, AT_CONFIDENCE, scale)).shown(1, 100),
                f"{np.mean([run['seconds'] for run in runs]):.0f}",
            ]
        )
    rule = "its own initial second moment" if scale == "matched" else "the NTK's for all methods"
    note = (
        f"κ by {rule}. AUROC: {inside} against {outside} by entropy. Error above {AT_CONFIDENCE}: on "
        f"both sets together, every prediction on {outside} an error. ±: 95 % confidence."
    )
    return f"{table(head, rows)}\n{note}" if rows else "no ensembles yet"


def law_lines(results: dict[str, Any]) -> list[str]:
    laws = runs_of(results, "ntkgp")
    return [
        f"analytic NTKGP: {law['training_images']:,} training images, "
        + ", ".join(f"{name} {value:.0f} s" for name, value in law["stage_seconds"].items())
        + f", peak memory {(law['peak_bytes'] or 0) / 2**30:.1f} GiB, "
        f"largest relative residual {law['residual']:.1g}"
        for law in laws
    ]


def errors_figure(results: dict[str, Any], scale: str, stem: Path) -> Path:
    """Left: error against ensemble size. Right: error against confidence, both sets together."""
    inside, outside = NAMES[results["experiment"]]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for method in drawn(results, scale):
        runs = runs_of(results, method, scale)
        errors = [[100 * part["error"] for part in run["by_size"]] for run in runs]
        if method == "ntkgp":
            left.axhline(errors[0][0], color=look(method).colour, ls=":", label=look(method).title)
        else:
            length = min(map(len, errors))
            draw_band(left, np.arange(1, length + 1), [e[:length] for e in errors], method)
        curves = [run["by_size"][-1]["curve_errors"] for run in runs]
        percent = [[None if e is None else 100 * e for e in curve] for curve in curves]
        draw_band(right, CONFIDENCE_THRESHOLDS, percent, method)
    left.set(xlabel="ensemble size", ylabel=f"{inside} test error, %")
    right.set(xlabel="confidence threshold τ", ylabel=f"error on {inside} and {outside}, %")
    for axis in (left, right):
        axis.set_ylim(bottom=0)
    left.legend(fontsize=7)
    return save_figure(figure, stem)


def entropy_figure(results: dict[str, Any], scale: str, stem: Path) -> Path:
    """Histograms of predictive entropy, inside above and outside below, a column for each method."""
    methods = drawn(results, scale)
    figure, axes = plt.subplots(
        2,
        max(1, len(methods)),
        figsize=(2.2 * max(1, len(methods)), 4),
        sharex=True,
        sharey="row",
        layout="constrained",
        squeeze=False,
    )
    for column, method in zip(axes.T, methods, strict=False):
        column[0].set_title(look(method).title, fontsize=9)
        for axis, where in zip(column, ("test", "outside"), strict=True):
            draw_entropies(axis, results, runs_of(results, method, scale)[0], where)
    for axis, name in zip(axes[:, 0], NAMES[results["experiment"]], strict=True):
        axis.set_ylabel(f"share of {name}")
    for axis in axes[-1]:
        axis.set_xlabel("entropy, nats")
    axes[0, 0].legend(fontsize=7)
    return save_figure(figure, stem)


def draw_entropies(axis: Axes, results: dict[str, Any], run: dict[str, Any], where: str) -> None:
    edges = np.linspace(0, np.log(results["classes"]), results["entropy_bins"] + 1)
    parts = [part for part in run["by_size"] if part["members"] in SIZES] or run["by_size"][-1:]
    for part, line, grey in zip(parts, (":", "--", "-"), ("0.6", "0.35", "0"), strict=False):
        counts = np.array(part[f"entropies_{where}"])
        colour = look(run["method"]).colour if part is parts[-1] else grey
        style = line if len(parts) > 1 else "-"
        label = f"K = {part['members']}" if run["kind"] == "ensemble" else "analytic"
        axis.stairs(counts / counts.sum(), edges, color=colour, ls=style, label=label)
    axis.set_yscale("log")


def claims(results: dict[str, Any]) -> list[Claim]:
    """Those of the paper about these images, as far as this run has what they need."""
    makers = {
        "mnist": (worse_inside, conservative_outside, entropies_outside, close_to_law),
        "digits": (worse_inside, conservative_outside, entropies_outside, close_to_law),
        "cifar": (best_inside, no_clear_difference, fixed_scale_inside, fixed_scale_outside),
    }
    made = [make(results) for make in makers[results["experiment"]]]
    return [claim for claim in made if claim is not None]


def has(results: dict[str, Any], *methods: str, scale: str = "matched") -> bool:
    return all(runs_of(results, method, scale) for method in methods)


def worse_inside(results: dict[str, Any]) -> Claim | None:
    if not has(results, "deep-ensemble", "ntkgp-param"):
        return None
    gap = difference(
        final(results, "ntkgp-param", "error"), final(results, "deep-ensemble", "error")
    )
    return Claim(
        "Figure 3, left",
        "NTKGP ensembles of 10 have around 0.2 points more error in distribution than deep ensembles "
        "(verdict: between 0 and 0.4)",
        f"NTKGP-param less deep ensemble: {gap.shown(2, 100)} points",
        between(gap, 0.0, 0.004),
    )


def conservative_outside(results: dict[str, Any]) -> Claim | None:
    if not has(results, *BASELINES, *NTKGP):
        return None
    best = np.min([error_at(results, name, AT_CONFIDENCE) for name in BASELINES], axis=0)
    gaps = {name: difference(list(best), error_at(results, name, AT_CONFIDENCE)) for name in NTKGP}
    measured = ", ".join(f"{look(name).title} {gap.shown(1, 100)}" for name, gap in gaps.items())
    return Claim(
        "Figure 3, right",
        "at confidence 0.6 NTKGP has over 15 points less error than all baselines, on both sets "
        "together",
        f"best baseline less NTKGP: {measured} points",
        all_of(*(above(gap, 0.15) for gap in gaps.values())),
    )


def entropies_outside(results: dict[str, Any]) -> Claim | None:
    if not has(results, *BASELINES, *NTKGP):
        return None
    means = {name: mean_entropy(results, name, "outside") for name in (*BASELINES, *NTKGP)}
    highest = np.max([means[name] for name in BASELINES], axis=0)
    gaps = [difference(means[name], list(highest)) for name in NTKGP]
    shown = ", ".join(f"{look(name).title} {interval(m).shown(2)}" for name, m in means.items())
    return Claim(
        "Figure 4",
        "NTKGP predictions are much more conservative on images from elsewhere: higher entropy there",
        f"mean entropy in nats: {shown}",
        all_of(*(above(gap) for gap in gaps)),
    )


def close_to_law(results: dict[str, Any]) -> Claim | None:
    if not has(results, "ntkgp-param", "ntkgp"):
        return None
    inside = shift(results, "error")
    law = error_at(results, "ntkgp", AT_CONFIDENCE)[0]
    confident = interval([e - law for e in error_at(results, "ntkgp-param", AT_CONFIDENCE)])
    return Claim(
        "Figures 3 and 4",
        "NTKGP ensembles are close to the analytic NTKGP (verdict: error within 0.5 points, error "
        "above confidence 0.6 within 5)",
        f"NTKGP-param less analytic: {inside.shown(2, 100)} and {confident.shown(1, 100)} points",
        all_of(between(inside, -0.005, 0.005), between(confident, -0.05, 0.05)),
    )


def shift(results: dict[str, Any], score: str) -> Interval:
    """NTKGP-param less the law."""
    law = final(results, "ntkgp", score)[0]
    return interval([value - law for value in final(results, "ntkgp-param", score)])


def best_inside(results: dict[str, Any]) -> Claim | None:
    good, others = (*NTKGP, "rp-fn"), ("deep-ensemble", "rp-param")
    if not has(results, *good, *others):
        return None
    worst = np.max([final(results, name, "error") for name in good], axis=0)
    best = np.min([final(results, name, "error") for name in others], axis=0)
    gap = difference(list(worst), list(best))
    return Claim(
        "Figure 5, left",
        "the NTKGP methods and RP-fn have the least test error",
        f"worst of these less best of the others: {gap.shown(2, 100)} points",
        below(gap),
    )


def no_clear_difference(results: dict[str, Any]) -> Claim | None:
    if not has(results, *BASELINES, *NTKGP):
        return None
    ours = np.mean([error_at(results, name, AT_CONFIDENCE) for name in NTKGP], axis=0)
    theirs = np.mean([error_at(results, name, AT_CONFIDENCE) for name in BASELINES], axis=0)
    gap = difference(list(ours), list(theirs))
    return Claim(
        "Figure 5, right",
        "error against confidence shows no clear difference (verdict: within 3 points at 0.6)",
        f"NTKGP methods less baselines: {gap.shown(1, 100)} points",
        between(gap, -0.03, 0.03),
    )


def fixed_scale_inside(results: dict[str, Any]) -> Claim | None:
    return _fixed_scale(
        results,
        "with one κ for all methods NTKGP suffers slightly in distribution",
        lambda name: final(results, name, "error", "fixed"),
        above,
    )


def fixed_scale_outside(results: dict[str, Any]) -> Claim | None:
    return _fixed_scale(
        results,
        "with one κ for all methods NTKGP has less error at confidence 0.6 on both sets together",
        lambda name: error_at(results, name, AT_CONFIDENCE, "fixed"),
        below,
    )


def _fixed_scale(results: dict[str, Any], says: str, scores: Any, verdict: Any) -> Claim | None:
    if not has(results, *BASELINES, *NTKGP, scale="fixed"):
        return None
    ours, theirs = (
        np.mean([scores(name) for name in group], axis=0) for group in (NTKGP, BASELINES)
    )
    gap = difference(list(ours), list(theirs))
    judged: Verdict = verdict(gap)
    measured = f"NTKGP methods less baselines: {gap.shown(2, 100)} points"
    return Claim("Figure 6", says, measured, judged)
