"""A self-contained page of sections: text, tables and pictures. Whatever comes in as text is escaped."""

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import matplotlib.figure

STYLE = """
:root { color-scheme: light }
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1b1b; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem }
h1 { line-height: 1.2; overflow-wrap: anywhere } h2 { margin-top: 2.5rem }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
td, th { border-bottom: 1px solid #ddd; padding: .35rem .5rem; text-align: right; vertical-align: top }
td:first-child, th:first-child { text-align: left; padding-left: 0 }
td { overflow-wrap: anywhere }
.wide td, .wide th { white-space: nowrap }
.words td, .words th { text-align: left }
.words th:first-child { min-width: 11rem }
pre { overflow-x: auto; background: #f6f6f6; padding: .8rem; font-size: 13px }
figure { margin: 1rem 0 } figcaption { color: #555; max-width: 45rem }
img { display: block; max-width: 100%; height: auto }
.pair { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)) }
.verdict { white-space: nowrap; font-weight: bold }
.holds { color: #00664b } .does-not-hold { color: #a03c00 } .undecided { color: #555 }
@media (max-width: 40rem) {
  .words tr:first-child { display: none }
  .words tr { display: block; border-bottom: 1px solid #bbb; padding: .6rem 0 }
  .words td { display: block; border: 0; padding: .15rem 0 }
  .words td[data-name]::before { content: attr(data-name) ": "; color: #555 }
  img.broad { max-width: none; width: 48rem }
}
"""


def document(title: str, parts: Iterable[str]) -> str:
    """A whole page; `parts` are HTML, made by the functions below.

    >>> page = document("a < b", [text("c & d")])
    >>> "<h1>a &lt; b</h1>" in page, "<p>c &amp; d</p>" in page
    (True, True)
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def heading(words: str, anchor: str = "") -> str:
    """A section's title; `contents` links to its anchor."""
    return (
        f'<h2 id="{escape(anchor)}">{escape(words)}</h2>' if anchor else f"<h2>{escape(words)}</h2>"
    )


def contents(entries: Sequence[tuple[str, str, str]]) -> str:
    """A list of (anchor, title, remark) that links to headings.

    >>> contents([("toy", "Toy <1>", "2 hold")])
    '<nav><ul><li><a href="#toy">Toy &lt;1&gt;</a> 2 hold</li></ul></nav>'
    """
    items = "".join(
        f'<li><a href="#{escape(anchor)}">{escape(title)}</a> {escape(remark)}</li>'
        for anchor, title, remark in entries
    )
    return f"<nav><ul>{items}</ul></nav>"


def text(words: str) -> str:
    return f"<p>{escape(words)}</p>"


def html_table(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows of the same columns; a wide one scrolls by itself.

    >>> html_table([{"column": "<age>", "size": "3"}])[:60]
    '<div class="wide"><table><tr><th>column</th><th>size</th></t'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(value)}</td>" for value in row.values()) + "</tr>\n"
        for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>\n{body}</table></div>'


def word_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns of words, whose cells are HTML; on a phone each row is a card of named lines."""
    first = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-name="{escape(name)}">{cell}</td>'
            for name, cell in zip(head, row, strict=True)
        )
        + "</tr>\n"
        for row in rows
    )
    return f'<table class="words"><tr>{first}</tr>\n{body}</table>'


def picture(figure: "matplotlib.figure.Figure", shows: str) -> str:
    """A figure inside the page in the size it was drawn for, with its caption, which is also its text.

    On a phone a broad one keeps a legible size and scrolls by itself.
    """
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=150)
    encoded = base64.b64encode(data.getvalue()).decode()
    inches = figure.get_figwidth()
    broad = ' class="broad"' if inches > 8 else ""
    return (
        f'<figure><div class="wide"><img{broad} width="{96 * inches:.0f}" alt="{escape(shows)}" '
        f'src="data:image/png;base64,{encoded}"></div>'
        f"<figcaption>{escape(shows)}</figcaption></figure>"
    )


def side_by_side(*parts: str) -> str:
    """Parts beside each other where there is room, else one below the other."""
    return f'<div class="pair">{"".join(parts)}</div>'
