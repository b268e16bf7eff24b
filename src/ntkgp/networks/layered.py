"""Networks built of layers, both finite and infinite."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from operator import add
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from ntkgp.core.storage import storable
from ntkgp.core.typing import Kernels, Metric, Params, Part, Shape
from ntkgp.networks.given import check_given
from ntkgp.networks.layers import Dense, Layer, Serial
from ntkgp.networks.protocol import Network

_FEW_CHANNELS = 4
"""Up to so many, outer products of pixels are quicker summed than as a product of matrices."""


class ReadoutParams(NamedTuple):
    """θ = (θ^{≤L}, θ^{L+1})."""

    body: Params
    readout: Params


@storable
@dataclass(frozen=True, init=False, repr=False)
class LayeredNetwork:
    """Layers before a linear readout; both finite and infinite.

    Args:
        input_shape: shape of one input, (features,) or (height, width, channels).
        body: the layers whose parameters are θ^{≤L}: those of `ntkgp.layers`, or your own
            subclasses of `ntkgp.layers.Layer`.
        readout: the last layer, whose parameters are θ^{L+1}.
        input_scale: a factor for each column, or channel, that inputs are multiplied with first:
            the smaller, the less a column matters. None for 1.

    To JAX a network is a pytree. Its leaves are the scales of its prior: w_std and b_std of each
    layer, and `input_scale`. So `jax.grad` of whatever is computed from a network has the form of
    the network itself, and another scale compiles nothing anew.

    >>> from ntkgp.networks.layers import Erf
    >>> net = LayeredNetwork((2,), body=[Dense(64), Erf()], readout=Dense(1))
    >>> theta = net.init(jax.random.key(0))
    >>> net.apply(theta, jnp.ones((5, 2))).shape
    (5, 1)
    >>> net.kernel(jnp.ones((5, 2)), jnp.ones((4, 2))).ntk.shape
    (5, 4)
    """

    input_shape: Shape
    body: Serial
    last: Dense
    input_scale: tuple[float, ...] | None

    def __init__(
        self,
        input_shape: Sequence[int],
        body: Sequence[Layer],
        readout: Dense,
        input_scale: Iterable[float] | None = None,
    ) -> None:
        object.__setattr__(self, "input_shape", tuple(int(size) for size in input_shape))
        object.__setattr__(self, "body", Serial(tuple(body)))
        object.__setattr__(self, "last", readout)
        object.__setattr__(self, "input_scale", _checked_scale(input_scale, self.input_shape))
        if not isinstance(readout, Dense):
            raise TypeError(
                f"readout must be a Dense layer, the last of the network; got {readout!r}."
            )
        if len(self.input_shape) not in (1, 3) or min(self.input_shape) < 1:
            raise ValueError(
                "input_shape must be (features,) or (height, width, channels), each at least 1; "
                f"got {self.input_shape}."
            )
        for layer in self.body.layers:
            _check_layer(layer)
        self.body.gaussian(incoming=False)  # raises where a kernel rule would not hold
        readout.out_shape(self._features)

    def __repr__(self) -> str:
        body = ", ".join(map(repr, self.body.layers))
        scale = "" if self.input_scale is None else f", input_scale={self.input_scale}"
        return f"LayeredNetwork({self.input_shape}, body=[{body}], readout={self.last!r}{scale})"

    def scaled_by(self, input_scale: Iterable[float] | None) -> "LayeredNetwork":
        """The same network with other factors for its inputs.

        >>> LayeredNetwork((2,), [], Dense(1)).scaled_by((1.0, 0.1)).input_scale
        (1.0, 0.1)
        """
        return LayeredNetwork(self.input_shape, self.body.layers, self.last, input_scale)

    @property
    def structure(self) -> Any:
        """All that the network is but for its scales, which may be learned; hashable."""
        return jax.tree.structure(self.scaled_by(None))

    def with_output_scale(self, factor: float) -> "LayeredNetwork":
        """The network whose outputs have this times the prior standard deviation.

        >>> LayeredNetwork((2,), [], Dense(1, w_std=2.0)).with_output_scale(0.5).last.w_std
        1.0
        """
        last = replace(self.last, w_std=factor * self.last.w_std, b_std=factor * self.last.b_std)
        return LayeredNetwork(self.input_shape, self.body.layers, last, self.input_scale)

    def __to_store__(self) -> dict[str, Any]:
        return {
            "input_shape": self.input_shape,
            "body": self.body.layers,
            "readout": self.last,
            "input_scale": self.input_scale,
        }

    @classmethod
    def __from_store__(cls, stored: dict[str, Any], network: Any) -> "LayeredNetwork":
        net = cls(**stored)
        check_given(net, network, lambda net: net.structure)
        return net

    @property
    def _features(self) -> Shape:
        """Shape of the readout's input."""
        return self.body.out_shape(self.input_shape)

    @property
    def output_dim(self) -> int:
        return self.last.width

    def init(self, key: Array) -> ReadoutParams:
        *body, readout = Serial((*self.body.layers, self.last)).init(key, self.input_shape)
        return ReadoutParams(tuple(body), readout)

    def apply(self, params: ReadoutParams, x: Array) -> Array:
        return self.last.apply(params.readout, self.body.apply(params.body, self._scaled(x)))

    def prior_var(self) -> ReadoutParams:
        return ReadoutParams(
            self.body.prior_var(self.input_shape), self.last.prior_var(self._features)
        )

    def readout(self) -> ReadoutParams:
        var = self.prior_var()
        return ReadoutParams(
            jax.tree.map(lambda _: False, var.body), jax.tree.map(lambda _: True, var.readout)
        )

    def tangent_gram(
        self, params: ReadoutParams, x: Array, part: Part = "all", metric: Metric = "prior"
    ) -> Array:
        """J Λ Jᵀ layer by layer from one forward and one backward pass, no Jacobian kept.

        For a dense layer with inputs A and output gradients G it is
        (w_std²/fan_in · A Aᵀ + b_std²) ∘ (G Gᵀ).
        """
        x = self._scaled(x)
        n, c = len(x), self.output_dim
        features = self.body.apply(params.body, x)
        cotangents = jnp.broadcast_to(jnp.eye(c, dtype=features.dtype), (n, c, c))
        last, cotangents = self.last.backward(params.readout, features, cotangents, metric)
        if part == "readout":
            return last.reshape(n * c, n * c)
        body, _ = self.body.backward(params.body, x, cotangents, metric)
        return (body if part == "body" else body + last).reshape(n * c, n * c)

    def kernel(
        self,
        x1: Float[Array, "n1 *input"],
        x2: Float[Array, "n2 *input"],
        metric: Metric = "prior",
    ) -> Kernels:
        """NNGP 𝒦 and NTK Θ of one output between two batches, at infinite width.

        Pure JAX, all at once; `ntkgp.kernels` evaluates it in blocks of bounded memory.
        """
        nngp = self.input_covariance(x1, x2)
        return self._propagate(
            Kernels(
                nngp,
                jnp.zeros_like(nngp),
                var1=self.input_variance(x1)[:, None],
                var2=self.input_variance(x2)[None],
            ),
            metric,
        )

    def kernel_diagonal(
        self, x: Float[Array, "n *input"], metric: Metric = "prior"
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """𝒦(x, x) and Θ(x, x) for each x alone, with no n x n array."""

        def one(point: Array) -> tuple[Array, Array]:
            cov = self.input_variance(point[None])[None]
            k = self._propagate(Kernels(cov, jnp.zeros_like(cov), cov, cov), metric)
            return k.nngp[0, 0], k.ntk[0, 0]

        return jax.vmap(one)(x)

    def _propagate(self, k: Kernels, metric: Metric) -> Kernels:
        k = self.body.kernel(k, self.input_shape, metric)
        return self.last.kernel(k, self._features, metric)

    def _scaled(self, x: Array) -> Array:
        if self.input_scale is None:
            return x
        return x * jnp.asarray(self.input_scale, x.dtype)

    @property
    def _all_pairs(self) -> bool:
        return self.body.all_pairs(False)

    def input_covariance(self, x1: Array, x2: Array) -> Array:
        """⟨x1, x2⟩ / channels of each pair of inputs, (n1, n2, *positions)."""
        return self._mean_product("a{p}c,b{q}c->ab{pq}", x1, x2)

    def input_variance(self, x: Array) -> Array:
        """⟨x, x⟩ / channels of each input with itself, (n, *positions)."""
        return self._mean_product("a{p}c,a{q}c->a{pq}", x, x)

    def _mean_product(self, subscripts: str, x1: Array, x2: Array) -> Array:
        p = "hw"[: len(self.input_shape) - 1]
        q, pq = ("uv", "hwuv") if self._all_pairs else (p, p)
        subscripts = subscripts.format(p=p, q=q, pq=pq)
        x1, x2 = self._scaled(x1), self._scaled(x2)
        channels = self.input_shape[-1]
        if self._all_pairs and channels <= _FEW_CHANNELS:
            one_channel = subscripts.replace("c", "")
            products = (
                jnp.einsum(one_channel, x1[..., i], x2[..., i], precision="highest")
                for i in range(channels)
            )
            return reduce(add, products) / channels
        return jnp.einsum(subscripts, x1, x2, precision="highest") / channels

    def entries_per_pair(self) -> int:
        """The most numbers that one pair of inputs needs in any layer's covariance."""
        positions = max(prod(s[:-1]) for s in self.body.in_shapes(self.input_shape))
        return positions**2 if self._all_pairs else positions


def _flatten(net: LayeredNetwork) -> tuple[list[Any], Shape]:
    scale = np.asarray(net.input_scale) if isinstance(net.input_scale, tuple) else net.input_scale
    keys = map(jax.tree_util.GetAttrKey, ("input_scale", "body", "last"))
    return list(zip(keys, (scale, net.body, net.last), strict=True)), net.input_shape


def _unflatten(input_shape: Shape, children: Any) -> LayeredNetwork:
    net = object.__new__(LayeredNetwork)
    scale, body, last = children
    fixed = tuple(scale.tolist()) if isinstance(scale, np.ndarray) else scale
    for name, value in (("input_scale", fixed), ("body", body), ("last", last)):
        object.__setattr__(net, name, value)
    object.__setattr__(net, "input_shape", input_shape)
    return net


jax.tree_util.register_pytree_with_keys(LayeredNetwork, _flatten, _unflatten)


def _checked_scale(
    input_scale: Iterable[float] | None, input_shape: Shape
) -> tuple[float, ...] | None:
    if input_scale is None:
        return None
    scale = tuple(float(value) for value in input_scale)
    if len(scale) != input_shape[-1] or not all(0 <= value < float("inf") for value in scale):
        raise ValueError(
            f"input_scale must be None or {input_shape[-1]} finite numbers ≥ 0, one for each column "
            f"or channel of the inputs; got {input_scale!r}."
        )
    return scale


def _check_layer(layer: Any) -> None:
    if not isinstance(layer, Layer):
        raise TypeError(
            "body must be a sequence of layers: instances of those in ntkgp.layers, such as Relu(), "
            f"or of your own subclass of ntkgp.layers.Layer; it holds {layer!r}."
        )
    try:
        hash(layer)
    except TypeError as error:
        raise TypeError(
            f"layers must be hashable, because they are static under jax.jit: {error}. Make "
            f"{type(layer).__name__} a frozen dataclass, @dataclass(frozen=True), of numbers, "
            "strings and tuples."
        ) from None


def require_layers(net: Network) -> LayeredNetwork:
    """The network itself, if its kernel at infinite width is known; else an error.

    >>> require_layers(LayeredNetwork((2,), [], Dense(1))).output_dim
    1
    """
    if not isinstance(net, LayeredNetwork):
        raise TypeError(
            "the exact kernel and its laws need a network made of ntkgp's layers, an "
            f"ntkgp.LayeredNetwork, such as ntkgp.mlp makes; got {type(net).__name__}. For any "
            "other Network there is ntkgp.empirical_ntk, the kernel of one draw of its parameters, "
            "and it can be trained as an ensemble."
        )
    return net
