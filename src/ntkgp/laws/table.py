"""Table 1: the predictive laws of infinitely wide ensembles, as four values."""

from dataclasses import dataclass

from ntkgp.core.storage import storable
from ntkgp.kernels.matrices import Which


@storable
@dataclass(frozen=True)
class Law:
    """One row of Table 1: which kernel the function starts with, and which one trains it.

    The rows are exact at infinite width. For deep ensembles that holds for gradient flow, or
    gradient descent of small steps, from the initialisation to convergence: there are many
    minima, and the optimiser decides which one is reached. Adam, say, reaches another. The other
    rows describe minimisers of a regularised loss, however they are found.

    >>> Law(prior="ntk", trained="ntk") == ntkgp.LAWS["ntkgp"]
    True
    """

    prior: Which
    """k in Eq. 6: the covariance of f̃₀."""
    trained: Which
    """The kernel of the parameters that move: Θ when all do, 𝒦 when the readout does."""
    noisy: bool = True
    """Whether targets carry noise of variance σ² > 0; deep ensembles train on y itself."""

    def __post_init__(self) -> None:
        for name, which in (("prior", self.prior), ("trained", self.trained)):
            if which not in ("nngp", "ntk"):
                raise ValueError(f'{name} of a Law must be "nngp" or "ntk"; got {which!r}.')

    @property
    def is_posterior(self) -> bool:
        """Whether this is a GP posterior (Section 2): the two kernels are the same."""
        return self.prior == self.trained

    def require_posterior(self) -> None:
        """Refuse laws that have no marginal likelihood."""
        if not self.is_posterior:
            raise ValueError(
                "this law is not the posterior of any Gaussian process (Section 2), so it has no "
                'marginal likelihood; "nngp" and "ntkgp" have one.'
            )


LAWS: dict[str, Law] = {
    "nngp": Law(prior="nngp", trained="nngp"),
    "deep-ensemble": Law(prior="nngp", trained="ntk", noisy=False),
    "randomised-prior": Law(prior="nngp", trained="ntk"),
    "ntkgp": Law(prior="ntk", trained="ntk"),
}


def get_law(law: str | Law) -> Law:
    """The law of that name, or the given one itself; an error lists the names."""
    if isinstance(law, Law):
        return law
    if law not in list(LAWS):
        raise ValueError(f"law must be one of {', '.join(LAWS)}, or a Law; got {law!r}.")
    return LAWS[law]
