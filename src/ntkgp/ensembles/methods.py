"""The methods of the paper as values: what each adds to a network and what it pulls it towards."""

from dataclasses import dataclass
from typing import Literal

import jax
from jax import Array

from ntkgp.core.storage import storable
from ntkgp.core.typing import Params, Part
from ntkgp.networks.protocol import Network, scale


@storable
@dataclass(frozen=True)
class PriorNetwork:
    """δ(x) = f(x, θ̃): a second, untrained network (Osband et al., 2018)."""

    tangent_at_init = False

    def __call__(self, net: Network, theta_0: Params, theta_tilde: Params, x: Array) -> Array:
        return net.apply(theta_tilde, x)


@storable
@dataclass(frozen=True)
class Tangent:
    """δ(x) = ∇f(x, θ₀) θ*, with θ* = (body · θ̃^{≤L}, head · θ̃^{L+1}): one JVP (Eq. 10).

    With `minus_init`, f(x, θ₀) is subtracted, which the same JVP gives for free (Eq. 29, 30).
    """

    body: float
    head: float
    minus_init: bool = False

    tangent_at_init = True

    def __call__(self, net: Network, theta_0: Params, theta_tilde: Params, x: Array) -> Array:
        theta_star = scale(net, theta_tilde, body=self.body, head=self.head)
        f_0, delta = jax.jvp(lambda theta: net.apply(theta, x), (theta_0,), (theta_star,))
        return delta - f_0 if self.minus_init else delta


@storable
@dataclass(frozen=True)
class Method:
    """One way to train a baselearner f̃(x, θ) = model(x, θ) + δ(x)."""

    law: str
    """The row of Table 1 that the paper gives for it, a name in `LAWS`.

    Exact at infinite width for anchor "init" and None. With anchor "zero" training leaves the
    linearised regime (Appendix E), and the law is what the method aims at.
    """
    anchor: Literal["init", "zero"] | None
    """½‖θ - θ₀‖²_Λ, ½‖θ‖²_Λ, or no regulariser; with one, targets are y + σε."""
    offset: PriorNetwork | Tangent | None = None
    """The untrainable δ(x), or nothing."""
    model: Literal["network", "tangent"] = "network"
    """f(x, θ), or its linearisation ∇f(x, θ̃) θ."""
    trains: Part = "all"
    """Which parameters move."""

    @property
    def linear(self) -> bool:
        """Whether f̃ is linear in what is trained, so that training has a closed form."""
        return self.model == "tangent" or self.trains == "readout"

    @property
    def needs_init(self) -> bool:
        """Whether f̃ itself needs θ₀ after training."""
        return self.offset is not None and self.offset.tangent_at_init

    @property
    def needs_tilde(self) -> bool:
        """Whether f̃ needs the second draw θ̃."""
        return self.offset is not None or self.model == "tangent"


METHODS: dict[str, Method] = {
    "deep-ensemble": Method("deep-ensemble", anchor=None),
    "rp-param": Method("randomised-prior", anchor="init"),
    "rp-fn": Method("randomised-prior", anchor="zero", offset=PriorNetwork()),
    "ntkgp-param": Method("ntkgp", anchor="init", offset=Tangent(body=1.0, head=0.0)),
    "ntkgp-fn": Method("ntkgp", anchor="zero", offset=Tangent(body=2**0.5, head=1.0)),
    "ntkgp-lin": Method("ntkgp", anchor="init", model="tangent"),
    "ntkgp-alt": Method("ntkgp", anchor="init", offset=Tangent(1.0, 1.0, minus_init=True)),
    "nngp": Method("nngp", anchor="init", trains="readout"),
}
"""The paper's six methods, then Appendix C's alternative construction and Section 3's NNGP."""
COMPARED = ("deep-ensemble", "rp-param", "rp-fn", "ntkgp-param", "ntkgp-fn")
"""Those that the paper compares on real data."""


def get_method(name: str) -> Method:
    """The method of that name, or an error that lists them."""
    if name not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {name!r}.")
    return METHODS[name]
