"""One sweep over graph, parameters and hidden activations of a nonlinear Gaussian belief network."""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.indian_chefs.activation_kernels import (
    ActivationWork,
    activation_work,
    fill_residuals,
    redraw_unit,
    walk_unit,
)
from pymc_spn.indian_chefs.collapsed_moves import (
    GraphMoveWork,
    collapsed_birth_or_death,
    collapsed_split_or_merge,
    collapsed_swap,
    draw_collapsed_edges,
    draw_collapsed_parents,
    graph_move_work,
)
from pymc_spn.indian_chefs.duplicate_moves import twin_birth_or_death
from pymc_spn.indian_chefs.graph_state import delete_node, insert_node, place_node
from pymc_spn.indian_chefs.network_births import (
    describe_unit,
    draw_newborn,
    draw_prior_activations,
    guided_birth,
    guided_death,
    insert_unit,
    keep_children,
    log_likelihood_change,
    remove_unit,
)
from pymc_spn.indian_chefs.orphan_moves import (
    propose_orphan,
    propose_orphan_death,
    propose_singleton,
    propose_singleton_death,
)
from pymc_spn.indian_chefs.pool_kernels import (
    HiddenDraws,
    empty_pool,
    exchange,
    fill_pool,
    observed_have_children,
    pooled_weights,
)
from pymc_spn.indian_chefs.regression_kernels import (
    LOG_2PI,
    draw_node_parameters,
    fill_gram,
)
from pymc_spn.indian_chefs.reputation_moves import propose_reputation
from pymc_spn.indian_chefs.rooted_moves import rooted_birth_or_death
from pymc_spn.indian_chefs.sweeps import accepts, draw_reputations, random_order
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

# rows of a tally: how often tried, how often accepted
GUIDED, PRIOR, COLLAPSED, SPLITS, SWAPS, EDGES, REDRAWN, WALKED, EXCHANGED, GROWTH, REFUSED, TWINS, ROOTED = range(13)
TALLY_NAMES = (
    "guided",
    "prior",
    "collapsed",
    "split",
    "swap",
    "edges",
    "redrawn",
    "walked",
    "exchanged",
    "growth",  # births and splits alone
    "refused",  # births and splits for which there was no room
    "twins",
    "rooted",
)


class SweepPlan(NamedTuple):
    """How often each move is made in a sweep.

    Parameters
    ----------
    guided, prior, collapsed, splits, swaps, twins, rooted : int
        Births or deaths of three kinds, splits or merges, and exchanges of neighbours in the order. Also births or
        deaths of units with the parents and children of another, and of units with any parents.
    walks : int
        Random-walk passes over the hidden units.
    exchange_every : int
        Sweeps from one exchange with the pool to the next; 0 for none.
    """

    guided: int = 2
    prior: int = 2
    collapsed: int = 10
    splits: int = 10
    swaps: int = 4
    twins: int = 2
    rooted: int = 10
    walks: int = 1
    exchange_every: int = 2


class SweepWork(NamedTuple):
    """Scratch space of a sweep."""

    graph: GraphMoveWork
    activation: ActivationWork
    pool: HiddenDraws
    datum: np.ndarray
    order: np.ndarray
    heat: np.ndarray


def sweep_work(n_slots: int, n_observed: int, n_data: int, n_strata: int = 16, n_pool: int = 1000) -> SweepWork:
    """Buffers; all powers of likelihoods are 1."""
    k = n_slots
    return SweepWork(
        graph_move_work(k, n_data),
        activation_work(n_data, n_strata),
        empty_pool(k, n_observed, n_pool),
        np.zeros(n_observed),
        np.zeros(k, np.int64),
        np.ones(k),
    )


def new_tally() -> np.ndarray:
    """(13, 2) int64: tried, accepted."""
    return np.zeros((len(TALLY_NAMES), 2), np.int64)


