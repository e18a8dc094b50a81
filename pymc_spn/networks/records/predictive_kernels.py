"""The collapsed predictive of one recorded state: densities of rows, leave-one-out, ancestral draws.

Given a state, a new row's predictive is a sum-product network with weights (count + share) / (count + mass)
and the leaves' predictives; the kernels visit its occupied part. Besides points, a row may carry *events*
(intervals, sets): a column with an event has the event's log probability in each leaf in place of the leaf's
log density.
"""

import math

import numpy as np

from pymc_spn.gibbs.cell_masses import log_whole_number
from pymc_spn.gibbs.exact import SAFE, draw_kind, evaluate_regions, evaluate_regions_by_logs
from pymc_spn.gibbs.family_kernels import draw_of, is_not_negative, is_of_logs, posterior_of
from pymc_spn.gibbs.joint_leaves import (
    copy_row,
    evaluate_joints,
    move_joints,
    take_joints,
)
from pymc_spn.gibbs.leaf_kernels import (
    evaluate_leaves,
    exponentiate,
    level_mass,
    log_predictive,
    shift_column,
)
from pymc_spn.gibbs.network import CELLS, EMPTY_LEAF, LARGEST_LOG, LOGS, VECTOR
from pymc_spn.gibbs.occupancy import (
    FRESH,
    MISSING,
    attach,
    detach,
    draw_split,
    free_entry_mass,
    free_mass,
    mark_missing,
    new_edge,
    reaches,
)
from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel

ROUNDING = 1e-12  # a coded value this little below zero is a rounded zero


@bare_kernel
def evaluate_row(tree, palette, masses, edges, nodes, leaves, scratch, y, event, event_log, joints=None):
    """Log predictive of one row in coded units.

    Parameters
    ----------
    tree, palette, masses, edges, nodes, leaves, scratch
        Groups of a `Network`.
    y : (P,) float64
        Coded row, a value for each place of its column (`network`); NaN where there is no point. Behind it may stand
        the log values of the slots of leaves over several columns, where events are known of these (`joint_events`).
    event : (P,) bool
        Places of columns with an event; it is used where ``y`` is NaN.
    event_log : (L,) float64
        Log probability of the event in each leaf slot.
    joints : Joints, optional

    Returns
    -------
    log_density : float
        ``-inf`` where every leaf of a column excludes the row.
    logs : bool
        Whether values of edges and nodes are left in logs (`evaluate_regions_by_logs`).
    """
    of_slots = y[tree.leaf_region.size :]
    y = y[: tree.leaf_region.size]
    mark_missing(tree, scratch, y)
    if joints is not None:
        for c in range(palette.place_ptr.size - 1):
            joints.scratch.row[c] = y[palette.place_ptr[c]]
    by_hand = False
    for d in range(tree.leaf_region.size):
        r = tree.leaf_region[d]
        if scratch.missing[r]:
            by_hand |= event[d]
        elif palette.column_kind[d] >= CELLS or is_outside(palette, d, y[d]):
            scratch.missing[r] = True
            by_hand = True
    shift = evaluate_leaves(tree, palette, edges, leaves, scratch, y)
    if by_hand:
        for c in range(palette.place_ptr.size - 1):
            first = palette.place_ptr[c]
            is_event = event[first] and np.isnan(y[first])
            if not scratch.missing[tree.leaf_region[first]] or not (is_event or y[first] == y[first]):
                continue
            for d in range(first, palette.place_ptr[c + 1]):
                r = tree.leaf_region[d]
                scratch.missing[r] = False
                for i in range(edges.begin[r], edges.begin[r] + edges.top[r]):
                    if is_event:
                        scratch.log_value[i] = event_log[i]
                    elif palette.column_kind[d] >= CELLS:
                        scratch.log_value[i] = log_whole_number(palette, leaves, d, i, y[d])
                    else:
                        scratch.log_value[i] = log_predictive(palette, leaves, d, i, y[d])
            scratch.column_shift[c] = shift_column(tree, palette, edges, scratch, c)
            shift += scratch.column_shift[c]
            for d in range(first, palette.place_ptr[c + 1]):
                begin = edges.begin[tree.leaf_region[d]]
                end = begin + edges.top[tree.leaf_region[d]]
                exponentiate(scratch.scaled[begin:end], scratch.edge_value[begin:end])
        for r in range(tree.parent.size - 1, -1, -1):
            if tree.column[r] < 0:
                every = True
                for j in range(tree.part_ptr[r], tree.part_ptr[r + 1]):
                    every &= scratch.missing[tree.parts[j]]
                scratch.missing[r] = every
    if scratch.missing[0]:
        return 0.0, False
    if joints is not None:
        if of_slots.size > 0:
            shift += take_joints(tree, palette, edges, joints, scratch, of_slots)
        else:
            shift += evaluate_joints(tree, palette, edges, joints, scratch, y)
    evaluate_regions(tree, palette, masses, edges, nodes, scratch, joints, 0)
    logs = not scratch.node_value[0] > SAFE
    if logs:
        evaluate_regions_by_logs(tree, palette, masses, edges, nodes, scratch, joints, 0)
        total = scratch.node_value[0]
    else:
        total = shift + math.log(scratch.node_value[0])
    return (total if total > 0.1 * EMPTY_LEAF else -math.inf), logs


