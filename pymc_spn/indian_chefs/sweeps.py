"""Chains on the prior alone: the moves of this room, and the published ones, without a likelihood."""

import math

import numpy as np

from pymc_spn.indian_chefs.graph_state import delete_node, insert_node, place_node, set_edge
from pymc_spn.indian_chefs.orphan_moves import (
    propose_orphan,
    propose_orphan_death,
    propose_singleton,
    propose_singleton_death,
)
from pymc_spn.indian_chefs.prior_density import edge_log_odds
from pymc_spn.indian_chefs.reputation_moves import draw_reputation, propose_reputation
from pymc_spn.indian_chefs.split_moves import (
    apply_merge,
    apply_split,
    apply_swap,
    propose_merge,
    propose_split,
    propose_swap,
)
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

BIRTH, DEATH, SPLIT, MERGE, SWAP = range(5)  # rows of a tally
TRIED, ACCEPTED, REFUSED = range(3)  # its columns; a birth is refused where the state is full


def new_tally():
    """(5, 3) int64: for each move, how often it was tried, accepted, refused because the state is full."""
    return np.zeros((5, 3), np.int64)


@inner_kernel
def draw_edge(rng, state, prior, k, i):
    """Gibbs draw of one edge from the prior; returns whether it changed."""
    log_odds = edge_log_odds(state, prior, k, i)
    if math.isinf(log_odds):
        return False
    value = rng.random() < 1.0 / (1.0 + math.exp(-log_odds))
    changed = value != state.parents[k, i]
    if changed:
        set_edge(state, k, i, value)
    return changed


@kernel
def random_order(rng, n):
    """A uniformly random order of n nodes.

    Passes over the nodes must not go by slots. A new node takes the last slot and a deleted one is replaced by it. So
    slots tell something of the graph, and Gibbs draws in an order that depends on the graph change its law.
    """
    order = np.arange(n)
    for last in range(n - 1, 0, -1):
        j = int(rng.random() * (last + 1))
        order[last], order[j] = order[j], order[last]
    return order


@inner_kernel
def draw_edges(rng, state, prior):
    """Gibbs draws of all edges, child by child in random order; parents of a child are independent given the rest."""
    for i in random_order(rng, state.count[0]):
        for k in range(state.count[0]):
            draw_edge(rng, state, prior, k, i)


@kernel
def draw_reputations(rng, state, prior):
    """Gibbs draws of all reputations that move, in random order."""
    for i in random_order(rng, state.count[0]):
        draw_reputation(rng, state, prior, i)


@inner_kernel
def accepts(rng, log_ratio):
    """The Metropolis-Hastings decision."""
    return log_ratio > -rng.standard_exponential()


@inner_kernel
def birth_or_death(rng, state, prior, children, tally, is_singleton):
    """One birth or death, of orphans with any children or of singletons; with equal chances."""
    if rng.random() < 0.5:
        tally[BIRTH, TRIED] += 1
        tally[BIRTH, REFUSED] += state.count[0] == state.order.size
        if is_singleton:
            theta, log_ratio = propose_singleton(rng, state, prior, children)
        else:
            theta, log_ratio = propose_orphan(rng, state, prior, children)
        if accepts(rng, log_ratio):
            insert_node(state, theta, children)
            tally[BIRTH, ACCEPTED] += 1
    else:
        tally[DEATH, TRIED] += 1
        if is_singleton:
            k, log_ratio = propose_singleton_death(rng, state, prior)
        else:
            k, log_ratio = propose_orphan_death(rng, state, prior)
        if accepts(rng, log_ratio):
            delete_node(state, k)
            tally[DEATH, ACCEPTED] += 1


@inner_kernel
def split_or_merge(rng, state, prior, children, tally):
    """One split or merge, with equal chances."""
    if rng.random() < 0.5:
        tally[SPLIT, TRIED] += 1
        tally[SPLIT, REFUSED] += state.count[0] == state.order.size
        k, i, theta, log_ratio = propose_split(rng, state, prior, children)
        if accepts(rng, log_ratio):
            apply_split(state, k, i, theta, children)
            tally[SPLIT, ACCEPTED] += 1
    else:
        tally[MERGE, TRIED] += 1
        h, log_ratio = propose_merge(rng, state, prior)
        if accepts(rng, log_ratio):
            apply_merge(state, h)
            tally[MERGE, ACCEPTED] += 1


@inner_kernel
def swap(rng, state, prior, tally):
    """One exchange of two neighbours in the order."""
    tally[SWAP, TRIED] += 1
    low, high, log_ratio = propose_swap(rng, state, prior)
    if accepts(rng, log_ratio):
        apply_swap(state, low, high)
        tally[SWAP, ACCEPTED] += 1


@kernel
def prior_sweep(rng, state, prior, repeats, children, tally):
    """All moves: edges and reputations of every node, then ``repeats`` births or deaths, splits or merges, swaps."""
    draw_edges(rng, state, prior)
    draw_reputations(rng, state, prior)
    for _ in range(repeats):
        birth_or_death(rng, state, prior, children, tally, False)
        split_or_merge(rng, state, prior, children, tally)
        swap(rng, state, prior, tally)


@kernel
def published_sweep(rng, state, prior, repeats, children, tally):
    """The published moves, each ``repeats`` times at a node drawn uniformly: equations 13, 14 or 15, and 16."""
    for _ in range(repeats):
        i = int(rng.random() * state.count[0])
        for k in range(state.count[0]):
            draw_edge(rng, state, prior, k, i)
        birth_or_death(rng, state, prior, children, tally, True)
        i = int(rng.random() * state.count[0])
        theta, log_ratio = propose_reputation(rng, state, prior, i)
        if accepts(rng, log_ratio):
            place_node(state, i, theta)
