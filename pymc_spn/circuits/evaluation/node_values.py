"""Values of all nodes of a circuit for a block of rows, kept in logs, and what is passed back down from them.

Density alone needs neither logs nor all nodes at once (`linear_pass`), gradients need all nodes (`flows`); draws and
moments work in logs, which lose no row.
"""

import math

import numpy as np

from pymc_spn.circuits.evaluation.leaf_forms import (
    IMPOSSIBLE,
    QUADRATIC,
    TABLE,
    form_at,
    leaf_coefficients,
    read_values,
)
from pymc_spn.circuits.evaluation.tape import LEAF, PRODUCT, SUM
from pymc_spn.numerics.elementary import fast_exp, fast_log
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

NOWHERE = 0.5 * IMPOSSIBLE


@inner_kernel
def node_coefficients(layout, theta, family_begin, family_width):
    """(4, L) coefficients of the leaves in node order, and logs of `theta` where it holds level probabilities."""
    out = np.zeros((4, layout.leaf_row.size))
    table = np.zeros(theta.size)
    one = np.zeros(4)
    for k in range(layout.leaf_row.size):
        f = layout.leaf_family[k]
        width = family_width[f]
        begin = family_begin[f] + layout.leaf_row[k] * width
        one[:] = 0.0
        leaf_coefficients(layout.leaf_code[k], theta[begin : begin + width], width, one)
        out[:, k] = one
        if layout.leaf_form[k] == TABLE:
            out[1, k] = begin
            for v in range(begin, begin + width):
                table[v] = math.log(theta[v]) if theta[v] > 0.0 else IMPOSSIBLE
    return out, table


@inner_kernel
def leaf_logs(layout, coefficients, table, u, base, present, peak, out):
    """Log densities of the leaves (V, B); where a cell is missing, ``peak`` (L,) stands in: 0 sums it out."""
    for k in range(layout.node_of_leaf.size):
        j, form = layout.leaf_input[k], layout.leaf_form[k]
        lead, a, b, c = coefficients[0, k], coefficients[1, k], coefficients[2, k], coefficients[3, k]
        row = out[layout.node_of_leaf[k]]
        if form == QUADRATIC:
            for i in range(row.size):
                t = (u[j, i] - a) * b
                row[i] = present[j, i] * (lead - t * t) + base[j, i] + (1.0 - present[j, i]) * peak[k]
            continue
        own = table[int(a) :] if form == TABLE else table
        for i in range(row.size):
            inside = form_at(form, lead, a, b, c, own, u[j, i]) if present[j, i] != 0.0 else peak[k]
            row[i] = inside + base[j, i]


@kernel
def sum_and_multiply(layout, log_weights, values, top, mass):
    """Inner nodes' logs (V, B) from the leaves'."""
    for v in range(layout.kind.size - 1, -1, -1):
        kind = layout.kind[v]
        if kind == LEAF:
            continue
        row = values[v]
        begin, end = layout.child_ptr[v], layout.child_ptr[v + 1]
        if kind == PRODUCT:
            row[:] = 0.0
            for e in range(begin, end):
                add_row(values[layout.children[e]], row)
            continue
        top[:] = IMPOSSIBLE
        for e in range(begin, end):
            raise_row(max(log_weights[layout.edge_weight[e]], IMPOSSIBLE), values[layout.children[e]], top)
        mass[:] = 0.0
        for e in range(begin, end):
            add_exponentials(max(log_weights[layout.edge_weight[e]], IMPOSSIBLE), values[layout.children[e]], top, mass)
        for i in range(row.size):
            row[i] = top[i] + fast_log(mass[i])


@inner_kernel
def maximise(layout, log_weights, values):
    """As `sum_and_multiply` with the best child in place of the sum: the max-product value of every node."""
    for v in range(layout.kind.size - 1, -1, -1):
        kind = layout.kind[v]
        if kind == LEAF:
            continue
        row = values[v]
        row[:] = 0.0 if kind == PRODUCT else 2.0 * IMPOSSIBLE
        for e in range(layout.child_ptr[v], layout.child_ptr[v + 1]):
            if kind == PRODUCT:
                add_row(values[layout.children[e]], row)
            else:
                raise_row(max(log_weights[layout.edge_weight[e]], IMPOSSIBLE), values[layout.children[e]], row)


