"""The paper's claims about classification (Figures 3 to 6 and 8), for any images."""

from collections.abc import Callable, Mapping
from typing import Any

from ntkgp.report.claims import (
    Claim,
    Interval,
    Scores,
    above,
    all_of,
    below,
    between,
    difference,
    interval,
)
from ntkgp.report.image_scores import AT_CONFIDENCE, error_at, final, mean_entropy, runs_of
from ntkgp.report.style import NTKGP, by_method, look

BASELINES = ("deep-ensemble", "rp-param", "rp-fn")


def claims(results: dict[str, Any]) -> list[Claim]:
    """Those of the paper about these images, as far as this run has what they need."""
    return [claim for claim in every_claim(results) if claim is not None]


def every_claim(results: dict[str, Any]) -> list[Claim | None]:
    """None for one that needs a method, or the exact law, which this run has not."""
    of_mnist = (worse_inside, conservative_outside, entropies_outside, close_to_law)
    of_cifar = (
        best_inside,
        no_clear_difference,
        similar_entropies,
        fixed_scale_inside,
        fixed_scale_outside,
    )
    makers = of_cifar if results["experiment"] == "cifar" else of_mnist
    return [make(results) for make in makers]


def unjudged(results: dict[str, Any]) -> list[str]:
    """A line about claims that are missing."""
    n = every_claim(results).count(None)
    return [f"Claims not judged, for want of a method or the exact law: {n}."] if n else []


def has(results: dict[str, Any], *methods: str, scale: str = "matched") -> bool:
    return all(runs_of(results, method, scale) for method in methods)


def where(results: dict[str, Any], figure: str) -> str:
    return f"{figure}, of MNIST" if results["experiment"] == "digits" else figure


def gaps(
    first: Mapping[str, Scores], second: Mapping[str, Scores]
) -> dict[tuple[str, str], Interval]:
    """Every one of the first less every one of the second."""
    return {(a, b): difference(first[a], second[b]) for a in first for b in second}


def against_baselines(scores: Callable[[str], Scores]) -> dict[tuple[str, str], Interval]:
    """A score of each NTKGP method less that of each baseline."""
    ours, theirs = ({name: scores(name) for name in group} for group in (NTKGP, BASELINES))
    return gaps(ours, theirs)


def shown(found: dict[tuple[str, str], Interval], digits: int, factor: int = 1) -> str:
    return ", ".join(
        f"{look(a).title} less {look(b).title} {gap.shown(digits, factor)}"
        for (a, b), gap in found.items()
    )


def worse_inside(results: dict[str, Any]) -> Claim | None:
    if not has(results, "deep-ensemble", *NTKGP):
        return None
    errors = {name: final(results, name, "error") for name in ("deep-ensemble", *NTKGP)}
    baseline = {"deep-ensemble": errors.pop("deep-ensemble")}
    found = gaps(errors, baseline)
    size = results["config"]["members"]
    return Claim(
        where(results, "Figure 3, left"),
        "NTKGP ensembles of 10 have around 0.2 points more error in distribution than deep ensembles "
        "(verdict: between 0 and 0.4)",
        f"with {size} members, in points: {shown(found, 2, 100)}",
        all_of(*(between(gap, 0.0, 0.004) for gap in found.values())),
    )


def conservative_outside(results: dict[str, Any]) -> Claim | None:
    if not has(results, *BASELINES, *NTKGP):
        return None
    found = against_baselines(lambda name: error_at(results, name, AT_CONFIDENCE))
    return Claim(
        where(results, "Figure 3, right"),
        "at confidence 0.6 NTKGP has over 15 points less error than all baselines, on both sets "
        "together",
        f"in points: {shown(found, 1, 100)}",
        all_of(*(below(gap, -0.15) for gap in found.values())),
    )


def entropies_outside(results: dict[str, Any]) -> Claim | None:
    if not has(results, *BASELINES, *NTKGP):
        return None
    means = {name: mean_entropy(results, name, "outside") for name in (*BASELINES, *NTKGP)}
    found = against_baselines(means.__getitem__)
    intervals = {name: interval(scores.values()) for name, scores in means.items()}
    return Claim(
        where(results, "Figure 4"),
        "NTKGP predictions are more conservative on images from elsewhere (verdict: mean entropy "
        "above that of every baseline)",
        f"mean entropy in nats: {by_method(intervals, 2)}",
        all_of(*(above(gap) for gap in found.values())),
    )


