"""Training by any Optax optimiser, full batch or mini-batches, all members in one program."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ntkgp.member import Baselearner, Member, TrainingSet
from ntkgp.progress import progress_bar
from ntkgp.training.common import (
    Data,
    Draw,
    HeldOut,
    Trained,
    check_positive,
    over_members,
    typical,
)
from ntkgp.typing import Params

if TYPE_CHECKING:
    import optax


class EarlyStop(NamedTuple):
    """The best parameters on the validation set so far, of each member."""

    theta: Params
    loss: Array
    stale: Array
    """Evaluations since the last improvement."""


class TrainState(NamedTuple):
    """All that training carries on: saving it is a checkpoint, and going on from it a resume."""

    epoch: Array
    theta: Params
    opt_state: Any
    best: EarlyStop | None


@dataclass(frozen=True)
class Descent:
    """Minimise each member's loss by gradient steps.

    Args:
        optimizer: any Optax optimiser, schedules included.
        epochs: passes over the data; with batch_size None, the number of steps.
        batch_size: mini-batch size, or None for the full batch. Each member shuffles by itself;
            the examples left over when it does not divide N sit out that epoch.
        patience: with a validation set, stop when no member has improved for this many
            evaluations, and keep each member's best parameters. None never stops early, but
            still keeps the best.
        evaluate_every: epochs between two looks at the validation set, and between two updates
            of the progress bar.
        members_at_once: how many members one program step trains together; None for all.
    """

    optimizer: "optax.GradientTransformation"
    epochs: int
    batch_size: int | None = None
    patience: int | None = None
    evaluate_every: int = 1
    members_at_once: int | None = None

    def __post_init__(self) -> None:
        check_positive(
            self, "epochs", "batch_size", "patience", "evaluate_every", "members_at_once"
        )

    def __call__(
        self,
        learner: Baselearner,
        data: Data,
        draws: Draw,
        validation: HeldOut | None,
        progress: bool,
    ) -> Trained:
        state = start(self, learner, draws, validation is not None)
        losses, validation_losses = [], []
        with progress_bar(self.epochs, "training", progress) as bar:
            while state.epoch < self.epochs and not bool(_stale(state, self.patience).all()):
                n_epochs = min(self.evaluate_every, self.epochs - int(state.epoch))
                state, epoch_losses = run_epochs(self, learner, state, data, draws, n_epochs)
                losses.append(np.asarray(epoch_losses))
                if validation is not None:
                    state, validation_loss = evaluate(learner, state, draws, validation)
                    validation_losses.append(np.asarray(validation_loss))
                bar.update(n_epochs)
                bar.set_postfix(loss=typical(losses[-1][:, -1]))
        theta = state.theta if state.best is None else state.best.theta
        n_members = len(losses[0])
        per_evaluation = np.array(validation_losses).T.reshape(n_members, -1)
        stale = _stale(state, self.patience)
        return Trained(
            theta, draws.member, np.concatenate(losses, axis=1), per_evaluation, np.asarray(stale)
        )


def start(trainer: Descent, learner: Baselearner, draws: Draw, early_stop: bool) -> TrainState:
    """The state before the first epoch."""
    opt_state = jax.vmap(_masked(trainer, learner).init)(draws.theta)
    n_members = len(draws.batch_key)
    best = None
    if early_stop:
        best = EarlyStop(draws.theta, jnp.full(n_members, jnp.inf), jnp.zeros(n_members, int))
    return TrainState(jnp.zeros((), int), draws.theta, opt_state, best)


@partial(jax.jit, static_argnums=(0, 5))
def run_epochs(
    trainer: Descent,
    learner: Baselearner,
    state: TrainState,
    data: Data,
    draws: Draw,
    n_epochs: int,
) -> tuple[TrainState, Array]:
    """Train all members for n_epochs; also each epoch's mean loss, (members, n_epochs)."""
    epochs = state.epoch + jnp.arange(n_epochs)

    def member(draw: Draw, theta: Params, opt_state: Any) -> tuple[tuple[Params, Any], Array]:
        one_epoch = partial(_epoch, trainer, learner, draw.member, draw.data(data), draw.batch_key)
        return jax.lax.scan(one_epoch, (theta, opt_state), epochs)

    stacked = (draws, state.theta, state.opt_state)
    (theta, opt_state), losses = over_members(member, stacked, trainer.members_at_once)
    return state._replace(epoch=state.epoch + n_epochs, theta=theta, opt_state=opt_state), losses


def _epoch(
    trainer: Descent,
    learner: Baselearner,
    member: Member,
    data: TrainingSet,
    batch_key: Array,
    carry: tuple[Params, Any],
    epoch: Array,
) -> tuple[tuple[Params, Any], Array]:
    """One pass of one member over its data, and the mean loss on the way."""
    n = len(data.x)
    optimizer = _masked(trainer, learner)

    def step(carry: tuple[Params, Any], batch: TrainingSet) -> tuple[tuple[Params, Any], Array]:
        def loss_of(theta: Params) -> Array:
            return learner.loss(theta, member, batch, n)

        theta, opt_state = carry
        loss, gradient = jax.value_and_grad(loss_of)(theta)
        extra = {"value": loss, "grad": gradient, "value_fn": loss_of}  # for line searches
        updates, opt_state = optimizer.update(gradient, opt_state, theta, **extra)
        return (jax.tree.map(jnp.add, theta, updates), opt_state), loss

    if trainer.batch_size is None or trainer.batch_size >= n:
        return step(carry, data)
    n_batches = n // trainer.batch_size
    order = jax.random.permutation(jax.random.fold_in(batch_key, epoch), n)
    batches = order[: n_batches * trainer.batch_size].reshape(n_batches, -1)

    def take_and_step(carry: tuple[Params, Any], rows: Array) -> tuple[tuple[Params, Any], Array]:
        return step(carry, TrainingSet(*(values[rows] for values in data)))

    carry, losses = jax.lax.scan(take_and_step, carry, batches)
    return carry, losses.mean()


def _masked(trainer: Descent, learner: Baselearner) -> Any:
    """The optimiser on the parameters that the method trains; the others get no update."""
    import optax

    if learner.method.trains == "all":
        return optax.with_extra_args_support(trainer.optimizer)
    labels = jax.tree.map(lambda last: "train" if last else "keep", learner.net.readout())
    return optax.multi_transform({"train": trainer.optimizer, "keep": optax.set_to_zero()}, labels)


@jax.jit
def evaluate(
    learner: Baselearner, state: TrainState, draws: Draw, validation: HeldOut
) -> tuple[TrainState, Array]:
    """Each member's loss on the validation set, without penalty, and the best so far."""

    def data_loss(theta: Params, member: Member, delta: Array) -> Array:
        without_noise = jnp.zeros_like(validation.y)
        held_out = TrainingSet(validation.x, validation.y, without_noise, delta)
        return learner.data_loss(theta, member, held_out)

    loss = jax.vmap(data_loss)(state.theta, draws.member, validation.delta)
    best = state.best
    assert best is not None
    better = loss < best.loss

    def keep(new: Array, old: Array) -> Array:
        return jnp.where(better.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

    best = EarlyStop(
        theta=jax.tree.map(keep, state.theta, best.theta),
        loss=jnp.where(better, loss, best.loss),
        stale=jnp.where(better, 0, best.stale + 1),
    )
    return state._replace(best=best), loss


def _stale(state: TrainState, patience: int | None) -> Array:
    """Which members have had no improvement for `patience` evaluations."""
    if state.best is None or patience is None:
        return jnp.zeros(len(jax.tree.leaves(state.theta)[0]), bool)
    return state.best.stale >= patience
