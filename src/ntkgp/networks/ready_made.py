"""Ready-made networks: the multi-layer perceptron and the Myrtle networks of the paper."""

from collections.abc import Sequence
from functools import partial

from ntkgp.networks.layered import LayeredNetwork
from ntkgp.networks.layers import AvgPool, Conv, Dense, Erf, GlobalAvgPool, Relu
from ntkgp.networks.layers.activation import Activation
from ntkgp.networks.layers.affine import Parameterization


def mlp(
    input_dim: int,
    output_dim: int = 1,
    *,
    width: int = 512,
    depth: int = 2,
    activation: Activation = Erf(),
    w_std: float = 1.5,
    b_std: float = 0.05,
    parameterization: Parameterization = "standard",
) -> LayeredNetwork:
    """A multi-layer perceptron with `depth` hidden layers; the defaults are the paper's Figure 1.

    Weights have the standard parameterisation; `parameterization="ntk"` gives the other.

    >>> net = mlp(1, width=64)
    >>> net.apply(net.init(jax.random.key(0)), jnp.zeros((3, 1))).shape
    (3, 1)
    """
    dense = partial(Dense, w_std=w_std, b_std=b_std, parameterization=parameterization)
    return LayeredNetwork((input_dim,), [dense(width), activation] * depth, dense(output_dim))


_MYRTLE_CONVS = {5: (2, 1, 1), 7: (2, 2, 2), 10: (3, 3, 3)}


def myrtle(
    input_shape: Sequence[int] = (32, 32, 3),
    output_dim: int = 10,
    *,
    depth: int = 10,
    channels: int = 100,
    activation: Activation = Relu(),
    w_std: float = 2**0.5,
    b_std: float = 0.01,
    parameterization: Parameterization = "standard",
) -> LayeredNetwork:
    """The Myrtle convolutional network of Shankar et al. (2020), depth 5, 7 or 10.

    3x3 SAME convolutions in three groups, with 2x2 average pooling after the first two, then
    pooling over the whole image and a dense readout. Weights have the standard parameterisation;
    `parameterization="ntk"` gives the other.

    >>> myrtle((8, 8, 3), depth=5, channels=4).output_dim
    10
    """
    if depth not in _MYRTLE_CONVS:
        raise ValueError(f"myrtle comes in depths {sorted(_MYRTLE_CONVS)}; got depth={depth!r}.")
    conv = partial(Conv, channels, w_std=w_std, b_std=b_std, parameterization=parameterization)
    first, second, third = ([conv(), activation] * n for n in _MYRTLE_CONVS[depth])
    return LayeredNetwork(
        input_shape,
        [*first, AvgPool(), *second, AvgPool(), *third, GlobalAvgPool()],
        Dense(output_dim, w_std, b_std, parameterization),
    )
