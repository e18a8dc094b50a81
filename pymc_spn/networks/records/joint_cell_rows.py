"""Exact values within the cells of rows in leaves over several columns: their means, variances and draws.

Each exact value is taken given the points of its row and the middles of the other cells: a Student t within its cell.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.leaves.elliptical_boxes import step
from pymc_spn.leaves.elliptical_kernels import columns_seen, factorise_seen
from pymc_spn.leaves.elliptical_leaves import distinct_leaves, groups_of, times_rows
from pymc_spn.leaves.student_cells import FEW_NODES, FEW_WEIGHTS, FLAT, log_slope
from pymc_spn.numerics.elementary import fast_exp, fast_log1p
from pymc_spn.numerics.kernel_options import bare_called_kernel, kernel

_X16, _W16 = np.polynomial.legendre.leggauss(16)
NODES, WEIGHTS = 0.5 * (_X16 + 1.0), 0.5 * _W16


class CellsOfRows(NamedTuple):
    """One column of the cells of some rows (m,).

    Parameters
    ----------
    at : (m,) int64
        Rows.
    column : int
    location, scale, dof : (m,) float64
        Of the Student t given the rest of each row.
    """

    at: np.ndarray
    column: int
    location: np.ndarray
    scale: np.ndarray
    dof: np.ndarray


def cells_of_rows(family: Any, parameters: np.ndarray, rows: np.ndarray, is_cell: np.ndarray) -> Iterator[CellsOfRows]:
    """Laws of exact values given the rest of their rows, which have the middles of cells."""
    leaves, number = distinct_leaves(parameters, len(rows))
    location, scale = family.location_and_scale(leaves)
    dof = family.dof_of(leaves)
    for at in groups_of(~np.isnan(rows)):
        seen = np.flatnonzero(~np.isnan(rows[at[0]]))
        used, leaf = np.unique(number[at], return_inverse=True)
        inverse = np.linalg.inv(scale[np.ix_(used, seen, seen)])
        away = (rows[np.ix_(at, seen)] - location[np.ix_(used, seen)][leaf]).T
        pull = times_rows(inverse, leaf, away)
        square, own_dof = (away * pull).sum(axis=0), dof[used][leaf]
        for i, j in enumerate(seen.tolist()):
            held = np.flatnonzero(is_cell[at, j])
            if held.size == 0:
                continue
            precision, own, rest = inverse[leaf[held], i, i], pull[i, held], own_dof[held] + seen.size - 1.0
            growth = (own_dof[held] + np.maximum(square[held] - own**2 / precision, 0.0)) / rest
            where = rows[at[held], j] - own / precision
            yield CellsOfRows(at[held], j, where, np.sqrt(growth / precision), rest)


@bare_called_kernel
def moments_of_cell(location, scale, dof, low, high, out):
    """Mean and variance of a Student t within a cell."""
    power = 0.5 * (dof + 1.0)
    width = high - low
    root = 1.0 / (scale * math.sqrt(dof))
    is_tiny = width * root * log_slope(abs(low + 0.5 * width - location) * root, power) < FLAT
    n = FEW_NODES.size if is_tiny else NODES.size
    largest = math.inf
    for k in range(n):
        share = FEW_NODES[k] if is_tiny else NODES[k]
        z = (low + share * width - location) * root
        largest = min(largest, z * z)
    base = fast_log1p(largest)
    total = 0.0
    first = 0.0
    second = 0.0
    for k in range(n):
        share = FEW_NODES[k] if is_tiny else NODES[k]
        z = (low + share * width - location) * root
        weight = (FEW_WEIGHTS[k] if is_tiny else WEIGHTS[k]) * fast_exp(power * (base - fast_log1p(z * z)))
        total += weight
        first += weight * (share - 0.5)
        second += weight * (share - 0.5) * (share - 0.5)
    first /= total
    out[0] = low + (0.5 + first) * width
    out[1] = width * width * (second / total - first * first)


@kernel
def means_in_cells(parameters, leaf, rows, low, high, column, spread):
    """Put the means of the exact values into rows, and write what their variances add to that of the asked column.

    Parameters
    ----------
    parameters : (L, P) float64
    leaf : (n,) int64
        As of `column_of_pairs`.
    rows : (n, d) float64
        With the middles of the cells, which become means; NaN where nothing is known, and in the asked column.
    low, high : (n, d) float64
        Ends of the cells, NaN where there is none.
    column : int
        The asked one.
    spread : (n,) float64
        Out.
    """
    d = rows.shape[1]
    factor, lower, found = np.empty((d, d)), np.empty((d, d)), np.empty(2)
    z, mean, slope, seen, others = np.empty(d), np.empty(d), np.empty(d), np.empty(d, np.int64), np.empty(d, np.int64)
    n_seen = 0
    for p in range(leaf.size):
        own = parameters[leaf[p]]
        n = columns_seen(rows[p], column, others)
        is_new = p == 0 or leaf[p] != leaf[p - 1] or n != n_seen
        for i in range(n):
            is_new |= others[i] != seen[i]
            seen[i] = others[i]
        n_seen = n
        if is_new:
            factorise_seen(d, own, seen, n, column, factor)
            for j in range(n):  # the inverse of the factor, and how the asked column goes with the others
                for i in range(j, n + 1):
                    total = 1.0 if i == j else 0.0
                    for k in range(j, min(i, n)):
                        total -= factor[i, k] * lower[k, j]
                    lower[i, j] = total / factor[i, i] if i < n else -total
                slope[j] = lower[n, j]
        square = 0.0
        for i in range(n):
            z[i] = 0.0
            for j in range(i + 1):
                z[i] += lower[i, j] * (rows[p, seen[j]] - own[1 + seen[j]])
            square += z[i] * z[i]
        spread[p] = 0.0
        for j in range(n):
            mean[j] = rows[p, seen[j]]
            if math.isnan(low[p, seen[j]]):
                continue
            precision = 0.0
            pull = 0.0
            for i in range(j, n):
                precision += lower[i, j] * lower[i, j]
                pull += lower[i, j] * z[i]
            dof = own[0] + n - 1.0
            growth = (own[0] + max(square - pull * pull / precision, 0.0)) / dof
            where = rows[p, seen[j]] - pull / precision
            moments_of_cell(where, math.sqrt(growth / precision), dof, low[p, seen[j]], high[p, seen[j]], found)
            mean[j] = found[0]
            spread[p] += slope[j] * slope[j] * found[1]
        for j in range(n):
            rows[p, seen[j]] = mean[j]


def draw_in_cells(
    family: Any, parameters: np.ndarray, rows: np.ndarray, low: np.ndarray, high: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Rows (n, d) with exact values drawn within their cells; arguments as of `means_in_cells`, each row's own leaf."""
    out = np.array(rows)
    for cells in cells_of_rows(family, parameters, rows, ~np.isnan(low) & ~np.isnan(rows)):
        first, last = ((end[cells.at, cells.column] - cells.location) / cells.scale for end in (low, high))
        z = step(cells.dof, first, last, rng.random(first.size))[1]
        out[cells.at, cells.column] = cells.location + cells.scale * z
    return out
