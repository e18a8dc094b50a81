"""One column in each of many rows under recorded draws: shares and averages of its leaves by kernels over blocks.

What a multivariate leaf says of a column differs from row to row: a Student t given the other cells of the row.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.events.events import spread_of
from pymc_spn.laws.column_laws import ColumnLaw
from pymc_spn.laws.column_of_rows import LeavesInRows, finite_part
from pymc_spn.leaves.leaf_predictives import leaf_moments
from pymc_spn.networks.records.multivariate_leaves import JointColumn, column_given, students_of_rows
from pymc_spn.numerics.draw_averages import weighted
from pymc_spn.numerics.threads import for_each

if TYPE_CHECKING:
    from pymc_spn.networks.recorded_law import RecordedLaw

KEPT_VALUES = 8_000_000  # probabilities of leaves in rows (64 MB)
MOST_PAIRS = 50_000  # laws of leaves in rows held at a time
NEGLIGIBLE = 1e-18  # share of a leaf that adds nothing to moments
NEGLIGIBLE_OF_NODES = 1e-10  # next to the tolerance of averages over nodes


class RecordedLeavesInRows(LeavesInRows):
    """A column in rows under the draws of a network.

    Parameters
    ----------
    law : RecordedLaw
    d : int
        Number of the column in the law.
    rows : (M, D) float64
        Without the column.
    """

    def __init__(self, law: "RecordedLaw", d: int, rows: np.ndarray) -> None:
        self._law, self._d, self._rows = law, d, rows
        self._possible = law.has_density_at(rows)
        self._event = law.known(d)
        leaves, self._begin = law.states.all_leaves(law.kept[d])
        self.leaves: ColumnLaw = ColumnLaw(leaves, np.ones(leaves.family.size), self._begin[:-1], self._event)
        self.several = law.states.joint_leaves.column(law.kept[d]) if law.states.has_joints else None
        self._kept: tuple[slice, tuple[np.ndarray, ...]] = slice(0, -1), ()

    @cached_property
    def _moments(self) -> np.ndarray:
        """Mean and variance (n, 2) of each leaf."""
        law = self._law
        each = [law.states.leaf_moments(s, law.kept[self._d], self._event) for s in range(law.states.n_draws)]
        return np.stack([np.concatenate(values) for values in zip(*each, strict=True)], axis=1)

    @cached_property
    def _levels(self) -> np.ndarray:
        """Probabilities (n, K) of the column's levels in each leaf."""
        p = self.leaves.leaves.parameters / self.leaves.leaves.parameters.sum(axis=1, keepdims=True)
        if isinstance(self._event, frozenset):
            p = p * np.isin(np.arange(p.shape[1]), list(self._event))
            p = p / p.sum(axis=1, keepdims=True)
        return p

    def shares(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """See `LeavesInRows`."""
        logs, shares, *_ = self.all_shares(rows)
        return logs, shares

    def all_shares(self, rows: slice) -> tuple[np.ndarray, ...]:
        """Log weights (S, M) of the draws, and probabilities (M, n) of the leaves.

        Where there are leaves over several columns also those (M, m) of the ones that hold the column. As many rows as
        may be held are asked at once.
        """
        kept, found = self._kept
        if not (kept.start <= rows.start and rows.stop <= kept.stop):
            n_leaves = int(self._begin[-1]) + (0 if self.several is None else int(self.several.begin[-1]))
            size = max(rows.stop - rows.start, KEPT_VALUES // max(n_leaves, 1))
            kept = slice(rows.start, min(rows.start + size, len(self._rows)))
            logs, *shares = self._law.states.blocks.shares(*self._question(kept), self.several)
            found = self._log_weights(kept, logs), *shares
            self._kept = kept, found
        part = slice(rows.start - kept.start, rows.stop - kept.start)
        return found[0][:, part], *(shares[part] for shares in found[1:])

    def levels(self, rows: slice, n_levels: int) -> tuple[np.ndarray, np.ndarray]:
        """See `LeavesInRows`."""
        logs, found = self._law.states.blocks.averages(*self._question(rows), self._levels)
        return self._log_weights(rows, logs), found

    def moments(self, rows: slice, variance: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `LeavesInRows`: the variance is that within leaves and that between them."""
        numbers, mended = finite_part(self._moments if variance else self._moments[:, :1])
        logs, found = self._law.states.blocks.averages(*self._question(rows), numbers, variance)
        found = mended(found)
        spread = found[..., 1] + found[..., 2] if variance else np.zeros(logs.shape)
        return self._log_weights(rows, logs), found[..., 0], spread

    def _question(self, rows: slice) -> tuple[Any, int, np.ndarray]:
        """What `DrawBlocks.shares` asks of some rows."""
        law = self._law
        return law.asked(law.embedded(self._rows[rows])), law.kept[self._d], self._begin

    def _log_weights(self, rows: slice, logs: np.ndarray) -> np.ndarray:
        """Of the draws: log densities (S, M) of the rows without a change of units, the same for all draws."""
        return np.where(self._possible[rows], logs, -np.inf) + self._law.chosen[:, None]


def leaves_in_rows(law: "RecordedLaw", d: int, rows: np.ndarray) -> Sequence[LeavesInRows]:
    """A column in rows (M, D) of a law: its own leaves, and those over several columns if it is in such."""
    one = LeavesOfOneInRows(law, d, rows)
    if one.several is None or not one.several.circuit.size:
        return [RecordedLeavesInRows(law, d, rows)]
    return [one, LeavesOfSeveralInRows(one, one.several)]


class LeavesOfOneInRows(RecordedLeavesInRows):
    """The leaves of the column alone; see `RecordedLeavesInRows`."""

    def shares(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """See `LeavesInRows`."""
        logs, of_one, _ = self.all_shares(rows)
        return within_draws(logs, of_one, self._begin)

    def moments(self, rows: slice, variance: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `LeavesInRows`."""
        logs, shares = self.shares(rows)
        return logs, *moments_of_draws(shares, self._begin, self._moments.T, variance)


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
        location, scale, dof = students_of_rows(parameters, values, place)
        return location.T, (np.square(scale) * dof / (dof - 2.0)).T  # there are more than two degrees of freedom

    def of_pairs(self, row: np.ndarray, leaf: np.ndarray) -> tuple[ColumnLaw, np.ndarray]:
        """See `LeavesOfColumn`."""
        own, weights = column_given(self.column, self._d, leaf, row, self._values, self._events, self._ends)
        return ColumnLaw(own, np.ones(own.family.size), np.zeros(1, np.int64), self._events.get(self._d)), weights


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
            law, weights = self.leaves.of_pairs(rows.start + at[0], at[1])
            held = weights > 0.0  # others may have no moments
            found = leaf_moments(law.leaves, law.event)
            mean, variance = (np.where(held, x.reshape(held.shape), 0.0) for x in found)
            numbers[0][at] = centre = (weights * mean).sum(axis=1)
            numbers[1][at] = (weights * (variance + np.square(mean - centre[:, None]))).sum(axis=1)

        size = MOST_PAIRS if self._is_exact else MOST_PAIRS // 10
        parts = [slice(start, start + size) for start in range(0, row.size, size)]
        for_each(ask, parts, len(parts) > 1)
        return logs, *moments_of_draws(shares, begin, numbers, variance)


def moments_of_draws(
    shares: np.ndarray, begin: np.ndarray, numbers: np.ndarray, variance: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances (S, M) under each draw, variances 0 if not wanted.

    Parameters
    ----------
    shares : (M, n) float64
        Probabilities of leaves in their draws.
    begin : (S + 1,) int64
    numbers : (2, n) or (2, M, n) float64
        Means and variances of the leaves.
    """
    mean = np.add.reduceat(weighted(shares, numbers[0]), begin[:-1], axis=1)
    if not variance:
        return mean.T, np.zeros(mean.T.shape)
    centre = np.repeat(np.where(np.isfinite(mean), mean, 0.0), np.diff(begin), axis=1)
    with np.errstate(invalid="ignore"):
        each = numbers[1] + np.square(numbers[0] - centre)
    return mean.T, np.add.reduceat(weighted(shares, each), begin[:-1], axis=1).T


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
