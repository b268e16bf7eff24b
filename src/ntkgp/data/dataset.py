"""What every loader returns: the parts of a data set, arrays as they are stored."""

from typing import Any, NamedTuple

from numpy.typing import NDArray


class Split(NamedTuple):
    """Rows with their targets, in one order."""

    x: NDArray[Any]
    """Inputs, (n, ...): images stay uint8, tables have one column for each feature."""
    y: NDArray[Any]
    """Targets, (n, ...)."""

    def __repr__(self) -> str:
        return f"<Split of {len(self.x):,} rows {self.x.shape[1:]} {self.x.dtype}>"

    def take(self, rows: NDArray[Any] | slice) -> "Split":
        """These rows only, by their numbers, a mask or a slice."""
        return Split(self.x[rows], self.y[rows])


class Fold(NamedTuple):
    """One division of a table: numbers of the rows on either side."""

    train: NDArray[Any]
    test: NDArray[Any]


class Dataset(NamedTuple):
    """A data set in the parts that its makers gave it.

    >>> digits = Dataset("digits", {"all": Split(np.zeros((3, 64)), np.arange(3))})
    >>> digits
    <Dataset digits: all <Split of 3 rows (64,) float64>>
    >>> digits.all.take(slice(2)).y
    array([0, 1])
    >>> digits.train
    Traceback (most recent call last):
        ...
    ValueError: digits has no part "train"; it has "all".
    """

    name: str
    parts: dict[str, Split]
    """"train" and "test" if the set comes divided; "all" if it does not."""
    folds: tuple[Fold, ...] = ()
    """Standard divisions of "all", for tables that have them."""
    columns: tuple[str, ...] = ()
    """Names of the columns of x, for tables that have them."""

    def __repr__(self) -> str:
        return f"<Dataset {self.name}: {', '.join(f'{k} {v!r}' for k, v in self.parts.items())}>"

    @property
    def train(self) -> Split:
        """What to learn from."""
        return self._part("train")

    @property
    def test(self) -> Split:
        """What to predict."""
        return self._part("test")

    @property
    def all(self) -> Split:
        """Every row of a set that does not come divided."""
        return self._part("all")

    def _part(self, part: str) -> Split:
        if part not in self.parts:
            there = " and ".join(f'"{name}"' for name in self.parts)
            raise ValueError(f'{self.name} has no part "{part}"; it has {there}.')
        return self.parts[part]
