"""Moves of the graph given activations and precisions, with all weights and biases summed out.

They see the data through the Gram matrix. A new node's activations come from their prior given its parents. Its own
bias and weights are drawn and forgotten, which in effect sums them out. So only the regressions of its children enter a
ratio. After these moves all weights and biases must be drawn again.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.indian_chefs.graph_state import delete_node, insert_node, set_edge
from pymc_spn.indian_chefs.network_births import Newborn, empty_newborn
from pymc_spn.indian_chefs.orphan_moves import propose_orphan, propose_orphan_death
from pymc_spn.indian_chefs.prior_density import edge_log_odds
from pymc_spn.indian_chefs.regression_kernels import (
    Gram,
    RegressionWork,
    draw_precision,
    empty_gram,
    log_evidence,
    regression_work,
    regressors,
)
from pymc_spn.indian_chefs.split_moves import apply_merge, apply_split, apply_swap, propose_merge, propose_split
from pymc_spn.indian_chefs.split_moves import propose_swap as propose_neighbours
from pymc_spn.indian_chefs.sweeps import random_order
from pymc_spn.numerics.elementary import fast_exp
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


class GraphMoveWork(NamedTuple):
    """Gram matrix and scratch space of the moves on the graph.

    Parameters
    ----------
    gram : Gram
    regression : RegressionWork
    newborn : Newborn
    children, parents : (K,) uint8
    """

    gram: Gram
    regression: RegressionWork
    newborn: Newborn
    children: np.ndarray
    parents: np.ndarray


def graph_move_work(n_slots: int, n_data: int) -> GraphMoveWork:
    """Buffers."""
    marks = np.zeros((2, n_slots), np.uint8)
    return GraphMoveWork(empty_gram(n_slots), regression_work(n_slots), empty_newborn(n_slots, n_data), *marks)


@inner_kernel
def node_evidence(n_nodes, node, network, heat, prior, work):
    """Log evidence of one node's regression as its parents are now; on the prior alone where there are no data."""
    p = regressors(network.parents, n_nodes, node, work.regression.chosen)
    return log_evidence(
        work.gram,
        node,
        work.regression.chosen,
        p,
        network.precisions[node],
        heat[node],
        prior,
        work.regression.factor,
        work.regression.half,
    )


@kernel
def draw_collapsed_edges(rng, state, graph_prior, network, heat, prior, work):
    """Gibbs draws of all edges given activations and precisions, in random order; returns the number that changed."""
    changed = 0
    for i in random_order(rng, state.count[0]):
        changed += draw_collapsed_parents(rng, i, state, graph_prior, network, heat, prior, work)
    return changed


@inner_kernel
def draw_collapsed_parents(rng, i, state, graph_prior, network, heat, prior, work):
    """Gibbs draws of the edges to node i, its weights summed out; returns the number that changed."""
    n = state.count[0]
    changed = 0
    current = node_evidence(n, i, network, heat, prior, work)
    for k in random_order(rng, n):
        odds = edge_log_odds(state, graph_prior, k, i)
        if math.isinf(odds):
            continue
        before = state.parents[k, i]
        set_edge(state, k, i, 1 - before)
        other = node_evidence(n, i, network, heat, prior, work)
        # of the other value against the current one
        log_ratio = other - current + (odds if before == 0 else -odds)
        if rng.random() < 1.0 / (1.0 + math.exp(-min(max(log_ratio, -700.0), 700.0))):
            current = other
            changed += 1
        else:
            set_edge(state, k, i, before)
    return changed


@kernel
def add_to_gram(n_nodes, network, heat, gram):
    """Sums of products of slot `n_nodes` with itself and all before it; its rows are in the network already."""
    slot = n_nodes
    a, u = network.activations[slot], network.outputs[slot]
    n = a.size
    gram.counts[slot] = heat[slot] * n
    sum_of_outputs = 0.0
    sum_of_activations = 0.0
    square = 0.0
    for j in range(n):
        sum_of_outputs += u[j]
        sum_of_activations += a[j]
        square += a[j] * a[j]
    gram.outputs[0, 1 + slot] = sum_of_outputs
    gram.outputs[1 + slot, 0] = sum_of_outputs
    gram.crosses[0, slot] = sum_of_activations
    gram.squares[slot] = square
    for i in range(n_nodes + 1):
        b, v = network.activations[i], network.outputs[i]
        inner = 0.0
        own = 0.0
        theirs = 0.0
        for j in range(n):
            inner += u[j] * v[j]
            own += u[j] * b[j]
            theirs += v[j] * a[j]
        gram.outputs[1 + slot, 1 + i] = inner
        gram.outputs[1 + i, 1 + slot] = inner
        gram.crosses[1 + slot, i] = own
        gram.crosses[1 + i, slot] = theirs


@kernel
def move_slot(n_nodes, source, target, network, gram):
    """Copy all of one slot but its edges to another, in network and Gram matrix."""
    if source == target:
        return
    network.precisions[target] = network.precisions[source]
    network.biases[target] = network.biases[source]
    network.activations[target] = network.activations[source]
    network.outputs[target] = network.outputs[source]
    gram.counts[target] = gram.counts[source]
    gram.squares[target] = gram.squares[source]
    for i in range(n_nodes + 1):
        gram.outputs[1 + target, i] = gram.outputs[1 + source, i]
        gram.crosses[i, target] = gram.crosses[i, source]
    for i in range(n_nodes + 1):
        gram.outputs[i, 1 + target] = gram.outputs[i, 1 + source]
    for i in range(n_nodes):
        gram.crosses[1 + target, i] = gram.crosses[1 + source, i]


