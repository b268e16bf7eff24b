"""What every estimator does to a table before a network sees it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ntkgp.kernels.matrices import Which
from ntkgp.laws.evidence import (
    Evidence,
    best_noise_and_scale,
    has_cheap_kernel,
    training_kernel,
)
from ntkgp.networks.given import users_network
from ntkgp.networks.layers import Erf, Gelu, Relu
from ntkgp.networks.layers.activation import Activation
from ntkgp.networks.protocol import Network
from ntkgp.networks.ready_made import mlp


class Prior(NamedTuple):
    """Activation and weight scales of the default network."""

    activation: Activation
    w_std: float
    b_std: float


ACTIVATIONS: dict[str, tuple[Prior, ...]] = {
    "relu": (Prior(Relu(), 2**0.5, 0.5),),
    "erf": (Prior(Erf(), 1.5, 0.5), Prior(Erf(), 2.5, 1.0)),
    "gelu": (Prior(Gelu(), 2**0.5, 0.5),),
}
"""The priors behind each activation's name; marginal likelihood chooses among several."""

AUTO_ACTIVATIONS = ("relu", "erf")
"""The names that activation="auto" chooses from."""

EVIDENCE_ROWS = 1000
EVIDENCE_ROWS_WITHOUT_KERNEL = 200
"""Rows drawn for the marginal likelihood, whose cost grows with their cube."""


def seed_of(random_state: Any) -> int:
    """One integer from what scikit-learn accepts as random_state."""
    return int(check_random_state(random_state).randint(2**31 - 1))


def check_counts(**counts: int) -> dict[str, int]:
    """The counts, or an error for the first that is not an integer of at least 1."""
    for name, value in counts.items():
        if not isinstance(value, (int, np.integer)) or value < 1:
            raise ValueError(f"{name} must be an integer of at least 1; got {value!r}.")
    return counts


def candidates(
    network: Any, input_shape: tuple[int, ...], output_dim: int, activation: str, sizes: Any
) -> list[Network]:
    """The networks to choose from: the user's alone, or the default ones of an activation."""
    if network is not None:
        return [users_network(network, input_shape, output_dim)]
    if activation not in ("auto", *ACTIVATIONS):
        known = ", ".join(["auto", *ACTIVATIONS])
        raise ValueError(f"activation must be one of {known}; got {activation!r}.")
    if len(input_shape) != 1:
        raise ValueError(
            f"X has shape {input_shape} per example, and the default network takes a table: give "
            "a network, for instance network=ntkgp.myrtle."
        )
    names = AUTO_ACTIVATIONS if activation == "auto" else (activation,)
    return [
        mlp(input_shape[0], output_dim, **prior._asdict(), **sizes)
        for name in names
        for prior in ACTIVATIONS[name]
    ]


class Choice(NamedTuple):
    """A network and the noise and scale that suit it."""

    net: Network
    evidence: Evidence


def choose(
    nets: Sequence[Network],
    x: NDArray[Any],
    y: NDArray[Any],
    which: Which,
    rng: np.random.Generator,
    noise_std: float | None = None,
) -> Choice:
    """The network, the noise level and the prior scale of highest marginal likelihood.

    Computed on at most `EVIDENCE_ROWS` rows drawn at random, fewer without a cheap kernel.
    """
    order = rng.permutation(len(x))
    choices = []
    for net in nets:
        rows = order[: EVIDENCE_ROWS if has_cheap_kernel(net) else EVIDENCE_ROWS_WITHOUT_KERNEL]
        kernel = training_kernel(net, x[rows], which)
        choices.append(Choice(net, _evidence(kernel, y[rows], noise_std)))
    return max(choices, key=lambda choice: choice.evidence.log_marginal_likelihood)


def _evidence(kernel: NDArray[Any], y: NDArray[Any], noise_std: float | None) -> Evidence:
    """The best noise and scale; for constant targets, both next to nothing."""
    if not np.any(y):
        return Evidence(0.0, noise_std=1e-3 if noise_std is None else noise_std, scale=1e-3)
    return best_noise_and_scale(kernel, y, noise_std)


def holdout(
    n: int, fraction: float, rng: np.random.Generator, labels: NDArray[Any] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to train on and rows to validate on, at least 5 of them; none from fewer than 20 rows.

    With labels, each class has about the same share of both, and a row to train on.
    """
    if not 0 <= fraction <= 0.5:
        raise ValueError(f"validation_fraction must lie in [0, 0.5]; got {fraction!r}.")
    order = rng.permutation(n)
    if fraction == 0 or n < 20:
        return np.sort(order), order[:0]
    n_validation = max(5, round(fraction * n))
    if labels is not None:
        order = _stratified(order, labels)
        n_validation = min(n_validation, n - len(np.unique(labels)))
    return np.sort(order[n_validation:]), np.sort(order[:n_validation])


def _stratified(order: NDArray[np.int64], labels: NDArray[Any]) -> NDArray[np.int64]:
    """The rows reordered, so that any first part has about the same share of each class."""
    rank = np.empty(len(order))
    for label in np.unique(labels):
        rows = order[labels[order] == label]
        rank[rows] = np.arange(len(rows)) / len(rows)
    # The first of each class has rank 0 and goes last, among the rows to train on.
    return np.asarray(order[np.argsort(-rank[order], kind="stable")])
