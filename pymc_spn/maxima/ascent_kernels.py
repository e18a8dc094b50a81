"""Local ascent on a circuit's density: from the best induced trees to nearby modes."""

import math

import numpy as np

from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.maxima.box_ellipses import (
    SCRATCH,
    inverse_entry,
    least_square,
    log_of_square,
    pull_of_square,
    slope_of_square,
    square_at,
)
from pymc_spn.maxima.box_leaves import ELLIPTICAL, NOTHING, PRODUCT, SUM, leaf_log, leaf_log_range, leaf_mode, pull_of
from pymc_spn.numerics.kernel_options import bare_inner_kernel, inner_kernel, kernel

FACES = 3  # steps of `descend`, for each column


@kernel
def best_trees(packed, low, high, n_starts):
    """Modes (n_starts, D) of the induced trees of largest value, one below each of the root's best children.

    The leaves' values are clipped to the box. Rows that are not used are NaN.
    """
    n = packed.kind.size
    value = np.empty(n)
    scratch = np.empty((SCRATCH, low.size))
    for i in range(n):
        first = packed.pointer[i]
        last = packed.pointer[i + 1]
        if packed.kind[i] == ELLIPTICAL:
            value[i] = log_of_square(packed, i, least_square(packed, i, low, high, scratch))
        elif packed.kind[i] == SUM:
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
            elif packed.kind[i] == ELLIPTICAL:
                least_square(packed, i, low, high, scratch)
                for j in range(int(packed.parameter[i, 2])):
                    out[s, packed.several[int(packed.parameter[i, 1]) + j]] = scratch[0, j]
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
    touches its log density from below, a falling leaf by its tangent. Leaves over several columns pull by a quadratic
    form, so that the columns which they hold move together.
    """
    n = packed.kind.size
    value = np.empty(n)
    flow = np.empty(n)
    force = np.empty(low.size)
    stiffness = np.empty(low.size)
    scratch = np.empty((SCRATCH, low.size))
    held = np.zeros(low.size, np.bool_)
    for c in packed.several:
        held[c] = True
    several = np.flatnonzero(held & moves)
    number = np.full(low.size, -1)
    number[several] = np.arange(several.size)
    form = np.zeros((several.size, several.size))
    out = start.copy()
    for b in range(start.shape[0]):
        x = out[b]
        for _ in range(n_steps):
            upward(packed, x, value, scratch)
            if value[n - 1] <= 0.5 * NOTHING:
                break
            flow[:] = 0.0
            flow[n - 1] = 1.0
            force[:] = 0.0
            stiffness[:] = 0.0
            form[:] = 0.0
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
                elif packed.kind[i] == ELLIPTICAL:
                    add_pull(packed, i, x, flow[i], number, force, form, scratch)
                elif packed.column[i] >= 0:
                    d = packed.column[i]
                    one_force, one_stiffness = pull_of(packed.kind[i], packed.parameter[i], x[d], flow[i])
                    force[d] += one_force
                    stiffness[d] += one_stiffness
            moved = 0.0
            if several.size:
                moved = descend(several, form, force, stiffness, low, high, x)
            for d in range(low.size):
                if not moves[d] or number[d] >= 0:
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


@inner_kernel
def add_pull(packed, i, x, share, number, force, form, scratch):
    """Add the force and the quadratic form of a leaf over several columns at a point (D,), by the columns' numbers."""
    square = square_at(packed, i, x, scratch)
    pull = share * pull_of_square(packed, i, square)
    own = int(packed.parameter[i, 1])
    for j in range(int(packed.parameter[i, 2])):
        c = packed.several[own + j]
        if number[c] < 0:
            continue
        force[c] -= pull * slope_of_square(packed, i, j, scratch[1])
        for m in range(int(packed.parameter[i, 2])):
            other = number[packed.several[own + m]]
            if other >= 0:
                form[number[c], other] += pull * inverse_entry(packed, i, j, m)


@inner_kernel
def descend(several, form, force, stiffness, low, high, x):
    """Move columns (k,) of a point to where a quadratic is least in the box, in place, and return how far in its norm.

    The quadratic has the gradient -force at the point and the Hessian form + diag(stiffness). Columns at an end that
    are drawn beyond it are held, the others solved for; a step ends where the first of them comes to an end. So it
    never rises.
    """
    k = several.size
    for a in range(k):
        form[a, a] += stiffness[several[a]]
    moved = 0.0
    for _ in range(FACES * k):
        is_free = np.zeros(k, np.bool_)
        for a in range(k):
            d = several[a]
            up, down = force[d] > 0.0, force[d] < 0.0
            is_free[a] = form[a, a] > 0.0 and not (x[d] <= low[d] and down) and not (x[d] >= high[d] and up)
        free = np.flatnonzero(is_free)
        if free.size == 0:
            break
        own = np.empty((free.size, free.size))
        right = np.empty(free.size)
        for a in range(free.size):
            right[a] = force[several[free[a]]]
            for b in range(free.size):
                own[a, b] = form[free[a], free[b]]
        step = solved(own, right)
        length = 1.0
        for a in range(free.size):
            d = several[free[a]]
            if x[d] + step[a] > high[d]:
                length = min(length, (high[d] - x[d]) / step[a])
            elif x[d] + step[a] < low[d]:
                length = min(length, (low[d] - x[d]) / step[a])
        reach = 0.0
        for a in range(free.size):
            d = several[free[a]]
            new = x[d] + length * step[a]
            if length < 1.0 and (x[d] + step[a] > high[d] or x[d] + step[a] < low[d]):
                end = high[d] if step[a] > 0.0 else low[d]
                if abs(new - end) <= 1e-12 * (1.0 + abs(end)):
                    new = end
            reach += length * step[a] * force[d]
            x[d] = min(max(new, low[d]), high[d])
        for a in range(k):  # the force that is left
            for b in range(free.size):
                force[several[a]] -= length * form[a, free[b]] * step[b]
        moved = max(moved, math.sqrt(max(reach, 0.0)))
        if length == 1.0:
            break
    return moved


@inner_kernel
def solved(form, right):
    """Solution (k,) of a positive definite system, in place of the right-hand side; the factor replaces the matrix."""
    k = right.size
    for a in range(k):
        for b in range(a + 1):
            total = form[a, b]
            for c in range(b):
                total -= form[a, c] * form[b, c]
            if a == b:
                form[a, a] = math.sqrt(max(total, 1e-300))
            else:
                form[a, b] = total / form[b, b]
    for a in range(k):
        for c in range(a):
            right[a] -= form[a, c] * right[c]
        right[a] /= form[a, a]
    for a in range(k - 1, -1, -1):
        for c in range(a + 1, k):
            right[a] -= form[c, a] * right[c]
        right[a] /= form[a, a]
    return right


@bare_inner_kernel
def upward(packed, x, value, scratch):
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
        elif packed.kind[i] == ELLIPTICAL:
            value[i] = log_of_square(packed, i, square_at(packed, i, x, scratch))
        else:
            value[i] = leaf_log(packed, i, x[packed.column[i]]) if packed.column[i] >= 0 else packed.parameter[i, 0]
