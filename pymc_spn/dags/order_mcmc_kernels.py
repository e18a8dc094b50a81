"""Orders as positions of variables: their log weight, and graphs and edge probabilities given an order."""

import math

import numpy as np
from numba.extending import register_jitable

from pymc_spn.dags.bit_kernels import popcount, subset_index
from pymc_spn.dags.order_gibbs_kernels import add_before, weight_inside
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel
from pymc_spn.numerics.read_only_views import read_only_view

FEW = 9  # candidates inside, up to which their subsets are gone through, and not all sets in the order of their scores


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


@kernel
def order_log_weight(order, lookup, offsets, log_sums, must_precede):
    """Log weight of an order with parent sets summed out; -inf where it breaks what must precede.

    Parameters
    ----------
    order : (d,) int64
    lookup, offsets, log_sums, must_precede : arrays of `LocalScores`
    """
    before = 0
    total = 0.0
    for i in order:
        if must_precede[i] & ~before:
            return -math.inf
        total += log_sums[offsets[i] + subset_index(lookup, i, before)]
        before |= 1 << i
    return total


@register_jitable
def positions_log_weight(positions, lookup, offsets, log_sums, must_precede):
    """As `order_log_weight` for the position of each variable; -inf if positions are no order."""
    return _positions_log_weight(
        positions,
        read_only_view(lookup),
        read_only_view(offsets),
        read_only_view(log_sums),
        read_only_view(must_precede),
    )


@kernel
def _positions_log_weight(positions, lookup, offsets, log_sums, must_precede):
    order = np.empty(positions.size, np.int64)
    if not order_of_positions(positions, order):
        return -math.inf
    return order_log_weight(order, lookup, offsets, log_sums, must_precede)


@inner_kernel
def draw_set(rng, i, inside, needed, log_sum, offsets, ranked, log_scores):
    """A parent set of i within a subset of its candidates, with one of those that are needed if any are.

    Parameters
    ----------
    rng : numpy.random.Generator
    i : int
    inside, needed : int
        Subset indices; nothing is needed if the second is 0.
    log_sum : float
        Log weight of all sets that may be drawn.
    offsets, ranked, log_scores
        As in `draw_parents_of_order`.
    """
    start = offsets[i]
    left = rng.random()
    chosen = 0
    if popcount(inside) <= FEW:
        m = inside
        while True:
            score = log_scores[start + m]
            if score > -math.inf and (needed == 0 or m & needed):
                chosen = m
                left -= math.exp(score - log_sum)
                if left < 0.0:
                    break
            if m == 0:
                break
            m = (m - 1) & inside
        return chosen
    for r in range(start, offsets[i + 1]):
        m = ranked[r]
        if log_scores[start + m] == -math.inf:
            break
        if m & ~inside == 0 and (needed == 0 or m & needed):
            chosen = m
            left -= math.exp(log_scores[start + m] - log_sum)
            if left < 0.0:
                break
    return chosen


@inner_kernel
def bits_of_set(candidates, i, chosen):
    """Variables, as bits, of a subset index of the candidates of i."""
    out = 0
    for k in range(candidates.shape[1]):
        if (chosen >> k) & 1:
            out |= 1 << candidates[i, k]
    return out


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
        start = offsets[i]
        inside = subset_index(lookup, i, before)
        log_sum = log_sums[start + inside]
        chosen = draw_set(rng, i, inside, 0, log_sum, offsets, ranked, log_scores)
        total += log_scores[start + chosen]
        parents[i] = bits_of_set(candidates, i, chosen)
        before |= 1 << i
    return total


@kernel
def edges_given_order(orders, candidates, slots, offsets, log_sums, out):
    """Exact probability of every edge given each order.

    Parameters
    ----------
    orders : (n, d) int64
    candidates, slots, offsets, log_sums : arrays of `LocalScores`
    out : (n, d, K) float64
        Out: by child and place among its candidates.

    References
    ----------
    Friedman and Koller (2003), doi:10.1023/A:1020249912095, equation 9.
    """
    inside = np.empty(orders.shape[1], np.int64)
    unchecked = np.zeros(1, np.int64)
    for s in range(orders.shape[0]):
        if must_stop_after(50 * orders.shape[1] ** 2, unchecked):
            return
        inside[:] = 0
        add_before(orders[s], slots, inside)
        for i in range(orders.shape[1]):
            total = log_sums[offsets[i] + inside[i]]
            for k in range(candidates.shape[1]):
                out[s, i, k] = 0.0
                if (inside[i] >> k) & 1:
                    out[s, i, k] = -math.expm1(log_sums[offsets[i] + (inside[i] ^ (1 << k))] - total)


@kernel
def order_log_weights(orders, slots, offsets, log_sums, out):
    """Log weight of each order: the sum of its variables' log sums behind their prefixes."""
    inside = np.empty(orders.shape[1], np.int64)
    unchecked = np.zeros(1, np.int64)
    for s in range(orders.shape[0]):
        if must_stop_after(2 * orders.shape[1] ** 2, unchecked):
            return
        inside[:] = 0
        add_before(orders[s], slots, inside)
        out[s] = weight_inside(orders[s], inside, offsets, log_sums)


@kernel
def indices_of_orders(orders, slots, out):
    """(n, d) int32 out: subset index of what stands before the variable at each place of each order."""
    inside = np.empty(orders.shape[1], np.int64)
    unchecked = np.zeros(1, np.int64)
    for s in range(orders.shape[0]):
        if must_stop_after(2 * orders.shape[1] ** 2, unchecked):
            return
        inside[:] = 0
        add_before(orders[s], slots, inside)
        for p in range(orders.shape[1]):
            out[s, p] = inside[orders[s, p]]


@kernel
def before_in_orders(orders, shares, out):
    """Probability that j stands before i at [j, i], (d, d) out, from the probability of each order."""
    out[:] = 0.0
    unchecked = np.zeros(1, np.int64)
    for s in range(orders.shape[0]):
        if must_stop_after(2 * orders.shape[1] ** 2, unchecked):
            return
        for p in range(orders.shape[1]):
            for q in range(p):
                out[orders[s, q], orders[s, p]] += shares[s]
