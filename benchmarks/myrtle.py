"""Training Myrtle-10 networks on the CPU against PyTorch, one member and four.

The peer trains one member after another, channels last, with all threads and its fused Adam, on the
loss of ntkgp-param with δ computed beforehand. Ours is `Descent` by the plan that it chooses.

    python benchmarks/myrtle.py [--ours] [--out runs/bench]
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ntkgp
from common import Records, best_seconds, run_against_pytorch
from ntkgp.experiments.costs.epochs import epoch_of

W_STD, B_STD = 2**0.5, 0.01


@dataclass(frozen=True)
class Sizes:
    side: int = 32
    depth: int = 10
    convolutions: tuple[int, int, int] = (3, 3, 3)
    """That a network of that depth has in its three groups."""
    channels: int = 100
    batch_size: int = 32
    steps: int = 2
    members: tuple[int, ...] = (1, 4)
    repeats: int = 5


TINY = Sizes(
    side=4,
    depth=5,
    convolutions=(2, 1, 1),
    channels=2,
    batch_size=2,
    steps=1,
    members=(1, 2),
    repeats=1,
)


def our_epoch(sizes: Sizes, members: int) -> Callable[[], None]:
    net = ntkgp.myrtle(
        (sizes.side, sizes.side, 3),
        10,
        depth=sizes.depth,
        channels=sizes.channels,
        w_std=W_STD,
        b_std=B_STD,
    )
    n = sizes.steps * sizes.batch_size
    return epoch_of(net, "ntkgp-param", n, members=members, batch_size=sizes.batch_size)


def torch_epoch(sizes: Sizes, members: int) -> Callable[[], None]:
    from pytorch import MyrtleNetworks

    return MyrtleNetworks(
        sizes.channels,
        sizes.convolutions,
        sizes.side,
        members,
        sizes.steps * sizes.batch_size,
        batch_size=sizes.batch_size,
        w_std=W_STD,
        b_std=B_STD,
    )


def run(sizes: Sizes, with_torch: bool) -> Records:
    makers = {"ntkgp-param": our_epoch}
    if with_torch:
        makers["PyTorch, channels last"] = torch_epoch
    epochs = {(name, k): make(sizes, k) for k in sizes.members for name, make in makers.items()}
    seconds = best_seconds(epochs, sizes.repeats)
    return [
        {
            "run": name,
            "members": k,
            "ms per member's step": 1e3 * value / k / sizes.steps,
            "/ ours": value / seconds["ntkgp-param", k],
        }
        for (name, k), value in seconds.items()
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    run_against_pytorch("myrtle", __doc__, run, Sizes(), TINY, arguments)


if __name__ == "__main__":
    main()
