"""Bayesian decision trees: top-down particle filtering, the exact recursion, particle Gibbs inside `pm.sample`."""
