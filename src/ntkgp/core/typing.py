"""The types that pass between modules."""

from typing import Any, Literal, NamedTuple

from jax import Array
from jaxtyping import Float

Params = Any
"""A pytree of arrays: the parameters θ of one network."""

Shape = tuple[int, ...]
"""Shape of one example, without the batch axis."""

Metric = Literal["prior", "gradient"]
"""Which inner product of gradients an NTK is: J Λ Jᵀ ("prior", the paper's Θ) or J Jᵀ ("gradient")."""


class Kernels(NamedTuple):
    """Covariances of one layer's outputs between two sets of inputs, at infinite width.

    Vectors have `nngp` of shape (n1, n2). Images have either (n1, n2, h, w), the covariances of
    equal positions, or (n1, n2, h, w, h, w), those of all pairs of positions, which pooling needs.
    `var1` and `var2` are each set's covariances with itself, with a batch axis of length one
    for the other set, so that every rule below is one broadcast expression.
    """

    nngp: Float[Array, "n1 n2 *positions"]  # 𝒦
    ntk: Float[Array, "n1 n2 *positions"]  # Θ
    var1: Float[Array, "n1 1 *positions"]
    var2: Float[Array, "1 n2 *positions"]


Part = Literal["all", "body", "readout"]
"""Which parameters: all θ, those before the readout θ^{≤L}, or the readout's θ^{L+1}."""
