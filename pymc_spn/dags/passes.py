"""What one pass through an order posterior yields: total weight, shares of prefixes and edges, parent-set posteriors.

Sums over all prefixes run in linear space where their total shows that nothing of weight was lost, else in logs.
"""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from pymc_spn.dags import lattice_kernels, subset_kernels, zeta_kernels
from pymc_spn.dags.leaf_tables import THREADS_FROM, BaseTables, LeafTables
from pymc_spn.dags.prefix_lattice import PrefixLattice, exact_lattice
from pymc_spn.numerics.threads import for_each

LARGEST_TABLES = 8.0  # gigabytes of a lattice that is made for one sum
SUMS_TO_AND_FROM = 2  # time of both, in that of the sums over subsets of all variables: for progress bars
KEPT = 1 << 20, 1 << 24  # least and most probabilities of parent sets that are kept: fewer are computed in no time


class LatticePasses:
    """Passes over an explicit lattice, in logs.

    Parameters
    ----------
    lattice : PrefixLattice
    places : (e,) int64
        Of the lattice and the scores.
    tables : LeafTables
    """

    def __init__(self, lattice: PrefixLattice, places: np.ndarray, tables: LeafTables):
        self.lattice, self.places, self.tables = lattice, places, tables

    @cached_property
    def log_weights(self) -> np.ndarray:
        """(e,) log weights, without factors of the lattice's own."""
        return self.tables.flat_log_sums()[self.places]

    @cached_property
    def _log_steps(self) -> np.ndarray:
        """(e,) log weights of the edges of chains: with the lattice's own factors, where it has any."""
        factors = self.lattice.log_factors
        return self.log_weights if factors is None else self.log_weights + factors

    @cached_property
    def _sums(self) -> np.ndarray:
        out = np.empty(self.lattice.n_prefixes)
        lattice_kernels.log_forward(self.lattice.ptr, self.lattice.source, self._log_steps, out)
        return out

    @property
    def log_total(self) -> float:
        """Log of the summed weight of all orders."""
        return float(self._sums[-1])

    @cached_property
    def from_source(self) -> np.ndarray:
        """(e,) probability of an edge given the prefix that it leads to."""
        out = np.empty(self.lattice.n_edges)
        lattice_kernels.log_shares(self.lattice.ptr, self.lattice.source, self._log_steps, self._sums, out)
        return out

    @cached_property
    def _shares(self) -> tuple[np.ndarray, np.ndarray]:
        prefix, edge = np.empty(self.lattice.n_prefixes), np.empty(self.lattice.n_edges)
        lattice_kernels.backward(self.lattice.ptr, self.lattice.source, self.from_source, prefix, edge)
        return prefix, edge

    @property
    def prefix(self) -> np.ndarray:
        """(n,) posterior probability of each prefix."""
        return self._shares[0]

    @property
    def edge(self) -> np.ndarray:
        """(e,) posterior probability of each edge of the lattice."""
        return self._shares[1]

    @cached_property
    def _spread(self) -> np.ndarray:
        out = np.empty(self.tables.scores.log_scores.size)
        lattice_kernels.log_spread(self.places, self.edge, self.log_weights, out)
        return out

    def parent_sets(self, i: int) -> np.ndarray:
        """(2^k,) posterior of one variable's parent sets."""
        scores, logs = self.tables.scores, self.tables.log_scores(i)
        part = self._spread[scores.offsets[i] : scores.offsets[i + 1]].copy()
        zeta_kernels.log_sums_inside(part, True)
        with np.errstate(invalid="ignore"):
            return np.where(np.isneginf(logs), 0.0, np.exp(part + logs))

    def edges(self) -> np.ndarray:
        """(d, d) posterior probability of every edge, parents by children."""
        return edge_matrix(self.tables.scores, self.parent_sets)


def nothing_lost(sums: np.ndarray, rest: np.ndarray, total: float) -> bool:
    """Whether linear sums to and from all prefixes are exact to rounding although some may have underflowed.

    What is lost at a prefix whose sum underflowed is at most the smallest number times the sum of its completions, and
    the other way round.
    """
    tiny = zeta_kernels.TINY
    if not tiny < total < np.inf:
        return False
    if min(sums.min(), rest.min()) >= tiny:
        return True
    lost = float(rest[sums < tiny].sum() + sums[rest < tiny].sum())
    return lost * tiny <= 1e-14 * total


