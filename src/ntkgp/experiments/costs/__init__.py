"""Table 2, measured."""
