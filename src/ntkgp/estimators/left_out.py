"""What rows left out say about a learned prior: its noise, and its scale away from the data.

The exact law predicts left-out rows from all others in closed form. Single rows test it where data are,
blocks of rows where they are not.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ntkgp.laws.exact import ExactLaw
from ntkgp.predictive.calibration import best_noise_std

LEFT_OUT_ROWS = 500
"""The most rows that are left out one at a time."""
BLOCK_ROWS = 1000
"""The most rows of a law from which blocks are left out: it takes their number cubed."""
LESS_NOISE = 0.6
"""The step in which less noise is tried."""
PARTS = 3
"""A column's order is cut into so many parts, and each is left out in turn."""
MOST_COLUMNS = 30
"""The most columns by whose order rows are left out."""
STRETCHES = 1.1 ** np.arange(18)
"""The factors on the prior's scale to choose from, up to 5."""


class Checked(NamedTuple):
    """A law whose noise and scale suit rows left out."""

    law: ExactLaw
    noise_stds: NDArray[Any]
    """σ of predictions for each target, in the law's units."""
    stretch: float
    """The law's unit, in that of the targets it was asked to explain."""


def checked(
    conditioned: Callable[..., ExactLaw], noise_std: float, seed: int, may_be_less: bool
) -> Checked:
    """The law at this σ, or at less if rows left out are then likelier, with the scale that suits blocks.

    Args:
        conditioned: the law at a noise_std; a posterior.
        noise_std: σ of highest marginal likelihood.
        seed: draws the rows.
        may_be_less: whether to try less noise: if the marginal likelihood saw only some of the rows.
    """
    law = conditioned(noise_std=noise_std)
    rows = np.random.default_rng(seed).permutation(len(law.x))
    few = rows[:LEFT_OUT_ROWS]
    score = _score(law, few)
    while may_be_less:
        quieter = conditioned(noise_std=LESS_NOISE * law.noise_std)
        if (better := _score(quieter, few)) <= score:
            break
        law, score = quieter, better
    stretch = best_stretch(law, seed)
    law = law.stretched(stretch)
    return Checked(law, best_noise_std(law.left_out(few), law.y[few], law.noise_std), stretch)


def best_stretch(law: ExactLaw, seed: int = 0) -> float:
    """The factor √λ ≥ 1 on the scale of the prior that makes rows left out most likely.

    Scaling kernel and noise variance by λ leaves every mean as it is, and multiplies every variance of
    the function by λ. So a left-out y is N(m, λv + σ²) with m and v computed once. Rows left out one at
    a time and rows left out in blocks count alike, as means over rows.

    A learned prior may be too sure of a column of which it saw few distinct values, however many rows it
    saw: that shows only if all rows of such a value are left out. Images have no columns, and get 1.
    """
    rng = np.random.default_rng(seed)
    if len(law.x) > BLOCK_ROWS:
        law = law.of_rows(np.sort(rng.permutation(len(law.x))[:BLOCK_ROWS]))
    one_by_one = law.left_out(np.arange(len(law.x)))
    parts = list(_left_out_blocks(law, rng))
    if not parts:
        return 1.0
    squares = [(law.y - one_by_one.mean) ** 2, np.concatenate([part.squares for part in parts])]
    variances = [one_by_one.epistemic_var, np.concatenate([part.variances for part in parts])]

    def loss(factor: float) -> float:
        total = 0.0
        for square, variance in zip(squares, variances, strict=True):
            var = factor**2 * variance + law.noise_std**2
            total += float(np.mean(square / var + np.log(var)))
        return total

    return float(min(STRETCHES, key=loss))


class _Block(NamedTuple):
    squares: NDArray[Any]
    """Squared errors of the means, (rows, c)."""
    variances: NDArray[Any]
    """Of the function, (rows, c)."""


def _left_out_blocks(law: ExactLaw, rng: np.random.Generator) -> Iterator[_Block]:
    """Each part of each column's order, predicted from the rows outside it.

    With B = (k_dd + σ²I)⁻¹, a block b of rows has error (B_bb)⁻¹(By)_b and covariance (B_bb)⁻¹, noise
    included.
    """
    table = law.x if law.x.ndim == 2 else law.x[:, :0]  # the pixels of images are no columns
    columns = rng.permutation(np.flatnonzero(np.ptp(table, axis=0)))[:MOST_COLUMNS]
    precision = law.inverse.solve(np.eye(len(table)))
    for column in columns:
        part = parts_of(table[:, column])
        for number in np.unique(part):
            rows = np.flatnonzero(part == number)
            if len(rows) > 2 / 3 * len(table):
                continue
            covariance = np.linalg.inv(precision[np.ix_(rows, rows)])
            var = np.maximum(np.diag(covariance) - law.noise_std**2, 0)[:, None]
            errors = covariance @ law.weights[rows]
            yield _Block(errors**2, np.broadcast_to(var, errors.shape))


def parts_of(column: NDArray[Any]) -> NDArray[np.int64]:
    """For each row the part of the column's order that it belongs to; equal values stay together.

    >>> parts_of(np.array([5.0, 1.0, 2.0, 1.0, 9.0, 9.0])).tolist()
    [1, 0, 1, 0, 2, 2]
    """
    _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
    middle = (np.cumsum(counts) - counts / 2) / len(column)
    return np.asarray((PARTS * middle).astype(np.int64)[place])


def _score(law: ExactLaw, rows: NDArray[Any]) -> float:
    """The mean log-likelihood of rows, each predicted from all others."""
    return float(np.mean(law.left_out(rows).log_prob(law.y[rows])))
