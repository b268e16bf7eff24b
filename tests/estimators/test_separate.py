"""Separate learners: the mean is one model's, the doubt another's."""

import numpy as np
import pytest
from scipy import special
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge

from ntkgp import (
    EnsembleRegressor,
    GPClassifier,
    GPRegressor,
    SeparateClassifier,
    SeparateRegressor,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40)
LABELS = np.where(X[:, 0] + 0.5 * RNG.normal(size=40) > 0, "up", "down")
NEW = RNG.normal(size=(5, 2))
QUICK = {"activation": "erf", "depth": 1, "random_state": 0}


def test_mean_and_doubt_come_from_two_regressors():
    smooth = GPRegressor(optimizer=None, noise_std=1.0, **QUICK)
    model = SeparateRegressor(smooth, GPRegressor(optimizer=None, **QUICK)).fit(X, Y)
    found = model.predict_dist(NEW)
    np.testing.assert_array_equal(found.mean, clone(smooth).fit(X, Y).predict(NEW))
    np.testing.assert_array_equal(model.predict(NEW), found.mean)
    spread = model.spread_.predict_dist(NEW)
    np.testing.assert_array_equal(found.var, spread.var)
    assert np.abs(found.mean - spread.mean).max() > 0.1  # the control: the two do differ
    _, std = model.predict(NEW, return_std=True)
    np.testing.assert_array_equal(std, spread.std)


@pytest.mark.slow
def test_members_move_with_the_mean():
    tiny = {"members": 2, "width": 4, "min_steps": 5, "learn_prior": False}
    spread = EnsembleRegressor(**tiny, **QUICK)
    model = SeparateRegressor(GPRegressor(optimizer=None, **QUICK), spread).fit(X, Y)
    found = model.predict_dist(NEW)
    np.testing.assert_allclose(found.members.mean(axis=0), found.mean, atol=1e-6)
    np.testing.assert_allclose(found.members.var(axis=0), found.epistemic_var, rtol=1e-4)


def test_logits_of_one_classifier_spread_by_another():
    sure = GPClassifier(noise_std=0.1, **QUICK).fit(X, LABELS)
    noisy = GPClassifier(noise_std=3.0, **QUICK).fit(X, LABELS)
    model = SeparateClassifier(FrozenEstimator(sure), FrozenEstimator(noisy)).fit(X, LABELS)
    logits = np.log(noisy.predict_members_proba(NEW))
    about = np.log(sure.predict_members_proba(NEW)).mean(axis=0) + logits - logits.mean(axis=0)
    expected = special.softmax(about, axis=-1).mean(axis=0)
    np.testing.assert_allclose(model.predict_proba(NEW), expected, rtol=1e-10)
    np.testing.assert_array_equal(model.predict(NEW), model.classes_[expected.argmax(axis=1)])
    assert np.abs(expected - noisy.predict_proba(NEW)).max() > 0.02


def test_a_classifier_separated_from_itself_is_itself():
    alone = GPClassifier(noise_std=0.1, **QUICK).fit(X, LABELS)
    model = SeparateClassifier(FrozenEstimator(alone), FrozenEstimator(alone)).fit(X, LABELS)
    np.testing.assert_allclose(model.predict_proba(NEW), alone.predict_proba(NEW), rtol=1e-10)


@pytest.mark.parametrize("name", ["mean", "spread"])
def test_both_must_be_of_this_library(name):
    with pytest.raises(TypeError, match=f"{name} must be an estimator of ntkgp"):
        SeparateRegressor(**{name: Ridge()}).fit(X, Y)
