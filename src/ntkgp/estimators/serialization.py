"""Trained things as plain data, JSON beside arrays, and back. Nothing here can run code from a file."""

import dataclasses
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ntkgp.ensembles.ensemble import Ensemble
from ntkgp.ensembles.member import Baselearner, Member
from ntkgp.ensembles.methods import METHODS
from ntkgp.ensembles.noise import ConstantNoise, LearnedNoise
from ntkgp.kernels.panels import Panels
from ntkgp.kernels.solvers import (
    Cholesky,
    CholeskyInverse,
    ConjugateGradients,
    IterativeInverse,
    NystromInverse,
    Refined,
)
from ntkgp.kernels.training_kernel import TrainingKernel
from ntkgp.laws.exact import Posterior
from ntkgp.networks import layers
from ntkgp.networks.layered import LayeredNetwork
from ntkgp.networks.protocol import Network

_NOISE = {kind.__name__: kind for kind in (ConstantNoise, LearnedNoise)}
_LAYERS = {
    name: kind
    for name, kind in vars(layers).items()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and issubclass(kind, layers.Layer)
}


class Packed(NamedTuple):
    """A thing as plain data."""

    plain: Any
    """What JSON holds; arrays are named in it."""
    arrays: dict[str, NDArray[Any]]


_POSTERIOR = {
    "net",
    "law",
    "noise_std",
    "x",
    "y",
    "target_var",
    "_prior",
    "_inverse",
    "weights",
}


class NetworkNeeded(ValueError):
    """The network is not made of ntkgp's layers, so its code must be given again."""


def pack(value: Any) -> Packed:
    """Numbers, strings, arrays, tuples, networks of layers, ensembles and posteriors as plain data."""
    arrays: dict[str, NDArray[Any]] = {}
    return Packed(_pack(value, arrays), arrays)


def unpack(packed: Packed, network: Network | None = None) -> Any:
    """What `pack` was given. `network` stands in for one that is not made of ntkgp's layers."""
    return _unpack(packed.plain, packed.arrays, network)


def _pack(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    if isinstance(value, np.generic):
        return _pack(value.item(), arrays)
    if isinstance(value, float) and not isfinite(value):
        return {"kind": "float", "of": str(value)}  # JSON has no name for it
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (np.ndarray, jax.Array)):
        return _pack_array(np.asarray(value), arrays)
    for name, kind in _KINDS.items():
        if isinstance(value, kind.type):
            return {"kind": name, "of": _pack(kind.to_plain(value), arrays)}
    if isinstance(value, (tuple, list)):
        sequence = "tuple" if isinstance(value, tuple) else "list"
        return {"kind": sequence, "of": [_pack(item, arrays) for item in value]}
    if isinstance(value, dict):
        return {"kind": "dict", "of": {key: _pack(item, arrays) for key, item in value.items()}}
    raise TypeError(f"cannot be saved: {type(value).__name__} {value!r}.")


def _unpack(plain: Any, arrays: dict[str, NDArray[Any]], network: Network | None) -> Any:
    if not isinstance(plain, dict):
        return plain
    kind, of = plain["kind"], plain["of"]
    if kind == "float":
        return float(of)
    if kind == "array":
        return _named("array", of, arrays)
    if kind == "transposed":
        return _named("array", of, arrays).T
    if kind == "strings":
        return np.array(of["values"], dtype=of["dtype"])
    if kind == "tuple":
        return tuple(_unpack(item, arrays, network) for item in of)
    if kind == "list":
        return [_unpack(item, arrays, network) for item in of]
    if kind == "dict":
        return {key: _unpack(item, arrays, network) for key, item in of.items()}
    return _named("kind", kind, _KINDS).from_plain(_unpack(of, arrays, network), network)


def _named(what: str, name: Any, table: Mapping[str, Any]) -> Any:
    """The entry of that name, or an error that lists them: names in a file are the file's word only."""
    if not isinstance(name, str) or name not in table:
        raise ValueError(f"the file has an unknown {what}, {name!r}; known are {', '.join(table)}.")
    return table[name]


def _pack_array(array: NDArray[Any], arrays: dict[str, NDArray[Any]]) -> Any:
    if array.dtype.kind in "fiub" and array.dtype.itemsize <= 8:
        # The layout in memory comes back too: sums in another order round otherwise.
        transposed = array.flags.f_contiguous and not array.flags.c_contiguous
        stored = array.T if transposed else np.asarray(array, order="C")
        same = (name for name, kept in arrays.items() if kept is stored)
        name = next(same, f"array_{len(arrays)}")  # what stands in two places is kept once
        arrays[name] = stored
        return {"kind": "transposed" if transposed else "array", "of": name}
    if array.dtype.kind in "UO" and all(isinstance(item, str) for item in array.ravel()):
        of = {"values": array.tolist(), "dtype": array.dtype.str}
        return {"kind": "strings", "of": of}
    raise TypeError(
        f"an array of dtype {array.dtype} cannot be saved: use numbers or strings, for classes too."
    )


class _Kind(NamedTuple):
    type: Any
    to_plain: Callable[[Any], Any]
    from_plain: Callable[[Any, Network | None], Any]


