"""Data between 0 and 1: the explicit map that a nonlinear Gaussian belief network needs, kept with its draws."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

from pymc_spn.numerics.html_repr import elided
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.frame_kinds import frame_kind, frame_of_kind, pandas_frame
from pymc_spn.tables.inputs import TableLike


@dataclass(frozen=True)
class UnitScaling:
    """A linear map of each column that takes its training range to ``[low, high]`` inside (0, 1).

    Parameters
    ----------
    columns : tuple of str
    minimum, maximum : tuple of float
        Of the training data, in their units.
    low, high : float
        Where the minimum and the maximum go.

    Examples
    --------
    >>> scaling = ps.indian_chefs.UnitScaling.from_data(numbers)
    >>> scaling.transform(numbers).min().round(6).tolist()
    [0.1, 0.1, 0.1]
    """

    columns: tuple[str, ...]
    minimum: tuple[float, ...]
    maximum: tuple[float, ...]
    low: float = 0.1
    high: float = 0.9

    @classmethod
    def from_data(cls, data: TableLike, low: float = 0.1, high: float = 0.9) -> "UnitScaling":
        """Choose the scaling of a training table.

        Parameters
        ----------
        data : DataFrame of pandas, polars or pyarrow, or (N, D) array
            Gaps are passed over.
        low, high : float
            With ``0 < low < high < 1``; what lies beyond the training range needs the rest.

        Returns
        -------
        UnitScaling

        Raises
        ------
        ValueError
            If a column is constant or has nothing but gaps.

        Examples
        --------
        >>> ps.indian_chefs.UnitScaling.from_data(numbers).columns
        ('age', 'income', 'debt')
        """
        if not 0.0 < low < high < 1.0:
            raise ValueError(f"low and high must satisfy 0 < low < high < 1; got {quoted(low)} and {high!r}")
        names, values = table_of(data, "data", gaps=True)
        minimum = np.nanmin(values, 0, initial=np.inf)
        maximum = np.nanmax(values, 0, initial=-np.inf)
        for name, a, b in zip(names, minimum, maximum, strict=True):
            if not a < b:
                what = f"is {a} throughout" if a == b else "has no value"
                raise ValueError(f"data must vary in every column; {name!r} {what}")
        return cls(names, tuple(map(float, minimum)), tuple(map(float, maximum)), float(low), float(high))

    def __repr__(self) -> str:
        parts = [f"{c}: [{a:g}, {b:g}]" for c, a, b in zip(self.columns, self.minimum, self.maximum, strict=True)]
        return f"UnitScaling({elided(parts, '; ', 6)} -> [{self.low:g}, {self.high:g}])"

    @property
    def slope(self) -> np.ndarray:
        """Derivative (D,) of the map.

        Examples
        --------
        >>> ps.indian_chefs.UnitScaling(("age",), minimum=(20.0,), maximum=(60.0,)).slope
        array([0.02])
        """
        return (self.high - self.low) / (np.array(self.maximum) - np.array(self.minimum))

    def in_order(self, columns: Sequence[str]) -> "UnitScaling":
        """Return the same map with its columns in another order.

        Examples
        --------
        >>> scaling = ps.indian_chefs.UnitScaling.from_data(numbers)
        >>> scaling.in_order(["debt", "income", "age"]).columns
        ('debt', 'income', 'age')
        """
        places = [self.columns.index(c) for c in columns]
        minimum, maximum = (tuple(ends[p] for p in places) for ends in (self.minimum, self.maximum))
        return replace(self, columns=tuple(columns), minimum=minimum, maximum=maximum)

    def transform(self, data: TableLike) -> "pd.DataFrame":
        """Convert data to the unit scale.

        Parameters
        ----------
        data : DataFrame of pandas, polars or pyarrow, or (N, D) array
            In the units of the training data.

        Returns
        -------
        DataFrame, of the kind of `data`
            With the index of `data`. Gaps stay; values outside (0, 1) are not clipped; `NLGBN` refuses them.

        Raises
        ------
        TypeError, ValueError
            If `data` lacks columns or holds no numbers.

        Examples
        --------
        >>> scaling = ps.indian_chefs.UnitScaling.from_data(numbers)
        >>> scaling.transform(numbers).max().round(6).tolist()
        [0.9, 0.9, 0.9]
        """
        return self._mapped(data, "data", lambda values: self.low + (values - np.array(self.minimum)) * self.slope)

    def inverse(self, unit: TableLike) -> "pd.DataFrame":
        """Convert data from the unit scale to their own units.

        Parameters
        ----------
        unit : DataFrame of pandas, polars or pyarrow, or (N, D) array

        Returns
        -------
        DataFrame, of the kind of `unit`
            In the units of the training data, with the index of `unit`.

        Raises
        ------
        TypeError, ValueError
            As in `transform`.

        Examples
        --------
        >>> scaling = ps.indian_chefs.UnitScaling.from_data(numbers)
        >>> bool(np.allclose(scaling.inverse(scaling.transform(numbers)), numbers))
        True
        """
        return self._mapped(unit, "unit", lambda values: np.array(self.minimum) + (values - self.low) / self.slope)

    def _mapped(self, table: Any, argument: str, function: Callable[[np.ndarray], np.ndarray]) -> Any:
        """A table whose values went through a function, of its kind and with its index."""
        names, values = table_of(table, argument, self.columns, gaps=True)
        index = table.index if isinstance(table, pd.DataFrame) else None
        return frame_of_kind(pd.DataFrame(function(values), index, list(names)), frame_kind(table))


def table_of(
    data: Any, argument: str, columns: Sequence[str] | None = None, gaps: bool = False
) -> tuple[tuple[str, ...], np.ndarray]:
    """Names and a finite (N, D) float64 array of a table.

    Parameters
    ----------
    data : DataFrame of pandas, polars or pyarrow or array
    argument : str
        Its name in messages.
    columns : sequence of str, optional
        Those that are wanted, in this order; an array must have as many.
    gaps : bool
        Whether cells may be missing, which are NaN then.

    Raises
    ------
    ValueError, TypeError
        If it is not a table of numbers, has gaps that it may not have, or lacks columns; the message names the place.
    """
    data = pandas_frame(data, argument)
    if isinstance(data, pd.DataFrame):
        found = [str(c) for c in data.columns]
        if columns is not None:
            lacking = [c for c in columns if c not in found]
            if lacking:
                raise ValueError(f"{argument} must have the columns {quoted(list(columns))}; {lacking[0]!r} is missing")
            data = data.set_axis(found, axis=1)[list(columns)]
        names = tuple(str(c) for c in data.columns)
        if len(set(names)) < len(names):
            raise ValueError(f"{argument} must have distinct columns, got {quoted(list(names))}")
    else:
        if not isinstance(data, np.ndarray | list | tuple):  # NumPy would drop the names of its columns
            raise TypeError(
                f"{argument} must be a DataFrame or a 2-D array, got {type(data).__name__}; convert with to_frame(), "
                "to_pandas(), pd.DataFrame() or np.asarray()"
            )
        cells = np.asanyarray(data)  # a mask stays: what it covers is missing
        if cells.ndim != 2:
            raise ValueError(f"{argument} must be a table of rows and columns; got shape {cells.shape}")
        data = pd.DataFrame(cells)
        names = tuple(columns) if columns is not None else tuple(f"x{i + 1}" for i in range(cells.shape[1]))
    data = data.infer_objects()
    if not all((is_numeric_dtype(t) or is_bool_dtype(t)) and not is_complex_dtype(t) for t in data.dtypes):
        raise TypeError(f"{argument} must hold numbers; its dtypes are {dict(data.dtypes.astype(str))}")
    values = data.to_numpy(np.float64, na_value=np.nan)
    if values.shape[0] == 0 or values.shape[1] != len(names):
        raise ValueError(f"{argument} must have {len(names)} columns and at least one row; got shape {values.shape}")
    wrong = np.isinf(values) if gaps else ~np.isfinite(values)
    if wrong.any():
        r, c = np.argwhere(wrong)[0]
        rule = "finite" if gaps else "complete and finite"
        hint = "" if gaps else "; of belief networks only ps.NLGBN learns from tables with gaps, drop or impute the row"
        raise ValueError(f"{argument} must be {rule}: row {r}, column {names[c]!r} is {values[r, c]}{hint}")
    return names, np.ascontiguousarray(values)
