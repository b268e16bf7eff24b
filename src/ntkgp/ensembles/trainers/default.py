"""The trainer that `fit` takes if none is given."""

from functools import cache
from math import ceil
from typing import TYPE_CHECKING

from ntkgp.ensembles.problem import Problem
from ntkgp.ensembles.trainers.descent import Descent
from ntkgp.ensembles.trainers.gauss_newton import GaussNewton
from ntkgp.ensembles.trainers.protocol import Trainer

if TYPE_CHECKING:
    import optax

FEW_RESIDUALS = 300
"""N·c up to which Gauss-Newton is the quicker one (`benchmarks/small_data.py` measures it)."""
FEW_RESIDUALS_LINEAR = 3000
"""The same for methods with a closed form, where it takes two steps."""


def default_trainer(problem: Problem) -> Trainer:
    """`GaussNewton` for least squares with few residuals, `decaying_adam` for all else."""
    learner, n = problem.learner, int(problem.data.n)
    few = FEW_RESIDUALS_LINEAR if learner.method.linear else FEW_RESIDUALS
    least_squares = learner.noise.least_squares and not learner.weight_decay
    if least_squares and problem.validation is None and n * learner.target_dim <= few:
        return GaussNewton()
    return decaying_adam(n)


def decaying_adam(
    n: int,
    learning_rate: float = 3e-3,
    min_steps: int = 2000,
    min_epochs: int = 20,
    batch_size: int = 64,
) -> Descent:
    """Adam with cosine decay on n rows, over at least `min_steps` steps and `min_epochs` epochs.

    >>> decaying_adam(1000).epochs
    134
    """
    if not 0 < learning_rate < float("inf"):
        raise ValueError(f"learning_rate must be a finite number > 0; got {learning_rate!r}.")
    epochs = max(min_epochs, ceil(min_steps / max(1, n // batch_size)))
    every = max(1, epochs // 50)
    return Descent(
        _adam(),
        epochs=every * ceil(epochs / every),
        batch_size=batch_size,
        evaluate_every=every,
        decays=True,
        step_scale=learning_rate,
    )


@cache  # one object, so that a second fit compiles nothing, not even with another rate
def _adam() -> "optax.GradientTransformation":
    """Steps of size 1: the trainer scales them."""
    import optax

    return optax.adam(1.0)
