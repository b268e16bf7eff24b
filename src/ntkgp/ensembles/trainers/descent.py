"""Training by any Optax optimiser, full batch or mini-batches."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import ceil, log
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ntkgp.core.typing import Params
from ntkgp.ensembles.member import Baselearner
from ntkgp.ensembles.problem import Draw, Problem, training_set, with_delta
from ntkgp.ensembles.trainers.protocol import LIMIT, check_positive

if TYPE_CHECKING:
    import optax


class DescentState(NamedTuple):
    """One member on its way."""

    theta: Params
    opt_state: Any


class Batch(NamedTuple):
    """What one step is given."""

    rows: Array | None
    """Rows of the mini-batch; None for all."""
    key: Array
    """For augmentation."""
    done: Array
    """Share of all steps that lie behind it."""


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["epochs", "patience", "evaluate_every", "step_scale"],
    meta_fields=["optimizer", "batch_size", "decays", "augment"],
)
@dataclass(frozen=True)
class Descent:
    """Minimise each member's loss by gradient steps.

    Under `jax.jit` the numbers of epochs are traced: another number compiles nothing.

    Args:
        optimizer: any Optax optimiser, schedules included.
        epochs: passes over the data; with batch_size None, the number of steps.
        batch_size: mini-batch size, or None for the full batch. Each member shuffles by itself;
            the examples left over when it does not divide N sit out that epoch.
        patience: with a validation set, a member stops after this many evaluations without
            improvement. None never stops early. Either way each member keeps its best parameters.
        evaluate_every: epochs between two looks at the validation set, and between two updates
            of the progress bar.
        decays: let the learning rate fall to 0 along a cosine over all epochs. Unlike a schedule
            in the optimiser, this compiles nothing for another number of steps.
        augment: a function (key, x) of a mini-batch that returns one like it, for instance with
            images shifted at random; δ is then computed in each step, by one JVP.
        step_scale: a factor on every update of the optimiser; None for 1.

    >>> import optax
    >>> trainer = Descent(optax.adam(1e-2), epochs=50, batch_size=4)
    >>> x = np.linspace(-1, 1, 8)[:, None]
    >>> ntkgp.fit(ntkgp.mlp(1, width=16), x, x, members=2, trainer=trainer)
    <Ensemble of 2 members, ntkgp-param, seed 0>
    """

    optimizer: "optax.GradientTransformation"
    epochs: int | Array
    batch_size: int | None = None
    patience: int | Array | None = None
    evaluate_every: int | Array = 1
    decays: bool = False
    augment: Callable[[Array, Array], Array] | None = None
    step_scale: float | Array | None = None

    def __post_init__(self) -> None:
        if not callable(getattr(self.optimizer, "update", None)):
            raise TypeError(
                "optimizer must be an Optax optimiser, made by a call such as optax.adam(1e-3); "
                f"got {self.optimizer!r}."
            )
        check_positive(self, "epochs", "batch_size", "patience", "evaluate_every", "step_scale")

    @property
    def rounds(self) -> int | Array:
        return self.epochs

    @property
    def changes_inputs(self) -> bool:
        return self.augment is not None

    def check(self, problem: Problem) -> None:
        if not problem.learner.noise.exact_gradient and _needs_value(self.optimizer):
            raise ValueError(
                "this optimiser searches along a line by the loss's value, and the gradient of "
                f"{type(problem.learner.noise).__name__} is not that value's derivative: take an "
                "optimiser that needs the gradient alone, such as optax.adam."
            )

    def bytes_per_member(self, problem: Problem) -> int:
        """A mini-batch, the scaled noise, and the order of the rows: 32-bit keys and rows, before and
        after they are sorted, and cut into batches."""
        if self.batch_size is None or self._full_batch(problem):
            return 0
        x, y = problem.data.x, problem.data.y
        return self.batch_size * (x.nbytes + y.nbytes) // len(x) + y.nbytes + 5 * 4 * len(x)

    def init(self, problem: Problem, draw: Draw) -> DescentState:
        return DescentState(draw.theta, self._masked(problem.learner).init(draw.theta))

    def _full_batch(self, problem: Problem) -> bool:
        return self.batch_size is None or self.batch_size >= len(problem.data.x)

    def steps(self, problem: Problem) -> int | Array:
        if self.batch_size is None or self._full_batch(problem):
            return 1
        return jnp.maximum(1, problem.data.n // self.batch_size)

    def schedule(self, problem: Problem, draw: Draw, number: Array) -> Batch:
        """The mini-batches of one epoch, (batches, batch_size), more than its steps need."""
        rows, most = None, 1
        if self.batch_size is not None and not self._full_batch(problem):
            order = shuffled(jax.random.fold_in(draw.batch_key, number), problem)
            most = len(order) // self.batch_size
            rows = order[: most * self.batch_size].reshape(most, self.batch_size)
        i = jnp.arange(most)
        keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(
            jax.random.fold_in(draw.augmentation_key, number), i
        )
        return Batch(rows, keys, (number + i / self.steps(problem)) / self.epochs)

    def step(
        self, problem: Problem, draw: Draw, state: DescentState, given: Batch
    ) -> tuple[DescentState, Array]:
        learner = problem.learner
        batch = training_set(problem, draw, given.rows)
        if self.augment is not None:
            changed = batch._replace(x=self.augment(given.key, batch.x))
            batch = with_delta(problem, draw, changed)

        def losses(theta: Params) -> tuple[Array, Array]:
            theta = learner.trainable(theta)
            data_loss = learner.data_loss(theta, draw.member, batch)
            return data_loss + learner.regulariser(theta, draw.member, problem.total), data_loss

        (loss, data_loss), gradient = jax.value_and_grad(losses, has_aux=True)(state.theta)
        # For line searches. Other optimisers do not use the loss, and XLA drops it.
        extra = {"value": loss, "grad": gradient, "value_fn": lambda theta: losses(theta)[0]}
        optimizer = self._masked(learner)
        updates, opt_state = optimizer.update(gradient, state.opt_state, state.theta, **extra)
        if self.decays:
            share = (1 + jnp.cos(jnp.pi * given.done)) / 2
            updates = jax.tree.map(lambda update: share * update, updates)
        if self.step_scale is not None:
            updates = jax.tree.map(lambda update: self.step_scale * update, updates)
        return DescentState(jax.tree.map(jnp.add, state.theta, updates), opt_state), data_loss

    def gentler(self) -> "Descent":
        return replace(self, step_scale=(1.0 if self.step_scale is None else self.step_scale) / 4)

    def ended(self, state: DescentState) -> Array:
        return jnp.full(len(jax.tree.leaves(state.theta)[0]), LIMIT)

    def _masked(self, learner: Baselearner) -> Any:
        """The optimiser on the parameters that the method trains; the others get no update."""
        import optax

        if learner.method.trains == "all":
            return optax.with_extra_args_support(self.optimizer)
        labels = jax.tree.map(lambda last: "train" if last else "keep", learner.net.readout())
        return optax.multi_transform({"train": self.optimizer, "keep": optax.set_to_zero()}, labels)


def shuffled(key: Array, problem: Problem) -> Array:
    """All rows, examples in random order first: `jax.random.permutation` for an n that is traced.

    Rows are sorted by 32 random bits. These may be equal, so long tables are sorted again. The sort
    is stable, so rows that are no examples, with the largest key, stay behind.
    """
    positions = jnp.arange(len(problem.data.x))
    rows = positions
    rounds = ceil(3 * log(max(2, len(rows))) / log(2**32 - 1))  # as many as `permutation` takes
    for _ in range(rounds):
        key, bits_key = jax.random.split(key)
        bits = jax.random.bits(bits_key, rows.shape)
        keys = jnp.where(positions < problem.data.n, bits, ~jnp.zeros_like(bits))
        _, rows = jax.lax.sort_key_val(keys, rows)
    return rows


@lru_cache(maxsize=32)
def _needs_value(optimizer: "optax.GradientTransformation") -> bool:
    """Whether an update cannot be had from gradient and parameters alone."""
    params = {"w": jnp.zeros(1)}
    try:
        jax.eval_shape(lambda p: optimizer.update(p, optimizer.init(p), p), params)
    except TypeError:
        return True
    return False
