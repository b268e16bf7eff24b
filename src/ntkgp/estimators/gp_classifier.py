"""The exact law of infinite width as a classifier."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.arrays import check_counts
from ntkgp.core.storage import storable
from ntkgp.estimators.classification import Classifier
from ntkgp.estimators.left_out import LEFT_OUT_ROWS
from ntkgp.estimators.one_hot import draws, second_moment_of_law
from ntkgp.estimators.preparation import HELD_OUT
from ntkgp.kernels.solvers import Cholesky, Solver
from ntkgp.laws.exact import ExactLaw, condition
from ntkgp.laws.table import Law, get_law
from ntkgp.networks.layered import require_layers
from ntkgp.networks.protocol import Network

MOST_SAMPLES = 1_000_000
"""That a file may ask for."""


@storable
class GPClassifier(Classifier):
    """The exact law of an infinitely wide ensemble as a classifier; by default NTKGP.

    A Gaussian process regresses on one-hot targets times κ; the probabilities are
    ∫ softmax(z/T) p(dz) under that law, by Monte Carlo. The prior is learned as in
    `EnsembleClassifier`. T makes rows most likely that are left out, each predicted from all others; for
    laws that are no posterior, rows are held out for it.

    Args:
        law: "ntkgp", "nngp", "randomised-prior" or "deep-ensemble", or an `ntkgp.Law` of your own.
        noise_std, target_scale, target_scale_grid, class_weight: as in `EnsembleClassifier`, with ζ₀ the
            mean of the prior kernel at (x, x).
        network: a `LayeredNetwork`, or a function (input_shape, output_dim) that makes one.
        depth, activation: of the default network.
        samples: how many of the law, for predictions.
        validation_samples: how many of the law, for T.
        jitter: added to the diagonal of the training kernel.
        solver: how the training kernel is inverted; None for `ntkgp.Cholesky()`. If the matrix does not
            fit into memory, take `ntkgp.Refined()` or `ntkgp.ConjugateGradients()`.
        validation_fraction: share of the rows held out for T; None for none if rows can be left out.
        random_state, verbose: as in `EnsembleClassifier`.

    Attributes:
        law_: the `ExactLaw`.
        prior_, class_prior_, zeta_0_, kappa_, temperature_, classes_: as in `EnsembleClassifier`.

    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> GPClassifier(random_state=0).fit(X, X[:, 0] > 0).predict_proba(X[:2]).shape
    (2, 2)
    """

    law_: ExactLaw

    def __init__(
        self,
        law: str | Law = "ntkgp",
        *,
        noise_std: float | None = None,
        target_scale: float | None = None,
        target_scale_grid: tuple[float, ...] = (1.0,),
        class_weight: Any = None,
        network: Any = None,
        depth: int = 2,
        activation: str = "relu",
        samples: int = 100,
        validation_samples: int = 10,
        jitter: float = 1e-6,
        solver: Solver | None = None,
        validation_fraction: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.law = law
        self.noise_std = noise_std
        self.target_scale = target_scale
        self.target_scale_grid = target_scale_grid
        self.class_weight = class_weight
        self.network = network
        self.depth = depth
        self.activation = activation
        self.samples = samples
        self.validation_samples = validation_samples
        self.jitter = jitter
        self.solver = solver
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "GPClassifier":
        """Condition on rows X and classes y (n,); rows may have weights ≥ 0."""
        law = get_law(self.law)
        fraction = self.validation_fraction
        if fraction is None:
            fraction = 0.0 if law.is_posterior else HELD_OUT
        rows, held_out = self._check_xy(X, y, sample_weight, fraction)
        nets = [require_layers(net) for net in self._candidates(len(self.classes_))]
        net, noise_std, kappa = self._learned(
            nets, rows, law, lambda net, x: second_moment_of_law(require_layers(net), law, x)
        )
        conditioned = partial(
            condition,
            net,
            rows.x,
            law=self.law,
            noise_std=noise_std,
            sample_weight=rows.weight,
            jitter=self.jitter,
            solver=self.solver or Cholesky(),
            progress=bool(self.verbose),
        )
        drawn = np.random.default_rng(self.seed_).permutation(len(rows.x))[:LEFT_OUT_ROWS]
        leaves_out = law.is_posterior and not len(held_out.x) and fraction == 0
        judged = held_out if len(held_out.x) else rows.take(drawn) if leaves_out else rows

        def logits(law: ExactLaw) -> NDArray[Any]:
            normal = law.left_out(drawn) if leaves_out else law.predict(judged.x)
            return draws(normal, self.validation_samples, self.seed_)

        self.law_ = self._best_fit(rows, judged, kappa, conditioned, logits)
        return self

    def fitted_network(self) -> Network:
        return self.law_.net

    def __check_stored__(self) -> None:
        super().__check_stored__()
        for name in ("samples", "validation_samples"):
            count = check_counts(**{name: getattr(self, name)})[name]
            if count > MOST_SAMPLES:
                raise ValueError(f"{name} is {count:,}, above {MOST_SAMPLES:,}.")

    def _n_targets(self) -> int:
        return self.law_.y.shape[1]

    def _logits(self, x: NDArray[Any]) -> NDArray[Any]:
        return draws(self.law_.predict(x), self.samples, self.seed_)
