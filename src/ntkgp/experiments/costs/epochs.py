"""An epoch of training to be timed. No other experiment knows training from the inside."""

from collections.abc import Callable

import jax
import numpy as np

from ntkgp.ensembles.losses import offsets
from ntkgp.ensembles.member import Baselearner
from ntkgp.ensembles.methods import METHODS
from ntkgp.ensembles.noise import ConstantNoise, Noise
from ntkgp.ensembles.plans import choose_plan
from ntkgp.ensembles.problem import Data, Problem, draw_members
from ntkgp.ensembles.trainers import Descent
from ntkgp.ensembles.training import advance, start
from ntkgp.networks.layered import LayeredNetwork


def epoch_of(
    net: LayeredNetwork,
    method: str,
    n: int,
    *,
    members: int,
    batch_size: int,
    plan: str = "auto",
    noise: Noise = ConstantNoise(),
    cached: bool = True,
) -> Callable[[], None]:
    """A function that trains all members for one more epoch, as `fit` does, on n random rows.

    δ is computed beforehand, or in every step if it is not `cached`.
    """
    import optax

    learner = Baselearner(net, METHODS[method], 0.1, noise=noise)
    rng = np.random.default_rng(0)
    shapes = (net.input_shape, (learner.target_dim,))
    problem = Problem(learner, Data.of(*(rng.normal(size=(n, *shape)) for shape in shapes)))
    shared = (Descent(optax.adam(1e-4), epochs=1, batch_size=batch_size), problem)
    chosen = choose_plan(net, members, plan)
    groups = chosen.groups(draw_members(learner, 0, range(members), problem.data.y))
    if cached and learner.method.offset is not None:
        groups = [
            group._replace(delta=offsets(learner, group.member, problem.data.x, chosen))
            for group in groups
        ]
    states = [start(chosen, shared, group) for group in groups]

    def epoch() -> None:
        for i, group in enumerate(groups):
            states[i], _ = advance(chosen, shared, group, states[i], range(1))
        jax.block_until_ready(states)

    return epoch
