"""Posteriors over directed acyclic graphs: local scores, prefix lattices, order posteriors, causal effects."""
