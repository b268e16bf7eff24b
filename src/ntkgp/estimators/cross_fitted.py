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

from ntkgp.estimators.left_out import JITTER, checked
from ntkgp.estimators.preparation import PRIOR_ROWS, Choice
from ntkgp.laws.exact import condition
from ntkgp.laws.table import Law

LEAST_ROWS, MOST_ROWS = 30, PRIOR_ROWS
"""Between these: fewer say nothing, and more than the prior is learned on say it anyway."""
FOLDS = 3


def overconfidence(
    choose: Callable[..., Choice],
    x: NDArray[Any],
    y: NDArray[Any],
    sample_weight: NDArray[Any] | None,
    law: Law,
    seed: int,
) -> float:
    """The factor ≥ 1 by which standard deviations of predictions are too small.

    It is √(1 + (1 - 1/3)(z̄² - 1)), where z̄² is the mean squared error over the predicted variance: what a
    prior fits by chance is in inverse proportion to its rows, and each third is predicted from two.

    Args:
        choose: learns a prior on rows x, y and their weights.
        x, y: standardised rows and targets (n, c).
        sample_weight: of the rows, or None.
        law: a posterior.
        seed: draws the thirds.
    """
    n = len(x)
    if not LEAST_ROWS <= n <= MOST_ROWS:
        return 1.0
    order = np.random.default_rng(seed).permutation(n)
    squares = [
        _squared_z(choose, x, y, sample_weight, law, seed, left_out)
        for left_out in order[: n // FOLDS * FOLDS].reshape(FOLDS, -1)
    ]
    excess = float(np.mean(squares)) - 1
    return float(np.sqrt(1 + (1 - 1 / FOLDS) * max(excess, 0.0)))


def _squared_z(
    choose: Callable[..., Choice],
    x: NDArray[Any],
    y: NDArray[Any],
    sample_weight: NDArray[Any] | None,
    law: Law,
    seed: int,
    left_out: NDArray[Any],
) -> NDArray[Any]:
    """Squared errors over predicted variances at these rows, by a prior that has not seen them."""
    seen = np.setdiff1d(np.arange(len(x)), left_out)
    weight = None if sample_weight is None else sample_weight[seen]
    choice = choose(x[seen], y[seen], weight)
    conditioned = partial(
        condition,
        choice.net,
        x[seen],
        y[seen] / choice.scale,
        law=law,
        sample_weight=weight,
        jitter=JITTER,
    )
    found = checked(conditioned, choice.noise_std, seed, may_be_less=False)
    predicted = found.law.predict(x[left_out])
    relative = 1.0 if sample_weight is None else 1 / sample_weight[left_out, None]
    var = predicted.epistemic_var + found.noise_stds**2 * relative
    errors = y[left_out] / (choice.scale * found.stretch) - predicted.mean
    return np.asarray(errors**2 / var)
