"""The law of one column: the leaves of all draws, mixed by their probabilities; cdf, density, quantiles."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.laws.column_quantiles import bracketed_quantiles
from pymc_spn.laws.log_tails import mean_log_beyond
from pymc_spn.laws.raw_moments import raw_moments
from pymc_spn.laws.row_laws import RowLaws, WeightedLeaves
from pymc_spn.laws.student_mixtures import StudentLaws, students_of
from pymc_spn.leaves.families import PREDICTIVES, families_with
from pymc_spn.leaves.gaussian import student_rows
from pymc_spn.leaves.intervals import Interval
from pymc_spn.leaves.kernel_forms import LOGARITHM
from pymc_spn.leaves.leaf_family import UnivariateFamily
from pymc_spn.leaves.leaf_predictives import Leaves, by_family, log_event, log_masses, relative_masses
from pymc_spn.numerics.draw_averages import weighted
from pymc_spn.numerics.row_mixtures import RowMixtures

REST = 1e-11  # of the smaller tail: what a search for the quantiles of many laws may leave
QUANTILE_TOLERANCE = 1e-12  # of the quantile, relative to the spread of the column: rounding of the cdf
BLOCK = 4_000_000  # leaf values held at a time (32 MB)


class ColumnLaw(NamedTuple):
    """A mixture of leaves of one column, draw by draw.

    Parameters
    ----------
    leaves : Leaves
        Of all draws, one draw after the other.
    share : (n,) float64
        Probability of each leaf within its draw.
    begin : (S,) int64
        First leaf of each draw.
    event : Interval, frozenset or None
        What the column is known to satisfy; the leaves' laws are those given it.
    """

    leaves: Leaves
    share: np.ndarray
    begin: np.ndarray
    event: Any = None

    @property
    def circuit(self) -> np.ndarray:
        """See `LeavesOfColumn`: the draw of each leaf."""
        return np.repeat(np.arange(self.begin.size), np.diff(np.append(self.begin, self.share.size)))

    @property
    def students(self) -> StudentLaws | None:
        """See `LeavesOfColumn`."""
        return students_of(self.leaves, self.event)

    def all(self) -> "ColumnLaw":
        """See `LeavesOfColumn`."""
        return self

    def per_draw(self, values: np.ndarray) -> np.ndarray:
        """Average (S, ...) over each draw's leaves of values (n, ...)."""
        return np.add.reduceat(weighted(self.share, values), self.begin, axis=0)

    def of_pairs(self, row: np.ndarray, leaf: np.ndarray) -> "tuple[ColumnLaw, np.ndarray]":
        """See `LeavesOfColumn`: the same in all rows."""
        own = self.leaves.some(leaf)
        return ColumnLaw(own, np.ones(leaf.size), np.zeros(1, np.int64), self.event), np.ones((leaf.size, 1))

    def mixed(self, weights: np.ndarray) -> "ColumnLaw":
        """One draw that mixes all with these weights (S,), scaled to add up to 1."""
        size = np.diff(np.append(self.begin, self.share.size))
        share = self.share * np.repeat(weights / weights.sum(), size)
        used = share > 0.0
        leaves = Leaves(self.leaves.family[used], self.leaves.parameters[used])
        return ColumnLaw(leaves, share[used], np.zeros(1, np.int64), self.event)

    def leaf_log_density(self, x: np.ndarray) -> np.ndarray:
        """Log density or mass (n, X) of each leaf at points (X,), or at points (n, X) of its own."""
        out = np.empty((self.share.size, x.shape[-1]))
        for family, which, p in by_family(self.leaves):
            out[which] = family.log_density(p[:, None], _own(x, which))
        if self.event is not None:
            with np.errstate(divide="ignore"):
                inside = np.log(_holds(self.event, x).astype(np.float64))
            out = out + inside - log_event(self.leaves, self.event)[:, None]
        return np.where(np.isnan(out), -np.inf, out)

    def leaf_cdf(self, x: np.ndarray) -> np.ndarray:
        """P(X <= x) (n, X) of each leaf at points (X,), or at points (n, X) of its own."""
        out = np.empty((self.share.size, x.shape[-1]))
        for family, which, p in by_family(self.leaves):
            own = _own(x, which)
            if self.event is None:
                out[which] = family.below(p[:, None], own)
            elif isinstance(self.event, Interval) and self._mostly_above(family, p):
                below = family.below(p[:, None], np.array([self.event.low]))
                inside = family.below(p[:, None], own) - below
                out[which] = np.where(own < self.event.low, 0.0, np.maximum(inside, 0.0) / (1.0 - below))
            elif isinstance(self.event, Interval):
                low, high = self.event
                upper = np.maximum(np.minimum(own, high), low)
                logs = family.log_interval(p[:, None], low, upper)
                whole = family.log_interval(p[:, None], low, high)
                out[which] = np.where(own < low, 0.0, np.exp(logs - np.where(np.isneginf(whole), 0.0, whole)))
            else:
                points = np.array(sorted(self.event), dtype=np.float64)
                mass = relative_masses(log_masses(family, p, points))
                cumulative = np.cumsum(np.pad(mass, ((0, 0), (1, 0))), axis=1)
                n_below = np.searchsorted(points, np.broadcast_to(own, (len(mass), x.shape[-1])), side="right")
                total = cumulative[:, -1:]
                out[which] = np.take_along_axis(cumulative, n_below, axis=1) / np.where(total > 0, total, 1.0)
        return out

    def _mostly_above(self, family: UnivariateFamily, p: np.ndarray) -> bool:
        """Whether a column has a lower end alone and leaves lie above it: differences of their cdf lose no digits."""
        if self.event.high < np.inf or self.event.low == -np.inf:
            return False
        return bool(np.all(family.below(p, np.array(self.event.low)) <= 0.5))

    def leaf_within(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """P(low <= X <= high) (n, X) of each leaf between ends (n, X) of its own: far tails keep their digits."""
        out = np.zeros((self.share.size, low.shape[-1]))
        for family, which, p in by_family(self.leaves):
            first, last = low[which], high[which]
            if self.event is None or isinstance(self.event, Interval):
                known = Interval(-np.inf, np.inf) if self.event is None else self.event
                first, last = np.maximum(first, known.low), np.minimum(last, known.high)
                logs = family.log_interval(p[:, None], first, np.maximum(first, last))
                whole = family.log_interval(p[:, None], *known)
                logs = logs - np.where(np.isneginf(whole), 0.0, whole)
                out[which] = np.where(first <= last, np.exp(logs), 0.0)
            else:
                points = np.array(sorted(self.event), dtype=np.float64)
                mass = relative_masses(log_masses(family, p, points))
                total = mass.sum(axis=1, keepdims=True)
                held = (points >= first[..., None]) & (points <= last[..., None])
                out[which] = (mass[:, None] * held).sum(axis=2) / np.where(total > 0, total, 1.0)
        return out

    def cdf(self, x: np.ndarray) -> np.ndarray:
        """P(X <= x) (S, X) under each draw."""
        step = max(1, BLOCK // max(self.share.size, 1))
        parts = [self.per_draw(self.leaf_cdf(x[i : i + step])) for i in range(0, x.size, step)]
        return np.concatenate(parts, axis=1) if parts else np.empty((self.begin.size, 0))

    def density(self, x: np.ndarray) -> np.ndarray:
        """Density or mass (S, X) under each draw."""
        step = max(1, BLOCK // max(self.share.size, 1))
        parts = [self.per_draw(np.exp(self.leaf_log_density(x[i : i + step]))) for i in range(0, x.size, step)]
        return np.concatenate(parts, axis=1) if parts else np.empty((self.begin.size, 0))

    def raw_moments(self, about: float, order: int) -> np.ndarray:
        """E[(X - about)^k] (S, order + 1), k = 0..order, under each draw."""
        return self.per_draw(raw_moments(self.leaves, about, order, self.event))

    def mean_log_beyond(self, ends: tuple[float, float]) -> float:
        """E[abs(log x); x beyond the ends] of the leaves of logs of a law of one draw, see `log_tails`."""
        which = np.isin(self.leaves.family, families_with(LOGARITHM)) & (self.share > 0.0)
        leaves = Leaves(self.leaves.family[which], self.leaves.parameters[which])
        within = self.event if isinstance(self.event, Interval) else Interval(-np.inf, np.inf)
        log_total = np.zeros(leaves.family.size) if self.event is None else log_event(leaves, self.event)
        return float(
            self.share[which] @ mean_log_beyond(tuple(student_rows(leaves.parameters).T), within, log_total, ends)
        )

    def has(self, reading: int) -> bool:
        """Whether a leaf reads its values so, see `kernel_forms`."""
        return bool(np.any(np.isin(self.leaves.family, families_with(reading))))

    @property
    def has_logs(self) -> bool:
        """Whether a leaf is a density of logs."""
        return self.has(LOGARITHM)

    def bracket(self) -> tuple[float, float]:
        """Centre of the leaves and a width that holds most of them."""
        centre, width = leaf_centres(self.leaves)
        return float(np.average(centre, weights=self.share)), float(np.max(width) + np.ptp(centre))

    @property
    def is_discrete(self) -> bool:
        """Whether every leaf has masses."""
        return all(PREDICTIVES[code].has_masses for code in np.unique(self.leaves.family).tolist())

    def quantile(self, q: np.ndarray) -> np.ndarray:
        """Quantiles (Q,) of a law of one draw, see `bracketed_quantiles`."""
        if self.begin.size != 1:
            raise AssertionError("quantiles are of one mixture")
        return bracketed_quantiles(self, q)

    def quantiles_of_circuits(self, q: np.ndarray) -> np.ndarray:
        """Quantiles (S, Q) under each draw."""
        return quantiles_of_draws((self,), np.ones((1, self.begin.size)), q)

    def leaf_bulk(self) -> tuple[np.ndarray, np.ndarray]:
        """A point in the bulk of each leaf and a width (n,) of the bulk, finite for every tail."""
        return leaf_centres(self.leaves)

    def leaf_support(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value (n,) that each leaf allows."""
        low, high = np.full(self.share.size, -np.inf), np.full(self.share.size, np.inf)
        for family, which, p in by_family(self.leaves):
            low[which], high[which] = family.support(p)
        ends = (-np.inf, np.inf) if self.event is None else (min(self.event), max(self.event))
        return np.maximum(low, ends[0]), np.minimum(high, ends[1])

    def support(self) -> tuple[float, float]:
        """Smallest and largest value that some leaf allows."""
        low, high = self.leaf_support()
        return float(low.min()), float(high.max())

    @property
    def ends(self) -> tuple[float, ...]:
        """Finite ends of the interval that the column is known to be in."""
        return tuple(x for x in self.event if np.isfinite(x)) if isinstance(self.event, Interval) else ()


class JoinedLaw(NamedTuple):
    """Laws of one column that are mixed by weights which differ from draw to draw.

    Parameters
    ----------
    laws : tuple of ColumnLaw
        Given disjoint events.
    weights : (J, S) float64
        Probability of each law under each draw; they add up to 1 over laws.
    """

    laws: tuple[Any, ...]
    weights: np.ndarray

    def cdf(self, x: np.ndarray) -> np.ndarray:
        """P(X <= x) (S, X) under each draw."""
        return np.einsum("js,jsx->sx", self.weights, [law.cdf(x) for law in self.laws])

    def density(self, x: np.ndarray) -> np.ndarray:
        """Density or mass (S, X) under each draw."""
        return np.einsum("js,jsx->sx", self.weights, [law.density(x) for law in self.laws])

    def mixed(self, weights: np.ndarray) -> "JoinedLaw":
        """One draw that mixes all with these weights (S,), scaled to add up to 1."""
        each = self.weights * (weights / weights.sum())
        total = each.sum(axis=1)
        laws = tuple(law.mixed(w) for law, w in zip(self.laws, each, strict=True) if w.any())
        return JoinedLaw(laws, total[total > 0.0, None])

    def raw_moments(self, about: float, order: int) -> np.ndarray:
        """E[(X - about)^k] (S, order + 1), k = 0..order, under each draw."""
        parts = zip(self.weights, self.laws, strict=True)
        return sum((weighted(w, law.raw_moments(about, order)) for w, law in parts), np.zeros(()))

    def mean_log_beyond(self, ends: tuple[float, float]) -> float:
        """As of `ColumnLaw`, of a law of one draw."""
        return sum(float(w) * law.mean_log_beyond(ends) for w, law in zip(self.weights[:, 0], self.laws, strict=True))

    def has(self, reading: int) -> bool:
        """Whether a leaf reads its values so, see `kernel_forms`."""
        return any(law.has(reading) for law in self.laws)

    @property
    def has_logs(self) -> bool:
        """Whether a leaf is a density of logs."""
        return self.has(LOGARITHM)

    def bracket(self) -> tuple[float, float]:
        """Centre of the leaves and a width that holds most of them."""
        centre, width = np.transpose([law.bracket() for law in self.laws])
        return float(np.average(centre, weights=self.weights.sum(axis=1))), float(np.max(width) + np.ptp(centre))

    @property
    def is_discrete(self) -> bool:
        """Whether every leaf has masses only."""
        return all(law.is_discrete for law in self.laws)

    def quantile(self, q: np.ndarray) -> np.ndarray:
        """Quantiles (Q,) of a law of one draw, see `bracketed_quantiles`."""
        return bracketed_quantiles(self, q)

    def quantiles_of_circuits(self, q: np.ndarray) -> np.ndarray:
        """Quantiles (S, Q) under each draw."""
        return quantiles_of_draws(self.laws, self.weights, q)

    def support(self) -> tuple[float, float]:
        """Smallest and largest value that some law allows."""
        low, high = zip(*(law.support() for law in self.laws), strict=True)
        return min(low), max(high)

    @property
    def ends(self) -> tuple[float, ...]:
        """Finite ends of the intervals of the laws."""
        return tuple(x for law in self.laws for x in law.ends)


def quantiles_of_draws(laws: Sequence[ColumnLaw], weights: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Quantiles (S, Q) under each draw of laws with weights (J, S); at 0 and 1 the ends of the support."""
    n_draws, parts = weights.shape[1], []
    for law, weight in zip(laws, weights, strict=True):
        draw = np.repeat(np.arange(n_draws), np.diff(np.append(law.begin, law.share.size)))
        share = law.share * weight[draw]
        leaf = np.flatnonzero(share > 0.0)
        mixtures = RowMixtures(draw[leaf], leaf, share[leaf], n_draws)
        parts.append(WeightedLeaves(law, np.arange(n_draws), mixtures))
    of_draws, inner = RowLaws(tuple(parts), n_draws), (q > 0.0) & (q < 1.0)
    first, last = of_draws.support()
    x = np.where(q <= 0.0, first[:, None], last[:, None])
    if inner.any():
        x[:, inner] = of_draws.quantile(q[inner], of_draws.wide_brackets(q[inner]), REST)
    return x


def leaf_centres(leaves: Leaves) -> tuple[np.ndarray, np.ndarray]:
    """A point in the bulk of each leaf and a width (n,) of the bulk, finite for every tail."""
    centre, width = np.empty(leaves.family.size), np.empty(leaves.family.size)
    for family, which, p in by_family(leaves):
        centre[which], width[which] = family.bulk(p)
    return centre, width


def _own(x: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Points of some leaves: the same (1, X) for all, or (k, X) of (n, X)."""
    return x[None] if x.ndim == 1 else x[which]


def _holds(event: Any, x: np.ndarray) -> np.ndarray:
    if isinstance(event, Interval):
        return (x >= event.low) & (x <= event.high)
    return np.isin(x, list(event))
