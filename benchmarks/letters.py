"""Classifiers trained on scikit-learn's digits, shown letters: accuracy, NLL, and who refuses what.

    python benchmarks/letters.py                # 3 seeds; writes docs/guide/letters.json and .png
    python benchmarks/letters.py --draw-only    # the picture and the table from the results file

All models have their defaults. Seed s is both the split of the digits, two thirds for training and
the same share of each class, and the estimators' random_state. Nothing is tuned on letters.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import ntkgp
from common import options_of, parsed, pyplot, save_figure
from ntkgp import metrics
from ntkgp.data import load_letters
from ntkgp.experiments import results

# Okabe and Ito's palette; digits and letters differ in grey and in texture too.
DIGITS, LETTERS = "#0072b2", "#e69f00"
DRAWN = {"ntkgp-param": "NTKGP-param", "deep-ensemble": "deep ensemble"}
COLUMNS = {  # of a run: heading, digits after the point, factor
    "accuracy": ("accuracy %", 1, 100),
    "nll": ("NLL", 3, 1),
    "ece": ("ECE %", 1, 100),
    "auroc": ("AUROC", 3, 1),
    "letters_accepted": ("letters accepted %", 1, 100),
    "letters_sure": ("letters above 90 % confidence, %", 1, 100),
    "seconds": ("seconds", 0, 1),
}
BINS = np.linspace(0, np.log(10), 24)
SHOWN_LETTERS = "ACEFHKLNPR"
TALLEST = 0.2  # share of images; higher bars are cut, and say how high they are


@dataclass(frozen=True)
class Sizes:
    seeds: int = 3
    digits: int = 1797
    depth: int = 2
    ensembles: Mapping[str, int] = field(default_factory=dict)
    """What ensembles have other than by default."""


TINY = Sizes(
    seeds=2,
    digits=120,
    depth=1,
    ensembles={"members": 2, "width": 2, "min_steps": 1, "min_epochs": 1},
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options_of(__doc__)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--draw-only", action="store_true")
    options = parsed(parser, arguments, out="docs/guide")
    sizes = TINY if options.tiny else Sizes()
    sizes = replace(sizes, seeds=options.seeds or sizes.seeds)
    path = options.out / "letters.json"
    state = results.load(path) if options.draw_only else run(path, sizes)
    save_figure(draw(state, sizes), path)
    print(table(state["runs"]))


def run(path: Path, sizes: Sizes) -> dict[str, Any]:
    """Every model on every seed; the file is written after each."""
    config = asdict(sizes) | {"test_size": "1/3", "bins": BINS.round(4).tolist()}
    state: dict[str, Any] = {"experiment": "letters", "config": config}
    state |= {"versions": results.versions(), "drawn": {}, "runs": []}
    for seed in range(sizes.seeds):
        for name, model in models(sizes, seed).items():
            record, drawn = measure(model, split(sizes, seed))
            state["runs"].append({"model": name, "seed": seed} | record)
            if seed == 0 and name in DRAWN:
                state["drawn"][name] = drawn
            results.save(path, state)
            print(name, seed, record, flush=True)
    return state


def models(sizes: Sizes, seed: int) -> dict[str, Any]:
    shared = {"depth": sizes.depth, "random_state": seed}
    ensembles = {
        method: ntkgp.EnsembleClassifier(method, **shared, **sizes.ensembles) for method in DRAWN
    }
    return ensembles | {"ntkgp law": ntkgp.GPClassifier("ntkgp", **shared)}


def split(sizes: Sizes, seed: int) -> list[NDArray[Any]]:
    x, labels = (part[: sizes.digits] for part in load_digits(return_X_y=True))
    return train_test_split(x, labels, test_size=1 / 3, stratify=labels, random_state=seed)


def measure(
    model: Any, digits_split: list[NDArray[Any]]
) -> tuple[dict[str, float], dict[str, Any]]:
    """Numbers of one model, and what the picture needs of it."""
    x, x_test, labels, test_labels = digits_split
    started = time.perf_counter()
    model.fit(x, labels)
    digits, letters = model.predict_proba(x_test), model.predict_proba(load_letters().x)
    seconds = time.perf_counter() - started
    inside, outside = (metrics.predictive_entropy(p) for p in (digits, letters))
    record = {
        "accuracy": metrics.accuracy(test_labels, digits),
        "nll": metrics.classification_nll(test_labels, digits),
        "ece": metrics.expected_calibration_error(test_labels, digits),
        "auroc": metrics.auroc(inside, outside),
        # With the entropy limit that lets 95 % of the test digits through.
        "letters_accepted": metrics.fpr_at_tpr(-outside, -inside),
        "letters_sure": float(np.mean(letters.max(axis=1) >= 0.9)),
        "temperature": model.temperature_,
        "kappa": model.kappa_,
    }
    record = {name: round(value, 5) for name, value in record.items()}
    drawn = {
        "digit_entropies": np.histogram(inside, BINS)[0].tolist(),
        "letter_entropies": np.histogram(outside, BINS)[0].tolist(),
        "digits": said(digits[shown_digits(test_labels)]),
        "letters": said(letters[shown_letters()]),
    }
    return record | {"seconds": round(seconds, 1)}, drawn


def shown_digits(labels: NDArray[Any]) -> list[int]:
    """The first test image of each digit, whatever is predicted for it."""
    return [int(np.argmax(labels == digit)) for digit in range(10)]


def shown_letters() -> list[int]:
    """The first image of each of ten letters."""
    return [int(np.argmax(load_letters().labels == letter)) for letter in SHOWN_LETTERS]


def said(p: NDArray[Any]) -> list[tuple[int, float]]:
    """The predicted class of each row and its probability."""
    return [(int(row.argmax()), round(float(row.max()), 4)) for row in p]


def draw(state: dict[str, Any], sizes: Sizes) -> Figure:
    """Ten digits and ten letters with what both ensembles say, above histograms of entropy."""
    figure = pyplot().figure(figsize=(9, 5.6), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1.05, 1])
    draw_images(above, state["drawn"], split(sizes, seed=0))
    axes = below.subplots(1, len(DRAWN), sharey=True)
    for axis, (name, title) in zip(axes, DRAWN.items(), strict=True):
        draw_entropies(axis, state["drawn"][name])
        (run,) = [r for r in state["runs"] if r["model"] == name and r["seed"] == 0]
        axis.set_title(f"{title}: AUROC {run['auroc']:.3f}", fontsize=10)
    axes[0].set_ylabel("share of images")
    axes[0].set_ylim(0, TALLEST)
    axes[0].legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0.95))
    return figure


def draw_images(figure: SubFigure, drawn: dict[str, Any], digits_split: list[NDArray[Any]]) -> None:
    _, x_test, _, test_labels = digits_split
    rows = {
        "digits": x_test[shown_digits(test_labels)],
        "letters": load_letters().x[shown_letters()],
    }
    axes = figure.subplots(2, 10)
    for line, (kind, images) in zip(axes, rows.items(), strict=True):
        for words, y, position, size in (
            (kind, 0.5, "center", 11),
            ("\n".join(DRAWN.values()), -0.1, "top", 9),
        ):
            line[0].text(
                -0.25, y, words, transform=line[0].transAxes, ha="right", va=position, size=size
            )
        for i, (axis, image) in enumerate(zip(line, images, strict=True)):
            axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_visible(False)
            answers = [drawn[name][kind][i] for name in DRAWN]
            words = "\n".join(f"{label}: {percent(share)}" for label, share in answers)
            axis.text(0.5, -0.1, words, transform=axis.transAxes, ha="center", va="top")


def percent(share: float) -> str:
    """Whole per cent, and never 100."""
    return ">99 %" if share > 0.995 else f"{100 * share:.0f} %"


def draw_entropies(axis: Axes, drawn: dict[str, Any]) -> None:
    for name, label, colour, hatch, line in (
        ("letter_entropies", "letters", LETTERS, "////", "--"),
        ("digit_entropies", "digits, test set", DIGITS, None, "-"),
    ):
        shares = np.asarray(drawn[name]) / np.sum(drawn[name])
        axis.stairs(shares, BINS, fill=True, color=colour, alpha=0.25, hatch=hatch)
        axis.stairs(shares, BINS, color=colour, label=label, linewidth=1.8, linestyle=line)
        for left, share in zip(BINS, shares, strict=False):
            if share > TALLEST:
                words = f" ← cut: {share:.2f}"
                axis.text(left + BINS[1], TALLEST, words, ha="left", va="top", color=colour)
    axis.axvline(np.log(10), color="0.5", linewidth=0.8, linestyle=":")
    axis.set(xlabel="entropy of the prediction, nats (dotted: ten equal classes)")


def table(runs: list[dict[str, Any]]) -> str:
    """Mean ± standard error over seeds, in Markdown."""
    lines = ["| model | " + " | ".join(head for head, _, _ in COLUMNS.values()) + " |"]
    lines.append("|---" * (1 + len(COLUMNS)) + "|")
    for name in dict.fromkeys(run["model"] for run in runs):
        cells = []
        for column, (_, digits, factor) in COLUMNS.items():
            values = factor * np.array([r[column] for r in runs if r["model"] == name])
            cell = f"{values.mean():.{digits}f}"
            if len(values) > 1 and column != "seconds":
                cell += f" ± {values.std(ddof=1) / len(values) ** 0.5:.{digits}f}"
            cells.append(cell)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
