"""A module of Equinox as a network."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ntkgp.core.typing import Params
from ntkgp.networks.adapters.lazy import library
from ntkgp.networks.adapters.network import AdaptedNetwork, Recipe, adapt, check_input_shape
from ntkgp.networks.adapters.prior import PriorVar


def from_equinox(
    make: Callable[[Array], Any],
    input_shape: Sequence[int],
    *,
    readout: str | Sequence[str] | None = None,
    prior_var: PriorVar | None = None,
    call: Callable[[Any, Array], Array] | None = None,
) -> AdaptedNetwork:
    """A network from a function that makes an Equinox module.

    Args:
        make: key → a module that maps one example (*input_shape) to (outputs,), or to a scalar.
        input_shape: shape of one example.
        readout: path or paths of the last linear layer's parameters; searched for when left out.
        prior_var: prior variances by path, `{"*bias": 0.05**2}`, or as a function of (path, leaf);
            those of the module's initialisers when left out.
        call: how the module is called on one example, where that is more than `module(x)`.

    Its inexact arrays are the parameters; all else is constant. Equinox draws the parameters of
    `Linear` and `Conv` from U(±1/√fan_in), biases too: λ = 1/(3 fan_in).

    >>> import equinox as eqx
    >>> net = from_equinox(lambda key: eqx.nn.MLP(3, 1, 64, depth=1, key=key), (3,))
    >>> net.prior_var()["layers/0/bias"] == 1 / 9
    True
    >>> sorted(path for path, last in net.readout().items() if last)
    ['layers/1/bias', 'layers/1/weight']
    """
    eqx = library("equinox")
    if isinstance(make, eqx.Module) or not callable(make):
        raise TypeError(
            "from_equinox takes a function that makes a module, so that each member can draw its "
            f"own: from_equinox(lambda key: MyModule(..., key=key), ...); got {type(make).__name__}."
        )
    options = {"readout": readout, "prior_var": prior_var, "call": call}
    recipe = Recipe(from_equinox, (make, input_shape), options)
    call = call or (lambda module, x: module(x))
    statics = []

    def others(key: Array) -> Any:
        """The arrays that are not parameters; whatever is not an array goes into `statics`."""
        arrays, static = eqx.partition(make(key), eqx.is_array)
        _check_stateless(eqx, static)
        statics.append(static)
        return eqx.filter(arrays, eqx.is_inexact_array, inverse=True)

    constants = eqx.combine(jax.jit(others)(jax.random.key(0)), statics[0])

    def init(key: Array) -> Params:
        return eqx.filter(make(key), eqx.is_inexact_array)

    def apply(params: Params, x: Array) -> Array:
        module = eqx.combine(params, constants)
        return jax.vmap(lambda example: call(module, example))(x)

    examples = jnp.zeros((2, *check_input_shape(input_shape)), jnp.float32)
    try:
        jax.eval_shape(lambda key: apply(init(key), examples), jax.random.key(0))
    except Exception as error:
        if not _drops_out(eqx, constants):
            raise
        raise ValueError(
            "the module's call fails, and it has a Dropout in training mode, which needs "
            f"randomness ({error}); but f(x, θ) must be a function. Make it in inference mode: "
            "from_equinox(lambda key: eqx.nn.inference_mode(MyModule(..., key=key)), ...)."
        ) from error
    return adapt(
        init,
        apply,
        input_shape,
        readout=readout,
        prior_var=prior_var,
        recipe=recipe,
        documented=_documented(eqx, jax.eval_shape(init, jax.random.key(0))),
    )


def _check_stateless(eqx: Any, module: Any) -> None:
    def is_state(node: Any) -> bool:
        return isinstance(node, eqx.nn.State | eqx.nn.StateIndex)

    if any(map(is_state, jax.tree.leaves(module, is_leaf=is_state))):
        raise ValueError(
            "the module keeps state between calls (eqx.nn.State), as BatchNorm does, but f(x, θ) "
            "must be a function of one input. Use LayerNorm or GroupNorm."
        )


def _drops_out(eqx: Any, module: Any) -> bool:
    """Whether the module has an active Dropout."""

    def is_dropout(node: Any) -> bool:
        return isinstance(node, eqx.nn.Dropout)

    nodes = filter(is_dropout, jax.tree.leaves(module, is_leaf=is_dropout))
    return any(not node.inference for node in nodes)


def _documented(eqx: Any, module: Any) -> dict[str, float]:
    """λ = 1/(3 fan_in) of every Linear and Conv, which draw from U(±1/√fan_in)."""

    def is_affine(node: Any) -> bool:
        return isinstance(node, eqx.nn.Linear | eqx.nn.Conv)

    variances = {}
    for keys, node in jax.tree_util.tree_flatten_with_path(module, is_leaf=is_affine)[0]:
        if is_affine(node):
            fan_in = node.weight.size / node.weight.shape[0]
            for name in ("weight", "bias"):
                path = jax.tree_util.keystr(
                    (*keys, jax.tree_util.GetAttrKey(name)), simple=True, separator="/"
                )
                variances[path] = 1 / (3 * fan_in)
    return variances
