"""Which columns are recorded in cells: their values stand for intervals of a grid, and not for themselves."""

from typing import Any, NamedTuple

import numpy as np

from pymc_spn.gibbs.palette import entries_of, grid_of
from pymc_spn.gibbs.palette_warnings import MAX_TIE_EXCESS, shifted_step, ties_and_grid
from pymc_spn.leaves.families import LOCATED
from pymc_spn.leaves.gaussian import Gaussian
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.column import WHOLE_KINDS, by_name

REPEATS = 2  # rows to each distinct value, on average, from which a column is recorded in cells by default
FINEST = 1e-6  # of the range of a column: a finer grid is none by default
NOISE = 1e-9  # of the largest value: values that are closer are the same
LISTED = 5  # columns that a line names


class RecordedCells(NamedTuple):
    """Columns whose values stand for cells, and the grids on which all columns are recorded."""

    names: tuple[str, ...]
    resolution: dict[str, Any]  # as `complete_palette` takes it: with the steps of grids that do not hold 0
    grid_points: tuple[float, ...]  # (D,) a point of each grid, 0 where the grid holds 0


def recorded_cells(
    columns: Any,
    values: np.ndarray,
    leaves: Any,
    resolution: Any,
    rounded: Any,
    only_gaussian: bool = False,
    drawn: bool = False,
) -> RecordedCells:
    """Choose the columns whose recorded values stand for cells.

    By default they are columns of real or positive numbers with Gaussian leaves alone and a grid. It is found from the
    data or given, and not finer than a millionth of the range. Values repeat on it: there are two rows or more to each
    distinct value on average, or equal values are so frequent that the column would be warned of. A column of one value
    is none. ``rounded=True`` takes every column with a grid and Gaussian or log-normal leaves.

    Parameters
    ----------
    columns : sequence of Column
    values : (N, D) float64
        Coded table, NaN where missing.
    leaves, resolution
        As in `complete_palette`.
    rounded : "auto", bool or list of str
        As in `SPN`.
    only_gaussian : bool
        Whether all cells must be of Gaussian leaves, and whole numbers need none of their own, as in variational fits.
    drawn : bool
        Whether missing cells are drawn: columns with gaps and columns of whole numbers then hold exact values.

    Raises
    ------
    TypeError
        If ``rounded`` is neither "auto", a truth value nor a list of names.
    ValueError
        If a column that it names, or with True every column, cannot be in cells.
    """
    is_auto, asked = _asked(rounded, [column.name for column in columns])
    leaves, resolution = dict(by_name("leaves", leaves or {})), by_name("resolution", resolution)
    own = isinstance(resolution, dict)
    grids = dict(resolution) if own else {column.name: resolution for column in columns}
    chosen, points = [], np.zeros(len(columns))
    for d, column in enumerate(columns):
        if column.name not in asked:
            continue
        observed = values[~np.isnan(values[:, d]), d]
        entries = entries_of(column, leaves)
        why_not = _why_not(column, entries, only_gaussian)
        if drawn and (observed.size < len(values) or column.kind in WHOLE_KINDS):
            why_not = why_not or 'with missing="draw" whole numbers, and columns with missing cells, are exact'
        is_usual = column.kind not in WHOLE_KINDS and all(isinstance(entry, Gaussian) for entry in entries)
        if is_auto and (why_not or not is_usual):
            continue
        grid = 0.0 if why_not else grid_of(column.name, observed, resolution)
        if is_auto and not _repeat(observed, grid):
            continue
        if not why_not and grid == 0.0 and grids.get(column.name, "auto") == "auto":
            grid = shifted_step(observed)
            points[d] = _most_frequent(observed) if grid > 0.0 else 0.0
        if grid == 0.0 or (is_auto and grid < max(FINEST * np.ptp(observed), NOISE * np.abs(observed).max())):
            if not is_auto and rounded is not True:
                why_not = why_not or f"they have no recording grid; give resolution={{{column.name!r}: ...}}"
                raise ValueError(f"rounded: column {column.name!r} cannot be treated as rounded: {why_not}")
            points[d] = 0.0
            continue
        grids[column.name] = grid
        if not (only_gaussian and column.kind in WHOLE_KINDS):
            chosen.append(column.name)
    if rounded is True and not chosen:
        raise ValueError(
            "rounded=True needs a column with continuous leaves and a recording grid; none was found: give resolution="
        )
    return RecordedCells(tuple(chosen), grids, tuple(points.tolist()))


def cells_in_words(names: Any, columns: Any, resolution: Any) -> str:
    """Which columns count as rounded, and to what, as "age, bp rounded to 1, bmi to 0.1"; empty where none is."""
    found = [(c.name, f"{width:.3g}") for c, width in zip(columns, resolution, strict=True) if c.name in names]
    by_width: dict[str, list[str]] = {}
    for name, width in found[:LISTED]:
        by_width.setdefault(width, []).append(name)
    said = [f"{', '.join(some)}{'' if i else ' rounded'} to {w}" for i, (w, some) in enumerate(by_width.items())]
    return ", ".join(said) + (f" and {len(found) - LISTED} more" if len(found) > LISTED else "")


def _asked(rounded: Any, names: list[str]) -> tuple[bool, Any]:
    """Whether the rule chooses, and the columns among which it does or which are named."""
    if isinstance(rounded, bool | np.bool_) or (isinstance(rounded, str) and rounded == "auto"):
        return isinstance(rounded, str), names if rounded else []
    if not isinstance(rounded, list | tuple) or not all(isinstance(name, str) for name in rounded):
        raise TypeError(f'rounded must be "auto", True, False or a list of column names; got {quoted(rounded)}')
    unknown = [name for name in rounded if name not in names]
    if unknown:
        raise ValueError(
            f"rounded names the column {unknown[0]!r}, which is not in the table; columns: {quoted(names)}"
        )
    return False, rounded


def _why_not(column: Any, entries: list[Any], only_gaussian: bool) -> str:
    """Why values of a column cannot stand for cells; empty if they can."""
    located = [e for e in entries if getattr(e, "code", None) in LOCATED]
    if column.levels is not None or not located:
        return "it has no Gaussian or log-normal leaves"
    if only_gaussian and column.kind not in WHOLE_KINDS and not all(isinstance(e, Gaussian) for e in entries):
        return "a variational fit takes rounded values under Gaussian leaves alone"
    return ""


def _repeat(observed: np.ndarray, grid: float) -> bool:
    """Whether values repeat so often that a column is in cells by default; arithmetic noise makes no new value."""
    if observed.size == 0 or np.ptp(observed) <= NOISE * np.abs(observed).max():
        return False  # one value says nothing of a grid
    values = np.unique(observed)
    n_distinct = 1 + np.count_nonzero(np.diff(values) > NOISE * np.abs(values).max(initial=0.0))
    if observed.size >= REPEATS * n_distinct:
        return True
    with np.errstate(over="ignore"):  # values that are too large are refused later, by their column
        return ties_and_grid(observed, grid)[0] > MAX_TIE_EXCESS


def _most_frequent(observed: np.ndarray) -> float:
    values, counts = np.unique(observed, return_counts=True)
    return float(values[counts.argmax()])
