"""Networks written elsewhere, made Bayesian in one line: plain functions, Flax, Equinox.

Each adapter gives a `Network`, which `ntkgp.fit` trains like the library's own:

    from_functions(init, apply, input_shape)    a pair of functions
    from_flax(module, input_shape)              a module of flax.linen
    from_nnx(make, input_shape)                 a function that makes a module of flax.nnx
    from_equinox(make, input_shape)             a function that makes a module of Equinox

One takes a module that is trained already, and gives its parameters θ̂ too, for `ntkgp.linearise`:

    from_trained(module, input_shape)           of flax.linen, flax.nnx, Equinox, or a function

All take the same two options, which name parameters by paths as in `adapters/paths.py`:

`readout` names θ^{L+1}, the last linear layer. Left out, it is found by experiment: it is the part
of the parameters in which the output is linear (`adapters/readout.py`).

`prior_var` gives prior variances λ. Left out, they are those of the module's own initialiser
(`adapters/prior.py`). The prior of the methods is N(0, Λ). An initialiser that is not Gaussian, such
as Equinox's uniform one, counts by its variance: at large width it gives functions of the same law.

Some parameters have one value in every initialisation, such as biases at 0 or the scales of a
normalisation at 1. Their prior variance is 0, so they are held fixed, and a warning says so. Give
them a variance, `prior_var={"*bias": 0.05**2}`, and they are drawn about that value and trained.

`from_trained` knows no initialiser: its prior variances are 1 unless they are given.

An adapted network can be pickled if its adapter's arguments can: module-level functions and classes,
not lambdas. Opening the pickle calls the adapter again.
"""

from ntkgp.networks.adapters.equinox import from_equinox as from_equinox
from ntkgp.networks.adapters.functions import from_functions as from_functions
from ntkgp.networks.adapters.linen import from_flax as from_flax
from ntkgp.networks.adapters.network import AdaptedNetwork as AdaptedNetwork
from ntkgp.networks.adapters.nnx import from_nnx as from_nnx
from ntkgp.networks.adapters.prior import ConstantParameters as ConstantParameters
from ntkgp.networks.adapters.prior import PriorEstimated as PriorEstimated
from ntkgp.networks.adapters.trained import from_trained as from_trained
