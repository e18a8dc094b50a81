"""Markov chains over ordered partitions, whose blocks are the levels of a graph: each graph has exactly one.

A variable of the first block has no parents; one of a later block has its parents in earlier blocks and at least one in
the block before its own. So a partition's weight is a product of differences of two sums over subsets. Where a
difference cancels, the kernels work with an upper bound and count parent sets only if the bound does not decide. Log
weights that may be bounds are complex: their imaginary part is the number of bounds among their terms.
"""

import math

import numpy as np

from pymc_spn.dags.bit_kernels import lowest_bit, subset_index
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

_SMALL = 1e-3  # share of a sum below which the difference of two sums is replaced by a bound
_LOG_BOUND = math.log(1.01e-3)
_NEGLIGIBLE = 60.0  # nats below the best parent set at which counting stops; 2^26 of them weigh e^-42


@inner_kernel
def log_weight(i, inside, without, lookup, offsets, log_sums):
    """Log weight of the parent sets of i inside one prefix and not inside a smaller one, or a bound above it; complex.

    Parameters
    ----------
    i : int
    inside, without : int
        Prefixes as bits, the second part of the first.
    lookup, offsets, log_sums : arrays of `LocalScores`
    """
    all_sets = subset_index(lookup, i, inside)
    fewer = subset_index(lookup, i, without)
    high = log_sums[offsets[i] + all_sets]
    if fewer == all_sets or high == -math.inf:
        return complex(-math.inf, 0.0)
    share = -math.expm1(log_sums[offsets[i] + fewer] - high)
    if share > _SMALL:
        return complex(high + math.log(share), 0.0)
    return complex(high + _LOG_BOUND, 1.0)


@inner_kernel
def counted_weight(i, inside, without, lookup, offsets, ranked, log_scores):
    """As `log_weight`, by adding up parent sets in descending order of score."""
    start = offsets[i]
    all_sets = subset_index(lookup, i, inside)
    needed = all_sets & ~subset_index(lookup, i, without)
    top = -math.inf
    total = 0.0
    for r in range(start, offsets[i + 1]):
        m = ranked[r]
        score = log_scores[start + m]
        if score == -math.inf or score < top - _NEGLIGIBLE:
            break
        if m & ~all_sets == 0 and m & needed:
            if top == -math.inf:
                top = score
            total += math.exp(score - top)
    return top + math.log(total) if total > 0.0 else top


@inner_kernel
def exact_weight(i, inside, without, lookup, offsets, log_sums, ranked, log_scores):
    """As `log_weight`, never a bound."""
    value = log_weight(i, inside, without, lookup, offsets, log_sums)
    if value.imag == 0.0:
        return value.real
    return counted_weight(i, inside, without, lookup, offsets, ranked, log_scores)


@kernel
def partition_log_weight(parts, n_parts, base, exact, lookup, offsets, log_sums, ranked, log_scores):
    """Log weight of an ordered partition: the sum over its graphs; complex.

    Parameters
    ----------
    parts : (n,) int64
        Blocks as bits; the first `n_parts` count.
    base : int
        Variables before the partition, possible parents of all; 0 for a partition of all variables.
    exact : bool
        False allows an upper bound.
    lookup, offsets, log_sums, log_scores : arrays of `LocalScores`
    ranked : (n_scores,) int32
        Subset indices of each variable by descending score.
    """
    total = complex(0.0, 0.0)
    before = base
    for t in range(n_parts):
        rest = parts[t]
        without = before & ~parts[t - 1] if t else 0
        while rest:
            i = lowest_bit(rest)
            rest &= rest - 1
            if t == 0:
                total += log_sums[offsets[i] + subset_index(lookup, i, before)]
            elif exact:
                total += exact_weight(i, before, without, lookup, offsets, log_sums, ranked, log_scores)
            else:
                total += log_weight(i, before, without, lookup, offsets, log_sums)
        before |= parts[t]
    return total


@inner_kernel
def _block_terms(block, v, before, last, lookup, offsets, log_sums, terms):
    """Log weights of a block's variables, with v absent, far before, in the last block, or alone in the last block.

    Parameters
    ----------
    block, before, last : int
        Variables of the block, all before it, and those of the block just before it, as bits; v in none.
    terms : (4,) complex128
        Out.
    """
    bit = 1 << v
    old = before & ~last
    terms[:] = 0.0
    rest = block
    while rest:
        i = lowest_bit(rest)
        rest &= rest - 1
        for q in range(4):
            inside = before if q == 0 else before | bit
            if q == 0 or q == 2:
                without = old
            elif q == 1:
                without = old | bit
            else:
                without = before
            terms[q] += log_weight(i, inside, without, lookup, offsets, log_sums)


@inner_kernel
def take_out(parts, n_parts, v):
    """Remove a variable; a block that it leaves empty is closed up. Returns the number of blocks."""
    bit = 1 << v
    for t in range(n_parts):
        if parts[t] & bit:
            parts[t] ^= bit
            if parts[t] == 0:
                for s in range(t, n_parts - 1):
                    parts[s] = parts[s + 1]
                return n_parts - 1
            break
    return n_parts


