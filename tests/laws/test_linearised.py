"""Linearised networks against dense algebra in the parameters, scikit-learn, and a theorem."""

from dataclasses import FrozenInstanceError

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from flax import nnx
from scipy import special, stats
from sklearn.linear_model import BayesianRidge

import ntkgp
from helpers import assert_covariance, assert_not_covariance, dense_jacobian, flat, inputs_for
from ntkgp import linearise
from ntkgp.core import memory
from ntkgp.kernels.features import Features
from ntkgp.laws.linearised import probit
from ntkgp.networks.adapters import from_trained

SIGMA, SCALE = 0.3, 0.7


def small(outputs=1, width=4):
    return ntkgp.mlp(2, outputs, width=width, depth=1, b_std=0.3)


def trained(net, seed=0):
    """Any θ̂: no formula here needs a mode."""
    return net.init(jax.random.key(seed))


def problem(net, n):
    rng = np.random.default_rng(n)
    return inputs_for(net, n), rng.normal(size=(n, net.output_dim)), inputs_for(net, 3, seed=1)


def double(tree):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), tree)


class Dense:
    """The same posterior by inverses in the parameters, from a Jacobian in one piece."""

    def __init__(self, net, theta, x, curvature, scale, chosen="all"):
        with jax.enable_x64(True):
            self.net, self.theta = net, double(theta)
            mask = flat(net.readout(), theta).astype(bool) if chosen == "readout" else slice(None)
            self.jacobian = lambda at: np.asarray(
                dense_jacobian(net.apply, self.theta, jnp.asarray(at, jnp.float64))
            )[:, mask]
            self.prior = scale**2 * flat(net.prior_var(), theta)[mask]
            self.hat = np.concatenate([np.ravel(v) for v in jax.tree.leaves(self.theta)])[mask]
            j = self.jacobian(x)
            self.precision = j.T @ curvature @ j + np.diag(1 / self.prior)

    def covariance(self, at):
        with jax.enable_x64(True):
            j = self.jacobian(at)
        return j @ np.linalg.inv(self.precision) @ j.T


def blocks_on_the_diagonal(blocks):
    n, c, _ = blocks.shape
    out = np.zeros((n * c, n * c))
    for i, block in enumerate(blocks):
        out[i * c : (i + 1) * c, i * c : (i + 1) * c] = block
    return out


@pytest.mark.parametrize("part", ["all", "readout"])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("n", [3, 40])  # in functions, and in parameters
def test_the_covariance_is_that_of_dense_algebra_in_the_parameters(n, outputs, part):
    net = small(outputs)
    theta, (x, y, t) = trained(net), problem(net, n)
    model = linearise(net, theta, x, y, noise_std=SIGMA, scale=SCALE, part=part)
    assert (model.posterior.x is None) == (n * outputs >= model.features.count)
    expected = Dense(net, theta, x, np.eye(n * outputs) / SIGMA**2, SCALE, part).covariance(t)
    np.testing.assert_allclose(model.covariance(t), expected, rtol=1e-8, atol=1e-10)
    predicted = model.predict(t)
    np.testing.assert_allclose(predicted.epistemic_var.ravel(), np.diag(expected), rtol=1e-8)
    np.testing.assert_allclose(predicted.mean, model.mean(t))
    assert np.all(predicted.noise_var == SIGMA**2)
    # Controls: another θ̂, and a scale that is ignored.
    other = Dense(net, trained(net, 1), x, np.eye(n * outputs) / SIGMA**2, SCALE, part)
    ignored = Dense(net, theta, x, np.eye(n * outputs) / SIGMA**2, 1.0, part)
    for wrong in (other, ignored):
        assert np.abs(wrong.covariance(t) - expected).max() > 1e-2 * np.abs(expected).max()


@pytest.mark.parametrize("n", [3, 40])
@pytest.mark.parametrize("outputs", [1, 2])
def test_the_evidence_is_that_of_the_linearised_model(n, outputs):
    """log N(y - f(x, θ̂) + Jθ̂; 0, s²JΛJᵀ + σ²I)."""
    net = small(outputs)
    theta, (x, y, t) = trained(net), problem(net, n)
    model = linearise(net, theta, x, y, noise_std=SIGMA, scale=SCALE, mean="posterior")
    dense = Dense(net, theta, x, np.eye(n * outputs), SCALE)
    with jax.enable_x64(True):
        j, at = dense.jacobian(x), dense.jacobian(t)
        values, there = (np.asarray(net.apply(dense.theta, jnp.asarray(v))) for v in (x, t))
    pseudo = np.ravel(y - values) + j @ dense.hat
    cov = (j * dense.prior) @ j.T + SIGMA**2 * np.eye(len(pseudo))
    expected = stats.multivariate_normal(cov=cov).logpdf(pseudo)
    np.testing.assert_allclose(model.log_marginal_likelihood(), expected, rtol=1e-9)
    weights = (dense.prior[:, None] * j.T) @ np.linalg.solve(cov, pseudo)
    mean = there.ravel() + at @ (weights - dense.hat)
    np.testing.assert_allclose(model.mean(t).ravel(), mean, rtol=1e-8)
    assert np.abs(mean - there.ravel()).max() > 0.01


