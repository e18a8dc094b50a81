"""Exact posterior means of total causal effects in linear Gaussian networks, by recursion over prefixes."""

import math

import numpy as np

from pymc_spn.dags.bge_kernels import eliminate
from pymc_spn.dags.bit_kernels import lowest_bit
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import kernel


@kernel
def regression_means(matrix, out):
    """Posterior mean coefficients of one variable on its candidates, for all parent sets.

    Parameters
    ----------
    matrix : (k + 1, k + 1) float64
        Posterior scale matrix; row 0 belongs to the child.
    out : (2^k, k) float64
        Out: zero for those that are not in the set.
    """
    n = matrix.shape[0]
    k = n - 1
    schur = np.empty((n + 1, n, n))
    slope = np.zeros((n + 1, n, n))  # coefficients of each remaining variable on those included
    schur[n] = matrix
    held = np.full(n + 1, n)
    out[0] = 0.0
    unchecked = np.zeros(1, np.int64)
    for m in range(1, 1 << k):
        if must_stop_after(20 * k, unchecked):
            return
        b = lowest_bit(m) + 1
        source = held[b + 1]
        above = schur[source]
        inverse = eliminate(above, b, schur[b])
        for r in range(b):
            f = above[b, r] * inverse
            for c in range(b + 1, n):
                slope[b, r, c] = slope[source, r, c] - f * slope[source, b, c]
            slope[b, r, b] = f
            for c in range(b):
                slope[b, r, c] = 0.0
        for level in range(b + 1):
            held[level] = b
        for c in range(k):
            out[m, c] = slope[b, 0, c + 1]


@kernel
def average_inside(logs, values):
    """In place: values (2^k, k) of all sets become means over the sets inside each, weighted by the exp of their logs.

    Means are convex combinations in the order of the subset transform, so nothing cancels. The logs are lost.
    """
    unchecked = np.zeros(1, np.int64)
    half = 1
    while half < logs.size:
        for low in range(0, logs.size, 2 * half):
            if must_stop_after((20 + values.shape[1]) * half, unchecked):
                return
            for m in range(low, low + half):
                if logs[m] == -math.inf:
                    continue
                top = max(logs[m], logs[m + half])
                less, more = math.exp(logs[m] - top), math.exp(logs[m + half] - top)
                share = less / (less + more)
                for c in range(values.shape[1]):
                    values[m + half, c] += share * (values[m, c] - values[m + half, c])
                logs[m + half] = top + math.log(less + more)
        half *= 2


@kernel
def effects_of(cause, ptr, source, variable, places, from_source, prefix, candidates, n_candidates, means, out):
    """Posterior mean total effect of one variable on every other.

    Parameters
    ----------
    cause : int
    ptr, source, variable : arrays of `PrefixLattice`
    places : (e,) int64
        Row of `means` that belongs to each edge.
    from_source, prefix : (e,), (n,) float64
        Shares from `lattice_kernels`.
    candidates, n_candidates : arrays of `LocalScores`
    means : (offsets[-1], K) float64
        Rows of `regression_means` of all variables, padded to the widest.
    out : (n, d) float64
        Scratch; the last row is the answer.

    Notes
    -----
    Given the prefix, the parents of the variable that follows are independent of the order inside it, and so is the
    posterior of its coefficients. So the mean of a sum over paths is the sum of products of means.
    """
    out[0] = 0.0
    unchecked = np.zeros(1, np.int64)
    for t in range(1, ptr.size - 1):
        if must_stop_after(4 * out.shape[1] * (ptr[t + 1] - ptr[t]), unchecked):
            return
        out[t] = 0.0
        if prefix[t] == 0.0:
            continue
        for e in range(ptr[t], ptr[t + 1]):
            share = from_source[e]
            if share == 0.0:
                continue
            i = variable[e]
            s = source[e]
            effect = 0.0
            if i == cause:
                effect = 1.0
            else:
                for c in range(n_candidates[i]):
                    effect += means[places[e], c] * out[s, candidates[i, c]]
            for j in range(out.shape[1]):
                out[t, j] += share * out[s, j]
            out[t, i] += share * effect
