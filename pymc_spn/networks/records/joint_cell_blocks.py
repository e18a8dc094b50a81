"""Leaves over several columns in many rows with cells: `joint_cells` of all leaves of some draws.

Rows that have the same gaps and cells share one factor of a leaf, with the cells last. All cells of such rows may be
tiny in a leaf, compared with the spreads and the steepness that it can have. Then their masses are densities with a
correction, for many rows side by side. Elsewhere `log_mass_of_cells` weighs one row after the other.
"""

import math

import numpy as np

from pymc_spn.leaves.elliptical_kernels import (
    BLOCK,
    FAR,
    are_diagonal,
    columns_seen,
    factorise_or_root,
    squares_of_block,
)
from pymc_spn.leaves.normal_inverse_wishart import LOG_PI, factorise, triangle_size
from pymc_spn.networks.records.joint_cells import N_POINTS, diagonal_of_inverse, log_mass_of_cells
from pymc_spn.numerics.elementary import fast_log1p, larger
from pymc_spn.numerics.interrupt_checks import must_stop_after
from pymc_spn.numerics.kernel_options import bare_called_kernel, inner_kernel, kernel

TINY_CURVATURE, TINY_SLOPE = 0.05, 0.1  # of a cell, up to which expansions are right to 1e-7


@bare_called_kernel
def factorise_scale(parameters, log_ratio, seen, n_seen, triangle, floor):
    """Write the factor of the scale of some columns of a Student t leaf; returns the log density at their location.

    ``floor`` (d,) are zeros.
    """
    d = log_ratio.size - 1
    at = 0
    for j in range(n_seen):
        for i in range(j, n_seen):
            triangle[at] = parameters[1 + d + seen[i] * d + seen[j]]
            at += 1
    half_log = factorise(n_seen, n_seen, triangle, floor)
    return log_ratio[n_seen] - 0.5 * n_seen * (LOG_PI + math.log(parameters[0])) - half_log


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


@inner_kernel
def widest_cells(width, seen, out):
    """Write the greatest width of a group's rows in each of the observed columns."""
    for j in range(seen.size):
        out[j] = 0.0
        for w in width[seen[j]]:
            out[j] = larger(w, out[j])


@bare_called_kernel
def are_tiny(n, n_cells, power, ratio, factor, widest, precision, z):
    """Whether expansions hold for all cells of some rows in a leaf.

    Parameters
    ----------
    n, n_cells : int
        Columns that are observed, and how many of these are cells, the last ones.
    power, ratio : float
        See `log_mass_of_cells`.
    factor : (d, d) float64
        Of the scale of these columns.
    widest : (d,) float64
        Largest width of each column.
    precision : (d,) float64
        Out: diagonal of the inverse of the scale, of the cells.
    z : (d,) float64
        Scratch.
    """
    tiny = True
    for j in range(n - n_cells, n):
        total = 0.0
        for i in range(j, n):
            own = 1.0 if i == j else 0.0
            for k in range(j, i):
                own -= factor[i, k] * z[k]
            z[i] = own / factor[i, i]
            total += z[i] * z[i]
        precision[j] = total
        root = widest[j] * math.sqrt(ratio * total)
        tiny &= root * math.sqrt(2.0 * power) < TINY_CURVATURE and 0.5 * root * power < TINY_SLOPE
    return tiny


@bare_called_kernel
def log_of_tiny(power, ratio, base, pull, precision, width):
    """`log_of_narrow` of a cell for which `are_tiny` holds."""
    steep = 2.0 * power * ratio * pull / base
    curved = 2.0 * power * ratio * precision / base - steep * steep / power
    a = 0.25 * width * width * steep * steep
    return a * (1.0 / 6.0 - a / 180.0) - curved * width * width * (1.0 / 24.0 + a / 180.0)


