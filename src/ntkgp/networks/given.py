"""Networks from the user: as such, from a function that makes one, or given again to load a file."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ntkgp.core.storage import WrongNetwork, is_storable, storable
from ntkgp.core.typing import Shape
from ntkgp.networks.protocol import Network


def users_network(network: Any, input_shape: Shape, output_dim: int) -> Network:
    """The user's network, or the one that the user's function makes for these shapes."""
    made = not isinstance(network, Network) and callable(network)
    try:
        net = network(input_shape, output_dim) if made else network
    except Exception as error:
        raise TypeError(
            "network could not be called as network(input_shape, output_dim) to make a Network: "
            f"{type(error).__name__}: {error}. A module of Flax or Equinox goes through "
            "ntkgp.adapters first, as in ntkgp.adapters.from_flax(module, input_shape)."
        ) from error
    if not isinstance(net, Network):
        raise TypeError(
            "network must be a Network, or a function (input_shape, output_dim) -> Network; "
            f"{'it returned' if made else 'got'} {type(net).__name__}. See ntkgp.adapters for "
            "networks of other libraries."
        )
    if net.input_shape != input_shape or net.output_dim != output_dim:
        raise ValueError(
            f"network must take inputs of shape {input_shape} and have {output_dim} outputs for "
            f"this data; it has {net.input_shape} and {net.output_dim}."
        )
    return net


@storable
@dataclass(frozen=True)
class GivenAgain:
    """Replaces, in a file, a network whose code cannot be stored; `load` must be given it again."""

    input_shape: Shape
    output_dim: int

    @classmethod
    def __from_store__(cls, stored: dict[str, Any], network: Any) -> Network:
        if network is None:
            raise WrongNetwork(
                "its network is not made of ntkgp's layers, so its code is not in the file: pass "
                "network=, the same as when the model was made."
            )
        return _fitting(network, **stored)


def for_file(net: Network) -> Network | GivenAgain:
    """The network itself if a file can hold it, else a `GivenAgain`."""
    return net if is_storable(net) else GivenAgain(net.input_shape, net.output_dim)


def check_given(net: Network, network: Any, what: Callable[[Any], Any]) -> None:
    """Refuse the network given to `load` if `what` of it is not that of the one in the file."""
    if network is None:
        return
    given = _fitting(network, net.input_shape, net.output_dim)
    if type(given) is not type(net) or what(given) != what(net):
        raise WrongNetwork(
            "network is not the one that was trained, which is in the file: leave it out."
        )


def _fitting(network: Any, input_shape: Shape, output_dim: int) -> Network:
    try:
        return users_network(network, input_shape, output_dim)
    except (TypeError, ValueError) as error:
        raise WrongNetwork(str(error)) from error
