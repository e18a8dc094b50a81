"""Levels that the first table did not have: an error at prediction, or missing where that is asked for."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.coding import raise_at, unseen_cells
from pymc_spn.tables.column import LEVEL_KINDS, Column, as_name
from pymc_spn.tables.frame_kinds import column_array, pandas_frame

UNSEEN = ("error", "missing")


def known_levels(data: Any, columns: Sequence[Column], unseen: str) -> Any:
    """Rows in which levels that a column does not have are missing, where that is asked for.

    Parameters
    ----------
    data : DataFrame, mapping of columns, array or Table
        An array or a Table is returned as it is: `Table.from_frame` gives its columns their names.
    columns : sequence of Column
        Of the first table; columns of the data that are not among them are left alone.
    unseen : {"error", "missing"}
        "error" returns the data as they are, and coding them by the columns refuses unseen levels.

    Returns
    -------
    DataFrame of pandas, or the data

    Raises
    ------
    ValueError
        If `unseen` is neither.
    """
    is_missing, data = is_unseen_missing(unseen), pandas_frame(data)
    if not is_missing or not isinstance(data, pd.DataFrame | Mapping):
        return data
    if isinstance(data, Mapping):
        data = pd.DataFrame({label: column_array(cells) for label, cells in data.items()})
    frame: pd.DataFrame = data
    levels = {column.name: column for column in columns if column.kind in LEVEL_KINDS}
    if frame.columns.has_duplicates:
        return data  # refused where it is coded
    changed = frame.copy()
    for label in frame.columns:
        if as_name(label) in levels:
            changed[label] = frame[label].mask(unseen_cells(frame[label], levels[as_name(label)]))
    return changed


def is_unseen_missing(unseen: Any) -> bool:
    """Whether the argument asks for unseen levels to be missing.

    Raises
    ------
    ValueError
        If it asks for nothing known.
    """
    if not isinstance(unseen, str) or unseen not in UNSEEN:
        raise ValueError(f'unseen must be "error" or "missing", got {quoted(unseen)}')
    return unseen == "missing"


def known_codes(values: np.ndarray, columns: Sequence[Column], index: Any, unseen: str) -> np.ndarray:
    """Coded rows (N, D) of the columns, checked as levels are: codes that are those of no level refused, or missing.

    Raises
    ------
    ValueError
        If a code is that of no level, and is not to be missing; and if `unseen` is neither.
    """
    is_missing, out = is_unseen_missing(unseen), np.array(values, np.float64)
    for codes, column in zip(out.T, columns, strict=True):
        if column.levels is None:
            continue
        bad = ~(np.isnan(codes) | (codes >= 0) & (codes < len(column.levels)) & (np.floor(codes) == codes))
        if is_missing:
            codes[bad] = np.nan
        elif bad.any():
            rule = f"unseen level (the circuit knows codes 0 to {len(column.levels) - 1})"
            raise_at(pd.Series(codes, pd.Index(index)), column.name, bad, rule)
    return out
