"""Bounds of a circuit over boxes: largest values in logs, and ranges of value, gradient and Hessian.

A box has one closed interval for each column; a column of counts or levels has integer ends. Every function bounds from
above whatever the circuit: the value of a sum is positive and linear in its children, and a product's children share no
column.
"""

import math

import numpy as np

from pymc_spn.leaves.kernel_forms import times
from pymc_spn.maxima.box_ellipses import SCRATCH, add_kept, elliptical_ranges, log_most
from pymc_spn.maxima.box_leaves import (
    ELLIPTICAL,
    NOTHING,
    PRODUCT,
    SUM,
    derivative_ranges,
    leaf_log_range,
)
from pymc_spn.numerics.kernel_options import inner_kernel, kernel


@kernel
def log_bounds(packed, low, high):
    """Upper bound (B,) of the log value over each box (B, D); the log value itself where the box is a point."""
    out = np.empty(low.shape[0])
    value = np.empty(packed.kind.size)
    scratch = np.empty((SCRATCH, low.shape[1]))
    for b in range(low.shape[0]):
        bounds_of_nodes(packed, low[b], high[b], value, scratch)
        out[b] = value[packed.kind.size - 1]
    return out


@inner_kernel
def bounds_of_nodes(packed, low, high, value, scratch):
    """Upper bounds (n,) of the log values of all nodes over one box (D,)."""
    for i in range(packed.kind.size):
        first = packed.pointer[i]
        last = packed.pointer[i + 1]
        if packed.kind[i] == SUM:
            top = NOTHING
            for e in range(first, last):
                top = max(top, value[packed.child[e]] + packed.log_weight[e])
            total = 0.0
            for e in range(first, last):
                gap = value[packed.child[e]] + packed.log_weight[e] - top
                if gap > -40.0:
                    total += math.exp(gap)
                else:
                    total += 5e-18  # more than exp(-40): still a bound
            value[i] = top + math.log(total) if top > 0.5 * NOTHING else NOTHING
        elif packed.kind[i] == PRODUCT:
            total = 0.0
            for e in range(first, last):
                total += value[packed.child[e]]
            value[i] = max(total, NOTHING)
        elif packed.kind[i] == ELLIPTICAL:
            value[i] = log_most(packed, i, low, high, scratch)
        else:
            d = packed.column[i]
            value[i] = leaf_log_range(packed, i, low[d], high[d])[1] if d >= 0 else packed.parameter[i, 0]


@kernel
def falls_at_points(packed, low, high, at):
    """By how much (B, D) the bound of each box falls when one column is held at a value, the others left as they are.

    A value above the leaves is a sum of products with one leaf of the column each. So it is linear in the values of the
    column's leaves. Their shares of the bound, from one pass down, say what any other values would give. Of leaves over
    several columns the fall is that with the other columns held as well.

    Parameters
    ----------
    packed : PackedCircuit
    low, high : (B, D) float64
        Boxes with a bound above `NOTHING`.
    at : (B, D) float64
        Within the boxes.

    Returns
    -------
    (B, D) float64
        In nats, at most 690; ``-inf`` of columns that have one value.
    """
    n = packed.kind.size
    value = np.empty(n)
    share = np.empty(n)
    kept = np.empty(low.shape[1])
    scratch = np.empty((SCRATCH, low.shape[1]))
    out = np.zeros(low.shape)
    for b in range(low.shape[0]):
        bounds_of_nodes(packed, low[b], high[b], value, scratch)
        share[:] = 0.0
        share[n - 1] = 1.0
        kept[:] = 0.0
        for i in range(n - 1, -1, -1):
            if share[i] == 0.0:
                continue
            first = packed.pointer[i]
            last = packed.pointer[i + 1]
            d = packed.column[i]
            if packed.kind[i] == SUM:
                for e in range(first, last):
                    c = packed.child[e]
                    share[c] += share[i] * math.exp(value[c] + packed.log_weight[e] - value[i])
            elif packed.kind[i] == PRODUCT:
                for e in range(first, last):
                    share[packed.child[e]] += share[i]
            elif packed.kind[i] == ELLIPTICAL:
                add_kept(packed, i, low[b], high[b], at[b], share[i], value[i], kept, scratch)
            elif d >= 0 and high[b, d] > low[b, d]:
                fall = leaf_log_range(packed, i, at[b, d], at[b, d])[1] - value[i]
                kept[d] += share[i] * math.exp(min(fall, 0.0))
        for d in range(low.shape[1]):
            out[b, d] = -math.log(max(kept[d], 1e-300)) if high[b, d] > low[b, d] else -np.inf
    return out


