"""Classification against images from elsewhere (Figures 3 to 6 and 8): what all such experiments share."""

import itertools
import time
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.memory import NotEnoughMemory, peak_bytes
from ntkgp.data import Split
from ntkgp.ensembles.ensemble import Ensemble
from ntkgp.ensembles.fit import fit
from ntkgp.ensembles.methods import COMPARED, METHODS
from ntkgp.ensembles.trainers import Trainer
from ntkgp.estimators.one_hot import (
    calibrated,
    one_hot,
    second_moment,
    second_moment_of_law,
    target_scale,
)
from ntkgp.estimators.standardise import Scaler
from ntkgp.experiments.checks import check, check_known
from ntkgp.experiments.experiment import Experiment, Given
from ntkgp.experiments.results import Mark, Record, Results, found, rounded
from ntkgp.kernels.matrices import ntk
from ntkgp.kernels.solvers import Cholesky, Solver
from ntkgp.laws.exact import ExactLaw, condition
from ntkgp.laws.table import LAWS
from ntkgp.networks.layered import LayeredNetwork
from ntkgp.predictive import metrics
from ntkgp.predictive.calibration import mean_probabilities

SCALES = ("matched", "fixed")
"""κ by each method's own second moment at initialisation, or that of the NTK for all (Appendix H)."""
CLASSES = 10
OF_IMAGES = (
    'The "small linear scale" of the grids is 0.5, 1 and 1.5 times C ζ₀ for κ², and 1.5, 2 and 2.5 '
    "for σ_W²; the choice is made once, by ensembles of 3 members on the split of the first repeat.",
    "The temperature is found by a search on the validation split, not by gradient steps, for labels "
    "smoothed as by Platt.",
    '"Over 15% lower error" is read as points, not as a share.',
)
"""How the paper is read."""
_TUNING_SEED = 1_000_000


class Task(NamedTuple):
    """Images as the networks take them, with labels from 0; those of `outside` are no class."""

    train: Split
    validation: Split
    test: Split
    outside: NDArray[Any]
    black: float
    """What black has become; NaN where that differs from image to image."""


@dataclass(frozen=True)
class ImagesConfig:
    """Everything that determines a run, whatever the images are."""

    methods: tuple[str, ...] = COMPARED
    target_scales: tuple[str, ...] = ("matched",)
    """Rules for κ, of `SCALES`."""
    members: int = 10
    repeats: int = 5
    """Independent ensembles of each method; repeat r has seed r, and its own validation split."""
    analytic: bool = True
    """Whether to compute the exact NTKGP beside the ensembles."""
    epochs: int = 20
    batch_size: int = 100
    learning_rate: float = 0.001
    noise_std: float = 0.1
    weight_decay: float = 1e-4
    """For deep ensembles only."""
    b_std: float = 0.05
    w_var_grid: tuple[float, ...] = (2.0,)
    """Values of σ_W² to choose from by validation accuracy."""
    kappa2_grid: tuple[float, ...] = (1.0,)
    """Multiples of C ζ₀ to choose κ² from, likewise; without effect for a fixed κ."""
    tuning_members: int = 3
    """Members of the ensembles that make the choice."""
    validation_fraction: float = 0.1
    standardise: str = "all"
    """"all": by one mean and deviation of all training pixels; "each": every image by its own."""
    max_train: int = 1_000_000
    """The most training and validation images, drawn at random."""
    max_test: int = 1_000_000
    """The most test images, and images from elsewhere: the first ones."""
    max_law: int = 1_000_000
    """The most training images of the exact law, the first of the split."""
    may_be_zero: ClassVar[tuple[str, ...]] = ("weight_decay", "b_std")
    """Fields; other numbers must be above 0."""

    def __post_init__(self) -> None:
        check(self, may_be_zero=self.may_be_zero)
        check_known("target_scales", self.target_scales, SCALES)
        check_known("standardise", [self.standardise], ("all", "each"))
        if self.validation_fraction >= 1:
            raise ValueError(
                f"validation_fraction must be below 1; got {self.validation_fraction}."
            )

    @abstractmethod
    def network(self, w_var: float) -> LayeredNetwork: ...

    def law_network(self, w_var: float) -> LayeredNetwork:
        """The network of the exact law."""
        return self.network(w_var)

    @abstractmethod
    def trainer(self, n: int, black: float) -> Trainer:
        """For n training images in which black is this value."""


Stored = tuple[Split, Split, NDArray[Any]]
"""Training and test images with labels, and images from elsewhere, as they are stored."""


def marks(config: ImagesConfig, data: Stored) -> Iterator[Mark]:
    """Candidates and choices, then ensembles, then the exact law, which takes most memory."""
    for scale, method in itertools.product(config.target_scales, config.methods):
        choice = {"kind": "choice", "method": method, "scale": scale}
        candidates = candidates_of(config, choice)
        if len(candidates) > 1:
            yield from candidates
        yield choice
    for repeat in range(config.repeats):
        for scale, method in itertools.product(config.target_scales, config.methods):
            yield {"kind": "ensemble", "method": method, "scale": scale, "repeat": repeat}
    if config.analytic:
        law = {"kind": "law", "method": "ntkgp", "scale": "matched"}
        yield law | {"training_images": law_images(config, len(data[0].x))}


