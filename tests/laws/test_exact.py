"""Table 1 against its formulas in plain inverses, scikit-learn and SciPy, and against Proposition 2."""

from dataclasses import FrozenInstanceError
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel

import ntkgp
from helpers import (
    architectures,
    assert_covariance,
    inputs_for,
    mean_z,
    smallest_eigenvalue,
    without_kernel,
)
from ntkgp import LAWS, Law, condition

ARCHITECTURES = architectures(8)


def problem(net, n=6, t=5, c=2):
    rng = np.random.default_rng(3)
    return inputs_for(net, n), rng.normal(size=(n, c)), inputs_for(net, t, seed=1)


def table_1(net, law, x, y, t, noise_var):
    """The row of Table 1 written out with inverses."""
    pairs = {"dd": (x, None), "td": (t, x), "tt": (t, None)}
    both = {n: ntkgp.kernel_matrices(net, *pair) for n, pair in pairs.items()}
    k, th = ({n: getattr(b, which) for n, b in both.items()} for which in ("nngp", "ntk"))
    eye = noise_var * np.eye(len(x))
    if law == "nngp":
        inverse = np.linalg.inv(k["dd"] + eye)
        return k["td"] @ inverse @ y, k["tt"] - k["td"] @ inverse @ k["td"].T
    inverse = np.linalg.inv(th["dd"] + eye)
    mean = th["td"] @ inverse @ y
    if law == "ntkgp":
        return mean, th["tt"] - th["td"] @ inverse @ th["td"].T
    cross = th["td"] @ inverse @ k["td"].T
    return mean, k["tt"] - cross - cross.T + th["td"] @ inverse @ (k["dd"] + eye) @ inverse @ th[
        "td"
    ].T


