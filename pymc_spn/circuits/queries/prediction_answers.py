"""What a posterior answers about one column given the other cells of each row of a table."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pymc_spn.circuits.queries.column_answers import ColumnAnswers
from pymc_spn.circuits.queries.row_distributions import row_quantiles, standard_deviations
from pymc_spn.circuits.queries.row_predictions import level_probabilities, predictions
from pymc_spn.numerics.asked_numbers import checked_levels
from pymc_spn.tables import Table, decode
from pymc_spn.tables.column import as_name

if TYPE_CHECKING:
    import xarray as xr


class PredictionAnswers(ColumnAnswers):
    """Queries about a target column, row by row."""

    def predict_proba(self, df: Any, target: str, per_draw: bool = False) -> "xr.DataArray":
        """Probability of each level of a binary or categorical column, given the other columns of each row.

        Parameters
        ----------
        df : DataFrame, mapping or array
            Rows; missing cells are summed out, and the target's own cells are not looked at.
        target : str
        per_draw : bool

        Returns
        -------
        DataArray
            (row, level), each row adding up to 1; exact, with ``rounded=True`` numerical.
        """
        return level_probabilities([self], df, target, per_draw)

    def predict(self, df: Any, target: str) -> "xr.DataArray":
        """The most probable level, or the mean of a numeric column, given the other columns of each row.

        Parameters
        ----------
        df : DataFrame, mapping or array
            As in `predict_proba`.
        target : str

        Returns
        -------
        DataArray
            (row,) of levels or numbers. A mean does not exist where the leaf shape is 1/2 or less; the centre
            of such leaves stands for it and ``principal_value`` names the column; where it is infinite,
            ``infinite_mean`` does (see `mean`). With levels, ``probability`` is that of the level, and ``mcse_chain``
            its error.
        """
        return predictions([self], df, target)

    def predict_sd(self, df: Any, target: str) -> "xr.DataArray":
        """Standard deviation of a numeric column given the other columns of each row.

        Of a new value, not of its mean: within the leaves, between them, and between the draws.

        Parameters
        ----------
        df : DataFrame, mapping or array
            As in `predict_proba`.
        target : str

        Returns
        -------
        DataArray
            (row,) float64, in the units of the column; exact, numerical where the column is known to be in an interval.
            Where tails are too heavy for a variance it is infinite, and ``infinite_variance`` names the column.

        Raises
        ------
        ValueError
            If the target is unknown or has levels, the rows are not those of the other columns, or one is impossible.
        """
        return standard_deviations([self], df, target)

    def predict_quantile(self, df: Any, target: str, q: Any) -> "xr.DataArray":
        """Quantiles of a numeric column given the other columns of each row: predictive intervals.

        The smallest x with P(target <= x given the row) >= q, of the average over the draws.

        Parameters
        ----------
        df : DataFrame, mapping or array
            As in `predict_proba`.
        target : str
        q : float or sequence of float
            Between 0 and 1.

        Returns
        -------
        DataArray
            (row,), or (row, quantile) for several levels, in the units of the column; exact for counts, for densities
            numerical, by Newton's method within brackets. At 0 and 1 the ends of the support.

        Raises
        ------
        TypeError, ValueError
            If q is not within 0 and 1; else as `predict_sd`.
        """
        return row_quantiles([self], df, target, checked_levels(q))

    # ---- below the surface

    def _rows_without(self, df: Any, d: int) -> tuple[np.ndarray, np.ndarray, Any]:
        """Rows (M, D) in which one column is not known, whether each is possible, and labels; its cells count not."""
        name = self._schema.columns[d].name
        if isinstance(df, Table):
            df = decode(df.values, df.columns, df.index)
        others = [c for c in self.columns if c.name != name]
        if isinstance(df, pd.DataFrame):
            df = df.loc[:, [as_name(label) != name for label in df.columns]]
        elif isinstance(df, Mapping):
            df = {k: v for k, v in df.items() if as_name(k) != name}
        elif np.ndim(df) == 2 and np.shape(df)[1] == len(self.columns):
            df = np.delete(np.asarray(df), [c.name for c in self.columns].index(name), axis=1)
        if not others:
            raise ValueError(f"target {name!r} is the only column: there is nothing to predict it from")
        table = Table.from_frame(df, schema=tuple(others))
        values = np.tile(self._row(self._evidence), (len(table.values), 1))
        values[:, [k for k in self._kept if k != d]] = table.values
        return values, self._possible(values), table.index
