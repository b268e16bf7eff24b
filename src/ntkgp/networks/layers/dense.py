"""The fully connected layer."""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from ntkgp.core.storage import storable
from ntkgp.core.typing import Kernels, Metric, Shape
from ntkgp.networks.layers import affine
from ntkgp.networks.layers.affine import Affine, Number, Parameterization
from ntkgp.networks.layers.base import Layer, pull_back


@storable
@dataclass(frozen=True)
class Dense(Layer):
    """Affine map of a vector (Appendix A).

    standard:  z = x W + b,   W ~ N(0, w_std² / fan_in),   b ~ N(0, b_std²)
    ntk:       z = w_std / √fan_in · x W + b_std · b,   W, b ~ N(0, 1)
    infinite:  𝒦' = w_std² 𝒦 + b_std²,   Θ' = 𝒦' + w_std² Θ

    Standard is the default and trains well with Adam; `parameterization="ntk"` gives the other.

    >>> Dense(64).out_shape((3,))
    (64,)
    >>> Dense(64).prior_var((4,)).w, Dense(64, parameterization="ntk").prior_var((4,)).w
    (0.5625, 1.0)
    """

    width: int
    w_std: Number = 1.5
    b_std: Number = 0.05
    parameterization: Parameterization = "standard"

    scales = ("w_std", "b_std")

    def __post_init__(self) -> None:
        affine.check("Dense", self.width, self.w_std, self.b_std, self.parameterization)

    def out_shape(self, in_shape: Shape) -> Shape:
        if len(in_shape) != 1:
            raise ValueError(
                f"Dense takes vectors, but its input has shape {in_shape} per example: "
                "put Flatten() or GlobalAvgPool() before it."
            )
        return (self.width,)

    def _prior(self, fan_in: int) -> tuple[Parameterization, Number, Number, int]:
        return self.parameterization, self.w_std, self.b_std, fan_in

    def shapes(self, in_shape: Shape) -> Affine:
        return affine.shapes((in_shape[0], self.width), self.b_std)

    def prior_var(self, in_shape: Shape) -> Affine:
        var = affine.prior_var(*self._prior(in_shape[0]))
        return Affine(var.w, var.b if affine.has_bias(self.b_std) else None)

    def apply(self, params: Affine, x: Array) -> Array:
        scale = affine.forward_scale(*self._prior(x.shape[-1]))
        z = scale.w * (x @ params.w)
        return z if params.b is None else z + scale.b * params.b

    def kernel(self, k: Kernels, in_shape: Shape, metric: Metric) -> Kernels:
        def affine_cov(cov: Array) -> Array:
            return self.w_std**2 * cov + self.b_std**2

        (fan_in,) = in_shape
        own = affine.own_ntk_scale(*self._prior(fan_in), metric)
        return Kernels(
            nngp=affine_cov(k.nngp),
            ntk=own.w * fan_in * k.nngp + own.b + self.w_std**2 * k.ntk,
            var1=affine_cov(k.var1),
            var2=affine_cov(k.var2),
        )

    def gaussian(self, incoming: bool) -> bool:
        return True

    def fresh(self, incoming: bool) -> bool:
        return True

    def backward(
        self, params: Affine, x: Array, cotangents: Array, metric: Metric
    ) -> tuple[Array, Array]:
        """Share of the empirical NTK: (own_w · A Aᵀ + own_b) ∘ (G Gᵀ)."""
        own = affine.own_ntk_scale(*self._prior(x.shape[-1]), metric)
        inputs = own.w * (x @ x.T) + own.b
        outputs = jnp.einsum("ncj,mdj->ncmd", cotangents, cotangents)
        return inputs[:, None, :, None] * outputs, pull_back(
            lambda z: self.apply(params, z), x, cotangents
        )
