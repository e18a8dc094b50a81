"""Counts of a table with levels: what a BDeu score and effects between levels are made from."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_spn.tables import Table


@dataclass(frozen=True, eq=False)
class LevelCounts:
    """Distinct rows of a table with levels, and how often each counts.

    Parameters
    ----------
    codes : (n, d) int64
        Distinct rows, levels as codes from 0.
    weights : (d, n) int64
        By child: how often each row occurs where the child was not set by an experimenter.
    levels : tuple of tuples
        The values that codes stand for, by variable.
    ess : float or scalar tensor
        Equivalent sample size of the prior.
    """

    codes: np.ndarray
    weights: np.ndarray
    levels: tuple[tuple[Any, ...], ...]
    ess: Any

    @classmethod
    def of(cls, table: Table, intervened: np.ndarray, ess: Any) -> "LevelCounts":
        """Count the rows of a table.

        Parameters
        ----------
        table : Table
            Columns with levels, no gaps.
        intervened : (rows, d) bool
            Cells that an experimenter set.
        ess : float or scalar tensor
        """
        codes, weights, _ = distinct_rows(table.values.astype(np.int64), intervened)
        return cls(codes, weights, tuple(c.levels or (None,) for c in table.columns), ess)

    def times(self, units: np.ndarray) -> "LevelCounts":
        """The same: levels have no units."""
        return self

    @property
    def n_levels(self) -> np.ndarray:
        """(d,) int64: number of levels of each variable."""
        return np.array([len(levels) for levels in self.levels], np.int64)

    def dirichlet(self, child: int, parents: tuple[int, ...]) -> np.ndarray:
        """Parameters of the posterior of a child's probabilities, an axis for each parent and the last for the child.

        Heckerman, Geiger and Chickering (1995), equation 28: ess / (number of cells) plus the counts.
        """
        axes = [*parents, child]
        shape = tuple(int(n) for n in self.n_levels[axes])
        cell = np.ravel_multi_index(tuple(self.codes[:, axes].T), shape)
        counts = np.bincount(cell, self.weights[child], minlength=int(np.prod(shape)))
        return (counts + self.ess / counts.size).reshape(shape)


def distinct_rows(codes: np.ndarray, intervened: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct rows (n, d), how often each counts for each child (d, n), and which of them each row is (rows,)."""
    found, which = np.unique(codes, axis=0, return_inverse=True)
    which = which.reshape(-1)
    weights = np.stack([np.bincount(which[~cells], minlength=len(found)) for cells in intervened.T])
    return found, weights, which
