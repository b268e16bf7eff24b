"""The network that every adapter makes: a user's functions with a prior and a readout."""

import pickle
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from ntkgp.core.typing import Params, Part, Shape
from ntkgp.networks.adapters.paths import by_path, common_subtree, listed
from ntkgp.networks.adapters.prior import (
    ConstantParameters,
    Leaf,
    PriorEstimated,
    PriorVar,
    leaf_priors,
    moments,
    warn_of_priors,
)
from ntkgp.networks.adapters.readout import find_readout, rounding

Theta = dict[str, Array]
"""θ by path: the module's random parameters, less their means."""


class Recipe(NamedTuple):
    """How an adapted network was made: adapter(*args, **options)."""

    adapter: Callable[..., "AdaptedNetwork"]
    args: tuple[Any, ...]
    options: dict[str, Any]


@dataclass(frozen=True, eq=False, repr=False)
class AdaptedNetwork:
    """A user's network as the methods need it; the adapters make it.

    θ is a dictionary from paths to float32 arrays. Each is the deviation of a parameter from its
    prior mean, which is 0 or a constant such as the scale 1 of a normalisation. So θ ~ N(0, Λ),
    and f(x, θ) is the module at mean + θ. Parameters of prior variance 0 are not in it.

    Two adapted networks are equal only if they are one object. A pickle holds the adapter's
    arguments, and calls the adapter again when it is opened.
    """

    input_shape: Shape
    output_dim: int
    module_init: Callable[[Array], Params]
    module_apply: Callable[[Params, Array], Array]
    leaves: tuple[Leaf, ...]
    """The module's parameters, in the order of their pytree."""
    treedef: Any
    readout_paths: frozenset[str]
    recipe: Recipe

    def __repr__(self) -> str:
        last = repr(common_subtree(self.readout_paths)) if self.readout_paths else "not found"
        return (
            f"<AdaptedNetwork by {self.recipe.adapter.__name__}: {self.input_shape} -> "
            f"{self.output_dim}, {len(self.prior_var())} parameter arrays, readout {last}>"
        )

    def init(self, key: Array) -> Theta:
        redrawn = [leaf for leaf in self.leaves if leaf.redrawn]
        # The module gets the whole key if it can: its draws are then those that the user would get.
        own, extra = jax.random.split(key) if redrawn else (key, key)
        drawn = by_path(self.module_init(own)) | _draw(extra, redrawn)
        return {leaf.path: drawn[leaf.path].astype(jnp.float32) for leaf in self.leaves if leaf.var}

    def __deepcopy__(self, memo: dict[int, Any]) -> "AdaptedNetwork":
        """Itself: it never changes, and a copy would be unequal and compile everything again."""
        return self

    def __reduce__(self) -> tuple[Callable[..., "AdaptedNetwork"], tuple[Recipe]]:
        """The recipe, if every function in it can be imported by name where the pickle is opened."""
        try:
            pickle.dumps(self.recipe)
        except Exception as error:
            raise pickle.PicklingError(
                f"a network of {self.recipe.adapter.__name__} is pickled as the arguments of that "
                f"function, and one of these cannot be pickled: {error}. Python pickles functions and "
                "classes by name. In place of a lambda or local function use a function of a module, "
                "with functools.partial for values that it needs; in place of a flax.linen module "
                "that holds such functions, as Sequential does, a class of a module."
            ) from error
        return _made_again, (self.recipe,)

    def module_params(self, params: Theta) -> Params:
        """The module's own parameters, mean + θ, in its own pytree and dtypes."""
        values = []
        for leaf in self.leaves:
            mean = 0.0 if leaf.constant is None else leaf.constant
            value = mean + params[leaf.path] if leaf.var else mean
            values.append(jnp.asarray(value, leaf.dtype))
        return jax.tree.unflatten(self.treedef, values)

    def apply(self, params: Theta, x: Array) -> Array:
        outputs = self.module_apply(self.module_params(params), x)
        return outputs.reshape(len(x), self.output_dim).astype(x.dtype)

    def prior_var(self) -> dict[str, float]:
        return {leaf.path: leaf.var for leaf in self.leaves if leaf.var}

    def readout(self) -> dict[str, bool]:
        return {path: path in self.readout_paths for path in self.prior_var()}

    def tangent_gram(self, params: Theta, x: Array, part: Part = "all") -> Array:
        """Σ over leaves of λ J Jᵀ, from the Jacobian of each example alone.

        It holds n · output_dim gradients of the chosen part at once. If memory is too small for
        them, train with `Descent`.
        """
        n, c = len(x), self.output_dim
        chosen = {
            path: params[path]
            for path, last in self.readout().items()
            if part == "all" or last == (part == "readout")
        }

        def output(own: Theta, point: Array) -> Array:
            return self.apply({**params, **own}, point[None])[0]

        jacobian = jax.vmap(jax.jacrev(output), in_axes=(None, 0))(chosen, x)
        gram = jnp.zeros((n * c, n * c), x.dtype)
        for path, var in self.prior_var().items():
            if path in chosen:
                rows = jacobian[path].reshape(n * c, -1)
                gram += var * jnp.matmul(rows, rows.T, precision="highest")
        return gram


