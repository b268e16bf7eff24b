"""The playground as a page of the site: `playground.html`, and inside its page of the guide."""

from pathlib import Path
from typing import Any

from ntkgp.playground.page import write

GUIDE = "guide/playground"
PICTURE = "![The playground](playground.png)"
ITSELF = """```{raw} html
<p><a class="playground-link" href="../playground.html">Open the playground in a page of its own</a></p>
<iframe class="playground" src="../playground.html" title="The playground"></iframe>
```"""


def put_in(app: Any, name: str, source: list[str]) -> None:
    """On a code host the guide shows a picture; here the playground takes its place."""
    if name == GUIDE and app.builder.format == "html":
        assert PICTURE in source[0], f"{GUIDE}.md has no line {PICTURE}"
        source[0] = source[0].replace(PICTURE, ITSELF)


def write_page(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        write(Path(app.outdir) / "playground.html")


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", put_in)
    app.connect("build-finished", write_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
