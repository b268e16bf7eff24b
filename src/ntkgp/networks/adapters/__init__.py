"""Networks written elsewhere, made Bayesian in one line: plain functions, Flax, Equinox.

Each adapter gives a `Network`, which `ntkgp.fit` takes as it takes the library's own:

    from_functions(init, apply, input_shape)    a pair of functions
    from_flax(module, input_shape)              a module of flax.linen
    from_nnx(make, input_shape)                 a function that makes a module of flax.nnx
    from_equinox(make, input_shape)             a function that makes a module of Equinox

All take the same two options, and the same syntax of paths to parameters (`ntkgp.adapters.paths`):

`readout` names θ^{L+1}, the last linear layer. Left out, it is found by experiment: it is the part
of the parameters in which the output is linear (`ntkgp.adapters.readout`).

`prior_var` gives prior variances λ. Left out, they are those of the module's own initialiser
(`ntkgp.adapters.prior`). The prior of the methods is N(0, Λ), so an initialiser that is not Gaussian,
such as Equinox's uniform one, counts by its variance: at large width its draws and Gaussian ones
give functions of one law.

Parameters that every initialisation sets to one value, such as biases at 0 or the scales of a
normalisation at 1, have the prior variance 0 and are held fixed, with a warning that says so.
Give them a variance, `prior_var={"*bias": 0.05**2}`, and they are drawn about that value and trained.
"""

from ntkgp.networks.adapters.equinox import from_equinox as from_equinox
from ntkgp.networks.adapters.functions import from_functions as from_functions
from ntkgp.networks.adapters.linen import from_flax as from_flax
from ntkgp.networks.adapters.network import AdaptedNetwork as AdaptedNetwork
from ntkgp.networks.adapters.nnx import from_nnx as from_nnx
from ntkgp.networks.adapters.prior import ConstantParameters as ConstantParameters
from ntkgp.networks.adapters.prior import PriorEstimated as PriorEstimated
