"""Scores of class probabilities (n, C) against labels (n,) of integers 0 ... C-1."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ntkgp.predictive.metrics.checks import Floats, as_labels, as_probabilities, as_sets


def accuracy(labels: ArrayLike, probabilities: ArrayLike) -> float:
    """1/n Σ_i 1{argmax_c p_ic = y_i}, ties go to the first; labels y (n,), probabilities p (n, C).

    >>> accuracy(labels=[0, 1], probabilities=[[0.9, 0.1], [0.6, 0.4]])
    0.5
    """
    p = as_probabilities(probabilities)
    return float(np.mean(p.argmax(axis=1) == as_labels(labels, p)))


def classification_nll(labels: ArrayLike, probabilities: ArrayLike) -> float:
    """Negative log probability of the true class, -1/n Σ_i log p_i(y_i); labels (n,), the rest (n, C).

    A probability of zero counts as the smallest positive normal float64, 2.2e-308: the point costs
    708.4, and the mean stays finite.

    >>> round(classification_nll(labels=[0, 1], probabilities=[[0.5, 0.5], [0.75, 0.25]]), 4)
    1.0397
    """
    p = as_probabilities(probabilities)
    of_truth = p[np.arange(len(p)), as_labels(labels, p)]
    return float(-np.mean(np.log(np.maximum(of_truth, np.finfo(np.float64).tiny))))


def brier_score(labels: ArrayLike, probabilities: ArrayLike) -> float:
    """Brier score 1/n Σ_i Σ_c (p_ic - 1{y_i = c})², between 0 and 2; labels (n,), the rest (n, C).

    The sum runs over all classes: for two classes it is twice the one-probability form.

    >>> brier_score(labels=[0, 1], probabilities=[[0.5, 0.5], [1.0, 0.0]])
    1.25
    """
    p = as_probabilities(probabilities)
    one_hot = as_labels(labels, p)[:, None] == np.arange(p.shape[1])
    return float(np.mean(np.sum((p - one_hot) ** 2, axis=1)))


def expected_calibration_error(
    labels: ArrayLike, probabilities: ArrayLike, *, bins: int = 15
) -> float:
    """Σ_b n_b/n |accuracy_b - confidence_b| over equal bins of the confidence max_c p_c (Guo et al., 2017).

    Bin b = 1 ... B holds confidences in ((b - 1)/B, b/B]; labels (n,), probabilities (n, C).

    >>> labels, p = [0, 0, 1], [[0.9, 0.1], [0.6, 0.4], [0.6, 0.4]]
    >>> round(expected_calibration_error(labels, p, bins=2), 4)
    0.0333
    """
    if bins < 1:
        raise ValueError(f"bins must be at least 1; got {bins}.")
    p = as_probabilities(probabilities)
    gap = (p.argmax(axis=1) == as_labels(labels, p)) - p.max(axis=1)
    which = np.searchsorted(np.arange(1, bins) / bins, p.max(axis=1), side="left")
    return float(np.sum(np.abs(np.bincount(which, weights=gap))) / len(p))


def predictive_entropy(probabilities: ArrayLike) -> Floats:
    """Entropy at each point, -Σ_c p_ic log p_ic in nats with 0 log 0 = 0: (n, C) -> (n,).

    >>> predictive_entropy([[0.5, 0.5], [1.0, 0.0]]).round(4).tolist()
    [0.6931, 0.0]
    """
    return special.entr(as_probabilities(probabilities)).sum(axis=1)


def set_coverage(labels: ArrayLike, sets: ArrayLike) -> float:
    """Share of rows whose set holds the true class, 1/n Σ_i 1{y_i ∈ S_i}; labels (n,), sets (n, C).

    >>> set_coverage(labels=[0, 1], sets=[[True, False], [True, False]])
    0.5
    """
    inside = as_sets(sets)
    return float(np.mean(inside[np.arange(len(inside)), as_labels(labels, inside)]))


def mean_set_size(sets: ArrayLike) -> float:
    """Mean number of classes in a set, 1/n Σ_i |S_i|; sets of booleans (n, C).

    >>> mean_set_size([[True, False], [True, True]])
    1.5
    """
    return float(np.mean(as_sets(sets).sum(axis=1)))
