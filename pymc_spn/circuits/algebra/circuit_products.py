"""The normalised product of two compatible circuits as a circuit over pairs of their nodes."""

from typing import Any, NamedTuple

import numpy as np

from pymc_spn.circuits.algebra.circuit_pairs import CircuitPairs
from pymc_spn.circuits.structures.circuit import LEAF, PRODUCT, SUM, Circuit
from pymc_spn.leaves.leaf_products import leaf_products

MAX_EDGES = 10_000_000  # beyond, the arrays of one block of rows fill the memory
Pair = tuple[int, int]


class ProductOfNodes(NamedTuple):
    """A pair of nodes in the making.

    Parameters
    ----------
    kind : int
    below : list of pairs
    log_weights : list of float
        Of these below a sum, not normalised.
    edges : list of pairs
        Edges of the two circuits whose weights they have; -1 where there is none.
    """

    kind: int
    below: list[Pair]
    log_weights: list[float]
    edges: list[Pair]


def product_circuit(pairs: CircuitPairs, columns: tuple[Any, ...]) -> tuple[Circuit, np.ndarray, dict[str, np.ndarray]]:
    """Circuit, log weights and leaf parameters of the product, after `CircuitPairs.log_inner_product`.

    A pair of sums is a sum over the pairs of their children, weighted by the product of the weights and the pair's
    inner product. Pairs whose inner product is 0 are left out. Leaves are normalised, so that weights are, too.
    """
    nodes, order = product_nodes(pairs)
    family_of, parameters = _leaf_parameters(pairs, [pair for pair in order if nodes[pair].kind == LEAF])
    circuit = circuit_of_nodes(pairs, nodes, order, family_of, columns)
    weights = [_normalised(nodes[pair].log_weights) for pair in order if nodes[pair].kind == SUM]
    return circuit, np.concatenate([*weights, np.zeros(0)]), parameters


def circuit_of_nodes(
    pairs: CircuitPairs,
    nodes: dict[Pair, ProductOfNodes],
    order: list[Pair],
    family_of: dict[Pair, str],
    columns: tuple[Any, ...],
) -> Circuit:
    """The circuit that has these nodes in this order, and the family that is given for each leaf."""
    number = {pair: i for i, pair in enumerate(order)}
    families = tuple(dict.fromkeys(family_of[pair] for pair in order if pair in family_of))
    return Circuit(
        kind=np.array([nodes[pair].kind for pair in order], np.int8),
        child_ptr=np.cumsum([0, *(len(nodes[pair].below) for pair in order)]),
        children=np.array([number[below] for pair in order for below in nodes[pair].below], np.int64),
        leaf_column=np.array([pairs.first.column[u] if nodes[u, v].kind == LEAF else -1 for u, v in order]),
        leaf_family=np.array([families.index(family_of[pair]) if pair in family_of else -1 for pair in order]),
        families=families,
        columns=columns,
    )


def product_nodes(pairs: CircuitPairs) -> tuple[dict[Pair, ProductOfNodes], list[Pair]]:
    """Nodes of the product by the pairs that they stand for, and these in topological order."""
    nodes: dict[Pair, ProductOfNodes] = {}
    waiting: list[Pair] = [(0, 0)]
    n_edges = 0
    while waiting:
        pair = waiting.pop()
        if pair in nodes:
            continue
        nodes[pair] = _node(pairs, pair)
        n_edges += len(nodes[pair].below)
        if n_edges > MAX_EDGES:
            raise ValueError(f"the product has more than {MAX_EDGES:,} edges; take smaller circuits")
        waiting += [below for below in nodes[pair].below if below not in nodes]
    return nodes, _from_the_root(nodes)


def _normalised(logs: list[float]) -> np.ndarray:
    weights = np.array(logs)
    return weights - np.logaddexp.reduce(weights)


def _node(pairs: CircuitPairs, pair: Pair) -> ProductOfNodes:
    """What stands below a pair of nodes."""
    first, second = pairs.first, pairs.second
    u, v = pair
    mixes = bool(first.is_sum(np.array([u]))[0]), bool(second.is_sum(np.array([v]))[0])
    if any(mixes):
        (left, left_edges), (right, right_edges) = (
            side.alternatives(node) if mixed else (np.array([node]), np.array([-1]))
            for side, node, mixed in zip((first, second), pair, mixes, strict=True)
        )
        weights = pairs.of(first.scope[u], left, right)
        weights = weights + first.log_weight(left_edges)[:, None] + second.log_weight(right_edges)
        possible = np.argwhere(weights > -np.inf).tolist()
        return ProductOfNodes(
            SUM,
            [(int(left[i]), int(right[j])) for i, j in possible],
            [float(weights[i, j]) for i, j in possible],
            [(int(left_edges[i]), int(right_edges[j])) for i, j in possible],
        )
    if first.scope[u].bit_count() == 1:
        return ProductOfNodes(LEAF, [], [], [])
    return ProductOfNodes(PRODUCT, [(a, b) for a, b in pairs.parts_below(u, v)], [], [])


def _from_the_root(nodes: dict[Pair, ProductOfNodes]) -> list[Pair]:
    """Pairs in topological order: a depth-first walk's finishing order, reversed."""
    finished: list[Pair] = []
    opened: set[Pair] = set()
    stack: list[tuple[Pair, bool]] = [((0, 0), False)]
    while stack:
        pair, is_done = stack.pop()
        if is_done:
            finished.append(pair)
        elif pair not in opened:
            opened.add(pair)
            stack.append((pair, True))
            stack += [(below, False) for below in nodes[pair].below if below not in opened]
    return finished[::-1]


def _leaf_parameters(pairs: CircuitPairs, leaves: list[Pair]) -> tuple[dict[Pair, str], dict[str, np.ndarray]]:
    """Family of each leaf, and parameters by family in the order of the leaves."""
    sides = (pairs.first, pairs.second)
    together: dict[tuple[str, str], list[Pair]] = {}
    for pair in leaves:
        together.setdefault((sides[0].family(pair[0]), sides[1].family(pair[1])), []).append(pair)
    family_of: dict[Pair, str] = {}
    row_of: dict[Pair, np.ndarray] = {}
    for (family, other), members in together.items():
        p, q = (
            side.parameters[f][side.row[[pair[i] for pair in members]]]
            for i, (side, f) in enumerate(zip(sides, (family, other), strict=True))
        )
        found = leaf_products(family, p, other, q)
        if found is None:
            column = pairs.columns[int(sides[0].column[members[0][0]])]
            raise ValueError(
                f"the product of {family} and {other} leaves in column {column!r} is not a leaf of a known family"
            )
        family_of |= dict.fromkeys(members, found[0])
        row_of |= dict(zip(members, found[1], strict=True))
    parameters: dict[str, np.ndarray] = {}
    for name in dict.fromkeys(family_of[pair] for pair in leaves):
        rows = [row_of[pair] for pair in leaves if family_of[pair] == name]
        parameters[name] = np.zeros((len(rows), max(row.size for row in rows)))
        for i, row in enumerate(rows):
            parameters[name][i, : row.size] = row
    return family_of, parameters
