"""`ntkgp reproduce` runs an experiment, and `report` draws it."""

import argparse
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from textwrap import wrap
from typing import Any

import jax

from ntkgp import data
from ntkgp.core.cluster import Ray
from ntkgp.core.compilation import NoDevice
from ntkgp.core.memory import NotEnoughMemory
from ntkgp.core.talk import Talk, add_json_option
from ntkgp.core.threads import cores
from ntkgp.experiments import reports
from ntkgp.experiments.catalogue import EXPERIMENTS
from ntkgp.experiments.experiment import run
from ntkgp.report.page import write_page

EXPECTED = (ValueError, OSError, ModuleNotFoundError, NotEnoughMemory, FloatingPointError, NoDevice)
"""Errors about the user's input, files or machine, whose message says enough."""
HEADING = "Bayesian Deep Ensembles via the Neural Tangent Kernel: what was reproduced"
TO_CONTINUE = "interrupted; run the same command again to continue."


def add_to(commands: Any) -> None:
    """Give a command line `reproduce` and `report`."""
    reproduce = commands.add_parser(
        "reproduce",
        help="run an experiment of the paper and report it",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="experiments:\n"
        + "\n".join(f"  {name:8} {entry.title}" for name, entry in EXPERIMENTS.items())
        + "\n\nexample:\n  ntkgp reproduce toy --preset demo --out runs/demo",
    )
    reproduce.add_argument(
        "name", choices=[*EXPERIMENTS, "all"], metavar="NAME", help="an experiment below, or all"
    )
    reproduce.add_argument(
        "--preset",
        default="laptop",
        help="laptop (the default), paper, or another that the experiment has",
    )
    reproduce.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="change one field of the preset; lists are separated by commas, and with all the field "
        "is EXPERIMENT.FIELD",
    )
    reproduce.add_argument(
        "--repeats", type=int, help="independent repeats, the preset's if left out"
    )
    reproduce.add_argument(
        "--out", type=Path, help="directory for results (default: runs/NAME-PRESET)"
    )
    reproduce.add_argument(
        "--checkpoint-every",
        type=float,
        default=60,
        metavar="SECONDS",
        help="how often training saves its state (default: 60), from which the same command goes on",
    )
    reproduce.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="train members on a Ray cluster, such as auto or 10.0.0.1:6379; needs ntkgp[ray]",
    )
    reproduce.add_argument("--quiet", action="store_true", help="no progress bar")
    add_json_option(reproduce)
    reproduce.set_defaults(command=_reproduce, interrupted=TO_CONTINUE)

    report = commands.add_parser(
        "report",
        help="draw figures, tables and a page of claims from results; trains nothing",
        epilog="example: ntkgp report runs/demo",
    )
    report.add_argument(
        "runs",
        type=Path,
        nargs="+",
        help="results files, or directories: the results files in them, whatever their names",
    )
    report.add_argument(
        "--out",
        type=Path,
        help="directory of the page and the figures (default: the first one given, or that of the "
        "first file)",
    )
    add_json_option(report)
    report.set_defaults(command=_report)


def _reproduce(arguments: argparse.Namespace) -> int:
    with suppress(RuntimeError):  # JAX has started already, and keeps its devices
        jax.config.update("jax_num_cpu_devices", cores())
    out = arguments.out or Path("runs") / f"{arguments.name}-{arguments.preset}"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"cannot write results into {out}: {error}. Choose another --out."
        ) from error
    talk = Talk("reproduce", arguments.json)
    talk.record(experiment=arguments.name, preset=arguments.preset)
    code = _reproduce_all(arguments, out, talk) if arguments.name == "all" else 0
    if arguments.name != "all":
        config = _configured(arguments.name, arguments, arguments.set)
        _get_data(arguments.name, talk)
        _write_report([_run(arguments.name, config, out, arguments, talk)], out, talk)
    talk.finish()
    return code


def _reproduce_all(arguments: argparse.Namespace, out: Path, talk: Talk) -> int:
    """Run every experiment whose data are there; return 1 if one of them failed."""
    settings = _by_experiment(arguments.set)
    configs = {name: _configured(name, arguments, settings.get(name, [])) for name in EXPERIMENTS}
    notes, failed, left_out = [], [], []
    for name, config in configs.items():
        talk.say(f"== {name}: {EXPERIMENTS[name].title}")
        try:
            _get_data(name, talk)
        except EXPECTED as error:
            left_out.append(name)
            notes.append(f"{name} was left out: {error}")
            talk.say(f"{name} is left out, for want of data.")
            continue
        started = time.perf_counter()
        try:
            _run(name, config, out, arguments, talk)
        except EXPECTED as error:
            failed.append(name)
            notes.append(f"{name} failed: {error}")
            talk.say(f"{name} failed.")
        else:
            talk.say(f"{name}: {time.perf_counter() - started:.0f} s")
    try:
        _write_report([out], out, talk, notes)
    except FileNotFoundError as error:  # nothing has run
        talk.say("\n".join([*notes, str(error)]))
        talk.record(parts=[], skipped=[], notes=notes, page=None)
    talk.record(failed=failed, left_out=left_out)
    return 1 if failed else 0