@inner_kernel
def add_row(v, out):
    for i in range(out.size):
        out[i] += v[i]


@inner_kernel
def raise_row(log_weight, v, top):
    for i in range(top.size):
        top[i] = max(top[i], log_weight + v[i])


@inner_kernel
def add_exponentials(log_weight, v, top, mass):
    for i in range(mass.size):
        mass[i] += fast_exp(log_weight + v[i] - top[i])


@kernel
def draw_leaves(
    rng, layout, log_weights, theta, family_begin, family_width, values, peak, is_maximum, block, leaf, out
):
    """Leaf of each column (N, D) on an induced tree of each row: drawn, or the best one.

    Parameters
    ----------
    peak : (L,) float64
        Log value of each leaf where its cell is missing: 0, or the largest log density.
    is_maximum : bool
        Whether to take the best child at every sum in place of a random one.
    leaf : (N, D) int64
        Out: leaf numbers in node order.
    out : (N,) float64
        Out: log density of what is observed, or the max-product value.
    """
    coefficients, table = node_coefficients(layout, theta, family_begin, family_width)
    n_nodes, n_inputs = layout.kind.size, layout.input_column.size
    logs = np.empty((n_nodes, block))
    u, base, present = np.empty((n_inputs, block)), np.empty((n_inputs, block)), np.empty((n_inputs, block))
    top, mass = np.empty(block), np.empty(block)
    stack = np.empty(n_nodes, np.int64)
    for first in range(0, values.shape[0], block):
        n = min(block, values.shape[0] - first)
        read_values(values, first, layout.input_column, layout.input_reading, u, base, present)
        leaf_logs(layout, coefficients, table, u, base, present, peak, logs)
        if is_maximum:
            maximise(layout, log_weights, logs)
        else:
            sum_and_multiply(layout, log_weights, logs, top, mass)
        for i in range(n):
            out[first + i] = logs[0, i] if logs[0, i] > NOWHERE else -math.inf
            stack[0], depth = 0, 1
            while depth > 0:
                depth -= 1
                v = stack[depth]
                begin, end = layout.child_ptr[v], layout.child_ptr[v + 1]
                if layout.kind[v] == LEAF:
                    k = layout.leaf_of_node[v]
                    leaf[first + i, layout.leaf_column[k]] = k
                elif layout.kind[v] == PRODUCT:
                    for e in range(begin, end):
                        stack[depth] = layout.children[e]
                        depth += 1
                else:
                    chosen, best, left = end - 1, 2.0 * IMPOSSIBLE, 0.0
                    left = rng.random() if not is_maximum else 0.0
                    for e in range(begin, end):
                        value = max(log_weights[layout.edge_weight[e]], IMPOSSIBLE) + logs[layout.children[e], i]
                        if is_maximum:
                            if value > best:
                                chosen, best = e, value
                        else:
                            share = math.exp(value - logs[v, i])
                            if share > 0.0:
                                chosen = e  # rounding may leave the last possible child's share too small
                                left -= share
                                if left < 0.0:
                                    break
                    stack[depth] = layout.children[chosen]
                    depth += 1


@inner_kernel
def row_responsibilities(layout, log_weights, logs, share):
    """Share of each edge in its parent's value for one row's logs (V,); 1 below products."""
    for v in range(layout.kind.size):
        for e in range(layout.child_ptr[v], layout.child_ptr[v + 1]):
            if layout.kind[v] == SUM:
                value = max(log_weights[layout.edge_weight[e]], IMPOSSIBLE) + logs[layout.children[e]]
                share[e] = math.exp(value - logs[v])
            else:
                share[e] = 1.0


