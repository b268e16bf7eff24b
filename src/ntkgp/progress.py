"""The progress bar of long work."""

from typing import Any


def progress_bar(total: int, description: str, shown: bool) -> Any:
    """A tqdm bar on standard error, where that is a terminal."""
    from tqdm.auto import tqdm

    # None: shown on a terminal, silent in a log file.
    return tqdm(total=total, desc=description, disable=None if shown else True, leave=False)
