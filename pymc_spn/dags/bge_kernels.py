"""Principal minors of a positive definite matrix, and the BGe score of every set of candidate parents.

All 2^n determinants come from one pass over the subsets in the order of counting. The Schur complement after the
variables of the high bits is kept for each level. A step from one subset to the next redoes only the levels below the
bit that changed: about six operations for each subset.
"""

import math

import numpy as np

from pymc_spn.dags.bit_kernels import lowest_bit
from pymc_spn.numerics.elementary import fast_log
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@inner_kernel
def eliminate(above, b, below):
    """First b rows of the Schur complement of row b of `above`, into `below`; one over the pivot is returned."""
    inverse = 1.0 / above[b, b]
    for r in range(b):
        f = above[b, r] * inverse
        for c in range(r + 1):
            below[r, c] = above[r, c] - f * above[b, c]
    return inverse


@kernel
def log_minors(matrix, log_det_out, variance_out):
    """Log determinants of all principal submatrices, perhaps with what is left of a further variable given each.

    Parameters
    ----------
    matrix : (n, n) float64 or complex128
        Symmetric positive definite, perhaps with a small imaginary part that carries a derivative.
    log_det_out : (2^k,) float64
        Out: entry m belongs to the last k rows whose bit is set in m; entry 0 is 0. k is n, or n - 1.
    variance_out : (2^k,) float64
        Out where k is n - 1: Schur complement of row 0 given each set.
    """
    n = matrix.shape[0]
    schur = np.empty((n + 1, n, n), matrix.dtype)
    schur[n] = matrix
    held = np.full(n + 1, n)  # which buffer holds the complement of each level
    log_det = np.zeros(n + 1, matrix.dtype)
    first = 1 if variance_out.size else 0
    log_det_out[0] = 0.0
    if first:
        variance_out[0] = matrix[0, 0]
    unchecked = np.zeros(1, np.int64)
    for m in range(1, log_det_out.size):
        if must_stop_after(50, unchecked):
            return
        b = lowest_bit(m) + first
        above = schur[held[b + 1]]
        eliminate(above, b, schur[b])
        value = log_det[b + 1] + np.log(above[b, b])
        for level in range(b + 1):
            held[level] = b
            log_det[level] = value
        log_det_out[m] = value
        if first:
            variance_out[m] = schur[b, 0, 0]


def full_tables(log_det, constants, exponents, out):
    """BGe scores of all parent sets of all variables from one table of minors.

    Parameters
    ----------
    log_det : (2^d,) float64
        From `log_minors`.
    constants, exponents : (d,) float64
        By number of parents l: all terms without data, and (N + alpha_w - d + l) / 2.
    out : (d, 2^(d-1)) float64
        Out: log marginal likelihoods; bit k of the column index is the k-th other variable in ascending order.
    """
    sizes = np.bitwise_count(np.arange(out.shape[1]))
    constant, exponent, more = constants[sizes], exponents[sizes], exponents[sizes] + 0.5
    scratch = np.empty(sizes.size)
    for i, own in enumerate(out):
        parents, families = log_det.reshape(-1, 2, 1 << i).swapaxes(0, 1)
        shape = parents.shape
        np.multiply(more.reshape(shape), families, out=own.reshape(shape))
        np.multiply(exponent.reshape(shape), parents, out=scratch.reshape(shape))
        np.subtract(constant, own, out=own)
        own += scratch


@kernel
def family_table(matrix, constants, exponents, out):
    """BGe scores of one variable over all subsets of its candidates.

    Parameters
    ----------
    matrix : (k + 1, k + 1) float64 or complex128
        Posterior scale matrix; row 0 belongs to the child.
    constants, exponents : (d,) float64
        As in `full_tables`.
    out : (2^k,) of the matrix's type
        Out: log marginal likelihoods.
    """
    log_det, variance = np.empty(out.size, matrix.dtype), np.empty(out.size, matrix.dtype)
    log_minors(matrix, log_det, variance)
    n_parents = np.zeros(out.size, np.int64)
    for m in range(out.size):
        if m:
            n_parents[m] = n_parents[m & (m - 1)] + 1
        n = n_parents[m]
        out[m] = constants[n] - 0.5 * log_det[m] - (exponents[n] + 0.5) * np.log(variance[m])


@kernel
def scan_additions(matrix, n_base, log_det, carried, terms, base_terms, terms_by_size, exponents, best):
    """Best score of the child with S and u as parents, over all sets S that hold the base, for every further u.

    The columns of all u are carried through one recursion over the subsets of the other members of S.

    Parameters
    ----------
    matrix : (k + 1, k + 1) float64
        Schur complement after the base of: the child (row 0) and k free candidates.
    n_base : int
        Number of parents in the base.
    log_det : float
        Log determinant of the base.
    carried : (k + 2, n_u) float64
        Row r <= k: Schur complement between row r of `matrix` and each u; row k + 1: of u with itself.
    terms, base_terms : (k + n_u,), float
        Log prior of the edges from the free candidates and from each u, and of those of the base.
    terms_by_size, exponents : (d,) float64
        Log prior by size plus constant of the score, and exponent, by number of parents; -inf forbids a size.
    best : (n_u,) float64
        Raised to the best score found.
    """
    n = matrix.shape[0]
    k = n - 1
    n_u = best.size
    schur = np.empty((n + 1, n, n))
    schur[n] = matrix
    cross = np.empty((n + 1, n, n_u))
    own = np.empty((n + 1, n_u))
    cross[n] = carried[:n]
    own[n] = carried[n]
    held = np.full(n + 1, n)
    log_dets = np.full(n + 1, log_det)
    priors = np.full(n + 1, base_terms)
    sizes = np.full(n + 1, n_base)
    value = np.empty(n_u)
    unchecked = np.zeros(1, np.int64)
    for m in range(1 << k):
        if must_stop_after(20 * n_u, unchecked):
            return
        where = n
        if m:
            b = lowest_bit(m) + 1
            source = held[b + 1]
            above = schur[source]
            inverse = eliminate(above, b, schur[b])
            for r in range(b):
                f = above[b, r] * inverse
                for u in range(n_u):
                    cross[b, r, u] = cross[source, r, u] - f * cross[source, b, u]
            for u in range(n_u):
                own[b, u] = own[source, u] - cross[source, b, u] * cross[source, b, u] * inverse
            total = log_dets[b + 1] + math.log(above[b, b])
            prior = priors[b + 1] + terms[b - 1]
            size = sizes[b + 1] + 1
            for level in range(b + 1):
                held[level] = b
                log_dets[level] = total
                priors[level] = prior
                sizes[level] = size
            where = b
        size = sizes[0] + 1
        if size >= terms_by_size.size or terms_by_size[size] == -math.inf:
            continue
        start = terms_by_size[size] + priors[0] - 0.5 * log_dets[0]
        power = exponents[size] + 0.5
        variance = schur[where, 0, 0]
        for u in range(n_u):
            c = cross[where, 0, u]
            s = own[where, u]
            value[u] = start - 0.5 * fast_log(s) - power * fast_log(variance - c * c / s)
        for u in range(n_u):
            best[u] = max(best[u], value[u] + terms[k + u])
