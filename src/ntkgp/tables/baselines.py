"""Simple models on the same numbers, for a user to see whether more than these was worth it."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ntkgp.core.threads import one_openmp_thread
from ntkgp.predictive.distributions import Normal

FOR_NOISE = 0.2
"""The share of training rows whose residuals say how large a regressor's errors are."""


def simple_regressors(
    x: NDArray[Any], y: NDArray[Any], x_new: NDArray[Any], seed: int
) -> Iterator[tuple[str, Normal]]:
    """Name and prediction of each: a normal around its value, of the spread of its errors.

    Errors are those of a first fit, to four fifths of the rows, on the rest.
    """
    yield "mean", _around(np.full(len(x_new), y.mean()), float(y.std()))
    models = {
        "ridge regression": make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 15))),
        "histogram boosting": HistGradientBoostingRegressor(random_state=seed),
    }
    order = np.random.default_rng(seed).permutation(len(x))
    few, rest = np.split(order, [max(2, round(FOR_NOISE * len(x)))])
    for name, model in models.items():
        with one_openmp_thread():
            residual = y[few] - model.fit(x[rest], y[rest]).predict(x[few])
            mean = model.fit(x, y).predict(x_new)
        yield name, _around(mean, float(np.sqrt(np.mean(residual**2))))


def simple_classifiers(
    x: NDArray[Any], labels: NDArray[Any], x_new: NDArray[Any], n_classes: int, seed: int
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Name and class probabilities of each."""
    shares = np.bincount(labels, minlength=n_classes) / len(labels)
    yield "class frequencies", np.tile(shares, (len(x_new), 1))
    models = {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
        "histogram boosting": HistGradientBoostingClassifier(random_state=seed),
    }
    for name, model in models.items():
        with warnings.catch_warnings(), one_openmp_thread():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = model.fit(x, labels).predict_proba(x_new)
        probabilities = np.zeros((len(x_new), n_classes))
        probabilities[:, model.classes_] = found  # training may lack a class
        yield name, probabilities


def _around(mean: NDArray[Any], std: float) -> Normal:
    smallest = 1e-12 * max(1.0, float(np.abs(mean).max()))
    return Normal(mean, np.zeros(len(mean)), np.full(len(mean), max(std, smallest) ** 2))
