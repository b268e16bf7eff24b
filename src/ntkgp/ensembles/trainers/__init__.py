"""How members are trained: by any Optax optimiser, or by Gauss-Newton steps for small data."""

from ntkgp.ensembles.trainers.augmentation import RandomCropsAndFlips as RandomCropsAndFlips
from ntkgp.ensembles.trainers.default import decaying_adam as decaying_adam
from ntkgp.ensembles.trainers.default import default_trainer as default_trainer
from ntkgp.ensembles.trainers.descent import Descent as Descent
from ntkgp.ensembles.trainers.gauss_newton import GaussNewton as GaussNewton
from ntkgp.ensembles.trainers.protocol import Trainer as Trainer
