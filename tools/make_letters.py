"""Draw src/ntkgp/data/letters.npz: letters in the format of scikit-learn's digits.

    python tools/make_letters.py

The digits were written by hand, scaled to the full height of a 32 × 32 bitmap, and reduced to
8 × 8 cells whose value, 0 to 16, counts the inked pixels of a 4 × 4 block. The letters go the
same way from the outlines of fonts: each is turned and slanted a little, scaled to the height of
the bitmap and to a width that digits have, drawn with a pen just wide enough for as much ink as a
digit has, and counted in blocks. Nothing depends on how a font library fills its pixels: the
outlines are unhinted, and a pixel has ink if its centre lies inside the outline, widened.

The fonts come with matplotlib: DejaVu (Bitstream Vera licence, its changes in the public domain)
and STIX (SIL Open Font License 1.1).

Left out are
  B 8, D 0, G 6, I 1, J 1, O 0, Q 0, S 5, Z 2, which one who expects a digit can read as that one;
  M and W, whose four strokes melt into a grey patch at the width of a digit;
  lower case, which at full height repeats a capital (c k p u v x), fails for one of the reasons
  above (b g i j l o q s z, m w), or can be read as a digit in some hand (a e 8, f r t 7, y 4);
  the three that remain (d h n) were not worth a second alphabet.
The choice was made by eye alone: no classifier was asked which letters it finds easy to refuse.
"""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from numpy.typing import NDArray

FILE = Path(__file__).parents[1] / "src/ntkgp/data/letters.npz"
FONTS = Path(matplotlib.get_data_path()) / "fonts/ttf"
FACES = (
    ("DejaVuSans", "A"),
    ("DejaVuSans-Bold", "A"),
    ("DejaVuSansMono", "A"),
    ("DejaVuSansMono-Bold", "A"),
    ("STIXGeneral", "\N{MATHEMATICAL SANS-SERIF CAPITAL A}"),
    ("STIXGeneral", "\N{MATHEMATICAL SANS-SERIF BOLD CAPITAL A}"),
)
"""Font, and where in it the capitals begin. None has serifs, which are blots at this size."""

LETTERS = "ACEFHKLNPRTUVXY"
PER_LETTER = 66  # eleven in each face
SIDE = 32  # pixels of the bitmap, four to a cell
THINNEST, WIDEST = -1.0, 1.75  # pixels by which the pen may move an outline outwards


class Hand(NamedTuple):
    """What differs between two images of a letter in the same face."""

    turn: float  # radians, anticlockwise
    slant: float  # pixels to the right per pixel upwards
    width: float  # in pixels, if the letter is as wide as that by nature
    ink: float  # inked pixels to aim at
    place: float  # where among the free columns: 0 at the left edge, 1 at the right


def draw_hand(rng: np.random.Generator) -> Hand:
    """Uniform; width, ink and place range over about the middle nine tenths of the digits."""
    low = np.array([-0.12, -0.1, 17.0, 257.0, 0.42])
    high = np.array([0.12, 0.3, 24.0, 372.0, 0.68])
    return Hand(*(low + (high - low) * rng.random(5)).tolist())


@cache
def outline(letter: str, file: str, first: str) -> NDArray[Any]:
    """The edges of a letter's unhinted outline: (edges, 2 ends, 2 coordinates), y upwards."""
    font = FontProperties(fname=FONTS / f"{file}.ttf")
    character = chr(ord(first) + ord(letter) - ord("A"))
    polygons = TextPath((0, 0), character, size=100, prop=font).to_polygons()
    edges = np.concatenate([np.stack([p, np.roll(p, -1, axis=0)], axis=1) for p in polygons])
    return edges[np.any(edges[:, 0] != edges[:, 1], axis=1)]


def written(edges: NDArray[Any], hand: Hand) -> tuple[NDArray[Any], float]:
    """The outline turned, slanted and scaled to pixels, and the distance r by which to widen it.

    Widened, the letter fills the height, so the outline fills the height less 2r. An area A of
    perimeter P becomes A + r P about, which grows with r: halving finds the r for the ink wanted.
    """
    cos, sin = np.cos(hand.turn), np.sin(hand.turn)
    edges = edges @ np.array([[cos, sin], [-sin, cos]]) @ np.array([[1.0, 0.0], [hand.slant, 1.0]])
    edges = edges - edges.min((0, 1))
    size = edges.max((0, 1))
    box = np.array([min(hand.width, SIDE * size[0] / size[1]), SIDE])
    low, high = THINNEST, WIDEST
    while high - low > 0.01:
        r = (low + high) / 2
        (x0, y0), (x1, y1) = (edges * ((box - 2 * r) / size)).transpose(1, 2, 0)
        area = abs(np.sum(x0 * y1 - x1 * y0)) / 2
        ink = area + r * np.sum(np.hypot(x1 - x0, y1 - y0))
        low, high = (r, high) if ink < hand.ink else (low, r)
    left = hand.place * (SIDE - box[0])
    return edges * ((box - 2 * r) / size) + r + np.array([left, 0.0]), r


def bitmap(edges: NDArray[Any], r: float) -> NDArray[Any]:
    """Which pixel centres lie inside the outline widened by r: (SIDE, SIDE), top row first."""
    centres = np.arange(SIDE) + 0.5
    (x0, y0), (x1, y1) = edges.transpose(1, 2, 0)
    x, y = centres[None, :, None] - x0, centres[::-1, None, None] - y0
    dx, dy = x1 - x0, y1 - y0
    along = np.clip((x * dx + y * dy) / (dx**2 + dy**2), 0, 1)
    near = np.min((x - along * dx) ** 2 + (y - along * dy) ** 2, axis=-1) < r**2
    # Winding number: edges that pass upwards on the right, less those that pass downwards there.
    side = dx * y - dy * x
    up, down = (y >= 0) & (y < dy) & (side > 0), (y < 0) & (y >= dy) & (side < 0)
    inside = up.sum(-1) != down.sum(-1)
    return inside | near if r > 0 else inside & ~near


def image(letter: str, number: int) -> NDArray[Any]:
    """One image, (8, 8) of 0 to 16. The faces take turns; the rest is drawn."""
    hand = draw_hand(np.random.default_rng([ord(letter), number]))
    inked = bitmap(*written(outline(letter, *FACES[number % len(FACES)]), hand))
    return inked.reshape(SIDE // 4, 4, SIDE // 4, 4).sum((1, 3)).astype(np.uint8)


def draw() -> tuple[NDArray[Any], NDArray[Any]]:
    """All images, (n, 8, 8), and which letter each is, (n,)."""
    names = [(letter, number) for letter in LETTERS for number in range(PER_LETTER)]
    return np.stack([image(*name) for name in names]), np.array([letter for letter, _ in names])


if __name__ == "__main__":
    images, labels = draw()
    np.savez_compressed(FILE, images=images, labels=labels)
    print(f"{FILE.name}: {len(images)} images, {FILE.stat().st_size} bytes")
