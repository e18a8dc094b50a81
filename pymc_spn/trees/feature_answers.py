"""What a posterior over trees says of its features: their use, their worth, and how predictions move with them."""

from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import pandas as pd

from pymc_spn.numerics.progress_bars import counted
from pymc_spn.tables.frame_kinds import frame_of_kind
from pymc_spn.tables.inputs import TableLike
from pymc_spn.trees import effects
from pymc_spn.trees.features import check_same_rows

if TYPE_CHECKING:
    import xarray as xr


class FeatureAnswers:
    """Queries of `TreePosterior` about features."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def variable_inclusion(self) -> "xr.DataArray":
        """Probability that a feature is used, and its expected share of the splits.

        Returns
        -------
        DataArray
            (statistic, feature) float64, the statistics being ``probability`` and ``share``.

        Examples
        --------
        >>> trees.variable_inclusion().sel(statistic="probability", feature="age").item() > 0.99
        True
        """
        return effects.inclusion(self._draws, self._weights).assign_attrs(self._mark())

    def variable_importance(
        self,
        X: TableLike | None = None,
        y: npt.ArrayLike | None = None,
        *,
        max_features: int | None = None,
        progressbar: bool = True,
    ) -> pd.DataFrame:
        """Mean log predictive of submodels that see one more feature at each step, chosen greedily.

        A submodel takes both branches, by their shares of the training rows, where a split asks a feature that it does
        not see.

        Parameters
        ----------
        X, y : optional
            Rows and responses to score, both or neither; by default the training rows.
        max_features : int, optional
            Steps; all features by default.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataFrame, of pandas, polars or pyarrow as the features were
            ``feature``, first "(none)"; ``log_predictive``, the mean over rows in nats; ``gain`` over the step before.

        Raises
        ------
        ValueError
            If only one of `X` and `y` is given, or `max_features` is not an integer of at least 1.

        Examples
        --------
        >>> trees.variable_importance()["feature"].tolist()
        ['(none)', 'age', 'job']
        """
        values, coded = self._scored(X, y)
        with counted("Adding features", progressbar):
            frame = effects.importance(self._draws, self._weights, values, coded, max_features)
        frame.attrs |= self._mark()
        return frame_of_kind(frame, self._draws.features.frame)

    def partial_dependence(
        self,
        feature: str,
        grid: npt.ArrayLike | None = None,
        X: TableLike | None = None,
        *,
        per_draw: bool = False,
        progressbar: bool = True,
    ) -> "xr.DataArray":
        """Mean prediction over rows with one feature set to each value of a grid.

        Parameters
        ----------
        feature : str
            The answer's dimension; one called ``row``, ``tree`` or ``level`` has it as ``row_value`` and so on.
        grid : sequence, optional
            20 quantiles or all levels by default.
        X : optional
            Rows to average over, by default the training rows.
        per_draw : bool
            One curve for each tree: the posterior of the curve.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            (feature,), for classes (feature, level), with ``per_draw`` a dimension ``tree`` in front; float64.

        Raises
        ------
        ValueError
            If there is no such feature, `grid` holds what it cannot be, or `X` has no rows.

        Examples
        --------
        >>> trees.partial_dependence("age", grid=[30.0, 60.0]).round(-1).values
        array([40., 50.])
        """
        values = self._draws.features.values if X is None else self._rows(X, "error")[0]
        if not len(values):
            raise ValueError("X must have at least one row to average over, it has none")
        with counted("Setting a feature", progressbar):
            answer = effects.partial_dependence(self._draws, self._weights, feature, grid, values, per_draw)
        return answer.assign_attrs({"exactness": "exact"} if per_draw else self._mark())

    def ice(
        self, feature: str, grid: npt.ArrayLike | None = None, X: TableLike | None = None, progressbar: bool = True
    ) -> "xr.DataArray":
        """Individual conditional expectations: the curve of every row.

        Parameters
        ----------
        feature, grid, X
            As for `partial_dependence`.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            (row, feature), for classes (row, feature, level); float64.

        Examples
        --------
        >>> trees.ice("age", grid=[30.0, 60.0]).dims
        ('row', 'age')
        """
        values = self._draws.features.values if X is None else self._rows(X, "error")[0]
        with counted("Setting a feature", progressbar):
            curves = effects.individual_curves(self._draws, self._weights, feature, grid, values)
        return curves.assign_attrs(self._mark())

    def _scored(self, X: Any, y: Any) -> Any:
        if (X is None) != (y is None):
            raise ValueError("X and y must be given together, or neither")
        if X is None:
            return self._draws.features.values, self._draws.y
        values, (coded, _) = self._rows(X, "error")[0], self._draws.leaf_family.code(y)
        check_same_rows(X, y, len(values), len(coded))
        return values, coded
