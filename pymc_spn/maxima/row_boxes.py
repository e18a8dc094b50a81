"""Where the columns of a most probable row may lie."""

from typing import Any, NamedTuple

import numpy as np

from pymc_spn.events.events import Interval
from pymc_spn.laws.law import Law
from pymc_spn.leaves.intervals import Likelihood
from pymc_spn.leaves.leaf_peaks import ColumnRange
from pymc_spn.numerics.draw_averages import relative_weights

LEAST_POSITIVE = float(np.finfo(np.float64).tiny)  # an interval that begins below it begins at 0
BULK = 1e-3  # quantile of a column whose density grows towards 0 below which no row is sought


class RowBox(NamedTuple):
    """Values that D columns may have.

    Parameters
    ----------
    low, high : (D,) float64
        Closed ends, whole numbers of discrete columns.
    values : tuple of (k,) float64 or None
        All values of a column, ascending, where they are few.
    is_discrete : (D,) bool
    """

    low: np.ndarray
    high: np.ndarray
    values: tuple[np.ndarray | None, ...]
    is_discrete: np.ndarray

    def of_column(self, d: int) -> ColumnRange:
        """Ends and values of one column."""
        values = self.values[d]
        return ColumnRange(float(self.low[d]), float(self.high[d]), None if values is None else tuple(values.tolist()))

    def clipped(self, rows: np.ndarray) -> np.ndarray:
        """Rows (n, D) with each value moved to the nearest one that its column may have."""
        out = np.clip(np.where(self.is_discrete, np.round(rows), rows), self.low, self.high)
        for d, values in enumerate(self.values):
            if values is not None:
                out[:, d] = values[np.abs(values - out[:, d, None]).argmin(axis=1)]
        return out


def row_box(law: Law) -> RowBox:
    """The box of a law: its events, the kinds of its columns, and the bulk of columns whose density grows towards 0.

    Values that a column's kind excludes are not in it, though a Gaussian leaf may give them mass.
    """
    least = {"positive": LEAST_POSITIVE, "count": 0.0}
    n = len(law.columns)
    low, high = np.full(n, -np.inf), np.full(n, np.inf)
    values: list[np.ndarray | None] = [None] * n
    n_levels, spiked = law.n_levels, law.grows_at_zero
    for d, column in enumerate(law.columns):
        event: Any = law.known(d)
        low[d] = least.get(column.kind, -np.inf)
        if isinstance(event, Interval):
            low[d], high[d] = max(low[d], event.low), event.high
        elif event is not None:
            some = [x for x, w in zip(*event, strict=True) if w > -np.inf] if isinstance(event, Likelihood) else event
            values[d] = np.array(sorted(some), np.float64)
        if spiked[d] and low[d] <= LEAST_POSITIVE:
            low[d] = max(low[d], _bulk(law, d))
        if not law.is_density[d]:
            low[d], high[d] = np.ceil(low[d]), np.floor(high[d])
        if values[d] is None and n_levels[d]:
            levels = np.arange(float(n_levels[d]))
            values[d] = levels[(levels >= low[d]) & (levels <= high[d])]
        listed = values[d]
        if listed is not None:
            low[d], high[d] = listed[0], listed[-1]
    return RowBox(low, high, tuple(values), ~law.is_density)


def _bulk(law: Law, d: int) -> float:
    """The quantile at `BULK` of what a column has above 0."""
    column: Any = law.column(d).mixed(relative_weights(law.log_weights))
    negative = column.cdf(np.zeros(1))[0]  # of leaves beside those that grow
    return float(column.quantile(negative + BULK * (1.0 - negative))[0])
