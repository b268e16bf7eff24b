"""Models as files: one JSON file and one of arrays, written whole or not at all, never a pickle."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from ntkgp import __version__
from ntkgp.estimators.base import TableEstimator
from ntkgp.estimators.classification import EnsembleClassifier, GPClassifier
from ntkgp.estimators.preparation import Scaler
from ntkgp.estimators.regression import EnsembleRegressor, GPRegressor
from ntkgp.networks import LayeredNetwork, Network
from ntkgp.serialization import NetworkNeeded, Packed, pack, unpack

FORMAT = 1
_MODEL = "model.json"
_CLASSES = {
    kind.__name__: kind
    for kind in (EnsembleRegressor, EnsembleClassifier, GPRegressor, GPClassifier)
}


def save(model: TableEstimator, directory: str | os.PathLike[str]) -> None:
    """Write a fitted model into a directory, which is made if need be.

    A model that is there already is replaced in one step: a crash or a full disk leaves it as it
    was. Constructor arguments that are code (a network's factory, a trainer) are not saved.
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    packed = pack({"params": _plain_params(model), "fitted": _fitted(model)})
    arrays = _write_arrays(folder, packed)
    body = {"class": type(model).__name__, "arrays": arrays, "model": packed.plain}
    document = {
        "format": FORMAT,
        "ntkgp_version": __version__,
        "sha256": _digest_of(body),
        "body": body,
    }
    text = json.dumps(document, allow_nan=False) + "\n"
    _replace(folder / _MODEL, text.encode())
    for old in folder.glob("arrays-*.safetensors"):
        if old.name != arrays["file"]:
            old.unlink()


def load(directory: str | os.PathLike[str], network: Any = None) -> Any:
    """Read a model that `save` wrote.

    Args:
        directory: where it is.
        network: for a model whose network is not made of ntkgp's layers: the same `Network`, or
            function (input_shape, output_dim), that it was constructed with.

    Nothing in the files is executed. A file that is damaged, edited, newer than this version or
    of another kind is refused with the reason.
    """
    folder = Path(directory)
    body = _read_document(folder / _MODEL)
    packed = Packed(body["model"], _read_arrays(folder, body["arrays"]))
    try:
        model = _rebuild(body["class"], packed, network)
    except NetworkNeeded:
        raise NetworkNeeded(
            f"the network of the model in {folder} is not made of ntkgp's layers, so its code is not "
            "in the file: pass network=, the same as when the model was made."
        ) from None
    return model


def _rebuild(class_name: str, packed: Packed, network: Any) -> TableEstimator:
    net = network if isinstance(network, Network) or network is None else _built(packed, network)
    content = unpack(packed, net)
    model = _CLASSES[class_name](**content["params"])
    if network is not None:
        model.network = network
    for name, value in content["fitted"].items():
        setattr(model, name, Scaler(**value) if name.endswith("_scaler_") else value)
    return model


def _built(packed: Packed, factory: Any) -> Network:
    """The network that the user's factory makes for the saved shapes."""
    fitted = packed.plain["of"]["fitted"]["of"]
    shape = unpack(Packed(fitted["input_shape_"], packed.arrays))
    return factory(shape, unpack(Packed(fitted["output_dim_"], packed.arrays)))


def _plain_params(model: TableEstimator) -> dict[str, Any]:
    """Constructor arguments that are data. A network made of layers is, a factory is not."""
    params = model.get_params(deep=False)
    if params["network"] is not None:
        fitted = model.fitted_network()
        params["network"] = fitted if isinstance(fitted, LayeredNetwork) else None
    params.pop("trainer", None)
    if not isinstance(params["random_state"], (int, np.integer)):
        params["random_state"] = None
    return params


def _fitted(model: TableEstimator) -> dict[str, Any]:
    values = {
        name: value
        for name, value in vars(model).items()
        if name.endswith("_") and not name.startswith("_")
    }
    return {
        name: value._asdict() if isinstance(value, Scaler) else value
        for name, value in values.items()
    }


def _write_arrays(folder: Path, packed: Packed) -> dict[str, str]:
    from safetensors.numpy import save as to_bytes

    data = to_bytes(packed.arrays)
    digest = hashlib.sha256(data).hexdigest()
    name = f"arrays-{digest[:12]}.safetensors"
    _replace(folder / name, data)
    return {"file": name, "sha256": digest}


def _replace(path: Path, data: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _read_document(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"no model in {path.parent}: it has no file {path.name}.")
    try:
        document = json.loads(path.read_text())
        version, digest, body = document["format"], document["sha256"], document["body"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"{path} is not a model of ntkgp, or was cut short. Save the model again."
        ) from None
    if version != FORMAT:
        raise ValueError(
            f"{path} has format {version!r}, written by ntkgp {document.get('ntkgp_version')}; this "
            f"is ntkgp {__version__}, which reads format {FORMAT}. Install the version that wrote it."
        )
    if digest != _digest_of(body):
        raise ValueError(
            f"{path} was changed after it was saved: its checksum does not match. Save again."
        )
    return body


def _digest_of(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _read_arrays(folder: Path, entry: dict[str, str]) -> dict[str, Any]:
    from safetensors.numpy import load as from_bytes

    path = folder / Path(entry["file"]).name
    if not path.is_file():
        raise FileNotFoundError(f"the arrays of the model are missing: no file {path}.")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise ValueError(
            f"{path} is damaged: its checksum does not match that in {_MODEL}. Copy or save it again."
        )
    return from_bytes(data)
