"""Means and covariances of the missing cells of rows, from the values of all nodes and their flows."""

import math

import numpy as np

from pymc_spn.circuits.evaluation.circuit_layout import LEAF, PRODUCT, SUM
from pymc_spn.circuits.evaluation.circuit_passes import make_block, pass_block
from pymc_spn.leaves.kernel_forms import IMPOSSIBLE
from pymc_spn.numerics.elementary import fast_exp
from pymc_spn.numerics.kernel_options import bare_inner_kernel, inner_kernel, kernel
from pymc_spn.numerics.read_only_views import read_only_view

NEGLIGIBLE = 1e-295  # linear value of a node through which less than 1e-15 of a row's probability flows


@kernel
def moments_of_rows(
    layout,
    log_weights,
    weight,
    coefficients,
    table,
    values,
    scope_ptr,
    scope_column,
    leaf_mean,
    leaf_variance,
    part_mean,
    pairs,
    pair_covariance,
    numeric,
    with_covariance,
    block,
    means,
    covs,
    out,
):
    """Moments of the missing numeric cells of each row given its observed ones; observed cells have no variance.

    Covariances by the law of total covariance. Below a sum node, columns covary by the differences of its children's
    means. Between the children of a product they do not covary. Within a leaf there is its variance. Rows with the same
    gaps are best next to each other: a block does the work for all that one of them lacks.

    Parameters
    ----------
    scope_ptr, scope_column : (V + 1,) and (P,) int64
        Numeric columns below each node, in their order.
    leaf_mean, leaf_variance : (L,) float64
        In the order of the layout; 0 of parts of leaves over several columns.
    part_mean, pairs, pair_covariance
        Of these, as in `wide_leaves.PartMoments`.
    numeric : (D,) bool
        Columns that have moments.
    block : int
        Rows at a time.
    means, covs : (N, D) and (N, D, D) float64
        Out.
    out : (N,) float64
        Out: log densities of what is observed.
    """
    n_nodes, n_columns, n_alone = layout.kind.size, numeric.size, leaf_mean.size - part_mean.shape[0]
    at = make_block(layout, weight, coefficients, table, block)
    flow, edge_flow = np.empty((n_nodes, block)), np.empty(log_weights.size)
    ones = read_only_view(np.ones(values.shape[0]))
    n_pairs, n_held = (n_columns, scope_column.size) if with_covariance else (0, 0)
    inside, wanted = np.empty((n_held, block)), np.empty(n_columns, np.bool_)
    mean, cov = np.empty((n_columns, block)), np.empty((n_pairs, n_pairs, block))
    for first in range(0, values.shape[0], block):
        n, is_linear = pass_block(layout, log_weights, at, values, first, ones, flow, edge_flow, out)
        for d in range(n_columns):
            wanted[d] = numeric[d] and is_missed(values, first, n, d)
        mean[:] = 0.0
        for k in range(leaf_mean.size):
            if wanted[layout.leaf_column[k]] and k < n_alone:
                add_scaled_flow(leaf_mean[k], flow[layout.node_of_leaf[k]], mean[layout.leaf_column[k]])
            elif wanted[layout.leaf_column[k]]:
                own = part_mean[k - n_alone, first : first + n]
                add_weighed(flow[layout.node_of_leaf[k], :n], own, mean[layout.leaf_column[k], :n])
        if with_covariance:
            cov[:] = 0.0
            expect_inside(
                layout, log_weights, at, is_linear, scope_ptr, scope_column, wanted, leaf_mean,
                part_mean[:, first : first + n], mean, inside
            )  # fmt: skip
            add_covariances(
                layout, log_weights, at, is_linear, scope_ptr, scope_column, wanted, leaf_variance, flow, inside, cov
            )  # fmt: skip
            for q in range(pairs.shape[0]):
                v, d, e = pairs[q]
                if wanted[d] and wanted[e]:
                    add_weighed(flow[v, :n], pair_covariance[q, first : first + n], cov[d, e, :n])
        for i in range(n):
            write_moments(values[first + i], numeric, i, mean, cov, means[first + i], covs, first + i)


@inner_kernel
def is_missed(values, first, n, d):
    for i in range(first, first + n):
        if math.isnan(values[i, d]):
            return True
    return False


