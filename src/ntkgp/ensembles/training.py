"""Training: the one place for groups of members, δ, memory, rounds and results.

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

from ntkgp.core.progress import note, progress_bar
from ntkgp.core.threads import in_threads
from ntkgp.core.typing import Params
from ntkgp.ensembles.checkpoint import Keeper, Kept
from ntkgp.ensembles.forecast import keeps_delta
from ntkgp.ensembles.losses import (
    Best,
    better,
    first_best,
    held_out_losses,
    objectives,
    offsets,
    regulariser,
)
from ntkgp.ensembles.plans import Plan
from ntkgp.ensembles.problem import Draw, Problem
from ntkgp.ensembles.trainers.protocol import ENDED, Trainer
from ntkgp.ensembles.windows import Windows

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


class Progress(NamedTuple):
    """How far a group has come: all that the rest of its training depends on."""

    state: Any
    best: Best | None
    rounds: int
    losses: list[NDArray[Any]]
    validation_losses: list[NDArray[Any]]

    def kept(self) -> Kept:
        """For a checkpoint; the records are (members, rounds) and (members, evaluations)."""
        none = np.zeros((len(jax.tree.leaves(self.state)[0]), 0), np.float32)
        records = {
            "losses": np.concatenate([none, *self.losses], axis=1),
            "validation_losses": np.concatenate([none, *self.validation_losses], axis=1),
        }
        return Kept((self.state, self.best), records)


def train(
    problem: Problem,
    draws: Draw,
    trainer: Trainer,
    plan: Plan,
    progress: bool,
    keeper: Keeper = Keeper(),
    windows: Windows | None = None,
) -> Trained:
    """Train all members, group by group; with `windows`, each round on another window of the data."""
    note(f"members: {plan}", progress)
    groups = plan.groups(draws)
    with progress_bar(len(groups) * trainer.rounds, type(trainer).__name__, progress) as bar:
        parts = [
            _train_group(problem, group, trainer, plan, keeper.under(f"group-{i}"), bar, windows)
            for i, group in enumerate(groups)
        ]
    return _joined(parts, plan, len(draws.batch_key))


def _train_group(
    problem: Problem,
    draws: Draw,
    trainer: Trainer,
    plan: Plan,
    keeper: Keeper,
    bar: Any,
    windows: Windows | None,
) -> Trained:
    """Train one group to its end."""
    if windows is None:
        draws = draws._replace(delta=_kept_delta(problem, draws, trainer, plan))
    now = _begun(problem, draws, trainer, plan, keeper)
    bar.update(now.rounds)
    while now.rounds < trainer.rounds and not _all_ended(trainer, now):
        before = now.rounds
        now = _further(problem, draws, trainer, plan, now, windows)
        keeper.keep(now.kept)
        bar.update(now.rounds - before)
        bar.set_postfix(loss=_typical(now.losses[-1][:, -1]))
    keeper.keep(now.kept, ended=True)
    bar.update(trainer.rounds - now.rounds)
    theta = now.state.theta if now.best is None else now.best.theta
    return Trained(
        theta=theta,
        **now.kept().records,
        objectives=objectives(problem, draws, theta, plan, windows),
        ended=_ended(trainer, now),
    )


def _begun(problem: Problem, draws: Draw, trainer: Trainer, plan: Plan, keeper: Keeper) -> Progress:
    """Where an earlier process was interrupted, or the start."""
    k = len(draws.batch_key)

    def first() -> tuple[Any, Best | None]:
        state = start(plan, (trainer, problem), draws)
        return state, None if problem.validation is None else first_best(state.theta, k)

    found = keeper.found(lambda: jax.eval_shape(first))
    if found is None:
        return Progress(*first(), 0, [], [])
    losses, validation_losses = (found.records[name] for name in ("losses", "validation_losses"))
    state, best = plan.spread(found.state)
    return Progress(state, best, losses.shape[1], [losses], [validation_losses])


def _further(
    problem: Problem,
    draws: Draw,
    trainer: Trainer,
    plan: Plan,
    now: Progress,
    windows: Windows | None = None,
) -> Progress:
    """Some rounds further, and after every `evaluate_every` a look at the rows held out."""
    to_evaluation = trainer.evaluate_every - now.rounds % trainer.evaluate_every
    n = min(CHUNK, to_evaluation, trainer.rounds - now.rounds)
    if windows is not None:
        n = 1
        problem, draws = windows.at(now.rounds, problem, draws)
        draws = plan.spread(draws._replace(delta=_kept_delta(problem, draws, trainer, plan)))
    ended = _ended(trainer, now) != "limit"
    rounds = now.rounds + n
    state, losses = advance(plan, (trainer, problem), draws, now.state, range(now.rounds, rounds))
    if ended.any():  # whatever becomes of a member after its end is not its own any more
        losses[ended] = now.losses[-1][ended, -1:]
    now = now._replace(state=state, rounds=rounds, losses=[*now.losses, losses])
    if now.best is None or (n < to_evaluation and rounds < trainer.rounds):
        return now
    held_out = held_out_losses(problem, state.theta, draws.member, plan)
    best = better(state.theta, held_out, now.best, trainer.patience)
    seen = [*now.validation_losses, np.asarray(held_out)[:, None]]
    return now._replace(best=best, validation_losses=seen)


def _joined(parts: list[Trained], plan: Plan, k: int) -> Trained:
    """The members of all groups, without those that fill up sharded groups."""

    def whole(name: str) -> NDArray[Any]:
        sizes = plan.sizes(k)
        values = [getattr(part, name)[:n] for part, n in zip(parts, sizes, strict=True)]
        return np.concatenate(lengthened(values) if values[0].ndim > 1 else values)

    records = (whole(name) for name in Trained._fields if name != "theta")
    return Trained(plan.join([part.theta for part in parts], k), *records)


def lengthened(traces: list[NDArray[Any]]) -> list[NDArray[Any]]:
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
    """Run these rounds; also the loss of each, (members, rounds).

    Threads have a share of the members each. Where rounds are one program, they find it compiled: a call
    that runs no round sees to that.
    """
    shares = plan.shares((draws, state))
    if len(shares) == 1:
        return _advance(plan, shared, (draws, state), rounds)
    own_draws, own_state = shares[0]
    if plan.scans:
        shares[0] = own_draws, run_rounds(plan, shared, own_draws, own_state, (rounds.start, 0))[0]
    parts = in_threads(lambda share: _advance(plan, shared, share, rounds), shares)
    states, losses = zip(*parts, strict=True)
    k = len(draws.batch_key)
    return plan.whole(states, k), np.concatenate(losses)[:k]


def _advance(
    plan: Plan, shared: tuple[Trainer, Problem], share: tuple[Draw, Any], rounds: range
) -> tuple[Any, NDArray[Any]]:
    draws, state = share
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
            start = regulariser((state.theta, draw.member), problem)
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
        start = plan.over_members(regulariser, (state.theta, draws.member), problem)
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


# δ, and why training ended


def _kept_delta(problem: Problem, draws: Draw, trainer: Trainer, plan: Plan) -> Array | None:
    """δ on the training inputs; None where there is none, or every step computes it."""
    if not keeps_delta(problem, trainer, len(draws.batch_key)):
        return None
    return offsets(problem.learner, draws.member, problem.data.x, plan)


def _ended(trainer: Trainer, now: Progress) -> NDArray[Any]:
    """Why each member's training ended; "limit" if it has not."""
    reasons = np.array(ENDED)[np.asarray(trainer.ended(now.state))]
    if now.best is None or trainer.patience is None:
        return reasons
    return np.where(np.asarray(now.best.stale) >= trainer.patience, "stopped early", reasons)


def _all_ended(trainer: Trainer, now: Progress) -> bool:
    return bool(np.all(_ended(trainer, now) != "limit"))


def _typical(losses: NDArray[Any]) -> str:
    """The median of the finite ones, for a progress bar."""
    finite = losses[np.isfinite(losses)]
    return f"{np.median(finite):.4g}" if finite.size else "not finite"
