"""Local ascent on a circuit's density: from the best induced trees to nearby modes."""

import math

import numpy as np

from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.maxima.box_leaves import NOTHING, PRODUCT, SUM, leaf_log, leaf_log_range, leaf_mode, pull_of
from pymc_spn.numerics.kernel_options import bare_inner_kernel, kernel


@kernel
def best_trees(packed, low, high, n_starts):
    """Modes (n_starts, D) of the induced trees of largest value, one below each of the root's best children.

    The leaves' values are clipped to the box. Rows that are not used are NaN.
    """
    n = packed.kind.size
    value = np.empty(n)
    for i in range(n):
        first = packed.pointer[i]
        last = packed.pointer[i + 1]
        if packed.kind[i] == SUM:
            value[i] = NOTHING
            for e in range(first, last):
                value[i] = max(value[i], value[packed.child[e]] + packed.log_weight[e])
        elif packed.kind[i] == PRODUCT:
            value[i] = 0.0
            for e in range(first, last):
                value[i] += value[packed.child[e]]
        else:
            d = packed.column[i]
            value[i] = leaf_log_range(packed, i, low[d], high[d])[1] if d >= 0 else packed.parameter[i, 0]
    root = n - 1
    out = np.full((n_starts, low.size), np.nan)
    if packed.kind[root] == SUM:
        below = packed.child[packed.pointer[root] : packed.pointer[root + 1]]
        ranked = np.argsort(-(value[below] + packed.log_weight[packed.pointer[root] : packed.pointer[root + 1]]))
        tops = below[ranked[:n_starts]]
    else:
        tops = np.full(1, root)
    stack = np.empty(n, np.int64)
    for s in range(tops.size):
        stack[0] = tops[s]
        height = 1
        while height > 0:
            height -= 1
            i = stack[height]
            first = packed.pointer[i]
            last = packed.pointer[i + 1]
            if packed.kind[i] == SUM:
                best = first
                for e in range(first, last):
                    if (
                        value[packed.child[e]] + packed.log_weight[e]
                        > value[packed.child[best]] + packed.log_weight[best]
                    ):
                        best = e
                stack[height] = packed.child[best]
                height += 1
            elif packed.kind[i] == PRODUCT:
                for e in range(first, last):
                    stack[height] = packed.child[e]
                    height += 1
            else:
                d = packed.column[i]
                if d < 0:
                    continue
                if packed.kind[i] != CATEGORICAL:
                    out[s, d] = min(max(leaf_mode(packed, i), low[d]), high[d])
                    continue
                out[s, d] = low[d]
                for k in range(int(low[d]), int(high[d]) + 1):
                    if leaf_log(packed, i, float(k)) > leaf_log(packed, i, out[s, d]):
                        out[s, d] = k
    return out


@kernel
def climb(packed, start, low, high, moves, n_steps):
    """Points (B, D) after some steps of minorise-maximise on the columns that move, which never lower the density.

    At each step a leaf counts by its share of the density. A normal or Student leaf pulls by a parabola that
    touches its log density from below, a falling leaf by its tangent.
    """
    n = packed.kind.size
    value = np.empty(n)
    flow = np.empty(n)
    force = np.empty(low.size)
    stiffness = np.empty(low.size)
    out = start.copy()
    for b in range(start.shape[0]):
        x = out[b]
        for _ in range(n_steps):
            upward(packed, x, value)
            if value[n - 1] <= 0.5 * NOTHING:
                break
            flow[:] = 0.0
            flow[n - 1] = 1.0
            force[:] = 0.0
            stiffness[:] = 0.0
            for i in range(n - 1, -1, -1):
                if flow[i] == 0.0:
                    continue
                first = packed.pointer[i]
                last = packed.pointer[i + 1]
                if packed.kind[i] == SUM:
                    for e in range(first, last):
                        gap = value[packed.child[e]] + packed.log_weight[e] - value[i]
                        flow[packed.child[e]] += flow[i] * math.exp(gap)
                elif packed.kind[i] == PRODUCT:
                    for e in range(first, last):
                        flow[packed.child[e]] += flow[i]
                elif packed.column[i] >= 0:
                    d = packed.column[i]
                    one_force, one_stiffness = pull_of(packed.kind[i], packed.parameter[i], x[d], flow[i])
                    force[d] += one_force
                    stiffness[d] += one_stiffness
            moved = 0.0
            for d in range(low.size):
                if not moves[d]:
                    continue
                if stiffness[d] > 0.0:
                    new = min(max(x[d] + force[d] / stiffness[d], low[d]), high[d])
                    moved = max(moved, abs(new - x[d]) * math.sqrt(stiffness[d]))
                    x[d] = new
                elif force[d] < 0.0:
                    moved = max(moved, x[d] - low[d])
                    x[d] = low[d]
            if moved < 1e-9:
                break
    return out


@bare_inner_kernel
def upward(packed, x, value):
    """Log values of all nodes at a point."""
    for i in range(packed.kind.size):
        first = packed.pointer[i]
        last = packed.pointer[i + 1]
        if packed.kind[i] == SUM:
            top = NOTHING
            for e in range(first, last):
                top = max(top, value[packed.child[e]] + packed.log_weight[e])
            total = 0.0
            for e in range(first, last):
                total += math.exp(value[packed.child[e]] + packed.log_weight[e] - top)
            value[i] = top + math.log(total) if top > 0.5 * NOTHING else NOTHING
        elif packed.kind[i] == PRODUCT:
            value[i] = 0.0
            for e in range(first, last):
                value[i] += value[packed.child[e]]
            value[i] = max(value[i], NOTHING)
        else:
            value[i] = leaf_log(packed, i, x[packed.column[i]]) if packed.column[i] >= 0 else packed.parameter[i, 0]
