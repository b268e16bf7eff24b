"""What a layer is: a finite face (apply, shapes, prior variances) and an infinite one (kernel)."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ntkgp.core.typing import Kernels, Metric, Params, Shape


class Layer(ABC):
    """A layer, final or abstract; subclass it for a layer of your own.

    A concrete layer is a frozen dataclass of Python scalars: hashable, so static under `jax.jit`.
    It must define `out_shape`, `apply` and `kernel`; with parameters also `shapes` and `prior_var`.
    An elementwise nonlinearity is an `Activation`, which needs less. Shapes are those of one
    example: (features,) or (height, width, channels).

    >>> from dataclasses import dataclass
    >>> from ntkgp.networks.layers import Dense, Kernels, Layer, Relu
    >>> @dataclass(frozen=True)
    ... class Scale(Layer):
    ...     factor: float
    ...
    ...     def out_shape(self, in_shape):
    ...         return in_shape
    ...
    ...     def apply(self, params, x):
    ...         return self.factor * x
    ...
    ...     def kernel(self, k, in_shape, metric):
    ...         return Kernels(*(self.factor**2 * cov for cov in k))
    >>> net = ntkgp.LayeredNetwork((3,), [Dense(64), Relu(), Scale(0.5)], Dense(1))
    >>> ntkgp.ntk(net, np.ones((2, 3))).shape
    (2, 2)
    """

    @abstractmethod
    def out_shape(self, in_shape: Shape) -> Shape:
        """Shape of one output; a ValueError for inputs that the layer cannot take."""

    @abstractmethod
    def apply(self, params: Params, x: Array) -> Array:
        """The finite layer on a batch x (n, *in_shape)."""

    @abstractmethod
    def kernel(self, k: Kernels, in_shape: Shape, metric: Metric) -> Kernels:
        """The infinite layer: from the covariances of its inputs to those of its outputs.

        Θ of the outputs includes the share of this layer's own parameters.
        """

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
        """Whether outputs are centred Gaussian at infinite width, given whether the inputs are.

        A layer whose kernel rule needs Gaussian inputs raises a ValueError if they are not.
        """
        return incoming

    def fresh(self, incoming: bool) -> bool:
        """Whether this layer's own weights make the mean of its outputs zero.

        `incoming` says whether the weights of the layers before do so for its inputs.
        """
        return incoming

    def all_pairs(self, needed: bool) -> bool:
        """Whether `kernel` needs the covariances of all pairs of positions, not only of equal ones.

        `needed` says whether the next layer needs them.
        """
        return needed

    def backward(
        self, params: Params, x: Array, cotangents: Array, metric: Metric
    ) -> tuple[Array, Array]:
        """One step back: this layer's share of the empirical NTK, and the cotangents of x.

        cotangents (n, c, *out_shape) are the gradients of c outputs; the share is (n, c, n, c),
        here from each example's gradient in this layer's parameters.
        """
        n, c = cotangents.shape[:2]
        pulled = pull_back(lambda z: self.apply(params, z), x, cotangents)
        share = jnp.zeros((n, c, n, c), x.dtype)
        if not jax.tree.leaves(params):
            return share, pulled

        def gradient(example: Array, cotangent: Array) -> Params:
            return jax.vjp(lambda p: self.apply(p, example[None])[0], params)[1](cotangent)[0]

        gradients = jax.vmap(jax.vmap(gradient, in_axes=(None, 0)))(x, cotangents)
        variances = jax.tree.leaves(self.prior_var(x.shape[1:]))
        for leaf, var in zip(jax.tree.leaves(gradients), variances, strict=True):
            rows = leaf.reshape(n, c, -1)
            weight = 1.0 if metric == "gradient" else var
            share += weight * jnp.einsum("ncj,mdj->ncmd", rows, rows)
        return share, pulled


def pull_back(f: Callable[[Array], Array], x: Array, cotangents: Array) -> Array:
    """Cotangents (n, c, *out) of f(x) to cotangents (n, c, *in) of x."""
    (pulled,) = jax.vmap(jax.vjp(f, x)[1], in_axes=1, out_axes=1)(cotangents)
    return pulled
