"""A module of flax.nnx as a network."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ntkgp.core.typing import Params, Shape
from ntkgp.networks.adapters.lazy import library
from ntkgp.networks.adapters.network import (
    NO_STATE,
    AdaptedNetwork,
    Recipe,
    adapt,
    check_input_shape,
)
from ntkgp.networks.adapters.prior import PriorVar


def from_nnx(
    make: Callable[[Any], Any],
    input_shape: Sequence[int],
    *,
    readout: str | Sequence[str] | None = None,
    prior_var: PriorVar | None = None,
    call: Callable[[Any, Array], Array] | None = None,
) -> AdaptedNetwork:
    """A network from a function that makes a `flax.nnx.Module`.

    A module of nnx holds its parameters, and every member needs a draw of its own. So the adapter
    takes a function that makes a module, not a module.

    Args:
        make: `nnx.Rngs` → a module that maps a batch (n, *input_shape) to (n, outputs).
        input_shape: shape of one example.
        readout: path or paths of the last linear layer's parameters; searched for when left out.
        prior_var: prior variances by path, `{"*bias": 0.05**2}`, or as a function of (path, leaf);
            those of the module's initialisers when left out.
        call: how the module is called, where that is more than `module(x)`:
            `lambda module, x: module(x, train=False)`.

    Its `nnx.Param`s are the parameters. Other variables are constants, with the values of one
    initialisation.

    >>> from flax import nnx
    >>> net = from_nnx(
    ...     lambda rngs: nnx.Sequential(
    ...         nnx.Linear(3, 64, rngs=rngs), nnx.gelu, nnx.Linear(64, 1, rngs=rngs)
    ...     ),
    ...     (3,),
    ...     prior_var={"*bias": 0.05**2},
    ... )
    >>> sorted(path for path, last in net.readout().items() if last)
    ['layers/2/bias', 'layers/2/kernel']
    """
    nnx = library("flax.nnx")
    if isinstance(make, nnx.Module) or not callable(make):
        raise TypeError(
            "from_nnx takes a function that makes a module, so that each member can draw its own: "
            f"from_nnx(lambda rngs: MyModule(..., rngs=rngs), ...); got {type(make).__name__}."
        )
    options = {"readout": readout, "prior_var": prior_var, "call": call}
    recipe = Recipe(from_nnx, (make, input_shape), options)
    call = call or (lambda module, x: module(x))

    def split(key: Array) -> tuple[Any, Any, Any]:
        return nnx.split(make(nnx.Rngs(key)), nnx.Param, ...)

    graphdefs = []

    def rest(key: Array) -> Any:
        graphdef, _, others = split(key)
        graphdefs.append(graphdef)
        return nnx.to_pure_dict(others)

    constants = jax.jit(rest)(jax.random.key(0))
    graphdef = graphdefs[0]

    def init(key: Array) -> Params:
        return nnx.to_pure_dict(split(key)[1])

    def module_of(params: Params) -> Any:
        return nnx.merge(graphdef, nnx.State(params), nnx.State(constants))

    def apply(params: Params, x: Array) -> Array:
        return call(module_of(params), x)

    check_stateless(nnx, lambda key: module_of(init(key)), call, check_input_shape(input_shape))
    return adapt(init, apply, input_shape, readout=readout, prior_var=prior_var, recipe=recipe)


def check_stateless(
    nnx: Any, make: Callable[[Array], Any], call: Callable[[Any, Array], Array], shape: Shape
) -> None:
    """Refuse modules whose call changes one of their variables."""
    changed: set[str] = set()

    def compare(key: Array) -> None:
        module = make(key)
        before = {
            path: (v, v.get_raw_value())
            for path, v in nnx.iter_graph(module)
            if isinstance(v, nnx.Variable)
        }
        call(module, jnp.zeros((2, *shape), jnp.float32))
        changed.update(
            type(v).__name__ for v, raw in before.values() if v.get_raw_value() is not raw
        )

    jax.eval_shape(compare, jax.random.key(0))
    if changed:
        raise ValueError(
            f"the module's call changes its own state, {', '.join(sorted(changed))}, as BatchNorm "
            "and Dropout do in training mode, but f(x, θ) must be a function of one input. "
            "Make the module in evaluation mode: call its eval() in `make`. " + NO_STATE
        )
