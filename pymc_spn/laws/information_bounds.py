"""Bounds on the entropy of one draw and on the divergence between two of its conditionals, by passes over its nodes.

For a mixture with weights w, the entropy lies between sum w H_i - sum_i w_i log sum_j w_j BC_ij and
sum w H_i - sum_i w_i log sum_j w_j exp(-KL_ij), where BC is the Bhattacharyya coefficient and KL the divergence of
two components (Kolchinsky and Tracey 2017, doi:10.3390/e19070361, equations 7 to 10, with the Chernoff distance at
1/2). Both pass through a product as they are (BC multiply, KL add) and through a sum as bounds of the right
direction: BC(sum w p, sum v q) <= sum sqrt(w v) BC(p, q), and KL(sum w p, sum v q) <=
-sum_i w_i log sum_j v_j exp(-KL(p_i, q_j)), which is at most the convex sum of w_i v_j KL(p_i, q_j).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pymc_spn.laws.draw_laws import DrawLaws, Grid
from pymc_spn.networks.records.leaf_predictives import log_event

LARGE = 1e300  # stands for infinity where a weight of 0 may multiply it
NO_MASS = 1e-100  # of a panel: where another density underflows it is no sign that this one excludes it


class Spread(NamedTuple):
    """Of some nodes: bounds of their entropy, coefficients BC (from above) and divergences KL (from above) of pairs."""

    low: np.ndarray
    high: np.ndarray
    coefficient: np.ndarray
    divergence: np.ndarray


def entropy_bounds(laws: DrawLaws, grids: dict[int, Grid]) -> tuple[float, float]:
    """Lower and upper bound in nats of the entropy of the columns that have a grid, under one draw."""
    tree = laws.tree
    nodes: dict[int, Spread] = {}
    for r in range(tree.n_regions - 1, -1, -1):
        share = laws.share[r]
        d = int(laws.net.column[r])
        c, slots = laws.place(d) if d >= 0 else (-1, np.zeros(0, np.int64))
        if d < 0:
            children = _by_split([(which, _product([nodes[q] for q in parts])) for which, parts in laws.parts_of(r)])
        elif c in grids:
            density = laws.on_grid(c, grids[c])[slots]
            with np.errstate(divide="ignore"):
                logs = np.log(np.concatenate([density, np.zeros((1, density.shape[1]))]))
            children = leaf_spread(logs, grids[c].weight)
        else:
            width = share.shape[1]
            zero, one = np.zeros(width), np.ones((width, width))
            children = Spread(zero, zero, one, np.zeros((width, width)))
        nodes[r] = mixture_spread(children, share)
    return float(nodes[0].low[0]), float(nodes[0].high[0])


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


def _product(parts: list[Spread]) -> Spread:
    low, high = sum(p.low for p in parts), sum(p.high for p in parts)
    coefficient, divergence = np.ones_like(parts[0].coefficient), np.zeros_like(parts[0].divergence)
    for p in parts:
        coefficient = coefficient * p.coefficient
        divergence = np.minimum(divergence + p.divergence, LARGE)
    return Spread(np.asarray(low), np.asarray(high), coefficient, divergence)


def _by_split(groups: list[tuple[np.ndarray, Spread]]) -> Spread:
    """Children with different splits: of two such nothing is known but the trivial bounds."""
    if len(groups) == 1:
        return groups[0][1]
    n = groups[0][0].size
    low, high, coefficient, divergence = np.zeros(n), np.zeros(n), np.ones((n, n)), np.full((n, n), LARGE)
    for which, spread in groups:
        low[which], high[which] = spread.low[which], spread.high[which]
        pairs = np.ix_(which, which)
        coefficient[pairs], divergence[pairs] = spread.coefficient[pairs], spread.divergence[pairs]
    return Spread(low, high, coefficient, divergence)


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


def divergence_bound(one: DrawLaws, other: DrawLaws, asked: set[int]) -> float:
    """Upper bound in nats of the divergence of one conditional of a draw from another, over some columns.

    By the chain rule down the network: at a sum node the divergence of the weights, then that of the children.
    """
    tree = one.tree
    nodes: dict[int, np.ndarray] = {}
    for r in range(tree.n_regions - 1, -1, -1):
        p, q = one.share[r], other.share[r]
        d = int(one.net.column[r])
        if d < 0:
            children = np.zeros(p.shape[1])
            for which, parts in one.parts_of(r):
                children[which] = np.sum([nodes[k][which] for k in parts], axis=0)
        else:
            children = np.zeros(p.shape[1])
            d, slots = one.place(d)
            if d in asked:
                every = one.leaves(d).leaves
                leaves = type(every)(*(v[slots] for v in every))
                first = log_event(leaves, one.events[d]) if d in one.events else np.zeros(leaves.family.size)
                second = log_event(leaves, other.events[d]) if d in other.events else np.zeros(leaves.family.size)
                inside = d not in other.events or (d in one.events and _within(one.events[d], other.events[d]))
                children[: first.size] = np.maximum(second - first, 0.0) if inside else LARGE
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(p > 0.0, p * (np.log(p) - np.log(q)), 0.0).sum(axis=1)
        below = np.where(p > 0.0, p * np.minimum(children, LARGE), 0.0).sum(axis=1)
        nodes[r] = np.minimum(ratio + below, LARGE)
    value = float(nodes[0][0])
    return value if value < 0.5 * LARGE else np.inf


def _within(event: object, other: object) -> bool:
    """Whether one interval or set lies within another of its kind."""
    if isinstance(event, frozenset) and isinstance(other, frozenset):
        return event <= other
    if isinstance(event, tuple) and isinstance(other, tuple):
        return bool(event[0] >= other[0] and event[1] <= other[1])
    return False
