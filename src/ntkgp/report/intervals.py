"""Means over repeats with their 95 % confidence intervals: the one meaning of ± in every table."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from scipy import stats

MEANING = "±: 95 % confidence interval over repeats."
"""What ± means, for the foot of a table."""
Scores = Mapping[int, float]
"""One score for each repeat, by the number of the repeat."""
MOST_REPEATS = 10_000


class Interval(NamedTuple):
    """A mean over repeats, and the 95 % confidence interval around it."""

    mean: float
    half: float
    """Half the interval's width; infinite for a single repeat."""
    repeats: int = 0
    """How many there are; 0 if that is not known."""
    level: float = 0.95

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    def shown(self, digits: int, factor: int = 1) -> str:
        """The mean, with ± if there is more than one repeat.

        >>> Interval(0.1234, 0.01).shown(1, factor=100)
        '12.3 ± 1.0'
        """
        if np.isnan(self.mean):
            return "–"
        mean = f"{factor * self.mean:.{digits}f}"
        return mean if np.isinf(self.half) else f"{mean} ± {factor * self.half:.{digits}f}"

    def repeats_within(self, distance: float) -> int | None:
        """How many repeats of the variance seen make the interval reach less far than `distance`.

        None if that is not known, or more than `MOST_REPEATS`.

        >>> interval([0.0, 1.0, 2.0]).repeats_within(0.5)
        18
        """
        if not 2 <= self.repeats < MOST_REPEATS or not np.isfinite(self.half):
            return None
        n = np.arange(self.repeats, MOST_REPEATS + 1)
        reach = stats.t.ppf((1 + self.level) / 2, n - 1) / np.sqrt(n)
        enough = np.flatnonzero(self.half / reach[0] * reach < distance)
        return int(n[enough[0]]) if len(enough) else None


def interval(values: Collection[float | int], level: float = 0.95) -> Interval:
    """The interval by Student's distribution over independent repeats.

    >>> interval([1.0, 3.0]).shown(1)
    '2.0 ± 12.7'
    """
    array = np.array(list(values), float)
    n = len(array)
    if n < 2:
        return Interval(float(array[0]) if n else float("nan"), float("inf"))
    half = stats.t.ppf((1 + level) / 2, n - 1) * np.std(array, ddof=1) / n**0.5
    return Interval(float(np.mean(array)), float(half), n, level)


def difference(first: Scores, second: Scores, level: float = 0.95) -> Interval:
    """The interval of first - second, over the repeats that both have.

    >>> difference({0: 3.0, 1: 4.0}, {0: 1.0, 1: 2.0, 2: 9.0})
    Interval(mean=2.0, half=0.0, repeats=2, level=0.95)
    """
    shared = first.keys() & second.keys()
    return interval([first[repeat] - second[repeat] for repeat in sorted(shared)], level)
