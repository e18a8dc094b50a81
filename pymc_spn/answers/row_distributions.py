"""How a number is spread given the other cells of each row: standard deviations, quantiles, distribution functions."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pymc_spn.answers.asked_law import AskedLaw
from pymc_spn.answers.asked_rows import AskedRows
from pymc_spn.answers.rows_in_parts import also_in_parts
from pymc_spn.numerics.asked_numbers import check_prob, checked_levels, checked_points
from pymc_spn.numerics.draw_averages import weighted
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.tables import row_labels
from pymc_spn.tables.column import NOMINAL_KINDS, as_name
from pymc_spn.tables.frame_kinds import pandas_frame
from pymc_spn.tables.inputs import TableLike

if TYPE_CHECKING:
    import xarray as xr

ROW_TOLERANCE = 1e-9  # of the spread of a row's law, of its quantiles: what these leaves could move


@also_in_parts
def predict_sd(self: AskedLaw, df: TableLike, target: str, *, unseen: str = "error") -> "xr.DataArray":
    """Calculate the standard deviation of a column, given the others of each row.

    It is that of a new value, not of its mean, and includes the variance within leaves, between them and between draws.

    Parameters
    ----------
    df : DataFrame of pandas, polars or pyarrow, mapping or array
        As in `predict_proba`.
    target : str
    unseen : {"error", "missing"}
        As in `predict_proba`.

    Returns
    -------
    DataArray
        (row,) float64, in the units of the column; exact, numerical where the column is known to be in an interval.
        If the tails are too heavy for a variance, it is infinite, and ``infinite_variance`` names the column.

    Raises
    ------
    ValueError
        If the target is unknown or has levels, the rows do not fit the other columns, or the posterior's
        condition excludes a row. Rows whose density is zero have NaN and a warning.

    Examples
    --------
    >>> post.predict_sd(df.head(2), "income").dims
    ('row',)
    """
    d = _number_asked(self, target)
    asked = AskedRows.of_table(self, df, d, unseen)
    answer, errors = [np.zeros(0)], []
    for rows in asked.blocks(3 * self._law.n_circuits * len(asked.column.parts)):
        logs, mean, variance = asked.column.moments(rows, variance=True)
        weight, is_heavy = asked.weigh(logs), np.isinf(mean)
        mean, variance = np.where(is_heavy, 0.0, mean), np.where(is_heavy, np.inf, variance)
        with np.errstate(invalid="ignore"):
            centre = weighted(weight, mean).mean(axis=0)
            second = weighted(weight, np.where(np.isinf(variance), np.inf, variance + (mean - centre) ** 2))
            sd = np.sqrt(second.mean(axis=0))
            # by the delta method; the centre is where the second moment is the least, and adds nothing
            influence = (second - weight * sd**2) / (2.0 * sd)
        answer.append(sd)
        errors.append(self._error(np.where(sd == 0.0, 0.0, influence)))
    values = asked.answered(answer)
    attrs = self._cell_mark(tolerance=self._law.moment_tolerance([d]))
    if np.isinf(values).any():
        attrs["infinite_variance"] = [target]
    coords = {"row": row_labels(asked.index)}
    return self._labelled("predict_sd", values, coords, False, **attrs, **asked.marks(errors))


@also_in_parts
def predict_quantile(
    self: AskedLaw, df: TableLike, target: str, q: npt.ArrayLike, *, unseen: str = "error"
) -> "xr.DataArray":
    """Calculate quantiles of a numeric column, given the others of each row.

    A quantile is the smallest x with P(target <= x given the row) >= q, where P is averaged over the draws.

    Parameters
    ----------
    df : DataFrame of pandas, polars or pyarrow, mapping or array
        As in `predict_proba`.
    target : str
    q : float or sequence of float
        Between 0 and 1.
    unseen : {"error", "missing"}
        As in `predict_proba`.

    Returns
    -------
    DataArray
        (row,), or (row, quantile) for several levels, in the units of the column. Exact for counts; numerical for
        densities, by Newton's method within brackets. At 0 and 1, the ends of the support.

    Raises
    ------
    TypeError, ValueError
        If q is not within 0 and 1; else as `predict_sd`.

    Examples
    --------
    >>> post.predict_quantile(df.head(2), "income", [0.05, 0.95]).dims
    ('row', 'quantile')
    """
    levels, d = checked_levels(q), _number_asked(self, target)
    asked = AskedRows.of_table(self, df, d, unseen)
    _refuse_many("q", np.size(levels), asked)
    q = np.atleast_1d(levels).astype(np.float64)
    has_masses = not self._law.is_density[d]
    answer, errors = [np.zeros((0, q.size))], []
    for rows in asked.blocks(asked.column.n_leaves * (1 if asked.column.students else q.size)):
        found, weight = asked.in_rows(rows)
        x, density, below = found.quantile(q, with_error=not has_masses)
        answer.append(self._law.at_zero(d, x) + self.columns[d].origin)
        if not has_masses:
            with np.errstate(divide="ignore", invalid="ignore"):  # by the delta method
                influence = (len(weight) * below - weight[:, :, None] * q) / density
            errors.append(self._error(influence))
    attrs: dict[str, Any] = {"column": target, **self._cell_mark(tolerance=0.0 if has_masses else ROW_TOLERANCE)}
    marks = asked.marks(errors)
    if has_masses:
        marks["mcse_chain_note"] = "no mcse_chain: a quantile of whole numbers moves in steps"
        marks.pop("mcse_chain", None)
    coords: dict[str, Any] = {"row": row_labels(asked.index), "quantile": q}
    quantiles = self._labelled("predict_quantile", asked.answered(answer), coords, False, **attrs, **marks)
    if levels.ndim:
        return quantiles
    if "mcse_chain" in quantiles.attrs:
        quantiles.attrs["mcse_chain"] = quantiles.attrs["mcse_chain"][:, 0]
    return quantiles.isel(quantile=0)


def predict_interval(
    self: AskedLaw, df: TableLike, target: str, prob: float = 0.9, *, unseen: str = "error"
) -> "xr.DataArray":
    """Calculate the central interval that holds a new value with probability `prob`.

    Returns (row, quantile) as `predict_quantile` does, at ``(1 - prob) / 2`` and ``(1 + prob) / 2``.

    Examples
    --------
    >>> post.predict_interval(df.head(2), "income", 0.8).sizes["quantile"]
    2
    """
    check_prob(prob, "prob")
    return predict_quantile(self, df, target, [0.5 - 0.5 * prob, 0.5 + 0.5 * prob], unseen=unseen)


@also_in_parts
def predict_cdf(
    self: AskedLaw, df: TableLike, target: str, x: npt.ArrayLike | None = None, *, unseen: str = "error"
) -> "xr.DataArray":
    """Calculate P(target <= x), given the other columns of each row.

    Parameters
    ----------
    df : DataFrame of pandas, polars or pyarrow, mapping or array
        As in `predict_proba`.
    target : str
        A numeric column.
    x : float or sequence of float, optional
        The same points for all rows. None takes the target's own cell of each row: probability integral
        transforms, which are uniform over rows where the predictive distribution of a continuous column is right.
    unseen : {"error", "missing"}
        As in `predict_proba`.

    Returns
    -------
    DataArray
        (row,), or (row, x) for several points, averaged over the draws; exact, numerical where columns are in
        cells. NaN where the row's own cell is missing.

    Raises
    ------
    TypeError, ValueError
        If x is not a number, or None and the target is not among the columns; else as `predict_sd`.

    Examples
    --------
    >>> post.predict_cdf(df.head(2), "income", [42.0]).round(0).values
    array([[0.],
           [1.]])
    """
    at, d = None if x is None else checked_points(x), _number_asked(self, target)
    rows = pandas_frame(df, "df")
    if at is None and isinstance(rows, pd.DataFrame) and target not in map(as_name, rows.columns):
        raise ValueError(f"x must be given where df has no column {target!r}")
    asked = AskedRows.of_table(self, df, d, unseen)
    _refuse_many("x", 1 if at is None else np.size(at), asked)
    if at is None:
        points = self._table(df, unseen).values[:, [d]]
    else:
        points = np.tile(np.atleast_1d(at) - self.columns[d].origin, (len(asked.index), 1))
    answer, error = _distribution_functions(asked, self._law.through_zero(d, points))
    if at is None or at.ndim == 0:
        answer, error = answer[:, 0], {k: v[:, 0] if k == "mcse_chain" else v for k, v in error.items()}
        coords: dict[str, Any] = {"row": row_labels(asked.index)}
    else:
        coords = {"row": row_labels(asked.index), "x": at}
    return self._labelled("predict_cdf", answer, coords, False, column=target, **self._cell_mark(), **error)


def _refuse_many(argument: str, n: int, asked: AskedRows) -> None:
    """Refuse a table of answers, of n for each row, that would not fit into memory."""
    n_rows = len(asked.index)
    refuse_memory(f"{argument} of {n:,} numbers for {n_rows:,} rows", 32.0 * n * n_rows, "give fewer of either")


def _distribution_functions(asked: AskedRows, x: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """P(X <= x) (M, Q) at points (M, Q) of each row's own, NaN where they are, and the attributes of an average."""
    answer, errors = [np.zeros((0, x.shape[1]))], []
    for rows in asked.blocks(asked.column.n_leaves * max(x.shape[1], 1)):
        found, weight = asked.in_rows(rows)
        missing = np.isnan(x[rows])
        below = found.below(np.where(missing, 0.0, x[rows]))
        below[:, missing] = np.nan
        answer.append(below.sum(axis=0))
        influence = len(weight) * below - weight[:, :, None] * answer[-1]
        errors.append(asked.error(influence))
    return asked.answered(answer), asked.marks(errors)


def _number_asked(self: AskedLaw, target: str) -> int:
    """Number of a column whose values are numbers, and not labels."""
    d = self._number("target", target)
    column = self.columns[d]
    if column.kind in NOMINAL_KINDS:
        raise ValueError(f"target must be numeric, {target!r} is {column.kind}; use predict_proba")
    return d
