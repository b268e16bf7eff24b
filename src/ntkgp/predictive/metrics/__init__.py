"""Scores of predictions (Section 4): arrays in, arrays out.

Regression takes arrays of one shape, (n,) or (n, c), each entry a point; classification takes labels
(n,) of integers 0 ... C-1 and probabilities, or sets of classes, (n, C). Everything is computed in float64.
"""

from ntkgp.predictive.metrics.classification import accuracy as accuracy
from ntkgp.predictive.metrics.classification import brier_score as brier_score
from ntkgp.predictive.metrics.classification import classification_nll as classification_nll
from ntkgp.predictive.metrics.classification import (
    expected_calibration_error as expected_calibration_error,
)
from ntkgp.predictive.metrics.classification import mean_set_size as mean_set_size
from ntkgp.predictive.metrics.classification import predictive_entropy as predictive_entropy
from ntkgp.predictive.metrics.classification import set_coverage as set_coverage
from ntkgp.predictive.metrics.curves import CONFIDENCE_THRESHOLDS as CONFIDENCE_THRESHOLDS
from ntkgp.predictive.metrics.curves import ErrorCurve as ErrorCurve
from ntkgp.predictive.metrics.curves import error_vs_confidence as error_vs_confidence
from ntkgp.predictive.metrics.curves import error_vs_precision as error_vs_precision
from ntkgp.predictive.metrics.detection import auroc as auroc
from ntkgp.predictive.metrics.detection import fpr_at_tpr as fpr_at_tpr
from ntkgp.predictive.metrics.regression import CENTRAL_LEVELS as CENTRAL_LEVELS
from ntkgp.predictive.metrics.regression import calibration_curve as calibration_curve
from ntkgp.predictive.metrics.regression import crps_gaussian as crps_gaussian
from ntkgp.predictive.metrics.regression import crps_mixture as crps_mixture
from ntkgp.predictive.metrics.regression import crps_samples as crps_samples
from ntkgp.predictive.metrics.regression import energy_score as energy_score
from ntkgp.predictive.metrics.regression import gaussian_nll as gaussian_nll
from ntkgp.predictive.metrics.regression import interval_coverage as interval_coverage
from ntkgp.predictive.metrics.regression import interval_score as interval_score
from ntkgp.predictive.metrics.regression import pinball_loss as pinball_loss
from ntkgp.predictive.metrics.regression import (
    regression_calibration_error as regression_calibration_error,
)
from ntkgp.predictive.metrics.regression import rmse as rmse
