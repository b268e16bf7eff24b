"""Regularised nonlinear least squares in the dual: Levenberg-Marquardt with the empirical NTK."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from ntkgp.core.typing import Params
from ntkgp.ensembles.problem import Draw, Problem, training_set
from ntkgp.ensembles.trainers.protocol import CONVERGED, LIMIT, STUCK, check_positive
from ntkgp.networks.protocol import squared_norm

R = TypeVar("R")

_COPIES = 4  # of a member's Gram matrix that one step holds
_ROUNDING = 4  # times n · eps · mean diagonal: the least damping that a Gram matrix resolves
_GROWTH = 2.0  # of the damping at the first failed step


class LMState(NamedTuple):
    """One member on its way."""

    theta: Params
    damping: Array
    growth: Array
    """Factor by which the damping grows at the next failed step."""
    ended: Array
    """LIMIT while it goes on."""


class Linearised(NamedTuple):
    """The problem linearised at the current θ, each row times the root of its weight; 0 for padding."""

    residual: Array
    """r = y' - f̃(X, θ)."""
    gram: Array
    """J Λ Jᵀ."""
    v: Params
    """θ - anchor."""
    jv: Array
    """J v."""


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["max_steps", "tolerance", "damping"],
    meta_fields=[],
)
@dataclass(frozen=True)
class GaussNewton:
    """Minimise each member's loss by damped Gauss-Newton steps.

    With r = y' - f̃(X, θ), J the Jacobian and v = θ - anchor, one step minimises

        ½‖r - J d‖² + ½σ²‖v + d‖²_Λ + ½μ‖d‖²_Λ

    and is found in the space of the N residuals, whatever the number of parameters: with
    s = σ² + μ,

        d = -(σ²/s) v + Λ Jᵀ (J Λ Jᵀ + s I)⁻¹ (r + (σ²/s) J v).

    J Λ Jᵀ is the empirical NTK on the training set. For methods that are linear in what they
    train, one step with μ = 0 is exact, and a second one corrects its rounding.

    Args:
        max_steps: the limit of steps.
        tolerance: a member has converged when the next step promises to lower its objective by
            less than this fraction of it. It is stuck when a promise becomes that small only
            because steps kept failing: rounding then hides what is left to gain.
        damping: the first μ, as a fraction of the mean diagonal of J Λ Jᵀ.
    """

    max_steps: int | Array = 100
    tolerance: float | Array = 1e-5
    damping: float | Array = 2e-2

    evaluate_every = 1
    patience = None
    changes_inputs = False

    def __post_init__(self) -> None:
        check_positive(self, "max_steps", "tolerance", "damping")

    @property
    def rounds(self) -> int | Array:
        return self.max_steps

    def check(self, problem: Problem) -> None:
        learner = problem.learner
        if problem.validation is not None:
            raise ValueError(
                "GaussNewton minimises the training objective and has no use for a validation set: "
                "leave it out, or train with Descent."
            )
        if learner.weight_decay:
            raise ValueError("GaussNewton has no weight_decay; train with Descent, or set it to 0.")
        if not learner.noise.least_squares:
            raise ValueError(
                "GaussNewton solves least squares, and a network that learns its noise has another "
                "loss: train with Descent."
            )

    def bytes_per_member(self, problem: Problem) -> int:
        return _COPIES * problem.data.y.size**2 * problem.data.y.dtype.itemsize

    def init(self, problem: Problem, draw: Draw) -> LMState:
        gram = _gram(problem, draw, draw.theta)
        linear = problem.learner.method.linear
        damping = 0.0 if linear else self._first_damping(problem, gram)
        return LMState(
            draw.theta,
            jnp.asarray(damping, gram.dtype),
            growth=jnp.asarray(_GROWTH, gram.dtype),
            ended=jnp.asarray(LIMIT, jnp.int32),
        )

    def _first_damping(self, problem: Problem, gram: Array) -> Array:
        return self.damping * _mean_diagonal(problem, gram)

    def steps(self, problem: Problem) -> int:
        return 1

    def schedule(self, problem: Problem, draw: Draw, number: Array) -> None:
        """A round is one step, and needs nothing."""

    def step(
        self, problem: Problem, draw: Draw, state: LMState, given: None
    ) -> tuple[LMState, Array]:
        step = in_turns(_step) if jax.default_backend() == "cpu" else _step
        return step(self, problem, draw, state)

    def further(self, problem: Problem, draw: Draw, state: LMState) -> tuple[LMState, Array]:
        """One step of a member that goes on."""
        learner = problem.learner
        at = _linearised(problem, draw, state.theta)
        pull = _noise_var(problem) if learner.method.anchor else 0.0
        least = _least_damping(problem, at.gram)
        total = jnp.maximum(pull + state.damping, least)  # s = σ² + μ
        shrink = pull / total
        dual = _solve(at.gram, total, at.residual + shrink * at.jv)
        step = _primal(problem, draw, state.theta, dual, shrink, at.v)

        # The quadratic model's decrease, ½‖J d‖² + (½σ² + μ)‖d‖²_Λ: a sum, so nothing cancels.
        jd = at.gram @ dual - shrink * at.jv
        promised = 0.5 * jd @ jd + (total - pull / 2) * squared_norm(
            learner.net_of(draw.member), step
        )
        before, data_loss = _objective(problem, draw, state.theta)
        theta = jax.tree.map(jnp.add, state.theta, step)
        gained = before - _objective(problem, draw, theta)[0]
        take = (gained > 0) | (learner.method.linear & jnp.isfinite(gained))
        new = LMState(
            theta=jax.tree.map(lambda new, old: jnp.where(take, new, old), theta, state.theta),
            **_next_damping(state, take, gained, promised, least),
            ended=self._ended(state, promised, before, self._first_damping(problem, at.gram)),
        )
        return new, data_loss

    def _ended(self, state: LMState, promised: Array, objective: Array, calm: Array) -> Array:
        """A small promise is the truth about the minimum only where the damping is as at the start.

        Failed steps raise the damping, and that makes promises small too.
        """
        small = promised <= self.tolerance * objective
        failing = state.growth > _GROWTH
        converged = small & ~failing & (state.damping <= calm)
        stuck = (small & failing) | ~jnp.isfinite(objective)
        ending = jnp.where(converged, CONVERGED, jnp.where(stuck, STUCK, LIMIT))
        return ending.astype(jnp.int32)

    def gentler(self) -> "GaussNewton":
        return replace(self, damping=4 * self.damping)

    def ended(self, state: LMState) -> Array:
        return state.ended


