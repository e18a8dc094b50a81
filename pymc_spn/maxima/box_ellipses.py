"""Elliptical leaves over boxes: Gaussian and Student t leaves over several columns.

The density falls with one square. With the Cholesky factor L of the scale matrix it is ``|L^-1 (x - m)|^2`` at x. A
column by itself bounds the square over a box from below, by the square of the marginal. A tangent plane bounds it as
well, since the square is convex. At the point of the box where the square is least this bound is exact. Coordinate
descent comes near that point, and every point on the way gives a bound that holds.

Leaves stand in a `PackedCircuit` (`box_leaves`).
"""

import math
from typing import Any

import numpy as np

from pymc_spn.leaves.kernel_forms import IMPOSSIBLE, times
from pymc_spn.numerics.kernel_options import inner_kernel

SWEEPS = 60  # of coordinate descent
CLOSE = 1e-9  # how near to the least square the bound must come, as a share of the leaf's largest density
SCRATCH = 4  # vectors (D,) that a leaf's kernels write to


@inner_kernel
def log_of_square(packed, i, square):
    """Log density of leaf i where its square has this value."""
    p = packed.parameter[i]
    dof = packed.shape[int(p[0])]
    if dof == math.inf:
        return max(p[3] - 0.5 * square, IMPOSSIBLE)
    return p[3] - 0.5 * (dof + p[2]) * math.log1p(square / dof) if square < math.inf else IMPOSSIBLE


@inner_kernel
def pull_of_square(packed, i, square):
    """Minus twice the derivative of the log density in the square."""
    p = packed.parameter[i]
    dof = packed.shape[int(p[0])]
    return 1.0 if dof == math.inf else (dof + p[2]) / (dof + square)


@inner_kernel
def column_begin(packed, i, j):
    """Where in the shapes column j (d,) of the inverse factor of leaf i begins, which is 0 before its place j."""
    p = packed.parameter[i]
    return int(p[0]) + 1 + (3 + j) * int(p[2])


@inner_kernel
def square_at(packed, i, x, scratch):
    """Square of leaf i at a point (D,); leaves ``L^-1 (x - m)`` in the second vector of the scratch."""
    p = packed.parameter[i]
    first, own, d = int(p[0]), int(p[1]), int(p[2])
    rest = scratch[1]
    rest[:d] = 0.0
    for j in range(d):
        away = x[packed.several[own + j]] - packed.shape[first + 1 + j]
        column = column_begin(packed, i, j)
        for r in range(j, d):
            rest[r] += packed.shape[column + r] * away
    total = 0.0
    for r in range(d):
        total += rest[r] * rest[r]
    return total


@inner_kernel
def slope_of_square(packed, i, j, rest):
    """Half the derivative of the square in the leaf's column j, where ``L^-1 (x - m)`` is ``rest``."""
    column = column_begin(packed, i, j)
    slope = 0.0
    for r in range(j, int(packed.parameter[i, 2])):
        slope += packed.shape[column + r] * rest[r]
    return slope


@inner_kernel
def least_square(packed, i, low, high, scratch):
    """Lower bound of the square of leaf i over a box (D,), exact where the box is a point.

    Leaves a point of the box, in the order of the leaf's columns, and ``L^-1 (x - m)`` there in the first two vectors
    of the scratch.
    """
    p = packed.parameter[i]
    first, own, d = int(p[0]), int(p[1]), int(p[2])
    at, rest = scratch[0], scratch[1]
    rest[:d] = 0.0
    margin = 0.0
    is_point = True
    is_open = False
    for j in range(d):
        c = packed.several[own + j]
        location = packed.shape[first + 1 + j]
        at[j] = min(max(location, low[c]), high[c])
        away = at[j] - location
        is_point &= low[c] == high[c]
        is_open |= low[c] == -math.inf or high[c] == math.inf
        if away != 0.0:
            margin = max(margin, away * away / packed.shape[first + 1 + d + j])
            column = column_begin(packed, i, j)
            for r in range(j, d):
                rest[r] += packed.shape[column + r] * away
    if margin == 0.0:
        return 0.0
    if is_point or is_open:
        total = 0.0
        for r in range(d):
            total += rest[r] * rest[r]
        return total if is_point else margin
    best = margin
    for _ in range(SWEEPS):
        for j in range(d):
            c = packed.several[own + j]
            if low[c] == high[c]:
                continue
            step = -slope_of_square(packed, i, j, rest) / packed.shape[first + 1 + 2 * d + j]
            new = min(max(at[j] + step, low[c]), high[c])
            step = new - at[j]
            if step != 0.0:
                at[j] = new
                column = column_begin(packed, i, j)
                for r in range(j, d):
                    rest[r] += packed.shape[column + r] * step
        square = 0.0
        for r in range(d):
            square += rest[r] * rest[r]
        bound = square
        for j in range(d):
            c = packed.several[own + j]
            slope = 2.0 * slope_of_square(packed, i, j, rest)
            bound += min(slope * (low[c] - at[j]), slope * (high[c] - at[j]))
        best = max(best, bound)
        if square - best <= CLOSE * math.exp(0.5 * min(square, 80.0)):
            break
    return best


