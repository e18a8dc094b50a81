"""Sweeps over graph, parameters and hidden values of a belief network, exact for the joint posterior.

Moves of the graph of a nonlinear network see the data through the Gram matrix, with all weights and biases summed out.
A new node's precision and activations come from their prior given its parents; its own bias and weights are drawn and
forgotten, which in effect sums them out. So only regressions of nodes whose parents change enter a ratio. After these
moves all weights and biases must be drawn again.

A birth in a linear or sigmoid network draws the new node's bias, precision and weights from their priors, which cancel.
Its values are integrated or summed out of the ratio, and drawn from their conditional where it is accepted.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.indian_chefs.activation_kernels import (
    ActivationWork,
    activation_work,
    children_terms,
    fill_residuals,
    move_unit,
    redraw_unit,
    tell_children,
    walk_unit,
)
from pymc_spn.indian_chefs.graph_moves import (
    MOVE_NAMES,
    ORPHANS,
    PUBLISHED_MOVES,
    ROOTED,
    SPLITS,
    SWAPS,
    MoveWork,
    accept_or_undo,
    draw_reputations,
    move_work,
    new_tally,
    propose,
    random_order,
)
from pymc_spn.indian_chefs.graph_state import GraphState, set_edge
from pymc_spn.indian_chefs.pool_kernels import (
    HiddenDraws,
    empty_pool,
    exchange,
    fill_pool,
    pooled_weights,
)
from pymc_spn.indian_chefs.prior_density import edge_odds
from pymc_spn.indian_chefs.regression_kernels import (
    LOG_2PI,
    Gram,
    RegressionWork,
    add_to_gram,
    choose_regressors,
    draw_node_parameters,
    draw_precision,
    empty_gram,
    fill_gram,
    log_evidence,
    move_gram,
    regression_work,
)
from pymc_spn.numerics.elementary import fast_exp
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel, inner_kernel, kernel

# rows of a tally behind those of the moves: how often tried, how often accepted
EDGES, REDRAWN, EXCHANGED = range(2 * len(MOVE_NAMES), 2 * len(MOVE_NAMES) + 3)


class SweepPlan(NamedTuple):
    """How often each move is made in a sweep of a nonlinear network.

    Parameters
    ----------
    times : (M,) tuple of int
        Of the moves of `graph_moves`, by their numbers.
    nodes : int
        Nodes, drawn uniformly, whose edges are drawn; 0 for all nodes in random order, and Gibbs draws of reputations.
    exchange_every : int
        Sweeps from one exchange with the pool to the next; 0 for none.
    """

    times: tuple[int, ...]
    nodes: int = 0
    exchange_every: int = 2


def sweep_plan(births: int = 10, is_published: bool = False, **others: int) -> SweepPlan:
    """The plan with so many births or deaths of each kind; or the published moves, each so many times."""
    if is_published:
        return SweepPlan(move_times(dict.fromkeys(PUBLISHED_MOVES, births)), nodes=births, **others)
    return SweepPlan(
        move_times({ORPHANS: births, ROOTED: births, SPLITS: births, SWAPS: 2 * -(-births // 5)}), **others
    )


def move_times(times: dict[int, int]) -> tuple[int, ...]:
    """(M,) how often each move is made; those that are not named never."""
    return tuple(times.get(move, 0) for move in range(len(MOVE_NAMES)))


class SweepWork(NamedTuple):
    """Scratch space of a sweep, and powers of likelihoods (K,)."""

    graph: MoveWork
    gram: Gram
    regression: RegressionWork
    activation: ActivationWork
    pool: HiddenDraws
    datum: np.ndarray
    heat: np.ndarray


def sweep_work(state: GraphState, n_data: int, n_strata: int = 1, n_pool: int = 1) -> SweepWork:
    """Buffers; all powers of likelihoods are 1."""
    k, d = state.order.size, state.fixed.size
    return SweepWork(
        move_work(state),
        empty_gram(k),
        regression_work(k),
        activation_work(n_data, n_strata),
        empty_pool(k, d, n_pool),
        np.zeros(d),
        np.ones(k),
    )


def network_tally() -> np.ndarray:
    """(2 M + 3, 3) int64: that of the moves, edges, redrawn units, exchanges."""
    return new_tally(3)


# ---- moves of the graph, weights summed out


@bare_called_kernel
def _evidence(parents, n_nodes, node, slot, hole, last, network, prior, work):
    """Log evidence of a node's regression; network and Gram matrix have it in `slot`, and node `hole` in `last`."""
    chosen = work.regression.chosen
    p = choose_regressors(parents, n_nodes, node, work.regression)
    for i in range(1, p):
        if chosen[i] == 1 + hole:
            chosen[i] = 1 + last
    return log_evidence(work.gram, slot, p, network.precisions[slot], work.heat[slot], prior, work.regression)


