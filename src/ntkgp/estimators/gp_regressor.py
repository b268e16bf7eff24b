"""The exact law of infinite width as a regressor."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.storage import storable
from ntkgp.estimators.regression import Joint, Regressor
from ntkgp.kernels.solvers import Cholesky, Solver
from ntkgp.laws.exact import condition
from ntkgp.laws.table import Law, get_law
from ntkgp.networks.layered import require_layers
from ntkgp.networks.protocol import Network
from ntkgp.predictive.distributions import Normal


@storable
class GPRegressor(Regressor):
    """The exact law of an infinitely wide ensemble; by default the NTKGP posterior.

    Inputs and targets are standardised inside. Noise level, prior scale and activation are those
    of highest marginal likelihood, on at most 1,000 rows.

    Args:
        law: "ntkgp", "nngp", "randomised-prior" or "deep-ensemble", or an `ntkgp.Law` of your own.
        noise_std: standard deviation of the observation noise in the units of y; None to choose it.
        network: a `LayeredNetwork`, or a function (input_shape, output_dim) that makes one; None
            for a multi-layer perceptron of `depth` hidden layers.
        activation: of the default network, "relu", "erf", "gelu", or "auto".
        jitter: added to the diagonal of the training kernel, relative to the prior scale; the
            noise-free "deep-ensemble" law needs some.
        solver: how the training kernel is inverted; None for `ntkgp.Cholesky()`. If the matrix does not
            fit into memory, take `ntkgp.Refined()` or `ntkgp.ConjugateGradients()`.
        random_state: chooses the rows for the marginal likelihood.
        verbose: show progress.

    Attributes:
        law_: the `ExactLaw`, on standardised data.
        noise_std_, y_scaler_, evidence_: as in `EnsembleRegressor`.

    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = GPRegressor().fit(X, np.sin(3 * X[:, 0]))
    >>> mean, std = model.predict([[0.0], [4.0]], return_std=True)
    >>> bool(std[1] > 10 * std[0])
    True
    """

    def __init__(
        self,
        law: str | Law = "ntkgp",
        *,
        noise_std: float | None = None,
        network: Any = None,
        depth: int = 2,
        activation: str = "auto",
        jitter: float = 1e-6,
        solver: Solver | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.law = law
        self.noise_std = noise_std
        self.network = network
        self.depth = depth
        self.activation = activation
        self.jitter = jitter
        self.solver = solver
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> "GPRegressor":
        """Condition on rows X and targets y, (n,) or (n, targets)."""
        law = get_law(self.law)
        inputs, targets = self._check_xy(X, y)
        self._start()
        x = self._standardise(inputs, np.arange(len(inputs)))
        nets = [require_layers(net) for net in self._candidates(targets.shape[1])]
        net, noise_std = self._choose(nets, x, targets, law)
        self.noise_std_ = noise_std * self.y_scaler_.std
        self.law_ = condition(
            net,
            x,
            self.y_scaler_.apply("y", targets),
            law=self.law,
            noise_std=noise_std,
            jitter=self.jitter,
            solver=self.solver or Cholesky(),
            progress=bool(self.verbose),
        )
        return self

    def fitted_network(self) -> Network:
        return self.law_.net

    def _predict(self, x: NDArray[Any]) -> Normal:
        return self.law_.predict(x)

    def _mean(self, x: NDArray[Any]) -> NDArray[Any]:
        return self.law_.mean(x)

    def _joint(self, x: NDArray[Any]) -> Joint:
        covariance = np.repeat(self.law_.covariance(x)[..., None], self.law_.y.shape[1], axis=-1)
        return Joint(self._mean(x), covariance, self.law_.noise_std**2)

    def _samples(self, x: NDArray[Any], n_samples: int, seed: int) -> NDArray[Any]:
        functions = self.law_.sample(x, n_samples, seed)
        noise = np.random.default_rng([seed, 1]).standard_normal(functions.shape)
        return functions + self.law_.noise_std * noise
