"""Linear Gaussian and sigmoid networks: hidden nodes are integrated or summed out exactly, one node at a time.

A birth draws the new node's bias, precision and weights from their priors, which cancel. Its values are integrated
(linear) or summed (sigmoid) out of the ratio in closed form, and drawn from their conditional where it is accepted.
"""

import math

from pymc_spn.indian_chefs.activation_kernels import children_terms, move_unit, tell_children
from pymc_spn.indian_chefs.graph_moves import ORPHANS, accept_or_undo, propose, random_order
from pymc_spn.indian_chefs.graph_state import set_edge
from pymc_spn.indian_chefs.prior_density import edge_odds
from pymc_spn.indian_chefs.regression_kernels import draw_precision
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel, inner_kernel


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
def redraw_exact_unit(rng, unit, n_nodes, is_linear, network, work):
    """Gibbs draw of one hidden node in all data."""
    if is_linear:
        redraw_linear_unit(rng, unit, n_nodes, network, work.heat, work.activation.slope)
    else:
        redraw_sigmoid_unit(rng, unit, n_nodes, network, work.activation.slope)


@bare_called_kernel
def exact_birth_or_death(rng, is_linear, state, graph_prior, network, prior, work, tally):
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
            redraw_exact_unit(rng, n, n, is_linear, network, work)
        else:
            for j in range(change.size):
                change[j] = -network.outputs[unit, j]
            tell_children(unit, n, work.graph.held.parents, network, change)
            move_unit(n - 1, unit, n, network)


# ---- edges and weights of sigmoid networks


@bare_called_kernel
def sigmoid_log_likelihood(values, residuals):
    """Log probability of one node's values (N,) given its negative logits (N,)."""
    out = 0.0
    for j in range(values.size):
        out -= values[j] * residuals[j] + _softplus(-residuals[j])
    return out


@inner_kernel
def draw_sigmoid_edges(rng, state, graph_prior, network, weight_sd, trial):
    """Edges one by one: a new one with a weight from its prior, which cancels, against none.

    Parameters
    ----------
    trial : (N,) float64
        Scratch space.
    """
    n = state.count[0]
    for i in random_order(rng, n):
        residuals = network.residuals[i]
        current = sigmoid_log_likelihood(network.outputs[i], residuals)
        for k in random_order(rng, n):
            odds = edge_odds(state, graph_prior, k, i)
            if odds == 0.0 or math.isinf(odds):
                continue
            here = state.parents[k, i]
            w = -network.weights[k, i] if here else weight_sd * rng.standard_normal()
            for j in range(trial.size):
                trial[j] = residuals[j] - w * network.outputs[k, j]
            other = sigmoid_log_likelihood(network.outputs[i], trial)
            log_ratio = other - current + (-math.log(odds) if here else math.log(odds))
            if log_ratio > -rng.standard_exponential():
                set_edge(state, k, i, 1 - here)
                network.weights[k, i] = 0.0 if here else w
                residuals[:] = trial
                current = other


@bare_called_kernel
def slice_sigmoid_weights(rng, n_nodes, node, network, weight_sd, bias_sd, first, second, drawn):
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
    level = sigmoid_log_likelihood(network.outputs[node], residuals) - rng.standard_exponential()
    angle = 2.0 * math.pi * rng.random()
    low, high = angle - 2.0 * math.pi, angle
    while True:
        c, s = math.cos(angle), math.sin(angle)
        for j in range(residuals.size):
            residuals[j] = c * first[j] + s * second[j]
        if sigmoid_log_likelihood(network.outputs[node], residuals) > level:
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
