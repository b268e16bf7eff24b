"""Estimators as files: constructor arguments that are data, and what `fit` learned."""

import os
from typing import Any, Self, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ntkgp.core import storage
from ntkgp.core.hints import misfit
from ntkgp.networks.protocol import Network


class SavedEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator that `ntkgp.load` reads again."""

    network: Any

    def fitted_network(self) -> Network:
        """The network that was trained, or whose law was computed."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model into one file, safetensors, for `ntkgp.load`.

        Arguments that are code, such as a network's factory or a trainer, are not saved, nor are
        `checkpoint` and `backend`.
        """
        check_is_fitted(self)
        storage.save(self, path)

    def __to_store__(self) -> dict[str, Any]:
        fitted = {name: value for name, value in vars(self).items() if _is_fitted_name(name)}
        return {"params": self._plain_params(), "fitted": fitted}

    @classmethod
    def __from_store__(cls, stored: dict[str, Any], network: Any) -> Self:
        params, fitted = stored["params"], stored["fitted"]
        if reason := misfit(cls.__init__, params) or misfit(cls, fitted):
            raise ValueError(f"the {cls.__name__} has {reason}")
        model = cls(**params)
        for name, value in fitted.items():
            if not _is_fitted_name(name):
                raise ValueError(f"{name!r} is no name of what a model learns.")
            setattr(model, name, value)
        needed = filter(_is_fitted_name, get_type_hints(cls))
        if missing := [name for name in needed if not hasattr(model, name)]:
            raise ValueError(f"the {cls.__name__} lacks {', '.join(missing)}.")
        if network is not None:
            model.network = network
        return model

    def _plain_params(self) -> dict[str, Any]:
        """Constructor arguments that are data; the network itself in place of a function that made it."""
        params = self.get_params(deep=False)
        network = params.get("network")
        if network is not None and not storage.is_storable(network):
            net = self.fitted_network()
            params["network"] = net if storage.is_storable(net) else None
        for name in ("trainer", "checkpoint", "backend"):  # how it was trained, not what it is
            params.pop(name, None)
        if not isinstance(params["random_state"], (int, np.integer)):
            params["random_state"] = None
        return params


def _is_fitted_name(name: str) -> bool:
    """Whether scikit-learn would take the name for something that `fit` learns."""
    return name.endswith("_") and not name.startswith("_")
