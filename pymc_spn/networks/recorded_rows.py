"""One column in each of many rows under recorded draws: shares and averages of its leaves by kernels over blocks."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pymc_spn.laws.column_laws import ColumnLaw
from pymc_spn.laws.column_of_rows import LeavesInRows, finite_part
from pymc_spn.laws.student_mixtures import StudentLaws, students_of
from pymc_spn.leaves.leaf_predictives import Leaves

if TYPE_CHECKING:
    from pymc_spn.networks.recorded_law import RecordedLaw


KEPT_VALUES = 8_000_000  # probabilities of leaves in rows (64 MB)


class PredictiveLeaves(NamedTuple):
    """Leaves of a column under all draws, see `LeavesOfColumn`.

    Parameters
    ----------
    leaves : Leaves
        Of all draws (n,), one draw after the other.
    circuit : (n,) int64
    event : Interval, frozenset or None
        What the column is known to satisfy.
    """

    leaves: Leaves
    circuit: np.ndarray
    event: Any

    @property
    def is_discrete(self) -> bool:
        """See `LeavesOfColumn`."""
        return self.all().is_discrete

    def all(self) -> ColumnLaw:
        """See `LeavesOfColumn`."""
        return ColumnLaw(self.leaves, np.ones(self.circuit.size), np.zeros(1, np.int64), self.event)

    def of_pairs(self, row: np.ndarray, leaf: np.ndarray) -> ColumnLaw:
        """See `LeavesOfColumn`: the same in all rows."""
        return ColumnLaw(self.leaves.some(leaf), np.ones(leaf.size), np.zeros(1, np.int64), self.event)

    @property
    def students(self) -> StudentLaws | None:
        """See `LeavesOfColumn`."""
        return students_of(self.leaves, self.event)

    def levels(self) -> np.ndarray:
        """Probabilities (n, K) of the column's levels."""
        p = self.leaves.parameters / self.leaves.parameters.sum(axis=1, keepdims=True)
        if isinstance(self.event, frozenset):
            p = p * np.isin(np.arange(p.shape[1]), list(self.event))
            p = p / p.sum(axis=1, keepdims=True)
        return p


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
        circuit = np.repeat(np.arange(law.states.n_draws), np.diff(self._begin))
        self.leaves: PredictiveLeaves = PredictiveLeaves(leaves, circuit, self._event)
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
        return self.leaves.levels()

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
            question = self._question(kept, np.empty((int(self._begin[-1]), 0)))
            logs, *shares = self._law.states.blocks.shares(question, self.several)
            found = self._log_weights(kept, logs), *shares
            self._kept = kept, found
        part = slice(rows.start - kept.start, rows.stop - kept.start)
        return found[0][:, part], *(shares[part] for shares in found[1:])

    def levels(self, rows: slice, n_levels: int) -> tuple[np.ndarray, np.ndarray]:
        """See `LeavesInRows`."""
        logs, found = self._law.states.blocks.averages(self._question(rows, self._levels))
        return self._log_weights(rows, logs), found

    def moments(self, rows: slice, variance: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `LeavesInRows`: the variance is that within leaves and that between them."""
        numbers, mended = finite_part(self._moments if variance else self._moments[:, :1])
        logs, found = self._law.states.blocks.averages(self._question(rows, numbers), variance)
        found = mended(found)
        spread = found[..., 1] + found[..., 2] if variance else np.zeros(logs.shape)
        return self._log_weights(rows, logs), found[..., 0], spread

    def _question(self, rows: slice, numbers: np.ndarray) -> Any:
        return self._law.leaf_question(self._rows[rows], self._d, self._begin, numbers)

    def _log_weights(self, rows: slice, logs: np.ndarray) -> np.ndarray:
        """Of the draws: log densities (S, M) of the rows without a change of units, the same for all draws."""
        return np.where(self._possible[rows], logs, -np.inf) + self._law.chosen[:, None]