@pytest.mark.quick("erf-*", "relu-*", "conv-pool-*")
@pytest.mark.parametrize("noise_std", [0.0, 0.3])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_laws_equal_table_1(name, law, noise_std):
    net = ARCHITECTURES[name]
    x, y, t = problem(net, t=6)  # as many as x, so that one compiled program serves all blocks
    noise_var = noise_std**2 if law != "deep-ensemble" else 0.0
    mean, cov = table_1(net, law, x, y, t, noise_var)
    conditioned = condition(net, x, y, law=law, noise_std=noise_std)
    predicted = conditioned.predict(t)
    np.testing.assert_allclose(predicted.mean, mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(conditioned.mean(t), mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(conditioned.covariance(t), cov, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(
        predicted.epistemic_var, np.repeat(np.diag(cov)[:, None], 2, 1), atol=1e-9
    )
    assert predicted.noise_var == noise_std**2


@pytest.mark.quick("relu-*", "erf-*", "conv-pool-*")
@pytest.mark.parametrize("noise_std", [0.0, 0.3])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_proposition_2(name, noise_std):
    """Σ_NTKGP ⪰ Σ_DE or Σ_RP ⪰ Σ_NNGP, on training and test points together."""
    net = ARCHITECTURES[name]
    x, y, t = problem(net, c=1)
    middle = "randomised-prior" if noise_std else "deep-ensemble"
    where = np.concatenate([x[:2], t[:4]])  # six, as many as x: one compiled program
    ntkgp_cov, middle_cov, nngp_cov = (
        condition(net, x, y, law=law, noise_std=noise_std).covariance(where)
        for law in ("ntkgp", middle, "nngp")
    )
    assert smallest_eigenvalue(ntkgp_cov - middle_cov) > -1e-10
    assert smallest_eigenvalue(middle_cov - nngp_cov) > -1e-10
    # The control: the chain the other way round, and the untrained prior in place of the law.
    assert smallest_eigenvalue(nngp_cov - middle_cov) < -0.5
    assert smallest_eigenvalue(middle_cov - ntkgp_cov) < -0.5
    assert smallest_eigenvalue(ntkgp_cov - ntkgp.nngp(net, where)) < -1e-3


def test_proposition_2_s_difference_is_the_proof_s():
    """Σ_RP - Σ_NNGP = U (𝒦 + σ²I) Uᵀ, U = Θ_td (Θ_dd + σ²I)⁻¹ - 𝒦_td (𝒦_dd + σ²I)⁻¹."""
    net = ARCHITECTURES["erf"]
    x, y, t = problem(net, c=1)
    eye = 0.09 * np.eye(len(x))
    k, th = ntkgp.nngp(net, x), ntkgp.ntk(net, x)
    u = ntkgp.ntk(net, t, x) @ np.linalg.inv(th + eye) - ntkgp.nngp(net, t, x) @ np.linalg.inv(
        k + eye
    )
    rp, nngp = (
        condition(net, x, y, law=law, noise_std=0.3).covariance(t)
        for law in ("randomised-prior", "nngp")
    )
    np.testing.assert_allclose(rp - nngp, u @ (k + eye) @ u.T, atol=1e-12)


def test_proposition_2_s_second_difference_is_the_proof_s():
    """Σ_NTKGP - Σ_RP = U₁ + U₂ Δ_dd U₂ᵀ with Δ = Θ - 𝒦 (Eq. 26 to 28)."""
    net = ARCHITECTURES["relu"]
    x, y, t = problem(net, c=1)
    theta = {"dd": ntkgp.ntk(net, x), "td": ntkgp.ntk(net, t, x), "tt": ntkgp.ntk(net, t)}
    delta = {
        "dd": theta["dd"] - ntkgp.nngp(net, x),
        "td": theta["td"] - ntkgp.nngp(net, t, x),
        "tt": theta["tt"] - ntkgp.nngp(net, t),
    }
    weights = delta["td"] @ np.linalg.pinv(delta["dd"])
    u_1 = delta["tt"] - weights @ delta["td"].T
    u_2 = theta["td"] @ np.linalg.inv(theta["dd"] + 0.09 * np.eye(len(x))) - weights
    both = (condition(net, x, y, law=law, noise_std=0.3) for law in ("ntkgp", "randomised-prior"))
    larger, smaller = (conditioned.covariance(t) for conditioned in both)
    np.testing.assert_allclose(larger - smaller, u_1 + u_2 @ delta["dd"] @ u_2.T, atol=1e-10)


class SklearnNTK(Kernel):
    """Θ of the erf network as a scikit-learn kernel."""

    def __init__(self, net):
        self.net = net

    def __call__(self, x, y=None, eval_gradient=False):
        return ntkgp.ntk(self.net, x, y)

    def diag(self, x):
        return ntkgp.ntk(self.net, x, diagonal=True)

    def is_stationary(self):
        return False

    theta = np.empty(0)

    @property
    def bounds(self):
        return np.empty((0, 2))


def test_ntkgp_law_equals_scikit_learn():
    net = ARCHITECTURES["erf"]
    x, y, t = problem(net)
    reference = GaussianProcessRegressor(SklearnNTK(net), alpha=0.09, optimizer=None).fit(
        x, y[:, 0]
    )
    mean, cov = reference.predict(t, return_cov=True)
    ours = condition(net, x, y[:, :1], law="ntkgp", noise_std=0.3)
    np.testing.assert_allclose(ours.predict(t).mean[:, 0], mean, rtol=1e-9)
    np.testing.assert_allclose(ours.covariance(t), cov, rtol=1e-8, atol=1e-10)
    assert ours.log_marginal_likelihood() == pytest.approx(
        reference.log_marginal_likelihood_value_, rel=1e-9
    )


@pytest.mark.parametrize("law", ["nngp", "ntkgp"])
def test_log_marginal_likelihood_equals_scipy(law):
    net = ARCHITECTURES["relu"]
    x, y, _ = problem(net)
    cov = {"nngp": ntkgp.nngp, "ntkgp": ntkgp.ntk}[law](net, x) + 0.09 * np.eye(len(x))
    expected = sum(
        stats.multivariate_normal(np.zeros(len(x)), cov).logpdf(column) for column in y.T
    )
    assert condition(net, x, y, law=law, noise_std=0.3).log_marginal_likelihood() == pytest.approx(
        expected, rel=1e-10
    )


@pytest.mark.parametrize("law", ["deep-ensemble", "randomised-prior"])
def test_laws_that_are_no_posterior_have_no_marginal_likelihood(law):
    net = ARCHITECTURES["relu"]
    x, y, _ = problem(net)
    with pytest.raises(ValueError, match="not the posterior"):
        condition(net, x, y, law=law).log_marginal_likelihood()


@pytest.mark.parametrize("law", LAWS)
def test_samples_have_the_law_s_mean_and_covariance(law):
    net = ARCHITECTURES["erf"]
    x, y, t = problem(net)
    conditioned = condition(net, x, y, law=law, noise_std=0.3)
    samples = conditioned.sample(t, 4000, seed=1)
    assert samples.shape == (4000, len(t), 2)
    for c in range(2):
        assert mean_z(samples[:, :, c], conditioned.mean(t)[:, c]) < 5
        assert_covariance(samples[:, :, c] - conditioned.mean(t)[:, c], conditioned.covariance(t))
    np.testing.assert_array_equal(samples, conditioned.sample(t, 4000, seed=1))


def test_noise_free_laws_interpolate():
    net = ARCHITECTURES["relu"]
    x, y, _ = problem(net)
    for law in LAWS:
        predicted = condition(net, x, y, law=law, noise_std=0.0).predict(x)
        np.testing.assert_allclose(predicted.mean, y, atol=1e-6)
        np.testing.assert_allclose(predicted.epistemic_var, 0, atol=1e-6)


def test_several_outputs_are_independent_problems():
    net = ARCHITECTURES["erf"]
    x, y, t = problem(net, c=3)
    together = condition(net, x, y).predict(t).mean
    for c in range(3):
        np.testing.assert_allclose(
            together[:, [c]], condition(net, x, y[:, c]).predict(t).mean, rtol=1e-10
        )


def test_duplicated_inputs_without_noise_fail_in_words_and_jitter_helps():
    net = ntkgp.mlp(1)
    x, y = np.zeros((3, 1)), np.zeros((3, 1))
    with pytest.raises(ntkgp.NotPositiveDefinite, match="duplicated"):
        condition(net, x, y, noise_std=0.0)
    assert np.isfinite(condition(net, x, y, noise_std=0.0, jitter=1e-6).predict(x).mean).all()


def test_conflicting_duplicates_without_noise_fail_whatever_the_rounding():
    x = inputs_for(ARCHITECTURES["relu"], 4)
    with pytest.raises(ntkgp.NotPositiveDefinite):
        condition(ARCHITECTURES["relu"], np.concatenate([x, x]), np.arange(8.0), noise_std=0.0)


def test_the_message_s_jitter_is_enough():
    net = ntkgp.mlp(1)
    x = np.linspace(-0.1, 0.1, 40)[:, None]
    with pytest.raises(ntkgp.NotPositiveDefinite) as error:
        condition(net, x, np.sin(x), noise_std=0.0)
    jitter = float(str(error.value).split("jitter=")[1].split()[0])
    assert np.isfinite(
        condition(net, x, np.sin(x), noise_std=0.0, jitter=jitter).predict(x).mean
    ).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"law": "gp"}, "ntkgp"),
        ({"noise_std": -1.0}, "noise_std"),
        ({"y": np.zeros(4)}, "one row"),
        ({"y": np.array([np.nan] * 6)}, "row 0"),
        ({"x": np.zeros((6, 7))}, "shape"),
    ],
)
def test_bad_arguments_are_refused_in_words(change, words):
    net = ntkgp.mlp(3)
    arguments = {
        "x": inputs_for(net, 6),
        "y": np.zeros(6),
        "law": "ntkgp",
        "noise_std": 0.1,
    } | change
    x, y = arguments.pop("x"), arguments.pop("y")
    with pytest.raises(ValueError, match=words):
        condition(net, x, y, **arguments)


