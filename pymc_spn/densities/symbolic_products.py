"""Products of two circuits whose parameters are tensors: structure once, inner product and parameters symbolically."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad

from pymc_spn.circuits.algebra.circuit_pairs import CircuitPairs, Side
from pymc_spn.circuits.algebra.circuit_products import circuit_of_nodes, product_nodes
from pymc_spn.circuits.structures.circuit import LEAF, SUM, Circuit
from pymc_spn.leaves.explicit_leaves import SYMBOLS

IMPOSSIBLE, CERTAIN = 0, 1  # places of -inf and 0 before the logs of all pairs
# families whose product with their own is one, as PyTensor expressions; of uniform leaves it may be nothing
LEAF_PAIRS = {name: symbols for name, symbols in SYMBOLS.items() if symbols.product is not None}


class SymbolicProduct:
    """The product of two compatible circuits, pair of nodes by pair of nodes, for parameters to come.

    Parameters
    ----------
    first, second : Circuit
        With the same columns in the same order, and in each column leaves of one family.
    n_levels : int
        Width of the rows of categorical leaves.

    Raises
    ------
    ValueError
        If the circuits are not compatible, or two leaves that meet are of different families or of one that
        `LEAF_PAIRS` has not; column and leaves are named.
    """

    def __init__(self, first: Circuit, second: Circuit, n_levels: int) -> None:
        pairs = CircuitPairs(*((c, uniform_weights(c), placeholders(c, n_levels)) for c in (first, second)))
        pairs.log_inner_product()
        nodes, order = product_nodes(pairs)
        leaves = [pair for pair in order if nodes[pair].kind == LEAF]
        for pair in leaves:
            _check_alike(pairs, *pair)
        family_of = {pair: pairs.first.family(pair[0]) for pair in leaves}
        self.circuit = circuit_of_nodes(pairs, nodes, order, family_of, first.columns)
        sides = pairs.first, pairs.second
        self.rows = {  # of the leaves of both circuits, in the order of the product's
            name: tuple(
                np.array([side.row[pair[i]] for pair in leaves if family_of[pair] == name])
                for i, side in enumerate(sides)
            )
            for name in self.circuit.families
        }
        edges = [edge for pair in order for edge in nodes[pair].edges]
        self.weights = tuple(_place_of_weight(side)[[edge[i] for edge in edges]] for i, side in enumerate(sides))

    def evaluate(
        self, first: tuple[Any, Mapping[str, Any]], second: tuple[Any, Mapping[str, Any]]
    ) -> tuple[Any, Any, dict[str, Any]]:
        """Log inner product, and log weights and leaf parameters of the normalised product.

        Parameters
        ----------
        first, second : (log_weights, leaf_parameters)
            Of the two circuits, tensors.

        Returns
        -------
        scalar, (n_sum_edges,) and dict of str to (n_leaves_of_family, p) tensors
            The first in nats; weights and parameters in the order of `circuit`.
        """
        circuit = self.circuit
        leaf_parameters, leaves, logs = {}, [], []
        for name, (rows, others) in self.rows.items():
            found, leaf_parameters[name] = LEAF_PAIRS[name].product(pt, first[1][name][rows], second[1][name][others])
            leaves.append(circuit.leaves_of(name))
            logs.append(found)
        (a, b), (v, w) = self.weights, (pt.concatenate([[0.0], side[0]]) for side in (first, second))
        weights = v[a + 1] + w[b + 1]  # before they are normalised; a product of one child has no weight of its own
        total, log_weights = normalised(circuit, weights, np.concatenate(leaves), pt.concatenate(logs))
        return total, log_weights, leaf_parameters


def normalised(circuit: Circuit, weights: Any, leaves: np.ndarray, log_leaves: Any) -> tuple[Any, Any]:
    """Log of the total of a circuit, and the log weights with which each of its nodes has the total 1.

    Parameters
    ----------
    circuit : Circuit
    weights : (n_sum_edges,) tensor
        Logs of what children are multiplied by.
    leaves : (n_leaf,) int64
        All leaves in any order.
    log_leaves : (n_leaf,) tensor
        Log of the total of each.

    Returns
    -------
    scalar and (n_sum_edges,) tensor
        In nats. A sum of total 0 has equal weights.
    """
    place = np.full(circuit.n_nodes, -1)
    place[leaves] = 2 + np.arange(leaves.size)
    n_known = 2 + leaves.size
    known = pt.concatenate([np.array([-np.inf, 0.0]), log_leaves])
    edge_place = np.full(circuit.n_edges, -1)
    edge_place[circuit.kind[np.repeat(np.arange(circuit.n_nodes), np.diff(circuit.child_ptr))] == SUM] = np.arange(
        circuit.n_sum_edges
    )
    for kind, nodes, edges, starts in circuit.steps():
        row = np.repeat(np.arange(nodes.size), np.diff(np.append(starts, edges.size)))
        column = np.arange(edges.size) - starts[row]
        shape = nodes.size, int(column.max()) + 1
        below = np.full(shape, IMPOSSIBLE if kind == SUM else CERTAIN)
        below[row, column] = place[circuit.children[edges]]
        terms = known[below]
        if kind == SUM:
            at = np.zeros(shape, np.int64)
            at[row, column] = edge_place[edges]
            value = _log_sum(terms + weights[at])
        else:
            value = terms.sum(axis=1)
        place[nodes] = n_known + np.arange(nodes.size)
        n_known += nodes.size
        known = pt.concatenate([known, value])
    total = known[place[circuit.edge_sum]]
    shares = weights + known[place[circuit.edge_child]] - total
    log_weights = pt.switch(pt.isinf(total), uniform_weights(circuit), shares)  # of a sum without weight itself
    return known[place[0]], log_weights


def uniform_weights(circuit: Circuit) -> np.ndarray:
    """Log weights (n_sum_edges,), the same for all edges of a sum."""
    degree = np.bincount(circuit.edge_sum, minlength=circuit.n_nodes)
    return -np.log(degree[circuit.edge_sum])


def placeholders(circuit: Circuit, n_levels: int) -> dict[str, np.ndarray]:
    """Some parameters for every leaf: only the structure is asked for."""
    out = {}
    for name in circuit.families:
        leaves = circuit.leaves_of(name)
        if leaves.size == 0:
            continue
        if name not in LEAF_PAIRS:
            column = circuit.names[circuit.leaf_column[leaves[0]]]
            raise ValueError(f"leaves must be of families {tuple(LEAF_PAIRS)}, column {column!r} has {name} leaves")
        row = [0.5 if high == 1.0 else 1.0 for _, high in LEAF_PAIRS[name].bounds]
        if name == "categorical":
            row = [1.0 / n_levels] * n_levels
        out[name] = np.tile(row, (leaves.size, 1))
    return out


def _check_alike(pairs: CircuitPairs, u: int, v: int) -> None:
    family, other = pairs.first.family(u), pairs.second.family(v)
    if family != other:
        column = pairs.columns[int(pairs.first.column[u])]
        raise ValueError(
            f"leaves of one column must be of one family, column {column!r} has {family} and {other} leaves"
        )


def _place_of_weight(side: Side) -> np.ndarray:
    """Place of each edge's weight among `log_weights`, and -1 at the end for no edge."""
    circuit = side.circuit
    owner = np.repeat(np.arange(circuit.n_nodes), np.diff(circuit.child_ptr))
    place = np.full(circuit.n_edges + 1, -1)
    place[:-1][circuit.kind[owner] == SUM] = np.arange(circuit.n_sum_edges)
    return place


def _log_sum(terms: Any) -> Any:
    """Logs (n,) of sums of exponentials of the rows (n, k); some or all may be -inf."""
    top = disconnected_grad(terms.max(axis=1, keepdims=True))
    top = pt.switch(pt.isinf(top), 0.0, top)
    total = pt.exp(terms - top).sum(axis=1)
    positive = total > 0.0  # the logarithm of 0 has no gradient, not even one to multiply by 0
    return pt.switch(positive, pt.log(pt.switch(positive, total, 1.0)) + top[:, 0], -np.inf)