@bare_called_kernel
def is_outside(palette, d, y):
    """Whether a value of a continuous column is one that a leaf of positive numbers excludes."""
    if palette.column_kind[d] == LOGS:
        return y + palette.offset[d] <= 0.0
    if palette.column_kind[d] != VECTOR or y + palette.offset[d] >= -ROUNDING * (1.0 + abs(palette.offset[d])):
        return False
    outside = False
    for e in range(palette.entry_ptr[d], palette.entry_ptr[d + 1]):
        outside |= is_not_negative(palette.family[e])
    return outside


@bare_kernel
def leave_one_out(
    tree,
    palette,
    masses,
    edges,
    nodes,
    leaves,
    scratch,
    joints,
    y,
    filled,
    asked,
    slots,
    options,
    event,
    event_log,
    out,
):
    """Log predictive of each training row given the others: it is taken out, evaluated and put back.

    Parameters
    ----------
    tree, palette, masses, edges, nodes, leaves, scratch, joints
        Groups of a `Network` that holds the rows; the same afterwards.
    y : (N, P) float64
    filled : (N, D) float64
        The rows with the cells that are drawn in leaves over several columns.
    asked : (N, P) float64
        What is evaluated: the rows, or some of their cells.
    slots : (N, R) int32
    options : (N, R) int32
        Split of each row's product, palette entry of its leaf.
    event, event_log
        No event: False and anything.
    out : (N,) float64
    """
    for n in range(y.shape[0]):
        row = slots[n]
        for r in range(row.size):
            scratch.old[r] = row[r]
        if joints is not None:
            copy_row(filled[n], joints.scratch.row)
            move_joints(edges, joints, row, -1.0)
        detach(tree, palette, edges, nodes, leaves, scratch, y[n], row)
        out[n] = evaluate_row(tree, palette, masses, edges, nodes, leaves, scratch, asked[n], event, event_log, joints)[
            0
        ]
        for r in range(row.size):
            if row[r] >= 0 and edges.n_data[edges.begin[r] + row[r]] == 0:
                node = row[tree.parent[r]] if r > 0 else 0
                # the slot was freed last in its region, so it is the one that comes back
                row[r] = new_edge(tree, palette, masses, edges, nodes, leaves, r, node, options[n, r])
        attach(tree, palette, edges, nodes, leaves, scratch, y[n], row)
        if joints is not None:
            copy_row(filled[n], joints.scratch.row)
            move_joints(edges, joints, row, 1.0)


