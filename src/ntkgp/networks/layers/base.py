"""What a layer is: a finite face (apply, shapes, prior variances) and an infinite one (kernel)."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ntkgp.core.typing import Kernels, Metric, Params, Shape


class Layer(ABC):
    """A layer, final or abstract; subclass it for a layer of your own.

    A concrete layer is a frozen dataclass of Python scalars, hashable. It must define `out_shape`,
    `apply` and `kernel`; with parameters also `shapes` and `prior_var`. To JAX it is a pytree whose
    leaves are the fields named in `scales`. Those may be learned; the rest is static.
    An elementwise nonlinearity is an `Activation`, which needs less. Shapes are those of one
    example: (features,) or (height, width, channels).

    >>> from dataclasses import dataclass
    >>> from ntkgp.networks.layers import Dense, Kernels, Layer, Relu
    >>> @dataclass(frozen=True)
    ... class Scale(Layer):
    ...     factor: float
    ...     scales = ("factor",)
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
    >>> jax.tree.leaves(net.body)[-1]
    0.5
    """

    scales: ClassVar[tuple[str, ...]] = ()
    """Fields that are scales of the prior: positive numbers that derivatives exist for.

    Another value of one compiles nothing anew. A scale of 0 is no number to learn: it says that the
    layer lacks something, as b_std = 0 says that it has no bias.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        jax.tree_util.register_pytree_with_keys(
            cls, _flatten_with_keys, partial(_unflatten, cls), _flatten
        )

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


def _flatten(layer: Layer) -> tuple[list[Any], Any]:
    """The scales of a layer and of the layers in it, and all else that it is."""
    fields: Any = dataclasses.fields(layer) if dataclasses.is_dataclass(layer) else ()
    names: list[str] = [field.name for field in fields]
    inner = tuple(name for name in names if _has_leaves(layer, name))
    if not inner:
        return [], (inner, layer)
    rest = tuple((name, getattr(layer, name)) for name in names if name not in inner)
    return [getattr(layer, name) for name in inner], (inner, rest)


def _flatten_with_keys(layer: Layer) -> tuple[list[Any], Any]:
    children, static = _flatten(layer)
    keys = map(jax.tree_util.GetAttrKey, static[0])
    return list(zip(keys, children, strict=True)), static


def _has_leaves(layer: Layer, name: str) -> bool:
    value = getattr(layer, name)
    if name in layer.scales:
        return not (isinstance(value, int | float) and value == 0)
    parts = value if isinstance(value, tuple) else (value,)
    return any(isinstance(part, Layer) for part in parts)


def _unflatten(kind: type[Layer], static: Any, children: Any) -> Layer:
    """The layer again, unchecked: its scales may be anything that JAX puts in their place."""
    names, rest = static
    if not names:
        return rest
    layer = object.__new__(kind)
    for name, value in (*rest, *zip(names, children, strict=True)):
        object.__setattr__(layer, name, value)
    return layer


def pull_back(f: Callable[[Array], Array], x: Array, cotangents: Array) -> Array:
    """Cotangents (n, c, *out) of f(x) to cotangents (n, c, *in) of x."""
    (pulled,) = jax.vmap(jax.vjp(f, x)[1], in_axes=1, out_axes=1)(cotangents)
    return pulled
