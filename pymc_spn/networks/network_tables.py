"""The table that a network learns from, in the order of its structure."""

from typing import Any

import numpy as np

from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.tables import Column, Table, read_table


def table_of_network(structure: RegionTree, observed: Any, kinds: Any, name: str) -> Table:
    """The data in the order of the structure's columns, coded by the kinds that the structure carries."""
    if all(isinstance(c, Column) for c in structure.columns):
        if kinds is not None:
            raise ValueError("kinds: the columns of the structure have their kinds; give kinds where it is made")
        if isinstance(observed, Table):
            observed = observed.to_frame()
        table = Table.from_frame(observed, schema=structure.columns)
        _refuse_unusable(table)
        return table
    table = read_table(observed, kinds, name)
    if set(table.names) != set(structure.names):
        missing = [c for c in structure.names if c not in table.names]
        extra = [c for c in table.names if c not in structure.names]
        raise ValueError(
            f"observed must have the structure's columns {list(structure.names)}; missing {missing}, unknown {extra}"
        )
    order = [table.names.index(c) for c in structure.names]
    return Table(tuple(table.columns[d] for d in order), np.ascontiguousarray(table.values[:, order]), table.index)


def _refuse_unusable(table: Table) -> None:
    """A schema lets pass at prediction what cannot be learned from."""
    if len(table.values) == 0:
        raise ValueError("observed must have at least one row; it has none")
    for d, column in enumerate(table.names):
        if np.isnan(table.values[:, d]).all():
            raise ValueError(f"observed: column {column!r} has no observed value; leave it out of the structure")
