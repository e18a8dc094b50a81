"""Passes over a prefix lattice: which orders it holds, their total weight, and the share of every prefix.

Edges are sorted by the prefix they lead to, prefixes as unsigned numbers, so that a subset stands before its supersets.
"""

import math

import numpy as np

from pymc_spn.dags.bit_kernels import lowest_bit, subset_index
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
def log_forward(ptr, source, log_weights, out):
    """Log of the sum over the chains to each prefix; the last entry is the total.

    Parameters
    ----------
    ptr, source : arrays of `PrefixLattice`
    log_weights : (e,) float64
        Of its edges.
    out : (n,) float64
        Out.
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
            continue
        total = 0.0
        for e in range(ptr[t], ptr[t + 1]):
            total += math.exp(out[source[e]] + log_weights[e] - top)
        out[t] = top + math.log(total)


@kernel
def log_shares(ptr, source, log_weights, sums, from_source):
    """Probability of every edge given the prefix that it leads to; zero where the prefix has no weight."""
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
        As in `log_forward`.
    from_source : (e,) float64
        From `log_shares`.
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
