"""Which groups of a start become leaves over several columns: those whose collapsed bound is higher so.

The start has products alone, down to the leaves, and each row wholly on one edge of a region. From the leaves upwards
every group of rows is compared with one leaf over all its columns. Groups of a node may then be put together into such
leaves as long as the bound rises. Groups of k-means are round, so a long cloud takes several of them. Where no cloud is
normal this ends with too few, and groups of few rows are too small for it, so restarts differ in this.
"""

import numpy as np

from pymc_spn.gibbs.joint_leaves import EXCESS, PRECISION_RATIO, joint_regions, n_kinds
from pymc_spn.gibbs.joint_scales import joint_scales
from pymc_spn.leaves.normal_inverse_wishart import add_row, log_evidence, triangle_size
from pymc_spn.networks.variational.active_tree import tree_of_digits
from pymc_spn.networks.variational.assignments import pieces_of, total_of
from pymc_spn.networks.variational.hyperparameter_ascent import leaf_vector, log_integral_of_each_leaf
from pymc_spn.networks.variational.weight_kernels import log_integral_of_node, log_stick_integral
from pymc_spn.numerics.kernel_options import kernel


def with_joint_leaves(structure, compiled, values, base_logs, tree, paths, hyper, merges):
    """Active tree and each row's edges (N, R), some groups of a start being leaves over several columns.

    Parameters
    ----------
    structure : RegionTree
    compiled : CompiledPalette
    values, base_logs : (N, P) float64
    tree : ActiveTree
        Of products alone.
    paths : (N, R) int32
        Each row's edges in it.
    hyper : tuple
    merges : bool
        Whether groups of a node may become one leaf.
    """
    statistics = total_of(pieces_of(tree, values, base_logs, paths, compiled, hyper))
    count, concentration = statistics.edge_count, hyper[0]
    value = np.zeros(count.size)  # of each edge: what lies below it adds to the bound
    vector, leaf_value = leaf_vector(tree, statistics, hyper[1].size), np.zeros(tree.leaf_family.size)
    log_integral_of_each_leaf(vector, compiled, *hyper[1:4], leaf_value)
    by_column = np.argsort(tree.column_of_place[tree.leaf_place], kind="stable")
    value[np.flatnonzero(tree.leaf >= 0)[by_column]] = leaf_value
    has, psi0 = joint_regions(structure, compiled.is_joint), joint_scales(compiled.joint_constants, hyper[4])
    leaf_of = np.arange(count.size)  # edges of one leaf have the same number
    is_joint = np.zeros(count.size, np.bool_)
    node_value = np.zeros(tree.node_ptr.size - 1)
    for r in range(structure.n_regions - 1, -1, -1):
        edges, nodes = slice(tree.edge_begin[r], tree.edge_begin[r + 1]), slice(*tree.node_begin[r : r + 2])
        for q in structure.parts[structure.part_ptr[r] : structure.part_ptr[r + 1]]:
            below = node_value[tree.node_begin[q] : tree.node_begin[q + 1]]
            value[edges] += np.where(tree.option[edges] == tree.split[q], below, 0.0)
        alpha = concentration[1 if tree.place[r] >= 0 else 0]
        if has[r]:
            columns = tree.columns[tree.column_ptr[r] : tree.column_ptr[r + 1]]
            rows = values[:, np.searchsorted(tree.column_of_place, columns)] - compiled.joint_constants[columns, 0]
            n_edges, d = edges.stop - edges.start, columns.size
            sums, products = np.zeros((n_edges, d)), np.zeros((n_edges, triangle_size(d)))
            add_filled_rows(paths[:, r] - edges.start, np.ascontiguousarray(rows), sums, products)
            ends = tree.node_ptr[nodes.start : nodes.stop + 1] - edges.start
            merge_groups(
                ends, count[edges].copy(), sums, products, psi0[columns], alpha, float(tree.n_options[r]), merges,
                value[edges], leaf_of[edges], is_joint[edges], node_value[nodes],
            )  # fmt: skip
            continue
        for k in range(nodes.start, nodes.stop):
            own = slice(*tree.node_ptr[k : k + 2])
            if own.stop > own.start:
                node_value[k] = log_integral_of_node(tree, r, k, count, alpha) + value[own].sum()
    return tree_of_digits(structure, compiled, _digits(structure, compiled, tree, paths, leaf_of, is_joint))


