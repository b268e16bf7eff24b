"""What the documents point at exists: `path::Name.attr` references and relative links."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

REFERENCE = re.compile(r"([\w./-]+)::([A-Za-z_]\w*(?:\.\w+)*)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(\s*([^)\s]+)[^)]*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)


def definitions(body, prefix=""):
    """Dotted names that a module, and the classes in it, define: functions, classes, assignments."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield prefix + node.name
            yield from definitions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (name for target in targets for name in ast.walk(target))
            stored = (name for name in names if isinstance(getattr(name, "ctx", None), ast.Store))
            yield from (prefix + name.id for name in stored if isinstance(name, ast.Name))


def missing_references(text):
    """The references in a text whose file does not exist or does not define the name."""
    missing = []
    for path, name in REFERENCE.findall(text):
        file = ROOT / path
        if not file.is_file() or name not in definitions(ast.parse(file.read_text()).body):
            missing.append(f"{path}::{name}")
    return missing


def dead_links(text, folder):
    """The relative links in a text, seen from its folder, that lead to no file of the project."""
    dead = []
    for inline, reference in LINK.findall(CODE.sub("", text)):
        target = (inline or reference).partition("#")[0]
        if not target or re.match(r"[a-z]+:", target):  # a heading of this page, or a URL
            continue
        file = (folder / target).resolve()
        if not file.is_relative_to(ROOT.resolve()) or not file.exists():
            dead.append(target)
    return dead


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_references_are_defined(document):
    assert not missing_references(document.read_text())


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_relative_links_lead_somewhere(document):
    assert not dead_links(document.read_text(), document.parent)


@pytest.mark.parametrize("name", ["architecture.md", "notation.md", "paper-map.md"])
def test_there_are_references_to_check(name):
    assert len(REFERENCE.findall((ROOT / "docs" / name).read_text())) > 20


@pytest.mark.parametrize(
    "reference",
    [
        "src/ntkgp/nowhere.py::ExactLaw",
        "src/ntkgp::ExactLaw",
        "src/ntkgp/laws/exact.py::ExactLaws",
        "src/ntkgp/laws/exact.py::ExactLaw.predicts",
        "src/ntkgp/laws/exact.py::predict",  # a method, not a function
        "src/ntkgp/laws/table.py::Law.predict",  # of another class
        "src/ntkgp/laws/exact.py::check_inputs",  # imported, not defined
        "tests/laws/test_exact.py::test_proposition_3",
    ],
)
def test_a_made_up_reference_is_reported(reference):
    true = "src/ntkgp/laws/exact.py::ExactLaw.predict"
    assert missing_references(f"see `{true}` and `{reference}`.") == [reference]


def test_all_kinds_of_definition_are_found():
    """A constant, a field, a property and a parametrised test, with or without its parameter."""
    text = """
    `src/ntkgp/laws/table.py::LAWS`, `src/ntkgp/laws/table.py::Law.prior`,
    `src/ntkgp/laws/table.py::Law.is_posterior`,
    `tests/laws/test_exact.py::test_proposition_2[0.3-erf]`
    """
    assert len(REFERENCE.findall(text)) == 4
    assert not missing_references(text)


@pytest.mark.parametrize("link", ["nowhere.md", "../nowhere.md#top", "/etc", "../../"])
def test_a_dead_link_is_reported(link):
    dead = dead_links(f"[a](notation.md) [b]({link}) [c](https://example.org)", ROOT / "docs")
    assert dead == [link.partition("#")[0]]
    assert dead_links(f"[a]: {link}", ROOT / "docs") == dead


def test_code_is_not_taken_for_links():
    assert not dead_links("`f[0](x)`\n\n```python\nf[0](x)\n```\n[here](#top)", ROOT / "docs")
