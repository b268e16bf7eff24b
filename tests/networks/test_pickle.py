"""Adapted networks in pickles: made again by their adapter, whole pipelines with them."""

import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from flax import nnx
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ntkgp
from ntkgp.networks.adapters import from_equinox, from_flax, from_functions, from_nnx

NO_BIAS_PRIOR = {"*bias": 0}


class Linen(nn.Module):
    outputs: int

    @nn.compact
    def __call__(self, x, scale=1.0):
        return nn.Dense(self.outputs)(nn.relu(nn.Dense(6)(scale * x)))


def call_linen(module, x):
    return module(x, scale=0.5)


def make_nnx(outputs, rngs):
    return nnx.Sequential(nnx.Linear(3, 6, rngs=rngs), nnx.relu, nnx.Linear(6, outputs, rngs=rngs))


def make_equinox(outputs, key):
    return eqx.nn.MLP(3, outputs, 6, depth=1, key=key)


def init(key):
    first, last = jax.random.split(key)
    return {"a": jax.random.normal(first, (3, 6)), "b": jax.random.normal(last, (6, 2))}


def apply(params, x):
    return jnp.tanh(x @ params["a"]) @ params["b"]


def unit_variance(path, leaf):
    return 1.0


NETWORKS = {
    "linen": lambda: from_flax(Linen(2), (3,), prior_var=NO_BIAS_PRIOR, call=call_linen),
    "nnx": lambda: from_nnx(partial(make_nnx, 2), (3,), prior_var={"*bias": 0.1}),
    "equinox": lambda: from_equinox(partial(make_equinox, 2), (3,), readout="layers/1"),
    "functions": lambda: from_functions(init, apply, (3,), prior_var=unit_variance),
}


@pytest.mark.quick("functions", "nnx")
@pytest.mark.parametrize("name", NETWORKS)
def test_a_pickled_network_is_the_same_network(name):
    net = NETWORKS[name]()
    again = pickle.loads(pickle.dumps(net))
    assert again.prior_var() == net.prior_var()
    assert again.readout() == net.readout()
    x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 3)), jnp.float32)
    outputs = [jax.jit(lambda n=n: n.apply(n.init(jax.random.key(1)), x))() for n in (net, again)]
    np.testing.assert_array_equal(*outputs)
    assert outputs[0].shape == (4, 2)


def test_opening_a_pickle_does_not_repeat_the_warnings():
    with pytest.warns(ntkgp.adapters.ConstantParameters):
        net = from_flax(Linen(1), (3,))
    assert pickle.loads(pickle.dumps(net)).prior_var() == net.prior_var()


@pytest.mark.quick("equinox")
@pytest.mark.parametrize(
    "make",
    [
        lambda: from_equinox(lambda key: make_equinox(1, key), (3,)),
        lambda: from_functions(init, lambda p, x: apply(p, x), (3,)),
        lambda: from_flax(
            nn.Sequential([nn.Dense(4), nn.relu, nn.Dense(1)]), (3,), prior_var=NO_BIAS_PRIOR
        ),
    ],
    ids=["equinox", "functions", "linen"],
)
def test_what_has_no_name_is_refused_with_the_remedy(make):
    net = make()
    with pytest.raises(pickle.PicklingError, match=r"(?s)function of a module.*functools.partial"):
        pickle.dumps(net)


def linen_network(input_shape, output_dim):
    return from_flax(Linen(output_dim), input_shape, prior_var={"*bias": 0.05**2})


@pytest.mark.slow
def test_a_pipeline_with_an_adapted_network_comes_back_whole(tmp_path):
    """In a process of its own, as where a model is served."""
    rng = np.random.default_rng(0)
    X = 5 + 3 * rng.normal(size=(30, 3))
    model = ntkgp.EnsembleRegressor(
        network=linen_network, members=1, min_steps=5, min_epochs=1, random_state=0
    )
    pipeline = make_pipeline(StandardScaler(), model).fit(X, np.sin(X[:, 0]))
    (tmp_path / "pipeline.pickle").write_bytes(pickle.dumps(pipeline))
    np.save(tmp_path / "x.npy", X)
    code = (
        "import pickle, sys, numpy as np\n"
        "folder, tests = sys.argv[1:]\n"
        "sys.path.insert(0, tests)\n"
        "pipeline = pickle.loads(open(f'{folder}/pipeline.pickle', 'rb').read())\n"
        "np.save(f'{folder}/y.npy', pipeline.predict(np.load(f'{folder}/x.npy'), return_std=True))"
    )
    here = Path(__file__).parent
    subprocess.run([sys.executable, "-c", code, str(tmp_path), str(here)], check=True)
    expected = pipeline.predict(X, return_std=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-4, atol=1e-5)
    assert np.std(expected[0]) > 0
