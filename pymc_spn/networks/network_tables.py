"""The table that a network learns from, in the order of its structure."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.circuits.structures.region_trees import complete_tree
from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.circuits.structures.tree_circuits import tree_and_leaves
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Column, Table, read_table


def network_inputs(
    structure: RegionTree | Circuit | None,
    data: Any,
    leaves: Mapping[str, Any] | None,
    kinds: Mapping[str, str] | None,
    name: str,
) -> tuple[RegionTree, dict[str, Any] | None, Table]:
    """Structure, palettes and table of a network; without a structure the `complete_tree` over the table's columns."""
    if leaves is not None and not isinstance(leaves, Mapping):
        raise TypeError(f"leaves must be a dict from column names to palette entries; got {quoted(leaves)}")
    if structure is None:
        data, kinds = read_table(data, kinds, name), None
        structure = complete_tree(data.columns)
    tree, palettes = tree_and_leaves(structure, leaves)
    return tree, palettes, table_of_network(tree, data, kinds, name)


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
