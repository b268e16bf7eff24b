"""MNIST against NotMNIST (Figures 3 and 4, Appendix I.3), the exact NTKGP beside the ensembles."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ntkgp.data import Split, load
from ntkgp.ensembles.trainers import Descent, Trainer
from ntkgp.experiments.images import EXACT, ImagesConfig, run_images
from ntkgp.kernels.solvers import Solver
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

    def load(self) -> tuple[Split, Split, NDArray[Any]]:
        digits, letters = load("mnist"), load("notmnist")

        def flat(images: NDArray[Any]) -> NDArray[Any]:
            return images.reshape(len(images), -1)

        train, test = (Split(flat(part.x), part.y) for part in (digits.train, digits.test))
        return train, test, flat(letters.test.x)

    def network(self, w_var: float) -> LayeredNetwork:
        return mlp(
            self.pixels,
            10,
            width=self.width,
            depth=self.depth,
            activation=Relu(),
            w_std=w_var**0.5,
            b_std=self.b_std,
        )

    def trainer(self, n: int, black: float) -> Trainer:
        import optax

        return Descent(optax.adam(self.learning_rate), self.epochs, self.batch_size)


PRESETS = {
    "laptop": MnistConfig(repeats=2),
    "paper": MnistConfig(w_var_grid=(1.5, 2.0, 2.5), kappa2_grid=(0.5, 1.0, 1.5)),
}


def run(
    config: MnistConfig,
    out: Path,
    *,
    progress: bool = True,
    say: Callable[[str], None] = print,
    solver: Solver = EXACT,
) -> Path:
    """Compute what is not yet in the results file, and return its path."""
    return run_images("mnist", config, out, progress, say, solver)
