"""Data frames, tables and arrays as the coded rows of a circuit."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pymc_spn.circuits.evaluation.parameters import array_values, frame_values
from pymc_spn.tables import Column, Table
from pymc_spn.tables.frame_kinds import column_array, pandas_frame, shared_columns, single_row
from pymc_spn.tables.table import refuse_other_columns


def coded_rows(circuit: Any, observed: Any) -> tuple[np.ndarray, Any]:
    """Rows (N, D) of the circuit's columns with levels as codes, and their labels.

    Where all columns of the circuit have a schema, an array holds what a DataFrame would; beside columns that are names
    only it holds codes.

    Raises
    ------
    TypeError
        If there is text where the circuit knows no levels.
    ValueError
        If columns differ from the circuit's, or there is no row; and as `Table.from_frame`.
    """
    if all(isinstance(c, Column) for c in circuit.columns):
        refuse_other_columns(observed, circuit.columns)
        table = Table.from_frame(observed, schema=circuit.columns)
        values, index = table.values, table.index
    else:
        values, index = codes_of_rows(circuit.columns, observed, "observed")
    if len(values) == 0:
        raise ValueError("observed must have at least one row; it has none")
    return np.ascontiguousarray(values, dtype=np.float64), index


def codes_of_rows(columns: Sequence[Any], rows: Any, argument: str) -> tuple[np.ndarray, Any]:
    """Rows (N, D) of columns, some of which are names only, and their labels: an array holds codes.

    Raises
    ------
    TypeError
        If there is text where a column knows no levels.
    ValueError
        If columns differ.
    """
    rows = single_row(pandas_frame(rows, argument)) if argument == "df" else pandas_frame(rows, argument)
    if isinstance(rows, Mapping):
        rows = pd.DataFrame({label: column_array(cells) for label, cells in rows.items()})
    if isinstance(rows, Table) or hasattr(rows, "columns"):
        frame = frame_of_table(columns, rows) if isinstance(rows, Table) else rows
        if argument == "df" and frame.columns.is_unique:  # of a question
            names = [c.name if isinstance(c, Column) else c for c in columns]
            frame = frame.set_axis([str(label) for label in frame.columns], axis=1)
            frame = frame[shared_columns(list(frame.columns), names, argument)].reindex(columns=names)
        return frame_values(columns, frame, argument), frame.index
    cells = np.asanyarray(rows)
    if cells.dtype.kind in "US" or (cells.dtype.kind == "O" and any(isinstance(x, str) for x in cells.flat)):
        raise TypeError(f"{argument} must hold numbers, levels that the circuit does not know as codes; got text")
    values = array_values(cells if cells.ndim else rows, argument)
    if values.ndim != 2 or values.shape[1] != len(columns):
        raise ValueError(f"{argument} must have shape (rows, {len(columns)}), got {values.shape}")
    return values, range(len(values))


def frame_of_table(columns: Sequence[Any], table: Table) -> pd.DataFrame:
    """Its rows, with levels where a circuit's column knows these; columns that are names only hold codes."""
    frame, decoded = pd.DataFrame(table.values, table.index, table.names), table.to_pandas()
    for column in columns:
        if isinstance(column, Column) and column.name in table.names:
            frame[column.name] = decoded[column.name]
    return frame