def _step(
    trainer: GaussNewton, problem: Problem, draw: Draw, state: LMState
) -> tuple[LMState, Array]:
    """One step, or none for a member that has ended."""
    return jax.lax.cond(
        state.ended == LIMIT,
        lambda: trainer.further(problem, draw, state),
        lambda: (state, _objective(problem, draw, state.theta)[1]),
    )


def in_turns(f: Callable[..., R]) -> Callable[..., R]:
    """f of several members by `jax.vmap`, on a processor: one after another.

    Each one's Gram matrix then stays in cache, a member that has ended costs next to nothing, and LAPACK's
    calls are no batch: XLA would divide it among its threads, and two programs that wait for each other's
    wait for ever.
    """

    def taken(*given: Any) -> R:
        leaves, form = jax.tree.flatten(given)  # JAX rebuilds dataclasses with marks, not numbers
        of_leaves = jax.custom_batching.sequential_vmap(
            lambda *leaves: f(*jax.tree.unflatten(form, leaves))
        )
        result: R = of_leaves(*leaves)
        return result

    return taken


def _solve(gram: Array, damping: Array, values: Array) -> Array:
    """(J Λ Jᵀ + s I)⁻¹ values."""
    damped = gram + damping * jnp.eye(len(gram), dtype=gram.dtype)
    # LAPACK stores by columns. Transposed, a symmetric matrix stored by rows need not be copied.
    factor = jax.lax.linalg.cholesky(damped.T, symmetrize_input=False)
    return jax.scipy.linalg.cho_solve((factor, True), values)


