"""fit, predict, evaluate, compare and inspect, from files to files."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from examples import QUICK, rents
from scipy import stats

import ntkgp
from ntkgp.cli import main, parser
from ntkgp.core.completion import SHELLS, script
from ntkgp.predictive.distributions import Normal
from ntkgp.tables import delimited, evaluation, files
from ntkgp.tables.baselines import simple_classifiers, simple_regressors
from ntkgp.tables.choice import Choice
from ntkgp.tables.commands.options import known, settings_of
from ntkgp.tables.scores import score_numbers
from ntkgp.tables.splits import split
from ntkgp.tables.targets import class_names, classes_like, task_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table, a model of numbers and one of classes."""
    folder = tmp_path_factory.mktemp("tables")
    arrow_csv.write_csv(rents(80), folder / "rents.csv")
    arrow_csv.write_csv(rents(50, seed=1), folder / "new.csv")
    for target, other in (("rent", "dear"), ("dear", "rent")):
        settings = QUICK if target == "rent" else ["--law", "ntkgp", "--set", "noise_std=0.1"]
        arguments = ["--target", target, "--drop", other, "-o", str(folder / target), *settings]
        assert main(["fit", str(folder / "rents.csv"), *arguments, "--quiet"]) == 0
    return folder


def as_json(capsys, *arguments):
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_fit_says_what_it_did_beside_simple_models(folder, capsys, tmp_path):
    arguments = ["--target", "rent", "--drop", "dear", "-o", tmp_path / "model", *QUICK]
    facts = as_json(capsys, "fit", folder / "rents.csv", *arguments)
    assert facts["task"] == "regression"
    assert (facts["trained_on"], facts["held_out"]) == (64, 16)
    assert set(facts["left_out"]) == {"id", "country", "dear"}
    assert list(facts["scores"]) == [
        "exact ntkgp",
        "mean",
        "ridge regression",
        "histogram boosting",
    ]
    ours = facts["scores"]["exact ntkgp"]
    assert list(ours) == [
        "rmse", "r2", "nll", "crps", "coverage_50", "coverage_90", "coverage_95", "ece",
    ]  # fmt: skip
    model = ntkgp.load(tmp_path / "model")
    assert model.summary_["scores"]["exact ntkgp"] == ours
    assert main(["fit", str(folder / "rents.csv"), *map(str, arguments), "--refit"]) == 0
    assert "fitted to 80 rows, those held out among them" in capsys.readouterr().out
    assert len(ntkgp.load(tmp_path / "model").estimator_.law_.x) == 80
    assert main(["inspect", str(tmp_path / "model")]) == 0
    assert "then to 80 of all rows" in capsys.readouterr().out


def test_predictions_of_a_file_are_those_of_a_frame(folder, capsys, tmp_path, monkeypatch):
    """Batch by batch, from CSV and Parquet, to CSV and Parquet, in the order of the rows."""
    monkeypatch.setattr(files, "BATCH_ROWS", 16)
    table = rents(50, seed=1)
    pq.write_table(table, tmp_path / "new.parquet", row_group_size=20)
    expected = pa.table(ntkgp.load(folder / "rent").predict_table(table, interval=0.9))
    sources = (folder / "new.csv", tmp_path / "new.parquet")
    for source, out in zip(sources, ("out.csv", "out.parquet"), strict=True):
        options = ["-o", tmp_path / out, "--keep", "id", "--interval", "0.9", "--quiet"]
        facts = as_json(capsys, "predict", folder / "rent", source, *options)
        assert facts["rows"] == 50
        found = files.TableFile(tmp_path / out).read()
        assert found.column_names == ["id", *expected.column_names]
        assert found["id"].to_pylist() == list(range(50))
        for name in expected.column_names:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)
    assert facts["novel_rows"] == np.sum(expected["novelty"].to_numpy() > 1)


def test_predictions_of_classes(folder, capsys, tmp_path):
    out = tmp_path / "out.tsv.gz"
    as_json(capsys, "predict", folder / "dear", folder / "new.csv", "-o", out)
    found = files.TableFile(out).read()
    assert found.column_names == ["class", "p_cheap", "p_dear", "disagreement", "novelty"]
    assert np.mean(np.array(found["class"]) == np.array(rents(50, seed=1)["dear"])) > 0.7


