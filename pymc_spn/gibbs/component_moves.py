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
    SEAT,
    STEP,
    TAKE,
    TOGETHER,
    TOP,
    TRY,
    WEIGH,
    draw_kinds,
    is_below,
    log_of_seating,
)
from pymc_spn.gibbs.exact import draw_subtree, log_add
from pymc_spn.gibbs.joint_leaves import copy_row
from pymc_spn.gibbs.occupancy import MISSING, new_edge
from pymc_spn.numerics.kernel_options import bare_called_kernel, copied_kernel


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


@copied_kernel
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


@copied_kernel
def begin_seating(tree, edges, move, phase, seating):
    """Begin a seating: all rows of a move are to be taken out of what is below its region, and seated again."""
    top = move.at[TOP]
    move.at[PHASE], move.at[TRY], move.at[STEP], move.at[NEXT] = phase, seating, TAKE, -1
    move.slot[:] = -1
    for r in range(top, tree.subtree_end[top]):
        move.number[edges.begin[r] : edges.begin[r] + edges.capacity[r]] = -1


@bare_called_kernel
def next_row(rng, tree, palette, edges, nodes, leaves, filled, slots, move):
    """The next row that is to be taken out or seated, by the moves that are left of a sweep; -1 after the last one.

    First the present seating is weighed, then one that is drawn. If this one is not accepted, the first is put back.
    """
    at = move.at
    while True:
        if at[PHASE] == IDLE:
            if at[LEFT] == 0:
                return -1
            at[LEFT] -= 1
            if choose_rows(rng, edges, slots, move):
                for t in range(at[ROWS]):
                    copy_row(filled[move.rows[t]], move.cells[0, t])
                    write_seat(tree, palette, edges, leaves, slots[move.rows[t]], move, 0, t)
                move.log_w[0] = -log_of_seating(rng, tree, edges, nodes, slots, move, 0)
                begin_seating(tree, edges, move, WEIGH, 0)
            continue
        at[NEXT] += 1
        if at[STEP] == TAKE and at[NEXT] == at[ROWS]:
            at[STEP], at[NEXT] = SEAT, 0
        if at[NEXT] < at[ROWS]:
            return move.rows[at[NEXT]]
        if at[PHASE] == REPLAY:
            at[PHASE] = IDLE
        elif at[TRY] == 0:
            begin_seating(tree, edges, move, WEIGH, 1)
            draw_kinds(rng, tree, move)
            move.mode[1] = TOGETHER if rng.random() < 0.5 else APART
            move.log_w[1] = 0.0
        else:
            move.log_w[1] -= log_of_seating(rng, tree, edges, nodes, slots, move, 1)
            if math.log(rng.random()) < move.log_w[1] - move.log_w[0]:
                at[PHASE] = IDLE
            else:
                begin_seating(tree, edges, move, REPLAY, 0)


@bare_called_kernel
def offer_seats(tree, masses, edges, nodes, scratch, joints, move, logs):
    """Log of what both children offer the current row: of each log mass and value, -inf where it cannot sit."""
    top = move.at[TOP]
    for child in range(2):
        move.offer[child] = -math.inf
        slot = move.slot[child, top]
        if move.at[NEXT] == 1 and move.mode[move.at[TRY]] == APART:
            is_open = child == 1  # the second row of two children begins the second
        else:
            is_open = slot >= 0 or (child == 0 and move.at[NEXT] == 0)
        if is_open:
            # of all kinds those are proposed that are open
            new = masses.total[top] * move.n_kinds[top] / tree.n_prior[top]
            mass = edges.weight[edges.begin[top] + slot] if slot >= 0 else new
            value = value_of_child(tree, masses, edges, nodes, scratch, joints, move, child, logs)
            move.offer[child] = math.log(mass) + value
    return log_add(move.offer[0], move.offer[1])


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
def return_to_seat(tree, palette, masses, edges, nodes, leaves, move):
    """Where the current row was in the present seating, into ``part``."""
    top = move.at[TOP]
    for r in range(top, tree.subtree_end[top]):
        slot = move.labels[0, move.at[NEXT], r]
        if slot >= 0:
            label = edges.begin[r] + slot
            if move.number[label] < 0:
                above = move.part[tree.parent[r]] if r > top else move.at[NODE]
                option = move.options[0, move.at[NEXT], r]
                move.number[label] = new_edge(tree, palette, masses, edges, nodes, leaves, r, above, option)
            slot = move.number[label]
        move.part[r] = slot
    is_first = move.at[NEXT] == 0 or move.part[top] == move.slot[0, top]
    move.child[0] = 0 if is_first else 1


@bare_called_kernel
def draw_seat(rng, tree, palette, masses, edges, nodes, leaves, scratch, joints, move, logs):
    """Draw to which child the current row goes, and where below it, into ``part``."""
    top = move.at[TOP]
    part = move.part
    child = 0 if math.log(rng.random()) < move.offer[0] - log_add(move.offer[0], move.offer[1]) else 1
    move.child[0] = child
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


@copied_kernel
def note_seat(tree, palette, edges, leaves, joints, row, move, log_w):
    """Note where the current row sits now, and its factor of log W."""
    top = move.at[TOP]
    child = move.child[0]
    for r in range(top, tree.subtree_end[top]):
        row[r] = move.part[r]
        if row[r] >= 0 and move.is_held[child, r]:
            move.slot[child, r] = row[r]
    if move.at[TRY] == 1:
        copy_row(joints.scratch.row[: move.cells.shape[2]], move.cells[1, move.at[NEXT]])
        write_seat(tree, palette, edges, leaves, row, move, 1, move.at[NEXT])
    move.log_w[move.at[TRY]] += log_w


@copied_kernel
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
