"""`ntkgp fit`: a model from a table, measured on rows held out beside simple models."""

import argparse
import json
from pathlib import Path
from typing import Any, cast

from numpy.typing import NDArray

import ntkgp
from ntkgp.core.model_files import MOST_HEADER_BYTES
from ntkgp.core.storage import file_of
from ntkgp.core.talk import Talk
from ntkgp.report.tables import table as as_text
from ntkgp.tables.choice import Choice
from ntkgp.tables.commands import options
from ntkgp.tables.commands.options import Labelled
from ntkgp.tables.features import TableFeatures
from ntkgp.tables.measure import score_model, score_simple
from ntkgp.tables.models import TableModel
from ntkgp.tables.output import writing
from ntkgp.tables.scores import Scored, difference, shown


def run(arguments: argparse.Namespace) -> int:
    talk = Talk("fit", arguments.json)
    most = options.rows_of(arguments.rows)
    choice = options.choice_of(arguments)
    _check_place(arguments.out)
    data = options.read_labelled(arguments, talk)
    choice.model(data.task, len(data.y))  # refused before the work, if it is
    parts = options.parts_of(arguments, data)
    train = parts.train[options.drawn(len(parts.train), most, arguments.seed)]
    talk.say(
        f"trains on {len(train):,} of {len(parts.train):,} rows"
        + (", drawn at random (--rows all takes all)" if len(train) < len(parts.train) else "")
        + f"; {len(parts.held_out):,} are held out, {parts.how}."
    )
    talk.record(trained_on=len(train), held_out=len(parts.held_out), how=parts.how)
    model = fitted(choice, data, train, talk)
    model.refer_to(data.table.take(parts.held_out))
    scored = {
        choice.title: score_model(model, data.table.take(parts.held_out), data.y[parts.held_out]),
        **score_simple(model.features_, data.table, data.y, train, parts.held_out, arguments.seed),
    }
    say_scores(scored, choice.title, talk)
    talk.record(refitted_to=None)
    if arguments.refit:
        every = options.drawn(len(data.y), most, arguments.seed)
        usual = model.usual_doubt_
        model = fitted(choice, data, every, talk, model.features_)
        model.usual_doubt_ = usual
        talk.say(f"the model kept is fitted to {len(every):,} rows, those held out among them.")
        talk.record(refitted_to=len(every))
    model.summary_ = summary(choice, arguments, scored, talk)
    with writing(arguments.out):
        model.save(arguments.out)
    talk.record(model=str(arguments.out))
    talk.say(f"model: {arguments.out}")
    talk.finish()
    return 0


def _check_place(out: Path) -> None:
    """An error if a model cannot go there, before the work."""
    if (file := file_of(out)).is_file() and not _is_model(file):
        raise ValueError(f"-o {out}: {file} is a file that is no model of ntkgp: name another.")
    if not out.absolute().parent.is_dir():
        raise ValueError(f"-o {out}: there is no directory {out.absolute().parent}.")


def _is_model(path: Path) -> bool:
    """Whether a file's header of safetensors names ntkgp."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(length) if length <= MOST_HEADER_BYTES else b""
    try:
        return "ntkgp_version" in json.loads(header)["__metadata__"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def fitted(
    choice: Choice,
    data: Labelled,
    rows: NDArray[Any],
    talk: Talk,
    features: TableFeatures | None = None,
) -> TableModel:
    """The model, fitted to these rows.

    Columns are read as features say; without them as the rows teach, and what became of them is said.
    """
    model: Any = choice.model(data.task, len(rows), data.row_numbers)
    with talk.timed(f"fits {choice.title} to {len(rows):,} rows", "fit_seconds"):
        table = data.table.take(rows)
        table = table.append_column(data.name, data.target.take(rows))
        model.fit(table, data.name, features=features)
    model.estimator_.set_params(verbose=False)  # of the fit alone
    for column in () if features else model.features_.dropped:
        talk.say(f"  column {column.name!r} is left out: {column.why}.")
    talk.record(
        columns={column.name: column.words() for column in model.features_.columns},
        left_out={column.name: column.why for column in model.features_.dropped},
    )
    return cast(TableModel, model)


def say_scores(scored: dict[str, Scored], title: str, talk: Talk) -> None:
    """The table of scores, and whether the model is worth it."""
    talk.say()
    talk.say(as_text([shown(name, found.values) for name, found in scored.items()]))
    talk.say()
    words = verdict(scored, title)
    talk.say(words)
    talk.record(scores={name: found.values for name, found in scored.items()}, verdict=words)


def verdict(scored: dict[str, Scored], title: str) -> str:
    """Whether the model beats the best of the simple ones, by the likelihood of the rows held out."""
    others = [name for name in scored if name != title]
    best = min(others, key=lambda name: scored[name].values["nll"])
    apart = difference(scored[title], scored[best])
    size = f"NLL {abs(apart.mean):.3f} ± {2 * apart.error:.3f}"
    if apart.verdict == "better":
        return f"worth it: {size} below {best}, the best of the simple models."
    if apart.verdict == "worse":
        return f"not worth it by likelihood: {size} above {best}. Take that, or try ntkgp compare."
    return f"no better than {best} by likelihood, within two standard errors: {size} apart."


def summary(
    choice: Choice, arguments: argparse.Namespace, scored: dict[str, Scored], talk: Talk
) -> dict[str, Any]:
    """What the model's file remembers of its making."""
    return {
        "ntkgp_version": ntkgp.__version__,
        "data": arguments.data.name,
        "target": arguments.target,
        "model": choice.title,
        **{
            key: talk.facts[key]
            for key in ("task", "trained_on", "held_out", "how", "refitted_to", "verdict")
        },
        "scores": {name: found.values for name, found in scored.items()},
    }
