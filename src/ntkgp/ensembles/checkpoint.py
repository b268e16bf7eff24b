"""Training that goes on where it was interrupted."""

import json
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ntkgp.core.files import replacing
from ntkgp.core.interrupts import StopRequests
from ntkgp.core.storage import load, save, storable
from ntkgp.ensembles.identity import Identity, digest_of

_RUN = "run.json"
_KEYS = ("threefry2x32", "rbg", "unsafe_rbg")


class CheckpointNotWritten(UserWarning):
    """A checkpoint could not be written, and training went on without it."""


@storable
@dataclass(frozen=True)
class Checkpoint:
    """Where training keeps its state, and how often.

    A fit that finds its own state there goes on from it, and ends with the same members, bit for bit, as
    one that was never interrupted, on the same machine and as many cores. State of another fit is refused.
    What a finished fit leaves there can be deleted; the same fit would find itself finished.

    Args:
        directory: of one fit, created if needed. It holds a member's parameters three times and more.
        every: seconds between two checkpoints. They are written between programs of training, which have
            up to 64 rounds, epochs for `Descent`, and end where rows held out are looked at
            (`evaluate_every`); with rows on disk, one round, a window. So at most one interval and one
            program are lost; 0 writes after every one.

    >>> import tempfile
    >>> x = np.linspace(-1, 1, 8)[:, None]
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     ntkgp.fit(ntkgp.mlp(1, width=16), x, x, members=2, checkpoint=Checkpoint(directory, every=5))
    <Ensemble of 2 members, ntkgp-param, seed 0>
    """

    directory: str | os.PathLike[str]
    every: int | float = 60

    def __post_init__(self) -> None:
        if not isinstance(self.directory, (str, os.PathLike)) or not str(self.directory):
            raise TypeError(f"directory must be a path; got {self.directory!r}.")
        if not (isinstance(self.every, (int, float)) and self.every >= 0):
            raise ValueError(f"every must be a number of seconds ≥ 0; got {self.every!r}.")

    def under(self, name: str) -> "Checkpoint":
        """The same in a directory within its own."""
        return Checkpoint(Path(self.directory) / name, self.every)


def check_checkpoint(given: Any) -> Checkpoint | None:
    """A user's `checkpoint=`: None, a directory, or a `Checkpoint`."""
    if given is None or isinstance(given, Checkpoint):
        return given
    if isinstance(given, (str, os.PathLike)):
        return Checkpoint(given)
    raise TypeError(
        "checkpoint must be None, a directory, or ntkgp.Checkpoint(directory, every=seconds); "
        f"got {given!r}."
    )


class Kept(NamedTuple):
    """What is kept of a part: arrays in a pytree that the program knows, and arrays by name."""

    state: Any
    records: dict[str, NDArray[Any]]


class Keeper:
    """Keeps the state of one run while it trains; with no folder it keeps nothing.

    Every part of a run, such as a group of members, has a folder of its own. A new state takes the place
    of the one before it in one step: whenever the process ends, a whole one is there.
    """

    def __init__(
        self,
        folder: Path | None = None,
        every: int | float = 0,
        run: str = "",
        stop: StopRequests | None = None,
    ) -> None:
        self._folder, self._every, self._run, self._stop = folder, every, run, stop
        self._last = time.monotonic()

    @classmethod
    def of(cls, checkpoint: Checkpoint | None, identity: Identity, stop: StopRequests) -> "Keeper":
        """The keeper of a run, or an error if the directory has another's state."""
        if checkpoint is None:
            return cls()
        folder = Path(checkpoint.directory)
        _claim(folder, identity)
        return cls(folder, checkpoint.every, digest_of(identity), stop)

    def under(self, name: str) -> "Keeper":
        """The keeper of a part."""
        if self._folder is None:
            return self
        return Keeper(self._folder / name, self._every, self._run, self._stop)

    def found(self, like: Callable[[], Any]) -> Kept | None:
        """What was kept of this part, None if nothing was. `like` gives shapes in the state's pytree."""
        if self._folder is None or not self._folder.exists():
            return None
        try:
            kept = load(self._folder)
        except FileNotFoundError:  # the process ended before its first checkpoint was whole
            return None
        except ValueError as error:
            raise ValueError(
                f"the checkpoint in {self._folder} cannot be used: {error} Delete it to train this "
                "part again."
            ) from error
        leaves, treedef = jax.tree.flatten(like())
        kept = kept if isinstance(kept, dict) else {}
        stored = kept.get("leaves", [])
        if kept.get("run") != self._run or len(stored) != len(leaves):
            raise ValueError(
                f"{self._folder} holds the state of another run: choose another directory for "
                "checkpoint, or delete this one."
            )
        state = [_restored(one, leaf) for one, leaf in zip(stored, leaves, strict=True)]
        return Kept(jax.tree.unflatten(treedef, state), kept["records"])

    def keep(self, now: Callable[[], Kept], ended: bool = False) -> None:
        """Keep what there is now, if it is time, or a signal asks to stop, or the part has ended."""
        if self._folder is None:
            return
        stopping = self._stop is not None and self._stop.noted
        if ended or stopping or time.monotonic() - self._last >= self._every:
            state, records = now()
            leaves = [_stored(leaf) for leaf in jax.tree.leaves(state)]
            try:
                save({"run": self._run, "leaves": leaves, "records": records}, self._folder)
            except OSError as error:
                warnings.warn(
                    f"no checkpoint was written: {error}. Training goes on, and the one before it is "
                    "still there.",
                    CheckpointNotWritten,
                    stacklevel=2,
                )
            self._last = time.monotonic()
        if stopping and self._stop is not None:
            self._stop.act()


def _claim(folder: Path, identity: Identity) -> None:
    """Write down whose directory it is, or refuse one that is another's."""
    path = folder / _RUN
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write((json.dumps(identity, indent=1) + "\n").encode())
        return
    try:
        there = json.loads(path.read_bytes())
        differ = [name for name, value in identity.items() if there.get(name) != value]
    except (ValueError, AttributeError):
        raise ValueError(
            f"{path} is not what ntkgp wrote: choose another directory for checkpoint, or delete it."
        ) from None
    if differ:
        raise ValueError(
            f"the checkpoint in {folder} is of another run: it differs in {', '.join(differ)}. Choose "
            "another directory for checkpoint, or delete this one to begin anew."
        )


def _stored(leaf: Any) -> NDArray[Any]:
    """An array that a file can hold: keys and short floats by their bits."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    return array if array.dtype.kind in "fiub" else array.view(f"u{array.dtype.itemsize}")


def _restored(stored: NDArray[Any], like: Any) -> Any:
    if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        kinds = (kind for kind in _KEYS if jax.random.key(0, impl=kind).dtype == like.dtype)
        return jax.random.wrap_key_data(jnp.array(stored), impl=next(kinds))
    array = stored if stored.dtype == like.dtype else stored.view(like.dtype)
    return jnp.array(array)  # memory of its own, which training may overwrite
