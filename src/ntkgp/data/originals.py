"""Reading what a user points at: folders, archives and files as their publishers made them.

Whatever a file declares is compared with a limit before memory is taken for it. Nothing is unpacked to
disk, and nothing in a file is executed.
"""

import gzip
import hashlib
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

MOST_BYTES = 2**26
"""Of one file that is read whole."""
MOST_UNPACKED = 2**28
"""Of all that an archive holds."""


@contextmanager
def in_words(path: Path) -> Iterator[None]:
    """Whatever a parser raises on a broken file, as an error that names the file."""
    try:
        yield
    except Exception as error:  # gzip, zlib, tarfile, Pillow: each has its own
        reason = str(error) or type(error).__name__
        raise ValueError(
            f"{path} cannot be read: {reason.rstrip('.')}. If it was cut short or changed on its "
            "way, download it again."
        ) from error


def find(source: Path, *names: str) -> Path:
    """The file of one of these names: `source` itself, or else the first in it or below it."""
    if source.is_file() and source.name in names:
        return source
    below = (path for name in names for path in source.rglob(name) if path.is_file())
    found = min(
        below, key=lambda path: (len(path.parts), names.index(path.name), path), default=None
    )
    if found is None:
        raise FileNotFoundError(f"no {' or '.join(names)} in {source}.")
    return found


class Bounded:
    """A stream that gives no more than so many bytes."""

    def __init__(self, stream: Any, most: int) -> None:
        self._stream, self._most, self._left = stream, most, most

    def read(self, size: int = -1) -> bytes:
        wanted = self._left + 1 if size < 0 else min(size, self._left + 1)
        data = self._stream.read(wanted)
        self._left -= len(data)
        if self._left < 0:
            raise ValueError(f"it holds more than {self._most:,} bytes")
        return data


def read_whole(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a file that must not be larger than `most`."""
    with path.open("rb") as file:
        return Bounded(file, most).read()


@contextmanager
def unpacked(path: Path, most: int) -> Iterator[Bounded]:
    """The content of a file, packed by gzip or not. Its checksum is checked at the end of the content."""
    with ExitStack() as stack:
        file: Any = stack.enter_context(path.open("rb"))
        is_packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if is_packed:
            file = stack.enter_context(gzip.GzipFile(fileobj=file))
        yield Bounded(file, most)


def files(
    source: Path,
    archive: str,
    wanted: Callable[[PurePosixPath], bool],
    most_each: int = MOST_BYTES,
    most: int = MOST_UNPACKED,
) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Paths and contents of wanted files, in a folder or an archive; nothing is written to disk.

    `source` is the archive, whatever its name, or a folder that holds it, or its unpacked content.
    """
    packed = source if source.is_file() else source / archive
    if packed.is_file():
        with in_words(packed):
            yield from _files_in_archive(packed, wanted, most_each, most)
    elif source.is_dir():
        for file_path in sorted(source.rglob("*")):
            path = PurePosixPath(file_path.relative_to(source).as_posix())
            if wanted(path) and file_path.is_file():
                with in_words(file_path):
                    content = read_whole(file_path, most_each)
                yield path, content
    else:
        raise FileNotFoundError(f"no file or folder {source}.")


def _files_in_archive(
    packed: Path, wanted: Callable[[PurePosixPath], bool], most_each: int, most: int
) -> Iterator[tuple[PurePosixPath, bytes]]:
    with unpacked(packed, most) as stream:
        with tarfile.open(fileobj=stream, mode="r|") as tar:  # type: ignore[call-overload]
            while (member := tar.next()) is not None:
                tar.members = []  # which it would keep for ever
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts:
                    raise ValueError(f"it has a file outside of it, {member.name[:80]!r}")
                if not wanted(path) or member.isdir():
                    continue
                if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                    raise ValueError(f"{member.name[:80]!r} is a link, not a file")
                if member.size > most_each:
                    raise ValueError(f"{member.name[:80]!r} has {member.size:,} bytes, too many")
                file = tar.extractfile(member)
                yield path, file.read() if file is not None else b""
        while stream.read(2**16):  # to its end, where gzip has its checksum
            pass


def check_digests(source: Path, digests: Mapping[str, Sequence[str]]) -> None:
    """Refuse public files, or one that `source` is, whose content is not the published one.

    Digests are written "sha256:..." or "md5:..."; a file has all that are known of it. `source` may have
    a name of its own, and be any of the public files. Files of other names in a folder are not looked at.
    """
    if source.is_file():
        named = digests.get(source.name)
        public = [named] if named else list(digests.values())
        if public and not any(_has(source, known) for known in public):
            raise ValueError(_not_published(source, public[0][0]))
    for name, known in digests.items() if source.is_dir() else ():
        for path in filter(Path.is_file, source.rglob(name)):
            for one in known:
                if _digest(path, one.partition(":")[0]) != one:
                    raise ValueError(_not_published(path, one))


def _has(path: Path, digests: Sequence[str]) -> bool:
    return all(_digest(path, one.partition(":")[0]) == one for one in digests)


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as file:
        return f"{algorithm}:{hashlib.file_digest(file, algorithm).hexdigest()}"


def _not_published(path: Path, known: str) -> str:
    return (
        f"{path} is not the published file: that has {known}, and this "
        f"{_digest(path, known.partition(':')[0])}. Download it again."
    )
