"""What infinitely wide ensembles predict: Table 1, exactly."""
