"""What rows left out say about a learned prior: its noise, and its scale away from the data.

The exact law predicts left-out rows from all others in closed form. Single rows test it where data are,
blocks of rows where they are not.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ntkgp.laws.exact import ExactLaw
from ntkgp.laws.row_noise import FittedRowNoise, RowNoise
from ntkgp.predictive.calibration import best_noise_std
from ntkgp.predictive.distributions import Normal

LEFT_OUT_ROWS = 500
"""The most rows that are left out one at a time."""
BLOCK_ROWS = 1000
"""The most rows of a law from which blocks are left out: it takes their number cubed."""
JITTER = 1e-6
"""On the diagonal of such a law: rows may stand there twice, and the noise be next to nothing."""
LESS_NOISE = 0.6
"""The step in which less noise is tried."""
LEAST_NOISE = 1e-3
"""Of the targets' size. Rows that stand twice ask for none at all, and no network follows that."""
PARTS = 3
"""A column's order is cut into so many parts, and each is left out in turn."""
MOST_COLUMNS = 30
"""The most columns by whose order rows are left out."""
STRETCHES = 1.1 ** np.arange(30)
"""The factors on the prior's scale to choose from, up to 16."""


class Block(NamedTuple):
    """Rows that were predicted without them, in the law's units, (rows, c) each."""

    squares: NDArray[Any]
    """Squared errors of the means."""
    variances: NDArray[Any]
    """Of the function."""
    noise_vars: NDArray[Any]


class Checked(NamedTuple):
    """A law whose noise and scale suit rows left out."""

    law: ExactLaw
    noise_stds: NDArray[Any]
    """σ of predictions for each target, in the law's units."""
    stretch: float
    """The law's unit, in that of the targets it was asked to explain."""
    row_noise: FittedRowNoise | None = None
    """How noise differs from row to row, if it was asked and does."""

    def stretched(self, factor: float) -> "Checked":
        """The same means, with standard deviations so many times as large."""
        return self._replace(law=self.law.stretched(factor), stretch=factor * self.stretch)


def checked(
    conditioned: Callable[..., ExactLaw],
    noise_std: float,
    seed: int,
    may_be_less: bool,
    row_noise: RowNoise | None = None,
    unseen: Sequence[Block] = (),
) -> Checked:
    """The law at this σ, or at less if rows left out are then likelier, with the scale that suits blocks.

    Args:
        conditioned: the law at a noise_std; a posterior.
        noise_std: σ of highest marginal likelihood.
        seed: draws the rows.
        may_be_less: whether to try less noise: if the marginal likelihood saw only some of the rows.
        row_noise: a model of noise that differs from row to row, to be fitted to this law. One whose
            noise is normal is kept only if rows left out are likelier with it, by more than a standard
            error.
        unseen: blocks predicted by priors that were learned without them; the law's own blocks if
            there are none.
    """
    law = conditioned(noise_std=noise_std)
    rows = np.random.default_rng(seed).permutation(len(law.x))
    few = rows[:LEFT_OUT_ROWS]
    score = _score(law, few)
    least = LEAST_NOISE * np.sqrt(np.mean(law.y**2))
    while may_be_less and LESS_NOISE * law.noise_std >= least > 0:
        quieter = conditioned(noise_std=LESS_NOISE * law.noise_std)
        if (better := _score(quieter, few)) <= score:
            break
        law, score = quieter, better
    stretch = best_stretch(law, unseen, seed)
    constant = calibrated(law, stretch, few)
    if row_noise is None:
        return constant
    law, given = constant.law, _given(law)
    some = law if len(law.x) <= BLOCK_ROWS else law.of_rows(np.sort(rows[:BLOCK_ROWS]), JITTER)
    fitted = row_noise.fitted(some, seed)
    weight = fitted.weights(law.x, law.y) / given
    law = conditioned(noise_std=fitted.noise_std, sample_weight=weight).stretched(stretch)
    if not fitted.normal:
        return Checked(law, np.full(law.y.shape[1], fitted.noise_std), stretch, fitted)
    varied = _calibrated(Checked(law, np.zeros(0), stretch, fitted), few, given)
    gains = _log_probs(varied, few, given) - _log_probs(constant, few, given)
    likelier = np.mean(gains) > np.std(gains) / len(gains) ** 0.5
    return varied if likelier else constant


def calibrated(law: ExactLaw, stretch: float, rows: NDArray[Any]) -> Checked:
    """The law with its prior's scale stretched, and the noise that then suits these rows left out."""
    found = Checked(law.stretched(stretch), np.zeros(0), stretch)
    return _calibrated(found, rows, _given(law))


