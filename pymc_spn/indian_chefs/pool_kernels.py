"""A shared pool of ancestral draws of all hidden units: exchanges of whole hidden vectors, and pooled densities.

Where no observed node has a child, the hidden units of a datum come first in the graph, and M draws of all of them
serve every datum. An exchange gives a datum another hidden vector in one move, and puts its own vector into the pool.
The product of posteriors of the data and priors of the pool stays as it is, so one pool may serve all data in turn.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from pymc_spn.numerics.elementary import fast_exp
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

CHUNK = 64  # pool members whose weights are summed together; a choice scans sums first

# Reductions only: order of summation is free, and all operands are finite.
reduction = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "nnan", "reassoc"})


class HiddenDraws(NamedTuple):
    """M draws of all hidden units, and the means of the observed nodes that follow from them.

    Parameters
    ----------
    activations, outputs : (K, M) float64
        Rows of hidden slots.
    means : (D, M) float64
    weights : (M,) float64
        Scratch space.
    sums : (ceil(M / CHUNK),) float64
        Scratch space.
    """

    activations: np.ndarray
    outputs: np.ndarray
    means: np.ndarray
    weights: np.ndarray
    sums: np.ndarray


def empty_pool(n_slots: int, n_observed: int, n_draws: int) -> HiddenDraws:
    """Buffers for `n_draws` members."""
    return HiddenDraws(
        np.zeros((n_slots, n_draws)),
        np.zeros((n_slots, n_draws)),
        np.zeros((n_observed, n_draws)),
        np.zeros(n_draws),
        np.zeros(-(-n_draws // CHUNK)),
    )


@kernel
def fill_pool(rng, state, network, pool):
    """Ancestral draws of all hidden units, and the means of the observed nodes.

    Parameters
    ----------
    rng : numpy.random.Generator
    state : GraphState
    network : BeliefNetwork
    pool : HiddenDraws
        Out.

    Returns
    -------
    bool
        False where an observed node is a parent, which forbids a shared pool.
    """
    n_observed, n = state.fixed.size, state.count[0]
    for k in range(n_observed):
        if state.n_children[k] > 0:
            return False
    m = pool.weights.size
    for place in range(n - 1, -1, -1):
        i = state.order[place]
        a = pool.means[i] if i < n_observed else pool.activations[i]
        for j in range(m):
            a[j] = network.biases[i]
        for k in range(n):
            if network.parents[k, i]:
                w = network.weights[k, i]
                u = pool.outputs[k]
                for j in range(m):
                    a[j] += w * u[j]
        if i < n_observed:
            continue
        deviation = 1.0 / math.sqrt(network.precisions[i])
        u = pool.outputs[i]
        for j in range(m):
            a[j] += deviation * rng.standard_normal()
        for j in range(m):
            u[j] = 1.0 / (1.0 + fast_exp(min(-a[j], 700.0)))
    return True


@reduction
def largest(x):
    """Maximum of finite numbers."""
    top = x[0]
    for j in range(x.size):
        top = max(top, x[j])
    return top


@reduction
def total(x, first, last):
    """Sum of a part of a vector."""
    value = x[first]
    for j in range(first + 1, last):
        value += x[j]
    return value


@inner_kernel
def pooled_weights(datum, precisions, heat, pool):
    """exp(log lik - top) of one datum, (D,), under each member, and their sums by chunk; returns (sum, top).

    The constant of the normal densities is left out.
    """
    w = pool.weights
    m = w.size
    for j in range(m):
        w[j] = 0.0
    for d in range(datum.size):
        scale = -0.5 * heat[d] * precisions[d]
        means = pool.means[d]
        value = datum[d]
        for j in range(m):
            error = value - means[j]
            w[j] += scale * error * error
    top = largest(w)
    for j in range(m):
        w[j] = fast_exp(w[j] - top)
    everything = 0.0
    for c in range(pool.sums.size):
        pool.sums[c] = total(w, c * CHUNK, min((c + 1) * CHUNK, m))
        everything += pool.sums[c]
    return everything, top


@inner_kernel
def choose_member(pool, left):
    """Member at which the running sum of the weights passes `left`."""
    c = 0
    while c < pool.sums.size - 1 and left >= pool.sums[c]:
        left -= pool.sums[c]
        c += 1
    j = c * CHUNK
    last = min(j + CHUNK, pool.weights.size) - 1
    while j < last and left >= pool.weights[j]:
        left -= pool.weights[j]
        j += 1
    return j


@kernel
def exchange(rng, n_observed, n_nodes, network, heat, pool, datum):
    """Each datum chooses among its hidden vector and the pool's by likelihood, and exchanges it for its own.

    Parameters
    ----------
    rng : numpy.random.Generator
    n_observed, n_nodes : int
    network : BeliefNetwork
        In and out. Residuals of observed nodes are kept up to date, those of hidden ones are not.
    heat : (K,) float64
    pool : HiddenDraws
        In and out, filled.
    datum : (D,) float64
        Scratch space.

    Returns
    -------
    int
        Number of data that took another vector.
    """
    moved = 0
    unchecked = np.zeros(1, np.int64)
    for n in range(network.activations.shape[1]):
        if must_stop_after(pool.weights.size * (n_observed + 5), unchecked):
            return moved
        own = 0.0
        for d in range(n_observed):
            datum[d] = network.activations[d, n]
            own -= 0.5 * heat[d] * network.precisions[d] * network.residuals[d, n] * network.residuals[d, n]
        sum_of_pool, top = pooled_weights(datum, network.precisions, heat, pool)
        # P(keep) = exp(own) / (exp(own) + exp(top) sum), without overflow on either side
        odds = own - top - math.log(sum_of_pool)
        keep = 1.0 / (1.0 + math.exp(-odds)) if odds > -700.0 else 0.0
        if rng.random() < keep:
            continue
        j = choose_member(pool, rng.random() * sum_of_pool)
        moved += 1
        for i in range(n_observed, n_nodes):
            a, u = pool.activations[i, j], pool.outputs[i, j]
            pool.activations[i, j], pool.outputs[i, j] = network.activations[i, n], network.outputs[i, n]
            network.activations[i, n], network.outputs[i, n] = a, u
        for d in range(n_observed):
            mean = pool.means[d, j]
            pool.means[d, j] = datum[d] - network.residuals[d, n]
            network.residuals[d, n] = datum[d] - mean
    return moved
