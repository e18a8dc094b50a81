"""Bounds on the entropy of one draw and on the divergence between two of its conditionals, by passes over its nodes."""

import numpy as np

from pymc_spn.laws.column_grids import Grid
from pymc_spn.laws.information_bounds import LARGE, Spread, leaf_spread, mixture_spread
from pymc_spn.leaves.leaf_predictives import log_event
from pymc_spn.networks.records.draw_laws import DrawLaws


def entropy_bounds(laws: DrawLaws, grids: dict[int, Grid]) -> tuple[float, float]:
    """Lower and upper bound in nats of the entropy of the columns that have a grid, under one draw."""
    tree = laws.tree
    nodes: dict[int, Spread] = {}
    for r in range(tree.n_regions - 1, -1, -1):
        share = laws.share[r]
        d = int(laws.net.tree.column[r])
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


def divergence_bound(one: DrawLaws, other: DrawLaws, asked: set[int]) -> float:
    """Upper bound in nats of the divergence of one conditional of a draw from another, over some columns.

    By the chain rule down the network: at a sum node the divergence of the weights, then that of the children.
    """
    tree = one.tree
    nodes: dict[int, np.ndarray] = {}
    for r in range(tree.n_regions - 1, -1, -1):
        p, q = one.share[r], other.share[r]
        d = int(one.net.tree.column[r])
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
