"""Exact values within the cells of rows in leaves over several columns: their means, variances and draws.

Each exact value is taken given the points of its row and the middles of the other cells: a Student t within its cell.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.leaves.elliptical_boxes import step
from pymc_spn.leaves.elliptical_leaves import distinct_leaves, groups_of, times_rows

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


class CellsOfRows(NamedTuple):
    """One column of the cells of some rows (m,).

    Parameters
    ----------
    at : (m,) int64
        Rows.
    column : int
    location, scale, dof : (m,) float64
        Of the Student t given the rest of each row.
    slope : (m,) float64
        By how much the location of the asked column moves with this one; 0 if none is asked.
    """

    at: np.ndarray
    column: int
    location: np.ndarray
    scale: np.ndarray
    dof: np.ndarray
    slope: np.ndarray


def cells_of_rows(
    family: Any, parameters: np.ndarray, rows: np.ndarray, is_cell: np.ndarray, asked: int = -1
) -> Iterator[CellsOfRows]:
    """Laws of exact values given the rest of their rows, which have the middles of cells."""
    leaves, number = distinct_leaves(parameters, len(rows))
    location, scale = family.location_and_scale(leaves)
    dof = family.dof_of(leaves)
    for at in groups_of(~np.isnan(rows)):
        seen = np.flatnonzero(~np.isnan(rows[at[0]]))
        used, leaf = np.unique(number[at], return_inverse=True)
        inverse = np.linalg.inv(scale[np.ix_(used, seen, seen)])
        slopes = np.zeros((used.size, seen.size))
        if asked >= 0:
            slopes = np.einsum("lj,ljk->lk", scale[np.ix_(used, [asked], seen)][:, 0], inverse)
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
            yield CellsOfRows(at[held], j, where, np.sqrt(growth / precision), rest, slopes[leaf[held], i])


def means_in_cells(
    family: Any, parameters: np.ndarray, rows: np.ndarray, low: np.ndarray, high: np.ndarray, asked: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, d) with the means of the exact values, and what their variances add to that of the asked column.

    Parameters
    ----------
    family : EllipticalFamily
    parameters : (n, P) float64
    rows : (n, d) float64
        With the middles of the cells; NaN where nothing is known, and in the asked column.
    low, high : (n, d) float64
        Ends of the cells, NaN where there is none.
    asked : int

    Returns
    -------
    rows : (n, d) float64
    spread : (n,) float64
    """
    out, spread, is_cell = np.array(rows), np.zeros(len(rows)), ~np.isnan(low) & ~np.isnan(rows)
    for cells in cells_of_rows(family, parameters, rows, is_cell, asked):
        first, last = low[cells.at, cells.column], high[cells.at, cells.column]
        x = first[:, None] + 0.5 * (NODES + 1.0) * (last - first)[:, None]
        z = (x - cells.location[:, None]) / cells.scale[:, None]
        logs = -0.5 * (cells.dof[:, None] + 1.0) * np.log1p(z**2 / cells.dof[:, None])
        weights = WEIGHTS * np.exp(logs - logs.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        mean = (weights * x).sum(axis=1)
        out[cells.at, cells.column] = mean
        spread[cells.at] += cells.slope**2 * (weights * (x - mean[:, None]) ** 2).sum(axis=1)
    return out, spread


def draw_in_cells(
    family: Any, parameters: np.ndarray, rows: np.ndarray, low: np.ndarray, high: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Rows (n, d) with exact values drawn within their cells; arguments as of `means_in_cells`."""
    out = np.array(rows)
    for cells in cells_of_rows(family, parameters, rows, ~np.isnan(low) & ~np.isnan(rows)):
        first, last = ((end[cells.at, cells.column] - cells.location) / cells.scale for end in (low, high))
        z = step(cells.dof, first, last, rng.random(first.size))[1]
        out[cells.at, cells.column] = cells.location + cells.scale * z
    return out
