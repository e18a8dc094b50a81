"""Mixtures of some of many components, one for each row: pairs of rows and components with weights."""

from typing import NamedTuple

import numpy as np
from scipy import sparse


class RowMixtures(NamedTuple):
    """Weights of components in rows.

    Parameters
    ----------
    row, component : (P,) int64
        The pairs; rows ascending.
    weight : (P,) float64
    n_rows : int
    """

    row: np.ndarray
    component: np.ndarray
    weight: np.ndarray
    n_rows: int

    def of_rows(self, kept: np.ndarray) -> "RowMixtures":
        """The mixtures of some rows (k,), ascending, which get new numbers."""
        if kept.size == self.n_rows:
            return self
        position = np.full(self.n_rows, -1)
        position[kept] = np.arange(kept.size)
        row = position[self.row]
        some = row >= 0
        return RowMixtures(row[some], self.component[some], self.weight[some], kept.size)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Weighted sums (M, Q) of values (P, Q) of the pairs over each row's."""
        pairs = np.arange(self.row.size)
        return sparse.csr_array((self.weight, (self.row, pairs)), shape=(self.n_rows, self.row.size)) @ values
