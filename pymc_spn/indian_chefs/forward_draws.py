"""Exact draws of the Indian chefs process, by sweeping the reputations from 0 to 1.

With N nodes at or below t, a hidden node appears at rate alpha gamma (digamma(alpha + N) - digamma(alpha)). The process
is a pure birth process in t, so nothing is truncated and nothing is queued.
"""

import numpy as np

from pymc_spn.indian_chefs.graph_moves import count_below, count_up_to, draw_children
from pymc_spn.indian_chefs.graph_state import insert_node, refresh, set_edge
from pymc_spn.indian_chefs.prior_density import digamma_gap, draw_base
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@kernel
def draw_graph(rng, state, prior, children):
    """Overwrite the state by a draw; observed nodes that are fixed keep their reputations.

    Parameters
    ----------
    rng : Generator
    state : GraphState
    prior : GraphPrior
    children : (K,) uint8
        Scratch.

    Returns
    -------
    bool
        False if the draw has more nodes than the state has room for; the state is then unfinished.
    """
    n_observed = state.fixed.size
    for k in range(state.count[0]):
        for i in range(state.count[0]):
            state.parents[k, i] = 0
    state.count[0] = n_observed
    for i in range(n_observed):
        if not state.fixed[i]:
            state.reputations[i] = draw_base(rng, prior, -1.0, 2.0)
    refresh(state)
    at = 0.0
    atom = 0
    rate = prior.alpha * prior.gamma
    while True:
        event = 1.0
        for i in range(n_observed):
            if at <= state.reputations[i]:
                event = min(event, state.reputations[i])
        if atom < prior.levels.size:
            event = min(event, prior.levels[atom])
        while prior.uniform > 0.0:
            gap = digamma_gap(count_up_to(state, at), prior.alpha)
            if gap == 0.0:
                break
            theta = at + rng.standard_exponential() / (rate * prior.uniform * gap)
            if theta >= event:
                break
            if state.count[0] == state.order.size:
                return False
            at = max(theta, np.nextafter(at, 2.0))
            _add_hidden(rng, state, prior, at, children)
        for i in range(n_observed):
            if state.reputations[i] == event:
                _join(rng, state, prior, i)
        if atom < prior.levels.size and prior.levels[atom] == event:
            mean = rate * prior.masses[atom] * digamma_gap(count_below(state, event), prior.alpha)
            new = rng.poisson(mean) if mean > 0.0 else 0
            if new > state.order.size - state.count[0]:
                return False
            for _ in range(new):
                _add_hidden(rng, state, prior, event, children)
            atom += 1
        if event >= 1.0:
            return True
        at = np.nextafter(event, 2.0)


@inner_kernel
def _add_hidden(rng, state, prior, theta, children):
    draw_children(rng, state, theta, count_below(state, theta), prior.alpha, children)
    insert_node(state, theta, children)


@inner_kernel
def _join(rng, state, prior, i):
    """Children of an observed node: each node below with a chance of their own from Beta(phi, alpha), as an urn."""
    seen = taken = 0
    for x in range(state.count[0]):
        if state.reputations[x] < state.reputations[i]:
            if rng.random() * (prior.alpha + prior.phi + seen) < prior.phi + taken:
                set_edge(state, i, x, 1)
                taken += 1
            seen += 1


@kernel
def depth(state, longest):
    """Number of edges of the longest path; ``longest`` (K,) int64 gets the longest path from each node downwards."""
    out = 0
    for j in range(state.count[0]):
        k = state.order[j]
        longest[k] = 0
        for i in range(state.count[0]):
            if state.parents[k, i]:
                longest[k] = max(longest[k], longest[i] + 1)
        out = max(out, longest[k])
    return out
