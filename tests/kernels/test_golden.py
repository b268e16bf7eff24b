"""Kernels and laws against numbers from an independent implementation (neural-tangents)."""

import json
from functools import partial
from math import prod
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ntkgp import LayeredNetwork, condition, kernel_matrices, mlp
from ntkgp.core.arrays import precision
from ntkgp.networks.layers import (
    Abs,
    Activation,
    AvgPool,
    Conv,
    Dense,
    Erf,
    Flatten,
    Gelu,
    GlobalAvgPool,
    Kernels,
    LeakyRelu,
    Relu,
    Residual,
    Sin,
)

GOLDEN = Path(__file__).parent / "golden"
CASES = json.loads((GOLDEN / "golden.json").read_text())
NUMBERS = np.load(GOLDEN / "golden.npz")
ACTIVATIONS = {
    "relu": Relu(),
    "erf": Erf(),
    "gelu": Gelu(),
    "sin": Sin(),
    "leaky_relu": LeakyRelu(0.1),
    "abs": Abs(),
}


def build_mlp(case, phi, scales):
    return mlp(
        case["input_dim"],
        width=case["width"],
        depth=case["depth"],
        activation=phi,
        parameterization=case["parameterization"],
        **scales,
    )


def build_conv(case, phi, scales):
    blocks = {
        "c": [Conv(8, **scales), phi],
        "v": [Conv(8, padding="VALID", **scales), phi],
        "s": [Conv(8, strides=(2, 2), **scales), phi],
        "p": [AvgPool()],
    }
    head = {"flatten": Flatten(), "gap": GlobalAvgPool()}[case["head"]]
    body = [layer for block in case["blocks"] for layer in blocks[block]]
    return LayeredNetwork(case["image"], [*body, head], Dense(1, **scales))


def build_residual(case, phi, scales):
    blocks = [Residual([phi, Dense(8, **scales)])] * case["blocks"]
    body = [Dense(8, **scales), *blocks, phi]
    return LayeredNetwork((case["input_dim"],), body, Dense(1, **scales))


BUILDERS = {"mlp": build_mlp, "conv": build_conv, "resmlp": build_residual}


def network_of(case, change=1.0):
    """The network of a case, with its w_std times `change`, and the metric of its golden numbers."""
    scales = {"w_std": change * case["w_std"], "b_std": case["b_std"]}
    net = BUILDERS[case["kind"]](case, ACTIVATIONS[case["activation"]], scales)
    return net, "gradient" if case.get("parameterization") == "standard" else "prior"


def roundings(layer, in_shape):
    """The most operations in a row, each of which rounds once, between a layer's input and output."""
    match layer:
        case Dense():  # w_std² (·) + b_std², and for Θ the sum of two such terms
            return 6
        case Conv():  # a sum over offsets before it
            return prod(layer.filter) + 6
        case Activation():  # a polynomial of degree 5 for the arc sine, and six steps around it
            return 16
        case AvgPool():
            return of_sum(prod(layer.window) ** 2)
        case GlobalAvgPool():
            return of_sum(prod(in_shape[:2]) ** 2)
        case Flatten():
            return of_sum(prod(in_shape[:2]))
        case Residual():
            return 1 + sum(roundings(part, in_shape) for part in layer.body.layers)


def of_sum(n):
    """Roundings of a sum of n terms: n at the worst, 5√n where they are independent.

    More has the chance 2n exp(-5²/2), which is 3% for the longest sum here (Higham and Mary, 2019).
    """
    return min(n, 5 * n**0.5)


def rounding_bounds(name, unit_roundoff):
    """How far rounding can take 𝒦 and Θ of a case from their true values, to first order.

    With u the unit roundoff, one operation moves a covariance by at most u √(k(x, x) k(x', x')), by
    Cauchy and Schwarz, however small it is itself. The r operations of a layer move what comes in or
    what goes out by r times as much. The layers after it pass that on by their derivative, which
    is found by differences in float64. All positions of an image are moved together, because each
    rule grows with every covariance. The inner product of the inputs counts its terms, two
    roundings of x, and the division by their number.
    """
    net, metric = network_of(CASES[name])
    x1, x2 = NUMBERS[f"{name}/x1"], NUMBERS[f"{name}/x2"]
    layers, shapes = [*net.body.layers, net.last], net.body.in_shapes(net.input_shape)
    counts = [roundings(*pair) for pair in zip(layers, shapes, strict=True)]
    # At each stage between two layers: the roundings of the one before and of the one after.
    stages = np.add([net.input_shape[-1] + 3, *counts], [*counts, 0])
    x = jnp.asarray(np.concatenate([x1, x2]))
    var = net.input_variance(x)
    nngp = net.input_covariance(x, x)
    k = Kernels(nngp, jnp.zeros_like(nngp), var[:, None], var[None])

    def rest(k, start):
        for layer, shape in zip(layers[start:], shapes[start:], strict=True):
            k = layer.kernel(k, shape, metric)
        return jnp.stack([k.nngp, k.ntk])[:, : len(x1), len(x1) :]

    step, total = 1e-6, 0.0
    for start, count in enumerate(stages):
        moved = [k._replace(**{f: getattr(k, f) + step * size}) for f, size in sizes(k).items()]
        every = jax.tree.map(lambda *parts: jnp.stack(parts), k, *moved)
        exact, *results = jax.jit(jax.vmap(partial(rest, start=start)))(every)
        total += count * sum(np.abs(result - exact) / step for result in results)
        if start < len(layers):
            k = layers[start].kernel(k, shapes[start], metric)
    return unit_roundoff * total


