"""`ntkgp evaluate`: how good a model is on a table whose targets are known, in numbers and on a page."""

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.files import replacing
from ntkgp.core.talk import Talk
from ntkgp.report.tables import table as as_text
from ntkgp.tables.commands import options
from ntkgp.tables.evaluation import Evaluation, page_of
from ntkgp.tables.features import require_columns
from ntkgp.tables.measure import score_model
from ntkgp.tables.output import writing
from ntkgp.tables.scores import shown
from ntkgp.tables.targets import class_names, classes_like
from ntkgp.tables.values import as_numbers


def run(arguments: argparse.Namespace) -> int:
    talk = Talk("evaluate", arguments.json)
    most = options.rows_of(arguments.rows)
    if arguments.out is not None and arguments.out.suffix not in (".html", ".htm"):
        raise ValueError(f"-o {arguments.out}: the name of a page ends in .html.")
    model: Any = options.load_model(arguments.model)
    target = arguments.target or model.target_
    if target is None:
        raise ValueError("the model does not know its target's name: give --target COL.")
    table, y, rows = _known_rows(model, target, most, arguments, talk)
    scored = score_model(model, table, y)
    talk.say(as_text([shown(str(arguments.model), scored.values)]))
    talk.record(model=str(arguments.model), rows=len(y), scores=scored.values)
    if arguments.out is not None:
        page = page_of(
            Evaluation(
                model, table, y, rows, scored, target, arguments.model.name, arguments.data.name
            )
        )
        with writing(arguments.out), replacing(arguments.out) as file:
            file.write(page.encode())
        talk.say(f"page: {arguments.out}")
        talk.record(page=str(arguments.out))
    talk.finish()
    return 0


def _known_rows(
    model: Any, target: str, most: int | None, arguments: argparse.Namespace, talk: Talk
) -> tuple[Any, NDArray[Any], NDArray[np.int64]]:
    """Rows with a target, the targets, and where in the file they are."""
    file = options.file_for(model, arguments)
    needed = [*model.features_.needed, target]
    require_columns(file.column_names(), needed, f"{file.path}: the model needs")
    table = file.read(needed)
    n = len(table)
    known = np.flatnonzero(options.known(table.column(target)))
    if not len(known):
        raise ValueError(f"{file.path}: column {target!r} has no value in any row.")
    rows = known[options.drawn(len(known), most, 0)]
    talk.say(
        f"{file.path}: {n:,} rows, {n - len(known):,} without {target}; {len(rows):,} are evaluated."
    )
    table = table.take(rows)
    values = table.column(target).combine_chunks()
    if hasattr(model, "classes_"):
        return table, classes_like(model.classes_, target, class_names(values)), rows
    return table, as_numbers(target, values), rows