@bare_called_kernel
def _evidence_change(state, hole, network, prior, work):
    """Log evidences of the nodes that have other parents than in the graph before the move, now minus before."""
    held = work.graph.held
    n, n_before = state.count[0], held.count[0]
    last = n_before - 1
    out = 0.0
    for i in range(min(n, n_before)):
        slot = last if i == hole else i
        differs = state.n_parents[i] != held.n_parents[slot]
        for k in range(min(n, n_before)):
            differs |= state.parents[k, i] != held.parents[last if k == hole else k, slot]
        if differs:
            out += _evidence(state.parents, n, i, slot, hole, last, network, prior, work)
            out -= _evidence(held.parents, n_before, slot, slot, -1, last, network, prior, work)
    return out


@bare_called_kernel
def _draw_unit(rng, slot, network, prior):
    """Precision and activations of a unit from their prior given its parents; bias and weights are forgotten."""
    network.precisions[slot] = draw_precision(rng, 0.0, 0.0, prior)
    deviation = 1.0 / math.sqrt(network.precisions[slot])
    bias = rng.standard_normal() / math.sqrt(prior.bias_precision)
    a, u = network.activations[slot], network.outputs[slot]
    for j in range(a.size):
        a[j] = bias + deviation * rng.standard_normal()
    for k in range(slot):
        if network.parents[k, slot]:
            weight = rng.standard_normal() / math.sqrt(prior.weight_precision)
            v = network.outputs[k]
            for j in range(a.size):
                a[j] += weight * v[j]
    for j in range(a.size):
        u[j] = 1.0 / (1.0 + fast_exp(min(-a[j], 700.0)))


@bare_kernel
def propose_in_network(rng, move, state, graph_prior, network, prior, work, tally):
    """As `graph_moves.propose`, with the evidences; a new node stands in network and Gram matrix already."""
    n = state.count[0]
    log_ratio, unit, row = propose(rng, move, state, graph_prior, work.graph, tally)
    if log_ratio > -np.inf:
        if state.count[0] > n:
            _draw_unit(rng, n, network, prior)
            add_to_gram(n, network, work.heat, work.gram)
        log_ratio += _evidence_change(state, unit if state.count[0] < n else -1, network, prior, work)
    return log_ratio, unit, row


@bare_kernel
def accept_or_undo_in_network(rng, log_ratio, unit, row, state, network, work, tally):
    """As `graph_moves.accept_or_undo`, after `propose_in_network`."""
    n = work.graph.held.count[0]
    if accept_or_undo(rng, log_ratio, row, state, work.graph, tally) and state.count[0] < n:
        move_unit(n - 1, unit, n, network)
        move_gram(n, n - 1, unit, work.gram)


@inner_kernel
def _draw_parents(rng, i, state, graph_prior, network, prior, work, tally):
    """Gibbs draws of the edges to node i."""
    n = state.count[0]
    tally[EDGES, 0] += 1
    current = _evidence(state.parents, n, i, i, -1, -1, network, prior, work)
    for k in random_order(rng, n):
        odds = edge_odds(state, graph_prior, k, i)
        if odds == 0.0 or math.isinf(odds):
            continue
        before = state.parents[k, i]
        set_edge(state, k, i, 1 - before)
        other = _evidence(state.parents, n, i, i, -1, -1, network, prior, work)
        # of the other value against the current one
        log_ratio = other - current + (math.log(odds) if before == 0 else -math.log(odds))
        if rng.random() < 1.0 / (1.0 + math.exp(-min(max(log_ratio, -700.0), 700.0))):
            current = other
            tally[EDGES, 1] += 1
        else:
            set_edge(state, k, i, before)


# ---- linear Gaussian and sigmoid networks: hidden nodes are integrated or summed out exactly, one at a time


