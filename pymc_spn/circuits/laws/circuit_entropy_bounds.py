"""Bounds on the entropy of an explicit circuit and on the divergence of two, by one pass over its scopes.

The bounds of `information_bounds` for circuits of any shape: a sum is a mixture of the leaves and products of its scope
that it reaches through other sums. Of two products the coefficients of the children of one scope multiply, and the
divergences add where they divide the columns alike; of others the divergence is not known. Where the children of every
sum exclude each other both bounds are the entropy.
"""

from typing import Any

import numpy as np

from pymc_spn.circuits.evaluation.completion import Parameterised
from pymc_spn.circuits.evaluation.tape import LEAF, PRODUCT, SUM
from pymc_spn.laws.column_grids import Grid
from pymc_spn.laws.information_bounds import LARGE, NO_MASS, Spread, leaf_spread, mixture_spread
from pymc_spn.leaves.explicit_leaves import EXPLICIT


def entropy_between(given: Parameterised, grids: dict[int, Grid]) -> tuple[float, float]:
    """Lower and upper bound in nats of the entropy of all columns.

    Parameters
    ----------
    given : Parameterised
    grids : dict of int to Grid
        Of every column.
    """
    root, place = _spread_of_root(given, grids)
    return float(root.low[place[0]]), float(root.high[place[0]])


def divergence_of_parts(given: Parameterised, grids: dict[int, Grid], first: int, second: int) -> float:
    """Upper bound in nats of the divergence of one node over all columns from another, by pairs of nodes below them."""
    root, place = _spread_of_root(given, grids)
    value = float(root.divergence[place[first], place[second]])
    return value if value < 0.5 * LARGE else np.inf


def _spread_of_root(given: Parameterised, grids: dict[int, Grid]) -> tuple[Spread, np.ndarray]:
    """Of the nodes over all columns, and the place of each node among those of its scope."""
    circuit = given.circuit
    keys = [bits.tobytes() for bits in circuit.scope_bits]
    of_scope: dict[bytes, list[int]] = {}
    for node in range(circuit.n_nodes - 1, -1, -1):  # children first
        of_scope.setdefault(keys[node], []).append(node)
    size = np.bitwise_count(circuit.scope_bits).sum(axis=1)
    place = np.empty(circuit.n_nodes, np.int64)  # of a node among those of its scope
    spreads: dict[bytes, Spread] = {}
    edge = np.concatenate([[0], np.cumsum(np.where(circuit.kind == SUM, np.diff(circuit.child_ptr), 0))])
    for key, nodes in sorted(of_scope.items(), key=lambda item: size[item[1][0]]):
        base = [v for v in nodes if circuit.kind[v] == LEAF or (circuit.kind[v] == PRODUCT and _divides(circuit, v))]
        number = {v: k for k, v in enumerate(base)}
        share = np.zeros((len(nodes), len(base)))
        for row, v in enumerate(nodes):
            place[v] = row
            if v in number:
                share[row, number[v]] = 1.0
            elif circuit.kind[v] == PRODUCT:  # with one child
                share[row] = share[place[circuit.children_of(v)[0]]]
            else:
                below = place[circuit.children_of(v)]
                share[row] = np.exp(given.log_weights[edge[v] : edge[v + 1]]) @ share[below]
        children = _base_spread(given, base, keys, spreads, place, grids)
        spreads[key] = mixture_spread(children, share)
    return spreads[keys[0]], place


def _divides(circuit: Any, node: int) -> bool:
    return circuit.child_ptr[node + 1] - circuit.child_ptr[node] > 1


def _base_spread(
    given: Parameterised, base: list[int], keys: list[bytes], spreads: dict[bytes, Spread], place: Any, grids: Any
) -> Spread:
    """Of the leaves or products of one scope, in their order."""
    circuit = given.circuit
    if circuit.kind[base[0]] == LEAF:
        grid = grids[int(circuit.leaf_column[base[0]])]
        return leaf_spread(leaf_logs(given, base, grid), grid.weight)
    n = len(base)
    low, high, coefficient, divergence = np.zeros(n), np.zeros(n), np.ones((n, n)), np.full((n, n), LARGE)
    with_scope: dict[bytes, list[int]] = {}  # products that have a child of a scope, and these children
    child_of = [{keys[c]: int(place[c]) for c in circuit.children_of(v)} for v in base]
    for k, children in enumerate(child_of):
        for scope in children:
            with_scope.setdefault(scope, []).append(k)
    for scope, which in with_scope.items():
        own, at = spreads[scope], np.array([child_of[k][scope] for k in which])
        low[which] += own.low[at]
        high[which] += own.high[at]
        # that of all columns is at most that of some, which are independent of each other in both
        coefficient[np.ix_(which, which)] *= own.coefficient[np.ix_(at, at)]
    splits: dict[frozenset[bytes], list[int]] = {}
    for k, children in enumerate(child_of):
        splits.setdefault(frozenset(children), []).append(k)
    for scopes, which in splits.items():
        total = np.zeros((len(which), len(which)))
        for scope in scopes:
            at = np.array([child_of[k][scope] for k in which])
            total = np.minimum(total + spreads[scope].divergence[np.ix_(at, at)], LARGE)
        divergence[np.ix_(which, which)] = total
    return Spread(low, high, coefficient, divergence)


def leaf_logs(given: Parameterised, nodes: Any, grid: Grid) -> np.ndarray:
    """Log densities or masses (n, X) of leaves of one column."""
    circuit = given.circuit
    k = np.searchsorted(circuit.leaves, nodes)
    out = np.empty((len(k), grid.x.size))
    for f, name in enumerate(circuit.families):
        at = np.flatnonzero(given.layout.leaf_family[k] == f)
        if at.size:
            own = given.parameters[name][given.layout.leaf_row[k[at]]]
            out[at] = EXPLICIT[name].log_density(own[:, None], grid.x[None])
    return out


def divergence_between(given: Parameterised, other: Parameterised, grids: dict[int, Grid]) -> float:
    """Upper bound in nats of the divergence of one law from another of the same circuit, by the chain rule.

    At a sum it is the divergence of the weights and the mean of the children's, at a product the sum. It is that of the
    joint laws of values and branches (Cover and Thomas, Elements of Information Theory, theorem 2.5.3).
    """
    circuit = given.circuit
    value = np.zeros(circuit.n_nodes)
    for d, grid in grids.items():
        nodes = np.flatnonzero(circuit.leaf_column == d)
        log_p, log_q = leaf_logs(given, nodes, grid), leaf_logs(other, nodes, grid)
        p = np.exp(log_p) * grid.weight
        with np.errstate(invalid="ignore"):
            ratio = np.where(p > NO_MASS, p * (log_p - log_q), 0.0)
        value[nodes] = np.maximum(ratio.sum(axis=1), 0.0)
    edge = np.concatenate([[0], np.cumsum(np.where(circuit.kind == SUM, np.diff(circuit.child_ptr), 0))])
    for node in range(circuit.n_nodes - 1, -1, -1):
        below = circuit.children_of(node)
        if circuit.kind[node] == PRODUCT:
            value[node] = value[below].sum()
        elif circuit.kind[node] == SUM:
            log_p, log_q = (one.log_weights[edge[node] : edge[node + 1]] for one in (given, other))
            used = log_p > -np.inf
            value[node] = np.sum(np.exp(log_p[used]) * (log_p[used] - log_q[used] + value[below][used]))
    return float(value[0])
