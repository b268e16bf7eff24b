"""One self-contained HTML page: claims beside measurements, then tables and figures."""

import base64
import html
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ntkgp.core.files import replacing
from ntkgp.experiments.catalogue import EXPERIMENTS, module
from ntkgp.report.section import Section

STYLE = """
body { font: 16px/1.45 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
td, th { border-bottom: 1px solid #ccc; padding: .4rem .6rem; text-align: left; vertical-align: top }
pre { overflow-x: auto; background: #f6f6f6; padding: .8rem; font-size: 13px }
img { max-width: 100% }
.verdict { white-space: nowrap; font-weight: bold }
.holds { color: #00664b } .does-not-hold { color: #a03c00 } .undecided { color: #555 }
"""


@dataclass(frozen=True)
class Part:
    """One results file with its section."""

    source: str
    """The file's name."""
    results: dict[str, Any]
    section: Section


def write_page(parts: list[Part], path: Path, notes: Sequence[str] = ()) -> None:
    """Write the page of these results; pictures are part of it."""
    body = [
        "<h1>Bayesian Deep Ensembles via the Neural Tangent Kernel: what was reproduced</h1>",
        "<p>The paper's claims beside what these runs measured. Verdicts follow from the "
        "numbers: a claim is undecided where its 95&nbsp;% confidence interval over repeats "
        "contains the limit. What ± is in a table is said below it.</p>",
        claims_table(parts),
        *(f"<p>{html.escape(note)}</p>" for note in notes),
        *(section_html(part) for part in parts),
    ]
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>ntkgp: report</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )
    with replacing(path) as file:
        file.write(text.encode())


def claims_table(parts: list[Part]) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(EXPERIMENTS[part.results['experiment']].title)}<br>"
        f"<small>{html.escape(claim.where)}; {html.escape(part.source)}</small></td>"
        f"<td>{html.escape(claim.says)}</td><td>{html.escape(claim.measured)}</td>"
        f'<td class="verdict {claim.verdict.replace(" ", "-")}">{claim.verdict}</td></tr>\n'
        for part in parts
        for claim in part.section.claims
    )
    head = "<tr><th>where</th><th>the paper says</th><th>measured</th><th>verdict</th></tr>"
    return f"<table>\n{head}\n{rows}</table>"


def section_html(part: Part) -> str:
    results, section = part.results, part.section
    pictures = "".join(
        f'<p><img alt="{html.escape(stem.name)}" src="data:image/png;base64,{_encoded(stem)}"></p>\n'
        for stem in section.figures
    )
    readings = "".join(
        f"<li>{html.escape(sentence)}</li>"
        for sentence in EXPERIMENTS[results["experiment"]].readings
    )
    readings = (
        f"<p>How the paper is read, or departed from, in every preset:</p>\n<ul>{readings}</ul>\n"
        if readings
        else ""
    )
    departures = html.escape(", ".join(changed(results)) or "none")
    settings = ", ".join(f"{name} = {value}" for name, value in results["config"].items())
    maker = results["versions"] | results.get("machine", {})
    made_by = ", ".join(f"{name} {value}" for name, value in maker.items())
    return (
        f"<h2>{html.escape(EXPERIMENTS[results['experiment']].title)}</h2>\n"
        f"<p>Results file: {html.escape(part.source)}. Fields that differ from the preset of the "
        f"paper: {departures}.</p>\n{readings}{pictures}"
        f"<pre>{html.escape(section.text)}</pre>\n"
        f"<details><summary>configuration and versions</summary><p>{html.escape(settings)}</p>"
        f"<p>{html.escape(made_by)}</p></details>"
    )


def changed(results: dict[str, Any]) -> list[str]:
    """What this run has other than the preset "paper" of its experiment."""
    paper = json.loads(json.dumps(asdict(module(results["experiment"]).PRESETS["paper"])))
    config = results["config"]
    return [f"{name} = {value}" for name, value in config.items() if paper.get(name) != value]


def _encoded(stem: Path) -> str:
    return base64.b64encode(stem.with_name(stem.name + ".png").read_bytes()).decode()
