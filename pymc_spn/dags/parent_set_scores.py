"""The table of local scores over all subsets of each variable's candidate parents, and arrays that follow from it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pymc_spn.dags.candidates import bits_of
from pymc_spn.dags.dag import DAG, refuse_wide
from pymc_spn.dags.level_counts import LevelCounts
from pymc_spn.dags.scores import GaussianMoments
from pymc_spn.numerics.html_repr import Facts, Listed, NotebookRepr
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.numerics.read_only_views import read_only_view
from pymc_spn.numerics.threads import for_each, parts_of_rows
from pymc_spn.tables.column import as_name

MOST_NAMED = 20  # variables that a message lists
AT_A_TIME = 100  # orders that a thread takes


@dataclass(frozen=True, eq=False, repr=False)
class ParentSetScores(NotebookRepr):
    """Log scores of all parent sets among the candidates; `LocalScores` says what the fields are, and makes them."""

    names: tuple[str, ...]
    candidates: np.ndarray
    n_candidates: np.ndarray
    log_scores: np.ndarray
    must_precede: np.ndarray
    restricted: tuple[str, ...] = ()
    score: str = "table"
    prior: str = "uniform"
    gaussian: GaussianMoments | None = None
    counts: LevelCounts | None = None
    outside: np.ndarray | None = None
    frame: str | None = None

    def __post_init__(self) -> None:
        d = len(self.names)
        for name, dtype, shape in (
            ("candidates", np.int64, None),
            ("n_candidates", np.int64, (d,)),
            ("log_scores", np.float64, None),
            ("must_precede", np.bool_, (d, d)),
        ):
            array = np.ascontiguousarray(getattr(self, name), dtype)
            if shape is not None and array.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
            array = array.view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if self.log_scores.shape != (self.offsets[-1],):
            raise ValueError(f"log_scores must have {self.offsets[-1]} entries, got shape {self.log_scores.shape}")
        for name, top in zip(self.names, self.tops, strict=True):
            if not np.isfinite(top):
                raise ValueError(f"log_scores of {name!r} must have a finite largest value, got {top}")

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrays come out of a pickle writable, and kernels would be compiled once more for them."""
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        self.__dict__.update(state)

    # ---- arrays that follow from the fields

    @property
    def d(self) -> int:
        """Number of variables.

        Examples
        --------
        >>> scores.d
        3
        """
        return len(self.names)

    @cached_property
    def offsets(self) -> np.ndarray:
        """(d + 1,) int64: where each variable's part of the flat tables begins.

        Examples
        --------
        >>> scores.offsets
        array([ 0,  4,  8, 12])
        """
        out = np.concatenate([[0], np.cumsum(np.left_shift(1, self.n_candidates))]).astype(np.int64)
        out.flags.writeable = False
        return out

    @cached_property
    def tops(self) -> np.ndarray:
        """(d,) float64: each variable's largest log score.

        Examples
        --------
        >>> scores.tops.shape
        (3,)
        """
        out = np.maximum.reduceat(self.log_scores, self.offsets[:-1])
        out.flags.writeable = False
        return out

    @cached_property
    def candidate_sets(self) -> tuple[int, ...]:
        """The candidates of each variable as bits.

        Examples
        --------
        >>> scores.candidate_sets
        (6, 5, 3)
        """
        return tuple(sum(1 << int(j) for j in self.candidates[i, : self.n_candidates[i]]) for i in range(self.d))

    @cached_property
    def precede_sets(self) -> np.ndarray:
        """(d,) int64: `must_precede` as bits, of at most 64 variables.

        Examples
        --------
        >>> scores.precede_sets  # nothing is required
        array([0, 0, 0])
        """
        refuse_wide("sets of variables as bits", self.d)
        from pymc_spn.dags.prefix_lattice import sets_of_rows

        return read_only_view(sets_of_rows(self.must_precede))

    @cached_property
    def lookup(self) -> np.ndarray:
        """(d, n_bytes, 256) int32: table of `bit_kernels.subset_index`, of at most 64 variables.

        Examples
        --------
        >>> scores.lookup[0, 0, 0b111].item()  # both other variables are before the first: subset 0b11
        3
        """
        from pymc_spn.dags.bit_kernels import index_lookup

        refuse_wide("sets of variables as bits", self.d)
        return read_only_view(index_lookup(self.candidates, self.n_candidates))

    @cached_property
    def slots(self) -> np.ndarray:
        """(d, d) int8: bit of each variable in the subset indices of each, -1 where it is not a candidate.

        Examples
        --------
        >>> scores.slots
        array([[-1,  0,  1],
               [ 0, -1,  1],
               [ 0,  1, -1]], dtype=int8)
        """
        from pymc_spn.dags.bit_kernels import slots_of

        return read_only_view(slots_of(self.candidates))

    @cached_property
    def log_sums(self) -> np.ndarray:
        """Flat like `log_scores`: entry m of variable i is the log of the sum of exp(score) over all subsets of m.

        The log weight of variable i behind the prefix U is ``log_sums[offsets[i] + subset_index(lookup, i, U)]``.

        Examples
        --------
        >>> scores.log_sums.shape
        (12,)
        """
        from pymc_spn.dags.zeta_kernels import log_sums_of

        out = np.empty(self.log_scores.size)
        for part in map(slice, self.offsets[:-1], self.offsets[1:]):
            log_sums_of(self.log_scores[part], out[part])
        out.flags.writeable = False
        return out

    def of(self, name: str) -> np.ndarray:
        """Return the log scores of one variable's parent sets.

        Parameters
        ----------
        name : str

        Returns
        -------
        (2^k,) float64
            In nats, a view; index m is the set of `parents_of_index`.

        Raises
        ------
        ValueError
            If there is no such variable.

        Examples
        --------
        >>> scores.of("age").shape
        (4,)
        """
        i = self.position(name)
        return self.log_scores[self.offsets[i] : self.offsets[i + 1]]

    def position(self, name: str) -> int:
        """Number of a variable, an int; ValueError where there is no such `name`.

        Examples
        --------
        >>> scores.position("income")
        1
        """
        if (asked := as_name(name)) not in self.names:
            raise ValueError(f"there is no variable {name!r}; the variables are {quoted(list(self.names))}")
        return self.names.index(asked)

    def parents_of_index(self, child: int, index: int) -> tuple[str, ...]:
        """Return the names of the parents that an index of a variable stands for.

        Examples
        --------
        >>> scores.parents_of_index(0, 1)
        ('income',)
        """
        return tuple(self.names[self.candidates[child, k]] for k in bits_of(int(index)))

    def candidate_list(self, child: int) -> list[int]:
        """Numbers of the candidate parents of a variable, ascending.

        Examples
        --------
        >>> scores.candidate_list(0)
        [1, 2]
        """
        found: list[int] = self.candidates[child, : self.n_candidates[child]].tolist()
        return found

    def index_of_parents(self, child: int, parents: int) -> int:
        """Return the index of a parent set (bits) of a child, or -1 if it has none.

        Examples
        --------
        >>> scores.index_of_parents(0, 2)
        1
        """
        index = 0
        for k, j in enumerate(self.candidates[child, : self.n_candidates[child]]):
            if parents >> int(j) & 1:
                index |= 1 << k
                parents &= ~(1 << int(j))
        return -1 if parents else index

    def log_score(self, graph: np.ndarray) -> float:
        """Calculate the log score of a graph.

        Parameters
        ----------
        graph : (d, d) bool
            Parents by children.

        Returns
        -------
        float
            In nats; -inf if a parent is not a candidate.

        Raises
        ------
        ValueError
            If the shape does not fit or there is a cycle.

        Examples
        --------
        >>> linked = ps.DAG.from_edges(scores.names, [("income", "debt")])
        >>> bool(scores.log_score(linked.adjacency) > scores.log_score(np.zeros((3, 3), bool)))
        True
        """
        graph = DAG(self.names, graph).adjacency
        total = 0.0
        for i in range(self.d):
            m = self.index_of_parents(i, sum(1 << int(j) for j in np.flatnonzero(graph[:, i])))
            total += self.log_scores[self.offsets[i] + m] if m >= 0 else -np.inf
        return float(total)

    def _facts(self) -> Facts:
        facts = {"variables": f"{self.d} variables", "score": self.score, "prior": f"prior {self.prior}"}
        facts["sets"] = f"{self.log_scores.size:,} parent sets"
        return Facts(
            type(self).__name__, facts | {"candidates": f"candidates {self.choice}" if self.restricted else ""}
        )

    def _listed(self) -> Listed:
        rows = ((name, int(n), f"{2 ** int(n):,}") for name, n in zip(self.names, self.n_candidates, strict=True))
        return Listed(f"{self.d} variables", ("variable", "candidate parents", "parent sets"), rows)

    @property
    def choice(self) -> str:
        """Say in words which variables are candidate parents.

        Examples
        --------
        >>> scores.choice
        'all'
        """
        if not self.restricted:
            return "all"
        few = len(self.restricted) <= MOST_NAMED
        words = "restricted for " + (", ".join(self.restricted) if few else f"{len(self.restricted)} variables")
        return words + (f", edges left out have at most about {self.left_out:.2g}" if self.outside is not None else "")

    @property
    def left_out(self) -> float:
        """Largest estimated probability of an edge whose parent is not a candidate; NaN where it was not estimated.

        Examples
        --------
        >>> scores.left_out  # every variable is a candidate
        nan
        """
        return float("nan") if self.outside is None else float(np.nanmax(self.outside))


