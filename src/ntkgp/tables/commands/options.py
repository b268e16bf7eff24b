"""What several commands share: a model from arguments, a table with a target from a file."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.storage import load
from ntkgp.core.talk import Talk
from ntkgp.tables.arrow import pyarrow
from ntkgp.tables.choice import Choice
from ntkgp.tables.features import (
    first_word_among_numbers,
    kind_of,
    require_columns,
    row_numbers,
)
from ntkgp.tables.files import TableFile
from ntkgp.tables.models import TableModel
from ntkgp.tables.splits import Split, split
from ntkgp.tables.targets import Task, class_names, require_classes, task_of
from ntkgp.tables.values import arrow_type, as_numbers, as_words

PYTHON_WORDS = {"True": True, "False": False, "None": None}


def settings_of(given: list[str]) -> dict[str, Any]:
    """NAME=VALUE settings, values read as JSON where they are; True, False and None as Python has them.

    >>> settings_of(["width=64", "activation=erf", "vary_prior=false"])
    {'width': 64, 'activation': 'erf', 'vary_prior': False}
    """
    found = {}
    for setting in given:
        name, separator, text = setting.partition("=")
        if not separator or not name or not text:
            raise ValueError(f"--set takes NAME=VALUE, such as width=64; got {setting!r}.")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = PYTHON_WORDS.get(text, text)
    return found


def choice_of(arguments: argparse.Namespace, **changes: Any) -> Choice:
    """The model that the arguments ask for."""
    if arguments.members is not None and arguments.members < 1:
        raise ValueError(f"--members must be at least 1; got {arguments.members}.")
    asked: dict[str, Any] = {
        "method": getattr(arguments, "method", "ntkgp-param"),
        "law": getattr(arguments, "law", None),
        "members": arguments.members,
        "heteroscedastic": getattr(arguments, "heteroscedastic", False),
        "seed": arguments.seed,
        "categorical": arguments.categorical,
        "drop": [*arguments.drop, *([arguments.group] if arguments.group else [])],
        "settings": settings_of(arguments.set),
        "verbose": not arguments.quiet,
    }
    return Choice(**(asked | changes))


class Labelled(NamedTuple):
    """A table whose rows all have a target."""

    table: Any
    """Without the target."""
    name: str
    """Of the target."""
    target: Any
    """As Arrow has it."""
    task: Task
    y: NDArray[Any]
    """Numbers, or classes."""
    row_numbers: dict[str, str]
    """Columns that number the rows of the file, and why they are left out."""


def read_labelled(arguments: argparse.Namespace, talk: Talk) -> Labelled:
    """The file of a training command; rows without a target are left out, in words."""
    path, name = arguments.data, arguments.target
    words = {column: arrow_type("words") for column in arguments.categorical}
    table = TableFile(path, arguments.encoding, tuple(arguments.missing), words).read()
    require_columns(table.column_names, [name], f"{path}: there is no target: it must be")
    require_columns(
        table.column_names, [*arguments.drop, *arguments.categorical], f"{path}: there must be"
    )
    if table.num_columns < 2:
        raise ValueError(
            f"{path} has no column besides the target {name!r}: nothing to learn from."
        )
    _refuse_mixed(arguments, table)
    n = len(table)
    numbering = row_numbers(table.drop_columns([name]), arguments.categorical)
    table = table.filter(known(table.column(name)))
    target = table.column(name).combine_chunks()
    if not len(table):
        raise ValueError(f"{path}: column {name!r} has no value in any row.")
    task, why = task_of(name, target)
    if arguments.task and arguments.task != task:
        task, why = arguments.task, "as asked"
    talk.say(f"{path}: {n:,} rows, {table.num_columns} columns. {task.capitalize()}: {why}.")
    if len(table) < n:
        talk.say(f"{n - len(table):,} rows have no {name} and are left out.")
    talk.record(rows=len(table), rows_without_target=n - len(table), task=task, target=name)
    y = targets_of(name, target, task)
    return Labelled(table.drop_columns([name]), name, target, task, y, numbering)


def targets_of(name: str, target: Any, task: Task) -> NDArray[Any]:
    """Numbers or classes, or an error about a target that has none."""
    if task == "classification":
        classes = class_names(target)
        require_classes(name, classes)
        return classes
    if kind_of(target.type) != "number":
        raise ValueError(
            f"the target {name!r} has words, and a regression needs numbers: leave --task out."
        )
    return as_numbers(name, target)


def known(target: Any) -> Any:
    """Which rows have a target; NaN, infinite and empty words are none."""
    pa = pyarrow()
    import pyarrow.compute as pc

    if pa.types.is_floating(target.type):
        finite = pc.is_finite(target.cast(pa.float64()))
        return pc.and_kleene(pc.is_valid(target), finite)
    if kind_of(target.type) == "category":
        return pc.is_valid(as_words(target.combine_chunks()))
    return pc.is_valid(target)


def _refuse_mixed(arguments: argparse.Namespace, table: Any) -> None:
    """An error for a column of numbers with words among them, which would pass for a category."""
    for name in table.column_names:
        values = table.column(name).combine_chunks()
        if name in (*arguments.drop, *arguments.categorical) or kind_of(values.type) != "category":
            continue
        if found := first_word_among_numbers(values, max_levels=30):
            row, word = found
            otherwise = "" if name == arguments.target else f", or --drop {name}"
            raise ValueError(
                f"{arguments.data}: column {name!r} has numbers up to row {row:,}, and then "
                f"{word[:40]!r}. Mend it; or give --missing {word[:40]!r} if that is a missing value, "
                f"--categorical {name} if they are categories{otherwise}."
            )


def load_model(path: Path) -> TableModel:
    """A model that `ntkgp fit` wrote."""
    model = load(path)
    if not isinstance(model, TableModel):
        raise ValueError(
            f"{path} holds {type(model).__name__}, which knows no columns by name: use it from Python, "
            "or make a model by ntkgp fit."
        )
    return model


def file_for(
    model: TableModel, arguments: argparse.Namespace, keep: Sequence[str] = ()
) -> TableFile:
    """DATA, with columns read as they were in training; others to keep as they are written."""
    types = {name: arrow_type("words") for name in keep}
    types |= {column.name: arrow_type(column.read_as) for column in model.features_.columns}
    if model.target_ is not None and model.target_read_as_ is not None:
        types[model.target_] = arrow_type(model.target_read_as_)
    return TableFile(arguments.data, arguments.encoding, tuple(arguments.missing), types)


def rows_of(text: str) -> int | None:
    """--rows: a number, or all."""
    if text == "all":
        return None
    if not text.isdigit() or int(text) < 10:
        raise ValueError(f"--rows takes a number of at least 10, or all; got {text!r}.")
    return int(text)


def parts_of(arguments: argparse.Namespace, data: Labelled) -> Split:
    """The rows to train on and those held out, as the options ask for."""
    labels = data.y if data.task == "classification" else None
    ways = {"time": arguments.time, "group": arguments.group, "labels": labels}
    return split(data.table, arguments.holdout, arguments.seed, **ways)


def drawn(n: int, most: int | None, seed: int) -> NDArray[np.int64]:
    """At most so many of n rows, at random, in their order."""
    if most is None or n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng([seed, 7]).permutation(n)[:most])
