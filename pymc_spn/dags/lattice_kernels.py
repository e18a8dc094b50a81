"""Passes over a prefix lattice: which orders it holds, their total weight, and the share of every prefix.

Edges are sorted by the prefix they lead to, prefixes as unsigned numbers, so that a subset stands before its supersets.
"""

import math

import numpy as np

from pymc_spn.dags.bit_kernels import lowest_bit, subset_index
from pymc_spn.dags.graph_kernels import find_slot
from pymc_spn.dags.zeta_kernels import TINY, log_add, smallest
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import kernel


@kernel
def connect(masks, ptr, source, variable):
    """Edges between prefixes that differ by one variable; the number of edges is returned.

    Parameters
    ----------
    masks : (n,) int64
        Distinct, sorted as unsigned numbers, the first 0.
    ptr : (n + 1,) int64
        Out: edges into prefix t are ``ptr[t]:ptr[t + 1]``.
    source : (e,) int32
        Out; with no entries, edges are only counted.
    variable : (e,) int16
        Out.
    """
    n = masks.size
    capacity = 16
    while capacity < 2 * n:
        capacity *= 2
    keys = np.zeros(capacity, np.int64)
    place = np.zeros(capacity, np.int32)
    for t in range(1, n):
        slot = find_slot(keys, masks[t])
        keys[slot] = masks[t]
        place[slot] = t
    n_edges = 0
    ptr[0] = 0
    unchecked = np.zeros(1, np.int64)
    for t in range(n):
        if must_stop_after(500, unchecked):
            return n_edges
        rest = masks[t]
        while rest:
            i = lowest_bit(rest)
            rest &= rest - 1
            before = masks[t] ^ (1 << i)
            found = -1
            if before == 0:
                found = 0
            else:
                slot = find_slot(keys, before)
                if keys[slot] == before:
                    found = place[slot]
            if found >= 0:
                if source.size:
                    source[n_edges] = found
                    variable[n_edges] = i
                n_edges += 1
        ptr[t + 1] = n_edges
    return n_edges


@kernel
def connect_all(d, ptr, source, variable):
    """As `connect`, for all 2^d prefixes."""
    e = 0
    ptr[0] = 0
    unchecked = np.zeros(1, np.int64)
    for t in range(1 << d):
        if must_stop_after(5 * d, unchecked):
            return
        for i in range(d):
            if (t >> i) & 1:
                source[e] = t ^ (1 << i)
                variable[e] = i
                e += 1
        ptr[t + 1] = e


@kernel
def edge_indices(masks, ptr, source, variable, lookup, out):
    """Subset index of every edge's prefix among its variable's candidates."""
    unchecked = np.zeros(1, np.int64)
    for e in range(source.size):
        if must_stop_after(20, unchecked):
            return
        out[e] = subset_index(lookup, variable[e], masks[source[e]])


@kernel
def gather(offsets, tables, factors, variable, index, out):
    """Entry of a flat table for every edge, times a factor by variable."""
    for e in range(variable.size):
        out[e] = tables[offsets[variable[e]] + index[e]] * factors[variable[e]]


@kernel
def gather_one(i, table, factor, variable, index, out):
    """Entry of one variable's table, times a factor, for each of its edges; other edges stay."""
    for e in range(variable.size):
        if variable[e] == i:
            out[e] = table[index[e]] * factor


@kernel
def forward(ptr, source, weights, out):
    """Sum over the chains to each prefix, linear; the last entry is the total."""
    out[0] = 1.0
    for t in range(1, out.size):
        total = 0.0
        for e in range(ptr[t], ptr[t + 1]):
            total += out[source[e]] * weights[e]
        out[t] = total


@kernel
def completions(ptr, source, weights, out):
    """Sum over the chains from each prefix to the last, linear."""
    n = out.size
    out[:] = 0.0
    out[n - 1] = 1.0
    for back in range(n):
        t = n - 1 - back
        for e in range(ptr[t], ptr[t + 1]):
            out[source[e]] += out[t] * weights[e]


@kernel
def nothing_lost(sums, rest, total):
    """Whether linear sums to and from all prefixes are exact to rounding although some may have underflowed.

    What is lost at a prefix whose sum underflowed is at most the smallest number times the sum of its completions, and
    the other way round.
    """
    if not (total > TINY and total < math.inf):
        return False
    if min(smallest(sums), smallest(rest)) >= TINY:
        return True
    lost = 0.0
    for t in range(sums.size):
        if sums[t] < TINY:
            lost += rest[t]
        if rest[t] < TINY:
            lost += sums[t]
    return lost * TINY <= 1e-14 * total


@kernel
def greedy_factors(slots, offsets, sums, precede, out):
    """Inverse sums along an order that takes next the variable that loses least against all its candidates.

    Parameters
    ----------
    slots, offsets : arrays of `LocalScores`
    sums : (offsets[-1],) float64
        In any unit by variable.
    precede : (d, d) bool
        `LocalScores.must_precede`.
    out : (d,) float64
        Out.
    """
    d = out.size
    inside, missing = np.zeros(d, np.int64), np.zeros(d, np.int64)
    for i in range(d):
        for j in range(d):
            missing[i] += precede[i, j]
    for _ in range(d):
        best = -1.0
        chosen = -1
        for i in range(d):
            if missing[i] == 0:
                share = sums[offsets[i] + inside[i]] / sums[offsets[i + 1] - 1]
                if share > best:
                    best = share
                    chosen = i
        out[chosen] = 1.0 / (max(best, 1e-250) * sums[offsets[chosen + 1] - 1])
        missing[chosen] = -1  # placed
        for i in range(d):
            if precede[i, chosen]:
                missing[i] -= 1
            if slots[i, chosen] >= 0:
                inside[i] |= 1 << slots[i, chosen]


