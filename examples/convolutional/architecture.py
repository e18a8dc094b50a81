"""The part of a graph that a convolutional network uses, in an order of its nodes that no relabelling changes."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Architecture:
    """A network's graph: the nodes on paths from the input to the output; made by `architecture_of`.

    Parameters
    ----------
    bins : (n,) int64
        Shape class floor(n_bins (1 - reputation)) of each node, the input first and the output last.
    parents : (n, n) bool
        True at [k, i] where node k feeds node i; upper triangular.
    """

    bins: np.ndarray
    parents: np.ndarray

    @property
    def key(self) -> bytes:
        """Bytes that are equal exactly where bins and edges are."""
        return self.bins.tobytes() + np.packbits(self.parents).tobytes()

    def statistics(self) -> dict[str, float]:
        """Figure 5's numbers: nodes, edges, mean degree (edges in and out of a node), depth, and width.

        Depth is the number of edges of the longest path from input to output, width the number of such paths; both are
        0 where there is none.
        """
        n, n_edges = len(self.bins), int(self.parents.sum())
        n_paths, longest = np.zeros(n), np.full(n, -np.inf)
        n_paths[0], longest[0] = 1.0, 0.0
        for i in range(1, n):
            above = np.flatnonzero(self.parents[:, i])
            n_paths[i] = n_paths[above].sum()
            longest[i] = longest[above].max(initial=-np.inf) + 1.0
        depth = float(longest[-1]) if n_paths[-1] else 0.0
        return {
            "nodes": float(n),
            "edges": float(n_edges),
            "degree": 2.0 * n_edges / n,
            "depth": depth,
            "width": float(n_paths[-1]),
        }


def architecture_of(
    reputations: np.ndarray, parents: np.ndarray, input_node: int, output_node: int, n_bins: int
) -> Architecture:
    """The architecture that a graph induces.

    Nodes that no path from the input reaches, or that reach the output by none, do not matter and are left out. The
    others are sorted by their depth, then by bin, then by what colour refinement says of their neighbours. Nodes that
    this leaves alike are told apart by reputation; where they are images of each other under a symmetry of the graph,
    which nearly all such nodes are, either choice gives the same architecture.

    Parameters
    ----------
    reputations : (n,) float64
    parents : (n, n) array of 0 and 1
        1 at [k, i] where node k is a parent of node i.
    input_node, output_node : int
        Their places.
    n_bins : int

    Raises
    ------
    ValueError
        If shapes differ, a place is outside, the input is the output, a reputation lies outside [0, 1], or an edge does
        not lead to a lower one.
    """
    theta, edges = np.asarray(reputations, np.float64), np.asarray(parents).astype(bool)
    n = len(theta)
    if edges.shape != (n, n):
        raise ValueError(f"parents must have shape ({n}, {n}), that of reputations twice; got {edges.shape}")
    if not (0 <= input_node < n and 0 <= output_node < n and input_node != output_node):
        raise ValueError(f"input_node and output_node must be two of {n} nodes; got {input_node} and {output_node}")
    inside = (theta >= 0.0) & (theta <= 1.0)
    if not inside.all():
        bad = int(np.argmin(inside))
        raise ValueError(f"reputations must lie in [0, 1]; node {bad} has {theta[bad]:g}")
    rising = np.argwhere(edges & (theta[:, None] <= theta))
    if len(rising):
        k, i = (int(x) for x in rising[0])
        raise ValueError(f"parents must stand above their children; node {k} at {theta[k]:g} feeds {i} at {theta[i]:g}")
    falling = np.argsort(-theta, kind="stable")
    below, above, depth = np.zeros(n, bool), np.zeros(n, bool), np.zeros(n, np.int64)
    below[input_node] = above[output_node] = True
    for i in falling:  # parents come before children
        if (edges[:, i] & below).any():
            below[i] = True
            depth[i] = depth[edges[:, i] & below].max() + 1
    for i in falling[::-1]:
        above[i] |= (edges[i] & above).any()
    used = below & above
    if not used.any():  # no path: a network that sees nothing
        return Architecture(np.array([0, n_bins]), np.zeros((2, 2), bool))
    kept = np.flatnonzero(used)
    bins = np.minimum(np.floor(n_bins * (1.0 - theta[kept])), n_bins).astype(np.int64)
    bins[kept == output_node] = n_bins
    order = _canonical_order(edges[np.ix_(kept, kept)], list(zip(depth[kept], bins, strict=True)), theta[kept])
    return Architecture(bins[order], edges[np.ix_(kept[order], kept[order])])


def _canonical_order(edges: np.ndarray, keys: list, theta: np.ndarray) -> np.ndarray:
    """Places by colour, refined until the colours are distinct; `keys` come first."""
    colours = _refine(edges, _ranks(keys))
    while len(set(colours)) < len(colours):
        repeated = min(c for c in colours if colours.count(c) > 1)
        alike = [i for i, c in enumerate(colours) if c == repeated]
        chosen = max(alike, key=lambda i: theta[i])
        colours = _refine(edges, _ranks([(c, i != chosen) for i, c in enumerate(colours)]))
    return np.argsort(colours)


def _refine(edges: np.ndarray, colours: list[int]) -> list[int]:
    """Colours that tell apart what neighbours' colours tell apart."""
    while True:
        finer = _ranks(
            [
                (
                    colour,
                    sorted(colours[k] for k in np.flatnonzero(edges[:, i])),
                    sorted(colours[k] for k in np.flatnonzero(edges[i])),
                )
                for i, colour in enumerate(colours)
            ]
        )
        if len(set(finer)) == len(set(colours)):
            return finer
        colours = finer


def _ranks(keys: list) -> list[int]:
    """Place of each key among the distinct ones."""
    distinct = sorted({_frozen(k) for k in keys})
    places = {k: rank for rank, k in enumerate(distinct)}
    return [places[_frozen(k)] for k in keys]


def _frozen(key):
    return tuple(tuple(part) if isinstance(part, list) else part for part in key)
