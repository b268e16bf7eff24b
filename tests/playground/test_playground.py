"""The playground's own JavaScript against Python's numbers, and the page in a browser."""

import json
import re
import webbrowser
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engines import by_chromium, by_node

import ntkgp
from helpers import assert_covariance
from ntkgp.cli import main
from ntkgp.data import make_toy
from ntkgp.ensembles.member import Baselearner, Member, TrainingSet
from ntkgp.ensembles.methods import METHODS
from ntkgp.experiments.toy.run import ToyConfig
from ntkgp.laws.table import LAWS
from ntkgp.networks.layers import Erf, Relu
from ntkgp.playground.page import MATHS, page, source

HERE = Path(__file__).parent
ACTIVATIONS = {"erf": Erf(), "relu": Relu()}
FIGURE_1 = {"depth": 2, "activation": "erf", "wStd": 1.5, "bStd": 0.05}
RELU = {"depth": 3, "activation": "relu", "wStd": 1.4, "bStd": 0.3}
PRIORS = [FIGURE_1, RELU]
WIDTH, NOISE_STD, DAMPING = 16, 0.1, 0.7
TOLERANCE = 1e-6
TRAINED = [(FIGURE_1, name) for name in ("deep-ensemble", "rp-param", "ntkgp-param")] + [
    (RELU, "ntkgp-param")
]

TOY = make_toy()
X, Y = TOY.train.x[:, 0], TOY.train.y[:, 0]
GRID = TOY.test.x[:, 0]


def network(prior, width=WIDTH):
    return ntkgp.mlp(
        1,
        width=width,
        depth=prior["depth"],
        activation=ACTIVATIONS[prior["activation"]],
        w_std=prior["wStd"],
        b_std=prior["bStd"],
    )


def drawn(prior):
    """Parameters of one member, in float64, and its noise: θ, θ₀, θ̃ and ε."""
    rng = np.random.default_rng(1)
    std = np.sqrt(flat_prior_var(network(prior)))
    theta_0, theta_tilde, moved = std * rng.standard_normal((3, len(std)))
    return theta_0 + 0.3 * moved, theta_0, theta_tilde, rng.standard_normal(len(X))


def flat_prior_var(net):
    """λ of every parameter, layer by layer, weights before biases."""
    shapes = jax.eval_shape(net.init, jax.random.key(0))
    full = jax.tree.map(lambda leaf, var: np.full(leaf.shape, var), shapes, net.prior_var())
    return flat(full)


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def questions():
    """Every question to the page's code, by name."""
    asked = {"erf": {"ask": "erf", "x": np.linspace(-7, 7, 1001)}}
    for prior in PRIORS:
        name = prior["activation"]
        asked[f"kernels {name}"] = {"ask": "kernels", "prior": prior, "x": X, "z": GRID}
        asked[f"gram {name}"] = {"ask": "kernelsOfTraining", "prior": prior, "x": X}
        for law in LAWS:
            given = {"prior": prior, "law": law, "x": X, "y": Y, "grid": GRID}
            asked[f"law {name} {law}"] = {"ask": "law", "noiseStd": NOISE_STD, **given}
    for prior, method in TRAINED:
        theta, theta_0, theta_tilde, epsilon = drawn(prior)
        asked[f"member {prior['activation']} {method}"] = {
            "ask": "member", "prior": prior, "width": WIDTH, "method": method, "x": X, "y": Y,
            "noiseStd": NOISE_STD, "theta": theta, "theta0": theta_0, "thetaTilde": theta_tilde,
            "epsilon": epsilon, "damping": DAMPING,
        }  # fmt: skip
    asked["trained"] = {
        "ask": "trained", "prior": FIGURE_1, "width": 32, "method": "ntkgp-param", "x": X[::4],
        "y": Y[::4], "noiseStd": 1.0, "seed": 6,
    }  # fmt: skip
    asked["untrained"] = {
        "ask": "untrained", "prior": FIGURE_1 | {"depth": 1}, "width": 8, "members": 3000,
        "x": [-3.0, 0.5, 2.0],
    }  # fmt: skip
    return asked


def as_json(value):
    return json.dumps(value, default=lambda array: array.tolist())


@pytest.fixture(scope="module")
def asked():
    return questions()


@pytest.fixture(scope="module")
def browser(asked, tmp_path_factory):
    """What the page says in Chromium: answers, notes of a walk through it, and errors."""
    harness = f"""
    <script>
    {(HERE / "answers.js").read_text()}
    {(HERE / "walk.js").read_text()}
    const asked = {as_json(list(asked.values()))};
    const form = document.getElementById("settings");
    Object.assign(form.elements.width, {{ value: "32" }});
    Object.assign(form.elements.members, {{ value: "10" }});
    form.dispatchEvent(new Event("input"));
    const found = {{ answers: answers(asked), notes: walk() }};
    const wait = () => {{
      if (stale || !ensembles.every(({{ done }}) => done)) return setTimeout(wait, 50);
      const kept = ensembles.map(({{ frames }}) => frames.map(({{ round, std }}) => [round, spread(std)]));
      fetch("/answers", {{ method: "POST", body: JSON.stringify({{ ...found, kept, errors }}) }});
    }};
    wait();
    </script></body>"""
    watched = """<head><script>
    const errors = [];
    addEventListener("error", ({ message }) => errors.push(message));
    for (const name of ["error", "warn"]) console[name] = (...words) => errors.push(words.join(" "));
    </script>"""
    text = page().replace("<head>", watched).replace("</body>", harness)
    said = by_chromium(text, tmp_path_factory.mktemp("profile"))
    return said | {"answers": json.loads(said["answers"])}


