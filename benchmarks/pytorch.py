"""Epochs of PyTorch, which the training benchmarks compare with: our objective, its fused Adam.

The noisy targets and δ are drawn beforehand, and so is nothing else.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

NOISE_STD = 0.1


class Perceptrons:
    """One epoch of multi-layer perceptrons, `stacked` into batched matrices or one after another."""

    def __init__(
        self,
        widths: Sequence[int],
        members: int,
        n: int,
        *,
        batch_size: int,
        learned_noise: bool,
        stacked: bool,
    ) -> None:
        self.members, self.batch_size = members, batch_size
        self.learned_noise, self.stacked = learned_noise, stacked
        targets = widths[-1] // 2 if learned_noise else widths[-1]
        self.x = torch.randn(n, widths[0])
        self.targets = torch.randn(n, targets) + NOISE_STD * torch.randn(members, n, targets)
        self.delta = torch.randn(members, n, widths[-1])
        shapes = [s for a, b in pairwise(widths) for s in ((a, b), (1, b))]
        stds = [s for a in widths[:-1] for s in (1.5 / a**0.5, 0.05)]
        groups = [
            torch.randn(members, *shape) * std for shape, std in zip(shapes, stds, strict=True)
        ]
        if stacked:
            self.nets = [groups]
        else:
            self.nets = [[leaf[i].clone() for leaf in groups] for i in range(members)]
        unit = 1.0 if learned_noise else NOISE_STD**2
        self.pulls = [unit / n / std**2 for std in stds]
        self.anchors = [[leaf.clone() for leaf in net] for net in self.nets]
        for net in self.nets:
            for leaf in net:
                leaf.requires_grad_()
        self.optimizers = [torch.optim.Adam(net, 1e-3, fused=True) for net in self.nets]

    def __call__(self) -> None:
        n, k = len(self.x), self.members
        for i, net in enumerate(self.nets):
            size = (k, n) if self.stacked else (n,)
            order = torch.rand(size).argsort(-1)
            for start in range(0, n - self.batch_size + 1, self.batch_size):
                rows = order[..., start : start + self.batch_size]
                which = torch.arange(k)[:, None] if self.stacked else i
                targets, delta = self.targets[which, rows], self.delta[which, rows]
                self._step(i, net, self.x[rows], targets, delta)

    def _step(self, i: int, net: Any, x: Any, targets: Any, delta: Any) -> None:
        h = x
        affine = torch.baddbmm if self.stacked else torch.addmm
        for layer, (w, b) in enumerate(zip(net[::2], net[1::2], strict=True)):
            h = affine(b, torch.relu(h) if layer else h, w)
        outputs = h + delta
        if self.learned_noise:
            mean, raw = outputs.chunk(2, -1)
            var = torch.sigmoid(raw) + 1e-6
            losses = (targets - mean) ** 2 / (2 * var) + var.log() / 2
        else:
            losses = 0.5 * (targets - outputs) ** 2
        self.optimizers[i].zero_grad(set_to_none=True)
        (losses.sum() / self.batch_size).backward()
        add_pull(net, self.anchors[i], self.pulls)
        self.optimizers[i].step()


class MyrtleNetworks:
    """One epoch of convolutional networks, channels last, one after another."""

    def __init__(
        self,
        channels: int,
        convolutions: Sequence[int],
        side: int,
        members: int,
        n: int,
        *,
        batch_size: int,
        w_std: float,
        b_std: float,
    ) -> None:
        self.batch_size = batch_size
        self.x = torch.randn(n, 3, side, side).contiguous(memory_format=torch.channels_last)
        self.y, self.delta = torch.randn(n, 10), torch.randn(members, n, 10)
        self.nets = [myrtle(channels, convolutions) for _ in range(members)]
        self.anchors = [[p.detach().clone() for p in net.parameters()] for net in self.nets]
        prior_vars = [
            w_std**2 / p[0].numel() if p.ndim > 1 else b_std**2 for p in self.nets[0].parameters()
        ]
        self.pulls = [NOISE_STD**2 / n / var for var in prior_vars]
        self.optimizers = [
            torch.optim.Adam(net.parameters(), 1e-4, fused=True) for net in self.nets
        ]

    def __call__(self) -> None:
        for i in range(len(self.nets)):
            for rows in torch.randperm(len(self.x)).split(self.batch_size):
                self._step(i, rows)

    def _step(self, i: int, rows: Any) -> None:
        net, optimizer = self.nets[i], self.optimizers[i]
        optimizer.zero_grad(set_to_none=True)
        batch = self.x[rows].contiguous(memory_format=torch.channels_last)
        errors = self.y[rows] - net(batch) - self.delta[i][rows]
        (0.5 * (errors**2).sum(1).mean()).backward()
        add_pull(net.parameters(), self.anchors[i], self.pulls)
        optimizer.step()


def add_pull(leaves: Any, anchors: Any, pulls: Any) -> None:
    """The regulariser's gradient by hand, which is quicker than autograd."""
    with torch.no_grad():
        for leaf, anchor, pull in zip(leaves, anchors, pulls, strict=True):
            leaf.grad.add_(leaf - anchor, alpha=pull)


def myrtle(channels: int, convolutions: Sequence[int]) -> nn.Module:
    layers: list[nn.Module] = []
    before = 3
    for group, n in enumerate(convolutions, start=1):
        for _ in range(n):
            layers += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU(True)]
            before = channels
        layers.append(nn.AvgPool2d(2) if group < len(convolutions) else MeanOverImage())
    net = nn.Sequential(*layers, nn.Linear(channels, 10))
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


class MeanOverImage(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.mean((2, 3))
