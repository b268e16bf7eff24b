"""The exact law of infinite width as a regressor."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.storage import storable
from ntkgp.estimators.left_out import JITTER, checked
from ntkgp.estimators.preparation import has_table_kernel
from ntkgp.estimators.regression import Joint, Regressor, check_row_noise
from ntkgp.kernels.solvers import Cholesky, Solver
from ntkgp.laws.exact import ExactLaw, condition
from ntkgp.laws.row_noise import RowNoise
from ntkgp.laws.table import Law, get_law
from ntkgp.networks.layered import require_layers
from ntkgp.networks.protocol import Network
from ntkgp.predictive.distributions import Normal


@storable
class GPRegressor(Regressor):
    """The exact law of an infinitely wide ensemble; by default the NTKGP posterior.

    Inputs and targets are standardised inside. The prior is learned: a scale for each input column, the
    weight and bias scales of each layer, the scale of the function, the noise, and the activation are
    those of highest marginal likelihood, on at most 400 rows; those of the best activation are then
    learned further, on at most 1,000, and on 2,000 of more than 4,000. Rows left out check them: each of
    up to 500 rows is predicted from all others, and the noise of predictions makes them most likely. From
    30 rows on, thirds of the order of the three columns that matter most are predicted by priors learned
    without them, and if these were too sure, the function's scale grows. Between 30 and 400 rows, thirds
    drawn at random are predicted by priors learned without them, and if these were too sure, all standard
    deviations grow.

    Args:
        law: "ntkgp", "nngp", "randomised-prior" or "deep-ensemble", or an `ntkgp.Law` of your own.
        noise_std: standard deviation of the observation noise in the units of y; None to choose it.
        noise: None for one noise level, `ntkgp.VaryingNoise()` for one that depends on x, or
            `ntkgp.HeavyTails()` for noise with outliers.
        network: a `LayeredNetwork`, or a function (input_shape, output_dim) that makes one; None
            for a multi-layer perceptron of `depth` hidden layers.
        activation: of the default network, "relu", "erf", "gelu", or "auto".
        optimizer: "fmin_l_bfgs_b" to learn the prior; None to keep the network's own scales, and
            choose only the noise, the scale of the function and the activation.
        n_restarts_optimizer: further starts of the search, drawn from the priors of the scales.
        jitter: added to the diagonal of the training kernel, relative to the prior scale; the
            noise-free "deep-ensemble" law needs some.
        solver: how the training kernel is inverted; None for `ntkgp.Cholesky()`. If the matrix does not
            fit into memory, take `ntkgp.Refined()` or `ntkgp.ConjugateGradients()`.
        random_state: draws the rows for the marginal likelihood, and the restarts.
        verbose: show progress.

    Attributes:
        law_: the `ExactLaw`, on standardised data.
        prior_, log_marginal_likelihood_value_, noise_std_, row_noise_, y_scaler_: as in
            `EnsembleRegressor`.

    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = GPRegressor().fit(X, np.sin(3 * X[:, 0]))
    >>> mean, std = model.predict([[0.0], [4.0]], return_std=True)
    >>> bool(std[1] > 10 * std[0])
    True
    """

    law_: ExactLaw

    def __init__(
        self,
        law: str | Law = "ntkgp",
        *,
        noise_std: float | None = None,
        noise: RowNoise | None = None,
        network: Any = None,
        depth: int = 2,
        activation: str = "auto",
        optimizer: str | None = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 0,
        jitter: float = 1e-6,
        solver: Solver | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.law = law
        self.noise_std = noise_std
        self.noise = noise
        self.network = network
        self.depth = depth
        self.activation = activation
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.jitter = jitter
        self.solver = solver
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "GPRegressor":
        """Condition on rows X and targets y, (n,) or (n, targets).

        With `sample_weight` w a row's noise variance is σ²/w, where w is taken relative to its mean;
        rows of weight 0 do not count.
        """
        law = get_law(self.law)
        check_row_noise(self.noise)
        inputs, targets, weight = self._check_xy(X, y, sample_weight)
        self._start()
        x = self._standardise(inputs, np.arange(len(inputs)), weight)
        nets = [require_layers(net) for net in self._candidates(targets.shape[1])]
        self._check_row_noise(law, nets)
        if self.optimizer not in ("fmin_l_bfgs_b", None):
            raise ValueError(f'optimizer must be "fmin_l_bfgs_b" or None; got {self.optimizer!r}.')
        options = {
            "learn": self.optimizer is not None,
            "restarts": self.n_restarts_optimizer,
            "progress": bool(self.verbose),
        }
        choice = self._choose(nets, x, targets, weight, law=law, **options)
        conditioned = partial(
            condition,
            choice.net,
            x,
            self.y_scaler_.apply("y", targets),
            law=self.law,
            sample_weight=weight,
            jitter=self.jitter,
            solver=self.solver or Cholesky(),
            progress=bool(self.verbose),
        )
        if self.noise_std is None and law.is_posterior:
            more, rows = len(x) > choice.rows, (x, targets, weight)
            again: dict[str, Any] = {"law": law, "jitter": max(self.jitter, JITTER)}
            unseen = self._unseen_blocks(choice, *rows, **again)
            found = checked(conditioned, choice.noise_std, self.seed_, more, self.noise, unseen)
            if self.noise is None:
                again |= {"stretch": found.stretch, **options}
                found = found.stretched(self._overconfidence(choice, *rows, **again))
            self.law_, noise_stds, stretch, self.row_noise_ = found
            self.y_scaler_ = self.y_scaler_.stretched(stretch)
        else:
            self.law_ = conditioned(noise_std=choice.noise_std)
            noise_stds = np.full(targets.shape[1], choice.noise_std)
        self.noise_std_ = noise_stds * self.y_scaler_.std
        return self

    def _check_row_noise(self, law: Law, nets: Sequence[Network]) -> None:
        if self.noise is None:
            return
        if self.noise_std is not None or not law.is_posterior:
            raise ValueError(
                f'{self.noise!r} is fitted to a posterior whose noise is learned: take law="ntkgp" or '
                '"nngp", and leave noise_std None.'
            )
        if not all(map(has_table_kernel, nets)):
            raise ValueError(
                f"{self.noise!r} is learned by the exact law of a table: take a network made of dense "
                "layers, or leave noise None."
            )

    def fitted_network(self) -> Network:
        return self.law_.net

    def _n_targets(self) -> int:
        return self.law_.y.shape[1]

    def _predict(self, x: NDArray[Any]) -> Normal:
        return replace(self.law_.predict(x), noise_var=self._noise_var(x))

    def _mean(self, x: NDArray[Any]) -> NDArray[Any]:
        return self.law_.mean(x)

    def _joint(self, x: NDArray[Any]) -> Joint:
        covariance = np.repeat(self.law_.covariance(x)[..., None], self.law_.y.shape[1], axis=-1)
        return Joint(self._mean(x), covariance, self._noise_var(x))

    def _samples(self, x: NDArray[Any], n_samples: int, seed: int) -> NDArray[Any]:
        return self.law_.sample(x, n_samples, seed) + self._noise_samples(x, n_samples, seed)
