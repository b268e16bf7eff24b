"""Values as plain data and back, and as files.

A file holds a value by its fields. Only classes that `storable` has registered go in and come out;
a file names them, and a name that is not registered is refused. So no file can run code. What comes out
must have the types that its class declares, and the parts must fit each other.
"""

import dataclasses
import inspect
import os
from collections.abc import Mapping
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from numpy.typing import NDArray

from ntkgp.core.hints import misfit
from ntkgp.core.model_files import read_model, write_model

_CLASSES: dict[str, type] = {}
"""The registered classes by name."""
_MODULES: dict[str, str] = {}
"""Modules of our own that register a class when they are imported, by the class's name."""

T = TypeVar("T")


class WrongNetwork(ValueError):
    """`load` was given no network where one is needed, or not the one that was saved."""


class Packed(NamedTuple):
    """A value as plain data."""

    plain: Any
    """What JSON holds; arrays are named in it."""
    arrays: dict[str, NDArray[Any]]


# Which classes go into files.


def storable(kind: type[T]) -> type[T]:
    """Let the values of a class be saved, alone or inside others, as a class decorator.

    The class is a frozen dataclass or a NamedTuple whose fields can be saved: numbers, strings,
    None, paths, tuples, lists, dicts, arrays, and values of storable classes. `load` finds the
    class by its name, so import the module that defines it first.

    A class that is not stored by its fields defines one or both of

        def __to_store__(self) -> dict[str, Any]
        def __from_store__(cls, stored: dict[str, Any], network: Any) -> value    # a classmethod

    where `network` is what `load` was given. It may also define

        def __check_stored__(self) -> None

    which `load` calls to refuse, by a ValueError, values that do not fit each other.

    >>> from dataclasses import dataclass
    >>> @ntkgp.storable
    ... @dataclass(frozen=True)
    ... class Scaled:
    ...     factor: float
    >>> unpack(pack(Scaled(2.0)))
    Scaled(factor=2.0)
    """
    name = kind.__name__
    other = _CLASSES.get(name, kind)
    if (other.__module__, other.__qualname__) != (kind.__module__, kind.__qualname__):
        raise ValueError(
            f"two storable classes have the name {name}, of {other.__module__} and of "
            f"{kind.__module__}: files know classes by name. Rename yours."
        )
    if not (hasattr(kind, "__to_store__") or _is_record(kind)):
        raise TypeError(
            f"{name} cannot be storable: it must be a frozen dataclass whose fields are the arguments "
            "of its constructor, or a NamedTuple, or define __to_store__ and __from_store__."
        )
    _CLASSES[name] = kind
    return kind


def _is_record(kind: type) -> bool:
    if issubclass(kind, tuple):
        return hasattr(kind, "_fields")
    parameters = getattr(kind, "__dataclass_params__", None)
    fields = dataclasses.fields(kind) if parameters and parameters.frozen else None  # type: ignore[arg-type]
    return fields is not None and set(inspect.signature(kind).parameters) == {
        field.name for field in fields
    }


def storable_when_imported(modules: Mapping[str, str]) -> None:
    """Say which modules of our own to import for classes, by name, that are not registered yet."""
    _MODULES.update(modules)


