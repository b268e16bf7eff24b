"""Fetching public files by checksum, with a progress bar."""

from collections.abc import Sequence
from pathlib import Path

from ntkgp.data.stored import Download


def fetch(downloads: Sequence[Download], folder: Path) -> None:
    """Put every file into the folder under its own name, unless it is there already.

    A file counts as there, or as fetched, only with the right checksum.
    """
    try:
        import pooch
    except ModuleNotFoundError:
        raise ModuleNotFoundError("downloading needs pooch: pip install 'ntkgp[data]'") from None
    for url, checksum in downloads:
        try:
            pooch.retrieve(
                url, checksum, fname=url.rpartition("/")[2], path=folder, progressbar=True
            )
        except (OSError, ValueError) as error:  # no connection, not found; another checksum
            offline = type(error).__name__ == "ConnectionError"  # its own message is obscure
            reason = "no connection" if offline else error
            raise OSError(f"could not download {url}: {reason}") from error
