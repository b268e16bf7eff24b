"""Table 2, measured."""

from ntkgp.experiments.compared import NTKGP
from ntkgp.experiments.results import Record, Results
from ntkgp.report.claims import Claim, all_of, below, certain
from ntkgp.report.intervals import interval
from ntkgp.report.looks import by_method, look
from ntkgp.report.section import Section
from ntkgp.report.tables import table

PAPER_SETS = {  # Table 2: parameter sets to store while training, and after
    "deep-ensemble": (1, 1),
    "rp-param": (2, 1),
    "rp-fn": (2, 2),
    "ntkgp-param": (3, 3),
    "ntkgp-fn": (3, 3),
}
NEGLIGIBLE = 0.1
SECONDS = "seconds_per_step"


def report(results: Results) -> Section:
    """A table for each network; there is no figure."""
    tables = "\n\n".join(map(cost_table, results["runs"]))
    return Section(tables, claims=[claim for run in results["runs"] for claim in claims(run)])


def claims(run: Record) -> list[Claim]:
    """The claims for which this run has the methods."""
    has = run["methods"].keys()
    both = [negligible(run), three_passes(run)] if {"deep-ensemble", *NTKGP} <= has else []
    return [*both, *([activations(run)] if {*NTKGP} <= has else []), parameter_sets(run)]


def cost_table(run: Record) -> str:
    measured = run["methods"]
    first = next(iter(measured.values()))
    base, passes = min(first["seconds_per_step"]), first["forward_operations"]
    rows = [
        {
            f"{run['network']}: method": look(method).title,
            "ms per step": f"{1e3 * min(cost['seconds_per_step']):.2f}",
            "relative, δ kept": f"{min(cost['seconds_per_step']) / base:.2f}",
            "relative, δ in the step": f"{min(cost['seconds_per_step_fresh']) / base:.2f}",
            "operations of f̃": f"{cost['forward_operations'] / passes:.2f}",
            "MiB, δ kept": f"{cost['working_bytes']['kept'] / 2**20:.2f}",
            "MiB, δ in the step": f"{cost['working_bytes']['fresh'] / 2**20:.2f}",
            "sets, training": f"{cost['parameter_sets_training']:.0f}",
            "sets, after": f"{cost['parameter_sets_after']:.0f}",
        }
        for method, cost in measured.items()
    ]
    note = (
        f"Time of a step of all members, the best of {len(first['seconds_per_step'])} turns; operations "
        f"of a forward pass with δ computed in it, in passes of {look(next(iter(measured))).title}; memory "
        "that the gradient of one member takes beside parameters and data; parameter sets."
    )
    return f"{table(rows)}\n{note}"


def negligible(run: Record) -> Claim:
    measured = run["methods"]
    base = measured["deep-ensemble"][SECONDS]
    overheads = {
        name: interval([own / b - 1 for own, b in zip(measured[name][SECONDS], base, strict=True)])
        for name in NTKGP
    }
    return Claim(
        "Appendix G",
        "with δ computed once, NTKGP costs negligibly more than deep ensembles (verdict: less than "
        "10 % a step, turn by turn)",
        f"{run['network']}, in %: {by_method(overheads, 1, 100)}",
        all_of(*(below(overhead, NEGLIGIBLE) for overhead in overheads.values())),
    )


def three_passes(run: Record) -> Claim:
    measured = run["methods"]
    one = measured["deep-ensemble"]["forward_operations"]
    extra = {name: measured[name]["forward_operations"] / one - 1 for name in NTKGP}
    shown = ", ".join(f"{look(n).title} {value:.2f}" for n, value in extra.items())
    return Claim(
        "Table 2 and Appendix G",
        "δ on the fly is one JVP, which costs on the order of three forward passes in operations "
        "(verdict: 2 to 4)",
        f"{run['network']}: {shown} forward passes",
        certain(all(2 <= value <= 4 for value in extra.values())),
    )


def activations(run: Record) -> Claim:
    measured = run["methods"]

    def extra(method: str, depth: str) -> int:
        own = measured[method][depth]
        return own["fresh"] - own["kept"]

    found = {
        name: (extra(name, "working_bytes"), extra(name, "working_bytes_other_depth"))
        for name in NTKGP
    }
    shown = ", ".join(
        f"{look(n).title} {a / 2**20:.2f} and {b / 2**20:.2f} MiB" for n, (a, b) in found.items()
    )
    return Claim(
        "Appendix G",
        "the memory that the JVP adds to a step does not depend on the depth (verdict: within a tenth)",
        f"{run['network']}, depth {run['depth']} and {run['other_depth']}: {shown}",
        certain(all(abs(a - b) <= 0.1 * max(a, b) for a, b in found.values())),
    )


def parameter_sets(run: Record) -> Claim:
    measured = run["methods"]
    known = {name: sets for name, sets in PAPER_SETS.items() if name in measured}
    found = {
        name: (measured[name]["parameter_sets_training"], measured[name]["parameter_sets_after"])
        for name in known
    }
    shown = ", ".join(f"{look(n).title} {a:.0f}/{b:.0f}" for n, (a, b) in found.items())
    return Claim(
        "Table 2",
        "parameter sets to store while training / after: "
        + ", ".join(f"{look(n).title} {a}/{b}" for n, (a, b) in known.items()),
        f"{run['network']}: {shown}",
        certain(found == known),
    )
