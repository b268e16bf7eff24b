"""The site, as far as it can be checked without Sphinx: contents, anchors, API, links of built pages."""

import ast
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import ntkgp
from test_docs import CODE, LINK

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*") if path.suffix in (".md", ".rst"))
TOCTREE = re.compile(
    r"^(?:```\{toctree\}|\.\. toctree::)\n(.*?)(?:^```|\Z)", re.MULTILINE | re.DOTALL
)
DOCUMENTED = re.compile(r"^\.\. (?:auto\w+|py:data):: ntkgp\.(\S+)", re.MULTILINE)
PARTS = ("adapters", "data", "layers", "metrics")
"""Modules among the public names; what they export is public too."""


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_site = loaded(ROOT / "tools" / "check_site.py")


def entries(page):
    """The pages that the tables of contents of a page name."""
    for block in TOCTREE.findall(page.read_text()):
        for line in block.splitlines():
            name = re.sub(r".*<(.*)>", r"\1", line.strip())
            if name and not name.startswith(":"):
                yield from (page.parent / f"{name}{end}" for end in (".md", ".rst"))


def reached(page):
    found = {page}
    for entry in entries(page):
        if entry.exists():
            found |= reached(entry)
    return found


def test_every_page_is_in_the_table_of_contents():
    assert reached(DOCS / "index.md") == set(PAGES)


def test_every_entry_of_the_table_of_contents_is_a_page():
    for page in (DOCS / "index.md", DOCS / "api" / "index.rst"):
        markdown, rst = list(entries(page))[::2], list(entries(page))[1::2]
        assert markdown
        for pair in zip(markdown, rst, strict=True):
            assert any(path.exists() for path in pair), pair


def anchors(text):
    """What code hosts and the site call the headings of a page."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def wrong_anchors(text, page):
    """Links to headings that do not exist."""
    for inline, reference in LINK.findall(CODE.sub("", text)):
        target, _, anchor = (inline or reference).partition("#")
        file = (page.parent / target).resolve() if target else page
        if anchor and not re.match(r"[a-z]+:", target) and file.suffix == ".md":
            here = text if file == page else file.read_text()
            if anchor not in anchors(here):
                yield f"{target}#{anchor}"


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *PAGES], ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_links_to_headings_lead_to_one(page):
    assert not list(wrong_anchors(page.read_text(), page))


def test_a_link_to_no_heading_is_reported():
    page = DOCS / "guide" / "table.md"
    text = "# One\n[a](#one) [b](#two) [c](../results.md#speed) [d](../results.md#speeds)"
    assert list(wrong_anchors(text, page)) == ["#two", "../results.md#speeds"]


def test_what_pages_include_of_the_readme_is_there():
    """Marks between which parts of README.md are taken: each once, and in order."""
    readme = (ROOT / "README.md").read_text()
    found = 0
    for page in PAGES:
        for start, end in re.findall(
            r"\{include\} \S*README.md\n:start-after: \"(.*)\"\n:end-before: \"(.*)\"",
            page.read_text(),
        ):
            found += 1
            assert readme.count(f"\n{end}") == 1
            assert readme.index(start) < readme.index(end)
    assert found == 3


def public_names():
    """What `ntkgp` exports, and what its public modules do."""
    yield from set(ntkgp.__all__) - set(PARTS)
    for part in PARTS:
        for name, value in vars(getattr(ntkgp, part)).items():
            if not name.startswith("_") and not isinstance(value, ModuleType):
                yield f"{part}.{name}"


def test_the_reference_has_every_public_name_once():
    documented = [
        name for page in DOCS.glob("api/*.rst") for name in DOCUMENTED.findall(page.read_text())
    ]
    assert sorted(documented) == sorted(public_names())


def test_the_checker_finds_what_is_wrong_with_a_site(tmp_path):
    (tmp_path / "index.html").write_text(
        '<h1 id="top">A</h1><a href="#top">1</a><a href="b.html#end">2</a><img src="p.png">'
        '<a href="https://example.org">3</a><script src="https://example.org/s.js"></script>'
    )
    (tmp_path / "b.html").write_text('<a href="index.html#top">4</a><a href="c.html">5</a>')
    assert check_site.faults(tmp_path) == [
        "b.html: c.html leads to no file",
        "index.html: b.html#end leads to no such heading",
        "index.html: p.png leads to no file",
        "index.html: https://example.org/s.js is fetched from the network",
    ]
    (tmp_path / "b.html").write_text('<p id="end"></p>')
    (tmp_path / "index.html").write_text('<a href="b.html#end">2</a>')
    assert not check_site.faults(tmp_path)


def test_extensions_of_the_site_are_python_that_parses():
    """Their own examples run in `make docs`, where Sphinx is."""
    for path in (DOCS / "conf.py", *DOCS.glob("_extensions/*.py")):
        assert ast.get_docstring(ast.parse(path.read_text()))
