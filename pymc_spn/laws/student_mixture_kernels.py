"""Quantiles of mixtures of many Student t's, one mixture for each row: the leaves that count in a row side by side."""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.numerics.elementary import float_bits
from pymc_spn.numerics.kernel_options import bare_inner_kernel, bare_kernel
from pymc_spn.numerics.lane_functions import sub
from pymc_spn.numerics.lanes import LANES, add, lane_sum, larger, load, mul, multiply_add, ratio, smaller, splat, store
from pymc_spn.numerics.student_lanes import student_below, student_density

CLOSE = 1e-2  # share of the smaller tail from which on the next step may be the last one
MOST_STEPS = 200
N_SCRATCH = 10
LARGEST = 1e150  # distance in widths, whose square is a number
DEGREE = 5  # of the polynomial by which a search begins
AROUND = np.array([-2.5, -1.4, -0.8, -0.25, 0.25, 0.8, 1.4, 2.5])  # of a mixture, in its widths, where a search begins
SIZES = 1100  # powers of two that a weight may have


class StudentLeaves(NamedTuple):
    """Leaves of a column whose predictives are Student t's: 2^log2_scale (1 + ((x - centre) root)^2)^-power.

    Of n leaves by ascending power, so that those that are evaluated together need about as many terms.
    """

    centre: np.ndarray
    root: np.ndarray
    log2_scale: np.ndarray
    power: np.ndarray
    number: np.ndarray  # of each leaf among those of all draws, one draw after the other
    draw: np.ndarray
    n_terms: np.ndarray  # see `student_lanes.n_terms`


