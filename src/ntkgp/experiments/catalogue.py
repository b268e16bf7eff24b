"""The table of experiments: what `ntkgp reproduce` runs, in this order for "all", and `report` draws."""

from importlib import import_module
from types import ModuleType
from typing import NamedTuple


class Experiment(NamedTuple):
    """A module of `ntkgp.experiments` with PRESETS and run, and NEEDS if it needs data sets."""

    title: str
    reporter: str
    """The module of `ntkgp.report` that draws its results."""


EXPERIMENTS = {
    "laws": Experiment("Table 1 and Proposition 2: the predictive laws", "laws"),
    "costs": Experiment("Table 2: what each method costs", "costs"),
    "toy": Experiment("Figure 1: the toy problem", "toy"),
    "widths": Experiment("The toy problem at growing width", "widths"),
    "digits": Experiment("Digits against letters: Figures 3 and 4 in small", "images"),
    "mnist": Experiment("Figures 3 and 4: MNIST against NotMNIST", "images"),
    "flights": Experiment("Figure 2: flight delays", "flights"),
    "cifar": Experiment("Figures 5, 6 and 8: CIFAR-10 against SVHN", "images"),
    "uci": Experiment("Nine UCI regression sets", "uci"),
}


def module(name: str) -> ModuleType:
    """The module of an experiment."""
    return import_module(f"ntkgp.experiments.{name}")


def reporter(name: str) -> ModuleType:
    """The module that draws it."""
    return import_module(f"ntkgp.report.{EXPERIMENTS[name].reporter}")
