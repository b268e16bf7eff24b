"""How members are trained: by any Optax optimiser, or by Gauss-Newton steps for small data."""

from ntkgp.training.augmentation import RandomCropsAndFlips as RandomCropsAndFlips
from ntkgp.training.common import Trained as Trained
from ntkgp.training.common import Trainer as Trainer
from ntkgp.training.descent import Descent as Descent
from ntkgp.training.gauss_newton import GaussNewton as GaussNewton
