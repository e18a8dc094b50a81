"""The graph that a chain holds: a directed acyclic graph of unknown size over nodes with reputations, on flat arrays.

Slots 0..D-1 are the observed nodes, slots D..n-1 the hidden ones in no order; what is deleted is filled by the last
slot. A node may be a parent only of nodes with a strictly lower reputation.
"""

from typing import NamedTuple

import numpy as np

from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel, kernel


class GraphState(NamedTuple):
    """A graph with room for K nodes; all arrays are changed in place.

    Parameters
    ----------
    parents : (K, K) uint8
        1 at [k, i] where node k is a parent of node i.
    reputations : (K,) float64
        In [0, 1].
    n_children, n_parents : (K,) int64
        Degrees.
    n_below : (K,) int64
        Nodes with a strictly lower reputation.
    order : (K,) int64
        The slots by ascending reputation.
    count : (1,) int64
        Number n of nodes, observed and hidden. Entries of other arrays beyond n have no meaning, but edges there
        are 0.
    fixed : (D,) uint8
        1 where the reputation of an observed node never moves.
    """

    parents: np.ndarray
    reputations: np.ndarray
    n_children: np.ndarray
    n_parents: np.ndarray
    n_below: np.ndarray
    order: np.ndarray
    count: np.ndarray  # type: ignore[assignment]  # tuple.count is not needed
    fixed: np.ndarray


@kernel
def empty_state(room, fixed):
    """A graph without nodes, with room for so many; `GraphState` describes ``fixed``."""
    numbers = np.zeros((4, room), np.int64)
    return GraphState(
        np.zeros((room, room), np.uint8),
        np.zeros(room),
        numbers[0],
        numbers[1],
        numbers[2],
        numbers[3],
        np.zeros(1, np.int64),
        fixed,
    )


def new_state(reputations: np.ndarray, fixed: np.ndarray, max_nodes: int) -> GraphState:
    """A graph of the observed nodes alone, without edges.

    Parameters
    ----------
    reputations : (D,) float64
    fixed : (D,) bool
    max_nodes : int
    """
    state = empty_state(max_nodes, np.array(fixed, np.uint8))
    state.count[0] = len(reputations)
    state.reputations[: len(reputations)] = reputations
    refresh(state)
    return state


def put_graph(state: GraphState, parents: np.ndarray, reputations: np.ndarray) -> None:
    """Overwrite a state by a graph of parents (n, n) and reputations (n,)."""
    n = len(parents)
    state.parents[:] = 0
    state.parents[:n, :n] = parents
    state.reputations[:n] = reputations
    state.count[0] = n
    refresh(state)


@bare_kernel
def refresh(state):
    """Degrees, ranks and order from edges and reputations."""
    n = state.count[0]
    for i in range(n):
        state.n_children[i] = 0
        state.n_parents[i] = 0
        state.n_below[i] = 0
        for k in range(n):
            state.n_children[i] += state.parents[i, k]
            state.n_parents[i] += state.parents[k, i]
            state.n_below[i] += state.reputations[k] < state.reputations[i]
        place = i
        while place > 0 and state.reputations[state.order[place - 1]] > state.reputations[i]:
            state.order[place] = state.order[place - 1]
            place -= 1
        state.order[place] = i


@bare_kernel
def copy_state(source, target):
    """Overwrite one graph by another with the same room."""
    n = source.count[0]
    for k in range(max(n, target.count[0])):  # beyond, both have no edges
        target.reputations[k] = source.reputations[k]
        target.n_children[k] = source.n_children[k]
        target.n_parents[k] = source.n_parents[k]
        target.n_below[k] = source.n_below[k]
        target.order[k] = source.order[k]
        for i in range(max(n, target.count[0])):
            target.parents[k, i] = source.parents[k, i]
    target.count[0] = n


