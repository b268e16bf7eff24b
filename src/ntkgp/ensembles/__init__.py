"""Ensembles of finite networks: the methods, one baselearner, and its training."""
