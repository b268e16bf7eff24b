"""The ensemble as a classifier."""

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.storage import storable
from ntkgp.ensembles.ensemble import Ensemble
from ntkgp.ensembles.methods import Method, get_method
from ntkgp.ensembles.trainers import Trainer
from ntkgp.estimators.classification import Classifier, Labelled
from ntkgp.estimators.ensembles import EnsembleEstimator, known_network
from ntkgp.estimators.left_out import BLOCK_ROWS, JITTER, LEFT_OUT_ROWS
from ntkgp.estimators.one_hot import draws, one_hot, second_moment
from ntkgp.estimators.preparation import has_table_kernel
from ntkgp.laws.exact import condition
from ntkgp.laws.table import get_law
from ntkgp.networks.protocol import Network
from ntkgp.predictive.calibration import best_temperature

LAW_SAMPLES = 100
"""Draws of a law's outputs at a row that it leaves out."""


@storable
class EnsembleClassifier(Classifier, EnsembleEstimator):
    """An ensemble of neural networks whose class probabilities know their limits (Section 3.5).

    Each member regresses on one-hot targets times κ; the probabilities are the members' mean
    softmax(z/T). Inputs are standardised inside. The prior is learned: κ, the noise of the labels and the
    scales of layers have the highest marginal likelihood on at most 400 rows. Labels that are often
    wrong get much noise, and no member repeats them.

    T is that of the exact law of up to 1,000 rows, which predicts each from all others, corrected by a
    tenth of the rows, and at least 5, the same share of each class, that are held out of training. With
    validation_fraction 0, or fewer than 20 rows, none are, and T is the law's. Images, and methods that
    follow no posterior, such as deep ensembles and RP, have the rows held out alone; without any, T is
    set on the training rows, and the probabilities are overconfident.

    Args:
        method: "ntkgp-param", "ntkgp-fn", "ntkgp-lin", "rp-param", "rp-fn", "deep-ensemble", or
            another name in `ntkgp.METHODS`, or an `ntkgp.Method` of your own.
        members: number of networks K.
        noise_std: standard deviation σ of the noise on the scaled targets; None to learn it, and the
            rest of the prior. The paper's is 0.1. With a number the network keeps its own scales, and
            κ² is C·ζ₀, with ζ₀ the mean square of the method's outputs before training.
        target_scale: κ; None to choose it.
        target_scale_grid: the multiples of κ² to try. With more than one, each is trained, and
            validation accuracy decides, then validation cross-entropy.
        class_weight: None, "balanced", or a dictionary of weights by class: rows of a class count so
            much in training and for T. The probabilities are then those of such classes.
        network, width, depth: as in `EnsembleRegressor`.
        activation: of the default network, "relu", "erf", "gelu", or "auto" for the one of relu and erf
            with the higher marginal likelihood.
        learning_rate, min_steps, min_epochs, batch_size, weight_decay, trainer: as in `EnsembleRegressor`,
            but for the defaults.
        validation_fraction: share of the rows held out for T.
        members_at_once, warm_start, random_state, checkpoint, backend, verbose: as in `EnsembleRegressor`.

    Attributes:
        ensemble_: the trained `Ensemble`.
        prior_: the `LearnedPrior`; None if no scales were learned.
        class_prior_: the frequencies of the classes.
        zeta_0_: ζ₀ of the network that was trained.
        kappa_: κ.
        temperature_: T.
        classes_: the classes.

    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = EnsembleClassifier(members=3, depth=1, activation="erf").fit(X, X[:, 0] > 0)
    >>> model.predict_proba(X[:2]).shape
    (2, 2)
    """

    def __init__(
        self,
        method: str | Method = "ntkgp-param",
        *,
        members: int = 10,
        noise_std: float | None = None,
        target_scale: float | None = None,
        target_scale_grid: tuple[float, ...] = (1.0,),
        class_weight: Any = None,
        network: Any = None,
        width: int = 128,
        depth: int = 2,
        activation: str = "relu",
        learning_rate: float = 3e-3,
        min_steps: int = 2000,
        min_epochs: int = 20,
        batch_size: int = 64,
        weight_decay: float = 1e-4,
        validation_fraction: float = 0.1,
        trainer: Trainer | Sequence[Trainer] | None = None,
        members_at_once: int | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        checkpoint: Any = None,
        backend: Any = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.members = members
        self.noise_std = noise_std
        self.target_scale = target_scale
        self.target_scale_grid = target_scale_grid
        self.class_weight = class_weight
        self.network = network
        self.width = width
        self.depth = depth
        self.activation = activation
        self.learning_rate = learning_rate
        self.min_steps = min_steps
        self.min_epochs = min_epochs
        self.batch_size = batch_size
        self.weight_decay = weight_decay
        self.validation_fraction = validation_fraction
        self.trainer = trainer
        self.members_at_once = members_at_once
        self.warm_start = warm_start
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.backend = backend
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "EnsembleClassifier":
        """Train the ensemble on rows X and classes y (n,); rows may have weights ≥ 0."""
        with self._as_before_on_failure():
            return self._fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> "EnsembleClassifier":
        method = get_method(self.method)
        rows, held_out = self._check_xy(X, y, sample_weight, self.validation_fraction)
        nets = self._candidates(len(self.classes_))
        if self._goes_on():
            learner = self.ensemble_.learner
            net = known_network(learner.net, nets, self.network is not None)
            noise_std = float(learner.noise_std) if self.noise_std is None else self.noise_std
            kappa = self.kappa_
        else:
            net, noise_std, kappa = self._learned(
                nets,
                rows,
                get_law(method.law),
                lambda net, x: second_moment(net, method, x, self.seed_),
            )
        judged = held_out if len(held_out.x) else rows
        expected = cache(partial(self._expected_temperature, net, rows, noise_std))
        train = partial(self._train, net, rows.x, noise_std=noise_std, sample_weight=rows.weight)
        self.ensemble_ = self._best_fit(
            rows,
            judged,
            kappa,
            train,
            lambda ensemble: _outputs(ensemble, judged.x),
            expected,
        )
        if not len(held_out.x):
            self.temperature_ = expected(self.kappa_) or self.temperature_
        return self

    def _expected_temperature(
        self, net: Network, rows: Labelled, noise_std: float, kappa: float
    ) -> float | None:
        """T of the posterior that members are draws of, whose rows it predicts from all others."""
        law = get_law(get_method(self.method).law)
        if not (law.is_posterior and has_table_kernel(net)):
            return None
        few = np.random.default_rng(self.seed_).permutation(len(rows.x))[:BLOCK_ROWS]
        some, shift = rows.take(few), kappa * self.class_prior_
        targets = one_hot(some.labels, len(self.classes_), kappa) - shift
        conditioned = condition(
            net,
            some.x,
            targets,
            law=law,
            noise_std=noise_std,
            sample_weight=some.weight,
            jitter=JITTER,
        )
        judged = np.arange(min(len(few), LEFT_OUT_ROWS))
        logits = draws(conditioned.left_out(judged), LAW_SAMPLES, self.seed_) + shift
        return best_temperature(logits, some.labels[judged], some.take(judged).weight)

    def _logits(self, x: NDArray[Any]) -> NDArray[Any]:
        return _outputs(self.ensemble_, x)


def _outputs(ensemble: Ensemble, x: NDArray[Any]) -> NDArray[np.float64]:
    return ensemble.outputs(x).astype(np.float64)
