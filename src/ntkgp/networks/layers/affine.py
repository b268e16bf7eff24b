"""What Dense and Conv share: Gaussian weights, a bias, and two parameterisations of one prior."""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ntkgp.core.typing import Metric

Parameterization = Literal["ntk", "standard"]
Number = float | Array
"""A scale of the prior: Python's number, or JAX's, traced or not."""


class Affine(NamedTuple):
    """Weight and bias of one layer, or their shapes, or their prior variances.

    The bias is None where b_std is 0.
    """

    w: Any
    b: Any


class Scales(NamedTuple):
    """One number for the weight and one for the bias."""

    w: Number
    b: Number


def prior_var(
    parameterization: Parameterization, w_std: Number, b_std: Number, fan_in: int
) -> Scales:
    """λ of weight and bias (Appendix A): 1 in NTK, σ_W²/fan_in and σ_b² in standard parameterisation."""
    if parameterization == "ntk":
        return Scales(1.0, 1.0)
    return Scales(w_std**2 / fan_in, b_std**2)


def forward_scale(
    parameterization: Parameterization, w_std: Number, b_std: Number, fan_in: int
) -> Scales:
    """Factors on weight and bias in the forward pass (Appendix A)."""
    if parameterization == "ntk":
        return Scales(w_std / fan_in**0.5, b_std)
    return Scales(1.0, 1.0)


def own_ntk_scale(
    parameterization: Parameterization, w_std: Number, b_std: Number, fan_in: int, metric: Metric
) -> Scales:
    """Weights of ⟨x, x'⟩ and of 1 in the NTK of this layer's own parameters.

    With metric "prior" these are σ_W²/fan_in and σ_b² in either parameterisation: J Λ Jᵀ does not
    depend on whether a scale is in the prior or in the forward pass.
    """
    if metric == "prior" or parameterization == "ntk":
        return Scales(w_std**2 / fan_in, b_std**2)
    return Scales(1.0, 1.0 if has_bias(b_std) else 0.0)


def has_bias(b_std: Number) -> bool:
    """Whether there is a bias: not if b_std is 0. A traced b_std is not 0."""
    return not (isinstance(b_std, int | float) and b_std == 0)


def shapes(w_shape: tuple[int, ...], b_std: Number) -> Affine:
    """Shapes of weight and bias, whose last axis is the output; no bias where b_std is 0."""
    w, b = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in (w_shape, w_shape[-1:]))
    return Affine(w, b if has_bias(b_std) else None)


def check(layer: str, width: int, w_std: Number, b_std: Number, parameterization: str) -> None:
    """Refuse numbers that describe no prior; JAX's own are not looked at, they may be traced."""
    if width < 1:
        raise ValueError(f"{layer} needs at least one output unit; got {width!r}.")
    if not isinstance(w_std, Array) and not (0 < w_std < float("inf")):
        raise ValueError(
            f"w_std of {layer} must be a positive finite number: it is the weights' prior standard "
            f"deviation times √fan_in; got {w_std!r}."
        )
    if not isinstance(b_std, Array) and not (0 <= b_std < float("inf")):
        raise ValueError(
            f"b_std of {layer} must be a finite number ≥ 0; got {b_std!r}. 0 means no bias."
        )
    if parameterization not in ("ntk", "standard"):
        raise ValueError(
            f'parameterization of {layer} must be "ntk" or "standard"; got {parameterization!r}.'
        )
