"""The support of an order posterior: the prefixes that its orders may run through."""

from dataclasses import dataclass

import numpy as np

from pymc_spn.dags import lattice_kernels
from pymc_spn.dags.dag import MOST_VARIABLES as MOST_IN_A_SET
from pymc_spn.dags.dag import refuse_wide
from pymc_spn.dags.parent_set_scores import ParentSetScores, places_of_orders
from pymc_spn.numerics.answer_steps import each
from pymc_spn.numerics.memory_limits import refuse_size

_BYTES_A_PREFIX = 2 * 8  # sums to and from it
_BYTES_AN_EDGE = 4 + 2 + 8 + 4 * 8  # lattice, places and shares of an explicit one
MOST_VARIABLES = 30  # that the kernels over all subsets are written for
LARGEST_LATTICE = 1 << 27
MOST_IDEALS = 2_000_000  # of a graph whose orders are counted
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

    def places(self, scores: ParentSetScores) -> np.ndarray:
        """(e,) int64: place in the flat tables of the set that all candidates before the variable of each edge are."""
        out = np.empty(self.n_edges, np.int64)
        lattice_kernels.places(self.masks, self.source, self.variable, scores.lookup, scores.offsets, out)
        return out

    def before(self, edge: np.ndarray) -> np.ndarray:
        """(d, d) probability that j stands before i at [j, i], from the probability of each edge."""
        prefix = self.masks[self.source]
        shares = [np.bincount(self.variable, edge * (prefix >> j & 1), self.d) for j in range(self.d)]
        return np.stack(shares)

    def holds(self, orders: np.ndarray) -> np.ndarray:
        """Whether each order, a row of variable numbers, lies in the lattice."""
        keys = self.source.astype(np.int64) * self.d + self.variable
        target = np.repeat(np.arange(self.n_prefixes), np.diff(self.ptr))
        by_key = np.argsort(keys, kind="stable")
        keys, target = keys[by_key], target[by_key]
        which, reached = np.arange(len(orders)), np.zeros(len(orders), np.int64)  # orders, and where they may be
        for i in orders.T:
            first, last = np.searchsorted(keys, reached * self.d + i[which] + [[0], [1]])
            n = last - first
            which = np.repeat(which, n)
            reached = target[np.repeat(last - np.cumsum(n), n) + np.arange(n.sum())]
        return np.isin(np.arange(len(orders)), which)

    @classmethod
    def all_prefixes(cls, d: int) -> "PrefixLattice":
        """All 2^d prefixes, hence all orders; prefix t has the number t."""
        return cls._connected(np.arange(1 << d, dtype=np.int64), np.zeros((d, d), bool))

    @classmethod
    def closed_under(cls, must_precede: np.ndarray, limit: int) -> "PrefixLattice | None":
        """All prefixes that hold, with a variable, all in its row of (d, d) bool; None beyond `limit` prefixes."""
        found = np.empty(limit, np.int64)
        both = sets_of_rows(must_precede), sets_of_rows(must_precede.T)
        n = lattice_kernels.closed_sets(*both, 0, limit, found)
        return None if n < 0 else cls._connected(np.sort(found[:n].view(np.uint64)).view(np.int64), must_precede)

    @classmethod
    def _connected(cls, masks: np.ndarray, must_precede: np.ndarray) -> "PrefixLattice":
        """Edges take away the variables behind which no other of the prefix must stand."""
        d, after = len(must_precede), sets_of_rows(must_precede.T)
        is_last = np.empty((masks.size, d), bool)
        for i in range(d):
            is_last[:, i] = (masks >> i & 1 == 1) & (masks & after[i] == 0)
        target, variable = np.nonzero(is_last)
        source = masks[target] ^ (np.int64(1) << variable)
        if masks.size < 1 << d:
            source = np.searchsorted(masks.view(np.uint64), source.view(np.uint64))
        ptr = np.concatenate([[0], np.cumsum(np.count_nonzero(is_last, axis=1))])
        return cls(d, masks, ptr, source.astype(np.int32), variable.astype(np.int16))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.d} variables, {self.n_prefixes:,} prefixes, {self.n_edges:,} edges)"


def whole_set(d: int) -> int:
    """All d variables as an int64 (-1 for 64)."""
    return -1 if d == 64 else (1 << d) - 1


def sets_of_rows(matrix: np.ndarray) -> np.ndarray:
    """(..., d) int64: the rows of (..., d, d) bool matrices as bits, of at most 64 variables."""
    packed = np.packbits(matrix, axis=-1, bitorder="little")
    padded = np.zeros((*matrix.shape[:-1], 8), np.uint8)
    padded[..., : packed.shape[-1]] = packed
    return padded.view("<i8")[..., 0].astype(np.int64)


