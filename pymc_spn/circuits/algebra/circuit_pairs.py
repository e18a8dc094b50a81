"""Two circuits side by side: their nodes by scope, and the inner products of all pairs of nodes with the same scope.

Vergari et al. (2021): the product of two compatible circuits is a circuit over pairs of nodes. Sums are bilinear,
products pair their children by scope, leaves have integrals of their own.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.circuits.evaluation.parameters import checked_parameters, checked_weights, refuse_distributions
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.leaf_inner_products import log_inner_products

SUM, PRODUCT, LEAF = 0, 1, 2
BLOCK_VALUES = 5_000_000  # terms of sums held at a time (40 MB)
Groups = dict[tuple[int, ...], np.ndarray]


class MatchedChildren(NamedTuple):
    """Children of two products that have the same columns together.

    Parameters
    ----------
    scope : int
        Bit d is set for column d of the first circuit.
    first, second : (n,) and (m,) int64
        Node for each product of the two groups: its child, or a product of some of its children.
    """

    scope: int
    first: np.ndarray
    second: np.ndarray


class Region(NamedTuple):
    """All pairs of nodes with the same scope that are reached together.

    Parameters
    ----------
    first, second : (n,) and (m,) int64
        Nodes of the two circuits, ascending.
    pairs : list of (products of the first, products of the second, parts)
        Every pair of two ways to divide the scope.
    """

    first: np.ndarray
    second: np.ndarray
    pairs: list[tuple[np.ndarray, np.ndarray, list[MatchedChildren]]]


class Side:
    """One circuit with its parameters, its nodes' scopes as integers in the order of given columns.

    Products of some children of a product, which stand against one child of the other circuit's, are added as nodes
    behind those of the circuit.
    """

    def __init__(self, operand: Any, columns: list[str], what: str) -> None:
        circuit, log_weights, leaf_parameters = operand
        refuse_distributions(circuit, f"the {what} circuit of a product")
        self.circuit, self.what = circuit, what
        self.parameters = checked_parameters(circuit, leaf_parameters)
        owner = np.repeat(np.arange(circuit.n_nodes), np.diff(circuit.child_ptr))
        self.edge_log_weight = np.zeros(circuit.n_edges)
        self.edge_log_weight[circuit.kind[owner] == SUM] = checked_weights(circuit, log_weights)
        # a product of one child is that child: a sum of one
        self.mixes = (circuit.kind == SUM) | ((circuit.kind == PRODUCT) & (np.diff(circuit.child_ptr) == 1))
        self.height = np.zeros(circuit.n_nodes, np.int64)  # number of sums on top of each other with the same scope
        for _, nodes, edges, starts in circuit.steps():
            below = np.maximum.reduceat(self.height[circuit.children[edges]], starts) + 1
            self.height[nodes] = np.where(self.mixes[nodes], below, 0)
        position = np.array([columns.index(name) for name in circuit.names])
        self.column = np.where(circuit.leaf_column >= 0, position[circuit.leaf_column], -1)
        self.scope = [sum(1 << int(position[d]) for d in columns_in(word)) for word in whole_words(circuit.scope_bits)]
        self.made: dict[tuple[int, ...], int] = {}
        self.made_of: list[tuple[int, ...]] = []
        self.row = np.full(circuit.n_nodes, -1)  # of a leaf among those of its family
        for name in self.parameters:
            leaves = circuit.leaves_of(name)
            self.row[leaves] = np.arange(leaves.size)

    def children(self, node: int) -> list[int]:
        """Children of a node, also of one that was added."""
        n = self.circuit.n_nodes
        if node >= n:
            return list(self.made_of[node - n])
        return self.circuit.children_of(node).tolist()

    def together(self, children: list[int]) -> int:
        """The product of some children of a product: a node of its own unless there is but one."""
        if len(children) == 1:
            return children[0]
        key = tuple(children)
        if key not in self.made:
            self.made[key] = len(self.scope)
            self.made_of.append(key)
            self.scope.append(sum(self.scope[c] for c in children))
        return self.made[key]

    def is_sum(self, nodes: np.ndarray) -> np.ndarray:
        """Which nodes are sums, or products of one child."""
        return self.mixes[np.minimum(nodes, self.mixes.size - 1)] & (nodes < self.mixes.size)

    def family(self, leaf: int) -> str:
        """Name of a leaf's family."""
        return self.circuit.families[self.circuit.leaf_family[leaf]]

    def edges(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Edges with positive weight below sums, and where each sum's begin; none is without."""
        ptr = self.circuit.child_ptr
        edges = [e[np.isfinite(self.edge_log_weight[e])] for v in nodes for e in (np.arange(ptr[v], ptr[v + 1]),)]
        sizes = np.array([e.size for e in edges], np.int64)
        return np.concatenate([*edges, np.empty(0, np.int64)]), np.cumsum(sizes) - sizes

    def alternatives(self, node: int) -> tuple[np.ndarray, np.ndarray]:
        """Children of a sum with positive weight, and their edges."""
        edges, _ = self.edges(np.array([node]))
        return self.circuit.children[edges], edges

    def log_weight(self, edges: np.ndarray) -> np.ndarray:
        """Log weights of edges; 0 where there is none (-1)."""
        return np.where(edges >= 0, self.edge_log_weight[edges], 0.0)

    def below_sums(self, nodes: np.ndarray) -> np.ndarray:
        """These nodes, and what is below the sums among them with the same scope."""
        found = waiting = nodes
        while waiting.size:
            edges, _ = self.edges(waiting[self.is_sum(waiting)])
            waiting = np.setdiff1d(self.circuit.children[edges], found)
            found = np.union1d(found, waiting)
        return found

    def divisions(self, nodes: np.ndarray) -> Groups:
        """Products (n,) among the nodes, by the scopes of their children."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for node in nodes[~self.is_sum(nodes)].tolist():
            groups.setdefault(tuple(sorted(self.scope[c] for c in self.children(node))), []).append(node)
        return {scopes: np.array(members) for scopes, members in groups.items()}


class CircuitPairs:
    """Two circuits over the same columns with their parameters, and the regions of pairs of their nodes.

    Parameters
    ----------
    first, second : (Circuit, log_weights, leaf_parameters)

    Raises
    ------
    ValueError
        If parameters are not valid, columns differ or the circuits are not compatible.
    """

    def __init__(self, first: Any, second: Any) -> None:
        check_columns(first[0], second[0])
        self.columns = list(first[0].names)
        self.first, self.second = (
            Side(operand, self.columns, what) for operand, what in ((first, "first"), (second, "second"))
        )
        self.regions: dict[int, Region] = {}
        self.relative_error = np.zeros(len(self.columns))
        self.logs: dict[int, np.ndarray] = {}
        self._find_regions()

    @property
    def whole(self) -> int:
        """The scope of all columns."""
        return (1 << len(self.columns)) - 1

    def _find_regions(self) -> None:
        """Regions from the root down."""
        tops: dict[int, tuple[set[int], set[int]]] = {self.whole: ({0}, {0})}
        while tops:
            scope = max(tops, key=int.bit_count)
            nodes = [np.array(sorted(found)) for found in tops.pop(scope)]
            p, q = (side.below_sums(v) for side, v in zip((self.first, self.second), nodes, strict=True))
            region = self.regions[scope] = Region(p, q, [])
            if scope.bit_count() == 1:
                continue
            ways = product(self.first.divisions(p).items(), self.second.divisions(q).items())
            for (scopes, products), (others, other_products) in ways:
                parts = self._parts(scopes, products, others, other_products)
                region.pairs.append((products, other_products, parts))
                for part in parts:
                    below = tops.setdefault(part.scope, (set(), set()))
                    below[0].update(part.first.tolist())
                    below[1].update(part.second.tolist())

    def _parts(
        self, scopes: tuple[int, ...], products: np.ndarray, others: tuple[int, ...], other_products: np.ndarray
    ) -> list[MatchedChildren]:
        parts = []
        for scope in common_parts(scopes, others):
            one, other = ([s for s in division if s & scope] for division in (scopes, others))
            if len(one) > 1 and len(other) > 1:
                raise ValueError(
                    f"the circuits are not compatible: product {self._named(self.first, products[0])} and product "
                    f"{self._named(self.second, other_products[0])} divide their columns crosswise"
                )
            parts.append(
                MatchedChildren(
                    scope, self._under(self.first, products, one), self._under(self.second, other_products, other)
                )
            )
        return parts

    def _under(self, side: Side, products: np.ndarray, scopes: list[int]) -> np.ndarray:
        """For each product its children with these scopes, as one node."""
        wanted = set(scopes)
        return np.array(
            [side.together([c for c in side.children(v) if side.scope[c] in wanted]) for v in products.tolist()]
        )

    def _named(self, side: Side, node: int) -> str:
        shown = " x ".join(str(tuple(self._names(side.scope[c]))) for c in side.children(int(node)))
        if node < side.circuit.n_nodes:
            return f"{node} of the {side.what} circuit, {shown},"
        return f"of nodes {side.children(int(node))} of the {side.what} circuit, {shown},"

    def _names(self, scope: int) -> Iterator[str]:
        return (self.columns[d] for d in columns_in(scope))

    # -- from the leaves up ---------------------------------------------------------------------------

    def log_inner_product(self) -> float:
        """Log inner product of the roots; `logs` (n, m) of all pairs of each region's nodes are kept."""
        for scope in sorted(self.regions, key=int.bit_count):
            region = self.regions[scope]
            logs = np.full((region.first.size, region.second.size), -np.inf)
            if scope.bit_count() == 1:
                self._of_leaves(scope.bit_length() - 1, region, logs)
            for products, others, parts in region.pairs:
                rows, columns = np.searchsorted(region.first, products), np.searchsorted(region.second, others)
                logs[np.ix_(rows, columns)] = sum(self.of(part.scope, part.first, part.second) for part in parts)
            add_sums(self.first, region.first, logs)
            add_sums(self.second, region.second, logs.T)
            self.logs[scope] = logs
        return float(self.of(self.whole, np.array([0]), np.array([0]))[0, 0])

    def of(self, scope: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Log inner products (n, m) of nodes of one region."""
        region = self.regions[scope]
        at = np.ix_(np.searchsorted(region.first, first), np.searchsorted(region.second, second))
        return self.logs[scope][at]

    def parts_below(self, u: int, v: int) -> Iterator[tuple[int, int]]:
        """Pairs of nodes below a pair of products that are reached together."""
        for products, others, parts in self.regions[self.first.scope[u]].pairs:
            row, column = np.flatnonzero(products == u), np.flatnonzero(others == v)
            if row.size and column.size:
                yield from ((int(part.first[row[0]]), int(part.second[column[0]])) for part in parts)

    def _of_leaves(self, d: int, region: Region, logs: np.ndarray) -> None:
        """Fill in the pairs of a column's leaves."""
        for family, p, rows in leaves_by_family(self.first, region.first):
            for other, q, columns in leaves_by_family(self.second, region.second):
                if EXPLICIT[family].is_density != EXPLICIT[other].is_density:
                    raise ValueError(
                        f"column {self.columns[d]!r} must have densities in both circuits or masses in both, got "
                        f"{family} leaves in the first and {other} leaves in the second"
                    )
                found, error = log_inner_products(family, p, other, q)
                if np.any(np.isposinf(found)):
                    i, j = np.argwhere(np.isposinf(found))[0]
                    raise ValueError(
                        f"the inner product of leaf {region.first[rows[i]]} ({family}, {p[i].tolist()}) and leaf "
                        f"{region.second[columns[j]]} ({other}, {q[j].tolist()}) of column {self.columns[d]!r} is "
                        "infinite: their densities grow too quickly towards 0"
                    )
                logs[np.ix_(rows, columns)] = found
                self.relative_error[d] = max(self.relative_error[d], error)


def add_sums(side: Side, nodes: np.ndarray, logs: np.ndarray) -> None:
    """Fill in the rows of sums (n, m), from those without sums below them up.

    Terms are added in logs, each entry with a shift of its own: no weight or distance is too small.
    """
    sums = np.flatnonzero(side.is_sum(nodes))
    height = side.height[nodes[sums]]
    for h in np.unique(height):
        rows = sums[height == h]
        edges, starts = side.edges(nodes[rows])
        ends = np.append(starts[1:], edges.size)
        below = np.searchsorted(nodes, side.circuit.children[edges])
        step = max(1, BLOCK_VALUES // max(1, logs.shape[1]))
        block = starts // step  # sums whose terms begin in the same block
        for b in np.unique(block):
            which = np.flatnonzero(block == b)
            part = slice(starts[which[0]], ends[which[-1]])
            terms = logs[below[part]] + side.edge_log_weight[edges[part], None]
            at = starts[which] - part.start
            top = np.maximum.reduceat(terms, at)
            shift = np.where(np.isneginf(top), 0.0, top)
            terms -= np.repeat(shift, ends[which] - starts[which], axis=0)
            with np.errstate(divide="ignore"):
                logs[rows[which]] = shift + np.log(np.add.reduceat(np.exp(terms), at))


def leaves_by_family(side: Side, nodes: np.ndarray) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """(family, parameters, places among the nodes) of the leaves among the nodes."""
    inner = np.flatnonzero(~side.is_sum(nodes))
    for f, name in enumerate(side.circuit.families):
        places = inner[side.circuit.leaf_family[nodes[inner]] == f]
        if places.size:
            yield name, side.parameters[name][side.row[nodes[places]]], places


def common_parts(scopes: tuple[int, ...], others: tuple[int, ...]) -> list[int]:
    """The finest division that both refine."""
    parts: list[int] = []
    for scope in (*scopes, *others):
        meeting = [part for part in parts if part & scope]
        parts = [part for part in parts if not part & scope]
        for part in meeting:
            scope |= part
        parts.append(scope)
    return parts


def check_columns(first: Any, second: Any) -> None:
    """Refuse circuits whose columns differ in names, kinds or levels."""
    theirs = dict(zip(second.names, second.columns, strict=True))
    for name, column in zip(first.names, first.columns, strict=True):
        if name not in theirs:
            raise ValueError(f"the circuits must have the same columns, {name!r} is only in the first")
        other = theirs.pop(name)
        if isinstance(column, str) or isinstance(other, str):
            continue
        if (column.kind, column.levels) != (other.kind, other.levels):
            raise ValueError(
                f"column {name!r} must be of the same kind and levels in both circuits, got {column.kind} "
                f"{column.levels} and {other.kind} {other.levels}"
            )
    if theirs:
        raise ValueError(f"the circuits must have the same columns, {next(iter(theirs))!r} is only in the second")


def whole_words(bits: np.ndarray) -> list[int]:
    """Rows of `Circuit.scope_bits` as integers."""
    return [sum(word << 64 * w for w, word in enumerate(row)) for row in bits.tolist()]


def columns_in(scope: int) -> Iterator[int]:
    """Positions of the bits that are set."""
    while scope:
        yield (scope & -scope).bit_length() - 1
        scope &= scope - 1
