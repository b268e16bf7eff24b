"""Figures 3 to 6 and 8: error against ensemble size and confidence, and entropies, for any images."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ntkgp.predictive.metrics.curves import CONFIDENCE_THRESHOLDS
from ntkgp.report.claims import interval
from ntkgp.report.image_claims import claims, unjudged
from ntkgp.report.image_scores import AT_CONFIDENCE, NAMES, error_at, final, runs_of
from ntkgp.report.section import Section
from ntkgp.report.style import band_meaning, draw_band, failures, look, save_figure, table

SIZES = (1, 3)
"""Of the ensembles whose entropies are drawn, beside whole ones."""


def report(results: dict[str, Any], stem: Path) -> Section:
    """Write the figures beside the results."""
    scales = results["config"]["target_scales"]
    stems = []
    for scale in scales:
        suffix = "" if scale == "matched" else f"-{scale}-kappa"
        stems.append(errors_figure(results, scale, stem.with_name(stem.name + suffix)))
        entropies = stem.with_name(f"{stem.name}-entropies{suffix}")
        stems.append(entropy_figure(results, scale, entropies))
    tables = [score_table(results, scale) for scale in scales]
    notes = [*law_lines(results), *failures(results["runs"]), *unjudged(results)]
    text = "\n\n".join([*tables, *notes])
    return Section(text, stems, claims(results))


def drawn(results: dict[str, Any], scale: str) -> list[str]:
    methods = [*results["config"]["methods"], "ntkgp"]
    return [method for method in methods if runs_of(results, method, scale)]


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
                "–" if method == "ntkgp" else str(min(len(run["by_size"]) for run in runs)),
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
    repeats = max((len(runs_of(results, m, scale)) for m in drawn(results, scale)), default=0)
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
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axis in (left, right):
        axis.set_ylim(bottom=0)
    left.legend(fontsize=7, title=band_meaning(repeats), title_fontsize=7)
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
            draw_entropies(axis, results, runs_of(results, method, scale), part)
    for axis, name in zip(axes[:, 0], NAMES[results["experiment"]], strict=True):
        axis.set_ylabel(f"share of {name}")
    for axis in axes[-1]:
        axis.set_xlabel("entropy, nats")
    axes[0, 0].legend(fontsize=7)
    return save_figure(figure, stem)


def draw_entropies(
    axis: Axes, results: dict[str, Any], runs: list[dict[str, Any]], where: str
) -> None:
    """Of all repeats together, for a few ensemble sizes."""
    edges = np.linspace(0, np.log(results["classes"]), results["entropy_bins"] + 1)
    largest = min(len(run["by_size"]) for run in runs)
    sizes = sorted({*(size for size in SIZES if size < largest), largest}, reverse=True)
    for size, line, grey in zip(
        sizes, ("-", "--", ":", "-."), ("0", "0.35", "0.6", "0.8"), strict=False
    ):
        counts = np.sum([run["by_size"][size - 1][f"entropies_{where}"] for run in runs], axis=0)
        colour = look(runs[0]["method"]).colour if size == largest else grey
        label = f"K = {size}" if runs[0]["kind"] == "ensemble" else "analytic"
        axis.stairs(counts / counts.sum(), edges, color=colour, ls=line, label=label)
    axis.set_yscale("log")
