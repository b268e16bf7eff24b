"""What both regressors share: targets standardised, predictions in the user's units."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from ntkgp.core.arrays import check_number, check_part
from ntkgp.core.memory import require_covariance
from ntkgp.estimators.base import TableEstimator
from ntkgp.estimators.cross_fitted import (
    UNSEEN_ROWS,
    UNSEEN_STEPS,
    overconfidence,
    unseen_blocks,
)
from ntkgp.estimators.left_out import Block
from ntkgp.estimators.preparation import Choice, choose, seed_of
from ntkgp.estimators.standardise import Scaler
from ntkgp.laws.row_noise import FittedRowNoise, RowNoise
from ntkgp.laws.table import Law
from ntkgp.networks.protocol import Network
from ntkgp.predictive.distributions import Normal
from ntkgp.predictive.metrics.checks import as_open

FEW_ROWS = 5
"""Fewer are warned of."""


class Joint(NamedTuple):
    """A function's mean and covariance at n rows, and the noise of observations of it."""

    mean: NDArray[Any]
    """(n, c)"""
    covariance: NDArray[Any]
    """(n, n, c)"""
    noise_var: NDArray[Any] | float
    """Broadcastable to (n, c)."""


def check_row_noise(noise: Any, *others: str) -> None:
    """An error for what is no model of noise that differs from row to row; `others` are named too."""
    if noise is not None and (isinstance(noise, type) or not isinstance(noise, RowNoise)):
        *first, last = ("None", "ntkgp.VaryingNoise()", "ntkgp.HeavyTails()", *others)
        raise TypeError(f"noise must be {', '.join(first)} or {last}; got {noise!r}.")


