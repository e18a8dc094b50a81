"""Linear Gaussian and sigmoid belief networks on a graph: hidden nodes are summed out exactly, one node at a time.

Both keep values (K, N), a row for each node, and residuals or logits of all nodes. Births draw the new node's bias,
precision and weights from their priors, which cancel. Its values are integrated (linear) or summed (sigmoid) out of the
ratio in closed form, and drawn from their conditional where the birth is accepted.
"""

import math

from pymc_spn.indian_chefs.graph_state import set_edge
from pymc_spn.indian_chefs.prior_density import edge_log_odds
from pymc_spn.indian_chefs.regression_kernels import LOG_2PI
from pymc_spn.indian_chefs.sweeps import random_order
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@inner_kernel
def softplus(x):
    """log(1 + exp(x))."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@kernel
def fill_means(n_nodes, parents, weights, biases, values, means):
    """b_i + sum_k w_ki x_k for all nodes and data."""
    for i in range(n_nodes):
        for j in range(values.shape[1]):
            means[i, j] = biases[i]
        for k in range(n_nodes):
            if parents[k, i]:
                w = weights[k, i]
                for j in range(values.shape[1]):
                    means[i, j] += w * values[k, j]


# ---- linear Gaussian networks


@inner_kernel
def linear_terms(n_nodes, node, own_precision, weights, precisions, values, means, is_new, slope):
    """Precision of a node's value given all others, and slopes: log density is slope x - precision x^2 / 2 + const.

    `weights` are those to its children, 0 elsewhere; for a new node (`is_new`) `means` do not hold it yet, and its own
    prior mean is not included.
    """
    total = own_precision
    for j in range(slope.size):
        slope[j] = 0.0 if is_new else own_precision * means[node, j]
    for i in range(n_nodes):
        w = weights[i]
        if w == 0.0 or i == node:
            continue
        total += precisions[i] * w * w
        for j in range(slope.size):
            held = 0.0 if is_new else w * values[node, j]
            slope[j] += precisions[i] * w * (values[i, j] - means[i, j] + held)
    return total


@kernel
def redraw_linear_node(rng, n_nodes, node, weights, precisions, values, means, slope):
    """Gibbs draw of one hidden node of a linear network in all data; `means` are kept up to date."""
    total = linear_terms(n_nodes, node, precisions[node], weights[node], precisions, values, means, False, slope)
    deviation = 1.0 / math.sqrt(total)
    for j in range(slope.size):
        value = slope[j] / total + deviation * rng.standard_normal()
        change = value - values[node, j]
        values[node, j] = value
        slope[j] = change
    _tell(n_nodes, node, weights, slope, means)


@inner_kernel
def _tell(n_nodes, node, weights, change, means):
    for i in range(n_nodes):
        w = weights[node, i]
        if w != 0.0:
            for j in range(change.size):
                means[i, j] += w * change[j]


@kernel
def linear_birth_gain(rng, n_nodes, bias, precision, weights, precisions, values, means, slope, new_values, is_draw):
    """Log likelihood with a node without parents integrated out minus that without it.

    Parameters
    ----------
    weights : (K,) float64
        To its children, 0 elsewhere.
    values, means : (K, N) float64
        Of the network without the node.
    slope, new_values : (N,) float64
        Scratch space; out: values from their conditional if `is_draw`.
    """
    total = linear_terms(n_nodes, -1, precision, weights, precisions, values, means, True, slope)
    out = 0.0
    deviation = 1.0 / math.sqrt(total)
    for j in range(slope.size):
        s = slope[j] + precision * bias
        # integral of N(x; b, 1/rho) exp(slope x - (total - rho) x^2 / 2)
        out += 0.5 * (math.log(precision / total) + s * s / total - precision * bias * bias)
        if is_draw:
            new_values[j] = s / total + deviation * rng.standard_normal()
    return out


# ---- sigmoid networks


@kernel
def redraw_sigmoid_node(rng, n_nodes, node, parents, weights, values, logits, change):
    """Gibbs draw of one hidden node of a sigmoid network in all data; `logits` are kept up to date."""
    for j in range(change.size):
        odds = logits[node, j]
        x = values[node, j]
        for i in range(n_nodes):
            if parents[node, i]:
                w = weights[node, i]
                zero = logits[i, j] - w * x
                odds += w * values[i, j] - softplus(zero + w) + softplus(zero)
        value = 1.0 if rng.random() < 1.0 / (1.0 + math.exp(-min(max(odds, -700.0), 700.0))) else 0.0
        change[j] = value - x
        values[node, j] = value
    _tell(n_nodes, node, weights, change, logits)


@kernel
def sigmoid_birth_gain(rng, n_nodes, bias, weights, values, logits, new_values, is_draw):
    """As `linear_birth_gain` for a binary node: its two values are summed out."""
    out = 0.0
    for j in range(new_values.size):
        gain = 0.0  # of value 1 over value 0
        for i in range(n_nodes):
            w = weights[i]
            if w != 0.0:
                gain += w * values[i, j] - softplus(logits[i, j] + w) + softplus(logits[i, j])
        out += softplus(bias + gain) - softplus(bias)
        if is_draw:
            p = 1.0 / (1.0 + math.exp(-min(max(bias + gain, -700.0), 700.0)))
            new_values[j] = 1.0 if rng.random() < p else 0.0
    return out


@inner_kernel
def sigmoid_log_likelihood(values, logits):
    """Log probability of one node's values (N,) given its logits (N,)."""
    out = 0.0
    for j in range(values.size):
        out += values[j] * logits[j] - softplus(logits[j])
    return out


