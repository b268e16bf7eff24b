"""Layers that state both faces: what a finite layer computes, and what it becomes at infinite width."""

from ntkgp.layers.base import Layer as Layer
from ntkgp.layers.combine import Residual as Residual
from ntkgp.layers.combine import Serial as Serial
from ntkgp.layers.conv import Conv as Conv
from ntkgp.layers.dense import Dense as Dense
from ntkgp.layers.erf import Erf as Erf
from ntkgp.layers.flatten import Flatten as Flatten
from ntkgp.layers.gelu import Gelu as Gelu
from ntkgp.layers.identity import Identity as Identity
from ntkgp.layers.pool import AvgPool as AvgPool
from ntkgp.layers.pool import GlobalAvgPool as GlobalAvgPool
from ntkgp.layers.relu import Abs as Abs
from ntkgp.layers.relu import LeakyRelu as LeakyRelu
from ntkgp.layers.relu import Relu as Relu
from ntkgp.layers.sin import Sin as Sin
