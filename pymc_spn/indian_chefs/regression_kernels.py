"""Regressions of each node on its parents: evidence without weights from one Gram matrix, and conjugate draws.

Given all activations, every node of a Gaussian belief network is a linear regression on a constant and its parents'
outputs. The kernels see the data through the Gram matrix alone, so that an edge costs O(p^3) whatever N is.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.numerics.gamma_draws import log_gamma_draw
from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_kernel, kernel

LOG_2PI = math.log(2.0 * math.pi)


class NetworkPrior(NamedTuple):
    """Independent priors of the parameters of every node.

    Parameters
    ----------
    weight_precision, bias_precision : float
        Of the zero-mean normal priors.
    precision_shape, precision_rate : float
        Of the gamma prior of a node's precision.
    """

    weight_precision: float = 1.0
    bias_precision: float = 1.0
    precision_shape: float = 0.5
    precision_rate: float = 0.5


class Gram(NamedTuple):
    """Sums over the data of products; index 0 is the constant, 1 + k the output of slot k.

    Parameters
    ----------
    outputs : (K + 1, K + 1) float64
    crosses : (K + 1, K) float64
        Of the regressors with each activation.
    squares : (K,) float64
        Of each activation with itself.
    counts : (K,) float64
        Number of data that each regression has; tempered likelihoods count a datum as less than one.
    """

    outputs: np.ndarray
    crosses: np.ndarray
    squares: np.ndarray
    counts: np.ndarray


def empty_gram(n_slots: int) -> Gram:
    """Buffers for `fill_gram`."""
    k = n_slots
    return Gram(np.zeros((k + 1, k + 1)), np.zeros((k + 1, k)), np.zeros(k), np.zeros(k))


@kernel
def fill_gram(gram, n_nodes, activations, outputs, heat):
    """Sums of products of all active slots.

    Parameters
    ----------
    gram : Gram
        Out.
    n_nodes : int
        Slots in use, from 0 on.
    activations, outputs : (K, N) float64
    heat : (K,) float64
        Power of each node's likelihood, 1 outside tempering; it scales that node's regression.
    """
    n = activations.shape[1]
    u, a = outputs[:n_nodes], activations[:n_nodes]
    inner = np.dot(u, u.T)
    cross = np.dot(u, a.T)
    gram.outputs[0, 0] = n
    for k in range(n_nodes):
        output = 0.0
        activation = 0.0
        square = 0.0
        for j in range(n):
            output += u[k, j]
            activation += a[k, j]
            square += a[k, j] * a[k, j]
        gram.outputs[0, 1 + k] = output
        gram.outputs[1 + k, 0] = output
        gram.crosses[0, k] = activation
        gram.squares[k] = square
        gram.counts[k] = heat[k] * n
        for i in range(n_nodes):
            gram.outputs[1 + k, 1 + i] = inner[k, i]
            gram.crosses[1 + k, i] = cross[k, i]


@bare_kernel
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


@bare_kernel
def move_gram(n_nodes, source, target, gram):
    """Copy the sums of one slot to another."""
    gram.counts[target] = gram.counts[source]
    gram.squares[target] = gram.squares[source]
    for i in range(n_nodes + 1):
        gram.outputs[1 + target, i] = gram.outputs[1 + source, i]
        gram.crosses[i, target] = gram.crosses[i, source]
    for i in range(n_nodes + 1):
        gram.outputs[i, 1 + target] = gram.outputs[i, 1 + source]
    for i in range(n_nodes):
        gram.crosses[1 + target, i] = gram.crosses[1 + source, i]


class RegressionWork(NamedTuple):
    """Scratch space of one regression with p regressors, the constant first.

    Parameters
    ----------
    chosen : (>= p,) int64
        Their indices in the Gram matrix.
    factor : (>= p, >= p) float64
        Lower triangle of the Cholesky factor of M = prior + rho X'X.
    half : (>= p,) float64
        Solution of L h = rho X'y.
    coefficients : (>= p,) float64
    """

    chosen: np.ndarray
    factor: np.ndarray
    half: np.ndarray
    coefficients: np.ndarray


def regression_work(n_slots: int) -> RegressionWork:
    """Scratch space for up to `n_slots` nodes."""
    k = n_slots + 1
    return RegressionWork(np.zeros(k, np.int64), np.zeros((k, k)), np.zeros(k), np.zeros(k))


@bare_kernel
def choose_regressors(parents, n_nodes, node, work):
    """Note the constant and the parents of a node as regressors; returns how many they are."""
    work.chosen[0] = 0
    p = 1
    for k in range(n_nodes):
        if parents[k, node]:
            work.chosen[p] = 1 + k
            p += 1
    return p


@bare_called_kernel
def _factorise(gram, node, p, precision, heat, prior, work):
    """Fill `factor` and `half` of the scratch space; returns log det M, in nats."""
    chosen, factor, half = work.chosen, work.factor, work.half
    scale = precision * heat
    log_det = 0.0
    for i in range(p):
        row = chosen[i]
        for j in range(i):
            value = scale * gram.outputs[row, chosen[j]]
            for k in range(j):
                value -= factor[i, k] * factor[j, k]
            factor[i, j] = value / factor[j, j]
        value = scale * gram.outputs[row, row] + (prior.bias_precision if i == 0 else prior.weight_precision)
        for k in range(i):
            value -= factor[i, k] * factor[i, k]
        factor[i, i] = math.sqrt(value)
        log_det += 2.0 * math.log(factor[i, i])
        value = scale * gram.crosses[row, node]
        for k in range(i):
            value -= factor[i, k] * half[k]
        half[i] = value / factor[i, i]
    return log_det


@bare_kernel
def log_evidence(gram, node, p, precision, heat, prior, work):
    """Log density of a node's activations given its parents' outputs and its precision, weights and bias summed out.

    In nats: N/2 log(rho / 2 pi) - rho y'y / 2 + (log det P - log det M + c' M^-1 c) / 2 with P the prior precisions.

    Parameters
    ----------
    gram : Gram
    node, p : int
        The node, and the number of its regressors in the scratch space.
    precision, heat : float
        Of the node; heat is the power of its likelihood.
    prior : NetworkPrior
    work : RegressionWork
    """
    log_det = _factorise(gram, node, p, precision, heat, prior, work)
    explained = 0.0
    for i in range(p):
        explained += work.half[i] * work.half[i]
    log_prior = math.log(prior.bias_precision) + (p - 1) * math.log(prior.weight_precision)
    count = gram.counts[node]
    return (
        0.5 * count * (math.log(precision) - LOG_2PI)
        - 0.5 * precision * heat * gram.squares[node]
        + 0.5 * (log_prior - log_det + explained)
    )


@bare_kernel
def draw_coefficients(rng, gram, node, p, precision, heat, prior, work):
    """Bias and weights from their normal conditional N(M^-1 c, M^-1), into `coefficients` of the scratch space."""
    coefficients = work.coefficients
    _factorise(gram, node, p, precision, heat, prior, work)
    for i in range(p):
        coefficients[i] = work.half[i] + rng.standard_normal()
    for i in range(p - 1, -1, -1):
        value = coefficients[i]
        for k in range(i + 1, p):
            value -= work.factor[k, i] * coefficients[k]
        coefficients[i] = value / work.factor[i, i]


@bare_kernel
def residual_square(gram, node, p, work):
    """Sum over the data of the squared residuals of a node's regression."""
    chosen, coefficients = work.chosen, work.coefficients
    total = gram.squares[node]
    for i in range(p):
        inner = 0.0
        for j in range(p):
            inner += gram.outputs[chosen[i], chosen[j]] * coefficients[j]
        total += coefficients[i] * (inner - 2.0 * gram.crosses[chosen[i], node])
    return max(total, 0.0)


@bare_kernel
def draw_precision(rng, count, square, prior):
    """A node's precision given `count` residuals with the sum of squares `square`."""
    return math.exp(log_gamma_draw(rng, prior.precision_shape + 0.5 * count)) / (prior.precision_rate + 0.5 * square)


@bare_called_kernel
def draw_node_parameters(rng, gram, n_nodes, node, network, heat, prior, work):
    """Bias and weights of one node given its precision, then the precision given them."""
    p = choose_regressors(network.parents, n_nodes, node, work)
    draw_coefficients(rng, gram, node, p, network.precisions[node], heat[node], prior, work)
    network.biases[node] = work.coefficients[0]
    for k in range(n_nodes):
        network.weights[k, node] = 0.0
    for i in range(1, p):
        network.weights[work.chosen[i] - 1, node] = work.coefficients[i]
    square = residual_square(gram, node, p, work)
    network.precisions[node] = draw_precision(rng, gram.counts[node], heat[node] * square, prior)
