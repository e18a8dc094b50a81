"""Growing a regular order sum-product network: splits of a set of variables into an earlier and a later half.

A node is an interval: variables that stand before, and the scope to be ordered behind them. An oracle proposes orders
of the scope; the first half of an order is a split. Splits of one node have equal sizes and are distinct, so they form
an antichain: no order belongs to two.
"""

import math

import numpy as np

from pymc_spn.dags import order_gibbs_kernels, partition_mcmc_kernels
from pymc_spn.dags.bit_kernels import lowest_bit, members_of, popcount, subset_index
from pymc_spn.dags.order_mcmc_kernels import draw_parents_of_order
from pymc_spn.dags.partition_mcmc_graphs import levels
from pymc_spn.dags.zeta_kernels import log_add
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

RANDOM, ORDER_MCMC, PARTITION_MCMC = 0, 1, 2
_BURN_IN = 20  # sweeps of a chain before its first order counts
_TRIES = 8  # orders looked at for each split wanted
_EXCHANGES = 200  # attempts to find a further split near those that are there


@inner_kernel
def closed(base, chosen, must_precede):
    """Whether a set holds, together with the base, everything that must precede its members."""
    rest = chosen
    while rest:
        i = lowest_bit(rest)
        rest &= rest - 1
        if must_precede[i] & ~(base | chosen):
            return False
    return True


@inner_kernel
def _part(members, m):
    """Set of the members whose places are in another set."""
    out = 0
    for k in range(members.size):
        if (m >> k) & 1:
            out |= 1 << members[k]
    return out


@inner_kernel
def _set_of(variables):
    out = 0
    for i in variables:
        out |= 1 << i
    return out


@inner_kernel
def interval_log_weight(base, scope, lookup, offsets, log_sums, must_precede):
    """Log weight of all orders of a scope behind a base, by a sum over its subsets; for small scopes."""
    members = members_of(scope)
    sums = np.full(1 << members.size, -math.inf)
    sums[0] = 0.0
    for m in range(1, sums.size):
        for k in range(members.size):
            if (m >> k) & 1:
                i, before = members[k], base | _part(members, m ^ (1 << k))
                if must_precede[i] & ~before == 0:
                    weight = log_sums[offsets[i] + subset_index(lookup, i, before)]
                    sums[m] = log_add(sums[m], sums[m ^ (1 << k)] + weight)
    return sums[sums.size - 1]


@inner_kernel
def _add(base, split, must_precede, splits, n):
    """Append a split that keeps what must precede, unless it is there; the new number."""
    if not closed(base, split, must_precede):
        return n
    for k in range(n):
        if splits[k] == split:
            return n
    splits[n] = split
    return n + 1


@inner_kernel
def enumerate_splits(base, scope, half, wanted, lookup, offsets, log_sums, must_precede, splits):
    """All splits of a small scope, or those of largest weight; their number is returned."""
    members = members_of(scope)
    weights = np.empty(wanted)
    n = 0
    for m in range(1 << members.size):
        split = _part(members, m)
        if popcount(m) != half or not closed(base, split, must_precede):
            continue
        weight = interval_log_weight(base, split, lookup, offsets, log_sums, must_precede)
        weight += interval_log_weight(base | split, scope & ~split, lookup, offsets, log_sums, must_precede)
        place = n
        if n < wanted:
            n += 1
        else:
            place = np.argmin(weights)
            if weight <= weights[place]:
                continue
        splits[place] = split
        weights[place] = weight
    return n


@inner_kernel
def fill_by_exchange(rng, base, scope, wanted, n, must_precede, splits):
    """Further distinct splits, each from one that is there by exchanging two variables; the number reached."""
    for _ in range(_EXCHANGES * wanted):
        if n >= wanted or n == 0:
            break
        split = splits[rng.integers(0, n)]
        earlier, later = members_of(split), members_of(scope & ~split)
        split ^= (1 << earlier[rng.integers(0, earlier.size)]) | (1 << later[rng.integers(0, later.size)])
        n = _add(base, split, must_precede, splits, n)
    return n


