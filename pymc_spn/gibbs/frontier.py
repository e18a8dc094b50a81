"""Kernel D: sums below a frontier, proposals above it, and subtree moves.

Regions of at most ``frontier`` columns are summed out exactly; the digits above are proposed from the other rows'
assignments and accepted on the ratio of the frontier's values. Then each subtree above the frontier is proposed again,
given the path to it. With the frontier at the root this is the exact kernel, with none it would be the paper's.
Values are memoised for the current row, so proposals that return to a sum node cost nothing.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.gibbs.exact import SAFE, draw_subtree, log_add
from pymc_spn.gibbs.leaf_kernels import log_predictive
from pymc_spn.gibbs.network import EMPTY_LEAF
from pymc_spn.gibbs.occupancy import (
    FRESH,
    MISSING,
    attach,
    detach,
    draw_split,
    free_entry_mass,
    free_mass,
    mark_missing,
    n_prior_slots,
    new_edge,
    reaches,
)
from pymc_spn.numerics.array_groups import array_group
from pymc_spn.numerics.elementary import fast_exp
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel


@array_group
class FrontierWork(NamedTuple):
    """Scratch space of the kernel; made again whenever the network is enlarged."""

    stamp: np.ndarray  # (1,) number of the current row visit
    node_stamp: np.ndarray  # (V,) visit at which a frontier node was evaluated
    node_log: np.ndarray  # (V,) its log value
    empty_stamp: np.ndarray  # (R,)
    empty_log: np.ndarray  # (R,)
    evaluated: np.ndarray  # (R,) node whose subtree values stand in the network
    logs: np.ndarray  # (R,) whether they are logs
    current: np.ndarray  # (R,) edges above the frontier; FRESH - s is unoccupied, of split s
    proposed: np.ndarray  # (R,)
    active: np.ndarray  # (M,) edges below the node under evaluation
    n_active: np.ndarray  # (R,)
    largest: np.ndarray  # (P,) largest log value among the leaves at a place
    accepted: np.ndarray  # (1,) accepted moves so far
    proposals: np.ndarray  # (1,) proposals that differed from the current edges
    values: np.ndarray  # (1,) leaf values computed so far


def make_frontier_work(net):
    """Scratch space that fits a network."""
    n_regions = net.tree.parent.size
    return FrontierWork(
        stamp=np.zeros(1, np.int64),
        node_stamp=np.zeros(net.nodes.n_data.size, np.int64),
        node_log=np.zeros(net.nodes.n_data.size),
        empty_stamp=np.zeros(n_regions, np.int64),
        empty_log=np.zeros(n_regions),
        evaluated=np.full(n_regions, -1, np.int64),
        logs=np.zeros(n_regions, np.bool_),
        current=np.zeros(n_regions, np.int32),
        proposed=np.zeros(n_regions, np.int32),
        active=np.zeros(net.edges.n_data.size, np.int32),
        n_active=np.zeros(n_regions, np.int64),
        largest=np.zeros(net.palette.source.size),
        accepted=np.zeros(1, np.int64),
        proposals=np.zeros(1, np.int64),
        values=np.zeros(1, np.int64),
    )


@bare_kernel
def frontier_sweep(rng, tree, palette, masses, edges, nodes, leaves, scratch, y, slots, first, frontier, work):
    """One root move and one pass of subtree moves for every row.

    Parameters
    ----------
    rng, tree, palette, masses, edges, nodes, leaves, scratch, y, slots, first
        As `exact_sweep`.
    frontier : int
        Regions of at most this many columns are summed out, 1 <= frontier < D.
    work : FrontierWork
        Scratch space for this network.

    Returns
    -------
    next_row : int
        N when complete, else the row at which a region ran full.
    moved : int
        Rows that left an edge.
    """
    moved = 0
    for n in range(first, y.shape[0]):
        if edges.full[0]:
            return n, moved
        mark_missing(tree, scratch, y[n])
        if scratch.missing[0]:
            continue
        row = slots[n]
        for r in range(row.size):
            scratch.old[r] = row[r]
        detach(tree, palette, edges, nodes, leaves, scratch, y[n], row)
        work.stamp[0] += 1
        work.evaluated[:] = -1
        start_from_old(tree, edges, row, frontier, work)
        for r in range(row.size):
            # below unoccupied edges there is no node whose subtree could move by itself
            if (
                tree.size[r] > frontier
                and not scratch.missing[r]
                and (r == 0 or is_reached(tree, edges, r, work.current, True))
            ):
                move_subtree(rng, tree, palette, masses, edges, nodes, leaves, scratch, y[n], r, frontier, work)
        settle(rng, tree, palette, masses, edges, nodes, leaves, scratch, y[n], row, frontier, work)
        attach(tree, palette, edges, nodes, leaves, scratch, y[n], row)
        changed = False
        for r in range(row.size):
            changed |= row[r] != scratch.old[r]
        moved += changed
    return y.shape[0], moved


@bare_called_kernel
def start_from_old(tree, edges, row, frontier, work):
    """Current edges above the frontier; those that lost their last row count as unoccupied."""
    for r in range(row.size):
        if tree.size[r] > frontier:
            i = edges.begin[r] + row[r]
            gone = row[r] >= 0 and edges.n_data[i] == 0
            work.current[r] = FRESH - edges.split[i] if gone else row[r]


@bare_called_kernel
def is_reached(tree, edges, r, taken, occupied):
    """Whether the edge of the parent region leads to ``r``, and is occupied if it must be."""
    slot = taken[tree.parent[r]]
    return slot != MISSING and (slot >= 0 or not occupied) and reaches(tree, edges, r, slot)


@bare_called_kernel
def move_subtree(rng, tree, palette, masses, edges, nodes, leaves, scratch, y, top_region, frontier, work):
    """Propose the edges of a subtree above the frontier and accept on the ratio of the frontier's values."""
    log_ratio = 0.0
    same = True
    for r in range(top_region, tree.subtree_end[top_region]):
        above = tree.parent[r]
        if scratch.missing[r]:
            work.proposed[r] = MISSING
        elif tree.size[r] > frontier:
            if r > top_region:
                node = work.proposed[above] if is_reached(tree, edges, r, work.proposed, False) else MISSING
            else:
                node = work.current[above] if above >= 0 else 0
            work.proposed[r] = propose_edge(rng, tree, masses, edges, nodes, r, node) if node != MISSING else MISSING
            same &= work.proposed[r] == work.current[r]
        elif tree.size[above] > frontier and work.proposed[above] != work.current[above]:
            if is_reached(tree, edges, r, work.proposed, False):
                log_ratio += log_frontier_value(
                    tree, palette, masses, edges, nodes, leaves, scratch, y, r, work.proposed[above], work
                )
            if is_reached(tree, edges, r, work.current, False):
                log_ratio -= log_frontier_value(
                    tree, palette, masses, edges, nodes, leaves, scratch, y, r, work.current[above], work
                )
    if same:
        return
    work.proposals[0] += 1
    if log_ratio >= 0.0 or rng.random() < math.exp(log_ratio):
        for r in range(top_region, tree.subtree_end[top_region]):
            if tree.size[r] > frontier:
                work.current[r] = work.proposed[r]
        work.accepted[0] += 1


