"""Growing a regular order sum-product network: splits of a set of variables into an earlier and a later half.

A node is an interval: variables that stand before, and the scope to be ordered behind them. An oracle proposes orders
of the scope; the first half of an order is a split. Splits of one node have equal sizes and are distinct, so they form
an antichain: no order belongs to two.
"""

import math

import numpy as np

from pymc_spn.dags import order_gibbs_kernels, partition_mcmc_kernels
from pymc_spn.dags.bit_kernels import lowest_bit, matrix_of_sets, popcount, slots_of, subset_index
from pymc_spn.dags.order_mcmc_kernels import draw_parents_of_order
from pymc_spn.dags.partition_mcmc_graphs import levels
from pymc_spn.dags.zeta_kernels import log_add
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

RANDOM, ORDER_MCMC, PARTITION_MCMC, GIVEN_ORDERS = 0, 1, 2, 3
_BURN_IN = 20  # sweeps of a chain before its first order counts
_TRIES = 8  # orders looked at for each split wanted
_EXCHANGES = 200  # attempts to find a further split near those that are there


@inner_kernel
def random_order_behind(rng, base, scope, must_precede, out):
    """Random order of a scope that keeps what must precede; the number of variables placed is returned."""
    placed = base
    n = 0
    while scope & ~placed:
        free = 0
        rest = scope & ~placed
        while rest:
            i = lowest_bit(rest)
            rest &= rest - 1
            if must_precede[i] & ~placed == 0:
                free += 1
        if free == 0:
            return n
        k = rng.integers(0, free)
        rest = scope & ~placed
        while rest:
            i = lowest_bit(rest)
            rest &= rest - 1
            if must_precede[i] & ~placed == 0:
                if k == 0:
                    out[n] = i
                    placed |= 1 << i
                    n += 1
                    break
                k -= 1
    return n


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
def interval_log_weight(base, scope, lookup, offsets, log_sums, must_precede):
    """Log weight of all orders of a scope behind a base, by a sum over its subsets; for small scopes."""
    members = np.empty(popcount(scope), np.int64)
    rest = scope
    for k in range(members.size):
        members[k] = lowest_bit(rest)
        rest &= rest - 1
    sums = np.full(1 << members.size, -math.inf)
    sums[0] = 0.0
    for m in range(1, sums.size):
        for k in range(members.size):
            if (m >> k) & 1:
                before = base
                for q in range(members.size):
                    if q != k and (m >> q) & 1:
                        before |= 1 << members[q]
                i = members[k]
                if must_precede[i] & ~before == 0:
                    weight = log_sums[offsets[i] + subset_index(lookup, i, before)]
                    sums[m] = log_add(sums[m], sums[m ^ (1 << k)] + weight)
    return sums[sums.size - 1]


@inner_kernel
def _add(split, splits, n):
    """Append a split unless it is there; the new number."""
    for k in range(n):
        if splits[k] == split:
            return n
    splits[n] = split
    return n + 1


@inner_kernel
def enumerate_splits(base, scope, half, wanted, lookup, offsets, log_sums, must_precede, splits):
    """All splits of a small scope, or those of largest weight; their number is returned."""
    n_members = popcount(scope)
    members = np.empty(n_members, np.int64)
    rest = scope
    for k in range(n_members):
        members[k] = lowest_bit(rest)
        rest &= rest - 1
    weights = np.empty(wanted)
    n = 0
    for m in range(1 << n_members):
        if popcount(m) != half:
            continue
        split = 0
        for k in range(n_members):
            if (m >> k) & 1:
                split |= 1 << members[k]
        if not closed(base, split, must_precede):
            continue
        weight = interval_log_weight(base, split, lookup, offsets, log_sums, must_precede)
        weight += interval_log_weight(base | split, scope & ~split, lookup, offsets, log_sums, must_precede)
        if n < wanted:
            splits[n] = split
            weights[n] = weight
            n += 1
        else:
            worst = np.argmin(weights)
            if weight > weights[worst]:
                splits[worst] = split
                weights[worst] = weight
    return n


