"""Log predictives of a row without each of its cells, for all columns at once.

The predictive is linear in the values of the sum nodes over one column. Where nothing is known of the column each of
them is worth 1. So the predictive without the cell is the sum of their coefficients, the partial derivatives of the
root. This takes one pass up and one pass down, where leaving out cell by cell takes a pass up for each column.
Unoccupied sum nodes of a region have one value, and their coefficients are added up.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.gibbs.exact import evaluate_regions_by_logs, log_add
from pymc_spn.gibbs.joint_leaves import is_joint_edge
from pymc_spn.gibbs.leaf_kernels import largest_of_column
from pymc_spn.gibbs.network import EMPTY_LEAF
from pymc_spn.gibbs.occupancy import free_mass, reaches
from pymc_spn.networks.records.predictive_kernels import evaluate_row
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel


class LeftOut(NamedTuple):
    """What `leave_out_cells` writes into."""

    node_flow: np.ndarray  # coefficients of sum nodes
    edge_flow: np.ndarray  # of the edges of a region
    fresh_flow: np.ndarray  # (R,) of unoccupied sum nodes
    product: np.ndarray  # of an edge and the parts before each part
    shift: np.ndarray  # (D,) of each column
    joint: np.ndarray  # (D,) what leaves over several columns are worth without each column, with their coefficients


def left_out_flows(net):
    """Room for one network."""
    most_parts = int(np.diff(net.tree.part_ptr).max())
    sizes = (
        net.scratch.node_value.size,
        int(net.edges.top.max()),
        net.tree.parent.size,
        most_parts,
        net.palette.place_ptr.size - 1,
        net.palette.place_ptr.size - 1,
    )
    return LeftOut(*map(np.empty, sizes))


@bare_kernel
def log_densities_left_out(
    tree, palette, masses, edges, nodes, leaves, scratch, joints, y, event, event_log, flows, of_joints, out, without
):
    """Log predictives of coded rows, whole and without what is known of each column.

    Parameters
    ----------
    tree, palette, masses, edges, nodes, leaves, scratch, joints
        Groups of a `Network`.
    y : (M, P) float64
        NaN where there is no point.
    event, event_log
        As in `evaluate_row`.
    flows : LeftOut
    of_joints : (M, n) float64
        Log values of the leaves over several columns without each of their columns, laid out as ``Joints.sums``.
    out : (M,) float64
    without : (M, D) float64
        For columns about which nothing is known, the same as ``out``.
    """
    for n in range(y.shape[0]):
        out[n] = leave_out_cells(
            tree, palette, masses, edges, nodes, leaves, scratch, joints, y[n], event, event_log, flows, of_joints[n],
            without[n],
        )  # fmt: skip


@bare_called_kernel
def leave_out_cells(
    tree, palette, masses, edges, nodes, leaves, scratch, joints, y, event, event_log, flows, of_joints, without
):
    """Log predictive of one row; that without each column is written to ``without`` (D,)."""
    total, logs = evaluate_row(tree, palette, masses, edges, nodes, leaves, scratch, y, event, event_log, joints)
    if scratch.missing[0]:
        without[:] = total
        return total
    if joints is not None and not logs:  # without a cell far out such a leaf may be worth e^1000 of all others
        evaluate_regions_by_logs(tree, palette, masses, edges, nodes, scratch, joints, 0)
        logs = True
    flows.joint[:] = -math.inf if logs else 0.0
    spread_flow(tree, masses, edges, nodes, scratch, joints, of_joints, logs, flows)
    shift = flows.shift
    for c in range(shift.size):
        shift[c] = 0.0
        if not (logs or scratch.missing[tree.leaf_region[palette.place_ptr[c]]]):
            shift[c] = largest_of_column(tree, palette, edges, scratch, c)
    # of the shifts of the columns before and behind, since a difference would lose digits to a cell far out
    before = 0.0
    for c in range(shift.size):
        without[c] = before
        before += shift[c]
    behind = 0.0
    for c in range(shift.size - 1, -1, -1):
        if scratch.missing[tree.leaf_region[palette.place_ptr[c]]]:
            without[c] = total
        else:
            without[c] += behind + log_coefficients(tree, palette, edges, nodes, c, logs, flows)
            if without[c] <= 0.1 * EMPTY_LEAF:
                without[c] = -math.inf
        behind += shift[c]
    return total


@bare_called_kernel
def spread_flow(tree, masses, edges, nodes, scratch, joints, of_joints, logs, flows):
    """Coefficients of all sum nodes with something known below them, from the root down; logs where values are."""
    node_flow, edge_flow, fresh_flow, product = flows.node_flow, flows.edge_flow, flows.fresh_flow, flows.product
    nothing = -math.inf if logs else 0.0
    node_flow[:] = nothing
    fresh_flow[:] = nothing
    node_flow[nodes.begin[0]] = 0.0 if logs else 1.0
    for r in range(tree.parent.size):
        if scratch.missing[r] or tree.column[r] >= 0:
            continue
        begin = edges.begin[r]
        top = edges.top[r]
        edge_flow[:top] = nothing
        fresh = fresh_flow[r]  # children of unoccupied nodes are unoccupied
        for k in range(edges.top[tree.parent[r]] if r > 0 else 1):
            node = nodes.begin[r] + k
            flow = node_flow[node]
            if flow == nothing:
                continue
            if nodes.first[node] < 0:  # also a node whose rows are all missing below
                fresh = plus(fresh, flow, logs)
                continue
            total = nodes.n_data[node] + masses.total[r]
            slot = nodes.first[node]
            while slot >= 0:
                edge_flow[slot] = times_weight(flow, edges.weight[begin + slot] / total, logs)
                slot = edges.following[begin + slot]
            free = free_mass(tree, masses, nodes, r, k)
            if free > 0.0:
                fresh = plus(fresh, times_weight(flow, free / total, logs), logs)
        for e in range(tree.n_prior[r]):  # they stand for unoccupied children
            edge_flow[e] = times_weight(fresh, 1.0 / tree.n_prior[r], logs)
        fresh_flow[r] = fresh = fresh if tree.n_prior[r] == 0 else nothing
        for e in range(top):
            if edge_flow[e] != nothing:
                share_among_parts(tree, edges, nodes, scratch, r, e, edge_flow[e], logs, product, node_flow)
                if joints is not None and is_joint_edge(edges, joints, r, e):
                    first = joints.column_ptr[r]
                    d = joints.column_ptr[r + 1] - first
                    for j in range(d):
                        c = joints.column[first + j]
                        own = edge_flow[e] + of_joints[joints.sums_begin[r] + e * d + j]
                        flows.joint[c] = log_add(flows.joint[c], own)
        if fresh != nothing:
            share_of_unoccupied(tree, scratch, r, fresh, logs, product, fresh_flow)


@bare_called_kernel
def share_among_parts(tree, edges, nodes, scratch, r, e, flow, logs, product, node_flow):
    """The coefficient of each sum node below an edge: that of the product times the values of the others."""
    first = tree.part_ptr[r]
    last = tree.part_ptr[r + 1]
    for j in range(first, last):
        q = tree.parts[j]
        if not scratch.missing[q] and reaches(tree, edges, q, e):
            product[j - first] = flow
            flow = times(flow, scratch.node_value[nodes.begin[q] + e], logs)
    behind = 0.0 if logs else 1.0
    for j in range(last - 1, first - 1, -1):
        q = tree.parts[j]
        if not scratch.missing[q] and reaches(tree, edges, q, e):
            node = nodes.begin[q] + e
            node_flow[node] = times(product[j - first], behind, logs)
            behind = times(behind, scratch.node_value[node], logs)


@bare_called_kernel
def share_of_unoccupied(tree, scratch, r, flow, logs, product, fresh_flow):
    """`share_among_parts` below unoccupied edges, whose split does not matter: that of the first stands for all."""
    first = tree.part_ptr[r]
    last = tree.part_ptr[r + 1]
    for j in range(first, last):
        q = tree.parts[j]
        if not scratch.missing[q] and tree.split[q] == 0:
            product[j - first] = flow
            flow = times(flow, scratch.empty_value[q], logs)
    behind = 0.0 if logs else 1.0
    for j in range(last - 1, first - 1, -1):
        q = tree.parts[j]
        if not scratch.missing[q] and tree.split[q] == 0:
            fresh_flow[q] = times(product[j - first], behind, logs)
            behind = times(behind, scratch.empty_value[q], logs)


@bare_called_kernel
def log_coefficients(tree, palette, edges, nodes, c, logs, flows):
    """Log of the sum of the coefficients of a column's sum nodes, at all its places, and of leaves over several."""
    node_flow, fresh_flow = flows.node_flow, flows.fresh_flow
    largest = flows.joint[c]
    for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
        r = tree.leaf_region[d]
        if logs:
            largest = max(largest, fresh_flow[r])
            for k in range(edges.top[tree.parent[r]] if r > 0 else 1):
                largest = max(largest, node_flow[nodes.begin[r] + k])
    if largest == -math.inf:
        return largest
    total = math.exp(flows.joint[c] - largest) if logs else 0.0
    for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
        r = tree.leaf_region[d]
        total += math.exp(fresh_flow[r] - largest) if logs else fresh_flow[r]
        for k in range(edges.top[tree.parent[r]] if r > 0 else 1):
            flow = node_flow[nodes.begin[r] + k]
            total += math.exp(flow - largest) if logs else flow
    return largest + math.log(total)


@bare_called_kernel
def times(a, b, logs):
    return a + b if logs else a * b


@bare_called_kernel
def times_weight(a, weight, logs):
    return a + math.log(weight) if logs else a * weight


@bare_called_kernel
def plus(a, b, logs):
    return log_add(a, b) if logs else a + b
