"""The paper's claims about classification (Figures 3 to 6 and 8), for any images."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ntkgp.experiments.compared import NTKGP
from ntkgp.experiments.images.scores import confident_error, entropy_outside, error, runs_of
from ntkgp.experiments.results import Results
from ntkgp.report.claims import Claim, Verdict, above, all_of, below, between
from ntkgp.report.intervals import Interval, Scores, difference, interval
from ntkgp.report.looks import by_method, look

BASELINES = ("deep-ensemble", "rp-param", "rp-fn")
MakeClaim = Callable[[Results], Claim | None]
"""Judges a claim; None where a method, or the exact law, is missing."""


def has(results: Results, *methods: str, scale: str = "matched") -> bool:
    return all(runs_of(results, method, scale) for method in methods)


@dataclass(frozen=True)
class Comparison:
    """A claim about the score of each of `ours` less that of each of `theirs`; `judge` decides it."""

    where: str
    says: str
    score: Callable[[Results, str, str], Scores]
    """The scores of a method by one rule for κ."""
    judge: Callable[[Interval], Verdict]
    digits: int = 2
    points: bool = True
    """Whether the score is an error, shown in points; otherwise it is in nats."""
    ours: tuple[str, ...] = NTKGP
    theirs: tuple[str, ...] = BASELINES
    scale: str = "matched"

    def gaps(self, results: Results) -> dict[tuple[str, str], Interval]:
        scores = {m: self.score(results, m, self.scale) for m in (*self.ours, *self.theirs)}
        return {(a, b): difference(scores[a], scores[b]) for a in self.ours for b in self.theirs}

    def __call__(self, results: Results) -> Claim | None:
        if not has(results, *self.ours, *self.theirs, scale=self.scale):
            return None
        gaps = self.gaps(results)
        shown = ", ".join(
            f"{look(a).title} less {look(b).title} "
            + gap.shown(self.digits, 100 if self.points else 1)
            for (a, b), gap in gaps.items()
        )
        unit, size = "points" if self.points else "nats", results["config"]["members"]
        measured = f"with {size} members, in {unit}: {shown}"
        return Claim(self.where, self.says, measured, all_of(*map(self.judge, gaps.values())))


more_entropy = Comparison(
    "Figure 4",
    "NTKGP predictions are more conservative on images from elsewhere (verdict: mean entropy "
    "above that of every baseline)",
    entropy_outside,
    above,
    points=False,
)


def conservative(results: Results) -> Claim | None:
    """Shown by the entropies themselves, which say more than their differences."""
    claim = more_entropy(results)
    methods = (*BASELINES, *NTKGP)
    means = {m: interval(entropy_outside(results, m, "matched").values()) for m in methods}
    return claim and claim._replace(measured=f"mean entropy in nats: {by_method(means, 2)}")


def close_to_law(results: Results) -> Claim | None:
    if not has(results, *NTKGP, "ntkgp"):
        return None

    def from_law(score: Callable[[Results, str, str], Scores]) -> dict[str, Interval]:
        (exact,) = score(results, "ntkgp", "matched").values()
        found = {name: score(results, name, "matched").values() for name in NTKGP}
        return {name: interval([v - exact for v in own]) for name, own in found.items()}

    inside, confident = from_law(error), from_law(confident_error)
    values = "; ".join(
        f"{look(n).title} {inside[n].shown(2, 100)} and {confident[n].shown(1, 100)}" for n in NTKGP
    )
    return Claim(
        "Figures 3 and 4",
        "NTKGP ensembles are close to the analytic NTKGP (verdict: error within 0.5 points, error "
        "above confidence 0.6 within 5)",
        f"less analytic, in points: {values}",
        all_of(
            *(between(gap, -0.005, 0.005) for gap in inside.values()),
            *(between(gap, -0.05, 0.05) for gap in confident.values()),
        ),
    )


OF_MNIST: tuple[MakeClaim, ...] = (
    Comparison(
        "Figure 3, left",
        "NTKGP ensembles of 10 have around 0.2 points more error in distribution than deep ensembles "
        "(verdict: between 0 and 0.4)",
        error,
        partial(between, low=0.0, high=0.004),
        theirs=("deep-ensemble",),
    ),
    Comparison(
        "Figure 3, right",
        "at confidence 0.6 NTKGP has over 15 points less error than all baselines, on both sets "
        "together",
        confident_error,
        partial(below, limit=-0.15),
        digits=1,
    ),
    conservative,
    close_to_law,
)
OF_CIFAR: tuple[MakeClaim, ...] = (
    Comparison(
        "Figure 5, left",
        "the NTKGP methods and RP-fn have the least test error (verdict: each below each other one)",
        error,
        below,
        ours=(*NTKGP, "rp-fn"),
        theirs=("deep-ensemble", "rp-param"),
    ),
    Comparison(
        "Figure 5, right",
        "error against confidence shows no clear difference (verdict: NTKGP within 3 points of every "
        "baseline at 0.6)",
        confident_error,
        partial(between, low=-0.03, high=0.03),
        digits=1,
    ),
    Comparison(
        "Figure 8",
        "entropies differ much less between methods than on MNIST (verdict: mean entropy on SVHN of "
        "NTKGP within 0.2 nats of every baseline's)",
        entropy_outside,
        partial(between, low=-0.2, high=0.2),
        points=False,
    ),
    Comparison(
        "Figure 6, left",
        "with one κ for all methods NTKGP suffers slightly in distribution (verdict: more error than "
        "every baseline)",
        error,
        above,
        scale="fixed",
    ),
    Comparison(
        "Figure 6, right",
        "with one κ for all methods NTKGP is better out of distribution (verdict: less error at "
        "confidence 0.6, on both sets together, than every baseline)",
        confident_error,
        below,
        digits=1,
        scale="fixed",
    ),
)


def elsewhere(origin: str, makers: tuple[MakeClaim, ...]) -> tuple[MakeClaim, ...]:
    """The same claims about images that the paper does not use."""

    def moved(make: MakeClaim) -> MakeClaim:
        def judge(results: Results) -> Claim | None:
            claim = make(results)
            return claim and claim._replace(where=f"{claim.where}, of {origin}")

        return judge

    return tuple(map(moved, makers))
