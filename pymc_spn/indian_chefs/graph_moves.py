"""Moves of a graph: each proposes a change of the state, and one frame accepts it or undoes it.

A move changes the state and returns the log ratio of its proposals, reverse over forward. `propose` adds the log ratio
of the prior densities; what else has a density puts its own between it and `accept_or_undo`. Births and deaths have one
scheme. A kind of them says how a new node is drawn, the log density of that draw, and which nodes a death may take.

Passes over the nodes must not go by slots. A new node takes the last slot and a deleted one is replaced by it. So slots
tell something of the graph, and Gibbs draws in an order that depends on the graph change its distribution.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.indian_chefs.graph_state import (
    GraphState,
    copy_state,
    count_edges,
    delete_node,
    empty_state,
    highest_child,
    insert_node,
    lowest_parent,
    place_node,
    set_edge,
)
from pymc_spn.indian_chefs.prior_density import (
    base_mass,
    digamma_gap,
    draw_base,
    edge_odds,
    log_density_ratio,
)
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel, inner_kernel, kernel

ORPHANS, ROOTED, SPLITS, SINGLETONS, SWAPS, RELOCATIONS = range(6)  # births and deaths stand before the others
MOVE_NAMES = ("orphans", "rooted", "splits", "singletons", "swaps", "relocations")
OWN_MOVES = (ORPHANS, SPLITS, SWAPS)  # of a sweep over the graph, beside Gibbs draws
PUBLISHED_MOVES = (SINGLETONS, RELOCATIONS)  # equations 14 and 15, and 16; for the uniform base measure alone
TRIED, ACCEPTED, REFUSED = range(3)  # columns of a tally; a birth is refused where the state is full


class MoveWork(NamedTuple):
    """Scratch space of the moves.

    Parameters
    ----------
    held : GraphState
        The graph before the move.
    children, parents : (K,) uint8
        Of a node that is born or dies.
    """

    held: GraphState
    children: np.ndarray
    parents: np.ndarray


@kernel
def move_work(state):
    """Buffers for the graphs of a state."""
    k = state.order.size
    return MoveWork(empty_state(k, state.fixed), np.zeros(k, np.uint8), np.zeros(k, np.uint8))


def new_tally(n_others: int = 0) -> np.ndarray:
    """(2 M + n_others, 3) int64: tried, accepted, refused; for move m row 2 m has births, row 2 m + 1 all others."""
    return np.zeros((2 * len(MOVE_NAMES) + n_others, 3), np.int64)


def counts_of_moves(tally: np.ndarray) -> np.ndarray:
    """(M, 3) how often each move was tried, accepted and refused."""
    return tally[: 2 * len(MOVE_NAMES)].reshape(-1, 2, 3).sum(1)


def births_of(tally: np.ndarray) -> np.ndarray:
    """(3,) births and splits that were tried, accepted and refused."""
    return tally[: 2 * SWAPS : 2].sum(0)


@kernel
def random_order(rng, n):
    """A uniformly random order of n nodes."""
    order = np.arange(n)
    for last in range(n - 1, 0, -1):
        j = int(rng.random() * (last + 1))
        order[last], order[j] = order[j], order[last]
    return order


@bare_kernel
def propose(rng, move, state, prior, work, tally):
    """Change the state by a move.

    Parameters
    ----------
    rng : Generator
    move : int
    state : GraphState
        In and out. Whatever comes of it, `accept_or_undo` must follow.
    prior : GraphPrior
    work : MoveWork
    tally : (>= 2 M, 3) int64

    Returns
    -------
    log_ratio : float
        Of prior densities and proposals, -inf where nothing was proposed.
    unit : int
        Slot of a new node, or the slot that a deleted one had; the last slot has moved into it.
    row : int
        Of the tally.
    """
    copy_state(state, work.held)
    n = state.count[0]
    is_birth = move < SWAPS and rng.random() < 0.5
    unit, row = n, 2 * move + 1
    if move == SWAPS:
        log_ratio = _swap(rng, state)
    elif move == RELOCATIONS:
        log_ratio = _relocate(rng, state)
    elif is_birth:
        row -= 1
        tally[row, REFUSED] += n == state.order.size
        log_ratio = _give_birth(rng, move, state, prior, work)
    else:
        log_ratio, unit = _let_die(rng, move, state, prior, work)
    tally[row, TRIED] += 1
    if log_ratio > -np.inf:
        log_ratio += log_density_ratio(state, work.held, unit if state.count[0] < n else -1, prior)
    return log_ratio, unit, row


@bare_kernel
def accept_or_undo(rng, log_ratio, row, state, work, tally):
    """The Metropolis-Hastings decision on the change that `propose` made; returns whether it was accepted."""
    if log_ratio > -rng.standard_exponential():
        tally[row, ACCEPTED] += 1
        return True
    copy_state(work.held, state)
    return False


# ---- births and deaths


@bare_called_kernel
def _give_birth(rng, move, state, prior, work):
    n, children, parents = state.count[0], work.children, work.parents
    if n == state.order.size:
        return -np.inf
    theta = _draw_node(rng, move, state, prior, children, parents)
    if theta < 0.0:
        return -np.inf
    log_birth = _log_draw(move, state, prior, theta, children, parents)
    child = _first(children)
    if move == SPLITS:
        set_edge(state, _first(parents), child, 0)
    insert_node(state, theta, children)
    for k in range(n):
        if parents[k]:
            set_edge(state, k, n, 1)
    return -log_birth - math.log(_pick(rng, move, state, child)[1])


@bare_called_kernel
def _let_die(rng, move, state, prior, work):
    n, children, parents = state.count[0], work.children, work.parents
    h, choices = _pick(rng, move, state, int(rng.random() * n))
    if h < 0:
        return -np.inf, h
    theta = state.reputations[h]
    for x in range(n):
        children[x] = state.parents[h, x]
        parents[x] = state.parents[x, h]
    delete_node(state, h)
    children[h], parents[h] = children[n - 1], parents[n - 1]
    children[n - 1] = parents[n - 1] = 0
    if move == SPLITS:
        set_edge(state, _first(parents), _first(children), 1)
    return math.log(choices) + _log_draw(move, state, prior, theta, children, parents), h


@bare_called_kernel
def _first(marks):
    for x in range(marks.size):
        if marks[x]:
            return x
    return -1


@bare_called_kernel
def _pick(rng, move, state, child):
    """A node that a death may take, -1 without any; and over how many choices the draw was uniform.

    Singletons are parents of `child` alone, which was drawn from all nodes.
    """
    n = state.count[0]
    chosen, choices = -1, 0
    for h in range(state.fixed.size, n):
        if _may_die(move, state, h, child):
            choices += 1
            if rng.random() * choices < 1.0:
                chosen = h
    return chosen, choices * n if move == SINGLETONS else choices


@bare_called_kernel
def _may_die(move, state, h, child):
    """Whether a death may take hidden node h."""
    if move == ORPHANS:
        return state.n_parents[h] == 0
    if move == SINGLETONS:
        return state.n_parents[h] == 0 and state.n_children[h] == 1 and state.parents[h, child] == 1
    if move == SPLITS:  # one parent and one child that are not joined to each other
        if state.n_parents[h] != 1 or state.n_children[h] != 1:
            return False
        k = i = 0
        while not state.parents[k, h]:
            k += 1
        while not state.parents[h, i]:
            i += 1
        return state.parents[k, i] == 0
    for k in range(state.fixed.size, state.count[0]):
        if state.parents[k, h] and state.n_children[k] == 1:  # its hidden parent would be left without a child
            return False
    return True


@bare_called_kernel
def _draw_node(rng, move, state, prior, children, parents):
    """Reputation of a new node, with its children and parents marked; -1 where none can be made.

    * orphans have no parents, and children from their prior;
    * rooted nodes also have parents by the process's conditional distribution of a new column;
    * splits replace an edge by a path through the node;
    * singletons, the published birth (equation 14), are parents of one node, in an interval drawn uniformly from those
      above it.
    """
    n = state.count[0]
    children[:] = 0
    parents[:] = 0
    if move == SPLITS:
        left = int(rng.random() * count_edges(state))
        k = i = 0
        while k < n and left >= state.n_children[k]:
            left -= state.n_children[k]
            k += 1
        if k == n:
            return -1.0
        while left > 0 or state.parents[k, i] == 0:
            left -= state.parents[k, i]
            i += 1
        children[i] = parents[k] = 1
        low, high = state.reputations[i], state.reputations[k]
        if base_mass(prior, low, high) <= 0.0:
            return -1.0
        theta = draw_base(rng, prior, low, high)
        return theta if low < theta < high else -1.0  # rounding between neighbouring numbers
    if move == SINGLETONS:
        i = int(rng.random() * n)
        children[i] = 1
        below = count_up_to(state, state.reputations[i])
        j = below + int(rng.random() * (n - below + 1))
        low = state.reputations[i] if j == below else state.reputations[state.order[j - 1]]
        high = 1.0 if j == n else state.reputations[state.order[j]]
        theta = low + rng.random() * (high - low)
        return theta if low < theta < high else -1.0
    theta = draw_base(rng, prior, -1.0, 2.0)
    below = count_below(state, theta)
    if below == 0:
        return -1.0
    draw_children(rng, state, theta, below, prior.alpha, children)
    if move == ROOTED:
        for k in range(n):
            if state.reputations[k] > theta:
                parents[k] = rng.random() < _chance_of_child(state, prior, k)
    return theta


@bare_called_kernel
def _log_draw(move, state, prior, theta, children, parents):
    """Log density with which `_draw_node` draws this node, over that of its prior; the state is without it.

    That prior has the node's own factor, for m children and a nodes below G(m) G(alpha + a - m) / G(alpha + a), and the
    base density. Draws of children and reputations from their prior cancel.
    """
    n, below = state.count[0], count_below(state, theta)
    if move == SPLITS:
        low, high = state.reputations[_first(children)], state.reputations[_first(parents)]
        return math.log((prior.alpha + below - 1.0) / (count_edges(state) * base_mass(prior, low, high)))
    if move == SINGLETONS:
        low, high = 0.0, 1.0
        for x in range(n):
            if state.reputations[x] <= theta:
                low = max(low, state.reputations[x])
            else:
                high = min(high, state.reputations[x])
        above = n - count_up_to(state, state.reputations[_first(children)])
        return math.log((prior.alpha + below - 1.0) / ((high - low) * (above + 1.0) * n))
    out = -math.log(digamma_gap(below, prior.alpha))
    if move == ROOTED:
        for k in range(n):
            if state.reputations[k] > theta:
                p = _chance_of_child(state, prior, k)
                out += math.log(p if parents[k] else 1.0 - p)
    return out


@bare_called_kernel
def _chance_of_child(state, prior, k):
    """Probability that a new node below node k is its child."""
    shift = prior.phi if k < state.fixed.size else 0.0
    return (state.n_children[k] + shift) / (prior.alpha + state.n_below[k] + shift)


@bare_called_kernel
def draw_children(rng, state, theta, n, alpha, children):
    """Mark the children of a new hidden node above n nodes.

    Their number has P(m) prop. to C(n, m) G(m) G(alpha + n - m) / G(alpha + n).
    """
    p = n / ((alpha + n - 1) * digamma_gap(n, alpha))
    u = rng.random()
    m = 1
    while m < n and u >= p:
        u -= p
        p *= (n - m) * m / ((m + 1) * (alpha + n - m - 1))
        m += 1
    left = n
    for i in range(state.count[0]):
        children[i] = 0
        if state.reputations[i] < theta:
            if rng.random() * left < m:
                children[i] = 1
                m -= 1
            left -= 1


@bare_called_kernel
def count_below(state, theta):
    """Number of nodes with a reputation strictly below."""
    out = 0
    for i in range(state.count[0]):
        out += state.reputations[i] < theta
    return out


@bare_called_kernel
def count_up_to(state, theta):
    """Number of nodes at or below a reputation."""
    out = 0
    for i in range(state.count[0]):
        out += state.reputations[i] <= theta
    return out


# ---- changes of reputations


@bare_called_kernel
def _swap(rng, state):
    """Two neighbours in the order exchange reputations; an edge between them turns round."""
    n = state.count[0]
    if n < 2:
        return -np.inf
    j = int(rng.random() * (n - 1))
    low, high = state.order[j], state.order[j + 1]
    if (low < state.fixed.size and state.fixed[low]) or (high < state.fixed.size and state.fixed[high]):
        return -np.inf
    for place in range(max(j - 1, 0), min(j + 2, n - 1)):  # a reputation that is shared stays
        if state.reputations[state.order[place]] == state.reputations[state.order[place + 1]]:
            return -np.inf
    if state.parents[high, low]:
        set_edge(state, high, low, 0)
        set_edge(state, low, high, 1)
    theta = state.reputations[low]
    place_node(state, low, state.reputations[high])
    place_node(state, high, theta)
    return 0.0


@bare_called_kernel
def _relocate(rng, state):
    """The published move (equation 16): a reputation uniform between the highest child and the lowest parent."""
    i = int(rng.random() * state.count[0])
    if i < state.fixed.size and state.fixed[i]:
        return -np.inf
    low, high = max(highest_child(state, i), 0.0), min(lowest_parent(state, i), 1.0)
    place_node(state, i, low + rng.random() * (high - low))
    return 0.0


# ---- Gibbs draws from the prior


@bare_called_kernel
def draw_parents(rng, state, prior, i):
    """Gibbs draws of the edges to node i, which are independent given the rest."""
    for k in range(state.count[0]):
        odds = edge_odds(state, prior, k, i)
        if 0.0 < odds < np.inf:
            set_edge(state, k, i, rng.random() * (1.0 + odds) < odds)


@inner_kernel
def draw_edges(rng, state, prior):
    """Gibbs draws of all edges."""
    for i in random_order(rng, state.count[0]):
        draw_parents(rng, state, prior, i)


@kernel
def draw_reputations(rng, state, prior):
    """Gibbs draws of all reputations that move."""
    for i in random_order(rng, state.count[0]):
        draw_reputation(rng, state, prior, i)


@bare_called_kernel
def _log_exp_integral(slope, length):
    """Log of the integral of exp(slope t) over [0, length], for a slope that is not negative."""
    x = slope * length
    if x < 1e-8:
        return math.log(length) + 0.5 * x
    return math.log(length) + x + math.log(-math.expm1(-x) / x)


@bare_called_kernel
def _add(log_weight, log_total):
    """Log of a sum of exponentials."""
    if log_weight == -np.inf:
        return log_total
    top = max(log_weight, log_total)
    return top + math.log(math.exp(log_weight - top) + math.exp(log_total - top))


@bare_kernel
def draw_reputation(rng, state, prior, i):
    """Exact draw of one reputation from its full conditional, put into the state; no likelihood depends on it.

    Between the other nodes the log density is linear in it, with slope alpha gamma / (alpha + n) times the uniform mass
    of the base measure, n the nodes below. Pieces and atoms are weighed against each other as they are met, from the
    highest child to the lowest parent.

    Returns
    -------
    bool
        Whether the node is one that moves.
    """
    n_observed, n = state.fixed.size, state.count[0]
    if i < n_observed and state.fixed[i]:
        return False
    low, high = highest_child(state, i), lowest_parent(state, i)
    bottom, top = max(low, 0.0), min(high, 1.0)
    alpha, m = prior.alpha, state.n_children[i]
    shift = prior.phi if i < n_observed else 0.0
    rate = alpha * prior.gamma
    atom = 0
    while atom < prior.levels.size and prior.levels[atom] <= low:
        atom += 1
    below = 0  # other nodes at or below the current point
    first = 0
    while first < n and state.reputations[state.order[first]] <= low:
        below += state.order[first] != i
        first += 1
    log_total = -np.inf
    chosen = state.reputations[i]
    level = 0.0  # log density at the current point, up to a constant, apart from the node's own factor
    own = math.lgamma(alpha + below - m) - math.lgamma(alpha + shift + below)  # that factor
    at = bottom
    j = first
    while True:
        while j < n and state.order[j] == i:
            j += 1
        until = state.reputations[state.order[j]] if j < n else top
        is_atom = atom < prior.levels.size and prior.levels[atom] <= min(until, top) and prior.levels[atom] < high
        if is_atom:
            until = prior.levels[atom]
        until = min(until, top)
        slope = rate * prior.uniform / (alpha + below)
        length = until - at
        if length > 0.0 and prior.uniform > 0.0:
            log_weight = level + own + math.log(prior.uniform) + _log_exp_integral(slope, length)
            log_total = _add(log_weight, log_total)
            if rng.random() < math.exp(log_weight - log_total):
                u = rng.random()
                x = slope * length
                # inverse distribution function, counted from the upper end
                back = u * length if x < 1e-8 else -math.log1p(u * math.expm1(-x)) / slope
                chosen = min(max(until - back, at), until)
        level += slope * length
        at = until
        if is_atom:
            log_weight = level + own + math.log(prior.masses[atom])
            tied = j
            while tied < n and state.reputations[state.order[tied]] == at:
                log_weight -= _passed(state, prior, i, state.order[tied])  # a node of the same level is not above
                tied += 1
            # a node at the atom is not below it, and does not make new nodes there more frequent
            level += rate * prior.masses[atom] / (alpha + below)
            log_weight += rate * prior.masses[atom] / (alpha + below)
            log_total = _add(log_weight, log_total)
            if rng.random() < math.exp(log_weight - log_total):
                chosen = at
            atom += 1
            continue
        if j >= n or state.reputations[state.order[j]] >= high or at >= top:
            break
        level -= _passed(state, prior, i, state.order[j])
        own += math.log((alpha + below - m) / (alpha + shift + below))
        below += 1
        j += 1
    if low < chosen < high:  # rounding may reach a neighbour
        place_node(state, i, chosen)
    return True


@bare_called_kernel
def _passed(state, prior, i, x):
    """What node x adds to the log density while node i is below it; 0 for node i itself."""
    if x == i:
        return 0.0
    below = state.n_below[x]
    if state.reputations[i] < state.reputations[x]:
        below -= 1
    shift = prior.phi if x < state.fixed.size else 0.0
    return math.log((prior.alpha + below - state.n_children[x]) / (prior.alpha + below + shift))


# ---- sweeps


@bare_called_kernel
def _make(rng, move, state, prior, work, tally):
    log_ratio, _, row = propose(rng, move, state, prior, work, tally)
    accept_or_undo(rng, log_ratio, row, state, work, tally)


@kernel
def prior_sweep(rng, state, prior, repeats, tally):
    """Gibbs draws of edges and reputations of every node, then ``repeats`` of each of `OWN_MOVES`."""
    work = move_work(state)
    draw_edges(rng, state, prior)
    draw_reputations(rng, state, prior)
    for _ in range(repeats):
        for move in OWN_MOVES:
            _make(rng, move, state, prior, work, tally)


@kernel
def published_sweep(rng, state, prior, repeats, tally):
    """The published moves, each ``repeats`` times at a node drawn uniformly: equations 13, 14 or 15, and 16."""
    work = move_work(state)
    for _ in range(repeats):
        draw_parents(rng, state, prior, int(rng.random() * state.count[0]))
        for move in PUBLISHED_MOVES:
            _make(rng, move, state, prior, work, tally)