@inner_kernel
def birth_or_death(rng, is_growth, state, graph_prior, network, prior, is_guided, work):
    """A guided or prior birth or death of a unit without parents; 1, -1 or 0 as in `collapsed_birth_or_death`."""
    if is_growth:
        theta, log_ratio = propose_orphan(rng, state, graph_prior, work.graph.newborn.children)
        return unit_birth(rng, theta, log_ratio, state, network, prior, is_guided, work)
    unit, log_ratio = propose_orphan_death(rng, state, graph_prior)
    return unit_death(rng, unit, log_ratio, state, network, prior, is_guided, work)


@inner_kernel
def unit_birth(rng, theta, log_ratio, state, network, prior, is_guided, work):
    """A proposed unit without parents, its children in ``work.graph.newborn``, is born (1) or not (0).

    ``log_ratio`` is that of the graph's densities and proposals, -inf where nothing was proposed.
    """
    if log_ratio == -np.inf:
        return 0
    n, newborn = state.count[0], work.graph.newborn
    draw_newborn(rng, n, prior, newborn)
    if is_guided:
        log_ratio += guided_birth(rng, n, network, prior, work.heat, newborn, work.activation)
    else:
        keep_children(n, network, newborn)
        draw_prior_activations(rng, newborn)
        log_ratio += log_likelihood_change(n, network, work.heat, newborn, 1.0)
    if log_ratio > -rng.standard_exponential():
        insert_node(state, theta, newborn.children)
        insert_unit(n, network, newborn)
        return 1
    return 0


@inner_kernel
def unit_death(rng, unit, log_ratio, state, network, prior, is_guided, work):
    """A unit without parents (-1: none) dies (-1) or not (0); ``log_ratio`` as in `unit_birth`."""
    if unit < 0:
        return 0
    n, newborn = state.count[0], work.graph.newborn
    describe_unit(n, network, unit, newborn)
    if is_guided:
        log_ratio += guided_death(rng, n, network, prior, work.heat, newborn, work.activation)
    else:
        log_ratio += log_likelihood_change(n, network, work.heat, newborn, -1.0)
    if log_ratio > -rng.standard_exponential():
        delete_node(state, unit)
        remove_unit(n, network, unit, newborn)
        return -1
    return 0


@inner_kernel
def count_move(tally, row, is_growth, is_full, step):
    """Add one birth, death, split or merge to the tally."""
    tally[row, 0] += 1
    tally[row, 1] += abs(step)
    if is_growth:
        tally[GROWTH, 0] += 1
        tally[GROWTH, 1] += abs(step)
        tally[REFUSED, 0] += is_full


@inner_kernel
def draw_parameters(rng, state, network, prior, work):
    """Weights, biases and precisions of all nodes given activations and graph; the Gram matrix is current."""
    n = state.count[0]
    for i in range(n):
        draw_node_parameters(
            rng,
            work.graph.gram,
            n,
            i,
            network.parents,
            network.weights,
            network.biases,
            network.precisions,
            work.heat,
            prior,
            work.graph.regression,
        )


@inner_kernel
def descending(state, order):
    """Slots by descending reputation: parents before children."""
    n = state.count[0]
    for j in range(n):
        order[j] = state.order[n - 1 - j]


@kernel
def pass_of_exchanges(rng, state, network, pool, work):
    """One exchange pass with a fresh pool, if no observed node is a parent; number of data that moved, or -1."""
    n, n_observed = state.count[0], state.fixed.size
    if n == n_observed or observed_have_children(n_observed, n, network.parents):
        return -1
    descending(state, work.order)
    fill_pool(
        rng,
        n_observed,
        n,
        work.order,
        network.parents,
        network.weights,
        network.biases,
        network.precisions,
        pool,
    )
    moved = exchange(rng, n_observed, n, network, work.heat, pool, work.datum)
    fill_residuals(
        n,
        network.parents,
        network.weights,
        network.biases,
        network.activations,
        network.outputs,
        network.residuals,
    )
    return moved


@kernel
def refresh_network(state, network):
    """Residuals of all nodes from scratch."""
    fill_residuals(
        state.count[0],
        network.parents,
        network.weights,
        network.biases,
        network.activations,
        network.outputs,
        network.residuals,
    )