def _objective(problem: Problem, draw: Draw, theta: Params) -> tuple[Array, Array]:
    """½‖r‖² + ½σ²‖θ - anchor‖²_Λ, which is n times the loss; and the data loss."""
    learner, data = problem.learner, problem.data
    data_loss = learner.data_loss(
        learner.trainable(theta), draw.member, training_set(problem, draw, None)
    )
    regulariser = learner.regulariser(theta, draw.member, data.total)
    return data.n * (data_loss + regulariser), data_loss


def _root_weight(problem: Problem) -> Array:
    """√(w_n/w̄) for the residuals of examples, 0 for those of other rows."""
    return jnp.repeat(jnp.sqrt(problem.data.share()), problem.data.y.shape[1])


def _noise_var(problem: Problem) -> Array:
    """σ² of the regulariser, over the mean weight w̄ of the examples."""
    return problem.learner.noise_std**2 * (problem.data.n / problem.data.total)


def _residuals(problem: Problem) -> Array:
    """Their number."""
    return problem.data.n * problem.data.y.shape[1]


def _gram(problem: Problem, draw: Draw, theta: Params) -> Array:
    """J Λ Jᵀ of the trained part of the model."""
    learner, root = problem.learner, _root_weight(problem)
    point = theta if learner.method.model == "network" else draw.member.theta_tilde
    net = learner.net_of(draw.member)
    gram = net.tangent_gram(point, problem.data.x, learner.method.trains)
    return root[:, None] * gram * root


def _mean_diagonal(problem: Problem, gram: Array) -> Array:
    return jnp.trace(gram) / _residuals(problem)


def _least_damping(problem: Problem, gram: Array) -> Array:
    """The least damping that keeps the Gram matrix positive definite despite rounding."""
    return (
        _ROUNDING * _residuals(problem) * jnp.finfo(gram.dtype).eps * _mean_diagonal(problem, gram)
    )


def _linearised(problem: Problem, draw: Draw, theta: Params) -> Linearised:
    learner, root = problem.learner, _root_weight(problem)
    v = learner.displacement(theta, draw.member)
    fx, jv = jax.jvp(lambda t: _model(problem, draw, t), (theta,), (v,))
    data = training_set(problem, draw, None)
    delta = 0.0 if data.delta is None else data.delta
    residual = data.y + learner.noise_std * data.epsilon - delta - fx
    gram = _gram(problem, draw, theta)
    return Linearised(root * residual.ravel(), gram, v, root * jv.ravel())


def _model(problem: Problem, draw: Draw, theta: Params) -> Array:
    learner = problem.learner
    return learner.model(learner.trainable(theta), draw.member, problem.data.x)


def _primal(
    problem: Problem, draw: Draw, theta: Params, dual: Array, shrink: Array, v: Params
) -> Params:
    """d = Λ Jᵀ dual - shrink · v."""
    fx, pull_back = jax.vjp(lambda t: _model(problem, draw, t), theta)
    (gradient,) = pull_back((_root_weight(problem) * dual).reshape(fx.shape))
    prior_var = problem.learner.net_of(draw.member).prior_var()
    return jax.tree.map(lambda g, var, own: var * g - shrink * own, gradient, prior_var, v)


def _next_damping(
    state: LMState, take: Array, gained: Array, promised: Array, least: Array
) -> dict[str, Array]:
    """Nielsen's rule (1999): smooth in the ratio of gain to promise.

    A step that is not finite, because its factorisation failed, counts as no gain.
    """
    ratio = gained / jnp.maximum(promised, jnp.finfo(promised.dtype).tiny)
    shrunk = state.damping * jnp.maximum(1 / 3, 1 - (2 * ratio - 1) ** 3)
    grown = jnp.maximum(state.damping, least) * state.growth
    return {
        "damping": jnp.where(take, shrunk, grown),
        "growth": jnp.where(take, _GROWTH, 2 * state.growth),
    }