def _digits(structure, compiled, tree, paths, leaf_of, is_joint):
    """Digits (N, R) in which the edges of one leaf over several columns are one, and nothing is below it."""
    kinds = n_kinds(structure, compiled)
    digits = np.full(paths.shape, -1, np.int32)
    covered = np.zeros(paths.shape, np.bool_)
    for r in range(structure.n_regions):
        rows = paths[:, r] >= 0
        if r > 0:
            covered[:, r] = covered[:, structure.parent[r]]
        rows &= ~covered[:, r]
        edge = paths[rows, r]
        joint = is_joint[edge]
        option = np.where(joint, kinds[r] - 1, tree.option[edge])
        first = np.where(joint, leaf_of[edge], edge - tree.edge_begin[r])
        digits[rows, r] = first * kinds[r] + option
        covered[np.flatnonzero(rows)[joint], r] = True
    return digits


@kernel
def add_filled_rows(edge, rows, sums, products):
    """Add rows (N, d) to the statistics of their edges, -1 of none; missing cells stand at the mean of their edge."""
    n_edges, d = sums.shape
    held = np.zeros((n_edges, d))
    mean = np.zeros((n_edges, d))
    for n in range(rows.shape[0]):
        e = edge[n]
        if e >= 0:
            for j in range(d):
                if not np.isnan(rows[n, j]):
                    held[e, j] += 1.0
                    mean[e, j] += rows[n, j]
    x = np.empty(d)
    for n in range(rows.shape[0]):
        e = edge[n]
        if e >= 0:
            for j in range(d):
                x[j] = mean[e, j] / max(held[e, j], 1.0) if np.isnan(rows[n, j]) else rows[n, j]
            add_row(d, x, 1.0, sums[e], products[e])


@kernel
def merge_groups(node_ptr, count, sums, products, psi0, alpha, n_options, merges, value, leaf_of, is_joint, node_value):
    """Make groups of each node leaves over all columns, and put groups together if asked to, while the bound rises.

    Parameters
    ----------
    node_ptr : (V+1,) int64
        Groups of each node.
    count : (E,) float64
        Rows of each group; changed in place, like sums and products.
    sums : (E, d) float64
    products : (E, t) float64
    psi0 : (d,) float64
    alpha, n_options : float
    merges : bool
    value : (E,) float64
        What a group adds to the bound as a product.
    leaf_of : (E,) int64
        Out: number within the region of the first group of each leaf.
    is_joint : (E,) bool
        Out.
    node_value : (V,) float64
        Out.
    """
    d = psi0.size
    triangle = np.empty(triangle_size(d))
    for e in range(count.size):
        leaf_of[e] = e
        log_p = log_evidence(d, count[e], PRECISION_RATIO, d + EXCESS, sums[e], products[e], psi0, triangle)
        if count[e] > 0.0 and log_p > value[e]:
            is_joint[e] = True
            value[e] = log_p
    for k in range(node_ptr.size - 1):
        begin = node_ptr[k]
        alive = np.arange(begin, node_ptr[k + 1])
        m = alive.size
        if m == 0:
            continue
        gain_of = np.full((m, m), np.nan)  # of the pair without weights
        while merges:
            size = np.array([count[e] for e in alive])
            weights = log_stick_integral(size, alpha, n_options)
            best = 0.0
            at = -1
            to = -1
            for a in range(alive.size):
                for b in range(a + 1, alive.size):
                    e = alive[a]
                    f = alive[b]
                    if np.isnan(gain_of[e - begin, f - begin]):
                        gain_of[e - begin, f - begin] = log_evidence(
                            d, count[e] + count[f], PRECISION_RATIO, d + EXCESS, sums[e] + sums[f],
                            products[e] + products[f], psi0, triangle,
                        ) - value[e] - value[f]  # fmt: skip
                    rest = np.delete(size, b)
                    rest[a] = size[a] + size[b]
                    gain = gain_of[e - begin, f - begin] + log_stick_integral(rest, alpha, n_options) - weights
                    if gain > best:
                        best = gain
                        at = a
                        to = b
            if at < 0:
                break
            e = alive[at]
            f = alive[to]
            value[e] = value[e] + value[f] + gain_of[e - begin, f - begin]
            count[e] += count[f]
            sums[e] += sums[f]
            products[e] += products[f]
            is_joint[e] = True
            for g in range(begin, node_ptr[k + 1]):
                if leaf_of[g] == f:
                    leaf_of[g] = e
                    is_joint[g] = True
            gain_of[e - begin, :] = np.nan
            gain_of[:, e - begin] = np.nan
            alive = np.delete(alive, to)
        node_value[k] = log_stick_integral(np.array([count[e] for e in alive]), alpha, n_options)
        for e in alive:
            node_value[k] += value[e]
