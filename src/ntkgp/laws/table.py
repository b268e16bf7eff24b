"""Table 1: the predictive laws of infinitely wide ensembles, as four values."""

from dataclasses import dataclass

from ntkgp.kernels.matrices import Which


@dataclass(frozen=True)
class Law:
    """One row of Table 1: which kernel the function starts with, and which one trains it."""

    prior: Which
    """k in Eq. 6: the covariance of f̃₀."""
    trained: Which
    """The kernel of the parameters that move: Θ when all do, 𝒦 when the readout does."""
    noisy: bool = True
    """Whether targets carry noise of variance σ² > 0; deep ensembles train on y itself."""

    @property
    def is_posterior(self) -> bool:
        """Whether this is a GP posterior (Section 2): the two kernels are the same."""
        return self.prior == self.trained


LAWS: dict[str, Law] = {
    "nngp": Law(prior="nngp", trained="nngp"),
    "deep-ensemble": Law(prior="nngp", trained="ntk", noisy=False),
    "randomised-prior": Law(prior="nngp", trained="ntk"),
    "ntkgp": Law(prior="ntk", trained="ntk"),
}


def get_law(name: str) -> Law:
    """The law of that name, or an error that lists them."""
    if name not in LAWS:
        raise ValueError(f"law must be one of {', '.join(LAWS)}; got {name!r}.")
    return LAWS[name]
