"""The scikit-learn face."""

from ntkgp.estimators.classification import EnsembleClassifier as EnsembleClassifier
from ntkgp.estimators.classification import GPClassifier as GPClassifier
from ntkgp.estimators.files import load as load
from ntkgp.estimators.regression import EnsembleRegressor as EnsembleRegressor
from ntkgp.estimators.regression import GPRegressor as GPRegressor
