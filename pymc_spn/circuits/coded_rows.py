"""Data frames, tables and arrays as the coded rows of a circuit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.tables import Column, Table


def coded_rows(
    circuit: Circuit, observed: Any, positions: Sequence[int] | None = None, argument: str = "observed"
) -> tuple[np.ndarray, Any]:
    """Rows (N, D) of the circuit's columns with levels as codes, and their labels.

    With ``positions`` they are rows of these columns alone; ``argument`` is what messages call the rows.

    Raises
    ------
    TypeError
        If there is text where the circuit knows no levels.
    ValueError
        If columns differ from the circuit's, or there is no row; and as `Table.from_frame`.
    """
    columns = circuit.columns if positions is None else tuple(circuit.columns[d] for d in positions)
    if all(isinstance(c, Column) for c in circuit.columns):
        table = Table.from_frame(observed, schema=columns)
        values, index = table.values, table.index
    else:
        if isinstance(observed, Table):  # columns that are names only hold numbers, levels as their codes
            observed = pd.DataFrame(observed.values, observed.index, observed.names)
        is_frame = hasattr(observed, "to_numpy")
        cells = observed.to_numpy() if is_frame else np.asarray(observed)
        if cells.dtype.kind in "US" or (cells.dtype.kind == "O" and any(isinstance(x, str) for x in cells.flat)):
            raise TypeError(f"{argument} must hold numbers, levels that the circuit does not know as codes; got text")
        values = np.asarray(cells, np.float64)
        index = getattr(observed, "index", None) if is_frame else None
        if values.ndim != 2 or values.shape[1] != len(columns):
            raise ValueError(f"{argument} must have shape (rows, {len(columns)}), got {values.shape}")
        known = circuit.names if positions is None else tuple(circuit.names[d] for d in positions)
        names = getattr(observed, "columns", None)
        if names is not None and tuple(map(str, names)) != known:
            whose = "the circuit's columns" if positions is None else "the columns that are not given,"
            raise ValueError(f"{argument} must have {whose} {list(known)}, got {list(names)}")
        index = range(len(values)) if index is None else index
    if len(values) == 0:
        raise ValueError(f"{argument} must have at least one row; it has none")
    return np.ascontiguousarray(values, dtype=np.float64), index
