"""A graph as one vector of fixed length, which PyMC carries and a DataTree stores.

The vector holds the number of nodes, the reputations (K,), and for each node the set of its parents as bits. The bits
stand in W = ceil(K / 52) numbers, which float64 holds exactly. This makes 1 + K + K W numbers. It is canonical:
observed nodes in their order, then hidden nodes by ascending reputation, zeros behind.
"""

import numpy as np

from pymc_spn.indian_chefs.graph_state import GraphState, empty_state, refresh
from pymc_spn.indian_chefs.prior_density import GraphPrior, log_density, log_density_gradient, log_ties
from pymc_spn.numerics.kernel_options import kernel
from pymc_spn.numerics.read_only_views import read_only_view

BITS = 52  # of a float64's mantissa


def packed_length(max_nodes: int) -> int:
    """Length of the vector."""
    return 1 + max_nodes * (1 + -(-max_nodes // BITS))


def room_of(length: int) -> int:
    """Largest number of nodes in a vector of this length."""
    room = 1
    while packed_length(room) < length:
        room += 1
    if packed_length(room) != length:
        raise ValueError(f"a vector of {length} numbers is not a packed graph")
    return room


@kernel
def pack(state, out):
    """Write a graph into a packed vector; its nodes stand as in `canonical_slots`."""
    room, n, n_observed = state.order.size, state.count[0], state.fixed.size
    words = -(-room // BITS)
    place = np.empty(n, np.int64)
    for i in range(n_observed):
        place[i] = i
    rank = n_observed
    for j in range(n):
        if state.order[j] >= n_observed:
            place[state.order[j]] = rank
            rank += 1
    out[:] = 0.0
    out[0] = n
    for i in range(n):
        out[1 + place[i]] = state.reputations[i]
        for k in range(n):
            if state.parents[k, i]:
                out[1 + room + place[i] * words + place[k] // BITS] += 2.0 ** (place[k] % BITS)


def canonical_slots(state: GraphState) -> np.ndarray:
    """(n,) slots in the order of the packed vector: observed nodes, then hidden ones as in the state's order.

    That order alone says how hidden nodes of one reputation stand: a deletion moves the last slot elsewhere.
    """
    order = state.order[: state.count[0]]
    return np.concatenate([np.arange(state.fixed.size), order[order >= state.fixed.size]])


@kernel
def unpack_graph(packed, state):
    """Read a packed vector into a state with the same room and observed nodes.

    Returns
    -------
    bool
        False if the vector is not canonical, or a fixed reputation is another than the state's; the state is then
        unfinished.
    """
    room, n_observed = state.order.size, state.fixed.size
    words = -(-room // BITS)
    if not n_observed <= packed[0] <= room or packed[0] != np.floor(packed[0]):
        return False
    n = int(packed[0])
    for i in range(room):
        theta = packed[1 + i]
        if not 0.0 <= theta <= 1.0 or (i >= n and theta != 0.0):
            return False
        if i < n_observed and state.fixed[i] and theta != state.reputations[i]:
            return False
        if n_observed < i < n and theta < packed[i]:
            return False
    state.count[0] = n
    state.parents[:] = 0
    for i in range(room):
        state.reputations[i] = packed[1 + i]
        for w in range(words):
            code = packed[1 + room + i * words + w]
            if not 0.0 <= code < 2.0**BITS or code != np.floor(code):
                return False
            bits = np.int64(code)
            for b in range(BITS):
                if bits >> b & 1:
                    k = w * BITS + b
                    if i >= n or k >= n:
                        return False
                    state.parents[k, i] = 1
    refresh(state)
    return True


@kernel
def unpack_parts(packed, room):
    """Number of nodes, reputations (K,) and parents (K, K) int8 of a packed vector, which is not checked."""
    words = -(-room // BITS)
    parents = np.zeros((room, room), np.int8)
    for i in range(room):
        for k in range(room):
            code = np.int64(packed[1 + room + i * words + k // BITS])
            parents[k, i] = code >> (k % BITS) & 1
    return int(packed[0]), packed[1 : 1 + room].copy(), parents


@kernel
def packed_log_density(packed, reputations, alpha, gamma, phi, uniform, levels, masses, room, gradient):
    """Log density of a packed graph as a list of nodes, and its derivatives by alpha, gamma, phi.

    It is `log_density`, except that hidden nodes which share an atom of the base measure stand in a uniformly random
    order. -inf for vectors that are no canonical graph and for hyperparameters that are not positive; the law of the
    number of nodes is not cut at the room.

    Parameters
    ----------
    packed : (1 + K + K W,) float64
    reputations : (D,) float64
        Of the observed nodes, NaN where free.
    gradient : (3,) float64
        Out.
    """
    gradient[:] = 0.0
    if not (alpha > 0.0 and gamma > 0.0 and phi > 0.0):  # two negative ones would give a number
        return -np.inf
    n_observed = reputations.size
    fixed = np.zeros(n_observed, np.uint8)
    state = empty_state(room, fixed)
    for i in range(n_observed):
        fixed[i] = not np.isnan(reputations[i])
        state.reputations[i] = reputations[i] if fixed[i] else 0.0
    if not unpack_graph(packed, state):
        return -np.inf
    prior = GraphPrior(alpha, gamma, phi, uniform, read_only_view(levels), read_only_view(masses))
    out = log_density(state, prior)
    if out > -np.inf:
        log_density_gradient(state, prior, gradient)
        out -= log_ties(state, prior)
    return out


@kernel
def row_of_ticket(ticket, table):
    """Row of a table (R, 1 + P) of packed graphs that begins with a ticket, -1 if there is none."""
    for r in range(table.shape[0]):
        if table[r, 0] == ticket:
            return r
    return -1


def unpack_arrays(packed: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Many packed vectors at once, unchecked.

    Parameters
    ----------
    packed : (..., 1 + K + K W) float64

    Returns
    -------
    counts : (...) int64
    reputations : (..., K) float64
        NaN where there is no node.
    parents : (..., K, K) bool
    """
    counts = packed[..., 0].astype(np.int64)
    theta = np.where(np.arange(room) < counts[..., None], packed[..., 1 : 1 + room], np.nan)
    words = packed[..., 1 + room :].reshape(*counts.shape, room, -1).astype(np.int64)  # child, word
    slots = np.arange(room)
    return counts, theta, np.moveaxis(words[..., slots // BITS] >> slots % BITS & 1, -1, -2).astype(bool)


def pack_arrays(counts: np.ndarray, reputations: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """(..., 1 + K + K W) packed vectors: the inverse of `unpack_arrays`."""
    room = reputations.shape[-1]
    n_words = -(-room // BITS)
    slots = np.arange(room)
    words = np.zeros((*counts.shape, room, n_words))
    for w in range(n_words):
        here = slots // BITS == w
        words[..., w] = np.moveaxis(parents[..., here, :], -2, -1) @ 2.0 ** (slots[here] % BITS)
    flat = words.reshape(*counts.shape, -1)
    return np.concatenate([counts[..., None].astype(np.float64), np.nan_to_num(reputations), flat], axis=-1)
