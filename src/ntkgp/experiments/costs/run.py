"""Table 2 measured: time, operations, memory and parameter sets of each method."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkgp.core.typing import Params
from ntkgp.ensembles.fit import fit
from ntkgp.ensembles.member import Baselearner, Member, TrainingSet
from ntkgp.ensembles.methods import COMPARED, METHODS
from ntkgp.ensembles.problem import draw_members
from ntkgp.ensembles.trainers import Descent
from ntkgp.experiments.checks import check, check_known
from ntkgp.experiments.costs.epochs import epoch_of
from ntkgp.experiments.costs.report import report
from ntkgp.experiments.experiment import Experiment, Given
from ntkgp.experiments.results import Mark, Record
from ntkgp.networks.layered import LayeredNetwork
from ntkgp.networks.layers import Relu
from ntkgp.networks.ready_made import mlp, myrtle

DEPTHS = {"mlp": (2, 8), "myrtle": (10, 5)}
"""Depths of the MNIST and CIFAR-10 networks, and another depth to compare memory with."""


@dataclass(frozen=True)
class CostsConfig:
    """Everything that determines a run."""

    networks: tuple[str, ...] = ("mlp",)
    methods: tuple[str, ...] = COMPARED
    width: int = 200
    """Width of the dense network."""
    channels: int = 16
    """Channels of the convolutional network."""
    members: int = 10
    batch_size: int = 100
    steps: int = 50
    """Steps in one measurement, which is an epoch on random data."""
    turns: int = 5
    """Measurements of each method, in turn, so that a busy machine disturbs all alike."""

    def __post_init__(self) -> None:
        check(self)
        check_known("networks", self.networks, DEPTHS)

    def network(self, name: str, depth: int) -> LayeredNetwork:
        if name == "mlp":
            return mlp(784, 10, width=self.width, depth=depth, activation=Relu())
        return myrtle((32, 32, 3), depth=depth, channels=self.channels)


def record(config: CostsConfig, mark: Mark, given: Given) -> Record:
    """All methods of one network, with δ kept from before training and with δ in every step."""
    depth, other_depth = DEPTHS[mark["network"]]
    net, other = (config.network(mark["network"], d) for d in (depth, other_depth))
    n = config.steps * config.batch_size
    epoch = partial(epoch_of, net, n=n, members=config.members, batch_size=config.batch_size)
    turns = {
        (method, cached): epoch(method, cached=cached)
        for method in config.methods
        for cached in (True, False)
    }
    seconds = measure(turns, config.turns)
    return {
        "depth": depth,
        "other_depth": other_depth,
        "methods": {
            method: {
                "seconds_per_step": [s / config.steps for s in seconds[method, True]],
                "seconds_per_step_fresh": [s / config.steps for s in seconds[method, False]],
                "forward_operations": forward_operations(net, method, config.batch_size),
                "working_bytes": working_bytes(net, method, config.batch_size),
                "working_bytes_other_depth": working_bytes(other, method, config.batch_size),
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


def one_member(
    net: LayeredNetwork, method: str, batch_size: int
) -> tuple[Baselearner, Params, Member, TrainingSet]:
    """A member with a batch of its training set, δ included."""
    learner = Baselearner(net, METHODS[method], 0.1)
    shapes = (net.input_shape, (net.output_dim,))
    x, y = (jnp.zeros((batch_size, *shape), jnp.float32) for shape in shapes)
    draw = jax.tree.map(lambda leaf: leaf[0], draw_members(learner, 0, [0], y))
    delta = None if learner.method.offset is None else y
    return (
        learner,
        draw.theta,
        draw.member,
        TrainingSet(x, y, draw.epsilon, delta, jnp.ones(batch_size)),
    )


def forward_operations(net: LayeredNetwork, method: str, batch_size: int) -> float:
    """Floating-point operations of f̃ on a batch, δ computed with it, by XLA's count."""
    learner, theta, member, batch = one_member(net, method, batch_size)
    program = jax.jit(learner.predict).lower(theta, member, batch.x).compile()
    return float(program.cost_analysis()["flops"])  # type: ignore[index]


def working_bytes(net: LayeredNetwork, method: str, batch_size: int) -> dict[str, int]:
    """Memory for a member's gradient besides parameters and data: mostly activations."""
    learner, theta, member, kept = one_member(net, method, batch_size)

    def gradient(theta: Params, member: Member, batch: TrainingSet) -> Params:
        return jax.grad(learner.loss)(theta, member, batch, len(batch.x))

    def gradient_and_delta(theta: Params, member: Member, batch: TrainingSet) -> Params:
        return gradient(theta, member, batch._replace(delta=learner.offset(member, batch.x)))

    def temporary(f: Callable[..., Params]) -> int:
        program = jax.jit(f).lower(theta, member, kept).compile()
        return int(program.memory_analysis().temp_size_in_bytes)  # type: ignore[union-attr]

    least = temporary(gradient)
    return {"kept": least, "fresh": least if kept.delta is None else temporary(gradient_and_delta)}


def parameter_sets(net: LayeredNetwork, method: str) -> Record:
    """How many times the network's parameters a method needs while training, and after.

    Without the optimiser's state and working copies, which are the same for all methods.
    """
    import optax

    x, y = np.zeros((2, *net.input_shape)), np.zeros((2, net.output_dim))
    draw = draw_members(Baselearner(net, METHODS[method], 0.1), 0, [0], jnp.zeros(y.shape))
    trainer = Descent(optax.sgd(0.0), epochs=1)
    ensemble = fit(net, x, y, method=method, members=1, trainer=trainer)
    one = _numbers(draw.theta)
    return {
        "parameter_sets_training": _numbers((draw.theta, draw.member)) / one,
        "parameter_sets_after": _numbers((ensemble.theta, ensemble.member)) / one,
        "parameters": one,
    }


def _numbers(tree: Any) -> int:
    return sum(int(leaf.size) for leaf in jax.tree.leaves(tree))


COSTS = Experiment(
    "costs",
    "Table 2: what each method costs",
    {
        "laptop": CostsConfig(),
        "paper": CostsConfig(networks=("mlp", "myrtle"), channels=100, turns=10),
    },
    marks=lambda config, data: [{"network": network} for network in config.networks],
    record=record,
    report=report,
    may_grow=("networks",),
)
