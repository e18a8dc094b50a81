"""Earlier rows of a time series as columns, and the cells that an experimenter set."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from pymc_spn.dags.score_sizes import refuse_many
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Table
from pymc_spn.tables.frame_kinds import frame_kind, pandas_frame


def with_lags(table: Table, set_cells: np.ndarray, lags: int) -> tuple[Table, np.ndarray, int]:
    """A table with earlier rows next to each row, earliest first, and the present last.

    Parameters
    ----------
    table : Table
        Rows in the order of time.
    set_cells : (rows, variables) bool
        Cells that the experimenter set.
    lags : int
        How many earlier rows.

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
        If there are too few rows or too many columns, or the table has such a name already.
    """
    if not lags:
        return table, set_cells, 0
    n, d = table.values.shape
    if n < lags + 2:
        raise ValueError(f"lags = {lags} needs at least {lags + 2} rows, got {n}")
    refuse_many(d * (lags + 1))
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