@bare_called_kernel
def propose_edge(rng, tree, masses, edges, nodes, r, node):
    """Child of a sum node over several columns by the other rows' counts; FRESH - s is unoccupied, of split s."""
    if node <= FRESH:
        return FRESH - draw_split(rng, tree, edges, nodes, r, -1, FRESH)
    k = nodes.begin[r] + node
    begin = edges.begin[r]
    u = rng.random() * (nodes.n_data[k] + masses.total[r])
    slot = nodes.first[k]
    last = FRESH
    while slot >= 0:
        last = slot
        u -= edges.weight[begin + slot]
        if u < 0.0:
            return slot
        slot = edges.following[begin + slot]
    return (
        FRESH - draw_split(rng, tree, edges, nodes, r, node, FRESH)
        if free_mass(tree, masses, nodes, r, node) > 0.0
        else last
    )


@bare_called_kernel
def log_frontier_value(tree, palette, masses, edges, nodes, leaves, scratch, y, r, node, work):
    """Log value of a frontier node for the current row; FRESH or below is an unoccupied node."""
    if node <= FRESH:
        if work.empty_stamp[r] != work.stamp[0]:
            work.empty_stamp[r] = work.stamp[0]
            work.empty_log[r] = log_empty(tree, palette, masses, edges, leaves, scratch, y, r)
        return work.empty_log[r]
    k = nodes.begin[r] + node
    if work.node_stamp[k] != work.stamp[0]:
        work.node_stamp[k] = work.stamp[0]
        work.node_log[k] = evaluate_below(tree, palette, masses, edges, nodes, leaves, scratch, y, r, node, work)
    return work.node_log[k]


