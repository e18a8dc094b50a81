"""Data frames, tables and arrays as the coded rows of a circuit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from pymc_spn.circuits.evaluation.parameters import array_values, frame_values
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.tables import Column, Table


def coded_rows(
    circuit: Circuit, observed: Any, positions: Sequence[int] | None = None, argument: str = "observed"
) -> tuple[np.ndarray, Any]:
    """Rows (N, D) of the circuit's columns with levels as codes, and their labels.

    With ``positions`` they are rows of these columns alone; ``argument`` is what messages call the rows. Where all
    columns of the circuit have a schema, an array holds what a DataFrame would; beside columns that are names only it
    holds codes.

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
    elif isinstance(observed, Table) or hasattr(observed, "columns"):
        frame = frame_of_table(columns, observed) if isinstance(observed, Table) else observed
        known = "" if positions is None else "the columns that are not given,"
        values, index = frame_values(columns, frame, argument, known), frame.index
    else:
        cells = np.asanyarray(observed)
        if cells.dtype.kind in "US" or (cells.dtype.kind == "O" and any(isinstance(x, str) for x in cells.flat)):
            raise TypeError(f"{argument} must hold numbers, levels that the circuit does not know as codes; got text")
        values = array_values(cells if cells.ndim else observed, argument)
        if values.ndim != 2 or values.shape[1] != len(columns):
            raise ValueError(f"{argument} must have shape (rows, {len(columns)}), got {values.shape}")
        index = range(len(values))
    if len(values) == 0:
        raise ValueError(f"{argument} must have at least one row; it has none")
    return np.ascontiguousarray(values, dtype=np.float64), index


def frame_of_table(columns: Sequence[Any], table: Table) -> pd.DataFrame:
    """Its rows, with levels where a circuit's column knows these; columns that are names only hold codes."""
    frame, decoded = pd.DataFrame(table.values, table.index, table.names), table.to_frame()
    for column in columns:
        if isinstance(column, Column) and column.name in table.names:
            frame[column.name] = decoded[column.name]
    return frame
