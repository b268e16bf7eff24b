"""The progress bar of long work."""

import sys
from typing import Any


def progress_bar(total: int, description: str, shown: bool) -> Any:
    """A tqdm bar on standard error, if that is a terminal."""
    from tqdm.auto import tqdm

    # None: shown on a terminal, silent in a log file.
    return tqdm(total=total, desc=description, disable=None if shown else True, leave=False)


def note(text: str, shown: bool) -> None:
    """Print a line on standard error, if progress was asked for."""
    if shown:
        print(text, file=sys.stderr)
