"""Bayesian deep ensembles via the neural tangent kernel."""

from typing import Any

__version__ = "0.1.0"

from ntkgp import adapters as adapters
from ntkgp import data as data
from ntkgp import layers as layers
from ntkgp import metrics as metrics
from ntkgp.compilation import keep_compiled as keep_compiled
from ntkgp.distributions import Mixture as Mixture
from ntkgp.distributions import Normal as Normal
from ntkgp.empirical import empirical_ntk as empirical_ntk
from ntkgp.ensemble import Ensemble as Ensemble
from ntkgp.ensemble import MemberFailure as MemberFailure
from ntkgp.ensemble import fit as fit
from ntkgp.kernels import kernel_matrices as kernel_matrices
from ntkgp.kernels import nngp as nngp
from ntkgp.kernels import ntk as ntk
from ntkgp.linalg import NotPositiveDefinite as NotPositiveDefinite
from ntkgp.memory import NotEnoughMemory as NotEnoughMemory
from ntkgp.methods import METHODS as METHODS
from ntkgp.methods import Method as Method
from ntkgp.networks import LayeredNetwork as LayeredNetwork
from ntkgp.networks import Network as Network
from ntkgp.networks import mlp as mlp
from ntkgp.networks import myrtle as myrtle
from ntkgp.posterior import LAWS as LAWS
from ntkgp.posterior import Law as Law
from ntkgp.posterior import Posterior as Posterior
from ntkgp.solvers import Cholesky as Cholesky
from ntkgp.solvers import ConjugateGradients as ConjugateGradients
from ntkgp.solvers import NotConverged as NotConverged
from ntkgp.solvers import Refined as Refined
from ntkgp.training import Descent as Descent
from ntkgp.training import GaussNewton as GaussNewton

_WITH_SCIKIT_LEARN = (
    "EnsembleRegressor",
    "EnsembleClassifier",
    "GPRegressor",
    "GPClassifier",
    "load",
)


def __getattr__(name: str) -> Any:
    """The estimators, imported when first asked for: scikit-learn takes half a second."""
    if name in _WITH_SCIKIT_LEARN:
        from ntkgp import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'ntkgp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_WITH_SCIKIT_LEARN])
