"""Figures 1 and 7: the toy problem."""
