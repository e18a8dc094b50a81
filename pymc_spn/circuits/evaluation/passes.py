"""The passes over a circuit, a block of rows at a time: values of all nodes up, flows from the root down.

Both run in linear space with each column's leaves divided by the largest of them. Every induced tree has one leaf for
each column, so this multiplies the root by a known factor. A block in which some root comes out too small for that
runs again in logs, which lose no row.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.circuits.evaluation.layout import PRODUCT, SUM
from pymc_spn.circuits.evaluation.leaf_forms import read_values
from pymc_spn.circuits.evaluation.node_values import NOWHERE, add_row, leaf_logs, sum_and_multiply
from pymc_spn.leaves.kernel_forms import IMPOSSIBLE
from pymc_spn.numerics.elementary import exp_or_zero
from pymc_spn.numerics.kernel_options import (
    bare_called_kernel,
    bare_inner_kernel,
    bare_inner_reduction,
    inner_kernel,
    kernel,
)
from pymc_spn.numerics.lane_functions import choose, power_of_2, sub
from pymc_spn.numerics.lanes import LANES, larger, load, mul, multiply_add, splat, store, unless_below

SMALLEST = 1e-280  # a root above it has lost less than 1e-27 of itself below each product of an induced tree
TINY = 1e-307  # products below it are 0: numbers smaller than the normal ones take the processor many times as long
LOG2_E = 1.0 / math.log(2.0)


class Block(NamedTuple):
    """What the passes over a block of B rows work with: made once, filled again by `values_of_block`."""

    coefficients: np.ndarray  # (4, L) of the leaves
    table: np.ndarray  # (P,) logs of level probabilities
    weight: np.ndarray  # (n_sum_edges,) weights, not their logs
    u: np.ndarray  # (I, B) inputs of the leaves
    base: np.ndarray  # (I, B)
    present: np.ndarray  # (I, B)
    nodes: np.ndarray  # (V, B) values of all nodes: linear, up to a factor for each column and row, or logs
    flat: np.ndarray  # (V B,) the same array
    shift: np.ndarray  # (D, B) log of that factor
    scratch: np.ndarray  # (4, B)
    roots: np.ndarray  # (B,) log densities, hugely negative where a row is impossible


@inner_kernel
def make_block(layout, weight, coefficients, table, size):
    """Arrays for blocks of ``size`` rows, a multiple of eight."""
    n_inputs = layout.input_column.size
    flat = np.empty(layout.kind.size * size)
    return Block(
        coefficients,
        table,
        weight,
        np.empty((n_inputs, size)),
        np.empty((n_inputs, size)),
        np.empty((n_inputs, size)),
        flat.reshape((layout.kind.size, size)),
        flat,
        np.empty((layout.column_ptr.size - 1, size)),
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
    read_values(table_rows, first, layout.input_column, layout.input_reading, block.u, block.base, block.present)
    linear_values(layout, block)
    if is_safe(block.roots):
        return True
    log_values(layout, log_weights, block)
    return False


@bare_called_kernel
def linear_values(layout, block):
    """Values of all nodes for rows that are read; roots are NaN where linear space has lost a row."""
    for d in range(block.shift.shape[0]):
        leaves = layout.by_column[layout.column_ptr[d] : layout.column_ptr[d + 1]]
        leaf_logs(layout, leaves, block.coefficients, block.table, block.u, block.base, block.present, block.nodes)
        divide_by_largest(layout, leaves, block.flat, block.shift[d])
    finish(layout, block)


@bare_called_kernel
def linear_values_of_logs(layout, logs, place, first, block):
    """As `linear_values`, of leaves whose logs are given, see `log_values_of_logs`."""
    n_rows = min(block.roots.size, logs.shape[1] - first)
    for d in range(block.shift.shape[0]):
        leaves = layout.by_column[layout.column_ptr[d] : layout.column_ptr[d + 1]]
        copy_logs(layout, leaves, logs, place, first, n_rows, block.nodes)
        divide_by_largest(layout, leaves, block.flat, block.shift[d])
    finish(layout, block)


@bare_inner_kernel
def copy_logs(layout, leaves, logs, place, first, n_rows, nodes):
    """Logs (V, B) of some leaves for the rows from ``first`` on; 0 of leaves without, and behind the last row."""
    for k in leaves:
        row = nodes[layout.node_of_leaf[k]]
        for i in range(row.size):
            row[i] = logs[place[k], first + i] if place[k] >= 0 and i < n_rows else 0.0


@bare_inner_kernel
def divide_by_largest(layout, leaves, flat, top):
    """Values of a column's leaves from their logs, divided by the largest in each row, whose log is ``top`` (B,)."""
    n = top.size // LANES
    for g in range(n):
        store(top, g, splat(-math.inf if leaves.size > 0 else 0.0))
    for k in leaves:
        for g in range(n):
            store(top, g, larger(load(flat, layout.node_of_leaf[k] * n + g), load(top, g)))
    for k in leaves:
        row = layout.node_of_leaf[k] * n
        for g in range(n):
            store(flat, row + g, exponential(sub(load(flat, row + g), load(top, g))))


