"""A pair of plain functions, init and apply, as a network."""

from collections.abc import Callable, Sequence

from jax import Array

from ntkgp.core.typing import Params
from ntkgp.networks.adapters.network import AdaptedNetwork, Recipe, adapt
from ntkgp.networks.adapters.prior import PriorVar


def from_functions(
    init: Callable[[Array], Params],
    apply: Callable[[Params, Array], Array],
    input_shape: Sequence[int],
    *,
    readout: str | Sequence[str] | None = None,
    prior_var: PriorVar | None = None,
) -> AdaptedNetwork:
    """A network from init(key) → parameters and apply(parameters, x) → (n, outputs).

    Args:
        init: draws a pytree of float arrays from a key.
        apply: the outputs of a batch x (n, *input_shape), each of one example alone.
        input_shape: shape of one example.
        readout: path or paths of the last linear layer's parameters; searched for when left out.
        prior_var: prior variances by path, `{"*bias": 0.05**2}`, or as a function of (path, leaf);
            those of `init` when left out.

    >>> def init(key):
    ...     first, last = jax.random.split(key)
    ...     return {
    ...         "first": jax.random.normal(first, (2, 64)) / 2**0.5,
    ...         "last": jax.random.normal(last, (64, 1)) / 8,
    ...     }
    >>> def apply(params, x):
    ...     return jnp.tanh(x @ params["first"]) @ params["last"]
    >>> net = from_functions(init, apply, (2,))
    >>> net.prior_var()
    {'first': 0.5, 'last': 0.015625}
    >>> net.readout()
    {'first': False, 'last': True}
    """
    for name, function in (("init", init), ("apply", apply)):
        if not callable(function):
            raise TypeError(f"{name} must be a function; got {type(function).__name__}.")
    options = {"readout": readout, "prior_var": prior_var}
    recipe = Recipe(from_functions, (init, apply, input_shape), options)
    return adapt(init, apply, input_shape, readout=readout, prior_var=prior_var, recipe=recipe)
