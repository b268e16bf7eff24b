"""A Cholesky factor in a file that outlives a process which ends too early."""

import hashlib
import json
import mmap
import os
import shutil
from contextlib import suppress
from importlib.metadata import version
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.files import replacing
from ntkgp.core.locks import Unlockable, lock
from ntkgp.core.memory import gib
from ntkgp.core.storage import pack
from ntkgp.kernels import panels as packed
from ntkgp.kernels.linalg import Matrix, NotPositiveDefinite
from ntkgp.kernels.panels import Ledger, Panel, Panels, n_entries
from ntkgp.kernels.training_kernel import TrainingKernel


def kept_cholesky(
    kernel: TrainingKernel, directory: str | os.PathLike[str], what: str, progress: bool
) -> Panels:
    """The factor of a training kernel in a file of the directory, panels of an earlier process included.

    The file's name is a digest of the kernel, so a factor is never taken for another. When the factor is
    complete the file loses its name: it vanishes with the factor.
    """
    try:
        file = _KeptFile(Path(directory), kernel)
    except (TypeError, BlockingIOError, Unlockable):
        # A layer that no file can name, another process at the same factor, or a system without locks.
        room = Panels.empty(len(kernel), kernel.x.dtype, directory)
        return packed.cholesky(room, kernel.fill, what, progress)
    try:
        packed.cholesky(file.panels, kernel.fill, what, progress, file)
    except NotPositiveDefinite:
        file.forget()
        raise
    file.forget()
    return file.panels


class _KeptFile(Ledger):
    """Panels in a file, and beside it a note of those that are done, each with its checksum."""

    def __init__(self, directory: Path, kernel: TrainingKernel) -> None:
        n, dtype = len(kernel), kernel.x.dtype
        width = ceil(n / ceil(n / packed.WIDTH))
        stem = f"factor-{_digest_of(kernel, width)}"
        self._file, self._note = directory / f"{stem}.panels", directory / f"{stem}.json"
        self._map = _mapped(self._file, n_entries(n, width) * dtype.itemsize)
        entries = np.frombuffer(self._map, dtype, n_entries(n, width))
        self.panels = Panels(entries, n, width)
        self._checksums: list[str] = []
        self._recall()

    def add(self, panel: Panel, diagonal: Matrix) -> None:
        self._flush(panel)
        super().add(panel, diagonal)
        self._checksums.append(_checksum(panel))
        note = {"checksums": self._checksums, "trace": self.trace, "largest": self.largest}
        with suppress(OSError), replacing(self._note) as file:  # if not now, with the next panel
            file.write(json.dumps(note).encode())

    def forget(self) -> None:
        """Let the file vanish with the panels."""
        for path in (self._note, self._file):
            path.unlink(missing_ok=True)

    def _recall(self) -> None:
        """Take the panels of an earlier process for done, if they are what was written."""
        try:
            note = json.loads(self._note.read_bytes())
            checksums, trace, largest = (note[key] for key in ("checksums", "trace", "largest"))
            there = list(self.panels)[: len(checksums)]
            same = [_checksum(panel) for panel in there] == checksums
            self.trace, self.largest = float(trace), float(largest)
        except (OSError, ValueError, KeyError, TypeError):
            same = False
        if same:
            self._checksums, self.done = checksums, len(checksums)
        else:
            self.trace = self.largest = 0.0

    def _flush(self, panel: Panel) -> None:
        """Wait until the panel is on the disk: only then may the note name it."""
        first = panel.entries.ctypes.data - self.panels.entries.ctypes.data
        begin = first - first % mmap.PAGESIZE
        self._map.flush(begin, first + panel.entries.nbytes - begin)


def _mapped(path: Path, size: int) -> mmap.mmap:
    """The file in memory, locked; what is there of it stays. Its disk space is reserved at once."""
    free = shutil.disk_usage(path.parent).free
    if not path.exists() and size > free:
        raise OSError(f"{path.parent} has {gib(free)} free, and the matrix needs {gib(size)}.")
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        lock(descriptor)
        if os.fstat(descriptor).st_nlink == 0:  # another process has just finished with it
            raise BlockingIOError(path)
        os.ftruncate(descriptor, size)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)  # the map keeps the file, and the lock


def _checksum(panel: Panel) -> str:
    return hashlib.sha256(panel.entries.data).hexdigest()


def _digest_of(kernel: TrainingKernel, width: int) -> str:
    """Of all that the factor depends on."""
    plain, arrays = pack(kernel)
    versions = [version(name) for name in ("ntkgp", "jax", "jaxlib", "numpy", "scipy")]
    digest = hashlib.sha256(json.dumps([plain, width, versions]).encode())
    for array in arrays.values():
        digest.update(_bytes_of(array))
    return digest.hexdigest()[:16]


def _bytes_of(array: NDArray[Any]) -> bytes:
    return str(array.shape).encode() + np.ascontiguousarray(array).tobytes()
