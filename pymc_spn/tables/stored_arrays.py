"""Whether arrays and texts out of a file are what a reader expects, before anything is made from them.

Kernels index arrays by what is read and do not look again: a number beyond the last one writes outside of them.
"""

import json
from typing import Any, NoReturn

import numpy as np

from pymc_spn.numerics.quoted_values import clipped
from pymc_spn.tables.column import FRAMES

ALTERED = "the results were altered or damaged"


def refuse(place: str, rule: str, found: Any) -> NoReturn:
    """Refuse what is stored at a place."""
    raise ValueError(f"{place} must {rule}, got {clipped(str(found), 100)}; {ALTERED}")


def checked(
    place: str,
    values: Any,
    shape: tuple[int | None, ...],
    low: float = -np.inf,
    high: float = np.inf,
    *,
    whole: bool = False,
    gaps: bool = False,
) -> np.ndarray:
    """Numbers as a contiguous array of int64 or float64.

    Parameters
    ----------
    place : str
        What the array is, for messages.
    values : array_like
    shape : tuple of int or None
        None where any length will do.
    low, high : float
        Smallest and largest number; infinite ones are refused in any case.
    whole : bool
        Whether all must be integers; integers as floats are taken, too.
    gaps : bool
        Whether NaN may occur.

    Raises
    ------
    ValueError
        With the first number that is wrong, and its position.
    """
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths in one
        refuse(place, "hold numbers", "lists within lists")
    if array.dtype.kind not in "biuf":
        refuse(place, "hold numbers", f"the dtype {array.dtype}")
    if array.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):
        refuse(place, f"have the shape {tuple('any' if n is None else n for n in shape)}", array.shape)
    numbers = array.astype(np.float64)
    fits = (numbers >= low) & (numbers <= high)
    rule = f"lie in {low:g} to {high:g}"
    if low == -np.inf or high == np.inf:
        fits &= np.isfinite(numbers)
        rule = "be finite" if low == -high else f"be finite and at least {low:g}" if high == np.inf else rule
    if whole:
        fits &= np.floor(numbers) == numbers
        fits &= np.abs(numbers) < 2.0**63
        rule += " and be whole"
    if gaps:
        fits |= np.isnan(numbers)
        rule += ", or NaN"
    if not fits.all():
        where = tuple(map(int, np.argwhere(~fits)[0]))
        position = where[0] if len(where) == 1 else where
        refuse(place, rule, f"{array[where]} at position {position}" if where else array[where])
    return np.asarray(array, np.int64 if whole and not gaps else np.float64, order="C")


def json_of(vector: Any, place: str) -> dict[str, Any]:
    """The mapping whose JSON text stands in a vector of bytes, or is given as text.

    Raises
    ------
    ValueError
        If there is none.
    """
    rule = "hold the bytes of a JSON text"
    if not isinstance(vector, str):
        values = np.asarray(vector)
        if values.dtype.kind not in "iu" or values.ndim != 1:
            refuse(place, rule, f"the dtype {values.dtype} and {values.ndim} dimensions")
        bad = (values < 0) | (values > 255)
        if bad.any():
            refuse(place, rule, f"{values[np.argmax(bad)]} at position {np.argmax(bad)}")
        vector = values.astype(np.uint8).tobytes()
    try:
        fields = json.loads(vector)
    except (ValueError, RecursionError) as error:
        refuse(place, rule, f"a text that is none ({error})")
    if not isinstance(fields, dict):
        refuse(place, rule, f"the JSON text of a {type(fields).__name__}")
    return fields


def checked_kind(stored: Any) -> str | None:
    """What kind of table is given back, as a file says: one of `FRAMES`, or None for pandas."""
    if stored is not None and stored not in FRAMES:
        refuse("the kind of table", f"be one of {FRAMES} or null", stored)
    return stored


def without_pandas(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a schema, without the kind of table where it is pandas: fingerprints stay those of earlier files."""
    return {key: value for key, value in fields.items() if key != "frame" or value is not None}