def _get_data(name: str, talk: Talk) -> None:
    """Get the data sets of an experiment, or name all that are missing."""
    missing = []
    for data_set in EXPERIMENTS[name].needs:
        try:
            data.get(data_set, say=talk.say)
        except EXPECTED as error:
            missing.append(str(error))
    if missing:
        raise FileNotFoundError(" ".join(missing))


def _configured(name: str, arguments: argparse.Namespace, settings: Sequence[str]) -> Any:
    """The preset with the user's changes."""
    presets = EXPERIMENTS[name].presets
    if arguments.preset not in presets:
        raise ValueError(f"{name} has the presets {', '.join(presets)}; got {arguments.preset!r}.")
    config = override(presets[arguments.preset], settings)
    if arguments.repeats is None:
        return config
    if "repeats" in {field.name for field in fields(config)}:
        return replace(config, repeats=arguments.repeats)
    if arguments.name != "all":
        raise ValueError(f"{name} has no repeats: leave --repeats out.")
    return config


def _run(name: str, config: Any, out: Path, arguments: argparse.Namespace, talk: Talk) -> Path:
    """Run one experiment; return its results file."""
    path = run(
        EXPERIMENTS[name],
        config,
        out,
        progress=not (arguments.quiet or arguments.json),
        say=talk.say,
        checkpoint_every=arguments.checkpoint_every,
        backend=Ray(arguments.ray) if arguments.ray else None,
    )
    talk.say(f"results: {path}\n")
    return path


def _by_experiment(settings: Sequence[str]) -> dict[str, list[str]]:
    """EXPERIMENT.FIELD=VALUE settings as FIELD=VALUE ones of each experiment."""
    split: dict[str, list[str]] = {}
    for setting in settings:
        name, dot, rest = setting.partition(".")
        if not dot or name not in EXPERIMENTS:
            raise ValueError(
                f"with all, --set takes EXPERIMENT.FIELD=VALUE, such as toy.width=64; got {setting!r}."
            )
        split.setdefault(name, []).append(rest)
    return split


def _report(arguments: argparse.Namespace) -> None:
    first = arguments.runs[0]
    talk = Talk("report", arguments.json)
    _write_report(
        arguments.runs, arguments.out or (first if first.is_dir() else first.parent), talk
    )
    talk.finish()


def _write_report(paths: Sequence[Path], out: Path, talk: Talk, notes: Sequence[str] = ()) -> None:
    """Write figures and a page into a folder; tell the tables, the paths and the notes."""
    parts, skipped = reports.read(paths, EXPERIMENTS)
    page = write_page(HEADING, parts, out, notes)
    for part in parts:
        talk.say("\n".join([f"== {part.title} ({part.source})", "", *part.section.lines()]))
        for stem, shows in part.figures(out):
            talk.say("\n        ".join([f"figure: {stem}.png and .svg", *wrap(shows, 92)]))
        talk.say()
    talk.say("\n".join([*(f"skipped: {why}" for why in skipped), *notes, f"page: {page}"]))
    talk.record(
        parts=[
            {
                "title": part.title,
                "results": part.source,
                "claims": [claim.facts() for claim in part.section.claims],
                "figures": [f"{stem}.png" for stem, _ in part.figures(out)],
            }
            for part in parts
        ],
        skipped=skipped,
        notes=notes,
        page=str(page),
    )


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
            kind = _kind(known[name])
            raise ValueError(f"--set {name} needs a value of type {kind}; got {text!r}.") from None
    return replace(config, **changes)


def _kind(like: Any) -> str:
    return (
        f"{type(like[0]).__name__}, or several" if isinstance(like, tuple) else type(like).__name__
    )


def _read(text: str, like: Any) -> Any:
    if not text:
        raise ValueError(text)
    if isinstance(like, tuple):
        return tuple(type(like[0])(part) for part in text.split(","))
    if isinstance(like, bool):
        if text not in ("True", "False"):
            raise ValueError(text)
        return text == "True"
    return type(like)(text)