@inner_kernel
def row_moments(
    layout, share, scope, leaf_mean, leaf_variance, wanted, with_covariance, flow, inside, outside, mean, cov
):
    """Means (D,) and covariances (D, D) of the wanted columns for one row, from the edges' shares.

    Means are subtracted from the leaves before they are multiplied, so that nothing cancels.

    Parameters
    ----------
    scope : (V, D) bool
    flow, inside, outside : (V,) float64
        Scratch.
    """
    n_nodes, n_columns = layout.kind.size, mean.size
    flow[:] = 0.0
    flow[0] = 1.0
    for v in range(n_nodes):
        for e in range(layout.child_ptr[v], layout.child_ptr[v + 1]):
            flow[layout.children[e]] += flow[v] * share[e]
    mean[:] = 0.0
    for k in range(leaf_mean.size):
        if flow[layout.node_of_leaf[k]] > 0.0 and wanted[layout.leaf_column[k]]:
            mean[layout.leaf_column[k]] += flow[layout.node_of_leaf[k]] * leaf_mean[k]
    if not with_covariance:
        return
    cov[:] = 0.0
    for d in range(n_columns):
        if not wanted[d]:
            continue
        for v in range(n_nodes - 1, -1, -1):  # expectation of column d minus its mean at each node over d
            if not scope[v, d]:
                continue
            if layout.kind[v] == LEAF:
                inside[v] = leaf_mean[layout.leaf_of_node[v]] - mean[d]
                continue
            inside[v] = 0.0
            for e in range(layout.child_ptr[v], layout.child_ptr[v + 1]):
                c = layout.children[e]
                if scope[c, d] and share[e] > 0.0:
                    inside[v] += share[e] * inside[c]
        outside[:] = 0.0
        for v in range(n_nodes):  # the same carried down beside the flow, to nodes that d is not below
            for e in range(layout.child_ptr[v], layout.child_ptr[v + 1]):
                c = layout.children[e]
                if scope[c, d]:
                    continue
                if not scope[v, d]:
                    outside[c] += share[e] * outside[v]
                elif flow[v] > 0.0:  # a product: one of its other children holds d
                    outside[c] += flow[v] * inside[v]
        for k in range(leaf_mean.size):
            v, other = layout.node_of_leaf[k], layout.leaf_column[k]
            if not wanted[other] or flow[v] == 0.0:
                continue
            if other == d:
                cov[d, d] += flow[v] * (leaf_variance[k] + (leaf_mean[k] - mean[d]) ** 2)
            else:
                cov[d, other] += outside[v] * (leaf_mean[k] - mean[other])


@kernel
def moments_of_rows(
    layout,
    log_weights,
    theta,
    family_begin,
    family_width,
    values,
    scope,
    leaf_mean,
    leaf_variance,
    numeric,
    with_covariance,
    means,
    covs,
    out,
):
    """Moments of the missing numeric cells of each row given its observed ones; observed cells have no variance."""
    coefficients, table = node_coefficients(layout, theta, family_begin, family_width)
    n_nodes, n_inputs, n_columns = layout.kind.size, layout.input_column.size, values.shape[1]
    logs = np.empty((n_nodes, 1))
    u, base, present = np.empty((n_inputs, 1)), np.empty((n_inputs, 1)), np.empty((n_inputs, 1))
    top, mass, peak = np.empty(1), np.empty(1), np.zeros(layout.node_of_leaf.size)
    flow, inside, outside = np.empty(n_nodes), np.empty(n_nodes), np.empty(n_nodes)
    share, wanted = np.empty(layout.children.size), np.empty(n_columns, np.bool_)
    cov = np.empty((n_columns, n_columns))
    for n in range(values.shape[0]):
        read_values(values, n, layout.input_column, layout.input_reading, u, base, present)
        leaf_logs(layout, coefficients, table, u, base, present, peak, logs)
        sum_and_multiply(layout, log_weights, logs, top, mass)
        out[n] = logs[0, 0] if logs[0, 0] > NOWHERE else -math.inf
        for d in range(n_columns):
            wanted[d] = numeric[d] and math.isnan(values[n, d])
        row_responsibilities(layout, log_weights, logs[:, 0], share)
        row_moments(
            layout,
            share,
            scope,
            leaf_mean,
            leaf_variance,
            wanted,
            with_covariance,
            flow,
            inside,
            outside,
            means[n],
            cov,
        )
        for d in range(n_columns):
            if not wanted[d]:
                means[n, d] = values[n, d] if numeric[d] else math.nan
        if with_covariance:
            for d in range(n_columns):
                for e in range(n_columns):
                    covs[n, d, e] = cov[d, e] if numeric[d] and numeric[e] else math.nan
