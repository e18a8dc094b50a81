"""Circuits from circuits: composed, multiplied, compared, summed and squared."""
