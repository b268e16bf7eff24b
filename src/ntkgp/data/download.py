"""Fetching public files by checksum, with a progress bar."""

from collections.abc import Mapping, Sequence
from pathlib import Path


def fetch(urls: Sequence[str], digests: Mapping[str, Sequence[str]], folder: Path) -> None:
    """Put every file into the folder under its own name, unless it is there already.

    A file counts as there, or as fetched, only with the right checksum.
    """
    try:
        import pooch
    except ModuleNotFoundError:
        raise ModuleNotFoundError("downloading needs pooch: pip install 'ntkgp[data]'") from None
    for url in urls:
        name = url.rpartition("/")[2]
        try:
            pooch.retrieve(url, digests[name][0], fname=name, path=folder, progressbar=True)
        except (OSError, ValueError) as error:  # no connection, not found; another checksum
            offline = type(error).__name__ == "ConnectionError"  # its own message is obscure
            reason = "no connection" if offline else error
            raise OSError(f"could not download {url}: {reason}") from error
