"""Networks that are trained already, made Bayesian: ours beside laplace-torch's, and beside an ensemble.

    python benchmarks/after_training.py    # 3 splits of each; writes runs/bench/after_training.json

A Flax network is trained on tables, an Equinox network on scikit-learn's digits, both by Adam, up to the
step at which a tenth of the rows, held out, is predicted best. All models but the ensemble start from
that one network. "gap" leaves the middle third of a column out for testing. What has "held out" in its
name sets its noise, or the spread of its logits, by the rows held out; all else is chosen by marginal
likelihood. laplace-torch, if it is installed, gets the same network with the weights copied.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from numpy.typing import NDArray
from scipy import special
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import train_test_split

import ntkgp
from common import Records, run_and_write
from ntkgp import metrics
from ntkgp.data import load_letters
from ntkgp.networks.adapters import from_equinox, from_flax, from_trained
from ntkgp.predictive.calibration import best_noise_std

Predict = Callable[[NDArray[Any]], Any]
PARTS = {"last layer": "readout", "all layers": "all"}
LAPLACE_TORCH = {"last layer": "last_layer", "all layers": "all"}


@dataclass(frozen=True)
class Sizes:
    tables: tuple[str, ...] = ("diabetes", "energy", "energy, gap")
    seeds: int = 3
    digits: int = 1797
    width: int = 16
    steps: int = 2000
    members: int = 5
    ensembles: Mapping[str, int] = field(default_factory=dict)
    """What the ensemble of digits has other than by default."""
    peer_steps: int = 100
    """Of laplace-torch's search for the best marginal likelihood."""


TINY = Sizes(
    ("diabetes",),
    seeds=1,
    digits=100,
    width=2,
    steps=5,
    members=1,
    ensembles={"min_steps": 1, "min_epochs": 1},
    peer_steps=2,
)


class Rest(NamedTuple):
    """Rows to train on, held out and to test on."""

    x: NDArray[Any]
    y: NDArray[Any]
    x_held: NDArray[Any]
    y_held: NDArray[Any]
    x_test: NDArray[Any]
    y_test: NDArray[Any]


def main(arguments: Sequence[str] | None = None) -> None:
    run_and_write("after_training", __doc__, run, Sizes(), TINY, arguments)


def run(sizes: Sizes) -> Records:
    return [
        *(row for table in sizes.tables for row in summed_up(table, of_table(sizes, table))),
        *summed_up("digits", of_digits(sizes)),
    ]


def summed_up(data: str, records: Iterator[dict[str, Any]]) -> Records:
    """The mean over splits of every score, and the standard error of the NLL."""
    runs, rows = [], []
    for record in records:
        runs.append(record)
        print(data, record, flush=True)
    for model in dict.fromkeys(record["model"] for record in runs):
        own = [record for record in runs if record["model"] == model]
        nll = np.array([record["NLL"] for record in own])
        mean = {
            name: "" if own[0][name] == "" else round(float(np.mean([r[name] for r in own])), 4)
            for name in own[0].keys() - {"model"}
        }
        rows.append(
            {
                "data": data,
                "model": model,
                "NLL": mean["NLL"],
                "±": round(float(nll.std(ddof=1) / len(nll) ** 0.5), 4) if len(nll) > 1 else "",
                "RMSE or error": mean["error"],
                "90 % interval covers": mean["coverage"],
                "ECE": mean["ECE"],
                "AUROC of letters": mean["AUROC"],
                "seconds": mean["seconds"],
            }
        )
    return rows


# Tables


