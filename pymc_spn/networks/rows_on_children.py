"""On which child of the top sum node rows are, draw by draw, and how often rows of two tables share one."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pymc_spn.networks.partitions import togetherness_with
from pymc_spn.numerics.draw_averages import relative_weights
from pymc_spn.tables import Table

if TYPE_CHECKING:
    from pymc_spn.laws.law import Law
    from pymc_spn.networks.network_posterior import NetworkPosterior


class TrainingRows:
    """Training rows, whose children are part of the draws.

    Parameters
    ----------
    index : Index
        Labels of the rows.
    labels : (S, M) integers
        Equal for rows that share what is asked about; below 0 for rows about which nothing is recorded.
    """

    def __init__(self, index: pd.Index, labels: np.ndarray) -> None:
        self.index, self.labels = index, labels

    def some(self, rows: Any) -> "TrainingRows":
        """Some of the rows."""
        return TrainingRows(self.index[rows], self.labels[:, rows])

    def add_with_shares(self, shares: np.ndarray, s: int, weight: float, out: np.ndarray) -> None:
        """Add to (m, M) the probability under draw s that rows with such shares (m, K) are on the child of each."""
        slots = _by_first_appearance(self.labels[s])
        out[:, slots >= 0] += weight * shares[:, slots[slots >= 0]]

    def chosen_with_shares(self, shares: np.ndarray, s: int, chosen: np.ndarray) -> np.ndarray:
        """The same (m, k) of each row with the rows at the positions ``chosen`` (m, k)."""
        slots = _by_first_appearance(self.labels[s])[chosen]
        return np.where(slots < 0, 0.0, np.take_along_axis(shares, np.maximum(slots, 0), axis=1))

    @property
    def unknown(self) -> np.ndarray:
        """Rows (M,) about which no draw says anything."""
        return self.labels[0] < 0


class NewRows:
    """Rows that are assigned by themselves, given each draw and what is known.

    Parameters
    ----------
    post : NetworkPosterior
    values : (M, D) float64
    index : Index

    Raises
    ------
    ValueError
        If the condition of the posterior excludes a row.
    """

    def __init__(self, post: "NetworkPosterior", values: np.ndarray, index: pd.Index) -> None:
        self._post, self.values, self.index = post, values, index
        parts: Any = post._law.parts
        post._refuse_rows(~post._law.possible(values), values, index)
        self._possible = [part.has_density_at(values) for part in parts]
        self._asked = [part.asked(part.embedded(values)) for part in parts]
        self._best = np.full(len(values), -np.inf)

    @classmethod
    def of_table(cls, post: "NetworkPosterior", df: Any) -> "NewRows":
        """Rows of a DataFrame, mapping, array or Table."""
        table = Table.from_frame(df, schema=post._schema)
        return cls(post, table.values, table.index)

    def some(self, rows: Any) -> "NewRows":
        """Some of the rows."""
        return NewRows(self._post, self.values[rows], self.index[rows])

    def shares(self, s: int) -> np.ndarray:
        """Probabilities (M, K) of the children that hold training rows, under draw s."""
        states = self._post._states
        logs, found = map(np.stack, zip(*(states.blocks.child_shares(s, asked) for asked in self._asked), strict=True))
        logs = np.where(self._possible, logs, -np.inf)
        log = np.logaddexp.reduce(logs, axis=0)
        self._best = np.maximum(self._best, log)
        of_part = np.exp(logs - np.where(np.isfinite(log), log, 0.0))
        return np.einsum("jm,jmk->mk", of_part, found)[:, states.children_with_rows(states.network(s))]

    def add_with_shares(self, shares: np.ndarray, s: int, weight: float, out: np.ndarray) -> None:
        """Add to (m, M) the probability under draw s that rows with such shares (m, K) are on the child of each."""
        out += weight * (shares @ self.shares(s).T)

    def chosen_with_shares(self, shares: np.ndarray, s: int, chosen: np.ndarray) -> np.ndarray:
        """The same (m, k) of each row with the rows at the positions ``chosen`` (m, k)."""
        return np.take_along_axis(shares @ self.shares(s).T, chosen, axis=1)

    @property
    def unknown(self) -> np.ndarray:
        """Rows (M,) whose density is zero under every draw that was asked."""
        return self._best == -np.inf


type Rows = TrainingRows | NewRows


def weights_of(law: "Law") -> np.ndarray:
    """Weights (S,) of the draws, which add up to 1."""
    weight = relative_weights(law.log_weights)
    return weight / weight.sum()


def togetherness(rows: Rows, others: Rows, weight: np.ndarray) -> np.ndarray:
    """Probability (m, M) that each of some rows is on the same child as each of others; NaN where nothing is known."""
    if isinstance(rows, TrainingRows):
        assert isinstance(others, TrainingRows)
        out = togetherness_with(rows.labels, others.labels, weight)
    else:
        out = np.zeros((len(rows.index), len(others.index)))
        for s in range(weight.size):
            others.add_with_shares(rows.shares(s), s, weight[s], out)
    out[rows.unknown] = np.nan
    out[:, others.unknown] = np.nan
    return out


def togetherness_by_draw(rows: Rows, others: Rows, chosen: np.ndarray, n_draws: int) -> np.ndarray:
    """The same under every draw (S, m, k), of each row with k of the others at the positions ``chosen`` (m, k)."""
    if isinstance(rows, TrainingRows):
        assert isinstance(others, TrainingRows)
        return (rows.labels[:, :, None] == others.labels[:, chosen]).astype(np.float64)
    return np.stack([others.chosen_with_shares(rows.shares(s), s, chosen) for s in range(n_draws)])


def _by_first_appearance(labels: np.ndarray) -> np.ndarray:
    """Labels (N,) numbered as they come first, as the children of a rebuilt network are; -1 where there is none."""
    seen = labels >= 0
    out = np.full(labels.size, -1, np.int64)
    _, first, inverse = np.unique(labels[seen], return_index=True, return_inverse=True)
    out[seen] = np.argsort(np.argsort(first))[inverse]
    return out
