"""The scikit-learn face."""

from ntkgp.estimators.ensemble_classifier import EnsembleClassifier as EnsembleClassifier
from ntkgp.estimators.ensemble_regressor import EnsembleRegressor as EnsembleRegressor
from ntkgp.estimators.gp_classifier import GPClassifier as GPClassifier
from ntkgp.estimators.gp_regressor import GPRegressor as GPRegressor
