"""Explicit circuits: sum, product and leaf nodes in flat arrays, checked when built."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.circuits.structures.circuit_graph import graph_of
from pymc_spn.circuits.structures.circuit_json import circuit_to_json, fields_from_json
from pymc_spn.circuits.structures.further_columns import checked_further_columns
from pymc_spn.leaves.family_codes import IN_CIRCUITS
from pymc_spn.leaves.validation import checked_columns, column_name, read_only
from pymc_spn.numerics.html_repr import Facts, Listed, NotebookRepr
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.column import Column, list_of_columns

if TYPE_CHECKING:
    import networkx as nx
    import numpy.typing as npt

    from pymc_spn.circuits.structures.parameterised import ParameterisedCircuit

SUM, PRODUCT, LEAF = 0, 1, 2


@dataclass(frozen=True, eq=False, repr=False)
class Circuit(NotebookRepr):
    """Smooth and decomposable circuit without its parameters.

    `with_parameters` returns a circuit that answers questions.

    Nodes are in topological order: children have larger numbers, node 0 is the root. Every other node is a child of
    some node, and every column occurs in some leaf.

    Parameters
    ----------
    kind : (n_nodes,) int8
        0 sum, 1 product, 2 leaf.
    child_ptr, children : (n_nodes + 1,) and (n_edges,) int64
        The children of node ``i`` are ``children[child_ptr[i]:child_ptr[i + 1]]``.
    leaf_column : (n_nodes,) int64
        Column of each leaf, the first one of a multivariate leaf; -1 for sums and products.
    leaf_family : (n_nodes,) int64
        Index into `families` of each leaf; -1 for sums and products.
    families : tuple of str
        Among the names in the table below.
    columns : tuple of str or Column
    further_columns : mapping of int to sequence of int, optional
        For each multivariate leaf, by its node, the columns after `leaf_column`, in the order of its family.

    Raises
    ------
    ValueError
        If the arrays are not a circuit, or it is not smooth or not decomposable; nodes and columns are named.

    Notes
    -----
    Families, and the row of parameters that `with_parameters` takes for each leaf:

    ========================= ===========================================================
    family                    row
    ========================= ===========================================================
    gaussian, log_normal      mean, standard deviation (of the value or of its log)
    exponential, poisson      rate
    geometric                 probability p of stopping: mass p (1 - p)^k at k = 0, 1, ..
    bernoulli                 probability of level 1
    categorical               one probability per level, padded with 0
    student_t                 location, scale, degrees of freedom
    log_student_t             the same of the value's log
    lomax                     shape, scale
    negative_binomial         alpha, beta: Poisson with a Gamma(alpha, rate beta) rate
    beta_geometric            alpha, beta: geometric with a Beta(alpha, beta) probability
    binomial                  number of trials, probability of success
    beta_binomial             number of trials, alpha, beta: binomial with a Beta(alpha, beta) probability
    scipy_continuous          a frozen distribution of `scipy.stats`: ``stats.gamma(2.0)``
    scipy_discrete            the same with masses, on whole numbers: ``stats.skellam(2.0, 1.0)``
    multivariate_gaussian[d]  mean (d,), covariance (d, d) row by row, over d >= 2 columns
    multivariate_student_t[d] degrees of freedom, location (d,), scale matrix (d, d) row by row
    ========================= ===========================================================

    The two families of SciPy take a sequence of distributions instead of rows. They answer all questions, `mpe`
    without an upper bound. Answers are as exact as SciPy's densities, distribution functions and moments. A value at
    which the density is infinite does not belong to them. `CircuitDensity` needs the other families.

    Examples
    --------
    >>> law.circuit
    Circuit(2 columns, 1 sums, 2 products, 4 leaves, 6 edges)
    >>> law.circuit.n_nodes
    7
    """

    kind: np.ndarray
    child_ptr: np.ndarray
    children: np.ndarray
    leaf_column: np.ndarray
    leaf_family: np.ndarray
    families: tuple[str, ...]
    columns: tuple[str | Column, ...]
    further_columns: Mapping[int, Sequence[int]] = field(default_factory=dict)
    edge_sum: np.ndarray = field(init=False)
    edge_child: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        put("columns", checked_columns(self.columns))
        put("families", tuple(self.families))
        put("kind", read_only("kind", self.kind, np.int8))
        for name in ("child_ptr", "children", "leaf_column", "leaf_family"):
            put(name, read_only(name, getattr(self, name)))
        self._check_arrays()
        put("further_columns", checked_further_columns(self, self.further_columns))
        owner = np.repeat(np.arange(self.n_nodes), np.diff(self.child_ptr))
        weighted = self.kind[owner] == SUM
        put("edge_sum", read_only("edge_sum", owner[weighted]))
        put("edge_child", read_only("edge_child", self.children[weighted]))
        self.check_smooth()
        self.check_decomposable()
        covered = self.scope_bits[0]
        for d, name in enumerate(self.names):
            if not covered[d >> 6] >> np.uint64(d & 63) & np.uint64(1):
                raise ValueError(f"every column must occur in a leaf, {name!r} occurs in none")

    def _check_arrays(self) -> None:
        n = self.kind.size
        if n == 0:
            raise ValueError("a circuit must have at least one node, got an empty kind")
        for name, expected in (("child_ptr", n + 1), ("leaf_column", n), ("leaf_family", n)):
            if getattr(self, name).size != expected:
                raise ValueError(f"{name} must have {expected} entries for {n} nodes, got {getattr(self, name).size}")
        _refuse(self.kind, (self.kind < 0) | (self.kind > LEAF), "kind must be 0 (sum), 1 (product) or 2 (leaf)")
        degree = np.diff(self.child_ptr)
        if self.child_ptr[0] != 0 or self.child_ptr[-1] != self.children.size or np.any(degree < 0):
            raise ValueError(f"child_ptr must rise from 0 to the number of edges ({self.children.size})")
        is_leaf = self.kind == LEAF
        _refuse(degree, is_leaf & (degree > 0), "a leaf must have no children")
        _refuse(degree, ~is_leaf & (degree == 0), "a sum or product must have at least one child")
        owner = np.repeat(np.arange(n), degree)
        early = (self.children <= owner) | (self.children >= n)
        if np.any(early):
            e = int(np.argmax(early))
            raise ValueError(
                f"children must have larger numbers than their parent, below {n}: "
                f"node {owner[e]} lists child {self.children[e]}"
            )
        ranked = np.lexsort((self.children, owner))
        twice = (np.diff(owner[ranked]) == 0) & (np.diff(self.children[ranked]) == 0)
        if np.any(twice):
            e = ranked[int(np.argmax(twice))]
            node = owner[e]
            if self.kind[node] == SUM:
                raise ValueError(f"sum {node} lists child {self.children[e]} twice")
            name = self._some_column_below(int(self.children[e]))
            raise ValueError(
                f"circuit is not decomposable: product {node} lists child {self.children[e]} twice, "
                f"and it contains {name!r}"
            )
        orphan = np.bincount(self.children, minlength=n)[1:] == 0
        if np.any(orphan):
            raise ValueError(f"every node but the root must be a child, node {int(np.argmax(orphan)) + 1} is none")
        bad_column = np.where(
            is_leaf, (self.leaf_column < 0) | (self.leaf_column >= len(self.columns)), self.leaf_column != -1
        )
        _refuse(
            self.leaf_column,
            bad_column,
            f"leaf_column must be in 0..{len(self.columns) - 1} at leaves and -1 elsewhere",
        )
        if len(set(self.families)) != len(self.families):
            raise ValueError(f"families must be distinct, got {self.families}")
        for name in self.families:
            if name.partition("[")[0] not in IN_CIRCUITS:
                raise ValueError(f"families must be among {tuple(IN_CIRCUITS)}, got {quoted(name)}")
        bad_family = np.where(
            is_leaf, (self.leaf_family < 0) | (self.leaf_family >= len(self.families)), self.leaf_family != -1
        )
        _refuse(
            self.leaf_family,
            bad_family,
            f"leaf_family must be in 0..{len(self.families) - 1} at leaves and -1 elsewhere",
        )

    def _some_column_below(self, node: int) -> str:
        while self.kind[node] != LEAF:
            node = int(self.children[self.child_ptr[node]])
        return self.names[self.leaf_column[node]]

    def __reduce__(self) -> tuple[Any, ...]:
        return Circuit, (
            self.kind, self.child_ptr, self.children, self.leaf_column, self.leaf_family,
            self.families, self.columns, dict(self.further_columns),
        )  # fmt: skip

    def with_parameters(
        self, log_weights: "npt.ArrayLike", leaf_parameters: "Mapping[str, npt.ArrayLike]"
    ) -> "ParameterisedCircuit":
        """Return the circuit with its parameters, which answers questions.

        For example, ``circuit.with_parameters(w, p).log_density(df)``.

        Parameters
        ----------
        log_weights : (n_sum_edges,) float64
            Log weight of each edge below a sum in the order of `edge_sum`; weights of a sum add up to 1.
        leaf_parameters : mapping of str to (n_leaves_of_family, p) float64
            See the table of `Circuit`.

        Examples
        --------
        >>> again = law.circuit.with_parameters(law.log_weights, law.leaf_parameters)
        >>> again.mean().values
        array([1., 1.])
        """
        from pymc_spn.circuits.structures.parameterised import ParameterisedCircuit

        return ParameterisedCircuit(self, log_weights, leaf_parameters)  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        """Return a dict that ``json.dumps`` accepts and `from_json` reads.

        Parameters are not part of a circuit: they are separate arrays.

        Examples
        --------
        >>> ps.Circuit.from_json(law.circuit.to_json()).n_nodes
        7
        """
        return circuit_to_json(self)

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> "Circuit":
        """Rebuild a circuit from the dict of `to_json`.

        Raises
        ------
        TypeError, ValueError
            If the data are not a mapping or of another format, or the arrays are not a circuit.

        Examples
        --------
        >>> ps.Circuit.from_json(law.circuit.to_json()).names
        ('x', 'y')
        """
        return cls(**fields_from_json(data))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Circuit):
            return NotImplemented
        arrays = ("kind", "child_ptr", "children", "leaf_column", "leaf_family")
        others = other.columns, other.families, other.further_columns
        return (self.columns, self.families, self.further_columns) == others and all(
            np.array_equal(getattr(self, a), getattr(other, a)) for a in arrays
        )

    def __hash__(self) -> int:
        return hash((self.names, self.kind.tobytes(), self.children.tobytes()))

    def _facts(self) -> Facts:
        nodes = f"{self.n_sum} sums, {self.n_product} products, {self.n_leaf} leaves"
        edges = f"{self.n_edges} edges"
        return Facts("Circuit", {"columns": f"{len(self.columns)} columns", "nodes": nodes, "edges": edges})

    def _listed(self) -> Listed:
        return list_of_columns(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns.

        Examples
        --------
        >>> law.circuit.names
        ('x', 'y')
        """
        return tuple(column_name(c) for c in self.columns)

    @property
    def n_nodes(self) -> int:
        """Number of nodes.

        Examples
        --------
        >>> law.circuit.n_nodes
        7
        """
        return self.kind.size

    @property
    def n_edges(self) -> int:
        """Number of edges, below sums and products.

        Examples
        --------
        >>> law.circuit.n_edges
        6
        """
        return self.children.size

    @property
    def n_sum_edges(self) -> int:
        """Number of edges below sums: the length of `log_weights`.

        Examples
        --------
        >>> law.circuit.n_sum_edges
        2
        """
        return self.edge_sum.size

    @property
    def n_sum(self) -> int:
        """Number of sums.

        Examples
        --------
        >>> law.circuit.n_sum
        1
        """
        return int(np.count_nonzero(self.kind == SUM))

    @property
    def n_product(self) -> int:
        """Number of products.

        Examples
        --------
        >>> law.circuit.n_product
        2
        """
        return int(np.count_nonzero(self.kind == PRODUCT))

    @property
    def n_leaf(self) -> int:
        """Number of leaves.

        Examples
        --------
        >>> law.circuit.n_leaf
        4
        """
        return int(np.count_nonzero(self.kind == LEAF))

    @property
    def leaves(self) -> np.ndarray:
        """Node numbers of the leaves, (n_leaf,) int64.

        Examples
        --------
        >>> law.circuit.leaves
        array([2, 3, 5, 6])
        """
        return np.flatnonzero(self.kind == LEAF)

    def children_of(self, node: int) -> np.ndarray:
        """Return the node numbers of the children of one node.

        Examples
        --------
        >>> law.circuit.children_of(0)
        array([1, 4])
        """
        return self.children[self.child_ptr[node] : self.child_ptr[node + 1]]

    def columns_of(self, leaf: int) -> tuple[int, ...]:
        """Return the columns of a leaf, in the order of its family.

        Examples
        --------
        >>> law.circuit.columns_of(law.circuit.leaves_of("gaussian")[0])
        (0,)
        """
        return int(self.leaf_column[leaf]), *self.further_columns.get(leaf, ())

    @cached_property
    def leaf_row(self) -> np.ndarray:
        """Row of each leaf in the parameters of its family, (n_nodes,) int64.

        It is -1 for sums and products.

        Examples
        --------
        >>> law.circuit.leaf_row
        array([-1, -1,  0,  1, -1,  2,  3])
        """
        row = np.full(self.n_nodes, -1)
        for family in self.families:
            leaves = self.leaves_of(family)
            row[leaves] = np.arange(leaves.size)
        return row

    def leaves_of(self, family: str) -> np.ndarray:
        """Return the node numbers of the leaves of one family.

        They are in the order of the family's rows in `leaf_parameters`.

        Parameters
        ----------
        family : str
            One of `families`.

        Returns
        -------
        (n_leaves_of_family,) int64

        Raises
        ------
        ValueError
            If the circuit has no such family.

        Examples
        --------
        >>> law.circuit.leaves_of("gaussian")
        array([2, 3, 5, 6])
        """
        if family not in self.families:
            raise ValueError(f"family must be among {self.families}, got {quoted(family)}")
        return np.flatnonzero(self.leaf_family == self.families.index(family))

    def scope(self, node: int) -> tuple[str, ...]:
        """Return the names of the columns below a node, in the order of `columns`.

        Parameters
        ----------
        node : int
            Number of the node, 0 for the root.

        Returns
        -------
        tuple of str

        Raises
        ------
        ValueError
            If there is no such node.

        Examples
        --------
        >>> law.circuit.scope(0)
        ('x', 'y')
        """
        if not 0 <= node < self.n_nodes:
            raise ValueError(f"node must be within 0..{self.n_nodes - 1}, got {node}")
        return tuple(self.names[d] for d in _bit_positions(self.scope_bits[node]))

    # -- levels: all children of a level's nodes are in earlier levels --------------------------------

    @cached_property
    def _levels(self) -> tuple[np.ndarray, ...]:
        """Inner nodes by height, from the leaves up; O(edges)."""
        n = self.n_nodes
        owner = np.repeat(np.arange(n), np.diff(self.child_ptr))
        by_child = np.argsort(self.children, kind="stable")
        parents = owner[by_child]
        parent_ptr = np.concatenate([[0], np.cumsum(np.bincount(self.children, minlength=n))])
        waiting = np.diff(self.child_ptr).copy()
        ready, levels = self.leaves, []
        while ready.size:
            above, times = np.unique(parents[_ranges(parent_ptr, ready)], return_counts=True)
            waiting[above] -= times
            ready = above[waiting[above] == 0]
            if ready.size:
                levels.append(ready)
        return tuple(levels)

    def steps(self) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        """Iterate over the sums and products, in groups from the leaves up.

        A group is (kind, nodes, their edges, start of each node's edges).

        Examples
        --------
        >>> layers = list(law.circuit.steps())  # from the leaves up
        """
        for level in self._levels:
            for kind in (SUM, PRODUCT):
                nodes = level[self.kind[level] == kind]
                if nodes.size:
                    degree = self.child_ptr[nodes + 1] - self.child_ptr[nodes]
                    yield kind, nodes, _ranges(self.child_ptr, nodes), np.cumsum(degree) - degree

    @cached_property
    def scope_bits(self) -> np.ndarray:
        """Bits of the columns below each node, (n_nodes, ceil(D / 64)) uint64.

        Bit d is set if column d is below the node.

        Examples
        --------
        >>> law.circuit.scope_bits.ravel()  # columns 0 and 1 below the root: 0b11
        array([3, 3, 1, 2, 3, 1, 2], dtype=uint64)
        """
        bits = np.zeros((self.n_nodes, (len(self.columns) + 63) // 64), dtype=np.uint64)
        leaves = self.leaves
        column = self.leaf_column[leaves]
        bits[leaves, column >> 6] = np.uint64(1) << (column & 63).astype(np.uint64)
        for node, columns in self.further_columns.items():
            for d in columns:
                bits[node, d >> 6] |= np.uint64(1) << np.uint64(d & 63)
        for _, nodes, edges, starts in self.steps():
            bits[nodes] = np.bitwise_or.reduceat(bits[self.children[edges]], starts, axis=0)
        return bits

    # -- checks ---------------------------------------------------------------------------------------

    def check_smooth(self) -> None:
        """Check that the children of each sum have the same scope.

        Raises
        ------
        ValueError
            If it is not so. The message names the sum, the child and a column that it lacks.

        Examples
        --------
        >>> law.circuit.check_smooth()  # raises ValueError if it is not
        """
        bits = self.scope_bits
        lacks = bits[self.edge_sum] & ~bits[self.edge_child]
        wrong = np.any(lacks != 0, axis=1)
        if np.any(wrong):
            e = int(np.argmax(wrong))
            node, name = self.edge_sum[e], self.names[_bit_positions(lacks[e])[0]]
            other = next(c for c in self.children_of(node) if name in self.scope(c))
            raise ValueError(
                f"circuit is not smooth: children {other} and {self.edge_child[e]} of sum {node} differ, "
                f"{name!r} is in the scope of the first alone"
            )

    def check_decomposable(self) -> None:
        """Check that the children of each product have disjoint scopes.

        Raises
        ------
        ValueError
            If it is not so. The message names the product, two children and the column they share.

        Examples
        --------
        >>> law.circuit.check_decomposable()  # raises ValueError if it is not
        """
        bits = self.scope_bits
        for kind, nodes, edges, starts in self.steps():
            if kind == SUM:
                continue
            sizes = np.bitwise_count(bits[self.children[edges]]).sum(axis=1, dtype=np.int64)
            wrong = np.add.reduceat(sizes, starts) != np.bitwise_count(bits[nodes]).sum(axis=1, dtype=np.int64)
            if not np.any(wrong):
                continue
            node = int(nodes[np.argmax(wrong)])
            owner: dict[str, int] = {}
            for child in self.children_of(node).tolist():
                for name in self.scope(child):
                    if name in owner:
                        raise ValueError(
                            f"circuit is not decomposable: children {owner[name]} and {child} "
                            f"of product {node} both contain {name!r}"
                        )
                    owner[name] = child

    def to_networkx(self) -> "nx.DiGraph":
        """Return the graph as a directed graph of networkx.

        Nodes carry ``kind``, leaves ``columns`` and ``family``, edges ``position``.

        Examples
        --------
        >>> law.circuit.to_networkx().number_of_nodes()
        7
        """
        return graph_of(self)


def _refuse(values: np.ndarray, wrong: np.ndarray, rule: str) -> None:
    if np.any(wrong):
        node = int(np.argmax(wrong))
        raise ValueError(f"{rule}, got {values[node]} at node {node}")


def _ranges(pointer: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """All positions of the CSR rows, one after the other."""
    lengths = pointer[rows + 1] - pointer[rows]
    starts = np.cumsum(lengths) - lengths
    return np.repeat(pointer[rows] - starts, lengths) + np.arange(lengths.sum())


def _bit_positions(words: np.ndarray) -> list[int]:
    return [64 * w + b for w, word in enumerate(words.tolist()) for b in range(64) if word >> b & 1]
