"""How members are trained: by any Optax optimiser, or by Gauss-Newton steps for small data."""

from ntkgp.ensembles.trainers.augmentation import RandomCropsAndFlips as RandomCropsAndFlips
from ntkgp.ensembles.trainers.descent import Descent as Descent
from ntkgp.ensembles.trainers.gauss_newton import GaussNewton as GaussNewton
from ntkgp.ensembles.training import Trained as Trained
from ntkgp.ensembles.training import Trainer as Trainer
