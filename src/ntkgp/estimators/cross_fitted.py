"""How much too sure a learned prior is of rows it has not seen.

On few rows with many columns the scales of highest marginal likelihood fit by chance. Rows left out of
the law alone do not show it, for the scales were learned with them. So thirds of the rows are predicted
by priors that were learned without them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ntkgp.estimators.left_out import JITTER, checked
from ntkgp.estimators.preparation import PRIOR_ROWS, Choice
from ntkgp.kernels.linalg import NotPositiveDefinite
from ntkgp.laws.exact import condition
from ntkgp.laws.table import Law

LEAST_ROWS, MOST_ROWS = 30, PRIOR_ROWS
"""Fewer rows say too little. With more, the prior is learned on some of them, and the others check it."""
FOLDS = 3
FARTHEST = 3.0
"""Errors count up to so many standard deviations: one outlier says nothing about all other rows."""


def overconfidence(
    choose: Callable[..., Choice],
    x: NDArray[Any],
    y: NDArray[Any],
    sample_weight: NDArray[Any] | None,
    law: Law,
    seed: int,
    jitter: float = JITTER,
) -> float:
    """The factor ≥ 1 by which standard deviations of predictions are too small.

    It is √(1 + (1 - 1/3)(z̄² - 1)), where z̄² is the mean of squared errors over predicted variances, each
    up to 3², over what that is for a normal. What a prior fits by chance is in inverse proportion to its
    rows, and each third is predicted from two.

    Args:
        choose: learns a prior on rows x, y and their weights.
        x, y: standardised rows and targets (n, c).
        sample_weight: of the rows, or None.
        law: a posterior.
        seed: draws the thirds.
        jitter: on the diagonal of the laws.
    """
    n = len(x)
    if not LEAST_ROWS <= n <= MOST_ROWS:
        return 1.0

    def squared_z(left_out: NDArray[Any]) -> NDArray[Any]:
        """By a prior that has not seen these rows."""
        seen = np.setdiff1d(np.arange(n), left_out)
        weight = None if sample_weight is None else sample_weight[seen]
        if not np.all(np.ptp(y[seen], axis=0)):
            return np.zeros(0)  # nothing to learn from
        choice = choose(x[seen], y[seen], weight)
        targets = y[seen] / choice.scale
        conditioned = partial(
            condition, choice.net, x[seen], targets, law=law, sample_weight=weight, jitter=jitter
        )
        found = checked(conditioned, choice.noise_std, seed, may_be_less=False)
        predicted = found.law.predict(x[left_out])
        relative = 1.0 if sample_weight is None else 1 / sample_weight[left_out, None]
        var = predicted.epistemic_var + found.noise_stds**2 * relative
        errors = y[left_out] / (choice.scale * found.stretch) - predicted.mean
        return np.asarray(errors**2 / var).ravel()

    order = np.random.default_rng(seed).permutation(n)
    thirds = order[: n // FOLDS * FOLDS].reshape(FOLDS, -1)
    try:
        squares = np.concatenate([squared_z(third) for third in thirds])
    except NotPositiveDefinite:  # with fewer rows, and not with all
        return 1.0
    if not len(squares):
        return 1.0
    usual = stats.norm.expect(lambda z: np.minimum(z**2, FARTHEST**2))
    excess = float(np.mean(np.minimum(squares, FARTHEST**2)) / usual) - 1
    return float(np.sqrt(1 + (1 - 1 / FOLDS) * max(excess, 0.0)))
