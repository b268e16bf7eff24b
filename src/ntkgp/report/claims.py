"""What the paper says beside what a run measured, with a verdict that follows from the numbers."""

from collections.abc import Collection, Mapping
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
        if np.isnan(self.mean):
            return "–"
        mean = f"{factor * self.mean:.{digits}f}"
        return mean if np.isinf(self.half) else f"{mean} ± {factor * self.half:.{digits}f}"


class Claim(NamedTuple):
    """One claim of the paper, or one that follows from it."""

    where: str
    says: str
    measured: str
    verdict: Verdict


Scores = Mapping[int, float]
"""One number for each repeat, by the repeat's own number."""


def interval(values: Collection[float], level: float = 0.95) -> Interval:
    """By Student's distribution over independent repeats.

    >>> interval([1.0, 3.0]).shown(1)
    '2.0 ± 12.7'
    """
    array = np.array(list(values), float)
    n = len(array)
    if not n:
        return Interval(float("nan"), float("inf"))
    if n < 2:
        return Interval(float(array[0]), float("inf"))
    width = stats.t.ppf((1 + level) / 2, n - 1) * np.std(array, ddof=1) / n**0.5
    return Interval(float(np.mean(array)), float(width))


def difference(first: Scores, second: Scores, level: float = 0.95) -> Interval:
    """Of first - second, by the repeats that both have.

    >>> difference({0: 3.0, 1: 4.0}, {0: 1.0, 1: 2.0, 2: 9.0})
    Interval(mean=2.0, half=0.0)
    """
    shared = first.keys() & second.keys()
    return interval([first[repeat] - second[repeat] for repeat in sorted(shared)], level)


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


def above(value: Interval, limit: float = 0.0) -> Verdict:
    """Whether a quantity is above a limit; being exactly there decides nothing.

    >>> above(Interval(1.0, 0.5)), above(Interval(-1.0, 0.5)), above(Interval(0.0, 0.0))
    ('holds', 'does not hold', 'undecided')
    """
    if value.low > limit:
        return "holds"
    return "does not hold" if value.high < limit else "undecided"


def below(value: Interval, limit: float = 0.0) -> Verdict:
    """Whether a quantity is below a limit."""
    return above(Interval(-value.mean, value.half), -limit)


def certain(condition: bool) -> Verdict:
    """Of what is computed without chance."""
    return "holds" if condition else "does not hold"


def all_of(*verdicts: Verdict) -> Verdict:
    """A claim about several things holds if it does for all, and not if it does not for one.

    >>> all_of("holds", "undecided"), all_of("holds", "does not hold", "undecided"), all_of()
    ('undecided', 'does not hold', 'undecided')
    """
    if not verdicts:
        return "undecided"
    for verdict in ("does not hold", "undecided"):
        if verdict in verdicts:
            return verdict
    return "holds"
