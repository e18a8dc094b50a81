"""Bounds on the entropy of mixtures and on the divergence between two of their components.

The entropy of a mixture with weights w lies between two bounds. The lower one is ``sum w H_i - sum_i w_i log sum_j w_j
BC_ij``. The upper one is ``sum w H_i - sum_i w_i log sum_j w_j exp(-KL_ij)``. Here BC is the Bhattacharyya coefficient
and KL the divergence of two components (Kolchinsky and Tracey 2017, doi:10.3390/e19070361, equations 7 to 10, with the
Chernoff distance at 1/2). Both pass through a product as they are (BC multiply, KL add) and through a sum as bounds of
the right direction. These are ``BC(sum w p, sum v q) <= sum sqrt(w v) BC(p, q)`` and ``KL(sum w p, sum v q) <= -sum_i
w_i log sum_j v_j exp(-KL(p_i, q_j))``. The last is at most the convex sum of w_i v_j KL(p_i, q_j).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

LARGE = 1e300  # stands for infinity where a weight of 0 may multiply it
NO_MASS = 1e-100  # of a panel: where another density underflows it is no sign that this one excludes it


class Spread(NamedTuple):
    """Of some nodes: bounds of their entropy, coefficients BC (from above) and divergences KL (from above) of pairs."""

    low: np.ndarray
    high: np.ndarray
    coefficient: np.ndarray
    divergence: np.ndarray


def leaf_spread(logs: np.ndarray, weight: np.ndarray) -> Spread:
    """From log densities (n, X) on a grid."""
    density = np.exp(logs)
    weighted = density * weight
    finite = np.where(logs > -np.inf, logs, 0.0)
    entropy = -(weighted * finite).sum(axis=1)
    cross = -weighted @ finite.T
    excluded = (weighted > NO_MASS).astype(np.float64) @ (logs == -np.inf).astype(np.float64).T > 0.0
    divergence = np.where(excluded, LARGE, np.maximum(cross - entropy[:, None], 0.0))
    root = np.sqrt(density)
    # what lies beyond the grid adds at most the root of the product of both masses there (Cauchy and Schwarz)
    missing = np.sqrt(np.maximum(1.0 - weighted.sum(axis=1), 0.0))
    coefficient = (root * weight) @ root.T + missing[:, None] * missing
    return Spread(entropy, entropy, np.minimum(coefficient, 1.0), divergence)


def mixture_spread(children: Spread, share: np.ndarray) -> Spread:
    """Sum nodes with these weights (nodes, children)."""
    with np.errstate(divide="ignore", over="ignore"):
        low, high = np.empty(len(share)), np.empty(len(share))
        for i, w in enumerate(share):
            used = np.flatnonzero(w > 0.0)
            w = w[used]
            pairs = np.ix_(used, used)
            coefficient = children.coefficient[pairs].copy()
            np.fill_diagonal(coefficient, 1.0)
            overlap = np.exp(-children.divergence[pairs])
            np.fill_diagonal(overlap, 1.0)
            low[i] = w @ children.low[used] - w @ np.log(coefficient @ w)
            high[i] = w @ children.high[used] - w @ np.log(overlap @ w)
        root = np.sqrt(share)
        coefficient = np.minimum(root @ children.coefficient @ root.T, 1.0)
        # from one child to a mixture, by Jensen's inequality, and convex in what it is from
        to_mixtures = -np.log(np.exp(-children.divergence) @ share.T)
        divergence = np.minimum(share @ np.minimum(to_mixtures, LARGE), LARGE)
    np.fill_diagonal(coefficient, 1.0)
    np.fill_diagonal(divergence, 0.0)
    return Spread(low, high, coefficient, divergence)


def largest_tree(columns: Sequence[int], pair: Callable[[int, int], float]) -> float:
    """Largest sum of mutual informations along a tree: sum H_i less it bounds the joint entropy (Chow and Liu)."""
    outside, total = set(columns[1:]), 0.0
    best = {d: pair(columns[0], d) for d in outside}
    while outside:
        new = max(outside, key=lambda d: best[d])
        total += best[new]
        outside.remove(new)
        for d in outside:
            best[d] = max(best[d], pair(new, d))
    return total
