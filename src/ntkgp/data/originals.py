"""Reading what a user points at: folders, archives and files as their publishers made them."""

import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath


@contextmanager
def in_words(path: Path) -> Iterator[None]:
    """Whatever a parser raises on a broken file, as an error that names the file."""
    try:
        yield
    except Exception as error:  # gzip, zlib, tarfile, pickle, SciPy: each has its own
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


def files(
    source: Path, archive: str, wanted: Callable[[PurePosixPath], bool]
) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Paths and contents of wanted files, in a folder or an archive; nothing is written to disk.

    `source` is the archive, whatever its name, or a folder that holds it, or its unpacked content.
    """
    packed = source if source.is_file() else source / archive
    if packed.is_file():
        with in_words(packed), tarfile.open(packed) as tar:
            for member in tar:
                path = PurePosixPath(member.name)
                file = tar.extractfile(member) if member.isfile() and wanted(path) else None
                if file is not None:
                    yield path, file.read()
    elif source.is_dir():
        for file_path in sorted(source.rglob("*")):
            path = PurePosixPath(file_path.relative_to(source).as_posix())
            if wanted(path) and file_path.is_file():
                yield path, file_path.read_bytes()
    else:
        raise FileNotFoundError(f"no file or folder {source}.")