def sizes(k):
    """√(k(x, x) k(x', x')) for every entry of each field of covariances of one set with itself."""
    var, theta = (jnp.einsum("aa...->a...", cov) for cov in (k.nngp, k.ntk))
    if k.nngp.ndim == 6:
        var, theta = (jnp.einsum("ahwhw->ahw", cov) for cov in (var, theta))

    def root(left, right):
        if k.nngp.ndim == 6:
            left, right = left[..., None, None], right[:, :, None, None]
        return jnp.sqrt(left * right)

    column, row = (slice(None), None), (None, slice(None))
    return {
        "nngp": root(var[column], var[row]),
        "ntk": root(theta[column], theta[row]),
        "var1": root(var[column], var[column]),
        "var2": root(var[row], var[row]),
    }


@pytest.mark.parametrize("name", CASES)
def test_kernels_equal_the_golden_numbers(name):
    net, metric = network_of(CASES[name])
    result = kernel_matrices(net, NUMBERS[f"{name}/x1"], NUMBERS[f"{name}/x2"], metric=metric)
    for which in ("nngp", "ntk"):
        np.testing.assert_allclose(getattr(result, which), NUMBERS[f"{name}/{which}"], rtol=1e-9)


QUICK = {"mlp_2x_gelu_ntk_3", "res_relu"}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_single_precision_is_off_by_rounding_alone(name):
    """The control is a network with w_std larger by one part in ten thousand."""
    x1, x2 = NUMBERS[f"{name}/x1"], NUMBERS[f"{name}/x2"]
    (net, metric), (other, _) = (network_of(CASES[name], change) for change in (1.0, 1 + 1e-4))
    options = {"dtype": np.float32, "metric": metric}
    found, wrong = (kernel_matrices(n, x1, x2, **options) for n in (net, other))
    with precision(np.float64):
        bounds = rounding_bounds(name, unit_roundoff=2.0**-24)
    for which, bound in zip(("nngp", "ntk"), bounds, strict=True):
        golden = NUMBERS[f"{name}/{which}"]
        assert getattr(found, which).dtype == np.float32
        assert np.all(np.abs(getattr(found, which) - golden) <= bound)
        assert np.any(np.abs(getattr(wrong, which) - golden) > bound)


@pytest.mark.parametrize(
    "name", [n for n in CASES if CASES[n]["kind"] != "conv" and n not in QUICK]
)
def test_single_precision_has_half_of_its_digits(name):
    """A cruder bound than the derived one, for the cases that are derived in slow tests only."""
    x1, x2 = NUMBERS[f"{name}/x1"], NUMBERS[f"{name}/x2"]
    net, metric = network_of(CASES[name], 1.0)
    found = kernel_matrices(net, x1, x2, dtype=np.float32, metric=metric)
    for which in ("nngp", "ntk"):
        golden = NUMBERS[f"{name}/{which}"]
        assert np.abs(getattr(found, which) - golden).max() <= 2.0**-12 * np.abs(golden).max()


@pytest.mark.parametrize("name", [name for name in CASES if "_ntk_" in name])
def test_the_paper_s_ntk_is_the_same_in_both_parameterisations(name):
    case = CASES[name] | {"parameterization": "standard"}
    scales = {"w_std": case["w_std"], "b_std": case["b_std"]}
    net = build_mlp(case, ACTIVATIONS[case["activation"]], scales)
    theta = kernel_matrices(net, NUMBERS[f"{name}/x1"], NUMBERS[f"{name}/x2"]).ntk
    np.testing.assert_allclose(theta, NUMBERS[f"{name}/ntk"], rtol=1e-9)


@pytest.mark.parametrize(
    ("golden", "law", "options"),
    [
        ("nngp", "nngp", {"noise_std": 0.1}),
        ("ntkgp", "ntkgp", {"noise_std": 0.1}),
        ("de_noiseless_jitter1e-6", "deep-ensemble", {"noise_std": 0.0, "jitter": 1e-6}),
    ],
)
def test_laws_equal_the_golden_numbers(golden, law, options):
    conditioned = condition(mlp(1), NUMBERS["post/x"], NUMBERS["post/y"], law=law, **options)
    mean, cov = NUMBERS[f"post/{golden}/mean"], NUMBERS[f"post/{golden}/cov"]
    at_test = conditioned.predict(NUMBERS["post/t"])
    scale = np.abs(cov).max()
    # The noise-free system has condition number 1e8, which costs half of float64's digits.
    tolerance = 1e-9 if options["noise_std"] else 1e-6
    np.testing.assert_allclose(at_test.mean, mean, rtol=tolerance)
    np.testing.assert_allclose(
        conditioned.covariance(NUMBERS["post/t"]), cov, rtol=tolerance, atol=tolerance * scale
    )
    np.testing.assert_allclose(
        at_test.epistemic_var[:, 0], np.diag(cov), rtol=tolerance, atol=tolerance * scale
    )
