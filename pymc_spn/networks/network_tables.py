"""The table that a network learns from, in the order of its structure."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.circuits.structures.learned_tree import learn_tree
from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.circuits.structures.tree_circuits import tree_and_leaves
from pymc_spn.gibbs.palette import (
    choose_coding,
    complete_palette,
    joint_columns,
    leaves_near_zero,
    smooth_columns,
)
from pymc_spn.gibbs.recorded_cells import cells_in_words, recorded_cells
from pymc_spn.leaves.families import CONJUGATES
from pymc_spn.leaves.kernel_forms import LOGARITHM, NOT_NEGATIVE
from pymc_spn.leaves.multivariate_gaussian_prior import MultivariateGaussian
from pymc_spn.networks.schema import NetworkSchema
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Column, Table, read_table
from pymc_spn.tables.frame_kinds import frame_kind
from pymc_spn.tables.table import kind_of_columns, mark_gaps, names_of_marked, of_kind, refuse_other_columns

type JointLeaves = MultivariateGaussian | Literal["auto"]
"""Multivariate leaves as `SPN` takes them, or None."""

_log = logging.getLogger("pymc")  # shown and silenced as what pm.sample reports


def network_inputs(
    structure: RegionTree | Circuit | None,
    data: Any,
    leaves: Mapping[str, Any] | None,
    kinds: Mapping[str, str] | None,
    name: str,
    marked: Sequence[str] | None = None,
    joint_leaves: JointLeaves | None = None,
) -> tuple[RegionTree, dict[str, Any] | None, Table, bool]:
    """Structure, palettes and table of a network, and whether its splits were learned from the table.

    Behind the columns of the table stand those that mark the gaps of the ``marked`` ones (`mark_gaps`); a structure
    that is given must have them, too.

    Without a structure they are those of `learn_tree`. The seed is fixed: chains, and models built again to continue
    them, must agree about the structure. Up to two columns there is one tree only.
    """
    if leaves is not None and not isinstance(leaves, Mapping):
        raise TypeError(f"leaves must be a dict from column names to leaf families; got {quoted(leaves)}")
    is_learned = False
    if marked is not None:
        known = [c for c in getattr(structure, "columns", ()) if isinstance(c, Column)]
        if known and {c.indicates for c in known} - {None} != set(names_of_marked(marked)):
            raise ValueError(
                "missing_not_at_random: the columns of the structure have their kinds, and none may be added: leave "
                "structure out, or make it over names, [*df, 'name_is_missing']"
            )
        if not known:
            data, kinds = mark_gaps(read_table(data, kinds, name), marked), None
    if structure is None:
        data, kinds = read_table(data, kinds, name), None
        structure = learn_tree(data, random_seed=0, apart=_apart(data, joint_leaves))
        is_learned = len(data.columns) > 2
    tree, palettes = tree_and_leaves(structure, leaves)
    return tree, palettes, table_of_network(tree, data, kinds, name), is_learned


def _apart(table: Table, leaves: JointLeaves | None) -> list[str] | None:
    """Columns for leaves over several columns, if there are to be such leaves."""
    if leaves is None or (not isinstance(leaves, MultivariateGaussian) and leaves != "auto"):
        return None  # what is neither is refused with the palette
    if isinstance(leaves, str) or leaves.columns is None:
        return smooth_columns(table.columns, table.values)
    return [name for name in leaves.columns if name in table.names]


def draft_of(
    name: str,
    structure: RegionTree,
    table: Table,
    leaves: Mapping[str, Any] | None,
    resolution: Any,
    rounded: Any,
    joint_leaves: JointLeaves | None,
    *,
    only_gaussian: bool = False,
    drawn: bool = False,
    **more: Any,
) -> NetworkSchema:
    """Schema of a network without its hyperparameters: palettes, recording grids and units as the table has them.

    Parameters
    ----------
    name, structure, table, leaves
        From `network_inputs`.
    resolution, rounded, joint_leaves
        As in `SPN`.
    only_gaussian, drawn : bool
        As in `recorded_cells`.
    **more
        Other fields.

    Raises
    ------
    ValueError, TypeError
        If the table has values that the leaves of their column exclude, or the arguments do not suit it.
    """
    columns, values = table.columns, table.values
    leaves, nonnegative = leaves_near_zero(columns, values, leaves)
    cells = recorded_cells(columns, values, leaves, resolution, rounded, only_gaussian, drawn)
    palette, grids = complete_palette(columns, values, leaves, cells.resolution, cells.names)
    centre, scale = choose_coding(palette, values, columns)
    draft = NetworkSchema(
        name=name,
        structure=structure,
        columns=tuple(columns),
        palette=tuple(map(tuple, palette)),
        resolution=tuple(grids.tolist()),
        centre=tuple(centre.tolist()),
        scale=tuple(scale.tolist()),
        hyperparameters={},
        rounded=cells.names,
        grid_points=cells.grid_points,
        nonnegative=nonnegative,
        joint=joint_columns(columns, values, palette, joint_leaves),
        **more,
    ).with_joint_leaves(joint_leaves)
    check_supports(draft, table)
    return draft


def check_supports(schema: NetworkSchema, table: Table) -> None:
    """Refuse values that the leaves of their column exclude."""
    for column, entries, x in zip(table.columns, schema.palette, table.values.T, strict=True):
        rules = {NOT_NEGATIVE: ("of at least 0", x < 0), LOGARITHM: ("above 0", x <= 0)}
        for entry in entries:
            rule, bad = rules.get(CONJUGATES[entry.code].reading, ("", np.zeros(0)))
            wrong = np.flatnonzero(bad)
            if wrong.size:
                raise ValueError(
                    f"leaves[{column.name!r}]: {type(entry).__name__} leaves need values {rule}; "
                    f"row {table.index[wrong[0]]!r} is {x[wrong[0]]}"
                )


def learned_in_words(schema: NetworkSchema) -> tuple[str, str, str]:
    """What the table decided before its posterior: splits, columns in multivariate leaves, rounded columns."""
    splits = f"splits learned from the table ({schema.structure.n_regions} regions)" if schema.learned else ""
    joint = f"multivariate leaves over {schema.joint_columns.size} columns" if schema.joint_columns.size else ""
    return splits, joint, cells_in_words(schema.rounded, schema.columns, schema.resolution)


def report_choices(schema: NetworkSchema, structure: Any, rounded: Any, joint_leaves: JointLeaves | None) -> None:
    """Log, in one line, what the table has decided where the arguments left it open."""
    splits, joint, cells = learned_in_words(schema)
    what = {
        "structure=": splits if structure is None else "",
        "joint_leaves=": joint if isinstance(joint_leaves, str) else "",
        "rounded=": cells if isinstance(rounded, str) else "",
    }
    said = ", ".join(words for words in what.values() if words)
    if said:
        about = "Structure" if what["structure="] else "Values" if not what["joint_leaves="] else "Leaves"
        arguments = " or ".join(argument for argument, words in what.items() if words)
        _log.info(f"{about} of {schema.name!r}: {said}. Change with {arguments}")


def table_of_network(structure: RegionTree, observed: Any, kinds: Any, name: str) -> Table:
    """The data in the order of the structure's columns, coded by the kinds that the structure carries."""
    if all(isinstance(c, Column) for c in structure.columns):
        if kinds is not None:
            raise ValueError("kinds: the columns of the structure have their kinds; give kinds where it is made")
        if isinstance(observed, Table):
            kind, observed = kind_of_columns(observed.columns), observed.to_pandas()
        else:
            kind = frame_kind(observed)
        refuse_other_columns(observed, structure.columns)
        table = Table.from_frame(observed, schema=of_kind(structure.columns, kind))
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
