"""The support of an order posterior: the prefixes that its orders may run through."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.dags import lattice_kernels

if TYPE_CHECKING:
    from pymc_spn.dags.parent_set_scores import ParentSetScores


@dataclass(frozen=True, eq=False, repr=False)
class PrefixLattice:
    """Prefixes (sets of variables) and the edges between those that differ by one variable.

    Its orders are all chains from the empty set to the whole. It is a deterministic order sum-product network. A prefix
    is a sum node. An edge is the product of a leaf (the parents of the added variable inside the smaller prefix) and
    the smaller prefix. Made by `of_prefixes`, `all_prefixes` or `closed_under`.

    Parameters
    ----------
    d : int
        Number of variables.
    masks : (n,) int64
        Prefixes as bits, sorted as unsigned numbers; the first is empty, the last holds all variables. Every one lies
        on a chain.
    ptr : (n + 1,) int64
        Edges into prefix t are ``ptr[t]:ptr[t + 1]``.
    source : (e,) int32
        Prefix that an edge comes from.
    variable : (e,) int16
        Variable that an edge adds.
    """

    d: int
    masks: np.ndarray
    ptr: np.ndarray
    source: np.ndarray
    variable: np.ndarray

    @property
    def log_factors(self) -> np.ndarray | None:
        """(e,) log of what the weight of each edge is multiplied by; None for nothing, as in all but sampled orders."""
        return None

    @property
    def n_prefixes(self) -> int:
        """Number of prefixes."""
        return self.ptr.size - 1

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return self.source.size

    @cached_property
    def sizes(self) -> np.ndarray:
        """(n,) number of variables in each prefix."""
        return np.bitwise_count(self.masks.view(np.uint64)).astype(np.int64)

    def indices(self, scores: "ParentSetScores") -> np.ndarray:
        """(e,) int32: subset index, among the candidates of the variable of each edge, of the prefix before it."""
        out = np.empty(self.n_edges, np.int32)
        lattice_kernels.edge_indices(self.masks, self.ptr, self.source, self.variable, scores.lookup, out)
        return out

    def before(self, edge: np.ndarray) -> np.ndarray:
        """(d, d) probability that j stands before i at [j, i], from the probability of each edge."""
        out = np.empty((self.d, self.d))
        lattice_kernels.before(self.masks, self.source, self.variable, edge, out)
        return out

    @cached_property
    def n_orders(self) -> float:
        """Number of orders, as a float; inf beyond 1e308."""
        out = np.empty(self.n_prefixes)
        with np.errstate(over="ignore"):
            lattice_kernels.forward(self.ptr, self.source, np.ones(self.n_edges), out)
        return float(out[-1])

    def holds(self, orders: Any) -> np.ndarray:
        """Whether each order, a row of variable numbers, lies in the lattice."""
        orders = np.ascontiguousarray(orders, np.int64)
        out = np.empty(len(orders), bool)
        lattice_kernels.orders_inside(orders, self.masks, out)
        return out

    @classmethod
    def of_prefixes(cls, d: int, prefixes: Any) -> "PrefixLattice":
        """Lattice of all chains through given prefixes; those on no chain are left out.

        Parameters
        ----------
        d : int
        prefixes : (n,) int64
            In any order, repeated or not; the empty set and the whole may be missing.

        Raises
        ------
        ValueError
            If no chain leads from the empty set to the whole.
        """
        whole = whole_set(d)
        masks = np.unique(np.append(np.asarray(prefixes, np.int64), [0, whole]).view(np.uint64)).view(np.int64)
        if np.any(masks & ~whole):
            raise ValueError(f"prefixes must be sets of the {d} variables")
        lattice = cls._connected(d, masks)
        keep = np.empty(masks.size, bool)
        n = lattice_kernels.on_a_chain(lattice.ptr, lattice.source, keep)
        if not keep[0]:
            raise ValueError("prefixes: no chain of them leads from the empty set to all variables")
        return lattice if n == masks.size else cls._connected(d, masks[keep])

    @classmethod
    def _connected(cls, d: int, masks: np.ndarray) -> "PrefixLattice":
        ptr = np.empty(masks.size + 1, np.int64)
        nothing = np.empty(0, np.int32), np.empty(0, np.int16)
        n_edges = lattice_kernels.connect(masks, ptr, *nothing)
        source, variable = np.empty(n_edges, np.int32), np.empty(n_edges, np.int16)
        lattice_kernels.connect(masks, ptr, source, variable)
        return cls(d, masks, ptr, source, variable)

    @classmethod
    def all_prefixes(cls, d: int) -> "PrefixLattice":
        """All 2^d prefixes, hence all orders; prefix t has the number t."""
        n_edges = d << (d - 1)
        ptr, source, variable = (
            np.empty((1 << d) + 1, np.int64),
            np.empty(n_edges, np.int32),
            np.empty(n_edges, np.int16),
        )
        lattice_kernels.connect_all(d, ptr, source, variable)
        return cls(d, np.arange(1 << d, dtype=np.int64), ptr, source, variable)

    @classmethod
    def closed_under(cls, must_precede: np.ndarray, limit: int) -> "PrefixLattice | None":
        """All prefixes that hold, with a variable, all that must precede it; None beyond `limit` prefixes."""
        out = np.empty(limit, np.int64)
        n = lattice_kernels.closed_sets(must_precede, limit, out)
        return None if n < 0 else cls.of_prefixes(must_precede.size, out[:n])

    def __repr__(self) -> str:
        return f"PrefixLattice({self.d} variables, {self.n_prefixes:,} prefixes, {self.n_edges:,} edges)"


def whole_set(d: int) -> int:
    """All d variables as an int64 (-1 for 64)."""
    return -1 if d == 64 else (1 << d) - 1


def sets_of_rows(matrix: np.ndarray) -> np.ndarray:
    """(d,) int64: the rows of a (d, d) bool matrix as bits, of at most 64 variables."""
    bits = np.uint64(1) << np.arange(len(matrix), dtype=np.uint64)
    found: np.ndarray = (matrix * bits).sum(axis=1, dtype=np.uint64).view(np.int64)
    return found
