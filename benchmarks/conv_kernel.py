"""Kernels of convolutional networks: pairs of images per second, against the same rules in one program.

    python benchmarks/conv_kernel.py [--out runs/bench]

The reference is `LayeredNetwork.kernel`, all layers compiled as one program, on one pair at a time and on
all pairs at once: what one gets by writing the recursion in jax.numpy. The networks are the convolutions of
Myrtle-5 on CIFAR's images, flattened, and Myrtle-5 with its pooling on images of three sizes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

import ntkgp
from common import Records, best_seconds, run_and_write
from ntkgp.networks.layers import Conv, Dense, Flatten, Relu

W_STD, B_STD = 2**0.5, 0.01


@dataclass(frozen=True)
class Sizes:
    flattened: tuple[tuple[int, int], ...] = ((32, 96),)
    """Side of the images, and how many on either side of the matrix."""
    pooled: tuple[tuple[int, int], ...] = ((8, 64), (16, 24), (32, 10))
    convolutions: int = 4
    repeats: int = 3


TINY = Sizes(flattened=((4, 3),), pooled=((4, 2),), convolutions=1, repeats=1)


def flattened(side: int, convolutions: int) -> ntkgp.LayeredNetwork:
    layers = [Conv(4, w_std=W_STD, b_std=B_STD), Relu()] * convolutions
    return ntkgp.LayeredNetwork((side, side, 3), [*layers, Flatten()], Dense(10, W_STD, B_STD))


def pooled(side: int) -> ntkgp.LayeredNetwork:
    return ntkgp.myrtle((side, side, 3), depth=5, channels=4, w_std=W_STD, b_std=B_STD)


def one_program(net: ntkgp.LayeredNetwork) -> Callable[[Any, Any], Any]:
    return jax.jit(lambda x1, x2: net.kernel(x1, x2).ntk)


def in_blocks(compiled: Callable[[Any, Any], Any], x1: Any, x2: Any, side: int) -> None:
    starts = range(0, len(x1), side)
    for row in starts:
        for column in starts:
            np.asarray(compiled(x1[row : row + side], x2[column : column + side]))


def run(sizes: Sizes) -> Records:
    nets = {
        **{
            ("flattened", side, n): flattened(side, sizes.convolutions)
            for side, n in sizes.flattened
        },
        **{("pooled", side, n): pooled(side) for side, n in sizes.pooled},
    }
    rows: Records = []
    for (kind, side, n), net in nets.items():
        rng = np.random.default_rng(0)
        x1, x2 = (rng.normal(size=(n, *net.input_shape)).astype(np.float32) for _ in range(2))
        compiled = one_program(net)
        runs = {
            "ntkgp.ntk": partial(ntkgp.ntk, net, x1, x2),
            "one program, one pair": partial(in_blocks, compiled, x1, x2, 1),
            "one program, all pairs": partial(in_blocks, compiled, x1, x2, n),
        }
        seconds = best_seconds(runs, sizes.repeats)
        rows += [
            {
                "network": kind,
                "images": f"{side} x {side}",
                "run": name,
                "pairs per second": n**2 / value,
                "seconds / ours": value / seconds["ntkgp.ntk"],
            }
            for name, value in seconds.items()
        ]
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    run_and_write("conv_kernel", __doc__, run, Sizes(), TINY, arguments)


if __name__ == "__main__":
    main()
