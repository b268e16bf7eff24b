"""An epoch of training to be timed. It knows the trainer's insides, which nothing else here does."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ntkgp.ensembles.member import Baselearner
from ntkgp.ensembles.methods import METHODS
from ntkgp.ensembles.noise import ConstantNoise, LearnedNoise
from ntkgp.ensembles.plans import choose_plan
from ntkgp.ensembles.trainers import Descent, descent
from ntkgp.ensembles.training import Data, draw_members, offsets
from ntkgp.networks.layered import LayeredNetwork


def epoch_of(
    net: LayeredNetwork,
    method: str,
    n: int,
    *,
    members: int,
    batch_size: int,
    plan: str = "auto",
    noise: ConstantNoise | LearnedNoise = ConstantNoise(),
    cached: bool = True,
) -> Callable[[], None]:
    """What trains all members for one more epoch when called, as `Descent` does, on n random rows.

    δ is computed beforehand, or in every step where it is not `cached`.
    """
    import optax

    learner = Baselearner(net, METHODS[method], 0.1, noise=noise)
    trainer = Descent(optax.adam(1e-4), epochs=1, batch_size=batch_size)
    rng = np.random.default_rng(0)
    shapes = (net.input_shape, (learner.target_dim,))
    data = Data(*(jnp.asarray(rng.normal(size=(n, *s)), jnp.float32) for s in shapes))
    chosen = choose_plan(net, members, plan)
    groups = chosen.groups(draw_members(learner, 0, range(members), data))
    deltas = [offsets(learner, group.member, data.x) if cached else None for group in groups]
    states = [descent.start(trainer, learner, group, early_stop=False) for group in groups]

    def epoch() -> None:
        for i, (group, delta) in enumerate(zip(groups, deltas, strict=True)):
            states[i], _ = descent.run_epochs(
                trainer, chosen, learner, states[i], data, group, delta, epoch=0, n_epochs=1
            )
        jax.block_until_ready(states)

    return epoch
