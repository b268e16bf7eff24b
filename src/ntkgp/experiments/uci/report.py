"""The tables of UCI regression sets."""

from ntkgp.experiments.results import Results, found
from ntkgp.report.intervals import interval
from ntkgp.report.section import Section
from ntkgp.report.tables import table

NOTE = (
    "±: 95 % confidence interval over splits (their number). * where the mean, rounded as published, is "
    "below the published figure of deep ensembles (Lakshminarayanan et al., 2017)."
)


def report(results: Results) -> Section:
    """Tables of NLL and RMSE; there is no figure."""
    tables = [score_table(results, score, i) for i, score in enumerate(("nll", "rmse"))]
    return Section("\n\n".join(tables) + f"\n{NOTE}")


def score_table(results: Results, score: str, index: int) -> str:
    models = dict.fromkeys(run["model"] for run in results["runs"])
    return table(
        [
            {score.upper(): name, "published": f"{published[index]:.2f}"}
            | {model: cell(results, name, model, score, published[index]) for model in models}
            for name, published in results["published"].items()
            if found(results["runs"], {"set": name})
        ]
    )


def cell(results: Results, name: str, model: str, score: str, published: float) -> str:
    values = [run[score] for run in found(results["runs"], {"set": name, "model": model})]
    if not values:
        return ""
    digits = 5 if name.startswith("naval") and score == "rmse" else 3
    own = interval(values)
    star = "*" if round(own.mean, 2) < published else ""
    return f"{own.shown(digits)} ({len(values)}){star}"
