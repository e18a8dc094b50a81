"""Birth and death of hidden units that may have parents, with the weights and biases of their children summed out.

A new unit takes its children as an orphan does. It takes each node above it as a parent with that node's own
probability of one more child, (m + phi) / (alpha + a + phi) with phi for observed nodes alone. This is the process's
conditional distribution of the new column, so the parents cancel in the ratio. Its activations are drawn from their
prior given the parents.
"""

import math

import numpy as np

from pymc_spn.indian_chefs.collapsed_moves import add_to_gram, collapsed_death, sum_of_evidences
from pymc_spn.indian_chefs.graph_state import delete_node, insert_node, set_edge
from pymc_spn.indian_chefs.orphan_moves import count_below, draw_children, orphan_log_gain
from pymc_spn.indian_chefs.prior_density import draw_base
from pymc_spn.indian_chefs.regression_kernels import draw_precision
from pymc_spn.numerics.elementary import fast_exp
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@kernel
def is_removable(state, h):
    """Whether node h is hidden and no hidden parent of it would be left without a child."""
    if h < state.fixed.size:
        return False
    for k in range(state.fixed.size, state.count[0]):
        if state.parents[k, h] and state.n_children[k] == 1:
            return False
    return True


@inner_kernel
def count_removable(state):
    """Number of hidden units that a death may take."""
    out = 0
    for h in range(state.fixed.size, state.count[0]):
        out += is_removable(state, h)
    return out


@inner_kernel
def _log_gain(state, prior, theta, n, without):
    """Log of the densities' ratio with and without a node at ``theta`` over the probability of its edges.

    A node `without` is left out; it must have no parents.
    """
    out = orphan_log_gain(state, prior, theta, n, without)
    for x in range(state.count[0]):
        if x != without and state.reputations[x] > theta:
            below = state.n_below[x]
            if without >= 0 and state.reputations[without] < state.reputations[x]:
                below -= 1
            shift = prior.phi if x < state.fixed.size else 0.0
            # an orphan is refused by every node above; here that is the proposal's business
            out -= math.log((prior.alpha + below - state.n_children[x]) / (prior.alpha + below + shift))
    return out


@kernel
def propose_rooted(rng, state, prior, children, parents):
    """A hidden node with parents and children from their law given the rest of the graph.

    Parameters
    ----------
    rng : Generator
    state : GraphState
    prior : GraphPrior
    children, parents : (K,) uint8
        Out: 1 for the children; 1 for the parents.

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
    for k in range(state.count[0]):
        parents[k] = 0
        if state.reputations[k] > theta:
            shift = prior.phi if k < state.fixed.size else 0.0
            total = prior.alpha + state.n_below[k] + shift
            parents[k] = rng.random() * total < state.n_children[k] + shift
    log_ratio = _log_gain(state, prior, theta, n, -1)
    h = insert_rooted(state, theta, children, parents)
    log_ratio -= math.log(count_removable(state))
    delete_node(state, h)
    return theta, log_ratio


@kernel
def insert_rooted(state, theta, children, parents):
    """Put a node with parents and children into the last slot, which is returned."""
    n = state.count[0]
    h = insert_node(state, theta, children)
    for k in range(n):
        if parents[k]:
            set_edge(state, k, h, 1)
    return h


@kernel
def propose_rooted_death(rng, state, prior, parents):
    """A hidden node to delete, uniformly among those that may go.

    Returns
    -------
    h : int
        -1 if there is none.
    log_ratio : float
    """
    removable = 0
    chosen = -1
    for h in range(state.fixed.size, state.count[0]):
        if is_removable(state, h):
            removable += 1
            if rng.random() * removable < 1.0:
                chosen = h
    if chosen < 0:
        return chosen, -np.inf
    for k in range(state.count[0]):
        parents[k] = state.parents[k, chosen]
        if parents[k]:
            set_edge(state, k, chosen, 0)
    gain = _log_gain(state, prior, state.reputations[chosen], state.n_below[chosen], chosen)
    for k in range(state.count[0]):
        if parents[k]:
            set_edge(state, k, chosen, 1)
    return chosen, math.log(removable) - gain


@inner_kernel
def _draw_rooted_unit(rng, slot, parents, network, prior):
    """Precision and activations of a unit from their prior given its parents; bias and weights are forgotten."""
    network.precisions[slot] = draw_precision(rng, 0.0, 0.0, prior)
    deviation = 1.0 / math.sqrt(network.precisions[slot])
    bias = rng.standard_normal() / math.sqrt(prior.bias_precision)
    a, u = network.activations[slot], network.outputs[slot]
    for j in range(a.size):
        a[j] = bias + deviation * rng.standard_normal()
    for k in range(slot):
        if parents[k]:
            weight = rng.standard_normal() / math.sqrt(prior.weight_precision)
            v = network.outputs[k]
            for j in range(a.size):
                a[j] += weight * v[j]
    for j in range(a.size):
        u[j] = 1.0 / (1.0 + fast_exp(min(-a[j], 700.0)))


@inner_kernel
def rooted_birth_or_death(rng, is_growth, state, graph_prior, network, heat, prior, work):
    """A unit with any parents is born or dies; 1 for an accepted birth, -1 for a death, 0 otherwise."""
    n = state.count[0]
    children, parents = work.children, work.parents
    if is_growth:
        theta, log_ratio = propose_rooted(rng, state, graph_prior, children, parents)
        if log_ratio == -np.inf:
            return 0
        _draw_rooted_unit(rng, n, parents, network, prior)
        add_to_gram(n, network, heat, work.gram)
        log_ratio -= sum_of_evidences(n, children, network, heat, prior, work)
        slot = insert_rooted(state, theta, children, parents)
        children[slot] = 0
        log_ratio += sum_of_evidences(n + 1, children, network, heat, prior, work)
        if log_ratio > -rng.standard_exponential():
            return 1
        delete_node(state, slot)
        return 0
    unit, log_ratio = propose_rooted_death(rng, state, graph_prior, parents)
    return collapsed_death(rng, unit, log_ratio, state, network, heat, prior, work)
