"""What the report of one results file is made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ntkgp.report.claims import Claim

if TYPE_CHECKING:
    import matplotlib.figure


class Drawing(NamedTuple):
    """A figure, not yet written."""

    figure: "matplotlib.figure.Figure"
    shows: str
    """Its caption."""
    name: str = ""
    """What its file names add to that of the results file."""


@dataclass(frozen=True)
class Section:
    """Tables, figures and claims of one results file."""

    text: str
    """Tables and notes, for a terminal."""
    drawings: Sequence[Drawing] = ()
    claims: Sequence[Claim] = ()

    def lines(self) -> list[str]:
        """Tables and verdicts, for a terminal."""
        judged = [_judged(claim) for claim in self.claims]
        return [self.text, "", *judged, ""]


def _judged(claim: Claim) -> str:
    remark = claim.verdict.remark
    told = f"\n{'':15}({remark})" if remark else ""
    return f"{claim.verdict.word.upper():13}  {claim.where}: {claim.says}\n{'':15}{claim.measured}{told}"
