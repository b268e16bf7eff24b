"""Members from their draws to their trained state: trainers in turn, and members that fail alone."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ntkgp.core.interrupts import StopRequests
from ntkgp.core.progress import note
from ntkgp.ensembles.checkpoint import Checkpoint, Keeper
from ntkgp.ensembles.forecast import require_training
from ntkgp.ensembles.identity import Identity, digest_of, identity_of
from ntkgp.ensembles.member import Member
from ntkgp.ensembles.plans import choose_plan
from ntkgp.ensembles.problem import Draw, Problem, draw_members
from ntkgp.ensembles.trainers import Trainer
from ntkgp.ensembles.training import Trained, lengthened, train
from ntkgp.ensembles.windows import Windows
from ntkgp.networks.layered import LayeredNetwork

ATTEMPTS = 3
"""How often a member is trained whose loss becomes NaN or infinite, each time with smaller steps."""


class Job(NamedTuple):
    """What is to be trained, and how."""

    problem: Problem
    seed: int
    trainers: Sequence[Trainer]
    plan: str
    members_at_once: int | None
    windows: Windows | None = None
    """Of rows that stay on disk; `problem` then has the first one."""

    def fingerprint(self) -> str:
        """Of the training data."""
        if self.windows is not None:
            return self.windows.survey.fingerprint
        return self.problem.data.fingerprint()

    def rows_identity(self) -> Identity:
        """What decides which rows are trained on, and in which order."""
        order = "in memory" if self.windows is None else digest_of(self.windows.shape)
        return {"the training data": self.fingerprint(), "the blocks or the window of rows": order}


class Members(NamedTuple):
    """Trained members, all leaves stacked over them."""

    trained: Trained
    member: Member
    """What predictions need of their draws."""
    attempts: NDArray[Any]
    """(members,)."""

    @property
    def good(self) -> NDArray[np.bool_]:
        """(members,): whether the last attempt kept a finite loss."""
        return _finite(self.trained)


def check_memory(job: Job, n_members: int) -> None:
    """Refuse members that this machine's memory cannot hold, before anything is drawn."""
    plan = choose_plan(job.problem.learner.net, n_members, job.plan, job.members_at_once)
    for trainer in job.trainers:
        require_training(job.problem, trainer, plan, n_members)


def train_members(
    job: Job,
    indices: Sequence[int],
    nets: Sequence[LayeredNetwork] | None,
    checkpoint: Checkpoint | None,
    progress: bool,
) -> Members:
    """Train the members with these indices on this machine.

    One whose loss becomes NaN or infinite is trained again from its own start, beside none but those that
    failed too, with the trainer's `gentler` steps.
    """
    if checkpoint is None:
        return _attempts(job, _draws(job, indices, nets), Keeper(), progress)
    with StopRequests() as stop:
        draws = _draws(job, indices, nets)
        plan = choose_plan(job.problem.learner.net, len(indices), job.plan, job.members_at_once)
        identity = identity_of(
            job.problem, job.rows_identity(), draws, job.seed, indices, job.trainers, plan
        )
        return _attempts(job, draws, Keeper.of(checkpoint, identity, stop), progress)


def _draws(job: Job, indices: Sequence[int], nets: Sequence[LayeredNetwork] | None) -> Draw:
    y = job.problem.data.y
    like = y if job.windows is None else y[:0]  # each window has noise of its own
    return draw_members(job.problem.learner, job.seed, indices, like, nets)


def _attempts(job: Job, draws: Draw, keeper: Keeper, progress: bool) -> Members:
    trainers = job.trainers
    trained = _in_turns(job, draws, trainers, keeper.under("attempt-1"), progress)
    attempts = np.ones(len(draws.batch_key), np.int64)
    for attempt in range(2, ATTEMPTS + 1):
        failed = np.flatnonzero(~_finite(trained))
        if not len(failed):
            break
        note(f"members: {len(failed)} diverged, and are trained with smaller steps", progress)
        trainers = [trainer.gentler() for trainer in trainers]
        own = jax.tree.map(lambda leaf, failed=failed: leaf[failed], draws)
        again = _in_turns(job, own, trainers, keeper.under(f"attempt-{attempt}"), progress)
        trained = _replaced(trained, failed, again)
        attempts[failed] = attempt
    member = draws.member
    if not job.problem.learner.method.needs_init:
        member = member._replace(theta_0=None)
    return Members(trained, member, attempts)


def _in_turns(
    job: Job, draws: Draw, trainers: Sequence[Trainer], keeper: Keeper, progress: bool
) -> Trained:
    """Each trainer goes on where the one before it ended."""
    net = job.problem.learner.net
    plan = choose_plan(net, len(draws.batch_key), job.plan, job.members_at_once)
    trained = None
    for turn, trainer in enumerate(trainers):
        at = keeper.under(f"turn-{turn}")
        if trained is None:
            trained = train(job.problem, draws, trainer, plan, progress, at, job.windows)
        else:
            onwards = draws._replace(theta=trained.theta)
            later = train(job.problem, onwards, trainer, plan, progress, at, job.windows)
            trained = trained.then(later)
    assert trained is not None
    return trained


def _finite(trained: Trained) -> NDArray[np.bool_]:
    """(members,): whether training kept a finite loss."""
    return np.isfinite(trained.losses).all(axis=1) & np.isfinite(trained.objectives)


def _replaced(trained: Trained, rows: NDArray[np.integer[Any]], by: Trained) -> Trained:
    """The same with other members in these rows."""

    def exchanged(name: str) -> NDArray[Any]:
        old, new = getattr(trained, name), getattr(by, name)
        old, new = lengthened([old, new]) if old.ndim > 1 else (old, new)
        whole = np.array(old)
        whole[rows] = new
        return whole

    records = (exchanged(name) for name in Trained._fields if name != "theta")
    theta = jax.tree.map(lambda old, new: old.at[rows].set(new), trained.theta, by.theta)
    return Trained(theta, *records)


def joined(parts: Sequence[Members]) -> Members:
    """The members of all parts, in their order."""

    def traces(name: str) -> list[NDArray[Any]]:
        return lengthened([np.asarray(getattr(part.trained, name)) for part in parts])

    names = ("losses", "validation_losses")
    equal = [dict(zip(names, both, strict=True)) for both in zip(*map(traces, names), strict=True)]
    same = [
        part._replace(trained=part.trained._replace(**own))
        for part, own in zip(parts, equal, strict=True)
    ]

    def whole(*leaves: Any) -> Any:
        array = isinstance(leaves[0], jax.Array)
        return jnp.concatenate(leaves) if array else np.concatenate(leaves)

    return jax.tree.map(whole, *same)
