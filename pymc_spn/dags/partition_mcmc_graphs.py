"""Ordered partitions and graphs: the levels of a graph, a graph given its levels, block numbers of variables."""

import math

import numpy as np
from numba.extending import register_jitable

from pymc_spn.dags.bit_kernels import lowest_bit, popcount, subset_index
from pymc_spn.dags.order_mcmc_kernels import draw_family
from pymc_spn.dags.partition_mcmc_kernels import exact_weight, partition_log_weight
from pymc_spn.numerics.kernel_options import inner_kernel, kernel
from pymc_spn.numerics.read_only_views import read_only_view


@kernel
def levels(parents, members, parts):
    """Ordered partition of a graph: each variable one block behind the last of its parents. Returns their number.

    Parameters
    ----------
    parents : (d,) int64
        By variable, as bits; those that are no members do not count.
    members : (n,) int64
    parts : (n + 1,) int64
        Out.
    """
    parts[:] = 0
    left = 0
    for i in members:
        left |= 1 << i
    n_parts = 0
    while left:
        for i in members:
            if (left >> i) & 1 and parents[i] & left == 0:
                parts[n_parts] |= 1 << i
        left &= ~parts[n_parts]
        n_parts += 1
    return n_parts


@kernel
def draw_parents(rng, parts, n_parts, candidates, lookup, offsets, log_sums, ranked, log_scores, parents):
    """Parents of every variable given a partition of all variables; returns the graph's log score.

    Parameters
    ----------
    candidates : (d, K) int64
    parents : (d,) int64
        Out: as bits.
    """
    before = 0
    total = 0.0
    for t in range(n_parts):
        rest = parts[t]
        without = before & ~parts[t - 1] if t else 0
        while rest:
            i = lowest_bit(rest)
            rest &= rest - 1
            if t == 0:
                parents[i] = 0
                total += log_scores[offsets[i]]
                continue
            inside = subset_index(lookup, i, before)
            needed = inside & ~subset_index(lookup, i, without)
            value = exact_weight(i, before, without, lookup, offsets, log_sums, ranked, log_scores)
            parents[i], score = draw_family(rng, i, inside, needed, value, candidates, offsets, ranked, log_scores)
            total += score
        before |= parts[t]
    return total


@inner_kernel
def _descendants(parents, v):
    """A variable and its descendants, as bits."""
    found = 1 << v
    while True:
        more = found
        for i in range(parents.size):
            if parents[i] & found:
                more |= 1 << i
        if more == found:
            return found
        found = more


@kernel
def reverse_edges(rng, n, parents, candidates, lookup, offsets, log_sums, ranked, log_scores):
    """Metropolis steps that reverse an edge and draw new parents of its ends; the number that were accepted.

    Of an edge i -> j both ends lose their parents. Then parents of i are drawn, j among them, and after them those of
    j, each in proportion to the score of the set among those that leave no cycle.

    Parameters
    ----------
    rng : numpy.random.Generator
    n : int
        Steps.
    parents : (d,) int64
        In and out: as bits.
    candidates : (d, K) int64
    lookup, offsets, log_sums, ranked, log_scores
        As in `partition_log_weight`.

    References
    ----------
    Grzegorczyk and Husmeier (2008), doi:10.1007/s10994-008-5057-7, equations 13 to 18.
    """
    d = parents.size
    accepted = 0
    arrays = lookup, offsets, log_sums, ranked, log_scores
    n_edges = 0
    for v in range(d):
        n_edges += popcount(parents[v])
    for _ in range(n):
        if n_edges == 0:
            break
        k = rng.integers(0, n_edges)
        j = 0
        while k >= popcount(parents[j]):
            k -= popcount(parents[j])
            j += 1
        rest = parents[j]
        for _skip in range(k):
            rest &= rest - 1
        i = lowest_bit(rest)
        old_i, old_j = parents[i], parents[j]
        parents[i] = parents[j] = 0
        allowed_i, allowed_j = ~_descendants(parents, i), ~_descendants(parents, j)
        forth = exact_weight(i, allowed_i, allowed_i & ~(1 << j), *arrays)
        if forth == -math.inf:
            parents[i], parents[j] = old_i, old_j
            continue
        back = exact_weight(j, allowed_j, allowed_j & ~(1 << i), *arrays)
        parents[j] = old_j
        back += log_sums[offsets[i] + subset_index(lookup, i, ~_descendants(parents, i))]
        parents[j] = 0
        sets = subset_index(lookup, i, allowed_i)
        needed = sets & ~subset_index(lookup, i, allowed_i & ~(1 << j))
        parents[i], _ = draw_family(rng, i, sets, needed, forth, candidates, offsets, ranked, log_scores)
        sets = subset_index(lookup, j, ~_descendants(parents, j))
        own = log_sums[offsets[j] + sets]
        if own > -math.inf:
            parents[j], _ = draw_family(rng, j, sets, 0, own, candidates, offsets, ranked, log_scores)
        edges = n_edges + popcount(parents[i]) + popcount(parents[j]) - popcount(old_i) - popcount(old_j)
        bar = forth + own - back + math.log(n_edges / edges)
        if own > -math.inf and (bar >= 0.0 or rng.random() < math.exp(bar)):
            n_edges = edges
            accepted += 1
        else:
            parents[i], parents[j] = old_i, old_j
    return accepted


@kernel
def parts_of_blocks(blocks, parts):
    """Blocks as bits from each variable's block number; their number, or 0 unless these are 0, 1, ... without a gap."""
    parts[:] = 0
    n_parts = 0
    for i in range(blocks.size):
        if blocks[i] < 0 or blocks[i] >= blocks.size:
            return 0
        parts[blocks[i]] |= 1 << i
        n_parts = max(n_parts, blocks[i] + 1)
    for t in range(n_parts):
        if parts[t] == 0:
            return 0
    return n_parts


@kernel
def blocks_of_parts(parts, n_parts, blocks):
    """Each variable's block number."""
    for t in range(n_parts):
        rest = parts[t]
        while rest:
            blocks[lowest_bit(rest)] = t
            rest &= rest - 1


@register_jitable
def blocks_log_weight(blocks, lookup, offsets, log_sums, ranked, log_scores):
    """Log weight of the partition that block numbers describe; -inf if they describe none."""
    return _blocks_log_weight(
        blocks,
        read_only_view(lookup),
        read_only_view(offsets),
        read_only_view(log_sums),
        read_only_view(ranked),
        read_only_view(log_scores),
    )


@kernel
def _blocks_log_weight(blocks, lookup, offsets, log_sums, ranked, log_scores):
    parts = np.empty(blocks.size + 1, np.int64)
    n_parts = parts_of_blocks(blocks, parts)
    if n_parts == 0:
        return -math.inf
    return partition_log_weight(parts, n_parts, 0, True, lookup, offsets, log_sums, ranked, log_scores).real
