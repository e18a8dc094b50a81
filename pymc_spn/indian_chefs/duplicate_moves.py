"""Births of a twin of a hidden unit, and deaths of twins, with all weights and biases summed out.

A twin h of unit j has j's parents and children, a precision close to j's, and activations drawn from j's fitted
regression. The mean is that of the weights' conditional given j's activations. So the reverse move can work it out from
j, which stays. Orphan births never give a new node parents; these do.
"""

import math

from pymc_spn.indian_chefs.collapsed_moves import add_to_gram, move_slot, node_evidence, sum_of_evidences
from pymc_spn.indian_chefs.graph_state import delete_node, highest_child, insert_node, lowest_parent, set_edge
from pymc_spn.indian_chefs.prior_density import log_density
from pymc_spn.indian_chefs.regression_kernels import LOG_2PI, factorise, regressors
from pymc_spn.numerics.elementary import fast_exp
from pymc_spn.numerics.kernel_options import inner_kernel

LOG_PRECISION_STEP = 0.3  # standard deviation of the twin's log precision round the unit's


@inner_kernel
def are_twins(state, j, h):
    """Whether two hidden units have the same parents and the same children."""
    for i in range(state.count[0]):
        if state.parents[i, j] != state.parents[i, h] or state.parents[j, i] != state.parents[h, i]:
            return False
    return True


@inner_kernel
def _count_pairs(state):
    """Ordered pairs of twins."""
    out = 0
    for j in range(state.fixed.size, state.count[0]):
        for h in range(state.fixed.size, state.count[0]):
            if h != j and are_twins(state, j, h):
                out += 1
    return out


@inner_kernel
def _fit_mean(n_nodes, unit, network, prior, work):
    """Mean of bias and weights of a unit given its activations, into the scratch space; number of regressors."""
    r = work.regression
    p = regressors(network.parents, n_nodes, unit, r.chosen)
    factorise(work.gram, unit, r.chosen, p, network.precisions[unit], 1.0, prior, r.factor, r.half)
    for i in range(p - 1, -1, -1):
        value = r.half[i]
        for k in range(i + 1, p):
            value -= r.factor[k, i] * r.coefficients[k]
        r.coefficients[i] = value / r.factor[i, i]
    return p


@inner_kernel
def _fitted(n_nodes, unit, network, prior, work, mean):
    p = _fit_mean(n_nodes, unit, network, prior, work)
    r = work.regression
    for j in range(mean.size):
        mean[j] = r.coefficients[0]
    for i in range(1, p):
        u = network.outputs[r.chosen[i] - 1]
        w = r.coefficients[i]
        for j in range(mean.size):
            mean[j] += w * u[j]


@inner_kernel
def _log_proposal(network, unit, twin, mean):
    """Log density of the twin's activations and of its precision, given the unit's fit."""
    rho = network.precisions[twin]
    square = 0.0
    for j in range(mean.size):
        square += (network.activations[twin, j] - mean[j]) ** 2
    step = math.log(rho / network.precisions[unit]) / LOG_PRECISION_STEP
    own = -0.5 * (step * step + LOG_2PI) - math.log(LOG_PRECISION_STEP * rho)
    return own + 0.5 * (mean.size * (math.log(rho) - LOG_2PI) - rho * square)


@inner_kernel
def _log_precision_prior(rho, prior):
    shape, rate = prior.precision_shape, prior.precision_rate
    return shape * math.log(rate) - math.lgamma(shape) + (shape - 1.0) * math.log(rho) - rate * rho


@inner_kernel
def _room(state, j):
    """Length of the interval in which a twin of unit j may stand."""
    return min(lowest_parent(state, j), 1.0) - max(highest_child(state, j), 0.0)


@inner_kernel
def twin_birth_or_death(rng, is_growth, state, graph_prior, network, heat, prior, work, mean):
    """A twin is born or dies; 1 for an accepted birth, -1 for a death, 0 otherwise. Uniform base measure only.

    Parameters
    ----------
    mean : (N,) float64
        Scratch space.
    """
    n, n_observed = state.count[0], state.fixed.size
    if graph_prior.levels.size > 0 or n == n_observed:
        return 0
    children = work.children
    if is_growth:
        if n == state.order.size:
            return 0
        j = n_observed + int(rng.random() * (n - n_observed))
        room = _room(state, j)
        theta = max(highest_child(state, j), 0.0) + rng.random() * room
        for i in range(n):
            children[i] = state.parents[j, i]
        _fitted(n, j, network, prior, work, mean)
        rho = network.precisions[j] * math.exp(LOG_PRECISION_STEP * rng.standard_normal())
        network.precisions[n] = rho
        a, u = network.activations[n], network.outputs[n]
        for d in range(a.size):
            a[d] = mean[d] + rng.standard_normal() / math.sqrt(rho)
        for d in range(a.size):
            u[d] = 1.0 / (1.0 + fast_exp(min(-a[d], 700.0)))
        add_to_gram(n, network, heat, work.gram)
        log_ratio = math.log(room * (n - n_observed)) + _log_precision_prior(rho, prior)
        log_ratio -= log_density(state, graph_prior) + sum_of_evidences(n, children, network, heat, prior, work)
        log_ratio -= _log_proposal(network, j, n, mean)
        h = insert_node(state, theta, children)
        for k in range(n):
            if state.parents[k, j]:
                set_edge(state, k, h, 1)
        children[h] = 0
        log_ratio += log_density(state, graph_prior) + sum_of_evidences(n + 1, children, network, heat, prior, work)
        log_ratio += node_evidence(n + 1, h, network, heat, prior, work)
        log_ratio -= math.log(_count_pairs(state))
        if log_ratio > -rng.standard_exponential():
            return 1
        delete_node(state, h)
        return 0
    pairs = _count_pairs(state)
    if pairs == 0:
        return 0
    left = int(rng.random() * pairs)
    unit = twin = -1
    for j in range(n_observed, n):
        for h in range(n_observed, n):
            if h != j and are_twins(state, j, h):
                if left == 0:
                    unit, twin = j, h
                left -= 1
    for i in range(n):
        children[i] = state.parents[twin, i]
    _fitted(n, unit, network, prior, work, mean)
    log_ratio = _log_proposal(network, unit, twin, mean) + math.log(pairs)
    log_ratio -= _log_precision_prior(network.precisions[twin], prior) + log_density(state, graph_prior)
    log_ratio -= sum_of_evidences(n, children, network, heat, prior, work)
    log_ratio -= node_evidence(n, twin, network, heat, prior, work)
    rho = network.precisions[twin]
    held_a, held_u = network.activations[twin].copy(), network.outputs[twin].copy()
    log_ratio -= math.log(_room(state, unit) * (n - 1 - n_observed))
    theta = state.reputations[twin]
    for i in range(n):
        state.parents[twin, i] = 0
    log_ratio += sum_of_evidences(n, children, network, heat, prior, work)
    for i in range(n):
        state.parents[twin, i] = children[i]
    delete_node(state, twin)
    log_ratio += log_density(state, graph_prior)
    move_slot(n, n - 1, twin, network, work.gram)
    if log_ratio > -rng.standard_exponential():
        return -1
    # put it back, in the last slot
    last = n - 1
    moved = twin if unit == last else unit
    for i in range(last):
        children[i] = state.parents[moved, i]
    network.precisions[last] = rho
    network.activations[last] = held_a
    network.outputs[last] = held_u
    add_to_gram(last, network, heat, work.gram)
    h = insert_node(state, theta, children)
    for k in range(last):
        if state.parents[k, moved]:
            set_edge(state, k, h, 1)
    return 0
