"""Files that are written whole or not at all, and the cache directory."""

import os
import re
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ntkgp.core.locks import MOVES_OPEN_FILES, Unlockable, is_at, lock

_SUFFIX = ".partial"
_ABANDONED_SECONDS = 24 * 60 * 60
"""After so long a partial file is taken for abandoned where locks cannot tell."""


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `path` when the block ends without an error.

    Readers find the old file or the new one, never a part; of several writers the last one wins. After
    an error, such as a full disk, the old file is still there. The file is written under a name that
    nobody can foresee, so no link can wait there, and it is on disk before it takes its place. What
    killed writers left behind is removed by the next one.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    try:
        with _partial(path) as (partial, descriptor):
            with open(partial, "w+b", opener=lambda *_: descriptor) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if MOVES_OPEN_FILES:  # while it is locked, so that nobody takes it for abandoned
                    os.replace(partial, path)
            if not MOVES_OPEN_FILES:
                os.replace(partial, path)
    except OSError as error:
        if error.filename is None or str(error.filename).endswith(_SUFFIX):
            error.filename, error.filename2 = str(path), None
        raise
    _sync_directory(path.parent)


@contextmanager
def _partial(path: Path) -> Iterator[tuple[Path, int]]:
    """A new file beside `path` that nobody else writes to, and its descriptor, locked; gone at the end."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    flags |= sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))
    while True:
        partial = path.with_name(f"{_prefix(path)}{secrets.token_hex(8)}{_SUFFIX}")
        descriptor = os.open(partial, flags, 0o666)
        if _is_ours(partial, descriptor):
            break
        os.close(descriptor)
    try:
        yield partial, descriptor
    finally:
        partial.unlink(missing_ok=True)


def _is_ours(partial: Path, descriptor: int) -> bool:
    """Lock a new file; False if another process took it for abandoned before it was locked."""
    try:
        lock(descriptor)
    except BlockingIOError:
        return False
    except Unlockable:
        pass
    return is_at(partial, descriptor)


def _remove_abandoned(path: Path) -> None:
    """Delete the partial files of `path` whose writers are gone."""
    pattern = re.compile(re.escape(_prefix(path)) + "[0-9a-f]{16}" + re.escape(_SUFFIX))
    with suppress(OSError):
        for name in os.listdir(path.parent):
            if pattern.fullmatch(name):
                with suppress(OSError):  # another process was quicker, or it is in use
                    _remove_if_abandoned(path.with_name(name))


def _prefix(path: Path) -> str:
    return f".{path.name[:64]}."


def _remove_if_abandoned(partial: Path) -> None:
    if not MOVES_OPEN_FILES:
        partial.unlink()  # which fails while its writer has it open
        return
    descriptor = os.open(partial, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        lock(descriptor)  # fails while its writer has it locked
        partial.unlink()  # before it is unlocked: its writer may be about to lock it
    except Unlockable:
        if time.time() - os.fstat(descriptor).st_mtime > _ABANDONED_SECONDS:
            partial.unlink()
    finally:
        os.close(descriptor)


def _sync_directory(directory: Path) -> None:
    """Let the new name reach the disk, where the platform can."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def cache_dir() -> Path:
    """Where data sets are kept: NTKGP_DATA, else `ntkgp` in the platform's directory for caches."""
    if chosen := os.environ.get("NTKGP_DATA"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "ntkgp"
