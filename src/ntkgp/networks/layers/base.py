"""What a layer is: a finite face (init, apply, prior variances) and an infinite one (kernel)."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ntkgp.core.typing import Kernels, Metric, Params, Shape


class Layer(ABC):
    """A layer, final or abstract. The defaults are those of a layer without parameters.

    A concrete layer is a frozen dataclass of Python scalars, so it is hashable and static
    under `jax.jit`. Shapes are those of one example: (features,) or (height, width, channels).
    """

    @abstractmethod
    def out_shape(self, in_shape: Shape) -> Shape:
        """Shape of one output; raises ValueError for inputs the layer cannot take."""

    @abstractmethod
    def apply(self, params: Params, x: Array) -> Array:
        """The finite layer on a batch x (n, *in_shape)."""

    @abstractmethod
    def kernel(self, k: Kernels, in_shape: Shape, metric: Metric) -> Kernels:
        """The infinite layer: covariances of the inputs to covariances of the outputs."""

    def shapes(self, in_shape: Shape) -> Params:
        """A `jax.ShapeDtypeStruct` for each parameter leaf."""
        return ()

    def prior_var(self, in_shape: Shape) -> Params:
        """λ of each parameter leaf: the diagonal of Λ, in a pytree like the parameters."""
        return ()

    def init(self, key: Array, in_shape: Shape) -> Params:
        """θ ~ N(0, Λ): one draw of the parameters from their prior.

        All leaves are cut from one vector of normals, because every separate call of the
        generator costs half a second of compilation.
        """
        leaves, treedef = jax.tree.flatten(self.shapes(in_shape))
        stds = [var**0.5 for var in jax.tree.leaves(self.prior_var(in_shape))]
        ends = np.cumsum([leaf.size for leaf in leaves], dtype=int)
        flat = jax.random.normal(key, (ends[-1] if leaves else 0,), jnp.float32)
        normals = jnp.split(flat, ends[:-1])
        draws = [
            std * part.reshape(leaf.shape)
            for std, part, leaf in zip(stds, normals[: len(leaves)], leaves, strict=True)
        ]
        return jax.tree.unflatten(treedef, draws)

    def gaussian(self, incoming: bool) -> bool:
        """Whether outputs are centred Gaussian at infinite width, given whether the inputs are."""
        return incoming

    def fresh(self, incoming: bool) -> bool:
        """Whether outputs have mean zero by weights that nothing beside this layer shares,
        given whether the inputs do."""
        return incoming

    def all_pairs(self, needed: bool) -> bool:
        """Whether the inputs' covariances are needed for all pairs of positions,
        given whether the outputs' are."""
        return needed

    def backward(
        self, params: Params, x: Array, cotangents: Array, metric: Metric
    ) -> tuple[Array, Array]:
        """One step back: this layer's share of the empirical NTK, and the cotangents of x.

        cotangents (n, c, *out_shape) are the gradients of c outputs; the share is (n, c, n, c).
        """
        n, c = cotangents.shape[:2]
        return jnp.zeros((n, c, n, c), x.dtype), pull_back(
            lambda z: self.apply(params, z), x, cotangents
        )


def pull_back(f: Callable[[Array], Array], x: Array, cotangents: Array) -> Array:
    """Cotangents (n, c, *out) of f(x) to cotangents (n, c, *in) of x."""
    (pulled,) = jax.vmap(jax.vjp(f, x)[1], in_axes=1, out_axes=1)(cotangents)
    return pulled
