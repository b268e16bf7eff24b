"""What members' losses are, on rows they train on and on rows held out, and the best of each so far."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from ntkgp.core.arrays import row_batches
from ntkgp.core.typing import Params
from ntkgp.ensembles.member import Baselearner, Member
from ntkgp.ensembles.plans import Plan
from ntkgp.ensembles.problem import Data, Draw, Problem
from ntkgp.ensembles.windows import Windows


class Best(NamedTuple):
    """Each member's best parameters on the validation set so far."""

    theta: Params
    loss: Array
    stale: Array
    """Evaluations since the last improvement."""


def offsets(learner: Baselearner, members: Member, x: Array, plan: Plan) -> Array:
    """δ(x) of every member, (members, n, outputs)."""
    parts = [
        plan.over_members(_offset, members, (learner, x[rows])) for rows in row_batches(len(x))
    ]
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=1)


def _offset(member: Member, shared: tuple[Baselearner, Array]) -> Array:
    learner, x = shared
    return learner.offset(member, x)


def regulariser(own: tuple[Params, Member], problem: Problem) -> Array:
    return problem.learner.regulariser(*own, problem.total)


def objectives(
    problem: Problem, draws: Draw, theta: Params, plan: Plan, windows: Windows | None = None
) -> NDArray[Any]:
    """Each member's loss on its whole training set, in memory or window by window."""
    parts = [(problem, draws)] if windows is None else windows.in_order(problem, draws)
    total = np.zeros((), np.float64)
    for i, (part, drawn) in enumerate(parts):
        own = (theta, draws.member, part.data.scaled(drawn.epsilon))
        total = total + np.asarray(
            _losses(part.learner, part.data, part.total, own, plan, regularised=i == 0)
        )
    return total.astype(np.float32)


def held_out_losses(problem: Problem, theta: Params, members: Member, plan: Plan) -> Array:
    """Each member's loss on the validation set: of y itself, without regulariser."""
    assert problem.validation is not None
    learner, data = problem.learner, problem.validation
    epsilon = jnp.zeros((len(jax.tree.leaves(theta)[0]), *data.y.shape), data.y.dtype)
    return _losses(learner, data, data.total, (theta, members, epsilon), plan, regularised=False)


def _losses(
    learner: Baselearner,
    data: Data,
    n: Array,
    own: tuple[Params, Member, Array],
    plan: Plan,
    regularised: bool,
) -> Array:
    """The sum over examples, divided by n; some rows at a time, so that memory does not grow with them."""
    theta, members, epsilon = own
    weight, total = data.weight / n, jnp.zeros(())
    for i, rows in enumerate(row_batches(len(data.x))):
        share = float(regularised and i == 0)  # of the regulariser, which counts once
        batch = (data.x[rows], data.y[rows], weight[rows])
        total = total + plan.over_members(
            _share_of_loss, (theta, members, epsilon[:, rows]), (learner, batch, n, share)
        )
    return total


def _share_of_loss(own: tuple[Params, Member, Array], shared: Any) -> Array:
    (theta, member, epsilon), (learner, (x, y, weight), n, share) = own, shared
    losses = learner.noise.loss(y, epsilon, learner.predict(theta, member, x), learner.noise_std)
    return jnp.sum(weight * losses) + share * learner.regulariser(theta, member, n)


def first_best(theta: Params, k: int) -> Best:
    return Best(jax.tree.map(jnp.copy, theta), jnp.full(k, jnp.inf), jnp.zeros(k, jnp.int32))


@jax.jit
def better(theta: Params, loss: Array, best: Best, patience: int | Array | None) -> Best:
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
