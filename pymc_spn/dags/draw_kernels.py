"""Drawing and maximising parent sets inside a prefix, from a variable's parent sets in descending order of score."""

import math

import numpy as np

from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@kernel
def first_inside(ranked, log_scores, inside):
    """Best parent set inside a prefix; -1 if there is none.

    Parameters
    ----------
    ranked : (2^k,) int32
        Subset indices by descending score.
    log_scores : (2^k,) float64
    inside : int
        Candidates in the prefix, as a subset index.
    """
    for r in range(ranked.size):
        m = ranked[r]
        if log_scores[m] == -math.inf:
            return -1
        if m & ~inside == 0:
            return m
    return -1


@inner_kernel
def draw_inside(rng, ranked, log_scores, log_sum, inside):
    """Parent set drawn in proportion to exp(score) among the subsets of a prefix.

    Parameters
    ----------
    log_sum : float
        Log of the sum over these subsets.
    """
    left = rng.random()
    last = -1
    for r in range(ranked.size):
        m = ranked[r]
        if log_scores[m] == -math.inf:
            break
        if m & ~inside == 0:
            last = m
            left -= math.exp(log_scores[m] - log_sum)
            if left < 0.0:
                break
    return last


@kernel
def draw_parents(rng, i, orders, slots, candidates, ranked, log_scores, log_sums, graphs):
    """Parents of one variable in every draw, given the draw's order.

    Parameters
    ----------
    i : int
    orders : (n, d) int64
    slots, candidates : arrays of `LocalScores`
    ranked, log_scores, log_sums : (2^k,)
        Tables of variable i.
    graphs : (n, d, d) bool
        In and out: column i is filled.
    """
    unchecked = np.zeros(1, np.int64)
    for s in range(orders.shape[0]):
        if must_stop_after(ranked.size, unchecked):
            return
        inside = 0
        for j in orders[s]:
            if j == i:
                break
            if slots[i, j] >= 0:
                inside |= 1 << slots[i, j]
        m = draw_inside(rng, ranked, log_scores, log_sums[inside], inside)
        for k in range(candidates.shape[1]):
            if candidates[i, k] >= 0:
                graphs[s, candidates[i, k], i] = (m >> k) & 1


@kernel
def draw_orders(rng, ptr, source, variable, from_source, out):
    """Independent orders from the posterior, last variable first.

    Parameters
    ----------
    rng : numpy.random.Generator
    out : (n, d) int64
        Out.
    """
    d = out.shape[1]
    unchecked = np.zeros(1, np.int64)
    for s in range(out.shape[0]):
        if must_stop_after(10 * d * d, unchecked):
            return
        t = ptr.size - 2
        for back in range(d):
            left = rng.random()
            chosen = -1
            for e in range(ptr[t], ptr[t + 1]):
                if from_source[e] > 0.0:
                    chosen = e
                    left -= from_source[e]
                    if left < 0.0:
                        break
            out[s, d - 1 - back] = variable[chosen]
            t = source[chosen]


@kernel
def subset_maxima(a):
    """In place: entry m becomes the largest over all subsets of m."""
    half = 1
    while half < a.size:
        for low in range(0, a.size, 2 * half):
            for m in range(low, low + half):
                if a[m] > a[m + half]:
                    a[m + half] = a[m]
        half *= 2
