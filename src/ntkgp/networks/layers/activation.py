"""What elementwise nonlinearities share: a kernel rule stated by two Gaussian expectations."""

from abc import abstractmethod

import jax.numpy as jnp
from jax import Array

from ntkgp.core.typing import Kernels, Metric, Params, Shape
from ntkgp.networks.layers.base import Layer


class Activation(Layer):
    """z = φ(x) elementwise.

    infinite:  𝒦' = E[φ(u) φ(v)],   Θ' = Θ · E[φ'(u) φ'(v)],   (u, v) ~ N(0, [[v1, 𝒦], [𝒦, v2]])
    """

    @abstractmethod
    def phi(self, x: Array) -> Array:
        """φ, elementwise."""

    @abstractmethod
    def dual(self, cov: Array, var1: Array, var2: Array) -> Array:
        """E[φ(u) φ(v)] for centred Gaussians of variances var1, var2 and covariance cov."""

    @abstractmethod
    def dual_derivative(self, cov: Array, var1: Array, var2: Array) -> Array:
        """E[φ'(u) φ'(v)] for the same Gaussians."""

    def out_shape(self, in_shape: Shape) -> Shape:
        return in_shape

    def apply(self, params: Params, x: Array) -> Array:
        return self.phi(x)

    def kernel(self, k: Kernels, in_shape: Shape, metric: Metric) -> Kernels:
        left1, right1 = variances(k.var1)
        left2, right2 = variances(k.var2)
        return Kernels(
            *self.pair_kernels(k.nngp, k.ntk, left1, right2),
            var1=self.dual(k.var1, left1, right1),
            var2=self.dual(k.var2, left2, right2),
        )

    def pair_kernels(
        self, nngp: Array, ntk: Array, var1: Array, var2: Array
    ) -> tuple[Array, Array]:
        """𝒦' and Θ', given the variances of the first and of the second of each pair."""
        return self.dual(nngp, var1, var2), ntk * self.dual_derivative(nngp, var1, var2)

    def gaussian(self, incoming: bool) -> bool:
        if not incoming:
            raise ValueError(
                f"{self!r} must follow a Dense or Conv layer (pooling and residual sums may stand "
                "between, Flatten may not): its kernel is an expectation over Gaussian inputs. "
                "Neither raw inputs nor the outputs of another activation are Gaussian."
            )
        return False

    def fresh(self, incoming: bool) -> bool:
        return False


def variances(var: Array) -> tuple[Array, Array]:
    """The variances of each position as the left and as the right member of a pair.

    Taken from the covariances themselves, so that equal points have correlation exactly 1.
    """
    if var.ndim < 6:
        return var, var
    diagonal = jnp.einsum("abhwhw->abhw", var)
    return diagonal[:, :, :, :, None, None], diagonal[:, :, None, None, :, :]
