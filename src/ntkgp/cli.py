"""The command line: `ntkgp reproduce` runs an experiment, `report` draws it, `data` keeps data sets."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import ntkgp
from ntkgp.data import commands as data_commands
from ntkgp.experiments import results

EXPERIMENTS = ("toy", "widths")
"""Names of the modules in `ntkgp.experiments`, and of those in `ntkgp.report` that draw them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; errors in the user's input are one line, not a traceback."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.command(arguments)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"ntkgp: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("ntkgp: interrupted; run the same command again to continue.", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ntkgp", description=ntkgp.__doc__)
    parser.add_argument("--version", action="version", version=f"ntkgp {ntkgp.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    reproduce = commands.add_parser(
        "reproduce", help="run an experiment of the paper and report it"
    )
    reproduce.add_argument("name", choices=EXPERIMENTS)
    reproduce.add_argument(
        "--preset", default="laptop", choices=("laptop", "paper"), help="default: laptop"
    )
    reproduce.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="change one field of the preset; lists are separated by commas",
    )
    reproduce.add_argument(
        "--out", type=Path, help="directory for results (default: runs/NAME-PRESET)"
    )
    reproduce.add_argument("--quiet", action="store_true", help="no progress bar")
    reproduce.set_defaults(command=_reproduce)

    report = commands.add_parser("report", help="draw figures and tables from a results file")
    report.add_argument(
        "results", type=Path, nargs="+", help="results files, as reproduce wrote them"
    )
    report.set_defaults(command=_report)

    data_commands.add_to(commands)
    return parser


def _reproduce(arguments: argparse.Namespace) -> None:
    experiment = import_module(f"ntkgp.experiments.{arguments.name}")
    config = override(experiment.PRESETS[arguments.preset], arguments.set)
    out = arguments.out or Path("runs") / f"{arguments.name}-{arguments.preset}"
    path = experiment.run(config, out, progress=not arguments.quiet)
    print(f"results: {path}\n")
    _print_report(path)


def _report(arguments: argparse.Namespace) -> None:
    for path in arguments.results:
        _print_report(path)


def _print_report(path: Path) -> None:
    contents = results.load(path)
    if contents["experiment"] not in EXPERIMENTS:
        raise ValueError(f"{path} is of an experiment unknown here: {contents['experiment']!r}.")
    try:
        reporter = import_module(f"ntkgp.report.{contents['experiment']}")
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise ModuleNotFoundError(
            "figures need matplotlib: pip install 'ntkgp[report]', then run `ntkgp report "
            f"{path}`. The results are safe."
        ) from None
    print("\n".join(reporter.report(contents, path.parent)))


def override(config: Any, settings: Sequence[str]) -> Any:
    """The configuration with FIELD=VALUE settings applied, each read as its field's own type."""
    known = {field.name: getattr(config, field.name) for field in fields(config)}
    changes = {}
    for setting in settings:
        name, separator, text = setting.partition("=")
        if not separator or name not in known:
            raise ValueError(
                f"--set takes FIELD=VALUE with a field of {', '.join(known)}; got {setting!r}."
            )
        try:
            changes[name] = _read(text, known[name])
        except ValueError:
            kind = type(known[name]).__name__
            raise ValueError(f"--set {name} needs a value of type {kind}; got {text!r}.") from None
    return replace(config, **changes)


def _read(text: str, like: Any) -> Any:
    if isinstance(like, tuple):
        return tuple(type(like[0])(part) for part in text.split(","))
    return type(like)(text)