def law_images(config: ImagesConfig, stored: int) -> int:
    """How many training images the exact law has."""
    n = min(stored, config.max_train)
    return min(n - held_out_images(config, n), config.max_law)


def held_out_images(config: ImagesConfig, n: int) -> int:
    return max(1, round(config.validation_fraction * n))


def record(
    config: ImagesConfig, mark: Mark, given: Given, solver: Solver = Cholesky()
) -> Record | None:
    """A candidate, a choice of one, an ensemble, or the law by a solver."""
    if mark["kind"] == "choice":
        return choice_record(config, mark, given)
    task = make_task(config, given.data, seed=mark.get("repeat", 0))
    if mark["kind"] == "candidate":
        return candidate_record(config, task, mark, given)
    if mark["kind"] == "ensemble":
        return ensemble_record(config, task, mark, given)
    try:
        return law_record(config, task, given, solver)
    except NotEnoughMemory as error:
        given.say(f"the exact law is left out, all else is there: {error}")
        return None


def make_task(config: ImagesConfig, stored: Stored, seed: int) -> Task:
    """A split into training and validation, standardised."""
    train, test, outside = stored
    order = np.random.default_rng(seed).permutation(len(train.x))[: config.max_train]
    n_held_out = held_out_images(config, len(order))
    inside, held_out = train.take(order[n_held_out:]), train.take(order[:n_held_out])
    scaler = Scaler.of("the images", inside.x, by_column=False)

    def standardised(images: NDArray[Any]) -> NDArray[Any]:
        if config.standardise == "all":
            return scaler.apply("the images", images, np.float32)
        pixels = images.reshape(len(images), -1).astype(np.float32)
        pixels -= pixels.mean(axis=1, keepdims=True)
        pixels /= np.maximum(pixels.std(axis=1, keepdims=True), 1e-6)  # an image may be blank
        return pixels.reshape(images.shape)

    def prepared(split: Split) -> Split:
        return Split(standardised(split.x), split.y.astype(np.int64))

    return Task(
        prepared(inside),
        prepared(held_out),
        prepared(test.take(slice(config.max_test))),
        standardised(outside[: config.max_test]),
        black=(-scaler.mean / scaler.std).item() if config.standardise == "all" else float("nan"),
    )


def candidates_of(config: ImagesConfig, choice: Mark) -> list[Mark]:
    """σ_W² and multiples of κ² to choose from; for a fixed κ nothing is tuned (Appendix H)."""
    grid = itertools.product(config.w_var_grid, config.kappa2_grid)
    if choice["scale"] == "fixed":
        grid = itertools.product([2.0], [1.0])
    return [
        choice | {"kind": "candidate", "w_var": w_var, "kappa2_multiple": multiple}
        for w_var, multiple in grid
    ]


def candidate_record(config: ImagesConfig, task: Task, mark: Mark, given: Given) -> Record:
    """How well a small ensemble with this σ_W² and multiple of κ² does on the validation images."""
    members = range(config.tuning_members)
    ensemble, _ = trained(config, task, mark, (members, _TUNING_SEED), given.training)
    _, merit = calibrated(ensemble.outputs(task.validation.x), task.validation.y)
    return {"validation_accuracy": merit.accuracy, "validation_nll": -merit.log_likelihood}


def choice_record(config: ImagesConfig, mark: Mark, given: Given) -> Record:
    """The candidate of best validation accuracy; among equals, that of higher likelihood."""
    candidates = candidates_of(config, mark)
    best = candidates[0]
    if len(candidates) > 1:
        tried = [run for one in candidates for run in found(given.results["runs"], one)]
        best = max(tried, key=lambda run: (run["validation_accuracy"], -run["validation_nll"]))
    return {name: best[name] for name in ("w_var", "kappa2_multiple")}


def trained(
    config: ImagesConfig,
    task: Task,
    choice: Mark,
    who: tuple[range, int],
    training: dict[str, Any],
) -> tuple[Ensemble, float]:
    """An ensemble on the targets κ e_c, and κ. `who` is its members and their seed.

    `training` are options of `fit`.
    """
    members, seed = who
    net = config.network(choice["w_var"])
    method, own = METHODS[choice["method"]], choice["scale"] == "matched"
    zeta_0 = second_moment(net, method if own else METHODS["ntkgp-param"], task.train.x)
    kappa = target_scale(zeta_0, CLASSES, choice["kappa2_multiple"] if own else 1.0)
    ensemble = fit(
        net,
        task.train.x,
        one_hot(task.train.y, CLASSES, kappa),
        method=method,
        members=members,
        noise_std=config.noise_std,
        weight_decay=config.weight_decay if method.takes_weight_decay else 0.0,
        seed=seed,
        trainer=config.trainer(len(task.train.x), task.black),
        **training,
    )
    return ensemble, kappa


