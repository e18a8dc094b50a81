"""How extreme each cell of a row is given the others: tail probabilities of its conditional law."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.answers.asked_law import AskedLaw
from pymc_spn.answers.asked_rows import AskedRows
from pymc_spn.answers.rows_in_parts import also_in_parts
from pymc_spn.numerics.draw_averages import weighted
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.tables import row_labels
from pymc_spn.tables.column import NOMINAL_KINDS
from pymc_spn.tables.inputs import TableLike

if TYPE_CHECKING:
    import xarray as xr

Tails = tuple[np.ndarray, np.ndarray]  # (M,), and what each draw contributes (S, M)
FAR = 1e-6  # tails below it are summed anew: as what is left of 1, or without small leaves, they have lost digits
TIES = 1e-10  # relative: probabilities of levels as near as that are equal


@also_in_parts
def cell_p_value(self: AskedLaw, df: TableLike, progressbar: bool = True) -> "xr.DataArray":
    """Calculate how extreme each cell is, given the other cells of its row.

    For a number, the p-value is twice the smaller of P(X <= x) and P(X >= x), at most 1. For a level, it is the
    total probability of all levels that are no more probable. X is the cell given the others, averaged over the
    draws and recorded on the grid of its column. Unlike a surprise (`anomaly`), it does not depend on the scale, or
    on logs, in which the column is measured.

    Parameters
    ----------
    df : DataFrame of pandas, polars or pyarrow, mapping, array or Table
        Checked by the schema of the training table; missing cells are summed out. For a dask DataFrame the answer is a
        lazy DataFrame, for a Dataset in chunks a lazy DataArray.
    progressbar : bool
        Whether to show a progress bar if the answer takes long.

    Returns
    -------
    DataArray
        (row, column) between 0 and 1; NaN where the cell is missing, or where the others are impossible under
        every draw. Exact, numerical where values are rounded; ``mcse_chain`` for each cell. Among rows drawn from
        the model, a share of at most u has a p-value of at most u.

    Raises
    ------
    TypeError, ValueError
        Data that the schema refuses.

    Notes
    -----
    The cost is that of the distribution functions of all leaves of a column in every row. Many cells are
    compared at once: among a thousand usual cells, expect up to ten with a p-value of at most 0.01.

    Examples
    --------
    >>> post.cell_p_value(df.head(2)).dims
    ('row', 'column')
    """
    table = self._table(df)
    found, error = np.full((2, *table.values.shape), np.nan)
    with counted("Comparing cells with the rest of their rows", progressbar) as bar:
        bar.expect(len(self.columns))
        for d in range(len(self.columns)):
            seen = ~np.isnan(table.values[:, d])
            found[seen, d], error[seen, d] = _tails(self, table.values[seen], table.index[seen], d)
            bar.advance()
    coords = {"row": row_labels(table.index), "column": [c.name for c in self.columns]}
    if np.isnan(error).all():
        marks: dict[str, Any] = self._error(np.full((self._law.n_circuits, 1), np.nan))
    else:
        marks = {"mcse_chain": error}
    return self._labelled("cell_p_value", found, coords, False, **self._cell_mark(), **marks)


def _tails(self: AskedLaw, values: np.ndarray, index: Any, d: int) -> tuple[np.ndarray, np.ndarray]:
    """p-values (M,) of the cells of one column and their standard errors over draws, NaN where there are none."""
    own, rest = values[:, d], values.copy()
    rest[:, d] = np.nan
    asked = AskedRows(self, rest, index, d, refuse=False)
    find = _of_levels if self.columns[d].kind in NOMINAL_KINDS else _of_numbers
    answer, error = [np.zeros(0)], [np.zeros(0)]
    for tail, influence in find(self, asked, own):
        answer.append(tail)
        error.append(np.broadcast_to(self._error(influence).get("mcse_chain", np.nan), tail.shape))
    nothing = asked.is_impossible  # given what cannot be, a cell has no law
    return np.where(nothing, np.nan, np.concatenate(answer)), np.where(nothing, np.nan, np.concatenate(error))


def _of_numbers(self: AskedLaw, asked: AskedRows, own: np.ndarray) -> Iterator[Tails]:
    """Twice the smaller of P(X <= x) and P(X >= x), of values as they are recorded."""
    d, law = asked.d, self._law
    half = 0.5 * law.resolution[d] if law.is_density[d] else 0.0
    ends = [own + half, own - half]
    if not law.is_density[d]:  # counts; a column of counts may have Gaussian leaves alone, though
        ends = [own, own - 1.0]
    elif half == 0.0:
        ends = ends[:1]
    x = np.stack(ends, axis=1)
    for rows in asked.blocks(asked.column.n_leaves * len(ends)):
        found, weight = asked.in_rows(rows)
        below = found.below(x[rows])
        lower, upper = below[:, :, 0], weight / len(weight) - below[:, :, -1]
        of_lower, of_upper = lower.sum(axis=0), np.maximum(upper.sum(axis=0), 0.0)
        is_lower = of_lower <= of_upper
        side = np.where(is_lower, lower, upper)
        far = np.flatnonzero(np.minimum(of_lower, of_upper) < FAR)
        if far.size:
            at, down = own[rows][far], is_lower[far]
            low, high = np.where(down, -np.inf, at - half)[:, None], np.where(down, at + half, np.inf)[:, None]
            side[:, far] = found.of_rows(far).within(low, high)[:, :, 0]
        smaller = side.sum(axis=0)
        influence = 2.0 * (len(weight) * side - weight * smaller)
        yield np.minimum(2.0 * smaller, 1.0), np.where(2.0 * smaller < 1.0, influence, 0.0)


def _of_levels(self: AskedLaw, asked: AskedRows, own: np.ndarray) -> Iterator[Tails]:
    """Probability of all levels that are no more probable than the one that is there."""
    n_levels = len(self.columns[asked.d].levels or ())
    for rows in asked.blocks(self._law.n_circuits * n_levels * len(asked.column.parts)):
        logs, per = asked.column.levels(rows, n_levels)
        weight = asked.weigh(logs)
        mean = weighted(weight, per).mean(axis=0)
        held = np.take_along_axis(mean, own[rows].astype(np.int64)[:, None], axis=1)
        is_tail = mean <= held * (1.0 + TIES)
        tail = (mean * is_tail).sum(axis=1)
        yield np.minimum(tail, 1.0), weighted(weight, (per * is_tail).sum(axis=2) - tail)
