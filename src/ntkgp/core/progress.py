"""The progress bar of long work."""

import re
import sys
from typing import Any

_CONTROL = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]"
)


def progress_bar(total: int, description: str, shown: bool) -> Any:
    """A tqdm bar on standard error, if that is a terminal."""
    from tqdm.auto import tqdm

    # None: shown on a terminal, silent in a log file.
    return tqdm(total=total, desc=description, disable=None if shown else True, leave=False)


def note(text: str, shown: bool) -> None:
    """Print a line on standard error, if progress was asked for."""
    if shown:
        print(printable(text), file=sys.stderr)


def printable(text: str) -> str:
    """Text that does to a terminal nothing but be read: control characters, of files, as codes.

    >>> printable("a line\\n\\tand \\x1b[31m")
    'a line\\n\\tand \\\\x1b[31m'
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
