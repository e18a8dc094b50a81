"""Intervals that hold a share of weighted values."""

import numpy as np


def shortest_interval(values: np.ndarray, weight: np.ndarray, prob: float) -> tuple[float, float]:
    """Shortest interval that holds a share of weighted values."""
    if np.isnan(values).any():
        return np.nan, np.nan
    order = np.argsort(values)
    x, w = values[order], np.cumsum(weight[order])
    before = np.concatenate([[0.0], w[:-1]])
    last = np.searchsorted(w, np.minimum(before + prob * w[-1], w[-1]) - 1e-12)
    fits = before + prob * w[-1] <= w[-1] + 1e-12
    starts = np.flatnonzero(fits)
    best = starts[np.argmin(x[last[starts]] - x[starts])]
    return float(x[best]), float(x[last[best]])
