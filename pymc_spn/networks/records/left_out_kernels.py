"""Log predictives of a row without each of its cells, for all columns at once.

The predictive is linear in the values of the sum nodes over one column. Where nothing is known of the column each of
them is worth 1, so that the predictive without the cell is the sum of their coefficients, the partial derivatives of
the root: one pass up and one pass down, where leaving out cell by cell takes a pass up for each column. Unoccupied sum
nodes of a region have one value, and their coefficients are added up.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.networks.gibbs.exact import log_add
from pymc_spn.networks.gibbs.leaf_kernels import largest_of_column
from pymc_spn.networks.gibbs.network import EMPTY_LEAF
from pymc_spn.networks.gibbs.occupancy import free_mass, reaches
from pymc_spn.networks.records.predictive_kernels import evaluate_row
from pymc_spn.numerics.kernel_options import bare_inner_kernel, bare_kernel


class LeftOut(NamedTuple):
    """Scratch of `leave_out_cells`."""

    node_flow: np.ndarray  # coefficients of sum nodes
    edge_flow: np.ndarray  # of the edges of a region
    fresh_flow: np.ndarray  # (R,) of unoccupied sum nodes
    product: np.ndarray  # of an edge and the parts before each part
    shift: np.ndarray  # (D,) of each column


def left_out_scratch(net):
    """Scratch for one network."""
    most_parts = int(np.diff(net.part_ptr).max())
    sizes = net.node_value.size, int(net.top.max()), net.parent.size, most_parts, net.place_ptr.size - 1
    return LeftOut(*map(np.empty, sizes))


@bare_kernel
def log_densities_left_out(net, y, event, event_log, scratch, out, without):
    """Log predictives of coded rows, whole and without what is known of each column.

    Parameters
    ----------
    net : Network
    y : (M, P) float64
        NaN where there is no point.
    event, event_log
        As in `evaluate_row`.
    scratch : LeftOut
    out : (M,) float64
    without : (M, D) float64
        Of columns of which nothing is known the same as ``out``.
    """
    for n in range(y.shape[0]):
        out[n] = leave_out_cells(net, y[n], event, event_log, scratch, without[n])


@bare_inner_kernel
def leave_out_cells(net, y, event, event_log, scratch, without):
    """Log predictive of one row; that without each column is written to ``without`` (D,)."""
    total, logs = evaluate_row(net, y, event, event_log)
    if net.missing[0]:
        without[:] = total
        return total
    spread_flow(net, logs, scratch.node_flow, scratch.edge_flow, scratch.fresh_flow, scratch.product)
    shift = scratch.shift
    for c in range(shift.size):
        shift[c] = 0.0
        if not (logs or net.missing[net.leaf_region[net.place_ptr[c]]]):
            shift[c] = largest_of_column(net, c)
    # of the shifts of the columns before and behind, since a difference would lose digits to a cell far out
    before = 0.0
    for c in range(shift.size):
        without[c] = before
        before += shift[c]
    behind = 0.0
    for c in range(shift.size - 1, -1, -1):
        if net.missing[net.leaf_region[net.place_ptr[c]]]:
            without[c] = total
        else:
            without[c] += behind + log_coefficients(net, c, logs, scratch.node_flow, scratch.fresh_flow)
            if without[c] <= 0.1 * EMPTY_LEAF:
                without[c] = -math.inf
        behind += shift[c]
    return total


@bare_inner_kernel
def spread_flow(net, logs, node_flow, edge_flow, fresh_flow, product):
    """Coefficients of all sum nodes with something known below them, from the root down; logs where values are."""
    nothing = -math.inf if logs else 0.0
    node_flow[:] = nothing
    fresh_flow[:] = nothing
    node_flow[net.node_begin[0]] = 0.0 if logs else 1.0
    for r in range(net.parent.size):
        if net.missing[r] or net.column[r] >= 0:
            continue
        begin = net.begin[r]
        top = net.top[r]
        edge_flow[:top] = nothing
        fresh = fresh_flow[r]  # children of unoccupied nodes are unoccupied
        for k in range(net.top[net.parent[r]] if r > 0 else 1):
            node = net.node_begin[r] + k
            flow = node_flow[node]
            if flow == nothing:
                continue
            if net.node_first[node] < 0:  # also a node whose rows are all missing below
                fresh = plus(fresh, flow, logs)
                continue
            total = net.node_count[node] + net.mass[r]
            slot = net.node_first[node]
            while slot >= 0:
                edge_flow[slot] = times_weight(flow, net.weight[begin + slot] / total, logs)
                slot = net.following[begin + slot]
            free = free_mass(net, r, k)
            if free > 0.0:
                fresh = plus(fresh, times_weight(flow, free / total, logs), logs)
        fresh_flow[r] = fresh
        for e in range(top):
            if edge_flow[e] != nothing:
                share_among_parts(net, r, e, edge_flow[e], logs, product, node_flow)
        if fresh != nothing:
            share_of_unoccupied(net, r, fresh, logs, product, fresh_flow)


@bare_inner_kernel
def share_among_parts(net, r, e, flow, logs, product, node_flow):
    """The coefficient of each sum node below an edge: that of the product times the values of the others."""
    first = net.part_ptr[r]
    last = net.part_ptr[r + 1]
    for j in range(first, last):
        q = net.parts[j]
        if not net.missing[q] and reaches(net, q, e):
            product[j - first] = flow
            flow = times(flow, net.node_value[net.node_begin[q] + e], logs)
    behind = 0.0 if logs else 1.0
    for j in range(last - 1, first - 1, -1):
        q = net.parts[j]
        if not net.missing[q] and reaches(net, q, e):
            node = net.node_begin[q] + e
            node_flow[node] = times(product[j - first], behind, logs)
            behind = times(behind, net.node_value[node], logs)


@bare_inner_kernel
def share_of_unoccupied(net, r, flow, logs, product, fresh_flow):
    """`share_among_parts` below unoccupied edges, whose split does not matter: that of the first stands for all."""
    first = net.part_ptr[r]
    last = net.part_ptr[r + 1]
    for j in range(first, last):
        q = net.parts[j]
        if not net.missing[q] and net.split[q] == 0:
            product[j - first] = flow
            flow = times(flow, net.empty_value[q], logs)
    behind = 0.0 if logs else 1.0
    for j in range(last - 1, first - 1, -1):
        q = net.parts[j]
        if not net.missing[q] and net.split[q] == 0:
            fresh_flow[q] = times(product[j - first], behind, logs)
            behind = times(behind, net.empty_value[q], logs)


@bare_inner_kernel
def log_coefficients(net, c, logs, node_flow, fresh_flow):
    """Log of the sum of the coefficients of a column's sum nodes, at all its places."""
    largest = -math.inf if logs else 0.0
    for d in range(net.place_ptr[c], net.place_ptr[c + 1]):
        r = net.leaf_region[d]
        if logs:
            largest = max(largest, fresh_flow[r])
            for k in range(net.top[net.parent[r]] if r > 0 else 1):
                largest = max(largest, node_flow[net.node_begin[r] + k])
    if largest == -math.inf:
        return largest
    total = 0.0
    for d in range(net.place_ptr[c], net.place_ptr[c + 1]):
        r = net.leaf_region[d]
        total += math.exp(fresh_flow[r] - largest) if logs else fresh_flow[r]
        for k in range(net.top[net.parent[r]] if r > 0 else 1):
            flow = node_flow[net.node_begin[r] + k]
            total += math.exp(flow - largest) if logs else flow
    return largest + math.log(total)


@bare_inner_kernel
def times(a, b, logs):
    return a + b if logs else a * b


@bare_inner_kernel
def times_weight(a, weight, logs):
    return a + math.log(weight) if logs else a * weight


@bare_inner_kernel
def plus(a, b, logs):
    return log_add(a, b) if logs else a + b
