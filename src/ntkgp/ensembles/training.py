"""Training: the one place for groups of members, δ, memory, early stopping and results.

A trainer says what one member does in one step (`trainers.protocol`). A plan says how members share a
program (`plans`). Neither knows of the other: they meet here.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from ntkgp.core.arrays import row_batches
from ntkgp.core.memory import require
from ntkgp.core.progress import note, progress_bar
from ntkgp.core.typing import Params
from ntkgp.ensembles.member import Baselearner, Member
from ntkgp.ensembles.plans import Plan
from ntkgp.ensembles.problem import Data, Draw, Problem
from ntkgp.ensembles.trainers.protocol import ENDED, Trainer

DELTA_BYTES = 2**30
"""Up to this size, δ of a group on the training inputs is computed once and kept."""
CHUNK = 64
"""The most rounds in one call of a program."""


class Trained(NamedTuple):
    """Trained members, all leaves stacked over members."""

    theta: Params
    losses: NDArray[Any]
    """(members, rounds): mean data loss over a round's steps, plus the regulariser at its start."""
    validation_losses: NDArray[Any]
    """(members, evaluations): empty without a validation set."""
    objectives: NDArray[Any]
    """(members,): the final loss on the whole training set."""
    ended: NDArray[Any]
    """(members,): why training ended, a word of `trainers.protocol.ENDED`."""

    def then(self, later: "Trained") -> "Trained":
        """What became of the members after another trainer went on with them."""
        traces = {
            name: np.concatenate([getattr(self, name), getattr(later, name)], axis=1)
            for name in ("losses", "validation_losses")
        }
        return later._replace(**traces)


class Best(NamedTuple):
    """Each member's best parameters on the validation set so far."""

    theta: Params
    loss: Array
    stale: Array
    """Evaluations since the last improvement."""


def check_training(problem: Problem, trainer: Trainer, plan: Plan) -> None:
    """Refuse what the trainer cannot do, or memory cannot hold, before anything is drawn."""
    trainer.check(problem)
    require(
        plan.at_once * trainer.bytes_per_member(problem),
        f"{type(trainer).__name__} on {int(problem.data.n):,} rows of {problem.data.y.shape[1]} "
        f"targets, {plan.at_once} members at once,",
        "Train with Descent, or with a smaller members_at_once.",
    )


def train(problem: Problem, draws: Draw, trainer: Trainer, plan: Plan, progress: bool) -> Trained:
    """Train all members, group by group."""
    note(f"members: {plan}", progress)
    groups = plan.groups(draws)
    with progress_bar(len(groups) * trainer.rounds, type(trainer).__name__, progress) as bar:
        parts = [_train_group(problem, group, trainer, plan, bar) for group in groups]
    return _joined(parts, plan, len(draws.batch_key))


def _train_group(problem: Problem, draws: Draw, trainer: Trainer, plan: Plan, bar: Any) -> Trained:
    """Train one group to its end."""
    draws = draws._replace(delta=_kept_delta(problem, draws, trainer, plan))
    shared = (trainer, problem)
    state = start(plan, shared, draws)
    best = None if problem.validation is None else _first_best(state.theta, len(draws.batch_key))
    losses: list[NDArray[Any]] = []
    validation_losses: list[NDArray[Any]] = []
    rounds = 0
    while rounds < trainer.rounds and not _all_ended(trainer, state, best):
        n = min(trainer.evaluate_every, trainer.rounds - rounds)
        ended = _ended(trainer, state, best) != "limit"
        state, part = advance(plan, shared, draws, state, range(rounds, rounds + n))
        if ended.any():  # whatever becomes of a member after its end is not its own any more
            part[ended] = losses[-1][ended, -1:]
        losses.append(part)
        rounds += n
        if best is not None:
            held_out = _held_out_losses(problem, state.theta, draws.member, plan)
            best = _better(state.theta, held_out, best, trainer.patience)
            validation_losses.append(np.asarray(held_out))
        bar.update(n)
        bar.set_postfix(loss=_typical(losses[-1][:, -1]))
    bar.update(trainer.rounds - rounds)
    theta = state.theta if best is None else best.theta
    return Trained(
        theta,
        np.concatenate(losses, axis=1),
        np.array(validation_losses).T.reshape(len(draws.batch_key), -1),
        _objectives(problem, draws, theta, plan),
        _ended(trainer, state, best),
    )


