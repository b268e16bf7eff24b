"""All ways to invert a training kernel against a plain solution in float64, and their limits."""

import numpy as np
import pytest

import ntkgp
from helpers import architectures, inputs_for
from ntkgp import LAWS, Cholesky, ConjugateGradients, Refined, condition
from ntkgp.core import memory
from ntkgp.core.storage import pack, unpack
from ntkgp.kernels import panels
from ntkgp.kernels.solvers import IterativeInverse, NystromInverse
from ntkgp.kernels.training_kernel import TrainingKernel

ARCHITECTURES = architectures(8)
N = 60
SOLVERS = {
    "cholesky": Cholesky(),
    "refined": Refined(),
    "conjugate gradients": ConjugateGradients(rank=20, tolerance=1e-10),
}


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setattr(panels, "WIDTH", 16)


def problem(net):
    rng = np.random.default_rng(3)
    return inputs_for(net, N), rng.normal(size=(N, 2)), inputs_for(net, 5, seed=1)


@pytest.mark.quick("ntk-erf")
@pytest.mark.parametrize("name", ["erf", "relu", "conv-flatten"])
@pytest.mark.parametrize("which", ["nngp", "ntk"])
def test_a_training_kernel_is_the_kernel_matrix_and_its_shift(name, which, monkeypatch):
    monkeypatch.setattr(
        "ntkgp.kernels.training_kernel.block_side", lambda net, dtype, n: min(n, 11)
    )
    net = ARCHITECTURES[name]
    x = inputs_for(net, 40)
    kernel = TrainingKernel(net, x, which, shift=0.3)
    whole = getattr(ntkgp, which)(net, x) + 0.3 * np.eye(40)
    right = np.random.default_rng(0).normal(size=(40, 3))
    np.testing.assert_allclose(kernel.times(right), whole @ right, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(kernel.diagonal(), np.diag(whole), rtol=1e-14)
    room = panels.Panels.empty(40, np.float64)
    for panel in room:
        kernel.fill(panel)
        lower = np.tril(panel.entries), np.tril(whole[panel.start :, panel.start : panel.stop])
        np.testing.assert_allclose(*lower, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(room.diagonal(), np.diag(whole))


@pytest.mark.quick("conjugate gradients-ntkgp", "conjugate gradients-randomised-prior")
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("solver", ["refined", "conjugate gradients"])
def test_laws_are_the_same_by_every_solver(solver, law):
    net = ARCHITECTURES["relu"]
    x, y, t = problem(net)
    options = {"law": law, "noise_std": 0.3, "jitter": 0.01}
    exact, other = (
        condition(net, x, y, **options, solver=SOLVERS[s]) for s in ("cholesky", solver)
    )
    np.testing.assert_allclose(other.mean(t), exact.mean(t), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        other.predict(t).epistemic_var, exact.predict(t).epistemic_var, rtol=1e-5, atol=1e-8
    )
    np.testing.assert_allclose(other.covariance(t), exact.covariance(t), rtol=1e-5, atol=1e-7)


def test_a_matrix_in_a_file_gives_the_same(tmp_path):
    net = ARCHITECTURES["erf"]
    x, y, t = problem(net)
    exact = condition(net, x, y).predict(t)
    in_file = condition(net, x, y, solver=Cholesky(directory=tmp_path)).predict(t)
    np.testing.assert_array_equal(in_file.mean, exact.mean)
    stored = ConjugateGradients(rank=20, tolerance=1e-10, directory=tmp_path)
    np.testing.assert_allclose(
        condition(net, x, y, solver=stored).predict(t).mean, exact.mean, rtol=1e-6
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_predictions_in_batches_are_those_at_once(monkeypatch):
    net = ARCHITECTURES["erf"]
    x, y, t = problem(net)
    law = condition(net, x, y, law="randomised-prior")
    whole, mean = law.predict(t), law.mean(t)
    monkeypatch.setattr("ntkgp.laws.exact._TEST_BYTES", 2 * 32 * N)
    np.testing.assert_allclose(law.predict(t).mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(law.predict(t).epistemic_var, whole.epistemic_var, rtol=1e-9)
    np.testing.assert_allclose(law.mean(t), mean, rtol=1e-12)


def test_a_second_kernel_too_large_to_hold_is_computed_again(monkeypatch):
    net = ARCHITECTURES["erf"]
    x, y, t = problem(net)
    held = condition(net, x, y, law="deep-ensemble", jitter=1e-3).predict(t)
    monkeypatch.setattr("ntkgp.laws.exact._HELD_ROWS", 10)
    again = condition(net, x, y, law="deep-ensemble", jitter=1e-3).predict(t)
    np.testing.assert_allclose(again.epistemic_var, held.epistemic_var, rtol=1e-7)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_law_comes_back_from_plain_data_the_same(solver):
    net = ARCHITECTURES["relu"]
    x, y, t = problem(net)
    law = condition(net, x, y, law="randomised-prior", solver=SOLVERS[solver])
    packed = pack(law)
    assert sum(array.shape == x.shape for array in packed.arrays.values()) == 1  # x is kept once
    again = unpack(packed)
    np.testing.assert_array_equal(again.predict(t).mean, law.predict(t).mean)
    np.testing.assert_array_equal(again.predict(t).epistemic_var, law.predict(t).epistemic_var)


def test_too_few_steps_fail_in_words():
    net = ARCHITECTURES["relu"]
    x, y, _ = problem(net)
    with pytest.raises(ntkgp.NotConverged, match=r"2 steps.*max_steps"):
        condition(net, x, y, noise_std=1e-3, solver=ConjugateGradients(rank=2, max_steps=2))


def test_the_tolerance_is_that_of_the_true_residual():
    net = ARCHITECTURES["relu"]
    x, y, _ = problem(net)
    kernel = TrainingKernel(net, x, "ntk", shift=1e-4)
    for tolerance in (1e-2, 1e-5, 1e-8):
        inverse = ConjugateGradients(rank=10, tolerance=tolerance)(kernel, progress=False)
        residual = kernel.times(inverse.solve(y)) - y
        relative = np.linalg.norm(residual, axis=0) / np.linalg.norm(y, axis=0)
        assert np.max(relative) <= tolerance


def test_iterations_need_noise_and_have_no_marginal_likelihood():
    net = ARCHITECTURES["relu"]
    x, y, _ = problem(net)
    with pytest.raises(ValueError, match="noise_std or jitter"):
        condition(net, x, y, noise_std=0.0, solver=ConjugateGradients())
    with pytest.raises(ValueError, match="marginal likelihood"):
        condition(net, x, y, solver=Refined()).log_marginal_likelihood()


def test_what_does_not_fit_is_refused_before_it_is_begun(monkeypatch):
    net = ntkgp.mlp(3)
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**30)
    monkeypatch.setattr(TrainingKernel, "fill", None)
    x = np.zeros((30_000, 3))
    with pytest.raises(ntkgp.NotEnoughMemory) as error:
        condition(net, x, x[:, 0])
    message = str(error.value)
    assert "30,000 training inputs needs 4.6 GiB, and 1.0 GiB are free" in message
    assert "Refined() " in message
    assert "ConjugateGradients()" in message


# Rows that stand twice, with next to no noise: the matrix is singular up to rounding.


def twice(noise_std, solver, n=30):
    net = ARCHITECTURES["relu"]
    x = np.repeat(inputs_for(net, n), 2, axis=0)
    y = np.random.default_rng(3).normal(size=(2 * n, 1))
    return condition(net, x, y, noise_std=noise_std, solver=solver).predict(x[:3])


@pytest.mark.quick("*-1e-08")
@pytest.mark.parametrize("noise_std", [1e-8, 1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("solver", [*SOLVERS, "refined, few steps"])
def test_every_solver_answers_in_numbers_or_in_words(solver, noise_std):
    chosen = SOLVERS.get(solver, Refined(max_steps=3))
    try:
        predicted = twice(noise_std, chosen)
    except (ntkgp.NotConverged, np.linalg.LinAlgError) as error:
        assert "noise_std" in str(error) or "stand twice" in str(error)  # noqa: PT017
        return
    assert np.isfinite(predicted.mean).all()
    assert np.isfinite(predicted.epistemic_var).all()


def test_a_residual_that_is_no_number_is_not_a_solution():
    broken = panels.Panels(np.full(9, np.nan), 3, 3)
    preconditioner = NystromInverse(np.zeros((3, 1)), np.ones((1, 1)), np.ones((3, 1)))
    inverse = IterativeInverse(broken, preconditioner, 1e-6, 20)
    with pytest.raises(ntkgp.NotConverged, match="relative residual of nan"):
        inverse.solve(np.ones((3, 2)))


def test_a_solver_of_one_s_own_that_gives_no_numbers_is_refused():
    class Nothing:
        def bytes_needed(self, n):
            return 0

        def __call__(self, kernel, progress):
            return self

        def solve(self, right):
            return np.full_like(right, np.nan)

        quadratic = log_det = solve

    net = ARCHITECTURES["relu"]
    x, y, _ = problem(net)
    with pytest.raises(np.linalg.LinAlgError, match="gave NaN or infinite numbers"):
        condition(net, x, y, solver=Nothing())
