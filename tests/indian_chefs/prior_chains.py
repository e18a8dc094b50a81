"""Moves on the prior from exact draws: whether the law stays, for each move and for planted mistakes.

A graph is drawn exactly, a move is made a number of times, and eight statistics are compared with those of independent
exact draws. Replicates are independent, so no autocorrelation has to be guessed.
"""

import math

import numpy as np
from numba import njit

from pymc_spn.indian_chefs.forward_draws import draw_graph
from pymc_spn.indian_chefs.graph_state import (
    count_edges,
    delete_node,
    highest_child,
    insert_node,
    is_orphan,
    lowest_parent,
    place_node,
    set_edge,
)
from pymc_spn.indian_chefs.orphan_moves import (
    propose_orphan,
    propose_singleton,
    propose_singleton_death,
)
from pymc_spn.indian_chefs.prior_density import edge_log_odds
from pymc_spn.indian_chefs.reputation_moves import draw_reputation, propose_reputation
from pymc_spn.indian_chefs.split_moves import apply_merge, apply_split, propose_merge, propose_split
from pymc_spn.indian_chefs.sweeps import (
    accepts,
    birth_or_death,
    draw_edge,
    draw_edges,
    draw_reputations,
    prior_sweep,
    published_sweep,
    random_order,
    split_or_merge,
    swap,
)
from tests.indian_chefs.small_graphs import observed

MOVES = ["edges", "reputations", "orphans", "splits", "swaps", "singletons", "published_reputations"]
MOVES += ["all_moves", "published_moves"]
MISTAKES = ["factorial_dropped", "factorial_and_count", "literal_singletons", "parents_not_recounted"]
MISTAKES += ["orphans_not_counted", "edges_not_counted", "uniform_reputations", "slots_in_turn"]


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
def orphans_of(state):
    out = 0
    for k in range(state.count[0]):
        out += is_orphan(state, k)
    return out


@njit
def wrong_singletons(rng, state, prior, children, tally, kind):
    """Births and deaths of singletons with a planted mistake; right for an unknown kind."""
    if rng.random() < 0.5:
        theta, log_ratio = propose_singleton(rng, state, prior, children)
        n = state.count[0]
        if kind == 0:
            log_ratio += math.log(n + 1.0)
        elif kind == 1:
            log_ratio -= math.log(n + 1.0)
        elif kind == 3 and log_ratio > -np.inf:
            before = 0
            for k in range(n):
                for i in range(n):
                    if children[i] and state.parents[k, i] and is_orphan(state, k):
                        before += state.n_children[k] == 1
            log_ratio += math.log((before + 1.0) / max(before, 1))
        if accepts(rng, log_ratio):
            insert_node(state, theta, children)
    else:
        k, log_ratio = propose_singleton_death(rng, state, prior)
        n = state.count[0]
        if kind == 0:
            log_ratio -= math.log(n)
        elif kind == 1:
            log_ratio += math.log(n)
        if accepts(rng, log_ratio):
            delete_node(state, k)


@njit
def wrong_edges(rng, state, prior):
    """Every node with one child is passed over, whoever the child is."""
    for i in range(state.count[0]):
        for k in range(state.count[0]):
            if state.n_children[k] != 1:
                log_odds = edge_log_odds(state, prior, k, i)
                if log_odds > -np.inf and log_odds < np.inf:
                    set_edge(state, k, i, rng.random() < 1.0 / (1.0 + math.exp(-log_odds)))


@njit
def make_move(rng, state, prior, children, tally, move):
    """One move, or one pass of it over the nodes."""
    n = state.count[0]
    if move == 0:
        draw_edges(rng, state, prior)
    elif move == 1:
        draw_reputations(rng, state, prior)
    elif move == 2:
        birth_or_death(rng, state, prior, children, tally, False)
    elif move == 3:
        split_or_merge(rng, state, prior, children, tally)
    elif move == 4:
        swap(rng, state, prior, tally)
    elif move == 5:
        birth_or_death(rng, state, prior, children, tally, True)
    elif move == 6:
        for i in random_order(rng, n):
            theta, log_ratio = propose_reputation(rng, state, prior, i)
            if accepts(rng, log_ratio):
                place_node(state, i, theta)
    elif move == 7:
        prior_sweep(rng, state, prior, 2, children, tally)
    elif move == 8:
        published_sweep(rng, state, prior, 2, children, tally)
    elif move in (100, 101, 103):
        wrong_singletons(rng, state, prior, children, tally, move - 100)
    elif move == 102:
        wrong_edges(rng, state, prior)
    elif move == 104:
        if rng.random() < 0.5:
            theta, log_ratio = propose_orphan(rng, state, prior, children)
            if accepts(rng, log_ratio + math.log(orphans_of(state) + 1.0)):
                insert_node(state, theta, children)
        else:
            birth_or_death(rng, state, prior, children, tally, False)
    elif move == 105:
        if rng.random() < 0.5:
            k, i, theta, log_ratio = propose_split(rng, state, prior, children)
            if accepts(rng, log_ratio - math.log(max(count_edges(state), 1))):
                apply_split(state, k, i, theta, children)
        else:
            h, log_ratio = propose_merge(rng, state, prior)
            if accepts(rng, log_ratio):
                apply_merge(state, h)
    elif move == 106:
        for i in range(state.fixed.size, n):
            low, high = highest_child(state, i), min(lowest_parent(state, i), 1.0)
            place_node(state, i, low + rng.random() * (high - low))
    elif move == 107:
        sweep_by_slots(rng, state, prior, children, tally)


@njit
def sweep_by_slots(rng, state, prior, children, tally):
    """All moves, but passes over the nodes go by slots, which tell how long a node is there."""
    for i in range(state.count[0]):
        for k in range(state.count[0]):
            draw_edge(rng, state, prior, k, i)
    for i in range(state.count[0]):
        draw_reputation(rng, state, prior, i)
    for _ in range(2):
        birth_or_death(rng, state, prior, children, tally, False)
        split_or_merge(rng, state, prior, children, tally)
        swap(rng, state, prior, tally)


@njit
def replicates(rng, state, prior, children, tally, move, steps, out):
    """Statistics (replicate, 8) after ``steps`` moves from exact draws; 0 steps are the exact draws."""
    longest = np.zeros(state.order.size, np.int64)
    for row in out:
        while not draw_graph(rng, state, prior, children):
            pass
        for _ in range(steps):
            make_move(rng, state, prior, children, tally, move)
        statistics(state, longest, row)


@njit
def record_chain(rng, state, prior, children, tally, move, thin, out):
    """Statistics (record, 8) of one chain."""
    longest = np.zeros(state.order.size, np.int64)
    for row in out:
        for _ in range(thin):
            make_move(rng, state, prior, children, tally, move)
        statistics(state, longest, row)


def after_moves(reputations, prior, move, steps, n, seed, max_nodes=64):
    """Statistics (n, 8) of independent replicates."""
    state = observed(reputations, max_nodes)
    out = np.empty((n, 8))
    scratch = np.zeros(max_nodes, np.uint8), np.zeros((5, 3), np.int64)
    replicates(np.random.default_rng(seed), state, prior, *scratch, move, steps, out)
    return out


def z_scores(a, b):
    """Two-sample z of each statistic; 0 where both are constant and equal."""
    se = np.sqrt(a.var(0) / len(a) + b.var(0) / len(b))
    return (a.mean(0) - b.mean(0)) / np.where(se > 0.0, se, 1.0)
