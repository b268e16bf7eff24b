"""Parameters by name: a pytree as a dictionary from paths to leaves, and patterns that choose among them.

A path joins the keys on the way to a leaf by slashes: "Dense_0/kernel", "layers/1/bias". A pattern
is a path with the wildcards of a shell: "*bias" chooses every leaf whose path ends so. A pattern
that names a subtree, "Dense_0" or "layers/1", chooses all leaves under it.
"""

from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

import jax

from ntkgp.core.typing import Params


def by_path(tree: Params) -> dict[str, Any]:
    """The leaves of a pytree by their paths, in the pytree's own order.

    >>> by_path({"last": {"w": 2.0}, "first": [1.0]})
    {'first/0': 1.0, 'last/w': 2.0}
    """
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    named = {jax.tree_util.keystr(keys, simple=True, separator="/"): leaf for keys, leaf in leaves}
    if len(named) < len(leaves):
        raise ValueError(
            "two parameters have the same path: some name has a slash in it. Rename it; "
            f"the paths are {listed(named)}."
        )
    return named


def ancestors(path: str) -> Iterator[str]:
    """The subtrees that a leaf is in, from the outermost to the leaf itself.

    >>> list(ancestors("layers/1/bias"))
    ['layers', 'layers/1', 'layers/1/bias']
    """
    keys = path.split("/")
    for depth in range(len(keys)):
        yield "/".join(keys[: depth + 1])


def common_subtree(paths: Collection[str]) -> str:
    """The smallest subtree that holds all these leaves, "*" for the whole tree.

    >>> common_subtree({"layers/1/bias", "layers/1/weight"})
    'layers/1'
    """
    shared = set.intersection(*(set(ancestors(path)) for path in paths))
    return max(shared, key=len, default="*")


def matching(pattern: str, paths: Iterable[str], argument: str) -> set[str]:
    """The paths that a pattern chooses; an error that lists them all where it chooses none.

    >>> sorted(matching("a", ["a/w", "a/b", "b/w"], "readout"))
    ['a/b', 'a/w']
    >>> sorted(matching("*w", ["a/w", "a/b", "b/w"], "readout"))
    ['a/w', 'b/w']
    """
    paths = list(paths)
    chosen = {p for p in paths if any(fnmatchcase(part, pattern) for part in ancestors(p))}
    if not chosen:
        raise ValueError(
            f"{argument} names {pattern!r}, which is no path of this network. "
            f"The paths of its parameters are {listed(paths)}."
        )
    return chosen


def listed(paths: Collection[str], most: int = 20) -> str:
    """Paths in quotes; only the first ones if there are many."""
    shown = ", ".join(map(repr, list(paths)[:most]))
    return shown if len(paths) <= most else f"{shown} and {len(paths) - most} more"
