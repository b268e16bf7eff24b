"""Run the pages of the gallery, and keep in them what they print and draw.

    python docs/gallery/run.py            # all of them: `make gallery`
    python docs/gallery/run.py toy table

The code of a page is that of its Python blocks, one after the other. `figure` is a Matplotlib figure by
the end, and becomes the page's picture. A block of text after a block of code is what the code printed.
"""

import ast
import io
import re
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib

FOLDER = Path(__file__).parent
CODE = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """The pages that have code."""
    return [page for page in sorted(FOLDER.glob("*.md")) if CODE.search(page.read_text("utf-8"))]


def with_settings(code: str, settings: dict[str, Any]) -> ast.Module:
    """The code with other values for some of its constants; those that it sets leave `settings`.

    >>> ast.unparse(with_settings("WIDTH = 256\\nprint(WIDTH)", {"WIDTH": 8}))
    'WIDTH = 8\\nprint(WIDTH)'
    """
    tree = ast.parse(code)
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in settings:
                node.value = ast.parse(repr(settings.pop(name)), mode="eval").body
    return ast.fix_missing_locations(tree)


def run(text: str, settings: Mapping[str, Any] = {}) -> tuple[list[str], Any]:
    """What each block of a page prints, and the figure that the page draws."""
    names: dict[str, Any] = {"__name__": "gallery"}
    left, printed = dict(settings), []
    for block in CODE.finditer(text):
        with redirect_stdout(io.StringIO()) as out:
            exec(compile(with_settings(block[1], left), "gallery", "exec"), names)
        printed.append(out.getvalue())
    if left:
        raise ValueError(f"the page sets no {', '.join(left)}")
    return printed, names["figure"]


def with_output(text: str, printed: list[str]) -> str:
    """The page with what its blocks printed."""
    outputs = iter(printed)

    def block(match: re.Match[str]) -> str:
        output = next(outputs)
        shown = f"\n```text\n{output.rstrip()}\n```\n" if output else ""
        return f"```python\n{match[1]}```\n{shown}"

    return CODE.sub(block, text)


def main() -> None:
    matplotlib.use("Agg")
    chosen = [FOLDER / f"{name}.md" for name in sys.argv[1:]] or pages()
    for page in chosen:
        started = time.perf_counter()
        text = page.read_text("utf-8")
        printed, figure = run(text)
        figure.savefig(page.with_suffix(".png"), dpi=110, bbox_inches="tight", facecolor="white")
        page.write_text(with_output(text, printed), "utf-8")
        print(f"{page.stem}: {time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
