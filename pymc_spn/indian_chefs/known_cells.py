"""What is known of rows, ``given=``, as numbers for each row."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from pymc_spn.numerics.quoted_values import quoted

type Known = Mapping[str, Any] | pd.DataFrame | None


def known_columns(given: Any, columns: tuple[str, ...]) -> dict[str, Any]:
    """What is given as a dictionary by column."""
    if not isinstance(given, Mapping | pd.DataFrame):
        raise TypeError(
            f"given must map column names to numbers, or be a DataFrame of them; got {quoted(given)}. Intervals and "
            "text are for the posteriors of ps.SPN"
        )
    found = {str(name): given[name] for name in given}
    unknown = [name for name in found if name not in columns]
    if unknown:
        raise ValueError(f"given names {unknown[0]!r}; the columns are {quoted(list(columns))}")
    return found


def told_cells(name: str, value: Any, index: pd.Index) -> np.ndarray:
    """(N,) float64 of one column that is given."""
    if isinstance(value, pd.Series) and not value.index.equals(index):
        raise ValueError(f"given: column {name!r} must have the row labels of X, in their order")
    if isinstance(value, tuple | set | frozenset | str):
        raise TypeError(f"given: column {name!r} must be a number, or one for each row; got {quoted(value)}")
    try:
        numbers = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"given: column {name!r} must be a number, or one for each row; got {quoted(value)}") from None
    if numbers.shape not in ((), (len(index),)):
        raise ValueError(
            f"given: column {name!r} must be a number or {len(index)} numbers; its shape is {numbers.shape}"
        )
    if np.isinf(numbers).any():
        raise ValueError(f"given: column {name!r} must be finite")
    return np.broadcast_to(numbers, len(index)).copy()
