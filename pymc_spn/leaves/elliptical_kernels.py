"""Student t leaves over several columns in rows with gaps, by kernels: quadratic forms, and columns given others.

Rows that have the same gaps share one Cholesky factor of a leaf, with the observed columns first. Ding (2016),
doi:10.1080/00031305.2016.1164678, for the conditional.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_spn.numerics.kernel_options import bare_called_kernel, bare_inner_kernel, copied_kernel, kernel

BLOCK = 64  # rows at a time
FAR = 1e300  # a quadratic form beyond which nothing is left


class Form(NamedTuple):
    """Quadratic form of some columns of a leaf in a block of rows."""

    seen: np.ndarray  # (d,) int64 the columns
    factor: np.ndarray  # (d, d) Cholesky factor of their scale
    lower: np.ndarray  # (d, d) its inverse
    inverse: np.ndarray  # (d, d) inverse of the scale
    z: np.ndarray  # (d, BLOCK) the factor's inverse times what rows are away, or pull: that of the scale times it
    square: np.ndarray  # (BLOCK,)


@copied_kernel
def room_for_form(d):
    """Room for d columns."""
    matrices = np.empty((3, d, d))
    return Form(np.empty(d, np.int64), matrices[0], matrices[1], matrices[2], np.empty((d, BLOCK)), np.empty(BLOCK))


@bare_called_kernel
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
def squares_of_block(parameters, form, n_seen, rows, first, n):
    """Quadratic forms of n rows from one on, and ``z``, the factor's inverse times what they are away."""
    square = form.square[:n]
    square[:] = 0.0
    for i in range(n_seen):
        own = form.z[i, :n]
        values = rows[form.seen[i], first : first + n]
        centre = parameters[1 + form.seen[i]]
        for r in range(n):
            own[r] = values[r] - centre
        for j in range(i):
            weight = form.factor[i, j]
            if weight == 0.0:  # of leaves that hold no row
                continue
            before = form.z[j, :n]
            for r in range(n):
                own[r] -= weight * before[r]
        width = 1.0 / form.factor[i, i]
        for r in range(n):
            own[r] *= width
            square[r] += own[r] * own[r]


@bare_called_kernel
def pulls_of_block(form, n_seen, first, n):
    """Turn ``z`` of n rows into their pull, in the columns from the place ``first`` on."""
    for i in range(n_seen - 1, first - 1, -1):
        own = form.z[i, :n]
        for k in range(i + 1, n_seen):
            weight = form.factor[k, i]
            after = form.z[k, :n]
            for r in range(n):
                own[r] -= weight * after[r]
        width = 1.0 / form.factor[i, i]
        for r in range(n):
            own[r] *= width


@bare_called_kernel
def invert(n, first, factor, lower, inverse):
    """Inverse of a matrix from its factor, in rows and columns from ``first`` on; that of the factor is ``lower``."""
    for j in range(first, n):
        lower[j, j] = 1.0 / factor[j, j]
        for i in range(j + 1, n):
            total = 0.0
            for k in range(j, i):
                total += factor[i, k] * lower[k, j]
            lower[i, j] = -total / factor[i, i]
    for i in range(first, n):
        for j in range(first, i + 1):
            total = 0.0
            for k in range(i, n):
                total += lower[k, i] * lower[k, j]
            inverse[i, j] = total
            inverse[j, i] = total


@kernel
def column_of_rows(parameters, rows, order, begin, leaf, column, out):
    """One column given the others that are observed.

    Parameters
    ----------
    parameters : (L, P) float64
        Of `multivariate_student_t` leaves.
    rows : (d, M) float64
        NaN where missing; rows with the same gaps stand together. Cells of the column itself count as missing.
    order : (M,) int64
        Where each of them is written.
    begin : (G + 1,) int64
        First row of each set of gaps.
    leaf : (G,) int64
        The leaf of each set, or -1 for all leaves.
    column : int
    out : (3, L, M) float64
        Out: location, scale and degrees of freedom of each Student t; of rows with a leaf of their own (3, 1, M).
    """
    n_leaves, d = parameters.shape[0], rows.shape[0]
    form = room_for_form(d)
    for group in range(begin.size - 1):
        n_seen = columns_seen(rows[:, begin[group]], column, form.seen)
        is_one = leaf[group] >= 0
        for which in range(leaf[group] if is_one else 0, leaf[group] + 1 if is_one else n_leaves):
            own = parameters[which]
            place = 0 if is_one else which
            location, scale, freedom = out[0, place], out[1, place], out[2, place]
            dof = own[0] + n_seen
            factorise_seen(d, own, form.seen, n_seen, column, form.factor)
            last = form.factor[n_seen]
            for first in range(begin[group], begin[group + 1], BLOCK):
                n = min(BLOCK, begin[group + 1] - first)
                squares_of_block(own, form, n_seen, rows, first, n)
                for r in range(n):
                    at = order[first + r]
                    centre = own[1 + column]
                    for i in range(n_seen):
                        centre += last[i] * form.z[i, r]
                    location[at] = centre
                    scale[at] = last[n_seen] * math.sqrt((own[0] + min(form.square[r], FAR)) / dof)
                    freedom[at] = dof


@kernel
def columns_of_rows(parameters, rows, order, begin, leaf, column, out, slopes):
    """Each observed column given the rest of its row, of rows with a leaf of their own; one column counts as missing.

    Parameters
    ----------
    parameters, rows, order, begin, leaf
        As of `column_of_rows`.
    column : int
        Or -1 for none.
    out : (3, d, M) float64
        Out: location, scale and degrees of freedom.
    slopes : (d, M) float64
        Out: how the location of the one column goes with each other.
    """
    d = rows.shape[0]
    form = room_for_form(d)
    for group in range(begin.size - 1):
        own = parameters[leaf[group]]
        n_seen = columns_seen(rows[:, begin[group]], column, form.seen)
        factorise_seen(d, own, form.seen, n_seen, column, form.factor)
        invert(n_seen, 0, form.factor, form.lower, form.inverse)
        dof = own[0] + n_seen - 1.0
        for first in range(begin[group], begin[group + 1], BLOCK):
            n = min(BLOCK, begin[group + 1] - first)
            squares_of_block(own, form, n_seen, rows, first, n)
            pulls_of_block(form, n_seen, 0, n)
            for i in range(n_seen):
                precision = form.inverse[i, i]
                slope = 0.0
                for k in range(i, n_seen if column >= 0 else 0):
                    slope += form.factor[n_seen, k] * form.lower[k, i]
                for r in range(n):
                    at = order[first + r]
                    pull = form.z[i, r]
                    growth = (own[0] + max(form.square[r] - pull * pull / precision, 0.0)) / dof
                    out[0, form.seen[i], at] = rows[form.seen[i], first + r] - pull / precision
                    out[1, form.seen[i], at] = math.sqrt(growth / precision)
                    out[2, form.seen[i], at] = dof
                    slopes[form.seen[i], at] = slope
