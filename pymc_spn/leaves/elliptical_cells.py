"""Student t leaves over several columns: what is known of a row is worth the density of points times the mass of cells.

The mass of a box under a Student t over several columns has no closed form. Here the column of the widest cell, next to
its spread given the others, is integrated in closed form. A narrow cell counts by the density in its middle times its
width, with a correction of second order. The correction is in (steepness times width) exactly, in curvature to first
order. Wide cells beside the first go by the points of a lattice. All cells of a set of rows may be tiny in a leaf,
compared with the spreads and the steepness that it can have. Then the corrections are polynomials, for many rows side
by side.

Without column j the quadratic form is less by pull_j^2 / P_jj, where P is the inverse of the scale matrix and pull = P
away. The determinant of the scale is P_jj times as large. Where differences lose digits a factor without the column is
made.
"""

import math

import numpy as np

from pymc_spn.leaves.elliptical_kernels import (
    BLOCK,
    FAR,
    factorise_seen,
    invert,
    pulls_of_block,
    room_for_form,
    squares_of_block,
)
from pymc_spn.leaves.normal_inverse_wishart import LOG_PI
from pymc_spn.leaves.student_cells import FEW_NODES, FEW_WEIGHTS, FLAT, log_slope, log_student_integral
from pymc_spn.numerics.elementary import fast_exp, fast_log1p, larger
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import bare_called_kernel, kernel

TOLERANCE = 1e-2  # of the density of a row with several cells in one leaf; tests compare it with quadrature
NARROW = 0.35  # standard deviations given the other columns, up to which a cell is narrow
TINY_CURVATURE, TINY_SLOPE = 0.05, 0.1  # of a cell, up to which expansions are right to 1e-7
N_POINTS = 64  # of a lattice
STEPS = np.array([0.5 * (math.sqrt(5.0) - 1.0), *np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0])])
MOST_OF_FORM = 100.0  # times what is left of a quadratic form, beyond which differences lose digits
LEAST_PRECISION = 1e-6  # share of a cell's precision that is left without another column, likewise
_X16, _W16 = np.polynomial.legendre.leggauss(16)
NODES, WEIGHTS = 0.5 * (_X16 + 1.0), 0.5 * _W16


@bare_called_kernel
def is_wide(power, ratio, base, inverse, width):
    """Whether a cell is wide next to the spread of its column given the others."""
    return width * math.sqrt(2.0 * power * ratio * inverse / base) > NARROW


@bare_called_kernel
def log_of_narrow(power, ratio, base, pull, inverse, width):
    """Log of the mean density over a narrow cell divided by that in its middle."""
    steep = -2.0 * power * ratio * pull / base
    curved = 2.0 * power * ratio * inverse / base - steep * steep / power
    a = 0.5 * width * abs(steep)
    if a < 1e-3:
        return a * a / 6.0 - curved * width * width / 24.0
    slope = 1.0 / math.tanh(a)
    spread = 0.25 * width * width * (1.0 - 2.0 * slope / a + 2.0 / (a * a))
    return a + math.log(-math.expm1(-2.0 * a) / (2.0 * a)) - 0.5 * curved * spread


@bare_called_kernel
def log_of_tiny(power, ratio, base, pull, inverse, width):
    """`log_of_narrow` of a cell for which `are_tiny` holds."""
    steep = 2.0 * power * ratio * pull / base
    curved = 2.0 * power * ratio * inverse / base - steep * steep / power
    a = 0.25 * width * width * steep * steep
    return a * (1.0 / 6.0 - a / 180.0) - curved * width * width * (1.0 / 24.0 + a / 180.0)


@bare_called_kernel
def log_along(power, ratio, square, pull, inverse, shift, width):
    """Log of the integral of (1 + ratio square)^-power over the cell of one column, the others being where they are.

    ``pull`` and ``inverse`` are those of the column, ``shift`` is where it is, from the middle of its cell.
    """
    from_peak = pull / inverse
    least = 1.0 + ratio * max(square - pull * pull / inverse, 0.0)
    root = math.sqrt(ratio * inverse / least)
    low = (from_peak - shift - 0.5 * width) * root
    return (
        log_student_integral(low, (from_peak - shift + 0.5 * width) * root, width * root, power)
        - power * math.log(least)
        - math.log(root)
    )


