"""What one pass through an order posterior yields: total weight, shares of prefixes and edges, parent-set posteriors.

Sums over all prefixes run in linear space where their total shows that nothing of weight was lost, else in logs.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from pymc_spn.dags import lattice_kernels, subset_kernels, zeta_kernels
from pymc_spn.dags.leaf_tables import THREADS_FROM, LeafTables
from pymc_spn.dags.prefix_lattice import PrefixLattice, exact_lattice
from pymc_spn.numerics.threads import for_each

LARGEST_TABLES = 8.0  # gigabytes of a lattice that is made for one sum
SUMS_TO_AND_FROM = 2  # time of both, in that of the sums over subsets of all variables: for progress bars


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
    def _forward(self) -> tuple[np.ndarray, np.ndarray]:
        """Log sums to each prefix, with the lattice's own factors, where it has any; shares of edges."""
        lattice, factors = self.lattice, self.lattice.log_factors
        steps = self.log_weights if factors is None else self.log_weights + factors
        out = np.empty(lattice.n_prefixes), np.empty(lattice.n_edges)
        lattice_kernels.log_forward(lattice.ptr, lattice.source, steps, *out)
        return out

    @property
    def log_total(self) -> float:
        """Log of the summed weight of all orders."""
        return float(self._forward[0][-1])

    @property
    def from_source(self) -> np.ndarray:
        """(e,) probability of an edge given the prefix that it leads to."""
        return self._forward[1]

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

    def before(self) -> np.ndarray:
        """(d, d) probability that j stands before i at [j, i]."""
        return self.lattice.before(self.edge)


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
        scores, tables = self.tables.scores, self.tables
        prefixes, completions = self._sums
        log_unit = np.log(prefixes[-1]) + tables.log_scale[i] - np.log(tables.base.factors[i])
        out = np.empty(1 << scores.n_candidates[i])
        arguments = prefixes, completions, tables.log_scores(i), log_unit, out
        if self.unrestricted:
            subset_kernels.parent_set_posterior(i, *arguments)
        else:
            subset_kernels.parent_set_posterior_restricted(i, scores.lookup, *arguments)
        return out

    def before(self) -> np.ndarray:
        """(d, d) probability that j stands before i at [j, i]."""
        scores, sums = self.tables.scores, self.tables.flat_sums()
        prefixes, completions = self._sums
        scale = self.tables.base.factors / prefixes[-1]
        others = [[j for j in range(self.d) if j != i] for i in range(self.d)]

        def shares(i: int) -> np.ndarray:
            """Of the sets of others that stand before i."""
            places = np.full(1, scores.offsets[i])
            for slot in scores.slots[i, others[i]].tolist():
                places = np.concatenate([places, places + (1 << slot if slot >= 0 else 0)])
            behind = completions.reshape(-1, 2, 1 << i)[:, 1]
            return (prefixes.reshape(-1, 2, 1 << i)[:, 0] * behind).ravel() * sums[places] * scale[i]

        return inclusion_matrix(others, shares, scores.log_scores.size >= THREADS_FROM)


class Support:
    """Orders that are summed over, and passes over them with any tables.

    Parameters
    ----------
    scores : LocalScores
        With the candidates.
    lattice : PrefixLattice or None
        None for all orders.
    """

    def __init__(self, scores: Any, lattice: PrefixLattice | None):
        self.scores, self.lattice = scores, lattice

    @classmethod
    def of_all(cls, scores: Any) -> "Support":
        """All orders that knowledge allows."""
        return cls(scores, exact_lattice(scores, LARGEST_TABLES))

    @cached_property
    def explicit(self) -> tuple[PrefixLattice, np.ndarray]:
        """The explicit lattice, and the place of each of its edges in the tables of scores."""
        lattice = PrefixLattice.all_prefixes(self.scores.d) if self.lattice is None else self.lattice
        return lattice, lattice.places(self.scores)

    def passes(self, tables: LeafTables) -> "FullPasses | LatticePasses":
        """The cheapest passes that are exact: over all prefixes at once, or over the explicit lattice."""
        if self.lattice is None and (passes := FullPasses(tables)).exact:
            return passes
        return LatticePasses(*self.explicit, tables)

    def passes_at(self, log_scores: np.ndarray) -> "FullPasses | LatticePasses":
        """Passes with other scores of the parent sets."""
        return self.passes(LeafTables(replace(self.scores, log_scores=log_scores)))


def edge_probabilities(passes: FullPasses | LatticePasses) -> np.ndarray:
    """(d, d) posterior probability of every edge, parents by children."""
    passes.log_total  # noqa: B018  sums, before the threads start
    scores = passes.tables.scores
    members = [scores.candidate_list(i) for i in range(scores.d)]
    return inclusion_matrix(members, passes.parent_sets, scores.log_scores.size >= THREADS_FROM)


def inclusion_matrix(
    members: Sequence[Sequence[int]], tables: Callable[[int], np.ndarray], in_threads: bool
) -> np.ndarray:
    """(d, d) probability that a set of i holds j at [j, i], from those (2^k,) of all sets of its k members."""
    d = len(members)
    out = np.zeros((d, d))

    def work(i: int) -> None:
        column = np.empty(len(members[i]))
        subset_kernels.inclusion(tables(i), column)
        out[members[i], i] = np.minimum(column, 1.0)  # a sum that should be one may round above it

    for_each(work, range(d), in_threads)
    return out
