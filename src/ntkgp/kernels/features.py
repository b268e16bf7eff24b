"""A network linearised at θ̂: the features Φ = J(x, θ̂) Λ^½ of its inputs, in blocks of bounded memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from ntkgp.core.arrays import precision
from ntkgp.core.storage import WrongNetwork, is_storable, storable
from ntkgp.core.typing import Metric, Params, Part
from ntkgp.kernels.matrices import check_metric
from ntkgp.networks.given import for_file
from ntkgp.networks.protocol import Network

BLOCK_BYTES = 2**30
"""For blocks of features: larger ones are computed less often for a kernel matrix."""
_COPIES = 4  # of a block: its gradients by leaf, the same side by side, and two blocks at once
_MOST_ROWS = 1024  # at once, because the network's own layers take memory too


@storable
@dataclass(frozen=True, eq=False)
class Features:
    """f(x, θ) ≈ f(x, θ̂) + Φ(x)(w - ŵ), where θ = Λ^½ w for the parameters that move.

    Everything is in float64, θ̂ too. Rows are inputs first, outputs within.

    >>> net, x = ntkgp.mlp(1, width=8), np.linspace(-1, 1, 3)[:, None]
    >>> features = Features(net, net.init(jax.random.key(0)), "all", "prior")
    >>> features.rows(x).shape == (3, features.count)
    True
    """

    net: Network
    theta: Params
    """θ̂, in the pytree of `net.init`."""
    part: Part
    """Which parameters move; the others stay at θ̂."""
    metric: Metric
    """"prior" for the network's Λ, "gradient" for Λ = I."""

    def __to_store__(self) -> dict[str, Any]:
        """The parameters by their leaves, because their pytree is the network's own."""
        stored = {"net": for_file(self.net), "leaves": jax.tree.leaves(self.theta)}
        probe = None if is_storable(self.net) else self._probe()
        return stored | {"part": self.part, "metric": self.metric, "probe": probe}

    @classmethod
    def __from_store__(cls, stored: dict[str, Any], network: Any) -> "Features":
        net, leaves, probe = stored["net"], stored["leaves"], stored["probe"]
        expected, treedef = jax.tree.flatten(jax.eval_shape(net.init, jax.random.key(0)))
        if [leaf.shape for leaf in leaves] != [leaf.shape for leaf in expected]:
            raise WrongNetwork(
                "the network does not have the saved parameters' shapes: give the one that was "
                "linearised."
            )
        features = cls(net, jax.tree.unflatten(treedef, leaves), stored["part"], stored["metric"])
        if probe is not None:
            tolerance = 1e-2 * np.max(np.abs(probe))  # another computer rounds differently
            if not np.allclose(features._probe(), probe, rtol=0, atol=tolerance):
                raise WrongNetwork(
                    "the network has the saved parameters' shapes but predicts otherwise with "
                    "them: give the one that was linearised."
                )
        return features

    def _probe(self) -> NDArray[Any]:
        """Outputs at a few inputs, to recognise a network that is given again."""
        return self.values(np.random.default_rng(0).standard_normal((3, *self.net.input_shape)))

    def __post_init__(self) -> None:
        check_metric(self.metric)
        if self.part not in ("all", "body", "readout"):
            raise ValueError(f'part must be "all", "body" or "readout"; got {self.part!r}.')
        if not any(self._moving):
            raise ValueError(
                f"the network has no parameters in part={self.part!r} with a prior variance above 0. "
                'Take part="all", or name the last layer where the network is adapted, by readout=.'
            )

    @property
    def outputs(self) -> int:
        return self.net.output_dim

    @property
    def count(self) -> int:
        """p: how many parameters move."""
        leaves = zip(jax.tree.leaves(self.theta), self._moving, strict=True)
        return sum(prod(np.shape(leaf)) for leaf, moves in leaves if moves)

    @property
    def _variances(self) -> list[float]:
        variances = jax.tree.leaves(self.net.prior_var())
        return variances if self.metric == "prior" else [float(var > 0) for var in variances]

    @property
    def _moving(self) -> tuple[bool, ...]:
        """Whether each leaf moves."""
        last = jax.tree.leaves(self.net.readout())
        return tuple(
            var > 0 and (self.part == "all" or is_last == (self.part == "readout"))
            for var, is_last in zip(self._variances, last, strict=True)
        )

    def weights(self) -> NDArray[Any]:
        """ŵ = Λ^{-½} θ̂ of the parameters that move, (p,)."""
        leaves = zip(jax.tree.leaves(self.theta), self._variances, self._moving, strict=True)
        return np.concatenate(
            [
                np.ravel(np.asarray(leaf, np.float64)) / var**0.5
                for leaf, var, moves in leaves
                if moves
            ]
        )

    def values(self, x: NDArray[Any]) -> NDArray[Any]:
        """f(x, θ̂), (n, c)."""
        with precision(np.float64):
            parts = [_values(self.net, self._double(), x[rows]) for rows in self._batches(len(x))]
            return np.concatenate([np.asarray(part) for part in parts])

    def rows(self, x: NDArray[Any]) -> NDArray[Any]:
        """Φ(x), (n·c, p), all at once."""
        roots = [var**0.5 for var in self._variances]
        with precision(np.float64):
            phi = np.asarray(_rows(self.net, self._moving, self._double(), roots, x))
        return phi.reshape(len(x) * self.outputs, -1)

    def blocks(self, x: NDArray[Any]) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Rows of x, and their Φ, block after block."""
        for rows in self._batches(len(x)):
            yield rows, self.rows(x[rows])

    def gram(self, x1: NDArray[Any], x2: NDArray[Any] | None = None) -> NDArray[Any]:
        """Φ(x1) Φ(x2)ᵀ = J Λ Jᵀ, (n1·c, n2·c): the empirical NTK of these parameters at θ̂."""
        columns = x1 if x2 is None else x2
        out = np.empty((len(x1) * self.outputs, len(columns) * self.outputs))
        for rows1, phi1 in self.blocks(x1):
            first = rows1.start if x2 is None else 0  # symmetric: only from the diagonal on
            for rows2, phi2 in self.blocks(columns[first:]):
                above = self._entries(rows1), self._entries(rows2, first)
                out[above] = phi1 @ phi2.T
                if x2 is None:
                    out[above[::-1]] = out[above].T
        return out

    def own(self, x: NDArray[Any]) -> NDArray[Any]:
        """Φ Φᵀ of each input with itself, (n, c, c)."""
        parts = [phi.reshape(-1, self.outputs, phi.shape[1]) for _, phi in self.blocks(x)]
        return np.concatenate([part @ part.transpose(0, 2, 1) for part in parts])

    def block_bytes(self, n: int) -> int:
        """What the blocks of n inputs take at once."""
        at_once = self._batches(n)[0].stop
        return _COPIES * 8 * self.outputs * self.count * at_once

    def _double(self) -> list[Array]:
        return [jnp.asarray(leaf, jnp.float64) for leaf in jax.tree.leaves(self.theta)]

    def _batches(self, n: int) -> list[slice]:
        at_once = BLOCK_BYTES // (_COPIES * 8 * self.outputs * self.count)
        at_once = min(max(1, at_once), _MOST_ROWS)
        return [slice(start, min(start + at_once, n)) for start in range(0, n, at_once)]

    def _entries(self, rows: slice, first: int = 0) -> slice:
        c = self.outputs
        return slice((first + rows.start) * c, (first + rows.stop) * c)


def _theta(net: Network, leaves: list[Array]) -> Params:
    return jax.tree.unflatten(jax.tree.structure(net.readout()), leaves)


@partial(jax.jit, static_argnums=0)
def _values(net: Network, leaves: list[Array], x: Array) -> Array:
    return net.apply(_theta(net, leaves), jnp.asarray(x, jnp.float64))


@partial(jax.jit, static_argnums=(0, 1))
def _rows(
    net: Network, moving: tuple[bool, ...], leaves: list[Array], roots: list[Any], x: Array
) -> Array:
    """Of the leaves that move, side by side: √λ ∇f of each input and output, (n, c, p)."""
    chosen = [i for i, moves in enumerate(moving) if moves]

    def output(own: list[Array], point: Array) -> Array:
        values = dict(enumerate(leaves)) | dict(zip(chosen, own, strict=True))
        return net.apply(_theta(net, list(values.values())), point[None])[0]

    gradients = jax.vmap(jax.jacrev(output), in_axes=(None, 0))(
        [leaves[i] for i in chosen], jnp.asarray(x, jnp.float64)
    )
    scaled = [
        roots[i] * gradient.reshape(*gradient.shape[:2], -1)
        for i, gradient in zip(chosen, gradients, strict=True)
    ]
    return jnp.concatenate(scaled, axis=2)
