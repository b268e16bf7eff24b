"""Memory is forecast before it is allocated."""

import os
import sys
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


class NotEnoughMemory(MemoryError):
    """What was asked for does not fit into memory; nothing has been allocated."""


def require(needed: int, what: str, instead: str) -> None:
    """Go on if `needed` bytes are free, else raise `NotEnoughMemory` with the alternatives."""
    free = available_bytes()
    if free is not None and needed > free:
        raise NotEnoughMemory(f"{what} needs {gib(needed)}, and {gib(free)} are free. {instead}")


def require_covariance(rows: int, matrices: int, other_bytes: int = 0) -> None:
    """Go on if that many float64 matrices, rows x rows, fit besides the rest, else raise."""
    require(
        8 * matrices * rows**2 + other_bytes,
        f"the covariance between {rows:,} rows",
        "Ask for fewer rows at once, or for the variance of each row alone: predict(x) of a law, "
        "return_std=True of a regressor.",
    )


def available_bytes() -> int | None:
    """Free memory without swapping, within a container's limits; None if unknown."""
    known = [value for value in (_of_the_machine(), _of_the_container()) if value is not None]
    return min(known, default=None)


def peak_bytes() -> int | None:
    """This process's peak memory; None where the platform does not say."""
    try:
        import resource
    except ModuleNotFoundError:  # no such thing on Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def resident_bytes() -> int | None:
    """This process's memory now; None where the platform does not say."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def gib(n_bytes: int) -> str:
    """A number of bytes for people.

    >>> gib(3 * 2**30)
    '3.0 GiB'
    """
    return f"{n_bytes / 2**30:.1f} GiB"


def _of_the_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        fields = dict(line.split(":") for line in lines)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _of_the_container() -> int | None:
    try:
        limit, used = ((_CGROUP / f"memory.{name}").read_text() for name in ("max", "current"))
        return int(limit) - int(used)
    except (OSError, ValueError):  # no container, or one without a limit, which reads "max"
        return None
