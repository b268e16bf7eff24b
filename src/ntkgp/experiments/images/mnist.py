"""MNIST against NotMNIST (Figures 3 and 4, Appendix I.3), the exact NTKGP beside the ensembles."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from numpy.typing import NDArray

from ntkgp.data import Split, load
from ntkgp.ensembles.trainers import Descent, Trainer
from ntkgp.experiments.images.claims import OF_MNIST
from ntkgp.experiments.images.report import report
from ntkgp.experiments.images.run import CLASSES, OF_IMAGES, ImagesConfig, Stored, on_images
from ntkgp.networks.layered import LayeredNetwork
from ntkgp.networks.layers import Relu
from ntkgp.networks.ready_made import mlp


@dataclass(frozen=True)
class MnistConfig(ImagesConfig):
    """The paper's network and training."""

    pixels = 784
    standardise: str = "each"
    width: int = 200
    depth: int = 2

    def network(self, w_var: float) -> LayeredNetwork:
        return mlp(
            self.pixels,
            CLASSES,
            width=self.width,
            depth=self.depth,
            activation=Relu(),
            w_std=w_var**0.5,
            b_std=self.b_std,
        )

    def trainer(self, n: int, black: float) -> Trainer:
        import optax

        return Descent(optax.adam(self.learning_rate), self.epochs, self.batch_size)


def load_mnist(config: MnistConfig) -> Stored:
    digits, letters = load("mnist"), load("notmnist")

    def flat(images: NDArray[Any]) -> NDArray[Any]:
        return images.reshape(len(images), -1)

    train, test = (Split(flat(part.x), part.y) for part in (digits.train, digits.test))
    return train, test, flat(letters.test.x)


EACH_IMAGE = (
    '"Mean 0 and standard deviation 1 across flattened pixels" is read as each image by its own '
    "pixels."
)
MNIST = on_images(
    "mnist",
    "Figures 3 and 4: MNIST against NotMNIST",
    {
        "laptop": MnistConfig(repeats=2),
        "paper": MnistConfig(w_var_grid=(1.5, 2.0, 2.5), kappa2_grid=(0.5, 1.0, 1.5)),
    },
    load=load_mnist,
    report=partial(report, sets=("MNIST", "NotMNIST"), makers=OF_MNIST),
    needs=("mnist", "notmnist"),
    readings=(
        *OF_IMAGES,
        EACH_IMAGE,
        "The exact law predicts all test images, where the paper took half; there are 10,000 "
        "NotMNIST images here, and the ratio of the two sets enters every error above a confidence.",
    ),
)
