"""Scores of predictions (Section 4): arrays in, arrays out.

Regression takes arrays of one shape, (n,) or (n, c), each entry a point; classification takes labels
(n,) of integers 0 ... C-1 and probabilities (n, C). Everything is computed in float64.
"""

from ntkgp.metrics.classification import accuracy as accuracy
from ntkgp.metrics.classification import brier_score as brier_score
from ntkgp.metrics.classification import classification_nll as classification_nll
from ntkgp.metrics.classification import expected_calibration_error as expected_calibration_error
from ntkgp.metrics.classification import predictive_entropy as predictive_entropy
from ntkgp.metrics.curves import CONFIDENCE_THRESHOLDS as CONFIDENCE_THRESHOLDS
from ntkgp.metrics.curves import ErrorCurve as ErrorCurve
from ntkgp.metrics.curves import error_vs_confidence as error_vs_confidence
from ntkgp.metrics.curves import error_vs_precision as error_vs_precision
from ntkgp.metrics.detection import auroc as auroc
from ntkgp.metrics.detection import fpr_at_tpr as fpr_at_tpr
from ntkgp.metrics.regression import CENTRAL_LEVELS as CENTRAL_LEVELS
from ntkgp.metrics.regression import calibration_curve as calibration_curve
from ntkgp.metrics.regression import crps_gaussian as crps_gaussian
from ntkgp.metrics.regression import crps_mixture as crps_mixture
from ntkgp.metrics.regression import crps_samples as crps_samples
from ntkgp.metrics.regression import gaussian_nll as gaussian_nll
from ntkgp.metrics.regression import interval_coverage as interval_coverage
from ntkgp.metrics.regression import regression_calibration_error as regression_calibration_error
from ntkgp.metrics.regression import rmse as rmse
