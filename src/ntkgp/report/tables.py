"""Tables for a terminal."""

from collections.abc import Mapping, Sequence


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows of the same columns, aligned: the first to the left and the others to the right.

    >>> print(table([{"method": "RP-fn", "error": "0.5 ± 0.1"}]))
    method      error
    ------  ---------
    RP-fn   0.5 ± 0.1
    """
    if not rows:
        return "no runs yet"
    cells = [list(rows[0]), *(list(row.values()) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in cells
    )
