"""Markov chains over ordered partitions, whose blocks are the levels of a graph: each graph has exactly one.

A variable of the first block has no parents; one of a later block has its parents in earlier blocks and at least one in
the block before its own. So a partition's weight is a product of differences of two sums over subsets. Where a
difference cancels, the kernels work with an upper bound and count parent sets only if the bound does not decide.
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
    """Log weight of the parent sets of i inside one prefix and not inside a smaller one, and whether it is no bound.

    Parameters
    ----------
    i : int
    inside, without : int
        Prefixes as bits, the second part of the first.
    lookup, offsets, log_sums : arrays of `LocalScores`

    Returns
    -------
    (float, bool)
        The value, or a bound above it and False.
    """
    all_sets = subset_index(lookup, i, inside)
    fewer = subset_index(lookup, i, without)
    high = log_sums[offsets[i] + all_sets]
    if fewer == all_sets or high == -math.inf:
        return -math.inf, True
    share = -math.expm1(log_sums[offsets[i] + fewer] - high)
    if share > _SMALL:
        return high + math.log(share), True
    return high + _LOG_BOUND, False


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


@kernel
def partition_log_weight(parts, n_parts, base, exact, lookup, offsets, log_sums, ranked, log_scores):
    """Log weight of an ordered partition: the sum over its graphs; and whether it is no bound.

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
    total = 0.0
    sure = True
    before = base
    for t in range(n_parts):
        rest = parts[t]
        without = before & ~parts[t - 1] if t else 0
        while rest:
            i = lowest_bit(rest)
            rest &= rest - 1
            if t == 0:
                total += log_sums[offsets[i] + subset_index(lookup, i, before)]
                continue
            value, known = log_weight(i, before, without, lookup, offsets, log_sums)
            if not known and exact:
                value = counted_weight(i, before, without, lookup, offsets, ranked, log_scores)
            elif not known:
                sure = False
            total += value
        before |= parts[t]
    return total, sure