def close_to_law(results: dict[str, Any]) -> Claim | None:
    if not has(results, *NTKGP, "ntkgp"):
        return None

    def from_law(scores: Mapping[str, Scores], law: Scores) -> dict[str, Interval]:
        (exact,) = law.values()
        return {n: interval([v - exact for v in own.values()]) for n, own in scores.items()}

    inside = from_law(
        {name: final(results, name, "error") for name in NTKGP}, final(results, "ntkgp", "error")
    )
    confident = from_law(
        {name: error_at(results, name, AT_CONFIDENCE) for name in NTKGP},
        error_at(results, "ntkgp", AT_CONFIDENCE),
    )
    values = "; ".join(
        f"{look(n).title} {inside[n].shown(2, 100)} and {confident[n].shown(1, 100)}" for n in NTKGP
    )
    return Claim(
        where(results, "Figures 3 and 4"),
        "NTKGP ensembles are close to the analytic NTKGP (verdict: error within 0.5 points, error "
        "above confidence 0.6 within 5)",
        f"less analytic, in points: {values}",
        all_of(
            *(between(gap, -0.005, 0.005) for gap in inside.values()),
            *(between(gap, -0.05, 0.05) for gap in confident.values()),
        ),
    )


def best_inside(results: dict[str, Any]) -> Claim | None:
    good, others = (*NTKGP, "rp-fn"), ("deep-ensemble", "rp-param")
    if not has(results, *good, *others):
        return None
    errors = {name: final(results, name, "error") for name in (*good, *others)}
    found = gaps({n: errors[n] for n in good}, {n: errors[n] for n in others})
    return Claim(
        "Figure 5, left",
        "the NTKGP methods and RP-fn have the least test error (verdict: each below each other one)",
        f"in points: {shown(found, 2, 100)}",
        all_of(*(below(gap) for gap in found.values())),
    )


def no_clear_difference(results: dict[str, Any]) -> Claim | None:
    if not has(results, *BASELINES, *NTKGP):
        return None
    found = against_baselines(lambda name: error_at(results, name, AT_CONFIDENCE))
    return Claim(
        "Figure 5, right",
        "error against confidence shows no clear difference (verdict: NTKGP within 3 points of every "
        "baseline at 0.6)",
        f"in points: {shown(found, 1, 100)}",
        all_of(*(between(gap, -0.03, 0.03) for gap in found.values())),
    )


def similar_entropies(results: dict[str, Any]) -> Claim | None:
    if not has(results, *BASELINES, *NTKGP):
        return None
    found = against_baselines(lambda name: mean_entropy(results, name, "outside"))
    return Claim(
        "Figure 8",
        "entropies differ much less between methods than on MNIST (verdict: mean entropy on SVHN of "
        "NTKGP within 0.2 nats of every baseline's)",
        f"in nats: {shown(found, 2)}",
        all_of(*(between(gap, -0.2, 0.2) for gap in found.values())),
    )


def fixed_scale_inside(results: dict[str, Any]) -> Claim | None:
    if not has(results, *BASELINES, *NTKGP, scale="fixed"):
        return None
    found = against_baselines(lambda name: final(results, name, "error", "fixed"))
    return Claim(
        "Figure 6, left",
        "with one κ for all methods NTKGP suffers slightly in distribution (verdict: more error than "
        "every baseline)",
        f"in points: {shown(found, 2, 100)}",
        all_of(*(above(gap) for gap in found.values())),
    )


def fixed_scale_outside(results: dict[str, Any]) -> Claim | None:
    if not has(results, *BASELINES, *NTKGP, scale="fixed"):
        return None
    found = against_baselines(lambda name: error_at(results, name, AT_CONFIDENCE, "fixed"))
    return Claim(
        "Figure 6, right",
        "with one κ for all methods NTKGP is better out of distribution (verdict: less error at "
        "confidence 0.6, on both sets together, than every baseline)",
        f"in points: {shown(found, 1, 100)}",
        all_of(*(below(gap) for gap in found.values())),
    )
