"""scikit-learn's digits: 1,797 images of 8 × 8 pixels with grey values from 0 to 16."""

from ntkgp.data.dataset import Dataset, Split
from ntkgp.data.stored import BuiltIn


def load() -> Dataset:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return Dataset("digits", {"all": Split(x, y)})


SET = BuiltIn("comes with scikit-learn", load)
