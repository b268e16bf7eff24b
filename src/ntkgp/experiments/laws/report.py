"""Table 1 and Proposition 2 in numbers."""

from ntkgp.experiments.results import Record, Results, found
from ntkgp.report.claims import Claim, certain
from ntkgp.report.section import Section
from ntkgp.report.tables import table

ROUNDING = 1e-9
"""Below which a difference of float64 computations counts as none; noise-free laws lose more."""
NOISE_FREE_ROUNDING = 1e-6
DIFFERENCES = ("NTKGP - RP/DE", "RP/DE - NNGP", "NNGP - NTKGP")


def report(results: Results) -> Section:
    """A table; there is no figure."""
    rows = [
        {
            "network": run["network"],
            "noise": run["chain"],
            "largest z": f"{max(run['largest_z'].values()):.1f}",
            **{
                title: f"{value:.1e}"
                for title, value in zip(DIFFERENCES, run["least_eigenvalues"], strict=True)
            },
            "mean std: NTKGP ≥ RP/DE ≥ NNGP": " ≥ ".join(
                f"{run['mean_std'][law]:.3f}" for law in results["chains"][run["chain"]]
            ),
        }
        for run in results["runs"]
    ]
    note = (
        "Largest z: farthest mean or variance of members simulated by linear training from its law, in "
        "standard errors. Then the least eigenvalue of differences of covariances, relative: ≥ 0 where "
        "Proposition 2 orders them; the last, the wrong way round, must be negative."
    )
    return Section(f"{table(rows)}\n{note}", claims=claims(results["runs"]))


def claims(runs: list[Record]) -> list[Claim]:
    made = []
    for chain, allowed in (("noisy", ROUNDING), ("noise-free", NOISE_FREE_ROUNDING)):
        if not (own := found(runs, {"chain": chain})):
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
