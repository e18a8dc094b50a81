"""Checks that the structures of this room share: columns with names, read-only integer arrays."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from pymc_spn.numerics.quoted_values import quoted, refuse_unkept
from pymc_spn.tables.column import as_name


def column_name(column: Any) -> str:
    """Name of a column given as a string or as an object with a ``name`` (a `Column`)."""
    return column if isinstance(column, str) else column.name


def checked_columns(columns: Iterable[Any]) -> tuple[Any, ...]:
    """Columns as a tuple, integers as their digits, refused unless they are non-empty and have distinct names."""
    if isinstance(columns, str):
        raise ValueError(f"columns must be a sequence of columns or names, got the single string {quoted(columns)}")
    if not isinstance(columns, Iterable):
        hint = "; pass its .columns, which know their kinds" if hasattr(columns, "columns") else ""
        raise TypeError(f"columns must be a sequence of columns or names, got {quoted(columns)}{hint}")
    result = tuple(str(c) if isinstance(c, str) else as_name(c) for c in columns)
    if not result:
        raise ValueError("columns must hold at least one column, got none")
    seen: dict[str, int] = {}
    for position, column in enumerate(result):
        name = column if isinstance(column, str) else getattr(column, "name", None)
        if not isinstance(name, str):
            raise ValueError(
                f"columns must hold names or objects with a string name, got {quoted(column)} at position {position}"
            )
        if name in seen:
            raise ValueError(
                f"columns must have distinct names, got {quoted(name)} at positions {seen[name]} and {position}"
            )
        refuse_unkept(f"columns: the name {quoted(name)}", name)
        seen[name] = position
    return result


def read_only(name: str, values: Any, dtype: Any = np.int64) -> np.ndarray:
    """Read-only one-dimensional copy as integers; anything else, and what does not fit the dtype, is refused."""
    try:
        array = np.asarray(values)
    except ValueError as error:  # lists of different lengths in one
        raise ValueError(f"{name} must be a one-dimensional array of integers, got lists within lists") from error
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(
            f"{name} must be a one-dimensional array of integers, got shape {array.shape}, dtype {array.dtype}"
        )
    limits = np.iinfo(dtype)
    too_large = (array < limits.min) | (array > limits.max)
    if np.any(too_large):
        at = int(np.argmax(too_large))
        raise ValueError(f"{name} must be within {limits.min}..{limits.max}, got {array[at]} at place {at}")
    array = np.array(array, dtype=dtype)
    array.setflags(write=False)
    return array