@kernel
def draw_sigmoid_edges(rng, state, graph_prior, weights, values, logits, weight_sd, trial):
    """Edges one by one: a new one with a weight from its prior, which cancels, against none; returns how many changed.

    Parameters
    ----------
    trial : (N,) float64
        Scratch space.
    """
    n = state.count[0]
    changed = 0
    for i in random_order(rng, n):
        current = sigmoid_log_likelihood(values[i], logits[i])
        for k in random_order(rng, n):
            odds = edge_log_odds(state, graph_prior, k, i)
            if math.isinf(odds):
                continue
            here = state.parents[k, i]
            w = -weights[k, i] if here else weight_sd * rng.standard_normal()
            for j in range(trial.size):
                trial[j] = logits[i, j] + w * values[k, j]
            other = sigmoid_log_likelihood(values[i], trial)
            log_ratio = other - current + (-odds if here else odds)
            if log_ratio > -rng.standard_exponential():
                set_edge(state, k, i, 1 - here)
                weights[k, i] = 0.0 if here else w
                logits[i] = trial
                current = other
                changed += 1
    return changed


@kernel
def slice_sigmoid_weights(
    rng, n_nodes, node, parents, weights, biases, values, logits, weight_sd, bias_sd, direction, trial
):
    """Elliptical slice of a node's bias and weights (Murray, Adams and MacKay 2010, figure 2).

    Parameters
    ----------
    direction : (2, N) float64
        Scratch space, means of current and of auxiliary parameters.
    trial : (2, K + 1) float64
        Scratch space: auxiliary parameters, and those tried.
    """
    trial[0, n_nodes] = bias_sd * rng.standard_normal()
    for j in range(logits.shape[1]):
        direction[0, j] = logits[node, j]
        direction[1, j] = trial[0, n_nodes]
    for k in range(n_nodes):
        if parents[k, node]:
            trial[0, k] = weight_sd * rng.standard_normal()
            for j in range(logits.shape[1]):
                direction[1, j] += trial[0, k] * values[k, j]
    level = sigmoid_log_likelihood(values[node], logits[node]) - rng.standard_exponential()
    angle = 2.0 * math.pi * rng.random()
    low, high = angle - 2.0 * math.pi, angle
    while True:
        c, s = math.cos(angle), math.sin(angle)
        for j in range(logits.shape[1]):
            logits[node, j] = c * direction[0, j] + s * direction[1, j]
        if sigmoid_log_likelihood(values[node], logits[node]) > level:
            break
        if angle < 0.0:
            low = angle
        else:
            high = angle
        angle = low + rng.random() * (high - low)
    biases[node] = c * biases[node] + s * trial[0, n_nodes]
    for k in range(n_nodes):
        if parents[k, node]:
            weights[k, node] = c * weights[k, node] + s * trial[0, k]


@kernel
def linear_log_joint(n_nodes, parents, weights, biases, precisions, values, means, prior):
    """Log density of parameters and all values of a linear network given its graph, in nats."""
    out = 0.0
    for i in range(n_nodes):
        rho = precisions[i]
        shape, rate = prior.precision_shape, prior.precision_rate
        out += shape * math.log(rate) - math.lgamma(shape) + (shape - 1.0) * math.log(rho) - rate * rho
        square = 0.0
        for j in range(values.shape[1]):
            square += (values[i, j] - means[i, j]) ** 2
        out += 0.5 * (values.shape[1] * (math.log(rho) - LOG_2PI) - rho * square)
    return out + coefficient_log_prior(n_nodes, parents, weights, biases, prior)


@kernel
def sigmoid_log_joint(n_nodes, parents, weights, biases, values, logits, prior):
    """Log probability of parameters and all values of a sigmoid network given its graph, in nats."""
    out = coefficient_log_prior(n_nodes, parents, weights, biases, prior)
    for i in range(n_nodes):
        out += sigmoid_log_likelihood(values[i], logits[i])
    return out


@inner_kernel
def coefficient_log_prior(n_nodes, parents, weights, biases, prior):
    """Log prior density of biases and of the weights of edges, in nats."""
    out = 0.0
    for i in range(n_nodes):
        out += 0.5 * (math.log(prior.bias_precision) - LOG_2PI - prior.bias_precision * biases[i] ** 2)
        for k in range(n_nodes):
            if parents[k, i]:
                w = weights[k, i]
                out += 0.5 * (math.log(prior.weight_precision) - LOG_2PI - prior.weight_precision * w * w)
    return out


@kernel
def move_last_slot(n_nodes, unit, weights, biases, precisions, values):
    """After the deletion of a unit: the last slot moves into its place; rows of edges too."""
    last = n_nodes - 1
    if unit != last:
        biases[unit] = biases[last]
        precisions[unit] = precisions[last]
        values[unit] = values[last]
        for i in range(n_nodes):
            weights[unit, i] = weights[last, i]
        for i in range(n_nodes):
            weights[i, unit] = weights[i, last]
        weights[unit, unit] = 0.0
    for i in range(n_nodes):
        weights[last, i] = 0.0
        weights[i, last] = 0.0