@inner_kernel
def largest_square(packed, i, low, high):
    """Upper bound of the square of leaf i over a box (D,), by the ranges of the entries of ``L^-1 (x - m)``."""
    p = packed.parameter[i]
    first, own, d = int(p[0]), int(p[1]), int(p[2])
    total = 0.0
    for r in range(d):
        least = 0.0
        most = 0.0
        for j in range(r + 1):
            c = packed.several[own + j]
            factor = packed.shape[column_begin(packed, i, j) + r]
            a = factor * (low[c] - packed.shape[first + 1 + j])
            b = factor * (high[c] - packed.shape[first + 1 + j])
            least += min(a, b)
            most += max(a, b)
        total += max(least * least, most * most)
    return total


@inner_kernel
def log_most(packed, i, low, high, scratch):
    """Upper bound of the log density of leaf i over a box."""
    return log_of_square(packed, i, least_square(packed, i, low, high, scratch))


@inner_kernel
def add_kept(packed, i, low, high, at, share, value, kept, scratch):
    """Add to ``kept`` (D,) which share of the leaf's bound is left when one of its columns is held at a value.

    The other columns stay where the square was found to be least.
    """
    square = least_square(packed, i, low, high, scratch)
    p = packed.parameter[i]
    first, own, d = int(p[0]), int(p[1]), int(p[2])
    for j in range(d):
        c = packed.several[own + j]
        if high[c] > low[c]:
            step = at[c] - scratch[0, j]
            rise = 2.0 * slope_of_square(packed, i, j, scratch[1]) * step
            rise += packed.shape[first + 1 + 2 * d + j] * step * step
            kept[c] += share * math.exp(min(log_of_square(packed, i, square + max(rise, 0.0)) - value, 0.0))


@inner_kernel
def elliptical_ranges(packed, i, low, high, position, shift, k, out_low, out_high, scratch):
    """Ranges of value, gradient and Hessian (1 + k + k(k+1)/2,) of leaf i, as `box_kernels.taylor_ranges` has them."""
    p = packed.parameter[i]
    first, own, d = int(p[0]), int(p[1]), int(p[2])
    dof = packed.shape[first]
    total = 0.0
    for j in range(d):
        total += shift[packed.several[own + j]]
    least = least_square(packed, i, low, high, scratch)
    most = max(largest_square(packed, i, low, high), least)
    out_low[0] = math.exp(log_of_square(packed, i, most) - total)
    out_high[0] = math.exp(log_of_square(packed, i, least) - total)
    # minus twice the first and four times the second derivative of the density in the square: both fall
    first_low = pull_of_square(packed, i, most) * out_low[0]
    first_high = pull_of_square(packed, i, least) * out_high[0]
    growth = 1.0 if dof == math.inf else (dof + d + 2.0) / (dof + d)
    second_low = growth * pull_of_square(packed, i, most) * first_low
    second_high = growth * pull_of_square(packed, i, least) * first_high
    slope_low, slope_high = scratch[2], scratch[3]
    for j in range(d):
        slope_low[j] = 0.0
        slope_high[j] = 0.0
        for m in range(d):
            c = packed.several[own + m]
            entry = inverse_entry(packed, i, j, m)
            a = entry * (low[c] - packed.shape[first + 1 + m])
            b = entry * (high[c] - packed.shape[first + 1 + m])
            slope_low[j] += min(a, b)
            slope_high[j] += max(a, b)
    for j in range(d):
        a = position[packed.several[own + j]]
        if a < 0:
            continue
        out_low[1 + a], out_high[1 + a] = times(-first_high, -first_low, slope_low[j], slope_high[j])
        for m in range(d):
            b = position[packed.several[own + m]]
            if b < a:
                continue
            entry = inverse_entry(packed, i, j, m)
            if j == m:
                square_high = max(slope_low[j] * slope_low[j], slope_high[j] * slope_high[j])
                square_low = 0.0
                if slope_low[j] > 0.0 or slope_high[j] < 0.0:
                    square_low = min(slope_low[j] * slope_low[j], slope_high[j] * slope_high[j])
            else:
                square_low, square_high = times(slope_low[j], slope_high[j], slope_low[m], slope_high[m])
            down_low, down_high = times(-first_high, -first_low, entry, entry)
            up_low, up_high = times(second_low, second_high, square_low, square_high)
            at = 1 + k + a * k - a * (a - 1) // 2 + b - a
            out_low[at] = down_low + up_low
            out_high[at] = down_high + up_high


@inner_kernel
def inverse_entry(packed, i, j, m):
    """Entry of the inverse of the scale matrix of leaf i."""
    one, other = column_begin(packed, i, j), column_begin(packed, i, m)
    total = 0.0
    for r in range(max(j, m), int(packed.parameter[i, 2])):
        total += packed.shape[one + r] * packed.shape[other + r]
    return total


def ellipses_of(packed: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Column, location and standard scale (c,) of every part of the elliptical leaves."""
    own = packed.parameter[packed.kind == -4]  # box_leaves.ELLIPTICAL, which imports none of this
    size = own[:, 2].astype(np.int64)
    place = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    at = np.repeat(own[:, 0].astype(np.int64), size) + 1 + place
    column = packed.several[np.repeat(own[:, 1].astype(np.int64), size) + place]
    return column, packed.shape[at], np.sqrt(packed.shape[at + np.repeat(size, size)])
