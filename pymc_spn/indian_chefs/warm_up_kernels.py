"""Pooled marginal likelihood of a belief network and its gradient, by reverse mode written out.

log p(x_n) is estimated by log (1/M) sum_m N(a_n; mu(h_m), diag 1/rho) with hidden vectors h_m shared by all data. They
are written as functions of fixed noise, a_k = mu_k + eps_k / sqrt(rho_k). The estimate is biased low at finite M; it is
a means to find starts and is no part of a sampler. Single precision: the noise of a minibatch is far above it.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from pymc_spn.numerics.elementary import fast_exp32
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

# Sums in any order; everything is finite. Not for functions that call `fast_exp32`: it is inlined, takes over these
# flags, and reassociation destroys its rounding.
_FLAGS = {"contract", "nsz", "nnan", "reassoc"}
_reduction = njit(cache=True, nogil=True, error_model="numpy", fastmath=_FLAGS)

# Log of a share of a datum that single precision does not see beside the largest. Lower shares count as this one: at
# the lowest value of `fast_exp32`, products with them would be subnormal, which takes ten times as long.
_NEGLIGIBLE = np.float32(-50.0)


class WarmUpWork(NamedTuple):
    """Single-precision buffers; a column for each pool member.

    Parameters
    ----------
    noise, outputs, back : (K, M) float32
        eps, u, and derivatives with respect to a.
    responsibility : (M,) float32
    sums : (1 + 2 D, M) float32
        Over data, of r, r a_d and r a_d^2.
    """

    noise: np.ndarray
    outputs: np.ndarray
    back: np.ndarray
    responsibility: np.ndarray
    sums: np.ndarray


def warm_up_work(n_slots: int, n_observed: int, n_draws: int) -> WarmUpWork:
    """Buffers for a pool of `n_draws`."""
    m = n_draws
    noise, outputs, back = (np.zeros((n_slots, m), np.float32) for _ in range(3))
    sums = np.zeros((1 + 2 * n_observed, m), np.float32)
    return WarmUpWork(noise, outputs, back, np.zeros(m, np.float32), sums)


@kernel
def draw_noise(rng, n_observed, n_nodes, work):
    """Fresh noise of all hidden units."""
    for k in range(n_observed, n_nodes):
        for j in range(work.responsibility.size):
            work.noise[k, j] = np.float32(rng.standard_normal())


@kernel
def forward(n_observed, n_nodes, order, parents, weights, biases, log_precisions, work):
    """Outputs of hidden units and means of observed ones, the latter in the rows 0..D-1 of `outputs`."""
    m = work.responsibility.size
    for place in range(n_nodes):
        i = order[place]
        u = work.outputs[i]
        bias = np.float32(biases[i])
        for j in range(m):
            u[j] = bias
        for k in range(n_nodes):
            if parents[k, i]:
                w = np.float32(weights[k, i])
                parent = work.outputs[k]
                for j in range(m):
                    u[j] += w * parent[j]
        if i >= n_observed:
            deviation = np.float32(math.exp(-0.5 * log_precisions[i]))
            noise = work.noise[i]
            for j in range(m):
                a = u[j] + deviation * noise[j]
                u[j] = np.float32(1.0) / (np.float32(1.0) + fast_exp32(min(-a, np.float32(80.0))))


@_reduction
def _largest(x):
    top = x[0]
    for j in range(x.size):
        top = max(top, x[j])
    return top


@_reduction
def _total(x):
    value = np.float32(0.0)
    for j in range(x.size):
        value += x[j]
    return value


@kernel
def responsibilities(data, rows, log_precisions, work, with_sums):
    """Pooled log likelihood of some rows of the data, in nats; with sums over them for the gradient.

    Parameters
    ----------
    data : (N, D) float32
        Activations of the observed nodes.
    rows : (B,) int64
    log_precisions : (>= D,) float64
    work : WarmUpWork
        Means in `outputs`; out: `sums`.
    with_sums : bool
    """
    m = work.responsibility.size
    n_columns = data.shape[1]
    constant = -math.log(m)
    for d in range(n_columns):
        constant += 0.5 * (log_precisions[d] - math.log(2.0 * math.pi))
    if with_sums:
        work.sums[:] = np.float32(0.0)
    r = work.responsibility
    log_likelihood = 0.0
    unchecked = np.zeros(1, np.int64)
    for n in rows:
        if must_stop_after((n_columns + 5) * m, unchecked):
            return log_likelihood
        for j in range(m):
            r[j] = np.float32(0.0)
        for d in range(n_columns):
            scale = np.float32(-0.5 * math.exp(log_precisions[d]))
            value = data[n, d]
            means = work.outputs[d]
            for j in range(m):
                error = value - means[j]
                r[j] += scale * error * error
        top = _largest(r)
        for j in range(m):
            r[j] = fast_exp32(max(r[j] - top, _NEGLIGIBLE))
        total = _total(r)
        log_likelihood += constant + top + math.log(total)
        if not with_sums:
            continue
        inverse = np.float32(1.0) / total
        weight = work.sums[0]
        for j in range(m):
            r[j] *= inverse
            weight[j] += r[j]
        for d in range(n_columns):
            value = data[n, d]
            square = value * value
            first, second = work.sums[1 + 2 * d], work.sums[2 + 2 * d]
            for j in range(m):
                first[j] += r[j] * value
                second[j] += r[j] * square
    return log_likelihood


@_reduction
def backward(
    n_observed, n_nodes, order, parents, weights, log_precisions, work, scale, weight_grad, bias_grad, precision_grad
):
    """Gradient of `scale` times the pooled log likelihood of `responsibilities`.

    Parameters
    ----------
    weight_grad : (K, K) float64
        Out, 0 where there is no edge.
    bias_grad, precision_grad : (K,) float64
        Out; the second with respect to log precisions.
    """
    m = work.responsibility.size
    for k in range(n_nodes):
        for j in range(m):
            work.back[k, j] = np.float32(0.0)
        bias_grad[k] = 0.0
        precision_grad[k] = 0.0
        for i in range(n_nodes):
            weight_grad[k, i] = 0.0
    for place in range(n_nodes - 1, -1, -1):
        i = order[place]
        back = work.back[i]  # holds the derivative with respect to u_i of hidden units
        u = work.outputs[i]
        if i < n_observed:
            rho = np.float32(math.exp(log_precisions[i]))
            weight, first, second = work.sums[0], work.sums[1 + 2 * i], work.sums[2 + 2 * i]
            count = np.float32(0.0)
            square = np.float32(0.0)
            for j in range(m):
                back[j] = rho * (first[j] - u[j] * weight[j])
                count += weight[j]
                square += second[j] - np.float32(2.0) * u[j] * first[j] + u[j] * u[j] * weight[j]
            precision_grad[i] = scale * 0.5 * (count - rho * square)
        else:
            deviation = np.float32(math.exp(-0.5 * log_precisions[i]))
            noise = work.noise[i]
            spread = np.float32(0.0)
            for j in range(m):
                back[j] *= u[j] * (np.float32(1.0) - u[j])
                spread += noise[j] * back[j]
            precision_grad[i] = -0.5 * scale * deviation * spread
        total = np.float32(0.0)
        for j in range(m):
            total += back[j]
        bias_grad[i] = scale * total
        for k in range(n_nodes):
            if parents[k, i]:
                w = np.float32(weights[k, i])
                parent, parent_back = work.outputs[k], work.back[k]
                inner = np.float32(0.0)
                for j in range(m):
                    inner += back[j] * parent[j]
                    parent_back[j] += w * back[j]
                weight_grad[k, i] = scale * inner


@kernel
def add_log_prior(n_nodes, parents, weights, biases, log_precisions, prior, weight_grad, bias_grad, precision_grad):
    """Log prior of the parameters (of the log precisions), in nats up to a constant; its gradient is added."""
    value = 0.0
    for i in range(n_nodes):
        value -= 0.5 * prior.bias_precision * biases[i] ** 2
        bias_grad[i] -= prior.bias_precision * biases[i]
        rho = math.exp(log_precisions[i])
        value += prior.precision_shape * log_precisions[i] - prior.precision_rate * rho
        precision_grad[i] += prior.precision_shape - prior.precision_rate * rho
        for k in range(n_nodes):
            if parents[k, i]:
                value -= 0.5 * prior.weight_precision * weights[k, i] ** 2
                weight_grad[k, i] -= prior.weight_precision * weights[k, i]
    return value


class Adam(NamedTuple):
    """First and second moments of the gradient of weights, biases and log precisions, stacked (K + 2, K)."""

    first: np.ndarray
    second: np.ndarray


def new_adam(n_slots: int) -> Adam:
    """Moments at zero."""
    return Adam(np.zeros((n_slots + 2, n_slots)), np.zeros((n_slots + 2, n_slots)))


@inner_kernel
def adam_step(parameters, gradient, adam, t, rate, decay_first, decay_second):
    """Ascent by Adam (Kingma and Ba 2015, algorithm 1); `t` counts from 1. All arrays are (K + 2, K)."""
    for r in range(parameters.shape[0]):
        for c in range(parameters.shape[1]):
            g = gradient[r, c]
            adam.first[r, c] = decay_first * adam.first[r, c] + (1.0 - decay_first) * g
            adam.second[r, c] = decay_second * adam.second[r, c] + (1.0 - decay_second) * g * g
            m = adam.first[r, c] / (1.0 - decay_first**t)
            v = adam.second[r, c] / (1.0 - decay_second**t)
            parameters[r, c] += rate * m / (math.sqrt(v) + 1e-8)


@kernel
def warm_up_steps(
    rng, data, n_observed, n_nodes, order, parents, parameters, adam, taken, rates, batch, prior, work, gradient
):
    """Ascent steps on the pooled log posterior, each with a fresh pool and a fresh minibatch.

    Parameters
    ----------
    rng : numpy.random.Generator
    data : (N, D) float32
    order : (n_nodes,) int64
        Parents before children.
    parents : (K, K) uint8
    parameters : (K + 2, K) float64
        In and out: weights, then biases, then log precisions.
    adam : Adam
    taken : int
        Steps taken before.
    rates : (T,) float64
    batch : int
    prior : NetworkPrior
    work : WarmUpWork
    gradient : (K + 2, K) float64
        Scratch space.
    """
    k = parents.shape[0]
    n_data = data.shape[0]
    weights, biases, log_precisions = parameters[:k], parameters[k], parameters[k + 1]
    unchecked = np.zeros(1, np.int64)
    for t in range(rates.size):
        if must_stop_after(batch * work.responsibility.size * n_observed, unchecked):
            return
        rows = np.arange(n_data) if batch >= n_data else rng.integers(0, n_data, batch)
        draw_noise(rng, n_observed, n_nodes, work)
        forward(n_observed, n_nodes, order, parents, weights, biases, log_precisions, work)
        responsibilities(data, rows, log_precisions, work, True)
        scale = n_data / rows.size
        backward(
            n_observed,
            n_nodes,
            order,
            parents,
            weights,
            log_precisions,
            work,
            scale,
            gradient[:k],
            gradient[k],
            gradient[k + 1],
        )
        add_log_prior(
            n_nodes, parents, weights, biases, log_precisions, prior, gradient[:k], gradient[k], gradient[k + 1]
        )
        for r in range(k + 2):
            for c in range(k):
                gradient[r, c] /= n_data
        adam_step(parameters, gradient, adam, taken + t + 1, rates[t], 0.9, 0.99)
        for i in range(n_observed, n_nodes):
            log_precisions[i] = min(max(log_precisions[i], -5.0), 8.0)