@inner_kernel
def fill_by_exchange(rng, base, scope, wanted, n, must_precede, splits):
    """Further distinct splits, each from one that is there by exchanging two variables; the number reached."""
    members = np.empty(64, np.int64)
    for _ in range(_EXCHANGES * wanted):
        if n >= wanted or n == 0:
            break
        split = splits[rng.integers(0, n)]
        later = scope & ~split
        size = 0
        rest = split
        while rest:
            members[size] = lowest_bit(rest)
            rest &= rest - 1
            size += 1
        out = members[rng.integers(0, size)]
        size = 0
        rest = later
        while rest:
            members[size] = lowest_bit(rest)
            rest &= rest - 1
            size += 1
        into = members[rng.integers(0, size)]
        split ^= (1 << out) | (1 << into)
        if closed(base, split, must_precede):
            n = _add(split, splits, n)
    return n


@inner_kernel
def split_node(
    rng, base, scope, wanted, oracle, enumerate_to, orders, candidates, lookup, offsets, log_sums, ranked, log_scores,
    must_precede, splits, unchecked,
):  # fmt: skip
    """Distinct splits of one node; their number is returned.

    Parameters
    ----------
    rng : numpy.random.Generator
    base, scope : int
        Variables before, and those to be ordered, as bits.
    wanted : int
        Expansion factor.
    oracle : int
        0 random, 1 relocation Gibbs over orders, 2 chain over ordered partitions, 3 the given orders.
    enumerate_to : int
        Scopes up to this size are enumerated, and the splits of largest weight kept.
    orders : (m, d) int64
        For oracle 3, whole orders; their restrictions to the scope are proposals.
    candidates, lookup, offsets, log_sums, log_scores, must_precede : arrays of `LocalScores`
    ranked : (n_scores,) int32
    splits : (wanted,) int64
        Out: the earlier halves.
    unchecked : (1,) int64
        For `must_stop_after`.
    """
    n_members = popcount(scope)
    half = n_members // 2
    ways = 1.0
    for k in range(half):
        ways = ways * (n_members - k) / (k + 1)
    if (ways < wanted + 0.5 and n_members <= 20) or (n_members <= enumerate_to and oracle != RANDOM):
        return enumerate_splits(base, scope, half, wanted, lookup, offsets, log_sums, must_precede, splits)
    order = np.empty(n_members, np.int64)
    n = 0
    if oracle == GIVEN_ORDERS:
        for s in range(orders.shape[0]):
            size = 0
            split = 0
            for i in orders[s]:
                if (scope >> i) & 1 and size < half:
                    split |= 1 << i
                    size += 1
            if n < wanted and closed(base, split, must_precede):
                n = _add(split, splits, n)
    else:
        random_order_behind(rng, base, scope, must_precede, order)
        scratch = np.empty((6, n_members + 2))
        parts = np.zeros(n_members + 1, np.int64)
        members = order.copy()
        n_parts = 0
        slots, precede = slots_of(candidates), matrix_of_sets(must_precede)
        inside = np.empty(offsets.size - 1, np.int64)
        for i in order:
            inside[i] = subset_index(lookup, i, base)
        order_gibbs_kernels.add_before(order, slots, inside)
        if oracle == ORDER_MCMC or oracle == PARTITION_MCMC:
            for _ in range(_BURN_IN):
                order_gibbs_kernels.sweep(rng, order, slots, offsets, log_sums, precede, scratch[0], inside)
        if oracle == PARTITION_MCMC:
            parents = np.zeros(offsets.size - 1, np.int64)
            draw_parents_of_order(rng, order, candidates, lookup, offsets, log_sums, ranked, log_scores, parents, base)
            n_parts = levels(parents, order, parts)
        for _ in range(_TRIES * wanted):
            if n >= wanted or must_stop_after(1000 * n_members**2, unchecked):
                break
            if oracle == RANDOM:
                random_order_behind(rng, base, scope, must_precede, order)
            elif oracle == ORDER_MCMC:
                order_gibbs_kernels.sweep(rng, order, slots, offsets, log_sums, precede, scratch[0], inside)
            else:
                n_parts, _weight, _moved = partition_mcmc_kernels.sweep(
                    rng, parts, n_parts, members, base, lookup, offsets, log_sums, ranked, log_scores, scratch
                )
                size = 0
                for t in range(n_parts):  # a random order inside each block
                    begin = size
                    rest = parts[t]
                    while rest:
                        order[size] = lowest_bit(rest)
                        rest &= rest - 1
                        size += 1
                    for k in range(size - 1, begin, -1):
                        q = begin + rng.integers(0, k - begin + 1)
                        order[k], order[q] = order[q], order[k]
            split = 0
            for k in range(half):
                split |= 1 << order[k]
            if closed(base, split, must_precede):
                n = _add(split, splits, n)
    if n == 0:  # no proposal keeps what must precede
        random_order_behind(rng, base, scope, must_precede, order)
        split = 0
        for k in range(half):
            split |= 1 << order[k]
        n = _add(split, splits, n)
    return fill_by_exchange(rng, base, scope, wanted, n, must_precede, splits)