@pytest.mark.parametrize("n", [12, 60])
@pytest.mark.parametrize("given", [{}, {"noise_std": SIGMA}, {"scale": SCALE}])
def test_no_other_scale_and_noise_have_more_evidence(n, given):
    net = small()
    theta, (x, y, _) = trained(net), problem(net, n)
    best = linearise(net, theta, x, y, **given)
    for noise, scale in [(1.05, 1.0), (0.95, 1.0), (1.0, 1.05), (1.0, 0.95)]:
        near = {"noise_std": noise * best.noise_std, "scale": scale * best.scale} | given
        other = linearise(net, theta, x, y, **near).log_marginal_likelihood()
        assert other <= best.log_marginal_likelihood() + 1e-6


def test_a_network_that_fits_well_keeps_its_scale():
    """Residuals alone would make the scale vanish."""
    net = small(width=16)
    theta, (x, _, _) = trained(net), problem(net, 60)
    y = np.asarray(net.apply(theta, jnp.asarray(x, jnp.float32)))
    noisy = y + 1e-3 * np.random.default_rng(0).standard_normal(y.shape)
    assert 0.5 < linearise(net, theta, x, noisy).scale < 2  # θ̂ is a draw of the prior at scale 1


def linear(params, x):
    return x @ params["w"]


def test_a_linear_network_is_bayesian_linear_regression():
    """Then linearising changes nothing: mean and variance are scikit-learn's, whatever θ̂ is."""
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(50, 3)), rng.normal(size=(4, 3))
    y = x @ [1.0, -2.0, 0.5] + 0.2 * rng.standard_normal(50)
    net, theta = from_trained(linear, (3,), {"w": jnp.ones((3, 1))})
    ridge = BayesianRidge(fit_intercept=False, tol=1e-10).fit(x, y)
    given = {"noise_std": ridge.alpha_**-0.5, "scale": ridge.lambda_**-0.5}
    model = linearise(net, theta, x, y, mean="posterior", **given)
    mean, std = ridge.predict(t, return_std=True)
    np.testing.assert_allclose(model.mean(t)[:, 0], mean, rtol=1e-6)
    np.testing.assert_allclose(model.predict(t).std[:, 0], std, rtol=1e-6)
    assert np.abs(linearise(net, theta, x, y, **given).mean(t)[:, 0] - mean).max() > 0.1


@pytest.mark.parametrize("part", ["all", "readout"])
@pytest.mark.parametrize("n", [3, 40])
def test_classes_are_the_generalised_gauss_newton_laplace(n, part):
    net = small(3)
    theta, (x, _, t) = trained(net), problem(net, n)
    labels = np.random.default_rng(0).integers(3, size=n)
    model = linearise(net, theta, x, labels, likelihood="categorical", scale=SCALE, part=part)
    logits = model.mean(x)
    p = special.softmax(logits, axis=1)
    curvature = blocks_on_the_diagonal(np.array([np.diag(q) - np.outer(q, q) for q in p]))
    dense = Dense(net, theta, x, curvature, SCALE, part)
    np.testing.assert_allclose(model.covariance(t), dense.covariance(t), rtol=1e-8, atol=1e-10)
    fit = np.log(p[np.arange(n), labels]).sum() - 0.5 * np.sum(dense.hat**2 / dense.prior)
    det = np.linalg.slogdet(dense.precision)[1] + np.sum(np.log(dense.prior))
    np.testing.assert_allclose(model.log_marginal_likelihood(), fit - 0.5 * det, rtol=1e-9)
    # The control: a curvature without its off-diagonal part.
    wrong = Dense(net, theta, x, np.diag(np.diag(curvature)), SCALE, part).covariance(t)
    assert np.abs(wrong - dense.covariance(t)).max() > 1e-3


