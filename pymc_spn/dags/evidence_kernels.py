"""The log evidence of a table over all graphs and its derivatives in the scores' hyperparameters.

The derivative of log Z in the score of a parent set is that set's posterior probability; the rest is the chain rule.
Sums run in logs: the hyperparameters may be anywhere.
"""

import math

import numpy as np

from pymc_spn.dags import bdeu_kernels
from pymc_spn.dags.bit_kernels import lowest_bit, subset_index
from pymc_spn.dags.zeta_kernels import log_add, log_subset_sums, log_superset_sums
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@inner_kernel
def bge_with_slope(matrix, t, n_rows, d, alpha_mu, alpha_w, out, slopes):
    """BGe scores of one variable over all subsets of its candidates, and their derivatives in t.

    Parameters
    ----------
    matrix : (k + 1, k + 1) float64
        Posterior scale matrix, t on its diagonal included; row 0 belongs to the child.
    t : float
    n_rows, d : int
    alpha_mu, alpha_w : float
    out, slopes : (2^k,) float64
        Out.
    """
    n = matrix.shape[0]
    schur = np.empty((n + 1, n, n))
    change = np.empty((n + 1, n, n))
    schur[n] = matrix
    change[n] = np.eye(n)
    held = np.full(n + 1, n)
    log_det = np.zeros(n + 1)
    log_det_change = np.zeros(n + 1)
    sizes = np.zeros(n + 1, np.int64)
    a = alpha_w - d
    unchecked = np.zeros(1, np.int64)
    for m in range(out.size):
        if must_stop_after(200, unchecked):
            return
        where = n
        if m:
            b = lowest_bit(m) + 1
            source = held[b + 1]
            pivot = schur[source, b, b]
            for r in range(b):
                f = schur[source, b, r] / pivot
                df = (change[source, b, r] - f * change[source, b, b]) / pivot
                for c in range(r + 1):
                    schur[b, r, c] = schur[source, r, c] - f * schur[source, b, c]
                    change[b, r, c] = change[source, r, c] - df * schur[source, b, c] - f * change[source, b, c]
            total = log_det[b + 1] + math.log(pivot)
            total_change = log_det_change[b + 1] + change[source, b, b] / pivot
            size = sizes[b + 1] + 1
            for level in range(b + 1):
                held[level] = b
                log_det[level] = total
                log_det_change[level] = total_change
                sizes[level] = size
            where = b
        k = sizes[0]
        power = ((a + k + 1) * (k + 1) - (a + k) * k) / 2
        exponent = (n_rows + a + k) / 2
        variance = schur[where, 0, 0]
        constant = 0.5 * math.log(alpha_mu / (n_rows + alpha_mu)) - n_rows / 2 * math.log(math.pi)
        constant += math.lgamma(exponent + 0.5) - math.lgamma((a + k + 1) / 2) + power * math.log(t)
        out[m] = constant - 0.5 * log_det[0] - (exponent + 0.5) * math.log(variance)
        slopes[m] = power / t - 0.5 * log_det_change[0] - (exponent + 0.5) * change[where, 0, 0] / variance


@kernel
def log_partition(lookup, offsets, must_precede, log_scores, posterior):
    """Log of the sum over all pairs of order and graph, and the posterior of every parent set.

    Parameters
    ----------
    lookup, offsets, must_precede : arrays of `LocalScores`
    log_scores : (offsets[-1],) float64
    posterior : (offsets[-1],) float64
        Out.
    """
    d = must_precede.size
    sums = log_scores.copy()
    for i in range(d):
        log_subset_sums(sums[offsets[i] : offsets[i + 1]])
    ahead = np.full(1 << d, -math.inf)
    behind = np.full(1 << d, -math.inf)
    full = ahead.size - 1
    ahead[0] = 0.0
    behind[full] = 0.0
    unchecked = np.zeros(1, np.int64)
    for s in range(1, full + 1):
        if must_stop_after(20 * d, unchecked):
            return 0.0
        for i in range(d):
            before = s ^ (1 << i)
            if (s >> i) & 1 and must_precede[i] & ~before == 0:
                ahead[s] = log_add(ahead[s], ahead[before] + sums[offsets[i] + subset_index(lookup, i, before)])
    total = ahead[full]
    posterior[:] = -math.inf
    for back in range(1, full + 1):
        if must_stop_after(40 * d, unchecked):
            return 0.0
        s = full - back
        for i in range(d):
            if not (s >> i) & 1 and must_precede[i] & ~s == 0:
                at = offsets[i] + subset_index(lookup, i, s)
                after = behind[s | (1 << i)]
                behind[s] = log_add(behind[s], after + sums[at])
                posterior[at] = log_add(posterior[at], ahead[s] + after - total)
    for i in range(d):
        log_superset_sums(posterior[offsets[i] : offsets[i + 1]])
    for m in range(posterior.size):
        x = posterior[m] + log_scores[m]
        posterior[m] = math.exp(x) if x > -math.inf else 0.0
    return total


