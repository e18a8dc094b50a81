"""Which groups of a start become leaves over several columns: those whose collapsed bound is higher so.

The start has products alone, down to the leaves, and each row wholly on one edge of a region. From the leaves upwards
every group of rows is compared with one leaf over all its columns. Groups of a node may then be put together into such
leaves as long as the bound rises. Groups of k-means are round, so a long cloud takes several of them. Where no cloud is
normal this ends with too few, and groups of few rows are too small for it, so restarts differ in this.
"""

import numpy as np
from scipy.special import gammaln

from pymc_spn.gibbs.joint_leaves import EXCESS, PRECISION_RATIO, joint_regions, n_kinds
from pymc_spn.gibbs.joint_statistics import joint_scales
from pymc_spn.leaves.leaf_statistics import NormalInverseWishart
from pymc_spn.leaves.normal_inverse_wishart import LOG_PI
from pymc_spn.networks.variational.active_tree import tree_of_digits
from pymc_spn.networks.variational.assignments import pieces_of, total_of
from pymc_spn.networks.variational.fit_statistics import log_integrals_of_leaves
from pymc_spn.networks.variational.weights import log_stick_integrals, log_weight_integrals, sticks_of


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
    value[tree.leaf >= 0] = log_integrals_of_leaves(tree, statistics, compiled, hyper)
    has, psi0 = joint_regions(structure, compiled.is_joint), joint_scales(compiled.joint_constants, hyper[4])
    leaf_of = np.arange(count.size)  # edges of one leaf have the same number
    is_joint = np.zeros(count.size, np.bool_)
    node_value = log_weight_integrals(tree, sticks_of(tree, count), concentration)
    for r in range(structure.n_regions - 1, -1, -1):
        first, edges = tree.edge_begin[r], slice(tree.edge_begin[r], tree.edge_begin[r + 1])
        for q in structure.parts[structure.part_ptr[r] : structure.part_ptr[r + 1]]:
            below = node_value[tree.node_begin[q] : tree.node_begin[q + 1]]
            value[edges] += np.where(tree.option[edges] == tree.split[q], below, 0.0)
        if has[r]:
            columns = tree.columns[tree.column_ptr[r] : tree.column_ptr[r + 1]]
            rows = values[:, np.searchsorted(tree.column_of_place, columns)] - compiled.joint_constants[columns, 0]
            sums, products = filled_sums(paths[:, r] - first, rows, edges.stop - first)
        for k in range(tree.node_begin[r], tree.node_begin[r + 1]):
            own = slice(*tree.node_ptr[k : k + 2])
            if has[r] and own.stop > own.start:
                here = slice(own.start - first, own.stop - first)
                groups = count[own].copy(), sums[here], products[here]
                usual = psi0[columns], concentration[0], float(tree.n_options[r])
                number, is_joint[own], node_value[k] = merged_groups(*groups, *usual, merges, value[own])
                leaf_of[own] = here.start + number
            else:
                node_value[k] += value[own].sum()
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


def filled_sums(edge, rows, n_edges):
    """Sums (E, d) and sums of products (E, t) of the rows (N, d) of each edge, where missing cells stand at its mean.

    ``edge`` (N,) is below 0 for rows that have none.
    """
    d = rows.shape[1]
    column, row = np.triu_indices(d)
    sums, products = np.zeros((n_edges, d)), np.zeros((n_edges, column.size))
    for e in np.unique(edge[edge >= 0]).tolist():
        own = rows[edge == e]
        is_held = ~np.isnan(own)
        mean = np.where(is_held, own, 0.0).sum(axis=0) / np.maximum(is_held.sum(axis=0), 1)
        own = np.where(is_held, own, mean)
        sums[e], products[e] = own.sum(axis=0), (own.T @ own)[column, row]
    return sums, products


def log_evidences(count, sums, products, psi0):
    """Log marginal likelihoods (L,) of leaves over all columns, in nats."""
    d = psi0.size
    v0, i = d + EXCESS, np.arange(d)
    _, k, psi, v = NormalInverseWishart.after(count, sums, products, psi0, PRECISION_RATIO, v0)
    gammas = (gammaln(0.5 * (v[:, None] - i)) - gammaln(0.5 * (v0 - i))).sum(axis=1)
    constant = 0.5 * d * (np.log(PRECISION_RATIO / k) - count * LOG_PI) + 0.5 * v0 * np.log(psi0).sum()
    return constant + gammas - 0.5 * v * np.linalg.slogdet(psi)[1]


def merged_groups(count, sums, products, psi0, alpha, n_options, merges, value):
    """Make groups of a node leaves over all columns, and put groups together if asked to, while the bound rises.

    Parameters
    ----------
    count : (m,) float64
        Rows of each group; changed in place, like sums and products.
    sums : (m, d) float64
    products : (m, t) float64
    psi0 : (d,) float64
    alpha, n_options : float
    merges : bool
    value : (m,) float64
        What a group adds to the bound as a product.

    Returns
    -------
    leaf_of : (m,) int64
        Number of the first group of each leaf.
    is_joint : (m,) bool
    node_value : float
    """
    evidence = log_evidences(count, sums, products, psi0)
    is_joint = (count > 0.0) & (evidence > value)
    value = np.where(is_joint, evidence, value)
    leaf_of, alive = np.arange(count.size), np.arange(count.size)
    gain = np.full((count.size, count.size), np.nan)  # of a pair without weights
    while merges and alive.size > 1:
        a, b = np.triu_indices(alive.size, 1)
        e, f = alive[a], alive[b]
        new = np.isnan(gain[e, f])
        both = [x[e[new]] + x[f[new]] for x in (count, sums, products)]
        gain[e[new], f[new]] = log_evidences(*both, psi0) - value[e[new]] - value[f[new]]
        sizes = np.tile(count[alive], (a.size, 1))
        sizes[np.arange(a.size), a] += count[f]
        sizes = sizes[b[:, None] != np.arange(alive.size)].reshape(a.size, -1)
        now = log_stick_integrals(count[alive], alpha, n_options)
        total = gain[e, f] + log_stick_integrals(sizes, alpha, n_options) - now
        best = int(np.argmax(total))
        if not total[best] > 0.0:
            break
        e, f = e[best], f[best]
        value[e] += value[f] + gain[e, f]
        for x in (count, sums, products):
            x[e] += x[f]
        leaf_of[leaf_of == f] = e
        is_joint[leaf_of == e] = True
        gain[e, :] = gain[:, e] = np.nan
        alive = alive[alive != f]
    return leaf_of, is_joint, log_stick_integrals(count[alive], alpha, n_options) + value[alive].sum()
