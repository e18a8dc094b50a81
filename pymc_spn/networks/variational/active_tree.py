"""The children that a variational fit may use, in flat arrays, and the statistics of soft assignments to them.

Every region of the region tree keeps its *edges* (children of its sum nodes), sorted by sum node. As in `network`,
the sum node of region ``r`` below edge ``e`` of the parent region is unique, so nodes are numbered like the edges
above them. All other children keep their prior; there may be infinitely many. The variational distribution of
a row's induced tree puts no mass on them. It still bounds the log evidence from below.
"""

from typing import NamedTuple

import numpy as np

from pymc_spn.gibbs.joint_leaves import joint_regions, n_kinds
from pymc_spn.gibbs.network import spread
from pymc_spn.leaves.family_codes import CATEGORICAL
from pymc_spn.numerics.array_groups import array_group


@array_group
class ActiveTree(NamedTuple):
    """Edges, sum nodes and leaves of an active tree.

    R regions, P places of columns (`network`), E edges, V sum nodes, L leaves: the edges of univariate regions, in the
    order of the edges. J leaves over several columns: the edges with the number behind those of the splits.
    """

    parent: np.ndarray  # (R,)
    part_ptr: np.ndarray  # (R+1,)
    parts: np.ndarray  # child regions of region r: parts[part_ptr[r]:part_ptr[r+1]]
    split: np.ndarray  # (R,) split of the parent region to which the region belongs
    n_options: np.ndarray  # (R,) kinds of children (`n_kinds`), palette entries of a univariate region
    width: np.ndarray  # (R,) children of a sum node, 0 for infinitely many
    place: np.ndarray  # (R,) place of a univariate region, else -1
    column_of_place: np.ndarray  # (P,)
    offset: np.ndarray  # (P,) coded value + offset = what all but Gaussian leaves see
    cell_variance: np.ndarray  # (P,) as in `network`
    edge_begin: np.ndarray  # (R+1,) edges of region r
    node_begin: np.ndarray  # (R+1,) sum nodes of region r
    node_ptr: np.ndarray  # (V+1,) edges of node k: node_ptr[k]:node_ptr[k+1]
    node_of_edge: np.ndarray  # (E,) int32
    region_of_edge: np.ndarray  # (E,) int32
    option: np.ndarray  # (E,) split of a product or what stands behind them, palette entry of a leaf within its place
    leaf: np.ndarray  # (E,) leaf of an edge, -1 for a product
    leaf_place: np.ndarray  # (L,)
    leaf_entry: np.ndarray  # (L,) palette entry of the columns
    leaf_family: np.ndarray  # (L,) family code
    level_ptr: np.ndarray  # (L+1,) cells of a leaf's levels
    column_ptr: np.ndarray  # (R+1,) columns of region r, if it may have leaves over all: of columns
    columns: np.ndarray  # ascending in each region
    joint: np.ndarray  # (E,) leaf over several columns of an edge, else -1
    sums_ptr: np.ndarray  # (J+1,)
    products_ptr: np.ndarray  # (J+1,)


class Statistics(NamedTuple):
    """Expected sufficient statistics of soft assignments.

    ``edge_count`` (E,) rows on each edge; ``s1``, ``s2`` (L,) sums of the values and of their squares as in `network`;
    ``levels`` (level_ptr[-1],) rows on each level. ``sums`` (sums_ptr[-1],), ``products`` (products_ptr[-1],) of
    leaves over several columns, as in `normal_inverse_wishart`, with what is expected of missing cells.
    """

    edge_count: np.ndarray
    s1: np.ndarray
    s2: np.ndarray
    levels: np.ndarray
    sums: np.ndarray
    products: np.ndarray


