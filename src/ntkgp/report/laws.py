"""Table 1 and Proposition 2 in numbers."""

from pathlib import Path
from typing import Any

from ntkgp.experiments.laws import CHAINS
from ntkgp.report.claims import Claim, certain
from ntkgp.report.section import Section
from ntkgp.report.style import table

ROUNDING = 1e-9
"""Below which a difference of float64 computations counts as none; noise-free laws lose more."""
NOISE_FREE_ROUNDING = 1e-6


def report(results: dict[str, Any], stem: Path) -> Section:
    """A table; there is no figure."""
    rows = []
    for run in results["runs"]:
        wide, middle, narrow = CHAINS[run["chain"]]
        stds = run["mean_std"]
        rows.append(
            [
                run["network"],
                run["chain"],
                f"{max(run['largest_z'].values()):.1f}",
                *(f"{value:.1e}" for value in run["least_eigenvalues"]),
                " ≥ ".join(f"{stds[law]:.3f}" for law in (wide, middle, narrow)),
            ]
        )
    head = [
        "network",
        "noise",
        "largest z",
        "NTKGP - RP/DE",
        "RP/DE - NNGP",
        "NNGP - NTKGP",
        "mean std: NTKGP ≥ RP/DE ≥ NNGP",
    ]
    note = (
        "Largest z: farthest mean or variance of members simulated by linear training from its law, in "
        "standard errors. Then the least eigenvalue of differences of covariances, relative: ≥ 0 where "
        "Proposition 2 orders them; the last, the wrong way round, must be negative."
    )
    return Section(f"{table(head, rows)}\n{note}", claims=claims(results["runs"]))


def claims(runs: list[dict[str, Any]]) -> list[Claim]:
    made = []
    for chain, allowed in (("noisy", ROUNDING), ("noise-free", NOISE_FREE_ROUNDING)):
        own = [run for run in runs if run["chain"] == chain]
        if not own:
            continue
        sign, middle = (">", "RP") if chain == "noisy" else ("=", "DE")
        farthest = max(max(run["largest_z"].values()) for run in own)
        ordered = min(min(run["least_eigenvalues"][:2]) for run in own)
        reverse = max(run["least_eigenvalues"][2] for run in own)
        made += [
            Claim(
                "Table 1",
                f"for σ² {sign} 0 means and variances of linearly trained members are those of NTKGP, "
                f"{middle} and NNGP (verdict: within 5 standard errors everywhere)",
                f"farthest {farthest:.1f} standard errors, on {len(own)} networks",
                certain(farthest < 5),
            ),
            Claim(
                "Proposition 2",
                f"for σ² {sign} 0, Σ_NTKGP ⪰ Σ_{middle} ⪰ Σ_NNGP",
                f"least relative eigenvalue of the differences {ordered:.1e}; the wrong way round "
                f"{reverse:.1e}",
                certain(ordered > -allowed and reverse < -allowed),
            ),
        ]
    return made
