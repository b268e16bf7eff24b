"""The fast solver against the paper's procedure on Figure 1's problem.

The peer is the paper's 50,000 steps of full batch gradient descent, as in the authors' code: one
member at a time, a Python loop over a compiled step. Its time is extrapolated from the best of
several stretches of steps. Its final objectives come from running all the steps, which `ntkgp
reproduce toy --preset paper` does too (a quarter of an hour per method on two cores); its results
file is used if it is there, and written if not.

    python benchmarks/toy_solver.py [--methods ntkgp-param,rp-param] [--gd-results DIR]
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import optax

from ntkgp import METHODS, GaussNewton, fit
from ntkgp.ensembles.member import Baselearner
from ntkgp.ensembles.plans import choose_plan
from ntkgp.ensembles.problem import Data, Problem, draw_members, training_set
from ntkgp.ensembles.training import offsets
from ntkgp.experiments import results
from ntkgp.experiments.experiment import run
from ntkgp.experiments.toy import run as toy

CONFIG = replace(toy.TOY.presets["paper"], repeats=1)


def seconds_of_paper_procedure(method: str, steps: int = 500, repeats: int = 5) -> float:
    """50,000 steps for each of 20 members, extrapolated from the best stretch of `steps`."""
    x, y, _ = toy.make_data(CONFIG)
    learner = Baselearner(toy.make_network(CONFIG), METHODS[method], CONFIG.noise_std)
    problem = Problem(learner, Data.of(x, y))
    draws = draw_members(learner, 0, [0], problem.data.y)
    if learner.method.offset is not None:
        plan = choose_plan(learner.net, 1)
        draws = draws._replace(delta=offsets(learner, draws.member, problem.data.x, plan))
    draw = jax.tree.map(lambda leaf: leaf[0], draws)
    data = training_set(problem, draw, None)
    optimizer = optax.sgd(CONFIG.learning_rate)

    @jax.jit
    def step(theta, opt_state):
        gradient = jax.grad(learner.loss)(theta, draw.member, data, len(x))
        updates, opt_state = optimizer.update(gradient, opt_state)
        return optax.apply_updates(theta, updates), opt_state

    theta, opt_state = step(draw.theta, optimizer.init(draw.theta))  # compiles
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        for _ in range(steps):
            theta, opt_state = step(theta, opt_state)
        jax.block_until_ready(theta)
        best = min(best, time.perf_counter() - started)
    return best / steps * CONFIG.gd_steps * CONFIG.members


def seconds_of_fast_solver(method: str, repeats: int = 3) -> tuple[float, float, np.ndarray]:
    """All members, from data to trained ensemble: first with compilation, then the best without."""
    x, y, _ = toy.make_data(CONFIG)
    trainer = toy.make_trainer(toy.TOY.presets["laptop"], method)
    assert isinstance(trainer, GaussNewton)
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        ensemble = fit(
            toy.make_network(CONFIG),
            x,
            y,
            method=method,
            members=CONFIG.members,
            noise_std=CONFIG.noise_std,
            seed=0,
            trainer=trainer,
        )
        times.append(time.perf_counter() - started)
    objectives = ensemble.objectives * CONFIG.train_points / CONFIG.noise_std**2
    return times[0], min(times[1:]), objectives


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    trained = [m for m in CONFIG.methods if not METHODS[m].linear]
    parser.add_argument("--methods", default=",".join(trained))
    parser.add_argument("--gd-results", type=Path, default=Path("runs/toy-paper"))
    parser.add_argument("--out", type=Path, default=Path("runs/bench/toy_solver.json"))
    arguments = parser.parse_args()
    methods = arguments.methods.split(",")
    path = run(toy.TOY, replace(CONFIG, methods=tuple(methods)), arguments.gd_results)
    descents = {run["method"]: run for run in results.load(path)["runs"] if run["seed"] == 0}
    rows = {}
    for method in methods:
        paper = seconds_of_paper_procedure(method)
        cold, warm, objectives = seconds_of_fast_solver(method)
        reached = np.array(descents[method]["objectives"])
        rows[method] = {
            "paper_seconds": paper,
            "fast_seconds_with_compilation": cold,
            "fast_seconds": warm,
            "ratio_with_compilation": paper / cold,
            "ratio": paper / warm,
            "members_not_above": int(np.sum(objectives <= reached)),
            "members": len(reached),
            "median_objective_paper": float(np.median(reached)),
            "median_objective_fast": float(np.median(objectives)),
        }
        print(
            f"{method}: paper's procedure {paper:.0f} s, fast solver {cold:.1f} s with compilation "
            f"({paper / cold:.0f}x sooner), {warm:.1f} s without ({paper / warm:.0f}x); "
            f"objective not above gradient descent's for {rows[method]['members_not_above']} of "
            f"{len(reached)} members (median {np.median(objectives):.1f} against "
            f"{np.median(reached):.1f})"
        )
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(
        json.dumps({"versions": results.versions(), "rows": rows}, indent=1) + "\n"
    )
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
