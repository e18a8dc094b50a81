"""Sums over all ordered partitions by dynamic programming, and exact draws: for few variables, time grows as 4^d."""

import math

import numpy as np

from pymc_spn.dags.bit_kernels import lowest_bit, popcount
from pymc_spn.dags.partition_mcmc_kernels import counted_weight, log_weight
from pymc_spn.dags.zeta_kernels import log_add
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@inner_kernel
def _state(places, placed, last):
    """Number of a state: each variable is not placed (0), placed (1) or in the last block (2), base three."""
    out = 0
    for i in range(places.size):
        out += (((placed >> i) & 1) + ((last >> i) & 1)) * places[i]
    return out


@inner_kernel
def _terms(placed, last, lookup, offsets, log_sums, ranked, log_scores, out):
    """Log weights of every variable as a member of the block behind `last`; parents all before it, one in `last`."""
    without = placed & ~last
    for i in range(out.size):
        if placed == 0:
            out[i] = log_scores[offsets[i]]
            continue
        value, sure = log_weight(i, placed, without, lookup, offsets, log_sums)
        out[i] = value if sure else counted_weight(i, placed, without, lookup, offsets, ranked, log_scores)


@inner_kernel
def _next_blocks(placed, places, terms, sums, blocks, weights):
    """All blocks that can follow, with the log weight of each and all behind it; their number."""
    d = places.size
    rest = ((1 << d) - 1) & ~placed
    block = rest
    n = 0
    while block:
        weight = sums[_state(places, placed | block, block)]
        members = block
        while members and weight > -math.inf:
            weight += terms[lowest_bit(members)]
            members &= members - 1
        blocks[n] = block
        weights[n] = weight
        n += 1
        block = (block - 1) & rest
    return n


@kernel
def partition_sums(d, lookup, offsets, log_sums, ranked, log_scores, sums):
    """Log weights of all ways to complete each state (see `_state`); the total is that of the empty state.

    Parameters
    ----------
    d : int
    lookup, offsets, log_sums, ranked, log_scores : arrays of `LocalScores`, and subset indices by descending score
    sums : (3^d,) float64
        Out.
    """
    places = 3 ** np.arange(d)
    whole = (1 << d) - 1
    terms = np.empty(d)
    blocks, weights = np.empty(1 << d, np.int64), np.empty(1 << d)
    unchecked = np.zeros(1, np.int64)
    for back in range(whole + 1):
        placed = whole - back
        last = placed
        while True:
            if must_stop_after(20 << (d - popcount(placed)), unchecked):
                return
            at = _state(places, placed, last)
            if placed == whole:
                sums[at] = 0.0
            elif last or placed == 0:
                _terms(placed, last, lookup, offsets, log_sums, ranked, log_scores, terms)
                total = -math.inf
                for k in range(_next_blocks(placed, places, terms, sums, blocks, weights)):
                    total = log_add(total, weights[k])
                sums[at] = total
            if last == 0:
                break
            last = (last - 1) & placed


@kernel
def draw_partition(rng, d, lookup, offsets, log_sums, ranked, log_scores, sums, out):
    """Block numbers (d,) of an ordered partition, in proportion to the weight of its graphs."""
    places = 3 ** np.arange(d)
    whole = (1 << d) - 1
    terms = np.empty(d)
    blocks, weights = np.empty(1 << d, np.int64), np.empty(1 << d)
    placed = 0
    last = 0
    number = 0
    while placed != whole:
        _terms(placed, last, lookup, offsets, log_sums, ranked, log_scores, terms)
        n = _next_blocks(placed, places, terms, sums, blocks, weights)
        total = sums[_state(places, placed, last)]
        left = rng.random()
        chosen = 0
        for k in range(n):
            if weights[k] > -math.inf:
                chosen = blocks[k]
                left -= math.exp(weights[k] - total)
                if left < 0.0:
                    break
        members = chosen
        while members:
            out[lowest_bit(members)] = number
            members &= members - 1
        placed |= chosen
        last = chosen
        number += 1
