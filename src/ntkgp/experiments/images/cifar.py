"""CIFAR-10 against SVHN (Figures 5, 6 and 8, Appendix I.4): Myrtle networks."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ntkgp.data import load
from ntkgp.ensembles.trainers import Descent, RandomCropsAndFlips, Trainer
from ntkgp.experiments.checks import check_known
from ntkgp.experiments.images.claims import OF_CIFAR
from ntkgp.experiments.images.report import report
from ntkgp.experiments.images.run import CLASSES, OF_IMAGES, ImagesConfig, Stored, on_images
from ntkgp.networks.layered import LayeredNetwork
from ntkgp.networks.layers import AvgPool, Flatten, GlobalAvgPool
from ntkgp.networks.ready_made import myrtle

if TYPE_CHECKING:
    import optax


@dataclass(frozen=True)
class CifarConfig(ImagesConfig):
    """The paper's networks and training."""

    target_scales: tuple[str, ...] = ("matched", "fixed")
    analytic: bool = False
    depth: int = 10
    channels: int = 100
    b_std: float = 0.01
    epochs: int = 100
    batch_size: int = 125
    optimizer: str = "sgd"
    """Or "adam", which gets further in few steps."""
    momentum: float = 0.9
    first_rate: float = 0.0001
    """The first learning rate; it rises linearly from here during the warm-up."""
    warmup_epochs: int = 5
    decay_epoch: int = 80
    """The epoch from which the learning rate is `last_rate`."""
    last_rate: float = 0.0002
    crop_pad: int = 4
    """The most pixels by which random crops move an image; 0 for neither crops nor flips."""
    may_be_zero = (*ImagesConfig.may_be_zero, "warmup_epochs", "crop_pad")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known("optimizer", [self.optimizer], ("sgd", "adam"))
        if self.crop_pad and self.standardise == "each":
            raise ValueError(
                "crops are padded with black, which standardise=each makes another value in every "
                "image; take standardise=all, or crop_pad=0."
            )

    def network(self, w_var: float) -> LayeredNetwork:
        return myrtle(
            (32, 32, 3),
            CLASSES,
            depth=self.depth,
            channels=self.channels,
            w_std=w_var**0.5,
            b_std=self.b_std,
        )

    def law_network(self, w_var: float) -> LayeredNetwork:
        """The same convolutions without pooling, with which the kernel takes hundreds of times as long."""
        net = self.network(w_var)
        pooling = (AvgPool, GlobalAvgPool)
        kept = [layer for layer in net.body.layers if not isinstance(layer, pooling)]
        return LayeredNetwork(net.input_shape, [*kept, Flatten()], net.last)

    def schedule(self, n: int) -> "optax.Schedule":
        """The learning rate at each step, with n training images."""
        import optax

        steps = max(1, n // self.batch_size)
        rise = optax.linear_schedule(
            self.first_rate, self.learning_rate, self.warmup_epochs * steps
        )
        parts = [rise, *map(optax.constant_schedule, (self.learning_rate, self.last_rate))]
        return optax.join_schedules(parts, [self.warmup_epochs * steps, self.decay_epoch * steps])

    def trainer(self, n: int, black: float) -> Trainer:
        import optax

        rate = self.schedule(n)
        optimizer = optax.adam(rate) if self.optimizer == "adam" else optax.sgd(rate, self.momentum)
        augment = RandomCropsAndFlips(self.crop_pad, black) if self.crop_pad else None
        return Descent(optimizer, self.epochs, self.batch_size, augment=augment)


def load_cifar(config: CifarConfig) -> Stored:
    things, numbers = load("cifar10"), load("svhn")
    return things.train, things.test, numbers.test.x


FEW_STEPS: dict[str, Any] = {
    **{"depth": 5, "members": 3, "batch_size": 50, "warmup_epochs": 1},
    **{"optimizer": "adam", "learning_rate": 0.003, "first_rate": 0.0003},
}
"""A network and training that get somewhere in a few epochs of a CPU."""
CIFAR = on_images(
    "cifar",
    "Figures 5, 6 and 8: CIFAR-10 against SVHN",
    {
        "small": CifarConfig(
            channels=16,
            repeats=2,
            epochs=6,
            decay_epoch=5,
            last_rate=0.0006,
            crop_pad=0,
            max_train=6_000,
            max_test=2_000,
            analytic=True,
            max_law=3_000,
            **FEW_STEPS,
        ),
        "laptop": CifarConfig(
            channels=32,
            repeats=3,
            epochs=7,
            decay_epoch=6,
            last_rate=0.0003,
            target_scales=("matched",),
            **FEW_STEPS,
        ),
        "paper": CifarConfig(w_var_grid=(1.5, 2.0, 2.5), kappa2_grid=(0.5, 1.0, 1.5)),
    },
    load=load_cifar,
    report=partial(report, sets=("CIFAR-10", "SVHN"), makers=OF_CIFAR),
    needs=("cifar10", "svhn"),
    readings=(
        *OF_IMAGES,
        "Images are standardised by one mean and one deviation of all training pixels.",
        "ζ₀ is a mean over 16 draws and 256 training images.",
        "One κ for all methods is √(C mean Θ), the base value for NTKGP-param; Appendix H prints "
        "mean Θ for it.",
        "The learning rate rises with every step of its first epochs.",
        "Random crops move an image by up to 4 pixels.",
        "The exact law is that of the convolutions without pooling, flattened.",
    ),
)