@pytest.mark.parametrize("part", ["all", "readout"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_laplace_torch_has_the_same_variances(outputs, part):
    """At one prior precision and one noise; where that library is installed."""
    torch = pytest.importorskip("torch")
    laplace = pytest.importorskip("laplace", exc_type=ImportError)
    module = eqx.nn.MLP(2, outputs, 4, depth=1, activation=jnp.tanh, key=jax.random.key(0))
    net, theta = from_trained(module, (2,))
    x, y, t = problem(net, 30)
    kind, noise = ("regression", {"sigma_noise": SIGMA}) if outputs == 1 else ("classification", {})
    ours = {"noise_std": SIGMA} if outputs == 1 else {"likelihood": "categorical"}
    y = y if outputs == 1 else y.argmax(axis=1)
    model = linearise(net, theta, x, y, part=part, scale=SCALE, **ours)
    first, last = (torch.nn.Linear(*size).double() for size in ((2, 4), (4, outputs)))
    for layer, own in zip((first, last), module.layers, strict=True):
        layer.weight.data, layer.bias.data = (
            torch.tensor(np.array(leaf, np.float64)) for leaf in (own.weight, own.bias)
        )
    other = laplace.Laplace(
        torch.nn.Sequential(first, torch.nn.Tanh(), last),
        kind,
        subset_of_weights="all" if part == "all" else "last_layer",
        hessian_structure="full",
        prior_precision=SCALE**-2,
        **noise,
    )
    data = torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y))
    other.fit(torch.utils.data.DataLoader(data, batch_size=30))
    _, var = other._glm_predictive_distribution(torch.tensor(t))
    # A module's gradients are rounded to its own float32.
    expected = np.diagonal(var.detach().numpy(), axis1=1, axis2=2)
    np.testing.assert_allclose(model.predict(t).epistemic_var, expected, rtol=1e-5)


def test_probabilities_spread_out_with_the_variance():
    net = small(3)
    theta, (x, _, t) = trained(net), problem(net, 40)
    labels = np.random.default_rng(0).integers(3, size=40)
    model = linearise(net, theta, x, labels, likelihood="categorical")
    exact = model.probabilities(t, n_samples=4000)
    drawn = special.softmax(model.sample(t, 4000), axis=2)
    error = drawn.std(axis=0) * np.sqrt(2 / 4000)
    assert np.all(np.abs(exact - drawn.mean(axis=0)) < 5 * error)
    map_estimate = special.softmax(model.mean(t), axis=1)
    assert np.all(model.probabilities(t).max(axis=1) < map_estimate.max(axis=1))
    np.testing.assert_allclose(probit(model.mean(t), np.zeros((3, 3))), map_estimate)
    best = model.log_marginal_likelihood()
    for factor in (0.95, 1.05):
        given = {"likelihood": "categorical", "scale": factor * model.scale}
        assert linearise(net, theta, x, labels, **given).log_marginal_likelihood() < best


def test_samples_have_the_posterior_s_covariance():
    net = small(2)
    theta, (x, y, t) = trained(net), problem(net, 10)
    model = linearise(net, theta, x, y, noise_std=SIGMA)
    draws = (model.sample(t, 4000) - model.mean(t)).reshape(4000, -1)
    assert_covariance(draws, model.covariance(t))
    assert_not_covariance(draws, 1.5 * model.covariance(t))


def test_fewer_rows_leave_more_variance():
    net = small()
    theta, (x, y, t) = trained(net), problem(net, 40)
    given = {"noise_std": SIGMA, "scale": SCALE}
    whole, few = (linearise(net, theta, x, y, rows=rows, **given) for rows in (None, 5))
    assert few.rows == 5
    assert np.all(few.predict(t).epistemic_var > whole.predict(t).epistemic_var)


def test_blocks_of_features_do_not_change_the_kernel(monkeypatch):
    net = small(2)
    theta, (x, _, t) = trained(net), problem(net, 7)
    features = Features(net, theta, "all", "prior")
    whole = [features.gram(x), features.gram(t, x), features.own(x)]
    monkeypatch.setattr("ntkgp.kernels.features.BLOCK_BYTES", 4 * 8 * 2 * 3 * features.count)
    assert len(list(features.blocks(x))) == 3
    for once, again in zip(
        whole, [features.gram(x), features.gram(t, x), features.own(x)], strict=True
    ):
        np.testing.assert_allclose(once, again, rtol=1e-12)
    with jax.enable_x64(True):
        kernel = ntkgp.empirical_ntk(net, double(theta), x)
    np.testing.assert_allclose(whole[0], kernel, rtol=1e-10)


# Rows held out.