@bare_called_kernel
def draw_tree(rng, tree, palette, masses, edges, nodes, scratch, logs):
    """Draw an induced tree into ``scratch.new`` from the current values, columns without a point included.

    Of an unoccupied leaf it is the prior slot, of an unoccupied product of split s FRESH - s; MISSING off the tree.
    """
    following = 0
    for r in range(tree.parent.size):
        if r < following:
            continue
        d = tree.column[r]
        begin = edges.begin[r]
        node = scratch.new[tree.parent[r]] if r > 0 else 0
        following = r + 1
        if r > 0 and not reaches(tree, edges, r, node):
            following = tree.subtree_end[r]
            scratch.new[r:following] = MISSING
            continue
        chosen = FRESH
        last = FRESH
        if node >= 0:
            k = nodes.begin[r] + node
            u = rng.random() * (nodes.n_data[k] + masses.total[r])
            if not scratch.missing[r] and not logs:
                u *= scratch.node_value[k]
            slot = nodes.first[k]
            while slot >= 0:
                last = slot
                u -= edges.weight[begin + slot] * relative_value(scratch, r, begin + slot, k, logs)
                if u < 0.0:
                    chosen = slot
                    break
                slot = edges.following[begin + slot]
        if chosen == FRESH:
            # with every child occupied, a rest of u is rounding and belongs to the last child
            if d >= 0:
                chosen = draw_prior_slot(rng, tree, palette, masses, edges, nodes, scratch, d, node, logs)
                chosen = last if chosen == FRESH else chosen
            elif node >= 0 and free_mass(tree, masses, nodes, r, node) == 0.0:
                chosen = last
            elif tree.n_prior[r] > 0:
                chosen = draw_kind(rng, tree, edges, scratch, r, logs)
            else:
                chosen -= draw_split(rng, tree, edges, nodes, r, max(node, -1))
        scratch.new[r] = chosen


@bare_called_kernel
def relative_value(scratch, r, slot, k, logs):
    """Value of an edge's child: divided by the node's when in logs, 1 where nothing is observed."""
    if scratch.missing[r]:
        return 1.0
    return math.exp(scratch.edge_value[slot] - scratch.node_value[k]) if logs else scratch.edge_value[slot]


@bare_called_kernel
def draw_prior_slot(rng, tree, palette, masses, edges, nodes, scratch, d, node, logs):
    """Prior slot of an unoccupied leaf by free mass and prior predictive; FRESH if none is free."""
    r = tree.leaf_region[d]
    first = palette.entry_ptr[d]
    last = palette.entry_ptr[d + 1]
    total = 0.0
    for e in range(first, last):
        total += prior_slot_mass(palette, masses, edges, nodes, scratch, r, d, e, node, logs)
    u = rng.random() * total
    chosen = FRESH
    for e in range(first, last):
        mass = prior_slot_mass(palette, masses, edges, nodes, scratch, r, d, e, node, logs)
        if mass > 0.0:
            chosen = e - first
            u -= mass
            if u < 0.0:
                break
    return chosen


@bare_called_kernel
def prior_slot_mass(palette, masses, edges, nodes, scratch, r, d, e, node, logs):
    mass = masses.entry[e] if node <= FRESH else free_entry_mass(palette, masses, nodes, d, e, node)
    if scratch.missing[r]:
        return mass
    v = scratch.edge_value[edges.begin[r] + e - palette.entry_ptr[d]]
    return mass * (math.exp(v - scratch.empty_value[r]) if logs else v)


@bare_called_kernel
def draw_value(rng, palette, leaves, d, slot):
    """Coded value from a leaf's predictive; of a Poisson leaf only the rate, see `Conjugate.finish`."""
    e = leaves.entry[slot]
    family = palette.family[e]
    prior = palette.prior[e]
    n = leaves.n_data[slot]
    if family == CATEGORICAL:
        u = rng.random() * (n + prior[1])
        at = leaves.level_begin[d] + slot
        for level in range(palette.n_levels[d] - 1):
            u -= leaves.level_count[at + level * leaves.capacity[d]] + level_mass(palette, e, level)
            if u < 0.0:
                return float(level)
        return palette.n_levels[d] - 1.0
    p0, p1, p2, p3 = posterior_of(
        family, float(n), leaves.s1[slot], leaves.s2[slot], prior[0], prior[1], prior[2], prior[3]
    )
    drawn = draw_of(family, rng, p0, p1, p2, p3, palette.offset[d])
    if is_of_logs(family):
        return math.exp(min(max(drawn, -LARGEST_LOG), LARGEST_LOG)) - palette.offset[d]
    return drawn


@bare_kernel
def draw_values(rng, palette, leaves, place, slot, wanted, values):
    """Coded values (K, D) of the wanted cells, each from a leaf slot at a place (`draw_value`); others stay."""
    for k in range(values.shape[0]):
        for c in range(values.shape[1]):
            if wanted[k, c]:
                values[k, c] = draw_value(rng, palette, leaves, place[k, c], slot[k, c])