def _given(law: ExactLaw) -> NDArray[Any]:
    """The noise variance of observations over σ², by the user's weights."""
    weight = np.ones(len(law.x)) if law.sample_weight is None else law.sample_weight
    return np.asarray(1 / weight)


def _calibrated(found: Checked, rows: NDArray[Any], given: NDArray[Any]) -> Checked:
    """With the noise of predictions that makes rows most likely, each predicted from all others."""
    law, relative = found.law, _relative(found, rows, given)
    noise_stds = best_noise_std(law.left_out(rows), law.y[rows], law.noise_std, relative)
    return found._replace(noise_stds=noise_stds)


def _log_probs(found: Checked, rows: NDArray[Any], given: NDArray[Any]) -> NDArray[Any]:
    """The log-likelihood of rows, each predicted from all others, as a mean over targets."""
    noise_var = found.noise_stds**2 * _relative(found, rows, given)[:, None]
    left_out = replace(found.law.left_out(rows), noise_var=noise_var)
    return left_out.log_prob(found.law.y[rows]).mean(axis=1)


def _relative(found: Checked, rows: NDArray[Any], given: NDArray[Any]) -> NDArray[Any]:
    """The noise variance of observations over σ²: by the user's weights, times the row noise's."""
    if found.row_noise is None:
        return given[rows]
    return given[rows] * found.row_noise.relative_var(found.law.x[rows])


def best_stretch(law: ExactLaw, unseen: Sequence[Block] = (), seed: int = 0) -> float:
    """The factor √λ ≥ 1 on the scale of the prior that makes rows left out most likely.

    Scaling kernel and noise variance by λ leaves every mean as it is, and multiplies every variance of
    the function by λ. So a left-out y is N(m, λv + σ²) with m and v computed once. Each block has its best
    factor, beside rows left out one at a time, which count as much and whose σ is free; the geometric mean
    of all is taken.

    A learned prior may be too sure of a column of which it saw few distinct values, however many rows it
    saw: that shows only if all rows of such a value are left out, and best if the prior was learned
    without them. Images have no columns, and get 1.

    Args:
        law: a posterior.
        unseen: blocks predicted by priors that were learned without them; the law's own if there are none.
        seed: draws the rows and columns of the law's own.
    """
    rng = np.random.default_rng(seed)
    if len(law.x) > BLOCK_ROWS:
        law = law.of_rows(np.sort(rng.permutation(len(law.x))[:BLOCK_ROWS]), JITTER)
    blocks = unseen or list(_left_out_blocks(law, rng))
    if not blocks:
        return 1.0
    singles = _losses_of_singles(law)
    best = [STRETCHES[np.argmin(singles + _losses(block))] for block in blocks]
    return float(np.exp(np.mean(np.log(best))))


def _losses_of_singles(law: ExactLaw) -> NDArray[Any]:
    """As `_losses`, of rows left out one at a time, each factor beside the noise that then suits them.

    With too little noise, as of rows that stand twice, they would ask for a wide function instead.
    """
    left_out, relative = law.left_out(np.arange(len(law.x))), _given(law)
    varying = np.ptp(law.y, axis=0) > 0
    if not varying.any():
        return np.zeros(len(STRETCHES))
    y, mean = law.y[:, varying], left_out.mean[:, varying]
    var = np.broadcast_to(left_out.epistemic_var, law.y.shape)[:, varying]

    def loss(stretch: float) -> float:
        function = Normal(mean, stretch**2 * var)
        noise_stds = best_noise_std(function, y, relative_var=relative)
        whole = function.epistemic_var + noise_stds**2 * relative[:, None]
        return float(np.mean((y - mean) ** 2 / whole + np.log(whole)))

    return np.array([loss(stretch) for stretch in STRETCHES])


def _losses(block: Block) -> NDArray[Any]:
    """Twice the negative log-likelihood of a row at each of `STRETCHES`, on average, up to a constant."""
    var = STRETCHES[:, None, None] ** 2 * block.variances + block.noise_vars
    return np.asarray(np.mean(block.squares / var + np.log(var), axis=(1, 2)))


def _left_out_blocks(law: ExactLaw, rng: np.random.Generator) -> Iterator[Block]:
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
            noise_var = law.row_noise_var[rows, None]
            var = np.maximum(np.diag(covariance)[:, None] - noise_var, 0)
            errors = covariance @ law.weights[rows]
            yield Block(errors**2, *(np.broadcast_to(v, errors.shape) for v in (var, noise_var)))


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
