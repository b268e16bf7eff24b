"""Locks between processes, which end when their process does."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ModuleNotFoundError:  # Windows has locks of another kind
    fcntl = None  # type: ignore[assignment]

MOVES_OPEN_FILES = fcntl is not None
"""Whether the platform renames and deletes files that are open."""


class Locked(OSError):
    """Another process holds the lock."""


class Unlockable(Exception):
    """The file system, or the platform, has no locks."""


@contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file while the block runs, or raise `Locked` at once if another process does.

    The lock ends with its process, however that ends. A file that a killed process left behind locks
    nothing. Where the file system has no locks, the block runs without, after a warning.
    """
    descriptor = _lock_file(path, what)
    try:
        yield
    finally:
        if MOVES_OPEN_FILES:
            path.unlink(missing_ok=True)  # before it is unlocked: see `is_at`
        os.close(descriptor)
        if not MOVES_OPEN_FILES:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _lock_file(path: Path, what: str) -> int:
    flags = os.O_RDWR | os.O_CREAT
    flags |= sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))
    while True:
        descriptor = os.open(path, flags, 0o666)
        try:
            lock(descriptor)
        except BlockingIOError:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise Locked(
                f"another process{holder} is writing {what}. Wait until it has ended, or choose another "
                "place."
            ) from None
        except Unlockable:
            warnings.warn(
                f"there are no locks here, so nothing keeps another process from writing {what} at the "
                "same time, and then records would be lost.",
                stacklevel=5,
            )
            return descriptor
        if is_at(path, descriptor):  # and not a file that its holder has just removed
            os.ftruncate(descriptor, 0)
            os.write(descriptor, b"%d\n" % os.getpid())
            return descriptor
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    number = b""
    with suppress(OSError):
        number = os.read(descriptor, 20).strip()
    return f" ({int(number)})" if number.isdigit() else ""


def lock(descriptor: int) -> None:
    """Lock an open file, or raise BlockingIOError if another has; it is unlocked when it is closed."""
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError as error:
            raise Unlockable from error
        return
    try:
        import msvcrt
    except ModuleNotFoundError as error:
        raise Unlockable from error
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    except OSError as error:
        raise BlockingIOError from error


def is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file is still the one of this name."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False
