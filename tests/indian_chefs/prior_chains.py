"""Moves on the prior from exact draws: whether its distribution stays, for each move and for planted mistakes.

A graph is drawn exactly, moves are made, and eight statistics are compared with those before. Replicates are
independent, so no autocorrelation has to be guessed.
"""

import math

import numpy as np
from numba import njit

from pymc_spn.indian_chefs.forward_draws import draw_graph
from pymc_spn.indian_chefs.graph_moves import (
    MOVE_NAMES,
    OWN_MOVES,
    PUBLISHED_MOVES,
    accept_or_undo,
    draw_edges,
    draw_parents,
    draw_reputation,
    draw_reputations,
    move_work,
    new_tally,
    prior_sweep,
    propose,
    published_sweep,
)
from pymc_spn.indian_chefs.graph_state import set_edge
from pymc_spn.indian_chefs.prior_density import edge_odds
from tests.indian_chefs.small_graphs import observed

FIRST = len(MOVE_NAMES)
MOVES = [*MOVE_NAMES, "edges", "reputations", "all_moves", "published_moves"]
FOR_ATOMS = [name for m, name in enumerate(MOVES[:-1]) if m not in PUBLISHED_MOVES]
BY_SLOTS, LITERAL_SINGLETONS = 90, 91  # mistakes in passes over the nodes
RIGHT, HALVED, NODES_COUNTED = range(3)  # mistakes in the ratio of a move


@njit
def statistics(state, longest, out):
    """Nodes, edges, depth, mean in-degree of observed nodes, largest out-degree, orphans, singletons, sum of theta."""
    n, d = state.count[0], state.fixed.size
    out[:] = 0.0
    out[0] = n
    for j in range(n):
        k = state.order[j]
        longest[k] = 0
        m = 0
        parents = 0
        for i in range(n):
            parents += state.parents[i, k]
            if state.parents[k, i]:
                m += 1
                longest[k] = max(longest[k], longest[i] + 1)
        out[1] += m
        out[2] = max(out[2], longest[k])
        out[4] = max(out[4], m)
        out[7] += state.reputations[k]
        if k < d:
            out[3] += parents / d
        else:
            out[5] += parents == 0
            out[6] += m == 1


@njit
def make_move(rng, state, prior, work, tally, move, mistake):
    """One move, or one pass of it over the nodes."""
    n = state.count[0]
    if move < FIRST:
        log_ratio, _, row = propose(rng, move, state, prior, work, tally)
        if mistake == HALVED:
            log_ratio *= 0.5
        elif mistake == NODES_COUNTED:  # as the factor 1 / K! of the published density, left out or counted twice
            log_ratio += math.log(max(state.count[0], n)) * np.sign(state.count[0] - n)
        accept_or_undo(rng, log_ratio, row, state, work, tally)
    elif move == FIRST:
        draw_edges(rng, state, prior)
    elif move == FIRST + 1:
        draw_reputations(rng, state, prior)
    elif move == FIRST + 2:
        prior_sweep(rng, state, prior, 2, tally)
    elif move == FIRST + 3:
        published_sweep(rng, state, prior, 2, tally)
    elif move == BY_SLOTS:  # all moves, but passes over the nodes tell how long a node is there
        for i in range(n):
            draw_parents(rng, state, prior, i)
        for i in range(n):
            draw_reputation(rng, state, prior, i)
        for _ in range(2):
            for one in OWN_MOVES:
                make_move(rng, state, prior, work, tally, one, RIGHT)
    elif move == LITERAL_SINGLETONS:  # every node with one child is passed over, whoever the child is
        for i in range(n):
            for k in range(n):
                odds = edge_odds(state, prior, k, i)
                if state.n_children[k] != 1 and 0.0 < odds < np.inf:
                    set_edge(state, k, i, rng.random() * (1.0 + odds) < odds)


@njit
def replicates(rng, state, prior, tally, move, mistake, steps, out):
    """Statistics (replicate, 2, 8) of exact draws, and after so many moves from them."""
    work, longest = move_work(state), np.zeros(state.order.size, np.int64)
    for row in out:
        while not draw_graph(rng, state, prior, work.children):
            pass
        statistics(state, longest, row[0])
        for _ in range(steps):
            make_move(rng, state, prior, work, tally, move, mistake)
        statistics(state, longest, row[1])


@njit
def record_chain(rng, state, prior, tally, move, thin, out):
    """Statistics (record, 8) of one chain."""
    work, longest = move_work(state), np.zeros(state.order.size, np.int64)
    for row in out:
        for _ in range(thin):
            make_move(rng, state, prior, work, tally, move, RIGHT)
        statistics(state, longest, row)


def after_moves(reputations, prior, move, steps, n, seed, max_nodes=64, mistake=RIGHT):
    """Statistics (n, 2, 8) of independent replicates, before and after."""
    out = np.empty((n, 2, 8))
    state = observed(reputations, max_nodes)
    replicates(np.random.default_rng(seed), state, prior, new_tally(), move, mistake, steps, out)
    return out


def exact_draws(reputations, prior, n, seed, max_nodes=64):
    """Statistics (n, 8) of independent draws."""
    return after_moves(reputations, prior, 0, 0, n, seed, max_nodes)[:, 0]


def z_of_changes(found):
    """z of the mean change of each statistic, 0 where none changes; (n, 2, statistics) before and after."""
    changes = found[:, 1] - found[:, 0]
    se = changes.std(0) / np.sqrt(len(changes))
    return changes.mean(0) / np.where(se > 0.0, se, 1.0)


def z_scores(a, b):
    """Two-sample z of each statistic; 0 where both are constant and equal."""
    se = np.sqrt(a.var(0) / len(a) + b.var(0) / len(b))
    return (a.mean(0) - b.mean(0)) / np.where(se > 0.0, se, 1.0)
