"""Training by any Optax optimiser, full batch or mini-batches."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ntkgp.core.arrays import row_batches
from ntkgp.core.progress import note, progress_bar
from ntkgp.core.typing import Params
from ntkgp.ensembles.member import Baselearner, TrainingSet
from ntkgp.ensembles.plans import Plan, choose_plan, map_members
from ntkgp.ensembles.training import (
    Data,
    Draw,
    Trained,
    check_positive,
    offsets,
    regularisers,
    typical,
)

if TYPE_CHECKING:
    import optax

DELTA_BYTES = 2**30
"""Up to which δ on the training inputs is computed once and kept."""


class EarlyStop(NamedTuple):
    """The best parameters on the validation set so far, of each member."""

    theta: Params
    loss: Array
    stale: Array
    """Evaluations since the last improvement."""


class TrainState(NamedTuple):
    """What training carries on, stacked over members."""

    theta: Params
    opt_state: Any
    best: EarlyStop | None


class Own(NamedTuple):
    """What is a member's own in one step."""

    draw: Draw
    delta: Array | None
    theta: Params
    opt_state: Any


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
        augment: a function (key, x) of a mini-batch that returns one like it, for instance with
            images shifted at random; δ is then computed in each step, by one JVP.
        plan: how members run: "together" in one program, "sharded" over devices, "unrolled", "one
            by one", or "auto" for what suits the network and the devices.
        members_at_once: how many members one program trains; None for all.
    """

    optimizer: "optax.GradientTransformation"
    epochs: int
    batch_size: int | None = None
    patience: int | None = None
    evaluate_every: int = 1
    augment: Callable[[Array, Array], Array] | None = None
    plan: str = "auto"
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
        validation: Data | None,
        progress: bool,
    ) -> Trained:
        k = len(draws.batch_key)
        plan = choose_plan(learner.net, k, self.plan, self.members_at_once)
        note(f"members: {plan}", progress)
        groups = plan.groups(draws)
        deltas = [_cached_delta(self, learner, group, data, k) for group in groups]
        states = [start(self, learner, group, validation is not None) for group in groups]
        losses: list[Any] = []
        validation_losses: list[Any] = []
        epoch = 0
        with progress_bar(self.epochs, "training", progress) as bar:
            while epoch < self.epochs and not _all_stale(states, self.patience):
                n_epochs = min(self.evaluate_every, self.epochs - epoch)
                parts: list[Any] = []
                for i, group in enumerate(groups):
                    states[i], part = run_epochs(
                        self, plan, learner, states[i], data, group, deltas[i], epoch, n_epochs
                    )
                    parts.append(part)
                losses.append(np.asarray(plan.join(parts, k)))
                epoch += n_epochs
                if validation is not None:
                    parts = []
                    for i, group in enumerate(groups):
                        states[i], part = evaluate(learner, states[i], group, validation)
                        parts.append(part)
                    validation_losses.append(np.asarray(plan.join(parts, k)))
                bar.update(n_epochs)
                bar.set_postfix(loss=typical(losses[-1][:, -1]))
        state = plan.join(states, k)
        return Trained(
            theta=state.theta if state.best is None else state.best.theta,
            member=draws.member,
            losses=np.concatenate(losses, axis=1),
            validation_losses=np.array(validation_losses).T.reshape(k, -1),
            converged=np.asarray(_stale(state, self.patience)),
        )


def start(trainer: Descent, learner: Baselearner, draws: Draw, early_stop: bool) -> TrainState:
    """The state before the first epoch, in arrays of its own, which training may overwrite."""
    theta = jax.tree.map(jnp.copy, draws.theta)
    opt_state = jax.vmap(_masked(trainer, learner).init)(theta)
    best = None
    if early_stop:
        k = len(draws.batch_key)
        best = EarlyStop(
            jax.tree.map(jnp.copy, theta), jnp.full(k, jnp.inf), jnp.zeros(k, jnp.int32)
        )
    return TrainState(theta, opt_state, best)


def _cached_delta(
    trainer: Descent, learner: Baselearner, draws: Draw, data: Data, k: int
) -> Array | None:
    """δ on the training inputs; None where it is computed in every step."""
    size = k * len(data.x) * learner.net.output_dim * data.x.dtype.itemsize
    if trainer.augment is not None or size > DELTA_BYTES:
        return None
    return offsets(learner, draws.member, data.x)


def run_epochs(
    trainer: Descent,
    plan: Plan,
    learner: Baselearner,
    state: TrainState,
    data: Data,
    draws: Draw,
    delta: Array | None,
    epoch: int,
    n_epochs: int,
) -> tuple[TrainState, Array]:
    """Train a group of members for n_epochs; also the loss of each epoch, (members, n_epochs).

    That is the mean of its steps' data losses, and the regulariser as the epoch began: to have its
    value at every step would cost a pass over all parameters. The arrays of `state` are overwritten.
    """
    run = _scanned_epochs if plan.scans else _looped_epochs
    own = plan.spread(Own(draws, delta, state.theta, state.opt_state))
    theta, opt_state, losses = run(trainer, plan, learner, own, data, epoch, n_epochs)
    return state._replace(theta=theta, opt_state=opt_state), losses


def _scanned_epochs(
    trainer: Descent,
    plan: Plan,
    learner: Baselearner,
    own: Own,
    data: Data,
    epoch: int,
    n_epochs: int,
) -> tuple[Params, Any, Array]:
    fixed = own._replace(theta=None, opt_state=None)
    moving = (own.theta, own.opt_state)
    return scan_program(trainer, plan, learner, fixed, moving, data, jnp.asarray(epoch), n_epochs)


@partial(jax.jit, static_argnums=(0, 1, 7), donate_argnums=4)
def scan_program(
    trainer: Descent,
    plan: Plan,
    learner: Baselearner,
    fixed: Own,
    moving: tuple[Params, Any],
    data: Data,
    epoch: Array,
    n_epochs: int,
) -> tuple[Params, Any, Array]:
    """All epochs and steps in one program."""
    n_batches = _n_batches(trainer, len(data.x))

    def member(stacked: Any, shared: Any) -> Any:
        (own, carry), (learner, data, epoch) = stacked, shared

        def one_epoch(carry: Any, epoch: Array) -> Any:
            order = _order(trainer, own.draw.batch_key, epoch, len(data.x))

            def one_step(carry: Any, i: Array) -> Any:
                now = own._replace(theta=carry[0], opt_state=carry[1])
                return _step(trainer, learner, now, data, order, epoch, i)

            start = learner.regulariser(carry[0], own.draw.member, len(data.x))
            carry, losses = jax.lax.scan(one_step, carry, jnp.arange(n_batches))
            return carry, losses.mean() + start

        return jax.lax.scan(one_epoch, carry, epoch + jnp.arange(n_epochs))

    (theta, opt_state), losses = plan.over_members(member, (fixed, moving), (learner, data, epoch))
    return theta, opt_state, losses


def _looped_epochs(
    trainer: Descent,
    plan: Plan,
    learner: Baselearner,
    own: Own,
    data: Data,
    epoch: int,
    n_epochs: int,
) -> tuple[Params, Any, Array]:
    """The loop over steps in Python, for programs that XLA makes slow within a loop of its own."""
    fixed = own._replace(theta=None, opt_state=None)
    moving = (own.theta, own.opt_state)
    epoch_losses = []
    for e in range(epoch, epoch + n_epochs):
        orders = _orders(trainer, own.draw.batch_key, jnp.asarray(e), len(data.x))
        start = regularisers(learner, moving[0], own.draw.member, len(data.x))
        losses = []
        for i in range(_n_batches(trainer, len(data.x))):
            where = (orders, jnp.asarray(e), jnp.asarray(i))
            moving, loss = step_program(trainer, plan, learner, fixed, moving, data, where)
            losses.append(loss)
        epoch_losses.append(jnp.mean(jnp.stack(losses), axis=0) + start)
    return *moving, jnp.stack(epoch_losses, axis=1)


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=4)
def step_program(
    trainer: Descent,
    plan: Plan,
    learner: Baselearner,
    fixed: Own,
    moving: tuple[Params, Any],
    data: Data,
    where: tuple[Array | None, Array, Array],
) -> tuple[tuple[Params, Any], Array]:
    """One step of all members in one program."""
    orders, epoch, i = where

    def member(stacked: Any, shared: Any) -> Any:
        (own, (theta, opt_state), order), (learner, data, epoch, i) = stacked, shared
        now = own._replace(theta=theta, opt_state=opt_state)
        return _step(trainer, learner, now, data, order, epoch, i)

    return plan.over_members(member, (fixed, moving, orders), (learner, data, epoch, i))


def _n_batches(trainer: Descent, n: int) -> int:
    full = trainer.batch_size is None or trainer.batch_size >= n
    return 1 if full else n // trainer.batch_size  # type: ignore[operator]


def _order(trainer: Descent, batch_key: Array, epoch: Array, n: int) -> Array | None:
    """Rows of each mini-batch of one epoch, (batches, batch_size); None for the full batch."""
    if trainer.batch_size is None or trainer.batch_size >= n:
        return None
    order = jax.random.permutation(jax.random.fold_in(batch_key, epoch), n)
    n_batches = _n_batches(trainer, n)
    return order[: n_batches * trainer.batch_size].reshape(n_batches, -1)


@partial(jax.jit, static_argnums=(0, 3))
def _orders(trainer: Descent, batch_keys: Array, epoch: Array, n: int) -> Array | None:
    return jax.vmap(lambda key: _order(trainer, key, epoch, n))(batch_keys)


def _step(
    trainer: Descent,
    learner: Baselearner,
    own: Own,
    data: Data,
    order: Array | None,
    epoch: Array,
    i: Array,
) -> tuple[tuple[Params, Any], Array]:
    """One step of one member, on mini-batch i of this epoch; also its data loss."""
    n = len(data.x)
    whole = TrainingSet(data.x, data.y, own.draw.epsilon, own.delta)
    batch = whole if order is None else jax.tree.map(lambda values: values[order[i]], whole)
    if trainer.augment is not None:
        key = jax.random.fold_in(jax.random.fold_in(own.draw.augmentation_key, epoch), i)
        batch = batch._replace(x=trainer.augment(key, batch.x))
    if own.delta is None and learner.method.offset is not None:
        batch = batch._replace(delta=learner.offset(own.draw.member, batch.x))

    def losses(theta: Params) -> tuple[Array, Array]:
        theta = learner.trainable(theta)
        data_loss = learner.data_loss(theta, own.draw.member, batch)
        return data_loss + learner.regulariser(theta, own.draw.member, n), data_loss

    (loss, data_loss), gradient = jax.value_and_grad(losses, has_aux=True)(own.theta)
    # For line searches; to others the loss is of no use, and XLA leaves its computation out.
    extra = {"value": loss, "grad": gradient, "value_fn": lambda theta: losses(theta)[0]}
    optimizer = _masked(trainer, learner)
    updates, opt_state = optimizer.update(gradient, own.opt_state, own.theta, **extra)
    return (jax.tree.map(jnp.add, own.theta, updates), opt_state), data_loss


def _masked(trainer: Descent, learner: Baselearner) -> Any:
    """The optimiser on the parameters that the method trains; the others get no update."""
    import optax

    if learner.method.trains == "all":
        return optax.with_extra_args_support(trainer.optimizer)
    labels = jax.tree.map(lambda last: "train" if last else "keep", learner.net.readout())
    return optax.multi_transform({"train": trainer.optimizer, "keep": optax.set_to_zero()}, labels)


def evaluate(
    learner: Baselearner, state: TrainState, draws: Draw, validation: Data
) -> tuple[TrainState, Array]:
    """Each member's loss on the validation set, without penalty, and the best so far."""
    n, own = len(validation.x), (state.theta, draws.member)
    sums = [
        map_members(
            learner.net, _held_out_loss, own, (learner, validation.x[rows], validation.y[rows])
        )
        for rows in row_batches(n)
    ]
    loss = sum(sums[1:], start=sums[0]) / n
    assert state.best is not None
    return state._replace(best=_best(state.theta, loss, state.best)), loss


def _held_out_loss(own: Any, shared: Any) -> Array:
    """Sum over rows of the loss of y itself."""
    (theta, member), (learner, x, y) = own, shared
    outputs = learner.predict(theta, member, x)
    return jnp.sum(learner.noise.loss(y, jnp.zeros_like(y), outputs, learner.noise_std))


@jax.jit
def _best(theta: Params, loss: Array, best: EarlyStop) -> EarlyStop:
    better = loss < best.loss

    def keep(new: Array, old: Array) -> Array:
        return jnp.where(better.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

    return EarlyStop(
        theta=jax.tree.map(keep, theta, best.theta),
        loss=jnp.where(better, loss, best.loss),
        stale=jnp.where(better, 0, best.stale + 1),
    )


def _all_stale(states: list[TrainState], patience: int | None) -> bool:
    return all(bool(_stale(state, patience).all()) for state in states)


def _stale(state: TrainState, patience: int | None) -> Array:
    """Which members have had no improvement for `patience` evaluations."""
    if state.best is None or patience is None:
        return jnp.zeros(len(jax.tree.leaves(state.theta)[0]), bool)
    return state.best.stale >= patience
