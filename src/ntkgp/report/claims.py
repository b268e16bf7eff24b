"""The paper's claims beside what a run measured, with verdicts that follow from the numbers."""

from typing import Literal, NamedTuple

from ntkgp.report.intervals import Interval

Verdict = Literal["holds", "does not hold", "undecided"]


class Claim(NamedTuple):
    """One claim of the paper, or one that follows from it."""

    where: str
    says: str
    measured: str
    verdict: Verdict


def between(value: Interval, low: float, high: float) -> Verdict:
    """Whether a quantity lies in a range: undecided if its interval straddles an end.

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
    """Whether a quantity is above a limit; undecided if it is exactly there.

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
    """The verdict on something computed without chance."""
    return "holds" if condition else "does not hold"


def opposite(verdict: Verdict) -> Verdict:
    """The verdict on the opposite claim.

    >>> opposite("holds"), opposite("undecided")
    ('does not hold', 'undecided')
    """
    if verdict == "undecided":
        return verdict
    return certain(verdict == "does not hold")


def all_of(*verdicts: Verdict) -> Verdict:
    """A claim about several things holds if it holds for all; it does not if it fails for one.

    >>> all_of("holds", "undecided"), all_of("holds", "does not hold", "undecided"), all_of()
    ('undecided', 'does not hold', 'undecided')
    """
    if not verdicts:
        return "undecided"
    for verdict in ("does not hold", "undecided"):
        if verdict in verdicts:
            return verdict
    return "holds"
