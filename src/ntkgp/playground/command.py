"""`ntkgp playground`: the page in a browser, or in a file."""

import argparse
import webbrowser
from pathlib import Path
from typing import Any

from ntkgp.core.files import cache_dir
from ntkgp.playground.page import write


def add_to(commands: Any) -> None:
    """Give a command line the command `playground`."""
    playground = commands.add_parser(
        "playground", help="open a page in which ensembles are trained beside their exact laws"
    )
    playground.add_argument(
        "--out", type=Path, metavar="FILE", help="write the page into this file and open nothing"
    )
    playground.set_defaults(command=_playground)


def _playground(arguments: argparse.Namespace) -> None:
    """Write the page and print where it is; open it unless the user has named the file."""
    if arguments.out and arguments.out.is_dir():
        raise ValueError(
            f"--out takes a file to write, such as page.html; {arguments.out} is a directory."
        )
    path = write(arguments.out or cache_dir() / "playground.html")
    if not arguments.out and not webbrowser.open(path.as_uri()):
        print("No browser was found here. Open this file in one:")
    print(f"page: {path}")
