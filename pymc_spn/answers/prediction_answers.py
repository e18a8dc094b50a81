"""What a posterior answers about one column given the other cells of each row of a table."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pymc_spn.answers.cell_tails import cell_tails
from pymc_spn.answers.column_answers import ColumnAnswers
from pymc_spn.answers.row_distributions import (
    row_distribution_functions,
    row_quantiles,
    standard_deviations,
)
from pymc_spn.answers.row_predictions import level_probabilities, predictions
from pymc_spn.networks.records.draw_averages import chain_error
from pymc_spn.numerics.asked_numbers import checked_levels, checked_points
from pymc_spn.tables import Table, decode, row_labels
from pymc_spn.tables.column import as_name
from pymc_spn.tables.unseen_levels import known_levels

if TYPE_CHECKING:
    import xarray as xr


class PredictionAnswers(ColumnAnswers):
    """Queries about a target column, row by row."""

    def predict_proba(self, df: Any, target: str, per_draw: bool = False, *, unseen: str = "error") -> "xr.DataArray":
        """Probability of each level of a binary or categorical column, given the other columns of each row.

        Parameters
        ----------
        df : DataFrame, mapping or array
            Rows; missing cells are summed out, and the target's own cells are not looked at.
        target : str
        per_draw : bool
        unseen : {"error", "missing"}
            What becomes of a level that the training table did not have.

        Returns
        -------
        DataArray
            (row, level), each row adding up to 1; exact, with ``rounded=True`` numerical. NaN in rows whose density is
            zero under every draw.

        Raises
        ------
        TypeError, ValueError
            Data that the schema refuses, or a row that the posterior's condition excludes.

        Warns
        -----
        UserWarning
            If the density of some rows is zero under every draw; it names them.
        """
        return level_probabilities([self], known_levels(df, self.columns, unseen), target, per_draw)

    def predict(self, df: Any, target: str, *, unseen: str = "error") -> "xr.DataArray":
        """The most probable level, or the mean of a numeric column, given the other columns of each row.

        Parameters
        ----------
        df : DataFrame, mapping or array
            As in `predict_proba`.
        target : str
        unseen : {"error", "missing"}
            As in `predict_proba`.

        Returns
        -------
        DataArray
            (row,) of levels or numbers. A mean does not exist where the leaf shape is 1/2 or less; the centre
            of such leaves stands for it and ``principal_value`` names the column; where it is infinite,
            ``infinite_mean`` does (see `mean`). With levels, ``probability`` is that of the level, and ``mcse_chain``
            its error. Rows whose density is zero under every draw have NaN, or None instead of a level, and a warning
            names them.
        """
        return predictions([self], known_levels(df, self.columns, unseen), target)

    def predict_sd(self, df: Any, target: str, *, unseen: str = "error") -> "xr.DataArray":
        """Standard deviation of a numeric column given the other columns of each row.

        Of a new value, not of its mean: within the leaves, between them, and between the draws.

        Parameters
        ----------
        df : DataFrame, mapping or array
            As in `predict_proba`.
        target : str
        unseen : {"error", "missing"}
            As in `predict_proba`.

        Returns
        -------
        DataArray
            (row,) float64, in the units of the column; exact, numerical where the column is known to be in an interval.
            Where tails are too heavy for a variance it is infinite, and ``infinite_variance`` names the column.

        Raises
        ------
        ValueError
            If the target is unknown or has levels, the rows are not those of the other columns, or the posterior's
            condition excludes one. Rows whose density is zero have NaN and a warning.
        """
        return standard_deviations([self], known_levels(df, self.columns, unseen), target)

    def predict_quantile(self, df: Any, target: str, q: Any, *, unseen: str = "error") -> "xr.DataArray":
        """Quantiles of a numeric column given the other columns of each row: predictive intervals.

        The smallest x with P(target <= x given the row) >= q, of the average over the draws.

        Parameters
        ----------
        df : DataFrame, mapping or array
            As in `predict_proba`.
        target : str
        q : float or sequence of float
            Between 0 and 1.
        unseen : {"error", "missing"}
            As in `predict_proba`.

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
        return row_quantiles([self], known_levels(df, self.columns, unseen), target, checked_levels(q))

    def predict_cdf(self, df: Any, target: str, x: Any = None, *, unseen: str = "error") -> "xr.DataArray":
        """P(target <= x) given the other columns of each row: its predictive distribution function.

        Parameters
        ----------
        df : DataFrame, mapping or array
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
            (row,), or (row, x) for several points, of the average over the draws; exact, with ``rounded=True``
            numerical. NaN where the row's own cell is missing.

        Raises
        ------
        TypeError, ValueError
            If x is no number, or None and the target is not among the columns; else as `predict_sd`.
        """
        points = None if x is None else checked_points(x)
        return row_distribution_functions([self], known_levels(df, self.columns, unseen), target, points)

    def cell_p_value(self, df: Any) -> "xr.DataArray":
        """How extreme each cell is given the other cells of its row, on one scale for columns of any kind.

        Of a number twice the smaller of P(X <= x) and P(X >= x), at most 1; of a level the probability of all levels
        that are no more probable. X is the cell given the others, averaged over the draws and recorded on the grid of
        its column. Unlike a surprise (`anomaly`) it has no units, whatever scale or logs the column is measured in.

        Parameters
        ----------
        df : DataFrame, mapping, array or Table
            Checked by the schema of the training table; missing cells are summed out.

        Returns
        -------
        DataArray
            (row, column) within 0 and 1; NaN where the cell is missing, or where the others are impossible under
            every draw. Exact, with ``rounded=True`` numerical; ``mcse_chain`` for each cell. Among rows of the model
            those of at most u are a share of at most u.

        Raises
        ------
        TypeError, ValueError
            Data that the schema refuses.

        Notes
        -----
        The cost is that of the distribution functions of all leaves of a column in every row. Many cells are
        compared at once: of a thousand usual cells up to ten are expected to have a p-value of at most 0.01.
        """
        table = Table.from_frame(df, schema=self._left)
        values = self._embed(table)[0]
        found, error = np.full((2, len(values), len(self._kept)), np.nan)
        for j, d in enumerate(self._kept):
            seen = ~np.isnan(values[:, d])
            found[seen, j], error[seen, j] = cell_tails(self, values[seen], table.index[seen], d)
        coords = {"row": row_labels(table.index), "column": [c.name for c in self.columns]}
        if np.isnan(error).all():
            marks: dict[str, Any] = chain_error(np.full((self._states.n_draws, 1), np.nan), self._n_chains)
        else:
            marks = {"mcse_chain": error}
        return self._labelled("cell_p_value", found, coords, False, **self._cell_mark(), **marks)

    # ---- below the surface

    def _own_cells(self, df: Any, d: int) -> np.ndarray:
        """The cells (M,) of one column, NaN where missing."""
        table = Table.from_frame(df, schema=self._left)
        return table.values[:, self._kept.index(d)]

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