@pytest.fixture(scope="module", params=["node", "chromium"])
def answers(request, asked):
    """The page's answers by name, from either engine."""
    if request.param == "chromium":
        given = request.getfixturevalue("browser")["answers"]
    else:
        code = source(*MATHS) + (HERE / "answers.js").read_text()
        given = by_node(f"{code}\nconsole.log(answers({as_json(list(asked.values()))}))")
    return dict(zip(asked, given, strict=True))


def assert_close(answer, expected):
    expected = np.asarray(expected)
    worst = np.max(np.abs(np.reshape(answer, expected.shape) - expected))
    assert worst <= TOLERANCE * max(1, np.max(np.abs(expected))), f"{worst:.1e} off"


def test_erf_is_python_s(answers):
    x = np.linspace(-7, 7, 1001)
    with jax.enable_x64(True):
        expected = np.asarray(jax.scipy.special.erf(jnp.asarray(x)))
    assert np.max(np.abs(np.array(answers["erf"]) - expected)) < 1e-11


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior["activation"])
def test_kernels_are_python_s(answers, prior):
    net, name = network(prior), prior["activation"]
    between, own = answers[f"kernels {name}"], answers[f"gram {name}"]
    for which, kernel in (("nngp", ntkgp.nngp), ("ntk", ntkgp.ntk)):
        matrix = kernel(net, X[:, None], np.concatenate([X, GRID])[:, None])
        assert_close(own[which], matrix[:, : len(X)])
        assert_close(between[which], matrix[:, len(X) :])


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior["activation"])
def test_laws_are_python_s(answers, prior, law):
    jitter = 0.0 if LAWS[law].noisy else ToyConfig().jitter
    exact = ntkgp.condition(
        network(prior), X[:, None], Y, law=law, noise_std=NOISE_STD, jitter=jitter
    ).predict(GRID[:, None])
    answer = answers[f"law {prior['activation']} {law}"]
    assert_close(answer["mean"], exact.mean[:, 0])
    assert_close(answer["std"], np.sqrt(exact.epistemic_var[:, 0]))


class Reference:
    """One member in Python, in float64: δ, objective, gradient, and a step by a dense solution."""

    def __init__(self, prior, width, method, x, y, noise_std):
        self.net, self.method, self.noise_std = network(prior, width), METHODS[method], noise_std
        self.x, self.y = np.asarray(x)[:, None], np.asarray(y)[:, None]

    def tree(self, theta):
        leaves, form = jax.tree.flatten(jax.eval_shape(self.net.init, jax.random.key(0)))
        parts = jnp.split(theta, np.cumsum([leaf.size for leaf in leaves])[:-1])
        shaped = [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)]
        return jax.tree.unflatten(form, shaped)

    def objective(self, theta, theta_0, theta_tilde, epsilon):
        """N times the loss of the baselearner; δ and f(x, θ) on the training inputs."""
        x, theta = jnp.asarray(self.x), self.tree(theta)
        learner = Baselearner(self.net, self.method, self.noise_std)
        member = Member(self.tree(theta_0), self.tree(theta_tilde))
        delta = learner.offset(member, x)
        noisy = self.method.anchor is not None
        batch = TrainingSet(
            x, jnp.asarray(self.y), noisy * epsilon[:, None], delta, jnp.ones(len(x))
        )
        return len(x) * learner.loss(theta, member, batch, len(x)), delta[:, 0]

    def outputs(self, theta):
        return self.net.apply(self.tree(theta), jnp.asarray(self.x))[:, 0]

    def at(self, theta, *draws, damping):
        """Objective, δ, gradient, and the argmin of ½‖r - J d‖² + ½σ²‖v + d‖²_Λ + ½μ‖d‖²_Λ."""

        @jax.jit
        def computed(theta, *draws):
            both = jax.value_and_grad(self.objective, has_aux=True)(theta, *draws)
            return both, jax.jacrev(self.outputs)(theta)

        with jax.enable_x64(True):
            found = computed(*map(jnp.asarray, (theta, *draws)))
        (objective, delta), gradient, jacobian = jax.tree.map(np.asarray, (*found[0], found[1]))
        pull = 0.0 if self.method.anchor is None else self.noise_std**2
        precision = np.diag((pull + damping) / flat_prior_var(self.net))
        step = np.linalg.solve(jacobian.T @ jacobian + precision, -gradient)
        return {"objective": objective, "delta": delta, "gradient": gradient, "step": step}


