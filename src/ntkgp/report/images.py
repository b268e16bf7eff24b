"""Figures 3 to 6 and 8: error against ensemble size and confidence, and entropies, for any images."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from ntkgp.metrics.curves import CONFIDENCE_THRESHOLDS
from ntkgp.report.claims import (
    Claim,
    Interval,
    Scores,
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
        if run["method"] == method and run["scale"] == scale and run["kind"] in ("ensemble", "law")
    ]


def drawn(results: dict[str, Any], scale: str) -> list[str]:
    methods = [*results["config"]["methods"], "ntkgp"]
    return [method for method in methods if runs_of(results, method, scale)]


def final(
    results: dict[str, Any], method: str, score: str, scale: str = "matched"
) -> dict[int, Any]:
    """A score of the whole ensembles, by repeat."""
    return {
        run.get("repeat", 0): run["by_size"][-1][score] for run in runs_of(results, method, scale)
    }


def error_at(
    results: dict[str, Any], method: str, confidence: float, scale: str = "matched"
) -> Scores:
    """Error on the points above a confidence, by repeat; NaN where there is none."""
    index = round(confidence * 100)
    curves = final(results, method, "curve_errors", scale)
    return {
        repeat: float("nan") if curve[index] is None else curve[index]
        for repeat, curve in curves.items()
    }


def mean_entropy(
    results: dict[str, Any], method: str, where: str, scale: str = "matched"
) -> Scores:
    """From the histogram, by repeat."""
    bins = results["entropy_bins"]
    centres = (np.arange(bins) + 0.5) / bins * np.log(results["classes"])
    counts = final(results, method, f"entropies_{where}", scale)
    return {repeat: float(count @ centres / count.sum()) for repeat, count in _arrays(counts)}


def _arrays(lists: dict[int, Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    return ((repeat, np.array(values)) for repeat, values in lists.items())


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
                interval(final(results, method, "error", scale).values()).shown(2, 100),
                interval(final(results, method, "nll", scale).values()).shown(4),
                interval(final(results, method, "ece", scale).values()).shown(2, 100),
                interval(final(results, method, "auroc", scale).values()).shown(4),
                interval(error_at(results, method, AT_CONFIDENCE, scale).values()).shown(1, 100),
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
        for axis, part in zip(column, ("test", "outside"), strict=True):
            draw_entropies(axis, results, runs_of(results, method, scale)[0], part)
    for axis, name in zip(axes[:, 0], NAMES[results["experiment"]], strict=True):
        axis.set_ylabel(f"share of {name}")
    for axis in axes[-1]:
        axis.set_xlabel("entropy, nats")
    axes[0, 0].legend(fontsize=7)
    return save_figure(figure, stem)


def draw_entropies(axis: Axes, results: dict[str, Any], run: dict[str, Any], where: str) -> None:
    edges = np.linspace(0, np.log(results["classes"]), results["entropy_bins"] + 1)
    last = run["by_size"][-1]
    parts = [*(part for part in run["by_size"][:-1] if part["members"] in SIZES[:2]), last]
    for part, line, grey in zip(
        reversed(parts), ("-", "--", ":"), ("0", "0.35", "0.6"), strict=False
    ):
        counts = np.array(part[f"entropies_{where}"])
        colour = look(run["method"]).colour if part is last else grey
        label = f"K = {part['members']}" if run["kind"] == "ensemble" else "analytic"
        axis.stairs(counts / counts.sum(), edges, color=colour, ls=line, label=label)
    axis.set_yscale("log")


def claims(results: dict[str, Any]) -> list[Claim]:
    """Those of the paper about these images, as far as this run has what they need."""
    of_mnist = (worse_inside, conservative_outside, entropies_outside, close_to_law)
    of_cifar = (best_inside, no_clear_difference, fixed_scale_inside, fixed_scale_outside)
    makers = of_cifar if results["experiment"] == "cifar" else of_mnist
    made = [make(results) for make in makers]
    return [claim for claim in made if claim is not None]


def has(results: dict[str, Any], *methods: str, scale: str = "matched") -> bool:
    return all(runs_of(results, method, scale) for method in methods)


def where(results: dict[str, Any], figure: str) -> str:
    return f"{figure}, of MNIST" if results["experiment"] == "digits" else figure


def gaps(
    first: Mapping[str, Scores], second: Mapping[str, Scores]
) -> dict[tuple[str, str], Interval]:
    """Every one of the first less every one of the second."""
    return {(a, b): difference(first[a], second[b]) for a in first for b in second}


def against_baselines(scores: Callable[[str], Scores]) -> dict[tuple[str, str], Interval]:
    """A score of each NTKGP method less that of each baseline."""
    ours, theirs = ({name: scores(name) for name in group} for group in (NTKGP, BASELINES))
    return gaps(ours, theirs)


def shown(found: dict[tuple[str, str], Interval], digits: int, factor: int = 1) -> str:
    return ", ".join(
        f"{look(a).title} less {look(b).title} {gap.shown(digits, factor)}"
        for (a, b), gap in found.items()
    )


def worse_inside(results: dict[str, Any]) -> Claim | None:
    if not has(results, "deep-ensemble", *NTKGP):
        return None
    errors = {name: final(results, name, "error") for name in ("deep-ensemble", *NTKGP)}
    baseline = {"deep-ensemble": errors.pop("deep-ensemble")}
    found = gaps(errors, baseline)
    return Claim(
        where(results, "Figure 3, left"),
        "NTKGP ensembles of 10 have around 0.2 points more error in distribution than deep ensembles "
        "(verdict: between 0 and 0.4)",
        f"in points: {shown(found, 2, 100)}",
        all_of(*(between(gap, 0.0, 0.004) for gap in found.values())),
    )


def conservative_outside(results: dict[str, Any]) -> Claim | None:
    if not has(results, *BASELINES, *NTKGP):
        return None
    found = against_baselines(lambda name: error_at(results, name, AT_CONFIDENCE))
    return Claim(
        where(results, "Figure 3, right"),
        "at confidence 0.6 NTKGP has over 15 points less error than all baselines, on both sets "
        "together",
        f"in points: {shown(found, 1, 100)}",
        all_of(*(below(gap, -0.15) for gap in found.values())),
    )


def entropies_outside(results: dict[str, Any]) -> Claim | None:
    if not has(results, *BASELINES, *NTKGP):
        return None
    means = {name: mean_entropy(results, name, "outside") for name in (*BASELINES, *NTKGP)}
    found = against_baselines(means.__getitem__)
    values = ", ".join(
        f"{look(name).title} {interval(scores.values()).shown(2)}" for name, scores in means.items()
    )
    return Claim(
        where(results, "Figure 4"),
        "NTKGP predictions are more conservative on images from elsewhere (verdict: mean entropy "
        "above that of every baseline)",
        f"mean entropy in nats: {values}",
        all_of(*(above(gap) for gap in found.values())),
    )


def close_to_law(results: dict[str, Any]) -> Claim | None:
    if not has(results, *NTKGP, "ntkgp"):
        return None

    def from_law(scores: Mapping[str, Scores], law: Scores) -> dict[str, Interval]:
        (exact,) = law.values()
        return {n: interval([v - exact for v in own.values()]) for n, own in scores.items()}

    inside = from_law(
        {name: final(results, name, "error") for name in NTKGP}, final(results, "ntkgp", "error")
    )
    confident = from_law(
        {name: error_at(results, name, AT_CONFIDENCE) for name in NTKGP},
        error_at(results, "ntkgp", AT_CONFIDENCE),
    )
    values = "; ".join(
        f"{look(n).title} {inside[n].shown(2, 100)} and {confident[n].shown(1, 100)}" for n in NTKGP
    )
    return Claim(
        where(results, "Figures 3 and 4"),
        "NTKGP ensembles are close to the analytic NTKGP (verdict: error within 0.5 points, error "
        "above confidence 0.6 within 5)",
        f"less analytic, in points: {values}",
        all_of(
            *(between(gap, -0.005, 0.005) for gap in inside.values()),
            *(between(gap, -0.05, 0.05) for gap in confident.values()),
        ),
    )


def best_inside(results: dict[str, Any]) -> Claim | None:
    good, others = (*NTKGP, "rp-fn"), ("deep-ensemble", "rp-param")
    if not has(results, *good, *others):
        return None
    errors = {name: final(results, name, "error") for name in (*good, *others)}
    found = gaps({n: errors[n] for n in good}, {n: errors[n] for n in others})
    return Claim(
        "Figure 5, left",
        "the NTKGP methods and RP-fn have the least test error (verdict: each below each other one)",
        f"in points: {shown(found, 2, 100)}",
        all_of(*(below(gap) for gap in found.values())),
    )


def no_clear_difference(results: dict[str, Any]) -> Claim | None:
    if not has(results, *BASELINES, *NTKGP):
        return None
    found = against_baselines(lambda name: error_at(results, name, AT_CONFIDENCE))
    return Claim(
        "Figure 5, right",
        "error against confidence shows no clear difference (verdict: NTKGP within 3 points of every "
        "baseline at 0.6)",
        f"in points: {shown(found, 1, 100)}",
        all_of(*(between(gap, -0.03, 0.03) for gap in found.values())),
    )


def fixed_scale_inside(results: dict[str, Any]) -> Claim | None:
    if not has(results, *BASELINES, *NTKGP, scale="fixed"):
        return None
    found = against_baselines(lambda name: final(results, name, "error", "fixed"))
    return Claim(
        "Figure 6, left",
        "with one κ for all methods NTKGP suffers slightly in distribution (verdict: more error than "
        "every baseline)",
        f"in points: {shown(found, 2, 100)}",
        all_of(*(above(gap) for gap in found.values())),
    )


def fixed_scale_outside(results: dict[str, Any]) -> Claim | None:
    if not has(results, *BASELINES, *NTKGP, scale="fixed"):
        return None
    found = against_baselines(lambda name: error_at(results, name, AT_CONFIDENCE, "fixed"))
    return Claim(
        "Figure 6, right",
        "with one κ for all methods NTKGP is better out of distribution (verdict: less error at "
        "confidence 0.6, on both sets together, than every baseline)",
        f"in points: {shown(found, 1, 100)}",
        all_of(*(below(gap) for gap in found.values())),
    )
