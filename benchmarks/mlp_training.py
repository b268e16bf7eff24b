"""Training MLP ensembles against PyTorch: the MNIST network, and the flights network.

The peers run the same algorithm, with δ and the noisy targets computed beforehand: eager, one
member after another, with its fused Adam; and by hand as one network of batched matrices. Both have
all threads. Data are random numbers of the shapes of the real ones, which cost the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax

jax.config.update("jax_num_cpu_devices", 2)

import numpy as np
import torch

import ntkgp
from common import best_seconds, main
from ntkgp.ensembles.noise import ConstantNoise, LearnedNoise
from ntkgp.experiments.costs.epochs import epoch_of
from ntkgp.networks.layers import Relu

BATCH, LEARNING_RATE, NOISE_STD = 100, 1e-3, 0.1


@dataclass(frozen=True)
class Case:
    name: str
    inputs: int
    width: int
    depth: int
    outputs: int
    members: int
    heteroscedastic: bool
    rows: tuple[int, ...]

    @property
    def heads(self) -> int:
        return 2 if self.heteroscedastic else 1

    def data(self, n: int) -> tuple[Any, Any]:
        rng = np.random.default_rng(0)
        return (
            rng.normal(size=(n, self.inputs)).astype(np.float32),
            rng.normal(size=(n, self.outputs)).astype(np.float32),
        )


CASES = (
    Case("mnist", 784, 200, 2, 10, 10, False, (10_000,)),
    Case("flights", 8, 100, 4, 1, 5, True, (10_000, 20_000, 40_000)),
)


def epochs(case: Case, n: int, method: str, plan: str) -> Callable[[], None]:
    net = ntkgp.mlp(
        case.inputs,
        case.heads * case.outputs,
        width=case.width,
        depth=case.depth,
        activation=Relu(),
    )
    return epoch_of(
        net,
        method,
        n,
        members=case.members,
        batch_size=BATCH,
        plan=plan,
        noise=LearnedNoise() if case.heteroscedastic else ConstantNoise(),
    )


class Torch:
    """One epoch of the same by PyTorch, `stacked` into batched matrices or one after another."""

    def __init__(self, case: Case, n: int, stacked: bool) -> None:
        x, y = map(torch.tensor, case.data(n))
        self.case, self.x, self.stacked = case, x, stacked
        widths = [case.inputs, *[case.width] * case.depth, case.heads * case.outputs]
        k = case.members
        shapes = [s for a, b in pairwise(widths) for s in ((a, b), (1, b))]
        stds = [s for a in widths[:-1] for s in (1.5 / a**0.5, 0.05)]
        groups = [torch.randn(k, *shape) * std for shape, std in zip(shapes, stds, strict=True)]
        self.targets = y + NOISE_STD * torch.randn(k, *y.shape)
        self.delta = torch.randn(k, n, widths[-1])
        if not stacked:
            self.nets = [[leaf[i].clone() for leaf in groups] for i in range(k)]
        else:
            self.nets = [groups]
        unit = 1.0 if case.heteroscedastic else NOISE_STD**2
        self.pulls = [unit / n / std**2 for std in stds]
        self.anchors = [[leaf.clone() for leaf in net] for net in self.nets]
        for net in self.nets:
            for leaf in net:
                leaf.requires_grad_()
        self.optimizers = [torch.optim.Adam(net, LEARNING_RATE, fused=True) for net in self.nets]

    def __call__(self) -> None:
        n, k = len(self.x), self.case.members
        for i, net in enumerate(self.nets):
            size = (k, n) if self.stacked else (n,)
            order = torch.rand(size).argsort(-1)
            for start in range(0, n - BATCH + 1, BATCH):
                rows = order[..., start : start + BATCH]
                which = torch.arange(k)[:, None] if self.stacked else i
                targets, delta = self.targets[which, rows], self.delta[which, rows]
                self._step(i, net, self.x[rows], targets, delta)

    def _step(self, i: int, net: Any, x: Any, targets: Any, delta: Any) -> None:
        h = x
        for layer, (w, b) in enumerate(zip(net[::2], net[1::2], strict=True)):
            h = torch.baddbmm(b, h, w) if self.stacked else torch.addmm(b, h, w)
            h = torch.relu(h) if layer < self.case.depth else h
        outputs = h + delta
        if self.case.heteroscedastic:
            mean, raw = outputs.chunk(2, -1)
            var = torch.sigmoid(raw) + 1e-6
            losses = (targets - mean) ** 2 / (2 * var) + var.log() / 2
        else:
            losses = 0.5 * (targets - outputs) ** 2
        self.optimizers[i].zero_grad(set_to_none=True)
        (losses.sum() / BATCH).backward()
        with torch.no_grad():  # the regulariser's gradient by hand, which is quicker than autograd
            for leaf, anchor, pull in zip(net, self.anchors[i], self.pulls, strict=True):
                leaf.grad.add_(leaf - anchor, alpha=pull)
        self.optimizers[i].step()


def run() -> list[dict[str, Any]]:
    rows = []
    for case in CASES:
        for n in case.rows:
            runs = {
                "ntkgp-param": epochs(case, n, "ntkgp-param", "auto"),
                "ntkgp-param, one device": epochs(case, n, "ntkgp-param", "together"),
                "deep-ensemble": epochs(case, n, "deep-ensemble", "auto"),
                "PyTorch eager": Torch(case, n, stacked=False),
                "PyTorch batched by hand": Torch(case, n, stacked=True),
            }
            seconds = best_seconds(runs, repeats=3)
            ours = seconds["ntkgp-param"]
            for name, value in seconds.items():
                row = {"network": case.name, "rows": n, "run": name, "epochs per second": 1 / value}
                rows.append(row | {"seconds / ours": value / ours})
    return rows


if __name__ == "__main__":
    main("mlp_training", run)
