"""Compiled programs kept on disk, so that a new process need not compile them again."""

import gc
import os
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import jax
import jax.monitoring

from ntkgp.core.files import cache_dir
from ntkgp.core.memory import resident_bytes
from ntkgp.core.threads import in_worker

_MOST_BYTES = 2**30
_MOST_MAPS = 40_000
_MOST_GROWTH = 2**29
_FEW_PROGRAMS = 100
_OFF = "off"
_LOOK_EVERY = 8
_calls = count()
_own: dict[str, str] = {}
"""The directory that JAX has from us, and not from the user."""


def keep_compiled(directory: str | os.PathLike[str] | None = None) -> Path:
    """Let JAX keep what it compiles in a directory, and find it there from then on.

    ntkgp does so by itself when it first computes something. Call this to choose the directory, or
    to keep what your own code compiles earlier. It sets two options of JAX for the whole process.
    If JAX has a directory already, by its own options or JAX_COMPILATION_CACHE_DIR, that one stays.

    To keep nothing, set the environment variable NTKGP_COMPILED to `off`; any other value is the
    directory to use.

    Args:
        directory: by default `compiled` in the directory of data sets (`ntkgp.data.cache_dir`). Its
            oldest programs are deleted when it holds more than a gibibyte.

    Returns:
        The directory in use.
    """
    already = jax.config.values["jax_compilation_cache_dir"]
    if already and (already != _own.get("directory") or directory is None):
        return Path(already)
    named = os.environ.get("NTKGP_COMPILED", _OFF)
    default = cache_dir() / "compiled" if named == _OFF else named
    chosen = Path(directory or default).expanduser()
    chosen.mkdir(mode=0o700, parents=True, exist_ok=True)
    _drop_oldest(chosen, _MOST_BYTES)
    jax.config.update("jax_compilation_cache_dir", str(chosen))
    _own["directory"] = str(chosen)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
    _look_again()
    return chosen


class NoDevice(RuntimeError):
    """JAX was told to use a device that is not there."""


def before_compiling() -> None:
    """What every entry to the library calls before it may compile something."""
    _check_devices()
    _keep_by_default()
    if in_worker():  # others use the programs that would be forgotten
        return
    if next(_calls) % _LOOK_EVERY == 0:
        _drop_programs_above(_MOST_MAPS)
    _programs.bound(_MOST_GROWTH)


@cache
def _check_devices() -> None:
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:  # which one depends on the platform
        named = jax.config.values["jax_platforms"]
        reason = f" ({error})" if str(error) else ""
        raise NoDevice(
            f"JAX cannot use the devices that it was told to, JAX_PLATFORMS={named!r}{reason}. Unset that "
            "variable, or install JAX for such a device."
        ) from error


class _Programs:
    """The programs compiled since they were last forgotten, and the memory that the process had then.

    JAX keeps every program that it compiles, some megabytes each, as long as its function lives. Other
    lengths of data or other options compile others, so a process that tries many would grow for ever.
    """

    def __init__(self) -> None:
        self.compiled, self.resident = 0, resident_bytes()
        jax.monitoring.register_event_duration_secs_listener(self._count)

    def _count(self, event: str, duration_secs: float, **_: Any) -> None:
        self.compiled += event == "/jax/core/compile/backend_compile_duration"

    def bound(self, most_growth: int) -> None:
        """Forget all programs if there are many and the process has grown; most come back from disk."""
        if self.compiled < _FEW_PROGRAMS or self.resident is None:
            return
        grown = (resident_bytes() or 0) - self.resident
        if grown > most_growth:
            jax.clear_caches()
            gc.collect()
            self.compiled, self.resident = 0, resident_bytes()


@cache
def _keep_by_default() -> None:
    """Keep what is compiled from now on, unless the user wants none of it or it cannot be kept."""
    if os.environ.get("NTKGP_COMPILED") != _OFF:
        with suppress(OSError):
            keep_compiled()


def _drop_programs_above(most_maps: int) -> None:
    """Forget all compiled programs where they take too many of the process's memory maps.

    A program takes dozens. Linux allows 65,530 by default, and JAX crashes beyond. What is needed
    again comes back from disk.
    """
    try:
        with open("/proc/self/maps", "rb") as maps:
            taken = sum(1 for _ in maps)
    except OSError:  # not on Linux
        return
    if taken > most_maps:
        jax.clear_caches()


_programs = _Programs()


def _look_again() -> None:
    """Let JAX look for the directory again: it looks once, at its first compilation."""
    from jax.experimental.compilation_cache import compilation_cache

    compilation_cache.reset_cache()


def _drop_oldest(directory: Path, most_bytes: int) -> None:
    """Delete the oldest programs, and no other files, until the rest take half of what is allowed."""
    programs = [file for file in directory.iterdir() if file.name.endswith(("-cache", "-atime"))]
    found = [(file.stat().st_mtime, file.stat().st_size, file) for file in programs]
    total = sum(size for _, size, _ in found)
    if total <= most_bytes:
        return
    for _, size, file in sorted(found):
        if total <= most_bytes / 2:
            return
        with suppress(OSError):  # another process may have deleted it already
            file.unlink()
        total -= size
