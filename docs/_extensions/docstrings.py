"""Docstrings as the package writes them, made into what Sphinx reads.

They have paragraphs, `code`, lists, Google's sections, examples that run, and formulas: lines that are
indented, or aligned by runs of blanks. Formulas become literal blocks, and characters that mean something
to reStructuredText are escaped.
"""

import re
from typing import Any

from numpy.typing import ArrayLike, NDArray
from sphinx.util.typing import stringify_annotation

SECTION = re.compile(r"(Args|Options|Attributes|Returns|Yields|Raises):$")
ALIGNED = re.compile(r"\S {2,}\S")
CODE = re.compile(r"(`[^`]*`)")
COLON = "\ue000"
"""Stands for the first colon of an attribute's docstring, before which napoleon would expect a type."""

ALIASES = {
    stringify_annotation(ArrayLike, "smart"): "ArrayLike",
    stringify_annotation(ArrayLike, "fully-qualified-except-typing"): "ArrayLike",
    stringify_annotation(NDArray[Any], "smart"): "NDArray",
    stringify_annotation(NDArray[Any], "fully-qualified-except-typing"): "NDArray",
}


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip())


def escaped(line: str) -> str:
    """Outside of code, what would be emphasis, a substitution or a reference.

    >>> escaped("`a_` is (n, *shape), b_ of |x|")
    '`a_` is (n, \\\\*shape), b\\\\_ of \\\\|x\\\\|'
    """
    parts = CODE.split(line.replace("\\", "\\\\"))
    parts[::2] = [re.sub(r"([*|]|(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
    return re.sub(r"(`[^`]*`)(?=\w)", r"\1\\ ", "".join(parts))


def blocks(lines: list[str]) -> list[list[str]]:
    """Runs of lines between blank ones."""
    found: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [block for block in found if block]


def is_formula(block: list[str]) -> bool:
    """Whether the block is laid out by hand.

    >>> is_formula(["finite:    z = x W", "infinite:  K' = K"]), is_formula(["Some words.", "More."])
    (True, False)
    """
    if SECTION.match(block[0].strip()) or block[0].lstrip().startswith(("- ", ">>>")):
        return False
    return indent_of(block[0]) >= 4 or any(ALIGNED.search(line) for line in block)


def converted(lines: list[str]) -> list[str]:
    """The docstring in reStructuredText.

    >>> converted(["A line.", "", "    y = f(x)   + noise", "", "End."])
    ['A line.', '', '::', '', '        y = f(x)   + noise', '', 'End.', '']
    """
    result: list[str] = []
    in_section = False
    for block in blocks(lines):
        in_section = bool(SECTION.match(block[0])) or (in_section and indent_of(block[0]) > 0)
        if block[0].lstrip().startswith(">>>"):
            result += [*block, ""]
        elif not in_section and is_formula(block):
            result += ["::", "", *("    " + line for line in block), ""]
        else:
            result += [*(escaped(line) for line in block), ""]
    return result


def convert(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = converted(lines)
    if what in ("attribute", "property"):
        lines[:1] = [lines[0].replace(":", COLON, 1)] if lines else []


def put_back(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = [line.replace(COLON, ":") for line in lines]


def shortened(signature: str | None) -> str | None:
    """NumPy's aliases by their names, not by what they stand for."""
    for alias, name in ALIASES.items():
        signature = signature and signature.replace(alias, name)
    return signature


def shorten(
    app: Any,
    what: str,
    name: str,
    obj: Any,
    options: Any,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    return shortened(signature), shortened(returns)


def leave_out(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """scikit-learn documents its own methods."""
    return True if str(getattr(obj, "__module__", "")).startswith("sklearn.") else None


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", convert, priority=400)  # before napoleon's
    app.connect("autodoc-process-docstring", put_back, priority=600)
    app.connect("autodoc-process-signature", shorten)
    app.connect("autodoc-skip-member", leave_out)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
