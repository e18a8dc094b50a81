"""Draws and the maximum of an order posterior: an order from the lattice, then parents inside its prefixes."""

from typing import Any

import numpy as np

from pymc_spn.dags import draw_kernels, lattice_kernels, order_gibbs_kernels, order_mcmc_kernels
from pymc_spn.dags.order_paths import OrderPaths
from pymc_spn.dags.order_sample import must_stand_before
from pymc_spn.numerics.answer_steps import each

STARTS = 50  # best sampled orders from which the most probable graph is searched


def draw(post: Any, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(n, d) orders and (n, d, d) graphs."""
    scores, lattice, passes = post.scores, post.lattice, post._lattice_passes
    orders = np.empty((n, scores.d), np.int64)
    draw_kernels.draw_orders(rng, lattice.ptr, lattice.source, lattice.variable, passes.from_source, orders)
    graphs = np.zeros((n, scores.d, scores.d), bool)
    flat = post._leaf_tables.flat_log_sums()
    for i in each(range(scores.d)):
        part = slice(scores.offsets[i], scores.offsets[i + 1])
        table = post._leaf_tables.log_scores(i)
        draw_kernels.draw_parents(
            rng, i, orders, scores.slots, scores.candidates, post._leaf_tables.ranked(i), table, flat[part], graphs
        )
    return orders, graphs


def most_probable(post: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """Order, graph and log weight of the most probable pair; of sampled orders, that of a search from the best ones."""
    scores, lattice, tables = post.scores, post.lattice, post._leaf_tables
    maxima = tables.flat_maxima()
    if isinstance(lattice, OrderPaths):
        order, log_weight = _climbed(tables, lattice.orders.reshape(-1, scores.d), maxima)
    else:
        weights, order = np.empty(lattice.n_edges), np.empty(scores.d, np.int64)
        index = post._lattice_passes.index
        lattice_kernels.gather(scores.offsets, maxima, np.ones(scores.d), lattice.variable, index, weights)
        log_weight = lattice_kernels.best_chain(lattice.ptr, lattice.source, lattice.variable, weights, order)
    graph = np.zeros((scores.d, scores.d), bool)
    prefix = 0
    for i in order:
        inside = scores.index_of_parents(i, prefix & scores.candidate_sets[i])
        m = draw_kernels.first_inside(tables.ranked(i), tables.log_scores(i), inside)
        for k in range(scores.n_candidates[i]):
            graph[scores.candidates[i, k], i] = m >> k & 1
        prefix |= 1 << int(i)
    return order, graph, float(log_weight)


def _climbed(tables: Any, orders: np.ndarray, maxima: np.ndarray) -> tuple[np.ndarray, float]:
    """The best order that moves of single variables lead to from the best of some orders, and its log weight."""
    scores, precede = tables.scores, must_stand_before(tables)
    weights = np.empty(len(orders))
    order_mcmc_kernels.order_log_weights(orders, scores.slots, scores.offsets, maxima, weights)
    found, best = orders[0], -np.inf
    for start in each(np.argsort(-weights, kind="stable")[:STARTS].tolist()):
        order = orders[start].copy()
        weight = order_gibbs_kernels.climb(order, scores.slots, scores.offsets, maxima, precede)
        if weight > best:
            found, best = order, weight
    return found, best
