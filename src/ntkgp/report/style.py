"""One look for all figures and tables: readable in print and by colour-blind eyes."""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

# Okabe and Ito's palette, distinguishable with any colour vision and in grey.
BLUE, RED, GREEN, ORANGE = "#0072b2", "#d55e00", "#009e73", "#e69f00"


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write stem.png and stem.svg, and close the figure."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    files = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    for file in files:
        figure.savefig(file, dpi=150)
    plt.close(figure)
    return files


def table(head: list[str], rows: list[list[str]]) -> str:
    """Columns aligned for a terminal, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def line(cells: list[str]) -> str:
        first = cells[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "  ".join([first, *rest])

    return "\n".join([line(head), "  ".join("-" * width for width in widths), *map(line, rows)])
