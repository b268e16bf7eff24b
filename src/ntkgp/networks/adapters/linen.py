"""A module of flax.linen as a network."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ntkgp.core.typing import Params
from ntkgp.networks.adapters.lazy import library
from ntkgp.networks.adapters.network import (
    NO_STATE,
    AdaptedNetwork,
    Recipe,
    adapt,
    check_input_shape,
)
from ntkgp.networks.adapters.prior import PriorVar


def from_flax(
    module: Any,
    input_shape: Sequence[int],
    *,
    readout: str | Sequence[str] | None = None,
    prior_var: PriorVar | None = None,
    call: Callable[[Any, Array], Array] | None = None,
) -> AdaptedNetwork:
    """A network from a `flax.linen.Module`.

    Args:
        module: maps a batch (n, *input_shape) to (n, outputs).
        input_shape: shape of one example.
        readout: path or paths of the last linear layer's parameters, such as "Dense_1"; searched
            for when left out.
        prior_var: prior variances by path, `{"*bias": 0.05**2}`, or as a function of (path, leaf);
            those of the module's initialisers when left out.
        call: how the module is called, where that is more than `module(x)`:
            `lambda module, x: module(x, train=False)`.

    Collections other than "params" are constants, with the values of one initialisation.

    >>> from flax import linen as nn
    >>> module = nn.Sequential([nn.Dense(64), nn.gelu, nn.Dense(1)])
    >>> net = from_flax(module, (3,), prior_var={"*bias": 0.05**2})
    >>> net.prior_var()["layers_0/kernel"] == 1 / 3
    True
    >>> sorted(path for path, last in net.readout().items() if last)
    ['layers_2/bias', 'layers_2/kernel']
    """
    flax = library("flax")
    linen = library("flax.linen")
    if not isinstance(module, linen.Module):
        raise TypeError(
            "from_flax takes an instance of flax.linen.Module; "
            f"got {module!r}. For flax.nnx there is from_nnx."
        )
    example = jnp.zeros((2, *check_input_shape(input_shape)), jnp.float32)

    def variables(key: Array) -> dict[str, Any]:
        return dict(module.init(key, example, method=call))

    try:
        constants = jax.jit(lambda key: _without_params(variables(key)))(jax.random.key(0))

        def init(key: Array) -> Params:
            return variables(key).get("params", {})

        def apply(params: Params, x: Array) -> Array:
            return module.apply({"params": params, **constants}, x, method=call)

        jax.eval_shape(lambda key: apply(init(key), example), jax.random.key(0))
    except flax.errors.ModifyScopeVariableError as error:
        raise ValueError(
            f"the module's call changes its own state, {', '.join(constants)}, as BatchNorm does "
            "in training mode, so the output for one example depends on the others of its batch. "
            + NO_STATE
        ) from error
    except flax.errors.InvalidRngError as error:
        raise ValueError(
            "the module's call needs randomness, as Dropout does, but f(x, θ) must be a function. "
            "Make it deterministic: Dropout(..., deterministic=True), or pass "
            "call=lambda module, x: module(x, train=False), whatever the argument is."
        ) from error
    options = {"readout": readout, "prior_var": prior_var, "call": call}
    recipe = Recipe(from_flax, (module, input_shape), options)
    return adapt(init, apply, input_shape, readout=readout, prior_var=prior_var, recipe=recipe)


def _without_params(variables: dict[str, Any]) -> dict[str, Any]:
    return {name: values for name, values in variables.items() if name != "params"}
