"""Table 2 measured: the time of a step, and the parameter sets, of each method."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkgp.ensemble import Ensemble, fit
from ntkgp.experiments import results
from ntkgp.experiments.images import FIVE_METHODS
from ntkgp.experiments.results import Mark, Record
from ntkgp.layers import Relu
from ntkgp.member import Baselearner
from ntkgp.methods import METHODS, get_method
from ntkgp.networks import LayeredNetwork, mlp, myrtle
from ntkgp.noise import ConstantNoise, LearnedNoise
from ntkgp.training import Descent, descent
from ntkgp.training.common import Data, draw_members, offsets
from ntkgp.training.plans import choose_plan

NETWORKS: dict[str, Callable[[], LayeredNetwork]] = {
    "mlp": lambda: mlp(784, 10, width=200, depth=2, activation=Relu()),
    "myrtle": lambda: myrtle((32, 32, 3), depth=10, channels=16),
}
"""The network of the MNIST experiment, and a narrow one of the CIFAR-10 experiment."""


@dataclass(frozen=True)
class CostsConfig:
    """Everything that determines a run."""

    networks: tuple[str, ...] = ("mlp",)
    methods: tuple[str, ...] = FIVE_METHODS
    members: int = 10
    batch_size: int = 100
    steps: int = 50
    """In one measurement, which is an epoch on random data."""
    turns: int = 5
    """Measurements of each method, taken in turn so that a busy machine disturbs all alike."""

    def __post_init__(self) -> None:
        for method in self.methods:
            get_method(method)
        if unknown := set(self.networks) - set(NETWORKS):
            raise ValueError(f"networks must be of {', '.join(NETWORKS)}; got {sorted(unknown)}.")


PRESETS = {
    "laptop": CostsConfig(),
    "paper": CostsConfig(networks=("mlp", "myrtle"), turns=10),
}


class Epochs:
    """Training as `Descent` does it, one epoch for each call, on random data; for timing."""

    def __init__(
        self,
        net: LayeredNetwork,
        method: str,
        n: int,
        *,
        members: int,
        batch_size: int,
        plan: str = "auto",
        heteroscedastic: bool = False,
        cached: bool = True,
    ) -> None:
        import optax

        noise = LearnedNoise() if heteroscedastic else ConstantNoise()
        self.learner = Baselearner(net, METHODS[method], 0.1, noise=noise)
        self.trainer = Descent(optax.adam(1e-4), epochs=1, batch_size=batch_size)
        rng = np.random.default_rng(0)
        shapes = (net.input_shape, (self.learner.target_dim,))
        self.data = Data(*(jnp.asarray(rng.normal(size=(n, *s)), jnp.float32) for s in shapes))
        self.plan = choose_plan(net, members, plan)
        self.groups = self.plan.groups(draw_members(self.learner, 0, range(members), self.data))
        self.deltas = [
            offsets(self.learner, group.member, self.data.x) if cached else None
            for group in self.groups
        ]
        self.states = [
            descent.start(self.trainer, self.learner, group, early_stop=False)
            for group in self.groups
        ]

    def __call__(self) -> None:
        for i, (group, delta) in enumerate(zip(self.groups, self.deltas, strict=True)):
            self.states[i], _ = descent.run_epochs(
                self.trainer,
                self.plan,
                self.learner,
                self.states[i],
                self.data,
                group,
                delta,
                epoch=0,
                n_epochs=1,
            )
        jax.block_until_ready(self.states)


def run(
    config: CostsConfig, out: Path, *, progress: bool = True, say: Callable[[str], None] = print
) -> Path:
    """Compute what is not yet in the results file, and return its path."""
    path = out / "costs.json"
    state = results.resume(path, "costs", config, {}, may_grow=("networks",))
    marks = [{"network": network} for network in config.networks]
    results.fill_in(path, state, marks, lambda mark: record(config, mark), say)
    return path


def record(config: CostsConfig, mark: Mark) -> Record:
    """All methods of one network, with δ kept from before training and with δ in every step."""
    net = NETWORKS[mark["network"]]()
    n = config.steps * config.batch_size
    turns = {
        (method, cached): Epochs(
            net,
            method,
            n,
            members=config.members,
            batch_size=config.batch_size,
            cached=cached,
        )
        for method in config.methods
        for cached in (True, False)
    }
    seconds = measure(turns, config.turns)
    return {
        "methods": {
            method: {
                "seconds_per_step": [s / config.steps for s in seconds[method, True]],
                "seconds_per_step_fresh": [s / config.steps for s in seconds[method, False]],
                **parameter_sets(net, method),
            }
            for method in config.methods
        },
    }


def measure(turns: Mapping[Any, Callable[[], None]], n_turns: int) -> dict[Any, list[float]]:
    """Seconds of each, turn by turn."""
    for turn in turns.values():
        turn()  # compiles
    seconds: dict[Any, list[float]] = {name: [] for name in turns}
    for _ in range(n_turns):
        for name, turn in turns.items():
            started = time.perf_counter()
            turn()
            seconds[name].append(time.perf_counter() - started)
    return seconds


def parameter_sets(net: LayeredNetwork, method: str) -> Record:
    """How many times the network's parameters a method needs while training, and after.

    Beside the optimiser's own state and working copies, which are the same for all methods.
    """
    import optax

    x, y = np.zeros((2, *net.input_shape)), np.zeros((2, net.output_dim))
    data = Data(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))
    draw = draw_members(Baselearner(net, METHODS[method], 0.1), 0, [0], data)
    trainer = Descent(optax.sgd(0.0), epochs=1)
    ensemble: Ensemble = fit(net, x, y, method=method, members=1, trainer=trainer)
    one = _numbers(draw.theta)
    return {
        "parameter_sets_training": _numbers((draw.theta, draw.member)) / one,
        "parameter_sets_after": _numbers((ensemble.theta, ensemble.member)) / one,
        "parameters": one,
    }


def _numbers(tree: Any) -> int:
    return sum(int(leaf.size) for leaf in jax.tree.leaves(tree))
