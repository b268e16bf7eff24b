"""The methods of the paper as values: what each adds to a network, and where it pulls the parameters."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import jax
from jax import Array

from ntkgp.core.storage import storable
from ntkgp.core.typing import Params, Part
from ntkgp.networks.layers.convolution import by_forward_mode
from ntkgp.networks.protocol import Network, scale


@runtime_checkable
class Offset(Protocol):
    """The untrainable δ(x) of a method; a frozen dataclass, so that it is static under `jax.jit`."""

    @property
    def tangent_at_init(self) -> bool:
        """Whether δ needs θ₀."""

    def __call__(self, net: Network, theta_0: Params, theta_tilde: Params, x: Array) -> Array:
        """δ(x), (n, output_dim). `theta_0` is None where `tangent_at_init` is False."""


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
    Training takes no gradient through δ. One that you take is slow on a CPU, for convolutions in loops.
    """

    body: float
    head: float
    minus_init: bool = False

    tangent_at_init = True

    def __call__(self, net: Network, theta_0: Params, theta_tilde: Params, x: Array) -> Array:
        theta_star = scale(net, theta_tilde, body=self.body, head=self.head)
        with by_forward_mode():  # δ is fixed: no gradient goes through it
            f_0, delta = jax.jvp(lambda theta: net.apply(theta, x), (theta_0,), (theta_star,))
        return delta - f_0 if self.minus_init else delta


@storable
@dataclass(frozen=True)
class Method:
    """One way to train a baselearner f̃(x, θ) = model(x, θ) + δ(x).

    `METHODS` has the paper's. One of your own works wherever a name does:

    >>> heavy_prior = Method("ntkgp", anchor="init", offset=Tangent(body=2.0, head=0.0))
    >>> x = np.linspace(-1, 1, 8)[:, None]
    >>> len(ntkgp.fit(ntkgp.mlp(1, width=16), x, x, method=heavy_prior, members=2))
    2
    """

    law: str
    """The row of Table 1 that the paper gives for it, a name in `LAWS`.

    With anchor "init" the law is exact at infinite width. With None, as in deep ensembles, it is so
    under gradient flow to convergence. With "zero" training leaves the linearised regime
    (Appendix E), and the law is what the method aims at.
    """
    anchor: Literal["init", "zero"] | None
    """½‖θ - θ₀‖²_Λ, ½‖θ‖²_Λ, or no regulariser; with one, targets are y + σε."""
    offset: Offset | None = None
    """The untrainable δ(x), or nothing."""
    model: Literal["network", "tangent"] = "network"
    """f(x, θ), or its linearisation ∇f(x, θ̃) θ."""
    trains: Part = "all"
    """Which parameters are trained."""

    def __post_init__(self) -> None:
        for name, known in (
            ("anchor", ("init", "zero", None)),
            ("model", ("network", "tangent")),
            ("trains", ("all", "body", "readout")),
        ):
            if getattr(self, name) not in known:
                words = ", ".join(map(repr, known))
                raise ValueError(
                    f"{name} of a Method must be one of {words}; got {getattr(self, name)!r}."
                )
        if self.offset is not None and not isinstance(self.offset, Offset):
            raise TypeError(
                "offset of a Method must be None, or an object to be called that says by "
                f"tangent_at_init whether it needs θ₀ (ntkgp.Offset); got {self.offset!r}."
            )

    @property
    def linear(self) -> bool:
        """Whether f̃ is linear in what is trained, so that training has a closed form."""
        return self.model == "tangent" or self.trains == "readout"

    @property
    def needs_init(self) -> bool:
        """Whether f̃ still needs θ₀ after training."""
        return self.offset is not None and self.offset.tangent_at_init

    @property
    def needs_tilde(self) -> bool:
        """Whether f̃ needs the second draw θ̃."""
        return self.offset is not None or self.model == "tangent"

    @property
    def takes_weight_decay(self) -> bool:
        """Whether plain weight decay may regularise it: only where no prior does."""
        return self.anchor is None

    @property
    def prior_draws(self) -> int:
        """How many draws of its law's prior add up to f̃ before training (Appendix E)."""
        return 2 if self.anchor == "zero" else 1


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
"""The methods that the paper compares on real data."""


def get_method(method: Any) -> Method:
    """A method by its name, or one of the user's own; else an error that lists the names."""
    if isinstance(method, Method):
        return method
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(
            f"method must be one of {', '.join(METHODS)}, or an ntkgp.Method; got {method!r}."
        )
    return METHODS[method]


def name_of(method: Method) -> str:
    """Its name in `METHODS`, or its own representation.

    >>> name_of(METHODS["rp-fn"])
    'rp-fn'
    """
    return next((name for name, known in METHODS.items() if known == method), repr(method))