@cache
def reference_of(method, activation):
    prior = next(prior for prior in PRIORS if prior["activation"] == activation)
    return Reference(prior, WIDTH, method, X, Y, NOISE_STD).at(*drawn(prior), damping=DAMPING)


@pytest.mark.parametrize(("prior", "method"), TRAINED)
def test_a_member_is_python_s(answers, prior, method):
    """δ, loss, gradient, and one step."""
    answer = answers[f"member {prior['activation']} {method}"]
    expected = reference_of(method, prior["activation"])
    for name in ("objective", "gradient", "step"):
        assert_close(answer[name], expected[name])
    if METHODS[method].offset:
        assert_close(answer["delta"], expected["delta"])


def test_training_ends_at_a_minimum(answers, asked):
    """A step without damping, found by Python, promises to lower the objective by next to nothing."""
    answer, given = answers["trained"], asked["trained"]
    assert answer["done"]
    names = ("prior", "width", "method", "x", "y", "noiseStd")
    reference = Reference(*(given[name] for name in names))
    draws = (np.array(answer[name]) for name in ("theta", "theta0", "thetaTilde", "epsilon"))
    found = reference.at(*draws, damping=0.0)
    assert answer["objective"] == pytest.approx(found["objective"], rel=TOLERANCE)
    assert 0 <= -found["gradient"] @ found["step"] / 2 < 2e-3 * found["objective"]


def test_untrained_members_are_draws_from_the_ntk_gp(answers, asked):
    """Proposition 1. With one hidden layer the covariance is that of infinite width at any width."""
    x = np.array(asked["untrained"]["x"])[:, None]
    draws = jnp.asarray(answers["untrained"])
    prior = FIGURE_1 | {"depth": 1}
    assert_covariance(draws, ntkgp.ntk(network(prior), x))
    with pytest.raises(AssertionError):
        assert_covariance(draws, ntkgp.nngp(network(prior), x))


def test_the_page_is_used_by_keyboard_and_pointer(browser):
    notes = browser["notes"]
    assert notes["focus"] == [20, 0, f"Point 1 of 20: x {X[0]:.2f}, y {Y[0]:.2f}."]
    assert notes["n"][:2] == [20, 1]
    assert notes["ArrowUp"][3]["y"] == pytest.approx(Y[1] + 0.1)
    assert notes["a"][:2] == [21, 20]
    assert notes["a"][3]["x"] == pytest.approx(X[1] + 0.5)
    assert notes["Delete"][:3] == [20, 19, "Deleted. 20 points."]
    assert notes["p"][:2] == [20, 18]
    assert notes["clicked"][:2] == [21, 20]
    assert notes["clicked"][3] == pytest.approx({"x": 4, "y": -3}, abs=0.05)
    assert notes["dragged"][:2] == [21, 20]
    assert notes["dragged"][3] == pytest.approx({"x": 5, "y": -2}, abs=0.05)
    assert notes["deleted"][0] == 20
    assert notes["start"][:2] == [20, -1]


def test_members_train_in_the_page_without_errors(browser):
    assert browser["errors"] == []
    without, with_delta = browser["kept"]
    assert [round for round, _ in without][:4] == [0, 1, 2, 3]
    assert without[-1][1] < with_delta[-1][1]  # per cent of the posterior's spread


def test_the_page_needs_nothing_else():
    text = page()
    assert "{{" not in text
    assert not re.search(r"https?://|\bsrc=|@import|\bimport\b.*\bfrom\b", text)
    assert text.count("</script>") == 4
    start = json.loads(re.search(r'id="toy">(.*?)</script>', text).group(1))
    assert (start["x"], start["y"]) == (X.tolist(), Y.tolist())


def test_the_page_starts_as_figure_1():
    text, config = page(), ToyConfig()
    for name, value in (
        ("wStd", config.w_std),
        ("bStd", config.b_std),
        ("noiseStd", config.noise_std),
    ):
        assert re.search(rf'name="{name}"[^>]* value="{value}"', text)
    assert f"<option selected>{config.depth}</option>" in text
    assert "<option selected>erf</option>" in text
    assert f"JITTER = {config.jitter:.0e}".replace("e-06", "e-6") in text


def test_the_command_writes_a_copy(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", None)
    path = tmp_path / "new" / "play.html"
    assert main(["playground", "--out", str(path)]) == 0
    assert path.read_text(encoding="utf-8") == page()
    assert capsys.readouterr().out == f"page: {path}\n"


def test_a_directory_is_no_file_to_write(tmp_path, capsys):
    assert main(["playground", "--out", str(tmp_path)]) == 2
    assert "is a directory" in capsys.readouterr().err


@pytest.mark.parametrize("found", [True, False])
def test_the_command_opens_a_browser_or_says_where_the_page_is(
    found, tmp_path, capsys, monkeypatch
):
    opened = []
    monkeypatch.setenv("NTKGP_DATA", str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or found)
    assert main(["playground"]) == 0
    path = tmp_path / "playground.html"
    assert opened == [path.as_uri()]
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == f"page: {path}"
    assert ("No browser" in printed[0]) != found
