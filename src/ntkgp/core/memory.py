"""Memory is forecast before it is allocated."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
_SMALL = 2**26
_NO_LIMIT = 2**60
"""The first version of control groups says so by a number near 2⁶³."""


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


def require_kernel(rows: int, columns: int, itemsize: int, matrices: int = 1) -> None:
    """Go on if that many matrices of a kernel fit, else raise. Small ones are not worth the question."""
    needed = matrices * rows * columns * itemsize
    if needed > _SMALL:
        require(
            needed,
            f"a kernel of {rows:,} x {columns:,} entries",
            "Compute it for fewer inputs at once, in float32 (dtype=np.float32), or its diagonal alone "
            "(diagonal=True); condition(..., solver=ntkgp.ConjugateGradients()) needs no matrix.",
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
        pages = (_PROC / "self/statm").read_text().split()[1]
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
        lines = (_PROC / "meminfo").read_text().splitlines()
        fields = dict(line.split(":") for line in lines)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _of_the_container() -> int | None:
    """What the tightest control group of this process leaves, of either version of them."""
    left = [_left_in(folder, *names) for folder, names in _groups()]
    return min((value for value in left if value is not None), default=None)


def _groups() -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Folders of the process's memory groups, up to the root, and the names of their files.

    Within a container the root is often all there is to see: its own group is mounted there.
    """
    try:
        lines = (_PROC / "self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    paths = {"/"}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            paths |= {path, *map(str, PurePosixPath(path).parents)}
    for path in sorted(paths):
        yield _CGROUP / path.lstrip("/"), ("memory.max", "memory.current", "inactive_file")
        old = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        yield _CGROUP / "memory" / path.lstrip("/"), old


def _left_in(folder: Path, limit_name: str, used_name: str, cache_name: str) -> int | None:
    """Bytes that a group may still take; None without a limit, which reads "max" or is huge.

    Files that were read stay in memory and count as used, but give way: `cache_name` of memory.stat is what
    the kernel drops first.
    """
    try:
        limit, used = (int((folder / name).read_text()) for name in (limit_name, used_name))
        lines = (folder / "memory.stat").read_text().splitlines()
        cached = int(dict(line.split() for line in lines).get(cache_name, 0))
    except (OSError, ValueError):
        return None
    return None if limit >= _NO_LIMIT else max(0, limit - used + min(cached, used))
