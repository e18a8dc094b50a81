"""`monotone_parts`: a circuit with weights of either sign as the difference of two with positive weights."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad
from pytensor.graph.basic import Constant, Variable

from pymc_spn.circuits.evaluation.parameters import checked_family
from pymc_spn.circuits.structures.circuit import LEAF, PRODUCT, SUM, Circuit
from pymc_spn.densities.circuit_density import packed_inputs
from pymc_spn.densities.symbolic_products import normalised, uniform_weights
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.steps.model_inputs import NumbersOrVariable

ADDED, TAKEN = 0, 1  # the two parts of a node: its value is the first less the second
ABSENT = -1


class MonotoneParts(NamedTuple):
    """What `SumOfSquares` and `SumOfSquaresDensity` take, in their order.

    Parameters
    ----------
    components : tuple of (circuit, log_weights, leaf_parameters)
        One or two, each normalised and with positive weights.
    coefficients : (n_components,) float64 array or tensor
        1.0 at the larger part, that of the part taken away at most 0.
    """

    components: tuple[tuple[Circuit, Any, dict[str, Any]], ...]
    coefficients: Any


class _PartNode(NamedTuple):
    """A node of a part in the making; `edges` has of each child the edge whose weight it has, ABSENT for weight 1."""

    kind: int
    below: list[int]
    edges: list[tuple[int, int]]
    leaf: int


def monotone_parts(
    circuit: Circuit, weights: NumbersOrVariable, leaf_parameters: Mapping[str, NumbersOrVariable]
) -> MonotoneParts:
    """A circuit whose sums have weights of either sign, as circuits that can be squared.

    Each node is the difference of two nodes with positive weights. Below a sum a negative weight exchanges the two. A
    product of two differences multiplies out into two sums of two products. The square of the whole is
    ``ps.circuits.SumOfSquares(*ps.circuits.monotone_parts(...))``, in a model `SumOfSquaresDensity`.

    Parameters
    ----------
    circuit : Circuit
    weights : (n_sum_edges,) array or tensor
        Of the edges as `Circuit.edge_sum` and `Circuit.edge_child` list them; of either sign. Those of a sum need not
        add up to anything, and the scale of all of them does not matter.
    leaf_parameters : dict of str to (n_leaves_of_family, p) array or tensor
        As for `CircuitDensity`.

    Returns
    -------
    MonotoneParts
        Where weights are numbers, of the nodes that have a weight; where they are tensors, of all, with a gradient
        wherever no weight is 0.

    Raises
    ------
    TypeError
        If circuit is none, or weights are not real numbers.
    ValueError
        If weights have another shape or are not finite, or multiply everything by 0; parameters as `CircuitDensity`.

    Notes
    -----
    A tree of products with two children has at most four times the products in each part. Where the two parts nearly
    cancel, `SumOfSquares` says what is lost.

    Examples
    --------
    >>> parts = ps.circuits.monotone_parts(law.circuit, np.array([1.0, -0.5]), law.leaf_parameters)
    >>> len(parts.components)
    2

    References
    ----------
    Valiant (1980), Negation can be exponentially powerful, Theoretical Computer Science 12: a difference of two
    monotone computations. Loconte, Sladek, Mengel, Trapp, Solin, Gillis and Vergari (2024), Subtractive mixture models
    via squaring: representation and learning, ICLR, have such circuits squared.
    """
    if not isinstance(circuit, Circuit):
        raise TypeError(f"circuit must be a ps.Circuit, got {type(circuit).__name__}")
    packed_inputs(circuit, uniform_weights(circuit), leaf_parameters)  # says what is wrong with the leaves
    signed = _checked_weights(circuit, weights)
    if isinstance(signed, Variable):
        possible = np.ones((circuit.n_sum_edges, 2), bool)
    else:
        possible = np.column_stack([signed > 0.0, signed < 0.0])
    nodes, roots = _both_parts(circuit, possible)
    if max(roots) == ABSENT:
        raise ValueError("weights must leave something: the sums are 0 with those that are given")
    components, logs, signs = [], [], []
    for root, sign in zip(roots, (1.0, -1.0), strict=True):
        if root == ABSENT:
            continue
        part, edges, leaves = _circuit_of(circuit, nodes, root)
        log_total, log_weights = _normalised(part, _logs(signed, edges))
        components.append((part, log_weights, _parameters(circuit, leaf_parameters, part, leaves)))
        logs.append(log_total)
        signs.append(sign)
    if isinstance(signed, Variable):
        both = pt.stack(logs)
        return MonotoneParts(tuple(components), np.array(signs) * pt.exp(both - disconnected_grad(both.max())))
    return MonotoneParts(tuple(components), np.array(signs) * np.exp(np.array(logs) - max(logs)))


def _checked_weights(circuit: Circuit, given: Any) -> Any:
    """Weights (n_sum_edges,) as finite float64 numbers, or as a tensor."""
    given = given.data if isinstance(given, Constant) else given
    expected = (circuit.n_sum_edges,)
    if isinstance(given, Variable):
        tensor: Any = pt.as_tensor_variable(given)
        if not tensor.type.dtype.startswith(("float", "int", "uint")):
            raise TypeError(f"weights must be a tensor of real numbers, got {tensor.type.dtype}")
        if tensor.type.ndim != 1 or tensor.type.shape[0] not in (None, *expected):
            raise ValueError(f"weights must have shape {expected}, got {tensor.type.shape}")
        return pt.specify_shape(tensor.astype("float64"), expected)
    raw = np.asarray(given)
    if raw.dtype.kind not in "iuf" or np.ma.is_masked(given):
        raise TypeError(f"weights must be an array of real numbers or one tensor, got {quoted(given)}")
    if raw.shape != expected:
        raise ValueError(f"weights must have shape {expected}, got {raw.shape}")
    if not np.all(np.isfinite(raw)):
        e = int(np.argmin(np.isfinite(raw)))
        raise ValueError(f"weights must be finite, got {raw[e]} at entry {e}, of sum {circuit.edge_sum[e]}")
    return raw.astype(np.float64)


def _both_parts(circuit: Circuit, possible: np.ndarray) -> tuple[list[_PartNode], tuple[int, int]]:
    """Nodes of both parts, children before their parents, and the two roots.

    ``possible`` (n_sum_edges, 2) says whether a weight may be positive, and whether it may be negative.
    """
    nodes: list[_PartNode] = []
    parts: dict[int, tuple[int, int]] = {}

    def add(*fields: Any) -> int:
        nodes.append(_PartNode(*fields))
        return len(nodes) - 1

    for node in range(circuit.n_nodes - 1, -1, -1):
        below = circuit.children_of(node).tolist()
        if circuit.kind[node] == LEAF:
            parts[node] = add(LEAF, [], [], node), ABSENT
        elif circuit.kind[node] == PRODUCT:
            parts[node] = _product([parts[child] for child in below], add)
        else:
            first_edge = int(np.searchsorted(circuit.edge_sum, node))
            parts[node] = _sum([parts[child] for child in below], first_edge, possible, add)
    return nodes, parts[0]


def _sum(below: list[tuple[int, int]], first_edge: int, possible: np.ndarray, add: Any) -> tuple[int, int]:
    """Both parts of a sum: a negative weight adds what the child takes away, and the reverse."""
    found = []
    for part in (ADDED, TAKEN):
        terms = [
            (child[part if sign == ADDED else 1 - part], (first_edge + k, sign))
            for k, child in enumerate(below)
            for sign in (ADDED, TAKEN)
            if possible[first_edge + k, sign]
        ]
        terms = [term for term in terms if term[0] != ABSENT]
        found.append(add(SUM, [term[0] for term in terms], [term[1] for term in terms], ABSENT) if terms else ABSENT)
    return found[ADDED], found[TAKEN]


def _product(below: list[tuple[int, int]], add: Any) -> tuple[int, int]:
    """Both parts of a product of differences (a - b)(c - d) ..: multiplied out two by two, (ac + bd) - (ad + bc)."""
    if any(child == (ABSENT, ABSENT) for child in below):
        return ABSENT, ABSENT
    whole = [max(child) for child in below if ABSENT in child]  # of one part, and so of one sign
    sign = sum(child[ADDED] == ABSENT for child in below) % 2
    differences = [child for child in below if ABSENT not in child]
    if not differences:
        only = add(PRODUCT, whole, [], ABSENT)
        return (ABSENT, only) if sign else (only, ABSENT)
    a, b = differences[0]
    for c, d in differences[1:]:
        same = [add(PRODUCT, pair, [], ABSENT) for pair in ([a, c], [b, d])]
        mixed = [add(PRODUCT, pair, [], ABSENT) for pair in ([a, d], [b, c])]
        a, b = (add(SUM, pair, [(ABSENT, ADDED)] * 2, ABSENT) for pair in (same, mixed))
    if whole:
        a, b = (add(PRODUCT, [*whole, part], [], ABSENT) for part in (a, b))
    return (b, a) if sign else (a, b)


def _circuit_of(given: Circuit, nodes: list[_PartNode], root: int) -> tuple[Circuit, np.ndarray, np.ndarray]:
    """The circuit below a node; edge and sign (n_sum_edges, 2) of its weights; of its leaves those that are given."""
    reached = {root}
    for node in range(root, -1, -1):
        if node in reached:
            reached.update(nodes[node].below)
    order = sorted(reached, reverse=True)
    number = {node: i for i, node in enumerate(order)}
    own = [nodes[node] for node in order]
    leaf = np.array([node.leaf for node in own])
    circuit = Circuit(
        kind=np.array([node.kind for node in own], np.int8),
        child_ptr=np.cumsum([0, *(len(node.below) for node in own)]),
        children=np.array([number[child] for node in own for child in node.below], np.int64),
        leaf_column=np.where(leaf >= 0, given.leaf_column[leaf], -1),
        leaf_family=np.where(leaf >= 0, given.leaf_family[leaf], -1),
        families=given.families,
        columns=given.columns,
    )
    edges = np.array([edge for node in own for edge in node.edges], np.int64).reshape(-1, 2)
    return circuit, edges, leaf[leaf >= 0]


def _logs(weights: Any, edges: np.ndarray) -> Any:
    """Logs (n_sum_edges,) of what children of a part are multiplied by: ``-inf`` where the sign is the other."""
    edge, sign = edges.T
    if not isinstance(weights, Variable):
        return np.log(np.abs(np.append(weights, 1.0)[edge]))
    sizes = pt.concatenate([weights, [1.0]])[edge] * np.where(sign == TAKEN, -1.0, 1.0)
    positive = sizes > 0.0
    return pt.switch(positive, pt.log(pt.switch(positive, sizes, 1.0)), -np.inf)


def _normalised(part: Circuit, logs: Any) -> tuple[Any, Any]:
    """Log of the total of a part, and the log weights with which each of its nodes has the total 1."""
    if isinstance(logs, Variable):
        return normalised(part, logs, part.leaves, pt.zeros(part.leaves.size))
    weight = np.zeros(part.n_edges)
    owner = np.repeat(np.arange(part.n_nodes), np.diff(part.child_ptr))
    weight[part.kind[owner] == SUM] = logs
    total = np.zeros(part.n_nodes)
    for kind, nodes, edges, starts in part.steps():
        together = np.logaddexp if kind == SUM else np.add
        total[nodes] = together.reduceat(weight[edges] + total[part.children[edges]], starts)
    return total[0], logs + total[part.edge_child] - total[part.edge_sum]


def _parameters(given: Circuit, leaf_parameters: Any, part: Circuit, leaves: np.ndarray) -> dict[str, Any]:
    """Parameters by family of the leaves of a part, which are these of the given circuit."""
    out = {}
    for name in part.families:
        of_family = given.leaves_of(name)
        chosen = leaves[np.isin(leaves, of_family)]
        if chosen.size:
            rows: Any = leaf_parameters[name]
            if not isinstance(rows, Variable):
                rows = checked_family(given, name, rows)
            out[name] = rows[np.searchsorted(of_family, chosen)]
    return out
