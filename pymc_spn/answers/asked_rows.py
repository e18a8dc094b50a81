"""Rows of a table in which one column is asked for: their weights under each draw, and its leaves in them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from pymc_spn.answers.asked_law import AskedLaw, joined_errors
from pymc_spn.numerics.draw_averages import effective_draws, relative_weights
from pymc_spn.tables import Table, decode
from pymc_spn.tables.column import as_name

BLOCK_VALUES = 2_000_000  # values of leaves of all draws held at a time (16 MB)


class AskedRows:
    """Rows without what they say of one column, under a law or its parts.

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
    """

    def __init__(self, asked: AskedLaw, values: np.ndarray, index: Any, d: int, refuse: bool = True) -> None:
        self.asked, self.values, self.column, self.index = asked, values, d, index
        self.parts: Any = asked._law.parts  # of recorded draws
        self.events = [part.known(d) for part in self.parts]
        self._possible = [part.possible(values) for part in self.parts]
        self._refuse = refuse
        first: Any = self.parts[0]
        self.states, self._in_network = first.states, first.kept[d]
        self.leaves = [self.states.leaves(s, self._in_network) for s in range(self.states.n_draws)]
        self._begin = np.concatenate([[0], np.cumsum(self.n_leaves)]).astype(np.int64)
        self._step, self._ess, self._impossible = 1, [np.zeros(0)], [np.zeros(0, np.bool_)]

    @classmethod
    def of_table(cls, asked: AskedLaw, df: Any, d: int) -> "AskedRows":
        """Rows of a DataFrame, mapping or array, with or without the column."""
        name = asked.columns[d].name
        if isinstance(df, Table):
            df = decode(df.values, df.columns, df.index)
        others = tuple(c for c in asked.columns if c.name != name)
        if isinstance(df, pd.DataFrame):
            df = df.loc[:, [as_name(label) != name for label in df.columns]]
        elif isinstance(df, Mapping):
            df = {k: v for k, v in df.items() if as_name(k) != name}
        elif np.ndim(df) == 2 and np.shape(df)[1] == len(asked.columns):
            df = np.delete(np.asarray(df), d, axis=1)
        if not others:
            raise ValueError(f"target {name!r} is the only column: there is nothing to predict it from")
        table = Table.from_frame(df, schema=others)
        return cls(asked, np.insert(table.values, d, np.nan, axis=1), table.index, d)

    @cached_property
    def n_leaves(self) -> np.ndarray:
        """Leaves (S,) of each draw."""
        return np.array([leaves.family.size for leaves in self.leaves])

    def leaf_moments(self, s: int, event: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n,) of the column's leaves under draw s, given an event of it or None."""
        return self.states.leaf_moments(s, self._in_network, event)

    def blocks(self, n_values: int) -> Iterator[slice]:
        """Blocks of rows of which so many values each are held; one without rows where there are none."""
        self._step = max(1, BLOCK_VALUES // max(n_values, 1))
        for start in range(0, max(len(self.index), 1), self._step):
            yield slice(start, min(start + self._step, len(self.index)))

    def averages(
        self, rows: slice, laws: Sequence[np.ndarray], variance: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Averages over the leaves of the column in some rows, under each part and draw.

        Parameters
        ----------
        rows : slice
        laws : sequence of (n, K) float64
            For each part K numbers of every leaf of all draws, of which infinite ones make the average infinite.
        variance : bool
            Whether the variance of the first number over the leaves is wanted, too, as one number more.

        Returns
        -------
        averages : (J, S, M, K) or (J, S, M, K + 1) float64
        weight : (S, M) float64
            Of the draws, of mean 1.
        share_of_part : (J, S, M) float64
            Of the parts in each draw.

        Raises
        ------
        ValueError
            If a row is outside of what is known, unless none is to be refused.
        """
        found, logs = [], []
        for j, law in enumerate(laws):
            heavy = np.isinf(law)
            some = np.flatnonzero(heavy.any(axis=0))
            finite = np.concatenate([np.where(heavy, 0.0, law), heavy[:, some]], axis=1)
            asked = self.parts[j].leaf_question(self.values[rows], self.column, self._begin, finite)
            log, mean = self.states.blocks.averages(asked, variance)
            width = law.shape[1]
            for i, k in enumerate(some.tolist()):
                mean[:, :, k] = np.where(mean[:, :, width + i] > 0.0, np.inf, mean[:, :, k])
            found.append(np.delete(mean, np.s_[width : width + some.size], axis=2))
            logs.append(log)
        return np.stack(found), *self._weigh(rows, np.stack(logs))

    def shares(self, rows: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Probabilities (J, M, n) of the leaves of all draws in some rows, given each draw; else as `averages`."""
        nothing = np.empty((int(self._begin[-1]), 0))
        asked = [part.leaf_question(self.values[rows], self.column, self._begin, nothing) for part in self.parts]
        found = [self.states.blocks.shares(one) for one in asked]
        logs, shares = (np.stack(each) if len(each) > 1 else each[0][None] for each in zip(*found, strict=True))
        return shares, *self._weigh(rows, logs)

    def _weigh(self, rows: slice, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the draws and shares of the parts by log densities (J, S, M) of some rows."""
        logs = np.where(np.stack([possible[rows] for possible in self._possible])[:, None], logs, -np.inf)
        whole = np.logaddexp.reduce(logs, axis=0)
        impossible = ~np.isfinite(whole.max(axis=0))
        if self._refuse:
            excluded = ~np.any(self._possible, axis=0)[rows]
            self.asked._refuse_rows(excluded, self.values[rows], self.index[rows])
        share_of_part = np.exp(logs - np.where(np.isfinite(whole), whole, 0.0))
        self._impossible.append(impossible)
        whole = whole + self.parts[0].chosen[:, None]  # change of units: the same for all draws
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
        self.asked._warn_of_rows(self.is_impossible, self.values, self.index, "Their answers are NaN", 5)
        return answer

    def error(self, influence: np.ndarray) -> dict[str, Any]:
        """Standard error of an average over draws, as attributes."""
        return self.asked._error(influence)

    def marks(self, errors: list[dict[str, Any]]) -> dict[str, Any]:
        """Attributes of an average over draws: its errors, from those of all blocks, and the effective draws."""
        joined = joined_errors(errors, len(self.index), self._step)
        effective = {"draws_after_weighting": np.concatenate(self._ess)}
        return {**joined, **(effective if self.asked._law.marks.has_error else {})}