@inner_kernel
def _draw_unit(rng, slot, parent, network, prior):
    """Precision and activations of a unit with at most one parent (-1: none) from the prior."""
    rho = draw_precision(rng, 0.0, 0.0, prior)
    network.precisions[slot] = rho
    bias = rng.standard_normal() / math.sqrt(prior.bias_precision)
    weight = rng.standard_normal() / math.sqrt(prior.weight_precision)
    deviation = 1.0 / math.sqrt(rho)
    a, u = network.activations[slot], network.outputs[slot]
    for j in range(a.size):
        a[j] = bias + deviation * rng.standard_normal()
    if parent >= 0:
        v = network.outputs[parent]
        for j in range(a.size):
            a[j] += weight * v[j]
    for j in range(a.size):
        u[j] = 1.0 / (1.0 + fast_exp(min(-a[j], 700.0)))


@inner_kernel
def sum_of_evidences(n_nodes, nodes, network, heat, prior, work):
    """Log evidences of all marked nodes."""
    out = 0.0
    for i in range(n_nodes):
        if nodes[i]:
            out += node_evidence(n_nodes, i, network, heat, prior, work)
    return out


@inner_kernel
def collapsed_birth_or_death(rng, is_growth, state, graph_prior, network, heat, prior, work):
    """A unit without parents is born or dies; 1 for an accepted birth, -1 for a death, 0 otherwise."""
    if is_growth:
        theta, log_ratio = propose_orphan(rng, state, graph_prior, work.children)
        return collapsed_birth(rng, theta, log_ratio, state, network, heat, prior, work)
    unit, log_ratio = propose_orphan_death(rng, state, graph_prior)
    return collapsed_death(rng, unit, log_ratio, state, network, heat, prior, work)


@inner_kernel
def collapsed_birth(rng, theta, log_ratio, state, network, heat, prior, work):
    """A proposed unit without parents, its children in ``work.children``, is born (1) or not (0).

    ``log_ratio`` is that of the graph's densities and proposals, -inf where nothing was proposed.
    """
    if log_ratio == -np.inf:
        return 0
    n, children = state.count[0], work.children
    _draw_unit(rng, n, -1, network, prior)
    add_to_gram(n, network, heat, work.gram)
    log_ratio -= sum_of_evidences(n, children, network, heat, prior, work)
    slot = insert_node(state, theta, children)
    children[slot] = 0
    log_ratio += sum_of_evidences(n + 1, children, network, heat, prior, work)
    if log_ratio > -rng.standard_exponential():
        return 1
    delete_node(state, slot)
    return 0


@inner_kernel
def collapsed_death(rng, unit, log_ratio, state, network, heat, prior, work):
    """A proposed unit (-1: none) dies (-1) or not (0); ``log_ratio`` as in `collapsed_birth`."""
    if unit < 0:
        return 0
    n, children = state.count[0], work.children
    for i in range(n):
        children[i] = state.parents[unit, i]
    log_ratio -= sum_of_evidences(n, children, network, heat, prior, work)
    for i in range(n):
        network.parents[unit, i] = 0  # for the evidences alone
    log_ratio += sum_of_evidences(n, children, network, heat, prior, work)
    for i in range(n):
        network.parents[unit, i] = children[i]
    if log_ratio > -rng.standard_exponential():
        delete_node(state, unit)
        move_slot(n, n - 1, unit, network, work.gram)
        return -1
    return 0


@inner_kernel
def collapsed_split_or_merge(rng, is_growth, state, graph_prior, network, heat, prior, work):
    """An edge k -> i becomes a path k -> h -> i or the reverse; 1 for a split, -1 for a merge, 0 if refused."""
    n = state.count[0]
    if is_growth:
        k, i, theta, log_ratio = propose_split(rng, state, graph_prior, work.children)
        if log_ratio == -np.inf:
            return 0
        for x in range(n):
            work.children[x] = x == i
        log_ratio -= node_evidence(n, i, network, heat, prior, work)
        _draw_unit(rng, n, k, network, prior)
        add_to_gram(n, network, heat, work.gram)
        h = apply_split(state, k, i, theta, work.children)
        log_ratio += node_evidence(n + 1, i, network, heat, prior, work)
        if log_ratio > -rng.standard_exponential():
            return 1
        apply_merge(state, h)
        return 0
    h, log_ratio = propose_merge(rng, state, graph_prior)
    if h < 0:
        return 0
    k = i = 0
    for x in range(n):
        if state.parents[x, h]:
            k = x
        if state.parents[h, x]:
            i = x
    log_ratio -= node_evidence(n, i, network, heat, prior, work)
    network.parents[h, i], network.parents[k, i] = 0, 1  # for the evidence alone
    log_ratio += node_evidence(n, i, network, heat, prior, work)
    network.parents[h, i], network.parents[k, i] = 1, 0
    if log_ratio > -rng.standard_exponential():
        apply_merge(state, h)
        move_slot(n, n - 1, h, network, work.gram)
        return -1
    return 0


@inner_kernel
def collapsed_swap(rng, state, graph_prior, network, heat, prior, work):
    """Two neighbours in the order exchange reputations, and an edge between them turns round; 1 if accepted."""
    n = state.count[0]
    low, high, log_ratio = propose_neighbours(rng, state, graph_prior)
    if log_ratio == -np.inf:
        return 0
    if state.parents[high, low]:
        log_ratio -= node_evidence(n, low, network, heat, prior, work)
        log_ratio -= node_evidence(n, high, network, heat, prior, work)
        network.parents[high, low], network.parents[low, high] = 0, 1
        log_ratio += node_evidence(n, low, network, heat, prior, work)
        log_ratio += node_evidence(n, high, network, heat, prior, work)
        network.parents[high, low], network.parents[low, high] = 1, 0
    if log_ratio > -rng.standard_exponential():
        apply_swap(state, low, high)
        return 1
    return 0
