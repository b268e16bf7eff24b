"""Checks of configurations, before anything is computed."""

from collections.abc import Collection
from dataclasses import fields
from math import isfinite
from typing import Any

from ntkgp.ensembles.methods import METHODS


def check(config: Any, *, may_be_zero: Collection[str] = ()) -> None:
    """Refuse unknown methods, and numbers that are not finite or not above 0.

    >>> from ntkgp.experiments.widths import WidthsConfig
    >>> WidthsConfig(repeats=0)
    Traceback (most recent call last):
    ValueError: repeats must be above 0; got 0.
    """
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name == "methods":
            check_known("methods", value, METHODS)
        for number in value if isinstance(value, tuple) else (value,):
            if not isinstance(number, (int, float)) or isinstance(number, bool):
                continue
            zero = field.name in may_be_zero
            if not isfinite(number) or number < 0 or (number == 0 and not zero):
                least = "at least 0" if zero else "above 0"
                raise ValueError(f"{field.name} must be {least}; got {value!r}.")


def check_known(name: str, given: Collection[str], known: Collection[str]) -> None:
    """Refuse unknown words."""
    if unknown := [word for word in given if word not in known]:
        raise ValueError(f"{name} must be of {', '.join(known)}; got {', '.join(unknown)}.")
