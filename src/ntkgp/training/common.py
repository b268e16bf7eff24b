"""What every trainer shares: drawing members together, and what training returns."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float
from numpy.typing import NDArray

from ntkgp.member import Baselearner, Member, TrainingSet, member_keys
from ntkgp.typing import Params


class Draw(NamedTuple):
    """Everything that is a member's own at the start. Stacked over members, leaves gain an axis."""

    theta: Params
    member: Member
    epsilon: Float[Array, "*k n c"]
    delta: Float[Array, "*k n outputs"]
    batch_key: Array

    def data(self, shared: "Data") -> TrainingSet:
        """One member's view of the data that all share."""
        return TrainingSet(shared.x, shared.y, self.epsilon, self.delta)


class Data(NamedTuple):
    """What all members learn from."""

    x: Float[Array, "n *input"]
    y: Float[Array, "n c"]


class HeldOut(NamedTuple):
    """A validation set, and each member's δ on its inputs."""

    x: Float[Array, "n *input"]
    y: Float[Array, "n c"]
    delta: Float[Array, "k n outputs"]


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
        validation: HeldOut | None,
        progress: bool,
    ) -> Trained: ...


def draw_members(learner: Baselearner, seed: int, indices: Iterable[int], data: Data) -> Draw:
    """The members of these indices, each a function of (seed, index) alone."""
    keys = jax.vmap(partial(member_keys, seed))(jnp.array(list(indices)))
    theta, member = jax.vmap(learner.draw)(keys)
    own = jax.vmap(learner.training_set, in_axes=(0, 0, None, None))(keys, member, *data)
    return Draw(theta, member, own.epsilon, own.delta, keys.batches)


def over_members(f: Callable[..., Any], stacked: tuple[Any, ...], at_once: int | None) -> Any:
    """f(*own) for every member: all together in one vmap, or `at_once` of them after another.

    Fewer at once keep the parameters of a large network in cache.
    """
    if at_once is None:
        return jax.vmap(f)(*stacked)
    return jax.lax.map(lambda own: f(*own), stacked, batch_size=at_once if at_once > 1 else None)


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
