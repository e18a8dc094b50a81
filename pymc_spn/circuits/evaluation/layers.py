"""A circuit in layers of nodes that can be worked out at once, for evaluation by array operations.

A layer's nodes have one kind and height. They come in regions, whose nodes have the same children: the sums of
a region need these once. Blocks of values are the leaves of each family, then the layers from the bottom up. Within a
block, nodes stand in the order in which parents ask for them: the children of a layer of a complete tree lie side by
side.
"""

from typing import NamedTuple

import numpy as np

from pymc_spn.circuits.evaluation.tape import LEAF, SUM, Layout


class Layer(NamedTuple):
    """R regions of S nodes over at most K children; the layer's block holds R S nodes, region by region."""

    sources: tuple[int, ...]  # blocks that hold the children
    child: np.ndarray  # (R, K) place in these blocks laid end to end; any where there is no child
    is_child: np.ndarray  # (R, K)
    edge: np.ndarray  # (R, S, K) index into log weights; below 0 in products


class LayeredCircuit(NamedTuple):
    """Blocks of leaves, each the leaves of one family by number, and the layers above; the last block is the root."""

    leaves: list[np.ndarray]
    layers: list[Layer]


def layers_of(layout: Layout) -> LayeredCircuit:
    """Layers of a circuit; see `LayeredCircuit`."""
    by_height = _regions_by_layer(layout)
    families = np.unique(layout.leaf_family)
    block = np.empty(layout.kind.size, np.int64)
    block[layout.node_of_leaf] = np.searchsorted(families, layout.leaf_family)
    for number, regions in enumerate(by_height, families.size):
        for nodes in regions:
            block[nodes] = number

    asked = np.zeros(layout.kind.size, np.int64)  # when the first parent does
    clock = 1
    for regions in reversed(by_height):
        regions.sort(key=lambda nodes: asked[nodes[0]])
        for nodes in regions:
            children = layout.children[_edges(layout, nodes[0])]
            new = children[asked[children] == 0]
            asked[new] = clock + np.arange(new.size)
            clock += new.size

    place = np.empty(layout.kind.size, np.int64)
    leaves = []
    for f in families:
        own = np.flatnonzero(layout.leaf_family == f)
        leaves.append(own[np.argsort(asked[layout.node_of_leaf[own]])])
        place[layout.node_of_leaf[leaves[-1]]] = np.arange(own.size)
    for regions in by_height:
        members = np.concatenate(regions)
        place[members] = np.arange(members.size)
    size = np.bincount(block)
    return LayeredCircuit(leaves, [_layer(layout, regions, block, place, size) for regions in by_height])


def _edges(layout: Layout, node: int) -> np.ndarray:
    """Edges below a node in the order of its children."""
    first, last = layout.child_ptr[node], layout.child_ptr[node + 1]
    return first + np.argsort(layout.children[first:last], kind="stable")


def _regions_by_layer(layout: Layout) -> list[list[list[int]]]:
    """Nodes of each region of each layer, lowest layer first.

    Regions of a layer have as many nodes each, and numbers of children that differ by a factor below two.
    """
    height = np.zeros(layout.kind.size, np.int64)
    sharing: dict[tuple[int, ...], list[int]] = {}
    for v in range(layout.kind.size - 1, -1, -1):
        if layout.kind[v] == LEAF:
            continue
        children = layout.children[_edges(layout, v)]
        height[v] = 1 + height[children].max()
        sharing.setdefault(tuple(children) if layout.kind[v] == SUM else (-1, v), []).append(v)
    layers: dict[tuple[int, ...], list[list[int]]] = {}
    for nodes in sharing.values():
        v = nodes[0]
        n_children = int(layout.child_ptr[v + 1] - layout.child_ptr[v])
        key = (int(height[v]), int(layout.kind[v]), (n_children - 1).bit_length(), len(nodes))
        layers.setdefault(key, []).append(nodes)
    return [layers[key] for key in sorted(layers)]


def _layer(layout: Layout, regions: list[list[int]], block: np.ndarray, place: np.ndarray, size: np.ndarray) -> Layer:
    edges = [[_edges(layout, v) for v in nodes] for nodes in regions]
    n_children = np.array([e[0].size for e in edges])
    widest = int(n_children.max())
    padded = np.array([[np.pad(e, (0, widest - e.size), mode="edge") for e in region] for region in edges])
    child = layout.children[padded[:, 0]]
    sources = np.unique(block[child])
    before = np.cumsum(size[sources]) - size[sources]
    return Layer(
        tuple(sources.tolist()),
        place[child] + before[np.searchsorted(sources, block[child])],
        np.arange(widest) < n_children[:, None],
        layout.edge_weight[padded],
    )
