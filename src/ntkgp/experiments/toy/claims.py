"""The claims of Figures 1 and 7, about ensembles against the NTKGP posterior."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.experiments.compared import runs_of
from ntkgp.experiments.results import Record, Results
from ntkgp.experiments.toy.closeness import Closeness, closeness
from ntkgp.report.claims import Claim, above, all_of, below, between, certain, opposite
from ntkgp.report.intervals import Interval, Scores, difference, interval
from ntkgp.report.looks import by_method, look

DRAWN = ("deep-ensemble", "rp-param", "ntkgp-param")
"""The ensembles of the paper's figure."""
FEW = 5
"""Members that count as few."""


def drawn_methods(results: Results) -> list[str]:
    """The methods of the paper's figure that this run has."""
    return [method for method in DRAWN if runs_of(results, method)]


def claims(results: Results) -> list[Claim]:
    """The claims for which this run has the methods."""
    if drawn_methods(results) != list(DRAWN):
        return []
    measured = {
        method: [closeness(results, run, "ntkgp") for run in runs_of(results, method)]
        for method in DRAWN
    }
    made = [similar_means(results), matching_spread(measured), more_confident(results, measured)]
    members = results["config"]["members"]
    few = FEW if members > FEW else 2
    return [*made, small_means(results, few), small_spread(results, few)] if few < members else made


def groups(run: Record, size: int) -> NDArray[Any]:
    """The members of an ensemble as ensembles of this size, (groups, size, grid)."""
    outputs = np.array(run["outputs"])
    n = len(outputs) // size
    return outputs[: n * size].reshape(n, size, -1)


def ratios(measured: list[Closeness]) -> list[Interval]:
    """Ratios of standard deviations, inside and outside the data."""
    return [
        interval([c.std_ratio_inside for c in measured]),
        interval([c.std_ratio_outside for c in measured]),
    ]


def mean_errors(results: Results, method: str, size: int | None = None) -> Scores:
    """Root mean square of (mean - NTKGP mean) / NTKGP std, by repeat.

    For the whole ensemble, or the mean over its groups of `size` members.
    """
    law = results["laws"]["ntkgp"]

    def error(run: Record) -> float:
        means = groups(run, size or len(run["outputs"])).mean(axis=1)
        scaled = (means - np.array(law["mean"])) / np.array(law["std"])
        return float(np.sqrt(np.mean(scaled**2, axis=1)).mean())

    return {run["seed"]: error(run) for run in runs_of(results, method)}


def similar_means(results: Results) -> Claim:
    errors = {
        method: interval(mean_errors(results, method).values())
        for method in ("ntkgp-param", "rp-param")
    }
    return Claim(
        "Figure 1",
        "NTKGP-param and RP-param have means similar to the analytic NTKGP posterior's (verdict: "
        "within one of its standard deviations, root mean square)",
        f"in its standard deviations: {by_method(errors, 2)}",
        all_of(*(below(error, 1.0) for error in errors.values())),
    )


def matching_spread(measured: dict[str, list[Closeness]]) -> Claim:
    """A ratio within a quarter of 1, inside and outside the data."""
    found = {method: ratios(runs) for method, runs in measured.items()}
    shown = ", ".join(
        f"{look(method).title} {inside.shown(2)} / {outside.shown(2)}"
        for method, (inside, outside) in found.items()
    )
    matches = {
        method: all_of(*(between(ratio, 0.75, 1.25) for ratio in both))
        for method, both in found.items()
    }
    return Claim(
        "Figure 1",
        "only NTKGP-param's variances match the analytic NTKGP posterior's (verdict: standard "
        "deviations within a quarter, inside and outside the data, and not so for the others)",
        f"ratio of standard deviations inside / outside: {shown}",
        all_of(matches.pop("ntkgp-param"), *map(opposite, matches.values())),
    )


def more_confident(results: Results, measured: dict[str, list[Closeness]]) -> Claim:
    nngp = closeness(results, results["laws"]["nngp"] | {"members": 1}, "ntkgp").std_ratio_outside
    outside = {
        method: interval([c.std_ratio_outside for c in measured[method]])
        for method in ("deep-ensemble", "rp-param")
    }
    return Claim(
        "Figure 1",
        "the analytic NNGP and the other ensembles are more confident than the NTKGP posterior away "
        "from the data",
        f"ratio of standard deviations outside the data: NNGP {nngp:.2f}, {by_method(outside, 2)}",
        all_of(certain(nngp < 1), *(below(ratio, 1.0) for ratio in outside.values())),
    )


def small_means(results: Results, size: int) -> Claim:
    """In groups of `size` members, the mean is worse than RP-param's."""
    few, all_members = (
        difference(mean_errors(results, "ntkgp-param", k), mean_errors(results, "rp-param", k))
        for k in (size, None)
    )
    return Claim(
        "Figure 7",
        "with few members the mean of NTKGP-param is a worse approximation of the NTKGP posterior's "
        f"than RP-param's (verdict: a larger error with {size} members)",
        f"NTKGP-param less RP-param, in the posterior's standard deviations: {few.shown(2)} with {size} "
        f"members, {all_members.shown(2)} with all",
        above(few),
    )


def small_spread(results: Results, size: int) -> Claim:
    """The mean over groups of `size` members of each ensemble, with K - 1 in the denominator."""

    def of_groups(run: Record) -> Closeness:
        found = [
            closeness(
                results,
                {"members": size, "mean": group.mean(axis=0), "std": group.std(axis=0, ddof=1)},
                "ntkgp",
            )
            for group in groups(run, size)
        ]
        return Closeness(*(float(np.mean(values)) for values in zip(*found, strict=True)))

    inside, outside = ratios([of_groups(run) for run in runs_of(results, "ntkgp-param")])
    return Claim(
        "Figure 7",
        "the spread of NTKGP-param matches even with few members (verdict: standard deviations of "
        f"{size} members within a half, inside and outside the data)",
        f"ratio of standard deviations inside / outside: {inside.shown(2)} / {outside.shown(2)}",
        all_of(between(inside, 0.5, 1.5), between(outside, 0.5, 1.5)),
    )
