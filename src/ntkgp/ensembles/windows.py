"""Training from rows that stay on disk: in which order they come, and what is in memory of them.

The rule, for block lengths, window_rows W and the seed:

- An epoch takes the blocks in the order of `jax.random.permutation` with the key of (seed, epoch).
- A window is the next few of them: as many of the longest as fit into W rows, and at least one.
- Within a window every member shuffles the rows by a key of its own, and cuts them into mini-batches. What
  is left over when batch_size does not divide the window sits out that epoch.
- The noise ε on a row's target is drawn for the row's block, from (seed, member, block).

So the result depends on the rows, their blocks and W, not on where they are kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import ceil
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from ntkgp.core.arrays import padded_length
from ntkgp.core.memory import require
from ntkgp.core.rows import Rows, Survey, checked_block, surveyed
from ntkgp.ensembles.member import Baselearner
from ntkgp.ensembles.problem import Data, Draw, Problem
from ntkgp.ensembles.trainers.descent import Descent
from ntkgp.ensembles.trainers.protocol import Trainer

_ORDER = 2**32 - 1
"""Beyond the index of any member, whose keys come from (seed, index)."""


@dataclass(frozen=True, eq=False)
class Windows:
    """The rows of a source, window by window; a round of training is one window."""

    rows: Rows
    survey: Survey
    seed: int
    learner: Baselearner

    @classmethod
    def of(cls, rows: Rows, learner: Baselearner, seed: int, progress: bool) -> "Windows":
        """After one pass over the rows, which checks them."""
        shape, targets = learner.net.input_shape, learner.target_dim
        longest, values = max(rows.lengths, default=0), int(np.prod(shape)) + targets
        window = max(longest, min(rows.window_rows, sum(rows.lengths)))
        as_read, in_window = 24 * longest, 16 * window  # bytes of each value, with copies
        require(
            (as_read + in_window) * values,
            f"reading blocks of up to {longest:,} rows of {values:,} numbers, {window:,} rows at once,",
            "Take a smaller window_rows, or keep the rows in smaller blocks; of a Parquet file these "
            "are its row groups: write it again with a smaller row_group_size.",
        )
        return cls(rows, surveyed(rows, shape, targets, progress), seed, learner)

    @property
    def in_epoch(self) -> int:
        """Windows in one epoch."""
        return ceil(len(self.rows.lengths) / self._slots)

    @property
    def shape(self) -> tuple[int, ...]:
        """What the order of rows depends on besides the seed."""
        return (self._slots, *map(int, self.rows.lengths))

    @property
    def _longest(self) -> int:
        return int(max(self.rows.lengths))

    @property
    def _slots(self) -> int:
        """Blocks in a window."""
        return min(len(self.rows.lengths), max(1, self.rows.window_rows // self._longest))

    def paced(self, trainer: Trainer) -> Trainer:
        """The trainer with rounds of one window in place of an epoch."""
        descent = in_mini_batches(trainer)
        return replace(
            descent,
            epochs=descent.epochs * self.in_epoch,
            evaluate_every=descent.evaluate_every * self.in_epoch,
        )

    def first(self) -> Data:
        """The first window, whose shapes are those of all."""
        return self._window(self._blocks(0))[0]

    def at(self, number: int, problem: Problem, draws: Draw) -> tuple[Problem, Draw]:
        """What members are given in a round: a window of the data, and their noise on it."""
        return self._given(problem, draws, self._blocks(number))

    def in_order(self, problem: Problem, draws: Draw) -> Iterator[tuple[Problem, Draw]]:
        """Every row once, window by window, as they are stored."""
        blocks = np.arange(len(self.rows.lengths))
        for start in range(0, len(blocks), self._slots):
            yield self._given(problem, draws, blocks[start : start + self._slots])

    def _blocks(self, number: int) -> NDArray[Any]:
        """The blocks of a window."""
        epoch, window = divmod(number, self.in_epoch)
        order = block_order(self.seed, epoch, len(self.rows.lengths))
        return order[window * self._slots : (window + 1) * self._slots]

    def _given(self, problem: Problem, draws: Draw, blocks: NDArray[Any]) -> tuple[Problem, Draw]:
        data, where = self._window(blocks)
        padded = np.pad(blocks, (0, self._slots - len(blocks)), "edge")
        epsilon = _noise(
            self._longest, problem.learner, draws.noise_key, jnp.asarray(padded), jnp.asarray(where)
        )
        return problem._replace(data=data), draws._replace(epsilon=epsilon)

    def _window(self, blocks: NDArray[Any]) -> tuple[Data, NDArray[Any]]:
        """The rows of these blocks, and where each row's noise is among that of the blocks."""
        shape, targets = self.learner.net.input_shape, self.learner.target_dim
        parts = [checked_block(self.rows, int(block), shape, targets) for block in blocks]
        x, y = (np.concatenate(values) for values in zip(*parts, strict=True))
        length = padded_length(self._slots * self._longest)
        of_slots = [
            slot * self._longest + np.arange(len(own)) for slot, (own, _) in enumerate(parts)
        ]
        where = np.pad(np.concatenate(of_slots), (0, length - len(x)), "edge")
        return Data.of(x, y, length=length), where


def in_mini_batches(trainer: Any) -> Descent:
    """The trainer, or an error if it needs all rows at once."""
    if not isinstance(trainer, Descent) or trainer.batch_size is None:
        raise ValueError(
            "rows that are read in blocks are trained on by mini-batches: give "
            f"trainer=ntkgp.Descent(optimizer, epochs=..., batch_size=...); got {trainer!r:.80}."
        )
    return trainer


@lru_cache(maxsize=2)
def block_order(seed: int, epoch: int, blocks: int) -> NDArray[Any]:
    """The blocks in the order of an epoch: a function of these numbers alone.

    >>> block_order(0, 0, 6), block_order(0, 1, 6)
    (array([...], dtype=int32), array([...], dtype=int32))
    """
    own = jax.random.fold_in(jax.random.key(np.uint32(seed)), np.uint32(_ORDER))
    key = jax.random.fold_in(own, epoch)
    return np.asarray(jax.random.permutation(key, blocks))


@partial(jax.jit, static_argnums=0)
def _noise(longest: int, learner: Baselearner, keys: Array, blocks: Array, where: Array) -> Array:
    """ε of each member on the rows of a window, (members, rows, c)."""

    def of_member(key: Array) -> Array:
        def of_block(block: Array) -> Array:
            like = jnp.zeros((longest, learner.target_dim), jnp.float32)
            return learner.target_noise(jax.random.fold_in(key, block), like)

        return jax.vmap(of_block)(blocks).reshape(-1, learner.target_dim)[where]

    return jax.vmap(of_member)(keys)
