"""Training Myrtle-10 networks on the CPU against PyTorch, one member and four.

The peer trains one member after another, channels last, with all threads and its fused Adam, on the
loss of ntkgp-param with δ computed beforehand. Ours is `Descent` by the plan that it chooses.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import ntkgp
from common import best_seconds, main
from ntkgp.experiments.costs.epochs import epoch_of

CHANNELS, BATCH, STEPS, LEARNING_RATE, NOISE_STD = 100, 32, 2, 1e-4, 0.1
W_STD, B_STD = 2**0.5, 0.01
CONVOLUTIONS = (3, 3, 3)


def ours(members: int) -> Callable[[], None]:
    net = ntkgp.myrtle((32, 32, 3), 10, channels=CHANNELS, w_std=W_STD, b_std=B_STD)
    return epoch_of(net, "ntkgp-param", STEPS * BATCH, members=members, batch_size=BATCH)


class MeanOverImage(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.mean((2, 3))


def network() -> nn.Module:
    layers: list[nn.Module] = []
    channels = 3
    for group, n in enumerate(CONVOLUTIONS):
        for _ in range(n):
            layers += [nn.Conv2d(channels, CHANNELS, 3, padding=1), nn.ReLU(True)]
            channels = CHANNELS
        layers.append(nn.AvgPool2d(2) if group < 2 else MeanOverImage())
    net = nn.Sequential(*layers, nn.Linear(channels, 10))
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


class Torch:
    """One epoch of PyTorch."""

    def __init__(self, members: int) -> None:
        n = STEPS * BATCH
        self.x = torch.randn(n, 3, 32, 32).contiguous(memory_format=torch.channels_last)
        self.y, self.delta = torch.randn(n, 10), torch.randn(members, n, 10)
        self.nets = [network() for _ in range(members)]
        self.starts = [[p.detach().clone() for p in net.parameters()] for net in self.nets]
        self.optimizers = [
            torch.optim.Adam(net.parameters(), LEARNING_RATE, fused=True) for net in self.nets
        ]

    def __call__(self) -> None:
        for i, net in enumerate(self.nets):
            for rows in torch.randperm(len(self.x)).split(BATCH):
                self._step(net, self.starts[i], self.optimizers[i], rows, self.delta[i])

    def _step(self, net: Any, start: Any, optimizer: Any, rows: Any, delta: Any) -> None:
        optimizer.zero_grad(set_to_none=True)
        batch = self.x[rows].contiguous(memory_format=torch.channels_last)
        errors = self.y[rows] - net(batch) - delta[rows]
        (0.5 * (errors**2).sum(1).mean()).backward()
        with torch.no_grad():  # the regulariser's gradient by hand, which is quicker than autograd
            for p, p_0 in zip(net.parameters(), start, strict=True):
                prior_var = W_STD**2 / p[0].numel() if p.ndim > 1 else B_STD**2
                p.grad.add_(p - p_0, alpha=NOISE_STD**2 / len(self.x) / prior_var)
        optimizer.step()


def run() -> list[dict[str, Any]]:
    runs = {
        (name, members): make(members)
        for members in (1, 4)
        for name, make in (("ntkgp-param", ours), ("PyTorch, channels last", Torch))
    }
    seconds = best_seconds({f"{name}, K={k}": turn for (name, k), turn in runs.items()}, repeats=5)
    rows = []
    for name, k in runs:
        value, ours = seconds[f"{name}, K={k}"], seconds[f"ntkgp-param, K={k}"]
        per_step = 1e3 * value / k / STEPS
        rows.append(
            {"run": name, "members": k, "ms per member's step": per_step, "/ ours": value / ours}
        )
    return rows


if __name__ == "__main__":
    main("myrtle", run)
