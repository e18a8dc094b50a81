"""The statistics of a variational fit in the vector of those of a chain, so that one log joint serves both."""

import math
from typing import Any

import numpy as np
from scipy.special import gammaln

from pymc_spn.gibbs.hyperparameters import GAMMA, LOG_NORMAL_ABOVE_ONE
from pymc_spn.gibbs.statistics import HEAD, LEAF, log_joint
from pymc_spn.networks.variational.weights import child_shares, sticks_of


def pack_fit(tree: Any, statistics: Any, n_columns: int) -> np.ndarray:
    """Expected statistics in the layout of `pack_statistics`: their `log_joint` is the bound without the entropies.

    A stick of an infinite node with n rows, and T behind it, stands as a node of T + n + 1 rows, an edge of T whose
    factor is 1, and an unlabelled edge of n + 1.
    """
    sticks = sticks_of(tree, statistics.edge_count)
    region = tree.region_of_edge[sticks.edge]
    which, is_finite = (tree.place[region] >= 0).astype(np.float64), tree.width[region] > 0
    n, rest = sticks.n_rows, sticks.rest
    is_node = ~is_finite | (np.diff(sticks.node, prepend=-1) > 0)
    in_node = np.where(is_finite, sticks.total[sticks.node], 1.0 + n + rest)
    share = np.where(is_finite, child_shares(tree, sticks.edge, np.ones(n.size)), 1.0)
    labelled = np.stack([which, share, np.where(is_finite, n, rest)], axis=1)
    unlabelled = np.stack([which, -1.0 / tree.n_options[region], 1.0 + n], axis=1)[~is_finite]
    nodes, edges = np.stack([which, in_node], axis=1)[is_node], np.concatenate([labelled, unlabelled])
    column = tree.column_of_place[tree.leaf_place]
    order = np.argsort(column, kind="stable")
    first_level = HEAD + n_columns + 1 + nodes.size + edges.size + LEAF * order.size
    leaves = [
        tree.leaf_entry[order],
        statistics.edge_count[tree.leaf >= 0][order],
        statistics.s1[order],
        statistics.s2[order],
        first_level + tree.level_ptr[order],
    ]
    of_joints = np.flatnonzero(tree.joint >= 0)
    joints: list[Any] = []
    for i, (r, count) in enumerate(zip(tree.region_of_edge[of_joints], statistics.edge_count[of_joints], strict=True)):
        columns = tree.columns[tree.column_ptr[r] : tree.column_ptr[r + 1]]
        sums = statistics.sums[tree.sums_ptr[i] : tree.sums_ptr[i + 1]]
        products = statistics.products[tree.products_ptr[i] : tree.products_ptr[i + 1]]
        joints += [[columns.size, count], columns, sums, products]
    return np.concatenate(
        [
            [0.0, len(nodes), len(edges), order.size, statistics.levels.size, 0.0, of_joints.size],
            np.searchsorted(column[order], np.arange(n_columns + 1)),
            nodes.ravel(),
            edges.ravel(),
            np.column_stack(leaves).ravel(),
            statistics.levels,
            *joints,
        ]
    )


def log_integrals_of_leaves(tree: Any, statistics: Any, compiled: Any, hyper: tuple) -> np.ndarray:
    """Log marginal likelihood (L,) of each leaf over one column, in nats and coded units."""
    n_columns, out = hyper[1].size, np.empty(tree.leaf_family.size)
    count, column = statistics.edge_count[tree.leaf >= 0], tree.column_of_place[tree.leaf_place]
    for i in range(out.size):
        levels = statistics.levels[tree.level_ptr[i] : tree.level_ptr[i + 1]]
        head = [0.0, 0.0, 0.0, 1.0, levels.size, 0.0, 0.0], np.arange(n_columns + 1) > column[i]
        first_level = HEAD + n_columns + 1 + LEAF
        leaf = [tree.leaf_entry[i], count[i], statistics.s1[i], statistics.s2[i], first_level]
        out[i] = log_joint(np.concatenate([*head, leaf, levels]), compiled, *hyper)
    return out


def log_prior_of(hyper: Any, priors: np.ndarray, learned: np.ndarray) -> float:
    """Log prior density of all learned hyperparameters on their lines, see `gibbs.hyperparameters`."""
    total = 0.0
    for x, (family, a, b), own in zip(hyper, priors, learned, strict=True):
        v = np.log(x[own[: x.size]] - float(family == LOG_NORMAL_ABOVE_ONE))
        if family == GAMMA:
            total += (a * v - b * np.exp(v) + a * math.log(b) - gammaln(a)).sum()
        else:
            total += (-0.5 * ((v - a) / b) ** 2 - math.log(b) - 0.5 * math.log(2.0 * math.pi)).sum()
    return float(total)
