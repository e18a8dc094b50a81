"""Probabilistic circuits: structures, evaluation, algebra, estimation."""
