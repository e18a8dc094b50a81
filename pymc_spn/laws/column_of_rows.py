"""One column in each of many rows, given the other cells: what a law implements, and what follows for all laws.

The distribution is a mixture of leaves under each circuit, with weights of each row's own. A law says what the leaves
are and what they are worth in some rows (`LeavesInRows`). A union has the leaves of all its parts. Nothing of the
size of circuits, rows and leaves is held: rows are asked in blocks.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from pymc_spn.laws.column_laws import REST, ColumnLaw
from pymc_spn.laws.row_laws import LeafGrid, LeafLaws, RowLaws, WeightedLeaves
from pymc_spn.laws.student_mixtures import StudentLaws, StudentMixtures
from pymc_spn.numerics.draw_averages import relative_weights, weighted
from pymc_spn.numerics.row_mixtures import RowMixtures

NEGLIGIBLE = 1e-10  # of the smaller tail: the weight of the leaves that are left out of a row's quantiles
SMALLEST_TAIL = np.array([1e-9])  # of distribution functions: leaves are left out that add less than 1e-19
FARTHEST_TAIL = np.array([1e-290])  # of far tails: leaves are left out that add less than 1e-300


class LeavesOfColumn(Protocol):
    """The n leaves of a column, those of all circuits one after the other, given what is known of the column.

    Attributes
    ----------
    circuit : (n,) int64
        Number of the circuit of each leaf.
    is_discrete : bool
        Whether every leaf has masses.
    """

    @property
    def circuit(self) -> np.ndarray: ...

    @property
    def is_discrete(self) -> bool: ...

    @property
    def students(self) -> StudentLaws | None:
        """The leaves as Student t's of values or of their logs, if all are."""

    def all(self) -> LeafLaws | None:
        """All leaves at common points; None where their parameters differ from row to row."""

    def of_pairs(self, row: np.ndarray, leaf: np.ndarray) -> tuple[LeafLaws, np.ndarray]:
        """Leaves (P,) in rows (P,), each at points of its own: mixtures of G laws, one pair after the other.

        With the laws (P G,) their weights (P, G).
        """


