"""Graphs of a chain under the cascading Indian buffets: layers, log density, and proposals of births and deaths.

The layer of a hidden unit is one more than the highest layer among its children, so a graph has its layers in itself.
Reputations hold no more than layer / (1 + layer), for the order of ancestral passes. Units are told apart by marks that
are uniform and independent of all else. So layer l + 1 given layer l is a Poisson process of marked dishes, and the
density of the set of marked units,

    log p = sum over layers l >= 1 of  -mass_l sum_{n < N_{l-1}} beta_l / (beta_l + n)
          + sum over hidden units of   log(mass_l beta_l) + log B(m, T - m + beta_l),

m children among the T units that the unit's urn has seen (the layer below; all layers below, in the extended prior),
has no factorials of equal units. The first sum ends with the empty layer on top.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.indian_chefs.graph_state import GraphState, delete_node, insert_node, is_orphan, refresh, set_edge
from pymc_spn.indian_chefs.orphan_moves import draw_child_count
from pymc_spn.indian_chefs.packed_graphs import unpack_graph
from pymc_spn.numerics.elementary import digamma
from pymc_spn.numerics.kernel_options import inner_kernel, kernel
from pymc_spn.numerics.read_only_views import read_only_view


class CascadePrior(NamedTuple):
    """Hyperparameters of the layers, from the first hidden one up; the last goes on above.

    Parameters
    ----------
    masses, concentrations : (L,) float64
    passes_layers : int
        1 where edges may pass layers.
    """

    masses: np.ndarray
    concentrations: np.ndarray
    passes_layers: int


def cascade_prior(prior: Any) -> CascadePrior:
    """The kernels' form of a `CascadingIBP` or `ExtendedCascadingIBP`."""
    room = max(len(prior.mass), len(prior.concentration))

    def longest(values):
        return np.array([values[min(j, len(values) - 1)] for j in range(room)])

    return make_cascade(longest(prior.mass), longest(prior.concentration), prior.passes_layers)


def make_cascade(masses: Any, concentrations: Any, passes_layers: bool) -> CascadePrior:
    """`CascadePrior` of as many masses as concentrations."""
    a, b = (read_only_view(np.array(values, np.float64)) for values in (masses, concentrations))
    return CascadePrior(a, b, int(passes_layers))


@kernel
def fill_layers(state, prior, layers):
    """Layers of all units, (>= n,) int64; False for a graph that the prior cannot make.

    Such a graph has a cycle, an observed parent or a hidden unit without a child. Where edges stay between neighbouring
    layers, it may also have a unit with children in two layers. Reputations are not looked at.
    """
    n, n_observed = state.count[0], state.fixed.size
    for k in range(n):
        layers[k] = 0
        if (k < n_observed) != (state.n_children[k] == 0):
            return False
    for _ in range(n):
        changed = False
        for k in range(n_observed, n):
            top = 0
            for i in range(n):
                if state.parents[k, i]:
                    top = max(top, layers[i] + 1)
            if top != layers[k]:
                layers[k] = top
                changed = True
        if not changed:
            break
    else:
        return False
    if prior.passes_layers == 0:
        for k in range(n_observed, n):
            for i in range(n):
                if state.parents[k, i] and layers[i] != layers[k] - 1:
                    return False
    return True


@kernel
def put_layers(state, layers):
    """Write layers as reputations, and ranks and order with them."""
    for k in range(state.count[0]):
        state.reputations[k] = layers[k] / (1.0 + layers[k])
    refresh(state)


@inner_kernel
def _log_beta(a, b):
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


@inner_kernel
def _of_layer(prior, layer):
    j = min(layer, prior.masses.size) - 1
    return prior.masses[j], prior.concentrations[j]


@inner_kernel
def dish_rate(beta, customers):
    """sum_{n < N} 1 / (beta + n): the expected new dishes over mass times beta."""
    out = 0.0
    for j in range(customers):
        out += 1.0 / (beta + j)
    return out


@inner_kernel
def _count_layer(state, layers, layer, without):
    out = 0
    for k in range(state.count[0]):
        out += layers[k] == layer and k != without
    return out


@inner_kernel
def top_layer(state, layers, without):
    """The highest layer that has a unit."""
    top = 0
    for k in range(state.count[0]):
        if k != without:
            top = max(top, layers[k])
    return top


