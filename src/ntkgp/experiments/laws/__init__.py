"""Table 1 and Proposition 2 in numbers."""