def active_tree(structure, palette, edges):
    """Active tree from the edges of each region.

    Parameters
    ----------
    structure : RegionTree
    palette : CompiledPalette
        Of the D columns.
    edges : list of (node, option)
        For each region two integer arrays: sum node (number of the edge above, ascending; 0 at the root) and option.
    """
    wide, source = spread(palette, structure.leaf_column)
    n_regions = structure.n_regions
    place = np.full(n_regions, -1, np.int64)
    place[structure.leaf_region] = np.arange(structure.leaf_region.size)
    n_options = n_kinds(structure, palette)
    width = structure.n_children.copy()
    finite_leaf = (place >= 0) & (width > 0)
    width[finite_leaf] = np.maximum(width[finite_leaf], n_options[finite_leaf])
    n_edges = np.array([node.size for node, _ in edges])
    n_nodes = np.array([1, *n_edges[structure.parent[1:]]], np.int64)
    sizes = [np.bincount(node, minlength=n) for (node, _), n in zip(edges, n_nodes, strict=True)]
    region = np.repeat(np.arange(n_regions), n_edges)
    option = np.concatenate([option for _, option in edges]).astype(np.int64)
    is_leaf = place[region] >= 0
    leaf_place = place[region[is_leaf]]
    entry = wide.entry_ptr[leaf_place] + option[is_leaf]
    levels = np.where(wide.family[entry] == CATEGORICAL, wide.n_levels[leaf_place], 0)
    has_joints = joint_regions(structure, palette.is_joint)
    columns = [
        np.sort(structure.order[a:b]) if has else np.zeros(0, np.int64)
        for a, b, has in zip(structure.begin, structure.end, has_joints, strict=True)
    ]
    is_joint = has_joints[region] & (option == structure.n_splits[region])
    size = structure.size[region[is_joint]]
    return ActiveTree(
        parent=structure.parent,
        part_ptr=structure.part_ptr,
        parts=structure.parts,
        split=structure.split,
        n_options=n_options,
        width=width,
        place=place,
        column_of_place=structure.leaf_column,
        offset=wide.offset,
        cell_variance=wide.cell_variance,
        edge_begin=_pointer(n_edges),
        node_begin=_pointer(n_nodes),
        node_ptr=_pointer(np.concatenate(sizes)),
        node_of_edge=np.repeat(np.arange(n_nodes.sum(), dtype=np.int32), np.concatenate(sizes)),
        region_of_edge=region.astype(np.int32),
        option=option,
        leaf=np.where(is_leaf, np.cumsum(is_leaf) - 1, -1),
        leaf_place=leaf_place,
        leaf_entry=source[entry],
        leaf_family=wide.family[entry],
        level_ptr=_pointer(levels),
        column_ptr=_pointer(np.array([c.size for c in columns])),
        columns=np.concatenate(columns).astype(np.int64),
        joint=np.where(is_joint, np.cumsum(is_joint) - 1, -1),
        sums_ptr=_pointer(size),
        products_ptr=_pointer(size * (size + 1) // 2),
    )


def no_statistics(tree):
    """Statistics of no rows."""
    n_leaves = tree.leaf_family.size
    sizes = tree.option.size, n_leaves, n_leaves, tree.level_ptr[-1], tree.sums_ptr[-1], tree.products_ptr[-1]
    return Statistics(*map(np.zeros, sizes))


def edges_of(tree):
    """(node, option) of each region, as `active_tree` takes them."""
    found = []
    for r in range(tree.parent.size):
        nodes = slice(tree.node_begin[r], tree.node_begin[r + 1])
        sizes = tree.node_ptr[tree.node_begin[r] + 1 : tree.node_begin[r + 1] + 1] - tree.node_ptr[nodes]
        edges = slice(tree.edge_begin[r], tree.edge_begin[r + 1])
        found.append((np.repeat(np.arange(sizes.size), sizes), tree.option[edges]))
    return found


def tree_of_digits(structure, palette, digits):
    """Active tree whose edges are those that digits (N, R) occupy, and each row's edges (N, R), -1 where it has none.

    A sum node that is reached but whose rows all lack its columns gets one child, so that other rows may come to it.
    """
    n_options = n_kinds(structure, palette)
    edges, paths, begin = [], np.full(digits.shape, -1, np.int32), np.zeros(structure.n_regions + 1, np.int64)
    for r in range(structure.n_regions):
        label = digits[:, r].astype(np.int64)
        rows = np.flatnonzero(label >= 0)
        above = np.zeros(rows.size, np.int64)
        reached = np.zeros(1, np.int64)
        if r > 0:
            parent = structure.parent[r]
            above = paths[rows, parent] - begin[parent]
            reached = np.flatnonzero(edges[parent][1] == structure.split[r])
        width = int(label.max(initial=0)) + 1
        key, number = np.unique(above * width + label[rows], return_inverse=True)
        paths[rows, r] = begin[r] + number
        node, option = key // width, key % width % n_options[r]
        bare = np.setdiff1d(reached, node)
        if bare.size:
            node, option = np.concatenate([node, bare]), np.concatenate([option, np.zeros(bare.size, np.int64)])
            order = np.argsort(node, kind="stable")
            position = np.argsort(order)
            paths[rows, r] = begin[r] + position[number]
            node, option = node[order], option[order]
        edges.append((node, option))
        begin[r + 1] = begin[r] + node.size
    return active_tree(structure, palette, edges), paths


def pruned(tree, structure, palette, keep):
    """The tree without some edges and all that is below them; the new number (E,) of each edge, -1 of dropped ones.

    Parameters
    ----------
    keep : (E,) bool
        Edges to keep; each reached sum node keeps at least one (the caller sees to it).
    """
    edges, kept = [], []
    number = []
    for r, (node, option) in enumerate(edges_of(tree)):
        own = keep[tree.edge_begin[r] : tree.edge_begin[r + 1]].copy()
        if r > 0:
            above = number[tree.parent[r]]
            own &= above[node] >= 0
            node = above[node]
        edges.append((node[own], option[own]))
        kept.append(own)
        number.append(np.where(own, np.cumsum(own) - 1, -1))
    edge = np.concatenate(kept)
    return active_tree(structure, palette, edges), np.where(edge, np.cumsum(edge) - 1, -1).astype(np.int32)


def statistics_of_kept(tree, statistics, number):
    """The statistics of the edges that have a new number."""
    edge = number >= 0
    leaf = edge[tree.leaf >= 0]
    joint = edge[tree.joint >= 0]
    return Statistics(
        statistics.edge_count[edge],
        statistics.s1[leaf],
        statistics.s2[leaf],
        statistics.levels[np.repeat(leaf, np.diff(tree.level_ptr))],
        statistics.sums[np.repeat(joint, np.diff(tree.sums_ptr))],
        statistics.products[np.repeat(joint, np.diff(tree.products_ptr))],
    )


def _pointer(sizes):
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
