"""The collapsed predictive of one recorded state: densities of single rows, ancestral draws.

Given a state, a new row's predictive is a sum-product network with weights (count + share) / (count + mass)
and the leaves' predictives; the kernels visit its occupied part. Besides points, a row may have *cells*: a column with
one has the cell's log mass in each leaf in place of the leaf's log density.
"""

import math

from pymc_spn.gibbs.cell_masses import log_of_value
from pymc_spn.gibbs.exact import SAFE, evaluate_regions, evaluate_regions_by_logs
from pymc_spn.gibbs.family_kernels import draw_of, is_not_negative, is_of_logs, posterior_of
from pymc_spn.gibbs.joint_leaves import copy_row, evaluate_joints, move_joints, take_joints
from pymc_spn.gibbs.leaf_kernels import (
    evaluate_leaves,
    exponentiate,
    level_mass,
    logs_of_levels,
    shift_column,
)
from pymc_spn.gibbs.network import CELLS, EMPTY_LEAF, LARGEST_LOG, LOGS, VECTOR
from pymc_spn.gibbs.occupancy import attach, detach, make_again, mark_missing
from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel

ROUNDING = 1e-12  # a coded value this little below zero is a rounded zero


@bare_kernel
def evaluate_row(tree, palette, masses, edges, nodes, leaves, scratch, y, joints=None, cells=None, of_joints=None):
    """Log predictive of one row in coded units.

    Parameters
    ----------
    tree, palette, masses, edges, nodes, leaves, scratch
        Groups of a `Network`.
    y : (P,) float64
        Coded row, a value for each place of its column (`network`); NaN where there is no point.
    joints : Joints, optional
    of_joints : (J,) float64
        With ``joints``: log values of the row in the slots of leaves over several columns.
    cells : (2, P) float64, optional
        Ends of the row's cells, NaN where it has none; used where ``y`` is NaN.

    Returns
    -------
    log_density : float
        ``-inf`` where every leaf of a column excludes the row.
    logs : bool
        Whether values of edges and nodes are left in logs (`evaluate_regions_by_logs`).
    """
    mark_missing(tree, scratch, y)
    by_hand = False
    for d in range(tree.leaf_region.size):
        r = tree.leaf_region[d]
        if scratch.missing[r]:
            if cells is not None:
                by_hand |= cells[0, d] == cells[0, d]
        elif palette.column_kind[d] >= CELLS or is_outside(palette, d, y[d]):
            scratch.missing[r] = True
            by_hand = True
    shift = evaluate_leaves(tree, palette, edges, leaves, scratch, y)
    if by_hand:
        for c in range(palette.place_ptr.size - 1):
            first = palette.place_ptr[c]
            low = y[first]
            high = low
            is_cell = False
            if cells is not None:
                if math.isnan(low):
                    low, high = cells[0, first], cells[1, first]
                    is_cell = True
            if not scratch.missing[tree.leaf_region[first]] or math.isnan(low):
                continue
            for d in range(first, palette.place_ptr[c + 1]):
                r = tree.leaf_region[d]
                scratch.missing[r] = False
                for i in range(edges.begin[r], edges.begin[r] + edges.top[r]):
                    scratch.log_value[i] = log_of_value(palette, leaves, d, i, is_cell, low, high)
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
        if of_joints is None:
            shift += evaluate_joints(tree, palette, edges, joints, scratch, y)
        else:
            shift += take_joints(tree, palette, edges, joints, scratch, of_joints)
    evaluate_regions(tree, palette, masses, edges, nodes, scratch, joints, 0)
    logs = not scratch.node_value[0] > SAFE
    if logs:
        logs_of_levels(tree, palette, edges, leaves, scratch, y)
        evaluate_regions_by_logs(tree, palette, masses, edges, nodes, scratch, joints, 0)
        total = scratch.node_value[0]
    else:
        total = shift + math.log(scratch.node_value[0])
    return (total if total > 0.1 * EMPTY_LEAF else -math.inf), logs


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
    cells,
    of_joints,
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
        Empty for rows that are none of the network's.
    options : (N, R) int32
        Split of each row's product, palette entry of its leaf.
    cells : (N, 2, P) float64
        Of the rows, see `evaluate_row`; None where no column is in cells.
    of_joints : (N, J) float64
        Log values of each row in the slots of leaves over several columns without it; None where no column is in cells.
    out : (N,) float64
    """
    for n in range(out.size):
        if slots.shape[0] > 0:
            row = slots[n]
            for r in range(row.size):
                scratch.old[r] = row[r]
            if of_joints is None:
                if joints is not None:
                    copy_row(filled[n], joints.scratch.row)
                    move_joints(edges, joints, row, -1.0)
            detach(tree, palette, edges, nodes, leaves, scratch, y[n], row)
        own = None if cells is None else cells[n]
        logs = None if of_joints is None else of_joints[n]
        out[n] = evaluate_row(tree, palette, masses, edges, nodes, leaves, scratch, asked[n], joints, own, logs)[0]
        if slots.shape[0] > 0:
            row = slots[n]
            make_again(tree, palette, masses, edges, nodes, leaves, row, options[n])
            attach(tree, palette, edges, nodes, leaves, scratch, y[n], row)
            if of_joints is None:
                if joints is not None:
                    copy_row(filled[n], joints.scratch.row)
                    move_joints(edges, joints, row, 1.0)


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
