"""What a move of components proposes: of what kind the new children are, and what below them is held together.

The kind of a new child is drawn uniformly, since its first rows know little about it: a leaf over ten columns is worth
something from the eleventh row on. For the same reason a proposal may hold the rows together in one child further down,
too, of a kind that is drawn. Such decisions F are an auxiliary variable. Given a seating, F has its prior restricted to
what is compatible, so the weight of a seating is W / P(F compatible), which `weigh_kinds` gives.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.numerics.array_groups import array_group
from pymc_spn.numerics.kernel_options import bare_called_kernel, copied_kernel

TOGETHER, APART = 1, 2  # seatings of the two rows
IDLE, WEIGH, REPLAY = 0, 1, 2  # phases of a move
HELD = 0.5  # probability that all rows of a new node are held together in one child
TAKE, SEAT = 0, 1  # steps of a seating: all rows are taken out, and then seated one after the other
PHASE, LEFT, TOP, NODE, ROWS, TRY, NEXT, STEP = range(8)


@array_group
class Move(NamedTuple):
    """A move that is under way, of at most L rows: the present seating and the proposed one."""

    at: np.ndarray  # (8,) the numbers above
    n_kinds: np.ndarray  # (R,) of new children
    regions: np.ndarray  # whose sum nodes have children that move
    budget: np.ndarray  # (1,) rows: a move of more is made with the probability budget / rows
    rows: np.ndarray  # (L,) in their order
    mode: np.ndarray  # (2,) the present seating first
    log_w: np.ndarray  # (2,)
    labels: np.ndarray  # (2, L, R) slots
    options: np.ndarray  # (2, L, R) kinds of new edges, palette entries of new leaves
    cells: np.ndarray  # (2, L, D) completed rows
    number: np.ndarray  # (M,) slot that has taken the place of a labelled one
    kind: np.ndarray  # (2, R) of the only child of a node below each child of the move, -1 where there may be several
    is_held: np.ndarray  # (2, R) whether there is one
    slot: np.ndarray  # (2, R) its slot, -1 before its first row
    value: np.ndarray  # (R,)
    offer: np.ndarray  # (2,) log mass and value of each child for the current row
    child: np.ndarray  # (1,) to which of them it goes
    part: np.ndarray  # (R,) slots of the current row below the region
    observed: np.ndarray  # (P,) its cells there


def build_move(tree, joints, slots, coded, table, largest, budget):
    """Room for moves of as many rows.

    The regions are those with leaves over several columns in them or below: elsewhere rows by themselves go far.
    """
    n_rows = min(len(slots), largest)
    seats = 2, n_rows, slots.shape[1]
    return Move(
        at=np.zeros(8, np.int64),
        n_kinds=tree.n_prior - (~joints.is_open & (joints.split >= 0)),  # a leaf over all columns is the last kind
        regions=np.flatnonzero((tree.n_prior > 0) & (tree.column < 0)),
        budget=np.full(1, float(budget)),
        rows=np.zeros(n_rows, np.int64),
        mode=np.zeros(2, np.int64),
        log_w=np.zeros(2),
        labels=np.zeros(seats, slots.dtype),
        options=np.zeros(seats, np.int64),
        cells=np.zeros((2, n_rows, table.shape[1])),
        number=np.zeros(0, slots.dtype),
        kind=np.zeros((2, slots.shape[1]), np.int64),
        is_held=np.zeros((2, slots.shape[1]), np.bool_),
        slot=np.zeros((2, slots.shape[1]), slots.dtype),
        value=np.zeros(slots.shape[1]),
        offer=np.zeros(2),
        child=np.zeros(1, np.int64),
        part=np.zeros(slots.shape[1], slots.dtype),
        observed=np.zeros(coded.shape[1]),
    )


@copied_kernel
def is_below(tree, move, child, r):
    """Whether a region belongs to what a child holds together, or stands right below it."""
    if r == move.at[TOP]:
        return True
    above = tree.parent[r]
    return move.is_held[child, above] and move.kind[child, above] == tree.split[r]


@bare_called_kernel
def draw_kinds(rng, tree, move):
    """Draw for both children of a move of what kind they are, and what below them is held together, in one child."""
    top = move.at[TOP]
    for child in range(2):
        for r in range(top, tree.subtree_end[top]):
            held = r == top or (tree.n_prior[r] > 0 and tree.column[r] < 0 and rng.random() < HELD)
            move.kind[child, r] = int(rng.random() * move.n_kinds[r]) if held else -1
            move.is_held[child, r] = held and is_below(tree, move, child, r)


@bare_called_kernel
def weigh_kinds(tree, edges, nodes, move, child, top_slot):
    """Log probability that the seating of a child is compatible with what is drawn to be held together.

    ``value`` has the probability of each region, and ``slot`` its only child, if there is one.
    """
    top = move.at[TOP]
    for r in range(top, tree.subtree_end[top]):
        move.value[r] = 1.0
        move.slot[child, r] = -1
        move.kind[child, r] = -1
        move.is_held[child, r] = False
        above = move.slot[child, tree.parent[r]] if r > top else -1
        if r == top:
            move.slot[child, r] = top_slot
        elif above >= 0 and is_below(tree, move, child, r) and tree.n_prior[r] > 0 and tree.column[r] < 0:
            k = nodes.begin[r] + above
            if nodes.n_edges[k] == 1:
                move.slot[child, r] = nodes.first[k]
            elif nodes.n_edges[k] > 1:
                move.value[r] = 1.0 - HELD
        if move.slot[child, r] >= 0:
            move.is_held[child, r] = True
            move.kind[child, r] = edges.split[edges.begin[r] + move.slot[child, r]]
    for r in range(tree.subtree_end[top] - 1, top - 1, -1):
        if move.is_held[child, r]:
            for at in range(tree.part_ptr[r], tree.part_ptr[r + 1]):
                if tree.split[tree.parts[at]] == move.kind[child, r]:
                    move.value[r] *= move.value[tree.parts[at]]
            if r > top:
                move.value[r] = 1.0 - HELD + HELD / move.n_kinds[r] * move.value[r]
    return math.log(move.value[top])


@bare_called_kernel
def draw_compatible(rng, tree, edges, nodes, move, child, top_slot):
    """Draw what is held together below a child that is seated, given its seating; the log probability as above."""
    top = move.at[TOP]
    log_p = weigh_kinds(tree, edges, nodes, move, child, top_slot)
    for r in range(top + 1, tree.subtree_end[top]):
        if move.is_held[child, r]:
            if not is_below(tree, move, child, r) or rng.random() * move.value[r] < 1.0 - HELD:
                move.is_held[child, r] = False
                move.kind[child, r] = -1
    return log_p


@bare_called_kernel
def log_of_seating(rng, tree, edges, nodes, slots, move, k):
    """Log probability that a seating is compatible with what is held together; given the present one, that is drawn."""
    log_p = 0.0
    for child in range(move.mode[k]):
        slot = slots[move.rows[child], move.at[TOP]]
        if k == 0:
            log_p += draw_compatible(rng, tree, edges, nodes, move, child, slot)
        else:
            log_p += weigh_kinds(tree, edges, nodes, move, child, slot)
    return log_p
