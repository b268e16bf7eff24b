"""Ensembles as files, by themselves: each method, each noise, and networks that are given again."""

from functools import cache

import jax
import numpy as np
import optax
import pytest

import ntkgp
from helpers import architectures, inputs_for, without_kernel
from ntkgp import METHODS, Descent, GaussNewton, LearnedNoise
from ntkgp.core.storage import fields_of

X = np.random.default_rng(0).normal(size=(8, 2))
NEW = np.random.default_rng(1).normal(size=(5, 2))


@cache
def network(outputs=1, foreign=False):
    net = ntkgp.mlp(2, outputs, width=4, depth=1)
    return without_kernel(net) if foreign else net


def trained(method="ntkgp-param", net=None, y=X[:, :1], **options):
    options = {"members": (0, 3), "trainer": GaussNewton(max_steps=2)} | options
    return ntkgp.fit(net or network(), X, y, method=method, **options)


def assert_same(ensemble, loaded, x=NEW):
    assert type(loaded) is type(ensemble)
    for part in fields_of(ensemble).keys() - {"theta", "member"}:
        np.testing.assert_equal(getattr(loaded, part), getattr(ensemble, part), part)
    first, second = (jax.tree.flatten((e.theta, e.member)) for e in (ensemble, loaded))
    assert first[1] == second[1]
    for a, b in zip(first[0], second[0], strict=True):
        assert isinstance(b, jax.Array)
        np.testing.assert_array_equal(a, b)
    for part in ("mean", "epistemic_var", "noise_var"):
        np.testing.assert_array_equal(
            getattr(loaded.predict(x), part), getattr(ensemble.predict(x), part)
        )


@pytest.mark.quick("ntkgp-param")
@pytest.mark.parametrize("method", METHODS)
def test_ensembles_of_each_method_come_back(method, tmp_path):
    ensemble = trained(method)
    ensemble.save(tmp_path)
    assert_same(ensemble, ntkgp.load(tmp_path))
    with pytest.raises(AssertionError):  # the control: another seed is another ensemble
        assert_same(trained(method, seed=1), ntkgp.load(tmp_path))


@pytest.mark.slow
def test_an_ensemble_that_learned_its_noise_comes_back(tmp_path):
    trainer = Descent(optax.adam(1e-3), epochs=2, batch_size=4)
    ensemble = trained(net=network(outputs=2), noise=LearnedNoise(), trainer=trainer)
    ensemble.save(tmp_path)
    assert_same(ensemble, ntkgp.load(tmp_path))


def test_a_loaded_ensemble_can_grow(tmp_path):
    trained(members=[0]).save(tmp_path)
    grown = ntkgp.load(tmp_path) + trained(members=[3])
    assert grown.indices == (0, 3)
    np.testing.assert_allclose(grown.outputs(NEW), trained().outputs(NEW), rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_an_ensemble_of_images_comes_back(tmp_path):
    net = architectures(8)["conv-pool"]
    x = inputs_for(net, 4)
    ensemble = ntkgp.fit(net, x, x[:, 0, 0, 0], members=2, trainer=GaussNewton(max_steps=1))
    ensemble.save(tmp_path)
    assert_same(ensemble, ntkgp.load(tmp_path), x)
    assert_same(ensemble, ntkgp.load(tmp_path, network=net), x)


@pytest.mark.slow
def test_a_network_of_functions_must_be_given_again(tmp_path):
    net = network(foreign=True)
    ensemble = trained(net=net)
    ensemble.save(tmp_path)
    assert_same(ensemble, ntkgp.load(tmp_path, network=net))
    assert_same(ensemble, ntkgp.load(tmp_path, network=lambda input_shape, output_dim: net))
    with pytest.raises(ntkgp.WrongNetwork, match="not in the file: pass network="):
        ntkgp.load(tmp_path)
    with pytest.raises(ntkgp.WrongNetwork, match=r"shape \(2,\) and have 1 outputs"):
        ntkgp.load(tmp_path, network=network(outputs=2, foreign=True))
    other = without_kernel(ntkgp.mlp(2, width=4, depth=1, activation=ntkgp.layers.Relu()))
    with pytest.raises(ntkgp.WrongNetwork, match="predicts otherwise"):
        ntkgp.load(tmp_path, network=other)


def test_another_network_than_the_one_in_the_file_is_refused(tmp_path):
    trained().save(tmp_path)
    with pytest.raises(ntkgp.WrongNetwork, match="not the one that was trained"):
        ntkgp.load(tmp_path, network=ntkgp.mlp(2, width=5, depth=1))
