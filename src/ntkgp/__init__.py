"""Bayesian deep ensembles via the neural tangent kernel."""

__version__ = "0.1.0"

from ntkgp import layers as layers
from ntkgp.distributions import Mixture as Mixture
from ntkgp.distributions import Normal as Normal
from ntkgp.ensemble import Ensemble as Ensemble
from ntkgp.ensemble import MemberFailure as MemberFailure
from ntkgp.ensemble import fit as fit
from ntkgp.kernels import empirical_ntk as empirical_ntk
from ntkgp.kernels import kernel_matrices as kernel_matrices
from ntkgp.kernels import nngp as nngp
from ntkgp.kernels import ntk as ntk
from ntkgp.linalg import NotPositiveDefinite as NotPositiveDefinite
from ntkgp.methods import METHODS as METHODS
from ntkgp.methods import Method as Method
from ntkgp.networks import LayeredNetwork as LayeredNetwork
from ntkgp.networks import Network as Network
from ntkgp.networks import mlp as mlp
from ntkgp.networks import myrtle as myrtle
from ntkgp.posterior import LAWS as LAWS
from ntkgp.posterior import Law as Law
from ntkgp.posterior import Posterior as Posterior
from ntkgp.training import Descent as Descent
from ntkgp.training import GaussNewton as GaussNewton
