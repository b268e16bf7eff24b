"""The table of data sets, and what can be done with each: load, get, check."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from ntkgp.core.files import cache_dir
from ntkgp.data import (
    cache,
    cifar10,
    digits,
    flights,
    letters,
    mnist,
    notmnist,
    originals,
    svhn,
    toy,
    uci,
)
from ntkgp.data.dataset import Dataset
from ntkgp.data.download import fetch
from ntkgp.data.stored import BuiltIn, Fact, Say, Stored

SETS: dict[str, Stored | BuiltIn] = {
    "mnist": mnist.SET,
    "notmnist": notmnist.SET,
    "cifar10": cifar10.SET,
    "svhn": svhn.SET,
    "flights2008": flights.SET,
    **dict.fromkeys(uci.NAMES, uci.SET),
    "digits": digits.SET,
    "letters": letters.SET,
    "toy": toy.SET,
}


def load(name: str, source: str | Path | None = None) -> Dataset:
    """A data set by its name, one of `SETS`, with its arrays as they are stored.

    It is read from the cache directory: the environment variable NTKGP_DATA, or else the platform's.
    If the set is not there, `get` puts it there: made from the original public files at `source`, or
    downloaded.

    >>> ntkgp.data.load("digits").all.x.shape
    (1797, 64)
    >>> ntkgp.data.load("imagenet")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: no data set "imagenet"; there are mnist, notmnist, cifar10, svhn, flights2008, ...
    """
    entry = find(name)
    if isinstance(entry, BuiltIn):
        return entry.load()
    return read(name, entry, cached(entry) or get(name, source))


def get(
    name: str, source: str | Path | None = None, *, as_is: bool = False, say: Say = print
) -> Path:
    """Put a data set into the cache directory, and return the path of its file.

    With `source`, a folder or file, the set is made from the original public files there, even if it
    is cached. Without, it is downloaded unless it is cached, if address and checksum are known.

    Files and arrays are compared with what is known of the public ones before they take the place of a
    cached set. With `as_is` they are taken as they are, for files that you changed on purpose.
    """
    entry = find(name)
    if isinstance(entry, BuiltIn):
        raise ValueError(f"{name} needs no file: it {entry.where}.")
    if source is not None:
        return make(name, entry, Path(source).expanduser(), say, as_is)
    if there := cached(entry):
        return there
    if not entry.downloads:
        raise FileNotFoundError(
            f"{name} is not in {cache_dir()}, and there is no address to download it from whose "
            f"checksum is known. {instructions(name, entry)}"
        )
    folder = cache_dir() / f"{entry.files[0]}.downloads"
    try:
        fetch(entry.downloads, entry.digests, folder)
    except (OSError, ModuleNotFoundError) as error:
        raise type(error)(
            f"{name} is not in {cache_dir()}: {error}. Or put it there by hand. "
            f"{instructions(name, entry)}"
        ) from error
    path = make(name, entry, folder, say)
    shutil.rmtree(folder)  # kept until here: after an interruption only missing files are fetched
    return path


def make(name: str, entry: Stored, source: Path, say: Say, as_is: bool = False) -> Path:
    """Write a set's file into the cache directory, from the original files at `source`."""
    if not as_is:
        with _or_as_is(name):
            originals.check_digests(source, entry.digests)
    try:
        arrays = entry.make(source, say)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error} {instructions(name, entry)}") from error
    if reason := cache.misfit(arrays, entry.forms):
        raise ValueError(f"the files in {source} are not those of {name}: {reason}.")
    path = cache_dir() / entry.files[0]
    with _or_as_is(name):
        cache.write(path, arrays, (lambda _: None) if as_is else partial(_check_facts, name, entry))
    return path


@contextmanager
def _or_as_is(name: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(
            f"{error} Nothing was replaced. If you changed the files on purpose, take them as they are: "
            f"ntkgp data get {name} --from PATH --as-is"
        ) from error


def _check_facts(name: str, entry: Stored, path: Path) -> None:
    """Refuse a file that is not as its set, or one of the sets that share it, is known."""
    names = [other for other, shared in SETS.items() if shared is entry] or [name]
    for each in names:
        wrong = [fact for fact in entry.facts(entry.read(path, each)) if not fact.holds]
        if wrong:
            more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            raise ValueError(f"{each} is not as the public set is known: {wrong[0]}{more}.")


def cached(entry: Stored) -> Path | None:
    """The file of a set, if it is in the cache directory."""
    paths = (cache_dir() / file for file in entry.files)
    return next((path for path in paths if path.is_file()), None)


def read(name: str, entry: Stored, path: Path) -> Dataset:
    """A set from its file, or an error that says what to do about the file."""
    try:
        return entry.read(path, name)
    except cache.Unreadable as error:
        raise cache.Unreadable(f"{error} {remedy(name, entry, path)}") from error


def check(name: str) -> list[Fact]:
    """Facts known about a data set, beside what the cache holds; reading checks dtypes and shapes.

    Nothing is downloaded.
    """
    entry = find(name)
    if isinstance(entry, BuiltIn):
        return []
    path = cached(entry)
    if path is None:
        raise FileNotFoundError(f"{name} is not in {cache_dir()}: there is nothing to check.")
    return list(entry.facts(read(name, entry, path)))


def find(name: str) -> Stored | BuiltIn:
    if name not in SETS:
        raise ValueError(f'no data set "{name}"; there are {", ".join(SETS)}.')
    return SETS[name]


def instructions(name: str, entry: Stored) -> str:
    return f"Put into one folder: {entry.originals}. Then run: ntkgp data get {name} --from FOLDER"


def remedy(name: str, entry: Stored, path: Path) -> str:
    if entry.downloads:
        return f"Delete {path} and run: ntkgp data get {name}"
    return f"Delete {path}. {instructions(name, entry)}"