@inner_kernel
def _block_terms(block, v, before, last, lookup, offsets, log_sums, terms, unsure):
    """Log weights of a block's variables, with v absent, far before, in the last block, or alone in the last block.

    Parameters
    ----------
    block, before, last : int
        Variables of the block, all before it, and those of the block just before it, as bits; v in none.
    terms, unsure : (4,) float64 and int64
        Out: sums, and how many of their terms are bounds.
    """
    bit = 1 << v
    old = before & ~last
    for q in range(4):
        terms[q] = 0.0
        unsure[q] = 0
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
            value, known = log_weight(i, inside, without, lookup, offsets, log_sums)
            terms[q] += value
            if not known:
                unsure[q] += 1


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
    scratch : (6, n + 2) float64

    Returns
    -------
    (int, float)
        New number of blocks and log weight of the partition.

    Notes
    -----
    Bounds are an envelope: a place is drawn in proportion to them, and kept with the ratio of its weight to its bound.
    """
    n_parts = take_out(parts, n_parts, v)
    terms, own, option = scratch[:4], scratch[4], scratch[5]
    unsure = np.zeros((4, n_parts + 1), np.int64)
    doubt = np.zeros(2 * n_parts + 1, np.int64)
    own_doubt = np.zeros(n_parts + 1, np.int64)
    options = np.empty(2 * n_parts + 1)
    column = np.empty(4)
    doubts = np.empty(4, np.int64)
    before = base
    last = 0
    for t in range(n_parts + 1):
        if t == 0:
            own[0] = log_sums[offsets[v] + subset_index(lookup, v, base)]
        else:
            own[t], known = log_weight(v, before, before & ~last, lookup, offsets, log_sums)
            own_doubt[t] = not known
        if t == n_parts:
            break
        _block_terms(parts[t], v, before, last, lookup, offsets, log_sums, column, doubts)
        for q in range(4):
            terms[q, t] = column[q]
            unsure[q, t] = doubts[q]
        if t == 0:  # the first block: no parents but in the base
            terms[0, 0] = 0.0
            unsure[0, 0] = 0
            rest = parts[0]
            while rest:
                i = lowest_bit(rest)
                rest &= rest - 1
                terms[0, 0] += log_sums[offsets[i] + subset_index(lookup, i, base)]
        before |= parts[t]
        last = parts[t]
    after = option  # sums from the right of what v far before is worth
    after[n_parts] = 0.0
    after_doubt = np.zeros(n_parts + 1, np.int64)
    for back in range(n_parts):
        t = n_parts - 1 - back
        after[t] = after[t + 1] + terms[1, t]
        after_doubt[t] = after_doubt[t + 1] + unsure[1, t]
    ahead = 0.0
    ahead_doubt = 0
    top = -math.inf
    for t in range(n_parts + 1):
        options[2 * t] = ahead + own[t]
        doubt[2 * t] = ahead_doubt + own_doubt[t]
        if t < n_parts:
            options[2 * t] += terms[3, t] + after[t + 1]
            doubt[2 * t] += unsure[3, t] + after_doubt[t + 1]
            ahead += terms[0, t]
            ahead_doubt += unsure[0, t]
            options[2 * t + 1] = ahead + own[t]
            doubt[2 * t + 1] = ahead_doubt + own_doubt[t]
            if t + 1 < n_parts:
                options[2 * t + 1] += terms[2, t + 1] + after[t + 2]
                doubt[2 * t + 1] += unsure[2, t + 1] + after_doubt[t + 2]
    for k in range(options.size):
        top = max(top, options[k])
    trial = np.empty(parts.size, np.int64)
    while True:
        mass = 0.0
        for k in range(options.size):
            mass += math.exp(options[k] - top)
        left = rng.random() * mass
        chosen = -1
        for k in range(options.size):
            share = math.exp(options[k] - top)
            if share > 0.0:
                chosen = k
                left -= share
                if left < 0.0:
                    break
        if doubt[chosen] == 0:
            break
        trial[:] = parts
        n_trial = put_in(trial, n_parts, v, chosen)
        value, _ = partition_log_weight(trial, n_trial, base, True, lookup, offsets, log_sums, ranked, log_scores)
        keep = rng.random() < math.exp(value - options[chosen])
        options[chosen] = value
        doubt[chosen] = 0
        if keep:
            break
        top = -math.inf
        for k in range(options.size):
            top = max(top, options[k])
    return put_in(parts, n_parts, v, chosen), options[chosen]


@inner_kernel
def exchange(rng, parts, n_parts, i, j, base, weight, lookup, offsets, log_sums, ranked, log_scores):
    """Metropolis step: two variables of different blocks change places. Returns log weight and acceptance."""
    s = -1
    t = -1
    for b in range(n_parts):
        if (parts[b] >> i) & 1:
            s = b
        if (parts[b] >> j) & 1:
            t = b
    if s == t:
        return weight, False
    both = (1 << i) | (1 << j)
    parts[s] ^= both
    parts[t] ^= both
    bar = weight + math.log(rng.random())
    value, sure = partition_log_weight(parts, n_parts, base, False, lookup, offsets, log_sums, ranked, log_scores)
    if not sure and value > bar:
        value, _ = partition_log_weight(parts, n_parts, base, True, lookup, offsets, log_sums, ranked, log_scores)
    if value > bar:
        return value, True
    parts[s] ^= both
    parts[t] ^= both
    return weight, False


@kernel
def sweep(rng, parts, n_parts, members, base, lookup, offsets, log_sums, ranked, log_scores, scratch):
    """One relocation and one exchange for each variable, at random.

    Parameters
    ----------
    parts : (n + 1,) int64
        In and out.
    members : (n,) int64
        Variables of the partition.

    Returns
    -------
    (int, float, int)
        Number of blocks, log weight of the partition, accepted exchanges.
    """
    n = members.size
    weight, _ = partition_log_weight(parts, n_parts, base, True, lookup, offsets, log_sums, ranked, log_scores)
    accepted = 0
    for _ in range(n):
        v = members[rng.integers(0, n)]
        n_parts, weight = relocate(rng, parts, n_parts, v, base, lookup, offsets, log_sums, ranked, log_scores, scratch)
        if n_parts > 1:
            i = members[rng.integers(0, n)]
            j = members[rng.integers(0, n)]
            weight, moved = exchange(
                rng, parts, n_parts, i, j, base, weight, lookup, offsets, log_sums, ranked, log_scores
            )
            accepted += moved
    return n_parts, weight, accepted
