"""What the reports of several experiments share: the methods that claims are about, and their runs."""

from ntkgp.experiments.results import Record, Results, found
from ntkgp.report.looks import look

NTKGP = ("ntkgp-param", "ntkgp-fn")
"""The paper's own methods, which its claims are about."""


def runs_of(results: Results, method: str) -> list[Record]:
    return found(results["runs"], {"method": method})


def methods_of(results: Results) -> list[str]:
    """The methods that have runs, in the order of the configuration."""
    return [name for name in results["config"]["methods"] if runs_of(results, name)]


def failures(results: Results) -> list[str]:
    """A line for each ensemble that lost members because their training diverged."""
    return [
        f"{look(run['method']).title}, repeat {run.get('repeat', run.get('seed', 0))}: members "
        f"{', '.join(map(str, run['failed']))} failed and are left out."
        for run in results["runs"]
        if run.get("failed")
    ]
