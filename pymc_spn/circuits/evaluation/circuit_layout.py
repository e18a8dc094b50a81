"""A circuit as the passes read it: flat, read-only arrays; children stand behind their parents."""

from typing import NamedTuple

import numpy as np

from pymc_spn.circuits.evaluation.leaf_forms import FORM, READING
from pymc_spn.leaves.explicit_leaves import LEAF_FAMILIES
from pymc_spn.leaves.family_codes import TABULATED
from pymc_spn.numerics.read_only_views import read_only_view

SUM, PRODUCT, LEAF = 0, 1, 2


class Layout(NamedTuple):
    """Arrays of a circuit; leaves are numbered in node order."""

    kind: np.ndarray  # (V,)
    child_ptr: np.ndarray  # (V+1,)
    children: np.ndarray  # (E,)
    edge_weight: np.ndarray  # (E,) index into log_weights, one after the other; -1 below a product
    leaf_of_node: np.ndarray  # (V,) leaf number or -1
    node_of_leaf: np.ndarray  # (L,)
    leaf_column: np.ndarray  # (L,)
    leaf_family: np.ndarray  # (L,) position in `families` of the circuit
    leaf_row: np.ndarray  # (L,) row in the family's parameters
    leaf_code: np.ndarray  # (L,) number of its family
    leaf_form: np.ndarray  # (L,)
    leaf_input: np.ndarray  # (L,)
    input_column: np.ndarray  # (I,) of the table; behind its columns those of logs that NumPy works out
    input_reading: np.ndarray  # (I,)
    by_column: np.ndarray  # (L,) leaves, those of column d are by_column[column_ptr[d]:column_ptr[d + 1]]
    column_ptr: np.ndarray


def make_layout(
    kind: np.ndarray,
    child_ptr: np.ndarray,
    children: np.ndarray,
    leaf_column: np.ndarray,
    leaf_family: np.ndarray,
    families: tuple[str, ...],
    part_of: np.ndarray,
) -> Layout:
    """Layout of a checked circuit; leaf arrays have one entry per node, as in `Circuit`.

    The last leaves are parts of leaves over several columns, by ``part_of`` (K,).
    """
    kind = np.asarray(kind, np.int64)
    n_nodes = kind.size
    owner = np.repeat(np.arange(n_nodes), np.diff(child_ptr))
    weighted = kind[owner] == SUM
    edge_weight = np.where(weighted, np.cumsum(weighted) - 1, -1)
    leaves = np.flatnonzero(kind == LEAF)
    leaf_of_node = np.full(n_nodes, -1)
    leaf_of_node[leaves] = np.arange(leaves.size)
    family = leaf_family[leaves]
    row = np.zeros(leaves.size, np.int64)
    for f in range(len(families)):
        row[family == f] = np.arange(np.count_nonzero(family == f))
    code = np.array([LEAF_FAMILIES[name].code for name in families], np.int64)[family]
    reading = READING[code]
    tabulated = np.flatnonzero(code == TABULATED)
    column = leaf_column[leaves].astype(np.int64)
    n_alone = tabulated.size - part_of.size  # each reads logs in a column of its own, parts of a leaf read the same
    column[tabulated] = column.max() + 1 + np.concatenate([np.arange(n_alone), n_alone + part_of])
    pair = column * len(READING) + reading
    inputs, leaf_input = np.unique(pair, return_inverse=True)
    layout = Layout(
        kind=kind,
        child_ptr=np.asarray(child_ptr, np.int64),
        children=np.asarray(children, np.int64),
        edge_weight=edge_weight,
        leaf_of_node=leaf_of_node,
        node_of_leaf=leaves,
        leaf_column=leaf_column[leaves].astype(np.int64),
        leaf_family=family.astype(np.int64),
        leaf_row=row,
        leaf_code=code,
        leaf_form=FORM[code].astype(np.int64),
        leaf_input=leaf_input.astype(np.int64),
        input_column=inputs // len(READING),
        input_reading=inputs % len(READING),
        by_column=np.argsort(leaf_column[leaves], kind="stable"),
        column_ptr=np.searchsorted(np.sort(leaf_column[leaves]), np.arange(leaf_column.max() + 2)),
    )
    return Layout(*map(read_only_view, layout))
