"""What every trainer shares: drawing members together, and what training returns."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from ntkgp.member import Baselearner, Member, TrainingSet, member_keys
from ntkgp.typing import Params


class Draw(NamedTuple):
    """Everything a member starts with. Stacked over members, each leaf gains a leading axis."""

    theta: Params
    member: Member
    data: TrainingSet
    batch_key: Array


class Trained(NamedTuple):
    """Trained members, all leaves stacked over members."""

    theta: Params
    member: Member
    losses: NDArray[Any]
    """(members, epochs or iterations): the training loss on the way."""
    validation_losses: NDArray[Any]
    """(members, evaluations): empty without a validation set."""


@runtime_checkable
class Trainer(Protocol):
    """A way to minimise the members' losses."""

    def __call__(
        self,
        learner: Baselearner,
        draws: Draw,
        validation: TrainingSet | None,
        progress: bool,
    ) -> Trained: ...


def draw_members(
    learner: Baselearner, seed: int, indices: Iterable[int], x: Array, y: Array
) -> Draw:
    """The members of these indices, each a function of (seed, index) alone. x is shared."""
    keys = jax.vmap(partial(member_keys, seed))(jnp.array(list(indices)))
    theta, member = jax.vmap(learner.draw)(keys)
    data = jax.vmap(learner.training_set, in_axes=(0, 0, None, None))(keys, member, x, y)
    return Draw(theta, member, data._replace(x=x), keys.batches)


DRAW_AXES = Draw(0, 0, TrainingSet(x=None, targets=0, delta=0), 0)  # type: ignore[arg-type]
"""Which leaves of a stacked Draw belong to members: all but the shared inputs."""


def over_members(
    f: Callable[..., Any], in_axes: tuple[Any, ...], at_once: int | None
) -> Callable[..., Any]:
    """f for every member: all together in one vmap, or `at_once` of them after another.

    Fewer at once keep the parameters of a large network in cache.
    """
    together = jax.vmap(f, in_axes=in_axes)
    if at_once is None:
        return together

    def in_turn(*args: Any) -> Any:
        leaves, treedef = jax.tree.flatten(args)
        axes = _flat_axes(in_axes, args)
        stacked = [leaf for leaf, axis in zip(leaves, axes, strict=True) if axis == 0]

        def one(own: list[Array]) -> Any:
            own_iter = iter(own)
            merged = [
                next(own_iter) if axis == 0 else leaf
                for leaf, axis in zip(leaves, axes, strict=True)
            ]
            return f(*jax.tree.unflatten(treedef, merged))

        return jax.lax.map(one, stacked, batch_size=at_once if at_once > 1 else None)

    return in_turn


def _flat_axes(in_axes: tuple[Any, ...], args: tuple[Any, ...]) -> list[int | None]:
    """One axis for each leaf of args, from a prefix tree of axes."""
    is_none = lambda node: node is None  # noqa: E731
    spread = jax.tree.map(
        lambda axis, sub: [axis] * len(jax.tree.leaves(sub)), in_axes, args, is_leaf=is_none
    )
    return jax.tree.leaves(spread, is_leaf=is_none)


def progress_bar(total: int, description: str, shown: bool) -> Any:
    """A tqdm bar on standard error, where that is a terminal."""
    from tqdm.auto import tqdm

    # None: shown on a terminal, silent in a log file.
    return tqdm(total=total, desc=description, disable=None if shown else True, leave=False)


def typical(losses: NDArray[Any]) -> str:
    """The median of the finite ones, for a progress bar."""
    finite = losses[np.isfinite(losses)]
    return f"{np.median(finite):.4g}" if finite.size else "not finite"


def finite_members(losses: NDArray[Any]) -> NDArray[np.bool_]:
    """Which members' losses stayed finite from beginning to end."""
    return np.isfinite(losses).all(axis=1)