@bare_inner_kernel
def finish(layout, block):
    """Values of all other nodes, and the logs of the roots."""
    roots, root = block.roots, block.nodes[0]
    pass_up(layout, block.weight, block.flat, roots.size // LANES)
    for i in range(roots.size):
        roots[i] = math.log(root[i]) if root[i] >= SMALLEST else math.nan
    for d in range(block.shift.shape[0]):
        add_row(block.shift[d], roots)


@inner_kernel
def log_values(layout, log_weights, block):
    """As `linear_values`, in logs."""
    leaves = layout.by_column
    leaf_logs(layout, leaves, block.coefficients, block.table, block.u, block.base, block.present, block.nodes)
    sum_and_multiply(layout, log_weights, block.nodes, block.scratch[0], block.scratch[1])
    block.roots[:] = block.nodes[0]


@bare_inner_kernel
def exponential(x):
    """exp of eight logs of at most 0; 0 below -708 and of NaN.

    A leaf that excludes a value is 0, so that no flow reaches it: one of 1e-308, small as it is, would be multiplied by
    moments that may be larger than its inverse. So are all leaves of a column that logs of ``-inf`` have.
    """
    return choose(splat(-708.0), x, power_of_2(mul(x, splat(LOG2_E))), splat(0.0))


@bare_called_kernel
def pass_up(layout, weight, flat, n):
    """Values of sums and products from those of the leaves, which are in place, for n groups of eight rows."""
    for v in range(layout.kind.size - 1, -1, -1):
        begin, end = layout.child_ptr[v], layout.child_ptr[v + 1]
        if layout.kind[v] == PRODUCT:
            for g in range(n):
                value = load(flat, layout.children[begin] * n + g)
                for e in range(begin + 1, end):
                    value = unless_below(mul(value, load(flat, layout.children[e] * n + g)), splat(TINY))
                store(flat, v * n + g, value)
        elif layout.kind[v] == SUM:
            first = layout.edge_weight[begin] - begin
            for g in range(n):
                value = mul(splat(weight[first + begin]), load(flat, layout.children[begin] * n + g))
                for e in range(begin + 1, end):
                    value = multiply_add(splat(weight[first + e]), load(flat, layout.children[e] * n + g), value)
                store(flat, v * n + g, value)


@inner_kernel
def is_safe(roots):
    """Whether linear space has lost no row."""
    for i in range(roots.size):
        if math.isnan(roots[i]):
            return False
    return True


@kernel
def log_densities_of_rows(layout, log_weights, weight, coefficients, table, values, size, out):
    """Log densities (N,) of all rows, ``size`` of them at a time, a multiple of eight."""
    block = make_block(layout, weight, coefficients, table, size)
    for first in range(0, values.shape[0], size):
        values_of_block(layout, log_weights, block, values, first)
        for i in range(min(size, values.shape[0] - first)):
            out[first + i] = block.roots[i] if block.roots[i] > NOWHERE else -math.inf


@kernel
def log_values_of_logs(layout, log_weights, weight, logs, place, size, out):
    """Log values (N,) of the root from logs of the leaves, whatever is known or asked of their columns.

    Parameters
    ----------
    logs : (K, N) float64
    place : (L,) int64
        Row of each leaf in the logs; -1 of leaves whose columns nothing is known of.
    size : int
        Rows at a time, a multiple of eight.
    """
    block = make_block(layout, weight, np.empty((4, 0)), weight, size)
    for first in range(0, out.size, size):
        linear_values_of_logs(layout, logs, place, first, block)
        n_rows = min(size, out.size - first)
        if not is_safe(block.roots):
            copy_logs(layout, layout.by_column, logs, place, first, n_rows, block.nodes)
            sum_and_multiply(layout, log_weights, block.nodes, block.scratch[0], block.scratch[1])
            block.roots[:] = block.nodes[0]
        for i in range(n_rows):
            out[first + i] = block.roots[i] if block.roots[i] > NOWHERE else -math.inf


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
        elif layout.kind[v] == SUM:
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