def places_of_orders(scores: ParentSetScores, orders: np.ndarray) -> np.ndarray:
    """(n, d) int64: place in the flat tables of the set that all candidates before each variable are, in each order.

    An order's log weight, its graphs summed out, is the sum of the log sums there.
    """
    from pymc_spn.dags.order_mcmc_kernels import indices_of_orders

    found = np.zeros(orders.shape, np.int64)
    indices_of_orders(orders, scores.slots, found)
    return found + scores.offsets[:-1]


def edges_given_orders(scores: ParentSetScores, log_sums: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Exact probability of every edge given each order.

    Parameters
    ----------
    scores : ParentSetScores
    log_sums : (scores.log_scores.size,) float64
        As `LocalScores.log_sums`, perhaps under evidence.
    places : (n, d) int64
        From `places_of_orders`.

    Returns
    -------
    (n, d, K) float64
        By child and place among its candidates; `pair_matrix` brings the last two into (parent, child).

    References
    ----------
    Friedman and Koller (2003), doi:10.1023/A:1020249912095, equation 9.
    """
    out = np.empty((len(places), *scores.candidates.shape))
    bits = 1 << np.arange(scores.candidates.shape[1])

    def ask(some: slice) -> None:
        own = places[some, :, None]
        fewer = own - ((own - scores.offsets[:-1, None]) & bits)
        with np.errstate(invalid="ignore"):  # orders of no weight have no edges
            out[some] = -np.expm1(log_sums[fewer] - log_sums[own])

    for_each(ask, parts_of_rows(len(places), AT_A_TIME))
    return out


def pair_matrix(scores: ParentSetScores, by_candidate: np.ndarray) -> np.ndarray:
    """(..., d, d) parents by children, zero where there is no candidate, from (..., d, K) by child and candidate."""
    child, place = np.nonzero(scores.candidates >= 0)
    out = np.zeros((*by_candidate.shape[:-2], scores.d, scores.d), by_candidate.dtype)
    out[..., scores.candidates[child, place], child] = by_candidate[..., child, place]
    return out
