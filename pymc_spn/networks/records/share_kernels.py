"""How a row spreads over the children of sum nodes, given what is known of it: in one region, or down to one column."""

import math
from typing import Any

import numpy as np

from pymc_spn.gibbs.joint_leaves import is_joint_edge
from pymc_spn.gibbs.occupancy import FRESH, free_entry_mass, free_mass
from pymc_spn.networks.records.predictive_kernels import evaluate_row, prior_slot_mass, relative_value
from pymc_spn.numerics.kernel_options import bare_called_kernel, kernel


def regions_of(structure: Any, d: int) -> np.ndarray:
    """All regions (k,) that hold a column, in preorder."""
    found = set()
    for r in structure.leaf_region[structure.leaf_column == d].tolist():
        while r >= 0:
            found.add(r)
            r = int(structure.parent[r])
    return np.array(sorted(found), np.int64)


@bare_called_kernel
def node_shares(tree, palette, masses, edges, nodes, scratch, r, node, logs, out, weight):
    """Add to ``out`` a weight times the probability of each child of a sum node given what `evaluate_row` has seen.

    Parameters
    ----------
    tree, palette, masses, edges, nodes, scratch
        Groups of a `Network`, as `evaluate_row` left it.
    r, node : int
        Region, and number of the node in it; FRESH for an unoccupied node.
    logs : bool
        What `evaluate_row` returned.
    out : (top + 1,) float64
        Children by slot. The last entry stands for all unoccupied children of an inner region and is not used in one
        with prior slots, where an unoccupied child is its prior slot.
    weight : float
    """
    d = tree.column[r]
    begin = edges.begin[r]
    if node <= FRESH or nodes.first[nodes.begin[r] + node] < 0:
        # also a node whose rows are all missing below: it has no children yet
        if d < 0:
            share_among_kinds(tree, edges, scratch, r, logs, weight, out)
            return
        total = 0.0
        for e in range(palette.entry_ptr[d], palette.entry_ptr[d + 1]):
            total += prior_slot_mass(palette, masses, edges, nodes, scratch, r, d, e, FRESH, logs)
        for e in range(palette.entry_ptr[d], palette.entry_ptr[d + 1]):
            out[e - palette.entry_ptr[d]] += (
                weight * prior_slot_mass(palette, masses, edges, nodes, scratch, r, d, e, FRESH, logs) / total
            )
        return
    k = nodes.begin[r] + node
    total = nodes.n_data[k] + masses.total[r]
    if not scratch.missing[r] and not logs:
        total *= scratch.node_value[k]
    slot = nodes.first[k]
    while slot >= 0:
        i = begin + slot
        out[slot] += weight * edges.weight[i] * relative_value(scratch, r, i, k, logs) / total
        slot = edges.following[i]
    if d < 0:
        share = weight * free_mass(tree, masses, nodes, r, node) / total
        if not scratch.missing[r]:
            value = scratch.empty_value[r]
            share *= math.exp(value - scratch.node_value[k]) if logs else value
        share_among_kinds(tree, edges, scratch, r, logs, share, out)
        return
    for e in range(palette.entry_ptr[d], palette.entry_ptr[d + 1]):
        local = e - palette.entry_ptr[d]
        out[local] += (
            weight
            * free_entry_mass(palette, masses, nodes, d, e, node)
            * relative_value(scratch, r, begin + local, k, logs)
            / total
        )


@bare_called_kernel
def share_among_kinds(tree, edges, scratch, r, logs, share, out):
    """Add what the unoccupied children of a region over several columns have: of all, or of the prior slots."""
    n_kinds = tree.n_prior[r]
    if n_kinds == 0:
        out[out.size - 1] += share
        return
    for s in range(n_kinds):
        part = 1.0
        if not scratch.missing[r]:
            value = scratch.edge_value[edges.begin[r] + s]
            part = math.exp(value - scratch.empty_value[r]) if logs else value / scratch.empty_value[r]
        out[s] += share * part / n_kinds