BAD = {
    "a column is missing": (lambda t: t.drop_columns(["size"]), "the model needs column 'size'"),
    "another type": (
        lambda t: t.set_column(1, "size", pa.array(["1"] * 40 + ["big"] * 10)),
        "line 42: column 'size' has numbers, and here 'big'",
    ),
    "no date": (
        lambda t: t.set_column(4, "listed", pa.array(["soon"] * 50)),
        "column 'listed' has dates, and here 'soon'",
    ),
    "no rows": (lambda t: t.slice(0, 0), "has a header and no rows"),
}


@pytest.mark.parametrize("case", BAD)
def test_predict_refuses_what_it_cannot_use_and_leaves_nothing(case, folder, capsys, tmp_path):
    change, message = BAD[case]
    arrow_csv.write_csv(change(rents(50)), tmp_path / "bad.csv")
    out = tmp_path / "out.csv"
    assert main(["predict", str(folder / "rent"), str(tmp_path / "bad.csv"), "-o", str(out)]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "bad.csv" in error
    assert len(error.splitlines()) == 1
    assert [child.name for child in tmp_path.iterdir()] == ["bad.csv"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["-o", "out.xlsx"], "must end in one of .csv"),
        (["-o", "new.csv"], "is the file to read"),
        (["-o", "out.csv", "--interval", "95"], "between 0 and 1"),
        (["-o", "out.csv", "--keep", "nothing"], "--keep needs column 'nothing'"),
    ],
)
def test_predict_refuses_impossible_settings(more, message, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    assert main(["predict", "rent", "new.csv", *more, "--quiet"]) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "out.csv").exists()


def test_other_models_are_refused_in_words(tmp_path, capsys):
    x = np.linspace(-1, 1, 5)[:, None]
    ntkgp.condition(ntkgp.mlp(1), x, x).save(tmp_path / "law")
    assert main(["inspect", str(tmp_path / "law")]) == 2
    assert "ExactLaw, which knows no columns" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path / "none")]) == 2


@pytest.mark.parametrize("target", ["rent", "dear"])
def test_evaluate_scores_and_draws_a_page(target, folder, capsys, tmp_path):
    table = rents(50, seed=1)
    town = pa.array(["<script>alert(1)</script>", *table["town"].to_pylist()[1:]])
    arrow_csv.write_csv(table.set_column(2, "town", town), tmp_path / "new.csv")
    page = tmp_path / "page.html"
    facts = as_json(capsys, "evaluate", folder / target, tmp_path / "new.csv", "-o", page)
    assert facts["rows"] == 50
    model = ntkgp.load(folder / target)
    if target == "rent":
        predicted = model.predict_dist(table.set_column(2, "town", town))
        expected = score_numbers(table["rent"].to_numpy(), predicted).values
        assert facts["scores"] == pytest.approx(expected, rel=1e-6)
    text = page.read_text()
    assert "<script" not in text
    assert "Largest surprises" in text
    assert text.count("<img") == (4 if target == "rent" else 2)
    assert not re.search(r'(src|href)="(?!data:)', text)  # nothing from elsewhere


def test_words_from_data_are_escaped(tmp_path, capsys):
    n = 40
    table = pa.table(
        {"<b>a</b>": np.arange(n) % 5 + 0.5, "y & z": [i % 5 + 0.01 * i for i in range(n)]}
    )
    arrow_csv.write_csv(table, tmp_path / "t.csv")
    fit = ["fit", str(tmp_path / "t.csv"), "--target", "y & z", "-o", str(tmp_path / "m"), *QUICK]
    assert main(fit) == 0
    page = tmp_path / "p.html"
    assert main(["evaluate", str(tmp_path / "m"), str(tmp_path / "t.csv"), "-o", str(page)]) == 0
    text = page.read_text()
    assert "<b>" not in text
    assert "&lt;b&gt;a&lt;/b&gt;" in text
    assert "y &amp; z" in text


