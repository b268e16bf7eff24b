"""One self-contained HTML page: claims beside measurements, then tables and figures."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from ntkgp.core.files import replacing
from ntkgp.report.figures import save_figure
from ntkgp.report.section import Section

STYLE = """
body { font: 16px/1.45 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
td, th { border-bottom: 1px solid #ccc; padding: .4rem .6rem; text-align: left; vertical-align: top }
pre { overflow-x: auto; background: #f6f6f6; padding: .8rem; font-size: 13px }
figure { margin: 1rem 0 }
img { max-width: 100% }
.verdict { white-space: nowrap; font-weight: bold }
.holds { color: #00664b } .does-not-hold { color: #a03c00 } .undecided { color: #555 }
"""
FOREWORD = (
    "The paper's claims beside what these runs measured. Verdicts follow from the numbers: a claim is "
    "undecided where its 95 % confidence interval over repeats contains the limit. ± is that interval."
)


@dataclass(frozen=True)
class Part:
    """One results file on a page."""

    title: str
    source: str
    """The results file, by name."""
    stem: str
    """The name of its figures' files."""
    section: Section
    readings: Sequence[str] = ()
    """How the paper is read, or departed from, in every preset."""
    departures: Sequence[str] | None = None
    """Settings that differ from the paper's; None if the paper has no such experiment."""
    made_by: Sequence[str] = ()
    """Configuration and versions."""

    def figures(self, out: Path) -> list[tuple[Path, str]]:
        """Where each figure is written, without .png or .svg, and what it shows."""
        drawings = self.section.drawings
        return [(out / f"{self.stem}{drawing.name}", drawing.shows) for drawing in drawings]


def write_page(heading: str, parts: Sequence[Part], out: Path, notes: Sequence[str] = ()) -> Path:
    """Write report.html into a folder, and every figure beside it; return the page's path."""
    for part in parts:
        for drawing, (stem, _) in zip(part.section.drawings, part.figures(out), strict=True):
            save_figure(drawing.figure, stem)
    body = [
        f"<h1>{escape(heading)}</h1>",
        f"<p>{escape(FOREWORD)}</p>",
        _claims(parts),
        *(f"<p>{escape(note)}</p>" for note in notes),
        *(_section(part, out) for part in parts),
    ]
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(heading)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )
    path = out / "report.html"
    with replacing(path) as file:
        file.write(text.encode())
    return path


def _claims(parts: Sequence[Part]) -> str:
    rows = "".join(
        f"<tr><td>{escape(part.title)}<br><small>{escape(claim.where)}; {escape(part.source)}</small>"
        f"</td><td>{escape(claim.says)}</td><td>{escape(claim.measured)}</td>"
        f'<td class="verdict {claim.verdict.replace(" ", "-")}">{claim.verdict}</td></tr>\n'
        for part in parts
        for claim in part.section.claims
    )
    head = "<tr><th>where</th><th>the paper says</th><th>measured</th><th>verdict</th></tr>"
    return f"<table>\n{head}\n{rows}</table>"


def _section(part: Part, out: Path) -> str:
    lines = [f"<h2>{escape(part.title)}</h2>", f"<p>Results file: {escape(part.source)}.</p>"]
    if part.departures is not None:
        changed = escape(", ".join(part.departures) or "none")
        lines.append(f"<p>Fields that differ from the preset of the paper: {changed}.</p>")
    if part.readings:
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in part.readings)
        lines.append("<p>How the paper is read, or departed from, in every preset:</p>")
        lines.append(f"<ul>{items}</ul>")
    for stem, shows in part.figures(out):
        picture = base64.b64encode(stem.with_name(f"{stem.name}.png").read_bytes()).decode()
        lines.append(
            f'<figure><img alt="{escape(stem.name)}" src="data:image/png;base64,{picture}">'
            f"<figcaption>{escape(shows)}</figcaption></figure>"
        )
    lines.append(f"<pre>{escape(part.section.text)}</pre>")
    made_by = "".join(f"<p>{escape(line)}</p>" for line in part.made_by)
    lines.append(f"<details><summary>configuration and versions</summary>{made_by}</details>")
    return "\n".join(lines)