@inner_kernel
def with_prior(lookup, offsets, must_precede, scores, slopes, log_prior, sizes, penalty, normaliser, gradient):
    """Log evidence and its derivatives in (score parameter, penalty).

    Parameters
    ----------
    scores, slopes : (offsets[-1],) float64
        Log marginal likelihoods and their derivatives.
    log_prior : (offsets[-1],) float64
        What does not depend on the penalty; -inf for impossible sets.
    sizes : (offsets[-1],) float64
        Number of parents.
    penalty : float
    normaliser : float
        Log of the sum of the prior over all pairs of order and graph; NaN to have it computed, with its derivative.
    gradient : (2,) float64
        Out.
    """
    posterior = np.empty(scores.size)
    prior = log_prior - penalty * sizes
    value = log_partition(lookup, offsets, must_precede, scores + prior, posterior)
    gradient[:] = 0.0
    for m in range(scores.size):
        if posterior[m] > 0.0:
            gradient[0] += posterior[m] * slopes[m]
            gradient[1] -= posterior[m] * sizes[m]
    if not math.isnan(normaliser):
        return value - normaliser
    value -= log_partition(lookup, offsets, must_precede, prior, posterior)
    for m in range(scores.size):
        gradient[1] += posterior[m] * sizes[m]
    return value


@kernel
def bge_evidence(
    parameters, scatter, n_rows, alphas, candidates, n_candidates, lookup, offsets, must_precede, log_prior, sizes,
    normaliser, gradient,
):  # fmt: skip
    """Log evidence under BGe at parameters (t, penalty); `scatter` (d, d, d) lacks t on its diagonal."""
    d = n_rows.size
    scores = np.empty(offsets[d])
    slopes = np.empty(offsets[d])
    t = parameters[0]
    for i in range(d):
        k = n_candidates[i]
        matrix = np.empty((k + 1, k + 1))
        rows = np.empty(k + 1, np.int64)
        rows[0] = i
        rows[1:] = candidates[i, :k]
        for r in range(k + 1):
            for c in range(k + 1):
                matrix[r, c] = scatter[i, rows[r], rows[c]] + (t if r == c else 0.0)
        part = slice(offsets[i], offsets[i + 1])
        bge_with_slope(matrix, t, n_rows[i], d, alphas[0], alphas[1], scores[part], slopes[part])
    return with_prior(
        lookup, offsets, must_precede, scores, slopes, log_prior, sizes, parameters[1], normaliser, gradient
    )


@kernel
def bdeu_evidence(
    parameters, codes, weights, n_levels, candidates, n_candidates, lookup, offsets, must_precede, log_prior, sizes,
    normaliser, gradient,
):  # fmt: skip
    """Log evidence under BDeu at parameters (ess, penalty); `weights` (d, N) counts each distinct row by child."""
    d = n_levels.size
    scores = np.empty(offsets[d])
    slopes = np.empty(offsets[d])
    nothing = np.empty(0, np.int64)
    for i in range(d):
        part = slice(offsets[i], offsets[i + 1])
        bdeu_kernels.family_table(
            codes, weights[i], n_levels, i, nothing, candidates[i, : n_candidates[i]], parameters[0], scores[part],
            slopes[part],
        )  # fmt: skip
    return with_prior(
        lookup, offsets, must_precede, scores, slopes, log_prior, sizes, parameters[1], normaliser, gradient
    )