@kernel
def split_level(
    rng, before, scope, wanted, oracle, enumerate_to, orders, candidates, lookup, offsets, log_sums, ranked, log_scores,
    must_precede, counts, splits,
):  # fmt: skip
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
            counts[t] = split_node(
                rng, before[t], scope[t], wanted, oracle, enumerate_to, orders, candidates, lookup, offsets, log_sums,
                ranked, log_scores, must_precede, splits[t], unchecked,
            )  # fmt: skip


@kernel
def node_log_weights(before, scope, ptr, lookup, offsets, log_sums, values, log_weights):
    """Log weight of the orders below each node, and the closed-form log weight of every child of a sum.

    Parameters
    ----------
    before, scope, ptr : arrays of `RegularTree`
    lookup, offsets, log_sums : arrays of `LocalScores`
    values : (n,) float64
        Out.
    log_weights : (n_products,) float64
        Out: they sum to one in each sum node; -inf where a child has no weight.
    """
    for back in range(before.size):
        t = before.size - 1 - back
        if ptr[t] == ptr[t + 1]:
            i = lowest_bit(scope[t])
            values[t] = log_sums[offsets[i] + subset_index(lookup, i, before[t])]
            continue
        total = -math.inf
        for p in range(ptr[t], ptr[t + 1]):
            log_weights[p] = values[2 * p + 1] + values[2 * p + 2]
            total = log_add(total, log_weights[p])
        values[t] = total
        for p in range(ptr[t], ptr[t + 1]):
            log_weights[p] = log_weights[p] - total if total > -math.inf else -math.log(ptr[t + 1] - ptr[t])


@kernel
def orders_inside_tree(orders, scope, ptr, out):
    """Whether each order belongs to a tree: in every node, its first variables are one of the splits."""
    d = orders.shape[1]
    nodes = np.empty(d + 1, np.int64)
    begins = np.empty(d + 1, np.int64)
    for s in range(orders.shape[0]):
        out[s] = True
        nodes[0] = 0
        begins[0] = 0
        waiting = 1
        while waiting:
            waiting -= 1
            t, begin = nodes[waiting], begins[waiting]
            if ptr[t] == ptr[t + 1]:
                continue
            found = -1
            for p in range(ptr[t], ptr[t + 1]):
                rest = scope[2 * p + 1]
                size = popcount(rest)
                for k in range(size):
                    rest &= ~(1 << orders[s, begin + k])
                if rest == 0:
                    found = p
                    break
            if found < 0:
                out[s] = False
                break
            nodes[waiting], begins[waiting] = 2 * found + 1, begin
            nodes[waiting + 1], begins[waiting + 1] = 2 * found + 2, begin + popcount(scope[2 * found + 1])
            waiting += 2
