"""What the methods of the paper need from a network."""

from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import Array

from ntkgp.core.typing import Params, Part, Shape


@runtime_checkable
class Network(Protocol):
    """A function of parameters, with what the methods must know about it.

    Implementations are hashable, so that they can be static under `jax.jit`.
    """

    @property
    def input_shape(self) -> Shape: ...

    @property
    def output_dim(self) -> int: ...

    def init(self, key: Array) -> Params:
        """θ ~ init(·): one draw from the prior N(0, Λ)."""

    def apply(self, params: Params, x: Array) -> Array:
        """f(x, θ) for a batch x (n, *input_shape), of shape (n, output_dim)."""

    def prior_var(self) -> Params:
        """The diagonal of Λ, one number for each parameter leaf."""

    def readout(self) -> Params:
        """True for the leaves of θ^{L+1}, False for those of θ^{≤L}."""

    def tangent_gram(self, params: Params, x: Array, part: Part = "all") -> Array:
        """J Λ Jᵀ on one batch, (n·output_dim, n·output_dim), for the chosen part of θ."""


def scale(net: Network, params: Params, *, body: float, head: float) -> Params:
    """(body · θ^{≤L}, head · θ^{L+1})."""
    return jax.tree.map(lambda leaf, last: leaf * (head if last else body), params, net.readout())


def squared_norm(net: Network, params: Params) -> Array:
    """‖v‖²_Λ = vᵀ Λ⁻¹ v = Σ_j v_j² / λ_j (Appendix D)."""
    terms = jax.tree.map(lambda v, var: jnp.sum(v**2) / var, params, net.prior_var())
    return jax.tree.reduce(jnp.add, terms)
