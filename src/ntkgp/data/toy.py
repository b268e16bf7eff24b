"""The toy problem of the paper's Figure 1: y = x sin x with noise, seen in two clusters."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.data.dataset import Dataset, Split
from ntkgp.data.stored import BuiltIn


def target(x: NDArray[Any]) -> NDArray[Any]:
    return x * np.sin(x)


def make_toy(
    train_points: int = 20, noise_std: float = 0.1, grid_points: int = 121, seed: int = 0
) -> Dataset:
    """Training inputs in [-2, -2/3] and [2/3, 2] with noisy targets; a test grid without noise.

    >>> toy = make_toy()
    >>> toy.train.x.shape, toy.train.y.shape, toy.test.x.shape
    ((20, 1), (20, 1), (121, 1))
    >>> toy.test.x[[0, -1], 0]
    array([-6.,  6.])
    """
    rng = np.random.default_rng(seed)
    side = np.where(np.arange(train_points) < train_points // 2, -1.0, 1.0)
    x = np.sort(side * rng.uniform(2 / 3, 2, train_points))[:, None]
    y = target(x) + noise_std * rng.standard_normal(x.shape)
    grid = np.linspace(-6, 6, grid_points)[:, None]
    return Dataset("toy", {"train": Split(x, y), "test": Split(grid, target(grid))})


SET = BuiltIn("is computed", make_toy)