@inner_kernel
def multiply(low, high, other_low, other_high, k, new_low, new_high):
    """Value, gradient and Hessian ranges (1 + k + k(k+1)/2,) of a product of two nodes without common columns."""
    new_low[0], new_high[0] = times(low[0], high[0], other_low[0], other_high[0])
    for i in range(k):
        p, q = times(low[1 + i], high[1 + i], other_low[0], other_high[0])
        r, s = times(low[0], high[0], other_low[1 + i], other_high[1 + i])
        new_low[1 + i] = p + r
        new_high[1 + i] = q + s
    at = 1 + k
    for i in range(k):
        for j in range(i, k):
            p, q = times(low[at], high[at], other_low[0], other_high[0])
            r, s = times(low[0], high[0], other_low[at], other_high[at])
            t, u = times(low[1 + i], high[1 + i], other_low[1 + j], other_high[1 + j])
            v, w = times(low[1 + j], high[1 + j], other_low[1 + i], other_high[1 + i])
            new_low[at] = p + r + (t + v if i != j else 0.0)
            new_high[at] = q + s + (u + w if i != j else 0.0)
            at += 1
    for a in range(at):
        low[a] = new_low[a]
        high[a] = new_high[a]


@kernel
def taylor_ranges(packed, low, high, position, shift):
    """Ranges over boxes of the circuit's value, gradient and Hessian.

    Parameters
    ----------
    packed : PackedCircuit
    low, high : (B, D) float64
    position : (D,) int64
        Number 0 .. k - 1 of each column that is differentiated, -1 for the others.
    shift : (B, D) float64
        Leaves of column d are scaled by exp(-shift), so that values neither overflow nor vanish.

    Returns
    -------
    lower, upper : (B, 1 + k + k(k+1)/2) float64
        Value, gradient, upper triangle of the Hessian by rows.
    """
    k = 0
    for d in range(position.size):
        k = max(k, position[d] + 1)
    m = 1 + k + k * (k + 1) // 2
    n = packed.kind.size
    lower = np.empty((low.shape[0], m))
    upper = np.empty((low.shape[0], m))
    node_low = np.zeros((n, m))
    node_high = np.zeros((n, m))
    new_low = np.zeros(m)
    new_high = np.zeros(m)
    ranges = np.zeros(4)
    scratch = np.empty((SCRATCH, low.shape[1]))
    for b in range(low.shape[0]):
        for i in range(n):
            own_low = node_low[i]
            own_high = node_high[i]
            own_low[:] = 0.0
            own_high[:] = 0.0
            first = packed.pointer[i]
            last = packed.pointer[i + 1]
            if packed.kind[i] == SUM:
                for e in range(first, last):
                    w = math.exp(packed.log_weight[e])
                    c = packed.child[e]
                    for a in range(m):
                        own_low[a] += w * node_low[c, a]
                        own_high[a] += w * node_high[c, a]
            elif packed.kind[i] == PRODUCT:
                own_low[:] = node_low[packed.child[first]]
                own_high[:] = node_high[packed.child[first]]
                for e in range(first + 1, last):
                    c = packed.child[e]
                    multiply(own_low, own_high, node_low[c], node_high[c], k, new_low, new_high)
            elif packed.kind[i] == ELLIPTICAL:
                elliptical_ranges(packed, i, low[b], high[b], position, shift[b], k, own_low, own_high, scratch)
            else:
                d = packed.column[i]
                if d < 0:
                    own_low[0] = own_high[0] = math.exp(packed.parameter[i, 0])
                    continue
                least, most = leaf_log_range(packed, i, low[b, d], high[b, d])
                own_low[0] = math.exp(least - shift[b, d])
                own_high[0] = math.exp(most - shift[b, d])
                j = position[d]
                if j >= 0:
                    derivative_ranges(packed.kind[i], packed.parameter[i], low[b, d], high[b, d], shift[b, d], ranges)
                    own_low[1 + j] = ranges[0]
                    own_high[1 + j] = ranges[1]
                    at = 1 + k + j * k - j * (j - 1) // 2
                    own_low[at] = ranges[2]
                    own_high[at] = ranges[3]
        lower[b] = node_low[n - 1]
        upper[b] = node_high[n - 1]
    return lower, upper


@kernel
def leaf_shifts(packed, low, high):
    """Largest log value (B, D) of each column's leaves over each box; one over several gives each its share."""
    out = np.full(low.shape, NOTHING)
    scratch = np.empty((SCRATCH, low.shape[1]))
    for b in range(low.shape[0]):
        for i in range(packed.kind.size):
            if packed.kind[i] == ELLIPTICAL:
                n = int(packed.parameter[i, 2])
                most = log_most(packed, i, low[b], high[b], scratch)
                for j in range(n):
                    c = packed.several[int(packed.parameter[i, 1]) + j]
                    out[b, c] = max(out[b, c], most / n)
                continue
            d = packed.column[i]
            if d >= 0:
                out[b, d] = max(out[b, d], leaf_log_range(packed, i, low[b, d], high[b, d])[1])
    return np.maximum(out, -1e4)