def _joined(parts: list[Trained], plan: Plan, k: int) -> Trained:
    """The members of all groups, without those that fill up sharded groups."""

    def whole(name: str) -> NDArray[Any]:
        sizes = plan.sizes(k)
        values = [getattr(part, name)[:n] for part, n in zip(parts, sizes, strict=True)]
        return np.concatenate(_lengthened(values) if values[0].ndim > 1 else values)

    records = (whole(name) for name in Trained._fields if name != "theta")
    return Trained(plan.join([part.theta for part in parts], k), *records)


def _lengthened(traces: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """All traces as long as the longest: a group that has ended keeps its last value."""
    longest = max(trace.shape[1] for trace in traces)
    missing = [((0, 0), (0, longest - trace.shape[1])) for trace in traces]
    return [np.pad(t, m, "edge") if longest else t for t, m in zip(traces, missing, strict=True)]


# Rounds and steps


@partial(jax.jit, static_argnums=0)
def start(plan: Plan, shared: tuple[Trainer, Problem], draws: Draw) -> Any:
    def member(draw: Draw, shared: tuple[Trainer, Problem]) -> Any:
        trainer, problem = shared
        return trainer.init(problem, draw)

    state = plan.over_group(member, draws, shared)
    return jax.tree.map(jnp.copy, state)  # in arrays of its own, which training may overwrite


def advance(
    plan: Plan, shared: tuple[Trainer, Problem], draws: Draw, state: Any, rounds: range
) -> tuple[Any, NDArray[Any]]:
    """Run these rounds; also the loss of each, (members, rounds)."""
    run = run_rounds if plan.scans else _loop_over_steps
    losses = []
    for first in range(rounds.start, rounds.stop, CHUNK):
        n = min(CHUNK, rounds.stop - first)
        state, part = run(plan, shared, draws, state, (first, n))
        losses.append(np.array(part)[:, :n])
    return state, np.concatenate(losses, axis=1)


@partial(jax.jit, static_argnums=0, donate_argnums=3)
def run_rounds(
    plan: Plan, shared: tuple[Trainer, Problem], draws: Draw, state: Any, span: tuple[Array, Array]
) -> tuple[Any, Array]:
    """`span` is the first round and how many: all of them, and their steps, in one program."""

    def member(own: Any, shared: Any) -> tuple[Any, Array]:
        (draw, state), ((trainer, problem), (first, n)) = own, shared

        def one_round(i: Array, carry: tuple[Any, Array]) -> tuple[Any, Array]:
            state, losses = carry
            start = _regulariser((state.theta, draw.member), problem)
            given = trainer.schedule(problem, draw, first + i)

            def one_step(j: Array, carry: tuple[Any, Array]) -> tuple[Any, Array]:
                state, total = carry
                state, loss = trainer.step(problem, draw, state, _at(given, j))
                return state, total + loss

            steps = trainer.steps(problem)
            state, total = jax.lax.fori_loop(0, steps, one_step, (state, jnp.zeros_like(start)))
            return state, losses.at[i].set(total / steps + start)

        return jax.lax.fori_loop(0, n, one_round, (state, jnp.zeros(CHUNK, jnp.float32)))

    return plan.over_group(member, (draws, state), (shared, span))


def _loop_over_steps(
    plan: Plan, shared: tuple[Trainer, Problem], draws: Draw, state: Any, span: tuple[int, int]
) -> tuple[Any, Array]:
    """The same with Python loops, for programs that are slow inside XLA's loops."""
    trainer, problem = shared
    round_losses = []
    for number in range(span[0], sum(span)):
        given = _schedules(plan, shared, draws, jnp.asarray(number))
        start = plan.over_members(_regulariser, (state.theta, draws.member), problem)
        total = jnp.zeros_like(start)
        steps = int(trainer.steps(problem))
        for i in range(steps):
            state, loss = run_step(plan, shared, draws, state, (given, jnp.asarray(i)))
            total = total + loss
        round_losses.append(total / steps + start)
    return state, jnp.stack(round_losses, axis=1)


@partial(jax.jit, static_argnums=0)
def _schedules(plan: Plan, shared: tuple[Trainer, Problem], draws: Draw, number: Array) -> Any:
    def member(draw: Draw, shared: Any) -> Any:
        (trainer, problem), number = shared
        return trainer.schedule(problem, draw, number)

    return plan.over_group(member, draws, (shared, number))


@partial(jax.jit, static_argnums=0, donate_argnums=3)
def run_step(
    plan: Plan, shared: tuple[Trainer, Problem], draws: Draw, state: Any, where: tuple[Any, Array]
) -> tuple[Any, Array]:
    """Step i of a round whose schedules are given."""

    def member(own: Any, shared: Any) -> tuple[Any, Array]:
        (draw, state, given), ((trainer, problem), i) = own, shared
        return trainer.step(problem, draw, state, _at(given, i))

    given, i = where
    return plan.over_group(member, (draws, state, given), (shared, i))


def _at(given: Any, i: Array) -> Any:
    return jax.tree.map(lambda leaf: leaf[i], given)


# δ, losses, early stopping


def _kept_delta(problem: Problem, draws: Draw, trainer: Trainer, plan: Plan) -> Array | None:
    """δ on the training inputs; None where there is none, or every step computes it."""
    learner, x = problem.learner, problem.data.x
    size = len(draws.batch_key) * len(x) * learner.net.output_dim * x.dtype.itemsize
    if learner.method.offset is None or trainer.changes_inputs or size > DELTA_BYTES:
        return None
    return offsets(learner, draws.member, x, plan)


def offsets(learner: Baselearner, members: Member, x: Array, plan: Plan) -> Array:
    """δ(x) of every member, (members, n, outputs)."""
    parts = [
        plan.over_members(_offset, members, (learner, x[rows])) for rows in row_batches(len(x))
    ]
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=1)


