"""The pages of the gallery run, in small."""

import re

import matplotlib
import matplotlib.pyplot as plt
import pytest

from test_site import DOCS, loaded

gallery = loaded(DOCS / "gallery" / "run.py")
TINY = {
    "toy": {"MEMBERS": 2, "WIDTH": 8},
    "optimisation": {"MEMBERS": 2, "ROUNDS": 3, "REPEATS": 1, "WIDTH": 8},
    "trained": {"STEPS": 3},
    "width": {"MEMBERS": 2, "WIDTHS": (4, 8)},
    "table": {"MEMBERS": 2, "STEPS": 20},
    "flax_cnn": {"MEMBERS": 1, "STEPS": 5, "CHANNELS": 2, "ANGLES": (0, 45, 90), "ROWS": 200},
}


def test_every_page_has_a_picture_and_a_size_for_tests():
    assert {page.stem for page in gallery.pages()} == set(TINY)
    for page in gallery.pages():
        assert page.with_suffix(".png").stat().st_size < 200_000
        assert f"]({page.stem}.png)" in page.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_pages_run(name):
    matplotlib.use("Agg")
    text = (DOCS / "gallery" / f"{name}.md").read_text()
    printed, figure = gallery.run(text, TINY[name])
    assert len(printed) == text.count("```python")
    assert all(panel.has_data() for panel in figure.axes)
    plt.close("all")


def test_a_page_keeps_what_its_blocks_print():
    page = (
        "A\n\n```python\nN = 5\nprint(N)\n```\n\n```text\nold\n```\n\n```python\nfigure = N\n```\n"
    )
    printed, figure = gallery.run(page, {"N": 3})
    assert (printed, figure) == (["3\n", ""], 3)
    assert gallery.with_output(page, printed) == page.replace("old", "3")
    with pytest.raises(ValueError, match="sets no M"):
        gallery.run(page, {"M": 3})


def test_the_toy_figure_takes_20_lines():
    code = gallery.CODE.search((DOCS / "gallery" / "toy.md").read_text())[1]
    assert len(re.findall(r"^ *\S", code, re.MULTILINE)) <= 20