def test_rows_held_out_set_the_noise_of_predictions():
    net = small()
    theta, (x, y, t) = trained(net), problem(net, 40)
    x_new, y_new, _ = problem(net, 41)
    plain = linearise(net, theta, x, y, noise_std=0.01, scale=0.1)
    model = linearise(net, theta, x, y, noise_std=0.01, scale=0.1, held_out=(x_new, y_new))
    assert model.observation_std[0] > 0.1
    np.testing.assert_array_equal(model.covariance(t), plain.covariance(t))

    def nll(model):
        return -model.predict(x_new).log_prob(y_new).mean()

    assert nll(model) < nll(plain) - 1


def test_rows_held_out_set_the_factor_for_classes():
    net = small(3)
    theta, (x, _, t) = trained(net), problem(net, 40)
    labels = np.random.default_rng(0).integers(3, size=40)  # which the network knows nothing of
    kind = {"likelihood": "categorical", "scale": 0.1}
    plain = linearise(net, theta, x, labels, **kind)
    model = linearise(net, theta, x, labels, held_out=(x, labels), **kind)
    assert model.factor > 2
    np.testing.assert_allclose(model.covariance(t), model.factor**2 * plain.covariance(t))


# Modules of other libraries.


class Linen(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.BatchNorm(use_running_average=True)(nn.tanh(nn.Dense(4)(x)))
        return nn.Dense(2)(x)


class Nnx(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(2, 4, rngs=rngs)
        self.last = nnx.Linear(4, 2, rngs=rngs)

    def __call__(self, x):
        return self.last(nnx.tanh(self.first(x)))


def module_and_params(name):
    """A trained module, its parameters where it does not hold them, and what it computes."""
    x = jnp.ones((1, 2))
    if name == "linen":
        module = Linen()
        variables = module.init(jax.random.key(0), x)
        moved = jax.tree.map(lambda leaf: leaf + 0.1, variables)  # running averages too
        return module, moved, lambda x: module.apply(moved, x)
    if name == "nnx":
        module = Nnx(nnx.Rngs(0))
        module.first.bias[...] = jnp.arange(4.0)
        return module, None, module
    if name == "equinox":
        module = eqx.nn.MLP(2, 2, 4, depth=1, key=jax.random.key(0))
        return module, None, jax.vmap(module)
    params = {"a": jnp.ones((2, 4)), "b": jnp.arange(8.0).reshape(4, 2)}

    def function(params, x):
        return jnp.tanh(x @ params["a"]) @ params["b"]

    return function, params, lambda x: function(params, x)


@pytest.mark.quick("function", "equinox")
@pytest.mark.parametrize("name", ["linen", "nnx", "equinox", "function"])
def test_a_trained_module_is_linearised_as_it_is(name, tmp_path):
    module, params, f = module_and_params(name)
    net, theta = from_trained(module, (2,), params)
    x, y, t = problem(net, 40)
    np.testing.assert_allclose(net.apply(theta, jnp.asarray(t)), f(jnp.asarray(t)), atol=1e-5)
    for part in ("all", "readout"):
        model = linearise(net, theta, x, y, part=part, noise_std=SIGMA, scale=SCALE)
        np.testing.assert_allclose(model.mean(t), f(jnp.asarray(t, jnp.float32)), atol=1e-5)
        expected = Dense(net, theta, x, np.eye(80) / SIGMA**2, SCALE, part).covariance(t)
        np.testing.assert_allclose(model.covariance(t), expected, rtol=1e-5, atol=1e-7)
    model.save(tmp_path)
    again = ntkgp.load(tmp_path, network=net)
    np.testing.assert_array_equal(again.covariance(t), model.covariance(t))
    np.testing.assert_array_equal(again.predict(t).mean, model.predict(t).mean)
    with pytest.raises(ntkgp.WrongNetwork, match="pass network="):
        ntkgp.load(tmp_path)
    assert repr(again) == repr(model)


def test_prior_variances_of_a_trained_module():
    module, _, _ = module_and_params("equinox")
    net, theta = from_trained(module, (2,), prior_var={"*bias": 4.0, "layers/0/weight": 0.0})
    assert net.prior_var() == {"layers/0/bias": 4.0, "layers/1/weight": 1.0, "layers/1/bias": 4.0}
    assert sorted(theta) == sorted(net.prior_var())
    x = jnp.ones((1, 2))
    np.testing.assert_allclose(net.apply(theta, x), jax.vmap(module)(x), rtol=1e-6)
    same = from_trained(module, (2,))
    one = linearise(*same, np.eye(2), np.eye(2), noise_std=1.0, scale=2.0, metric="gradient")
    other = linearise(*same, np.eye(2), np.eye(2), noise_std=1.0, scale=2.0)
    np.testing.assert_array_equal(one.covariance(np.eye(2)), other.covariance(np.eye(2)))


def test_a_network_without_a_readout_is_linearised_whole():
    def squashed(params, x):
        return jnp.tanh(x @ params["w"])

    net, theta = from_trained(squashed, (2,), {"w": jnp.ones((2, 1))})
    assert "readout not found" in repr(net)
    x = np.eye(2)
    assert linearise(net, theta, x, x[:, 0]).features.count == 2
    with pytest.raises(ValueError, match=r'no parameters in part=.readout.*Take part="all"'):
        linearise(net, theta, x, x[:, 0], part="readout")
    with pytest.raises(ValueError, match="not linear in these together"):
        from_trained(squashed, (2,), {"w": jnp.ones((2, 1))}, readout="w")


@pytest.mark.parametrize(
    ("module", "params", "message"),
    [
        (3, None, "takes a trained module of Flax or Equinox, or a function"),
        (linear, None, "a function does not hold its parameters: give from_trained params="),
        (Linen(), None, "give from_trained params=variables"),
        (eqx.nn.MLP(2, 2, 4, 1, key=jax.random.key(0)), {}, "leave params out"),
    ],
)
def test_what_is_no_trained_module_is_refused(module, params, message):
    with pytest.raises(TypeError, match=message):
        from_trained(module, (2,), params)


# A value, its file and its errors.


def test_a_linearised_network_is_a_value_that_can_be_saved(tmp_path):
    net = small()
    theta, (x, y, t) = trained(net), problem(net, 5)
    model = linearise(net, theta, x, y, noise_std=SIGMA, scale=SCALE)
    assert repr(model) == (
        f"<Linearised in all parameters ({model.features.count}), normal, 5 rows, scale 0.7, "
        "noise_std 0.3>"
    )
    with pytest.raises(FrozenInstanceError):
        model.noise_std = 1.0
    model.save(tmp_path)
    again = ntkgp.load(tmp_path)
    np.testing.assert_array_equal(again.covariance(t), model.covariance(t))
    x += 1  # the caller's array is not the model's
    np.testing.assert_array_equal(again.covariance(t), model.covariance(t))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"likelihood": "poisson"}, "'normal', 'categorical'; got 'poisson'"),
        ({"noise_std": 0.0}, "noise_std must be None, .* or a finite number > 0; got 0.0"),
        ({"scale": -1.0}, "scale must be None"),
        (
            {"likelihood": "categorical"},
            r"must be 5 labels, integers from 0 to 1; got shape \(5, 2\)",
        ),
        ({"likelihood": "categorical", "mean": "posterior"}, 'leave mean at "network"'),
        ({"rows": 0}, "rows must be an integer of at least 1"),
    ],
)
def test_errors_say_what_to_do(options, message):
    net = small(2)
    x, y, _ = problem(net, 5)
    with pytest.raises(ValueError, match=message):
        linearise(net, trained(net), x, y, **options)


