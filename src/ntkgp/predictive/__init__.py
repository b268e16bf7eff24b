"""Predictive distributions and how they are judged: arrays in, arrays out."""
