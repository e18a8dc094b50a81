"""Rows of a table in which one column is asked for: their weights under each draw, and its leaves in them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from pymc_spn.answers.asked_law import AskedLaw, joined_errors
from pymc_spn.laws.column_laws import regions_of
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
        self.parts = asked._law.parts
        self.events = [part.known(d) for part in self.parts]
        self._possible = [part.possible(values) for part in self.parts]
        self._refuse = refuse
        self.states, self._in_network = self.parts[0].states, self.parts[0].kept[d]
        self.leaves = [self.states.leaves(s, self._in_network) for s in range(self.states.n_draws)]
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

    def weigh(self, rows: slice, note: Callable[[int, int, np.ndarray], None]) -> tuple[np.ndarray, np.ndarray]:
        """Weights (S, M) of the draws in some rows, of mean 1, and shares (J, S, M) of the parts in each.

        ``note(j, s, share)`` is told the probabilities (M, n) of the column's leaves under part j and draw s.

        Raises
        ------
        ValueError
            If a row is outside of what is known, unless none is to be refused.
        """
        n_rows, states = rows.stop - rows.start, self.states
        path = regions_of(states.structure, self._in_network)
        logs = np.empty((len(self.parts), states.n_draws, n_rows))
        for j, (part, possible) in enumerate(zip(self.parts, self._possible, strict=True)):
            shares = part.shares(part.embedded(self.values[rows]), path)
            for s in range(states.n_draws):
                share = np.zeros((n_rows, self.n_leaves[s]))
                shares(s, states.network(s), logs[j, s], share)
                note(j, s, share)
            logs[j] = np.where(possible[rows], logs[j], -np.inf)
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
