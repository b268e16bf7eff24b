"""Layers that state both faces: what a finite layer computes, and what it becomes at infinite width.

A layer of your own is a subclass of `Layer`, or of `Activation` for an elementwise nonlinearity.
"""

from ntkgp.core.typing import Kernels as Kernels
from ntkgp.networks.layers.activation import Activation as Activation
from ntkgp.networks.layers.base import Layer as Layer
from ntkgp.networks.layers.combine import Residual as Residual
from ntkgp.networks.layers.combine import Serial as Serial
from ntkgp.networks.layers.conv import Conv as Conv
from ntkgp.networks.layers.dense import Dense as Dense
from ntkgp.networks.layers.erf import Erf as Erf
from ntkgp.networks.layers.flatten import Flatten as Flatten
from ntkgp.networks.layers.gelu import Gelu as Gelu
from ntkgp.networks.layers.identity import Identity as Identity
from ntkgp.networks.layers.pool import AvgPool as AvgPool
from ntkgp.networks.layers.pool import GlobalAvgPool as GlobalAvgPool
from ntkgp.networks.layers.relu import Abs as Abs
from ntkgp.networks.layers.relu import LeakyRelu as LeakyRelu
from ntkgp.networks.layers.relu import Relu as Relu
from ntkgp.networks.layers.sin import Sin as Sin