@pytest.mark.slow
def test_evaluate_knows_whole_number_classes_that_a_file_has_as_doubles(capsys, tmp_path):
    x = np.arange(60) % 10 + 0.5
    pq.write_table(pa.table({"x": x, "y": (x > 5).astype(int)}), tmp_path / "t.parquet")
    pq.write_table(pa.table({"x": x, "y": (x > 5).astype(float)}), tmp_path / "new.parquet")
    settings = ["--law", "ntkgp", "--set", "noise_std=0.1", "--quiet"]
    model, page = tmp_path / "m", tmp_path / "p.html"
    as_json(capsys, "fit", tmp_path / "t.parquet", "--target", "y", "-o", model, *settings)
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "_errors_above", lambda _, right: seen.append(right) or "")
        as_json(capsys, "evaluate", model, tmp_path / "new.parquet", "-o", page, "--rows", "all")
    assert np.mean(seen[0]) > 0.9


@pytest.mark.parametrize("rows", ["0", "-5", "few"])
def test_evaluate_refuses_impossible_numbers_of_rows(rows, folder, capsys):
    command = ["evaluate", str(folder / "rent"), str(folder / "new.csv"), f"--rows={rows}"]
    assert main(command) == 2
    assert "--rows takes a number of at least 10, or all" in capsys.readouterr().err


@pytest.mark.slow
def test_row_numbers_are_left_out_before_and_after_the_refit(capsys, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(60)
    words = ["u"] * 29 + [f"w{i}" for i in range(31)]
    table = pa.table({"line": np.arange(1, 61), "x": x, "words": words, "y": 2 * x})
    arrow_csv.write_csv(table, tmp_path / "t.csv")
    command = ["fit", tmp_path / "t.csv", "--target", "y", "-o", tmp_path / "m", *QUICK]
    for seed in range(3):
        one, both = (as_json(capsys, *command, "--seed", seed, *m) for m in ([], ["--refit"]))
        assert one["left_out"]["line"] == "it numbers the rows"
        assert (one["left_out"], one["columns"]) == (both["left_out"], both["columns"])


@pytest.mark.parametrize("name", ["place", "place/model.safetensors"])
@pytest.mark.parametrize("metadata", ["", '"__metadata__":{"format":"pt"}'])
def test_fit_overwrites_no_file_of_others(name, metadata, folder, capsys, tmp_path):
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    header = ("{" + metadata + "}").encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header)
    before = file.read_bytes()
    command = ["fit", folder / "rents.csv", "--target", "rent", "-o", tmp_path / "place", *QUICK]
    assert main([*map(str, command)]) == 2
    assert "no model of ntkgp" in capsys.readouterr().err
    assert file.read_bytes() == before


def test_kept_columns_stay_as_written_and_others_are_not_read(
    folder, capsys, tmp_path, monkeypatch
):
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1 << 10)
    table = rents(50, seed=1).append_column("code", pa.array([f"{i:03}" for i in range(50)]))
    table = table.append_column("note", pa.array(["1"] * 49 + ["a word"]))
    arrow_csv.write_csv(table, tmp_path / "new.csv")
    out = tmp_path / "out.parquet"
    as_json(capsys, "predict", folder / "rent", tmp_path / "new.csv", "-o", out, "--keep", "code")
    assert pq.read_table(out)["code"].to_pylist() == [f"{i:03}" for i in range(50)]


def test_inspect_tells_columns_and_scores(folder, capsys):
    assert main(["inspect", str(folder / "rent")]) == 0
    printed = capsys.readouterr().out
    assert "category: levels Oslo, Rome" in printed
    assert "id is left out: it numbers the rows" in printed
    assert "histogram boosting" in printed
    facts = as_json(capsys, "inspect", folder / "dear")
    assert facts["classes"] == ["cheap", "dear"]
    assert facts["made"]["trained_on"] == 64


def test_compare_orders_by_likelihood_and_advises(folder, capsys):
    methods = ["--method", "exact-ntkgp", "--method", "exact-nngp", "--set", "activation=relu"]
    arguments = ["--target", "rent", "--drop", "dear", "--drop", "listed", "--quiet"]
    facts = as_json(capsys, "compare", folder / "rents.csv", *arguments, *methods)
    losses = [scores["nll"] for scores in facts["scores"].values()]
    assert losses == sorted(losses)
    assert {"exact-ntkgp", "exact-nngp", "mean", "histogram boosting"} <= facts["scores"].keys()
    assert facts["advice"].startswith("choose ntkgp fit … --")