# The law as a value.


@pytest.mark.parametrize(
    ("rows", "outputs", "options", "text"),
    [
        (20, 1, {}, "<ExactLaw ntkgp of 20 rows, 1 output, noise_std 0.1>"),
        (1, 2, {"noise_std": 1 / 3}, "<ExactLaw ntkgp of 1 row, 2 outputs, noise_std 0.3333>"),
        (3, 1, {"law": "nngp"}, "<ExactLaw nngp of 3 rows, 1 output, noise_std 0.1>"),
        (
            3,
            1,
            {"law": Law("nngp", "nngp", noisy=False)},
            "<ExactLaw Law(prior='nngp', trained='nngp', noisy=False) of 3 rows, 1 output, "
            "noise_std 0.1>",
        ),
    ],
)
def test_a_law_is_shown_on_one_line(rows, outputs, options, text):
    net = ntkgp.mlp(3)
    assert repr(condition(net, inputs_for(net, rows), np.ones((rows, outputs)), **options)) == text


def test_a_law_is_frozen_and_apart_from_the_arrays_it_was_made_of():
    net = ARCHITECTURES["erf"]
    x, y, t = problem(net)
    conditioned = condition(net, x, y, law="randomised-prior")
    before = conditioned.covariance(t), conditioned.mean(t)
    with pytest.raises(FrozenInstanceError):
        conditioned.noise_std = 1.0
    x += 1
    y += 1
    np.testing.assert_array_equal(conditioned.covariance(t), before[0])
    np.testing.assert_array_equal(conditioned.mean(t), before[1])


