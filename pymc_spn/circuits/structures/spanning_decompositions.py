"""Decompositions of columns along the spanning tree of largest dependence."""

from collections.abc import Iterator

import networkx as nx
import numpy as np


def spanning_decompositions(strength: np.ndarray) -> Iterator[list[tuple[int, ...]]]:
    """Connected parts of the maximum spanning tree, whose edges go from the weakest to the strongest.

    Each removal divides one part of the decomposition before it in two. So D columns have D - 1 decompositions, of two
    parts to D, and among them at most 2 D - 2 different parts.

    Parameters
    ----------
    strength : (D, D) float64
        Symmetric, not negative; the diagonal is not read.

    Yields
    ------
    list of tuple of int
        Parts in ascending order of their first column, columns in each ascending. Of edges of equal strength the one
        with the smaller columns goes first.
    """
    tree = nx.maximum_spanning_tree(nx.from_numpy_array(strength + 1.0))  # 0 would be no edge
    parts = [tuple(range(len(strength)))]
    for _, a, b in sorted((float(strength[a, b]), min(a, b), max(a, b)) for a, b in tree.edges if a != b):
        tree.remove_edge(a, b)
        side = nx.node_connected_component(tree, a)
        whole = next(part for part in parts if a in part)
        rest = [part for part in parts if part is not whole]
        parts = sorted([*rest, tuple(sorted(side)), tuple(d for d in whole if d not in side)])
        yield parts