def is_storable(value: Any) -> bool:
    """Whether the value's own class is registered; its fields may still hold values of other classes."""
    return _CLASSES.get(type(value).__name__) is type(value)


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass or NamedTuple by name."""
    if isinstance(value, tuple):
        return value._asdict()  # type: ignore[attr-defined]
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _class_named(name: Any) -> Any:
    if isinstance(name, str) and name in _MODULES and name not in _CLASSES:
        import_module(_MODULES[name])
    if not isinstance(name, str) or name not in _CLASSES:
        raise ValueError(
            f"the file has a value of an unknown class, {name!r}. If the class is yours, decorate it "
            "with @ntkgp.storable and import its module before you load."
        )
    return _CLASSES[name]


# Values as plain data, and back.


def pack(value: Any) -> Packed:
    """A value as plain data, or a TypeError about the part of it that cannot be saved."""
    arrays: dict[str, NDArray[Any]] = {}
    return Packed(_pack(value, arrays), arrays)


def unpack(packed: Packed, network: Any = None) -> Any:
    """The value that `pack` was given. `network` replaces one whose code is not in the file."""
    return _unpack(packed.plain, packed.arrays, network)


def _pack(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    kind = type(value)
    if isinstance(value, np.generic):
        return _pack(value.item(), arrays)
    if kind is float and not isfinite(value):
        return {"kind": "float", "of": str(value)}  # JSON has no name for it
    if value is None or kind in (bool, int, float, str):
        return value
    if isinstance(value, (np.ndarray, jax.Array)):
        return _pack_array(np.asarray(value), arrays)
    if is_storable(value):
        stored = value.__to_store__() if hasattr(kind, "__to_store__") else fields_of(value)
        return {"class": kind.__name__, "fields": _pack_items(stored, arrays)}
    if isinstance(value, Path):
        return {"kind": "path", "of": str(value)}
    if kind in (tuple, list):
        return {"kind": kind.__name__, "of": [_pack(item, arrays) for item in value]}
    if kind is dict and all(type(key) is str for key in value):
        return {"kind": "dict", "of": _pack_items(value, arrays)}
    raise TypeError(
        f"a value of class {kind.__name__} cannot be saved. Numbers, strings, arrays and containers of "
        "them can, and classes of your own, frozen dataclasses or NamedTuples, that you decorate with "
        "@ntkgp.storable; code never."
    )


def _pack_items(items: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    return {key: _pack(item, arrays) for key, item in items.items()}


def _pack_array(array: NDArray[Any], arrays: dict[str, NDArray[Any]]) -> Any:
    if array.dtype.kind in "fiub" and array.dtype.itemsize <= 8:
        # The memory layout is restored too: sums in another order round differently.
        transposed = array.flags.f_contiguous and not array.flags.c_contiguous
        stored = array.T if transposed else np.asarray(array, order="C")
        same = (name for name, kept in arrays.items() if kept is stored)
        name = next(same, f"array_{len(arrays)}")  # an array that occurs twice is stored once
        arrays[name] = stored
        return {"kind": "transposed" if transposed else "array", "of": name}
    if array.dtype.kind in "UO" and all(isinstance(item, str) for item in array.ravel()):
        of = {"values": array.tolist(), "dtype": array.dtype.str}
        return {"kind": "strings", "of": of}
    raise TypeError(
        f"an array of dtype {array.dtype} cannot be saved: use numbers or strings, for classes too."
    )


def _unpack(plain: Any, arrays: dict[str, NDArray[Any]], network: Any) -> Any:
    if not isinstance(plain, dict):
        return plain
    if "class" in plain:
        kind = _class_named(plain["class"])
        fields = _unpack_items(plain["fields"], arrays, network)
        if hasattr(kind, "__from_store__"):
            value = kind.__from_store__(fields, network)
        else:
            _check_types(kind, fields)
            value = kind(**fields)
        if hasattr(kind, "__check_stored__"):
            value.__check_stored__()
        return value
    kind, of = plain["kind"], plain["of"]
    if kind == "float":
        return float(of)
    if kind == "path":
        return Path(of)
    if kind == "array":
        return _array_named(of, arrays)
    if kind == "transposed":
        return _array_named(of, arrays).T
    if kind == "strings":
        return _strings(of["values"], of["dtype"])
    if kind == "tuple":
        return tuple(_unpack(item, arrays, network) for item in of)
    if kind == "list":
        return [_unpack(item, arrays, network) for item in of]
    if kind == "dict":
        return _unpack_items(of, arrays, network)
    raise ValueError(f"the file has a value of an unknown kind, {kind!r}.")


def _check_types(kind: type, fields: dict[str, Any]) -> None:
    """Of our own classes only: others may hold what their annotations do not say."""
    if kind.__module__.partition(".")[0] == "ntkgp" and (reason := misfit(kind, fields)):
        raise ValueError(f"{kind.__name__} has {reason}")


def _strings(values: Any, dtype: Any) -> NDArray[Any]:
    """Of the kind that was saved; the width is that of the words, whatever the file says."""
    array = np.array(values, dtype=object)
    if dtype != "|O" and not str(dtype).lstrip("<>=|").startswith("U"):
        raise ValueError(f"the file has words of dtype {dtype!r}.")
    if not all(isinstance(word, str) for word in array.ravel()):
        raise ValueError("the file has something else among words.")
    return array if dtype == "|O" else array.astype(str)


def _unpack_items(items: Any, arrays: dict[str, NDArray[Any]], network: Any) -> dict[str, Any]:
    return {key: _unpack(item, arrays, network) for key, item in items.items()}


def _array_named(name: Any, arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
    if not isinstance(name, str) or name not in arrays:
        raise ValueError(f"the file has an unknown array, {name!r}.")
    return arrays[name]


# The files.


def save(value: Any, path: str | os.PathLike[str]) -> None:
    """Write a value into one file, or into `model.safetensors` of a directory.

    A model that is there already is replaced in one step: a crash or a full disk leaves it whole, and
    whoever reads it meanwhile reads the old one.
    """
    packed = pack(value)
    write_model(file_of(path), packed.plain, packed.arrays)


def load(path: str | os.PathLike[str], network: Any = None) -> Any:
    """Read what `save` wrote: an estimator, an ensemble or a law.

    Args:
        path: the file that `save` wrote, or the directory that has it.
        network: needed if the network is not made of ntkgp's layers, because its code is not in the
            file: the same `Network`, or function (input_shape, output_dim), as in training.

    Nothing in the file is executed. A file that is damaged, edited, of another format or of another
    kind is refused with the reason, and so is one whose content does not fit together.

    >>> import tempfile
    >>> x = np.linspace(-1, 1, 5)[:, None]
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     ntkgp.condition(ntkgp.mlp(1), x, np.sin(x)).save(f"{directory}/sine.safetensors")
    ...     ntkgp.load(f"{directory}/sine.safetensors")
    <ExactLaw ntkgp of 5 rows, 1 output, noise_std 0.1>
    """
    file = file_of(path)
    plain, arrays = read_model(file)
    try:
        return unpack(Packed(plain, arrays), network)
    except WrongNetwork as error:
        raise WrongNetwork(f"the model in {file} cannot be loaded: {error}") from error
    except (MemoryError, ModuleNotFoundError):
        raise
    except Exception as error:  # the checksum is right and the content wrong
        reason = str(error) or type(error).__name__
        raise ValueError(f"the model in {file} cannot be read: {reason}") from error


def file_of(path: str | os.PathLike[str]) -> Path:
    """The path itself, or the model's file in a directory."""
    return Path(path) / "model.safetensors" if Path(path).is_dir() else Path(path)