def _layer_to_plain(layer: layers.Layer) -> dict[str, Any]:
    fields = {f.name: getattr(layer, f.name) for f in dataclasses.fields(layer)}  # type: ignore[arg-type]
    return {"name": type(layer).__name__, "fields": fields}


def _layer_from_plain(plain: dict[str, Any], _: Network | None) -> layers.Layer:
    return _named("layer", plain["name"], _LAYERS)(**plain["fields"])


def _network_to_plain(net: LayeredNetwork) -> dict[str, Any]:
    return {"input_shape": net.input_shape, "body": net.body.layers, "readout": net.last}


def _learner_to_plain(learner: Baselearner) -> dict[str, Any]:
    return {
        "net": learner.net if isinstance(learner.net, LayeredNetwork) else None,
        "method": next(name for name, method in METHODS.items() if method == learner.method),
        "noise_std": float(learner.noise_std),
        "weight_decay": float(learner.weight_decay),
        "noise": type(learner.noise).__name__,
    }


def _learner_from_plain(plain: dict[str, Any], network: Network | None) -> Baselearner:
    net = plain["net"] if plain["net"] is not None else network
    if net is None:
        raise NetworkNeeded("the network is not made of ntkgp's layers")
    method = _named("method", plain["method"], METHODS)
    noise = _named("noise", plain["noise"], _NOISE)
    return Baselearner(net, method, plain["noise_std"], plain["weight_decay"], noise())


def _ensemble_to_plain(ensemble: Ensemble) -> dict[str, Any]:
    plain = {f.name: getattr(ensemble, f.name) for f in dataclasses.fields(ensemble)}
    sets = {"theta": ensemble.theta, **ensemble.member._asdict()}
    del plain["theta"], plain["member"]
    return plain | {
        "parameters": {
            name: None if params is None else tuple(jax.tree.leaves(params))
            for name, params in sets.items()
        },
        "probe": None if isinstance(ensemble.learner.net, LayeredNetwork) else _probe(ensemble),
    }


def _probe(ensemble: Ensemble) -> NDArray[Any]:
    """Outputs at a few inputs, by which a network that is given again is known."""
    shape = ensemble.learner.net.input_shape
    return ensemble.outputs(np.random.default_rng(0).standard_normal((3, *shape)))


def _ensemble_from_plain(plain: dict[str, Any], _: Network | None) -> Ensemble:
    learner = plain["learner"]
    expected = jax.eval_shape(learner.net.init, jax.random.key(0))
    k = len(plain["indices"])

    def rebuild(leaves: tuple[NDArray[Any], ...] | None) -> Any:
        if leaves is None:
            return None
        shapes = [(k, *leaf.shape) for leaf in jax.tree.leaves(expected)]
        if [leaf.shape for leaf in leaves] != shapes:
            raise ValueError(
                "the network does not have the saved parameters' shapes: give the one that was "
                "trained."
            )
        treedef = jax.tree.structure(expected)
        return jax.tree.unflatten(treedef, [jnp.asarray(leaf) for leaf in leaves])

    sets = {name: rebuild(leaves) for name, leaves in plain.pop("parameters").items()}
    probe = plain.pop("probe")
    ensemble = Ensemble(theta=sets.pop("theta"), member=Member(**sets), **plain)
    if probe is not None:
        tolerance = 1e-2 * np.max(np.abs(probe))  # another computer rounds otherwise
        if not np.allclose(_probe(ensemble), probe, rtol=0, atol=tolerance):
            raise ValueError(
                "the network has the saved parameters' shapes but predicts otherwise with them: "
                "give the one that was trained."
            )
    return ensemble


def _posterior_from_plain(plain: dict[str, Any], _: Network | None) -> Posterior:
    if plain.keys() != _POSTERIOR:
        odd = ", ".join(sorted(plain.keys() ^ _POSTERIOR))
        raise ValueError(f"the file's posterior lacks parts or has others than its own: {odd}.")
    return Posterior.from_state(plain)


def _dataclass_kind(kind: Any) -> _Kind:
    """A dataclass by its fields."""

    def to_plain(value: Any) -> dict[str, Any]:
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}

    return _Kind(kind, to_plain, lambda plain, _: kind(**plain))


_KINDS = {
    "layer": _Kind(layers.Layer, _layer_to_plain, _layer_from_plain),
    "network": _Kind(LayeredNetwork, _network_to_plain, lambda plain, _: LayeredNetwork(**plain)),
    "learner": _Kind(Baselearner, _learner_to_plain, _learner_from_plain),
    "ensemble": _Kind(Ensemble, _ensemble_to_plain, _ensemble_from_plain),
    "posterior": _Kind(Posterior, Posterior.state, _posterior_from_plain),
    "cholesky": _dataclass_kind(Cholesky),
    "refined": _dataclass_kind(Refined),
    "conjugate gradients": _dataclass_kind(ConjugateGradients),
    "panels": _dataclass_kind(Panels),
    "training kernel": _dataclass_kind(TrainingKernel),
    "cholesky inverse": _dataclass_kind(CholeskyInverse),
    "nystrom inverse": _dataclass_kind(NystromInverse),
    "iterative inverse": _dataclass_kind(IterativeInverse),
}
