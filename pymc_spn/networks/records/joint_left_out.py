"""Leaves over several columns in rows without each of their cells: from one factor of a leaf and one inverse.

Without column j the quadratic form is less by pull_j^2 / P_jj, where P is the inverse of the scale matrix and pull = P
away. The determinant of the scale is P_jj times as large. Cells that are wide without the column, and rows with little
left without it, are worked out from a factor of their own.
"""

import math

import numpy as np

from pymc_spn.leaves.elliptical_kernels import FAR, are_diagonal, factorise_or_root
from pymc_spn.leaves.normal_inverse_wishart import LOG_PI, solve, triangle_size
from pymc_spn.networks.records.joint_cell_blocks import are_tiny, cells_last, factorise_scale, log_of_tiny, widest_cells
from pymc_spn.networks.records.joint_cells import (
    N_POINTS,
    diagonal_of_inverse,
    is_wide,
    log_along,
    log_mass_of_cells,
    log_of_narrow,
)
from pymc_spn.numerics.elementary import fast_log1p
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import bare_called_kernel, kernel

MOST_OF_FORM = 100.0  # times what is left of a quadratic form, beyond which differences lose digits
LEAST_PRECISION = 1e-6  # share of a cell's precision that is left without another column, likewise


@bare_called_kernel
def log_without(n, j, power, ratio, log_scale, square, pull, inverse, width):
    """Log value of n columns without column j; NaN where it must be worked out directly.

    Parameters
    ----------
    n, j : int
    power, ratio, log_scale : float
        As of `log_mass_of_cells`, without the column.
    square : float
        The quadratic form of all n.
    pull, inverse, width : (n,), (n, n) and (n,) float64
    """
    rest = max(square - pull[j] * pull[j] / inverse[j, j], 0.0)
    base = 1.0 + ratio * rest
    if ratio * square > MOST_OF_FORM * base:
        return math.nan
    widest = -1
    most = 0.0
    precise = True
    for i in range(n):
        if i != j and width[i] > 0.0:
            own = inverse[i, i] - inverse[i, j] * inverse[i, j] / inverse[j, j]
            precise &= own > LEAST_PRECISION * inverse[i, i]
            if width[i] * math.sqrt(max(own, 0.0)) > most:
                most = width[i] * math.sqrt(own)
                widest = i
    if not precise:
        return math.nan
    if widest < 0:
        return log_scale - power * math.log1p(ratio * rest)
    for i in range(n):
        if i == j or width[i] == 0.0:
            continue
        own = inverse[i, i] - inverse[i, j] * inverse[i, j] / inverse[j, j]
        own_pull = pull[i] - inverse[i, j] * pull[j] / inverse[j, j]
        if i != widest:
            log_scale += math.log(width[i]) + log_of_narrow(power, ratio, base, own_pull, own, width[i])
        elif is_wide(power, ratio, base, own, width[i]):
            return math.nan
        else:
            log_scale += log_along(power, ratio, rest, own_pull, own, 0.0, width[i])
    return log_scale


@bare_called_kernel
def logs_without_tiny(n, n_cells, power, ratio, log_scale, square, pull, inverse, width, out):
    """`log_without` each of n columns, where all cells, the last columns, are tiny; ``log_scale`` is of each (n,)."""
    for j in range(n):
        out[j] = ratio * max(square - pull[j] * pull[j] / inverse[j, j], 0.0)
    for j in range(n):
        log_scale[j] -= power * fast_log1p(out[j])
    for i in range(n - n_cells, n):
        for j in range(n):
            if i != j:
                share = inverse[i, j] / inverse[j, j]
                own, own_pull = inverse[i, i] - inverse[i, j] * share, pull[i] - share * pull[j]
                log_scale[j] += log_of_tiny(power, ratio, 1.0 + out[j], own_pull, own, width[i])
    for j in range(n):
        out[j] = math.nan if ratio * square > MOST_OF_FORM * (1.0 + out[j]) else log_scale[j]


@bare_called_kernel
def invert(n, factor, is_diagonal, lower, out):
    """Inverse of a matrix from its factor; ``lower`` becomes the inverse of the factor."""
    for j in range(n):
        for i in range(n):
            lower[i, j] = 0.0
        lower[j, j] = 1.0 / factor[j, j]
        for i in range(j + 1, n if not is_diagonal else 0):
            total = 0.0
            for k in range(j, i):
                total += factor[i, k] * lower[k, j]
            lower[i, j] = -total / factor[i, i]
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, i + 1 if is_diagonal else n):
                total += lower[k, i] * lower[k, j]
            out[i, j] = total
            out[j, i] = total


