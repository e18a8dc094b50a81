"""Weights of the sum nodes: their variational posterior, its expectations and its normalising constant.

At finite width it is a Dirichlet with masses ``share + count``. At infinite width the prior is a Dirichlet process,
in the stick-breaking form of Blei and Jordan (2006). Child k of a node takes the share v_k of what the children before
it left, and v_k is Beta(1 + count_k, concentration + counts after k). The children stand by falling counts. Of two
neighbours with counts a and b and T rows behind them, a first is better by the factor (concentration + a + T) /
(concentration + b + T). Sticks behind the last active child keep their prior, so nothing is truncated but the
assignments (Kurihara, Welling and Teh 2007). Each active child of an infinite node also draws its option (split or
palette entry), uniformly.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

FREE = 1e-12  # of the mass of a finite node: what is left is rounding


class Sticks(NamedTuple):
    """Edges (E,) node by node, those of a node by falling counts, and where each of them stands."""

    edge: np.ndarray  # the edges in this order
    node: np.ndarray  # their nodes
    begin: np.ndarray  # place of the first edge of the node
    n_rows: np.ndarray  # on each of them
    rest: np.ndarray  # rows on the edges of the node that follow
    total: np.ndarray  # (V,) rows of each node


def sticks_of(tree: Any, count: np.ndarray) -> Sticks:
    """The order of the sticks given expected counts (E,); of equal counts the earlier edge comes first."""
    edge = np.lexsort((-count, tree.node_of_edge))
    node = tree.node_of_edge[edge]
    begin, end = tree.node_ptr[node], tree.node_ptr[node + 1]
    total = np.bincount(tree.node_of_edge, count, tree.node_ptr.size - 1)
    behind = np.append(np.cumsum(count[edge][::-1])[::-1], 0.0)
    rest = np.maximum(behind[1:] - behind[end], 0.0)
    return Sticks(edge, node, begin, count[edge], rest, total)


def sums_before(values: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """Sums (E,) of the values of the edges of a node that stand before each."""
    before = np.concatenate([[0.0], np.cumsum(values)])
    return before[:-1] - before[begin]


def child_shares(tree: Any, edge: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Dirichlet masses of edges of finite sum nodes: products share alike, and so do the copies of an entry."""
    region = tree.region_of_edge[edge]
    width, is_leaf = tree.width[region], tree.place[region] >= 0
    n_entries = np.where(is_leaf, tree.n_options[region], 1)
    copies = np.where(is_leaf, (width - tree.option[edge] - 1) // n_entries + 1, width)
    return mass / n_entries / np.maximum(copies, 1)


def _masses(tree: Any, sticks: Sticks, concentration: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each edge the mass of its node, whether that is finite, and its share in it."""
    region = tree.region_of_edge[sticks.edge]
    mass = concentration[(tree.place[region] >= 0).astype(np.int64)]
    return mass, tree.width[region] > 0, child_shares(tree, sticks.edge, mass)


def expect_weights(tree: Any, count: np.ndarray, concentration: np.ndarray) -> np.ndarray:
    """Expected log weights (E,) of all edges under q(weights) given expected counts (E,).

    ``concentration`` (2,) is that of sum nodes over several columns and over one.
    """
    sticks = sticks_of(tree, count)
    mass, is_finite, share = _masses(tree, sticks, concentration)
    n, rest = sticks.n_rows, sticks.rest
    total = digamma(np.where(is_finite, mass + sticks.total[sticks.node], 1.0 + mass + n + rest))
    left = sums_before(digamma(mass + rest) - total, sticks.begin)
    out = np.empty(count.size)
    out[sticks.edge] = np.where(is_finite, digamma(share + n), left + digamma(1.0 + n)) - total
    return out


def mean_weights(tree: Any, count: np.ndarray, concentration: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Expected weights (E,) of all edges and of the rest of every sum node (V,)."""
    sticks = sticks_of(tree, count)
    mass, is_finite, share = _masses(tree, sticks, concentration)
    n, rest, n_nodes = sticks.n_rows, sticks.rest, sticks.total.size
    total = np.where(is_finite, mass + sticks.total[sticks.node], 1.0 + mass + n + rest)
    passed = np.log((mass + rest) / total)
    out = np.empty(count.size)
    out[sticks.edge] = np.where(is_finite, share + n, np.exp(sums_before(passed, sticks.begin)) * (1.0 + n)) / total
    region = np.repeat(np.arange(tree.parent.size), np.diff(tree.node_begin))
    of_node = concentration[(tree.place[region] >= 0).astype(np.int64)]
    free = of_node - np.bincount(sticks.node, share, n_nodes)
    free = np.where(free > FREE * of_node, free, 0.0) / (of_node + sticks.total)
    return out, np.where(tree.width[region] > 0, free, np.exp(np.bincount(sticks.node, passed, n_nodes)))


def log_weight_integrals(tree: Any, sticks: Sticks, concentration: np.ndarray) -> np.ndarray:
    """Logs (V,) of the integral of prod_e w_e^count_e over the prior of each node's weights, ordered as in q."""
    mass, is_finite, share = _masses(tree, sticks, concentration)
    n_options = tree.n_options[tree.region_of_edge[sticks.edge]]
    terms = np.where(
        is_finite,
        gammaln(share + sticks.n_rows) - gammaln(share),
        _log_beta(sticks.n_rows, sticks.rest, mass) + np.log(mass / n_options),
    )
    of_nodes = np.bincount(sticks.node, terms, sticks.total.size)
    first = np.flatnonzero((np.diff(sticks.node, prepend=-1) > 0) & is_finite)
    node = sticks.node[first]
    of_nodes[node] += gammaln(mass[first]) - gammaln(mass[first] + sticks.total[node])
    return of_nodes


def log_stick_integrals(count: np.ndarray, mass: float, n_options: float) -> np.ndarray:
    """The same (...,) of nodes of infinite width with children of these counts (..., n), in any order."""
    n = -np.sort(-count, axis=-1)
    rest = np.maximum(n.sum(axis=-1, keepdims=True) - np.cumsum(n, axis=-1), 0.0)
    return _log_beta(n, rest, mass).sum(axis=-1) + n.shape[-1] * np.log(mass / n_options)


def _log_beta(n: np.ndarray, rest: np.ndarray, mass: Any) -> np.ndarray:
    return gammaln(1.0 + n) + gammaln(mass + rest) - gammaln(1.0 + mass + n + rest)


def rest_of_entries(tree: Any, r: int, mass: float, remainder: np.ndarray) -> np.ndarray:
    """Share (nodes, entries) of the unoccupied leaves of each palette entry in the nodes of a univariate region.

    ``remainder`` (nodes,) is what `mean_weights` leaves to all of them.
    """
    free = np.full((remainder.size, int(tree.n_options[r])), mass / tree.n_options[r])
    if tree.width[r] > 0:
        edge = np.arange(tree.edge_begin[r], tree.edge_begin[r + 1])
        node = tree.node_of_edge[edge] - tree.node_begin[r]
        np.subtract.at(free, (node, tree.option[edge]), child_shares(tree, edge, np.full(edge.size, mass)))
        free[free <= FREE * mass] = 0.0
    total = free.sum(axis=1, keepdims=True)
    return remainder[:, None] * np.divide(free, total, out=np.zeros_like(free), where=total > 0.0)
