"""`ntkgp inspect`: what a model's file holds, in words."""

import argparse
from typing import Any

from ntkgp.core.talk import Talk
from ntkgp.report.tables import table as as_text
from ntkgp.tables.commands import options
from ntkgp.tables.scores import shown


def run(arguments: argparse.Namespace) -> int:
    talk = Talk("inspect", arguments.json)
    model: Any = options.load_model(arguments.model)
    made = model.summary_
    relevance = model.relevance()
    talk.record(
        model=str(arguments.model),
        kind=type(model).__name__,
        estimator=repr(model.estimator_),
        made=made,
        target=model.target_,
        classes=[str(name) for name in getattr(model, "classes_", [])],
        columns={column.name: column.words() for column in model.features_.columns},
        left_out={column.name: column.why for column in model.features_.dropped},
        relevance=relevance,
    )
    talk.say(f"{type(model).__name__} of {' '.join(repr(model.estimator_).split())}")
    if hasattr(model, "classes_"):
        talk.say(f"classes of {model.target_}: {', '.join(map(str, model.classes_))}")
    if made:
        talk.say(
            f"fitted by ntkgp {made['ntkgp_version']} to {made['trained_on']:,} rows of {made['data']}; "
            f"{made['held_out']:,} held out, {made['how']}"
            + (f"; then to {made['refitted_to']:,} of all rows" if made["refitted_to"] else "")
        )
    talk.say()
    rows = [
        {"column": c.name, "relevance": _percent(relevance, c.name), "read as": c.words()}
        for c in model.features_.columns
    ]
    talk.say(_left(rows))
    for column in model.features_.dropped:
        talk.say(f"{column.name} is left out: {column.why}")
    if made:
        talk.say()
        talk.say(as_text([shown(name, values) for name, values in made["scores"].items()]))
        talk.say()
        talk.say(made["verdict"])
    talk.finish()
    return 0


def _percent(relevance: dict[str, float] | None, name: str) -> str:
    return "–" if relevance is None else f"{100 * relevance[name]:.1f} %"


def _left(rows: list[dict[str, str]]) -> str:
    """A table whose last column, of words, is aligned to the left."""
    widest = max(len(row["read as"]) for row in rows)
    return as_text([row | {"read as": row["read as"].ljust(widest)} for row in rows])