# Splits, simple models, completion.


def test_splits_by_time_and_group_are_honest():
    rng = np.random.default_rng(0)
    days = rng.integers(0, 30, 200)
    groups = rng.choice([f"g{i}" for i in range(12)], 200)
    table = pa.table({"day": days, "group": groups})
    by_time = split(table, time="day")
    assert days[by_time.train].max() < days[by_time.held_out].min()
    by_group = split(table, group="group")
    assert not set(groups[by_group.train]) & set(groups[by_group.held_out])
    for parts in (by_time, by_group, split(table)):
        assert sorted([*parts.train, *parts.held_out]) == list(range(200))
        assert 10 < len(parts.held_out) < 80
    labels = np.array(["rare"] * 20 + ["common"] * 180)
    held_out = split(table, labels=labels).held_out
    assert np.sum(labels[held_out] == "rare") == 4


def test_large_groups_are_not_held_out():
    for seed in range(4):
        table = pa.table({"g": ["a"] * 950 + ["b"] * 50})
        assert split(table, seed=seed, group="g").held_out.tolist() == list(range(950, 1000))
    even = pa.table({"g": ["a"] * 60 + ["b"] * 40})
    assert len(split(even, group="g").held_out) == 40  # none fits the share: the smallest
    many = pa.table({"g": np.arange(60_000) // 3_000})
    assert len(split(many, share=0.5, group="g").held_out) == 9_000
    assert len(split(pa.table({"g": np.arange(11)}), share=0.5, group="g").held_out) == 5


def test_moments_stay_together_within_the_limits_where_they_can():
    assert len(split(pa.table({"t": np.arange(60_000) // 6_000}), time="t").held_out) == 6_000
    assert len(split(pa.table({"t": np.arange(60_000) // 20_000}), time="t").held_out) == 20_000
    with pytest.raises(ValueError, match="60 of 100 rows have the last time"):
        split(pa.table({"t": [1] * 40 + [2] * 60}), time="t")
    with pytest.raises(ValueError, match="all rows have the same time"):
        split(pa.table({"t": [1] * 100}), time="t")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (pa.array([1.0, np.nan, None, np.inf], pa.float32()), [True, False, False, False]),
        (pa.array(["a", "", None, "b"]), [True, False, False, True]),
        (pa.array(["a", "", None, "b"]).dictionary_encode(), [True, False, False, True]),
        (pa.array([1, None, 3, 0]), [True, False, True, True]),
    ],
)
def test_rows_without_a_target(target, expected):
    assert known(pa.chunked_array([target])).to_pylist() == expected


def test_settings_are_read_as_json_and_as_python_writes_them():
    words = ["True", "true", "False", "false", "None", "null"]
    found = settings_of([f"s{i}={word}" for i, word in enumerate(words)])
    assert list(found.values()) == [True, True, False, False, None, None]


def test_classes_of_a_file_have_the_type_of_the_model_s():
    words = np.array(["2", "1"])
    assert classes_like(np.array([1, 2]), "y", words).tolist() == [2, 1]
    assert classes_like(np.array([1.0, 2.0]), "y", words).tolist() == [2.0, 1.0]
    assert classes_like(np.array(["1", "2"]), "y", np.array([2, 1])).tolist() == ["2", "1"]
    flags = np.array([False, True])
    assert classes_like(flags, "y", np.array(["true", "false"])).tolist() == [True, False]
    with pytest.raises(ValueError, match="such as 1, and column 'y' has others"):
        classes_like(np.array([1, 2]), "y", np.array(["1.5"]))


def test_simple_models_know_the_size_of_their_errors():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 2))
    y = x @ [1.0, -2.0] + 0.5 * rng.standard_normal(600)
    found = dict(simple_regressors(x[:400], y[:400], x[400:], seed=0))
    assert found["ridge regression"].std[0] == pytest.approx(0.5, abs=0.1)
    scored = {name: score_numbers(y[400:], normal).values for name, normal in found.items()}
    assert scored["ridge regression"]["nll"] < scored["histogram boosting"]["nll"]
    assert scored["ridge regression"]["nll"] < scored["mean"]["nll"]
    assert scored["mean"]["r2"] == pytest.approx(0, abs=0.05)
    p = dict(simple_classifiers(x[:400], (y[:400] > 0).astype(int), x[400:], 3, seed=0))
    assert all(each.shape == (200, 3) for each in p.values())
    assert np.mean(p["logistic regression"].argmax(axis=1) == (y[400:] > 0)) > 0.85


def test_scores_of_the_truth():
    rng = np.random.default_rng(0)
    y = rng.standard_normal(4000)
    scored = score_numbers(y, Normal(np.zeros(4000), np.zeros(4000), np.ones(4000)))
    assert scored.values["nll"] == pytest.approx(-np.mean(stats.norm.logpdf(y)))
    for level in (50, 90, 95):
        error = 4 * (level / 100 * (1 - level / 100) / 4000) ** 0.5
        assert scored.values[f"coverage_{level}"] == pytest.approx(level / 100, abs=error)
    assert scored.values["ece"] < 0.02


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_scripts_are_valid_and_complete(shell, tmp_path):
    text = script(parser(), shell)
    assert all(word in text for word in ("predict", "heteroscedastic", "deep-ensemble"))
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(text)
    subprocess.run([shell, "-n", str(path)], check=True)


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ntkgp", "pre"], {"predict"}),
        (["ntkgp", "fit", "x.csv", "--he"], {"--help", "--heteroscedastic"}),
        (["ntkgp", "fit", "--law", "nn"], {"nngp"}),
        (["ntkgp", "data", "ch"], {"check"}),
    ],
)
def test_bash_completes(words, offered, tmp_path):
    (tmp_path / "script").write_text(script(parser(), "bash"))
    quoted = " ".join(f'"{word}"' for word in words)
    code = (
        f"source {tmp_path}/script; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _ntkgp; "
        'echo "${COMPREPLY[@]}"'
    )
    run = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    assert set(run.stdout.split()) == offered


def test_an_interrupted_prediction_leaves_nothing(folder, tmp_path):
    """Ctrl-C while rows stream in: exit code 130, one line, no file."""
    code = "import sys; from ntkgp_command import main; sys.exit(main())"
    arguments = ["predict", folder / "rent", folder / "many.csv", "-o", tmp_path / "out.csv"]
    header, rows = (folder / "new.csv").read_text().split("\n", 1)
    (folder / "many.csv").write_text(header + "\n" + rows * 12_000)
    run = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stderr=subprocess.PIPE, text=True
    )
    for _ in range(3000):
        if any(tmp_path.glob("*.partial")):
            break
        time.sleep(0.02)
    run.send_signal(signal.SIGINT)
    _, error = run.communicate(timeout=60)
    assert run.returncode == 130, error
    assert error.strip() == "ntkgp: interrupted; nothing was written."
    assert not list(tmp_path.iterdir())
    (folder / "many.csv").unlink()


# Choices.


def test_noise_that_depends_on_the_row_is_found_by_the_law_or_learned():
    def noise(rows, **options):
        return Choice(heteroscedastic=True, **options).model("regression", rows).estimator.noise

    assert noise(1_000) == ntkgp.VaryingNoise()
    assert noise(100_000) == ntkgp.LearnedNoise()
    assert noise(100_000, law="ntkgp") == ntkgp.VaryingNoise()
    with pytest.raises(ValueError, match="the target has classes"):
        Choice(heteroscedastic=True).model("classification", 100)


@pytest.mark.parametrize(
    ("values", "task"),
    [
        ([1.5, 2.5], "regression"),
        (list(range(11)), "regression"),
        ([0, 1, 2, 1], "classification"),
        ([0.0, 1.0, 2.0, 1.0], "regression"),
        ([True, False], "classification"),
        (["a", "b"], "classification"),
    ],
    ids=str,
)
def test_the_task_follows_from_the_target(values, task):
    assert task_of("y", pa.array(values))[0] == task


def test_classes_come_back_as_they_are_read():
    assert class_names(pa.array([2, 1])).tolist() == [2, 1]
    assert class_names(pa.array([2.0, 1.0])).tolist() == ["2", "1"]
    assert class_names(pa.array([True, False])).tolist() == ["true", "false"]