def log_linear_extensions(must_precede: np.ndarray, what: str) -> np.ndarray:
    """(n,) log numbers of orders in which what must precede stands before each variable, (n, d, d) bool.

    Raises
    ------
    ValueError
        If parts that no edge joins have more than `MOST_IDEALS` prefixes (order ideals); `what` they are of.
    """
    before, after = sets_of_rows(must_precede), sets_of_rows(must_precede.swapaxes(1, 2))
    out = np.empty(len(before))
    for s in each(range(out.size)):
        out[s] = lattice_kernels.log_linear_extensions(before[s], after[s], MOST_IDEALS)
        if np.isnan(out[s]):
            raise ValueError(
                f"{what} {s} has more than {MOST_IDEALS:,} order ideals, so its orders are not counted; "
                "ps.DagPartition needs no such counts"
            )
    return out


def exact_lattice(scores: ParentSetScores, max_gigabytes: float) -> PrefixLattice | None:
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
    lattice = PrefixLattice.closed_under(scores.must_precede, limit) if limit > d else None
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
    return PrefixLattice.closed_under(must_precede, 1 << (SOON - 4)) is not None


PARTS = 5  # of each chain, whose spread gives standard errors


@dataclass(frozen=True, eq=False, repr=False)
class OrderPaths(PrefixLattice):
    """Orders from Markov chains as a lattice in which each is a path of its own; the same prefix occurs often.

    A path has the weight of its order under the evidence over that under the evidence that it was drawn with. The sums
    of the lattice are then those of weighted draws, and given each order they are exact.

    Parameters
    ----------
    orders : (chain, draw, d) int64
        Variables from first to last.
    log_starts : (chain * draw,) float64
        Log of what each path is multiplied by.
    r_hat : float
        The largest of the edges.
    size : float
        Effective number of orders, by their log weights.
    log_unit_error : float
        Standard error of the log weight of all paths together, nats.
    """

    orders: np.ndarray  # (chain, draw, d) int64
    log_starts: np.ndarray
    r_hat: float
    size: float
    log_unit_error: float = 0.0

    @classmethod
    def of(
        cls,
        orders: np.ndarray,
        log_weights: np.ndarray,
        mixing: tuple[float, float],
        log_unit: float = 0.0,
        log_unit_error: float = 0.0,
    ) -> "OrderPaths":
        """Paths of orders (chain, draw, d) with the log weights (chain * draw,) that they were drawn by.

        All paths together have the log weight `log_unit`.
        """
        d = orders.shape[-1]
        flat = orders.reshape(-1, d)
        n, inner = len(flat), len(flat) * (d - 1)
        places = np.arange(inner).reshape(n, d - 1)
        source = np.where(np.arange(d - 1) > 0, places, 0)
        ends = places[:, -1] + 1 if d > 1 else np.zeros(n, np.int64)
        ptr = np.concatenate([[0], np.arange(inner + 1), [inner + n]]).astype(np.int64)
        return cls(
            d,
            np.empty(0, np.int64),  # prefixes are known by their orders
            ptr,
            np.concatenate([source.ravel(), ends]).astype(np.int32),
            np.concatenate([flat[:, :-1].ravel(), flat[:, -1]]).astype(np.int16),
            orders,
            log_unit - np.log(n) - log_weights,
            *mixing,
            log_unit_error,
        )

    def places(self, scores: ParentSetScores) -> np.ndarray:
        orders = self.orders.reshape(-1, self.d)
        found = np.take_along_axis(places_of_orders(scores, orders), orders, axis=1)
        return np.concatenate([found[:, :-1].ravel(), found[:, -1]])

    def before(self, edge: np.ndarray) -> np.ndarray:
        position = np.argsort(self.orders.reshape(-1, self.d), axis=1)
        shares = edge[-len(position) :]
        return np.stack([shares @ (position[:, j, None] < position) for j in range(self.d)])

    @property
    def log_factors(self) -> np.ndarray:
        """(e,) log of what each edge's weight is multiplied by: that of its path, at its last edge."""
        out = np.zeros(self.n_edges)
        out[-self.log_starts.size :] = self.log_starts
        return out

    def parts(self) -> "list[OrderPaths]":
        """Stretches of the chains, each as the sample of a posterior."""
        found = []
        n_chains, n_draws, _ = self.orders.shape
        starts = self.log_starts.reshape(n_chains, n_draws) + np.log(n_chains * n_draws)
        for chain in range(n_chains):
            for part in np.array_split(np.arange(n_draws), min(PARTS, n_draws)):
                own = self.orders[chain : chain + 1, part]
                found.append(self.of(own, -starts[chain, part], (self.r_hat, self.size)))
        return found
