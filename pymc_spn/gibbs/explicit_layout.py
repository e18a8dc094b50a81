"""Numbering of every sum node and edge of a finite network, for the kernels that visit all of them."""

from typing import NamedTuple

import numpy as np

from pymc_spn.gibbs.network import spread
from pymc_spn.numerics.array_groups import array_group
from pymc_spn.numerics.kernel_options import bare_called_kernel


@array_group
class ExplicitLayout(NamedTuple):
    """All S sum nodes and E edges, region by region, the univariate regions first and in column order.

    Edge ``c`` of node ``k`` of region ``r`` is ``edge_begin[r] + k width[r] + c``, and its child in a part of
    ``r`` is node ``k width[r] + c`` there. A node's number within its region is the mixed radix of its ancestors'
    digits. Among several splits only every A-th edge leads to a part (`follow`). The first L edges lead to leaves,
    so an edge of a univariate region is also the number of its leaf. Places as in `network`.
    """

    parent: np.ndarray  # (R,) parent region, -1 at the root
    part_ptr: np.ndarray  # (R+1,)
    parts: np.ndarray  # child regions of region r: parts[part_ptr[r]:part_ptr[r+1]]
    split: np.ndarray  # (R,) split of the parent region to which the region belongs
    n_splits: np.ndarray  # (R,)
    uses: np.ndarray  # (R,) edges of a node of the parent region that lead to the region
    column: np.ndarray  # (R,) place of a univariate region, else -1
    leaf_region: np.ndarray  # (P,)
    source: np.ndarray  # (P,) column at the place
    place_ptr: np.ndarray  # (D+1,)
    width: np.ndarray  # (R,) children of a sum node
    n_nodes: np.ndarray  # (R,) sum nodes of the region
    node_begin: np.ndarray  # (R,)
    edge_begin: np.ndarray  # (R,)
    missing: np.ndarray  # (N, R) whether a row has no observed cell in the region


def explicit_layout(structure, palette, coded, name):
    """Layout of a region tree.

    Parameters
    ----------
    structure : RegionTree
    palette : CompiledPalette
    coded : (N, D) float64
    name : str
        Name of the kernel, for the message.

    Raises
    ------
    ValueError
        If some sum nodes have infinitely many children.
    """
    if np.any(structure.n_children == 0):
        r = int(np.argmax(structure.n_children == 0))
        raise ValueError(
            f"kernel {name!r} visits every sum node and needs finite n_children; region {r} "
            f"({', '.join(structure.scope(r))}) has infinitely many children"
        )
    sizes = dict(zip(structure.names, np.diff(palette.entry_ptr).tolist(), strict=True))
    width = structure.width(sizes)
    n_nodes = structure.copies(width)
    if sum(n * c for n, c in zip(n_nodes, width, strict=True)) > np.iinfo(np.int32).max:
        raise ValueError(
            f"kernel {name!r} visits every sum node, and the full tree has {sum(n_nodes):,} of them: "
            "n_children is too large for so many columns"
        )
    column = np.full(structure.n_regions, -1, np.int64)
    column[structure.leaf_region] = np.arange(structure.leaf_region.size)
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
        split=structure.split,
        n_splits=structure.n_splits,
        uses=np.array([1, *(structure.edges_to(r, width) for r in range(1, structure.n_regions))]),
        column=column,
        leaf_region=structure.leaf_region,
        source=structure.leaf_column,
        place_ptr=np.searchsorted(structure.leaf_column, np.arange(len(structure.columns) + 1)),
        width=np.array(width, np.int64),
        n_nodes=nodes,
        node_begin=_starts(nodes, order),
        edge_begin=_starts(edges, order),
        missing=missing,
    )


@bare_called_kernel
def follow(layout, r, child):
    """Sum node of region ``r`` below the edge that ``child`` (R,) holds for its parent; -1 off the tree.

    Both are numbered within their regions.
    """
    if r == 0:
        return 0
    above = layout.parent[r]
    edge = child[above]
    if edge < 0 or layout.n_splits[above] == 1:
        return edge
    width = layout.width[above]
    c = edge % width
    if c % layout.n_splits[above] != layout.split[r]:
        return -1
    return edge // width * layout.uses[r] + c // layout.n_splits[above]


def nodes_below(layout, r, edge):
    """Sum nodes of region ``r`` below edges of its parent region, as `follow` finds them; -1 stays -1."""
    above = layout.parent[r]
    n_splits, width = layout.n_splits[above], layout.width[above]
    c = edge % width
    return np.where((edge >= 0) & (c % n_splits == layout.split[r]), edge // width * layout.uses[r] + c // n_splits, -1)


def edges_of_digits(layout, digits):
    """Edge (R, N) that each row takes in each region, numbered within the region, -1 off the tree."""
    edge = np.full(digits.T.shape, -1, np.int64)
    for r, digit in enumerate(digits.T):
        node = nodes_below(layout, r, edge[layout.parent[r]]) if r > 0 else 0
        edge[r] = np.where(digit >= 0, node * layout.width[r] + digit, -1)
    return edge


def reached_digits(layout, digits):
    """Digits (N, R) with -1 wherever a region is wholly missing or not on the row's tree."""
    out = np.where(layout.missing, -1, digits)
    for r in range(1, layout.parent.size):
        above = layout.parent[r]
        off = (out[:, above] < 0) | (out[:, above] % layout.n_splits[above] != layout.split[r])
        out[off, r] = -1
    return out


def child_shares(layout, palette, concentration):
    """Mass of every child of one sum node of each region, as a list of (width,) arrays.

    A palette entry has the same mass whatever the width, and its copies share it equally. ``palette`` is that of the
    columns.
    """
    palette, _ = spread(palette, layout.source)
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
