"""The table of experiments: what `ntkgp reproduce` runs, in this order for "all", and `report` draws."""

from importlib import import_module
from types import ModuleType
from typing import NamedTuple


class Experiment(NamedTuple):
    """A module of `ntkgp.experiments` with PRESETS and run."""

    title: str
    reporter: str
    """The module of `ntkgp.report` that draws its results."""
    needs: tuple[str, ...] = ()
    """Data sets, by their names in `ntkgp.data`."""
    readings: tuple[str, ...] = ()
    """Where both presets read the paper in one of several ways, or differ from it."""


OF_IMAGES = (
    'The "small linear scale" of the grids is 0.5, 1 and 1.5 times C ζ₀ for κ², and 1.5, 2 and 2.5 '
    "for σ_W²; the choice is made once, by ensembles of 3 members on the split of the first repeat.",
    "The temperature is found by a search on the validation split, not by gradient steps, for labels "
    "smoothed as by Platt.",
    '"Over 15% lower error" is read as points, not as a share.',
)
EACH_IMAGE = (
    '"Mean 0 and standard deviation 1 across flattened pixels" is read as each image by its own '
    "pixels."
)
EXPERIMENTS = {
    "laws": Experiment("Table 1 and Proposition 2: the predictive laws", "laws"),
    "costs": Experiment("Table 2: what each method costs", "costs"),
    "toy": Experiment(
        "Figure 1: the toy problem",
        "toy",
        readings=(
            "The loss is σ²/N times the sum that the paper writes, as in the authors' code, and so is "
            "the step of a learning rate.",
            "Deep ensembles have no weight decay, as in the authors' code.",
            "NTKGP-Lin is solved in closed form.",
        ),
    ),
    "widths": Experiment("The toy problem at growing width", "widths"),
    "digits": Experiment(
        "Digits against letters: Figures 3 and 4 in small",
        "images",
        readings=(*OF_IMAGES, EACH_IMAGE),
    ),
    "mnist": Experiment(
        "Figures 3 and 4: MNIST against NotMNIST",
        "images",
        ("mnist", "notmnist"),
        (
            *OF_IMAGES,
            EACH_IMAGE,
            "The exact law predicts all test images, where the paper took half; there are 10,000 "
            "NotMNIST images here, and the ratio of the two sets enters every error above a confidence.",
        ),
    ),
    "flights": Experiment(
        "Figure 2: flight delays",
        "flights",
        ("flights2008",),
        ("σ(x) learns from the residuals of y, not y'.",),
    ),
    "cifar": Experiment(
        "Figures 5, 6 and 8: CIFAR-10 against SVHN",
        "images",
        ("cifar10", "svhn"),
        (
            *OF_IMAGES,
            "Images are standardised by one mean and one deviation of all training pixels.",
            "ζ₀ is a mean over 16 draws and 256 training images.",
            "One κ for all methods is √(C mean Θ), the base value for NTKGP-param; Appendix H prints "
            "mean Θ for it.",
            "The learning rate rises with every step of its first epochs.",
            "Random crops move an image by up to 4 pixels.",
        ),
    ),
    "uci": Experiment(
        "Nine UCI regression sets", "uci", ("uci/yacht",)
    ),  # all nine are in one file
}


def module(name: str) -> ModuleType:
    """The module of an experiment."""
    return import_module(f"ntkgp.experiments.{name}")


def reporter(name: str) -> ModuleType:
    """The module that draws it."""
    return import_module(f"ntkgp.report.{EXPERIMENTS[name].reporter}")
