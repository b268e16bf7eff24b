"""Graphs in Mermaid's notation, which code hosts draw by themselves, drawn as SVG when the site is built.

It knows what `docs/architecture.md` needs: `name[label]` for a box, `a --> b & c` for arrows.
"""

import html
import re
from itertools import pairwise
from typing import Any, NamedTuple

from docutils import nodes

BOX = (112, 34)
STEP = (132, 78)
SWEEPS = 12


class Graph(NamedTuple):
    labels: dict[str, str]
    arrows: list[tuple[str, str]]


def read(text: str) -> Graph:
    """The boxes and arrows of a Mermaid graph.

    >>> read("graph TD\\n a[one]\\n b[two]\\n c[three]\\n a --> b & c")
    Graph(labels={'a': 'one', 'b': 'two', 'c': 'three'}, arrows=[('a', 'b'), ('a', 'c')])
    """
    labels = dict(re.findall(r"^ *(\w+)\[(.*)\]$", text, re.MULTILINE))
    lines = re.findall(r"^ *(\w+) --> ([\w &]+)$", text, re.MULTILINE)
    return Graph(labels, [(here, there) for here, ends in lines for there in ends.split(" & ")])


def levels(graph: Graph) -> dict[str, int]:
    """How many arrows the longest way down from each box has.

    >>> levels(read(" a[]\\n b[]\\n c[]\\n a --> b & c\\n b --> c"))
    {'a': 2, 'b': 1, 'c': 0}
    """

    def level(box: str) -> int:
        return max((1 + level(there) for here, there in graph.arrows if here == box), default=0)

    return {box: level(box) for box in graph.labels}


def placed(graph: Graph) -> tuple[dict[Any, tuple[float, float]], list[list[Any]]]:
    """Where each box is, and each arrow as the points that it goes through, one on every level."""
    level = levels(graph)
    paths = [
        [here, *((here, there, n) for n in range(level[here] - 1, level[there], -1)), there]
        for here, there in graph.arrows
    ]
    rows: dict[int, list[Any]] = {}
    for point in dict.fromkeys([*graph.labels, *(point for path in paths for point in path)]):
        row = level[point] if isinstance(point, str) else point[2]
        rows.setdefault(row, []).append(point)
    beside: dict[Any, list[Any]] = {}
    for path in paths:
        for one, other in pairwise(path):
            beside.setdefault(one, []).append(other)
            beside.setdefault(other, []).append(one)

    x = {point: i - (len(row) - 1) / 2 for row in rows.values() for i, point in enumerate(row)}
    for _ in range(SWEEPS):  # each row in the order of the mean of its neighbours
        for row in rows.values():
            row.sort(key=lambda point: sum(x[p] for p in beside[point]) / len(beside[point]))
            x.update({point: i - (len(row) - 1) / 2 for i, point in enumerate(row)})
    top = max(rows)
    left = min(x.values())
    at = {
        point: ((x[point] - left + 0.5) * STEP[0], (top - row + 0.5) * STEP[1])
        for row, points in rows.items()
        for point in points
    }
    return at, paths


def svg(text: str) -> str:
    """The graph as a picture in the colours of the page around it."""
    graph = read(text)
    at, paths = placed(graph)
    width = max(x for x, _ in at.values()) + STEP[0] / 2
    height = max(y for _, y in at.values()) + STEP[1] / 2
    lines = []
    for path in paths:
        (x, y), *rest = (at[point] for point in path)
        way = f"M{x:.0f} {y + BOX[1] / 2:.0f}"
        for i, (x2, y2) in enumerate(rest):
            end = y2 - BOX[1] / 2 - 4 if i == len(rest) - 1 else y2
            start = y + BOX[1] / 2 if i == 0 else y
            half = (start + end) / 2
            way += f" C{x:.0f} {half:.0f} {x2:.0f} {half:.0f} {x2:.0f} {end:.0f}"
            x, y = x2, y2
        lines.append(f'<path d="{way}" marker-end="url(#head)"/>')
    boxes = [
        f'<rect x="{at[name][0] - BOX[0] / 2:.0f}" y="{at[name][1] - BOX[1] / 2:.0f}" '
        f'width="{BOX[0]}" height="{BOX[1]}" rx="6"/>'
        f'<text x="{at[name][0]:.0f}" y="{at[name][1] + 5:.0f}">{html.escape(label)}</text>'
        for name, label in graph.labels.items()
    ]
    said = "; ".join(f"{graph.labels[a]} imports {graph.labels[b]}" for a, b in graph.arrows)
    return (
        f'<svg class="drawn-graph" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'style="max-width:{width:.0f}px" aria-label="{html.escape(said)}">'
        '<defs><marker id="head" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'
        f"{''.join(lines)}{''.join(boxes)}</svg>"
    )


def draw_graphs(app: Any, doctree: nodes.document) -> None:
    for node in list(doctree.findall(nodes.literal_block)):
        if node.get("language") == "mermaid":
            node.replace_self(nodes.raw("", svg(node.astext()), format="html"))


def setup(app: Any) -> dict[str, bool]:
    app.connect("doctree-read", draw_graphs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