@inner_kernel
def exchange_and_sum(rng, state, network, plan, number, work, tally):
    """The first part of a sweep: where it is its turn, hidden vectors exchanged with a pool; a current Gram matrix."""
    if plan.exchange_every > 0 and number % plan.exchange_every == 0:
        moved = pass_of_exchanges(rng, state, network, work.pool, work)
        if moved >= 0:
            tally[EXCHANGED, 0] += network.activations.shape[1]
            tally[EXCHANGED, 1] += moved
    fill_gram(work.graph.gram, state.count[0], network.activations, network.outputs, work.heat)


@inner_kernel
def redraw_parameters_and_units(rng, state, network, prior, plan, work, tally):
    """Weights, biases and precisions from their conditionals, then resampling and walks of all hidden units."""
    n_observed = state.fixed.size
    draw_parameters(rng, state, network, prior, work)
    refresh_network(state, network)
    for place in random_order(rng, state.count[0] - n_observed):  # slots tell of the graph's history
        unit = n_observed + place
        tally[REDRAWN, 0] += network.activations.shape[1]
        tally[REDRAWN, 1] += redraw_unit(rng, unit, state.count[0], network, work.heat, work.activation)
        for _ in range(plan.walks):
            tally[WALKED, 0] += network.activations.shape[1]
            tally[WALKED, 1] += walk_unit(rng, unit, state.count[0], network, work.heat, work.activation)


@kernel
def sweep(rng, state, graph_prior, network, prior, plan, number, work, tally):
    """One sweep; exact for the joint posterior of graph, parameters and activations while all heats are 1.

    Parameters
    ----------
    rng : numpy.random.Generator
    state : GraphState
        In and out; `network.parents` is its array.
    graph_prior : GraphPrior
    network : BeliefNetwork
        In and out; residuals current.
    prior : NetworkPrior
    plan : SweepPlan
    number : int
        Of the sweep, for `SweepPlan.exchange_every`.
    work : SweepWork
    tally : (13, 2) int64
    """
    moves = work.graph
    exchange_and_sum(rng, state, network, plan, number, work, tally)
    tally[EDGES, 0] += 1
    tally[EDGES, 1] += draw_collapsed_edges(rng, state, graph_prior, network, work.heat, prior, moves)
    for _ in range(plan.collapsed):
        up = rng.random() < 0.5
        full = state.count[0] == state.order.size
        step = collapsed_birth_or_death(rng, up, state, graph_prior, network, work.heat, prior, moves)
        count_move(tally, COLLAPSED, up, full, step)
    for _ in range(plan.splits):
        up = rng.random() < 0.5
        full = state.count[0] == state.order.size
        step = collapsed_split_or_merge(rng, up, state, graph_prior, network, work.heat, prior, moves)
        count_move(tally, SPLITS, up, full, step)
    for _ in range(plan.twins):
        up = rng.random() < 0.5
        full = state.count[0] == state.order.size
        step = twin_birth_or_death(rng, up, state, graph_prior, network, work.heat, prior, moves, work.activation.mean)
        count_move(tally, TWINS, up, full, step)
    for _ in range(plan.rooted):
        up = rng.random() < 0.5
        full = state.count[0] == state.order.size
        step = rooted_birth_or_death(rng, up, state, graph_prior, network, work.heat, prior, moves)
        count_move(tally, ROOTED, up, full, step)
    for _ in range(plan.swaps):
        tally[SWAPS, 0] += 1
        tally[SWAPS, 1] += collapsed_swap(rng, state, graph_prior, network, work.heat, prior, moves)
    redraw_parameters_and_units(rng, state, network, prior, plan, work, tally)
    for kind in (GUIDED, PRIOR):
        for _ in range(plan.guided if kind == GUIDED else plan.prior):
            up = rng.random() < 0.5
            full = state.count[0] == state.order.size
            step = birth_or_death(rng, up, state, graph_prior, network, prior, kind == GUIDED, work)
            count_move(tally, kind, up, full, step)
    draw_reputations(rng, state, graph_prior)


