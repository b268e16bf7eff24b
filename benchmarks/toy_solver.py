"""The fast solver against the paper's procedure on Figure 1's problem.

The peer is the paper's 50,000 steps of full batch gradient descent, as in the authors' code: one
member at a time, a Python loop over a compiled step. Its time is extrapolated from the best of
several stretches of steps. Its final objectives come from running all the steps, which `ntkgp
reproduce toy --preset paper` does too (a quarter of an hour per method on two cores); its results
file is used if it is there, and written if not.

    python benchmarks/toy_solver.py [--methods ntkgp-param,rp-param] [--gd-results DIR]
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
from numpy.typing import NDArray

from common import Records, best_seconds, compile_anew, options_of, parsed, write
from ntkgp import METHODS, fit
from ntkgp.ensembles.losses import offsets
from ntkgp.ensembles.member import Baselearner
from ntkgp.ensembles.plans import choose_plan
from ntkgp.ensembles.problem import Data, Problem, draw_members, training_set
from ntkgp.experiments import results
from ntkgp.experiments.experiment import run
from ntkgp.experiments.toy import run as toy

PAPER, LAPTOP = toy.TOY.presets["paper"], toy.TOY.presets["laptop"]
TRAINED = replace(PAPER, methods=tuple(name for name in PAPER.methods if not METHODS[name].linear))


@dataclass(frozen=True)
class Sizes:
    paper: toy.ToyConfig = TRAINED
    """Trained by gradient descent."""
    laptop: toy.ToyConfig = LAPTOP
    """Whose solver is the fast one."""
    stretch: int = 500
    """Steps that are timed together."""
    stretches: int = 5
    fits: int = 3


SMALL = {"members": 2, "width": 2, "depth": 1, "train_points": 4, "grid_points": 2}
TINY = Sizes(
    paper=replace(PAPER, methods=("ntkgp-param",), gd_steps=2, **SMALL),
    laptop=replace(LAPTOP, max_steps=2, **SMALL),
    stretch=2,
    stretches=1,
    fits=2,
)


def seconds_of_paper_procedure(sizes: Sizes, method: str) -> float:
    """All steps for each of the members, extrapolated from the best stretch."""
    config = sizes.paper
    x, y, _ = toy.make_data(config)
    learner = Baselearner(toy.make_network(config), METHODS[method], config.noise_std)
    problem = Problem(learner, Data.of(x, y))
    draws = draw_members(learner, 0, [0], problem.data.y)
    if learner.method.offset is not None:
        plan = choose_plan(learner.net, 1)
        draws = draws._replace(delta=offsets(learner, draws.member, problem.data.x, plan))
    draw = jax.tree.map(lambda leaf: leaf[0], draws)
    data = training_set(problem, draw, None)
    optimizer = optax.sgd(config.learning_rate)

    @jax.jit
    def step(theta: Any, opt_state: Any) -> Any:
        gradient = jax.grad(learner.loss)(theta, draw.member, data, len(x))
        updates, opt_state = optimizer.update(gradient, opt_state)
        return optax.apply_updates(theta, updates), opt_state

    def stretch() -> None:
        theta, opt_state = draw.theta, optimizer.init(draw.theta)
        for _ in range(sizes.stretch):
            theta, opt_state = step(theta, opt_state)
        jax.block_until_ready(theta)

    best = best_seconds({"stretch": stretch}, sizes.stretches)["stretch"]
    return best / sizes.stretch * config.gd_steps * config.members


def seconds_of_fast_solver(sizes: Sizes, method: str) -> tuple[float, float, NDArray[Any]]:
    """All members, from data to trained ensemble: first with compilation, then the best without."""
    config = sizes.laptop
    x, y, _ = toy.make_data(config)
    times = []
    for _ in range(sizes.fits):
        started = time.perf_counter()
        ensemble = fit(
            toy.make_network(config),
            x,
            y,
            method=method,
            members=config.members,
            noise_std=config.noise_std,
            seed=0,
            trainer=toy.make_trainer(config, method),
        )
        times.append(time.perf_counter() - started)
    objectives = ensemble.objectives * config.train_points / config.noise_std**2
    return times[0], min(times[1:]), objectives


def run_methods(sizes: Sizes, descent_results: Path) -> Records:
    path = run(toy.TOY, sizes.paper, descent_results)
    descents = {run["method"]: run for run in results.load(path)["runs"] if run["seed"] == 0}
    rows = []
    for method in sizes.paper.methods:
        paper = seconds_of_paper_procedure(sizes, method)
        cold, warm, objectives = seconds_of_fast_solver(sizes, method)
        reached = np.array(descents[method]["objectives"])
        rows.append(
            {
                "method": method,
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
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options_of(__doc__)
    parser.add_argument("--methods", help="separated by commas; all that are trained by default")
    parser.add_argument("--gd-results", type=Path, help="toy-paper beside --out by default")
    options = parsed(parser, arguments)
    compile_anew()
    sizes = TINY if options.tiny else Sizes()
    if options.methods:
        methods = tuple(options.methods.split(","))
        sizes = replace(sizes, paper=replace(sizes.paper, methods=methods))
    rows = run_methods(sizes, options.gd_results or options.out.parent / "toy-paper")
    write("toy_solver", rows, sizes, options.out)


if __name__ == "__main__":
    main()
