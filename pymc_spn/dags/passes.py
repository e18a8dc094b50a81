"""What one pass through an order posterior yields: total weight, shares of prefixes and edges, parent-set posteriors.

Sums run in linear space where their total shows that nothing of weight was lost, else in logs.
"""

from functools import cached_property
from typing import Any

import numpy as np

from pymc_spn.dags import lattice_kernels, subset_kernels, zeta_kernels
from pymc_spn.dags.leaf_tables import THREADS_FROM, LeafTables
from pymc_spn.dags.parent_set_scores import ParentSetScores
from pymc_spn.dags.prefix_lattice import PrefixLattice
from pymc_spn.numerics.threads import for_each

SUMS_TO_AND_FROM = 2  # time of both, in that of the sums over subsets of all variables: for progress bars
KEPT = 1 << 20, 1 << 24  # least and most probabilities of parent sets that are kept: fewer are computed in no time


class LatticePasses:
    """Passes over an explicit lattice.

    Parameters
    ----------
    lattice : PrefixLattice
    index : (e,) int32
        Subset index of every edge, from `lattice_kernels.edge_indices`.
    tables : LeafTables
    base : (e,) float64 arrays, optional
        Scaled weights of the edges without evidence.
    """

    def __init__(self, lattice: PrefixLattice, index: np.ndarray, tables: LeafTables, base: np.ndarray | None = None):
        self.lattice, self.index, self.tables = lattice, index, tables
        self.base = base

    @cached_property
    def weights(self) -> np.ndarray:
        """(e,) scaled linear weights."""
        lattice, tables = self.lattice, self.tables
        if self.base is None:
            out = np.empty(lattice.n_edges)
            arguments = tables.scores.offsets, tables.flat_sums(), tables.base.factors
            lattice_kernels.gather(*arguments, lattice.variable, self.index, out)
            return out
        if not tables.leaves:
            return self.base
        out = self.base.copy()
        for i, leaf in tables.leaves.items():
            lattice_kernels.gather_one(i, leaf.sums, tables.base.factors[i], lattice.variable, self.index, out)
        return out

    @cached_property
    def log_weights(self) -> np.ndarray:
        """(e,) log weights, not scaled."""
        out = np.empty(self.lattice.n_edges)
        flat = self.tables.flat_log_sums()
        ones = np.ones(self.tables.scores.d)
        lattice_kernels.gather(self.tables.scores.offsets, flat, ones, self.lattice.variable, self.index, out)
        return out

    @cached_property
    def _log_steps(self) -> np.ndarray:
        """(e,) log weights of the edges of chains: with the lattice's own factors, where it has any."""
        factors = self.lattice.log_factors
        return self.log_weights if factors is None else self.log_weights + factors

    @cached_property
    def _sums(self) -> tuple[np.ndarray, bool]:
        lattice = self.lattice
        out = np.empty(lattice.n_prefixes)
        if self.tables.sound and lattice.log_factors is None:
            rest = np.empty(lattice.n_prefixes)
            lattice_kernels.forward(lattice.ptr, lattice.source, self.weights, out)
            lattice_kernels.completions(lattice.ptr, lattice.source, self.weights, rest)
            if lattice_kernels.nothing_lost(out, rest, out[-1]):
                return out, True
        lattice_kernels.log_forward(lattice.ptr, lattice.source, self._log_steps, out)
        return out, False

    @property
    def linear(self) -> bool:
        """Whether the linear path was exact."""
        return self._sums[1]

    @cached_property
    def log_total(self) -> float:
        """Log of the summed weight of all orders."""
        if not self.tables.possible:
            return -np.inf
        sums, linear = self._sums
        return float(np.log(sums[-1]) + self.tables.log_unit) if linear else float(sums[-1])

    @cached_property
    def from_source(self) -> np.ndarray:
        """(e,) probability of an edge given the prefix that it leads to."""
        out = np.empty(self.lattice.n_edges)
        sums, linear = self._sums
        if linear:
            lattice_kernels.shares(self.lattice.ptr, self.lattice.source, self.weights, sums, out)
        else:
            lattice_kernels.log_shares(self.lattice.ptr, self.lattice.source, self._log_steps, sums, out)
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
        scores = self.tables.scores
        out = np.empty(scores.log_scores.size)
        if self.linear:
            lattice_kernels.spread(scores.offsets, self.lattice.variable, self.index, self.edge, self.weights, out)
        else:
            lattice_kernels.log_spread(
                scores.offsets, self.lattice.variable, self.index, self.edge, self.log_weights, out
            )
        return out

    def parent_sets(self, i: int) -> np.ndarray:
        """(2^k,) posterior of one variable's parent sets."""
        scores = self.tables.scores
        part = self._spread[scores.offsets[i] : scores.offsets[i + 1]].copy()
        logs = self.tables.log_scores(i)
        if self.linear:
            zeta_kernels.superset_sums(part)
            return part * np.exp(logs - self.tables.log_scale[i] + np.log(self.tables.base.factors[i]))
        zeta_kernels.log_superset_sums(part)
        with np.errstate(invalid="ignore"):
            return np.where(np.isneginf(logs), 0.0, np.exp(part + logs))

    def edges(self) -> np.ndarray:
        """(d, d) posterior probability of every edge, parents by children."""
        return edge_matrix(self.tables.scores, self.parent_sets)


def passes_of(scores: ParentSetScores, lattice: PrefixLattice, tables: LeafTables) -> LatticePasses:
    """Passes over a lattice, with the subset index of every edge."""
    return LatticePasses(lattice, lattice.indices(scores), tables)


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
        self.unrestricted = bool(np.all(scores.n_candidates == scores.d - 1))
        self._kept: np.ndarray | None = None

    @cached_property
    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Sums to and from every prefix; neither needs the other."""
        scores, factors = self.tables.scores, self.tables.base.factors
        flat = self.tables.flat_sums()
        out = np.empty(1 << self.d), np.empty(1 << self.d)

        def work(k: int) -> None:
            if self.unrestricted:
                (subset_kernels.forward, subset_kernels.backward)[k](flat.reshape(self.d, -1), factors, out[k])
            else:
                kernels = subset_kernels.forward_restricted, subset_kernels.backward_restricted
                kernels[k](scores.lookup, scores.offsets, flat, factors, out[k])
            self.tables.base.bar.advance(SUMS_TO_AND_FROM * self.d // 2)

        for_each(work, range(2), scores.log_scores.size >= THREADS_FROM)
        return out

    @cached_property
    def exact(self) -> bool:
        """Whether linear sums lost nothing."""
        if not self.tables.sound:
            return False
        prefixes, completions = self._sums
        return bool(lattice_kernels.nothing_lost(prefixes, completions, prefixes[-1]))

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
