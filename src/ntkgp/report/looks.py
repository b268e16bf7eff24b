"""How each method is named and drawn, readable in print and by colour-blind eyes."""

from collections.abc import Mapping
from typing import NamedTuple

from ntkgp.report.intervals import Interval

# Okabe and Ito's palette, distinguishable with any colour vision and in grey.
BLUE, RED, GREEN, ORANGE = "#0072b2", "#d55e00", "#009e73", "#e69f00"
PURPLE, SKY = "#cc79a7", "#56b4e9"


class Look(NamedTuple):
    """Name, colour, line and marker; they differ between any two methods."""

    title: str
    colour: str
    line: str
    marker: str


LOOKS = {
    "deep-ensemble": Look("Deep ensemble", "black", "-", "o"),
    "rp-param": Look("RP-param", SKY, "--", "s"),
    "rp-fn": Look("RP-fn", PURPLE, "-.", "D"),
    "ntkgp-param": Look("NTKGP-param", RED, "-", "^"),
    "ntkgp-fn": Look("NTKGP-fn", ORANGE, "--", "v"),
    "ntkgp-lin": Look("NTKGP-Lin", GREEN, ":", "P"),
    "ntkgp": Look("Analytic NTKGP", BLUE, ":", "*"),
}


def look(method: str) -> Look:
    """The look of a method; a plain one for a method without its own."""
    return LOOKS.get(method, Look(method, "0.5", ":", "x"))


def by_method(values: Mapping[str, Interval], digits: int, factor: int = 1) -> str:
    """One number for each method, in a line.

    >>> by_method({"rp-fn": Interval(0.5, 0.1)}, 1)
    'RP-fn 0.5 ± 0.1'
    """
    return ", ".join(
        f"{look(m).title} {value.shown(digits, factor)}" for m, value in values.items()
    )
