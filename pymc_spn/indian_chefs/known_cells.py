"""What is known of rows, ``given=``, as numbers for each row."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from pymc_spn.events.event_text import as_event
from pymc_spn.events.events import SEVERAL, describe, read_events
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables import Column

type Known = Mapping[str, object] | pd.DataFrame | str | None


def known_columns(given: Any, columns: tuple[str, ...], is_binary: bool) -> dict[str, Any]:
    """What is given as a dictionary by column: numbers, one for each row or for all of them.

    Text, sets and intervals say numbers where they leave one value.
    """
    kinds = [Column(c, *(("binary", (0, 1), "int64") if is_binary else ("real", None, "float64"))) for c in columns]
    is_density = np.full(len(columns), not is_binary)
    if isinstance(given, str):
        given = as_event("given", given, kinds, is_density)
    if not isinstance(given, Mapping | pd.DataFrame):
        raise TypeError(
            f"given must map column names to numbers, or be a DataFrame of them or a text; got {quoted(given)}"
        )
    found = {str(name): given[name] for name in given}
    unknown = [name for name in found if name not in columns]
    if unknown:
        raise ValueError(f"given names {unknown[0]!r}; the columns are {quoted(list(columns))}")
    for d, column in enumerate(kinds):
        if isinstance(found.get(column.name), SEVERAL):
            found[column.name] = _only_value(column, d, found[column.name], kinds, is_density)
    return found


def _only_value(column: Column, d: int, what: Any, kinds: list[Column], is_density: np.ndarray) -> float:
    """The one value of a set or an interval, NaN where it says nothing."""
    event: Any = read_events("given", {column.name: what}, kinds, range(len(kinds)), is_density).get(d, np.nan)
    held: list[Any] = (
        sorted(event) if isinstance(event, frozenset) else [event] if isinstance(event, float) else list(set(event))
    )
    if len(held) == 1:
        return float(held[0])
    raise TypeError(
        f"given: column {column.name!r} must have one value in a row, got {describe(column, event)}; a belief network "
        "is conditioned on values, the posteriors of ps.SPN on intervals and sets too"
    )


def told_cells(name: str, value: Any, index: pd.Index) -> np.ndarray:
    """(N,) float64 of one column that is given."""
    if isinstance(value, pd.Series) and not value.index.equals(index):
        raise ValueError(f"given: column {name!r} must have the row labels of X, in their order")
    if isinstance(value, str):
        raise TypeError(f"given: column {name!r} must be a number, or one for each row; got {quoted(value)}")
    try:
        numbers = np.asarray(np.nan if value is pd.NA else value, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"given: column {name!r} must be a number, or one for each row; got {quoted(value)}") from None
    if numbers.shape not in ((), (len(index),)):
        raise ValueError(
            f"given: column {name!r} must be a number or {len(index)} numbers; its shape is {numbers.shape}"
        )
    if np.isinf(numbers).any():
        raise ValueError(f"given: column {name!r} must be finite")
    return np.broadcast_to(numbers, len(index)).copy()
