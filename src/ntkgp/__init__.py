"""Bayesian deep ensembles via the neural tangent kernel."""

from typing import Any

__version__ = "0.1.0"

from ntkgp import data as data
from ntkgp.core.compilation import keep_compiled as keep_compiled
from ntkgp.core.memory import NotEnoughMemory as NotEnoughMemory
from ntkgp.core.storage import WrongNetwork as WrongNetwork
from ntkgp.core.storage import load as load
from ntkgp.core.storage import storable as storable
from ntkgp.core.storage import storable_when_imported as _storable_when_imported
from ntkgp.ensembles.ensemble import Ensemble as Ensemble
from ntkgp.ensembles.fit import MemberFailure as MemberFailure
from ntkgp.ensembles.fit import fit as fit
from ntkgp.ensembles.methods import METHODS as METHODS
from ntkgp.ensembles.methods import Method as Method
from ntkgp.ensembles.methods import Offset as Offset
from ntkgp.ensembles.methods import PriorNetwork as PriorNetwork
from ntkgp.ensembles.methods import Tangent as Tangent
from ntkgp.ensembles.noise import ConstantNoise as ConstantNoise
from ntkgp.ensembles.noise import LearnedNoise as LearnedNoise
from ntkgp.ensembles.noise import Noise as Noise
from ntkgp.ensembles.trainers import Descent as Descent
from ntkgp.ensembles.trainers import GaussNewton as GaussNewton
from ntkgp.ensembles.trainers import RandomCropsAndFlips as RandomCropsAndFlips
from ntkgp.ensembles.trainers import Trainer as Trainer
from ntkgp.kernels.empirical import empirical_ntk as empirical_ntk
from ntkgp.kernels.linalg import NotPositiveDefinite as NotPositiveDefinite
from ntkgp.kernels.matrices import kernel_matrices as kernel_matrices
from ntkgp.kernels.matrices import nngp as nngp
from ntkgp.kernels.matrices import ntk as ntk
from ntkgp.kernels.solvers import Cholesky as Cholesky
from ntkgp.kernels.solvers import ConjugateGradients as ConjugateGradients
from ntkgp.kernels.solvers import Inverse as Inverse
from ntkgp.kernels.solvers import NotConverged as NotConverged
from ntkgp.kernels.solvers import Refined as Refined
from ntkgp.kernels.solvers import Solver as Solver
from ntkgp.kernels.training_kernel import TrainingKernel as TrainingKernel
from ntkgp.laws.exact import ExactLaw as ExactLaw
from ntkgp.laws.exact import condition as condition
from ntkgp.laws.table import LAWS as LAWS
from ntkgp.laws.table import Law as Law
from ntkgp.networks import adapters as adapters
from ntkgp.networks import layers as layers
from ntkgp.networks.layered import LayeredNetwork as LayeredNetwork
from ntkgp.networks.protocol import Network as Network
from ntkgp.networks.ready_made import mlp as mlp
from ntkgp.networks.ready_made import myrtle as myrtle
from ntkgp.predictive import metrics as metrics
from ntkgp.predictive.distributions import Mixture as Mixture
from ntkgp.predictive.distributions import Normal as Normal

_WITH_SCIKIT_LEARN = ("EnsembleRegressor", "EnsembleClassifier", "GPRegressor", "GPClassifier")
_storable_when_imported("ntkgp.estimators", *_WITH_SCIKIT_LEARN)

__all__ = [
    "adapters",
    "Cholesky",
    "condition",
    "ConjugateGradients",
    "ConstantNoise",
    "data",
    "Descent",
    "empirical_ntk",
    "Ensemble",
    "EnsembleClassifier",
    "EnsembleRegressor",
    "ExactLaw",
    "fit",
    "GaussNewton",
    "GPClassifier",
    "GPRegressor",
    "Inverse",
    "keep_compiled",
    "kernel_matrices",
    "Law",
    "LAWS",
    "LayeredNetwork",
    "layers",
    "LearnedNoise",
    "load",
    "MemberFailure",
    "Method",
    "METHODS",
    "metrics",
    "Mixture",
    "mlp",
    "myrtle",
    "Network",
    "nngp",
    "Noise",
    "Normal",
    "NotConverged",
    "NotEnoughMemory",
    "NotPositiveDefinite",
    "ntk",
    "Offset",
    "PriorNetwork",
    "RandomCropsAndFlips",
    "Refined",
    "Solver",
    "storable",
    "Tangent",
    "Trainer",
    "TrainingKernel",
    "WrongNetwork",
]


def __getattr__(name: str) -> Any:
    """The estimators, imported when first asked for: scikit-learn takes half a second."""
    if name in _WITH_SCIKIT_LEARN:
        from ntkgp import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'ntkgp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
