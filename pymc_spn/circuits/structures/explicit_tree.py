"""The explicit circuit of a region tree, with every copy of every node."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pymc_spn.circuits.structures.circuit import LEAF, PRODUCT, SUM, Circuit
from pymc_spn.circuits.structures.regions import RegionTree
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.tables.column import by_name


def explicit_circuit(tree: RegionTree, leaves: Mapping[str, Sequence[Any]], max_nodes: int) -> Circuit:
    """See `RegionTree.circuit`."""
    leaves = by_name("leaves", leaves)
    tree.check_names("leaves", leaves)
    palettes: list[list[str]] = []
    for name in tree.names:
        given = leaves[name]
        entries: list[Any] = [given] if isinstance(given, str) else list(given)
        if not entries:
            raise ValueError(f"leaves must name at least one family for every column, got none for {name!r}")
        palettes.append([e if isinstance(e, str) else e.family for e in entries])
    sizes = {name: len(p) for name, p in zip(tree.names, palettes, strict=True)}
    n_nodes = tree.n_nodes(sizes)
    if n_nodes > max_nodes:
        raise ValueError(f"the explicit tree has {n_nodes:,} nodes, more than max_nodes={max_nodes:,}")
    refuse_memory(f"the explicit tree of {n_nodes:,} nodes", 64.0 * n_nodes, "take fewer children")
    families = tuple(dict.fromkeys(f for p in palettes for f in p))
    width = tree.width(sizes)
    copies = tree.copies(width)
    block = [n * (1 + c) for n, c in zip(copies, width, strict=True)]
    first = np.concatenate([[0], np.cumsum(block)])
    kind = np.empty(n_nodes, dtype=np.int8)
    leaf_column = np.full(n_nodes, -1, dtype=np.int64)
    leaf_family = np.full(n_nodes, -1, dtype=np.int64)
    n_edges = np.zeros(n_nodes, dtype=np.int64)
    children = []
    for r in range(tree.n_regions):
        sums = slice(first[r], first[r] + copies[r])
        below = slice(first[r] + copies[r], first[r + 1])
        kind[sums], n_edges[sums] = SUM, width[r]
        children.append(np.arange(below.start, below.stop))
        parts = tree.parts[tree.part_ptr[r] : tree.part_ptr[r + 1]]
        if parts.size:
            copy, c = np.divmod(np.arange(copies[r] * width[r]), width[r])
            split = tree.split[parts]
            taken = split == (c % tree.n_splits[r])[:, None]  # (n_products, n_parts)
            uses = np.array([tree.edges_to(int(q), width) for q in parts])
            below_part = copy[:, None] * uses + (c // tree.n_splits[r])[:, None] + first[parts]
            kind[below], n_edges[below] = PRODUCT, taken.sum(axis=1)
            children.append(below_part[taken])
        else:
            column = int(tree.order[tree.begin[r]])
            cycle = np.resize([families.index(f) for f in palettes[column]], width[r])
            kind[below], leaf_column[below] = LEAF, column
            leaf_family[below] = np.tile(cycle, copies[r])
    return Circuit(
        kind=kind,
        child_ptr=np.concatenate([[0], np.cumsum(n_edges)]),
        children=np.concatenate(children),
        leaf_column=leaf_column,
        leaf_family=leaf_family,
        families=families,
        columns=tree.columns,
    )