class Regressor(RegressorMixin, TableEstimator):  # type: ignore[misc]
    """Predictions in the user's units from what a network says in its own; `y_scaler_` maps the two."""

    noise_std: float | None
    noise_std_: NDArray[Any] | None = None
    """Where the model keeps one beside its law or ensemble."""
    row_noise_: FittedRowNoise | None = None
    """How noise differs from row to row; None if it does not."""
    one_target_: bool
    y_scaler_: Scaler

    def __check_stored__(self) -> None:
        super().__check_stored__()
        shape = (self._n_targets(),)
        self.y_scaler_.check(shape)
        if self.noise_std_ is not None:
            check_part("noise_std_", self.noise_std_, shape)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _check_xy(
        self, X: Any, y: Any, sample_weight: Any = None
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
        """X as it is, y (n, c) and the weights of rows that count; no weights if all are alike."""
        inputs, targets = self._check_training_data(X, y, y_numeric=True, multi_output=True)
        self.one_target_ = targets.ndim == 1
        used, weight = self._weights(sample_weight, len(inputs))
        self._check_number_of_rows(int(np.sum(used)))
        targets = targets.reshape(len(targets), -1).astype(np.float64)
        return inputs[used], targets[used], weight

    def _check_number_of_rows(self, n: int) -> None:
        """Refuse one row, and warn of few that are to say how large the noise is."""
        if n == 1:
            raise ValueError(
                "a fit needs two rows or more: one does not say how much targets vary; got n_samples=1."
            )
        if n < FEW_ROWS and self.noise_std is None:
            warnings.warn(
                f"{n} rows do not say how much targets vary, and intervals are likely too narrow: fit at "
                f"least {FEW_ROWS}, or give noise_std.",
                stacklevel=4,
            )

    def _choose(
        self,
        nets: Sequence[Network],
        x: NDArray[Any],
        y: NDArray[Any],
        sample_weight: NDArray[Any] | None,
        *,
        law: Law,
        **options: Any,
    ) -> Choice:
        """The network and σ of highest marginal likelihood on the training rows.

        σ is in the network's units, in which the targets have the scale of its prior. `y_scaler_`
        maps them to those of y.
        """
        standard = Scaler.of("y", y, sample_weight=sample_weight)
        targets = standard.apply("y", y)
        given = self._given_noise(standard)
        choice = choose(nets, x, targets, law, self.seed_, given, sample_weight, **options)
        self.log_marginal_likelihood_value_ = choice.log_marginal_likelihood
        self.prior_ = choice.prior
        self.y_scaler_ = standard.stretched(choice.scale)
        return choice

    def _unseen_blocks(
        self,
        choice: Choice,
        x: NDArray[Any],
        y: NDArray[Any],
        sample_weight: NDArray[Any] | None,
        *,
        law: Law,
        jitter: float,
    ) -> list[Block]:
        """Blocks of rows by priors learned without them, in the network's units, if scales are learned."""
        if choice.prior is None:
            return []
        learn = self._again(choice, law, rows=UNSEEN_ROWS, max_steps=UNSEEN_STEPS)
        rows = (x, _standardised(y, sample_weight), sample_weight)
        relevance = choice.prior.net.input_scale
        assert relevance is not None
        blocks = unseen_blocks(learn, relevance, *rows, law, self.seed_, jitter)
        return [Block(*(values / choice.scale**2 for values in block)) for block in blocks]

    def _overconfidence(
        self,
        choice: Choice,
        x: NDArray[Any],
        y: NDArray[Any],
        sample_weight: NDArray[Any] | None,
        *,
        law: Law,
        jitter: float,
        stretch: float,
        **options: Any,
    ) -> float:
        """How much too sure predictions are where scales were learned; `options` of the search."""
        if choice.prior is None:
            return 1.0
        learn = self._again(choice, law, **options)
        rows = (x, _standardised(y, sample_weight), sample_weight)
        return overconfidence(learn, *rows, law, self.seed_, jitter, stretch)

    def _again(self, choice: Choice, law: Law, **options: Any) -> Callable[..., Choice]:
        """Learns a prior of the network that was chosen on other rows."""

        def learn(x: NDArray[Any], y: NDArray[Any], weight: NDArray[Any] | None) -> Choice:
            return choose([choice.candidate], x, y, law, self.seed_, None, weight, **options)

        return learn

    def _noise_var(self, x: NDArray[Any]) -> NDArray[Any]:
        """Of observations at rows x, (n, c) or one for all rows, in the network's units."""
        assert self.noise_std_ is not None
        noise_var = (self.noise_std_ / self.y_scaler_.std) ** 2
        if self.row_noise_ is None:
            return noise_var
        return noise_var * self.row_noise_.relative_var(x)[:, None]

    def _observed(self, predicted: Normal) -> Normal:
        """How observations are distributed, given the normal of the function and of σ(x)."""
        return predicted if self.row_noise_ is None else self.row_noise_.observed(predicted)

    def _noise_samples(self, x: NDArray[Any], n_samples: int, seed: int) -> NDArray[Any]:
        """The noise of observations at rows x, (n_samples, n, c), in the network's units."""
        zeros = np.zeros((len(x), len(self.y_scaler_.std)))
        own_seed = int(np.random.default_rng([seed, 1]).integers(2**31))
        return self._observed(Normal(zeros, zeros, self._noise_var(x))).sample(n_samples, own_seed)

    def _given_noise(self, standard: Scaler) -> float | None:
        """σ of standardised targets, if the user gave it."""
        if self.noise_std is None:
            return None
        check_number("noise_std", self.noise_std, above=0.0, most=1e100)
        if not self.one_target_:
            raise ValueError(
                "noise_std is one number in the units of one target, and y has several columns: "
                "leave it None, or fit each column by itself."
            )
        return float(self.noise_std / standard.std[0])

    def _predict(self, x: NDArray[Any]) -> Normal:
        """The prediction in the network's units, as in all methods below."""
        raise NotImplementedError

    def predict_dist(self, X: Any) -> Normal:
        """The predictive distribution of an observation at each row of X, in the units of y.

        A normal, or Student's t for noise with outliers, with mean, std, interval, quantile, log_prob
        and sample, and its variance in two parts: epistemic_var, which more data would reduce, and
        noise_var. For an ensemble it has the moments of the members' mixture (Appendix F), and the
        members' predictions in `members`.
        Arrays are (n,) for a one-dimensional y and (n, targets) for several.
        """
        predicted = self._observed(self._predict(self._inputs(X)))
        result = predicted.rescaled(self.y_scaler_.std, self.y_scaler_.mean)
        return result.first_output() if self.one_target_ else result

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        quantiles: ArrayLike | None = None,
        interval: float | None = None,
        return_members: bool = False,
    ) -> NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]:
        """The predicted mean, or what one of the options asks for; a pipeline passes them on.

        Args:
            X: rows to predict.
            return_std: the mean, and the standard deviation at each row, noise included.
            return_cov: the mean, and the covariance between rows, (n, n), or (n, n, targets) for
                several targets; noise is on its diagonal.
            quantiles: probabilities (m,). The values below which an observation falls with each of
                them, (n, m) or (n, targets, m), in place of the mean.
            interval: a probability. The lower and the upper end of the central interval that holds
                an observation with it, in place of the mean.
            return_members: each member's prediction, (k, n) or (k, n, targets), without noise, in
                place of the mean. An exact law has none.

        Quantiles and intervals are those of the distribution that `predict_dist` returns.
        """
        options = {
            "return_std": return_std,
            "return_cov": return_cov,
            "quantiles": quantiles is not None,
            "interval": interval is not None,
            "return_members": return_members,
        }
        _check_one_at_most([name for name, asked in options.items() if asked])
        if return_cov:
            return self._mean_and_covariance(self._inputs(X))
        if return_std:
            distribution = self.predict_dist(X)
            return distribution.mean, distribution.std
        if quantiles is not None:
            levels = as_open("quantiles", quantiles, ndim=1)
            distribution = self.predict_dist(X)
            return np.stack([distribution.quantile(float(q)) for q in levels], axis=-1)
        if interval is not None:
            return self.predict_dist(X).interval(float(as_open("interval", interval, ndim=0)))
        if return_members:
            return self._in_units(self._members(self._inputs(X)))
        return self._in_units(self._mean(self._inputs(X)))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> NDArray[Any]:
        """Observations, (n, n_samples) or (n, targets, n_samples) for several targets.

        Each sample follows one function through all rows: one member of an ensemble, one draw
        from an exact law.
        """
        samples = self._samples(self._inputs(X), n_samples, seed_of(random_state))
        return np.moveaxis(self._in_units(samples), 0, -1)

    def _mean(self, x: NDArray[Any]) -> NDArray[Any]:
        """The mean (n, c), without the work for a variance."""
        raise NotImplementedError

    def _members(self, x: NDArray[Any]) -> NDArray[Any]:
        """Each member's mean (k, n, c), of an ensemble."""
        raise ValueError(
            f"return_members is for ensembles, and {type(self).__name__} has no members: draw from "
            "it by sample_y(X, n_samples)."
        )

    def _joint(self, x: NDArray[Any]) -> Joint:
        """The function at all rows jointly."""
        raise NotImplementedError

    def _samples(self, x: NDArray[Any], n_samples: int, seed: int) -> NDArray[Any]:
        """Observations (n_samples, n, c)."""
        raise NotImplementedError

    def _in_units(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values (..., n, c) in the user's units and shape."""
        values = self.y_scaler_.undo(values)
        return values[..., 0] if self.one_target_ else values

    def _mean_and_covariance(self, x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Mean and covariance of observations, in the user's units and shape."""
        # The function's covariance, one for each target and its rescaled copy.
        require_covariance(len(x), matrices=1 + 2 * len(self.y_scaler_.std))
        mean, covariance, noise_var = self._joint(x)
        rows = np.arange(len(x))
        covariance[rows, rows] += self._observed(Normal(mean, np.zeros_like(mean), noise_var)).var
        covariance = covariance * self.y_scaler_.std**2
        return self._in_units(mean), covariance[..., 0] if self.one_target_ else covariance


def _standardised(y: NDArray[Any], sample_weight: NDArray[Any] | None) -> NDArray[Any]:
    """Targets in the units in which priors are learned."""
    return Scaler.of("y", y, sample_weight=sample_weight).apply("y", y)


def _check_one_at_most(asked: list[str]) -> None:
    if len(asked) > 1:
        raise ValueError(
            f"predict answers one question at a time; got {' and '.join(asked)}. Call it once for "
            "each, or read all from predict_dist(X)."
        )