class Mlp(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.tanh(nn.Dense(self.width)(x))
        x = nn.tanh(nn.Dense(self.width)(x))
        return nn.Dense(1)(x)


def rows_of(table: str, seed: int) -> Rest:
    """Standardised by the training rows."""
    if table == "diabetes":
        x, y = load_diabetes(return_X_y=True)
    else:
        whole = ntkgp.data.load("uci/energy").all
        x, y = (
            np.asarray(whole.x, float),
            np.asarray(whole.y, float).reshape(len(whole.x), -1)[:, 0],
        )
    order = np.random.default_rng(seed).permutation(len(x))
    if table.endswith("gap"):
        ranks = np.argsort(np.argsort(x[order, seed % x.shape[1]], kind="stable"))
        inside = (ranks >= len(x) / 3) & (ranks < 2 * len(x) / 3)
        test, others = order[inside], order[~inside]
    else:
        test, others = np.split(order, [len(x) // 10])
    held, train = np.split(others, [len(x) // 10])
    centre, unit = x[train].mean(axis=0), x[train].std(axis=0) + 1e-12
    middle, size = y[train].mean(), y[train].std()
    parts = [((x[i] - centre) / unit, (y[i] - middle)[:, None] / size) for i in (train, held, test)]
    return Rest(*(array for pair in parts for array in pair))


def of_table(sizes: Sizes, table: str) -> Iterator[dict[str, Any]]:
    for seed in range(sizes.seeds):
        rows = rows_of(table, seed)
        module = Mlp(sizes.width)
        variables = module.init(jax.random.key(seed), rows.x[:1])

        def loss(variables: Any, x: Any, y: Any, module: Any = module) -> Any:
            return jnp.mean((module.apply(variables, x) - y) ** 2)

        variables = descended(loss, variables, rows, sizes.steps)
        for name, make in table_models(sizes, seed, rows, module, variables).items():
            started = time.perf_counter()
            predicted = make()(rows.x_test)
            seconds = time.perf_counter() - started
            low, high = predicted.interval(0.9)
            yield {
                "model": name,
                "NLL": metrics.gaussian_nll(rows.y_test, predicted.mean, predicted.std),
                "error": metrics.rmse(rows.y_test, predicted.mean),
                "coverage": metrics.interval_coverage(rows.y_test, low, high),
                "ECE": "",
                "AUROC": "",
                "seconds": seconds,
            }


def table_models(
    sizes: Sizes, seed: int, rows: Rest, module: Any, variables: Any
) -> dict[str, Callable[[], Predict]]:
    """What each model needs to predict, made when it is called."""
    net, theta = from_trained(module, rows.x.shape[1:], variables)

    def values(x: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(module.apply(variables, x), np.float64)

    def alone() -> Predict:
        noise = np.sqrt(np.mean((rows.y_held - values(rows.x_held)) ** 2))
        return lambda x: ntkgp.Normal(values(x), np.zeros((len(x), 1)), noise**2)

    def ours(part: Any, held_out: Any = None) -> Predict:
        return ntkgp.linearise(net, theta, rows.x, rows.y, part=part, held_out=held_out).predict

    def ensemble() -> Predict:
        prior = from_flax(module, rows.x.shape[1:], prior_var={"*bias": 0.1**2})
        noise = ntkgp.linearise(net, theta, rows.x, rows.y).noise_std
        trainer = ntkgp.Descent(optax.adam(1e-2), epochs=sizes.steps, decays=True)
        members = ntkgp.fit(
            prior,
            rows.x,
            rows.y,
            members=sizes.members,
            noise_std=max(noise, 0.05),
            trainer=trainer,
            seed=seed,
        )
        held = members.predict(rows.x_held).moment_matched()
        observed = best_noise_std(held, rows.y_held, max(noise, 0.05))

        def predict(x: NDArray[Any]) -> ntkgp.Normal:
            return replace(members.predict(x).moment_matched(), noise_var=observed**2)

        return predict

    held_out = (rows.x_held, rows.y_held)
    models = {"network alone, held out": alone}
    for words, part in PARTS.items():
        models[f"linearise, {words}"] = partial(ours, part)
        models[f"linearise, {words}, held out"] = partial(ours, part, held_out)
    layers = [
        (np.asarray(variables["params"][name]["kernel"]).T, variables["params"][name]["bias"])
        for name in ("Dense_0", "Dense_1", "Dense_2")
    ]
    models |= laplace_torch(sizes, layers, rows, "regression")
    return models | {f"NTKGP-param, {sizes.members} members, held out": ensemble}


# Digits


def of_digits(sizes: Sizes) -> Iterator[dict[str, Any]]:
    x, labels = (part[: sizes.digits] for part in load_digits(return_X_y=True))
    for seed in range(sizes.seeds):
        split = partial(train_test_split, random_state=seed)
        x_all, x_test, y_all, y_test = split(x / 16, labels, test_size=1 / 3, stratify=labels)
        train, held = split(np.arange(len(x_all)), test_size=0.1)
        rows = Rest(x_all[train], y_all[train], x_all[held], y_all[held], x_test, y_test)
        module = mlp_of(sizes.width, jax.random.key(seed))
        params, rest = eqx.partition(module, eqx.is_inexact_array)

        def loss(params: Any, x: Any, y: Any, rest: Any = rest) -> Any:
            logits = jax.vmap(eqx.combine(params, rest))(jnp.asarray(x))
            return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

        module = eqx.combine(descended(loss, params, rows, sizes.steps), rest)
        letters = load_letters().x / 16
        for name, make in digit_models(sizes, seed, rows, module).items():
            started = time.perf_counter()
            predict = make()
            inside, outside = predict(rows.x_test), predict(letters)
            seconds = time.perf_counter() - started
            entropies = (metrics.predictive_entropy(p) for p in (inside, outside))
            yield {
                "model": name,
                "NLL": metrics.classification_nll(y_test, inside),
                "error": 1 - metrics.accuracy(y_test, inside),
                "coverage": "",
                "ECE": metrics.expected_calibration_error(y_test, inside),
                "AUROC": metrics.auroc(*entropies),
                "seconds": seconds,
            }


def mlp_of(width: int, key: Any) -> Any:
    return eqx.nn.MLP(64, 10, width, depth=1, activation=jnp.tanh, key=key)


def digit_models(
    sizes: Sizes, seed: int, rows: Rest, module: Any
) -> dict[str, Callable[[], Predict]]:
    net, theta = from_trained(module, (64,))

    def alone() -> Predict:
        return lambda x: special.softmax(
            np.asarray(jax.vmap(module)(jnp.asarray(x)), np.float64), axis=1
        )

    def ours(part: Any, held_out: Any = None) -> Predict:
        return ntkgp.linearise(
            net, theta, rows.x, rows.y, likelihood="categorical", part=part, held_out=held_out
        ).probabilities

    def ensemble() -> Predict:
        def network(input_shape: Any, outputs: int) -> Any:
            return from_equinox(partial(mlp_of, sizes.width), input_shape)

        model = ntkgp.EnsembleClassifier(
            network=network, members=sizes.members, random_state=seed, **sizes.ensembles
        )
        x, y = (np.concatenate(pair) for pair in ((rows.x, rows.x_held), (rows.y, rows.y_held)))
        return model.fit(x, y).predict_proba

    models = {"network alone": alone}
    for words, part in PARTS.items():
        models[f"linearise, {words}"] = partial(ours, part)
        models[f"linearise, {words}, held out"] = partial(ours, part, (rows.x_held, rows.y_held))
    layers = [(np.asarray(layer.weight), np.asarray(layer.bias)) for layer in module.layers]
    models |= laplace_torch(sizes, layers, rows, "classification")
    return models | {f"NTKGP-param, {sizes.members} members, held out": ensemble}


# Both


def descended(loss: Callable[..., Any], params: Any, rows: Rest, steps: int) -> Any:
    """By Adam on all rows at once, the rate going to 0; where the loss of rows held out is least."""
    optimiser = optax.adam(optax.cosine_decay_schedule(1e-2, steps))

    def step(_: Any, carried: Any) -> Any:
        params, state, least, best = carried
        updates, state = optimiser.update(jax.grad(loss)(params, rows.x, rows.y), state)
        params = optax.apply_updates(params, updates)
        held_out = loss(params, rows.x_held, rows.y_held)
        best = jax.tree.map(lambda new, old: jnp.where(held_out < least, new, old), params, best)
        return params, state, jnp.minimum(held_out, least), best

    start = (params, optimiser.init(params), jnp.inf, params)
    return jax.jit(lambda start: jax.lax.fori_loop(0, steps, step, start))(start)[3]


def laplace_torch(
    sizes: Sizes, layers: Sequence[Any], rows: Rest, likelihood: str
) -> dict[str, Callable[[], Predict]]:
    """laplace-torch's two, with its own choice of prior and noise; none if it is not installed."""
    try:
        import laplace
    except ImportError:
        print("laplace-torch is not installed: left out", flush=True)
        return {}
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    def ported() -> Any:
        parts: list[Any] = []
        for weight, bias in layers:
            linear = torch.nn.Linear(weight.shape[1], weight.shape[0]).double()
            linear.weight.data = torch.tensor(np.array(weight, np.float64, order="C"))
            linear.bias.data = torch.tensor(np.array(bias, np.float64))
            parts += [linear, torch.nn.Tanh()]
        return torch.nn.Sequential(*parts[:-1])

    def fitted(subset: str) -> Predict:
        model = laplace.Laplace(
            ported(), likelihood, subset_of_weights=subset, hessian_structure="full"
        )
        data = TensorDataset(torch.tensor(rows.x), torch.tensor(rows.y))
        model.fit(DataLoader(data, batch_size=128))
        logs = torch.zeros(2, dtype=torch.float64, requires_grad=True)  # of precision and noise
        optimiser = torch.optim.Adam([logs], lr=1e-1)
        for _ in range(sizes.peer_steps):
            optimiser.zero_grad()
            noise = [logs[1].exp()] if likelihood == "regression" else []
            loss = -model.log_marginal_likelihood(logs[0].exp(), *noise)
            loss.backward()
            optimiser.step()

        def predict(x: NDArray[Any]) -> Any:
            if likelihood == "classification":
                return model(torch.tensor(x), link_approx="probit").detach().numpy()
            mean, var = model(torch.tensor(x))
            noise_var = float(logs[1].exp().detach()) ** 2
            return ntkgp.Normal(mean.detach().numpy(), var.detach().numpy()[:, :, 0], noise_var)

        return predict

    return {
        f"laplace-torch, {words}": partial(fitted, subset)
        for words, subset in LAPLACE_TORCH.items()
    }


if __name__ == "__main__":
    main()
