"""The shape of the project itself: which module may import which, and what an import costs."""

import ast
import json
import os
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import requires
from pathlib import Path

import pytest

import ntkgp

SOURCE = Path(ntkgp.__file__).parent
PICTURE = Path(__file__).parents[1] / "docs" / "architecture.md"
MAY_IMPORT = {
    "core": set(),
    "predictive": {"core"},
    "data": {"core"},
    "networks": {"core"},
    "kernels": {"core", "networks"},
    "laws": {"core", "networks", "kernels", "predictive"},
    "ensembles": {"core", "networks", "predictive"},
    "estimators": {"core", "networks", "kernels", "laws", "ensembles", "predictive"},
    "report": {"core", "predictive"},
    "tables": {"core", "laws", "ensembles", "predictive", "estimators", "report"},
    "experiments": {
        "core", "predictive", "data", "networks", "kernels", "laws", "ensembles", "estimators", "report",
    },
    "playground": {"core", "data", "report"},
    "cli": {"core", "data", "experiments", "playground", "tables"},
}  # fmt: skip
"""Each folder, and those that it stands on. laws and ensembles check each other, so neither is either's."""
ONLY_IN = {
    "matplotlib": {"report", "experiments"},
    "sklearn": {"estimators", "data", "experiments", "tables"},
    "flax": {"networks"},
    "equinox": {"networks"},
    "safetensors": {"core"},
    "ray": {"core"},
    "pooch": {"data"},
    "pyarrow": {"data", "tables"},
    "PIL": {"data"},
}


def imports_of(path):
    """Names of the modules that a file imports, wherever in it, lazy imports included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports by a relative name"
            yield node.module
            if node.module == "ntkgp":
                yield from (f"ntkgp.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def folder_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]


def arrows():
    """Which folder imports which, as it is."""
    found = {folder_of(path): set() for path in FILES}
    for path in FILES:
        for name in imports_of(path):
            package, _, rest = name.partition(".")
            if package == "ntkgp" and rest:
                found[folder_of(path)].add(rest.split(".")[0])
    return {here: there - {here} for here, there in found.items()}


def test_the_root_holds_the_public_names_and_the_command_line_only():
    assert {path.name for path in SOURCE.glob("*.py")} == {"__init__.py", "cli.py"}


def test_folders_import_one_way():
    for here, there in arrows().items():
        assert there - {"__version__"} <= MAY_IMPORT[here], (
            f"{here} imports {there - MAY_IMPORT[here]}"
        )


def test_what_may_be_imported_has_no_cycle():
    TopologicalSorter(MAY_IMPORT).prepare()
    with pytest.raises(CycleError):
        TopologicalSorter(MAY_IMPORT | {"core": {"cli"}}).prepare()


def reduced(graph):
    """Without the arrows that others imply: a → c goes where a → b → ... → c stays."""

    def below(here):
        return set().union(graph[here], *map(below, graph[here]))

    return {here: there - set().union(*map(below, there)) for here, there in graph.items()}


def drawn(text):
    """The arrows of a mermaid graph, from lines such as `laws --> kernels & predictive`."""
    picture = re.search(r"```mermaid\n(.*?)```", text, re.DOTALL).group(1)
    found = {name: set() for name in re.findall(r"^ *(\w+)\[", picture, re.MULTILINE)}
    for here, there in re.findall(r"^ *(\w+) --> ([\w &]+)$", picture, re.MULTILINE):
        found[here] |= set(there.split(" & "))
    return found


def test_arrows_that_others_imply_are_left_out():
    graph = {"a": {"b", "c", "d"}, "b": {"c"}, "c": set(), "d": {"c"}}
    assert reduced(graph) == {"a": {"b", "d"}, "b": {"c"}, "c": set(), "d": {"c"}}


def test_the_picture_of_the_folders_is_that_of_the_imports():
    """docs/architecture.md draws every folder, and every arrow that no others imply."""
    picture = drawn(PICTURE.read_text())
    assert picture == reduced({here: there - {"__version__"} for here, there in arrows().items()})
    assert picture == reduced(MAY_IMPORT)


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("laws --> kernels & predictive", "laws --> kernels"),  # an arrow is missing
        ("report --> predictive", "report --> predictive & experiments"),  # one too many
        ("report[", "reports["),  # another folder
    ],
)
def test_a_wrong_picture_is_reported(line, instead):
    text = PICTURE.read_text()
    assert line in text
    with pytest.raises((AssertionError, KeyError)):
        assert drawn(text.replace(line, instead)) == reduced(MAY_IMPORT)


def test_each_folder_has_its_line():
    rows = re.findall(r"^\| `(\w+?)(?:/|\.py)` \|", PICTURE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(MAY_IMPORT)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_libraries_are_imported_where_they_belong(path):
    for name in imports_of(path):
        package = name.partition(".")[0]
        assert folder_of(path) in ONLY_IN.get(package, {folder_of(path)}), f"imports {package}"


def test_import_brings_in_nothing_heavy_beyond_jax():
    code = (
        "import sys, json, ntkgp; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(run.stdout))
    assert "jax" in loaded
    assert not loaded & {
        "optax",
        "sklearn",
        "matplotlib",
        "pandas",
        "tensorflow",
        "torch",
        "flax",
        "equinox",
        "safetensors",
        "tqdm",
        "pooch",
        "pyarrow",
        "PIL",
        "ray",
    }


def test_a_star_import_brings_every_public_name():
    """The estimators too, which are imported when they are asked for."""
    names = {}
    exec("from ntkgp import *", names)
    public = {name for name in vars(ntkgp) if not name.startswith("_")}
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir()} - {"data"}
    assert set(ntkgp.__all__) <= names.keys()
    assert names["EnsembleRegressor"] is ntkgp.EnsembleRegressor
    assert public - set(ntkgp.__all__) <= folders | {"Any", "cli"}
    assert set(ntkgp.__all__) <= set(dir(ntkgp))


def test_the_core_install_is_small():
    core = {r.split(";")[0].split(">")[0].strip() for r in requires("ntkgp") if "extra" not in r}
    assert core == {
        "jax", "jaxtyping", "numpy", "optax", "scikit-learn", "scipy", "threadpoolctl", "tqdm",
    }  # fmt: skip


@pytest.mark.slow
def test_members_are_the_same_with_jax_s_float64_flag_on():
    code = """
import numpy as np, ntkgp
from ntkgp.networks.layers import Conv, Dense, Flatten, Relu
net = ntkgp.LayeredNetwork((3, 3, 1), [Conv(4), Relu(), Flatten()], Dense(1))
x = np.linspace(-1, 1, 36).reshape(4, 3, 3, 1)
out = ntkgp.fit(net, x, x[:, 0, 0, 0], members=1, trainer=ntkgp.GaussNewton(max_steps=2)).outputs(x)
print(out.dtype, *np.round(out.ravel(), 3))
"""
    printed = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "JAX_ENABLE_X64": flag, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for flag in ("0", "1")
    ]
    assert printed[0] == printed[1]
    assert "float32" in printed[0]


def test_import_leaves_jax_s_flags_alone():
    code = "import jax; a = jax.config.values.copy(); import ntkgp; assert a == jax.config.values"
    subprocess.run([sys.executable, "-c", code], check=True)
