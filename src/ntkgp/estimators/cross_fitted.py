"""How much too sure a learned prior is of rows it has not seen.

Rows left out of the law alone do not show it, for the scales were learned with them. So rows are predicted
by priors that were learned without them. Thirds of a column's order show whether the prior is too sure
where there are no data; thirds drawn at random, whether scales of many columns fit few rows by chance.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ntkgp.core.threads import in_threads
from ntkgp.estimators.left_out import BLOCK_ROWS, JITTER, Block, calibrated, parts_of
from ntkgp.estimators.preparation import PRIOR_ROWS, Choice
from ntkgp.kernels.linalg import NotPositiveDefinite
from ntkgp.laws.exact import ExactLaw, condition
from ntkgp.laws.table import Law

LEAST_ROWS, MOST_ROWS = 30, PRIOR_ROWS
"""Fewer rows say too little. With more, scales fit little by chance."""
FOLDS = 3
RELEVANT = 3
"""So many columns, those that matter most, are cut into parts that a prior does not see."""
LEAST_IN_BLOCK = 5
"""Rows without which a part of a column's order says too little."""
UNSEEN_ROWS, UNSEEN_STEPS = 200, 20
"""Rows to learn such a prior on, and steps of the search."""
FARTHEST = 3.0
"""Errors count up to so many standard deviations: one outlier says nothing about all other rows."""


def unseen_blocks(
    choose: Callable[..., Choice],
    relevance: Sequence[float],
    x: NDArray[Any],
    y: NDArray[Any],
    sample_weight: NDArray[Any] | None,
    law: Law,
    seed: int,
    jitter: float = JITTER,
) -> list[Block]:
    """Each third of the order of the columns that matter most, by a prior learned without its rows.

    Args:
        choose: learns a prior on rows x, y and their weights.
        relevance: the scale of each column.
        x, y: standardised rows and targets (n, c), in whose units the blocks are.
        sample_weight, law, seed, jitter: as for `overconfidence`.
    """
    if len(x) < LEAST_ROWS or x.ndim != 2:  # the pixels of images are no columns
        return []
    order = np.random.default_rng(seed).permutation(len(x))[:BLOCK_ROWS]
    x, y = x[order], y[order][:, np.ptp(y, axis=0) > 0]
    weight = None if sample_weight is None else sample_weight[order]
    columns = [c for c in np.argsort(-np.asarray(relevance)) if np.ptp(x[:, c])][:RELEVANT]
    parts = [parts_of(x[:, column]) for column in columns]
    thirds = [part == number for part in parts for number in np.unique(part)]

    def block(left_out: NDArray[np.bool_]) -> Block | None:
        seen = np.flatnonzero(~left_out)
        few = seen[:UNSEEN_ROWS]  # they are in random order
        too_small = np.sum(left_out) < LEAST_IN_BLOCK or len(seen) < len(x) / 3
        if too_small or not np.all(np.ptp(y[few], axis=0)):
            return None
        try:
            choice = choose(x[few], y[few], None if weight is None else weight[few])
            own = None if weight is None else weight[seen]
            rest = _conditioned(choice, x[seen], y[seen], own, law, jitter)
        except NotPositiveDefinite:
            return None
        predicted = rest.predict(x[left_out])
        errors = y[left_out] - choice.scale * predicted.mean
        noise_var = choice.noise_std**2 / (1.0 if weight is None else weight[left_out, None])
        noise_vars = np.broadcast_to(noise_var, errors.shape)
        return Block(
            errors**2, choice.scale**2 * predicted.epistemic_var, choice.scale**2 * noise_vars
        )

    return [found for found in in_threads(block, thirds) if found is not None]


def overconfidence(
    choose: Callable[..., Choice],
    x: NDArray[Any],
    y: NDArray[Any],
    sample_weight: NDArray[Any] | None,
    law: Law,
    seed: int,
    jitter: float = JITTER,
    stretch: float = 1.0,
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
        stretch: of the laws' priors, which is known already.
    """
    n, y = len(x), y[:, np.ptp(y, axis=0) > 0]
    if not LEAST_ROWS <= n <= MOST_ROWS:
        return 1.0

    def squared_z(left_out: NDArray[Any]) -> NDArray[Any]:
        """By a prior that has not seen these rows."""
        seen = np.setdiff1d(np.arange(n), left_out)
        weight = None if sample_weight is None else sample_weight[seen]
        if not np.all(np.ptp(y[seen], axis=0)):
            return np.zeros(0)  # nothing to learn from
        choice = choose(x[seen], y[seen], weight)
        rest = _conditioned(choice, x[seen], y[seen], weight, law, jitter)
        found = calibrated(rest, stretch, np.arange(len(seen)))
        predicted = found.law.predict(x[left_out])
        relative = 1.0 if sample_weight is None else 1 / sample_weight[left_out, None]
        var = predicted.epistemic_var + found.noise_stds**2 * relative
        errors = y[left_out] / (choice.scale * found.stretch) - predicted.mean
        return np.asarray(errors**2 / var).ravel()

    order = np.random.default_rng(seed).permutation(n)
    thirds = order[: n // FOLDS * FOLDS].reshape(FOLDS, -1)
    try:
        squares = np.concatenate(in_threads(squared_z, list(thirds)))
    except NotPositiveDefinite:  # with fewer rows, and not with all
        return 1.0
    if not len(squares):
        return 1.0
    usual = stats.norm.expect(lambda z: np.minimum(z**2, FARTHEST**2))
    excess = float(np.mean(np.minimum(squares, FARTHEST**2)) / usual) - 1
    return float(np.sqrt(1 + (1 - 1 / FOLDS) * max(excess, 0.0)))


def _conditioned(
    choice: Choice,
    x: NDArray[Any],
    y: NDArray[Any],
    sample_weight: NDArray[Any] | None,
    law: Law,
    jitter: float,
) -> ExactLaw:
    """The law of a prior on these rows, in the network's units."""
    return condition(
        choice.net,
        x,
        y / choice.scale,
        law=law,
        noise_std=choice.noise_std,
        sample_weight=sample_weight,
        jitter=jitter,
    )
