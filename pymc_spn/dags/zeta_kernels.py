"""Sums over subsets and supersets of a table with 2^k entries, in linear and in log space."""

import math

import numpy as np
from numba import njit

from pymc_spn.numerics.elementary import fast_exp, fast_log
from pymc_spn.numerics.kernel_options import inner_kernel, kernel
from pymc_spn.numerics.lanes import LANES, add, load, store, subset_sums_inside, superset_sums_inside

LINEAR_RANGE = 1240.0  # nats between the largest score and the smallest that matters, for linear sums
TINY = 1e-283  # below this a linear sum counts as lost
HEADROOM = 600.0  # the largest score is worth exp(HEADROOM), so that 2^26 of them stay finite
SMALL = 64  # entries of the smallest table that is worked on in vectors
FIRST_LEVEL = 64  # groups of eight entries, 4 kilobytes: three bits more than the six inside 64 entries
SECOND_LEVEL = 4096  # groups, 256 kilobytes


# Reductions over a table vectorise only if they may be regrouped; there is no NaN in one.
_reduction = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "nsz", "nnan", "contract"})


@_reduction
def fold(p, q):
    """Add q to p; the sum of q is returned."""
    total = 0.0
    for m in range(p.size):
        total += q[m]
        p[m] += q[m]
    return total


@inner_kernel
def _small_sums(a, upward):
    """Sums over a table too small for groups of eight times eight."""
    half = 1
    while half < a.size:
        for low in range(0, a.size, 2 * half):
            for m in range(low, low + half):
                if upward:
                    a[m] += a[m + half]
                else:
                    a[m + half] += a[m]
        half *= 2


@inner_kernel
def _three_bits(a, low, half, upward):
    """Sums over the bits that are worth `half`, 2 `half` and 4 `half` groups, of 8 `half` groups from group `low`."""
    for g in range(low, low + half):
        v0, v1, v2, v3 = load(a, g), load(a, g + half), load(a, g + 2 * half), load(a, g + 3 * half)
        h = g + 4 * half
        v4, v5, v6, v7 = load(a, h), load(a, h + half), load(a, h + 2 * half), load(a, h + 3 * half)
        if upward:
            v0, v2, v4, v6 = add(v0, v1), add(v2, v3), add(v4, v5), add(v6, v7)
            v0, v1, v4, v5 = add(v0, v2), add(v1, v3), add(v4, v6), add(v5, v7)
            v0, v1, v2, v3 = add(v0, v4), add(v1, v5), add(v2, v6), add(v3, v7)
        else:
            v1, v3, v5, v7 = add(v1, v0), add(v3, v2), add(v5, v4), add(v7, v6)
            v2, v3, v6, v7 = add(v2, v0), add(v3, v1), add(v6, v4), add(v7, v5)
            v4, v5, v6, v7 = add(v4, v0), add(v5, v1), add(v6, v2), add(v7, v3)
        store(a, g, v0)
        store(a, g + half, v1)
        store(a, g + 2 * half, v2)
        store(a, g + 3 * half, v3)
        store(a, h, v4)
        store(a, h + half, v5)
        store(a, h + 2 * half, v6)
        store(a, h + 3 * half, v7)


@inner_kernel
def _one_bit(a, low, half, upward):
    for g in range(low, low + half):
        v0, v1 = load(a, g), load(a, g + half)
        if upward:
            store(a, g, add(v0, v1))
        else:
            store(a, g + half, add(v1, v0))


@inner_kernel
def _higher_bits(a, start, stop, half, upward):
    """Sums over the bits from `half` groups to all of the groups from `start` to `stop`, in as few sweeps as may be."""
    size = stop - start
    while 8 * half <= size:
        for low in range(start, stop, 8 * half):
            _three_bits(a, low, half, upward)
        half *= 8
    while 2 * half <= size:
        for low in range(start, stop, 2 * half):
            _one_bit(a, low, half, upward)
        half *= 2


@inner_kernel
def _first_level(a, start, stop, upward):
    """All bits of the groups from `start` to `stop`, a power of two of at least 8 that the first-level cache holds."""
    for g in range(start, stop):
        if upward:
            store(a, g, superset_sums_inside(load(a, g)))
        else:
            store(a, g, subset_sums_inside(load(a, g)))
    _higher_bits(a, start, stop, 1, upward)


@kernel
def sums_inside(a, upward):
    """In place: entry m becomes the sum over all subsets of m, or supersets.

    Parameters
    ----------
    a : (2^k,) float64
    upward : bool
        Whether over supersets.
    """
    if a.size < SMALL:
        _small_sums(a, upward)
        return
    n = a.size // LANES
    first, second = min(n, FIRST_LEVEL), min(n, SECOND_LEVEL)
    for start in range(0, n, second):
        for low in range(start, start + second, first):
            _first_level(a, low, low + first, upward)
        _higher_bits(a, start, start + second, first, upward)
    _higher_bits(a, 0, n, second, upward)


@inner_kernel
def log_add(x, y):
    """log(exp x + exp y); -inf is zero."""
    high = max(x, y)
    if high == -math.inf:
        return high
    return high + math.log1p(math.exp(min(x, y) - high))


@kernel
def log_sums_inside(a, upward):
    """In place: entry m of a table of logs becomes the log of the sum over all subsets of m, or supersets."""
    half = 1
    while half < a.size:
        for low in range(0, a.size, 2 * half):
            for m in range(low, low + half):
                if upward:
                    a[m] = log_add(a[m], a[m + half])
                else:
                    a[m + half] = log_add(a[m + half], a[m])
        half *= 2


@inner_kernel
def _exponential_sums(log_scores, offset, out):
    """Sums over subsets of exp(score - offset)."""
    for m in range(log_scores.size):
        x = log_scores[m] - offset
        out[m] = fast_exp(x) if x > -708.0 else 0.0
    sums_inside(out, False)


@kernel
def linear_subset_sums(log_scores, top, out):
    """Sums over subsets of exp(score - top).

    Parameters
    ----------
    log_scores : (2^k,) float64
    top : float
        The largest of them, -inf if none is finite.
    out : (2^k,) float64
        Out.

    Returns
    -------
    sound : bool
        False if some sum is so small (650 nats below the largest score) that it is lost in linear space.
    """
    if top == -math.inf:
        out[:] = 0.0
        return True
    _exponential_sums(log_scores, top, out)
    if log_scores[0] > -math.inf:
        return out[0] >= TINY  # every other sum holds the empty set too
    low = 0
    for m in range(out.size):
        low += 1 if out[m] < TINY and (out[m] > 0.0 or log_scores[m] > -math.inf) else 0
    return low == 0


@kernel
def logs_of_linear_sums(log_scores, offset, out):
    """Logs of the sums over subsets of exp(score), taken in units of exp(offset)."""
    _exponential_sums(log_scores, offset, out)
    for m in range(out.size):
        out[m] = offset + fast_log(out[m]) if out[m] > 0.0 else -math.inf


def log_sums_of(log_scores, out):
    """Logs of the sums over subsets of exp(score): in linear space where that is exact to rounding, else in logs.

    What underflows must be smaller than the last digit of every sum that holds the empty set; where the empty set
    has score -inf, no finite score may underflow.
    """
    top, first = log_scores.max(), log_scores[0]
    bottom = first if first > -np.inf else log_scores.min(where=log_scores > -np.inf, initial=np.inf)
    if top > -np.inf and top - bottom < LINEAR_RANGE:
        logs_of_linear_sums(log_scores, top - HEADROOM, out)
        return
    out[:] = log_scores
    log_sums_inside(out, False)
