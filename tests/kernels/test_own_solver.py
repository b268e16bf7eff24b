"""A solver from outside the package: an eigendecomposition in place of a Cholesky factor."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import linalg

import ntkgp
from helpers import architectures, inputs_for
from ntkgp import (
    LAWS,
    Cholesky,
    GPRegressor,
    Inverse,
    Solver,
    TrainingKernel,
    condition,
    storable,
)
from ntkgp.core import storage


@dataclass(frozen=True, eq=False)
class Spectrum:
    """(T + shift·I)⁻¹ = U diag(1/λ) Uᵀ."""

    values: np.ndarray
    vectors: np.ndarray

    def solve(self, right):
        return self.vectors @ ((self.vectors.T @ right) / self.values[:, None])

    def quadratic(self, right, diagonal=False):
        half = (self.vectors.T @ right) / np.sqrt(self.values)[:, None]
        return np.sum(half**2, axis=0) if diagonal else half.T @ half

    def log_det(self):
        return float(np.sum(np.log(self.values)))


@dataclass(frozen=True)
class Eigen:
    """By eigenvalues; `forgets` makes it wrong, for the control."""

    forgets: bool = False

    def bytes_needed(self, n):
        return 2 * 8 * n**2

    def __call__(self, kernel: TrainingKernel, progress: bool):
        matrix = kernel.matrix()
        if self.forgets:
            matrix -= kernel.shift * np.eye(len(kernel))
        return Spectrum(*linalg.eigh(matrix))


def problem():
    net = architectures(8)["relu"]
    rng = np.random.default_rng(3)
    return net, inputs_for(net, 30), rng.normal(size=(30, 2)), inputs_for(net, 5, seed=1)


def differences(law, solver):
    """How far what the solver says is from Cholesky's, relative to the largest number."""
    net, x, y, t = problem()
    options = {"law": law, "noise_std": 0.3, "jitter": 0.01}
    exact = condition(net, x, y, **options, solver=Cholesky())
    own = condition(net, x, y, **options, solver=solver)
    pairs = [
        (own.mean(t), exact.mean(t)),
        (own.predict(t).epistemic_var, exact.predict(t).epistemic_var),
        (own.covariance(t), exact.covariance(t)),
    ]
    if LAWS[law].is_posterior:
        pairs.append((own.log_marginal_likelihood(), exact.log_marginal_likelihood()))
    return [np.max(np.abs(np.subtract(a, b))) / np.max(np.abs(b)) for a, b in pairs]


def test_it_is_a_solver_by_its_methods_alone():
    assert isinstance(Eigen(), Solver)
    assert isinstance(Spectrum(np.ones(1), np.eye(1)), Inverse)
    assert not isinstance(object(), Solver | Inverse)


@pytest.mark.quick("ntkgp", "randomised-prior")
@pytest.mark.parametrize("law", LAWS)
def test_it_agrees_with_cholesky(law):
    assert max(differences(law, Eigen())) < 1e-9


@pytest.mark.parametrize("law", LAWS)
def test_a_wrong_solver_is_caught(law):
    """The control: one that leaves noise and jitter out."""
    assert min(differences(law, Eigen(forgets=True))) > 1e-4


def test_what_it_needs_is_forecast(monkeypatch):
    net, x, y, _ = problem()
    monkeypatch.setattr("ntkgp.core.memory.available_bytes", lambda: 10_000)
    monkeypatch.setattr(Eigen, "__call__", lambda *_: pytest.fail("it is not to be called"))
    with pytest.raises(ntkgp.NotEnoughMemory, match="30 training inputs"):
        condition(net, x, y, solver=Eigen())


@pytest.mark.parametrize("solver", [Cholesky, Eigen, "cholesky", None])
def test_what_is_no_solver_is_refused(solver):
    net, x, y, _ = problem()
    with pytest.raises(TypeError, match="solver"):
        condition(net, x, y, solver=solver)


@pytest.mark.slow
def test_its_law_is_saved_where_its_classes_are_storable(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "_CLASSES", dict(storage._CLASSES))
    net, x, y, t = problem()
    law = condition(net, x, y, law="randomised-prior", solver=Eigen())
    with pytest.raises(TypeError, match=r"class Spectrum cannot be saved.*@ntkgp\.storable"):
        law.save(tmp_path)
    storable(Spectrum)
    law.save(tmp_path)
    again = ntkgp.load(tmp_path)
    np.testing.assert_array_equal(again.covariance(t), law.covariance(t))

    model = GPRegressor(solver=Eigen(), random_state=0).fit(x, y)
    with pytest.raises(TypeError, match=r"class Eigen cannot be saved.*@ntkgp\.storable"):
        model.save(tmp_path / "model")
    storable(Eigen)
    model.save(tmp_path / "model")
    loaded = ntkgp.load(tmp_path / "model")
    assert loaded.solver == Eigen()
    np.testing.assert_array_equal(loaded.predict(t), model.predict(t))
