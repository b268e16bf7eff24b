"""A module that is trained already, as a network and its parameters θ̂."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ntkgp.core.typing import Params, Shape
from ntkgp.networks.adapters.network import (
    AdaptedNetwork,
    Recipe,
    Theta,
    check_examples_apart,
    check_input_shape,
    float_leaf,
    output_dim,
)
from ntkgp.networks.adapters.nnx import check_stateless
from ntkgp.networks.adapters.paths import by_path
from ntkgp.networks.adapters.prior import Leaf, PriorVar, given_variances
from ntkgp.networks.adapters.readout import find_readout

Call = Callable[[Any, Array], Array]


class Parts(NamedTuple):
    """A trained module taken apart."""

    params: Params
    apply: Callable[[Params, Array], Array]


def from_trained(
    module: Any,
    input_shape: Sequence[int],
    params: Params | None = None,
    *,
    readout: str | Sequence[str] | None = None,
    prior_var: PriorVar | None = None,
    call: Call | None = None,
) -> tuple[AdaptedNetwork, Theta]:
    """A network and its trained parameters, for `ntkgp.linearise`.

    Args:
        module: a trained module of flax.nnx or Equinox; a module of flax.linen, with its trained
            variables as `params`; or a function (params, x) → (n, outputs), with its parameters.
        input_shape: shape of one example.
        params: the variables of a linen module, or the parameters of a function. Others hold their own.
        readout: path or paths of the last linear layer's parameters; searched for when left out. A
            network without one can be linearised in all its parameters only.
        prior_var: prior variances λ by path, `{"*bias": 4.0}`, or as a function of (path, leaf); 1 when
            left out. They count relative to each other, because `linearise` chooses the scale. A
            parameter of variance 0 stays as it is trained.
        call: how the module is called, where that is more than `module(x)`:
            `lambda module, x: module(x, train=False)`.

    What is no parameter, such as the running averages of BatchNorm, stays as it is.

    >>> import equinox as eqx
    >>> trained = eqx.nn.MLP(3, 1, 64, depth=1, key=jax.random.key(0))
    >>> net, theta = from_trained(trained, (3,))
    >>> bool(jnp.array_equal(theta["layers/1/bias"], trained.layers[1].bias))
    True
    >>> sorted(path for path, last in net.readout().items() if last)
    ['layers/1/bias', 'layers/1/weight']
    """
    net = trained_network(
        module, input_shape, params, readout=readout, prior_var=prior_var, call=call
    )
    values = by_path(net.module_init(jax.random.key(0)))
    return net, {path: jnp.asarray(values[path], jnp.float32) for path in net.prior_var()}


def trained_network(
    module: Any,
    input_shape: Sequence[int],
    params: Params | None,
    *,
    readout: str | Sequence[str] | None,
    prior_var: PriorVar | None,
    call: Call | None,
) -> AdaptedNetwork:
    """The network of `from_trained`, without its parameters."""
    shape = check_input_shape(input_shape)
    own, apply = _taken_apart(module, params, call, shape)
    flat = {path: np.asarray(leaf) for path, leaf in by_path(own).items()}
    shapes = {path: float_leaf(path, leaf) for path, leaf in flat.items()}
    given = given_variances(prior_var, shapes)
    leaves = tuple(
        Leaf(
            path,
            known.shape,
            known.dtype,
            np.zeros(known.shape, np.float32) if given.get(path, 1.0) else flat[path],
            given.get(path, 1.0),
        )
        for path, known in shapes.items()
    )
    treedef = jax.tree.structure(own)

    @jax.jit
    def outputs(values: Theta, x: Array) -> Array:
        return apply(jax.tree.unflatten(treedef, [values[path] for path in shapes]), x)

    x = np.random.default_rng(0).normal(size=(4, *shape)).astype(np.float32)
    check_examples_apart(lambda inputs: np.asarray(outputs(flat, inputs)), x)
    try:
        last = find_readout(lambda values: np.asarray(outputs(values, x)), flat, readout)
    except ValueError:
        if readout is not None:
            raise
        last = frozenset()  # one is needed for part="readout" only
    options = {"readout": readout, "prior_var": prior_var, "call": call}
    recipe = Recipe(trained_network, (module, input_shape, params), options)
    width = output_dim(apply, own, shape)
    return AdaptedNetwork(shape, width, lambda key: own, apply, leaves, treedef, last, recipe)


def _taken_apart(module: Any, params: Params | None, call: Call | None, shape: Shape) -> Parts:
    for name, take in (("flax.linen", _linen), ("flax.nnx", _nnx), ("equinox", _equinox)):
        library = sys.modules.get(name)  # whoever has a module has imported its library
        if library is not None and isinstance(module, library.Module):
            return take(library, module, params, call, shape)
    if not callable(module) or isinstance(module, type):
        raise TypeError(
            "from_trained takes a trained module of Flax or Equinox, or a function (params, x) of its "
            f"parameters and a batch; got {module!r}."
        )
    _require_params(params, "a function", "params=, the pytree that it takes first")
    return Parts(params, module)


def _linen(
    linen: Any, module: Any, variables: Params | None, call: Call | None, shape: Shape
) -> Parts:
    _require_params(
        variables, "a module of flax.linen", "params=variables, as module.init gives them"
    )
    found: dict[str, Any] = dict(variables or {})
    if "params" not in found:
        found = {"params": found}
    params = found.pop("params")
    return Parts(params, lambda own, x: module.apply({"params": own, **found}, x, method=call))


def _nnx(nnx: Any, module: Any, params: Params | None, call: Call | None, shape: Shape) -> Parts:
    _refuse_params(params)
    graphdef, own, rest = nnx.split(module, nnx.Param, ...)
    called = call or (lambda module, x: module(x))

    def made(params: Params) -> Any:
        return nnx.merge(graphdef, nnx.State(params), rest)

    values = nnx.to_pure_dict(own)
    check_stateless(nnx, lambda key: made(values), called, shape)
    return Parts(values, lambda params, x: called(made(params), x))


def _equinox(
    eqx: Any, module: Any, params: Params | None, call: Call | None, shape: Shape
) -> Parts:
    _refuse_params(params)
    own, rest = eqx.partition(module, eqx.is_inexact_array)
    called = call or (lambda module, x: module(x))

    def apply(params: Params, x: Array) -> Array:
        whole = eqx.combine(params, rest)
        return jax.vmap(lambda example: called(whole, example))(x)

    return Parts(own, apply)


def _require_params(params: Params | None, what: str, give: str) -> None:
    if params is None:
        raise TypeError(f"{what} does not hold its parameters: give from_trained {give}.")


def _refuse_params(params: Params | None) -> None:
    if params is not None:
        raise TypeError(
            "this module holds its parameters: leave params out of from_trained, and give the module "
            "as it is after training."
        )
