"""Classification by regression: target scale, temperature and probabilities, as the classifiers have them.

scikit-learn comes with the estimators, so they are imported when they are first needed.
"""

from typing import Any

from numpy.typing import NDArray

from ntkgp.ensembles.methods import METHODS
from ntkgp.laws.table import get_law
from ntkgp.networks.layered import LayeredNetwork


def ensemble_scale(net: LayeredNetwork, method: str, x: NDArray[Any]) -> float:
    """The base value of κ for the members of a method (Appendix H)."""
    from ntkgp.estimators.calibration import base_target_scale, initial_second_moment

    return base_target_scale(initial_second_moment(net, METHODS[method], x), net.output_dim)


def law_scale(net: LayeredNetwork, law: str, x: NDArray[Any]) -> float:
    """The base value of κ for an exact law."""
    from ntkgp.estimators.calibration import base_target_scale, mean_prior_var

    return base_target_scale(mean_prior_var(net, get_law(law), x), net.output_dim)


def calibrated(
    validation: NDArray[Any], labels: NDArray[Any], *others: NDArray[Any]
) -> tuple[float, list[NDArray[Any]]]:
    """The best temperature for validation logits (k, n, classes), and probabilities by it for others."""
    from ntkgp.estimators.calibration import best_temperature, mean_probabilities

    temperature = best_temperature(validation, labels)
    return temperature, [mean_probabilities(logits, temperature) for logits in others]
