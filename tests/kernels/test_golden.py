"""Kernels and laws against numbers from an independent implementation (neural-tangents)."""

import json
from pathlib import Path

import numpy as np
import pytest

from ntkgp import LayeredNetwork, condition, kernel_matrices, mlp
from ntkgp.networks.layers import (
    Abs,
    AvgPool,
    Conv,
    Dense,
    Erf,
    Flatten,
    Gelu,
    GlobalAvgPool,
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


def precisions():
    """Both of every case, though the larger programs of convolutions only once in a quick run."""
    for name, case in CASES.items():
        yield name, np.float64, 1e-9
        is_slow = case["kind"] == "conv" and name != "conv_cc_relu_gap_1"
        yield pytest.param(name, np.float32, 2e-5, marks=[pytest.mark.slow] if is_slow else [])


@pytest.mark.parametrize(("name", "dtype", "tolerance"), list(precisions()))
def test_kernels_equal_the_golden_numbers(name, dtype, tolerance):
    case = CASES[name]
    scales = {"w_std": case["w_std"], "b_std": case["b_std"]}
    net = BUILDERS[case["kind"]](case, ACTIVATIONS[case["activation"]], scales)
    metric = "gradient" if case.get("parameterization") == "standard" else "prior"
    result = kernel_matrices(
        net, NUMBERS[f"{name}/x1"], NUMBERS[f"{name}/x2"], dtype=dtype, metric=metric
    )
    for which in ("nngp", "ntk"):
        assert getattr(result, which).dtype == dtype
        np.testing.assert_allclose(
            getattr(result, which), NUMBERS[f"{name}/{which}"], rtol=tolerance
        )


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
