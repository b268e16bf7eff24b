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
figure { margin: 1rem 0; max-width: 32rem } img { max-width: 100%; height: auto } figcaption { color: #555 }
.pair { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)) }
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


def heading(words: str) -> str:
    return f"<h2>{escape(words)}</h2>"


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


def picture(figure: "matplotlib.figure.Figure", shows: str) -> str:
    """A figure inside the page, with its caption, which is also what a reader without eyes hears."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=150)
    encoded = base64.b64encode(data.getvalue()).decode()
    return (
        f'<figure><img alt="{escape(shows)}" src="data:image/png;base64,{encoded}">'
        f"<figcaption>{escape(shows)}</figcaption></figure>"
    )


def side_by_side(*parts: str) -> str:
    """Parts beside each other where there is room, else one below the other."""
    return f'<div class="pair">{"".join(parts)}</div>'