@bare_called_kernel
def add_tiny(
    n, n_cells, power, ratio, log_scale, factor, seen, width, first, precision, z, square, log_width, order, out
):
    """Write log values of a block of rows whose cells are tiny, after `squares_of_block`; z becomes their pull."""
    for i in range(n - 1, n - n_cells - 1, -1):
        own = z[i]
        for k in range(i + 1, n):
            weight = factor[k, i]
            for r in range(square.size):
                own[r] -= weight * z[k, r]
        inverse = 1.0 / factor[i, i]
        for r in range(square.size):
            own[r] *= inverse
    for r in range(square.size):
        square[r] = min(square[r], FAR) * ratio
    for i in range(n - n_cells, n):
        own = z[i]
        widths = width[seen[i], first : first + square.size]
        for r in range(square.size):
            own[r] = log_of_tiny(power, ratio, 1.0 + square[r], own[r], precision[i], widths[r])
    for r in range(square.size):
        square[r] = log_scale - power * fast_log1p(square[r])
    for i in range(n - n_cells, n):
        for r in range(square.size):
            square[r] += z[i, r]
    for r in range(square.size):
        out[order[first + r]] = square[r] + log_width[first + r]


@kernel
def log_masses_of_rows(parameters, log_ratio, rows, width, order, begin, out):
    """As `elliptical_kernels.log_densities_of_rows`, of rows with cells: their density times the mass of the cells.

    Parameters
    ----------
    parameters, log_ratio, order, begin, out
        As there; rows with cells in the same columns stand together.
    rows, width : (d, M) float64
        Cells have their middles, and their widths; points have the width 0.
    """
    n_leaves, d = parameters.shape[0], rows.shape[0]
    triangle, scratch = np.zeros(triangle_size(d)), np.zeros((7, d))
    floor, inverse, pull, z = scratch[0], scratch[1], scratch[2], scratch[3]
    away, own_width, widest = scratch[4], scratch[5], scratch[6]
    seen, others = np.empty(d, np.int64), np.empty(d, np.int64)
    unchecked, log_width = np.zeros(1, np.int64), np.zeros(order.size)
    factor, of_block, square = np.empty((d, d)), np.empty((d, BLOCK)), np.empty(BLOCK)
    diagonal = np.empty(n_leaves, np.bool_)
    are_diagonal(d, parameters, diagonal)
    for m in range(begin[0], begin[-1]):
        for j in range(d):
            if width[j, m] > 0.0 and not math.isnan(rows[j, m]):
                log_width[m] += math.log(width[j, m])
    for group in range(begin.size - 1):
        n, n_cells = cells_last(rows[:, begin[group]], width[:, begin[group]], seen)
        widest_cells(width[:, begin[group] : begin[group + 1]], seen[:n], widest)
        for leaf in range(n_leaves):
            own = parameters[leaf]
            dof = own[0]
            power = 0.5 * (dof + n)
            half_log = factorise_or_root(d, own, seen, n, diagonal[leaf], factor)
            log_scale = log_ratio[leaf, n] - 0.5 * n * (LOG_PI + math.log(dof)) - half_log
            if are_tiny(n, n_cells, power, 1.0 / dof, factor, widest, inverse, z):
                for first in range(begin[group], begin[group + 1], BLOCK):
                    some = square[: min(BLOCK, begin[group + 1] - first)]
                    squares_of_block(own, seen, n, diagonal[leaf], factor, rows, first, of_block, some)
                    add_tiny(
                        n, n_cells, power, 1.0 / dof, log_scale, factor, seen, width, first, inverse, of_block, some,
                        log_width, order, out[leaf],
                    )  # fmt: skip
                continue
            if must_stop_after(N_POINTS * n * n * (begin[group + 1] - begin[group]), unchecked):
                return
            columns_seen(rows[:, begin[group]], -1, others)
            factorise_scale(own, log_ratio[leaf], others, n, triangle, floor)
            diagonal_of_inverse(n, n, triangle, z, inverse)
            for m in range(begin[group], begin[group + 1]):
                for j in range(n):
                    away[j] = rows[others[j], m] - own[1 + others[j]]
                    own_width[j] = width[others[j], m]
                out[leaf, order[m]] = log_mass_of_cells(
                    n, n, power, 1.0 / dof, log_scale, triangle, away, own_width, inverse, pull, z
                )
