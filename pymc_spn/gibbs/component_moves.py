"""Moves of whole components: children of a sum node are merged, divided, or made of another kind.

A sweep moves one row at a time. So a component of many rows never turns from a leaf over several columns into a
product. Nor do two copies of one cluster ever become one. Here two rows of a sum node are drawn, and all rows of their
children are seated again, one after the other in random order. They go into one new child, or in two, with one of the
drawn rows in each. A row goes to one of the two by its exact conditional, and so does what follows below. The product W
of the conditionals' normalisers is the ratio of the posterior to such a proposal, for the present seating as well,
along the same order. So the proposed seating is accepted by the ratio of its W to that of the present one, as the
sequentially allocated proposals of Dahl (2005) are.

Which kinds are proposed stands in `component_kinds`.
"""

import math

from pymc_spn.gibbs.component_kinds import (
    APART,
    IDLE,
    LEFT,
    NEXT,
    NODE,
    PHASE,
    REPLAY,
    ROWS,
    TOGETHER,
    TOP,
    TRY,
    WEIGH,
    draw_kinds,
    is_below,
    log_of_seating,
)
from pymc_spn.gibbs.exact import SAFE, draw_subtree, evaluate_regions, evaluate_regions_by_logs, log_add
from pymc_spn.gibbs.joint_leaves import (
    attach_joints,
    complete_row,
    copy_row,
    detach_joints,
    evaluate_joints,
)
from pymc_spn.gibbs.leaf_kernels import evaluate_leaves
from pymc_spn.gibbs.occupancy import MISSING, attach, detach, mark_missing, new_edge
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel

LOG_SAFE = math.log(SAFE)


@bare_called_kernel
def choose_rows(rng, edges, slots, move):
    """Draw a region, two rows at one of its sum nodes, and the order of all rows that move; whether there is a move."""
    top = move.regions[int(rng.random() * move.regions.size)]
    i = int(rng.random() * slots.shape[0])
    if slots[i, top] < 0:
        return False
    begin = edges.begin[top]
    node = edges.node[begin + slots[i, top]]
    others = -1  # the row itself
    for n in range(slots.shape[0]):
        others += slots[n, top] >= 0 and edges.node[begin + slots[n, top]] == node
    if others == 0:
        return False
    left = int(rng.random() * others)
    j = -1
    while left >= 0:
        j += 1
        left -= j != i and slots[j, top] >= 0 and edges.node[begin + slots[j, top]] == node
    a, b = slots[i, top], slots[j, top]
    n_rows = edges.n_data[begin + a] + (edges.n_data[begin + b] if a != b else 0)
    if n_rows > move.rows.size or rng.random() * n_rows > move.budget[0]:
        return False  # the move would not change how many rows there are
    move.at[TOP], move.at[NODE], move.at[ROWS] = top, node, n_rows
    move.mode[0] = TOGETHER if a == b else APART
    move.rows[0], move.rows[1] = i, j
    t = 2
    for n in range(slots.shape[0]):
        if n != i and n != j and (slots[n, top] == a or slots[n, top] == b):
            move.rows[t] = n
            t += 1
    for t in range(2, n_rows):
        other = t + int(rng.random() * (n_rows - t))
        move.rows[t], move.rows[other] = move.rows[other], move.rows[t]
    return True


@bare_called_kernel
def part_of_row(tree, palette, row, top, y, part, observed):
    """The slots of a row below a region, -1 elsewhere, and its cells there, NaN elsewhere."""
    part[:] = MISSING
    observed[:] = math.nan
    for r in range(top, tree.subtree_end[top]):
        part[r] = row[r]
        if tree.column[r] >= 0:
            c = palette.source[tree.column[r]]
            for d in range(palette.place_ptr[c], palette.place_ptr[c + 1]):
                observed[d] = y[d]


@bare_called_kernel
def begin_seating(tree, palette, edges, nodes, leaves, scratch, joints, y, filled, slots, move):
    """Take the rows of a move out of what is below its region, to seat them again from the first on."""
    top = move.at[TOP]
    for t in range(move.at[ROWS]):
        n = move.rows[t]
        part_of_row(tree, palette, slots[n], top, y[n], move.part, move.observed)
        copy_row(filled[n], joints.scratch.row)
        detach_joints(edges, joints, move.part)
        detach(tree, palette, edges, nodes, leaves, scratch, y[n], move.part)
    move.at[NEXT] = 0
    move.slot[:] = -1
    if move.at[PHASE] == WEIGH and move.at[TRY] > 0:
        move.log_w[move.at[TRY]] = 0.0
    for r in range(top, tree.subtree_end[top]):
        move.number[edges.begin[r] : edges.begin[r] + edges.capacity[r]] = -1


