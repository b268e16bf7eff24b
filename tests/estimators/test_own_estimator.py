"""An estimator from outside the package: the NNGP posterior with nothing to set."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

import ntkgp
from ntkgp.core import storage
from ntkgp.estimators.regression import Joint, Regressor
from ntkgp.laws.table import Law
from ntkgp.predictive.distributions import Normal

NNGP = Law(prior="nngp", trained="nngp")


class NNGPRegressor(Regressor):
    """The NNGP posterior of a network that is given or chosen, with nothing else to set."""

    def __init__(self, noise_std=None, network=None, depth=1, activation="relu", random_state=None):
        self.noise_std = noise_std
        self.network = network
        self.depth = depth
        self.activation = activation
        self.random_state = random_state

    def fit(self, X, y):
        inputs, targets, _ = self._check_xy(X, y)
        self._start()
        x = self._standardise(inputs, np.arange(len(inputs)))
        nets = self._candidates(targets.shape[1])
        choice = self._choose(nets, x, targets, None, law=NNGP)
        scaled = self.y_scaler_.apply("y", targets)
        self.law_ = ntkgp.condition(
            choice.net, x, scaled, law=NNGP, noise_std=choice.noise_std, jitter=1e-6
        )
        return self

    def fitted_network(self):
        return self.law_.net

    def _predict(self, x) -> Normal:
        return self.law_.predict(x)

    def _mean(self, x):
        return self.law_.mean(x)

    def _joint(self, x):
        covariance = np.stack([self.law_.covariance(x)] * self.law_.y.shape[1], axis=-1)
        return Joint(self._mean(x), covariance, self.law_.noise_std**2)

    def _samples(self, x, n_samples, seed):
        functions = self.law_.sample(x, n_samples, seed)
        noise = np.random.default_rng([seed, 1]).standard_normal(functions.shape)
        return functions + self.law_.noise_std * noise


RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2)) * [1.0, 50.0]
Y = 30 + 10 * np.sin(X[:, 0])


@pytest.mark.slow
def test_it_says_what_the_package_s_own_says():
    """The same law through `GPRegressor`; another law is the control.

    Ours lets rows left out widen all its standard deviations, by one factor.
    """

    def function(model):
        predicted = model.fit(X, Y).predict_dist(X[:9] + 1)
        return predicted.mean, predicted.epistemic_var

    def widened(var, by):
        ratio = var / by
        return ratio.mean(), np.ptp(ratio) / ratio.mean()

    mean, var = function(NNGPRegressor(random_state=0))
    options = {"depth": 1, "activation": "relu", "random_state": 0}
    ours, other = (function(ntkgp.GPRegressor(law, **options)) for law in ("nngp", "ntkgp"))
    np.testing.assert_allclose(ours[0], mean, rtol=1e-5)
    assert np.max(np.abs(other[0] - mean)) > 1e-2
    factor, spread = widened(ours[1], by=var)
    assert 1 <= factor < 1.5
    assert spread < 1e-5
    assert widened(other[1], by=var)[1] > 1e-2


@pytest.mark.slow
def test_scikit_learn_s_own_checks_pass():
    results = check_estimator(NNGPRegressor(), on_skip=None, on_fail=None)
    failed = [r for r in results if r["status"] not in ("passed", "skipped")]
    assert not failed, "\n".join(f"{r['check_name']}: {r['exception']!r}" for r in failed)


@pytest.mark.slow
def test_it_goes_where_scikit_learn_s_go():
    scores = cross_val_score(clone(NNGPRegressor(random_state=0)), X, Y, cv=3)
    assert np.mean(scores) > 0.5
    with pytest.raises(ValueError, match="NaN"):
        NNGPRegressor().fit(np.where(X > 0, np.nan, X), Y)


def test_it_is_saved_where_its_class_is_storable(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "_CLASSES", dict(storage._CLASSES))
    model = NNGPRegressor(random_state=0).fit(X, Y)
    with pytest.raises(TypeError, match=r"class NNGPRegressor cannot be saved.*@ntkgp\.storable"):
        model.save(tmp_path)
    ntkgp.storable(NNGPRegressor)
    model.save(tmp_path)
    np.testing.assert_array_equal(ntkgp.load(tmp_path).predict(X), model.predict(X))
