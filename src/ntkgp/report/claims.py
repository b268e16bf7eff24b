"""What the paper says beside what a run measured, with a verdict that follows from the numbers."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy import stats

Verdict = Literal["holds", "does not hold", "undecided"]


class Interval(NamedTuple):
    """A mean over repeats, and the 95 % confidence interval around it."""

    mean: float
    half: float
    """Half its width; infinite for a single repeat."""

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    def shown(self, digits: int, factor: int = 1) -> str:
        """For people: the mean, with ± where there is more than one repeat.

        >>> Interval(0.1234, 0.01).shown(1, factor=100)
        '12.3 ± 1.0'
        """
        mean = f"{factor * self.mean:.{digits}f}"
        return mean if np.isinf(self.half) else f"{mean} ± {factor * self.half:.{digits}f}"


class Claim(NamedTuple):
    """One claim of the paper, or one that follows from it."""

    where: str
    says: str
    measured: str
    verdict: Verdict


def interval(values: Sequence[float]) -> Interval:
    """By Student's distribution over independent repeats.

    >>> interval([1.0, 3.0]).shown(1)
    '2.0 ± 12.7'
    """
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return Interval(mean, float("inf"))
    return Interval(mean, float(stats.t.ppf(0.975, n - 1) * np.std(values, ddof=1) / n**0.5))


def difference(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Of first - second, repeat by repeat."""
    return interval([a - b for a, b in zip(first, second, strict=False)])


def between(value: Interval, low: float, high: float) -> Verdict:
    """Whether a quantity lies in a range: decided where its interval does not straddle an end.

    >>> between(Interval(0.5, 0.1), 0.0, 1.0), between(Interval(2.0, 0.1), 0.0, 1.0)
    ('holds', 'does not hold')
    >>> between(Interval(0.9, 0.5), 0.0, 1.0)
    'undecided'
    """
    if low <= value.low and value.high <= high:
        return "holds"
    if value.high < low or value.low > high:
        return "does not hold"
    return "undecided"


def below(value: Interval, limit: float = 0.0) -> Verdict:
    """Whether a quantity is below a limit."""
    return between(value, -float("inf"), limit)


def above(value: Interval, limit: float = 0.0) -> Verdict:
    """Whether a quantity is above a limit."""
    return between(value, limit, float("inf"))


def certain(condition: bool) -> Verdict:
    """Of what is computed without chance."""
    return "holds" if condition else "does not hold"


def all_of(*verdicts: Verdict) -> Verdict:
    """A claim about several things holds if it does for all, and not if it does not for one.

    >>> all_of("holds", "undecided"), all_of("holds", "does not hold", "undecided")
    ('undecided', 'does not hold')
    """
    for verdict in ("does not hold", "undecided"):
        if verdict in verdicts:
            return verdict
    return "holds"
