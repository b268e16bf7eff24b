"""The results files of a report. All are read and drawn before anything is written."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, count
from pathlib import Path

from ntkgp.core.progress import printable
from ntkgp.experiments.experiment import Experiment, report
from ntkgp.experiments.results import load
from ntkgp.report.page import Part


def read(
    paths: Sequence[Path], experiments: Mapping[str, Experiment]
) -> tuple[list[Part], list[str]]:
    """The parts of a page, and the reasons why other files of a folder were skipped.

    A folder stands for the results files directly in it, whatever their names. A file that is named
    must be one.
    """
    parts: dict[Path, Part] = {}
    skipped: list[str] = []
    bad: list[str] = []
    for path in paths:
        folder = path.is_dir()
        for file in filter(_may_be_json, sorted(path.iterdir())) if folder else [path]:
            if file.resolve() in parts:
                continue
            try:
                parts[file.resolve()] = _part(file, experiments)
            except (ValueError, OSError) as error:
                (skipped if folder else bad).append(printable(str(error)))
    if bad:
        raise ValueError(" ".join(bad))
    if not parts:
        places = ", ".join(map(str, paths))
        raise FileNotFoundError(" ".join([f"{places} has no results file in it.", *skipped]))
    titles = [experiment.title for experiment in experiments.values()]
    in_order = sorted(parts.items(), key=lambda item: titles.index(item[1].title))
    return list(_apart(dict(in_order))), skipped


def _may_be_json(path: Path) -> bool:
    """Whether its name or first character says so; a file that cannot be read is not."""
    if path.suffix == ".json" or not path.is_file():
        return path.is_file()
    with suppress(OSError), path.open("rb") as file:
        return file.read(1) == b"{"
    return False


def _part(path: Path, experiments: Mapping[str, Experiment]) -> Part:
    name = load(path)["experiment"]
    if name not in experiments:
        raise ValueError(f"{path} is of an experiment unknown here: {name[:80]!r}.")
    try:
        return report(experiments[name], path)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != "matplotlib":
            raise
        raise ModuleNotFoundError(
            "figures need matplotlib: pip install 'ntkgp[report]', then run `ntkgp report "
            f"{path}`. The results are safe."
        ) from None


def _apart(parts: Mapping[Path, Part]) -> Iterator[Part]:
    """The parts; files and figures of the same name are told apart by folder or number."""
    names = [part.source for part in parts.values()]
    taken: set[str] = set()
    for path, part in parts.items():
        numbered = (f"{path.stem}-{n}" for n in count(2))
        for stem in chain([path.stem, f"{path.parent.name}-{path.stem}"], numbered):
            figures = {f"{stem}{drawing.name}" for drawing in part.section.drawings}
            if not figures & taken:
                break
        taken |= figures
        source = part.source if names.count(part.source) == 1 else f"{path.parent.name}/{path.name}"
        yield replace(part, stem=stem, source=source)
