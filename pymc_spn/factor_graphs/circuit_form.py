"""A junction tree as a circuit: sums over a clique's own states for every separator state.

N(c, s) = sum over r of table(c, s, r) prod over children d of N(d, projection of (s, r)) prod of [x_v = r_v]. Only
finite entries make a product, so determinism in the tables makes the circuit smaller than they are. Equal sums are one
node.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_spn.circuits.structures.circuit import LEAF, PRODUCT, SUM, Circuit
from pymc_spn.circuits.structures.parameterised import ParameterisedCircuit
from pymc_spn.factor_graphs.linear_messages import log_tables
from pymc_spn.numerics.read_only_views import read_only_view
from pymc_spn.tables import Column


@dataclass(frozen=True, eq=False, repr=False)
class FieldCircuit(ParameterisedCircuit):
    """The circuit of a factor graph with its parameters; made by `JunctionTree.to_circuit`.

    Its columns are the variables, categorical, in declared order; its density is the normalised distribution. It
    answers all questions of a `ParameterisedCircuit`: `probability`, `sample`, `mpe`, `condition`, `entropy`.

    Parameters
    ----------
    circuit, log_weights, leaf_parameters
        See `ParameterisedCircuit`. There is one leaf for each state of each variable that has positive probability.
    log_z : float
        Log of the sum over all configurations.

    Examples
    --------
    >>> best = junction.to_circuit().mpe(given={"wet": 1})
    >>> best.value["rain"].tolist()
    ['yes']
    """

    log_z: float


class _CircuitNodes:
    """Nodes from the leaves up, equal ones shared; numbers count upwards here and are turned round at the end."""

    def __init__(self) -> None:
        self.kind: list[int] = []
        self.children: list[tuple[int, ...]] = []
        self.weights: list[tuple[float, ...]] = []
        self.leaf: list[tuple[int, int]] = []
        self.known: dict[Any, int] = {}

    def add(self, kind: int, children: tuple[int, ...], weights: Any = (), leaf: tuple[int, int] = (-1, -1)) -> int:
        key = kind, children, weights, leaf
        if key not in self.known:
            self.known[key] = len(self.kind)
            self.kind.append(kind)
            self.children.append(children)
            self.weights.append(weights)
            self.leaf.append(leaf)
        return self.known[key]


def build_circuit(tree: Any) -> FieldCircuit:
    """The circuit of a junction tree without tensors.

    Raises
    ------
    ValueError
        If every configuration is impossible.
    """
    fg, arrays = tree.graph, tree.plan.arrays
    log_table, shift = np.empty(arrays.table_start[-1]), np.empty(arrays.table_start.size - 1)
    log_z = log_tables(arrays, read_only_view(fg.potentials()), log_table, shift)
    nodes = _CircuitNodes()
    sums: list[list[tuple[int, float] | None]] = []  # by clique and separator state: node and log of its total
    top: list[int] = []
    for c in range(tree.plan.n_cliques):
        n_rows, n_cols = int(arrays.n_rows[c]), int(arrays.n_cols[c])
        start = arrays.table_start[arrays.table[c]]
        table = log_table[start : start + n_rows * n_cols].reshape(n_rows, n_cols)
        own = arrays.own_variables[arrays.own_ptr[c] : arrays.own_ptr[c + 1]]
        leaves = [tuple((int(v), int(r // arrays.own_stride[v] % arrays.card[v])) for v in own) for r in range(n_cols)]
        below = []
        for i in range(arrays.child_ptr[c], arrays.child_ptr[c + 1]):
            meets = arrays.child_map[arrays.map_ptr[i] : arrays.map_ptr[i + 1]]
            is_simple = i < arrays.child_ptr[c] + arrays.n_simple[c]
            below.append((sums[arrays.children[i]], meets, is_simple))
        result: list[tuple[int, float] | None] = []
        for s in range(n_rows):
            found: dict[int, float] = {}
            for r in np.flatnonzero(table[s] > -np.inf).tolist():
                under = [d[int(meets[r if simple else s * n_cols + r])] for d, meets, simple in below]
                if any(u is None for u in under):
                    continue
                parts = sorted(
                    [nodes.add(LEAF, (), (), leaf) for leaf in leaves[r]] + [u[0] for u in under if u is not None]
                )
                child = parts[0] if len(parts) == 1 else nodes.add(PRODUCT, tuple(parts))
                found[child] = float(table[s, r]) + sum(u[1] for u in under if u is not None)
            if not found:
                result.append(None)
                continue
            values = np.array(list(found.values()))
            total = float(values.max() + np.log(np.exp(values - values.max()).sum()))
            result.append((nodes.add(SUM, tuple(found), tuple((values - total).tolist())), total))
        sums.append(result)
        if arrays.parent[c] < 0:
            root = result[0]
            if root is None:
                raise ValueError(
                    "to_circuit: every configuration of the graph is impossible, so it has no distribution"
                )
            top.append(root[0])
            log_z += root[1]
    root_node = top[0] if len(top) == 1 else nodes.add(PRODUCT, tuple(top))
    if log_z == -np.inf:
        raise ValueError("to_circuit: every configuration of the graph is impossible, so it has no distribution")
    return _arranged(fg, nodes, root_node, float(log_z))


def _arranged(fg: Any, nodes: _CircuitNodes, root: int, log_z: float) -> FieldCircuit:
    """Reachable nodes, parents before children."""
    reached = np.zeros(len(nodes.kind), bool)
    reached[root] = True
    for i in range(root, -1, -1):
        if reached[i]:
            reached[list(nodes.children[i])] = True
    order = np.flatnonzero(reached)[::-1]
    number = {int(old): new for new, old in enumerate(order)}
    kind = np.array([nodes.kind[i] for i in order], dtype=np.int8)
    children = [number[j] for i in order for j in nodes.children[i]]
    ptr = np.cumsum([0, *(len(nodes.children[i]) for i in order)])
    leaf = [nodes.leaf[i] for i in order if nodes.kind[i] == LEAF]
    width = int(fg.card.max())
    column = np.array([nodes.leaf[i][0] for i in order], dtype=np.int64)
    arguments = (
        kind,
        ptr,
        np.array(children, dtype=np.int64),
        column,
        np.where(column >= 0, 0, -1),
        ("categorical",),
        tuple(Column(n, "categorical", s, f"category[{_dtype(s)}]") for n, s in zip(fg.names, fg.states, strict=True)),
    )
    indicators = np.zeros((len(leaf), width))
    indicators[np.arange(len(leaf)), [state for _, state in leaf]] = 1.0
    weights = np.array([w for i in order for w in nodes.weights[i]])
    return FieldCircuit(Circuit(*arguments), weights, {"categorical": indicators}, log_z)


def _dtype(states: tuple[Any, ...]) -> str:
    return {str: "str", int: "int64", bool: "bool"}[type(states[0])]
