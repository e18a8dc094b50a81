"""Birth and death of hidden nodes without parents.

Each move stands in two parts, so that a likelihood can be put between them. A ``propose`` function returns the change,
and the log of the acceptance ratio that the prior and the proposal give. The second part is the change itself
(`graph_state.insert_node`, `graph_state.delete_node`). Birth and death must be proposed equally often.
"""

import math

import numpy as np

from pymc_spn.indian_chefs.graph_state import is_orphan
from pymc_spn.indian_chefs.prior_density import digamma_gap, draw_base, insertion_log_ratio, node_factor
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@inner_kernel
def draw_child_count(rng, n, alpha):
    """Number of children of a new hidden node above n nodes: P(m) prop. to C(n,m) G(m) G(alpha+n-m) / G(alpha+n)."""
    p = n / ((alpha + n - 1) * digamma_gap(n, alpha))
    u = rng.random()
    m = 1
    while m < n and u >= p:
        u -= p
        p *= (n - m) * m / ((m + 1) * (alpha + n - m - 1))
        m += 1
    return m


@inner_kernel
def draw_children(rng, state, theta, n, alpha, children):
    """Mark the children of a new hidden node above n nodes."""
    left, wanted = n, draw_child_count(rng, n, alpha)
    for i in range(state.count[0]):
        children[i] = 0
        if state.reputations[i] < theta:
            if rng.random() * left < wanted:
                children[i] = 1
                wanted -= 1
            left -= 1


@inner_kernel
def count_below(state, theta):
    """Number of nodes with a reputation strictly below."""
    out = 0
    for i in range(state.count[0]):
        out += state.reputations[i] < theta
    return out


@kernel
def propose_orphan(rng, state, prior, children):
    """A hidden node without parents, with children from their prior.

    Parameters
    ----------
    rng : Generator
    state : GraphState
    prior : GraphPrior
    children : (K,) uint8
        Out: 1 for the children.

    Returns
    -------
    theta : float
    log_ratio : float
        -inf if nothing is below theta or the state is full.
    """
    theta = draw_base(rng, prior, -1.0, 2.0)
    n = count_below(state, theta)
    if n == 0 or state.count[0] == state.order.size:
        return theta, -np.inf
    draw_children(rng, state, theta, n, prior.alpha, children)
    orphans = 1
    for i in range(state.count[0]):
        orphans += is_orphan(state, i) and not children[i]
    return theta, orphan_log_gain(state, prior, theta, n, -1) - math.log(orphans)


@kernel
def orphan_log_gain(state, prior, theta, n, without):
    """Log of the densities' ratio with and without an orphan at ``theta``, over its proposal; the children cancel."""
    rate = prior.alpha * prior.gamma * digamma_gap(n, prior.alpha)
    return math.log(rate) + insertion_log_ratio(state, prior, theta, without)


@kernel
def propose_orphan_death(rng, state, prior):
    """A hidden orphan to delete.

    Returns
    -------
    k : int
        -1 if there is none.
    log_ratio : float
    """
    orphans = 0
    chosen = -1
    for k in range(state.count[0]):
        if is_orphan(state, k):
            orphans += 1
            if rng.random() * orphans < 1.0:
                chosen = k
    if chosen < 0:
        return chosen, -np.inf
    gain = orphan_log_gain(state, prior, state.reputations[chosen], state.n_below[chosen], chosen)
    return chosen, math.log(orphans) - gain


@inner_kernel
def _is_singleton_orphan_parent(state, k, i):
    return state.parents[k, i] == 1 and is_orphan(state, k) and state.n_children[k] == 1


@kernel
def propose_singleton(rng, state, prior, children):
    """The published birth (equation 14): a parent of one node, in an interval drawn uniformly from those above it.

    Its acceptance ratio in terms of the density with respect to Lebesgue measure. Uniform base measure only.

    Returns
    -------
    theta : float
    log_ratio : float
        -inf in an interval without length, or if the state is full.
    """
    n = state.count[0]
    i = int(rng.random() * n)
    above = 0
    for x in range(n):
        above += state.reputations[x] > state.reputations[i]
    j = int(rng.random() * (above + 1))
    low = state.reputations[i] if j == 0 else state.reputations[state.order[n - above + j - 1]]
    high = 1.0 if j == above else state.reputations[state.order[n - above + j]]
    theta = low + rng.random() * (high - low)
    if n == state.order.size or theta <= low or theta >= high:
        return theta, -np.inf
    after = 1
    for k in range(n):
        children[k] = k == i
        after += _is_singleton_orphan_parent(state, k, i)
    r = node_factor(prior, False, count_below(state, theta), 1) + insertion_log_ratio(state, prior, theta, -1)
    return theta, r + math.log((high - low) * (above + 1) * n / ((n + 1.0) * after))


@kernel
def propose_singleton_death(rng, state, prior):
    """The published death (equation 15): a hidden orphan whose only child is a node drawn uniformly.

    Returns
    -------
    k : int
        -1 if there is none.
    log_ratio : float
    """
    n = state.count[0]
    i = int(rng.random() * n)
    chosen = -1
    before = 0
    for k in range(n):
        if _is_singleton_orphan_parent(state, k, i):
            before += 1
            if rng.random() * before < 1.0:
                chosen = k
    if chosen < 0:
        return chosen, -np.inf
    theta = state.reputations[chosen]
    above = 0
    low, high = 0.0, 1.0
    for x in range(n):
        above += state.reputations[x] > state.reputations[i]
        if x != chosen:
            if state.reputations[x] <= theta:
                low = max(low, state.reputations[x])
            if state.reputations[x] >= theta:
                high = min(high, state.reputations[x])
    r = node_factor(prior, False, state.n_below[chosen], 1) + insertion_log_ratio(state, prior, theta, chosen)
    return chosen, math.log(before * np.float64(n) / ((high - low) * (n - 1.0) * above)) - r
