"""Student t leaves over several columns in rows with gaps: densities, and one column given others, by kernels.

Rows that have the same gaps share one Cholesky factor of a leaf, with the observed columns first. Ding (2016),
doi:10.1080/00031305.2016.1164678, for the conditional.
"""

import math

import numpy as np

from pymc_spn.leaves.normal_inverse_wishart import LOG_PI
from pymc_spn.numerics.elementary import fast_log1p
from pymc_spn.numerics.kernel_options import bare_inner_kernel, kernel

BLOCK = 64  # rows at a time
FAR = 1e300  # a quadratic form beyond which nothing is left


@bare_inner_kernel
def factorise_seen(d, parameters, seen, n_seen, last, factor):
    """Cholesky factor of the scale of some columns of a leaf, and behind them of one more unless ``last`` is below 0.

    Returns half the log determinant of the scale of the first ones.
    """
    half_log = 0.0
    for i in range(n_seen + (last >= 0)):
        a = seen[i] if i < n_seen else last
        for j in range(i + 1):
            b = seen[j] if j < n_seen else last
            total = parameters[1 + d + a * d + b]
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            if j < i:
                factor[i, j] = total / factor[j, j]
            else:
                factor[i, i] = math.sqrt(total)
        if i < n_seen:
            half_log += math.log(factor[i, i])
    return half_log


@bare_inner_kernel
def columns_seen(row, column, seen):
    """Write which columns of a row are observed, except for one column; returns how many."""
    n_seen = 0
    for j in range(row.size):
        if j != column and not math.isnan(row[j]):
            seen[n_seen] = j
            n_seen += 1
    return n_seen


@bare_inner_kernel
def are_diagonal(d, parameters, out):
    """Write which leaves have a diagonal scale matrix: those that hold no row."""
    for leaf in range(out.size):
        out[leaf] = True
        for i in range(d):
            for j in range(i):
                out[leaf] &= parameters[leaf, 1 + d + i * d + j] == 0.0


@bare_inner_kernel
def factorise_or_root(d, parameters, seen, n_seen, is_diagonal, factor):
    """`factorise_seen` of some columns, quick where the scale is diagonal."""
    if not is_diagonal:
        return factorise_seen(d, parameters, seen, n_seen, -1, factor)
    half_log = 0.0
    for i in range(n_seen):
        for j in range(i):
            factor[i, j] = 0.0
        factor[i, i] = math.sqrt(parameters[1 + d + seen[i] * d + seen[i]])
        half_log += math.log(factor[i, i])
    return half_log


@bare_inner_kernel
def squares_of_block(parameters, seen, n_seen, is_diagonal, factor, rows, first, z, square):
    """Quadratic forms of a block of rows from one on, and ``z``, the factor's inverse times what they are away."""
    n = square.size
    square[:] = 0.0
    for i in range(n_seen):
        own = z[i, :n]
        values = rows[seen[i], first : first + n]
        centre = parameters[1 + seen[i]]
        for r in range(n):
            own[r] = values[r] - centre
        for j in range(0 if is_diagonal else i):
            weight = factor[i, j]
            before = z[j, :n]
            for r in range(n):
                own[r] -= weight * before[r]
        width = 1.0 / factor[i, i]
        for r in range(n):
            own[r] *= width
            square[r] += own[r] * own[r]


