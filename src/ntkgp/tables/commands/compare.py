"""`ntkgp compare`: methods, exact laws and simple models on the same rows, and which to choose."""

import argparse
from dataclasses import replace
from inspect import signature
from time import perf_counter

from ntkgp.core.talk import Talk
from ntkgp.estimators.gp_classifier import GPClassifier
from ntkgp.estimators.gp_regressor import GPRegressor
from ntkgp.report.tables import table as as_text
from ntkgp.tables.choice import Choice
from ntkgp.tables.commands import COMPARED, EXACT, options
from ntkgp.tables.commands.fit import fitted
from ntkgp.tables.measure import score_model, score_simple
from ntkgp.tables.scores import Scored, difference, shown


def run(arguments: argparse.Namespace) -> int:
    talk = Talk("compare", arguments.json)
    most = options.rows_of(arguments.rows)
    data = options.read_labelled(arguments, talk)
    parts = options.parts_of(arguments, data)
    train = parts.train[options.drawn(len(parts.train), most, arguments.seed)]
    talk.say(f"trains on {len(train):,} rows; {len(parts.held_out):,} are held out, {parts.how}.")
    talk.record(trained_on=len(train), held_out=len(parts.held_out), how=parts.how)
    scored: dict[str, Scored] = {}
    features = None
    rows = data.table.take(parts.held_out)
    for name in arguments.method or COMPARED:
        started = perf_counter()
        model = fitted(_choice(name, arguments), data, train, talk, features)
        features = model.features_
        own = score_model(model, rows, data.y[parts.held_out])
        scored[name] = own._replace(values=own.values | {"seconds": perf_counter() - started})
    ours = list(scored)
    simple = score_simple(
        model.features_, data.table, data.y, train, parts.held_out, arguments.seed
    )
    for name, of in simple.items():
        scored[name] = of._replace(values=of.values | {"seconds": float("nan")})
    talk.say()
    ordered = sorted(scored, key=lambda name: scored[name].values["nll"])
    talk.say(as_text([shown(name, scored[name].values) for name in ordered]))
    words = advice(scored, ours)
    talk.say()
    talk.say(words)
    talk.record(scores={name: scored[name].values for name in ordered}, advice=words)
    talk.finish()
    return 0


def _choice(name: str, arguments: argparse.Namespace) -> Choice:
    """Members and settings are those of ensembles; an exact law takes what it knows of them."""
    law = name.removeprefix(EXACT) if name.startswith(EXACT) else None
    if law is None:
        return options.choice_of(arguments, method=name)
    choice = options.choice_of(arguments, method="ntkgp-param", law=law, members=None)
    known = signature(GPRegressor).parameters.keys() | signature(GPClassifier).parameters.keys()
    return replace(choice, settings={k: v for k, v in choice.settings.items() if k in known})


def advice(scored: dict[str, Scored], ours: list[str]) -> str:
    """The quickest of ours that is level with the best of them, and whether a simple model is as good."""
    best = min(ours, key=lambda name: scored[name].values["nll"])
    level = [n for n in ours if difference(scored[n], scored[best]).verdict == "level"]
    chosen = min(level, key=lambda name: scored[name].values["seconds"])
    how = (
        f"--law {chosen.removeprefix(EXACT)}" if chosen.startswith(EXACT) else f"--method {chosen}"
    )
    why = (
        f"the likeliest on rows held out, NLL {scored[best].values['nll']:.3f}"
        if chosen == best
        else f"level with {best}, within two standard errors of NLL, and quicker"
    )
    simple = [name for name in scored if name not in ours]
    rival = min(simple, key=lambda name: scored[name].values["nll"])
    apart = difference(scored[chosen], scored[rival])
    more = {
        "better": f"It is likelier than {rival} by {-apart.mean:.3f} ± {2 * apart.error:.3f}.",
        "level": f"But {rival} is level with it: take that if only the mean matters.",
        "worse": f"But {rival} is likelier by {apart.mean:.3f} ± {2 * apart.error:.3f}: take that.",
    }[apart.verdict]
    return f"choose ntkgp fit … {how}: {why}. {more}"
