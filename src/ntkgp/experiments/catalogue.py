"""The table of experiments: what `ntkgp reproduce` runs, in this order for "all", and `report` draws."""

from ntkgp.experiments.costs.run import COSTS
from ntkgp.experiments.experiment import Experiment
from ntkgp.experiments.flights.run import FLIGHTS
from ntkgp.experiments.images.cifar import CIFAR
from ntkgp.experiments.images.digits import DIGITS
from ntkgp.experiments.images.mnist import MNIST
from ntkgp.experiments.laws import LAWS
from ntkgp.experiments.toy.run import TOY
from ntkgp.experiments.widths import WIDTHS

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (LAWS, COSTS, TOY, WIDTHS, DIGITS, MNIST, FLIGHTS, CIFAR)
}