@kernel
def log_densities_of_rows(parameters, log_ratio, rows, order, begin, out):
    """Log densities of what is observed in rows, in all leaves.

    Parameters
    ----------
    parameters : (L, P) float64
        Of `multivariate_student_t` leaves.
    log_ratio : (L, d + 1) float64
        Log of gamma(dof / 2 + k / 2) over gamma(dof / 2).
    rows : (d, M) float64
        NaN where missing; rows with the same gaps stand together.
    order : (M,) int64
        Where each of them is written.
    begin : (G + 1,) int64
        First row of each set of gaps.
    out : (L, M) float64
    """
    n_leaves, d = parameters.shape[0], rows.shape[0]
    factor, z, square, seen = np.empty((d, d)), np.empty((d, BLOCK)), np.empty(BLOCK), np.empty(d, np.int64)
    diagonal = np.empty(n_leaves, np.bool_)
    are_diagonal(d, parameters, diagonal)
    for group in range(begin.size - 1):
        n_seen = columns_seen(rows[:, begin[group]], -1, seen)
        for leaf in range(n_leaves):
            own = parameters[leaf]
            dof = own[0]
            half_log = factorise_or_root(d, own, seen, n_seen, diagonal[leaf], factor)
            constant = log_ratio[leaf, n_seen] - 0.5 * n_seen * (LOG_PI + math.log(dof)) - half_log
            power = 0.5 * (dof + n_seen)
            inverse = 1.0 / dof
            for first in range(begin[group], begin[group + 1], BLOCK):
                n = min(BLOCK, begin[group + 1] - first)
                of_block = square[:n]
                squares_of_block(own, seen, n_seen, diagonal[leaf], factor, rows, first, z, of_block)
                for r in range(n):
                    of_block[r] = constant - power * fast_log1p(min(of_block[r], FAR) * inverse)
                for r in range(n):
                    out[leaf, order[first + r]] = of_block[r] if n_seen > 0 else 0.0


@kernel
def column_of_rows(parameters, rows, order, begin, column, location, scale, dof):
    """One column given the others that are observed, of all leaves in all rows.

    Parameters
    ----------
    parameters, rows, order, begin
        As of `log_densities_of_rows`; cells of the column itself are missing.
    column : int
    location, scale, dof : (L, M) float64
        Out: of each Student t.
    """
    n_leaves, d = parameters.shape[0], rows.shape[0]
    factor, z, square, seen = np.empty((d, d)), np.empty((d, BLOCK)), np.empty(BLOCK), np.empty(d, np.int64)
    for group in range(begin.size - 1):
        n_seen = columns_seen(rows[:, begin[group]], column, seen)
        for leaf in range(n_leaves):
            own = parameters[leaf]
            factorise_seen(d, own, seen, n_seen, column, factor)
            for first in range(begin[group], begin[group + 1], BLOCK):
                n = min(BLOCK, begin[group + 1] - first)
                squares_of_block(own, seen, n_seen, False, factor, rows, first, z, square[:n])
                for r in range(n):
                    at = order[first + r]
                    centre = own[1 + column]
                    for i in range(n_seen):
                        centre += factor[n_seen, i] * z[i, r]
                    grown = (own[0] + min(square[r], FAR)) / (own[0] + n_seen)
                    location[leaf, at] = centre
                    scale[leaf, at] = factor[n_seen, n_seen] * math.sqrt(grown)
                    dof[leaf, at] = own[0] + n_seen


@kernel
def column_of_pairs(parameters, leaf, rows, column, out):
    """One column given the others that are observed, each leaf in a row of its own.

    Parameters
    ----------
    parameters : (L, P) float64
        As of `log_densities_of_rows`.
    leaf : (n,) int64
        Those of one leaf whose rows have the same gaps should stand together.
    rows : (n, d) float64
    column : int
    out : (n, 3) float64
        Location, scale and degrees of freedom of each Student t.
    """
    d = rows.shape[1]
    factor, z = np.empty((d, d)), np.empty(d)
    seen, others = np.empty(d, np.int64), np.empty(d, np.int64)
    n_seen = 0
    for p in range(leaf.size):
        own = leaf[p]
        n = columns_seen(rows[p], column, others)
        is_new = p == 0 or own != leaf[p - 1] or n != n_seen
        for i in range(n):
            is_new |= others[i] != seen[i]
            seen[i] = others[i]
        n_seen = n
        if is_new:
            factorise_seen(d, parameters[own], seen, n_seen, column, factor)
        square = 0.0
        centre = parameters[own, 1 + column]
        for i in range(n_seen):
            total = rows[p, seen[i]] - parameters[own, 1 + seen[i]]
            for j in range(i):
                total -= factor[i, j] * z[j]
            z[i] = total / factor[i, i]
            square += z[i] * z[i]
            centre += factor[n_seen, i] * z[i]
        dof = parameters[own, 0]
        grown = (dof + min(square, FAR)) / (dof + n_seen)
        out[p, 0] = centre
        out[p, 1] = factor[n_seen, n_seen] * math.sqrt(grown)
        out[p, 2] = dof + n_seen
