"""The paper's experiments: one value and one folder each, with what is run and how it is reported."""