@kernel
def network_log_joint(state, network, prior):
    """Log density of parameters, hidden activations and data given the graph, in nats (of activations)."""
    n = state.count[0]
    out = 0.0
    for i in range(n):
        rho = network.precisions[i]
        out += 0.5 * (math.log(prior.bias_precision) - LOG_2PI - prior.bias_precision * network.biases[i] ** 2)
        shape, rate = prior.precision_shape, prior.precision_rate
        out += shape * math.log(rate) - math.lgamma(shape) + (shape - 1.0) * math.log(rho) - rate * rho
        for k in range(n):
            if network.parents[k, i]:
                w = network.weights[k, i]
                out += 0.5 * (math.log(prior.weight_precision) - LOG_2PI - prior.weight_precision * w * w)
        square = 0.0
        for j in range(network.residuals.shape[1]):
            square += network.residuals[i, j] ** 2
        out += 0.5 * (network.residuals.shape[1] * (math.log(rho) - LOG_2PI) - rho * square)
    return out


@kernel
def published_network_sweep(rng, state, graph_prior, network, prior, plan, number, work, repeats, tally):
    """One sweep; exact for the joint posterior, as `network_sweep.sweep`.

    Equations 13 to 16 of Dallaire et al. (2020), each ``repeats`` times at a node drawn uniformly. They change the
    edges to it, its reputation, and parents that have no other child and no parents, by birth or death. Births and
    deaths are in the form that goes with a density over reputations. A new unit has parameters and activations from
    their priors, and edges have the weights summed out. Parameters and hidden units, for which the paper refers to
    others, are drawn as in the package's own sweep.

    Parameters
    ----------
    rng, state, graph_prior, network, prior, plan, number, work, tally
        As of `network_sweep.sweep`; of the plan, walks and exchanges count.
    repeats : int
    """
    exchange_and_sum(rng, state, network, plan, number, work, tally)
    for _ in range(repeats):
        i = int(rng.random() * state.count[0])
        tally[EDGES, 0] += 1
        tally[EDGES, 1] += draw_collapsed_parents(rng, i, state, graph_prior, network, work.heat, prior, work.graph)
    redraw_parameters_and_units(rng, state, network, prior, plan, work, tally)
    for _ in range(repeats):
        up = rng.random() < 0.5
        full = state.count[0] == state.order.size
        if up:
            theta, log_ratio = propose_singleton(rng, state, graph_prior, work.graph.newborn.children)
            step = unit_birth(rng, theta, log_ratio, state, network, prior, False, work)
        else:
            unit, log_ratio = propose_singleton_death(rng, state, graph_prior)
            step = unit_death(rng, unit, log_ratio, state, network, prior, False, work)
        count_move(tally, PRIOR, up, full, step)
        i = int(rng.random() * state.count[0])
        theta, log_ratio = propose_reputation(rng, state, graph_prior, i)
        if accepts(rng, log_ratio):
            place_node(state, i, theta)


@kernel
def pooled_log_density(rng, state, network, is_gap, pool, work):
    """Sum over rows of the log mean density of their activations over fresh draws of the hidden units, in nats.

    Parameters
    ----------
    rng : numpy.random.Generator
    state : GraphState
    network : BeliefNetwork
    is_gap : (N, D) bool
        Cells that are summed out.
    pool : HiddenDraws
        Scratch space; its size is the number of draws.
    work : SweepWork
        Scratch space.

    Returns
    -------
    float
        NaN where an observed node is a parent, which one pool for all rows cannot serve.
    """
    n, n_observed = state.count[0], state.fixed.size
    if observed_have_children(n_observed, n, network.parents):
        return np.nan
    descending(state, work.order)
    fill_pool(
        rng, n_observed, n, work.order, network.parents, network.weights, network.biases, network.precisions, pool
    )
    counts = np.zeros(n_observed)
    unchecked = np.zeros(1, np.int64)
    out = 0.0
    for r in range(network.activations.shape[1]):
        if must_stop_after(pool.weights.size * (n_observed + 5), unchecked):
            return np.nan
        for d in range(n_observed):
            counts[d] = 0.0 if is_gap[r, d] else 1.0
            work.datum[d] = network.activations[d, r]
            out += 0.5 * counts[d] * (math.log(network.precisions[d]) - LOG_2PI)
        everything, top = pooled_weights(work.datum, network.precisions, counts, pool)
        out += top + math.log(everything / pool.weights.size)
    return out