class LeavesInRows(ABC):
    """A column in M rows given their other cells and one event: mixtures of leaves under each of S circuits.

    Log weights (S, M) of circuits are given the row, up to a constant that all circuits and all parts of a union have
    in common. They are ``-inf`` where the row is impossible.
    """

    leaves: LeavesOfColumn

    @abstractmethod
    def shares(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Log weights (S, M) of circuits, and probabilities (M, n) of the leaves in their circuits."""

    @abstractmethod
    def levels(self, rows: slice, n_levels: int) -> tuple[np.ndarray, np.ndarray]:
        """Log weights (S, M) of circuits, and probabilities (S, M, K) of the levels under each."""

    @abstractmethod
    def moments(self, rows: slice, variance: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log weights, means and variances (S, M) of the column under each circuit; variances 0 if not wanted.

        Infinite or NaN where there is none.
        """


def finite_part(numbers: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Numbers (n, K) of leaves that can be averaged, and a function that mends averages (..., K + H + k) of them.

    Behind the K numbers stand H columns that say which leaves have an infinite one, or none. Averages of these are
    taken out again, and the number is infinite or NaN where they are positive. What stands behind them (k) stays.
    """
    bad = ~np.isfinite(numbers)
    some, width = np.flatnonzero(bad.any(axis=0)), numbers.shape[1]

    def mended(averages: np.ndarray) -> np.ndarray:
        for i, k in enumerate(some.tolist()):
            value = np.nan if np.isnan(numbers[:, k]).any() else np.inf
            averages[..., k] = np.where(averages[..., width + i] > 0.0, value, averages[..., k])
        return np.delete(averages, np.s_[width : width + some.size], axis=-1)

    return np.concatenate([np.where(bad, 0.0, numbers), bad[:, some]], axis=1), mended


class ColumnOfRows:
    """A column in each of M rows given the other cells, under S circuits.

    Parameters
    ----------
    parts : sequence of LeavesInRows
        Under disjoint events; one if there is no union.
    """

    def __init__(self, parts: Sequence[LeavesInRows]) -> None:
        self.parts = tuple(parts)
        self.circuit = self.parts[0].leaves.circuit

    @property
    def n_leaves(self) -> int:
        """Values that a row costs, of all circuits and parts."""
        return sum(part.leaves.circuit.size for part in self.parts)

    @cached_property
    def is_discrete(self) -> bool:
        """Whether every leaf has masses."""
        return all(part.leaves.is_discrete for part in self.parts)

    def levels(self, rows: slice, n_levels: int) -> tuple[np.ndarray, np.ndarray]:
        """Log weights (S, M) of circuits in some rows, and probabilities (S, M, K) of the column's levels."""
        logs, found = zip(*(part.levels(rows, n_levels) for part in self.parts), strict=True)
        whole, share = _joined(logs)
        return whole, found[0] if len(found) == 1 else np.sum(list(map(weighted, share, found)), axis=0)

    def moments(self, rows: slice, variance: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log weights, means and variances (S, M) in some rows, see `LeavesInRows.moments`."""
        logs, means, variances = zip(*(part.moments(rows, variance) for part in self.parts), strict=True)
        whole, share = _joined(logs)
        if len(means) == 1:
            return whole, means[0], variances[0]
        mean = np.sum(list(map(weighted, share, means)), axis=0)
        if not variance:
            return whole, mean, variances[0]
        with np.errstate(invalid="ignore"):  # of infinite means
            second = [v + (m - mean) ** 2 for v, m in zip(variances, means, strict=True)]
        return whole, mean, np.sum(list(map(weighted, share, second)), axis=0)

    def in_rows(self, rows: slice) -> "MixturesInRows":
        """The mixtures of some rows, which hold what each leaf is worth in them."""
        logs, shares = zip(*(part.shares(rows) for part in self.parts), strict=True)
        whole, share_of_part = _joined(logs)
        return MixturesInRows(self, np.arange(rows.start, rows.stop), shares, whole, share_of_part)

    @cached_property
    def students(self) -> StudentMixtures | None:
        """The leaves for kernels that take Student t's alone; parts have the same ones, or each is slow."""
        found = [part.leaves.students for part in self.parts]
        first = found[0]
        if first is None or not all(other is not None and first.is_same(other) for other in found[1:]):
            return None
        return StudentMixtures(first, self.circuit, int(self.circuit.max()) + 1)

    @cached_property
    def grid(self) -> LeafGrid | None:
        """Distribution functions of the leaves at common points, unless they differ from row to row."""
        laws = [part.leaves.all() for part in self.parts]
        return None if any(law is None for law in laws) else LeafGrid([law for law in laws if law is not None])


class MixturesInRows(NamedTuple):
    """Mixtures of the leaves of a column, one for each of M rows.

    Parameters
    ----------
    column : ColumnOfRows
    rows : (M,) int64
        Their numbers among all rows of the column.
    shares : sequence of (M, n) float64
        Probabilities of the leaves in their circuits, of each part.
    log_weights : (S, M) float64
        Of the circuits.
    share_of_part : (J, S, M) float64
        Of the parts in each circuit.
    """

    column: ColumnOfRows
    rows: np.ndarray
    shares: Sequence[np.ndarray]
    log_weights: np.ndarray
    share_of_part: np.ndarray

    def of_rows(self, kept: np.ndarray) -> "MixturesInRows":
        """The same of some rows (k,)."""
        shares = [share[kept] for share in self.shares]
        logs, share_of_part = self.log_weights[:, kept], self.share_of_part[:, :, kept]
        return MixturesInRows(self.column, self.rows[kept], shares, logs, share_of_part)

    @property
    def weight(self) -> np.ndarray:
        """Weights (S, M) of the circuits, of mean 1; 0 in impossible rows."""
        return relative_weights(self.log_weights)

    def quantile(self, q: np.ndarray, with_error: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Quantiles (M, Q): the smallest x with P(X <= x) >= q; at 0 and 1 the ends of the support.

        With them, if errors are wanted, densities (M, Q) and what each circuit adds (S, M, Q) to P(X <= x).
        """
        inner = (q > 0.0) & (q < 1.0)
        students, laws = self._students(q[inner])
        if students is None:
            least, most = laws.support()
            x = np.where(q <= 0.0, least[:, None], most[:, None])
            x[:, inner] = laws.quantile(q[inner], self._brackets(laws, q[inner]), REST)
            return (x, laws.density(x), self._below(laws, x)) if with_error else (x, x, x)
        x = np.tile(np.where(q <= 0.0, students[0].laws.lowest, np.inf), (self.rows.size, 1))
        density, below = np.zeros(x.shape), np.zeros((*self.log_weights.shape, q.size))
        x[:, inner], density[:, inner], below[:, :, inner] = students[0].quantile(*students[1:], q[inner], REST)
        return x, density, below

    def below(self, x: np.ndarray) -> np.ndarray:
        """What each circuit adds (S, M, Q) to P(X <= x) at points (M, Q) of each row's own."""
        students, laws = self._students(SMALLEST_TAIL)
        return self._below(laws, x) if students is None else students[0].below(*students[1:], x)

    def within(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """What each circuit adds (S, M, Q) to P(low <= X <= high), digits of far tails too; slower than `below`."""
        return self._added(self._laws(FARTHEST_TAIL), lambda law, row: law.leaf_within(low[row], high[row]), low.shape)

    @property
    def _student_shares(self) -> np.ndarray:
        """Probabilities (M, n) of leaves that all parts have."""
        if len(self.shares) == 1:
            return self.shares[0]
        of_leaves = self.share_of_part[:, self.column.circuit].transpose(0, 2, 1)
        return sum((of * share for of, share in zip(of_leaves, self.shares, strict=True)), np.zeros(()))

    def _weights(self) -> list[np.ndarray]:
        """Weights (M, n) of the leaves of each part, which add up to 1 in a row."""
        column, n_circuits = self.column, len(self.log_weights)
        of_circuits = self.share_of_part * self.weight / n_circuits
        found = [
            share * of[part.leaves.circuit].T
            for part, share, of in zip(column.parts, self.shares, of_circuits, strict=True)
        ]
        total = np.sum([weight.sum(axis=1) for weight in found], axis=0)
        found[0][~(total > 0.0)] = 1.0 / found[0].shape[1]  # impossible rows: some law, not answered
        return found

    def _laws(self, q: np.ndarray) -> RowLaws:
        """Laws of rows without the leaves that count for nothing.

        What is left out of a row is `NEGLIGIBLE` of the smallest tail that is asked for.
        """
        parts, least = list[WeightedLeaves](), _negligible(q) / self.column.n_leaves
        for weight, part in zip(self._weights(), self.column.parts, strict=True):
            row, leaf = np.nonzero((weight >= least) & (weight > 0.0))
            if row.size:  # else all rows are outside of this part
                mixtures = RowMixtures(row, leaf, weight[row, leaf], weight.shape[0])
                parts.append(WeightedLeaves(part.leaves, self.rows, mixtures))
        return RowLaws(tuple(parts), self.rows.size)

    def _students(self, q: np.ndarray) -> tuple[tuple[StudentMixtures, np.ndarray, np.ndarray, float] | None, Any]:
        """Mixtures for kernels of Student t's alone, shares, weights and what is left out; or None and the laws."""
        n_circuits, n_rows = self.log_weights.shape
        if self.column.students is not None:
            return (self.column.students, self._student_shares, self.weight / n_circuits, _negligible(q)), None
        laws = self._laws(q)
        found = [part.law.students for part in laws.parts if isinstance(part.law, ColumnLaw)]
        some = [own for own in found if own is not None]
        if not some or len(some) < len(laws.parts) or len({own.of_logs for own in some}) > 1:
            return None, laws
        location, scale, freedom = (np.concatenate(values) for values in list(zip(*some, strict=True))[:3])
        pairs = [part.mixtures for part in laws.parts]
        row, share = np.concatenate([own.row for own in pairs]), np.concatenate([own.weight for own in pairs])
        circuit = np.concatenate([part.leaves.circuit[part.mixtures.component] for part in laws.parts])
        own = StudentLaws(location, scale, freedom, some[0].of_logs)
        mixtures = StudentMixtures(own, circuit, n_circuits, row, n_rows)
        return (mixtures, share[None], np.ones((n_circuits, n_rows)), 0.0), laws

    def _brackets(self, laws: RowLaws, q: np.ndarray) -> Any:
        grid = self.column.grid
        return laws.wide_brackets(q) if grid is None else grid.brackets(self._weights(), q)

    def _below(self, laws: RowLaws, x: np.ndarray) -> np.ndarray:
        return self._added(laws, lambda law, row: law.leaf_cdf(x[row]), x.shape)

    def _added(
        self, laws: RowLaws, of_leaves: Callable[[LeafLaws, np.ndarray], np.ndarray], shape: tuple[int, ...]
    ) -> np.ndarray:
        n_circuits, (n_rows, n_points) = len(self.log_weights), shape
        total = np.zeros((n_points, n_circuits * n_rows))
        for part in laws.parts:
            row, leaf, share, _ = part.mixtures
            place, values = part.leaves.circuit[leaf] * n_rows + row, of_leaves(part.law, row)
            for k in range(n_points):
                total[k] += np.bincount(place, share * values[:, k], minlength=n_circuits * n_rows)
        return total.T.reshape(n_circuits, n_rows, n_points)


def _negligible(q: np.ndarray) -> float:
    """Weight that the leaves of a row have together that may be left out."""
    return NEGLIGIBLE * float(np.minimum(q, 1.0 - q).min(initial=0.5))


def _joined(logs: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Log weights (S, M) of circuits from those of the parts, and shares (J, S, M) of these in each circuit."""
    if len(logs) == 1:
        return logs[0], np.isfinite(logs[0])[None].astype(np.float64)
    with np.errstate(
        invalid="ignore"
    ):  # of rows so far out that their squares are no numbers: they count as impossible
        whole = np.logaddexp.reduce(logs, axis=0)
    return whole, np.exp(np.stack(logs) - np.where(np.isfinite(whole), whole, 0.0))
