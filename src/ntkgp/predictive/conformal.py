"""Split conformal prediction: what scores of rows held out say about the score of a new row.

If the rows held out and the new row are exchangeable, the new score is at most the
⌈(n + 1) level⌉-th smallest of n with a probability of at least `level`, and of at most
level + 1/(n + 1) if no two scores are equal (Vovk et al., 2005; Lei et al., 2018). It holds for any
score, on average over rows held out and new rows together.
"""

from collections.abc import Callable
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROUNDING = 1e-9
"""Of (n + 1) level: 100 · 0.55 is above 55 in floating point, and must not be rounded up."""


def conformal_quantile(scores: NDArray[Any], level: float) -> NDArray[Any]:
    """The ⌈(n + 1) level⌉-th smallest of n scores, (n,) to () and (n, c) to (c,).

    >>> float(conformal_quantile(np.arange(1.0, 20.0), level=0.9))
    18.0
    """
    n = len(scores)
    rank = max(ceil((n + 1) * level - ROUNDING), 1)
    if rank > n:
        needed = ceil(level / (1 - level) - ROUNDING)
        raise ValueError(
            f"level {level:g} takes at least {needed} calibration rows, and there are {n}: give more "
            f"rows or a larger calibration_fraction, or ask for a level of {n / (n + 1):.3g} at most."
        )
    return np.asarray(np.partition(scores, rank - 1, axis=0)[rank - 1])


def _least_ambiguous(p: NDArray[Any]) -> NDArray[Any]:
    """1 - p_c (Sadinle et al., 2019)."""
    return 1 - p


def _adaptive(p: NDArray[Any]) -> NDArray[Any]:
    """The sum of p over classes more probable than c, plus ½ p_c (Romano et al., 2020).

    There a random number takes the place of ½. This way a row has one set, and not one by chance;
    with 1 in its place a sure classifier would fill its sets with classes of next to no probability.
    """
    order = np.argsort(-p, axis=1, kind="stable")
    sorted_p = np.take_along_axis(p, order, axis=1)
    scores = np.empty_like(p)
    np.put_along_axis(scores, order, np.cumsum(sorted_p, axis=1) - sorted_p / 2, axis=1)
    return scores


SET_SCORES: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "lac": _least_ambiguous,
    "aps": _adaptive,
}
"""How little a class suits probabilities (n, C), for each class; sets hold classes of low scores."""
