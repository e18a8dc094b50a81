"""Values of all nodes up and flows from the root down, a block of rows at a time.

Both run in linear space with each column's leaves divided by the largest of them, as in `linear_pass`. This costs a
multiplication and an addition for each edge and row in place of two exponentials. A block in which some root comes out
too small for that runs again in logs, which lose no row.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.circuits.evaluation.leaf_forms import read_values
from pymc_spn.circuits.evaluation.linear_pass import SMALLEST, TINY, add_to_four, add_weighted, multiply
from pymc_spn.circuits.evaluation.node_values import NOWHERE, add_row, leaf_logs, node_coefficients, sum_and_multiply
from pymc_spn.circuits.evaluation.tape import COVERED, FIRST, PRODUCT, SUM
from pymc_spn.leaves.kernel_forms import IMPOSSIBLE
from pymc_spn.numerics.elementary import exp_or_zero
from pymc_spn.numerics.kernel_options import bare_inner_kernel, bare_inner_reduction, inner_kernel


class Block(NamedTuple):
    """What the passes over a block of B rows work with: made once, filled again by `values_of_block`."""

    coefficients: np.ndarray  # (4, L) of the leaves
    table: np.ndarray  # (P,) logs of level probabilities
    weight: np.ndarray  # (n_sum_edges,) weights, not their logs
    u: np.ndarray  # (I, B) inputs of the leaves
    base: np.ndarray  # (I, B)
    present: np.ndarray  # (I, B)
    nodes: np.ndarray  # (V, B) values of all nodes: linear, up to a factor for each column and row, or logs
    shift: np.ndarray  # (D, B) log of that factor
    scratch: np.ndarray  # (4, B)
    roots: np.ndarray  # (B,) log densities, hugely negative where a row is impossible


@inner_kernel
def make_block(layout, log_weights, theta, family_begin, family_width, size):
    """Arrays for blocks of ``size`` rows, and the parameters in the forms that the passes read."""
    coefficients, table = node_coefficients(layout, theta, family_begin, family_width)
    n_inputs = layout.input_column.size
    return Block(
        coefficients,
        table,
        np.exp(log_weights),
        np.empty((n_inputs, size)),
        np.empty((n_inputs, size)),
        np.empty((n_inputs, size)),
        np.empty((layout.kind.size, size)),
        np.empty((layout.leaf_column.max() + 1, size)),
        np.empty((4, size)),
        np.empty(size),
    )


@inner_kernel
def values_of_block(layout, log_weights, block, table_rows, first):
    """Values of all nodes for the rows from ``first`` on of a table (N, D); those beyond it read as missing.

    Returns
    -------
    bool
        Whether the values are in linear space.
    """
    coefficients, table, weight, u, base, present, values, shift, scratch, out = block
    read_values(table_rows, first, layout.input_column, layout.input_reading, u, base, present)
    leaf_logs(layout, coefficients, table, u, base, present, values)
    shift[:] = -math.inf
    for k in range(layout.node_of_leaf.size):
        raise_to(values[layout.node_of_leaf[k]], shift[layout.leaf_column[k]])
    for k in range(layout.node_of_leaf.size):
        divide_and_exponentiate(shift[layout.leaf_column[k]], values[layout.node_of_leaf[k]])
    pass_up(layout, weight, values)
    smallest = math.inf
    for i in range(out.size):
        smallest = min(smallest, values[0, i])
    if smallest >= SMALLEST:
        for i in range(out.size):
            out[i] = math.log(values[0, i])
        for d in range(shift.shape[0]):
            add_row(shift[d], out)
        return True
    leaf_logs(layout, coefficients, table, u, base, present, values)
    sum_and_multiply(layout, log_weights, values, scratch[0], scratch[1])
    out[:] = values[0]
    return False


@bare_inner_kernel
def pass_up(layout, weight, values):
    """Values (V, B) of sums and products from those of the leaves, which are in place."""
    for v in range(layout.kind.size - 1, -1, -1):
        begin, end = layout.child_ptr[v], layout.child_ptr[v + 1]
        if layout.kind[v] == PRODUCT:
            multiply(layout.children[begin:end], values, TINY, values[v], True)
        elif layout.four[v] == FIRST:
            n, w = end - begin, weight[layout.edge_weight[begin] :]
            add_to_four(
                layout.children[begin:end], w, w[n:], w[2 * n :], w[3 * n :], values, True,
                values[v], values[v + 1], values[v + 2], values[v + 3],
            )  # fmt: skip
        elif layout.kind[v] == SUM and layout.four[v] != COVERED:
            values[v] = 0.0
            add_weighted(layout.children[begin:end], weight[layout.edge_weight[begin] :], values, values[v])


@inner_kernel
def pass_block(layout, log_weights, block, table_rows, first, cotangent, flow, edge_flow, out):
    """Values up and flows down for the rows from ``first`` on; log densities go into ``out`` (N,), see `send_flows`.

    The flow at the root is the row's cotangent; 0 for a row of density zero, which so adds nothing. Returns the number
    of rows, and whether the values are in linear space.
    """
    n = min(flow.shape[1], table_rows.shape[0] - first)
    is_linear = values_of_block(layout, log_weights, block, table_rows, first)
    flow[:] = 0.0
    for i in range(n):
        is_possible = block.roots[i] > NOWHERE
        out[first + i] = block.roots[i] if is_possible else -math.inf
        flow[0, i] = cotangent[first + i] if is_possible else 0.0
    send_flows(layout, log_weights, block, is_linear, flow, edge_flow)
    return n, is_linear


@bare_inner_kernel
def send_flows(layout, log_weights, block, is_linear, flow, edge_flow):
    """Flows (V, B) of all nodes from the root's, which is in place; the others hold 0 before.

    A node's flow is the derivative of the log density in its own log value. With a flow of 1 at the root it is the
    probability that the row's induced tree goes through it. Flows along the edges of sums, added up over the rows, are
    added to ``edge_flow`` (n_sum_edges,).
    """
    weight, values, rate = block.weight, block.nodes, block.scratch[0]
    for v in range(layout.kind.size):
        begin, end = layout.child_ptr[v], layout.child_ptr[v + 1]
        if layout.kind[v] == PRODUCT:
            for e in range(begin, end):
                add_row(flow[v], flow[layout.children[e]])
        elif is_linear and layout.four[v] == FIRST:
            pass_shares_of_four(layout, weight, values, v, block.scratch, flow, edge_flow)
        elif layout.kind[v] == SUM and not (is_linear and layout.four[v] == COVERED):
            if is_linear:
                divide_rows(flow[v], values[v], rate)
            for e in range(begin, end):
                c, w = layout.children[e], layout.edge_weight[e]
                if is_linear:
                    edge_flow[w] += pass_share(weight[w], values[c], rate, flow[c])
                else:
                    edge_flow[w] += pass_share_of_logs(
                        max(log_weights[w], IMPOSSIBLE), values[c], values[v], flow[v], flow[c]
                    )


@bare_inner_kernel
def raise_to(row, top):
    for i in range(top.size):
        top[i] = max(top[i], row[i])


@bare_inner_kernel
def divide_and_exponentiate(shift, row):
    """Leaves that exclude a value are 0, so that no flow reaches them. A leaf of 1e-308, small as it is, would be
    multiplied by moments that may be larger than its inverse. So are all leaves of a column that logs of ``-inf`` have.
    """
    for i in range(row.size):
        row[i] = exp_or_zero(row[i] - shift[i])


@bare_inner_kernel
def pass_shares_of_four(layout, weight, values, v, rate, flow, edge_flow):
    """As `pass_share`, of node v and the three behind it, all over the same children."""
    for i in range(4):
        divide_rows(flow[v + i], values[v + i], rate[i])
    begin, n = layout.child_ptr[v], layout.child_ptr[v + 1] - layout.child_ptr[v]
    first = layout.edge_weight[begin]
    for j in range(n):
        child = layout.children[begin + j]
        w, x, y, z = first + j, first + j + n, first + j + 2 * n, first + j + 3 * n
        a, b, c, d = pass_four_shares(
            weight[w], weight[x], weight[y], weight[z], values[child], rate[0], rate[1], rate[2], rate[3], flow[child]
        )
        edge_flow[w] += weight[w] * a
        edge_flow[x] += weight[x] * b
        edge_flow[y] += weight[y] * c
        edge_flow[z] += weight[z] * d


@bare_inner_reduction
def pass_four_shares(w, x, y, z, child, r, s, t, u, below):
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for i in range(below.size):
        value = child[i]
        below[i] += value * ((w * r[i] + x * s[i]) + (y * t[i] + z * u[i]))
        a += value * r[i]
        b += value * s[i]
        c += value * t[i]
        d += value * u[i]
    return a, b, c, d


@bare_inner_kernel
def divide_rows(a, b, out):
    """Their ratio; 0 where a node has lost its value to underflow, and with it its flow."""
    for i in range(out.size):
        out[i] = a[i] / b[i] if b[i] > 0.0 else 0.0


@bare_inner_reduction
def pass_share(weight, child, rate, below):
    """Add the child's part of the parent's flow to its own; returns the sum over the rows."""
    total = 0.0
    for i in range(rate.size):
        share = weight * child[i] * rate[i]
        below[i] += share
        total += share
    return total


@bare_inner_kernel  # no reduction, for the sake of `exp_or_zero`; see `kernel_options`
def pass_share_of_logs(log_weight, child, parent, flow, below):
    """As `pass_share`, from values in logs."""
    total = 0.0
    for i in range(flow.size):
        share = flow[i] * exp_or_zero(log_weight + child[i] - parent[i])
        below[i] += share
        total += share
    return total


@bare_inner_reduction
def weighted_moments(centre, scale, u, present, flow):
    """Sums over the rows of weights, and of them times z and z squared, z = (u - centre) scale; without missing cells.

    Rows beyond the table have no flow.
    """
    mass, total, squares = 0.0, 0.0, 0.0
    for i in range(flow.size):
        weight = flow[i] * present[i]
        z = (u[i] - centre) * scale
        mass += weight
        total += weight * z
        squares += weight * z * z
    return mass, total, squares
