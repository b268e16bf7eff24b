"""The page of `ntkgp evaluate`: is the model calibrated, where does it err, what surprised it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ntkgp
from ntkgp.predictive import metrics
from ntkgp.report import document
from ntkgp.report.figures import subplots
from ntkgp.report.looks import BLUE, RED
from ntkgp.tables.scores import LEVELS, Scored, score_classes, score_numbers, shown

SURPRISES = 10
SHUFFLED_ROWS = 1000
SIZE = (4.6, 3.4)


@dataclass(frozen=True)
class Evaluation:
    """A model and rows with known targets."""

    model: Any
    table: Any
    y: NDArray[Any]
    rows: NDArray[np.int64]
    """Where they are in the file, from 0."""
    scored: Scored
    target: str
    model_name: str
    data_name: str


def page_of(found: Evaluation) -> str:
    """The page as HTML."""
    classes = hasattr(found.model, "classes_")
    title = f"{found.target}: {found.model_name} on {found.data_name}"
    return document.document(
        title,
        [
            document.text(
                f"{len(found.y):,} rows whose {found.target} is known. Made by ntkgp "
                f"{ntkgp.__version__}."
            ),
            document.html_table([shown(found.model_name, found.scored.values)]),
            *(_of_classes(found) if classes else _of_numbers(found)),
            document.heading("Columns by relevance"),
            *_relevance(found),
        ],
    )


def _of_numbers(found: Evaluation) -> list[str]:
    predicted = found.model.predict_dist(found.table)
    y, mean, std = found.y, predicted.mean, predicted.std
    standardised = (y - mean) / std
    order = np.argsort(found.scored.losses)[::-1][:SURPRISES].tolist()
    low, high = predicted.interval(0.95)
    surprises = [
        {
            "row": f"{found.rows[row] + 1:,}",
            "truth": f"{y[row]:.4g}",
            "mean": f"{mean[row]:.4g}",
            "95 % interval": f"{low[row]:.4g} to {high[row]:.4g}",
            "std away": f"{standardised[row]:+.1f}",
            **_inputs(found, row),
        }
        for row in order
    ]
    return [
        document.heading("Calibration"),
        document.side_by_side(_calibration(predicted.cdf(y)), _coverage(found, predicted)),
        document.heading("Error against confidence"),
        _error_by_confidence(y, mean, std),
        document.heading("Residuals"),
        document.side_by_side(_predicted_against(y, mean, std), _standardised(standardised)),
        document.heading("Largest surprises"),
        document.text("Rows whose target was least likely by the prediction."),
        document.html_table(surprises),
    ]


def _of_classes(found: Evaluation) -> list[str]:
    probabilities = found.model.predict_proba(found.table)
    names = found.model.classes_
    best = np.argmax(probabilities, axis=1)
    right = names[best] == found.y
    confidence = probabilities.max(axis=1)
    order = np.argsort(found.scored.losses)[::-1][:SURPRISES].tolist()
    surprises = [
        {
            "row": f"{found.rows[row] + 1:,}",
            "truth": str(found.y[row]),
            "its probability": f"{100 * np.exp(-found.scored.losses[row]):.2g} %",
            "predicted": str(names[best[row]]),
            "with": f"{100 * confidence[row]:.1f} %",
            **_inputs(found, row),
        }
        for row in order
    ]
    return [
        document.heading("Calibration"),
        document.side_by_side(
            _reliability(confidence, right), _confusion(names, found.y, names[best])
        ),
        document.heading("Error against confidence"),
        _errors_above(confidence, right),
        document.heading("Largest surprises"),
        document.text("Rows whose class was least likely by the prediction."),
        document.html_table(surprises),
    ]


def _inputs(found: Evaluation, row: int) -> dict[str, str]:
    """What a row has in a few columns, those that matter most where that is known."""
    names = list(found.model.relevance() or found.model.features_.needed)[:4]
    return {f"column {name}": _short(found.table.column(name)[row].as_py()) for name in names}


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "–" if value is None else str(value)[:30]


# Figures.


def _axes(x: str, y: str) -> tuple[Any, Any]:
    figure, axes = subplots(1, 1, SIZE)
    axes[0, 0].set_xlabel(x)
    axes[0, 0].set_ylabel(y)
    return figure, axes[0, 0]


def _calibration(pit: NDArray[Any]) -> str:
    figure, axis = _axes("probability of a central interval", "share of targets inside")
    levels = metrics.CENTRAL_LEVELS
    axis.plot([0, 1], [0, 1], color="0.6", lw=1)
    axis.plot(levels, metrics.calibration_curve(pit), color=BLUE)
    shows = (
        "Calibrated intervals follow the diagonal; below it they are too narrow, above too wide."
    )
    return document.picture(figure, shows)


def _coverage(found: Evaluation, predicted: Any) -> str:
    rows = []
    for level in LEVELS:
        low, high = predicted.interval(level)
        inside = metrics.interval_coverage(found.y, low, high)
        error = 2 * (inside * (1 - inside) / len(found.y)) ** 0.5
        rows.append(
            {
                "interval": f"{100 * level:g} %",
                "targets inside": f"{100 * inside:.1f} ± {100 * error:.1f} %",
                "mean width": f"{np.mean(high - low):.4g}",
            }
        )
    words = "How many targets lie inside, with two standard errors, and how wide intervals are."
    return f"<div>{document.html_table(rows)}{document.text(words)}</div>"


def _error_by_confidence(y: NDArray[Any], mean: NDArray[Any], std: NDArray[Any]) -> str:
    """RMSE of the surest rows, against how many are kept."""
    figure, axis = _axes("share of rows kept, the surest first", "RMSE of these")
    squares = (y - mean)[np.argsort(std)] ** 2
    kept = np.arange(1, len(y) + 1)
    few = max(1, len(y) // 50)  # the first values are noise
    axis.plot((kept / len(y))[few - 1 :], np.sqrt(np.cumsum(squares) / kept)[few - 1 :], color=BLUE)
    axis.set_ylim(bottom=0)
    shows = (
        "If confidence means something, the error falls to the left, where only sure rows are kept."
    )
    return document.picture(figure, shows)


def _predicted_against(y: NDArray[Any], mean: NDArray[Any], std: NDArray[Any]) -> str:
    figure, axis = _axes("predicted mean", "residual")
    few = np.random.default_rng(0).permutation(len(y))[:3000]
    axis.axhline(0, color="0.6", lw=1)
    axis.scatter(mean[few], (y - mean)[few], s=5, alpha=0.4, color=BLUE, lw=0)
    order = few[np.argsort(mean[few])]
    for sign in (-1.96, 1.96):
        axis.plot(mean[order], sign * std[order], ".", ms=1, color=RED, alpha=0.4)
    shows = "Residuals of at most 3,000 rows; orange, where 95 % intervals end."
    return document.picture(figure, shows)


def _standardised(z: NDArray[Any]) -> str:
    figure, axis = _axes("residual in predicted standard deviations", "density")
    shown_range = np.clip(z, -5, 5)
    axis.hist(shown_range, bins=41, range=(-5, 5), density=True, color=BLUE, alpha=0.6)
    grid = np.linspace(-5, 5, 201)
    axis.plot(grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), color="black", lw=1)
    shows = "A normal with the right width follows the line; what is beyond 5 is drawn at 5."
    return document.picture(figure, shows)


def _reliability(confidence: NDArray[Any], right: NDArray[Any]) -> str:
    figure, axis = _axes("confidence", "share of right predictions")
    axis.plot([0, 1], [0, 1], color="0.6", lw=1)
    which = np.minimum((confidence * 10).astype(int), 9)
    rows = np.bincount(which, minlength=10)
    there = rows > 0
    mean = np.bincount(which, weights=confidence, minlength=10)[there] / rows[there]
    share = np.bincount(which, weights=right, minlength=10)[there] / rows[there]
    axis.plot(mean, share, color=BLUE, lw=1)
    axis.scatter(mean, share, s=20 + 400 * rows[there] / len(right), color=BLUE, alpha=0.6, lw=0)
    shows = "Calibrated probabilities follow the diagonal; a disc's area grows with its rows."
    return document.picture(figure, shows)


def _confusion(names: NDArray[Any], y: NDArray[Any], predicted: NDArray[Any]) -> str:
    """The most frequent classes against what was predicted for them."""
    classes, rows = np.unique(y, return_counts=True)
    most = [str(name) for name in classes[np.argsort(-rows)][:8]]
    table = [
        {"truth \\ predicted": name}
        | {other: f"{np.sum((y.astype(str) == name) & (predicted.astype(str) == other)):,}"
           for other in most}
        for name in most
    ]  # fmt: skip
    more = f" The {len(most)} most frequent of {len(names)} classes." if len(names) > 8 else ""
    words = "Rows of each class, by prediction." + more
    return f"<div>{document.html_table(table)}{document.text(words)}</div>"


def _errors_above(confidence: NDArray[Any], right: NDArray[Any]) -> str:
    figure, axis = _axes("share of rows kept, the surest first", "errors among these")
    wrong = (~right)[np.argsort(-confidence)]
    kept = np.arange(1, len(wrong) + 1)
    few = max(1, len(wrong) // 50)
    axis.plot((kept / len(wrong))[few - 1 :], (np.cumsum(wrong) / kept)[few - 1 :], color=BLUE)
    axis.set_ylim(bottom=0)
    shows = "If confidence means something, errors fall to the left, where only sure rows are kept."
    return document.picture(figure, shows)


def shuffled(found: Evaluation, seed: int = 0) -> dict[str, float]:
    """What shuffling a column costs, in NLL: one number for each column that the model uses."""
    rng = np.random.default_rng(seed)
    few = rng.permutation(len(found.y))[:SHUFFLED_ROWS]
    table, y = found.table.take(few), found.y[few]
    before = _loss(found.model, table, y)
    costs = {}
    for name in found.model.features_.needed:
        place = table.column_names.index(name)
        mixed = table.column(name).take(rng.permutation(len(few)))
        costs[name] = _loss(found.model, table.set_column(place, name, mixed), y) - before
    return dict(sorted(costs.items(), key=lambda item: -item[1]))


def _loss(model: Any, table: Any, y: NDArray[Any]) -> float:
    if not hasattr(model, "classes_"):
        return score_numbers(y, model.predict_dist(table)).values["nll"]
    known = np.isin(y, model.classes_)
    labels = np.searchsorted(model.classes_, y[known])
    return score_classes(labels, model.predict_proba(table)[known]).values["nll"]


def _relevance(found: Evaluation) -> list[str]:
    learned = found.model.relevance()
    rows = []
    for name, cost in shuffled(found).items():
        row = {"column": name, "NLL lost by shuffling it": f"{cost:+.3f}"}
        if learned is not None:
            row["scale in the learned prior"] = f"{100 * learned[name]:.1f} %"
        rows.append(row)
    words = (
        "How much likelihood the model loses when the values of a column change places between rows: "
        "what it relies on."
    )
    more = " Beside it, the column's share of the scales that the prior learned." if learned else ""
    return [document.text(words + more), document.html_table(rows)]
