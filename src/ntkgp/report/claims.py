"""The paper's claims beside what a run measured, with verdicts that follow from the numbers."""

from typing import Any, Literal, NamedTuple

from ntkgp.report.intervals import Interval


class Verdict(NamedTuple):
    """Whether a claim holds."""

    word: Literal["holds", "does not hold", "undecided"]
    repeats: int | None = None
    """If undecided: how many repeats would decide it, by the variance seen; None if that is not known."""

    @property
    def remark(self) -> str:
        """What it takes to decide; nothing if that is not known."""
        return "" if self.repeats is None else f"about {self.repeats:,} repeats would tell"


HOLDS, DOES_NOT_HOLD = Verdict("holds"), Verdict("does not hold")


class Claim(NamedTuple):
    """One claim of the paper, or one that follows from it."""

    where: str
    says: str
    measured: str
    verdict: Verdict

    def facts(self) -> dict[str, Any]:
        """For programs."""
        word, repeats = self.verdict
        return self._asdict() | {"verdict": word, "repeats_to_tell": repeats}


def between(value: Interval, low: float, high: float) -> Verdict:
    """Whether a quantity lies in a range: undecided if its interval straddles an end.

    >>> between(Interval(0.5, 0.1), 0.0, 1.0).word, between(Interval(2.0, 0.1), 0.0, 1.0).word
    ('holds', 'does not hold')
    >>> between(Interval(0.9, 0.5, repeats=3), 0.0, 1.0)
    Verdict(word='undecided', repeats=19)
    """
    if low <= value.low and value.high <= high:
        return HOLDS
    if value.high < low or value.low > high:
        return DOES_NOT_HOLD
    distance = min(abs(value.mean - end) for end in (low, high))
    return Verdict("undecided", value.repeats_within(distance))


def above(value: Interval, limit: float = 0.0) -> Verdict:
    """Whether a quantity is above a limit; undecided if it is exactly there.

    >>> [above(Interval(mean, 0.5)).word for mean in (1.0, -1.0, 0.0)]
    ['holds', 'does not hold', 'undecided']
    """
    if value.low > limit:
        return HOLDS
    if value.high < limit:
        return DOES_NOT_HOLD
    return Verdict("undecided", value.repeats_within(abs(value.mean - limit)))


def below(value: Interval, limit: float = 0.0) -> Verdict:
    """Whether a quantity is below a limit."""
    return above(value._replace(mean=-value.mean), -limit)


def certain(condition: bool) -> Verdict:
    """The verdict on something computed without chance."""
    return HOLDS if condition else DOES_NOT_HOLD


def opposite(verdict: Verdict) -> Verdict:
    """The verdict on the opposite claim.

    >>> opposite(HOLDS).word, opposite(Verdict("undecided")).word
    ('does not hold', 'undecided')
    """
    if verdict.word == "undecided":
        return verdict
    return certain(verdict == DOES_NOT_HOLD)


def all_of(*verdicts: Verdict) -> Verdict:
    """A claim about several things holds if it holds for all; it does not if it fails for one.

    >>> undecided = Verdict("undecided", 8)
    >>> all_of(HOLDS, undecided), all_of(HOLDS, DOES_NOT_HOLD, undecided).word, all_of().word
    (Verdict(word='undecided', repeats=8), 'does not hold', 'undecided')
    """
    if DOES_NOT_HOLD in verdicts:
        return DOES_NOT_HOLD
    undecided = [verdict.repeats for verdict in verdicts if verdict.word == "undecided"]
    if undecided or not verdicts:
        known = [repeats for repeats in undecided if repeats is not None]
        return Verdict("undecided", max(known) if known and len(known) == len(undecided) else None)
    return HOLDS
