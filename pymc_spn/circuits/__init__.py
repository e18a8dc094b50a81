"""Probabilistic circuits: structures, leaf families, and the Bayesian sum-product network inside PyMC."""
