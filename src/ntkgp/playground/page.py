"""The playground as one self-contained HTML page: no server, no network."""

import json
from importlib.resources import files
from pathlib import Path

from ntkgp.core.files import replacing
from ntkgp.data.toy import make_toy
from ntkgp.report import looks

MATHS = ("linalg.js", "activations.js", "kernels.js", "laws.js", "network.js", "training.js")
"""What is computed, in the order in which it is read. The page and its workers have it, and tests."""
UI = ("plot.js", "editing.js", "main.js")
COLOURS = ("BLUE", "RED", "GREEN", "ORANGE", "SKY")
"""Names in `looks` that the style sheet uses."""


def source(*names: str) -> str:
    """The text of source files of the page, one after the other."""
    folder = files("ntkgp.playground") / "web"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def page() -> str:
    """The whole page, with everything that it needs inside.

    >>> page().startswith("<!doctype html>")
    True
    """
    toy = make_toy().train
    points = {"x": toy.x[:, 0].tolist(), "y": toy.y[:, 0].tolist()}
    return _filled(
        source("page.html"),
        style=_filled(source("style.css"), **{name: getattr(looks, name) for name in COLOURS}),
        toy=json.dumps(points),
        maths=source(*MATHS),
        worker=source("worker.js"),
        ui=source(*UI),
    )


def _filled(text: str, **parts: str) -> str:
    """The text with a part in the place of each {{name}}."""
    for name, part in parts.items():
        text = text.replace("{{" + name + "}}", part)
    return text


def write(path: Path) -> Path:
    """Write the page into a file; return its absolute path."""
    with replacing(path) as file:
        file.write(page().encode())
    return path.resolve()