def passes_over_all(scores: Any, log_scores: np.ndarray) -> "FullPasses | LatticePasses":
    """Passes over all orders that knowledge allows, with other scores of the parent sets."""
    none = (0,) * scores.d
    tables = LeafTables(BaseTables(replace(scores, log_scores=log_scores)), none, none)
    lattice = exact_lattice(scores, LARGEST_TABLES)
    if lattice is None:
        passes = FullPasses(tables)
        if passes.exact:
            return passes
        lattice = PrefixLattice.all_prefixes(scores.d)
    return LatticePasses(lattice, lattice.places(scores), tables)


class FullPasses:
    """Passes over all 2^d prefixes, without an explicit lattice; linear sums only.

    Parameters
    ----------
    tables : LeafTables
    """

    def __init__(self, tables: LeafTables):
        self.tables = tables
        scores = tables.scores
        self.d = scores.d
        self.unrestricted = scores.d >= subset_kernels.LEAST and bool(np.all(scores.n_candidates == scores.d - 1))
        self._kept: np.ndarray | None = None

    @cached_property
    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Sums to and from every prefix; neither needs the other."""
        scores, factors = self.tables.scores, self.tables.base.factors
        flat = self.tables.flat_sums()
        out = np.empty(1 << self.d), np.empty(1 << self.d)

        def work(k: int) -> None:
            if self.unrestricted:
                subset_kernels.sums_over_orders(flat.reshape(self.d, -1), factors, out[k], bool(k))
            else:
                tables = scores.lookup, scores.offsets, flat, factors
                subset_kernels.sums_over_orders_restricted(*tables, out[k], bool(k))
            self.tables.base.bar.advance(SUMS_TO_AND_FROM * self.d // 2)

        for_each(work, range(2), scores.log_scores.size >= THREADS_FROM)
        return out

    @cached_property
    def exact(self) -> bool:
        """Whether linear sums lost nothing."""
        if not self.tables.sound:
            return False
        prefixes, completions = self._sums
        return nothing_lost(prefixes, completions, prefixes[-1])

    @property
    def log_total(self) -> float:
        """Log of the summed weight of all orders."""
        return float(np.log(self._sums[0][-1]) + self.tables.log_unit)

    def parent_sets(self, i: int) -> np.ndarray:
        """(2^k,) posterior of one variable's parent sets."""
        if self._kept is not None:
            scores = self.tables.scores
            return self._kept[scores.offsets[i] : scores.offsets[i + 1]]
        return self._parent_sets(i, np.empty(1 << self.tables.scores.n_candidates[i]))

    def _parent_sets(self, i: int, out: np.ndarray) -> np.ndarray:
        scores, tables = self.tables.scores, self.tables
        prefixes, completions = self._sums
        log_unit = np.log(prefixes[-1]) + tables.log_scale[i] - np.log(tables.base.factors[i])
        arguments = prefixes, completions, tables.log_scores(i), log_unit, out
        if self.unrestricted:
            subset_kernels.parent_set_posterior(i, *arguments)
        else:
            subset_kernels.parent_set_posterior_restricted(i, scores.lookup, *arguments)
        return out

    def edges(self) -> np.ndarray:
        """(d, d) posterior probability of every edge, parents by children.

        The parent-set posteriors that this needs are kept for later questions, unless they are few or very many.
        """
        self._sums  # noqa: B018  before the threads start
        scores = self.tables.scores
        if self._kept is not None or not KEPT[0] <= scores.log_scores.size <= KEPT[1]:
            return edge_matrix(scores, self.parent_sets)
        kept = np.empty(scores.log_scores.size)
        out = edge_matrix(scores, lambda i: self._parent_sets(i, kept[scores.offsets[i] : scores.offsets[i + 1]]))
        self._kept = kept
        return out


def edge_matrix(scores: Any, parent_sets: Any) -> np.ndarray:
    """(d, d) edge probabilities from every variable's parent-set posterior."""
    out = np.zeros((scores.d, scores.d))

    def work(i: int) -> None:
        table = parent_sets(i)
        k = scores.n_candidates[i]
        column = np.empty(k)
        subset_kernels.inclusion(table, column)
        out[scores.candidates[i, :k], i] = np.minimum(column, 1.0)  # a sum that should be one may round above it

    for_each(work, range(scores.d), scores.log_scores.size >= THREADS_FROM)
    return out
