"""Estimators that are interrupted while they train, or that train in processes of joblib."""

import numpy as np
import optax
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict

import ntkgp
from ntkgp.ensembles import training

X = np.random.default_rng(0).normal(size=(40, 2))
Y = np.sin(X[:, 0])
OPTIONS = {
    "width": 4,
    "depth": 1,
    "members": np.int64(2),
    "noise_std": 0.1,
    "activation": "erf",
    "trainer": ntkgp.Descent(optax.adam(0.01), epochs=5, batch_size=8),
    "random_state": 0,
}
MODELS = {
    "regressor": (ntkgp.EnsembleRegressor(**OPTIONS, learn_prior=False), Y),
    "classifier": (ntkgp.EnsembleClassifier(**OPTIONS, target_scale_grid=(1.0, 4.0)), Y > 0),
}


class Killed(BaseException):
    """A process that ends, as seen from inside."""


@pytest.mark.quick("regressor")
@pytest.mark.parametrize("name", MODELS)
def test_an_estimator_goes_on_where_it_was(name, tmp_path):
    model, y = MODELS[name]
    kept = clone(model).set_params(checkpoint=ntkgp.Checkpoint(tmp_path, every=0))
    real, calls = training._further, []

    def mortal(*arguments):
        if len(calls) == 3:
            raise Killed
        calls.append(1)
        return real(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "_further", mortal)
        with pytest.raises(Killed):
            clone(kept).fit(X, y)
        patch.setattr(training, "_further", lambda *a: calls.append(1) or real(*a))
        resumed = kept.fit(X, y)
        taken, _ = len(calls), calls.clear()
        whole = clone(model).fit(X, y)
    assert taken == len(calls)  # 3 of them before the end
    predict = "predict_proba" if name == "classifier" else "predict"
    np.testing.assert_array_equal(getattr(resumed, predict)(X), getattr(whole, predict)(X))
    resumed.save(tmp_path / "model")
    assert ntkgp.load(tmp_path / "model").checkpoint is None
    with pytest.raises(ValueError, match="of another run: it differs in the training data"):
        clone(kept).fit(X + X[::-1], y)


def test_a_fit_that_cannot_be_run_again_has_no_checkpoint(tmp_path):
    model = clone(MODELS["regressor"][0]).set_params(checkpoint=tmp_path, random_state=None)
    with pytest.raises(ValueError, match="give random_state an integer"):
        model.fit(X, Y)


@pytest.mark.slow
def test_cross_validation_in_two_processes_is_that_in_one():
    model, y = MODELS["regressor"]
    one, two = (cross_val_predict(model, X, y, cv=2, n_jobs=n) for n in (1, 2))
    np.testing.assert_allclose(two, one, rtol=1e-4, atol=1e-5)
