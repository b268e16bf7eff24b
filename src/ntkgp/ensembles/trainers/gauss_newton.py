"""Regularised nonlinear least squares in the dual: Levenberg-Marquardt with the empirical NTK."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from ntkgp.core.memory import require
from ntkgp.core.progress import note, progress_bar
from ntkgp.core.typing import Params
from ntkgp.ensembles.member import Baselearner, TrainingSet
from ntkgp.ensembles.noise import ConstantNoise
from ntkgp.ensembles.plans import Plan, choose_plan
from ntkgp.ensembles.training import Data, Draw, Trained, check_positive, offsets, typical
from ntkgp.networks.protocol import squared_norm

_COPIES = 4  # of a member's Gram matrix that one step holds
_ROUNDING = 4  # times n · eps · mean diagonal: the least damping that a Gram matrix resolves


class Own(NamedTuple):
    """What is a member's own and stays."""

    draw: Draw
    delta: Array | None

    def data(self, shared: Data) -> TrainingSet:
        """The member's view of the data that all share."""
        return TrainingSet(shared.x, shared.y, self.draw.epsilon, self.delta)


class LMState(NamedTuple):
    """One member on its way."""

    theta: Params
    objective: Array
    """½‖r‖² + ½σ²‖θ - anchor‖²_Λ, which is N times the loss."""
    damping: Array
    growth: Array
    """Factor by which the damping grows at the next failed step."""
    done: Array


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
        max_steps: steps at the most.
        tolerance: a member stops when the next step promises to lower its objective by less than
            this fraction of it.
        damping: the first μ, as a fraction of the mean diagonal of J Λ Jᵀ.
        plan: how members run, as in `Descent`.
        members_at_once: how many members are solved together; None for all.
    """

    max_steps: int = 100
    tolerance: float = 1e-5
    damping: float = 2e-2
    plan: str = "auto"
    members_at_once: int | None = None

    def __post_init__(self) -> None:
        check_positive(self, "max_steps", "tolerance", "damping", "members_at_once")

    def __call__(
        self,
        learner: Baselearner,
        data: Data,
        draws: Draw,
        validation: Data | None,
        progress: bool,
    ) -> Trained:
        if validation is not None:
            raise ValueError(
                "GaussNewton minimises the training objective and has no use for a validation set: "
                "leave it out, or train with Descent."
            )
        if learner.weight_decay:
            raise ValueError("GaussNewton has no weight_decay; train with Descent, or set it to 0.")
        if not isinstance(learner.noise, ConstantNoise):
            raise ValueError(
                "GaussNewton solves least squares, and a network that learns its noise has another "
                "loss: train with Descent."
            )
        k = len(draws.batch_key)
        plan = choose_plan(learner.net, k, self.plan, self.members_at_once)
        note(f"members: {plan}", progress)
        residuals = data.y.size
        require(
            _COPIES * plan.at_once * residuals**2 * data.y.dtype.itemsize,
            f"GaussNewton on {len(data.x):,} rows of {data.y.shape[1]} targets, {plan.at_once} members "
            "at once,",
            "Train with Descent, or with a smaller members_at_once.",
        )
        with progress_bar(self.max_steps * ceil(k / plan.at_once), "Gauss-Newton", progress) as bar:
            solved = [self._solve(plan, learner, data, group, bar) for group in plan.groups(draws)]
        state, traces = zip(*solved, strict=True)
        whole = plan.join(list(state), k)
        losses = np.concatenate([_lengthened(trace, traces) for trace in traces])[:k] / len(data.x)
        return Trained(whole.theta, draws.member, losses, np.zeros((k, 0)), np.asarray(whole.done))

    def _solve(
        self, plan: Plan, learner: Baselearner, data: Data, draws: Draw, bar: Any
    ) -> tuple[LMState, NDArray[Any]]:
        """A group of members to the end, and its objectives on the way, (members, steps)."""
        own = Own(draws, offsets(learner, draws.member, data.x))
        state = _start(self, plan, learner, data, own)
        trace = [np.asarray(state.objective)]
        while len(trace) <= self.max_steps and not bool(state.done.all()):
            state = _step(self, plan, learner, data, own, state)
            trace.append(np.asarray(state.objective))
            bar.update()
            bar.set_postfix(objective=typical(trace[-1]))
        bar.update(self.max_steps + 1 - len(trace))
        return state, np.stack(trace, axis=1)


def _lengthened(trace: NDArray[Any], others: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """As many steps as the longest has: a member that is done stays where it is."""
    missing = max(other.shape[1] for other in others) - trace.shape[1]
    return np.pad(trace, ((0, 0), (0, missing)), mode="edge")


def _objective(learner: Baselearner, data: Data, own: Own, theta: Params) -> Array:
    n = len(data.x)
    return n * learner.loss(theta, own.draw.member, own.data(data), n)


def _tangent_gram(learner: Baselearner, x: Array, draw: Draw, theta: Params) -> Array:
    """J Λ Jᵀ of the trained part of the model."""
    point = theta if learner.method.model == "network" else draw.member.theta_tilde
    return learner.net.tangent_gram(point, x, learner.method.trains)


@partial(jax.jit, static_argnums=(0, 1))
def _start(
    solver: GaussNewton, plan: Plan, learner: Baselearner, data: Data, stacked: Own
) -> LMState:
    def member(own: Own, shared: Any) -> LMState:
        learner, data = shared
        theta = own.draw.theta
        gram = _tangent_gram(learner, data.x, own.draw, theta)
        damping = 0.0 if learner.method.linear else solver.damping * jnp.mean(jnp.diag(gram))
        return LMState(
            theta,
            _objective(learner, data, own, theta),
            jnp.asarray(damping, gram.dtype),
            growth=jnp.asarray(2.0, gram.dtype),
            done=jnp.asarray(False),
        )

    return plan.over_members(member, stacked, (learner, data))


@partial(jax.jit, static_argnums=(0, 1))
def _step(
    solver: GaussNewton,
    plan: Plan,
    learner: Baselearner,
    data: Data,
    stacked: Own,
    state: LMState,
) -> LMState:
    def member(own_and_state: Any, shared: Any) -> LMState:
        return _member_step(solver, *shared, *own_and_state)

    return plan.over_members(member, (stacked, state), (learner, data))


def _member_step(
    solver: GaussNewton, learner: Baselearner, data: Data, own: Own, state: LMState
) -> LMState:
    draw = own.draw

    def f(theta: Params) -> Array:
        return learner.model(learner.trainable(theta), draw.member, data.x)

    pull = learner.noise_std**2 if learner.method.anchor else 0.0  # σ² of the regulariser
    fx, pull_back = jax.vjp(f, state.theta)
    delta = 0.0 if own.delta is None else own.delta
    residual = (data.y + learner.noise_std * draw.epsilon - delta - fx).ravel()
    gram = _tangent_gram(learner, data.x, draw, state.theta)
    least = _ROUNDING * len(gram) * jnp.finfo(gram.dtype).eps * jnp.mean(jnp.diag(gram))
    total = jnp.maximum(pull + state.damping, least)  # s = σ² + μ
    shrink = pull / total

    v = learner.displacement(state.theta, draw.member)
    _, jv = jax.jvp(f, (state.theta,), (v,))
    factor = jax.scipy.linalg.cho_factor(
        gram + total * jnp.eye(len(gram), dtype=gram.dtype), lower=True
    )
    dual = jax.scipy.linalg.cho_solve(factor, residual + shrink * jv.ravel())
    (gradient,) = pull_back(dual.reshape(fx.shape))
    step = jax.tree.map(
        lambda g, var, v: var * g - shrink * v, gradient, learner.net.prior_var(), v
    )
    theta = jax.tree.map(jnp.add, state.theta, step)

    # The quadratic model's decrease, ½‖J d‖² + (½σ² + μ)‖d‖²_Λ: a sum, so nothing cancels.
    jd = gram @ dual - shrink * jv.ravel()
    promised = 0.5 * jd @ jd + (total - pull / 2) * squared_norm(learner.net, step)
    return _accept_or_damp(
        solver, learner, state, theta, _objective(learner, data, own, theta), promised, least
    )


def _accept_or_damp(
    solver: GaussNewton,
    learner: Baselearner,
    state: LMState,
    theta: Params,
    objective: Array,
    promised: Array,
    least: Array,
) -> LMState:
    """Take the step if it lowers the objective; choose the next damping by how well it was foretold.

    A step that is not finite, from a factorisation that failed, counts as one that does not.
    The damping rule is Nielsen's (1999): smooth in the ratio of the gained to the promised.
    """
    gain = (state.objective - objective) / jnp.maximum(promised, jnp.finfo(promised.dtype).tiny)
    better = objective < state.objective
    take = (better | (learner.method.linear & jnp.isfinite(objective))) & ~state.done
    shrunk = state.damping * jnp.maximum(1 / 3, 1 - (2 * gain - 1) ** 3)
    small = promised <= solver.tolerance * state.objective
    return LMState(
        theta=jax.tree.map(lambda new, old: jnp.where(take, new, old), theta, state.theta),
        objective=jnp.where(take, objective, state.objective),
        damping=jnp.where(take, shrunk, jnp.maximum(state.damping, least) * state.growth),
        growth=jnp.where(take, 2.0, 2 * state.growth),
        done=state.done | small | ~jnp.isfinite(state.objective),
    )
