"""Questions about whole rows: how dense and unusual they are, and what stood in their gaps."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pymc_spn.answers.asked_law import AskedLaw, joined_errors, of_each_draw, relative
from pymc_spn.answers.event_questions import ROWS_NOTE
from pymc_spn.answers.pooled_estimates import SHARED_MODEL
from pymc_spn.answers.reference_rows import check_comparison, compare_rows, on_grid_rows
from pymc_spn.answers.rows_in_parts import also_in_parts
from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.numerics.draw_averages import attrs_of_finite, log_average, relative_weights, weighted_mean
from pymc_spn.numerics.marks import SIMULATION
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.tables import decode, row_labels
from pymc_spn.tables.frame_kinds import frame_kind, frame_of_kind, pandas_frame, single_row
from pymc_spn.tables.inputs import TableLike
from pymc_spn.tables.table import kind_of_columns

if TYPE_CHECKING:
    import xarray as xr

BLOCK_VALUES = 2_000_000  # per-draw log densities held at a time (16 MB)


@also_in_parts
@of_each_draw
def log_density(
    self: AskedLaw,
    df: TableLike,
    per_draw: bool = False,
    cells: bool = True,
    *,
    interval: float | None = None,
    unseen: str = "error",
) -> "xr.DataArray":
    """Calculate the log density of new rows, with missing cells summed out.

    Parameters
    ----------
    df : DataFrame of pandas, polars or pyarrow, mapping, array or Table
        Checked by the schema of the training table; NaN is missing, a row of NaN has log density 0. For a dask
        DataFrame the answer is a lazy Series, for a Dataset in chunks a lazy DataArray.
    per_draw : bool
        Whether to return each draw's own density instead of the log of their mean.
    cells : bool
        Whether a rounded value (``rounded=`` of `SPN`) counts as its interval, by log(mass / width), as it
        does in learning. This is a mean density, which compares with densities. Otherwise a value counts by the density
        at the point.
    unseen : {"error", "missing"}
        What to do with a level that the training table does not have.
    interval : float, optional
        As for `probability`.

    Returns
    -------
    DataArray
        (row,) or (chain, draw, row), in nats; densities are in the units of the data. ``-inf`` outside of what is
        known.

    Raises
    ------
    ValueError
        For data that the schema refuses.

    Examples
    --------
    >>> post.log_density(df.head(2)).dims
    ('row',)
    """
    law, table = self._law, self._table(df, unseen)
    rows, mark = {"row": row_labels(table.index)}, self._cell_mark(cells)
    if per_draw:
        what = f"per_draw=True with {len(table.values):,} rows and {law.n_circuits:,} draws"
        refuse_memory(what, 24.0 * table.values.shape[0] * law.n_circuits, "ask for fewer rows at once")
        return self._labelled("log_density", law.log_density(table.values, cells), rows, True, **mark)
    total, weight = log_average(law.log_weights, np.zeros(law.n_circuits)), None
    answer, errors = np.empty(len(table.values)), []
    if law.marks.has_error:
        weight = relative(law)
    block = max(1, BLOCK_VALUES // law.n_circuits)
    for start in range(0, len(answer), block):
        logs = law.log_density(table.values[start : start + block], cells)
        answer[start : start + block] = log_average(law.log_weights, logs) - total
        if weight is not None:
            errors.append(self._error(relative_weights(logs + law.log_weights[:, None]) - weight[:, None]))
    attrs = mark | self._weight_mark(law) | joined_errors(errors, len(answer), block)
    return self._labelled("log_density", answer, rows, False, **attrs)


def anomaly(self: AskedLaw, df: TableLike) -> "xr.Dataset":
    """Score how unusual rows are, and in which columns.

    Parameters
    ----------
    df : DataFrame of pandas, polars or pyarrow, mapping or array
        Missing cells are summed out.

    Returns
    -------
    Dataset
        ``log_density`` (row,), of the mixture over draws. ``log_density_sd`` (row,), the posterior sd of that under one
        draw of everything, NaN if a draw that counts gives the row density 0. ``surprise`` (row, column), minus the log
        density of each cell given the others of its row, in nats. It is NaN where the cell is missing or where the
        others are impossible under every draw. Thus a single impossible cell has an infinite surprise, and the other
        cells of its row have none. Surprises are comparable between rows, but only between columns of the same kind.

    Examples
    --------
    >>> odd = post.anomaly(df.assign(age=df["age"].where(df.index != 7, 5.0)))
    >>> int(odd["log_density"].to_series().idxmin())
    7
    """
    import xarray as xr

    law, drawn, table = self._law, self._drawn._law, self._table(df)
    values, names = table.values, [c.name for c in self.columns]
    out, sd = np.empty(len(values)), np.empty(len(values))
    surprise = np.full(values.shape, np.nan)
    total, weight = log_average(law.log_weights, np.zeros(law.n_circuits)), relative(law)
    errors: list[dict[str, Any]] = []
    step = max(1, BLOCK_VALUES // (law.n_circuits * (1 + values.shape[1])))
    for start in range(0, len(values), step):
        part = slice(start, start + step)
        logs, left_out = law.log_density_left_out(values[part])
        joint = log_average(law.log_weights, logs)
        out[part] = joint - total
        with np.errstate(invalid="ignore"):  # draws of density 0 have no spread, cells given what is impossible no law
            own = logs if drawn is law else drawn.log_density(values[part], cells=True)
            sd[part] = np.sqrt(weighted_mean(weight, (own - weighted_mean(weight, own)) ** 2))
            rest = log_average(law.log_weights, left_out) - joint[:, None]
        surprise[part] = np.where(np.isnan(values[part]), np.nan, rest)
        errors.append(self._error(relative_weights(logs + law.log_weights[:, None]) - weight[:, None]))
    own_marks = {**self._cell_mark(), **self._weight_mark(law)}
    joined = attrs_of_finite(out, self._attrs(**own_marks, **joined_errors(errors, len(values), step)))
    attrs = self._attrs(**own_marks, mcse_chain_note="no mcse_chain: log_density has one")
    return xr.Dataset(
        {
            "log_density": ("row", out, joined),
            "log_density_sd": ("row", sd, attrs),
            "surprise": (("row", "column"), surprise, attrs),
        },
        {"row": row_labels(table.index), "column": names},
        self._attrs(**self._cell_mark()),
    )


@also_in_parts
def impute(
    self: AskedLaw,
    df: TableLike,
    n: int = 1,
    random_seed: int | np.random.Generator | None = None,
    *,
    on_grid: bool = True,
) -> pd.DataFrame | list[pd.DataFrame]:
    """Fill the gaps of a table, given the observed cells of their row.

    For each row, the draws of the chain are weighted by the density of its observed cells. Its missing cells are drawn
    together. Rounded values (``rounded=`` of `SPN`) stand for their intervals. Filled-in values are rounded as the
    training table is.

    Parameters
    ----------
    df : DataFrame of pandas, polars or pyarrow, mapping, array or Table
        In any order, checked by the schema of the training table; NaN, None and pd.NA are missing. Columns that it
        lacks are not filled in; columns that the schema does not have stay as they are. For a dask DataFrame the
        answer is another, filled in when it is computed, with a random stream for each partition.
    n : int
        Number of completed tables, at least 0. For `pool_estimates`, draw each table from its own circuit instead.
    random_seed : int or Generator, optional
        The same seed fills in the same cells; a generator advances.
    on_grid : bool
        Whether real numbers are rounded to the grid on which the training table records their column, if it has one.

    Returns
    -------
    DataFrame, or list of n DataFrame where n is not 1
        Index and order of columns of `df`. Observed cells are unchanged; a column with gaps has the dtype of the
        training table, or float64 where a leaf of real numbers drew for a column of integers. The ``attrs`` hold
        the marks of an answer; ``draws_after_weighting`` is that of the row for which the fewest draws count. If `df`
        is a table of polars or pyarrow, so are the results, without index and ``attrs``.

    Raises
    ------
    TypeError, ValueError
        If the schema refuses the data (an unknown level, for example), the condition excludes a row, or `n` is not an
        integer of at least 0.

    Warns
    -----
    UserWarning
        If the density of some rows is zero under every draw; it names them. Their gaps stay.

    Examples
    --------
    >>> int(df.isna().sum().sum()), int(post.impute(df, random_seed=1).isna().sum().sum())
    (1, 0)
    >>> len(post.impute(df, n=5, random_seed=1))
    5
    """
    asked = single_row(pandas_frame(df, "df"))
    table = self._table(asked)
    values = table.values
    count = checked_count("n", n, bytes_each=16.0 * values.size)
    self._refuse_rows(~self._law.possible(values), values, table.index)
    found = self._law.complete(values, count, np.random.default_rng(random_seed))
    self._warn_of_rows(found.impossible, values, table.index, "Their gaps are not filled in")
    filled = (on_grid_rows(self._law, rows, np.isnan(values)) if on_grid else rows for rows in found.values)
    frames = [decode(rows, self.columns, table.index) for rows in filled]
    if isinstance(asked, pd.DataFrame):
        known = {column.name for column in self.columns}
        frames = [frame.reindex(columns=[str(c) for c in asked.columns]) for frame in frames]
        for c in asked.columns:
            if str(c) not in known or not asked[c].isna().any():
                for frame in frames:
                    frame[str(c)] = asked[c]
    effective = {"draws_after_weighting": found.effective} if self._law.marks.has_error else {}
    shared = {"pooling_note": SHARED_MODEL} if count > 1 or self._law.marks.has_error else {}
    attrs = self._attrs(exactness=SIMULATION, **ROWS_NOTE, **shared, **effective)
    for frame in frames:
        frame.attrs = dict(attrs)
    kind = frame_kind(df) if isinstance(asked, pd.DataFrame) else kind_of_columns(self.columns)
    frames = [frame_of_kind(frame, kind) for frame in frames]
    return frames[0] if count == 1 else frames


def predictive_p_value(
    self: AskedLaw,
    df: TableLike,
    n: int = 1000,
    level: float = 0.01,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> "xr.Dataset":
    """Calculate which share of drawn rows is no denser than each row.

    The drawn rows have the same cells observed.

    Log densities of rows with different gaps are on different scales, since every observed cell has its share.
    The p-value puts them on one scale: a row drawn from the predictive has a p-value of at most u with probability
    at most u, whichever cells it lacks. Box (1980), "Sampling and Bayes' inference in scientific modelling and
    robustness", with the posterior predictive in place of the prior one.

    Parameters
    ----------
    df : DataFrame of pandas, polars or pyarrow, mapping, array or Table
        Checked by the schema of the training table; missing cells are summed out.
    n : int
        Number of rows to draw, each from the mixture over draws and rounded to the grid of its columns, as in the
        table. All rows of `df` are compared with the same ones.
    level : float
        The p-value up to which a row is below the threshold, at least 1 / (n + 1).
    random_seed : int or Generator, optional
        The same seed draws the same rows; a generator advances.
    progressbar : bool
        Whether to show a progress bar if the answer takes long.

    Returns
    -------
    Dataset
        ``p_value`` (row,), (1 + number of drawn rows that are at most as dense) / (n + 1), 1 for a row without an
        observed cell. ``log_density`` (row,), as `log_density`, in nats. ``threshold`` (row,), the log density below
        which the p-value is at most `level`; it depends on the gaps of the row. Both p-values and thresholds are
        Monte Carlo, with ``mcse`` for each row. P-values fall in steps of 1 / (n + 1), so order the oddest rows by
        ``log_density`` minus ``threshold``. If `level` is close to 1 / (n + 1), the stated error of a threshold is too
        small, by a factor of about 1.6.

    Raises
    ------
    TypeError, ValueError
        Data that the schema refuses; `n` is not an integer of at least 1; `level` not within 1 / (n + 1) and 1.

    See Also
    --------
    anomaly : In which cells a row is odd.

    Notes
    -----
    The cost is n log densities for each pattern of gaps in `df`. A change of units does not change p-values; a
    change of scale, such as taking logs, does.

    Examples
    --------
    >>> list(post.predictive_p_value(df.head(2), n=100, random_seed=1).data_vars)
    ['p_value', 'log_density', 'threshold']
    """
    import xarray as xr

    check_comparison(n, level)
    table = self._table(df)
    observed, rng = ~np.isnan(table.values), np.random.default_rng(random_seed)
    with counted("Comparing rows with drawn ones", progressbar):
        density = log_density(self, table)
        found = compare_rows(self._law, density.values, observed, int(n), float(level), rng)
    drawn = {"exactness": "monte-carlo"}
    marks = self._attrs(**drawn, n=int(n), mcse_chain_note="no mcse_chain: log_density has one")
    marks |= self._weight_mark(self._law)
    error = np.sqrt(found.p_value * (1.0 - found.p_value) / n)
    return xr.Dataset(
        {
            "p_value": ("row", found.p_value, marks | {"mcse": error}),
            "log_density": density,
            "threshold": ("row", found.threshold, marks | {"mcse": found.threshold_error, "level": float(level)}),
        },
        {"row": density["row"]},
        self._attrs(**drawn),
    )
