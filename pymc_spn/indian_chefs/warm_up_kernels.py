"""Pooled marginal likelihood of a belief network and its gradient, by reverse mode written out.

log p(x_n) is estimated by log (1/M) sum_m N(a_n; mu(h_m), diag 1/rho) with hidden vectors h_m shared by all data. They
are written as functions of fixed noise, a_k = mu_k + eps_k / sqrt(rho_k). The estimate is biased low at finite M; it is
a means to find starts and is no part of a sampler. Single precision: the noise of a minibatch is far above it.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.indian_chefs.pool_kernels import largest, reduction, total
from pymc_spn.numerics.elementary import fast_exp32
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import kernel

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
def forward(rng, n_observed, order, parents, parameters, work):
    """Fresh noise, outputs of hidden units, and means of observed ones in the rows 0..D-1 of `outputs`.

    Parameters
    ----------
    order : (n,) int64
        Parents before children.
    parents : (n, n) uint8
    parameters : (n + 2, n) float64
        Weights, then biases, then log precisions.
    work : WarmUpWork
    """
    m, n = work.responsibility.size, order.size
    for i in order:
        u, noise = work.outputs[i], work.noise[i]
        bias = np.float32(parameters[n, i])
        for j in range(m):
            u[j] = bias
        for k in range(n):
            if parents[k, i]:
                w = np.float32(parameters[k, i])
                parent = work.outputs[k]
                for j in range(m):
                    u[j] += w * parent[j]
        if i >= n_observed:
            deviation = np.float32(math.exp(-0.5 * parameters[n + 1, i]))
            for j in range(m):
                noise[j] = np.float32(rng.standard_normal())
            for j in range(m):
                a = u[j] + deviation * noise[j]
                u[j] = np.float32(1.0) / (np.float32(1.0) + fast_exp32(min(-a, np.float32(80.0))))


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
        top = largest(r)
        for j in range(m):
            r[j] = fast_exp32(max(r[j] - top, _NEGLIGIBLE))
        all_shares = total(r, 0, m)
        log_likelihood += constant + top + math.log(all_shares)
        if not with_sums:
            continue
        inverse = np.float32(1.0) / all_shares
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


@reduction
def backward(n_observed, order, parents, parameters, work, gradient):
    """Gradient (n + 2, n) of the pooled log likelihood of `responsibilities`, 0 where there is no edge.

    It must not call `fast_exp32`: that is inlined, takes over the order of sums, and loses its rounding.
    """
    m, n = work.responsibility.size, order.size
    work.back[:] = np.float32(0.0)
    gradient[:] = 0.0
    for i in order[::-1]:
        back = work.back[i]  # holds the derivative with respect to u_i of hidden units
        u = work.outputs[i]
        if i < n_observed:
            rho = np.float32(math.exp(parameters[n + 1, i]))
            weight, first, second = work.sums[0], work.sums[1 + 2 * i], work.sums[2 + 2 * i]
            count = np.float32(0.0)
            square = np.float32(0.0)
            for j in range(m):
                back[j] = rho * (first[j] - u[j] * weight[j])
                count += weight[j]
                square += second[j] - np.float32(2.0) * u[j] * first[j] + u[j] * u[j] * weight[j]
            gradient[n + 1, i] = 0.5 * (count - rho * square)
        else:
            deviation = np.float32(math.exp(-0.5 * parameters[n + 1, i]))
            noise = work.noise[i]
            spread = np.float32(0.0)
            for j in range(m):
                back[j] *= u[j] * (np.float32(1.0) - u[j])
                spread += noise[j] * back[j]
            gradient[n + 1, i] = -0.5 * deviation * spread
        gradient[n, i] = total(back, 0, m)
        for k in range(n):
            if parents[k, i]:
                w = np.float32(parameters[k, i])
                parent, parent_back = work.outputs[k], work.back[k]
                inner = np.float32(0.0)
                for j in range(m):
                    inner += back[j] * parent[j]
                    parent_back[j] += w * back[j]
                gradient[k, i] = inner
