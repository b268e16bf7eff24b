"""Training from rows that stay on disk: in which order they come, and what is in memory of them.

The rule, for block lengths, window_rows W and the seed:

- Neighbouring blocks that together are no longer than the longest are joined, from the first on, and are
  one block in what follows. Of what is left, any two neighbours have more rows than the longest together.
- An epoch takes the blocks in the order of `jax.random.permutation` with the key of (seed, epoch).
- A window is the next few of them: as many of the longest as fit into W rows, and at least one.
- Within a window every member shuffles the rows by a key of its own, and cuts them into mini-batches. What
  is left over when batch_size does not divide the window sits out that epoch. A window with fewer rows than
  batch_size makes one step with all of them, in which a row weighs more than in others.
- The noise ε on a row's target is drawn for the row's block, from (seed, member, block).

So the result depends on the rows, their blocks and W, not on where they are kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from math import ceil
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from ntkgp.core.arrays import padded_length
from ntkgp.core.rows import (
    Rows,
    Survey,
    checked_block,
    checked_lengths,
    require_blocks,
    surveyed,
)
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
        values, lengths = int(np.prod(shape)) + targets, checked_lengths(rows)
        most = max(lengths) * _in_window(lengths, rows.window_rows)
        # The blocks, alone and as one; filled up, on the device, and the first window, which is kept.
        copies = 2 * min(most, sum(lengths)) + 3 * padded_length(most)
        require_blocks(rows, values, 4 * copies * values)
        return cls(rows, surveyed(rows, shape, targets, progress), seed, learner)

    @cached_property
    def in_epoch(self) -> int:
        """Windows in one epoch."""
        return ceil(len(self._joined) / self._slots)

    @property
    def shape(self) -> tuple[int, ...]:
        """What the order of rows depends on besides the seed."""
        return (self._slots, *self.survey.lengths)

    @cached_property
    def _longest(self) -> int:
        return max(self.survey.lengths)

    @cached_property
    def _joined(self) -> list[range]:
        return joined(self.survey.lengths)

    @cached_property
    def _slots(self) -> int:
        """Blocks in a window."""
        return _in_window(self.survey.lengths, self.rows.window_rows)

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
        blocks = np.arange(len(self._joined))
        for start in range(0, len(blocks), self._slots):
            yield self._given(problem, draws, blocks[start : start + self._slots])

    def _blocks(self, number: int) -> NDArray[Any]:
        """The blocks of a window."""
        epoch, window = divmod(number, self.in_epoch)
        order = block_order(self.seed, epoch, len(self._joined))
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
        stored = [self._joined[block] for block in blocks]
        parts = [
            checked_block(self.rows, one, shape, targets) for several in stored for one in several
        ]
        x, y = (np.concatenate(values) for values in zip(*parts, strict=True))
        length = padded_length(self._slots * self._longest)
        of_slots = [
            slot * self._longest + np.arange(sum(self.survey.lengths[one] for one in several))
            for slot, several in enumerate(stored)
        ]
        where = np.pad(np.concatenate(of_slots), (0, length - len(x)), "edge")
        return Data.of(x, y, length=length), where


def joined(lengths: Sequence[int]) -> list[range]:
    """Neighbours among the blocks that are one together, none of them longer than the longest.

    >>> joined([9, 2, 3, 3, 4, 8])
    [range(0, 1), range(1, 4), range(4, 5), range(5, 6)]
    """
    longest, starts, rows = max(lengths), [0], 0
    for block, length in enumerate(lengths):
        if rows + length > longest:
            starts.append(block)
            rows = 0
        rows += length
    return [range(*ends) for ends in pairwise([*starts, len(lengths)])]


def _in_window(lengths: Sequence[int], window_rows: int) -> int:
    """Blocks in a window, once they are joined."""
    return min(len(joined(lengths)), max(1, int(window_rows) // max(lengths)))


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
