"""Which model to fit: the settings of a command line as an estimator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ntkgp.ensembles.methods import METHODS
from ntkgp.ensembles.noise import LearnedNoise
from ntkgp.estimators.ensemble_classifier import EnsembleClassifier
from ntkgp.estimators.ensemble_regressor import EnsembleRegressor
from ntkgp.estimators.gp_classifier import GPClassifier
from ntkgp.estimators.gp_regressor import GPRegressor
from ntkgp.laws.row_noise import VaryingNoise
from ntkgp.laws.table import LAWS
from ntkgp.tables.features import kind_of
from ntkgp.tables.models import TableClassifier, TableModel, TableRegressor

Task = Literal["regression", "classification"]
FEW_CLASSES = 10
"""Whole numbers with at most so many different values are classes."""
MOST_CLASSES = 100
FEW_ROWS = 10_000
"""Up to so many rows the exact law finds how noise varies; beyond, the networks learn it."""


@dataclass(frozen=True)
class Choice:
    """A model, and how its columns are read.

    >>> Choice(law="nngp").model("regression", rows=100)
    TableRegressor(estimator=GPRegressor(law='nngp', random_state=0), random_state=0)
    """

    method: str = "ntkgp-param"
    """Of an ensemble."""
    law: str | None = None
    """An exact law in place of an ensemble."""
    members: int | None = None
    heteroscedastic: bool = False
    seed: int = 0
    categorical: Sequence[str] = ()
    drop: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the estimator."""
    verbose: bool = False

    @property
    def title(self) -> str:
        return f"exact {self.law}" if self.law else f"ensemble {self.method}"

    def model(self, task: Task, rows: int) -> TableModel:
        """For training on so many rows."""
        maker: Any = TableRegressor if task == "regression" else TableClassifier
        columns = {"categorical": tuple(self.categorical), "drop": tuple(self.drop)}
        return maker(self._estimator(task, rows), **columns, random_state=self.seed)

    def _estimator(self, task: Task, rows: int) -> Any:
        maker: Any
        arguments: dict[str, Any] = {"random_state": self.seed, "verbose": self.verbose}
        if self.law:
            maker = GPRegressor if task == "regression" else GPClassifier
            arguments["law"] = self.law
            if self.members:
                raise ValueError("an exact law has no members: leave --members or --law out.")
        else:
            maker = EnsembleRegressor if task == "regression" else EnsembleClassifier
            arguments["method"] = self.method
            arguments |= {"members": self.members} if self.members else {}
        if self.heteroscedastic:
            arguments["noise"] = self._noise(task, rows)
        known = maker().get_params()
        if unknown := sorted(self.settings.keys() - known):
            raise ValueError(
                f"--set {unknown[0]}: {maker.__name__} has no such setting. It has {', '.join(known)}."
            )
        return maker(**(arguments | dict(self.settings)))

    def _noise(self, task: Task, rows: int) -> Any:
        if task == "classification":
            raise ValueError("--heteroscedastic is about numbers, and the target has classes.")
        by_law = self.law or rows <= FEW_ROWS
        return VaryingNoise() if by_law else LearnedNoise()


def require_known(method: str, law: str | None) -> None:
    """An error that lists the names, if one is none of them."""
    if method not in METHODS:
        raise ValueError(f"--method is one of {', '.join(METHODS)}; got {method!r}.")
    if law is not None and law not in LAWS:
        raise ValueError(f"--law is one of {', '.join(LAWS)}; got {law!r}.")


def task_of(name: str, target: Any) -> tuple[Task, str]:
    """What a target asks for, and why: classes if it has words, true and false, or few whole numbers.

    >>> from ntkgp.tables.arrow import as_table
    >>> task_of("rent", as_table({"rent": [510.0, 730.5]}).column("rent").combine_chunks())
    ('regression', 'rent has numbers')
    """
    kind = kind_of(target.type)
    if kind not in ("number", "category"):
        raise ValueError(
            f"the target {name!r} has values of type {target.type}: numbers or classes are needed."
        )
    if kind == "category":
        return "classification", f"{name} has words"
    if str(target.type) == "bool":
        return "classification", f"{name} is true or false"
    levels = len(target.unique())
    if "int" in str(target.type) and levels <= FEW_CLASSES:
        return "classification", f"{name} has {levels} different whole numbers"
    return "regression", f"{name} has numbers"


def require_classes(name: str, classes: NDArray[Any]) -> None:
    """An error if a target cannot be told apart."""
    levels, rows = np.unique(classes, return_counts=True)
    if len(levels) < 2:
        raise ValueError(
            f"the target {name!r} is {levels[0]!s} in every row: nothing to tell apart."
        )
    if len(levels) > MOST_CLASSES:
        raise ValueError(
            f"the target {name!r} has {len(levels):,} classes, and {MOST_CLASSES} are the most. If they "
            "are numbers, give --task regression; else join rare classes."
        )
    if len(rare := levels[rows < 2]):
        raise ValueError(
            f"the target {name!r} has classes with a single row, such as {rare[0]!s}. Join them with "
            "others, or leave these rows out."
        )
