"""`ntkgp fit`, `predict`, `evaluate`, `compare` and `inspect`: tables from the command line.

Only the arguments are here. What a command does is in the module of its name, imported when it runs:
scikit-learn takes half a second.
"""

import argparse
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from ntkgp.core.talk import add_json_option
from ntkgp.ensembles.methods import METHODS
from ntkgp.laws.table import LAWS

NOTHING_WRITTEN = "interrupted; nothing was written."
FIT_ROWS, EVALUATE_ROWS, COMPARE_ROWS = 20_000, 20_000, 2_000
"""How many rows each command takes by default."""
EXACT = "exact-"
COMPARED = ("ntkgp-param", "rp-param", "deep-ensemble", "exact-ntkgp", "exact-nngp")


def add_to(commands: Any) -> None:
    """Give a command line the five commands."""
    for add in (_fit, _predict, _evaluate, _compare, _inspect):
        add(commands)


def _run(name: str, arguments: argparse.Namespace) -> int:
    return int(import_module(f"ntkgp.tables.commands.{name}").run(arguments))


def _fit(commands: Any) -> None:
    about = "learn to predict a column of a table, and say how well on rows held out"
    example = """ntkgp fit houses.csv --target price -o houses-model
ntkgp fit visits.parquet --target returns --time date -o visits-model --members 5"""
    parser = _new_command(commands, "fit", about, example)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    _add_data(parser)
    _add_target(parser)
    parser.add_argument(
        "-o", "--out", type=Path, required=True, metavar="MODEL", help="where the model goes"
    )
    parser.add_argument(
        "--rows",
        default=str(FIT_ROWS),
        metavar="N",
        help=f"train on at most so many rows, drawn at random; all for all (default: {FIT_ROWS})",
    )
    parser.add_argument(
        "--refit",
        action="store_true",
        help="after the summary fit once more, to the rows held out too; the model kept is that one",
    )
    _add_choice(parser)


def _predict(commands: Any) -> None:
    about = "predict each row of a table, with intervals and doubt"
    example = """ntkgp predict houses-model new.csv -o predicted.csv
ntkgp predict houses-model new.parquet -o predicted.parquet --keep id --interval 0.9"""
    parser = _new_command(commands, "predict", about, example)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("model", type=Path, metavar="MODEL", help="made by ntkgp fit")
    _add_data(parser)
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        required=True,
        metavar="OUT",
        help=".csv, .tsv, .csv.gz, .tsv.gz or .parquet",
    )
    parser.add_argument(
        "--interval", type=float, default=0.95, metavar="P", help="its probability (default: 0.95)"
    )
    parser.add_argument(
        "--keep", action="append", default=[], metavar="COL", help="a column of DATA to copy"
    )


def _evaluate(commands: Any) -> None:
    about = "score a model on a table with known targets, and draw a page of it"
    example = """ntkgp evaluate houses-model sold.csv -o evaluation.html
ntkgp evaluate houses-model sold.csv --json"""
    parser = _new_command(commands, "evaluate", about, example)
    parser.add_argument("model", type=Path, metavar="MODEL", help="made by ntkgp fit")
    _add_data(parser)
    parser.add_argument("-o", "--out", type=Path, metavar="PAGE", help="an .html file, for a page")
    parser.add_argument("--target", metavar="COL", help="the known targets (default: as in fit)")
    parser.add_argument(
        "--rows",
        default=str(EVALUATE_ROWS),
        metavar="N",
        help=f"evaluate at most so many rows, drawn at random; all for all (default: {EVALUATE_ROWS})",
    )


def _compare(commands: Any) -> None:
    about = "try methods and exact laws on a table, and say which to choose"
    example = """ntkgp compare houses.csv --target price
ntkgp compare houses.csv --target price --method ntkgp-param --method exact-ntkgp"""
    parser = _new_command(commands, "compare", about, example)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    _add_data(parser)
    _add_target(parser)
    parser.add_argument(
        "--method",
        action="append",
        choices=[*METHODS, *(EXACT + law for law in LAWS)],
        metavar="NAME",
        help=f"one to try, several times (default: {', '.join(COMPARED)})",
    )
    parser.add_argument(
        "--rows",
        default=str(COMPARE_ROWS),
        metavar="N",
        help=f"train on at most so many rows, drawn at random; all for all (default: {COMPARE_ROWS})",
    )
    _add_model_settings(parser)


def _inspect(commands: Any) -> None:
    about = "say what a model learned: its columns, their relevance, its scores"
    example = "ntkgp inspect houses-model"
    parser = _new_command(commands, "inspect", about, example)
    parser.add_argument("model", type=Path, metavar="MODEL", help="made by ntkgp fit")


# What several commands have.


def _new_command(commands: Any, name: str, about: str, example: str) -> Any:
    """A parser with its example; `arguments.command(arguments)` runs the command."""
    parser = commands.add_parser(
        name,
        help=about,
        description=about[0].upper() + about[1:] + ".",
        epilog="example:\n" + "\n".join(f"  {line}" for line in example.splitlines()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=partial(_run, name), interrupted=NOTHING_WRITTEN)
    add_json_option(parser)
    return parser


def _add_data(parser: Any) -> None:
    parser.add_argument(
        "data", type=Path, metavar="DATA", help="CSV, TSV, Parquet or Arrow; .gz, .zst, .bz2 too"
    )
    _add_reading(parser)


def _add_reading(parser: Any) -> None:
    reading = parser.add_argument_group("reading CSV")
    reading.add_argument("--encoding", default="utf8", help="of the file (default: utf8)")
    reading.add_argument(
        "--missing",
        action="append",
        default=[],
        metavar="WORD",
        help="a word that stands for a missing value, besides NA, NaN, null and the like",
    )


def _add_target(parser: Any) -> None:
    parser.add_argument("--target", required=True, metavar="COL", help="the column to predict")
    parser.add_argument(
        "--task",
        choices=["regression", "classification"],
        help="default: by the target's values; words, true and false and up to 10 whole numbers are "
        "classes",
    )
    parser.add_argument(
        "--drop", action="append", default=[], metavar="COL", help="a column to leave out"
    )
    parser.add_argument(
        "--categorical",
        action="append",
        default=[],
        metavar="COL",
        help="a column of numbers to read as categories",
    )
    honest = parser.add_argument_group("rows held out, for an honest summary")
    honest.add_argument(
        "--holdout", type=float, default=0.2, metavar="SHARE", help="of the rows (default: 0.2)"
    )
    how = honest.add_mutually_exclusive_group()
    how.add_argument("--time", metavar="COL", help="hold out the latest rows by this column")
    how.add_argument(
        "--group",
        metavar="COL",
        help="hold out whole groups: rows that share this column stay together; it is no input",
    )
    parser.add_argument("--seed", type=int, default=0, help="of every draw (default: 0)")


def _add_model_settings(parser: Any) -> None:
    parser.add_argument("--members", type=int, metavar="K", help="networks of an ensemble")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other setting of the estimator, such as width=64 or activation=erf",
    )


def _add_choice(parser: Any) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--method", choices=list(METHODS), default="ntkgp-param", help="of the ensemble"
    )
    which.add_argument(
        "--law", choices=list(LAWS), help="an exact law of infinite width in place of an ensemble"
    )
    parser.add_argument(
        "--heteroscedastic", action="store_true", help="noise that depends on the row"
    )
    _add_model_settings(parser)
