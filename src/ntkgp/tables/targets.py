"""What the column to predict asks for: numbers or classes, and which."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ntkgp.tables.arrow import pyarrow
from ntkgp.tables.features import kind_of
from ntkgp.tables.values import as_words

Task = Literal["regression", "classification"]
FEW_CLASSES = 10
"""Whole numbers with at most so many different values are classes."""
MOST_CLASSES = 100


def kind_of_target(type_: Any) -> str:
    """As of any column, but times of day and durations are other: predictions would have no unit."""
    types = pyarrow().types
    return "other" if types.is_time(type_) or types.is_duration(type_) else kind_of(type_)


def task_of(name: str, target: Any) -> tuple[Task, str]:
    """What a target asks for, and why: classes if it has words, true and false, or few whole numbers.

    >>> from ntkgp.tables.arrow import as_table
    >>> task_of("rent", as_table({"rent": [510.0, 730.5]}).column("rent").combine_chunks())
    ('regression', 'rent has numbers')
    """
    kind = kind_of_target(target.type)
    if kind not in ("number", "category"):
        raise ValueError(
            f"the target {name!r} has values of type {target.type}: numbers or classes are needed. Write "
            "times as numbers, in a unit of your choice."
        )
    if kind == "category":
        return "classification", f"{name} has words"
    if str(target.type) == "bool":
        return "classification", f"{name} is true or false"
    levels = len(target.unique())
    if "int" in str(target.type) and levels <= FEW_CLASSES:
        return "classification", f"{name} has {levels} different whole numbers"
    return "regression", f"{name} has numbers"


def require_classes(name: str, classes: NDArray[Any]) -> None:
    """An error if a target cannot be told apart."""
    levels, rows = np.unique(classes, return_counts=True)
    if len(levels) < 2:
        raise ValueError(
            f"the target {name!r} is {levels[0]!s} in every row: nothing to tell apart."
        )
    if len(levels) > MOST_CLASSES:
        raise ValueError(
            f"the target {name!r} has {len(levels):,} classes, and {MOST_CLASSES} are the most. If they "
            "are numbers, give --task regression; else join rare classes."
        )
    if len(rare := levels[rows < 2]):
        raise ValueError(
            f"the target {name!r} has classes with a single row, such as {rare[0]!s}. Join them with "
            "others, or leave these rows out."
        )


def read_as(type_: Any) -> str:
    """How a file without types is to be read to give a target of this type again."""
    types = pyarrow().types
    if types.is_boolean(type_):
        return "flag"
    if types.is_integer(type_):
        return "whole number"
    return "number" if kind_of(type_) == "number" else "words"


def class_names(target: Any) -> NDArray[Any]:
    """Classes as an Arrow column has them: words, or whole numbers, or true and false as words."""
    if pyarrow().types.is_integer(target.type):
        return np.asarray(target.to_numpy(zero_copy_only=False))
    if kind_of_target(target.type) not in ("category", "number"):
        raise ValueError(f"values of type {target.type} are no classes.")
    words = as_words(target)
    if words.null_count:
        raise ValueError(
            f"the target is missing in {words.null_count:,} rows: leave these rows out."
        )
    return np.array(words.to_pylist(), dtype=str)


def classes_like(classes: NDArray[Any], name: str, found: NDArray[Any]) -> NDArray[Any]:
    """Classes of a file as a model has them: numbers, words, or true and false.

    >>> classes_like(np.array([1, 2]), "size", np.array(["2", "1"]))
    array([2, 1])
    """
    kind = classes.dtype.kind
    if kind in "UO":
        return found.astype(str)
    if kind == "b":
        return found.astype(str) == "true"
    try:
        return found.astype(np.float64 if kind == "f" else np.int64)
    except ValueError:
        raise ValueError(
            f"the model's classes are numbers, such as {classes[0]}, and column {name!r} has others."
        ) from None
