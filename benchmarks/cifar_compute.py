"""What a CIFAR-10 network of one core learns in a given time: validation error by channels and epochs.

    python benchmarks/cifar_compute.py [--out runs/bench]

Each run is one member of a deep ensemble, a Myrtle-5, trained as by the experiment `cifar`: 45,000 images,
crops and flips, the learning rate warmed up, held, then cut at four fifths of the epochs. The error is that
of the 5,000 validation images, so that a preset may be chosen by it. The file is written after every run.
NTKGP_DATA or the cache must hold CIFAR-10 and SVHN.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common import Records, options_of, parsed, write
from ntkgp.data import Split
from ntkgp.experiments.images.cifar import FEW_STEPS, CifarConfig, load_cifar
from ntkgp.experiments.images.run import Stored, make_task, trained

CHOICE = {"method": "deep-ensemble", "scale": "matched", "w_var": 2.0, "kappa2_multiple": 1.0}


@dataclass(frozen=True)
class Sizes:
    runs: tuple[tuple[int, int], ...] = (
        (16, 4),
        (16, 10),
        (32, 2),
        (32, 4),
        (32, 8),
        (64, 2),
        (64, 4),
    )
    """Channels and epochs."""
    synthetic: int | None = None
    """That many images of noise in place of the real ones."""


TINY = Sizes(((2, 1), (3, 2)), synthetic=60)


def noise_images(n: int) -> Stored:
    rng = np.random.default_rng(0)
    images = Split(rng.integers(0, 256, (n, 32, 32, 3), np.uint8), np.arange(n) % 10)
    return images, images, images.x


def config_of(channels: int, epochs: int) -> CifarConfig:
    """Adam, which gets further in few epochs than the paper's SGD."""
    decay = max(1, round(0.8 * epochs))
    return CifarConfig(
        channels=channels, epochs=epochs, decay_epoch=decay, last_rate=0.0003, **FEW_STEPS
    )


def measured(config: CifarConfig, stored: Stored) -> dict[str, float]:
    """What one network takes, and how often it is wrong."""
    task = make_task(config, stored, seed=0)
    started = time.perf_counter()
    network, _ = trained(config, task, CHOICE, (range(1), 0), {"progress": False})
    seconds = time.perf_counter() - started
    guessed = network.outputs(task.validation.x).mean(axis=0).argmax(axis=1)
    return {
        "seconds": round(seconds, 1),
        "error %": round(100 * float(np.mean(guessed != task.validation.y)), 2),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    options = parsed(options_of(__doc__), arguments)
    sizes = TINY if options.tiny else Sizes()
    stored = noise_images(sizes.synthetic) if sizes.synthetic else load_cifar(CifarConfig())
    rows: Records = []
    for channels, epochs in sizes.runs:
        found = measured(config_of(channels, epochs), stored)
        rows.append({"channels": channels, "epochs": epochs} | found)
        write("cifar_compute", rows, sizes, options.out)


if __name__ == "__main__":
    main()
