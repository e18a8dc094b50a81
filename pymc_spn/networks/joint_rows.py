"""One column in rows under recorded draws that have leaves over several columns: those leaves, and those of one.

What a leaf over several columns says of a column differs from row to row: a Student t given the other cells of the row.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pymc_spn.events.events import spread_of
from pymc_spn.laws.column_laws import ColumnLaw
from pymc_spn.laws.column_of_rows import LeavesInRows
from pymc_spn.leaves.elliptical_kernels import column_of_rows
from pymc_spn.leaves.leaf_predictives import leaf_moments
from pymc_spn.networks.recorded_rows import RecordedLeavesInRows
from pymc_spn.networks.records.joint_events import column_given
from pymc_spn.networks.records.joint_predictives import JointColumn, RowsByGaps
from pymc_spn.numerics.draw_averages import weighted
from pymc_spn.numerics.threads import for_each

if TYPE_CHECKING:
    from pymc_spn.networks.recorded_law import RecordedLaw

MOST_PAIRS = 50_000  # laws of leaves in rows held at a time
NEGLIGIBLE = 1e-18  # share of a leaf that adds nothing to moments
NEGLIGIBLE_OF_NODES = 1e-10  # next to the tolerance of averages over nodes


def leaves_in_rows(law: "RecordedLaw", d: int, rows: np.ndarray) -> Sequence[LeavesInRows]:
    """A column in rows (M, D) of a law: its own leaves, and those over several columns if it is in such."""
    one = LeavesOfOneInRows(law, d, rows)
    if one.several is None or not one.several.circuit.size:
        return [one]
    return [one, LeavesOfSeveralInRows(one, one.several)]


class LeavesOfOneInRows(RecordedLeavesInRows):
    """The leaves of the column alone; see `RecordedLeavesInRows`."""

    def shares(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """See `LeavesInRows`."""
        logs, of_one, _ = self.all_shares(rows)
        return within_draws(logs, of_one, self._begin)

    def levels(self, rows: slice, n_levels: int) -> tuple[np.ndarray, np.ndarray]:
        """See `LeavesInRows`."""
        logs, shares = self.shares(rows)
        return logs, self._averages(shares, self._levels)

    def moments(self, rows: slice, variance: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `LeavesInRows`."""
        logs, shares = self.shares(rows)
        mean = self._averages(shares, self._moments[:, :1])[..., 0]
        if not variance:
            return logs, mean, np.zeros(logs.shape)
        centre = np.where(np.isfinite(mean), mean, 0.0)[np.repeat(np.arange(len(mean)), np.diff(self._begin))]
        with np.errstate(invalid="ignore"):
            each = self._moments[:, 1] + np.square(self._moments[:, 0] - centre.T)
        return logs, mean, np.add.reduceat(weighted(shares, each), self._begin[:-1], axis=1).T

    def _averages(self, shares: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Averages (S, M, K) of numbers (n, K) of the leaves."""
        each = [np.add.reduceat(weighted(shares, own), self._begin[:-1], axis=1).T for own in numbers.T]
        return np.stack(each, axis=-1)


class SeveralLeaves:
    """Leaves over several columns as leaves of one of them, see `LeavesOfColumn`."""

    is_discrete = False
    students = None

    def __init__(
        self, column: JointColumn, d: int, values: np.ndarray, events: Mapping[int, Any], ends: np.ndarray | None
    ) -> None:
        self.column, self.circuit = column, column.circuit
        self._d, self._values, self._events, self._ends = d, values, events, ends

    def all(self) -> None:
        """They differ from row to row."""

    def moments_of_region(self, k: int, rows: slice) -> tuple[np.ndarray, np.ndarray] | None:
        """Means and variances (M, n) of the leaves of a region in rows of points; None where others are cells."""
        columns, place, _, parameters = self.column.regions[k]
        others = np.delete(columns, place)
        if self._ends is not None and not np.isnan(self._ends[0][rows][:, others]).all():
            return None
        values = self._values[rows][:, columns]
        values[:, place] = np.nan
        by_gaps = RowsByGaps.of(values)
        location, scale, dof = np.empty((3, len(parameters), len(values)))
        column_of_rows(parameters, by_gaps.rows, by_gaps.order, by_gaps.begin, place, location, scale, dof)
        return location.T, (np.square(scale) * dof / (dof - 2.0)).T  # there are more than two degrees of freedom

    def of_pairs(self, row: np.ndarray, leaf: np.ndarray) -> "ColumnLaw | NodeLaws":
        """See `LeavesOfColumn`."""
        own, weights = column_given(self.column, self._d, leaf, row, self._values, self._events, self._ends)
        law = ColumnLaw(own, np.ones(own.family.size), np.zeros(1, np.int64), self._events.get(self._d))
        return law if weights.shape[1] == 1 else NodeLaws(law, weights)


class NodeLaws(NamedTuple):
    """Mixtures of G leaves each, of P pairs of rows and leaves; see `LeafLaws`.

    Parameters
    ----------
    law : ColumnLaw
        Of P G leaves, one pair after the other.
    weights : (P, G) float64
    """

    law: ColumnLaw
    weights: np.ndarray

    @property
    def is_discrete(self) -> bool:
        """No leaf has masses."""
        return False

    def _average(self, values: np.ndarray) -> np.ndarray:
        return np.einsum("pg,pgx->px", self.weights, values.reshape(*self.weights.shape, values.shape[-1]))

    def _points(self, x: np.ndarray) -> np.ndarray:
        return x if x.ndim == 1 else np.repeat(x, self.weights.shape[1], axis=0)

    def leaf_cdf(self, x: np.ndarray) -> np.ndarray:
        """See `LeafLaws`."""
        return self._average(self.law.leaf_cdf(self._points(x)))

    def leaf_log_density(self, x: np.ndarray) -> np.ndarray:
        """See `LeafLaws`."""
        with np.errstate(divide="ignore"):
            return np.log(self._average(np.exp(self.law.leaf_log_density(self._points(x)))))

    def leaf_within(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """See `LeafLaws`."""
        return self._average(self.law.leaf_within(self._points(low), self._points(high)))

    def leaf_bulk(self) -> tuple[np.ndarray, np.ndarray]:
        """See `LeafLaws`: by the moments of the nodes."""
        mean, variance = self.moments()
        return mean, np.sqrt(variance)

    def leaf_support(self) -> tuple[np.ndarray, np.ndarray]:
        """See `LeafLaws`."""
        low, high = (end.reshape(self.weights.shape) for end in self.law.leaf_support())
        return low.min(axis=1), high.max(axis=1)

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances (P,)."""
        own = leaf_moments(self.law.leaves, self.law.event)
        mean, variance = (values.reshape(self.weights.shape) for values in own)
        held = self.weights > 0.0  # others may have no moments
        centre = (self.weights * np.where(held, mean, 0.0)).sum(axis=1)
        away = np.where(held, mean - centre[:, None], 0.0)
        return centre, (self.weights * (np.where(held, variance, 0.0) + np.square(away))).sum(axis=1)


class LeavesOfSeveralInRows(LeavesInRows):
    """The leaves over several columns that hold the column.

    Parameters
    ----------
    one : LeavesOfOneInRows
        Of the same column and rows.
    several : JointColumn
    """

    def __init__(self, one: LeavesOfOneInRows, several: JointColumn) -> None:
        self._one, self._several = one, several
        law, d = one._law, one._law.kept[one._d]
        values, events = law.embedded(one._rows), spread_of(law.evidence)
        cells, ends = law.cells(values), None
        if cells is not None:
            values, ends = cells.middles, cells.ends_of_columns
        self.leaves: SeveralLeaves = SeveralLeaves(several, d, values, events, ends)
        self._is_exact = law.known_tolerance == 0.0

    def shares(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """See `LeavesInRows`."""
        logs, _, of_several = self._one.all_shares(rows)
        return within_draws(logs, of_several, self._several.begin)

    def levels(self, rows: slice, n_levels: int) -> tuple[np.ndarray, np.ndarray]:
        """See `LeavesInRows`: columns of levels are in no such leaves."""
        raise NotImplementedError

    def moments(self, rows: slice, variance: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `LeavesInRows`."""
        logs, shares = self.shares(rows)
        begin, circuit = self._several.begin, self._several.circuit
        numbers, of_pairs = np.zeros((2, *shares.shape)), np.ones(circuit.size, np.bool_)
        for k in range(len(self._several.regions) if self._is_exact else 0):
            moments = self.leaves.moments_of_region(k, rows)
            if moments is not None:
                own = self._several.kind == k
                numbers[:, :, own], of_pairs[own] = moments, False
        others, least = np.flatnonzero(of_pairs), NEGLIGIBLE if self._is_exact else NEGLIGIBLE_OF_NODES
        leaf, row = np.nonzero(shares.T[others] > least)
        leaf = others[leaf]

        def ask(part: slice) -> None:
            at = row[part], leaf[part]
            law = self.leaves.of_pairs(rows.start + at[0], at[1])
            found = law.moments() if isinstance(law, NodeLaws) else leaf_moments(law.leaves, law.event)
            numbers[0][at], numbers[1][at] = found

        size = MOST_PAIRS if self._is_exact else MOST_PAIRS // 10
        parts = [slice(start, start + size) for start in range(0, row.size, size)]
        for_each(ask, parts, len(parts) > 1)
        mean = np.add.reduceat(weighted(shares, numbers[0]), begin[:-1], axis=1).T
        if not variance:
            return logs, mean, np.zeros(logs.shape)
        each = numbers[1] + np.square(numbers[0] - mean[circuit].T)
        return logs, mean, np.add.reduceat(weighted(shares, each), begin[:-1], axis=1).T


def within_draws(logs: np.ndarray, shares: np.ndarray, begin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log weights (S, M) of one sort of leaves in each draw, and their probabilities (M, n) in it.

    Parameters
    ----------
    logs : (S, M) float64
        Of the draws.
    shares : (M, n) float64
        Probabilities in the draw of leaves of one sort.
    begin : (S + 1,) int64
        Of the leaves of each draw.
    """
    mass = np.add.reduceat(shares, begin[:-1], axis=1)
    whole = np.repeat(np.where(mass > 0.0, mass, 1.0), np.diff(begin), axis=1)
    with np.errstate(divide="ignore"):
        return logs + np.log(mass.T), shares / whole
