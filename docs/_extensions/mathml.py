"""Formulas as MathML, converted when the site is built: pages need no script and no network."""

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import SphinxError


def converted(latex: str, *, block: bool) -> str:
    """The formula as a <math> element; what the converter does not know is an error."""
    try:
        return tex2mathml(latex, as_block=block)
    except Exception as error:
        raise SphinxError(f"cannot convert the formula {latex!r}: {error}") from error


def inline(self: Any, node: nodes.math) -> None:
    self.body.append(converted(node.astext(), block=False))
    raise nodes.SkipNode


def block(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math">{converted(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
