"""Training MLP ensembles against PyTorch: the MNIST network, and the flights network.

The peers run the same algorithm, with δ and the noisy targets computed beforehand: eager, one
member after another, with its fused Adam; and by hand as one network of batched matrices. Both have
all threads. Data are random numbers of the shapes of the real ones, which cost the same.

    python benchmarks/mlp_training.py [--ours] [--out runs/bench]
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import jax

import ntkgp
from common import Records, best_seconds, run_against_pytorch
from ntkgp.experiments.costs.epochs import epoch_of
from ntkgp.networks.layers import Relu


@dataclass(frozen=True)
class Case:
    name: str
    inputs: int
    width: int
    depth: int
    outputs: int
    members: int
    learned_noise: bool
    rows: tuple[int, ...]

    @property
    def widths(self) -> list[int]:
        """Of all layers; a network that learns the noise has two outputs for each target."""
        last = 2 * self.outputs if self.learned_noise else self.outputs
        return [self.inputs, *[self.width] * self.depth, last]


@dataclass(frozen=True)
class Sizes:
    cases: tuple[Case, ...] = (
        Case("mnist", 784, 200, 2, 10, 10, False, (10_000,)),
        Case("flights", 8, 100, 4, 1, 5, True, (10_000, 20_000, 40_000)),
    )
    batch_size: int = 100
    repeats: int = 3


TINY = Sizes(
    cases=(
        Case("mnist", 3, 2, 1, 2, 2, False, (4,)),
        Case("flights", 2, 2, 1, 1, 2, True, (4,)),
    ),
    batch_size=2,
    repeats=1,
)


def our_epoch(
    case: Case, n: int, batch_size: int, method: str = "ntkgp-param", plan: str = "auto"
) -> Callable[[], None]:
    inputs, *_, outputs = case.widths
    return epoch_of(
        ntkgp.mlp(inputs, outputs, width=case.width, depth=case.depth, activation=Relu()),
        method,
        n,
        members=case.members,
        batch_size=batch_size,
        plan=plan,
        noise=ntkgp.LearnedNoise() if case.learned_noise else ntkgp.ConstantNoise(),
    )


def torch_epoch(case: Case, n: int, batch_size: int, stacked: bool) -> Callable[[], None]:
    from pytorch import Perceptrons

    return Perceptrons(
        case.widths,
        case.members,
        n,
        batch_size=batch_size,
        learned_noise=case.learned_noise,
        stacked=stacked,
    )


Maker = Callable[[Case, int, int], Callable[[], None]]
OURS: dict[str, Maker] = {
    "ntkgp-param": our_epoch,
    "ntkgp-param, one device": partial(our_epoch, plan="together"),
    "deep-ensemble": partial(our_epoch, method="deep-ensemble"),
}
PEERS: dict[str, Maker] = {
    "PyTorch eager": partial(torch_epoch, stacked=False),
    "PyTorch batched by hand": partial(torch_epoch, stacked=True),
}


def run(sizes: Sizes, with_torch: bool) -> Records:
    makers = OURS | PEERS if with_torch else OURS
    rows = []
    for case in sizes.cases:
        for n in case.rows:
            epochs = {name: make(case, n, sizes.batch_size) for name, make in makers.items()}
            seconds = best_seconds(epochs, sizes.repeats)
            rows += [
                {
                    "network": case.name,
                    "rows": n,
                    "run": name,
                    "epochs per second": 1 / value,
                    "seconds / ours": value / seconds["ntkgp-param"],
                }
                for name, value in seconds.items()
            ]
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    jax.config.update("jax_num_cpu_devices", 2)  # before JAX starts
    run_against_pytorch("mlp_training", __doc__, run, Sizes(), TINY, arguments)


if __name__ == "__main__":
    main()
