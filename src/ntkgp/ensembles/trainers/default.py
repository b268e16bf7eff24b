"""Which trainer suits a problem that says nothing about it."""

from functools import lru_cache
from math import ceil

from ntkgp.ensembles.member import Baselearner
from ntkgp.ensembles.noise import ConstantNoise
from ntkgp.ensembles.trainers.descent import Descent
from ntkgp.ensembles.trainers.gauss_newton import GaussNewton
from ntkgp.ensembles.training import Data, Trainer

FEW_RESIDUALS = 300
"""N·c up to which Gauss-Newton is the quicker one (`benchmarks/small_data.py` measures it)."""
FEW_RESIDUALS_LINEAR = 3000
"""The same for methods with a closed form, where it takes two steps."""


def choose_trainer(learner: Baselearner, data: Data, validation: Data | None) -> Trainer:
    """`GaussNewton` for least squares with few residuals, Adam otherwise."""
    few = FEW_RESIDUALS_LINEAR if learner.method.linear else FEW_RESIDUALS
    least_squares = isinstance(learner.noise, ConstantNoise) and not learner.weight_decay
    if least_squares and validation is None and data.y.size <= few:
        return GaussNewton()
    return decaying_adam(len(data.x))


@lru_cache(maxsize=32)  # one object for one setting, so that a second fit compiles nothing
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
    import optax

    if not 0 < learning_rate < float("inf"):
        raise ValueError(f"learning_rate must be a finite number > 0; got {learning_rate!r}.")
    steps_per_epoch = max(1, n // batch_size)
    epochs = max(min_epochs, ceil(min_steps / steps_per_epoch))
    every = max(1, epochs // 50)
    epochs = every * ceil(epochs / every)
    schedule = optax.cosine_decay_schedule(learning_rate, epochs * steps_per_epoch)
    return Descent(optax.adam(schedule), epochs=epochs, batch_size=batch_size, evaluate_every=every)
