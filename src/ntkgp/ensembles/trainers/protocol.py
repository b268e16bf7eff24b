"""What a trainer is: what one member does in one step, and when it is done."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from jax import Array

from ntkgp.ensembles.problem import Draw, Problem

ENDED = ("limit", "converged", "stuck", "stopped early")
"""Why training ended: at the trainer's limit of rounds; by its own criterion; because steps promise to
lower the objective but none does; by rows held out."""
LIMIT, CONVERGED, STUCK = range(3)


@runtime_checkable
class Trainer(Protocol):
    """A way to minimise the members' losses, stated for one member.

    Training runs in rounds of steps. A trainer is a pytree (`jax.tree_util.register_dataclass`):
    its numbers are traced, so another number compiles nothing. Its state is a
    NamedTuple of arrays with a field `theta`. Steps of several members run in threads on a processor: one
    that solves equations does so within `jax.custom_batching.sequential_vmap`, as `GaussNewton` does, for
    XLA's threads may otherwise wait for each other for ever.
    """

    @property
    def rounds(self) -> Any:
        """The limit of rounds."""

    @property
    def evaluate_every(self) -> Any:
        """Rounds between two looks at the validation set, and two updates of the progress bar."""

    @property
    def patience(self) -> Any:
        """Evaluations without improvement after which a member stops; None to go on."""

    @property
    def changes_inputs(self) -> bool:
        """Whether steps change the inputs, so that δ is computed in each step."""

    def check(self, problem: Problem) -> None:
        """Raise an error if the trainer does not suit the problem."""

    def bytes_per_member(self, problem: Problem) -> int:
        """Memory that a member takes beyond its parameters."""

    def init(self, problem: Problem, draw: Draw) -> Any:
        """The state before the first step."""

    def steps(self, problem: Problem) -> int | Array:
        """Steps in a round."""

    def schedule(self, problem: Problem, draw: Draw, number: Array) -> Any:
        """What the steps of a round are given: a pytree, its leaves stacked over steps."""

    def step(self, problem: Problem, draw: Draw, state: Any, given: Any) -> tuple[Any, Array]:
        """The state after one step, and the data loss before it."""

    def gentler(self) -> "Trainer":
        """The same with smaller steps, for members whose loss became NaN or infinite."""

    def ended(self, state: Any) -> Array:
        """LIMIT while steps go on, else CONVERGED or STUCK, for each member."""


def check_positive(trainer: object, *names: str) -> None:
    """Refuse options that are neither None nor above zero.

    JAX rebuilds trainers with tracers and placeholders instead of numbers; these pass.
    """
    for name in names:
        value = getattr(trainer, name)
        known = isinstance(value, (int, float, str, np.number))
        if known and (isinstance(value, str) or not value > 0):
            raise ValueError(
                f"{name} of {type(trainer).__name__} must be greater than 0; got {value!r}."
            )