@bare_called_kernel
def log_empty(tree, palette, masses, edges, leaves, scratch, y, r):
    """Log product of the prior predictives of the observed columns of a region, whatever the splits."""
    total = 0.0
    following = r
    for q in range(r, tree.subtree_end[r]):
        if q < following:
            continue
        if q > r and tree.split[q] > 0:
            following = tree.subtree_end[q]
            continue
        d = tree.column[q]
        if d < 0 or scratch.missing[q]:
            continue
        column = -math.inf
        for e in range(palette.entry_ptr[d], palette.entry_ptr[d + 1]):
            prior_slot = edges.begin[q] + e - palette.entry_ptr[d]
            column = log_add(
                column,
                math.log(masses.entry[e] / masses.total[q]) + log_predictive(palette, leaves, d, prior_slot, y[d]),
            )
        total += column
    return total


@bare_called_kernel
def evaluate_below(tree, palette, masses, edges, nodes, leaves, scratch, y, top_region, top_node, work):
    """Values of the occupied edges below one sum node; returns the log value of the node.

    Leaves a state from which `draw_subtree` can draw; ``work.logs[top_region]`` says whether values are logs.
    """
    end = tree.subtree_end[top_region]
    shift = 0.0
    for r in range(top_region, end):
        work.n_active[r] = 0
        if scratch.missing[r]:
            continue
        n_nodes = 1 if r == top_region else work.n_active[tree.parent[r]]
        above = edges.begin[tree.parent[r]] if r > 0 else 0
        shared = r == top_region or tree.n_splits[tree.parent[r]] == 1
        begin = edges.begin[r]
        d = tree.column[r]
        largest = EMPTY_LEAF
        if d >= 0:
            for i in range(begin, begin + n_prior_slots(palette, d)):
                scratch.log_value[i] = log_predictive(palette, leaves, d, i, y[d])
                largest = max(largest, scratch.log_value[i])
        for j in range(n_nodes):
            node = top_node if r == top_region else work.active[above + j]
            if not shared and not reaches(tree, edges, r, node):
                continue
            slot = nodes.first[nodes.begin[r] + node]
            while slot >= 0:
                i = begin + slot
                work.active[begin + work.n_active[r]] = slot
                work.n_active[r] += 1
                if d >= 0:
                    scratch.log_value[i] = log_predictive(palette, leaves, d, i, y[d])
                    largest = max(largest, scratch.log_value[i])
                slot = edges.following[i]
        if d >= 0:
            work.values[0] += work.n_active[r]
            work.largest[d] = largest
            if not has_repeated_columns(palette):
                shift += largest
                exponentiate_leaves(palette, edges, scratch, r, d, largest, work)
    if has_repeated_columns(palette):
        shift = exponentiate_places(tree, palette, edges, scratch, top_region, work)
    k = nodes.begin[top_region] + top_node
    combine_below(tree, palette, masses, edges, nodes, scratch, top_region, top_node, work, False)
    work.evaluated[top_region] = top_node
    work.logs[top_region] = scratch.node_value[k] <= SAFE
    if scratch.node_value[k] > SAFE:
        return shift + math.log(scratch.node_value[k])
    for r in range(top_region, end):
        d = tree.column[r]
        if d >= 0 and not scratch.missing[r]:
            begin = edges.begin[r]
            for i in range(begin, begin + n_prior_slots(palette, d)):
                scratch.edge_value[i] = scratch.log_value[i]
            for j in range(work.n_active[r]):
                i = begin + work.active[begin + j]
                scratch.edge_value[i] = scratch.log_value[i]
    combine_below(tree, palette, masses, edges, nodes, scratch, top_region, top_node, work, True)
    return scratch.node_value[k]


@bare_called_kernel
def has_repeated_columns(palette):
    return palette.source.size >= palette.place_ptr.size


@bare_called_kernel
def exponentiate_leaves(palette, edges, scratch, r, d, largest, work):
    """Values of the active and the prior slots at a place, relative to the largest."""
    begin = edges.begin[r]
    for i in range(begin, begin + n_prior_slots(palette, d)):
        scratch.edge_value[i] = fast_exp(scratch.log_value[i] - largest)
    for j in range(work.n_active[r]):
        i = begin + work.active[begin + j]
        scratch.edge_value[i] = fast_exp(scratch.log_value[i] - largest)


@bare_called_kernel
def exponentiate_places(tree, palette, edges, scratch, top_region, work):
    """Leaf values below a region, every column relative to the largest at all its places; returns the sum of these."""
    shift = 0.0
    for c in range(palette.place_ptr.size - 1):
        largest = EMPTY_LEAF
        for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
            r = tree.leaf_region[d]
            if top_region <= r < tree.subtree_end[top_region] and not scratch.missing[r]:
                largest = max(largest, work.largest[d])
        shift += largest if largest > EMPTY_LEAF else 0.0
        for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
            r = tree.leaf_region[d]
            if top_region <= r < tree.subtree_end[top_region] and not scratch.missing[r]:
                exponentiate_leaves(palette, edges, scratch, r, d, largest, work)
    return shift


