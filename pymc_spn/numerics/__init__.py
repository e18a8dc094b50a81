"""Numerical ground of all rooms: log space, fast exponentials, bitsets, resampling, categorical draws."""
