"""Which model to fit: the settings of a command line as an estimator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ntkgp.ensembles.noise import LearnedNoise
from ntkgp.estimators.ensemble_classifier import EnsembleClassifier
from ntkgp.estimators.ensemble_regressor import EnsembleRegressor
from ntkgp.estimators.gp_classifier import GPClassifier
from ntkgp.estimators.gp_regressor import GPRegressor
from ntkgp.laws.row_noise import VaryingNoise
from ntkgp.tables.features import AS_ASKED
from ntkgp.tables.models import TableClassifier, TableModel, TableRegressor
from ntkgp.tables.targets import Task

FEW_ROWS = 10_000
"""Up to so many rows the exact law finds how noise varies; beyond, the networks learn it."""


@dataclass(frozen=True)
class Choice:
    """A model, and how its columns are read.

    >>> Choice(law="nngp").model("regression", rows=100).estimator
    GPRegressor(law='nngp', random_state=0)
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

    def model(
        self, task: Task, rows: int, leave_out: Mapping[str, str] | None = None
    ) -> TableModel:
        """For training on so many rows; further columns may be left out, with the reason for each."""
        maker: Any = TableRegressor if task == "regression" else TableClassifier
        return maker(
            self._estimator(task, rows),
            categorical=tuple(self.categorical),
            drop=dict(leave_out or {}) | dict.fromkeys(self.drop, AS_ASKED),
            random_state=self.seed,
        )

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
