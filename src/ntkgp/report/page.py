"""The page of a reproduction: claims beside measurements, then tables and figures."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from ntkgp.core.files import replacing
from ntkgp.report.claims import Claim, Verdict
from ntkgp.report.document import contents, document, heading, picture, text, word_table
from ntkgp.report.figures import save_figure
from ntkgp.report.section import Section

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


def write_page(title: str, parts: Sequence[Part], out: Path, notes: Sequence[str] = ()) -> Path:
    """Write report.html into a folder, and every figure beside it; return the page's path."""
    for part in parts:
        for drawing, (stem, _) in zip(part.section.drawings, part.figures(out), strict=True):
            save_figure(drawing.figure, stem)
    judged = [claim for part in parts for claim in part.section.claims]
    anchors = [f"part-{number}" for number in range(1, len(parts) + 1)]
    sections = [
        (anchor, part.title, f"({part.source}): {_count(part.section.claims)}")
        for anchor, part in zip(anchors, parts, strict=True)
    ]
    body = [
        text(FOREWORD),
        text(f"Of {len(judged)} claims {_count(judged)}."),
        contents(sections),
        *map(text, notes),
        _claims(parts),
        *(_section(part, anchor) for part, anchor in zip(parts, anchors, strict=True)),
    ]
    path = out / "report.html"
    with replacing(path) as file:
        file.write(document(title, body).encode())
    return path


def _count(claims: Sequence[Claim]) -> str:
    """How many claims have each verdict.

    >>> _count([Claim("1", "a", "b", Verdict("holds")), Claim("2", "a", "b", Verdict("undecided"))])
    '1 held, 0 did not hold, 1 undecided'
    """
    counts = Counter(claim.verdict.word for claim in claims)
    return (
        f"{counts['holds']} held, {counts['does not hold']} did not hold, "
        f"{counts['undecided']} undecided"
    )


def _claims(parts: Sequence[Part]) -> str:
    return word_table(
        ["where", "the paper says", "measured", "verdict"],
        [
            (
                f"{escape(part.title)}<br><small>{escape(claim.where)}; {escape(part.source)}</small>",
                escape(claim.says),
                escape(claim.measured),
                _verdict(claim.verdict),
            )
            for part in parts
            for claim in part.section.claims
        ],
    )


def _verdict(verdict: Verdict) -> str:
    small = f"<br><small>{verdict.remark}</small>" if verdict.remark else ""
    return f'<span class="verdict {verdict.word.replace(" ", "-")}">{verdict.word}</span>{small}'


def _section(part: Part, anchor: str) -> str:
    lines = [heading(part.title, anchor), text(f"Results file: {part.source}.")]
    if part.departures is not None:
        changed = ", ".join(part.departures) or "none"
        lines.append(text(f"Fields that differ from the preset of the paper: {changed}."))
    if part.readings:
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in part.readings)
        lines.append(text("How the paper is read, or departed from, in every preset:"))
        lines.append(f"<ul>{items}</ul>")
    lines += [picture(drawing.figure, drawing.shows) for drawing in part.section.drawings]
    lines.append(f"<pre>{escape(part.section.text)}</pre>")
    made_by = "".join(map(text, part.made_by))
    lines.append(f"<details><summary>configuration and versions</summary>{made_by}</details>")
    return "\n".join(lines)
