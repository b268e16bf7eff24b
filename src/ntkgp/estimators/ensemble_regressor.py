"""The ensemble as a regressor."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.storage import storable
from ntkgp.ensembles.ensemble import Ensemble
from ntkgp.ensembles.methods import Method, get_method
from ntkgp.ensembles.noise import ConstantNoise, Noise
from ntkgp.ensembles.trainers import Descent, Trainer
from ntkgp.estimators.ensembles import FEW_RESIDUALS, EnsembleEstimator
from ntkgp.estimators.preparation import ENOUGH_ROWS, PRIOR_ROWS, holdout
from ntkgp.estimators.regression import Joint, Regressor
from ntkgp.estimators.standardise import Scaler
from ntkgp.laws.table import Law, get_law
from ntkgp.laws.uncertain import UncertainPrior, uncertain_prior
from ntkgp.networks.layered import LayeredNetwork, require_layers
from ntkgp.networks.protocol import Network
from ntkgp.predictive.calibration import best_noise_std
from ntkgp.predictive.distributions import Mixture, Normal

PILOTS = 3
"""Members that try a lower noise."""
LESS_NOISE = 0.4
"""The step in which it is lowered."""


@storable
class EnsembleRegressor(Regressor, EnsembleEstimator):
    """An ensemble of neural networks that says how sure it is; by default Bayesian, NTKGP-param.

    Inputs and targets are standardised inside. A tenth of the rows, and at least 5, is held out; from a
    table of fewer than 20 rows none are. The other rows learn the prior: a scale for each input column,
    the weight and bias scales of each layer, the scale of the function, the noise and the activation
    have the highest marginal likelihood of the infinitely wide network, on at most 400 rows. Of images,
    of networks whose kernel is unknown, and with learned noise, only the noise and the function's scale
    are learned.

    Where data leave the scales of the prior open, so do members: each has a draw from the posterior of
    the scales. Members train on all rows that are not held out. If these are more than 1,000, a few
    members first try whether less noise in training suits the rows held out better. These rows also set
    the noise of predictions, by their likelihood; the fewer they are, the nearer it stays to that of
    training. Several targets share the noise of training and the scale, relative to their standard
    deviations.

    Args:
        method: "ntkgp-param", "ntkgp-fn", "ntkgp-lin", "rp-param", "rp-fn", "deep-ensemble", or
            another name in `ntkgp.METHODS`, or an `ntkgp.Method` of your own.
        members: number of networks K.
        noise_std: standard deviation of the observation noise in the units of y; None to learn it.
        noise: None for one noise level, or `ntkgp.LearnedNoise()` to let the network learn one for
            each x (Section 3.3), at most the standard deviation of y.
        network: a `Network`, or a function (input_shape, output_dim) that makes one; None for a
            multi-layer perceptron of `depth` hidden layers of `width` units. With learned noise
            the network needs two outputs for each target, first all means, then all variances.
        activation: of the default network, "relu", "erf", "gelu", or "auto".
        learn_prior: whether to learn the scales of the network from the data; if not, only the
            noise, the function's scale and the activation are chosen.
        vary_prior: whether each member draws its scales from `uncertain_prior_`; if not, all have
            those of highest marginal likelihood.
        learning_rate, min_steps, min_epochs, batch_size: of Adam with cosine decay, which runs for
            min_epochs passes over the data or min_steps steps, whichever is more.
        weight_decay: for deep ensembles; other methods have the regulariser of their prior instead.
        validation_fraction: share of the rows held out; 0 for none.
        trainer: a `Trainer`, or several that work in turn; None for Adam, and on up to 1,000 targets
            for Gauss-Newton after it, if the method has a regulariser and the noise is constant.
        members_at_once: how many members one program holds; None for all. Fewer take less memory.
        warm_start: whether a second `fit` on the same data keeps the members that are there and
            trains only those that `members` asks for beyond them.
        random_state: an integer makes every run the same.
        verbose: show progress.

    Attributes:
        ensemble_: the trained `Ensemble`, on standardised data.
        noise_std_: standard deviation of an observation's noise in the units of y, a number for
            each target; None where the network learns it.
        y_scaler_: the affine map between the network's units and those of y. A unit of the network
            is the scale at which its prior suits the targets best.
        prior_: the `LearnedPrior`, on standardised data: `prior_.net.input_scale` says how much each
            column matters. None if no scales were learned.
        uncertain_prior_: the `UncertainPrior` that members' scales are drawn from, in the network's
            units; None if all have the same.
        log_marginal_likelihood_value_: of the prior, on the standardised targets of the rows that
            it was learned on.

    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = EnsembleRegressor(members=3, min_steps=200, random_state=0).fit(X, X[:, 0])
    >>> mean, std = model.predict(X[:2], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((2,), True)
    """

    def __init__(
        self,
        method: str | Method = "ntkgp-param",
        *,
        members: int = 10,
        noise_std: float | None = None,
        noise: Noise | None = None,
        network: Any = None,
        width: int = 128,
        depth: int = 2,
        activation: str = "auto",
        learn_prior: bool = True,
        vary_prior: bool = True,
        learning_rate: float = 3e-3,
        min_steps: int = 4000,
        min_epochs: int = 20,
        batch_size: int = 64,
        weight_decay: float = 1e-4,
        validation_fraction: float = 0.1,
        trainer: Trainer | Sequence[Trainer] | None = None,
        members_at_once: int | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.members = members
        self.noise_std = noise_std
        self.noise = noise
        self.network = network
        self.width = width
        self.depth = depth
        self.activation = activation
        self.learn_prior = learn_prior
        self.vary_prior = vary_prior
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
        self.verbose = verbose

    @property
    def _noise(self) -> Noise:
        return ConstantNoise() if self.noise is None else self.noise

    def fit(self, X: Any, y: Any) -> "EnsembleRegressor":
        """Train the ensemble on rows X and targets y, (n,) or (n, targets)."""
        with self._as_before_on_failure():
            return self._fit(X, y)

    def _fit(self, X: Any, y: Any) -> "EnsembleRegressor":
        inputs, targets = self._check_xy(X, y)
        law = get_law(get_method(self.method).law)
        if not self._noise.constant and self.noise_std is not None:
            raise ValueError(f"{self._noise!r} learns the noise: leave noise_std None.")
        train, held_out = holdout(len(inputs), self.validation_fraction, self._start())
        x = self._standardise(inputs, train)
        nets = self._candidates(self._noise.heads * targets.shape[1])
        trainer = self._suited_trainer(targets[train])  # before the work: it may be refused
        if self._goes_on():
            net, noise_std = self._chosen_before(nets)
        else:
            learn = bool(self.learn_prior) and self._noise.constant
            options = {"learn": learn, "progress": bool(self.verbose)}
            net, noise_std = self._choose(nets, x[train], targets[train], law, **options)
            if not self._noise.constant:  # a sigmoid reaches at most 1: the targets' own variance
                self.y_scaler_ = Scaler.of("y", targets[train])
        scaled = self.y_scaler_.apply("y", targets)
        if not self._goes_on():
            self.uncertain_prior_ = self._uncertain_prior(
                net, noise_std, x[train], scaled[train], law
            )
        stops_early = len(held_out) and self._stops_early()
        fit_members = partial(
            self._train,
            net,
            x[train],
            scaled[train],
            trainer=trainer,
            prior=self.uncertain_prior_,
            noise=self._noise,
            validation=(x[held_out], scaled[held_out]) if stops_early else None,
        )
        if self._may_need_less_noise(len(train), len(held_out)):
            noise_std = self._less_noise(fit_members, noise_std, x[held_out], scaled[held_out])
        self.ensemble_ = fit_members(noise_std=noise_std)
        self.noise_std_ = None
        if self._noise.constant:
            noise_stds = self._calibrated_noise(noise_std, x[held_out], scaled[held_out])
            self.noise_std_ = noise_stds * self.y_scaler_.std
        return self

    def _uncertain_prior(
        self, net: Network, noise_std: float, x: NDArray[Any], targets: NDArray[Any], law: Law
    ) -> UncertainPrior | None:
        """What members draw their scales from; None if all have the same."""
        if self.prior_ is None or not self.vary_prior:
            return None
        # In the network's units.
        learned = replace(self.prior_, net=require_layers(net), noise_std=noise_std)
        return uncertain_prior(learned, x, targets, law=law, rows=PRIOR_ROWS, seed=self.seed_)

    def _suited_trainer(self, targets: NDArray[Any]) -> Trainer | Sequence[Trainer]:
        regularised = not get_method(self.method).takes_weight_decay
        least_squares = regularised and self._noise.least_squares
        return self._trainer(len(targets), targets.size if least_squares else None)

    def _may_need_less_noise(self, n: int, n_held_out: int) -> bool:
        """Whether to ask rows held out: the prior saw far fewer, and members learn features."""
        learned = self.noise_std is None and self._noise.constant and not self._goes_on()
        regularised = not get_method(self.method).takes_weight_decay
        return learned and regularised and n > FEW_RESIDUALS and n_held_out >= ENOUGH_ROWS

    def _less_noise(
        self,
        fit_members: Callable[..., Ensemble],
        noise_std: float,
        x: NDArray[Any],
        targets: NDArray[Any],
    ) -> float:
        """σ of training, lowered step by step while a few members do better on rows held out."""

        def log_probs(noise_std: float) -> NDArray[Any]:
            pilot = fit_members(noise_std=noise_std, members=PILOTS).predict(x)
            noise_var = best_noise_std(pilot, targets) ** 2
            return replace(pilot, noise_vars=noise_var).moment_matched().log_prob(targets)

        best = log_probs(noise_std)
        while True:
            less = LESS_NOISE * noise_std
            found = log_probs(less)
            gains = (found - best).mean(axis=1)
            if np.mean(gains) <= np.std(gains) / len(gains) ** 0.5:
                return noise_std
            noise_std, best = less, found

    def _chosen_before(self, nets: Sequence[Network]) -> tuple[Network, float]:
        """The network and σ of the fit that this one adds to, unless settings ask for others."""
        learner = self.ensemble_.learner
        asked_for = {_structure(net) for net in nets}
        known = self.network is not None or _structure(learner.net) in asked_for
        net = learner.net if known else nets[0]
        if self.noise_std is None:
            return net, float(learner.noise_std)
        given = float(self.noise_std / self.y_scaler_.std[0])
        same = np.isclose(given, float(learner.noise_std), rtol=1e-6)
        return net, float(learner.noise_std) if same else given

    def _stops_early(self) -> bool:
        """Whether held-out rows choose the epoch to keep: only if nothing else regularises the members."""
        overfits = get_method(self.method).takes_weight_decay or not self._noise.constant
        return overfits and isinstance(self.trainer, Descent | None)

    def _calibrated_noise(
        self, trained: float, x: NDArray[Any], targets: NDArray[Any]
    ) -> NDArray[Any]:
        """σ of each target that makes these held-out rows most likely."""
        trained_stds = np.full(targets.shape[1], trained)
        if self.noise_std is not None or not len(x):
            return trained_stds
        return best_noise_std(self.ensemble_.predict(x), targets, expected=trained)

    def _mixture(self, x: NDArray[Any]) -> Mixture:
        """The members' normals, with the calibrated noise unless it is learned."""
        mixture = self.ensemble_.predict(x)
        if self.noise_std_ is None:
            return mixture
        return replace(mixture, noise_vars=(self.noise_std_ / self.y_scaler_.std) ** 2)

    def _predict(self, x: NDArray[Any]) -> Normal:
        return self._mixture(x).moment_matched()

    def _mean(self, x: NDArray[Any]) -> NDArray[Any]:
        return self._members(x).mean(axis=0)

    def _members(self, x: NDArray[Any]) -> NDArray[Any]:
        return self.ensemble_.outputs(x).astype(np.float64)

    def _joint(self, x: NDArray[Any]) -> Joint:
        mixture = self._mixture(x)
        centred = mixture.means - mixture.mean
        covariance = np.einsum("knc,kmc->nmc", centred, centred) / len(centred)
        return Joint(mixture.mean, covariance, mixture.noise_var)

    def _samples(self, x: NDArray[Any], n_samples: int, seed: int) -> NDArray[Any]:
        return self._mixture(x).sample(n_samples, seed)


def _structure(net: Network) -> Any:
    """A network without its scales, which are learned."""
    return net.structure if isinstance(net, LayeredNetwork) else net
