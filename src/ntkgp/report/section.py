"""What the report of one experiment is made of."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ntkgp.report.claims import Claim


@dataclass(frozen=True)
class Section:
    """Tables, figures and claims of one results file."""

    text: str
    """Tables and notes, for a terminal."""
    figures: Sequence[Path] = ()
    """Pictures by their stem: each is there as .png and .svg."""
    claims: Sequence[Claim] = field(default_factory=tuple)

    def lines(self) -> list[str]:
        """For a terminal."""
        drawn = [f"figure: {stem}.png and .svg" for stem in self.figures]
        judged = [
            f"{claim.verdict.upper():13}  {claim.where}: {claim.says}\n{'':15}{claim.measured}"
            for claim in self.claims
        ]
        return [self.text, "", *judged, "", *drawn]