@bare_called_kernel
def moved(cells, j, step, inverse, pull, square):
    """Move a row along column j: returns its quadratic form, and changes the pull of the cells, those from one on."""
    grown = square + step * (2.0 * pull[j] + step * inverse[j, j])
    for i in range(cells, pull.size):
        pull[i] += step * inverse[i, j]
    return grown


@bare_called_kernel
def log_mass(cells, power, ratio, log_scale, square, inverse, pull, width):
    """Log density of a row's points times the mass of its cells.

    Parameters
    ----------
    cells : int
        Place of the first cell among the n columns; they are last.
    power, ratio, log_scale : float
        The density is exp(log_scale) (1 + ratio square)^-power.
    square : float
        Quadratic form of the row, cells by their middles.
    inverse : (n, n) float64
        Of the scale; read where both are cells.
    pull : (n,) float64
        Of the cells. Changed.
    width : (n,) float64
    """
    n = pull.size
    widest = cells
    for j in range(cells, n):
        if width[j] * math.sqrt(inverse[j, j]) > width[widest] * math.sqrt(inverse[widest, widest]):
            widest = j
    shift = 0.0
    if is_wide(power, ratio, 1.0 + ratio * square, inverse[widest, widest], width[widest]):
        # the others are expanded where the widest cell has most of its mass
        half = 0.5 * width[widest]
        shift = min(max(-pull[widest] / inverse[widest, widest], -half), half)
        square = moved(cells, widest, shift, inverse, pull, square)
    base = 1.0 + ratio * square
    n_wide = 0
    for j in range(cells, n):
        if j != widest:
            log_scale += math.log(width[j])
            if is_wide(power, ratio, base, inverse[j, j], width[j]):
                n_wide += 1
            else:
                log_scale += log_of_narrow(power, ratio, base, pull[j], inverse[j, j], width[j])
    largest = -math.inf
    total = 0.0
    for point in range(N_POINTS if n_wide > 0 else 1):  # of the other wide cells
        axis = 0
        for j in range(cells if n_wide > 0 else n, n):
            if j != widest and is_wide(power, ratio, base, inverse[j, j], width[j]):
                before = from_middle(point - 1, axis) if point > 0 else 0.0
                step = (from_middle(point, axis) - before) * width[j]
                square = moved(cells, j, step, inverse, pull, square)
                axis += 1
        last = log_along(power, ratio, square, pull[widest], inverse[widest, widest], shift, width[widest])
        if n_wide == 0:
            return log_scale + last
        if last > largest:
            total = total * math.exp(largest - last) + 1.0 if largest > -math.inf else 1.0
            largest = last
        else:
            total += math.exp(last - largest)
    return log_scale + largest + math.log(total / N_POINTS)