@inner_kernel
def expect_inside(
    layout, log_weights, at, is_linear, scope_ptr, scope_column, wanted, leaf_mean, part_mean, mean, inside
):  # fmt: skip
    """Expectations less the row's mean, of each wanted column below each node (P, B), given what is observed there.

    The mean is subtracted at the leaves, so that nothing cancels.
    """
    rate, share = at.scratch[0], at.scratch[1]
    n_alone, n = leaf_mean.size - part_mean.shape[0], part_mean.shape[1]
    for v in range(layout.kind.size - 1, -1, -1):
        own, n_own = scope_ptr[v], scope_ptr[v + 1] - scope_ptr[v]
        if layout.kind[v] == LEAF:
            k = layout.leaf_of_node[v]
            if n_own > 0 and k < n_alone:
                subtract_from(leaf_mean[k], mean[scope_column[own]], inside[own])
            elif n_own > 0:
                inside[own, n:] = 0.0
                for i in range(n):
                    inside[own, i] = part_mean[k - n_alone, i] - mean[scope_column[own], i]
        elif layout.kind[v] == PRODUCT:
            for e in range(layout.child_ptr[v], layout.child_ptr[v + 1]):
                c, place = layout.children[e], own
                for j in range(scope_ptr[c], scope_ptr[c + 1]):
                    while scope_column[place] < scope_column[j]:
                        place += 1
                    if wanted[scope_column[j]]:
                        for i in range(inside.shape[1]):
                            inside[place, i] = inside[j, i]
        elif n_own > 0:
            inside[own : own + n_own] = 0.0
            reciprocals(at.nodes[v], rate)
            for e in range(layout.child_ptr[v], layout.child_ptr[v + 1]):
                shares_of_edge(layout, log_weights, at, is_linear, v, e, rate, share)
                other = scope_ptr[layout.children[e]]
                for j in range(n_own):
                    if wanted[scope_column[own + j]]:
                        add_weighed(share, inside[other + j], inside[own + j])


@inner_kernel
def add_covariances(
    layout, log_weights, at, is_linear, scope_ptr, scope_column, wanted, leaf_variance, flow, inside, cov
):
    """Covariances (D, D, B) on and above the diagonal: what sums add by their children's means, leaves by variances."""
    rate, share = at.scratch[0], at.scratch[1]
    for v in range(layout.kind.size):
        own, n_own = scope_ptr[v], scope_ptr[v + 1] - scope_ptr[v]
        if layout.kind[v] == LEAF and n_own > 0:
            d = scope_column[own]
            if wanted[d]:
                add_scaled_flow(leaf_variance[layout.leaf_of_node[v]], flow[v], cov[d, d])
        if layout.kind[v] != SUM or n_own == 0:
            continue
        reciprocals(at.nodes[v], rate)
        for e in range(layout.child_ptr[v], layout.child_ptr[v + 1]):
            shares_of_edge(layout, log_weights, at, is_linear, v, e, rate, share)
            multiply_row(flow[v], share)
            other = scope_ptr[layout.children[e]]
            for j in range(n_own):
                d = scope_column[own + j]
                if not wanted[d]:
                    continue
                for k in range(j, n_own):
                    if wanted[scope_column[own + k]]:
                        add_deviations(
                            share, inside[other + j], inside[own + j], inside[other + k], inside[own + k],
                            cov[d, scope_column[own + k]],
                        )  # fmt: skip


@bare_inner_kernel
def shares_of_edge(layout, log_weights, at, is_linear, v, e, rate, out):
    """Share (B,) of the child at an edge in the value of a sum; 0 where that value is negligible."""
    child, w = at.nodes[layout.children[e]], layout.edge_weight[e]
    if is_linear:
        scale_shares(at.weight[w], child, rate, out)
    else:
        shares_of_logs(max(log_weights[w], IMPOSSIBLE), child, at.nodes[v], out)


@inner_kernel
def write_moments(row, numeric, i, mean, cov, mean_out, covs, n):
    """One row's part of a block, with its observed cells and without columns of levels."""
    for d in range(numeric.size):
        is_missing = numeric[d] and math.isnan(row[d])
        if not is_missing:
            mean_out[d] = row[d] if numeric[d] else math.nan
        else:
            mean_out[d] = mean[d, i]
        for e in range(d, cov.shape[0]):
            if not numeric[d] or not numeric[e]:
                covs[n, d, e] = math.nan
            elif is_missing and math.isnan(row[e]):
                covs[n, d, e] = cov[d, e, i]
            else:
                covs[n, d, e] = 0.0
            covs[n, e, d] = covs[n, d, e]


# Where nothing flows a moment may be infinite, or a sum's value have been lost: nothing is added there.


@bare_inner_kernel
def reciprocals(a, out):
    for i in range(a.size):
        out[i] = 1.0 / a[i] if a[i] >= NEGLIGIBLE else 0.0


@bare_inner_kernel
def scale_shares(weight, child, rate, out):
    for i in range(out.size):
        out[i] = weight * child[i] * rate[i]


@bare_inner_kernel
def shares_of_logs(log_weight, child, parent, out):
    for i in range(out.size):
        out[i] = fast_exp(log_weight + child[i] - parent[i])


@bare_inner_kernel
def add_weighed(weight, row, out):
    for i in range(out.size):
        out[i] += weight[i] * row[i] if weight[i] > 0.0 else 0.0


@bare_inner_kernel
def multiply_row(row, out):
    for i in range(out.size):
        out[i] *= row[i]


@bare_inner_kernel
def add_scaled_flow(scale, flow, out):
    for i in range(out.size):
        out[i] += flow[i] * scale if flow[i] > 0.0 else 0.0


@bare_inner_kernel
def subtract_from(a, row, out):
    for i in range(out.size):
        out[i] = a - row[i]


@bare_inner_kernel
def add_deviations(weight, a, a_mean, b, b_mean, out):
    for i in range(out.size):
        out[i] += weight[i] * (a[i] - a_mean[i]) * (b[i] - b_mean[i]) if weight[i] > 0.0 else 0.0
