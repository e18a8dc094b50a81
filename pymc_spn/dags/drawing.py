"""Draws and the maximum of an order posterior: an order from the lattice, then parents inside its prefixes."""

from typing import Any

import numpy as np

from pymc_spn.dags import draw_kernels, lattice_kernels


def draw(post: Any, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(n, d) orders and (n, d, d) graphs."""
    scores, lattice, passes = post.scores, post.lattice, post._lattice_passes
    orders = np.empty((n, scores.d), np.int64)
    draw_kernels.draw_orders(rng, lattice.ptr, lattice.source, lattice.variable, passes.from_source, orders)
    graphs = np.zeros((n, scores.d, scores.d), bool)
    flat = post._leaf_tables.flat_log_sums()
    for i in range(scores.d):
        part = slice(scores.offsets[i], scores.offsets[i + 1])
        table = post._leaf_tables.log_scores(i)
        draw_kernels.draw_parents(
            rng, i, orders, scores.slots, scores.candidates, post._leaf_tables.ranked(i), table, flat[part], graphs
        )
    return orders, graphs


def most_probable(post: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """Order, graph and log weight of the most probable pair."""
    scores, lattice = post.scores, post.lattice
    flat = np.empty(scores.log_scores.size)
    for i in range(scores.d):
        part = flat[scores.offsets[i] : scores.offsets[i + 1]]
        part[:] = post._leaf_tables.log_scores(i)
        draw_kernels.subset_maxima(part)
    weights = np.empty(lattice.n_edges)
    ones = np.ones(scores.d)
    lattice_kernels.gather(scores.offsets, flat, ones, lattice.variable, post._lattice_passes.index, weights)
    order = np.empty(scores.d, np.int64)
    log_weight = lattice_kernels.best_chain(lattice.ptr, lattice.source, lattice.variable, weights, order)
    graph = np.zeros((scores.d, scores.d), bool)
    prefix = 0
    for i in order:
        table = post._leaf_tables.log_scores(i)
        inside = scores.index_of_parents(i, prefix & scores.candidate_sets[i])
        m = draw_kernels.first_inside(post._leaf_tables.ranked(i), table, inside)
        for k in range(scores.n_candidates[i]):
            graph[scores.candidates[i, k], i] = m >> k & 1
        prefix |= 1 << int(i)
    return order, graph, float(log_weight)