@inner_kernel
def put_in(parts, n_parts, v, place):
    """Put a variable at an even place 2 t, a new block before block t, or an odd one 2 t + 1, into block t."""
    t = place // 2
    if place % 2:
        parts[t] |= 1 << v
        return n_parts
    for s in range(n_parts, t, -1):
        parts[s] = parts[s - 1]
    parts[t] = 1 << v
    return n_parts + 1


@kernel
def relocate(rng, parts, n_parts, v, base, lookup, offsets, log_sums, ranked, log_scores, scratch):
    """Draw the place of one variable, in a block or as a block of its own, from its full conditional.

    Parameters
    ----------
    rng : numpy.random.Generator
    parts : (n + 1,) int64
        In and out.
    n_parts, v, base : int
    lookup, offsets, log_sums, log_scores, ranked
        As in `partition_log_weight`.
    scratch : (6, n + 2) complex128

    Returns
    -------
    (int, float)
        New number of blocks and log weight of the partition.

    Notes
    -----
    Bounds are an envelope: a place is drawn in proportion to them, and kept with the ratio of its weight to its bound.
    """
    n_parts = take_out(parts, n_parts, v)
    terms, own, after = scratch[:4], scratch[4], scratch[5]
    options = np.empty(2 * n_parts + 1, np.complex128)
    before = base
    last = 0
    for t in range(n_parts + 1):
        if t == 0:
            own[0] = log_sums[offsets[v] + subset_index(lookup, v, base)]
        else:
            own[t] = log_weight(v, before, before & ~last, lookup, offsets, log_sums)
        if t == n_parts:
            break
        _block_terms(parts[t], v, before, last, lookup, offsets, log_sums, terms[:, t])
        if t == 0:  # the first block: no parents but in the base
            terms[0, 0] = partition_log_weight(parts, 1, base, True, lookup, offsets, log_sums, ranked, log_scores)
        before |= parts[t]
        last = parts[t]
    after[n_parts] = 0.0  # sums from the right of what v far before is worth
    for back in range(n_parts):
        t = n_parts - 1 - back
        after[t] = after[t + 1] + terms[1, t]
    ahead = complex(0.0, 0.0)
    for t in range(n_parts + 1):
        options[2 * t] = ahead + own[t]
        if t < n_parts:
            options[2 * t] += terms[3, t] + after[t + 1]
            ahead += terms[0, t]
            options[2 * t + 1] = ahead + own[t]
            if t + 1 < n_parts:
                options[2 * t + 1] += terms[2, t + 1] + after[t + 2]
    trial = np.empty(parts.size, np.int64)
    while True:
        top = -math.inf
        for k in range(options.size):
            top = max(top, options[k].real)
        mass = 0.0
        for k in range(options.size):
            mass += math.exp(options[k].real - top)
        left = rng.random() * mass
        chosen = -1
        for k in range(options.size):
            share = math.exp(options[k].real - top)
            if share > 0.0:
                chosen = k
                left -= share
                if left < 0.0:
                    break
        if options[chosen].imag == 0.0:
            break
        trial[:] = parts
        n_trial = put_in(trial, n_parts, v, chosen)
        value = partition_log_weight(trial, n_trial, base, True, lookup, offsets, log_sums, ranked, log_scores)
        keep = rng.random() < math.exp(value.real - options[chosen].real)
        options[chosen] = value
        if keep:
            break
    return put_in(parts, n_parts, v, chosen), options[chosen].real


@inner_kernel
def exchange(rng, parts, n_parts, i, j, base, weight, lookup, offsets, log_sums, ranked, log_scores):
    """Metropolis step from a partition of this log weight: two variables of different blocks change places."""
    s = -1
    t = -1
    for b in range(n_parts):
        if (parts[b] >> i) & 1:
            s = b
        if (parts[b] >> j) & 1:
            t = b
    if s == t:
        return
    both = (1 << i) | (1 << j)
    parts[s] ^= both
    parts[t] ^= both
    bar = weight + math.log(rng.random())
    value = partition_log_weight(parts, n_parts, base, False, lookup, offsets, log_sums, ranked, log_scores)
    if value.imag > 0.0 and value.real > bar:
        value = partition_log_weight(parts, n_parts, base, True, lookup, offsets, log_sums, ranked, log_scores)
    if value.real <= bar:
        parts[s] ^= both
        parts[t] ^= both


@kernel
def sweep(rng, parts, n_parts, members, base, lookup, offsets, log_sums, ranked, log_scores, scratch):
    """One relocation and one exchange for each variable, at random. Returns the number of blocks.

    Parameters
    ----------
    parts : (n + 1,) int64
        In and out.
    members : (n,) int64
        Variables of the partition.
    """
    n = members.size
    arrays = lookup, offsets, log_sums, ranked, log_scores
    for _ in range(n):
        v = members[rng.integers(0, n)]
        n_parts, weight = relocate(rng, parts, n_parts, v, base, *arrays, scratch)
        if n_parts > 1:
            i = members[rng.integers(0, n)]
            j = members[rng.integers(0, n)]
            exchange(rng, parts, n_parts, i, j, base, weight, *arrays)
    return n_parts