@kernel
def cascade_log_density(state, prior, layers, without):
    """Log density of a graph in nats, as a set of marked units (see the module); its layers are current.

    Parameters
    ----------
    without : int
        A unit without parents that is taken not to be there, or -1.
    """
    out = 0.0
    seen = 0
    for layer in range(1, top_layer(state, layers, without) + 2):
        mass, beta = _of_layer(prior, layer)
        below = _count_layer(state, layers, layer - 1, without)
        seen = seen + below if prior.passes_layers else below
        out -= mass * beta * dish_rate(beta, below)
        for k in range(state.fixed.size, state.count[0]):
            if layers[k] == layer and k != without:
                m = state.n_children[k]
                out += math.log(mass * beta) + _log_beta(m, seen - m + beta)
    return out


@kernel
def layered_log_density(state, prior):
    """`cascade_log_density` of a whole graph, -inf for one that the prior cannot make."""
    layers = np.zeros(state.order.size, np.int64)
    if not fill_layers(state, prior, layers):
        return -np.inf
    return cascade_log_density(state, prior, layers, -1)


@kernel
def dish_exposure(state, prior):
    """Sum over layers of beta_l sum_n 1 / (beta_l + n): what one mass of all layers multiplies in the exponent."""
    layers = np.zeros(state.order.size, np.int64)
    fill_layers(state, prior, layers)
    out = 0.0
    for layer in range(1, top_layer(state, layers, -1) + 2):
        _, beta = _of_layer(prior, layer)
        out += beta * dish_rate(beta, _count_layer(state, layers, layer - 1, -1))
    return out


@inner_kernel
def _fill_gradient(state, prior, layers, gradient):
    """Derivatives of the log density by the masses (row 0) and concentrations (row 1) of all layers."""
    gradient[:] = 0.0
    seen = 0
    for layer in range(1, top_layer(state, layers, -1) + 2):
        mass, beta = _of_layer(prior, layer)
        j = min(layer, prior.masses.size) - 1
        below = _count_layer(state, layers, layer - 1, -1)
        seen = seen + below if prior.passes_layers else below
        rate = dish_rate(beta, below)
        slope = 0.0
        for n in range(below):
            slope -= 1.0 / (beta + n) ** 2
        gradient[0, j] -= beta * rate
        gradient[1, j] -= mass * (rate + beta * slope)
        for k in range(state.fixed.size, state.count[0]):
            if layers[k] == layer:
                gradient[0, j] += 1.0 / mass
                gradient[1, j] += 1.0 / beta + digamma(seen - state.n_children[k] + beta) - digamma(seen + beta)


@kernel
def packed_cascade_log_density(packed, n_observed, masses, concentrations, passes_layers, room, gradient):
    """Log probability of a packed graph as a list of units, and its derivatives by the hyperparameters of the layers.

    It is `cascade_log_density`, except that the units of a layer stand in a uniformly random order. -inf for vectors
    that are no canonical graph of layers and for hyperparameters that are not positive; the law of the number of units
    is not cut at the room.

    Parameters
    ----------
    packed : (1 + K + K W,) float64
    n_observed : int
    masses, concentrations : (L,) float64
    passes_layers : int
    room : int
    gradient : (2, L) float64
        Out.
    """
    gradient[:] = 0.0
    for j in range(masses.size):
        if not (masses[j] > 0.0 and concentrations[j] > 0.0):
            return -np.inf
    numbers = np.zeros((4, room), np.int64)
    parents = np.zeros((room, room), np.uint8)
    fixed = np.ones(n_observed, np.uint8)
    count = np.array([n_observed])
    state = GraphState(parents, np.zeros(room), numbers[0], numbers[1], numbers[2], numbers[3], count, fixed)
    if not unpack_graph(packed, state):
        return -np.inf
    prior = CascadePrior(read_only_view(masses), read_only_view(concentrations), passes_layers)
    layers = np.zeros(room, np.int64)
    if not fill_layers(state, prior, layers):
        return -np.inf
    for k in range(state.count[0]):
        if state.reputations[k] != layers[k] / (1.0 + layers[k]):
            return -np.inf
    out = cascade_log_density(state, prior, layers, -1)
    _fill_gradient(state, prior, layers, gradient)
    for layer in range(1, top_layer(state, layers, -1) + 1):
        out -= math.lgamma(1.0 + _count_layer(state, layers, layer, -1))
    return out


