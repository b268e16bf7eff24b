"""Scores on rows held out: of a table model, and of simple models on the same columns."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.tables.baselines import simple_classifiers, simple_regressors
from ntkgp.tables.features import TableFeatures
from ntkgp.tables.scores import Scored, score_classes, score_numbers


def score_model(model: Any, table: Any, y: NDArray[Any]) -> Scored:
    """Of a `TableRegressor` or a `TableClassifier`; a class that training lacked has probability 0."""
    if not hasattr(model, "classes_"):
        return score_numbers(y, model.predict_dist(table))
    classes = np.union1d(model.classes_, y)
    probabilities = np.zeros((len(y), len(classes)))
    probabilities[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(table)
    return score_classes(np.searchsorted(classes, y), probabilities)


def score_simple(
    features: TableFeatures,
    table: Any,
    y: NDArray[Any],
    train: NDArray[Any],
    held_out: NDArray[Any],
    seed: int,
) -> dict[str, Scored]:
    """By name; y are numbers, or classes that are words or whole numbers."""
    x, x_new = (features.encode(table.take(rows)) for rows in (train, held_out))
    if y.dtype.kind == "f":
        predicted = simple_regressors(x, y[train], x_new, seed)
        return {name: score_numbers(y[held_out], normal) for name, normal in predicted}
    classes, labels = np.unique(y, return_inverse=True)
    of_classes = simple_classifiers(x, labels[train], x_new, len(classes), seed)
    return {name: score_classes(labels[held_out], p) for name, p in of_classes}
