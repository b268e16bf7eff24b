"""Training Myrtle-10 networks on the CPU against PyTorch, one member and four.

The peer trains one member after another, channels last, with all threads and its fused Adam, on the
loss of ntkgp-param with δ computed beforehand. Ours is `Descent` by the plan that it chooses.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from torch import nn

import ntkgp
from common import best_seconds, main
from ntkgp.member import Baselearner
from ntkgp.training import descent
from ntkgp.training.common import Data, draw_members, offsets
from ntkgp.training.plans import choose_plan

CHANNELS, BATCH, STEPS, LEARNING_RATE, NOISE_STD = 100, 32, 2, 1e-4, 0.1
W_STD, B_STD = 2**0.5, 0.01
CONVOLUTIONS = (3, 3, 3)


def images() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    n = STEPS * BATCH
    return (
        rng.normal(size=(n, 32, 32, 3)).astype(np.float32),
        rng.normal(size=(n, 10)).astype(np.float32),
    )


class Ours:
    """One epoch of ntkgp."""

    def __init__(self, members: int) -> None:
        net = ntkgp.myrtle((32, 32, 3), 10, channels=CHANNELS, w_std=W_STD, b_std=B_STD)
        self.learner = Baselearner(net, ntkgp.METHODS["ntkgp-param"], NOISE_STD)
        self.trainer = ntkgp.Descent(optax.adam(LEARNING_RATE), epochs=1, batch_size=BATCH)
        self.data = Data(*map(jnp.asarray, images()))
        self.plan = choose_plan(net, members)
        self.groups = self.plan.groups(draw_members(self.learner, 0, range(members), self.data))
        self.deltas = [offsets(self.learner, group.member, self.data.x) for group in self.groups]
        self.states = [
            descent.start(self.trainer, self.learner, group, early_stop=False)
            for group in self.groups
        ]

    def __call__(self) -> None:
        for i, group in enumerate(self.groups):
            self.states[i], _ = descent.run_epochs(
                self.trainer,
                self.plan,
                self.learner,
                self.states[i],
                self.data,
                group,
                self.deltas[i],
                0,
                1,
            )
        jax.block_until_ready(self.states)


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
        x, y = images()
        self.x = torch.tensor(x.transpose(0, 3, 1, 2)).contiguous(memory_format=torch.channels_last)
        self.y = torch.tensor(y)
        self.delta = torch.randn(members, len(y), 10)
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
        for name, make in (("ntkgp-param", Ours), ("PyTorch, channels last", Torch))
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
