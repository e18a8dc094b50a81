"""Rows of a table in which one column is asked for: the column under a law, and the weights of its circuits."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pymc_spn.answers.asked_law import AskedLaw, joined_errors
from pymc_spn.laws.column_of_rows import MixturesInRows
from pymc_spn.numerics.draw_averages import effective_draws, relative_weights
from pymc_spn.tables import Table
from pymc_spn.tables.column import as_name
from pymc_spn.tables.frame_kinds import pandas_frame, single_row
from pymc_spn.tables.table import with_gaps_marked

BLOCK_VALUES = 2_000_000  # values of leaves of all circuits held at a time (16 MB)


class AskedRows:
    """Rows without what they say of one column.

    Parameters
    ----------
    asked : AskedLaw
    values : (M, D) float64
        Rows without the column.
    index : Index
        Labels of the rows.
    d : int
        Number of the column.
    refuse : bool
        Whether a row that is outside of what is known is an error. All weights of rows that are impossible are 0.

    Raises
    ------
    ValueError
        If a row is outside of what is known, unless none is to be refused.
    """

    def __init__(self, asked: AskedLaw, values: np.ndarray, index: Any, d: int, refuse: bool = True) -> None:
        self.asked, self.values, self.d, self.index = asked, values, d, index
        if refuse:
            asked._refuse_rows(~asked._law.possible(values), values, index)
        self.column = asked._law.column_of_rows(d, values)
        self._step, self._ess, self._impossible = 1, [np.zeros(0)], [np.zeros(0, np.bool_)]

    @classmethod
    def of_table(cls, asked: AskedLaw, df: Any, d: int, unseen: str = "error") -> "AskedRows":
        """Rows of a DataFrame, mapping, array or Table, with or without the column."""
        name = asked.columns[d].name
        if len(asked.columns) == 1:
            raise ValueError(f"target {name!r} is the only column: there is nothing to predict it from")
        df = single_row(pandas_frame(df, "df"))
        df = with_gaps_marked(df, asked.columns)  # before the target, whose own gaps count, is dropped
        if isinstance(df, Table):
            others = [k for k, other in enumerate(df.names) if other != name]
            columns = tuple(df.columns[k] for k in others)
            df = Table(columns, df.values[:, others], df.index) if others else pd.DataFrame(index=df.index)
        elif isinstance(df, pd.DataFrame):
            df = df.loc[:, [as_name(label) != name for label in df.columns]]
        elif isinstance(df, Mapping):
            df = {k: v for k, v in df.items() if as_name(k) != name}
        elif np.ndim(df) == 2 and np.shape(df)[1] == len(asked.columns):
            df = np.delete(np.asarray(df), d, axis=1)
        table = asked._table(df, unseen, without=d)
        return cls(asked, np.insert(table.values, d, np.nan, axis=1), table.index, d)

    @property
    def n_circuits(self) -> int:
        """S."""
        return self.asked._law.n_circuits

    def blocks(self, n_values: int) -> Iterator[slice]:
        """Blocks of rows, each with so many values; one block without rows where there are none."""
        self._step = max(1, BLOCK_VALUES // max(n_values, 1))
        for start in range(0, max(len(self.index), 1), self._step):
            yield slice(start, min(start + self._step, len(self.index)))

    def in_rows(self, rows: slice) -> tuple[MixturesInRows, np.ndarray]:
        """Mixtures of the column's leaves in some rows, and the weights of the circuits, see `weigh`."""
        found = self.column.in_rows(rows)
        return found, self.weigh(found.log_weights)

    def weigh(self, log_weights: np.ndarray) -> np.ndarray:
        """Weights (S, M) of the circuits, of mean 1, in the rows of the next block; 0 in impossible ones."""
        self._impossible.append(~np.isfinite(log_weights.max(axis=0)))
        self._ess.append(effective_draws(log_weights))
        return relative_weights(log_weights)

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
        self.asked._warn_of_rows(self.is_impossible, self.values, self.index, "Their answers are NaN")
        return answer

    def error(self, influence: np.ndarray) -> dict[str, Any]:
        """Standard error of an average over draws, as attributes."""
        return self.asked._error(influence)

    def marks(self, errors: list[dict[str, Any]]) -> dict[str, Any]:
        """Attributes of an average over draws: its errors, from those of all blocks, and the effective draws."""
        joined = joined_errors(errors, len(self.index), self._step)
        effective = {"draws_after_weighting": np.concatenate(self._ess)}
        return {**joined, **(effective if self.asked._law.marks.has_error else {})}