@kernel
def log_forward(ptr, source, log_weights, out):
    """As `forward`, in logs."""
    out[0] = 0.0
    unchecked = np.zeros(1, np.int64)
    for t in range(1, out.size):
        if must_stop_after(20 * (ptr[t + 1] - ptr[t]), unchecked):
            return
        top = -math.inf
        for e in range(ptr[t], ptr[t + 1]):
            top = max(top, out[source[e]] + log_weights[e])
        if top == -math.inf:
            out[t] = top
            continue
        total = 0.0
        for e in range(ptr[t], ptr[t + 1]):
            total += math.exp(out[source[e]] + log_weights[e] - top)
        out[t] = top + math.log(total)


@kernel
def shares(ptr, source, weights, sums, from_source):
    """Probability of every edge given the prefix that it leads to; zero where the prefix has no weight."""
    for t in range(1, sums.size):
        if sums[t] > 0.0:
            inverse = 1.0 / sums[t]
            for e in range(ptr[t], ptr[t + 1]):
                from_source[e] = sums[source[e]] * weights[e] * inverse
        else:
            for e in range(ptr[t], ptr[t + 1]):
                from_source[e] = 0.0


@kernel
def log_shares(ptr, source, log_weights, sums, from_source):
    """As `shares`, from logs."""
    unchecked = np.zeros(1, np.int64)
    for t in range(1, sums.size):
        if must_stop_after(20 * (ptr[t + 1] - ptr[t]), unchecked):
            return
        for e in range(ptr[t], ptr[t + 1]):
            if sums[t] == -math.inf:
                from_source[e] = 0.0
            else:
                from_source[e] = math.exp(sums[source[e]] + log_weights[e] - sums[t])


@kernel
def backward(ptr, source, from_source, prefix, edge):
    """Posterior probability of every prefix and every edge (a variable with the prefix before it).

    Parameters
    ----------
    ptr, source
        As in `connect`.
    from_source : (e,) float64
        From `shares`.
    prefix : (n,) float64
        Out.
    edge : (e,) float64
        Out.
    """
    prefix[:] = 0.0
    n = prefix.size
    prefix[n - 1] = 1.0
    unchecked = np.zeros(1, np.int64)
    for back in range(n):
        t = n - 1 - back
        if must_stop_after(10 * (ptr[t + 1] - ptr[t]), unchecked):
            return
        share = prefix[t]
        for e in range(ptr[t], ptr[t + 1]):
            value = share * from_source[e]
            edge[e] = value
            prefix[source[e]] += value


@kernel
def spread(offsets, variable, index, edge, weights, out):
    """Sum of edge probability over weight for every subset index: the start of the parent-set posterior."""
    out[:] = 0.0
    for e in range(variable.size):
        if edge[e] > 0.0:
            out[offsets[variable[e]] + index[e]] += edge[e] / weights[e]


@kernel
def log_spread(offsets, variable, index, edge, log_weights, out):
    """As `spread`, in logs."""
    out[:] = -math.inf
    unchecked = np.zeros(1, np.int64)
    for e in range(variable.size):
        if must_stop_after(20, unchecked):
            return
        if edge[e] > 0.0:
            at = offsets[variable[e]] + index[e]
            out[at] = log_add(out[at], math.log(edge[e]) - log_weights[e])


@kernel
def before(masks, source, variable, edge, out):
    """Probability that j stands before i, for all pairs.

    Parameters
    ----------
    masks, source, variable, edge
        Lattice and the probabilities of its edges.
    out : (d, d) float64
        Out: entry [j, i].
    """
    out[:] = 0.0
    unchecked = np.zeros(1, np.int64)
    for e in range(source.size):
        if must_stop_after(20, unchecked):
            return
        rest = masks[source[e]]
        i = variable[e]
        while rest:
            out[lowest_bit(rest), i] += edge[e]
            rest &= rest - 1


@kernel
def best_chain(ptr, source, variable, log_weights, order):
    """Chain of largest weight; fills `order` and returns its log weight."""
    n = ptr.size - 1
    best = np.full(n, -math.inf)
    through = np.full(n, -1)
    best[0] = 0.0
    for t in range(1, n):
        for e in range(ptr[t], ptr[t + 1]):
            value = best[source[e]] + log_weights[e]
            if value > best[t]:
                best[t] = value
                through[t] = e
    t = n - 1
    if best[t] == -math.inf:
        return best[t]
    for back in range(order.size):
        e = through[t]
        order[order.size - 1 - back] = variable[e]
        t = source[e]
    return best[n - 1]


@kernel
def closed_sets(must_precede, limit, out):
    """All sets that hold, with a variable, everything that must precede it; their number, or -1 beyond the limit.

    Parameters
    ----------
    must_precede : (d,) int64
    limit : int
    out : (limit,) int64
        Out; not sorted.
    """
    d = must_precede.size
    after = np.zeros(d, np.int64)  # variables that must stand behind each
    for i in range(d):
        for j in range(d):
            if (must_precede[i] >> j) & 1:
                after[j] |= 1 << i
    out[0] = 0
    n = 1
    start = 0
    for _ in range(d):
        end = n
        for s in range(start, end):
            ideal = out[s]
            for i in range(d):
                if (ideal >> i) & 1 or must_precede[i] & ~ideal:
                    continue
                larger = ideal | (1 << i)
                first = True  # made once: only by adding its highest variable that can be taken away
                for j in range(i + 1, d):
                    if (larger >> j) & 1 and after[j] & larger == 0:
                        first = False
                        break
                if first:
                    if n >= limit:
                        return -1
                    out[n] = larger
                    n += 1
        start = end
    return n
