"""The ensemble as a regressor."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.arrays import check_counts
from ntkgp.core.storage import storable
from ntkgp.ensembles.ensemble import Ensemble
from ntkgp.ensembles.methods import Method, get_method
from ntkgp.ensembles.noise import ConstantNoise, LearnedNoise, Noise
from ntkgp.ensembles.trainers import Descent, Trainer
from ntkgp.estimators.ensembles import (
    FEW_GRADIENTS,
    FEW_RESIDUALS,
    EnsembleEstimator,
    known_network,
)
from ntkgp.estimators.left_out import BLOCK_ROWS, JITTER, Block, checked
from ntkgp.estimators.pilots import less_noise
from ntkgp.estimators.preparation import (
    ENOUGH_ROWS,
    HELD_OUT,
    PRIOR_ROWS,
    Choice,
    has_table_kernel,
    holdout,
    with_unit_prior,
)
from ntkgp.estimators.regression import Joint, Regressor, check_row_noise
from ntkgp.laws.exact import condition
from ntkgp.laws.row_noise import RowNoise
from ntkgp.laws.table import Law, get_law
from ntkgp.laws.uncertain import UncertainPrior, uncertain_prior
from ntkgp.networks.layered import require_layers
from ntkgp.networks.protocol import Network
from ntkgp.predictive.calibration import best_noise_std
from ntkgp.predictive.distributions import Mixture, Normal

ROWS_FOR_PILOTS = 1000
"""Where members train on more than so many, pilots try less noise."""
MOST_NOISE = 100.0
"""The most that a learned σ²(x) can be, over the σ² of constant noise."""


class TrainingRows(NamedTuple):
    """Training rows, standardised, with targets (n, c) and weights."""

    x: NDArray[Any]
    y: NDArray[Any]
    weight: NDArray[Any] | None


@storable
class EnsembleRegressor(Regressor, EnsembleEstimator):
    """An ensemble of neural networks that says how sure it is; by default Bayesian, NTKGP-param.

    Inputs and targets are standardised inside. The prior is learned: a scale for each input column, the
    weight and bias scales of each layer, the scale of the function, the noise and the activation have the
    highest marginal likelihood of the infinitely wide network, on at most 400 rows; those of the best
    activation are then learned further, on at most 1,000, and on 2,000 of more than 4,000 that are
    trained on. Of images and of networks whose kernel is unknown, only the noise and the function's scale
    are learned. Where data leave the scales of the prior open, so do members: each has a draw from the
    posterior of the scales given at most 400 rows.

    Rows that are not trained on check the noise. Up to 2,000 targets, the exact posterior of infinite
    width predicts rows from all others, so that members train on all. Between 30 and 400 of them, if the
    noise is constant and learned, priors learned without a third of the rows say how much too sure the
    learned one is; from 30 on, others learned without a third of a column's order say it of rows away
    from the data. With more rows, for methods that follow no posterior, and for learned noise, a tenth
    of the rows, and at least 5, is held out; from fewer than 20 none are. The rows left out or held out
    also set the noise of predictions, by their likelihood; the fewer they are, the nearer it stays to
    that of training. Several targets share the noise of training and the scale, relative to their
    standard deviations.

    If members train on more than 1,000 rows, the noise is learned and the method has a regulariser, three
    pilots first try whether less noise in training suits rows held out better: those above, or a tenth that
    is held out from pilots alone. There are none if `validation_fraction` is 0, or if noise differs from
    row to row and no rows are held out.

    Args:
        method: "ntkgp-param", "ntkgp-fn", "ntkgp-lin", "rp-param", "rp-fn", "deep-ensemble", or
            another name in `ntkgp.METHODS`, or an `ntkgp.Method` of your own.
        members: number of networks K.
        noise_std: standard deviation of the observation noise in the units of y; None to learn it.
        noise: None for one noise level; `ntkgp.VaryingNoise()` for one that depends on x, found by the
            exact law before members train; `ntkgp.HeavyTails()` for noise with outliers;
            `ntkgp.LearnedNoise()` to let the network learn σ(x) with a second output (Section 3.3),
            around the level of constant noise and at most ten times it, for images, networks whose
            kernel is unknown, and tables too large for the first.
        network: a `Network`, or a function (input_shape, output_dim) that makes one; None for a
            multi-layer perceptron of `depth` hidden layers of `width` units. With learned noise
            the network needs two outputs for each target, first all means, then all variances.
        activation: of the default network, "relu", "erf", "gelu", or "auto".
        learn_prior: whether to learn the scales of the network from the data; if not, only the
            noise, the function's scale and the activation are chosen.
        vary_prior: whether each member draws its scales from `uncertain_prior_`; if not, all have
            those of highest marginal likelihood.
        learning_rate, min_steps, min_epochs, batch_size: of Adam with cosine decay, which runs for
            min_epochs passes over the data or min_steps steps, whichever is more. min_steps is 4,000
            by default, and 12,000 for more than 2,000 targets.
        weight_decay: for deep ensembles; other methods have the regulariser of their prior instead.
        validation_fraction: share of the rows held out, 0 for none, not even from pilots; None for a
            tenth where the exact law cannot check the noise.
        trainer: a `Trainer`, or several that work in turn; None for Adam, and on up to 2,000 targets
            for Gauss-Newton after it, if the method has a regulariser and the noise is constant; on up to
            1,000 for networks that are not made of dense layers.
        members_at_once: how many train at the same time; None for all, or as many as Gauss-Newton has a
            gigabyte for. Fewer take less memory.
        warm_start: whether a second `fit` on the same data keeps the members that are there and
            trains only those that `members` asks for beyond them.
        random_state: an integer makes every run the same.
        checkpoint: a directory, or an `ntkgp.Checkpoint`, that keeps the state of training. After a crash
            or a signal the same fit, with an integer `random_state`, goes on from there.
        backend: None for this machine; "ray", or an `ntkgp.Ray`, to train members on a cluster.
        verbose: show progress.

    Attributes:
        ensemble_: the trained `Ensemble`, on standardised data.
        noise_std_: standard deviation of an observation's noise in the units of y, a number for
            each target. Of a row of weight 1 where rows differ; where the network learns σ(x), the
            level around which it does.
        row_noise_: how noise differs from row to row; None if it does not.
        stretch_: the factor, at least 1, by which members' deviations from their mean grow: priors
            learned without some rows, a third of a column's order or one drawn at random, were too
            sure of them. It is the scale of the prior, set after training: members that train with a
            larger one would fit worse.
        y_scaler_: the affine map between the network's units and those of y. A unit of the network
            is the scale at which its prior suits the targets best.
        prior_: the `LearnedPrior`, on standardised data: `prior_.net.input_scale` says how much each
            column matters. None if no scales were learned.
        uncertain_prior_: the `UncertainPrior` that members' scales are drawn from, in the network's
            units; None if all have the same.
        log_marginal_likelihood_value_: of the prior, on the standardised targets of the rows that
            it was learned on.

    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = EnsembleRegressor(members=3, depth=1, activation="erf").fit(X, X[:, 0])
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
        noise: Noise | RowNoise | None = None,
        network: Any = None,
        width: int = 128,
        depth: int = 2,
        activation: str = "auto",
        learn_prior: bool = True,
        vary_prior: bool = True,
        learning_rate: float = 3e-3,
        min_steps: int | None = None,
        min_epochs: int = 20,
        batch_size: int = 64,
        weight_decay: float = 1e-4,
        validation_fraction: float | None = None,
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
        self.checkpoint = checkpoint
        self.backend = backend
        self.verbose = verbose

    uncertain_prior_: UncertainPrior | None

    @property
    def _noise(self) -> Noise:
        """The noise model of members: row noise is constant noise of weighted rows."""
        if self.noise == LearnedNoise():
            return LearnedNoise(most=MOST_NOISE)
        return self.noise if isinstance(self.noise, Noise) else ConstantNoise()

    @property
    def _row_noise(self) -> RowNoise | None:
        if self.noise is None or isinstance(self.noise, Noise):
            return None
        check_row_noise(self.noise, "ntkgp.LearnedNoise()")
        return self.noise

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "EnsembleRegressor":
        """Train the ensemble on rows X and targets y, (n,) or (n, targets).

        With `sample_weight` w a row's noise variance is σ²/w, where w is taken relative to its mean;
        rows of weight 0 do not count.
        """
        with self._as_before_on_failure():
            return self._fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> "EnsembleRegressor":
        inputs, targets, weight = self._check_xy(X, y, sample_weight)
        nets = self._candidates(self._noise.heads * targets.shape[1])
        self._check_noise(nets)
        share = self._share_to_hold_out(nets, targets.size)
        train, held_out = holdout(len(inputs), share, self._start())
        x = self._standardise(inputs, train, weight)
        trainer = self._suited_trainer(nets, targets[train])  # before the work: it may be refused
        if self._goes_on():
            net, noise_std = self._chosen_before(nets)
        else:
            rows = TrainingRows(x[train], targets[train], None if weight is None else weight[train])
            net, noise_std = self._learned(nets, rows, check_noise=not len(held_out))
        scaled = self.y_scaler_.apply("y", targets)
        row_weight = self._row_weight(x, scaled, weight)
        stops_early = len(held_out) and self._stops_early()

        def fit_members(rows: NDArray[Any], trainer: Any, **options: Any) -> Ensemble:
            return self._train(
                net,
                x[rows],
                scaled[rows],
                trainer=trainer,
                prior=self.uncertain_prior_,
                noise=self._noise,
                sample_weight=None if row_weight is None else row_weight[rows],
                validation=(x[held_out], scaled[held_out]) if stops_early else None,
                **options,
            )

        if len(train) > ROWS_FOR_PILOTS and self._may_need_less_noise():
            seen, asked = self._rows_of_pilots(train, held_out)
            if len(asked) >= ENOUGH_ROWS:
                fit_pilots = partial(fit_members, seen, self._quick(trainer))
                relative = self._relative_var(x, weight, asked)
                noise_std = less_noise(fit_pilots, noise_std, x[asked], scaled[asked], relative)
        self.ensemble_ = fit_members(train, trainer, noise_std=noise_std)
        if self._sets_noise_by(held_out):
            predicted = self._stretched(self.ensemble_.predict(x[held_out]))
            relative = self._relative_var(x, weight, held_out)
            if not self._noise.constant:
                relative = relative * predicted.noise_var / noise_std**2
            found = best_noise_std(predicted, scaled[held_out], noise_std, relative)
            self.noise_std_ = found * self.y_scaler_.std
        return self

    def _relative_var(
        self, x: NDArray[Any], weight: NDArray[Any] | None, rows: NDArray[Any]
    ) -> NDArray[Any] | float:
        """The noise variance of these rows over σ², (rows, 1): by the user's weights and the row noise."""
        relative: Any = 1.0 if weight is None else 1 / weight[rows, None]
        if self.row_noise_ is not None:
            relative = relative * self.row_noise_.relative_var(x[rows])[:, None]
        return relative

    def _check_noise(self, nets: Sequence[Network]) -> None:
        if not self._noise.constant and self.noise_std is not None:
            raise ValueError(f"{self._noise!r} learns the noise: leave noise_std None.")
        if self._row_noise is None:
            return
        if self.noise_std is not None or not all(map(has_table_kernel, nets)):
            raise ValueError(
                f"{self.noise!r} is learned by the exact law of a table: leave noise_std None, and take "
                "a network made of dense layers, or noise=ntkgp.LearnedNoise()."
            )

    def _sets_noise_by(self, held_out: NDArray[Any]) -> bool:
        """Whether rows held out set the noise of predictions."""
        normal = self.row_noise_ is None or self.row_noise_.normal
        return bool(normal and self.noise_std is None and len(held_out))

    def _row_weight(
        self, x: NDArray[Any], targets: NDArray[Any], given: NDArray[Any] | None
    ) -> NDArray[Any] | None:
        """The weight of each row in training: the user's, times that of its noise."""
        if self.row_noise_ is None:
            return given
        weight = self.row_noise_.weights(x, targets / self.stretch_)
        return weight if given is None else weight * given

    def _share_to_hold_out(self, nets: Sequence[Network], n_targets: int) -> float:
        """None is needed of a small table whose noise the exact law can check."""
        if self.validation_fraction is not None:
            return self.validation_fraction
        small = n_targets <= FEW_RESIDUALS and all(map(has_table_kernel, nets))
        return 0.0 if small and self._follows_law() else HELD_OUT

    def _follows_law(self) -> bool:
        """Whether members follow the exact law of a posterior, which then checks their prior."""
        return self._noise.constant and get_law(get_method(self.method).law).is_posterior

    def _learned(
        self, nets: Sequence[Network], rows: "TrainingRows", check_noise: bool
    ) -> tuple[Network, float]:
        """The network and σ of training.

        Sets `y_scaler_`, `noise_std_`, `row_noise_` and `uncertain_prior_`.

        Args:
            check_noise: whether the exact law checks the noise, because no rows are held out.
        """
        law = get_law(get_method(self.method).law)
        options: dict[str, Any] = {"learn": bool(self.learn_prior), "progress": bool(self.verbose)}
        choice = self._choose(nets, *rows, law=law, **options)
        if (
            not self._noise.constant
        ):  # log σ²(x) has the prior of the mean: it should be no wide one
            unit_choice = with_unit_prior(choice, rows.x, law)
            self.y_scaler_ = self.y_scaler_.stretched(unit_choice.scale / choice.scale)
            choice = unit_choice
        net, noise_std = choice.net, choice.noise_std
        noise_stds = np.full(rows.y.shape[1], noise_std)
        self.stretch_, self.row_noise_ = 1.0, None
        if self._can_check(net, rows.y):
            again: dict[str, Any] = {"law": self._posterior(), "jitter": JITTER}
            unseen = self._unseen_blocks(choice, *rows, **again)
            noise_std, noise_stds = self._checked(choice, rows, check_noise, unseen)
            if self._row_noise is None and check_noise:
                again |= {"stretch": self.stretch_, **options}
                factor = self._overconfidence(choice, *rows, **again)
                self.stretch_, noise_stds = factor * self.stretch_, factor * noise_stds
        self.noise_std_ = noise_stds * self.y_scaler_.std
        in_net_units = rows._replace(y=self.y_scaler_.apply("y", rows.y))
        # The scales are an optimum beside the σ they were learned with, not beside one found since.
        self.uncertain_prior_ = self._uncertain_prior(net, choice.noise_std, in_net_units, law)
        return net, noise_std

    def _can_check(self, net: Network, y: NDArray[Any]) -> bool:
        """Whether an exact law of a table can check the noise, or is asked for row noise."""
        wanted = self._follows_law() or self._row_noise is not None
        return bool(
            self.noise_std is None and wanted and has_table_kernel(net) and np.any(np.ptp(y, 0))
        )

    def _posterior(self) -> Law:
        """That of the kernel which the method's law trains with."""
        kernel = get_law(get_method(self.method).law).trained
        return Law(prior=kernel, trained=kernel)

    def _checked(
        self, choice: Choice, rows: "TrainingRows", check_noise: bool, unseen: Sequence[Block]
    ) -> tuple[float, NDArray[Any]]:
        """σ of training, and σ of predictions for each target; sets `stretch_`."""
        most = FEW_RESIDUALS if check_noise else BLOCK_ROWS
        few = np.random.default_rng(self.seed_).permutation(len(rows.x))[:most]
        conditioned = partial(
            condition,
            choice.net,
            rows.x[few],
            self.y_scaler_.apply("y", rows.y[few]),
            law=self._posterior(),
            sample_weight=None if rows.weight is None else rows.weight[few],
            jitter=JITTER,
        )
        more = check_noise and len(rows.x) > choice.rows
        found = checked(conditioned, choice.noise_std, self.seed_, more, self._row_noise, unseen)
        self.row_noise_ = found.row_noise
        self.stretch_ = found.stretch
        return found.law.noise_std, found.stretch * found.noise_stds

    def _uncertain_prior(
        self, net: Network, noise_std: float, rows: "TrainingRows", law: Law
    ) -> UncertainPrior | None:
        """What members draw their scales from, by rows in the network's units; None if all share them."""
        if self.prior_ is None or not self.vary_prior:
            return None
        # In the network's units.
        learned = replace(self.prior_, net=require_layers(net), noise_std=noise_std)
        return uncertain_prior(
            learned,
            rows.x,
            rows.y,
            law=law,
            sample_weight=rows.weight,
            rows=PRIOR_ROWS,
            seed=self.seed_,
        )

    def _suited_trainer(
        self, nets: Sequence[Network], targets: NDArray[Any]
    ) -> Trainer | Sequence[Trainer]:
        at_once = {} if self.members_at_once is None else {"members_at_once": self.members_at_once}
        check_counts(members=self.members, **at_once)
        regularised = not get_method(self.method).takes_weight_decay
        least_squares = regularised and self._noise.least_squares
        quick = FEW_RESIDUALS if all(map(has_table_kernel, nets)) else FEW_GRADIENTS
        return self._trainer(len(targets), targets.size, quick if least_squares else 0)

    def _may_need_less_noise(self) -> bool:
        """Whether pilots may try less noise: members learn features that the prior does not know."""
        learned = self.noise_std is None and self._noise.constant and not self._goes_on()
        regularised = not get_method(self.method).takes_weight_decay
        return learned and regularised

    def _rows_of_pilots(
        self, train: NDArray[Any], held_out: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Rows that pilots train on, and rows that they are asked about.

        Where members train on all rows, a tenth is held out from pilots alone: the last of the order whose
        first the prior was learned on.
        """
        if len(held_out) or self.validation_fraction is not None or self.row_noise_ is not None:
            return train, held_out
        order = np.random.default_rng(self.seed_).permutation(len(train))
        seen, asked = np.split(order, [len(train) - round(HELD_OUT * len(train))])
        return train[np.sort(seen)], train[np.sort(asked)]

    def _quick(self, trainer: Trainer | Sequence[Trainer]) -> Trainer | Sequence[Trainer]:
        """What pilots train by: the user's trainer, or Adam, without Gauss-Newton after it."""
        if self.trainer is None and isinstance(trainer, Sequence):
            return trainer[0]
        return trainer

    def _chosen_before(self, nets: Sequence[Network]) -> tuple[Network, float]:
        """The network and σ of the fit that this one adds to, unless settings ask for others."""
        learner = self.ensemble_.learner
        net = known_network(learner.net, nets, self.network is not None)
        if self.noise_std is None:
            return net, float(learner.noise_std)
        given = float(self.noise_std / self.y_scaler_.std[0])
        same = np.isclose(given, float(learner.noise_std), rtol=1e-6)
        return net, float(learner.noise_std) if same else given

    def _stops_early(self) -> bool:
        """Whether held-out rows choose the epoch to keep: only if nothing else regularises the members."""
        overfits = get_method(self.method).takes_weight_decay or not self._noise.constant
        return overfits and isinstance(self.trainer, Descent | None)

    def _mixture(self, x: NDArray[Any]) -> Mixture:
        """The members' normals, with the calibrated noise."""
        mixture = self._stretched(self.ensemble_.predict(x))
        noise_var, learner = self._noise_var(x), self.ensemble_.learner
        if not learner.noise.constant:
            noise_var = noise_var * mixture.noise_vars / learner.noise_std**2
        return replace(mixture, noise_vars=noise_var)

    def _stretched(self, mixture: Mixture) -> Mixture:
        """Members further from their mean, as a prior on a larger scale has them."""
        means = mixture.mean + self.stretch_ * (mixture.means - mixture.mean)
        return mixture if self.stretch_ == 1 else replace(mixture, means=means)

    def _predict(self, x: NDArray[Any]) -> Normal:
        return self._mixture(x).moment_matched()

    def _mean(self, x: NDArray[Any]) -> NDArray[Any]:
        return self.ensemble_.outputs(x).astype(np.float64).mean(axis=0)

    def _members(self, x: NDArray[Any]) -> NDArray[Any]:
        return self._stretched(Mixture(self.ensemble_.outputs(x).astype(np.float64))).means

    def _joint(self, x: NDArray[Any]) -> Joint:
        mixture = self._mixture(x)
        centred = mixture.means - mixture.mean
        covariance = np.einsum("knc,kmc->nmc", centred, centred) / len(centred)
        return Joint(mixture.mean, covariance, mixture.noise_var)

    def _samples(self, x: NDArray[Any], n_samples: int, seed: int) -> NDArray[Any]:
        mixture = self._mixture(x)
        if self.row_noise_ is None:
            return mixture.sample(n_samples, seed)
        functions = replace(mixture, noise_vars=0.0).sample(n_samples, seed)
        return functions + self._noise_samples(x, n_samples, seed)
