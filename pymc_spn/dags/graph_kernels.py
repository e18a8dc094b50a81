"""Directed graphs as bits: parents of each variable, equivalence classes, linear extensions."""

import math

import numpy as np

from pymc_spn.dags.bit_kernels import lowest_bit
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@kernel
def parent_masks(graph, out):
    """Parents of each variable as bits, from a (d, d) bool matrix (parent, child)."""
    d = out.size
    for i in range(d):
        out[i] = 0
        for j in range(d):
            if graph[j, i]:
                out[i] |= 1 << j


@kernel
def topological_order(graph, out):
    """Fill `out` with an order of the variables, smallest number first where free; False if there is a cycle.

    Parameters
    ----------
    graph : (d, d) bool
        Parents by children.
    out : (d,) int64
        Out.
    """
    d = out.size
    missing = np.zeros(d, np.int64)
    for i in range(d):
        for j in range(d):
            missing[i] += graph[j, i]
    for step in range(d):
        found = -1
        for i in range(d):
            if missing[i] == 0:
                found = i
                break
        if found < 0:
            return False
        out[step] = found
        missing[found] = -1  # placed
        for i in range(d):
            if graph[found, i]:
                missing[i] -= 1
    return True


@inner_kernel
def equivalence_class(graph, order, compelled):
    """Mark the edges that have the same direction in all graphs of a class.

    Children are looked at from first to last. What is known of the edges into the last parent settles all edges into
    the child.

    Parameters
    ----------
    graph : (d, d) bool
        Parents by children.
    order : (d,) int64
        A topological order.
    compelled : (d, d) bool
        Out.

    References
    ----------
    Chickering (1995), arXiv:1302.4938, figures 2 and 3.
    """
    d = order.size
    compelled[:] = False
    for y in order:
        x = -1  # the last of y's parents
        for i in order:
            if graph[i, y]:
                x = i
        if x < 0:
            continue
        whole = False  # whether all edges into y are compelled
        for z in range(d):
            if graph[z, y] and z != x and not graph[z, x]:
                whole = True
            if compelled[z, x]:
                compelled[z, y] = True
                if not graph[z, y]:
                    whole = True
        if whole:
            compelled[:, y] = graph[:, y]


@kernel
def equivalence_classes(graphs, out):
    """Completed partially directed graphs of many DAGs.

    Parameters
    ----------
    graphs : (n, d, d) bool
        Parents by children.
    out : (n, d, d) bool
        Out: True at [j, i] if j -> i or j - i.

    Returns
    -------
    int
        Number of the first graph that has a cycle, -1 if none has.
    """
    n, d = graphs.shape[0], graphs.shape[1]
    order = np.empty(d, np.int64)
    compelled = np.empty((d, d), np.bool_)
    unchecked = np.zeros(1, np.int64)
    for s in range(n):
        if must_stop_after(d * d * d, unchecked):
            return -1
        if not topological_order(graphs[s], order):
            return s
        equivalence_class(graphs[s], order, compelled)
        for i in range(d):
            for j in range(d):
                out[s, j, i] = graphs[s, j, i] or (graphs[s, i, j] and not compelled[i, j])
    return -1


@kernel
def log_linear_extensions(parents, max_ideals):
    """Log number of orders in which every variable stands behind its parents, by counting over order ideals.

    Parts that no edge joins are counted by themselves: their orders interleave in every way, and the ideals of the
    whole are as many as the products of theirs.

    Parameters
    ----------
    parents : (d,) int64
    max_ideals : int
        NaN is returned where a part has more ideals, and minus infinity for a cycle.
    """
    d = parents.size
    joined = parents.copy()
    for i in range(d):
        rest = parents[i]
        while rest:
            joined[lowest_bit(rest)] |= 1 << i
            rest &= rest - 1
    total = math.lgamma(d + 1.0)
    done = 0
    place = np.empty(d, np.int64)
    for first in range(d):
        if (done >> first) & 1:
            continue
        part, front = 0, 1 << first
        while front:
            i = lowest_bit(front)
            part |= 1 << i
            front = (front | joined[i]) & ~part
        done |= part
        size = 0
        for i in range(first, d):
            if (part >> i) & 1:
                place[i] = size
                size += 1
        own = np.zeros(size, np.int64)
        for i in range(first, d):
            if (part >> i) & 1:
                rest = parents[i]
                while rest:
                    own[place[i]] |= 1 << place[lowest_bit(rest)]
                    rest &= rest - 1
        total += _connected_extensions(own, max_ideals) - math.lgamma(size + 1.0)
    return total


@inner_kernel
def _connected_extensions(parents, max_ideals):
    d = parents.size
    full = -1 if d == 64 else (1 << d) - 1
    sets = np.zeros(1, np.int64)
    counts = np.ones(1)
    seen = 1
    log_scale = 0.0
    for _ in range(d):
        capacity = 16
        while capacity < 4 * sets.size:
            capacity *= 2
        keys = np.zeros(capacity, np.int64)
        values = np.zeros(capacity)
        n = 0
        for s in range(sets.size):
            ideal = sets[s]
            for i in range(d):
                if (ideal >> i) & 1 or parents[i] & ~ideal:
                    continue
                if 2 * n >= capacity:
                    capacity *= 2
                    bigger_keys = np.zeros(capacity, np.int64)
                    bigger = np.zeros(capacity)
                    for slot in range(keys.size):
                        if keys[slot]:
                            place = find_slot(bigger_keys, keys[slot])
                            bigger_keys[place] = keys[slot]
                            bigger[place] = values[slot]
                    keys = bigger_keys
                    values = bigger
                larger = ideal | (1 << i)
                place = find_slot(keys, larger)
                if keys[place] == 0:
                    keys[place] = larger
                    n += 1
                    if seen + n > max_ideals:
                        return np.nan
                values[place] += counts[s]
        seen += n
        if n == 0:
            return -np.inf
        sets = np.empty(n, np.int64)
        counts = np.empty(n)
        n = 0
        top = 0.0
        for slot in range(capacity):
            if keys[slot]:
                sets[n] = keys[slot]
                counts[n] = values[slot]
                top = max(top, values[slot])
                n += 1
        counts /= top
        log_scale += np.log(top)
    return log_scale if sets[0] == full else -np.inf


@inner_kernel
def find_slot(keys, key):
    """Slot of a non-zero key in an open-addressing table whose size is a power of two, or the slot where it belongs."""
    h = key * np.int64(-7046029254386353131)
    h ^= (h >> 29) & 0x7FFFFFFFF
    place = h & (keys.size - 1)
    while keys[place] != 0 and keys[place] != key:
        place = (place + 1) & (keys.size - 1)
    return place
