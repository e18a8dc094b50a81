"""The kernel through which every row comes and goes: sweeps, starts from the prior, moves of whole components.

A row is taken out of its leaves, all leaves are evaluated at it, an induced tree is drawn from its exact collapsed
conditional given the other rows, and the row is put back. Where leaves are over several columns, missing cells of the
row are drawn with its tree: they are part of the state. Each task leaves some of these steps out. All of them stand in
one compiled function, since Numba would compile what it calls once more for each function that calls it.
"""

import math

from pymc_spn.gibbs.cell_masses import enter_leaves, evaluate_leaves_in_cells, leave_leaves
from pymc_spn.gibbs.component_kinds import NEXT, PHASE, STEP, TAKE, TOP, TRY, WEIGH
from pymc_spn.gibbs.component_moves import draw_seat, next_row, note_seat, offer_seats, part_of_row, return_to_seat
from pymc_spn.gibbs.exact import SAFE, draw_subtree, evaluate_regions, evaluate_regions_by_logs
from pymc_spn.gibbs.joint_leaves import complete_row, copy_row, evaluate_joints, move_joints
from pymc_spn.gibbs.leaf_kernels import evaluate_leaves, logs_of_levels
from pymc_spn.gibbs.occupancy import MISSING, attach, count_row, detach, mark_missing
from pymc_spn.numerics.kernel_options import bare_kernel

# What is done with rows. SWEEP: redraw them; rows without a tree get one. PRIOR: draw by the prior alone. COUNT: the
# same for rows without values, which change counts alone. MOVES: as moves of components say.
SWEEP, PRIOR, COUNT, MOVES = range(4)


@bare_kernel
def redraw_rows(
    rng, tree, palette, masses, edges, nodes, leaves, scratch, joints, move, distinct, given, y, table, filled, slots,
    task, first, last,
):  # fmt: skip
    """Redraw the induced trees of rows one after the other.

    Parameters
    ----------
    rng : numpy.random.Generator
    tree, palette, masses, edges, nodes, leaves, scratch, joints
        Groups of a `Network`; joints may be None.
    move : Move
        None without joints.
    distinct : DistinctCells
    given : LeafParameters
        None where no column is recorded in cells. Else SWEEP integrates the exact values of some columns out. One is
        changed in ``y`` where a leaf is opened by its row.
    y : (N, P) float64
        Coded table.
    table : (N, D) float64
        The same with each column once, NaN where missing.
    filled : (N, D) float64
        The same with the cells that were drawn, changed in place.
    slots : (N, R) int32
        State, changed in place.
    task : int
        SWEEP, PRIOR, COUNT or MOVES.
    first, last : int
        Rows first .. last-1, except for MOVES.

    Returns
    -------
    next_row : int
        ``last`` when the task is complete, else the row at which a region ran full: enlarge and go on from there.
    moved : int
        Rows whose leaves changed.
    """
    moved = 0
    top = 0
    is_move = task == MOVES
    takes = task == SWEEP
    evaluates = takes
    draws = True
    if task == PRIOR or task == COUNT:  # everything is worth 1
        scratch.edge_value[:] = 1.0
        scratch.node_value[:] = 1.0
        scratch.empty_value[:] = 1.0
    n = first
    while n < last:
        if edges.full[0]:
            return n, moved
        row = slots[n]
        values = y[n]
        if joints is not None and is_move:
            n = next_row(rng, tree, palette, edges, nodes, leaves, filled, slots, move)
            if n < 0:
                return last, 0
            top = move.at[TOP]
            takes = move.at[STEP] == TAKE
            evaluates = move.at[PHASE] == WEIGH
            draws = move.at[TRY] == 1
            row = move.part
            values = move.observed
            part_of_row(tree, palette, slots[n], top, y[n], row, values)
        if joints is not None:
            copy_row(filled[n], joints.scratch.row)
        for r in range(row.size):
            scratch.old[r] = row[r] if task == SWEEP else MISSING
        if takes:
            if joints is not None:
                move_joints(edges, joints, row, -1.0)
            detach(tree, palette, edges, nodes, leaves, scratch, values, row)
            if is_move:
                continue
            if given is not None:
                leave_leaves(tree, palette, edges, leaves, scratch, distinct, given, distinct.which[n])
        mark_missing(tree, scratch, values)
        logs = False
        log_w = 0.0
        if evaluates:
            if given is None or is_move:
                shift = evaluate_leaves(tree, palette, edges, leaves, scratch, values)
            else:
                cells = distinct.which[n]
                shift = evaluate_leaves_in_cells(tree, palette, edges, leaves, scratch, distinct, given, cells, values)
            if joints is not None:
                shift += evaluate_joints(tree, palette, edges, joints, scratch, values)
            while True:
                if logs:
                    evaluate_regions_by_logs(tree, palette, masses, edges, nodes, scratch, joints, top)
                else:
                    evaluate_regions(tree, palette, masses, edges, nodes, scratch, joints, top)
                is_safe = scratch.node_value[0] > SAFE
                if joints is not None and is_move:
                    log_value = offer_seats(tree, masses, edges, nodes, scratch, joints, move, logs)
                    is_safe = log_value > math.log(SAFE)
                    log_w = log_value if logs else log_value + shift
                if logs or is_safe:
                    break
                logs = True
                logs_of_levels(tree, palette, edges, leaves, scratch, values)
        if joints is None or not is_move:
            draw_subtree(rng, tree, palette, masses, edges, nodes, leaves, scratch, row, top, logs, joints)
        elif draws:
            draw_seat(rng, tree, palette, masses, edges, nodes, leaves, scratch, joints, move, logs)
        else:
            return_to_seat(tree, palette, masses, edges, nodes, leaves, move)
        if given is not None and takes:
            enter_leaves(rng, tree, palette, edges, leaves, distinct, given, distinct.which[n], row, values)
        if joints is not None:
            if draws:
                for r in range(top, tree.subtree_end[top]):
                    if tree.column[r] >= 0:
                        c = palette.source[tree.column[r]]
                        joints.scratch.row[c] = table[n, c]
                complete_row(rng, edges, joints, row)
            else:
                copy_row(move.cells[0, move.at[NEXT]], joints.scratch.row)
            copy_row(joints.scratch.row[: filled.shape[1]], filled[n])
        if task == COUNT:
            count_row(edges, nodes, row)
        else:
            attach(tree, palette, edges, nodes, leaves, scratch, values, row)
            if joints is not None:
                move_joints(edges, joints, row, 1.0)
        if joints is not None and is_move:
            note_seat(tree, palette, edges, leaves, joints, slots[n], move, log_w)
            continue
        changed = False
        for r in range(row.size):
            changed |= row[r] != scratch.old[r]
        moved += changed
        n += 1
    return last, moved
