"""Numbering of every sum node and edge of a finite network, for the kernels that visit all of them."""

from typing import NamedTuple

import numpy as np


class ExplicitLayout(NamedTuple):
    """All S sum nodes and E edges, region by region, the univariate regions first and in column order.

    Edge ``c`` of node ``k`` of region ``r`` is ``edge_begin[r] + k width[r] + c``, and its child in a part of
    ``r`` is node ``k width[r] + c`` there: a node's number within its region is the mixed radix of its
    ancestors' digits. The first L edges lead to leaves, so an edge of a univariate region is also the number
    of its leaf.
    """

    parent: np.ndarray  # (R,) parent region, -1 at the root
    part_ptr: np.ndarray  # (R+1,)
    parts: np.ndarray  # child regions of region r: parts[part_ptr[r]:part_ptr[r+1]]
    column: np.ndarray  # (R,) column of a univariate region, else -1
    leaf_region: np.ndarray  # (D,)
    width: np.ndarray  # (R,) children of a sum node
    n_nodes: np.ndarray  # (R,) sum nodes of the region
    node_begin: np.ndarray  # (R,)
    edge_begin: np.ndarray  # (R,)
    missing: np.ndarray  # (N, R) whether a row has no observed cell in the region


def explicit_layout(structure, palette, coded, kernel):
    """Layout of a region tree.

    Parameters
    ----------
    structure : RegionTree
    palette : CompiledPalette
    coded : (N, D) float64
    kernel : str
        Name of the kernel, for the message.

    Raises
    ------
    ValueError
        If some sum nodes have infinitely many children.
    """
    if np.any(structure.n_children == 0):
        r = int(np.argmax(structure.n_children == 0))
        raise ValueError(
            f"kernel {kernel!r} visits every sum node and needs finite n_children; region {r} "
            f"({', '.join(structure.scope(r))}) has infinitely many children"
        )
    sizes = dict(zip(structure.names, np.diff(palette.entry_ptr).tolist(), strict=True))
    width = structure.width(sizes)
    n_nodes = structure.copies(width)
    if sum(n * c for n, c in zip(n_nodes, width, strict=True)) > np.iinfo(np.int32).max:
        raise ValueError(
            f"kernel {kernel!r} visits every sum node, and the full tree has {sum(n_nodes):,} of them: "
            "n_children is too large for so many columns"
        )
    column = np.full(structure.n_regions, -1, np.int64)
    column[structure.leaf_region] = np.arange(len(structure.columns))
    order = np.concatenate([structure.leaf_region, np.flatnonzero(column < 0)])
    nodes = np.array(n_nodes, np.int64)
    edges = nodes * np.array(width, np.int64)
    missing = np.empty((len(coded), structure.n_regions), np.bool_)
    for r in range(structure.n_regions):
        held = structure.order[structure.begin[r] : structure.end[r]]
        missing[:, r] = np.isnan(coded[:, held]).all(axis=1)
    return ExplicitLayout(
        parent=structure.parent,
        part_ptr=structure.part_ptr,
        parts=structure.parts,
        column=column,
        leaf_region=structure.leaf_region,
        width=np.array(width, np.int64),
        n_nodes=nodes,
        node_begin=_starts(nodes, order),
        edge_begin=_starts(edges, order),
        missing=missing,
    )


def child_shares(layout, palette, concentration):
    """Mass of every child of one sum node of each region, as a list of (width,) arrays.

    A palette entry has the same mass whatever the width, and its copies share it equally.
    """
    shares = []
    for d, width in zip(layout.column, layout.width, strict=True):
        n_entries = palette.entry_ptr[d + 1] - palette.entry_ptr[d] if d >= 0 else width
        entry = np.arange(width) % n_entries
        copies = np.bincount(entry)[entry]
        shares.append(concentration[int(d >= 0)] / n_entries / copies)
    return shares


def _starts(sizes, order):
    starts = np.empty(sizes.size, np.int64)
    starts[order] = np.cumsum(sizes[order]) - sizes[order]
    return starts
