"""A column's levels or mean given the other cells of each row."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_spn.answers.asked_law import AskedLaw, of_each_draw
from pymc_spn.answers.asked_rows import AskedRows
from pymc_spn.answers.rows_in_parts import also_in_parts
from pymc_spn.numerics.draw_averages import weighted
from pymc_spn.numerics.memory_limits import refuse_memory
from pymc_spn.tables import row_labels
from pymc_spn.tables.column import NOMINAL_KINDS
from pymc_spn.tables.inputs import TableLike

if TYPE_CHECKING:
    import xarray as xr


@also_in_parts
@of_each_draw
def predict_proba(
    self: AskedLaw,
    df: TableLike,
    target: str,
    per_draw: bool = False,
    *,
    interval: float | None = None,
    unseen: str = "error",
) -> "xr.DataArray":
    """Predict the probability of each level, given the other columns of each row.

    Parameters
    ----------
    df : DataFrame of pandas, polars or pyarrow, mapping or array
        Rows; missing cells are summed out, and the target's own cells are ignored. For a dask DataFrame the
        answer is a lazy DataFrame or Series, for a Dataset in chunks a lazy DataArray.
    target : str
    per_draw : bool
    unseen : {"error", "missing"}
        What to do with a level that the training table does not have.
    interval : float, optional
        As for `probability`.

    Returns
    -------
    DataArray
        (row, level), each row adding up to 1; exact, numerical where values are rounded. NaN in rows whose density is
        zero under every draw.

    Raises
    ------
    TypeError, ValueError
        Data that the schema refuses, or a row that the posterior's condition excludes.

    Warns
    -----
    UserWarning
        If the density of some rows is zero under every draw; it names them.

    Examples
    --------
    >>> post.predict_proba(df.head(2), "job").round(0).sel(level="clerk").values
    array([1., 0.])
    """
    d = self._number("target", target)
    column = self.columns[d]
    if column.levels is None:
        raise ValueError(f"target must be binary, categorical or ordinal, {target!r} is {column.kind}; use predict")

    levels = list(column.levels)

    def of_levels(asked: AskedRows, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        return asked.column.levels(rows, len(levels))

    return _predicted(self, "predict_proba", df, d, of_levels, {"level": levels}, per_draw, unseen)


@also_in_parts
def predict(self: AskedLaw, df: TableLike, target: str, *, unseen: str = "error") -> "xr.DataArray":
    """Predict a column given the others of each row: its level, or its mean.

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
        (row,) of levels or numbers. A mean does not exist if the leaf shape is 1/2 or less. The centre of such leaves
        then replaces it, and ``principal_value`` names the column. If the mean is infinite, ``infinite_mean`` names it
        (see `mean`). For a level, ``probability`` is its probability, and ``mcse_chain`` the error of that. Rows whose
        density is zero under every draw have NaN, or None instead of a level, and a warning names them.

    Examples
    --------
    >>> post.predict(df.head(2), "job").values.tolist()
    ['clerk', 'nurse']
    """
    d = self._number("target", target)
    column = self.columns[d]
    if column.kind in NOMINAL_KINDS:
        proba = predict_proba(self, df, target, unseen=unseen)
        best, known = proba.values.argmax(axis=1), ~np.isnan(proba.values).any(axis=1)
        each = np.arange(best.size), best
        marks = dict(proba.attrs)
        marks |= {k: v[each] for k, v in marks.items() if k == "mcse_chain"} | {"probability": proba.values[each]}
        labels = np.array(column.levels)[best]
        if not known.all():
            labels = labels.astype(object)
            labels[~known] = None
        return self._labelled("predict", labels, {"row": proba["row"].values}, False, **marks)

    tolerance, centred = self._law.moment_tolerance([d]), self._law.centred([d])
    attrs = {"principal_value": centred} if centred else {}

    def means(asked: AskedRows, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        logs, mean, _ = asked.column.moments(rows, variance=False)
        return logs, mean + column.origin

    found = _predicted(self, "predict", df, d, means, {}, False, unseen, tolerance, **attrs)
    if np.isinf(found.values).any():
        found.attrs["infinite_mean"] = [target]
    return found


def _predicted(
    self: AskedLaw,
    name: str,
    df: Any,
    d: int,
    ask: Callable[[AskedRows, slice], tuple[np.ndarray, np.ndarray]],
    coords: dict[str, Any],
    per_draw: bool,
    unseen: str,
    tolerance: float = 0.0,
    **attrs: Any,
) -> "xr.DataArray":
    """Average over the circuits of a number (S, M), or of several, with log weights (S, M) of the circuits."""
    asked, n_circuits = AskedRows.of_table(self, df, d, unseen), self._law.n_circuits
    shape = tuple(len(values) for values in coords.values())  # () of means, (K,) of levels
    if per_draw:
        what = f"per_draw=True with {len(asked.index):,} rows and {n_circuits:,} draws"
        refuse_memory(what, 16.0 * math.prod(shape) * n_circuits * len(asked.index), "ask for fewer rows at once")
    per = [np.zeros((n_circuits, 0, *shape))]
    answer, errors = [np.zeros((0, *shape))], []
    for rows in asked.blocks(n_circuits * math.prod(shape) * len(asked.column.parts)):
        logs, found = ask(asked, rows)
        weight = asked.weigh(logs)
        if per_draw:
            per.append(found)
            continue
        mean = weighted(weight, found).mean(axis=0)
        answer.append(mean)
        with np.errstate(invalid="ignore"):
            errors.append(self._error(weighted(weight, found - mean)))
    coords = {"row": row_labels(asked.index), **coords}
    attrs = self._cell_mark(tolerance=tolerance) | attrs
    if per_draw:
        return self._labelled(name, asked.answered(per, axis=1), coords, True, **attrs)
    return self._labelled(name, asked.answered(answer), coords, False, **attrs, **asked.marks(errors))
