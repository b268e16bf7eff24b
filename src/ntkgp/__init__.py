"""Bayesian deep ensembles via the neural tangent kernel."""

from importlib import import_module as _import_module
from typing import Any

__version__ = "0.1.0"

from ntkgp import data
from ntkgp.core.cluster import Ray
from ntkgp.core.compilation import keep_compiled
from ntkgp.core.memory import NotEnoughMemory
from ntkgp.core.rows import Rows
from ntkgp.core.storage import WrongNetwork, load, storable
from ntkgp.core.storage import storable_when_imported as _storable_when_imported
from ntkgp.data.array_rows import ArrayRows, StandardisedRows
from ntkgp.data.parquet_rows import ParquetRows
from ntkgp.ensembles.checkpoint import Checkpoint, CheckpointNotWritten
from ntkgp.ensembles.ensemble import Ensemble
from ntkgp.ensembles.fit import fit
from ntkgp.ensembles.methods import METHODS, Method, Offset, PriorNetwork, Tangent
from ntkgp.ensembles.noise import ConstantNoise, LearnedNoise, Noise
from ntkgp.ensembles.outcome import MemberFailure, MemberRetried
from ntkgp.ensembles.trainers import Descent, GaussNewton, RandomCropsAndFlips, Trainer
from ntkgp.kernels.empirical import empirical_ntk
from ntkgp.kernels.linalg import NotPositiveDefinite
from ntkgp.kernels.matrices import kernel_matrices, nngp, ntk
from ntkgp.kernels.solvers import (
    Cholesky,
    ConjugateGradients,
    Inverse,
    NotConverged,
    Refined,
    Solver,
)
from ntkgp.kernels.training_kernel import TrainingKernel
from ntkgp.laws.evidence import log_marginal_likelihood
from ntkgp.laws.exact import ExactLaw, condition
from ntkgp.laws.hyperparameters import PRIORS, LogNormal
from ntkgp.laws.linearised import Linearised, linearise
from ntkgp.laws.prior import LearnedPrior, fit_prior
from ntkgp.laws.row_noise import FittedRowNoise, HeavyTails, RowNoise, VaryingNoise
from ntkgp.laws.table import LAWS, Law
from ntkgp.laws.uncertain import UncertainPrior, uncertain_prior
from ntkgp.networks import adapters, layers
from ntkgp.networks.layered import LayeredNetwork
from ntkgp.networks.protocol import Network
from ntkgp.networks.ready_made import mlp, myrtle
from ntkgp.predictive import metrics
from ntkgp.predictive.closeness import Closeness, compare
from ntkgp.predictive.distributions import Mixture, Normal, StudentT

_WITH_SCIKIT_LEARN = {
    "EnsembleRegressor": "ntkgp.estimators.ensemble_regressor",
    "EnsembleClassifier": "ntkgp.estimators.ensemble_classifier",
    "GPRegressor": "ntkgp.estimators.gp_regressor",
    "GPClassifier": "ntkgp.estimators.gp_classifier",
    "SeparateRegressor": "ntkgp.estimators.separate",
    "SeparateClassifier": "ntkgp.estimators.separate",
    "ConformalRegressor": "ntkgp.estimators.conformal_regressor",
    "ConformalClassifier": "ntkgp.estimators.conformal_classifier",
    "TableRegressor": "ntkgp.tables.models",
    "TableClassifier": "ntkgp.tables.models",
}
_storable_when_imported(_WITH_SCIKIT_LEARN)

__all__ = [
    "adapters", "ArrayRows", "Checkpoint", "CheckpointNotWritten", "Cholesky", "Closeness", "compare",
    "condition", "ConformalClassifier", "ConformalRegressor", "ConjugateGradients", "ConstantNoise",
    "data", "Descent", "empirical_ntk", "Ensemble", "EnsembleClassifier", "EnsembleRegressor",
    "ExactLaw", "fit", "fit_prior", "FittedRowNoise", "GaussNewton", "GPClassifier", "GPRegressor",
    "HeavyTails", "Inverse", "keep_compiled", "kernel_matrices", "Law", "LAWS", "LayeredNetwork",
    "layers", "LearnedNoise", "LearnedPrior", "linearise", "Linearised", "load",
    "log_marginal_likelihood", "LogNormal", "MemberFailure", "MemberRetried", "Method", "METHODS",
    "metrics", "Mixture", "mlp", "myrtle", "Network", "nngp", "Noise", "Normal", "NotConverged",
    "NotEnoughMemory", "NotPositiveDefinite", "ntk", "Offset", "ParquetRows", "PriorNetwork", "PRIORS",
    "RandomCropsAndFlips", "Ray", "Refined", "RowNoise", "Rows", "SeparateClassifier", "SeparateRegressor",
    "Solver", "StandardisedRows", "storable", "StudentT", "TableClassifier", "TableRegressor", "Tangent",
    "Trainer", "TrainingKernel", "uncertain_prior", "UncertainPrior", "VaryingNoise", "WrongNetwork",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The estimators, imported when first asked for: scikit-learn takes half a second."""
    if name in _WITH_SCIKIT_LEARN:
        return getattr(_import_module(_WITH_SCIKIT_LEARN[name]), name)
    raise AttributeError(f"module 'ntkgp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
