"""Figures 3 to 6 and 8: error against ensemble size and confidence, and entropies, for any images."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ntkgp.experiments.compared import failures
from ntkgp.experiments.images.claims import MakeClaim
from ntkgp.experiments.images.scores import AT_CONFIDENCE, confident_error, final, runs_of
from ntkgp.experiments.results import Record, Results
from ntkgp.report.figures import draw_band, legend_of_bands, subplots
from ntkgp.report.intervals import MEANING, Interval, interval
from ntkgp.report.looks import look
from ntkgp.report.section import Drawing, Section
from ntkgp.report.tables import table

if TYPE_CHECKING:
    import matplotlib.axes

SIZES = (1, 3)
"""Sizes of ensembles whose entropies are drawn, besides the whole ones."""


def report(results: Results, sets: tuple[str, str], makers: Sequence[MakeClaim]) -> Section:
    """The report on two sets, given their names and the paper's claims about them."""
    scales = results["config"]["target_scales"]
    drawings = [make(results, scale, sets) for scale in scales for make in (errors, entropies)]
    made = [make(results) for make in makers]
    unjudged = made.count(None)
    notes = [
        *law_lines(results),
        *failures(results),
        *(
            [f"Claims not judged, for want of a method or the exact law: {unjudged}."]
            * (unjudged > 0)
        ),
    ]
    text = "\n\n".join([*(score_table(results, scale, sets) for scale in scales), *notes])
    return Section(text, drawings, [claim for claim in made if claim])


def drawn(results: Results, scale: str) -> list[str]:
    methods = [*results["config"]["methods"], "ntkgp"]
    return [method for method in methods if runs_of(results, method, scale)]


def suffix(scale: str) -> str:
    return "" if scale == "matched" else f"-{scale}-kappa"


def score_table(results: Results, scale: str, sets: tuple[str, str]) -> str:
    inside, outside = sets

    def mean(method: str, score: str) -> Interval:
        return interval(final(results, method, scale, score).values())

    rows = []
    for method in drawn(results, scale):
        runs = runs_of(results, method, scale)
        size = min(len(run["by_size"]) for run in runs)
        confident = interval(confident_error(results, method, scale).values())
        rows.append(
            {
                "method": look(method).title,
                "repeats": str(len(runs)),
                "K": "–" if runs[0]["kind"] == "law" else str(size),
                f"{inside} error %": mean(method, "error").shown(2, 100),
                "NLL": mean(method, "nll").shown(4),
                "ECE %": mean(method, "ece").shown(2, 100),
                "AUROC": mean(method, "auroc").shown(4),
                f"error % above {AT_CONFIDENCE}": confident.shown(1, 100),
                "seconds": f"{np.mean([run['seconds'] for run in runs]):.0f}",
            }
        )
    rule = "its own initial second moment" if scale == "matched" else "the NTK's for all methods"
    note = (
        f"κ by {rule}. AUROC: {inside} against {outside} by entropy. Error above {AT_CONFIDENCE}: on "
        f"both sets together, every prediction on {outside} an error. {MEANING}"
    )
    return f"{table(rows)}\n{note}"


def law_lines(results: Results) -> list[str]:
    return [
        f"analytic NTKGP: {law['training_images']:,} training images, "
        + ", ".join(f"{name} {value:.0f} s" for name, value in law["stage_seconds"].items())
        + f", peak memory {(law['peak_bytes'] or 0) / 2**30:.1f} GiB, "
        f"largest relative residual {law['residual']:.1g}"
        for law in runs_of(results, "ntkgp", "matched")
    ]


def errors(results: Results, scale: str, sets: tuple[str, str]) -> Drawing:
    """Left: error against ensemble size. Right: error against confidence, both sets together."""
    inside, outside = sets
    thresholds = np.array(results["confidence_thresholds"])
    methods = drawn(results, scale)
    figure, ((left, right),) = subplots(1, 2, (9, 3.6))
    for method in methods:
        runs = runs_of(results, method, scale)
        percents = [[100 * part["error"] for part in run["by_size"]] for run in runs]
        if runs[0]["kind"] == "law":
            left.axhline(
                percents[0][0], color=look(method).colour, ls=":", label=look(method).title
            )
        else:
            length = min(map(len, percents))
            draw_band(left, np.arange(1, length + 1), [e[:length] for e in percents], method)
        curves = [run["by_size"][-1]["curve_errors"] for run in runs]
        percent = [[None if e is None else 100 * e for e in curve] for curve in curves]
        draw_band(right, thresholds, percent, method)
    left.set(xlabel="ensemble size", ylabel=f"{inside} test error, %", ylim=(0, None))
    right.set(
        xlabel="confidence threshold τ",
        ylabel=f"error on {inside} and {outside}, %",
        ylim=(0, None),
    )
    left.xaxis.get_major_locator().set_params(integer=True)
    legend_of_bands(left, max((len(runs_of(results, m, scale)) for m in methods), default=0))
    return Drawing(
        figure,
        f"Left: what ensembles of each size get wrong on {inside}. Right: what is wrong of the images "
        f"named with at least confidence τ, {outside} included, on which every name is wrong.",
        suffix(scale),
    )


def entropies(results: Results, scale: str, sets: tuple[str, str]) -> Drawing:
    """Histograms of predictive entropy, inside above and outside below, a column for each method."""
    methods = drawn(results, scale)
    columns = max(1, len(methods))
    figure, axes = subplots(2, columns, (2.2 * columns, 4), sharex=True, sharey="row")
    for column, method in zip(axes.T, methods, strict=False):
        column[0].set_title(look(method).title, fontsize=9)
        for axis, part in zip(column, ("test", "outside"), strict=True):
            draw_entropies(axis, results, runs_of(results, method, scale), part)
    for axis, name in zip(axes[:, 0], sets, strict=True):
        axis.set_ylabel(f"share of {name}")
    for axis in axes[-1]:
        axis.set_xlabel("entropy, nats")
    if methods:
        axes[0, 0].legend(fontsize=7)
    return Drawing(
        figure,
        f"Above: predictions on {sets[0]} should have low entropy. Below: on {sets[1]}, which is of no "
        "class, high entropy.",
        f"-entropies{suffix(scale)}",
    )


def draw_entropies(
    axis: "matplotlib.axes.Axes", results: Results, runs: list[Record], where: str
) -> None:
    """Entropies of all repeats together, for a few ensemble sizes."""
    largest = min(len(run["by_size"]) for run in runs)
    sizes = sorted({*(size for size in SIZES if size < largest), largest}, reverse=True)
    for size, line, grey in zip(
        sizes, ("-", "--", ":", "-."), ("0", "0.35", "0.6", "0.8"), strict=False
    ):
        counts = np.sum([run["by_size"][size - 1][f"entropies_{where}"] for run in runs], axis=0)
        colour = look(runs[0]["method"]).colour if size == largest else grey
        label = f"K = {size}" if runs[0]["kind"] == "ensemble" else "analytic"
        axis.stairs(
            counts / counts.sum(), results["entropy_edges"], color=colour, ls=line, label=label
        )
    axis.set_yscale("log")
