"""What every trainer shares: drawing members together, and what training returns."""

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float
from numpy.typing import NDArray

from ntkgp.core.arrays import row_batches
from ntkgp.core.typing import Params
from ntkgp.ensembles.member import Baselearner, Member, member_keys
from ntkgp.ensembles.plans import map_members


class Draw(NamedTuple):
    """Everything that is a member's own at the start. Stacked over members, leaves gain an axis."""

    theta: Params
    member: Member
    epsilon: Float[Array, "*k n c"]
    batch_key: Array
    augmentation_key: Array


class Data(NamedTuple):
    """What all members learn from."""

    x: Float[Array, "n *input"]
    y: Float[Array, "n c"]


class Trained(NamedTuple):
    """Trained members, all leaves stacked over members."""

    theta: Params
    member: Member
    losses: NDArray[Any]
    """(members, epochs or iterations): the training loss on the way."""
    validation_losses: NDArray[Any]
    """(members, evaluations): empty without a validation set."""
    converged: NDArray[np.bool_]
    """(members,): whether the trainer's own criterion ended it, not its limit of steps."""


@runtime_checkable
class Trainer(Protocol):
    """A way to minimise the members' losses."""

    def __call__(
        self,
        learner: Baselearner,
        data: Data,
        draws: Draw,
        validation: Data | None,
        progress: bool,
    ) -> Trained: ...


def draw_members(learner: Baselearner, seed: int, indices: Iterable[int], data: Data) -> Draw:
    """The members of these indices, each a function of (seed, index) alone."""
    keys = jax.vmap(partial(member_keys, seed))(jnp.array(list(indices)))
    theta, member = jax.vmap(learner.draw)(keys)
    epsilon = jax.vmap(learner.target_noise, in_axes=(0, None))(keys.noise, data.y)
    return Draw(theta, member, epsilon, keys.batches, keys.augmentation)


def offsets(learner: Baselearner, members: Member, x: Array) -> Array | None:
    """δ(x) of every member, (members, n, outputs), or None for methods that have none."""
    if learner.method.offset is None:
        return None
    parts = [
        map_members(learner.net, _offset, members, (learner, x[rows]))
        for rows in row_batches(len(x))
    ]
    return jnp.concatenate(parts, axis=1)


def _offset(member: Member, shared: tuple[Baselearner, Array]) -> Array:
    learner, x = shared
    return learner.offset(member, x)


def regularisers(learner: Baselearner, theta: Params, members: Member, n: int) -> Array:
    """Each member's regulariser for n training inputs, (members,)."""
    return map_members(learner.net, _regulariser, (theta, members), (learner, n))


def _regulariser(own: tuple[Params, Member], shared: tuple[Baselearner, int | Array]) -> Array:
    learner, n = shared
    return learner.regulariser(*own, n)


def check_positive(trainer: object, *names: str) -> None:
    """Refuse options that are neither None nor above zero."""
    for name in names:
        value = getattr(trainer, name)
        if value is not None and not value > 0:
            raise ValueError(
                f"{name} of {type(trainer).__name__} must be greater than 0; got {value!r}."
            )


def typical(losses: NDArray[Any]) -> str:
    """The median of the finite ones, for a progress bar."""
    finite = losses[np.isfinite(losses)]
    return f"{np.median(finite):.4g}" if finite.size else "not finite"


def finite_members(losses: NDArray[Any]) -> NDArray[np.bool_]:
    """Which members' losses stayed finite from beginning to end."""
    return np.isfinite(losses).all(axis=1)