@bare_called_kernel
def _enter(state, i, n):
    """Put node i into an order of n other nodes, and count it among the nodes below those above it."""
    theta = state.reputations[i]
    place = n
    below = n
    while place > 0 and state.reputations[state.order[place - 1]] > theta:
        x = state.order[place - 1]
        state.order[place] = x
        state.n_below[x] += 1
        place -= 1
        below -= 1
    while below > 0 and state.reputations[state.order[below - 1]] == theta:
        below -= 1
    state.order[place] = i
    state.n_below[i] = below


@bare_called_kernel
def _leave(state, i, n):
    """Take node i out of an order of n nodes, and from the nodes below those above it."""
    place = 0
    while state.order[place] != i:
        place += 1
    for j in range(place, n - 1):
        x = state.order[j + 1]
        state.order[j] = x
        if state.reputations[x] > state.reputations[i]:
            state.n_below[x] -= 1


@bare_kernel
def set_edge(state, k, i, value):
    """Make node k a parent of node i (1) or not (0)."""
    change = np.int64(value) - np.int64(state.parents[k, i])
    state.parents[k, i] = value
    state.n_children[k] += change
    state.n_parents[i] += change


@bare_kernel
def place_node(state, i, theta):
    """Give node i another reputation; edges are not looked at."""
    n = state.count[0]
    _leave(state, i, n)
    state.reputations[i] = theta
    _enter(state, i, n - 1)


@bare_kernel
def insert_node(state, theta, children):
    """A new hidden node without parents, in the next free slot, which must exist.

    Parameters
    ----------
    state : GraphState
    theta : float
    children : (K,) uint8
        1 for its children.

    Returns
    -------
    int
        Its slot.
    """
    k = state.count[0]
    state.reputations[k] = theta
    state.n_children[k] = 0
    state.n_parents[k] = 0
    for i in range(k):
        state.parents[i, k] = 0
        state.parents[k, i] = children[i]
        state.n_children[k] += children[i]
        state.n_parents[i] += children[i]
    state.parents[k, k] = 0
    _enter(state, k, k)
    state.count[0] = k + 1
    return k


@bare_kernel
def delete_node(state, k):
    """Delete hidden node k with its edges; the node of the last slot moves into its place."""
    n = state.count[0]
    last = n - 1
    for i in range(n):
        state.n_parents[i] -= state.parents[k, i]
        state.n_children[i] -= state.parents[i, k]
    _leave(state, k, n)
    if k != last:
        for i in range(n):
            state.parents[k, i] = state.parents[last, i]
        for i in range(n):
            state.parents[i, k] = state.parents[i, last]
        state.parents[k, k] = 0
        state.reputations[k] = state.reputations[last]
        state.n_children[k] = state.n_children[last]
        state.n_parents[k] = state.n_parents[last]
        state.n_below[k] = state.n_below[last]
        for j in range(last):
            if state.order[j] == last:
                state.order[j] = k
    for i in range(n):
        state.parents[last, i] = 0
        state.parents[i, last] = 0
    state.count[0] = last


@bare_kernel
def is_admissible(state):
    """Whether every edge goes from a higher to a lower reputation and every hidden node has a child."""
    n = state.count[0]
    for k in range(n):
        if k >= state.fixed.size and state.n_children[k] == 0:
            return False
        for i in range(n):
            if state.parents[k, i] and state.reputations[k] <= state.reputations[i]:
                return False
    return True


@bare_called_kernel
def highest_child(state, i):
    """Largest reputation of a child of node i, -1 without children."""
    out = -1.0
    for x in range(state.count[0]):
        if state.parents[i, x]:
            out = max(out, state.reputations[x])
    return out


@bare_called_kernel
def lowest_parent(state, i):
    """Smallest reputation of a parent of node i, 2 without parents."""
    out = 2.0
    for x in range(state.count[0]):
        if state.parents[x, i]:
            out = min(out, state.reputations[x])
    return out


@bare_kernel
def count_edges(state):
    """Number of edges."""
    out = 0
    for k in range(state.count[0]):
        out += state.n_children[k]
    return out
