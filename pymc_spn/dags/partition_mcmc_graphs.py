"""Ordered partitions and graphs: the levels of a graph, a graph given its levels, block numbers of variables."""

import math

import numpy as np
from numba.extending import register_jitable

from pymc_spn.dags.bit_kernels import lowest_bit, subset_index
from pymc_spn.dags.partition_mcmc_kernels import counted_weight, log_weight, partition_log_weight
from pymc_spn.numerics.kernel_options import kernel
from pymc_spn.numerics.read_only_views import read_only_view


@kernel
def levels(parents, order, parts):
    """Ordered partition of a graph: each variable one block behind the last of its parents. Returns their number.

    Parameters
    ----------
    parents : (d,) int64
        By variable, as bits; those outside the order do not count.
    order : (n,) int64
        Variables, parents before children.
    parts : (n + 1,) int64
        Out.
    """
    parts[:] = 0
    n_parts = 0
    for i in order:
        t = 0
        for s in range(n_parts):
            if parents[i] & parts[s]:
                t = s + 1
        parts[t] |= 1 << i
        n_parts = max(n_parts, t + 1)
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
            start = offsets[i]
            parents[i] = 0
            if t == 0:
                total += log_scores[start]
                continue
            all_sets = subset_index(lookup, i, before)
            needed = all_sets & ~subset_index(lookup, i, without)
            value, known = log_weight(i, before, without, lookup, offsets, log_sums)
            if not known:
                value = counted_weight(i, before, without, lookup, offsets, ranked, log_scores)
            left = rng.random()
            chosen = 0
            for r in range(start, offsets[i + 1]):
                m = ranked[r]
                if log_scores[start + m] == -math.inf:
                    break
                if m & ~all_sets == 0 and m & needed:
                    chosen = m
                    left -= math.exp(log_scores[start + m] - value)
                    if left < 0.0:
                        break
            total += log_scores[start + chosen]
            for k in range(candidates.shape[1]):
                if (chosen >> k) & 1:
                    parents[i] |= 1 << candidates[i, k]
        before |= parts[t]
    return total


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
    value, _ = partition_log_weight(parts, n_parts, 0, True, lookup, offsets, log_sums, ranked, log_scores)
    return value
