"""Table 1 and Proposition 2 in numbers: the exact laws of several networks beside each other."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.experiments.checks import check, check_known
from ntkgp.experiments.experiment import Experiment, Given
from ntkgp.experiments.results import Mark, Record, Results, found
from ntkgp.kernels.matrices import kernel_matrix
from ntkgp.laws.exact import ExactLaw, condition
from ntkgp.networks.layered import LayeredNetwork
from ntkgp.networks.layers import Erf, Gelu, Relu
from ntkgp.networks.ready_made import mlp, myrtle
from ntkgp.report.claims import Claim, certain
from ntkgp.report.section import Section
from ntkgp.report.tables import table

NETWORKS: dict[str, Callable[[], LayeredNetwork]] = {
    "erf-2": lambda: mlp(10, activation=Erf(), depth=2, w_std=1.5, b_std=0.05),
    "relu-3": lambda: mlp(10, activation=Relu(), depth=3, w_std=2**0.5, b_std=0.05),
    "gelu-1": lambda: mlp(10, activation=Gelu(), depth=1, w_std=1.5, b_std=0.1),
    "myrtle-5": lambda: myrtle((4, 4, 3), depth=5),
}
"""Activation and number of hidden layers of dense networks, and a convolutional one on images."""
CHAINS = {  # σ² > 0 or σ² = 0: the laws from the widest to the narrowest (Proposition 2)
    "noisy": ("ntkgp", "randomised-prior", "nngp"),
    "noise-free": ("ntkgp", "deep-ensemble", "nngp"),
}


@dataclass(frozen=True)
class LawsConfig:
    """Everything that determines a run."""

    networks: tuple[str, ...] = tuple(NETWORKS)
    train_points: int = 40
    test_points: int = 40
    noise_std: float = 0.3
    draws: int = 20_000
    """Members simulated for each law."""
    data_seed: int = 0

    def __post_init__(self) -> None:
        check(self, may_be_zero=("data_seed",))
        check_known("networks", self.networks, NETWORKS)


def record(config: LawsConfig, mark: Mark, given: Given) -> Record:
    """Three laws at test points: by their formulas, by simulation, and their order."""
    net = NETWORKS[mark["network"]]()
    rng = np.random.default_rng(config.data_seed)
    x, t = (
        rng.normal(size=(n, *net.input_shape)) for n in (config.train_points, config.test_points)
    )
    y = rng.normal(size=(config.train_points, 1))
    noise_std = config.noise_std if mark["chain"] == "noisy" else 0.0
    chain = given.results["chains"][mark["chain"]]
    laws = {law: condition(net, x, y, law=law, noise_std=noise_std) for law in chain}
    covariances = {law: exact.covariance(t) for law, exact in laws.items()}
    wide, middle, narrow = chain
    return {
        "largest_z": {
            law: largest_z(exact, t, covariances[law], config.draws) for law, exact in laws.items()
        },
        "least_eigenvalues": [
            least_eigenvalue(covariances[a] - covariances[b], covariances[wide])
            for a, b in ((wide, middle), (middle, narrow), (narrow, wide))
        ],
        "mean_std": {
            law: float(np.sqrt(np.diag(covariance)).mean())
            for law, covariance in covariances.items()
        },
    }


def largest_z(exact: ExactLaw, t: NDArray[Any], covariance: NDArray[Any], n_draws: int) -> float:
    """How far means and variances of simulated members are from the law, in standard errors.

    A member is drawn from its prior at initialisation and trained as a linear model on targets of
    its own: f(t) = f₀(t) + T_td (T_dd + σ²I)⁻¹ (y + σε - f₀(d)).
    """
    rng, law, x = np.random.default_rng(0), exact.law, exact.x
    both = np.concatenate([x, t])
    prior, trained = (kernel_matrix(exact.net, which, both) for which in (law.prior, law.trained))
    root = np.linalg.cholesky(prior + 1e-10 * np.trace(prior) * np.eye(len(both)) / len(both))
    f_0 = root @ rng.standard_normal((len(both), n_draws))
    sigma, n = exact.target_var**0.5, len(x)
    targets = exact.y + sigma * rng.standard_normal((n, n_draws))
    weights = np.linalg.solve(trained[:n, :n] + sigma**2 * np.eye(n), targets - f_0[:n])
    f = f_0[n:] + trained[n:, :n] @ weights
    var = np.diag(covariance)
    of_means = (f.mean(axis=1) - exact.mean(t)[:, 0]) / np.sqrt(var / n_draws)
    of_vars = (f.var(axis=1, ddof=1) / var - 1) / np.sqrt(2 / n_draws)
    return float(np.abs([of_means, of_vars]).max())


def least_eigenvalue(difference: NDArray[Any], scale: NDArray[Any]) -> float:
    """The smallest eigenvalue of Σ₁ - Σ₂, in units of the largest of a third."""
    return float(np.linalg.eigvalsh(difference)[0] / np.linalg.eigvalsh(scale)[-1])


ROUNDING = 1e-9
"""A smaller difference of float64 computations counts as none; noise-free laws lose more digits."""
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


LAWS = Experiment(
    "laws",
    "Table 1 and Proposition 2: the predictive laws",
    {"laptop": LawsConfig(), "paper": LawsConfig(train_points=200, test_points=200)},
    marks=lambda config, data: [
        {"network": network, "chain": chain} for network in config.networks for chain in CHAINS
    ],
    record=record,
    report=report,
    contents={"chains": lambda config: CHAINS},
    may_grow=("networks",),
)