def ensemble_record(config: ImagesConfig, task: Task, mark: Mark, given: Given) -> Record:
    """Train one ensemble, and score its first K members for every K."""
    chosen = {"kind": "choice", "method": mark["method"], "scale": mark["scale"]}
    (choice,) = found(given.results["runs"], chosen)
    started = time.perf_counter()
    members, seed = range(config.members), mark["repeat"]
    ensemble, kappa = trained(config, task, mark | choice, (members, seed), given.training)
    seconds = time.perf_counter() - started
    logits = [ensemble.outputs(x) for x in (task.validation.x, task.test.x, task.outside)]
    sizes = range(1, len(ensemble.indices) + 1)
    return {
        "kappa": kappa,
        "training_seconds": round(seconds, 1),
        "failed": list(ensemble.failed),
        "by_size": [scores(given.results, task, *(z[:size] for z in logits)) for size in sizes],
    }


def law_record(config: ImagesConfig, task: Task, given: Given, solver: Solver) -> Record:
    """The exact NTKGP on the training split, at σ_W² = 2 and the base value of κ (Appendix I.3)."""
    net, few = config.law_network(2.0), task.train.take(slice(config.max_law))
    x = few.x.astype(np.float64)
    kappa = target_scale(second_moment_of_law(net, LAWS["ntkgp"], x), CLASSES)
    targets = one_hot(few.y, CLASSES, kappa)
    seconds = {}
    started = time.perf_counter()
    law = condition(
        net, x, targets, noise_std=config.noise_std, solver=solver, progress=given.progress
    )
    seconds["conditioning"] = time.perf_counter() - started
    rng = np.random.default_rng(0)
    logits = []
    for part, images, n_samples in (
        ("validation", task.validation.x, 10),
        ("test", task.test.x, 100),
        ("outside", task.outside, 100),
    ):
        started = time.perf_counter()
        predicted = law.predict(images.astype(np.float64), progress=given.progress)
        seconds[part] = time.perf_counter() - started
        noise = rng.standard_normal((n_samples, *predicted.mean.shape))
        logits.append(predicted.mean + np.sqrt(predicted.epistemic_var) * noise)
    return {
        "kappa": kappa,
        "stage_seconds": {name: round(value, 1) for name, value in seconds.items()},
        "peak_bytes": peak_bytes(),
        "residual": residual(law),
        "by_size": [scores(given.results, task, *logits)],
    }


def residual(law: ExactLaw) -> float:
    """Largest |(Θ + σ²I) w - y| / max |y| over 500 rows, each computed again from the kernel."""
    x, weights, y = law.x, law.weights, law.y
    some = np.random.default_rng(1).choice(len(x), min(len(x), 500), replace=False)
    rows = ntk(law.net, x[some], x)
    rows[np.arange(len(some)), some] = ntk(law.net, x[some], diagonal=True)
    left = rows @ weights + law.target_var * weights[some]
    return float(np.abs(left - y[some]).max() / np.abs(y).max())


def scores(
    axes: Results,
    task: Task,
    validation: NDArray[Any],
    test: NDArray[Any],
    outside: NDArray[Any],
) -> Record:
    """All that the figures show, from logits (k, n, classes) of members or samples."""
    temperature, _ = calibrated(validation, task.validation.y)
    p_test, p_outside = (mean_probabilities(logits, temperature) for logits in (test, outside))
    entropies = [metrics.predictive_entropy(p) for p in (p_test, p_outside)]
    together = np.concatenate([task.test.y, np.full(len(p_outside), -1)])
    curve = metrics.error_vs_confidence(
        together, np.concatenate([p_test, p_outside]), thresholds=axes["confidence_thresholds"]
    )
    edges = np.array(axes["entropy_edges"])

    def histogram(values: NDArray[Any]) -> list[int]:
        inside = np.clip(values, edges[0], edges[-1])  # rounding may exceed the range
        return np.histogram(inside, edges)[0].tolist()

    return {
        "members": len(test),
        "temperature": temperature,
        "error": 1 - metrics.accuracy(task.test.y, p_test),
        "nll": metrics.classification_nll(task.test.y, p_test),
        "ece": metrics.expected_calibration_error(task.test.y, p_test),
        "auroc": metrics.auroc(*entropies),
        "curve_errors": rounded(curve.errors),
        "curve_fractions": rounded(curve.fractions),
        "entropies_test": histogram(entropies[0]),
        "entropies_outside": histogram(entropies[1]),
    }


on_images = partial(
    Experiment,
    marks=marks,
    record=record,
    contents={
        "confidence_thresholds": lambda config: rounded(np.arange(101) / 100),
        "entropy_edges": lambda config: rounded(np.linspace(0, np.log(CLASSES), 41)),
    },
    may_grow=("methods", "target_scales", "repeats", "analytic", "max_law"),
)
"""An experiment on images, when given its name, title, presets, data and report."""
