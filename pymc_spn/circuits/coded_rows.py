"""Data frames, tables and arrays as the coded rows of a circuit."""

from typing import Any

import numpy as np
import pandas as pd

from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.tables import Column, Table


def coded_rows(circuit: Circuit, observed: Any) -> tuple[np.ndarray, Any]:
    """Rows (N, D) of the circuit's columns with levels as codes, and their labels.

    Raises
    ------
    ValueError
        If columns differ from the circuit's, or there is no row; and as `Table.from_frame`.
    """
    if all(isinstance(c, Column) for c in circuit.columns):
        table = Table.from_frame(observed, schema=circuit.columns)
        values, index = table.values, table.index
    else:
        if isinstance(observed, Table):  # columns that are names only hold numbers, levels as their codes
            observed = pd.DataFrame(observed.values, observed.index, observed.names)
        is_frame = hasattr(observed, "to_numpy")
        values = np.asarray(observed.to_numpy() if is_frame else observed, np.float64)
        index = getattr(observed, "index", None) if is_frame else None
        if values.ndim != 2 or values.shape[1] != len(circuit.columns):
            raise ValueError(f"observed must have shape (rows, {len(circuit.columns)}), got {values.shape}")
        names = getattr(observed, "columns", None)
        if names is not None and tuple(map(str, names)) != circuit.names:
            raise ValueError(f"observed must have the circuit's columns {list(circuit.names)}, got {list(names)}")
        index = range(len(values)) if index is None else index
    if len(values) == 0:
        raise ValueError("observed must have at least one row; it has none")
    return np.ascontiguousarray(values, dtype=np.float64), index
