"""Training steps of the Myrtle-10 network on the CPU, beside PyTorch's.

The peer is PyTorch as it is quickest on a CPU: channels last, all threads, its own Adam or the fused
one, whichever is quicker, one member after another. Both minimise the loss of ntkgp-param. Each side
has a process of its own, so that their thread pools do not meet, and the two take turns; a turn is a
few steps of every member, and the best turn counts.

    python benchmarks/myrtle.py [--channels 100] [--batch 32] [--torch-python PATH]

PyTorch is needed for the peer only: `pip install torch`, or name another environment's Python.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

STEPS = 4
LEARNING_RATE = 1e-4


@dataclass(frozen=True)
class Problem:
    """What both sides train: K networks with so many channels, on batches of so many images."""

    members: int
    channels: int
    batch: int
    depth: int = 10


def ours(problem: Problem) -> Callable[[], None]:
    """A turn of this library: each member's steps are one compiled loop."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax

    import ntkgp
    from ntkgp.member import Baselearner, TrainingSet, member_keys

    net = ntkgp.myrtle((32, 32, 3), 10, depth=problem.depth, channels=problem.channels)
    learner = Baselearner(net, ntkgp.METHODS["ntkgp-param"], noise_std=0.1)
    optimizer = optax.adam(LEARNING_RATE)
    rng = np.random.default_rng(0)
    x, y, epsilon, delta = (
        jnp.asarray(rng.normal(size=(STEPS, problem.batch, *shape)), jnp.float32)
        for shape in ((32, 32, 3), (10,), (10,), (10,))
    )
    batches = TrainingSet(x, y, epsilon, delta)

    def step(state, batch, member):
        theta, opt_state = state
        gradient = jax.grad(learner.loss)(theta, member, batch, STEPS * problem.batch)
        updates, opt_state = optimizer.update(gradient, opt_state, theta)
        return optax.apply_updates(theta, updates), opt_state

    @partial(jax.jit, donate_argnums=0)
    def steps(state, member):
        return jax.lax.scan(lambda s, batch: (step(s, batch, member), None), state, batches)[0]

    states, fixed = [], []
    for index in range(problem.members):
        theta, member = learner.draw(member_keys(0, index))
        states.append(jax.tree.map(jnp.copy, (theta, optimizer.init(theta))))
        fixed.append(member)

    def turn() -> None:
        for index, member in enumerate(fixed):
            states[index] = steps(states[index], member)
        jax.block_until_ready(states)

    return turn


def peer(problem: Problem, fused: bool) -> Callable[[], None]:
    """A turn of PyTorch."""
    import torch
    from torch import nn

    convolutions = {5: (2, 1, 1), 7: (2, 2, 2), 10: (3, 3, 3)}[problem.depth]

    class MeanOverImage(nn.Module):
        def forward(self, x):
            return x.mean((2, 3))

    def network():
        layers, channels = [], 3
        for group, n in enumerate(convolutions):
            for _ in range(n):
                layers += [nn.Conv2d(channels, problem.channels, 3, padding=1), nn.ReLU(True)]
                channels = problem.channels
            layers.append(nn.AvgPool2d(2) if group < 2 else MeanOverImage())
        net = nn.Sequential(*layers, nn.Linear(channels, 10))
        return net.to(memory_format=torch.channels_last)

    torch.manual_seed(0)
    shape = (STEPS, problem.batch)
    x = [
        image.contiguous(memory_format=torch.channels_last)
        for image in torch.randn(*shape, 3, 32, 32)
    ]
    y, delta = torch.randn(*shape, 10), torch.randn(*shape, 10)
    nets = [network() for _ in range(problem.members)]
    starts = [[p.detach().clone() for p in net.parameters()] for net in nets]
    optimizers = [torch.optim.Adam(net.parameters(), LEARNING_RATE, fused=fused) for net in nets]
    noise_var, n_total = 0.01, STEPS * problem.batch

    def turn() -> None:
        for net, start, optimizer in zip(nets, starts, optimizers, strict=True):
            prior_var = [2 / p[0].numel() if p.ndim > 1 else 1e-4 for p in start]
            for batch in range(STEPS):
                optimizer.zero_grad(set_to_none=True)
                error = y[batch] - net(x[batch]) - delta[batch]
                pull = sum(
                    ((p - p_0) ** 2).sum() / var
                    for p, p_0, var in zip(net.parameters(), start, prior_var, strict=True)
                )
                loss = 0.5 * (error**2).sum(1).mean() + 0.5 * noise_var / n_total * pull
                loss.backward()
                optimizer.step()

    return turn


SIDES = {
    "ours": ours,
    "torch": partial(peer, fused=False),
    "torch, fused": partial(peer, fused=True),
}


def serve(side: str, problem: Problem) -> None:
    """Take a turn for each line on standard input, and answer with its seconds."""
    turn = SIDES[side](problem)
    turn()
    for line in sys.stdin:
        started = time.perf_counter()
        turn()
        print(time.perf_counter() - started, flush=True)
        del line


class Worker:
    """One side in a process of its own."""

    def __init__(self, side: str, problem: Problem, python: str) -> None:
        command = [python, __file__, "--side", side, "--problem", json.dumps(asdict(problem))]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def turn(self) -> float:
        """Seconds of one turn."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.process.args} ended; its words are above.")
        return float(answer)

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def compare(
    channels: int = 100,
    batch: int = 32,
    members: tuple[int, ...] = (1, 4),
    turns: int = 10,
    torch_python: str = sys.executable,
) -> dict[str, dict[str, float]]:
    """Milliseconds of one member's step on both sides, and their ratio, for each K."""
    rows = {}
    for k in members:
        problem = Problem(k, channels, batch)
        pythons = {side: sys.executable if side == "ours" else torch_python for side in SIDES}
        workers = {side: Worker(side, problem, python) for side, python in pythons.items()}
        for worker in workers.values():
            worker.turn()  # after the last compilation is over
        best = dict.fromkeys(SIDES, float("inf"))
        for _ in range(turns):
            for side, worker in workers.items():
                best[side] = min(best[side], worker.turn())
        for worker in workers.values():
            worker.close()
        per_step = {side: 1e3 * seconds / (STEPS * k) for side, seconds in best.items()}
        torch_ms = min(ms for side, ms in per_step.items() if side != "ours")
        rows[f"K={k}"] = {
            "ours_ms": per_step["ours"],
            "torch_ms": torch_ms,
            "ratio": torch_ms / per_step["ours"],
        }
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--channels", type=int, default=100)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--members", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--out", type=Path, default=Path("runs/bench/myrtle.json"))
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--problem", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        return serve(arguments.side, Problem(**arguments.problem))
    rows = compare(
        arguments.channels,
        arguments.batch,
        tuple(arguments.members),
        arguments.turns,
        arguments.torch_python,
    )
    print(f"Myrtle-10, {arguments.channels} channels, batches of {arguments.batch}: ms per step")
    print(f"{'':6}{'ours':>9}{'PyTorch':>9}{'ratio':>7}")
    for name, row in rows.items():
        print(f"{name:6}{row['ours_ms']:9.1f}{row['torch_ms']:9.1f}{row['ratio']:7.2f}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
