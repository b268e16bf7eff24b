"""The source as pages of the site, and links to it: from names such as `src/ntkgp/x.py::Name`, and from
the API reference.

The pages show the name alone, with its file as a tooltip: whole paths would make tables too wide to read.
"""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

import ntkgp

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "benchmarks")
REFERENCE = re.compile(r"^((?:src|tests|benchmarks)/[\w/-]+\.py)(?:::([\w.]+)(?:\[.*\])?)?$")


def definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, int]]:
    """Dotted names that a module, and the classes in it, define, and the line of each.

    >>> dict(definitions(ast.parse("A = 1\\nclass B:\\n    c: int\\n    def d(self): ...").body))
    {'A': 1, 'B': 2, 'B.c': 3, 'B.d': 4}
    """
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield prefix + node.name, node.lineno
        if isinstance(node, ast.ClassDef):
            yield from definitions(node.body, f"{prefix}{node.name}.")
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (name for target in targets for name in ast.walk(target))
            yield from ((prefix + n.id, n.lineno) for n in names if isinstance(n, ast.Name))


@cache
def lines_of(path: str) -> dict[str, int]:
    return dict(definitions(ast.parse((ROOT / path).read_text("utf-8")).body))


def page_of(path: str) -> str:
    return "sources/" + path.removesuffix(".py")


def link_names(app: Any, doctree: nodes.document, docname: str) -> None:
    """Make links of names in the text; tests/test_docs.py sees to it that they exist."""
    if app.builder.format != "html":
        return
    for node in list(doctree.findall(nodes.literal)):
        match = REFERENCE.match(node.astext())
        if not match or not (ROOT / match[1]).is_file():
            continue
        path, name = match.groups()
        anchor = f"#L-{lines_of(path)[name]}" if name else ""
        uri = app.builder.get_relative_uri(docname, page_of(path)) + anchor
        link = nodes.reference("", "", refuri=uri, internal=True, reftitle=node.astext())
        link += nodes.literal("", re.sub(r"([_./])", "\\1\u200b", name or path))  # may break there
        node.replace_self(link)


def pages(app: Any) -> Iterable[tuple[str, dict[str, str], str]]:
    """One page for each file."""
    shown = HtmlFormatter(nowrap=True)
    for file in sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")):
        path = file.relative_to(ROOT).as_posix()
        lines = highlight(file.read_text("utf-8"), PythonLexer(stripnl=False), shown).splitlines()
        code = "\n".join(f'<span id="L-{i}">{line}</span>' for i, line in enumerate(lines, 1))
        body = f"<h1>{path}</h1><div class='highlight'><pre>{code}</pre></div>"
        yield page_of(path), {"title": path, "body": body}, "page.html"


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """Where the API reference finds the source of an object; its pages are all in one folder."""
    found: Any = ntkgp
    for part in f"{info['module']}.{info['fullname']}".split(".")[1:]:
        found = getattr(found, part, None)
    found = inspect.unwrap(found.fget if isinstance(found, property) else found)
    if not (inspect.isclass(found) or inspect.isroutine(found)):
        return None
    file = Path(inspect.getsourcefile(found) or "")
    if not file.is_relative_to(ROOT):
        return None
    line = inspect.getsourcelines(found)[1]
    return f"../{page_of(file.relative_to(ROOT).as_posix())}.html#L-{line}"


def setup(app: Any) -> dict[str, bool]:
    app.config.linkcode_resolve = linkcode_resolve
    app.setup_extension("sphinx.ext.linkcode")
    app.connect("doctree-resolved", link_names)
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