def test_other_errors_say_what_to_do():
    net = small(2)
    theta, (x, y, _) = trained(net), problem(net, 5)
    with pytest.raises(ValueError, match=r"theta must be the trained parameters.*from_trained"):
        linearise(net, trained(small(2, width=5)), x, y)
    with pytest.raises(ValueError, match=r"y must have shape \(5, 2\).*categorical"):
        linearise(net, theta, x, y[:, 0])
    with pytest.raises(ValueError, match="0 to 1, one class for each output"):
        linearise(net, theta, x, np.arange(5), likelihood="categorical")
    with pytest.raises(ValueError, match="noise_std is for"):
        linearise(net, theta, x, np.zeros(5, int), likelihood="categorical", noise_std=0.1)
    with pytest.raises(ValueError, match="has no class probabilities"):
        linearise(net, theta, x, y, noise_std=1.0, scale=1.0).probabilities(x)
    with pytest.raises(ValueError, match="held_out must be a pair"):
        linearise(net, theta, x, y, noise_std=1.0, scale=1.0, held_out=(x,))


def test_memory_is_forecast(monkeypatch):
    net = small()
    theta, (x, y, _) = trained(net), problem(net, 5)
    monkeypatch.setattr(memory, "available_bytes", lambda: 100)
    with pytest.raises(ntkgp.NotEnoughMemory, match=r'on 5 rows.*rows=.*part="readout"'):
        linearise(net, theta, x, y)
