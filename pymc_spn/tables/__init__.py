"""DataFrames to coded float arrays and back: column kinds, levels, the check of new data."""

from pymc_spn.tables.column import KINDS, Column
from pymc_spn.tables.reading import describe_columns, read_table
from pymc_spn.tables.resolution import resolution
from pymc_spn.tables.row_labels import row_labels
from pymc_spn.tables.table import Table, decode

__all__ = [
    "KINDS",
    "Column",
    "Table",
    "decode",
    "describe_columns",
    "read_table",
    "resolution",
    "row_labels",
]
