"""Figures 3 to 6 and 8: classifiers shown images of another kind."""
