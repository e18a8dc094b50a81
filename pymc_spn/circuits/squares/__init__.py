"""Squares of sums of circuits, with coefficients of either sign."""
