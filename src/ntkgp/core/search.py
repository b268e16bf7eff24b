"""Minimising a function of one variable that may have more than one minimum."""

from collections.abc import Callable

import numpy as np
from scipy import optimize


def minimise(f: Callable[[float], float], low: float, high: float, steps: int = 40) -> float:
    """Where f is least in [low, high]: the best of a grid, refined between its neighbours.

    >>> round(minimise(lambda v: (v - 0.3) ** 2, -1.0, 1.0), 3)
    0.3
    """
    grid = np.linspace(low, high, steps + 1)
    start = grid[np.argmin([f(value) for value in grid])]
    width = grid[1] - grid[0]
    bounds = max(start - width, low), min(start + width, high)
    return float(optimize.minimize_scalar(f, bounds=bounds, method="bounded").x)