def _offset(member: Member, shared: tuple[Baselearner, Array]) -> Array:
    learner, x = shared
    return learner.offset(member, x)


def _regulariser(own: tuple[Params, Member], problem: Problem) -> Array:
    return problem.learner.regulariser(*own, problem.data.total)


def _objectives(problem: Problem, draws: Draw, theta: Params, plan: Plan) -> NDArray[Any]:
    """Each member's loss on its whole training set."""
    own = (theta, draws.member, problem.data.scaled(draws.epsilon))
    return np.asarray(_losses(problem.learner, problem.data, own, plan, regularised=True))


def _held_out_losses(problem: Problem, theta: Params, members: Member, plan: Plan) -> Array:
    """Each member's loss on the validation set: of y itself, without regulariser."""
    assert problem.validation is not None
    learner, data = problem.learner, problem.validation
    epsilon = jnp.zeros((len(jax.tree.leaves(theta)[0]), *data.y.shape), data.y.dtype)
    return _losses(learner, data, (theta, members, epsilon), plan, regularised=False)


def _losses(
    learner: Baselearner,
    data: Data,
    own: tuple[Params, Member, Array],
    plan: Plan,
    regularised: bool,
) -> Array:
    """The mean over examples, some rows at a time so that memory does not grow with their number."""
    theta, members, epsilon = own
    weight, total = data.weight / data.total, jnp.zeros(())
    for i, rows in enumerate(row_batches(len(data.x))):
        share = float(regularised and i == 0)  # of the regulariser, which counts once
        batch = (data.x[rows], data.y[rows], weight[rows])
        total = total + plan.over_members(
            _share_of_loss, (theta, members, epsilon[:, rows]), (learner, batch, data.total, share)
        )
    return total


def _share_of_loss(own: tuple[Params, Member, Array], shared: Any) -> Array:
    (theta, member, epsilon), (learner, (x, y, weight), n, share) = own, shared
    losses = learner.noise.loss(y, epsilon, learner.predict(theta, member, x), learner.noise_std)
    return jnp.sum(weight * losses) + share * learner.regulariser(theta, member, n)


def _first_best(theta: Params, k: int) -> Best:
    return Best(jax.tree.map(jnp.copy, theta), jnp.full(k, jnp.inf), jnp.zeros(k, jnp.int32))


@jax.jit
def _better(theta: Params, loss: Array, best: Best, patience: int | Array | None) -> Best:
    """The best so far. A member out of patience keeps its own, while others train on."""
    better = loss < best.loss
    if patience is not None:
        better &= best.stale < patience

    def keep(new: Array, old: Array) -> Array:
        return jnp.where(better.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

    return Best(
        theta=jax.tree.map(keep, theta, best.theta),
        loss=jnp.where(better, loss, best.loss),
        stale=jnp.where(better, 0, best.stale + 1),
    )


def _ended(trainer: Trainer, state: Any, best: Best | None) -> NDArray[Any]:
    """Why each member's training ended; "limit" if it has not."""
    reasons = np.array(ENDED)[np.asarray(trainer.ended(state))]
    if best is None or trainer.patience is None:
        return reasons
    return np.where(np.asarray(best.stale) >= trainer.patience, "stopped early", reasons)


def _all_ended(trainer: Trainer, state: Any, best: Best | None) -> bool:
    return bool(np.all(_ended(trainer, state, best) != "limit"))


def _typical(losses: NDArray[Any]) -> str:
    """The median of the finite ones, for a progress bar."""
    finite = losses[np.isfinite(losses)]
    return f"{np.median(finite):.4g}" if finite.size else "not finite"