@bare_called_kernel
def evaluate_seats(tree, palette, masses, edges, nodes, leaves, scratch, joints, move, k, t):
    """Logs of what the two children of a move offer the current row, in ``offer``; returns whether values are logs."""
    mark_missing(tree, scratch, move.observed)
    shift = evaluate_leaves(tree, palette, edges, leaves, scratch, move.observed)
    shift += evaluate_joints(tree, palette, edges, joints, scratch, move.observed)
    evaluate_regions(tree, palette, masses, edges, nodes, scratch, joints, move.at[TOP])
    offer_seats(tree, masses, edges, nodes, scratch, joints, move, k, t, False, shift)
    logs = not max(move.offer[0], move.offer[1]) - shift > LOG_SAFE
    if logs:
        evaluate_regions_by_logs(tree, palette, masses, edges, nodes, scratch, joints, move.at[TOP])
        offer_seats(tree, masses, edges, nodes, scratch, joints, move, k, t, True, 0.0)
    return logs


@bare_called_kernel
def offer_seats(tree, masses, edges, nodes, scratch, joints, move, k, t, logs, shift):
    """Log mass and value of each child as a seat of the current row, -inf of one that cannot be it."""
    top = move.at[TOP]
    for child in range(2):
        move.offer[child] = -math.inf
        slot = move.slot[child, top]
        if t == 1 and move.mode[k] == APART:
            is_open = child == 1  # the second row of two children begins the second
        else:
            is_open = slot >= 0 or (child == 0 and t == 0)
        if is_open:
            # of all kinds those are proposed that are open
            new = masses.total[top] * move.n_kinds[top] / tree.n_prior[top]
            mass = edges.weight[edges.begin[top] + slot] if slot >= 0 else new
            value = value_of_child(tree, masses, edges, nodes, scratch, joints, move, child, logs)
            move.offer[child] = math.log(mass) + value + shift


@bare_called_kernel
def value_of_child(tree, masses, edges, nodes, scratch, joints, move, child, logs):
    """Log value of a child for the current row, where what is held together below it has one child as well."""
    top = move.at[TOP]
    value = move.value
    for r in range(tree.subtree_end[top] - 1, top - 1, -1):
        value[r] = 0.0
        if scratch.missing[r] or not is_below(tree, move, child, r):
            continue
        kind = move.kind[child, r]
        slot = move.slot[child, r]
        if kind < 0:
            above = move.slot[child, tree.parent[r]]
            free = scratch.node_value[nodes.begin[r] + above] if above >= 0 else scratch.empty_value[r]
            value[r] = log_of(free, logs)
            continue
        if kind == joints.split[r]:
            at = edges.begin[r] + (slot if slot >= 0 else kind)
            value[r] = log_of(scratch.edge_value[at], logs)
        else:
            for at in range(tree.part_ptr[r], tree.part_ptr[r + 1]):
                if tree.split[tree.parts[at]] == kind:
                    value[r] += value[tree.parts[at]]
        if r > top:
            n = edges.n_data[edges.begin[r] + slot] if slot >= 0 else 0
            value[r] += math.log(n / (n + masses.total[r]) if n > 0 else 1.0 / tree.n_prior[r])
    return value[top]


@bare_called_kernel
def seat_row(
    rng, tree, palette, masses, edges, nodes, leaves, scratch, joints, y, table, filled, slots, move, k, t
):  # fmt: skip
    """Seat the next row of a move; returns its factor of log W.

    In the present seating, 0, it goes where it was; in the proposed one, 1, there is drawn and written where it goes.
    """
    top = move.at[TOP]
    n = move.rows[t]
    part = move.part
    part_of_row(tree, palette, slots[n], top, y[n], part, move.observed)
    log_w = 0.0
    logs = False
    child = 0
    if move.at[PHASE] == WEIGH:
        logs = evaluate_seats(tree, palette, masses, edges, nodes, leaves, scratch, joints, move, k, t)
        log_w = log_add(move.offer[0], move.offer[1])
    if k == 0:
        for r in range(top, tree.subtree_end[top]):
            part[r] = move.labels[k, t, r]
            if part[r] >= 0:
                label = edges.begin[r] + part[r]
                if move.number[label] < 0:
                    above = part[tree.parent[r]] if r > top else move.at[NODE]
                    option = move.options[k, t, r]
                    move.number[label] = new_edge(tree, palette, masses, edges, nodes, leaves, r, above, option)
                part[r] = move.number[label]
        child = 0 if t == 0 or part[top] == move.slot[0, top] else 1
        copy_row(move.cells[k, t], joints.scratch.row)
    else:
        child = 0 if math.log(rng.random()) < move.offer[0] - log_w else 1
        draw_seat(rng, tree, palette, masses, edges, nodes, leaves, scratch, joints, move, child, logs)
        copy_row(filled[n], joints.scratch.row)
        for r in range(top, tree.subtree_end[top]):
            if tree.column[r] >= 0:
                c = palette.source[tree.column[r]]
                joints.scratch.row[c] = table[n, c]
        complete_row(rng, edges, joints, part)
        copy_row(joints.scratch.row[: filled.shape[1]], move.cells[k, t])
        write_seat(tree, palette, edges, leaves, part, move, k, t)
    for r in range(top, tree.subtree_end[top]):
        if part[r] >= 0 and move.is_held[child, r]:
            move.slot[child, r] = part[r]
        slots[n, r] = part[r]
    attach(tree, palette, edges, nodes, leaves, scratch, y[n], part)
    attach_joints(edges, joints, part)
    copy_row(move.cells[k, t], filled[n])
    return log_w


