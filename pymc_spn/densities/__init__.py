"""Circuits inside PyMC: densities of circuits whose weights and leaves are variables of a model."""
