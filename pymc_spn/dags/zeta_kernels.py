"""Sums over subsets and supersets of a table with 2^k entries, in linear and in log space."""

import math

import numpy as np

from pymc_spn.dags.bit_kernels import lowest_bit
from pymc_spn.numerics.elementary import fast_exp, fast_log
from pymc_spn.numerics.kernel_options import kernel

LINEAR_RANGE = 1240.0  # nats between the largest score and the smallest that matters, for linear sums
HEADROOM = 600.0  # the largest score is worth exp(HEADROOM), so that 2^26 of them stay finite
_BLOCK = 12  # 2^12 doubles fit the first-level cache


@kernel
def subset_sums(a):
    """In place: entry m becomes the sum over all subsets of m. Blocked, so that small bits stay in the cache."""
    n = a.size
    block = min(n, 1 << _BLOCK)
    for start in range(0, n, block):
        half = 1
        while half < block:
            for low in range(start, start + block, 2 * half):
                for m in range(low, low + half):
                    a[m + half] += a[m]
            half *= 2
    half = block
    while half < n:
        for low in range(0, n, 2 * half):
            for m in range(low, low + half):
                a[m + half] += a[m]
        half *= 2


@kernel
def superset_sums(a):
    """In place: entry m becomes the sum over all supersets of m."""
    n = a.size
    block = min(n, 1 << _BLOCK)
    for start in range(0, n, block):
        half = 1
        while half < block:
            for low in range(start, start + block, 2 * half):
                for m in range(low, low + half):
                    a[m] += a[m + half]
            half *= 2
    half = block
    while half < n:
        for low in range(0, n, 2 * half):
            for m in range(low, low + half):
                a[m] += a[m + half]
        half *= 2


@kernel
def log_add(x, y):
    """log(exp x + exp y); -inf is zero."""
    high = max(x, y)
    if high == -math.inf:
        return high
    return high + math.log1p(math.exp(min(x, y) - high))


@kernel
def log_subset_sums(a):
    """In place: entry m of a table of logs becomes the log of the sum over all subsets of m."""
    half = 1
    while half < a.size:
        for low in range(0, a.size, 2 * half):
            for m in range(low, low + half):
                a[m + half] = log_add(a[m + half], a[m])
        half *= 2


@kernel
def log_superset_sums(a):
    """In place: entry m of a table of logs becomes the log of the sum over all supersets of m."""
    half = 1
    while half < a.size:
        for low in range(0, a.size, 2 * half):
            for m in range(low, low + half):
                a[m] = log_add(a[m], a[m + half])
        half *= 2


@kernel
def fits_linear(log_scores):
    """Whether sums of exp(score) over subsets are exact to rounding in linear space.

    What underflows is then smaller than the last digit of every sum that holds the empty set; where the empty set
    has score -inf, no finite score may underflow.
    """
    top = -math.inf
    bottom = math.inf
    for x in log_scores:
        if x > top:
            top = x
        if x != -math.inf and x < bottom:
            bottom = x
    if log_scores[0] != -math.inf:
        bottom = log_scores[0]
    return top - bottom < LINEAR_RANGE


@kernel
def _offset_subset_sums(log_scores, out):
    """Sums over subsets of exp(score - offset) in `out`; returns the offset, -inf if every score is -inf."""
    top = -math.inf
    for x in log_scores:
        top = max(top, x)
    if top == -math.inf:
        out[:] = 0.0
        return top
    offset = top - HEADROOM
    for m in range(log_scores.size):
        x = log_scores[m] - offset
        out[m] = fast_exp(x) if x > -708.0 else 0.0
    subset_sums(out)
    return offset


@kernel
def linear_subset_sums(log_scores, out):
    """Sums over subsets of exp(score), scaled to be 1 for the whole set; returns the log of the scale.

    Parameters
    ----------
    log_scores : (2^k,) float64
    out : (2^k,) float64
        Out: zero where a sum is more than 708 nats below that of the whole set.

    Returns
    -------
    float
        log of the sum over all sets; -inf if there is none with positive score.
    """
    offset = _offset_subset_sums(log_scores, out)
    if offset == -math.inf:
        return offset
    total = out[out.size - 1]
    scale = 1.0 / total
    for m in range(out.size):
        out[m] *= scale
    return math.log(total) + offset


@kernel
def log_sums_of(log_scores, out):
    """Logs of the sums over subsets of exp(score), by the linear path where it is exact."""
    if fits_linear(log_scores):
        offset = _offset_subset_sums(log_scores, out)
        for m in range(out.size):
            out[m] = offset + fast_log(out[m]) if out[m] > 0.0 else -math.inf
    else:
        out[:] = log_scores
        log_subset_sums(out)


@kernel
def all_log_sums(offsets, log_scores, out):
    """`log_sums_of` for every variable of a flat table."""
    for i in range(offsets.size - 1):
        log_sums_of(log_scores[offsets[i] : offsets[i + 1]], out[offsets[i] : offsets[i + 1]])


@kernel
def add_by_bits(terms, out):
    """Add to entry m of a table the sum of the terms of its set bits."""
    running = np.zeros(out.size)
    for m in range(1, out.size):
        running[m] = running[m & (m - 1)] + terms[lowest_bit(m)]
        out[m] += running[m]
