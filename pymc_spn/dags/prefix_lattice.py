"""The support of an order posterior: the prefixes that its orders may run through."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pymc_spn.dags import lattice_kernels
from pymc_spn.dags.dag import MOST_VARIABLES as MOST_IN_A_SET
from pymc_spn.dags.dag import refuse_wide
from pymc_spn.numerics.memory_limits import refuse_size

if TYPE_CHECKING:
    from pymc_spn.dags.parent_set_scores import ParentSetScores

_BYTES_A_PREFIX = 2 * 8  # sums to and from it
_BYTES_AN_EDGE = 4 + 1 + 4 + 4 * 8  # lattice, index and shares of an explicit one
MOST_VARIABLES = 30  # that the kernels over all subsets are written for
LARGEST_LATTICE = 1 << 27
SOON = 22  # variables
ADVICE = "use ps.DagPosterior, which samples orders"


@dataclass(frozen=True, eq=False, repr=False)
class PrefixLattice:
    """Prefixes (sets of variables) and the edges between those that differ by one variable.

    Its orders are all chains from the empty set to the whole. It is a deterministic order sum-product network. A prefix
    is a sum node. An edge is the product of a leaf (the parents of the added variable inside the smaller prefix) and
    the smaller prefix. Made by `all_prefixes` or `closed_under`.

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

    def holds(self, orders: np.ndarray) -> np.ndarray:
        """Whether each order, a row of variable numbers, lies in the lattice."""
        inside: np.ndarray = np.isin(np.cumsum(np.int64(1) << orders, axis=1), self.masks).all(axis=1)
        return inside

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
        found = np.empty(limit, np.int64)
        n, d = lattice_kernels.closed_sets(must_precede, limit, found), must_precede.size
        if n < 0:
            return None
        masks, ptr = np.sort(found[:n].view(np.uint64)).view(np.int64), np.empty(n + 1, np.int64)
        n_edges = lattice_kernels.connect(masks, ptr, np.empty(0, np.int32), np.empty(0, np.int16))
        source, variable = np.empty(n_edges, np.int32), np.empty(n_edges, np.int16)
        lattice_kernels.connect(masks, ptr, source, variable)
        return cls(d, masks, ptr, source, variable)

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


def exact_lattice(scores: "ParentSetScores", max_gigabytes: float) -> PrefixLattice | None:
    """The lattice of all orders that knowledge allows; None if that is every order.

    Raises
    ------
    ValueError
        If it would need more than `max_gigabytes`.
    """
    d = scores.d
    refuse_wide("a sum over all orders", d)
    tables = 16 * scores.log_scores.size
    if not np.any(scores.must_precede):
        needed = tables + (_BYTES_A_PREFIX << d)
        if d > MOST_VARIABLES or needed > 1e9 * max_gigabytes:
            refuse_size(f"the exact posterior has 2^{d} = {2.0**d:.3g} prefixes and", needed, ADVICE, max_gigabytes)
        return None
    room = int(max(max_gigabytes * 1e9 - tables, 0) / (_BYTES_AN_EDGE * (d + 1) / 2))
    limit = min(LARGEST_LATTICE, room)
    lattice = PrefixLattice.closed_under(scores.precede_sets, limit) if limit > d else None
    if lattice is None:
        what = f"the exact posterior has more than {limit:,} prefixes that keep the tiers and"
        refuse_size(what, tables + limit * _BYTES_AN_EDGE * (d + 1) / 2, ADVICE, max_gigabytes)
    return lattice


def sums_soon(must_precede: np.ndarray) -> bool:
    """Whether the exact posterior takes less than a minute or so: up to 22 variables, or as few prefixes by tiers."""
    d = len(must_precede)
    if d > MOST_IN_A_SET:
        return False
    if not must_precede.any():
        return d <= SOON
    return PrefixLattice.closed_under(sets_of_rows(must_precede), 1 << (SOON - 4)) is not None
