"""Splitting an edge by a new hidden node, merging it again, and the exchange of two neighbours in the order.

As in `orphan_moves`, ``propose`` functions return a change and its log ratio by prior and proposal, ``apply`` functions
make it. Split and merge must be proposed equally often.
"""

import math

import numpy as np

from pymc_spn.indian_chefs.graph_state import count_edges, delete_node, insert_node, place_node, set_edge
from pymc_spn.indian_chefs.prior_density import base_mass, draw_base, insertion_log_ratio, node_factor
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@inner_kernel
def _only_parent(state, h):
    for k in range(state.count[0]):
        if state.parents[k, h]:
            return k
    return -1


@inner_kernel
def _only_child(state, h):
    for i in range(state.count[0]):
        if state.parents[h, i]:
            return i
    return -1


@kernel
def is_link(state, h):
    """Whether hidden node h has one parent and one child that are not joined to each other."""
    if h < state.fixed.size or state.n_parents[h] != 1 or state.n_children[h] != 1:
        return False
    return state.parents[_only_parent(state, h), _only_child(state, h)] == 0


@inner_kernel
def _count_links(state):
    out = 0
    for h in range(state.fixed.size, state.count[0]):
        out += is_link(state, h)
    return out


@kernel
def propose_split(rng, state, prior, children):
    """Edge k -> i to be replaced by k -> h -> i, with h between them.

    Parameters
    ----------
    children : (K,) uint8
        Scratch; its contents afterwards are the children of h.

    Returns
    -------
    k, i : int
        -1 if the graph has no edge.
    theta : float
        Reputation of h.
    log_ratio : float
        -inf if there is no edge, no room between the nodes, or the state is full.
    """
    n = state.count[0]
    edges = count_edges(state)
    if edges == 0:
        return -1, -1, 0.0, -np.inf
    left = int(rng.random() * edges)
    k = 0
    while left >= state.n_children[k]:
        left -= state.n_children[k]
        k += 1
    i = 0
    while left > 0 or state.parents[k, i] == 0:
        left -= state.parents[k, i]
        i += 1
    low, high = state.reputations[i], state.reputations[k]
    mass = base_mass(prior, low, high)
    if mass <= 0.0 or n == state.order.size:
        return k, i, low, -np.inf
    theta = draw_base(rng, prior, low, high)
    if not low < theta < high:  # rounding between neighbouring numbers
        return k, i, theta, -np.inf
    below = 0
    for x in range(n):
        children[x] = x == i
        below += state.reputations[x] < theta
    r = node_factor(prior, False, below, 1) + insertion_log_ratio(state, prior, theta, -1)
    h = apply_split(state, k, i, theta, children)
    links = _count_links(state)
    apply_merge(state, h)
    return k, i, theta, r + math.log(edges * mass / links)


@kernel
def apply_split(state, k, i, theta, children):
    """Replace edge k -> i by a path through a new node, whose slot is returned; ``children`` marks i alone."""
    set_edge(state, k, i, 0)
    h = insert_node(state, theta, children)
    set_edge(state, k, h, 1)
    return h


@kernel
def propose_merge(rng, state, prior):
    """A hidden node on a path k -> h -> i to be replaced by the edge k -> i.

    Returns
    -------
    h : int
        -1 if there is none.
    log_ratio : float
    """
    links = 0
    chosen = -1
    for h in range(state.fixed.size, state.count[0]):
        if is_link(state, h):
            links += 1
            if rng.random() * links < 1.0:
                chosen = h
    if chosen < 0:
        return chosen, -np.inf
    k, i = _only_parent(state, chosen), _only_child(state, chosen)
    mass = base_mass(prior, state.reputations[i], state.reputations[k])
    r = node_factor(prior, False, state.n_below[chosen], 1)
    r += insertion_log_ratio(state, prior, state.reputations[chosen], chosen)
    return chosen, math.log(links / ((count_edges(state) - 1.0) * mass)) - r


@kernel
def apply_merge(state, h):
    """Join parent and child of h, and delete h; the last slot moves into its place."""
    k, i = _only_parent(state, h), _only_child(state, h)
    set_edge(state, k, i, 1)
    delete_node(state, h)


@kernel
def propose_swap(rng, state, prior):
    """Two neighbours in the order, which exchange reputations; an edge between them turns round.

    Returns
    -------
    low, high : int
        The lower and the upper node.
    log_ratio : float
        -inf if one is fixed, a reputation is shared, or a hidden node would lose its only child.
    """
    n = state.count[0]
    if n < 2:
        return 0, 0, -np.inf
    j = int(rng.random() * (n - 1))
    low, high = state.order[j], state.order[j + 1]
    n_observed = state.fixed.size
    for x in (low, high):
        if x < n_observed and state.fixed[x]:
            return low, high, -np.inf
    for place in (j - 1, j, j + 1):
        if 0 <= place < n - 1:
            if state.reputations[state.order[place]] == state.reputations[state.order[place + 1]]:
                return low, high, -np.inf
    joined = np.int64(state.parents[high, low])
    below = state.n_below[low]
    m_low, m_high = state.n_children[low], state.n_children[high]
    if high >= n_observed and m_high == joined:
        return low, high, -np.inf
    after = node_factor(prior, low < n_observed, below + 1, m_low + joined)
    after += node_factor(prior, high < n_observed, below, m_high - joined)
    before = node_factor(prior, low < n_observed, below, m_low)
    before += node_factor(prior, high < n_observed, below + 1, m_high)
    return low, high, after - before


@kernel
def apply_swap(state, low, high):
    """Exchange the reputations of two neighbours in the order, turning an edge between them round."""
    if state.parents[high, low]:
        set_edge(state, high, low, 0)
        set_edge(state, low, high, 1)
    theta = state.reputations[low]
    place_node(state, low, state.reputations[high])
    place_node(state, high, theta)
