"""Which cells an experimenter set."""

from typing import Any

import numpy as np
import pandas as pd

from pymc_spn.tables import Table
from pymc_spn.tables.frame_kinds import frame_kind, pandas_frame


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
