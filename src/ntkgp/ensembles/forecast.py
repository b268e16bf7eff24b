"""How much memory training will take at least, before any of it is allocated."""

from functools import lru_cache
from typing import Any

import jax
import numpy as np

from ntkgp.core.memory import require
from ntkgp.ensembles.plans import Plan
from ntkgp.ensembles.problem import Draw, Problem, draw_members
from ntkgp.ensembles.trainers.protocol import Trainer
from ntkgp.networks.protocol import Network

DELTA_BYTES = 2**30
"""Up to this size, δ of a group on the training inputs is computed once and kept."""

_SMALL_BYTES = 2**28


def require_training(problem: Problem, trainer: Trainer, plan: Plan, members: int) -> None:
    """Refuse an ensemble that memory cannot hold. What is surely small is not worth a forecast's time."""
    group, data = plan.at_once, problem.data
    own = _parameter_bytes(problem.learner.net) + data.y.nbytes  # type: ignore[arg-type]
    if 20 * members * own + group * trainer.bytes_per_member(problem) < _SMALL_BYTES:
        return
    require(
        bytes_needed(problem, trainer, plan, members),
        f"training {members:,} members, {group:,} at once, by {type(trainer).__name__} on "
        f"{int(data.n):,} rows of {data.y.shape[1]} targets,",
        "Train fewer members or a smaller network, a smaller members_at_once, members_at_once=1 above "
        "all, or by Descent if it is GaussNewton.",
    )


def bytes_needed(problem: Problem, trainer: Trainer, plan: Plan, members: int) -> int:
    """The arrays that training holds at the same time, besides the data and one step's own.

    That is for each member θ, its fixed draws and ε; twice, if members are trained in groups. For each
    member of the group that is in training it is also the trainer's state, δ, a gradient and, with a
    validation set, the best parameters so far. Threads have copies of draws, δ and states.
    """
    draw = one_draw(problem)
    of_window = 0 if problem.whole is None else _bytes_of(draw.epsilon)  # the group's alone
    state = jax.eval_shape(trainer.init, problem, draw)
    theta = _bytes_of(draw.theta)
    best = theta if problem.validation is not None else 0
    in_training = _bytes_of(state) + theta + best + trainer.bytes_per_member(problem)
    delta = delta_bytes(problem) if keeps_delta(problem, trainer, plan.at_once) else 0
    in_training += delta + of_window
    if plan.threads > 1:
        in_training += _bytes_of(draw) + delta + _bytes_of(state)
    whole = members * (_bytes_of(draw) - of_window)
    if members > plan.at_once:  # cut into groups, whose results are put together
        whole += whole + members * theta
    return whole + plan.filled * in_training


def one_draw(problem: Problem) -> Draw:
    """The shapes of one member's draws."""
    stacked = jax.eval_shape(lambda y: draw_members(problem.learner, 0, [0], y), problem.data.y)
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), stacked)


def keeps_delta(problem: Problem, trainer: Trainer, members: int) -> bool:
    """Whether δ of a group is computed once; if not, there is none, or every step computes it."""
    if problem.learner.method.offset is None or trainer.changes_inputs:
        return False
    return members * delta_bytes(problem) <= DELTA_BYTES


def delta_bytes(problem: Problem) -> int:
    """Of one member's δ on the training inputs."""
    x = problem.data.x
    return len(x) * problem.learner.net.output_dim * x.dtype.itemsize


@lru_cache
def _parameter_bytes(net: Network) -> int:
    return _bytes_of(jax.eval_shape(net.init, jax.random.key(0)))


def _bytes_of(tree: Any) -> int:
    sizes = (int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
    return sum(sizes)
