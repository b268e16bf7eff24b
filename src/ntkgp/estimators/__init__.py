"""The scikit-learn face: estimators, and what they do to a table before and after a network."""
