"""Kernel matrices: in blocks, empirical, packed, and the ways to invert them."""
