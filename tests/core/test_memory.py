"""Covariances that do not fit are refused before they are made, of laws and of regressors."""

import tracemalloc
from functools import cache

import numpy as np
import pytest

import ntkgp
from ntkgp import EnsembleRegressor, GPRegressor
from ntkgp.core import memory

X = np.random.default_rng(0).normal(size=(12, 2))
MANY = np.zeros((200_000, 2))
TINY = {"members": 2, "width": 4, "min_steps": 5, "min_epochs": 1, "activation": "relu", "depth": 1}


@cache
def law(name):
    return ntkgp.condition(ntkgp.mlp(2), X, X[:, 0], law=name, jitter=1e-6)


@cache
def model(name):
    fresh = {
        "ensemble": EnsembleRegressor(learn_prior=False, **TINY),
        "law": GPRegressor(activation="relu", depth=1, optimizer=None),
    }
    return fresh[name].fit(X, X)


REQUESTS = {
    "covariance": lambda: law("ntkgp").covariance,
    "covariance of two kernels": lambda: law("deep-ensemble").covariance,
    "sample": lambda: lambda x: law("ntkgp").sample(x, 1),
    "ensemble's": lambda: lambda x: model("ensemble").predict(x, return_cov=True),
    "law's": lambda: lambda x: model("law").predict(x, return_cov=True),
    "law's samples": lambda: lambda x: model("law").sample_y(x),
}


@pytest.mark.quick("law*", "sample", "covariance*")
@pytest.mark.parametrize("name", REQUESTS)
def test_a_covariance_of_many_rows_is_refused_in_words(name, monkeypatch):
    request = REQUESTS[name]()
    request(MANY[:3])  # the control: a few rows fit
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**36)
    monkeypatch.setattr("ntkgp.kernels.matrices.kernel_matrices", None)  # nothing is computed
    monkeypatch.setattr("ntkgp.laws.exact.kernel_matrix", None)
    monkeypatch.setattr("ntkgp.ensembles.ensemble.Ensemble.predict", None)
    with pytest.raises(ntkgp.NotEnoughMemory) as error:
        request(MANY)
    assert "the covariance between 200,000 rows needs" in str(error.value)
    assert "64.0 GiB are free" in str(error.value)
    assert "return_std=True" in str(error.value)


def test_what_is_forecast_is_near_what_is_taken():
    """The peak of a covariance of 1,500 rows is between a third of the forecast and a tenth above it."""
    rows = np.random.default_rng(1).normal(size=(1500, 2))
    for name, matrices in (("ntkgp", 3), ("deep-ensemble", 5)):
        law(name).covariance(rows)  # compiles
        tracemalloc.start()
        law(name).covariance(rows)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        forecast = 8 * matrices * len(rows) ** 2
        assert forecast / 3 < peak < 1.1 * forecast, (name, peak / forecast)
