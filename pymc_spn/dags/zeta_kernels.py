"""Sums over subsets and supersets of a table with 2^k entries, in linear and in log space."""

import math

import numpy as np
from numba import njit

from pymc_spn.dags.bit_kernels import lowest_bit
from pymc_spn.numerics.elementary import fast_exp, fast_log
from pymc_spn.numerics.kernel_options import kernel

LINEAR_RANGE = 1240.0  # nats between the largest score and the smallest that matters, for linear sums
TINY = 1e-283  # below this a linear sum counts as lost
HEADROOM = 600.0  # the largest score is worth exp(HEADROOM), so that 2^26 of them stay finite
_BLOCK = 12  # 2^12 doubles fit the first-level cache


# Reductions over a table vectorise only if they may be regrouped; there is no NaN in one.
_reduction = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "nsz", "nnan", "contract"})


@_reduction
def largest(a):
    """Largest entry, -inf if all are."""
    top = -math.inf
    for x in a:
        top = max(top, x)
    return top


@_reduction
def fold(p, q):
    """Add q to p; the sum of q is returned."""
    total = 0.0
    for m in range(p.size):
        total += q[m]
        p[m] += q[m]
    return total


@kernel
def _lowest_bits(a, start, stop):
    """Subset sums over the three lowest bits, eight entries at a time."""
    for m in range(start, stop, 8):
        a0, a1, a2, a3 = a[m], a[m + 1], a[m + 2], a[m + 3]
        a4, a5, a6, a7 = a[m + 4], a[m + 5], a[m + 6], a[m + 7]
        a1 += a0
        a3 += a2
        a5 += a4
        a7 += a6
        a2 += a0
        a3 += a1
        a6 += a4
        a7 += a5
        a[m + 1], a[m + 2], a[m + 3] = a1, a2, a3
        a[m + 4], a[m + 5], a[m + 6], a[m + 7] = a4 + a0, a5 + a1, a6 + a2, a7 + a3


@kernel
def _lowest_bits_up(a, start, stop):
    """Superset sums over the three lowest bits."""
    for m in range(start, stop, 8):
        a0, a1, a2, a3 = a[m], a[m + 1], a[m + 2], a[m + 3]
        a4, a5, a6, a7 = a[m + 4], a[m + 5], a[m + 6], a[m + 7]
        a0 += a1
        a2 += a3
        a4 += a5
        a6 += a7
        a0 += a2
        a1 += a3
        a4 += a6
        a5 += a7
        a[m], a[m + 1], a[m + 2], a[m + 3] = a0 + a4, a1 + a5, a2 + a6, a3 + a7
        a[m + 4], a[m + 5], a[m + 6] = a4, a5, a6


@kernel
def _two_bits(p, q, r, s):
    """Subset sums over two bits: the four quarters of a block."""
    for m in range(p.size):
        lower = p[m] + q[m]
        s[m] += r[m] + lower
        r[m] += p[m]
        q[m] = lower


@kernel
def _two_bits_up(p, q, r, s):
    """Superset sums over two bits."""
    for m in range(p.size):
        upper = r[m] + s[m]
        p[m] += q[m] + upper
        q[m] += s[m]
        r[m] = upper


@kernel
def _one_bit(p, q):
    for m in range(p.size):
        q[m] += p[m]


@kernel
def _higher_bits(a, half, upward):
    """Sums over the bits from `half` (a power of two) to the size of the array."""
    while 4 * half <= a.size:
        for low in range(0, a.size, 4 * half):
            p = a[low : low + half]
            q = a[low + half : low + 2 * half]
            r = a[low + 2 * half : low + 3 * half]
            s = a[low + 3 * half : low + 4 * half]
            if upward:
                _two_bits_up(p, q, r, s)
            else:
                _two_bits(p, q, r, s)
        half *= 4
    if 2 * half <= a.size:
        for low in range(0, a.size, 2 * half):
            if upward:
                _one_bit(a[low + half : low + 2 * half], a[low : low + half])
            else:
                _one_bit(a[low : low + half], a[low + half : low + 2 * half])


@kernel
def _sums(a, upward):
    if a.size < 8:
        _higher_bits(a, 1, upward)
        return
    block = min(a.size, 1 << _BLOCK)
    for start in range(0, a.size, block):
        part = a[start : start + block]
        if upward:
            _lowest_bits_up(part, 0, block)
        else:
            _lowest_bits(part, 0, block)
        _higher_bits(part, 8, upward)
    _higher_bits(a, block, upward)


@kernel
def subset_sums(a):
    """In place: entry m becomes the sum over all subsets of m. Blocked, so that small bits stay in the cache."""
    _sums(a, False)


@kernel
def superset_sums(a):
    """In place: entry m becomes the sum over all supersets of m."""
    _sums(a, True)


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
    top = largest(log_scores)
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
    """Sums over subsets of exp(score), scaled to be 1 for the whole set.

    Parameters
    ----------
    log_scores : (2^k,) float64
    out : (2^k,) float64
        Out.

    Returns
    -------
    log_scale : float
        Log of the sum over all sets; -inf if there is none with positive score.
    sound : bool
        False if some sum is so far below that of the whole set (650 nats) that it is lost in linear space.
    """
    offset = _offset_subset_sums(log_scores, out)
    if offset == -math.inf:
        return offset, True
    total = out[out.size - 1]
    scale = 1.0 / total
    low = 0
    for m in range(out.size):
        out[m] *= scale
        low += 1 if out[m] < TINY and (out[m] > 0.0 or log_scores[m] > -math.inf) else 0
    return math.log(total) + offset, low == 0


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


@kernel
def keep_sets(present, absent, table):
    """Rule out the subsets that lack a member of `present` or hold one of `absent` (bits of the index)."""
    for m in range(table.size):
        if m & present != present or m & absent:
            table[m] = -math.inf
