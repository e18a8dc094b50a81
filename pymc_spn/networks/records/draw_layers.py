"""Packed draws as layers of index arrays: what an array library needs to evaluate all draws of a block at once.

A layer holds the sum nodes of all regions at one depth of the tree, under all draws. Their children are products of
nodes one layer further down, leaves of one column, and leaves over several columns. Sum nodes with up to 1, 2, 4, ...
edges stand together in a matrix, so that a sum is a reduction along one axis. Layers are padded to common sizes: a
library that compiles for each shape then compiles once for all blocks of draws.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.networks.records.packed_draws import PackedDraws

PRODUCT, BY_VALUE, BY_TABLE, JOINT = range(4)  # kinds of children, in the order in which they stand
N_KINDS = 4


class DrawLayer(NamedTuple):
    """Sum nodes at one depth, without padding.

    Parameters
    ----------
    product : (P, J) int64
        Nodes of the layer below whose values are multiplied, -1 where there are fewer.
    leaves : tuple of (n,) int64
        Leaves of one column by value and those by table, as `PackedDraws` numbers them; leaves over several columns.
    node_ptr : (N + 1,) int64
        First edge of each node.
    kind, child : (E,) int64
        Kind of the child of each edge, and its number among those of its kind.
    weight : (E,) float64
        Above 0.
    """

    product: np.ndarray
    leaves: tuple[np.ndarray, np.ndarray, np.ndarray]
    node_ptr: np.ndarray
    kind: np.ndarray
    child: np.ndarray
    weight: np.ndarray

    @property
    def bits(self) -> np.ndarray:
        """Binary logarithm (N,) of the edges of each node, rounded up."""
        return np.ceil(np.log2(np.maximum(np.diff(self.node_ptr), 1))).astype(np.int64)

    @property
    def sizes(self) -> np.ndarray:
        """Numbers that say its shape: parts of products, children of each kind, nodes with up to 1, 2, 4, ... edges."""
        of_kinds = [len(self.product), *(leaves.size for leaves in self.leaves)]
        return np.array([self.product.shape[1], *of_kinds, *np.bincount(self.bits, minlength=1)])


class PaddedLayer(NamedTuple):
    """A layer padded to given sizes.

    Parameters
    ----------
    product : (P, J) int32
        Positions in the layer below, -1 where there are fewer.
    leaves : tuple of (n,) int64
        As of `DrawLayer`; padded with the first leaf, or 0.
    sums : tuple of ((n, K) int32, (n, K) float64)
        Positions of the children, and log weights, of nodes with up to K edges; ``-inf`` where there are fewer.
    """

    product: np.ndarray
    leaves: tuple[np.ndarray, np.ndarray, np.ndarray]
    sums: tuple[tuple[np.ndarray, np.ndarray], ...]


def layers_of_draws(pack: PackedDraws, is_known: np.ndarray, by_table: np.ndarray) -> list[DrawLayer]:
    """Layers of packed draws, the deepest first; the last one has the root of each draw.

    Parameters
    ----------
    pack : PackedDraws
    is_known : (D,) bool
        Columns of which something is known in some row. The others are summed out.
    by_table : (D,) bool
        Columns whose leaves go by tables of their values.
    """
    tree = pack.tree
    depth, missing = depths_of(tree), missing_regions(pack, is_known)
    n_nodes = np.where(tree.parent >= 0, pack.top[:, tree.parent], 1)
    layers = []
    below = np.zeros(pack.top.shape, np.int64)  # where the nodes of each region and draw begin
    for level in range(int(depth[~missing].max()), -1, -1):
        regions = np.flatnonzero((depth == level) & ~missing).tolist()
        sizes = np.zeros(pack.top.shape, np.int64)
        sizes[:, regions] = n_nodes[:, regions] + 1  # the last one is an unoccupied node
        first = _starts(sizes)
        builder = _LayerBuilder(pack, first, below, n_nodes, missing, by_table)
        for r in regions:
            if tree.column[r] >= 0:
                builder.add_leaves(r)
            else:
                builder.add_products(r)
        layers.append(builder.layer(int(sizes.sum())))
        below = first
    return layers


def depths_of(tree: Any) -> np.ndarray:
    """Depth (R,) of each region; that of the root is 0."""
    depth = np.zeros(tree.parent.size, np.int64)
    for r in range(tree.parent.size):  # parents come first
        if tree.parent[r] >= 0:
            depth[r] = depth[tree.parent[r]] + 1
    return depth


def missing_regions(pack: PackedDraws, is_known: np.ndarray) -> np.ndarray:
    """Regions (R,) of which nothing is known."""
    tree = pack.tree
    missing = np.ones(tree.parent.size, np.bool_)
    missing[tree.leaf_region] = ~is_known[pack.palette.source]
    for r in range(tree.parent.size - 1, 0, -1):
        missing[tree.parent[r]] &= missing[r]
    return missing


def common_sizes(each: Sequence[list[DrawLayer]]) -> list[np.ndarray]:
    """For each layer the sizes that are enough for some blocks of draws of one network."""
    out = []
    for layers in zip(*each, strict=True):
        found = [layer.sizes for layer in layers]
        width = max(sizes.size for sizes in found)
        most = np.max([np.pad(sizes, (0, width - sizes.size)) for sizes in found], axis=0)
        out.append(most)
    return out


def padded(layers: Sequence[DrawLayer], sizes: Sequence[np.ndarray], n_draws: int) -> tuple[list[PaddedLayer], Any]:
    """Layers padded to sizes, and positions (n_draws,) of the roots in the last one; those of no draw are 0."""
    out, position = [], np.zeros(0, np.int64)
    for layer, size in zip(layers, sizes, strict=True):
        n_parts, of_kinds, of_bits = int(size[0]), size[1 : 1 + N_KINDS], size[1 + N_KINDS :]
        product = np.full((of_kinds[PRODUCT], n_parts), -1, np.int32)
        is_part = layer.product >= 0
        product[: is_part.shape[0], : is_part.shape[1]][is_part] = position[layer.product[is_part]]
        leaves = tuple(np.pad(own, (0, n - own.size)) for own, n in zip(layer.leaves, of_kinds[1:], strict=True))
        child = _starts(of_kinds)[layer.kind] + layer.child
        bits, first = layer.bits, _starts(of_bits)
        position, sums = np.zeros(bits.size, np.int64), []
        n_edges = np.diff(layer.node_ptr)
        for k, n in enumerate(of_bits.tolist()):
            nodes = np.flatnonzero(bits == k)
            position[nodes] = first[k] + np.arange(nodes.size)
            edge = layer.node_ptr[nodes, None] + np.arange(2**k)
            is_edge = np.arange(2**k) < n_edges[nodes, None]
            children, logs = np.zeros((n, 2**k), np.int32), np.full((n, 2**k), -np.inf)
            children[: nodes.size][is_edge] = child[edge[is_edge]]
            logs[: nodes.size][is_edge] = np.log(layer.weight[edge[is_edge]])
            if n:
                sums.append((children, logs))
        out.append(PaddedLayer(product, leaves, tuple(sums)))  # type: ignore[arg-type]
    n_roots = (len(position)) // 2  # each root stands before an unoccupied node
    roots = np.zeros(n_draws, np.int64)
    roots[:n_roots] = position[::2]
    return out, roots


class _LayerBuilder:
    """Puts the regions of one depth together, under all draws."""

    def __init__(
        self,
        pack: PackedDraws,
        first: np.ndarray,
        below: np.ndarray,
        n_nodes: np.ndarray,
        missing: np.ndarray,
        by_table: np.ndarray,
    ) -> None:
        self._pack, self._first, self._below, self._n_nodes = pack, first, below, n_nodes
        self._missing, self._by_table = missing, by_table
        self._products: list[np.ndarray] = []
        self._leaves: tuple[list[np.ndarray], ...] = ([], [], [])
        self._count = [0] * N_KINDS
        self._edges: list[tuple[np.ndarray, ...]] = []  # node, kind, child, weight

    def add_leaves(self, r: int) -> None:
        """Sum nodes over leaves of one column."""
        pack, d = self._pack, int(self._pack.tree.column[r])
        top, n_nodes, node = pack.top[:, r], self._n_nodes[:, r], self._first[:, r]
        entries = np.arange(pack.palette.entry_ptr[d], pack.palette.entry_ptr[d + 1])
        n_prior = entries.size
        kind = BY_TABLE if self._by_table[pack.palette.source[d]] else BY_VALUE
        start = self._count[kind] + _starts(top)
        self._add_children(kind, _ranges(pack.leaf_first[:, d], top))
        draw, slot = _numbered(top - n_prior)
        edge = pack.edge_first[draw, r] + slot
        self._add_edges(node[draw] + pack.node[edge], kind, start[draw] + n_prior + slot, pack.weight[edge])
        draw, number = _numbered(n_nodes * n_prior)
        at, entry = np.divmod(number, n_prior)
        weight = pack.rest[pack.rest_first[draw, r] + number]
        self._add_edges(node[draw] + at, kind, start[draw] + entry, weight)
        draw, entry = _numbered(np.full(top.size, n_prior))
        self._add_edges((node + n_nodes)[draw], kind, start[draw] + entry, pack.fresh[draw, entries[entry]])

    def add_products(self, r: int) -> None:
        """Sum nodes over products, and over leaves that hold all columns of the region."""
        pack, tree = self._pack, self._pack.tree
        top, n_nodes, node = pack.top[:, r], self._n_nodes[:, r], self._first[:, r]
        draw, slot = _numbered(top)
        edge = pack.edge_first[draw, r] + slot
        joint = pack.edge_joint[edge] if pack.edge_joint.size else np.full(edge.size, -1)
        kind, child = np.where(joint >= 0, JOINT, PRODUCT), np.empty(edge.size, np.int64)
        is_joint = joint >= 0
        child[is_joint] = self._count[JOINT] + np.arange(int(is_joint.sum()))
        child[~is_joint] = self._count[PRODUCT] + np.arange(int((~is_joint).sum()))
        self._add_children(JOINT, joint[is_joint].astype(np.int64))
        parts = [q for q in tree.parts[tree.part_ptr[r] : tree.part_ptr[r + 1]].tolist() if not self._missing[q]]
        own = [self._below[draw, q] + slot for q in parts]
        if tree.n_splits[r] > 1:
            split = pack.edge_split[edge]
            own = [np.where(split == tree.split[q], at, -1) for q, at in zip(parts, own, strict=True)]
        self._add_product(np.stack(own, axis=1)[~is_joint])
        rest_draw, at = _numbered(n_nodes)
        rest = pack.rest[pack.rest_first[rest_draw, r] + at]
        empty = node + n_nodes
        n_kinds = int(tree.n_prior[r])
        if n_kinds == 0:
            place = self._count[PRODUCT] + np.arange(top.size)
            self._add_product(np.stack([self._below[:, q] + top for q in parts if tree.split[q] == 0], axis=1))
            self._add_edges(node[draw] + pack.node[edge], kind, child, pack.weight[edge])
            self._add_edges(node[rest_draw] + at, PRODUCT, place[rest_draw], rest)
            self._add_edges(empty, PRODUCT, place, np.ones(top.size))
            return
        # the first edges are those of no node: children of all kinds, as likely as one another, that hold no row
        held, start = slot >= n_kinds, _starts(top)
        self._add_edges((node[draw] + pack.node[edge])[held], kind[held], child[held], pack.weight[edge][held])
        for k in range(n_kinds):
            own_kind, own_child = kind[start + k], child[start + k]
            self._add_edges(node[rest_draw] + at, own_kind[rest_draw], own_child[rest_draw], rest / n_kinds)
            self._add_edges(empty, own_kind, own_child, np.full(top.size, 1.0 / n_kinds))

    def _add_children(self, kind: int, leaves: np.ndarray) -> None:
        self._leaves[kind - 1].append(leaves)
        self._count[kind] += leaves.size

    def _add_product(self, parts: np.ndarray) -> None:
        self._products.append(np.sort(parts, axis=1)[:, ::-1])  # those that are none last
        self._count[PRODUCT] += len(parts)

    def _add_edges(self, node: np.ndarray, kind: Any, child: np.ndarray, weight: np.ndarray) -> None:
        some = weight > 0.0
        kinds = np.broadcast_to(kind, node.shape)
        self._edges.append((node[some], kinds[some], child[some], weight[some]))

    def layer(self, n_nodes: int) -> DrawLayer:
        """What was put together."""
        node, kind, child, weight = (np.concatenate(values) for values in zip(*self._edges, strict=True))
        order = np.argsort(node, kind="stable")
        node_ptr = np.concatenate([[0], np.cumsum(np.bincount(node, minlength=n_nodes))])
        most = max((int((parts >= 0).sum(axis=1).max(initial=0)) for parts in self._products), default=0)
        products = [np.zeros((0, most), np.int64)]
        for parts in self._products:
            own = parts[:, :most]
            products.append(np.pad(own, ((0, 0), (0, most - own.shape[1])), constant_values=-1))
        nothing = np.zeros(0, np.int64)
        return DrawLayer(
            np.concatenate(products),
            tuple(np.concatenate([nothing, *leaves]) for leaves in self._leaves),  # type: ignore[arg-type]
            node_ptr,
            kind[order],
            child[order],
            weight[order],
        )


def _starts(sizes: np.ndarray) -> np.ndarray:
    """Where each of some parts begins, in their shape."""
    return (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)


def _ranges(first: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Numbers from the first on, so many of each."""
    which, at = _numbered(n)
    return first[which] + at


def _numbered(n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For n of each of some things: which thing, and its number within it."""
    which = np.repeat(np.arange(n.size), n)
    return which, np.arange(which.size) - _starts(n)[which]
