"""Draws of a node's reputation given the graph; no likelihood depends on it."""

import math

import numpy as np

from pymc_spn.indian_chefs.graph_state import highest_child, lowest_parent, place_node
from pymc_spn.indian_chefs.prior_density import log_density
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@inner_kernel
def _log_exp_integral(slope, length):
    """Log of the integral of exp(slope t) over [0, length], for a slope that is not negative."""
    x = slope * length
    if x < 1e-8:
        return math.log(length) + 0.5 * x
    return math.log(length) + x + math.log(-math.expm1(-x) / x)


@inner_kernel
def _add(log_weight, log_total):
    """Log of a sum of exponentials."""
    if log_weight == -np.inf:
        return log_total
    top = max(log_weight, log_total)
    return top + math.log(math.exp(log_weight - top) + math.exp(log_total - top))


@kernel
def draw_reputation(rng, state, prior, i):
    """Exact draw of one reputation from its full conditional, put into the state.

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
        own = math.lgamma(alpha + below - m) - math.lgamma(alpha + shift + below)
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
        below += 1
        j += 1
    if low < chosen < high:  # rounding may reach a neighbour
        place_node(state, i, chosen)
    return True


@inner_kernel
def _passed(state, prior, i, x):
    """What node x adds to the log density while node i is below it; 0 for node i itself."""
    if x == i:
        return 0.0
    below = state.n_below[x]
    if state.reputations[i] < state.reputations[x]:
        below -= 1
    shift = prior.phi if x < state.fixed.size else 0.0
    return math.log((prior.alpha + below - state.n_children[x]) / (prior.alpha + below + shift))


@kernel
def propose_reputation(rng, state, prior, i):
    """The published move (equation 16): uniform between the highest child and the lowest parent.

    Uniform base measure only.

    Returns
    -------
    theta : float
    log_ratio : float
        -inf if the node does not move.
    """
    old = state.reputations[i]
    if i < state.fixed.size and state.fixed[i]:
        return old, -np.inf
    low, high = max(highest_child(state, i), 0.0), min(lowest_parent(state, i), 1.0)
    theta = low + rng.random() * (high - low)
    before = log_density(state, prior)
    place_node(state, i, theta)
    after = log_density(state, prior)
    place_node(state, i, old)
    return theta, after - before
