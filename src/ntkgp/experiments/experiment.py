"""An experiment as one value, and the one runner of all of them."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

from ntkgp.core.cluster import Ray
from ntkgp.core.locks import locked
from ntkgp.core.progress import printable
from ntkgp.ensembles.checkpoint import Checkpoint
from ntkgp.experiments import results as files
from ntkgp.experiments.results import Mark, Record, Results
from ntkgp.report.page import Part
from ntkgp.report.section import Section


class Given(NamedTuple):
    """What a run may use besides its configuration and its mark."""

    results: Results
    """The results file so far: its axes, and the records of earlier runs."""
    data: Any
    """What the experiment's `load` returned."""
    progress: bool
    """Whether to show a progress bar."""
    say: Callable[[str], None]
    """Prints a line."""
    checkpoint: Checkpoint | None = None
    """Where this run keeps the state of training."""
    backend: Ray | None = None
    """A cluster that trains members."""

    def part(self, name: str) -> "Given":
        """For a run that trains more than once: each time with checkpoints of its own."""
        own = None if self.checkpoint is None else self.checkpoint.under(name)
        return self._replace(checkpoint=own)

    @property
    def training(self) -> dict[str, Any]:
        """Options of `fit` that change no result."""
        return {
            "progress": self.progress,
            "checkpoint": self.checkpoint,
            "backend": self.backend,
        }


@dataclass(frozen=True)
class Experiment:
    """One figure or table: what is run, what the results file holds, and how it is reported.

    A configuration is a frozen dataclass of numbers, words and tuples of them.

    >>> from dataclasses import replace
    >>> from ntkgp.experiments.catalogue import EXPERIMENTS
    >>> laws = EXPERIMENTS["laws"]
    >>> config = replace(laws.presets["laptop"], networks=("erf-2",))
    >>> list(laws.marks(config, None))
    [{'network': 'erf-2', 'chain': 'noisy'}, {'network': 'erf-2', 'chain': 'noise-free'}]
    """

    name: str
    """The name of the experiment and of its results file."""
    title: str
    presets: Mapping[str, Any]
    """Configurations by name. Pages list where a run differs from the one called "paper"."""
    marks: Callable[[Any, Any], Iterable[Mark]]
    """The runs, in order, from the configuration and from what `load` returned."""
    record: Callable[[Any, Mark, Given], Record | None]
    """Do one run of a configuration; None leaves it out this time."""
    report: Callable[[Results], Section]
    """Tables, figures and claims of a results file. It draws, and writes nothing."""
    contents: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """What the file holds besides the runs, each entry a function of the configuration.

    These are above all the axes of figures: runs are recorded and drawn by the axes in their file.
    """
    may_grow: tuple[str, ...] = ()
    """Fields that add or remove runs and change none. They may differ between commands."""
    needs: tuple[str, ...] = ()
    """Data sets, by their names in `ntkgp.data`."""
    load: Callable[[Any], Any] = lambda config: None
    """Get data into memory, for all runs of a configuration."""
    readings: tuple[str, ...] = ()
    """How every preset reads the paper where it is unclear, and where it departs from it."""


def _one_at_a_time(run: Callable[..., Path]) -> Callable[..., Path]:
    """Let one process at a time write the results of an experiment into a directory."""

    @wraps(run)
    def locked_run(experiment: Experiment, config: Any, out: Path, **options: Any) -> Path:
        out = Path(out)
        out.mkdir(parents=True, exist_ok=True)
        with locked(out / f".{experiment.name}.lock", f"{experiment.name}.json in {out}"):
            return run(experiment, config, out, **options)

    return locked_run


@_one_at_a_time
def run(
    experiment: Experiment,
    config: Any,
    out: Path,
    *,
    progress: bool = True,
    say: Callable[[str], None] = print,
    checkpoint_every: int | float = 60,
    backend: Ray | None = None,
) -> Path:
    """Do the runs that the results file NAME.json in `out` lacks; return its path.

    The file is saved after each run. Within a run, training keeps checkpoints beside it, until the run is
    saved. So an interrupted command goes on where it was.
    """
    path = Path(out) / f"{experiment.name}.json"
    results = _begun(experiment, config, path)
    given = Given(results, experiment.load(config), progress, say, backend=backend)
    marks = results["marks"] = list(experiment.marks(config, given.data))
    files.save(path, results)  # fails now, not after the first run, if it cannot be written
    for number, mark in enumerate(marks, start=1):
        if files.found(results["runs"], mark):
            continue
        folder = _checkpoints(path, mark)
        other: Record = {"resumed": True} if folder.exists() else {}  # its seconds are not all
        given = given._replace(checkpoint=Checkpoint(folder, checkpoint_every))
        started = time.perf_counter()
        record = _plain(experiment.record(config, mark, given), mark)
        if record is None:
            continue
        seconds = round(time.perf_counter() - started, 2)
        made_by = {"versions": files.versions(), "machine": files.machine()}
        other |= {name: value for name, value in made_by.items() if results.get(name) != value}
        results["runs"].append(mark | record | {"seconds": seconds} | other)
        files.save(path, results)
        shutil.rmtree(folder, ignore_errors=True)
        words = ", ".join(f"{name} {value}" for name, value in mark.items())
        say(f"{number}/{len(marks)}  {words}: {seconds:.1f} s")
    with suppress(OSError):  # there is none, or runs that were left out have theirs
        _checkpoints(path).rmdir()
    return path


