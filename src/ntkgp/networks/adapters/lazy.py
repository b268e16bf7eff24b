"""Optional libraries, imported when they are needed."""

from importlib import import_module
from typing import Any


def library(name: str) -> Any:
    """A module imported when it is needed, or an error that says how to install it.

    >>> library("math").sqrt(4.0)
    2.0
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        raise ImportError(
            f"this adapter needs {package}, which is not installed: pip install {package}"
        ) from error