def _made_again(recipe: Recipe) -> AdaptedNetwork:
    """A network from its recipe, without the warnings of the first time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantParameters)
        warnings.simplefilter("ignore", PriorEstimated)
        return recipe.adapter(*recipe.args, **recipe.options)


def _draw(key: Array, leaves: Sequence[Leaf]) -> Theta:
    """N(0, λ) for each leaf, cut from one vector of normals: a generator is slow to compile."""
    if not leaves:
        return {}
    ends = np.cumsum([prod(leaf.shape) for leaf in leaves])
    normals = jax.random.normal(key, (ends[-1],), jnp.float32)
    return {
        leaf.path: leaf.var**0.5 * part.reshape(leaf.shape)
        for leaf, part in zip(leaves, jnp.split(normals, ends[:-1]), strict=True)
    }


def adapt(
    init: Callable[[Array], Params],
    apply: Callable[[Params, Array], Array],
    input_shape: Sequence[int],
    *,
    readout: str | Sequence[str] | None,
    prior_var: PriorVar | None,
    recipe: Recipe,
    documented: Mapping[str, float] | None = None,
) -> AdaptedNetwork:
    """Find out, once, what the methods must know about a network, from its shapes and from draws.

    Args:
        recipe: the adapter that calls this, and its own arguments.
        documented: prior variances by path that the network's library promises.
    """
    shape = check_input_shape(input_shape)
    tree = jax.eval_shape(init, jax.random.key(0))
    shapes = {path: float_leaf(path, leaf) for path, leaf in by_path(tree).items()}
    width = output_dim(apply, tree, shape)
    seen = moments(init, shapes)
    leaves = leaf_priors(shapes, seen, prior_var, documented or {})

    treedef = jax.tree.structure(tree)

    @jax.jit
    def outputs(flat: Theta, x: Array) -> Array:
        return apply(jax.tree.unflatten(treedef, [flat[path] for path in shapes]), x)

    draw = {leaf.path: seen[leaf.path].sample.astype(leaf.dtype) for leaf in leaves}
    x = np.random.default_rng(0).normal(size=(4, *shape)).astype(np.float32)
    check_examples_apart(lambda inputs: np.asarray(outputs(draw, inputs)), x)
    readout_paths = find_readout(lambda flat: np.asarray(outputs(flat, x)), draw, readout)
    _check_readout([leaf for leaf in leaves if leaf.path in readout_paths])
    warn_of_priors(leaves, prior_var, stacklevel=3)
    return AdaptedNetwork(shape, width, init, apply, tuple(leaves), treedef, readout_paths, recipe)


def check_input_shape(input_shape: Sequence[int]) -> Shape:
    """The shape of one input as a tuple of numbers ≥ 1."""
    shape = tuple(int(size) for size in input_shape)
    if not shape or min(shape) < 1:
        raise ValueError(
            "input_shape must be the shape of one example, without the batch axis, such as (4,) or "
            f"(28, 28, 1); got {shape}."
        )
    return shape


def float_leaf(path: str, leaf: Any) -> jax.ShapeDtypeStruct:
    """Shape and dtype of a leaf; float64, as `jax_enable_x64` makes it, counts as float32."""
    if not jnp.issubdtype(leaf.dtype, jnp.floating):
        raise TypeError(
            f"parameters must be real floating-point arrays; {path!r} is of dtype {leaf.dtype}. "
            "Keep what is not trained out of the parameters, in a closure."
        )
    dtype = jnp.float32 if leaf.dtype == jnp.float64 else leaf.dtype
    return jax.ShapeDtypeStruct(leaf.shape, dtype)


def output_dim(apply: Callable[[Params, Array], Array], tree: Params, shape: Shape) -> int:
    inputs = jax.ShapeDtypeStruct((2, *shape), jnp.float32)
    outputs = jax.eval_shape(apply, tree, inputs)
    got = getattr(outputs, "shape", None)
    if got is None or len(got) not in (1, 2) or got[0] != 2:
        raise ValueError(
            "the network must map a batch (n, *input_shape) to one array (n, outputs), or (n,) for "
            f"one output; for inputs {inputs.shape} it gives "
            f"{type(outputs).__name__ if got is None else got}. Flatten what is more than that."
        )
    return int(got[1]) if len(got) == 2 else 1


def check_examples_apart(f: Callable[[NDArray[Any]], NDArray[Any]], x: NDArray[Any]) -> None:
    """Refuse networks whose output for one example depends on the others of its batch."""
    once = f(x)
    again = f(np.concatenate([x[:1], -2 * x[1:]]))
    if not np.abs(once[0] - again[0]).max() <= rounding(once) * np.abs(once).max():
        raise ValueError(
            "the output for one example depends on the others of its batch, as with BatchNorm in "
            "training mode, or is not finite: f(x, θ) must be a function of one input. " + NO_STATE
        )


NO_STATE = "Use LayerNorm or GroupNorm, or BatchNorm with use_running_average=True."


def _check_readout(readout: Sequence[Leaf]) -> None:
    if not any(leaf.var for leaf in readout):
        raise ValueError(
            f"the readout, {listed([leaf.path for leaf in readout])}, is the same in every "
            "initialisation, so the network has no random last layer. Give it a prior by prior_var, "
            "or an initialiser that is not constant."
        )
    for leaf in readout:
        if leaf.constant is not None and leaf.constant.any():
            raise ValueError(
                f"{leaf.path!r} of the readout starts at a value other than 0, which would give "
                "the prior over functions a mean; the methods need mean 0. Initialise it at 0 and "
                "subtract that value from the targets."
            )
