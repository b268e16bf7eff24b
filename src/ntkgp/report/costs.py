"""Table 2, measured."""

from pathlib import Path
from typing import Any

from ntkgp.report.claims import Claim, all_of, below, certain, interval
from ntkgp.report.section import Section
from ntkgp.report.style import look, table

PAPER_SETS = {  # Table 2: parameter sets to store while training, and after
    "deep-ensemble": (1, 1),
    "rp-param": (2, 1),
    "rp-fn": (2, 2),
    "ntkgp-param": (3, 3),
    "ntkgp-fn": (3, 3),
}
NEGLIGIBLE = 0.1
NTKGP = ("ntkgp-param", "ntkgp-fn")


def report(results: dict[str, Any], out: Path) -> Section:
    """A table for each network; there is no figure."""
    blocks = [cost_table(run) for run in results["runs"]]
    made = [claim for run in results["runs"] for claim in claims(run)]
    return Section("\n\n".join(blocks), claims=made)


def cost_table(run: dict[str, Any]) -> str:
    measured = run["methods"]
    base = min(next(iter(measured.values()))["seconds_per_step"])
    rows = [
        [
            look(method).title,
            f"{1e3 * min(cost['seconds_per_step']):.2f}",
            f"{min(cost['seconds_per_step']) / base:.2f}",
            f"{min(cost['seconds_per_step_fresh']) / base:.2f}",
            f"{cost['parameter_sets_training']:.0f}",
            f"{cost['parameter_sets_after']:.0f}",
        ]
        for method, cost in measured.items()
    ]
    head = [
        f"{run['network']}: method",
        "ms per step",
        "relative, δ kept",
        "relative, δ in the step",
        "sets, training",
        "sets, after",
    ]
    turns = len(next(iter(measured.values()))["seconds_per_step"])
    return f"{table(head, rows)}\nThe best of {turns} turns."


def claims(run: dict[str, Any]) -> list[Claim]:
    measured = run["methods"]
    made = []
    if {"deep-ensemble", *NTKGP} <= measured.keys():
        base = measured["deep-ensemble"]["seconds_per_step"]
        overheads = {
            name: interval(
                [
                    own / theirs - 1
                    for own, theirs in zip(measured[name]["seconds_per_step"], base, strict=True)
                ]
            )
            for name in NTKGP
        }
        shown = ", ".join(f"{look(n).title} {o.shown(1, 100)} %" for n, o in overheads.items())
        made.append(
            Claim(
                "Appendix G",
                "with δ computed once, NTKGP costs negligibly more than deep ensembles (verdict: less "
                "than 10 % a step, turn by turn)",
                f"{run['network']}: {shown}",
                all_of(*(below(overhead, NEGLIGIBLE) for overhead in overheads.values())),
            )
        )
    known = {name: sets for name, sets in PAPER_SETS.items() if name in measured}
    found = {
        name: (measured[name]["parameter_sets_training"], measured[name]["parameter_sets_after"])
        for name in known
    }
    shown = ", ".join(f"{look(n).title} {a:.0f}/{b:.0f}" for n, (a, b) in found.items())
    made.append(
        Claim(
            "Table 2",
            "parameter sets to store while training / after: "
            + ", ".join(f"{look(n).title} {a}/{b}" for n, (a, b) in known.items()),
            f"{run['network']}: {shown}",
            certain(found == known),
        )
    )
    return made
