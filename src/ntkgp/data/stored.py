"""What it takes to add a data set: the two kinds of entry in the table of sets."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ntkgp.data.cache import Arrays, Form
from ntkgp.data.dataset import Dataset

Say = Callable[[str], None]
"""Takes messages, a line at a time: `print`, or the `append` of a test's list."""


class Fact(NamedTuple):
    """Something known about a data set, beside what was found."""

    what: str
    found: float | str
    known: float | str
    within: float = 0.0

    @property
    def holds(self) -> bool:
        if isinstance(self.found, str) or isinstance(self.known, str):
            return self.found == self.known
        return abs(self.found - self.known) <= self.within  # NaN is never

    def __str__(self) -> str:
        found = f"{self.found:.6g}" if isinstance(self.found, float) else self.found
        return f"{self.what}: {found}, where {self.known} is known"


@dataclass(frozen=True)
class Stored:
    """A set that is kept in the cache directory, in one file."""

    files: tuple[str, ...]
    """Names the file may have; `make` writes the first."""
    originals: str
    """Which public files it is made of, in words that end a sentence."""
    forms: Mapping[str, Form]
    """Dtype and shape of each array that `make` returns."""
    make: Callable[[Path, Say], Arrays]
    """The content of the file, from the folder or file that a user points at."""
    read: Callable[[Path, str], Dataset]
    """The set of that name, from the cached file."""
    facts: Callable[[Dataset], Iterable[Fact]]
    """What is known of the set."""
    downloads: tuple[str, ...] = ()
    """Addresses of the public files; each has digests."""
    digests: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of public files by their names, "sha256:..." first and "md5:...", as the publisher or many users of
    a file give them."""


@dataclass(frozen=True)
class BuiltIn:
    """A set that needs no file."""

    where: str
    """Where it comes from, in words."""
    load: Callable[[], Dataset]