@inner_kernel
def split_node(rng, base, scope, wanted, oracle, enumerate_to, arrays, splits, unchecked):
    """Distinct splits of one node; their number is returned.

    Parameters
    ----------
    rng : numpy.random.Generator
    base, scope : int
        Variables before, and those to be ordered, as bits.
    wanted : int
        Expansion factor.
    oracle : int
        0 random, 1 relocation Gibbs over orders, 2 chain over ordered partitions.
    enumerate_to : int
        Scopes up to this size are enumerated, and the splits of largest weight kept.
    arrays : tuple
        Of `LocalScores`, with the flat sets by descending score; last what stands before each variable, also as bits.
    splits : (wanted,) int64
        Out: the earlier halves.
    unchecked : (1,) int64
        For `must_stop_after`.
    """
    candidates, slots, lookup, offsets, log_sums, ranked, log_scores, precede, must_precede = arrays
    members = members_of(scope)
    n_members = members.size
    half = n_members // 2
    ways = 1.0
    for k in range(half):
        ways = ways * (n_members - k) / (k + 1)
    if (ways < wanted + 0.5 and n_members <= 20) or (n_members <= enumerate_to and oracle != RANDOM):
        return enumerate_splits(base, scope, half, wanted, lookup, offsets, log_sums, must_precede, splits)
    order = np.empty(n_members, np.int64)
    order_gibbs_kernels.random_order(rng, members, precede, order)
    n = 0
    log_place, scratch = np.empty(n_members), np.empty((6, n_members + 2), np.complex128)
    parts = np.zeros(n_members + 1, np.int64)
    shuffled = order.copy()
    n_parts = 0
    inside = np.empty(offsets.size - 1, np.int64)
    for i in order:
        inside[i] = subset_index(lookup, i, base)
    order_gibbs_kernels.add_before(order, slots, inside)
    if oracle != RANDOM:
        for _ in range(_BURN_IN):
            order_gibbs_kernels.sweep(rng, order, slots, offsets, log_sums, precede, log_place, inside)
    if oracle == PARTITION_MCMC:
        parents = np.zeros(offsets.size - 1, np.int64)
        draw_parents_of_order(rng, order, candidates, lookup, offsets, log_sums, ranked, log_scores, parents, base)
        n_parts = levels(parents, order, parts)
    for _ in range(_TRIES * wanted):
        if n >= wanted or must_stop_after(1000 * n_members**2, unchecked):
            break
        if oracle == RANDOM:
            order_gibbs_kernels.random_order(rng, members, precede, order)
        elif oracle == ORDER_MCMC:
            order_gibbs_kernels.sweep(rng, order, slots, offsets, log_sums, precede, log_place, inside)
        else:
            n_parts = partition_mcmc_kernels.sweep(
                rng, parts, n_parts, shuffled, base, lookup, offsets, log_sums, ranked, log_scores, scratch
            )
            begin = 0
            for t in range(n_parts):  # a random order inside each block
                block = members_of(parts[t])
                order[begin : begin + block.size] = block
                for k in range(begin + block.size - 1, begin, -1):
                    q = begin + rng.integers(0, k - begin + 1)
                    order[k], order[q] = order[q], order[k]
                begin += block.size
        n = _add(base, _set_of(order[:half]), must_precede, splits, n)
    if n == 0:  # no proposal keeps what must precede
        order_gibbs_kernels.random_order(rng, members, precede, order)
        splits[0] = _set_of(order[:half])
        n = 1
    return fill_by_exchange(rng, base, scope, wanted, n, must_precede, splits)


@kernel
def split_level(rng, before, scope, wanted, oracle, enumerate_to, arrays, counts, splits):
    """`split_node` for all nodes of a level; leaves get no splits.

    Parameters
    ----------
    before, scope : (m,) int64
    counts : (m,) int64
        Out.
    splits : (m, wanted) int64
        Out.
    """
    unchecked = np.zeros(1, np.int64)
    for t in range(before.size):
        counts[t] = 0
        if must_stop_after(100 * wanted, unchecked):
            return
        if popcount(scope[t]) > 1:
            own = wanted, oracle, enumerate_to, arrays, splits[t], unchecked
            counts[t] = split_node(rng, before[t], scope[t], *own)
