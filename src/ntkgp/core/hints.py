"""Whether values have the types that annotations declare: for what comes from files."""

import types
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import jax
import numpy as np


def misfit(kind: Any, fields: Mapping[str, Any]) -> str | None:
    """The first field or argument that has not the type that a class or function declares; else None.

    >>> from typing import NamedTuple
    >>> class Box(NamedTuple):
    ...     size: float
    ...     words: tuple[str, ...] = ()
    >>> misfit(Box, {"size": 2, "words": ("a", "b")})
    >>> misfit(Box, {"size": "2"})
    "the text '2' as size, which must be float."
    >>> misfit(Box, {"size": 10**12})
    'a int as size, which must be float.'
    """
    hints = _hints(kind)
    for name, value in fields.items():
        hint = hints.get(name, Any)
        if not fits(value, hint):
            words = f"the text {value[:40]!r}" if isinstance(value, str) else f"a {_kind(value)}"
            return f"{words} as {name}, which must be {_name(hint)}."
    return None


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the annotated type. What is not understood fits."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if origin is Literal:
        return any(type(value) is type(part) and value == part for part in parts)
    if origin is tuple:
        return isinstance(value, tuple) and _all_fit(value, parts)
    if origin in (list, Sequence):
        return isinstance(value, (list, tuple)) and all(fits(item, parts[0]) for item in value)
    if origin in (dict, Mapping):
        return isinstance(value, dict) and all(fits(item, parts[1]) for item in value.values())
    if hint is None or hint is types.NoneType:
        return value is None
    if hint is float:
        return isinstance(value, float) or _is_whole(value, 2**31)  # JAX takes it for an int32
    if hint is int:
        return _is_whole(value, 2**63)
    if origin is np.ndarray or _is_array_type(hint):
        return isinstance(value, (np.ndarray, jax.Array))
    if isinstance(hint, type) and hint is not object and not is_typeddict(hint):
        return _is_instance(value, hint)
    return True


def _is_whole(value: Any, bound: int) -> bool:
    """A whole number that programs can compute with."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < bound


def _all_fit(values: tuple[Any, ...], parts: tuple[Any, ...]) -> bool:
    if len(parts) == 2 and parts[1] is ...:
        return all(fits(value, parts[0]) for value in values)
    return len(values) == len(parts) and all(map(fits, values, parts))


def _is_array_type(hint: Any) -> bool:
    """NumPy's, JAX's or one of jaxtyping, which has a dtype and a shape."""
    return hint in (np.ndarray, jax.Array) or hasattr(hint, "array_type")


def _is_instance(value: Any, hint: type) -> bool:
    try:
        return isinstance(value, hint)
    except TypeError:  # a protocol that cannot be asked
        return True


@lru_cache(maxsize=256)
def _hints(kind: Any) -> Mapping[str, Any]:
    try:
        return get_type_hints(kind)
    except NameError:  # a name that only type checkers import
        return {}


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def _name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