@kernel
def all_shares(tree, palette, masses, edges, nodes, leaves, scratch, joints, y, event, event_log):
    """Probability of each child of each sum node, given what is known of one row; see `node_shares`.

    Parameters
    ----------
    tree, palette, masses, edges, nodes, leaves, scratch, joints
        Groups of a `Network`.
    y : (P,) float64
        Coded row, NaN where there is no point.
    event, event_log
        As in `evaluate_row`.

    Returns
    -------
    flat : float64
        Of each region, one after the other, an array (nodes + 1, children + 1) by rows. The last row is that of
        an unoccupied node; rows of slots that are not in use are the same.
    """
    logs = evaluate_row(tree, palette, masses, edges, nodes, leaves, scratch, y, event, event_log, joints)[1]
    total = 0
    for r in range(tree.parent.size):
        n_nodes = edges.top[tree.parent[r]] if r > 0 else 1
        total += (n_nodes + 1) * (edges.top[r] + 1)
    flat = np.zeros(total)
    at = 0
    for r in range(tree.parent.size):
        n_nodes = edges.top[tree.parent[r]] if r > 0 else 1
        width = edges.top[r] + 1
        for node in range(n_nodes + 1):
            node_shares(
                tree,
                palette,
                masses,
                edges,
                nodes,
                scratch,
                r,
                node if node < n_nodes else FRESH,
                logs,
                flat[at : at + width],
                1.0,
            )
            at += width
    return flat


@kernel
def column_shares(
    tree,
    palette,
    masses,
    edges,
    nodes,
    leaves,
    scratch,
    joints,
    y,
    event,
    event_log,
    regions,
    log_density,
    out,
    several,
):
    """Probability of each leaf of one column for rows, given what is known of each.

    Parameters
    ----------
    tree, palette, masses, edges, nodes, leaves, scratch, joints
        Groups of a `Network`.
    y : (M, P) float64
        Coded rows, NaN where there is no point.
    event, event_log
        As in `evaluate_row`.
    regions : (k,) int64
        All regions that hold the column, in preorder; or the root alone.
    log_density : (M,) float64
        Out: log predictive of each row in coded units.
    out : (M, L) float64
        Out: probabilities of the leaf slots of the column, place by place. With the root alone, those of its
        children, unoccupied ones last.
    several : (M, J) float64
        Out: probabilities of the slots of those regions that have leaves over several columns, 0 of other children;
        without any, or with the root alone, of no slots.
    """
    n_regions = tree.parent.size
    start = np.full(n_regions, -1, np.int64)
    size = 0
    for r in regions:
        start[r] = size
        size += edges.top[r] + 1
    share = np.zeros(size)
    for n in range(y.shape[0]):
        log_density[n], logs = evaluate_row(
            tree, palette, masses, edges, nodes, leaves, scratch, y[n], event, event_log, joints
        )
        share[:] = 0.0
        at = 0
        at_joint = 0
        for r in regions:
            m = edges.top[r] + 1
            own = share[start[r] : start[r] + m]
            if r == 0:
                node_shares(tree, palette, masses, edges, nodes, scratch, r, 0, logs, own, 1.0)
            else:
                above = tree.parent[r]
                n_nodes = edges.top[above]
                for node in range(n_nodes + 1):
                    weight = share[start[above] + node]
                    if weight == 0.0 or not leads_to(tree, edges, r, node):
                        continue
                    node_shares(
                        tree,
                        palette,
                        masses,
                        edges,
                        nodes,
                        scratch,
                        r,
                        node if node < n_nodes else FRESH,
                        logs,
                        own,
                        weight,
                    )
            if joints is not None and several.shape[1] > 0 and joints.split[r] >= 0:
                for i in range(m - 1):
                    several[n, at_joint + i] = own[i] if is_joint_edge(edges, joints, r, i) else 0.0
                at_joint += m - 1
            if tree.column[r] >= 0 or regions.size == 1:
                width = m if tree.column[r] < 0 else m - 1
                for i in range(width):
                    out[n, at + i] = own[i]
                at += width


@bare_called_kernel
def leads_to(tree, edges, r, edge):
    """Whether an edge of the parent region, the unoccupied ones last, leads to region ``r``.

    An unoccupied product has the same value whatever its split, so that one split stands for all.
    """
    above = tree.parent[r]
    if tree.n_splits[above] == 1:
        return True
    split = edges.split[edges.begin[above] + edge] if edge < edges.top[above] else 0
    return split == tree.split[r]