@bare_called_kernel
def _softplus(x):
    """log(1 + exp(x))."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@bare_kernel
def linear_gain(unit, n_nodes, parents, network, heat, slope):
    """Log likelihood with the values of a unit without parents integrated out minus that without it.

    Parameters
    ----------
    parents : (K, K) uint8
        Of the graph with the unit.
    network : BeliefNetwork
    slope : (N,) float64
        Scratch space.
    """
    rho, bias = network.precisions[unit], network.biases[unit]
    total = rho + children_terms(unit, n_nodes, parents, network, heat, slope)
    out = 0.5 * slope.size * (math.log(rho / total) - rho * bias * bias)
    for j in range(slope.size):
        s = slope[j] + rho * bias
        # integral of N(x; b, 1/rho) exp(slope x - (total - rho) x^2 / 2)
        out += 0.5 * s * s / total
    return out


@bare_kernel
def redraw_linear_unit(rng, unit, n_nodes, network, heat, slope):
    """Gibbs draw of one hidden node of a linear network in all data."""
    a, e = network.activations[unit], network.residuals[unit]
    rho = network.precisions[unit]
    total = rho + children_terms(unit, n_nodes, network.parents, network, heat, slope)
    deviation = 1.0 / math.sqrt(total)
    for j in range(slope.size):
        mean = (slope[j] + rho * (a[j] - e[j])) / total
        slope[j] = mean + deviation * rng.standard_normal() - a[j]
        a[j] += slope[j]
        e[j] += slope[j]
    tell_children(unit, n_nodes, network.parents, network, slope)


@bare_called_kernel
def _sigmoid_terms(unit, n_nodes, parents, network, gain):
    """Log likelihood of a binary node's children at its value 1 over that at 0, into `gain` (N,)."""
    x = network.outputs[unit]
    for j in range(gain.size):
        gain[j] = 0.0
    for i in range(n_nodes):
        if parents[unit, i]:
            w = network.weights[unit, i]
            for j in range(gain.size):
                zero = -network.residuals[i, j] - w * x[j]
                gain[j] += w * network.outputs[i, j] - _softplus(zero + w) + _softplus(zero)


@bare_kernel
def sigmoid_gain(unit, n_nodes, parents, network, gain):
    """As `linear_gain` for a binary node: its two values are summed out."""
    bias = network.biases[unit]
    _sigmoid_terms(unit, n_nodes, parents, network, gain)
    out = -gain.size * _softplus(bias)
    for j in range(gain.size):
        out += _softplus(bias + gain[j])
    return out


@bare_kernel
def redraw_sigmoid_unit(rng, unit, n_nodes, network, gain):
    """Gibbs draw of one hidden node of a sigmoid network in all data."""
    x = network.outputs[unit]
    _sigmoid_terms(unit, n_nodes, network.parents, network, gain)
    for j in range(gain.size):
        odds = gain[j] - network.residuals[unit, j]
        value = 1.0 if rng.random() < 1.0 / (1.0 + math.exp(-min(max(odds, -700.0), 700.0))) else 0.0
        gain[j] = value - x[j]
        x[j] = value
    tell_children(unit, n_nodes, network.parents, network, gain)


@bare_called_kernel
def _gain(unit, n_nodes, parents, is_linear, network, work):
    if is_linear:
        return linear_gain(unit, n_nodes, parents, network, work.heat, work.activation.slope)
    return sigmoid_gain(unit, n_nodes, parents, network, work.activation.slope)


@bare_called_kernel
def _redraw_exact_unit(rng, unit, n_nodes, is_linear, network, work):
    """Gibbs draw of one hidden node in all data."""
    if is_linear:
        redraw_linear_unit(rng, unit, n_nodes, network, work.heat, work.activation.slope)
    else:
        redraw_sigmoid_unit(rng, unit, n_nodes, network, work.activation.slope)


@bare_called_kernel
def _exact_birth_or_death(rng, is_linear, state, graph_prior, network, prior, work, tally):
    """An orphan is born or dies, its values out of the ratio."""
    n, change = state.count[0], work.activation.slope
    log_ratio, unit, row = propose(rng, ORPHANS, state, graph_prior, work.graph, tally)
    is_birth = state.count[0] > n
    if is_birth:
        network.biases[n] = rng.standard_normal() / math.sqrt(prior.bias_precision)
        network.precisions[n] = draw_precision(rng, 0.0, 0.0, prior) if is_linear else 1.0
        for i in range(n):
            weight = rng.standard_normal() / math.sqrt(prior.weight_precision)
            network.weights[n, i] = weight if state.parents[n, i] else 0.0
            network.weights[i, n] = 0.0
        for j in range(change.size):  # with outputs of 0 the residuals of its children stay
            network.activations[n, j] = network.outputs[n, j] = 0.0
            network.residuals[n, j] = -network.biases[n]
        log_ratio += _gain(n, n, state.parents, is_linear, network, work)
    elif state.count[0] < n:
        log_ratio -= _gain(unit, n, work.graph.held.parents, is_linear, network, work)
    if accept_or_undo(rng, log_ratio, row, state, work.graph, tally):
        if is_birth:
            _redraw_exact_unit(rng, n, n, is_linear, network, work)
        else:
            for j in range(change.size):
                change[j] = -network.outputs[unit, j]
            tell_children(unit, n, work.graph.held.parents, network, change)
            move_unit(n - 1, unit, n, network)


