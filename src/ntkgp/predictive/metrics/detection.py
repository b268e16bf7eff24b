"""How well a score tells inputs out of distribution from those in it."""

import numpy as np
from numpy.typing import ArrayLike

from ntkgp.predictive.metrics.checks import as_values


def auroc(in_scores: ArrayLike, out_scores: ArrayLike) -> float:
    """Area under the ROC curve, P(out > in) + ½ P(out = in) over all pairs of scores (n,) and (m,).

    Higher scores mean "out of distribution" (entropy, or minus the confidence): 1 tells the two
    apart, ½ is chance. Time O((n + m) log n).

    >>> auroc(in_scores=[0.0, 1.0], out_scores=[1.0, 2.0])
    0.875
    """
    inside = np.sort(as_values("in_scores", in_scores, ndim=1))
    outside = as_values("out_scores", out_scores, ndim=1)
    below, at_most = (np.searchsorted(inside, outside, side=side) for side in ("left", "right"))
    return float(np.mean((below + at_most) / 2) / len(inside))


def fpr_at_tpr(in_scores: ArrayLike, out_scores: ArrayLike, *, tpr: float = 0.95) -> float:
    """Share of in-distribution points flagged when at least `tpr` of the others are; by default FPR95.

    Positive means out of distribution. A point is flagged if its score is at least t, the highest
    threshold that flags the share `tpr` of out_scores (m,); 1/n Σ_i 1{in_i ≥ t} is returned. Where
    in-distribution counts as positive instead (as in ODIN), FPR95 means another number:
    fpr_at_tpr(-out_scores, -in_scores).

    >>> fpr_at_tpr(in_scores=[0.0, 1.0, 2.0, 5.0], out_scores=[2.0, 3.0, 4.0])
    0.5
    """
    inside = as_values("in_scores", in_scores, ndim=1)
    outside = np.sort(as_values("out_scores", out_scores, ndim=1))[::-1]
    if not 0 < tpr <= 1:
        raise ValueError(f"tpr must be above 0 and at most 1; got {tpr!r}.")
    reached = np.arange(1, len(outside) + 1) / len(outside) >= tpr
    return float(np.mean(inside >= outside[np.argmax(reached)]))
