"""Models as files: one JSON file and one of arrays, written whole or not at all, never a pickle."""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ntkgp import __version__
from ntkgp.core.files import replacing
from ntkgp.estimators.base import TableEstimator
from ntkgp.estimators.ensemble_classifier import EnsembleClassifier
from ntkgp.estimators.ensemble_regressor import EnsembleRegressor
from ntkgp.estimators.gp_classifier import GPClassifier
from ntkgp.estimators.gp_regressor import GPRegressor
from ntkgp.estimators.preparation import Scaler, users_network
from ntkgp.estimators.serialization import NetworkNeeded, Packed, pack, unpack
from ntkgp.networks.layered import LayeredNetwork
from ntkgp.networks.protocol import Network

FORMAT = 1
_MODEL = "model.json"
_ARRAYS = re.compile(r"arrays-[0-9a-f]{12}\.safetensors")
_CLASSES = {
    kind.__name__: kind
    for kind in (EnsembleRegressor, EnsembleClassifier, GPRegressor, GPClassifier)
}


def save(model: TableEstimator, directory: str | os.PathLike[str]) -> None:
    """Write a fitted model into a directory, which is made if need be.

    A model that is there already is replaced in one step: a crash or a full disk leaves it as it
    was. Constructor arguments that are code (a network's factory, a trainer) are not saved.
    """
    from safetensors.numpy import save as to_bytes
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    packed = pack({"params": _plain_params(model), "fitted": _fitted(model)})
    data = to_bytes(packed.arrays)
    digest = hashlib.sha256(data).hexdigest()
    arrays = {"file": f"arrays-{digest[:12]}.safetensors", "sha256": digest}
    body = {"class": type(model).__name__, "arrays": arrays, "model": packed.plain}
    document = {
        "format": FORMAT,
        "ntkgp_version": __version__,
        "sha256": _digest_of(body),
        "body": body,
    }
    text = json.dumps(document, allow_nan=False) + "\n"
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    _write_both(folder, arrays["file"], data, text.encode())


def _write_both(folder: Path, name: str, arrays: bytes, document: bytes) -> None:
    """Arrays beside the old ones, then the document that names them, then the old ones go."""
    is_new = not (folder / name).exists()
    _write(folder / name, arrays)
    try:
        _write(folder / _MODEL, document)
    except BaseException:
        if is_new:
            (folder / name).unlink()
        raise
    for old in folder.iterdir():
        if _ARRAYS.fullmatch(old.name) and old.name != name:
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
    with _in_words(folder):
        packed = Packed(body["model"], _read_arrays(folder, body["arrays"]))
        shapes = _shapes(packed)
    net = None if network is None else users_network(network, *shapes)
    with _in_words(folder):
        model = _rebuild(body["class"], packed, net)
    if network is not None:
        if model.fitted_network() != net:
            raise ValueError(
                f"network is not the one that was trained, which is in {folder}: leave it out."
            )
        model.network = network
    return model


@contextmanager
def _in_words(folder: Path) -> Iterator[None]:
    """What a file of the right checksum and the wrong content would raise, as a ValueError."""
    try:
        yield
    except NetworkNeeded:
        raise NetworkNeeded(
            f"the network of the model in {folder} is not made of ntkgp's layers, so its code is not "
            "in the file: pass network=, the same as when the model was made."
        ) from None
    except (LookupError, TypeError, AttributeError, RecursionError, ValueError) as error:
        raise ValueError(f"the model in {folder} cannot be read: {error}") from error


def _rebuild(class_name: Any, packed: Packed, net: Network | None) -> TableEstimator:
    if class_name not in list(_CLASSES):
        raise ValueError(f"unknown class {class_name!r}; known are {', '.join(_CLASSES)}.")
    content = unpack(packed, net)
    model = _CLASSES[class_name](**content["params"])
    for name, value in content["fitted"].items():
        if not _is_fitted_name(name):
            raise ValueError(f"{name!r} is no name of what a model learns.")
        setattr(model, name, Scaler(**value) if name.endswith("_scaler_") else value)
    return model


def _shapes(packed: Packed) -> tuple[tuple[int, ...], int]:
    """Shape of an input and number of outputs of the saved model's network."""
    fitted = packed.plain["of"]["fitted"]["of"]
    shape = unpack(Packed(fitted["input_shape_"], packed.arrays))
    return shape, fitted["output_dim_"]


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
    values = {name: value for name, value in vars(model).items() if _is_fitted_name(name)}
    return {
        name: value._asdict() if isinstance(value, Scaler) else value
        for name, value in values.items()
    }


def _is_fitted_name(name: str) -> bool:
    """Whether this is scikit-learn's form of a name for what `fit` learns."""
    return name.endswith("_") and not name.startswith("_")


def _write(path: Path, data: bytes) -> None:
    with replacing(path) as file:
        file.write(data)


def _read_document(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"no model in {path.parent}: it has no file {path.name}.")
    try:
        document = json.loads(path.read_bytes())
        version = document["format"]
        if version == FORMAT:
            digest, body = document["sha256"], document["body"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(
            f"{path} is not a model of ntkgp, or was cut short. Save the model again."
        ) from None
    if version != FORMAT:
        raise ValueError(
            f"{path} has format {version!r}, written by ntkgp "
            f"{document.get('ntkgp_version', 'of an unknown version')}; this is ntkgp {__version__}, "
            f"which reads format {FORMAT}. Install the version that wrote it."
        )
    if digest != _digest_of(body):
        raise ValueError(
            f"{path} was changed after it was saved: its checksum does not match. Save again."
        )
    return body


def _digest_of(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _read_arrays(folder: Path, entry: dict[str, str]) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    if not _ARRAYS.fullmatch(entry["file"]):
        raise ValueError(f"{entry['file']!r} is not the name of a file of arrays beside {_MODEL}.")
    path = folder / entry["file"]
    if not path.is_file():
        raise FileNotFoundError(f"the arrays of the model are missing: no file {path}.")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise ValueError(
            f"{path} is damaged: its checksum does not match that in {_MODEL}. Copy or save it again."
        )
    try:
        return from_bytes(data)
    except SafetensorError as error:
        raise ValueError(f"{path} is no file of safetensors: {error}.") from None