@bare_called_kernel
def _sigmoid_log_likelihood(values, residuals):
    """Log probability of one node's values (N,) given its negative logits (N,)."""
    out = 0.0
    for j in range(values.size):
        out -= values[j] * residuals[j] + _softplus(-residuals[j])
    return out


@inner_kernel
def _draw_sigmoid_edges(rng, state, graph_prior, network, weight_sd, trial):
    """Edges one by one: a new one with a weight from its prior, which cancels, against none.

    Parameters
    ----------
    trial : (N,) float64
        Scratch space.
    """
    n = state.count[0]
    for i in random_order(rng, n):
        residuals = network.residuals[i]
        current = _sigmoid_log_likelihood(network.outputs[i], residuals)
        for k in random_order(rng, n):
            odds = edge_odds(state, graph_prior, k, i)
            if odds == 0.0 or math.isinf(odds):
                continue
            here = state.parents[k, i]
            w = -network.weights[k, i] if here else weight_sd * rng.standard_normal()
            for j in range(trial.size):
                trial[j] = residuals[j] - w * network.outputs[k, j]
            other = _sigmoid_log_likelihood(network.outputs[i], trial)
            log_ratio = other - current + (-math.log(odds) if here else math.log(odds))
            if log_ratio > -rng.standard_exponential():
                set_edge(state, k, i, 1 - here)
                network.weights[k, i] = 0.0 if here else w
                residuals[:] = trial
                current = other


@bare_called_kernel
def _slice_sigmoid_weights(rng, n_nodes, node, network, weight_sd, bias_sd, first, second, drawn):
    """Elliptical slice of a node's bias and weights (Murray, Adams and MacKay 2010, figure 2).

    Parameters
    ----------
    first, second : (N,) float64
        Scratch space: residuals at the current and at the auxiliary parameters.
    drawn : (> n_nodes,) float64
        Scratch space: auxiliary parameters.
    """
    residuals = network.residuals[node]
    drawn[n_nodes] = bias_sd * rng.standard_normal()
    for j in range(residuals.size):
        first[j] = residuals[j]
        second[j] = -drawn[n_nodes]
    for k in range(n_nodes):
        if network.parents[k, node]:
            drawn[k] = weight_sd * rng.standard_normal()
            for j in range(residuals.size):
                second[j] -= drawn[k] * network.outputs[k, j]
    level = _sigmoid_log_likelihood(network.outputs[node], residuals) - rng.standard_exponential()
    angle = 2.0 * math.pi * rng.random()
    low, high = angle - 2.0 * math.pi, angle
    while True:
        c, s = math.cos(angle), math.sin(angle)
        for j in range(residuals.size):
            residuals[j] = c * first[j] + s * second[j]
        if _sigmoid_log_likelihood(network.outputs[node], residuals) > level:
            break
        if angle < 0.0:
            low = angle
        else:
            high = angle
        angle = low + rng.random() * (high - low)
    network.biases[node] = c * network.biases[node] + s * drawn[n_nodes]
    for k in range(n_nodes):
        if network.parents[k, node]:
            network.weights[k, node] = c * network.weights[k, node] + s * drawn[k]


# ---- sweeps


@kernel
def pass_of_exchanges(rng, state, network, pool, work):
    """One exchange pass with a fresh pool, if no observed node is a parent; number of data that moved, or -1."""
    n, n_observed = state.count[0], state.fixed.size
    if n == n_observed or not fill_pool(rng, state, network, pool):
        return -1
    moved = exchange(rng, n_observed, n, network, work.heat, pool, work.datum)
    fill_residuals(n, network)
    return moved


@bare_called_kernel
def _draw_parameters(rng, state, network, prior, work):
    """Weights, biases and precisions of all nodes given activations and graph; the Gram matrix is current."""
    n = state.count[0]
    for i in range(n):
        draw_node_parameters(rng, work.gram, n, i, network, work.heat, prior, work.regression)
    fill_residuals(n, network)


