"""The scales of a prior as one vector of logarithms, with what is believed of them beforehand."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import GetAttrKey
from numpy.typing import NDArray

from ntkgp.networks.layered import LayeredNetwork


@dataclass(frozen=True)
class LogNormal:
    """What is believed of a positive hyper-parameter: its logarithm is normal, within bounds."""

    spread: float
    """Standard deviation of the logarithm."""
    bounds: tuple[float, float]
    median: float | None = None
    """None for the number that the network has."""

    def __post_init__(self) -> None:
        low, high = self.bounds
        if not (self.spread > 0 and 0 < low <= high < float("inf")):
            raise ValueError(
                "a LogNormal needs a spread > 0 and bounds (low, high) with 0 < low ≤ high; "
                f"got {self!r}."
            )


PRIORS: dict[str, LogNormal] = {
    "input_scale": LogNormal(1.5, (1e-3, 10.0)),
    "first.w_std": LogNormal(1.5, (2e-2, 5.0)),
    "w_std": LogNormal(0.5, (0.3, 5.0)),
    "b_std": LogNormal(1.0, (0.02, 5.0)),
    "readout.w_std": LogNormal(2.0, (1e-2, 1e2)),
    "readout.b_std": LogNormal(2.0, (1e-3, 1e2)),
    "noise_std": LogNormal(1.5, (3e-3, 3.0), median=0.1),
}
"""The priors by the names of scales. Weak, but they keep what is learned within what networks of finite
width can be trained with: a w_std of 16, say, may suit the exact law and no network. The first layer's
w_std is a scale of all inputs, and small where functions are nearly linear. The readout's scales are
those of the output. Both are all but free."""
OTHERS = LogNormal(1.0, (1e-3, 1e3))
"""For scales of layers that are not ours."""


class Belief(NamedTuple):
    """The priors of all hyper-parameters, as vectors of logarithms."""

    median: NDArray[Any]
    spread: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]

    def penalty(self, logs: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        """-log of the priors' density, up to a constant, and its gradient."""
        z = (logs - self.median) / self.spread
        return float(0.5 * z @ z), z / self.spread


@dataclass(frozen=True)
class Hyperparameters:
    """The scales of a network and its noise, as a vector of logarithms: the noise is the last."""

    net: LayeredNetwork
    noise_std: float
    priors: Mapping[str, LogNormal | None]
    """By name; None leaves that kind as the network has it."""

    @cached_property
    def _leaves(self) -> list[tuple[str, Any]]:
        """The scales of the network, each with the name of its kind."""
        leaves = jax.tree_util.tree_leaves_with_path(self.net)
        kinds = [_kind(path) for path, _ in leaves]
        if "w_std" in kinds:
            kinds[kinds.index("w_std")] = "first.w_std"
        return [(kind, leaf) for kind, (_, leaf) in zip(kinds, leaves, strict=True)]

    @cached_property
    def names(self) -> list[str]:
        """One for each number, such as body.layers[0].w_std."""
        leaves = jax.tree_util.tree_leaves_with_path(self.net)
        paths = [jax.tree_util.keystr(path).lstrip(".") for path, _ in leaves]
        return [
            path if not np.ndim(leaf) else f"{path}[{i}]"
            for path, (_, leaf) in zip(paths, self._leaves, strict=True)
            for i in range(np.size(leaf))
        ] + ["noise_std"]

    @cached_property
    def kinds(self) -> list[str]:
        """For each number the name under which its prior is found."""
        scales = [kind for kind, leaf in self._leaves for _ in range(np.size(leaf))]
        return [*scales, "noise_std"]

    @cached_property
    def start(self) -> NDArray[Any]:
        """Where the network is now."""
        scales = [np.ravel(np.asarray(leaf, np.float64)) for _, leaf in self._leaves]
        return np.log(np.concatenate([*scales, [self.noise_std]]))

    def logs_of(self, scales: Mapping[str, float]) -> NDArray[Any]:
        """The vector of scales given by their names."""
        if set(scales) != set(self.names):
            raise ValueError(
                f"the scales are those of another network: this one has {', '.join(self.names)}; got "
                f"{', '.join(scales)}."
            )
        return np.log([scales[name] for name in self.names])

    @cached_property
    def belief(self) -> Belief:
        rows = []
        for kind, start in zip(self.kinds, self.start, strict=True):
            prior = self.priors.get(kind, OTHERS)
            if prior is None:
                rows.append((start, 1.0, start, start))
                continue
            median = start if prior.median is None else np.log(prior.median)
            rows.append((median, prior.spread, *np.log(prior.bounds)))
        return Belief(*np.array(rows).T)

    def at(self, logs: NDArray[Any]) -> tuple[LayeredNetwork, float]:
        """The network with these scales, and σ."""
        sizes = [np.size(leaf) for _, leaf in self._leaves]
        parts = np.split(np.exp(logs[:-1]), np.cumsum(sizes)[:-1])
        scales = [
            part if np.ndim(leaf) else float(part[0])
            for part, (_, leaf) in zip(parts, self._leaves, strict=True)
        ]
        net = jax.tree.unflatten(jax.tree.structure(self.net), scales)
        return net, float(np.exp(logs[-1]))

    def gradient(self, logs: NDArray[Any], of_net: LayeredNetwork, of_noise: float) -> NDArray[Any]:
        """The gradient in the logarithms from that in the scales and in σ."""
        leaves = [np.ravel(np.asarray(leaf)) for leaf in jax.tree.leaves(of_net)]
        return np.concatenate([*leaves, [of_noise]]) * np.exp(logs)


def _kind(path: tuple[Any, ...]) -> str:
    names = [key.name for key in path if isinstance(key, GetAttrKey)]
    return f"readout.{names[-1]}" if names[0] == "last" else str(names[-1])
