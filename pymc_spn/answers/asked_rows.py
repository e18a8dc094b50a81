"""Rows of a table in which one column is asked for: their weights under each draw, and its leaves in them."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.laws.column_laws import regions_of
from pymc_spn.networks.records.draw_averages import effective_draws, relative_weights

if TYPE_CHECKING:
    from pymc_spn.answers.prediction_answers import PredictionAnswers

BLOCK_VALUES = 2_000_000  # values of leaves of all draws held at a time (16 MB)


class AskedRows:
    """Rows without what they say of one column, under a posterior or disjoint parts of one.

    Parameters
    ----------
    parts : sequence of PredictionAnswers
        One posterior given events of which no two hold at once.
    read : sequence of (values, possible)
        Rows (M, D) without the column and whether they are possible (M,), for each part.
    index : Index
        Labels of the rows.
    d : int
        Number of the column.
    refuse : bool
        Whether a row that the evidence excludes is an error. All weights of rows that are impossible are 0.
    """

    def __init__(
        self,
        parts: "Sequence[PredictionAnswers]",
        read: Sequence[tuple[np.ndarray, np.ndarray]],
        index: Any,
        d: int,
        refuse: bool = True,
    ) -> None:
        self.parts, self.column, self.index = parts, d, index
        self._read, self._refuse = read, refuse
        states = parts[0]._states
        self.leaves = [states.leaves(s, d) for s in range(states.n_draws)]  # of the column, draw by draw
        self._step, self._ess, self._impossible = 1, [np.zeros(0)], [np.zeros(0, np.bool_)]

    @classmethod
    def of_table(cls, parts: "Sequence[PredictionAnswers]", df: Any, d: int) -> "AskedRows":
        """Rows of a DataFrame, mapping or array, with or without the column."""
        read = [part._rows_without(df, d) for part in parts]
        return cls(parts, [(values, possible) for values, possible, _ in read], read[0][2], d)

    @cached_property
    def n_leaves(self) -> np.ndarray:
        """Leaves (S,) of each draw."""
        return np.array([leaves.family.size for leaves in self.leaves])

    def blocks(self, n_values: int) -> Iterator[slice]:
        """Blocks of rows of which so many values each are held; one without rows where there are none."""
        self._step = max(1, BLOCK_VALUES // max(n_values, 1))
        for start in range(0, max(len(self.index), 1), self._step):
            yield slice(start, min(start + self._step, len(self.index)))

    def weigh(self, rows: slice, note: Callable[[int, int, np.ndarray], None]) -> tuple[np.ndarray, np.ndarray]:
        """Weights (S, M) of the draws in some rows, of mean 1, and shares (J, S, M) of the parts in each.

        ``note(j, s, share)`` is told the probabilities (M, n) of the column's leaves under part j and draw s.

        Raises
        ------
        ValueError
            If the evidence excludes a row, unless none is to be refused.
        """
        first, n_rows = self.parts[0], rows.stop - rows.start
        states = first._states
        path = regions_of(states.structure, self.column)
        logs = np.empty((len(self.parts), states.n_draws, n_rows))
        for j, (part, (values, possible)) in enumerate(zip(self.parts, self._read, strict=True)):
            shares = part._shares(values[rows], path)
            for s in range(states.n_draws):
                share = np.zeros((n_rows, self.n_leaves[s]))
                shares(s, states.network(s), logs[j, s], share)
                note(j, s, share)
            logs[j] = np.where(possible[rows], logs[j], -np.inf)
        whole = np.logaddexp.reduce(logs, axis=0)
        impossible = ~np.isfinite(whole.max(axis=0))
        excluded = ~np.any([possible[rows] for _, possible in self._read], axis=0)
        if self._refuse and excluded.any():
            m = rows.start + int(np.argmax(excluded))
            place = f"row {self.index[m : m + 1].tolist()[0]!r}"
            if len(self.parts) > 1:
                raise ValueError(f"{place}: the union that the posterior is conditioned on excludes it")
            first._refuse_row(place, self._read[0][0][m])
        share_of_part = np.exp(logs - np.where(np.isfinite(whole), whole, 0.0))
        self._impossible.append(impossible)
        whole = whole + first._log_weights[:, None]  # change of units: the same for all draws
        self._ess.append(effective_draws(whole))
        return relative_weights(whole), share_of_part

    @property
    def is_impossible(self) -> np.ndarray:
        """Which of the rows (M,) are, once all blocks are weighed."""
        return np.concatenate(self._impossible)

    def answered(self, blocks: Sequence[np.ndarray], axis: int = 0) -> np.ndarray:
        """Answers of all blocks as one array, NaN in impossible rows; a warning names these.

        Parameters
        ----------
        blocks : sequence of (..., M, ...) float64
        axis : int
            Of the rows.
        """
        answer = np.concatenate(blocks, axis=axis)
        np.moveaxis(answer, axis, 0)[self.is_impossible] = np.nan
        first = self.parts[0]
        first._warn_of_rows(self.is_impossible, self._read[0][0], self.index, "Their answers are NaN")
        return answer

    def marks(self, errors: list[dict[str, Any]]) -> dict[str, Any]:
        """Attributes of an average over draws: its errors, from those of all blocks, and the effective draws."""
        joined = self.parts[0]._joined_errors(errors, len(self.index), self._step)
        return {**joined, "draws_after_weighting": np.concatenate(self._ess)}
