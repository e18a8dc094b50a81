"""Leaves over several columns as the passes see them: products of one part for each column.

Kernels know leaves over one column alone. To them a leaf over several columns is a product, at the same node. Its parts
are leaves of these columns behind all other nodes. NumPy works out the log of the leaf, of which all d parts have one
d-th, also where a cell is missing. So an induced tree has one leaf in each column, and the shift of a column by which
linear space is scaled stays what it is.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.circuits.evaluation.circuit_layout import LEAF, PRODUCT, Layout, make_layout
from pymc_spn.leaves.explicit_leaves import LEAF_FAMILIES
from pymc_spn.leaves.leaf_family import LeafFamily


class WideLeaves(NamedTuple):
    """Leaves over several columns of a circuit, in node order.

    Parameters
    ----------
    nodes : (W,) int64
    columns : list of (d,) int64
        In the order of their families.
    first : (W,) int64
        Number in the layout of the first part of each; the others follow.
    number : (L,) int64
        Place in `nodes` of the leaf that a leaf of the layout is a part of, -1 of others.
    place : (L,) int64
        Place of the part's column in its leaf, 0 of others.
    """

    nodes: np.ndarray
    columns: list[np.ndarray]
    first: np.ndarray
    number: np.ndarray
    place: np.ndarray


def layout_of(circuit: Any) -> tuple[Layout, WideLeaves]:
    """The layout of a circuit, and which of its leaves are parts of leaves over several columns: the last ones.

    It is worked out once and kept with the circuit.
    """
    if "_layout" not in circuit.__dict__:
        object.__setattr__(circuit, "_layout", _layout_of(circuit))
    return circuit.__dict__["_layout"]


def _layout_of(circuit: Any) -> tuple[Layout, WideLeaves]:
    wide = np.array(list(circuit.further_columns), np.int64)
    columns = [np.array(circuit.columns_of(int(v)), np.int64) for v in wide]
    size = np.array([own.size for own in columns], np.int64)
    n, n_parts = circuit.n_nodes, int(size.sum())
    whole = np.repeat(wide, size)
    family = np.concatenate(
        [np.where(np.isin(np.arange(n), wide), -1, circuit.leaf_family), circuit.leaf_family[whole]]
    )
    column = np.concatenate([circuit.leaf_column, *columns])
    kind = np.concatenate([circuit.kind, np.full(n_parts, LEAF, circuit.kind.dtype)])
    kind[wide] = PRODUCT
    degree = np.concatenate([np.diff(circuit.child_ptr), np.zeros(n_parts, np.int64)])
    degree[wide] = size
    children = np.insert(circuit.children, np.repeat(circuit.child_ptr[wide], size), n + np.arange(n_parts))
    number = np.repeat(np.arange(wide.size), size)
    ends = np.concatenate([[0], np.cumsum(degree)])
    layout = make_layout(kind, ends, children, column, family, circuit.families, number)
    n_leaves = layout.node_of_leaf.size
    leaf, place = np.full(n_leaves, -1), np.zeros(n_leaves, np.int64)
    first = n_leaves - n_parts + np.cumsum(size) - size
    if n_parts:
        leaf[-n_parts:] = number
        place[-n_parts:] = np.arange(n_parts) - np.repeat(np.cumsum(size) - size, size)
        row = layout.leaf_row.copy()
        row[-n_parts:] = circuit.leaf_row[whole]
        row.flags.writeable = False
        layout = layout._replace(leaf_row=row)
    return layout, WideLeaves(wide, columns, first, leaf, place)


class PartMoments(NamedTuple):
    """Moments of the missing cells of leaves over several columns given their observed cells.

    Parameters
    ----------
    mean : (K, N) float64
        Of every part, the last K leaves of the layout, in each row; 0 where its cell is observed.
    pairs : (Q, 3) int64
        Node of a leaf and two of its columns, the smaller one first; each with itself, too.
    covariance : (Q, N) float64
        0 where one of the cells is observed.
    """

    mean: np.ndarray
    pairs: np.ndarray
    covariance: np.ndarray


def family_of_leaf(given: Any, node: int) -> tuple[LeafFamily, np.ndarray]:
    """Family and parameters (1, P) of a leaf of a circuit with parameters."""
    name = given.circuit.families[given.circuit.leaf_family[node]]
    row = given.circuit.leaf_row[node]
    return LEAF_FAMILIES[name], given.parameters[name][row : row + 1]


def shares_of_parts(given: Any, wide: WideLeaves, values: np.ndarray) -> list[np.ndarray]:
    """What each part of every leaf has of its log (n,)."""
    out = []
    for node, columns in zip(wide.nodes.tolist(), wide.columns, strict=True):
        family, own = family_of_leaf(given, node)
        rows = values[:, columns]
        share = family.log_density_of_rows(own, rows) / columns.size
        out.append(np.where(np.isnan(rows).all(axis=1), np.nan, share))
    return out


def chosen_leaves(given: Any, wide: WideLeaves, leaf: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Every leaf over several columns that some rows have in their trees, and these rows.

    Parameters
    ----------
    leaf : (n, D) int64
        Leaf of the layout in each column.
    """
    for w, node in enumerate(wide.nodes.tolist()):
        rows = np.flatnonzero(leaf[:, wide.columns[w][0]] == wide.first[w])
        if rows.size:
            yield node, rows


def complete_leaves(given: Any, wide: WideLeaves, leaf: np.ndarray, out: np.ndarray, rng: np.random.Generator) -> None:
    """Draw what rows (n, D) still lack of the leaves over several columns in their trees, in place."""
    for node, rows in chosen_leaves(given, wide, leaf):
        at = np.ix_(rows, given.circuit.columns_of(node))
        family, own = family_of_leaf(given, node)
        if np.isnan(out[at]).any():
            out[at] = family.draw_missing(np.broadcast_to(own, (rows.size, own.shape[1])), out[at], rng)


def moments_of_parts(given: Any, wide: WideLeaves, values: np.ndarray, covariance: bool) -> PartMoments:
    """See `PartMoments`; rows with the same gaps in a leaf share the work."""
    n = len(values)
    means, pairs, covs = [np.zeros((0, n))], [], [np.zeros((0, n))]
    for node, columns in zip(wide.nodes.tolist(), wide.columns, strict=True):
        family, own = family_of_leaf(given, node)
        rows = values[:, columns]
        mean, cov = np.zeros((columns.size, n)), np.zeros((columns.size, columns.size, n))
        for gaps in np.unique(np.isnan(rows), axis=0):
            lacking = np.flatnonzero(gaps)
            if lacking.size == 0:
                continue
            at = np.flatnonzero((np.isnan(rows) == gaps).all(axis=1))
            if covariance:
                law, of_law = family.columns_of_rows(own, rows[at], lacking.tolist())
                found = law.moments_of_rows(of_law)
                mean[np.ix_(lacking, at)] = found[0].T
                cov[np.ix_(lacking, lacking, at)] = np.moveaxis(found[1], 0, 2)
                continue
            for j in lacking.tolist():
                law, of_law = family.column_of_rows(own, rows[at], j)
                mean[j, at] = law.mean(of_law)
        means.append(mean)
        order = np.argsort(columns)
        for i, a in enumerate(order if covariance else ()):
            for b in order[i:]:
                pairs.append((node, columns[a], columns[b]))
                covs.append(cov[a, b][None])
    return PartMoments(np.concatenate(means), np.array(pairs, np.int64).reshape(-1, 3), np.concatenate(covs))