@bare_called_kernel
def draw_seat(rng, tree, palette, masses, edges, nodes, leaves, scratch, joints, move, child, logs):
    """Draw where the current row goes below a child, into ``part``."""
    top = move.at[TOP]
    part = move.part
    following = top
    for r in range(top, tree.subtree_end[top]):
        if r < following:
            continue
        if scratch.missing[r] or not is_below(tree, move, child, r):
            following = tree.subtree_end[r]
            part[r:following] = MISSING
        elif move.kind[child, r] < 0:
            following = tree.subtree_end[r]
            draw_subtree(rng, tree, palette, masses, edges, nodes, leaves, scratch, part, r, logs, joints)
        elif move.slot[child, r] >= 0:
            part[r] = move.slot[child, r]
        else:
            above = part[tree.parent[r]] if r > top else move.at[NODE]
            part[r] = new_edge(tree, palette, masses, edges, nodes, leaves, r, above, move.kind[child, r])


@bare_called_kernel
def log_of(value, logs):
    if logs:
        return value
    return math.log(value) if value > 0.0 else -math.inf


@bare_called_kernel
def write_seat(tree, palette, edges, leaves, slots, move, k, t):
    """Note where a row sits below the region of a move."""
    for r in range(move.at[TOP], tree.subtree_end[move.at[TOP]]):
        move.labels[k, t, r] = slots[r]
        if slots[r] >= 0:
            i = edges.begin[r] + slots[r]
            d = tree.column[r]
            move.options[k, t, r] = leaves.entry[i] - palette.entry_ptr[d] if d >= 0 else edges.split[i]


@bare_kernel
def move_components(rng, tree, palette, masses, edges, nodes, leaves, scratch, joints, y, table, filled, slots, move):
    """Make the moves that are left of a sweep.

    Parameters
    ----------
    rng, tree, palette, masses, edges, nodes, leaves, scratch, joints, y, table, filled, slots
        As in `joint_sweep`.
    move : Move
        ``at[LEFT]`` moves are left; when a region runs full in one, the rest of it stands here.

    Returns
    -------
    bool
        True when a region ran full: enlarge it, keeping all slots, and call again.
    """
    at = move.at
    while True:
        if at[PHASE] == IDLE:
            if at[LEFT] == 0:
                return False
            at[LEFT] -= 1
            if not choose_rows(rng, edges, slots, move):
                continue
            for t in range(at[ROWS]):
                copy_row(filled[move.rows[t]], move.cells[0, t])
                write_seat(tree, palette, edges, leaves, slots[move.rows[t]], move, 0, t)
            scratch.old[:] = MISSING
            at[PHASE], at[TRY] = WEIGH, 0
            log_p = log_of_seating(rng, tree, edges, nodes, slots, move, 0, True)
            begin_seating(tree, palette, edges, nodes, leaves, scratch, joints, y, filled, slots, move)
            move.log_w[0] = -log_p
        k = at[TRY]
        while at[NEXT] < at[ROWS]:
            if edges.full[0]:
                return True
            log_w = seat_row(
                rng, tree, palette, masses, edges, nodes, leaves, scratch, joints, y, table, filled, slots, move, k,
                at[NEXT],
            )  # fmt: skip
            if at[PHASE] == WEIGH:
                move.log_w[k] += log_w
            at[NEXT] += 1
        if at[PHASE] == REPLAY:
            at[PHASE] = IDLE
            continue
        if k == 0:
            at[TRY] = 1
            draw_kinds(rng, tree, move)
            move.mode[1] = TOGETHER if rng.random() < 0.5 else APART
            begin_seating(tree, palette, edges, nodes, leaves, scratch, joints, y, filled, slots, move)
            continue
        move.log_w[1] -= log_of_seating(rng, tree, edges, nodes, slots, move, 1, False)
        if math.log(rng.random()) < move.log_w[1] - move.log_w[0]:
            at[PHASE] = IDLE
        else:
            at[PHASE], at[TRY] = REPLAY, 0
            begin_seating(tree, palette, edges, nodes, leaves, scratch, joints, y, filled, slots, move)