@kernel
def nonlinear_sweep(rng, state, graph_prior, network, prior, plan, number, work, tally):
    """One sweep of a nonlinear network; exact while all powers of likelihoods are 1.

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
    tally : (2 M + 3, 3) int64
    """
    n_data, n_observed = network.activations.shape[1], state.fixed.size
    if plan.exchange_every > 0 and number % plan.exchange_every == 0:
        moved = pass_of_exchanges(rng, state, network, work.pool, work)
        if moved >= 0:
            tally[EXCHANGED, 0] += n_data
            tally[EXCHANGED, 1] += moved
    fill_gram(work.gram, state.count[0], network.activations, network.outputs, work.heat)
    for _ in range(plan.nodes):
        i = int(rng.random() * state.count[0])
        _draw_parents(rng, i, state, graph_prior, network, prior, work, tally)
    if plan.nodes == 0:
        for i in random_order(rng, state.count[0]):
            _draw_parents(rng, i, state, graph_prior, network, prior, work, tally)
    for move in range(len(plan.times)):
        for _ in range(plan.times[move]):
            log_ratio, unit, row = propose_in_network(rng, move, state, graph_prior, network, prior, work, tally)
            accept_or_undo_in_network(rng, log_ratio, unit, row, state, network, work, tally)
    _draw_parameters(rng, state, network, prior, work)
    n = state.count[0]
    for unit in n_observed + random_order(rng, n - n_observed):  # slots tell of the graph's history
        tally[REDRAWN, 0] += n_data
        tally[REDRAWN, 1] += redraw_unit(rng, unit, n, network, work.heat, work.activation)
        walk_unit(rng, unit, n, network, work.heat, work.activation)
    if plan.nodes == 0:
        draw_reputations(rng, state, graph_prior)


@kernel
def exact_sweep(rng, is_linear, state, graph_prior, network, prior, births, work, tally):
    """One sweep of a linear or of a sigmoid network, with so many births or deaths; arguments as above.

    Edges and weights of linear networks are those of nonlinear ones; in sigmoid networks an edge comes with a weight.
    """
    n, n_observed = state.count[0], state.fixed.size
    if is_linear:
        fill_gram(work.gram, n, network.activations, network.outputs, work.heat)
        for i in random_order(rng, n):
            _draw_parents(rng, i, state, graph_prior, network, prior, work, tally)
        _draw_parameters(rng, state, network, prior, work)
    else:
        weight_sd, bias_sd = 1.0 / math.sqrt(prior.weight_precision), 1.0 / math.sqrt(prior.bias_precision)
        first, second = work.activation.slope, work.activation.mean
        _draw_sigmoid_edges(rng, state, graph_prior, network, weight_sd, first)
        for i in range(n):
            drawn = work.regression.coefficients
            _slice_sigmoid_weights(rng, n, i, network, weight_sd, bias_sd, first, second, drawn)
        fill_residuals(n, network)
    for _ in range(births):
        _exact_birth_or_death(rng, is_linear, state, graph_prior, network, prior, work, tally)
    n = state.count[0]
    for unit in n_observed + random_order(rng, n - n_observed):
        _redraw_exact_unit(rng, unit, n, is_linear, network, work)
    draw_reputations(rng, state, graph_prior)


# ---- densities


@bare_kernel
def network_log_joint(state, is_sigmoid, network, prior):
    """Log density of parameters and all values given the graph, in nats (of activations in a nonlinear network)."""
    n, n_data = state.count[0], network.residuals.shape[1]
    shape, rate = prior.precision_shape, prior.precision_rate
    out = 0.0
    for i in range(n):
        out += 0.5 * (math.log(prior.bias_precision) - LOG_2PI - prior.bias_precision * network.biases[i] ** 2)
        for k in range(n):
            if network.parents[k, i]:
                w = network.weights[k, i]
                out += 0.5 * (math.log(prior.weight_precision) - LOG_2PI - prior.weight_precision * w * w)
        if is_sigmoid:
            out += _sigmoid_log_likelihood(network.outputs[i], network.residuals[i])
            continue
        rho = network.precisions[i]
        out += shape * math.log(rate) - math.lgamma(shape) + (shape - 1.0) * math.log(rho) - rate * rho
        square = 0.0
        for j in range(n_data):
            square += network.residuals[i, j] ** 2
        out += 0.5 * (n_data * (math.log(rho) - LOG_2PI) - rho * square)
    return out


@kernel
def pooled_log_density(rng, state, network, is_gap, work):
    """Sum over rows of the log mean density of their activations over fresh draws of the hidden units, in nats.

    Parameters
    ----------
    rng : numpy.random.Generator
    state : GraphState
    network : BeliefNetwork
    is_gap : (N, D) bool
        Cells that are summed out.
    work : SweepWork
        Scratch space; the size of its pool is the number of draws.

    Returns
    -------
    float
        NaN where an observed node is a parent, which one pool for all rows cannot serve.
    """
    n_observed, pool = state.fixed.size, work.pool
    if not fill_pool(rng, state, network, pool):
        return np.nan
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
