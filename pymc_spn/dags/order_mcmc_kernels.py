"""Orders: their log weight, draws of them, and graphs and edge probabilities given an order."""

import math

import numpy as np
from numba.extending import register_jitable

from pymc_spn.dags.bit_kernels import popcount, subset_index
from pymc_spn.dags.order_gibbs_kernels import add_before, weight_inside
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel
from pymc_spn.numerics.read_only_views import read_only_view

FEW = 9  # candidates, for `draw_set`


@kernel
def order_of_positions(positions, order):
    """Variables from first to last; False if the positions are not 0, ..., d - 1, each once."""
    order[:] = -1
    for i in range(positions.size):
        p = positions[i]
        if p < 0 or p >= positions.size or order[p] >= 0:
            return False
        order[p] = i
    return True


@register_jitable
def positions_log_weight(positions, slots, offsets, log_sums, precede):
    """Log weight of an order with parent sets summed out, from the position of each variable.

    It is -inf if positions are no order, or break what must precede.

    Parameters
    ----------
    positions : (d,) int64
    slots, offsets, log_sums, precede : arrays of `LocalScores`
        The last is its `must_precede`.
    """
    arrays = read_only_view(slots), read_only_view(offsets), read_only_view(log_sums), read_only_view(precede)
    return _positions_log_weight(positions, *arrays)


@kernel
def _positions_log_weight(positions, slots, offsets, log_sums, precede):
    d = positions.size
    order, inside = np.empty(d, np.int64), np.zeros(d, np.int64)
    if not order_of_positions(positions, order):
        return -math.inf
    for i in range(d):
        for j in range(d):
            if precede[i, j] and positions[j] > positions[i]:
                return -math.inf
    add_before(order, slots, inside)
    return weight_inside(order, inside, offsets, log_sums)


@inner_kernel
def draw_set(rng, inside, needed, log_sum, ranked, log_scores, few):
    """A parent set within a subset of a variable's candidates, with one of those that are needed if any are.

    Parameters
    ----------
    rng : numpy.random.Generator
    inside, needed : int
        Subset indices; nothing is needed if the second is 0.
    log_sum : float
        Log weight of all sets that may be drawn.
    ranked, log_scores : (2^k,)
        Tables of the variable: its sets by descending score, and their scores.
    few : int
        Candidates inside, up to which their subsets are gone through, and not all sets in the order of their scores.
    """
    left = rng.random()
    chosen = 0
    if popcount(inside) <= few:
        m = inside
        while True:
            if log_scores[m] > -math.inf and (needed == 0 or m & needed):
                chosen = m
                left -= math.exp(log_scores[m] - log_sum)
                if left < 0.0:
                    break
            if m == 0:
                break
            m = (m - 1) & inside
        return chosen
    for r in range(ranked.size):
        m = ranked[r]
        if log_scores[m] == -math.inf:
            break
        if m & ~inside == 0 and (needed == 0 or m & needed):
            chosen = m
            left -= math.exp(log_scores[m] - log_sum)
            if left < 0.0:
                break
    return chosen


@inner_kernel
def draw_family(rng, i, inside, needed, log_sum, candidates, offsets, ranked, log_scores):
    """Parents of i as bits, and their log score; arguments as for `draw_set`, with flat tables."""
    start, stop = offsets[i], offsets[i + 1]
    chosen = draw_set(rng, inside, needed, log_sum, ranked[start:stop], log_scores[start:stop], FEW)
    parents = 0
    for k in range(candidates.shape[1]):
        if (chosen >> k) & 1:
            parents |= 1 << candidates[i, k]
    return parents, log_scores[start + chosen]


@kernel
def draw_parents_of_order(rng, order, candidates, lookup, offsets, log_sums, ranked, log_scores, parents, base):
    """Parents of every variable given an order; returns the graph's log score.

    Parameters
    ----------
    rng : numpy.random.Generator
    order : (n,) int64
    candidates, lookup, offsets, log_sums, log_scores : arrays of `LocalScores`
    ranked : (n_scores,) int32
        Subset indices of each variable by descending score.
    parents : (d,) int64
        Out: as bits.
    base : int
        Variables, as bits, that stand before the order's.
    """
    before = base
    total = 0.0
    for i in order:
        inside = subset_index(lookup, i, before)
        log_sum = log_sums[offsets[i] + inside]
        parents[i], score = draw_family(rng, i, inside, 0, log_sum, candidates, offsets, ranked, log_scores)
        total += score
        before |= 1 << i
    return total


@kernel
def indices_of_orders(orders, slots, out):
    """(n, d) int64 zeros, out: subset index of what stands before each variable in each order."""
    unchecked = np.zeros(1, np.int64)
    for s in range(orders.shape[0]):
        if must_stop_after(2 * orders.shape[1] ** 2, unchecked):
            return
        add_before(orders[s], slots, out[s])


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
        m = draw_set(rng, inside, 0, log_sums[inside], ranked, log_scores, -1)
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
