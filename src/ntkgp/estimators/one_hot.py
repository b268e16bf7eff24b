"""Classification by regression on scaled one-hot targets (Section 3.5, Appendix H): the one pipeline.

Targets are κ e_c. The paper's κ is √(C ζ₀) times a factor to choose, with ζ₀ the mean square of the model's
outputs before training. The classifiers learn κ and the noise by marginal likelihood. Rows held out, or
left out, set the temperature T and choose the factor. The classifiers and the experiments on images share
this pipeline.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ntkgp.core.arrays import check_counts
from ntkgp.core.memory import require
from ntkgp.ensembles.member import Baselearner, member_keys
from ntkgp.ensembles.methods import METHODS, Method
from ntkgp.kernels.matrices import kernel_matrix
from ntkgp.laws.evidence import has_cheap_kernel
from ntkgp.laws.table import Law, get_law
from ntkgp.networks.layered import LayeredNetwork
from ntkgp.networks.protocol import Network
from ntkgp.predictive.calibration import best_temperature, mean_probabilities
from ntkgp.predictive.distributions import Normal

Model = TypeVar("Model")
_DRAWS, _ROWS = 16, 256


def second_moment_of_law(net: LayeredNetwork, law: Law, x: NDArray[Any]) -> float:
    """ζ₀ of an exact law: the mean over x of k(x, x), its prior kernel's diagonal."""
    return float(np.mean(kernel_matrix(net, law.prior, np.asarray(x, np.float64), diagonal=True)))


def second_moment(net: Network, method: Method, x: NDArray[Any], seed: int = 0) -> float:
    """ζ₀ of a method: the mean square of its baselearners' outputs before training (Appendix H).

    If the network has a cheap kernel, ζ₀ is that of the method's law, times the number of prior draws
    that a baselearner starts from. Otherwise it is a mean over a few rows of x, outputs and draws.
    """
    if has_cheap_kernel(net) and method in METHODS.values():
        return method.prior_draws * second_moment_of_law(net, get_law(method.law), x)
    learner = Baselearner(net, method, noise_std=1.0)
    rows = np.linspace(0, len(x) - 1, min(len(x), _ROWS)).astype(int)
    inputs = jnp.asarray(x[rows], jnp.float32)

    @jax.jit
    def square(index: jax.Array) -> jax.Array:
        theta, member = learner.draw(member_keys(seed, index))
        return jnp.mean(learner.predict(theta, member, inputs) ** 2)

    return float(np.mean([square(index) for index in range(_DRAWS)]))


def target_scale(zeta_0: float, n_classes: int, kappa2_multiple: float = 1.0) -> float:
    """κ = √(multiple · C ζ₀): with 1 the targets κ e_c have the second moment ζ₀ of untrained outputs."""
    return (kappa2_multiple * n_classes * zeta_0) ** 0.5


def one_hot(labels: NDArray[Any], n_classes: int, kappa: float) -> NDArray[np.float64]:
    """κ e_c for each label c from 0, (n, classes)."""
    return kappa * np.eye(n_classes)[labels]


def contrasts(labels: NDArray[Any], frequencies: NDArray[Any]) -> NDArray[np.float64]:
    """e_c less the classes' frequencies, in C - 1 orthonormal coordinates, (n, classes - 1).

    Centred one-hot targets sum to 0, so one of their C columns repeats the others. A likelihood of
    all C would count the data C/(C - 1) times, twice for two classes.

    >>> contrasts(np.array([0, 1]), np.array([0.5, 0.5])).round(3).tolist()
    [[0.707], [-0.707]]
    """
    centred = np.eye(len(frequencies))[labels] - frequencies
    return np.asarray(centred @ linalg.helmert(len(frequencies)).T)


def draws(normal: Normal, n_samples: int, seed: int) -> NDArray[Any]:
    """z of each row, (n_samples, n, classes).

    All rows share one draw of the normals: their marginals are right, which is all that class
    probabilities need, and a row's prediction does not depend on its neighbours.
    """
    check_counts(samples=n_samples)
    require(
        2 * 8 * n_samples * normal.mean.size,
        f"{n_samples:,} samples of {len(normal.mean):,} rows",
        "Take fewer samples, or predict fewer rows at once.",
    )
    shape = (-(-n_samples // 2), 1, normal.mean.shape[1])
    half = np.random.default_rng([seed, 1]).standard_normal(shape)
    pairs = np.concatenate([half, -half])  # so that no class is favoured
    return np.asarray(normal.mean + np.sqrt(normal.epistemic_var) * pairs[:n_samples])


class Merit(NamedTuple):
    """How good class probabilities are: accuracy first, then likelihood."""

    accuracy: float
    log_likelihood: float
    """Mean over rows."""


class Calibrated(NamedTuple, Generic[Model]):
    """A trained model, and how rows held out found it."""

    merit: Merit
    kappa: float
    temperature: float
    model: Model


def calibrated(
    logits: NDArray[Any],
    labels: NDArray[Any],
    sample_weight: NDArray[Any] | None = None,
    expected: float | None = None,
) -> tuple[float, Merit]:
    """The temperature for held-out logits (k, n, classes), and how good the model is with it."""
    temperature = best_temperature(logits, labels, sample_weight, expected)
    probabilities = mean_probabilities(logits, temperature)
    true = probabilities[np.arange(len(labels)), labels]
    right = np.argmax(probabilities, axis=1) == labels
    logs = np.log(np.maximum(true, np.finfo(float).tiny))
    return temperature, Merit(
        accuracy=float(np.average(right, weights=sample_weight)),
        log_likelihood=float(np.average(logs, weights=sample_weight)),
    )


def best_of(
    kappas: Iterable[float],
    train: Callable[[float], Model],
    logits: Callable[[Model, float], NDArray[Any]],
    labels: NDArray[Any],
    sample_weight: NDArray[Any] | None = None,
    expected: Callable[[float], float | None] = lambda kappa: None,
) -> Calibrated[Model]:
    """The model of the κ that does best on rows held out.

    Args:
        kappas: the values to try.
        train: a model on the targets κ e_c.
        logits: its z of each member or sample on the rows held out, given κ too, (k, rows, classes).
        labels: of these rows, from 0.
        sample_weight: of these rows.
        expected: the temperature that is believed in before, given κ; None for no belief.
    """
    trials = []
    for kappa in kappas:
        model = train(kappa)
        temperature, merit = calibrated(
            logits(model, kappa), labels, sample_weight, expected(kappa)
        )
        trials.append(Calibrated(merit, kappa, temperature, model))
    return max(trials, key=lambda trial: trial.merit)