@pytest.mark.parametrize("name", LAWS)
def test_a_law_by_value_is_the_law_by_name(name):
    net = ARCHITECTURES["erf"]
    x, y, t = problem(net)
    by_name, by_value = (condition(net, x, y, law=law) for law in (name, LAWS[name]))
    np.testing.assert_array_equal(by_value.covariance(t), by_name.covariance(t))


def test_a_law_of_the_user_s_own():
    """f̃₀ of covariance Θ, trained by the readout alone: Eq. 6 with k = Θ and 𝒦 in place of Θ."""
    net = ARCHITECTURES["relu"]
    x, y, t = problem(net)
    own = condition(net, x, y, law=Law(prior="ntk", trained="nngp"), noise_std=0.3)
    a = ntkgp.nngp(net, t, x) @ np.linalg.inv(ntkgp.nngp(net, x) + 0.09 * np.eye(len(x)))
    cross = a @ ntkgp.ntk(net, x, t)
    noisy = ntkgp.ntk(net, x) + 0.09 * np.eye(len(x))
    expected = ntkgp.ntk(net, t) - cross - cross.T + a @ noisy @ a.T
    np.testing.assert_allclose(own.mean(t), a @ y, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(own.covariance(t), expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("wrong", ["prior", "trained"])
def test_a_law_of_unknown_kernels_is_refused(wrong):
    kernels = SimpleNamespace(**({"prior": "ntk", "trained": "ntk"} | {wrong: "rbf"}))
    with pytest.raises(ValueError, match=f"{wrong} of a Law must be .*'rbf'"):
        Law.__post_init__(kernels)  # the constructor's types are checked before it, in tests only


def test_a_network_without_a_kernel_is_refused():
    net = without_kernel(ARCHITECTURES["erf"])
    with pytest.raises(TypeError, match=r"LayeredNetwork.*got AdaptedNetwork.*ensemble"):
        condition(net, np.zeros((3, 3)), np.zeros(3))


# Files.


SOLVERS = {
    "cholesky": ntkgp.Cholesky(),
    "refined": ntkgp.Refined(),
    "conjugate gradients": ntkgp.ConjugateGradients(rank=4),
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("law", [*LAWS, Law(prior="ntk", trained="nngp")], ids=str)
def test_a_law_comes_back_from_files_bit_by_bit(law, solver, tmp_path):
    net = ARCHITECTURES["relu"]
    x, y, t = problem(net)
    saved = condition(net, x, y, law=law, jitter=1e-3, solver=SOLVERS[solver])
    saved.save(tmp_path)
    loaded = ntkgp.load(tmp_path)
    assert (loaded.net, loaded.law, loaded.noise_std) == (net, saved.law, saved.noise_std)
    assert repr(loaded) == repr(saved)
    np.testing.assert_array_equal(loaded.mean(t), saved.mean(t))
    np.testing.assert_array_equal(loaded.covariance(t), saved.covariance(t))
    np.testing.assert_array_equal(loaded.sample(t, 2), saved.sample(t, 2))
    if solver == "cholesky" and saved.law.is_posterior:
        assert loaded.log_marginal_likelihood() == saved.log_marginal_likelihood()


@pytest.mark.parametrize("held_rows", [0, 10_000])
def test_a_law_with_a_kernel_in_a_file_or_computed_again_comes_back(
    held_rows, tmp_path, monkeypatch
):
    monkeypatch.setattr("ntkgp.laws.exact._HELD_ROWS", held_rows)
    net = ARCHITECTURES["erf"]
    x, y, t = problem(net)
    solver = ntkgp.Cholesky(directory=tmp_path)
    saved = condition(net, x, y, law="randomised-prior", solver=solver)
    saved.save(tmp_path / "law")
    np.testing.assert_array_equal(ntkgp.load(tmp_path / "law").covariance(t), saved.covariance(t))


def test_another_network_than_the_law_s_is_refused(tmp_path):
    net = ARCHITECTURES["erf"]
    x, y, t = problem(net)
    saved = condition(net, x, y)
    saved.save(tmp_path)
    np.testing.assert_array_equal(ntkgp.load(tmp_path, network=net).mean(t), saved.mean(t))
    with pytest.raises(ntkgp.WrongNetwork, match="not the one that was trained"):
        ntkgp.load(tmp_path, network=ARCHITECTURES["relu"])