@bare_called_kernel
def from_middle(point, axis):
    """Coordinate of a point of the lattice, from -1/2 to 1/2: even in the first axis, else multiples, folded."""
    if axis == 0:
        return (point + 0.5) / N_POINTS - 0.5
    u = (0.5 + (point + axis // STEPS.size) * STEPS[(axis - 1) % STEPS.size]) % 1.0
    return abs(2.0 * u - 1.0) - 0.5


@bare_called_kernel
def cells_last(row, width, seen):
    """Write which columns of a row are observed, those with cells last; returns how many, and how many cells."""
    n = 0
    n_cells = 0
    for j in range(row.size):
        if not math.isnan(row[j]) and width[j] == 0.0:
            seen[n] = j
            n += 1
    for j in range(row.size):
        if not math.isnan(row[j]) and width[j] > 0.0:
            seen[n] = j
            n += 1
            n_cells += 1
    return n, n_cells


@bare_called_kernel
def are_tiny(cells, n, power, ratio, inverse, seen, width, first, last):
    """Whether expansions hold for all cells of some rows."""
    for j in range(cells, n):
        widest = 0.0
        for w in width[seen[j], first:last]:
            widest = larger(w, widest)
        root = widest * math.sqrt(ratio * inverse[j, j])
        if not (root * math.sqrt(2.0 * power) < TINY_CURVATURE and 0.5 * root * power < TINY_SLOPE):
            return False
    return True


@bare_called_kernel
def log_values_of_block(form, cells, n, dof, log_scale, is_tiny, width, log_width, first, scratch, out):
    """Log values of a block of rows from one on, in which cells have their pull; the others come first."""
    power = 0.5 * (dof + n)
    ratio = 1.0 / dof
    if cells < n and not is_tiny:
        pull = scratch[0, :n]
        widths = scratch[1, :n]
        for r in range(out.size):
            for i in range(cells, n):
                pull[i] = form.z[i, r]
                widths[i] = width[form.seen[i], first + r]
            out[r] = log_mass(cells, power, ratio, log_scale, form.square[r], form.inverse, pull, widths)
        return
    square = scratch[2, : out.size]
    for r in range(out.size):
        square[r] = min(form.square[r], FAR) * ratio
        out[r] = log_scale
    for i in range(cells, n):
        pull = form.z[i, : out.size]
        own = form.inverse[i, i]
        widths = width[form.seen[i], first : first + out.size]
        log_widths = log_width[form.seen[i], first : first + out.size]
        for r in range(out.size):
            out[r] += log_widths[r] + log_of_tiny(power, ratio, 1.0 + square[r], pull[r], own, widths[r])
    for r in range(out.size):
        out[r] -= power * fast_log1p(square[r])


@bare_called_kernel
def leave_out(j, form, cells, n, n_rows, rest):
    """Write the form of all columns but one from that of all; returns whether it has its digits."""
    is_precise = True
    k = 0
    for i in range(n):
        if i == j:
            continue
        share = form.inverse[i, j] / form.inverse[j, j]
        rest.seen[k] = form.seen[i]
        m = 0
        for h in range(n):
            if h != j:
                rest.inverse[k, m] = form.inverse[i, h] - share * form.inverse[j, h]
                m += 1
        is_precise &= i < cells or rest.inverse[k, k] > LEAST_PRECISION * form.inverse[i, i]
        for r in range(n_rows):
            rest.z[k, r] = form.z[i, r] - share * form.z[j, r]
        k += 1
    for r in range(n_rows):
        rest.square[r] = max(form.square[r] - form.z[j, r] * form.z[j, r] / form.inverse[j, j], 0.0)
    return is_precise


@bare_called_kernel
def log_scale_of_columns(dof, log_ratio, n, half_log):
    """Log density of n columns at their location."""
    return log_ratio[n] - 0.5 * n * (LOG_PI + math.log(dof)) - half_log


@kernel
def log_values_of_rows(parameters, log_ratio, rows, width, order, begin, leaf, out, without):
    """Log values of what is known of rows.

    Parameters
    ----------
    parameters, order, leaf
        As of `elliptical_kernels.column_of_rows`.
    log_ratio : (L, d + 1) float64
        Log of gamma(dof / 2 + k / 2) over gamma(dof / 2).
    rows, width : (d, M) float64
        Cells have their middles, and their widths; points have the width 0. NaN where missing.
    begin : (G + 1,) int64
        First row of each set of rows that have the same gaps, and cells in the same columns.
    out : (L, M) float64
        Out; of rows with a leaf of their own (1, M).
    without : (L, d, M) float64
        Out: without each column; empty if it is not asked for.
    """
    n_leaves, d = parameters.shape[0], rows.shape[0]
    form, rest = room_for_form(d), room_for_form(d)
    scratch, logs = np.empty((3, max(d, BLOCK))), np.empty((2, BLOCK))
    log_width, unchecked = np.log(width), np.zeros(1, np.int64)
    is_left_out = without.size > 0
    for group in range(begin.size - 1):
        start, stop = begin[group], begin[group + 1]
        n, n_cells = cells_last(rows[:, start], width[:, start], form.seen)
        cells = n - n_cells
        pulled = 0 if is_left_out else cells
        is_one = leaf[group] >= 0
        for which in range(leaf[group] if is_one else 0, leaf[group] + 1 if is_one else n_leaves):
            own = parameters[which]
            dof = own[0]
            power, ratio = 0.5 * (dof + n), 1.0 / dof
            out_of_leaf = out[0 if is_one else which]
            half_log = factorise_seen(d, own, form.seen, n, -1, form.factor)
            log_scale = log_scale_of_columns(dof, log_ratio[which], n, half_log)
            is_tiny = True
            if pulled < n:
                invert(n, pulled, form.factor, form.lower, form.inverse)
                is_tiny = are_tiny(cells, n, power, ratio, form.inverse, form.seen, width, start, stop)
                steps = (1 if is_tiny else N_POINTS) * n * (n if is_left_out else 1)
                if must_stop_after(n * steps * (stop - start), unchecked):
                    return
            for first in range(start, stop, BLOCK):
                n_rows = min(BLOCK, stop - first)
                squares_of_block(own, form, n, rows, first, n_rows)
                if cells == n and not is_left_out:  # points alone
                    square = form.square[:n_rows]
                    for r in range(n_rows):
                        square[r] = log_scale - power * fast_log1p(min(square[r], FAR) * ratio)
                    for r in range(n_rows):
                        out_of_leaf[order[first + r]] = square[r]
                    continue
                of_block = logs[0, :n_rows]
                values = width, log_width, first, scratch
                pulls_of_block(form, n, pulled, n_rows)
                log_values_of_block(form, cells, n, dof, log_scale, is_tiny, *values, of_block)
                for r in range(n_rows):
                    out_of_leaf[order[first + r]] = of_block[r]
                for r in range(n_rows if is_left_out else 0):
                    without[which, :, order[first + r]] = of_block[r]  # of columns that the row lacks
                for j in range(n if is_left_out else 0):
                    cells_after = cells - (j < cells)
                    is_precise = leave_out(j, form, cells, n, n_rows, rest)
                    half_log_after = half_log + 0.5 * math.log(form.inverse[j, j])
                    log_scale_after = log_scale_of_columns(dof, log_ratio[which], n - 1, half_log_after)
                    if is_precise:
                        log_values_of_block(rest, cells_after, n - 1, dof, log_scale_after, is_tiny, *values, of_block)
                    has_lost = False
                    for r in range(n_rows):
                        most = MOST_OF_FORM * (dof + rest.square[r])
                        if not (is_precise and form.square[r] <= most):
                            of_block[r] = math.nan
                            has_lost = True
                    if has_lost:
                        half_log_after = factorise_seen(d, own, rest.seen, n - 1, -1, rest.factor)
                        log_scale_after = log_scale_of_columns(dof, log_ratio[which], n - 1, half_log_after)
                        invert(n - 1, cells_after, rest.factor, rest.lower, rest.inverse)
                        squares_of_block(own, rest, n - 1, rows, first, n_rows)
                        pulls_of_block(rest, n - 1, cells_after, n_rows)
                        log_values_of_block(
                            rest, cells_after, n - 1, dof, log_scale_after, is_tiny, *values, logs[1, :n_rows]
                        )
                    for r in range(n_rows):
                        found = logs[1, r] if math.isnan(of_block[r]) else of_block[r]
                        without[which, form.seen[j], order[first + r]] = found


@kernel
def moments_in_cells(students, low, high, mean, variance):
    """Means and variances (m,) of Student t's (3, m) of location, scale and degrees of freedom, within cells."""
    for i in range(mean.size):
        location = students[0, i]
        power = 0.5 * (students[2, i] + 1.0)
        width = high[i] - low[i]
        root = 1.0 / (students[1, i] * math.sqrt(students[2, i]))
        is_tiny = width * root * log_slope(abs(low[i] + 0.5 * width - location) * root, power) < FLAT
        n = FEW_NODES.size if is_tiny else NODES.size
        largest = math.inf
        for k in range(n):
            share = FEW_NODES[k] if is_tiny else NODES[k]
            z = (low[i] + share * width - location) * root
            largest = min(largest, z * z)
        base = fast_log1p(largest)
        total = 0.0
        first = 0.0
        second = 0.0
        for k in range(n):
            share = FEW_NODES[k] if is_tiny else NODES[k]
            z = (low[i] + share * width - location) * root
            weight = (FEW_WEIGHTS[k] if is_tiny else WEIGHTS[k]) * fast_exp(power * (base - fast_log1p(z * z)))
            total += weight
            first += weight * (share - 0.5)
            second += weight * (share - 0.5) * (share - 0.5)
        first /= total
        mean[i] = low[i] + (0.5 + first) * width
        variance[i] = width * width * (second / total - first * first)
