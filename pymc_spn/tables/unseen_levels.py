"""Levels that the first table did not have: an error at prediction, or missing where that is asked for."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.coding import unseen_cells
from pymc_spn.tables.column import LEVEL_KINDS, Column, as_name

UNSEEN = ("error", "missing")


def known_levels(data: Any, columns: Sequence[Column], unseen: str) -> Any:
    """Rows in which levels that a column does not have are missing, where that is asked for.

    Parameters
    ----------
    data : DataFrame, mapping of columns, array or Table
        An array or a Table is returned as it is: its cells are codes or numbers.
    columns : sequence of Column
        Of the first table; columns of the data that are not among them are left alone.
    unseen : {"error", "missing"}
        "error" returns the data as they are, and coding them by the columns refuses unseen levels.

    Returns
    -------
    DataFrame, or the data

    Raises
    ------
    ValueError
        If `unseen` is neither.
    """
    if not isinstance(unseen, str) or unseen not in UNSEEN:
        raise ValueError(f'unseen must be "error" or "missing", got {quoted(unseen)}')
    if unseen == "error" or not isinstance(data, pd.DataFrame | Mapping):
        return data
    frame = pd.DataFrame(data)
    levels = {column.name: column for column in columns if column.kind in LEVEL_KINDS}
    if frame.columns.has_duplicates:
        return data  # refused where it is coded
    changed = frame.copy()
    for label in frame.columns:
        if as_name(label) in levels:
            changed[label] = frame[label].mask(unseen_cells(frame[label], levels[as_name(label)]))
    return changed