@bare_called_kernel
def combine_below(tree, palette, masses, edges, nodes, scratch, top_region, top_node, work, logs):
    """Upward pass over the active edges below one sum node, in linear space or in logs."""
    for r in range(tree.subtree_end[top_region] - 1, top_region - 1, -1):
        if scratch.missing[r]:
            continue
        begin = edges.begin[r]
        d = tree.column[r]
        if d < 0:
            empty = 0.0 if logs else 1.0
            for a in range(work.n_active[r]):
                scratch.edge_value[begin + work.active[begin + a]] = empty
            for j in range(tree.part_ptr[r], tree.part_ptr[r + 1]):
                q = tree.parts[j]
                if scratch.missing[q]:
                    continue
                below = nodes.begin[q]
                if tree.split[q] == 0:
                    empty = empty + scratch.empty_value[q] if logs else empty * scratch.empty_value[q]
                shared = tree.n_splits[r] == 1
                for a in range(work.n_active[r]):
                    slot = work.active[begin + a]
                    if not shared and not reaches(tree, edges, q, slot):
                        continue
                    if logs:
                        scratch.edge_value[begin + slot] += scratch.node_value[below + slot]
                    else:
                        scratch.edge_value[begin + slot] *= scratch.node_value[below + slot]
        else:
            empty = -math.inf if logs else 0.0
            for e in range(palette.entry_ptr[d], palette.entry_ptr[d + 1]):
                v = scratch.edge_value[begin + e - palette.entry_ptr[d]]
                part = masses.entry[e] / masses.total[r]
                empty = log_add(empty, math.log(part) + v) if logs else empty + part * v
        scratch.empty_value[r] = empty
        n_nodes = 1 if r == top_region else work.n_active[tree.parent[r]]
        shared = r == top_region or tree.n_splits[tree.parent[r]] == 1
        for a in range(n_nodes):
            node = top_node if r == top_region else work.active[edges.begin[tree.parent[r]] + a]
            if not shared and not reaches(tree, edges, r, node):
                continue
            sum_node(tree, palette, masses, edges, nodes, scratch, r, node, logs)


@bare_called_kernel
def sum_node(tree, palette, masses, edges, nodes, scratch, r, node, logs):
    """Value of one sum node from the values of its edges."""
    begin = edges.begin[r]
    k = nodes.begin[r] + node
    d = tree.column[r]
    total = -math.inf if logs else 0.0
    slot = nodes.first[k]
    while slot >= 0:
        i = begin + slot
        if logs:
            total = log_add(total, math.log(edges.weight[i]) + scratch.edge_value[i])
        else:
            total += edges.weight[i] * scratch.edge_value[i]
        slot = edges.following[i]
    if d < 0:
        free = free_mass(tree, masses, nodes, r, node)
        if free > 0.0:
            v = scratch.empty_value[r]
            total = log_add(total, math.log(free) + v) if logs else total + free * v
    else:
        for e in range(palette.entry_ptr[d], palette.entry_ptr[d + 1]):
            free = free_entry_mass(palette, masses, nodes, d, e, node)
            if free > 0.0:
                v = scratch.edge_value[begin + e - palette.entry_ptr[d]]
                total = log_add(total, math.log(free) + v) if logs else total + free * v
    mass = nodes.n_data[k] + masses.total[r]
    scratch.node_value[k] = total - math.log(mass) if logs else total / mass


@bare_called_kernel
def settle(rng, tree, palette, masses, edges, nodes, leaves, scratch, y, row, frontier, work):
    """Make the edges above the frontier real and draw everything below it."""
    for r in range(row.size):
        if tree.size[r] > frontier:
            slot = work.current[r]
            if slot <= FRESH:
                slot = new_edge(
                    tree, palette, masses, edges, nodes, leaves, r, row[tree.parent[r]] if r > 0 else 0, FRESH - slot
                )
            row[r] = slot
        elif tree.size[tree.parent[r]] > frontier:
            if scratch.missing[r] or not is_reached(tree, edges, r, row, True):
                row[r : tree.subtree_end[r]] = MISSING
                continue
            node = row[tree.parent[r]]
            if work.evaluated[r] != node:
                evaluate_below(tree, palette, masses, edges, nodes, leaves, scratch, y, r, node, work)
            draw_subtree(rng, tree, palette, masses, edges, nodes, leaves, scratch, row, r, work.logs[r])