@bare_kernel
def fill_grid(leaves, points, scratch, grid):
    """Distribution functions (n, G) of leaves at points (G,), a multiple of eight, in numbers of half the length."""
    for i in range(leaves.centre.size):
        root = splat(leaves.root[i])
        power = splat(leaves.power[i])
        for g in range(points.size // LANES):
            z = mul(sub(load(points, g), splat(leaves.centre[i])), root)
            density = student_density(z, splat(leaves.log2_scale[i]), power)
            store(scratch, g, student_below(z, density, power, root, leaves.n_terms[i]))
        for g in range(points.size):
            grid[i, g] = scratch[g]


@bare_kernel
def quantiles_of_rows(leaves, shares, weight, begin, most, levels, rest, points, grid, scratch, x, density, below):
    """Quantiles of the mixtures of leaves with weights of each row.

    Parameters
    ----------
    leaves : StudentLeaves
    shares : (M, n) float64
        Weights of the leaves in each draw; (1, n) where each leaf is in one row alone.
    weight : (M, S) float64
        Of the draws, which add up to 1 in a row, or all are 0: then all leaves have the same.
    begin : (M + 1,) int64
        First leaf of each row where each leaf is in one row alone, else empty.
    most : float
        Leaves are left out, those of the smallest weights, which weigh at most as much together.
    levels : (Q,) float64
        Within 0 and 1, ascending or not.
    rest : float
        Share of the smaller tail that may be left.
    points : (G,) float64
        As of `fill_grid`; where each leaf is in one row alone they are scratch, one for each of `AROUND`.
    grid : (n, G) float32
        As of `fill_grid`.
    scratch : (10, n + 8) float64, with room for the grid and `SIZES`
    x, density : (M, Q) float64
        Out: the quantiles, and the densities there.
    below : (M, Q, S) float64
        Out: what each draw adds to the distribution function there.
    """
    at_points = scratch[8, : points.size]
    for m in range(x.shape[0]):
        n = gather(leaves, shares, weight[m], begin, m, most, scratch)
        at_points[:] = 0.0
        if begin.size == 0:
            for i in range(n):
                add_row(scratch[0, i], grid[int(scratch[5, i])], at_points)
        else:
            points_around(leaves, n, scratch, points)
            for g in range(points.size):
                at_points[g] = evaluate(points[g], n, leaves, scratch)[0]
        for q in range(levels.size):
            x[m, q], density[m, q] = search(levels[q], rest, points, at_points, n, leaves, scratch)
            add_up_draws(leaves, n, scratch, below[m, q])


@bare_inner_kernel
def points_around(leaves, n, scratch, points):
    """Write points about the bulk of the leaves in the scratch, by their mean and mean width."""
    total = 0.0
    centre = 0.0
    for i in range(n):
        total += scratch[0, i]
        centre += scratch[0, i] * scratch[1, i]
    centre /= total
    square = 0.0
    for i in range(n):
        width = 1.0 / (scratch[2, i] * math.sqrt(2.0 * scratch[4, i]))
        away = scratch[1, i] - centre
        square += scratch[0, i] * (width * width + away * away)
    for g in range(points.size):
        points[g] = centre + AROUND[g] * math.sqrt(square / total)


@bare_inner_kernel
def add_row(weight, row, total):
    for g in range(total.size):
        total[g] += weight * row[g]


@bare_kernel
def distribution_functions_of_rows(leaves, shares, weight, begin, most, x, scratch, below):
    """What each draw adds (M, Q, S) to the distribution functions of mixtures at points (M, Q), see above."""
    for m in range(x.shape[0]):
        n = gather(leaves, shares, weight[m], begin, m, most, scratch)
        for q in range(x.shape[1]):
            evaluate(x[m, q], n, leaves, scratch)
            add_up_draws(leaves, n, scratch, below[m, q])


@bare_inner_kernel
def add_up_draws(leaves, n, scratch, below):
    """Sums of what the leaves have below, with their weights, over those of each draw."""
    below[:] = 0.0
    for i in range(n):
        below[leaves.draw[int(scratch[5, i])]] += scratch[0, i] * scratch[6, i]


@bare_inner_kernel
def gather(leaves, shares, weight, begin, m, most, scratch):
    """Write the leaves that count in a row to the scratch, one after the other; returns their number."""
    has_own = begin.size > 0
    first = begin[m] if has_own else 0
    last = begin[m + 1] if has_own else shares.shape[1]
    own = shares[0 if has_own else m]
    sizes = scratch[8, :SIZES]
    sizes[:] = 0.0
    for i in range(first, last):
        share = own[leaves.number[i]] * weight[leaves.draw[i]]
        scratch[7, i - first] = share
        if share > 0.0:
            sizes[size_of(share)] += share
    least = 0
    lighter = 0.0
    while least < SIZES and lighter + sizes[least] <= most:
        lighter += sizes[least]
        least += 1
    n = 0
    for i in range(first, last):
        share = scratch[7, i - first]
        if share > 0.0 and size_of(share) >= least:
            keep(leaves, i, share, n, scratch)
            n += 1
    if n == 0:
        for i in range(first, last):
            keep(leaves, i, 1.0 / (last - first), i - first, scratch)
        n = last - first
    fill_up(n, scratch)
    return n


@bare_inner_kernel
def fill_up(n, scratch):
    """Leaves of no weight behind n leaves, up to a multiple of eight."""
    for i in range(n, -(-n // LANES) * LANES):
        scratch[0, i] = 0.0
        scratch[1, i] = scratch[1, 0]
        scratch[2, i] = scratch[2, 0]
        scratch[3, i] = scratch[3, 0]
        scratch[4, i] = scratch[4, 0]


@bare_inner_kernel
def size_of(share):
    """Power of two of a weight within 0 and 1, as a number within 0 and `SIZES`."""
    return min(max((float_bits(share) >> 52) - 1, 0), SIZES - 1)


@bare_inner_kernel
def keep(leaves, i, share, n, scratch):
    """Write leaf i to place n."""
    scratch[0, n] = share
    scratch[1, n] = leaves.centre[i]
    scratch[2, n] = leaves.root[i]
    scratch[3, n] = leaves.log2_scale[i]
    scratch[4, n] = leaves.power[i]
    scratch[5, n] = i


@bare_inner_kernel
def search(level, rest, points, at_points, n, leaves, scratch):
    """Where the mixture reaches a level, and its density there; ``scratch[6]`` is what each leaf has below."""
    low = -math.inf
    high = math.inf
    after = 0
    while after < points.size and at_points[after] < level:
        after += 1
    if after > 0:
        low = points[after - 1]
    if after < points.size:
        high = points[after]
    x = polished_start(start_between(level, points, at_points, after), level, points, at_points, after, scratch[6])
    far = max(points[-1] - points[0], abs(points[0]))
    tail = min(level, 1.0 - level)
    slope = 0.0
    for _ in range(MOST_STEPS):
        value, slope, bend, turn = evaluate(x, n, leaves, scratch)
        gap = level - value
        if gap > 0.0:
            low = x
        else:
            high = x
        # the inverse as a series of third order
        step = gap / slope
        half = 0.5 * bend / slope
        third = turn / slope / 6.0
        change = max(abs(half), math.sqrt(abs(third)), slope / tail) * abs(step)
        step += step * step * (-half + (2.0 * half * half - third) * step)
        if abs(gap) <= CLOSE * tail and abs(gap) * change**3 <= 0.01 * rest * tail and low <= x + step <= high:
            for i in range(n):
                scratch[6, i] += step * (scratch[7, i] + 0.5 * step * scratch[9, i])
            return x + step, slope + step * (bend + 0.5 * step * turn)
        if abs(gap) <= rest * tail:
            return x, slope
        moved = x + step
        if not low < moved < high:
            if low == -math.inf:
                far *= 4.0
                moved = x - far
            elif high == math.inf:
                far *= 4.0
                moved = x + far
            else:
                moved = 0.5 * low + 0.5 * high
        if moved <= low or moved >= high:  # no number is between them
            return high, slope
        x = moved
    return x, slope


@bare_inner_kernel
def start_between(level, points, at_points, after):
    """Where a search begins: by a cubic in the values at the points, of which number ``after`` reaches the level."""
    if after == 0:
        return points[0]
    if after == points.size:
        return points[-1]
    rise = at_points[after] - at_points[after - 1]
    width = points[after] - points[after - 1]
    t = (level - at_points[after - 1]) / rise
    left = width
    right = width
    if after > 1:
        before = (points[after - 1] - points[after - 2]) / (at_points[after - 1] - at_points[after - 2]) * rise
        part = rise / (at_points[after] - at_points[after - 2])
        left = before * part + width * (1.0 - part)
    if after + 1 < points.size:
        behind = (points[after + 1] - points[after]) / (at_points[after + 1] - at_points[after]) * rise
        part = rise / (at_points[after + 1] - at_points[after - 1])
        right = behind * part + width * (1.0 - part)
    x = points[after - 1] * (1.0 + 2.0 * t) * (1.0 - t) ** 2 + points[after] * t**2 * (3.0 - 2.0 * t)
    x += left * t * (1.0 - t) ** 2 - right * t**2 * (1.0 - t)
    return x if points[after - 1] < x < points[after] else points[after - 1] + t * width


@bare_inner_kernel
def polished_start(x, level, points, at_points, after, coefficients):
    """A start moved to where the polynomial through the nearest six points reaches the level, if that is between two.

    Where the mixture is smooth between the points this spares its next evaluation.
    """
    if after == 0 or after == points.size or points.size < DEGREE + 1:
        return x
    first = min(max(after - (DEGREE + 1) // 2, 0), points.size - DEGREE - 1)
    for i in range(DEGREE + 1):
        coefficients[i] = at_points[first + i]
    for j in range(1, DEGREE + 1):  # divided differences
        for i in range(DEGREE, j - 1, -1):
            width = points[first + i] - points[first + i - j]
            coefficients[i] = (coefficients[i] - coefficients[i - 1]) / width if width > 0.0 else math.nan
    moved = x
    for _ in range(3):
        value = coefficients[DEGREE]
        slope = 0.0
        for i in range(DEGREE - 1, -1, -1):
            away = moved - points[first + i]
            slope = slope * away + value
            value = value * away + coefficients[i]
        moved -= (value - level) / slope if slope > 0.0 else math.nan
    return moved if points[after - 1] < moved < points[after] else x


@bare_inner_kernel
def evaluate(x, n, leaves, scratch):
    """Distribution function of the mixture at x and three derivatives; of each leaf, but the last, to the scratch."""
    if math.isinf(x):
        for i in range(n):
            scratch[6, i] = 1.0 if x > 0.0 else 0.0
        return 1.0 if x > 0.0 else 0.0, 0.0, 0.0, 0.0
    value = splat(0.0)
    slope = splat(0.0)
    bend = splat(0.0)
    turn = splat(0.0)
    at = splat(x)
    one = splat(1.0)
    for k in range(-(-n // LANES)):
        weight = load(scratch[0], k)
        root = load(scratch[2], k)
        power = load(scratch[4], k)
        z = smaller(larger(mul(sub(at, load(scratch[1], k)), root), splat(-LARGEST)), splat(LARGEST))
        density = student_density(z, load(scratch[3], k), power)
        below = student_below(z, density, power, root, leaves.n_terms[int(scratch[5, min(k * LANES + LANES, n) - 1])])
        store(scratch[6], k, below)
        store(scratch[7], k, density)
        value = multiply_add(weight, below, value)
        slope = multiply_add(weight, density, slope)
        near = ratio(one, add(one, mul(z, z)))
        per_width = mul(mul(power, root), near)
        change = mul(mul(splat(-2.0), mul(per_width, z)), density)
        store(scratch[9], k, change)
        bend = multiply_add(weight, change, bend)
        along = mul(mul(splat(2.0), mul(add(power, one), root)), mul(mul(z, z), near))
        turn = multiply_add(weight, mul(mul(splat(2.0), mul(per_width, density)), sub(along, root)), turn)
    return lane_sum(value), lane_sum(slope), lane_sum(bend), lane_sum(turn)
