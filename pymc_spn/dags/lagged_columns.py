"""Earlier rows of a time series as columns, and the cells that an experimenter set."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from pymc_spn.dags.score_sizes import refuse_many
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Table
from pymc_spn.tables.frame_kinds import frame_kind, pandas_frame


def with_lags(table: Table, set_cells: np.ndarray, lags: int, regular: bool) -> tuple[Table, np.ndarray, int]:
    """A table with earlier rows next to each row, earliest first, and the present last.

    Parameters
    ----------
    table : Table
        Rows in the order of time.
    set_cells : (rows, variables) bool
        Cells that the experimenter set.
    lags : int
        How many earlier rows.
    regular : bool
        Whether labels of rows that are times or numbers must be at equal distances.

    Returns
    -------
    Table
        (rows - lags) rows of (lags + 1) times as many columns, those of k rows before named ``x[t-k]``.
    (rows - lags, columns) bool
        Cells that were set; of earlier columns none, since nothing causes them.
    int
        Number of earlier columns.

    Raises
    ------
    ValueError
        If there are too few rows or too many columns, or the table has such a name already. If labels of rows say that
        these are not in order or, where they must be, not at equal distances.
    """
    if not lags:
        return table, set_cells, 0
    n, d = table.values.shape
    if n < lags + 2:
        raise ValueError(f"lags = {lags} needs at least {lags + 2} rows, got {n}")
    refuse_many(d * (lags + 1))
    _check_times(table.index, regular)
    columns, parts = [], []
    for k in range(lags, 0, -1):
        columns += [replace(c, name=f"{c.name}[t-{k}]") for c in table.columns]
        parts.append(table.values[lags - k : n - k])
    clash = {c.name for c in columns} & set(table.names)
    if clash:
        raise ValueError(
            f"lags: the data already have a column {quoted(min(clash))}, the name of an earlier row; rename it"
        )
    values = np.hstack([*parts, table.values[lags:]])
    earlier = d * lags
    cells = np.hstack([np.zeros((n - lags, earlier), bool), set_cells[lags:]])
    return Table((*columns, *table.columns), values, table.index[lags:]), cells, earlier


def _check_times(index: pd.Index, regular: bool) -> None:
    """Refuse rows that by their labels are not in the order of time, or not at equal distances if they must be."""
    if isinstance(index, pd.MultiIndex):
        raise ValueError("lags: rows have several labels each: give one series, with one label a row")
    times = index
    if index.inferred_type in ("date", "datetime", "string"):  # "2024-05-31", as a file has it
        times = pd.to_datetime(index, format="ISO8601", errors="coerce", utc=True)
        times = index if times.hasnans else times
    is_number = pd.api.types.is_numeric_dtype(times.dtype) and not pd.api.types.is_bool_dtype(times.dtype)
    numbers = times.to_numpy(np.float64) if is_number else getattr(times, "asi8", None)  # asi8: of dates, in any unit
    if numbers is None:
        return  # labels that are no times say nothing
    steps = np.diff(numbers)
    usual = np.median(steps)
    backward = ~(steps >= 0)
    if backward.any():
        where = _pairs(index, backward)
        raise ValueError(
            f"lags: rows must be in the order of time, got {where}. Sort them, or df.reset_index(drop=True)"
        )
    uneven = np.abs(steps - usual) > usual / 2 if usual > 0 else np.ones(len(steps), bool)  # months are even
    if regular and uneven.any() and not _are_working_days(times):
        where = f"got {_pairs(index, uneven)}. Some are missing or there twice"
        raise ValueError(f"lags: rows must be at equal distances, {where}; if they need not be, regular=False")


def _pairs(index: pd.Index, where: np.ndarray) -> str:
    """Neighbours, such as ``2024-05-31 before 2024-05-29``, for a message."""
    pairs = [f"{index[k]} before {index[k + 1]}" for k in np.flatnonzero(where)[:3]]
    return "; ".join(pairs) + (f"; ... {where.sum():,} in all" if where.sum() > len(pairs) else "")


def _are_working_days(times: pd.Index) -> bool:
    """Whether the times are all days from Monday to Friday."""
    if not isinstance(times, pd.DatetimeIndex):
        return False
    days = times.tz_localize(None).to_numpy().astype("datetime64[D]")
    return bool(np.is_busday(days).all() and (np.diff(np.busday_count(days[0], days)) == 1).all())


def intervened_cells(mask: Any, table: Table) -> np.ndarray:
    """(N, d) bool: cells that the experimenter set."""
    shape = table.values.shape
    if mask is None:
        return np.zeros(shape, bool)
    own, mask = frame_kind(mask), pandas_frame(mask, "interventions")
    if isinstance(mask, pd.DataFrame):
        unknown = sorted(set(map(str, mask.columns)) ^ set(table.names))
        if unknown:
            raise ValueError(f"interventions: its columns must be those of the data; {unknown[0]!r} is in one only")
        if own is None and not mask.index.equals(table.index):
            raise ValueError("interventions: its rows must be those of the data, with the same index in the same order")
        mask = mask.set_axis(mask.columns.map(str), axis=1)[list(table.names)]
        if not mask.isna().any(axis=None):  # nullable truth values as their base
            mask = mask.astype({c: bool for c, dtype in mask.dtypes.items() if dtype == "boolean"})
        mask = mask.to_numpy()
    array = np.asarray(mask)
    if array.dtype != bool or array.shape != shape:
        raise ValueError(
            f"interventions must be bool of shape {shape} (rows, variables), got {array.dtype} of shape {array.shape}"
        )
    return array
