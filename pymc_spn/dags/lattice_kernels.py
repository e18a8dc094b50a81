"""Passes over a prefix lattice: which orders it holds, their total weight, and the share of every prefix.

Edges are sorted by the prefix they lead to, prefixes as unsigned numbers, so that a subset stands before its supersets.
"""

import math

import numpy as np

from pymc_spn.dags.bit_kernels import popcount, subset_index
from pymc_spn.dags.zeta_kernels import log_add
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import kernel


@kernel
def places(masks, source, variable, lookup, offsets, out):
    """Place in the flat tables of the set that all candidates before the variable of each edge are, (e,) out."""
    unchecked = np.zeros(1, np.int64)
    for e in range(source.size):
        if must_stop_after(20, unchecked):
            return
        out[e] = offsets[variable[e]] + subset_index(lookup, variable[e], masks[source[e]])


@kernel
def log_forward(ptr, source, log_weights, out, from_source):
    """Log of the sum over the chains to each prefix, and the share of each edge; the last sum is the total.

    Parameters
    ----------
    ptr, source : arrays of `PrefixLattice`
    log_weights : (e,) float64
        Of its edges.
    out : (n,) float64
        Out.
    from_source : (e,) float64
        Out: probability of an edge given the prefix that it leads to; zero where the prefix has no weight.
    """
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
            from_source[ptr[t] : ptr[t + 1]] = 0.0
            continue
        total = 0.0
        for e in range(ptr[t], ptr[t + 1]):
            from_source[e] = math.exp(out[source[e]] + log_weights[e] - top)
            total += from_source[e]
        out[t] = top + math.log(total)
        for e in range(ptr[t], ptr[t + 1]):
            from_source[e] /= total


@kernel
def backward(ptr, source, from_source, prefix, edge):
    """Posterior probability of every prefix and every edge (a variable with the prefix before it).

    Parameters
    ----------
    ptr, source
        As in `log_forward`.
    from_source : (e,) float64
        From `log_forward`.
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
def log_spread(places, edge, log_weights, out):
    """Log of the sum of edge probability over weight for every parent set: the start of the posterior of these.

    Parameters
    ----------
    places : (e,) int64
        Of the parent set that each edge has before it.
    edge, log_weights : (e,) float64
    out : (offsets[-1],) float64
        Out.
    """
    out[:] = -math.inf
    unchecked = np.zeros(1, np.int64)
    for e in range(places.size):
        if must_stop_after(20, unchecked):
            return
        if edge[e] > 0.0:
            out[places[e]] = log_add(out[places[e]], math.log(edge[e]) - log_weights[e])


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
def closed_sets(must_precede, after, smallest, limit, out):
    """All sets that hold, with a variable, everything that must precede it; their number, or -1 beyond the limit.

    Parameters
    ----------
    must_precede, after : (d,) int64
        What must stand before each variable, and behind it.
    smallest : int
        Set that all others hold.
    limit : int
    out : (limit,) int64
        Out; not sorted, but smaller sets come first.
    """
    d = must_precede.size
    out[0] = smallest
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
                    if ((larger & ~smallest) >> j) & 1 and after[j] & larger == 0:
                        first = False
                        break
                if first:
                    if n >= limit:
                        return -1
                    out[n] = larger
                    n += 1
        start = end
    return n


@kernel
def log_linear_extensions(must_precede, after, limit):
    """Log number of orders that keep what must precede; NaN if a part has more than `limit` closed sets.

    Parts that nothing joins are counted by themselves: their orders interleave in every way, and the closed sets of the
    whole are as many as the products of theirs.
    """
    d = must_precede.size
    found, counts = np.empty(limit, np.int64), np.empty(limit)
    unchecked = np.zeros(1, np.int64)
    total, done = math.lgamma(d + 1.0), 0
    for first in range(d):
        if (done >> first) & 1:
            continue
        part, grown = 0, 1 << first
        while part != grown:
            part = grown
            for i in range(d):
                if (part >> i) & 1:
                    grown |= must_precede[i] | after[i]
        done |= part
        n = closed_sets(must_precede, after, ~part, limit, found)
        if n < 0:
            return math.nan
        order = np.argsort(found[:n])
        ranked = found[order]
        counts[0] = 1.0
        for t in range(1, n):
            if must_stop_after(50 * d, unchecked):
                return math.nan
            counts[t] = 0.0
            for i in range(d):
                if ((found[t] & part) >> i) & 1 and after[i] & found[t] == 0:
                    counts[t] += counts[order[np.searchsorted(ranked, found[t] ^ (1 << i))]]
        total += math.log(counts[n - 1]) - math.lgamma(popcount(part) + 1.0)
    return total
