"""Assertions with derived tolerances, and the networks that the tests range over."""

from contextlib import contextmanager
from functools import partial

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from jax.tree_util import tree_leaves_with_path as leaves_with_path

from ntkgp import LayeredNetwork, adapters, mlp
from ntkgp.ensembles import training
from ntkgp.ensembles.member import TrainingSet
from ntkgp.networks.layers import (
    Abs,
    AvgPool,
    Conv,
    Dense,
    Erf,
    Flatten,
    Gelu,
    GlobalAvgPool,
    Identity,
    LeakyRelu,
    Relu,
    Residual,
    Sin,
)

ACTIVATIONS = [Relu(), LeakyRelu(0.1), Abs(), Erf(), Gelu(), Sin()]


def architectures(width, parameterization="ntk"):
    """One small network of each kind, `width` units or width/2 channels wide."""
    dense = partial(Dense, width, 1.3, 0.2, parameterization)
    conv = partial(Conv, width // 2, w_std=1.3, b_std=0.2, parameterization=parameterization)
    last = Dense(1, 1.3, 0.2, parameterization)
    image = (4, 4, 2)
    return {
        "erf": mlp(3, width=width, depth=2, parameterization=parameterization),
        "relu": LayeredNetwork((3,), [dense(), Relu()] * 2, last),
        "residual": LayeredNetwork(
            (3,), [dense(), Residual([Relu(), dense()]), Gelu(), dense(), Identity()], last
        ),
        "conv-flatten": LayeredNetwork(
            image, [conv(), Relu(), conv(padding="VALID"), Erf(), Flatten()], last
        ),
        "conv-pool": LayeredNetwork(
            image, [conv(), Relu(), AvgPool(), conv(filter=(1, 2)), Sin(), GlobalAvgPool()], last
        ),
        "conv-residual": LayeredNetwork(
            image,
            [
                conv(),
                Residual(
                    [Relu(), conv(strides=(2, 2))], shortcut=[conv(filter=(1, 1), strides=(2, 2))]
                ),
                Abs(),
                GlobalAvgPool(),
            ],
            last,
        ),
    }


ARCHITECTURES_AND_PARAMETERISATIONS = [(name, "ntk") for name in architectures(8)] + [
    ("erf", "standard"),
    ("conv-pool", "standard"),
]


def inputs_for(net, n, seed=0):
    """Inputs of the right shape, of the size of standardised data."""
    return np.random.default_rng(seed).normal(size=(n, *net.input_shape))


def draws(sample, n, seed=7):
    """n independent results of sample(key), stacked in float64 NumPy.

    One after another: vmapped convolutions are many times slower on a CPU.
    """
    sample = jax.jit(sample)
    results = [sample(key) for key in jax.random.split(jax.random.key(seed), n)]
    return jax.tree.map(lambda *leaves: np.stack(leaves).astype(np.float64), *results)


def covariance_z(samples, expected):
    """The worst entry of the sample second moment of centred Gaussian draws, in standard errors."""
    n, var = len(samples), np.diag(expected)
    moment = samples.T @ samples / n
    std_error = np.sqrt((np.outer(var, var) + expected**2) / n)
    return np.max(np.abs(moment - expected) / std_error)


def mean_z(samples, expected):
    """The worst entry of the sample mean, in standard errors."""
    std_error = samples.std(axis=0, ddof=1) / len(samples) ** 0.5
    return np.max(np.abs(samples.mean(axis=0) - expected) / std_error)


def assert_covariance(samples, expected, *, z=5.0):
    worst = covariance_z(samples, expected)
    assert worst < z, f"worst entry is {worst:.1f} standard errors off, limit {z}"


def assert_not_covariance(samples, wrong, *, z=5.0):
    worst = covariance_z(samples, wrong)
    assert worst > 1.5 * z, f"the control passes: worst entry only {worst:.1f} standard errors off"


def smallest_eigenvalue(matrix):
    """Relative to the largest in absolute value."""
    values = np.linalg.eigvalsh((matrix + matrix.T) / 2)
    return values[0] / np.abs(values).max()


@partial(jax.jit, static_argnums=0)
def dense_jacobian(f, params, x):
    """The Jacobian of f(params, x) by reverse mode in one piece, (n·c, parameters)."""
    rows = jax.eval_shape(f, params, x).size
    leaves = jax.tree.leaves(jax.jacrev(f)(params, x))
    return jnp.concatenate([leaf.reshape(rows, -1) for leaf in leaves], axis=1)


def flat(tree, like):
    """A tree of numbers, one for each leaf, as one vector as long as the parameters."""
    pairs = zip(jax.tree.leaves(tree), jax.tree.leaves(like), strict=True)
    return np.concatenate([np.full(leaf.size, value) for value, leaf in pairs])


def without_kernel(net):
    """The same network known by its functions alone, as a user's own is."""
    variances = {"/".join(_names(path)): var for path, var in leaves_with_path(net.prior_var())}
    return adapters.from_functions(net.init, net.apply, net.input_shape, prior_var=variances)


def _names(path):
    return [str(getattr(key, "name", getattr(key, "idx", key))) for key in path]


@contextmanager
def as_users_run_it():
    """Without the run-time checks of types, which would answer before the library's own words."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def training_set(learner, keys, member, x, y):
    """One member's view of the data, as every trainer makes it."""
    delta = None if learner.method.offset is None else learner.offset(member, x)
    return TrainingSet(x, y, learner.target_noise(keys.noise, y), delta, jnp.ones(len(x)))


class Killed(BaseException):
    """A process that ends, as seen from inside."""


def ended_after(steps, train):
    """Start a training, and end it after so many calls of its programs."""
    calls, real = iter(range(steps)), training._further

    def mortal(*arguments):
        if next(calls, None) is None:
            raise Killed
        return real(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "_further", mortal)
        with pytest.raises(Killed):
            train()
