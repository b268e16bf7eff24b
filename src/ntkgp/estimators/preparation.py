"""What every estimator does to a table before a network sees it."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeGuard

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ntkgp.core.threads import in_threads
from ntkgp.kernels.linalg import NotPositiveDefinite
from ntkgp.laws.evidence import best_noise_and_scale, has_cheap_kernel, training_kernel
from ntkgp.laws.prior import LearnedPrior, fit_prior
from ntkgp.laws.table import Law
from ntkgp.networks.given import users_network
from ntkgp.networks.layered import LayeredNetwork, require_layers
from ntkgp.networks.layers import Erf, Gelu, Relu
from ntkgp.networks.layers.activation import Activation
from ntkgp.networks.protocol import Network
from ntkgp.networks.ready_made import mlp


class Prior(NamedTuple):
    """Activation and weight scales of the default network."""

    activation: Activation
    w_std: float
    b_std: float


ACTIVATIONS: dict[str, Prior] = {
    "relu": Prior(Relu(), 2**0.5, 0.5),
    "erf": Prior(Erf(), 1.5, 0.5),
    "gelu": Prior(Gelu(), 2**0.5, 0.5),
}
"""The prior behind each activation's name, from which the search for a better one starts."""

AUTO_ACTIVATIONS = ("relu", "erf")
"""The names that activation="auto" chooses from."""

PRIOR_ROWS = 400
PRIOR_ROWS_WITHOUT_KERNEL = 200
"""Rows drawn to learn the prior on: each step costs their number squared, and a little cubed."""
PRIOR_STEPS = 40


class Further(NamedTuple):
    """A later stage of learning the scales of columns: from where they are, on more rows."""

    beyond: int
    """Tables of more rows than this have it."""
    rows: int
    steps: int


FURTHER = (Further(PRIOR_ROWS, 1000, 15), Further(4000, 2000, 10))
"""The last takes about six seconds, less than members or exact law do on such tables."""
HELD_OUT = 0.1
"""The share of rows held out by default."""
ENOUGH_ROWS = 100
"""Rows held out that can tell which of two noise levels suits members better."""


def seed_of(random_state: Any) -> int:
    """One integer from what scikit-learn accepts as random_state."""
    return int(check_random_state(random_state).randint(2**31 - 1))


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
        mlp(input_shape[0], output_dim, **ACTIVATIONS[name]._asdict(), **sizes) for name in names
    ]


class Choice(NamedTuple):
    """A network whose prior suits the data, in units in which it suits them best."""

    candidate: Network
    """The network with whose scales the search began."""
    net: Network
    noise_std: float
    """σ, in the network's units."""
    scale: float
    """The network's unit, in that of the targets."""
    log_marginal_likelihood: float
    rows: int
    """How many rows it was learned on."""
    prior: LearnedPrior | None = None
    """What was learned; None where only σ and the scale could be."""


def choose(
    nets: Sequence[Network],
    x: NDArray[Any],
    y: NDArray[Any],
    law: Law,
    seed: int,
    noise_std: float | None = None,
    sample_weight: NDArray[Any] | None = None,
    *,
    learn: bool = True,
    relevance: bool = True,
    **options: Any,
) -> Choice:
    """The network, its scales and its noise of highest marginal likelihood.

    Computed on rows drawn at random, `PRIOR_ROWS` at most. Scales of columns are many, so the best
    network's are then learned `FURTHER` on more. See `fit_prior` for the options. Of
    networks on images, and of those without an exact kernel, only the noise and one scale are
    learned; of all networks if `learn` is False.
    """
    if not np.any(y):  # constant targets: next to no noise, next to no scale
        return Choice(nets[0], nets[0], (noise_std or 1e-3) / 1e-3, 1e-3, 0.0, len(y))
    settings = options | {"sample_weight": sample_weight, "relevance": relevance}

    def choice(net: Network) -> Choice:
        if has_table_kernel(net) and learn:
            return _learned(net, x, y, law, seed, noise_std, settings)
        return _scaled(net, x, y, law, seed, noise_std, sample_weight)

    best = max(in_threads(choice, nets), key=lambda choice: choice.log_marginal_likelihood)
    if best.prior is None or not relevance:
        return best
    net = require_layers(best.candidate)
    for stage in FURTHER:
        if len(x) > stage.beyond:
            settings |= {"start": best.prior, "rows": stage.rows, "max_steps": stage.steps}
            try:
                best = _learned(net, x, y, law, seed, noise_std, settings)
            except NotPositiveDefinite:  # next to no noise: more rows are nearly equal
                break
    return best


def with_unit_prior(choice: Choice, x: NDArray[Any], law: Law) -> Choice:
    """The choice in units in which the prior's function has variance 1, on average over rows x.

    Only a table's kernel says so at once: other networks stay as they are.
    """
    net = choice.net
    if not has_table_kernel(net):
        return choice
    few = jnp.asarray(x[:: len(x) // PRIOR_ROWS + 1])
    variances = net.kernel_diagonal(few)[law.trained == "ntk"]
    unit = float(np.sqrt(np.mean(variances)))
    return choice._replace(
        net=net.with_output_scale(1 / unit),
        noise_std=choice.noise_std / unit,
        scale=choice.scale * unit,
    )


def has_table_kernel(net: Network) -> TypeGuard[LayeredNetwork]:
    """Whether the exact kernel of two inputs is one number in every layer, as for rows of a table."""
    return isinstance(net, LayeredNetwork) and net.entries_per_pair() == 1


def _learned(
    net: LayeredNetwork,
    x: NDArray[Any],
    y: NDArray[Any],
    law: Law,
    seed: int,
    noise_std: float | None,
    options: dict[str, Any],
) -> Choice:
    settings = {"rows": PRIOR_ROWS, "max_steps": PRIOR_STEPS, "restarts": 0} | options
    learned = fit_prior(net, x, y, law=law, noise_std=noise_std, seed=seed, **settings)
    scale = float(learned.net.last.w_std / net.last.w_std)
    return Choice(
        net,
        learned.net.with_output_scale(1 / scale),
        learned.noise_std / scale,
        scale,
        learned.value,
        learned.rows,
        learned,
    )


def _scaled(
    net: Network,
    x: NDArray[Any],
    y: NDArray[Any],
    law: Law,
    seed: int,
    noise_std: float | None,
    sample_weight: NDArray[Any] | None,
) -> Choice:
    """Rows times the root of their weight have noise σ, and a density Π √w times as small."""
    few = PRIOR_ROWS if has_cheap_kernel(net) else PRIOR_ROWS_WITHOUT_KERNEL
    rows = np.random.default_rng(seed).permutation(len(x))[:few]
    kernel = training_kernel(net, x[rows], law.trained)
    root = np.ones(len(rows)) if sample_weight is None else np.sqrt(sample_weight[rows])
    found = best_noise_and_scale(root[:, None] * kernel * root, root[:, None] * y[rows], noise_std)
    value = found.log_marginal_likelihood + y.shape[1] * float(np.sum(np.log(root)))
    return Choice(net, net, found.noise_std / found.scale, found.scale, value, len(rows))


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