@kernel
def log_masses_left_out(parameters, log_ratio, rows, width, order, begin, logs, without):
    """`log_masses_of_rows` without each column; its arguments, and what it found.

    Parameters
    ----------
    parameters, log_ratio, rows, order, begin
        As there; also rows without cells.
    width : (d, M) float64
    logs : (L, M) float64
        With all columns, which holds for those that a row lacks.
    without : (L, d, M) float64
        Out.
    """
    n_leaves, d = parameters.shape[0], rows.shape[0]
    triangle, scratch, matrices = np.zeros(triangle_size(d)), np.zeros((12, d)), np.zeros((3, d, d))
    floor, diagonal, pull, own_pull, z = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    away, of_row, own_away, own_width = scratch[5], scratch[6], scratch[7], scratch[8]
    widest, found, scales = scratch[9], scratch[10], scratch[11]
    factor, lower, inverse = matrices[0], matrices[1], matrices[2]
    seen, others, log_scale = np.empty(d, np.int64), np.empty(d, np.int64), np.zeros(d)
    unchecked, are_empty = np.zeros(1, np.int64), np.empty(n_leaves, np.bool_)
    are_diagonal(d, parameters, are_empty)
    for group in range(begin.size - 1):
        n, n_cells = cells_last(rows[:, begin[group]], width[:, begin[group]], seen)
        widest_cells(width[:, begin[group] : begin[group + 1]], seen[:n], widest)
        for leaf in range(n_leaves):
            own = parameters[leaf]
            dof = own[0]
            power, ratio = 0.5 * (dof + n - 1.0), 1.0 / dof
            half_log = factorise_or_root(d, own, seen, n, are_empty[leaf], factor)
            tiny = are_tiny(n, n_cells, power + 0.5, ratio, factor, widest, diagonal, z)
            if must_stop_after((1 if tiny else N_POINTS) * n * n * n * (begin[group + 1] - begin[group]), unchecked):
                return
            invert(n, factor, are_empty[leaf], lower, inverse)
            whole = log_ratio[leaf, max(n - 1, 0)] - 0.5 * (n - 1.0) * (LOG_PI + math.log(dof)) - half_log
            for j in range(n):
                scales[j] = whole - 0.5 * math.log(inverse[j, j])
            for m in range(begin[group], begin[group + 1]):
                at = order[m]
                without[leaf, :, at] = logs[leaf, at]
                if n == 1:
                    without[leaf, seen[0], at] = 0.0
                    continue
                log_width = 0.0
                for j in range(n):
                    away[j] = rows[seen[j], m] - own[1 + seen[j]]
                    of_row[j] = width[seen[j], m]
                    own_width[j] = math.log(of_row[j]) if of_row[j] > 0.0 else 0.0
                    log_width += own_width[j]
                square = 0.0
                for i in range(n):
                    pull[i] = 0.0
                for i in range(n):
                    total = 0.0
                    for j in range(i + 1):
                        total += lower[i, j] * away[j]
                    square += total * total
                    for j in range(i + 1):
                        pull[j] += total * lower[i, j]
                if tiny:
                    for j in range(n):
                        log_scale[j] = scales[j] + log_width - own_width[j]
                    square = min(square, FAR)
                    logs_without_tiny(n, n_cells, power, ratio, log_scale, square, pull, inverse, of_row, found)
                for j in range(n):
                    if not tiny:
                        found[j] = log_without(n, j, power, ratio, scales[j], square, pull, inverse, of_row)
                    if not math.isnan(found[j]):
                        without[leaf, seen[j], at] = found[j]
                        continue
                    n_rest = 0
                    for c in range(d):
                        if c != seen[j] and not math.isnan(rows[c, m]):
                            others[n_rest] = c
                            own_away[n_rest] = rows[c, m] - own[1 + c]
                            own_width[n_rest] = width[c, m]
                            n_rest += 1
                    log = factorise_scale(own, log_ratio[leaf], others, n_rest, triangle, floor)
                    if n_cells - (of_row[j] > 0.0) > 0:
                        diagonal_of_inverse(n_rest, n_rest, triangle, z, diagonal)
                        log = log_mass_of_cells(
                            n_rest, n_rest, power, ratio, log, triangle, own_away, own_width, diagonal, own_pull, z
                        )
                    else:
                        for i in range(n_rest):
                            z[i] = own_away[i]
                        log -= power * math.log1p(solve(n_rest, n_rest, triangle, z) * ratio)
                    without[leaf, seen[j], at] = log