@kernel
def draw_layered_edge(rng, state, prior, layers, k, i):
    """Gibbs draw of one edge from the prior; returns whether it changed. Reputations follow the layers.

    Parameters
    ----------
    layers : (K,) int64
        Scratch.
    """
    fill_layers(state, prior, layers)
    log_prior = cascade_log_density(state, prior, layers, -1)
    before = state.parents[k, i]
    set_edge(state, k, i, 1 - before)
    if fill_layers(state, prior, layers):
        log_odds = cascade_log_density(state, prior, layers, -1) - log_prior
        if rng.random() < 1.0 / (1.0 + math.exp(-min(max(log_odds, -700.0), 700.0))):
            put_layers(state, layers)
            return True
    set_edge(state, k, i, before)
    return False


@inner_kernel
def _count_orphans(state):
    out = 0
    for k in range(state.count[0]):
        out += is_orphan(state, k)
    return out


@inner_kernel
def _draw_dish(rng, state, prior, layers, base, children):
    """Children of a new unit of layer base + 1, from the prior; their number and that of the units seen."""
    customers = _count_layer(state, layers, base, -1)
    _, beta = _of_layer(prior, base + 1)
    wanted = m = draw_child_count(rng, customers, beta)  # a buffet's new dish has the law of a new chef
    seen = customers
    left = customers
    for i in range(state.count[0]):
        children[i] = 0
        if layers[i] == base:
            if rng.random() * left < wanted:
                children[i] = 1
                wanted -= 1
            left -= 1
    if prior.passes_layers:
        for layer in range(base - 1, -1, -1):
            for i in range(state.count[0]):
                if layers[i] == layer:
                    if rng.random() * (beta + seen) < m:
                        children[i] = 1
                        m += 1
                    seen += 1
    return m, seen


@inner_kernel
def _log_proposal(state, prior, layers, base, m, seen, without):
    """Log probability of the layer below and the children of a new unit."""
    _, beta = _of_layer(prior, base + 1)
    rate = dish_rate(beta, _count_layer(state, layers, base, without))
    return _log_beta(m, seen - m + beta) - math.log(rate * (top_layer(state, layers, without) + 1.0))


@kernel
def propose_dish(rng, state, prior, layers, children):
    """A hidden unit without parents above a layer drawn uniformly, with children from the prior.

    Parameters
    ----------
    rng : Generator
    state : GraphState
    prior : CascadePrior
    layers : (K,) int64
        Out: current.
    children : (K,) uint8
        Out: 1 for the children.

    Returns
    -------
    theta : float
        The layer as a reputation.
    log_ratio : float
        Densities and proposals, birth over death; -inf if the state is full.
    """
    if state.count[0] == state.order.size:
        return 0.0, -np.inf
    fill_layers(state, prior, layers)
    base = int(rng.random() * (top_layer(state, layers, -1) + 1))
    m, seen = _draw_dish(rng, state, prior, layers, base, children)
    log_ratio = -cascade_log_density(state, prior, layers, -1)
    log_ratio -= _log_proposal(state, prior, layers, base, m, seen, -1)
    theta = (base + 1.0) / (base + 2.0)
    slot = insert_node(state, theta, children)
    layers[slot] = base + 1
    log_ratio += cascade_log_density(state, prior, layers, -1) - math.log(_count_orphans(state))
    delete_node(state, slot)
    return theta, log_ratio


@kernel
def propose_dish_death(rng, state, prior, layers):
    """A hidden unit without parents to delete.

    Returns
    -------
    k : int
        -1 if there is none.
    log_ratio : float
        Death over birth.
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
    fill_layers(state, prior, layers)
    base = layers[chosen] - 1
    seen = 0
    for i in range(state.count[0]):
        seen += layers[i] <= base if prior.passes_layers else layers[i] == base
    gain = cascade_log_density(state, prior, layers, -1) - cascade_log_density(state, prior, layers, chosen)
    gain -= _log_proposal(state, prior, layers, base, state.n_children[chosen], seen, chosen)
    return chosen, math.log(orphans) - gain
