"""Averages over the networks of a posterior, and their errors."""

import numpy as np


def shares_of_networks(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log of the mean of exp over the first two axes (N,), and the share of each in the sum; equal where all are 0."""
    top = logs.max((0, 1))
    possible = top > -np.inf
    relative = np.exp(logs - np.where(possible, top, 0.0))
    relative = np.where(possible, relative, 1.0)
    total = relative.sum((0, 1))
    return top + np.log(total / logs[..., 0].size), relative / total


def largest_root(variance: np.ndarray) -> float:
    """The largest standard error."""
    return float(np.sqrt(max(variance.max(), 0.0)))


def error_over_chains(parts: np.ndarray) -> np.ndarray:
    """Standard error of a sum over chains, (C, N), of as many equal parts."""
    return parts.std(0, ddof=1) * np.sqrt(len(parts))