def _checkpoints(path: Path, mark: Mark | None = None) -> Path:
    """The directory of all checkpoints beside a results file, or of one run's."""
    folder = path.with_suffix(".checkpoints")
    if mark is None:
        return folder
    return folder / hashlib.sha256(json.dumps(mark, sort_keys=True).encode()).hexdigest()[:16]


def _plain(record: Record | None, mark: Mark) -> Record | None:
    """A record as JSON has it, NumPy's numbers and arrays included, or an error that names the run."""
    if record is None:
        return None
    which = ", ".join(f"{name} {value}" for name, value in mark.items())
    if taken := mark.keys() & record.keys():
        raise ValueError(f"the record of {which} has entries of its mark: {', '.join(taken)}.")
    try:
        return json.loads(json.dumps(record, default=lambda value: value.tolist(), allow_nan=False))
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"the record of {which} has what a results file cannot hold, {error}: use numbers that are "
            "finite, words, and lists and dictionaries of them."
        ) from error


def _begun(experiment: Experiment, config: Any, path: Path) -> Results:
    """The results of an earlier command with the same configuration, or new ones with no runs."""
    as_json = _as_json(config)
    if path.exists():
        earlier = files.load(path)
        fixed = [name for name in as_json if name not in experiment.may_grow]
        there = earlier["config"]
        changed = [
            f"{name} was {there.get(name)} and is {as_json[name]}"
            for name in fixed
            if there.get(name) != as_json[name]
        ]
        if earlier["experiment"] != experiment.name or changed:
            raise ValueError(
                f"{path} holds the results of another configuration"
                f"{''.join(f', {words}' for words in changed[:3])}. Choose another output directory "
                "(--out), or delete that file."
            )
        check_contents(experiment, earlier, path)
        return earlier | {"config": as_json}
    contents = {name: make(config) for name, make in experiment.contents.items()}
    return {
        "experiment": experiment.name,
        "config": as_json,
        "versions": files.versions(),
        "machine": files.machine(),
        **json.loads(json.dumps(contents)),
        "runs": [],
    }


def check_contents(experiment: Experiment, results: Results, path: Path) -> None:
    """Refuse a file without its axes: the code's own may have changed since."""
    if missing := [name for name in experiment.contents if name not in results]:
        raise ValueError(
            f"{path} lacks {', '.join(missing)}, without which its runs cannot be read: another version "
            "of ntkgp wrote it, or it was not written whole. Run the experiment again, into another "
            "directory."
        )


def report(experiment: Experiment, path: Path) -> Part:
    """Draw a results file for a page. Writes nothing."""
    results = files.wanted(files.load(path))
    check_contents(experiment, results, path)
    try:
        section = experiment.report(results)
    except KeyError as error:
        raise ValueError(
            f"{path} lacks {printable(str(error))} in its runs: another version of ntkgp wrote it, or it "
            "was not written whole. Run the experiment again, into another directory."
        ) from error
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise ValueError(
            f"{path} cannot be drawn, because its runs are not those of its experiment: "
            f"{printable(str(error))}. Run the experiment again, into another directory."
        ) from error
    made_by = results["versions"] | results.get("machine", {})
    return Part(
        experiment.title,
        printable(path.name),
        path.stem,
        section,
        experiment.readings,
        _departures(experiment, results["config"]),
        [
            ", ".join(f"{name} = {value}" for name, value in results["config"].items()),
            ", ".join(f"{name} {value}" for name, value in made_by.items()),
        ],
    )


def _departures(experiment: Experiment, config: Mapping[str, Any]) -> list[str] | None:
    if "paper" not in experiment.presets:
        return None
    paper = _as_json(experiment.presets["paper"])
    return [f"{name} = {value}" for name, value in config.items() if paper.get(name) != value]


def _as_json(config: Any) -> dict[str, Any]:
    return json.loads(json.dumps(asdict(config)))
