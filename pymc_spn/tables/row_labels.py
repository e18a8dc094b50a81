"""Labels of rows in the form in which coordinates of xarray and netCDF hold them."""

from typing import Any

import pandas as pd

from pymc_spn.numerics.quoted_values import UNKEPT, quoted, refuse_unkept


def row_labels(index: Any) -> pd.Index:
    """Labels of rows for a coordinate.

    Numbers, bools, NumPy datetimes and timedeltas, and text stay as they are. Everything else (tuples of a MultiIndex,
    time zones, periods, intervals, missing labels among text, datetimes that do not fit into 64 bits of nanoseconds)
    becomes its text, ``str(label)``. netCDF has no type for it, and would say so only when the draws are saved.

    Parameters
    ----------
    index : pandas.Index or sequence

    Returns
    -------
    pandas.Index
        Of one level, in the order of the rows, without a name: xarray would take that for the dimension's.

    Raises
    ------
    ValueError
        If a text holds a NUL or half of a surrogate pair, which no file keeps.
    """
    index = index if isinstance(index, pd.Index) else pd.Index(index, tupleize_cols=False)
    if index.dtype.kind not in "biufmM" and UNKEPT.search("".join(filter(_is_text, index))):
        for place, label in enumerate(index):
            refuse_unkept(f"row {place}: its label {quoted(label)}", label)
    if _is_kept(index):
        return index if index.name is None else index.rename(None)
    # categories, nullable dtypes and objects may hold plain labels, which count as what they are
    labels = index.tolist()
    held = pd.Index(labels, tupleize_cols=False)
    return held if _is_kept(held) else pd.Index([str(label) for label in labels], dtype=object)


def _is_text(label: Any) -> bool:
    return isinstance(label, str)


def _is_kept(index: pd.Index) -> bool:
    """Whether netCDF gives the labels back as they are."""
    if isinstance(index, pd.MultiIndex | pd.CategoricalIndex):
        return False
    if isinstance(index, pd.DatetimeIndex):
        return index.tz is None and _fits_nanoseconds(index)
    if getattr(index.dtype, "kind", "") in "biufm":
        return not pd.api.types.is_extension_array_dtype(index.dtype)
    return index.inferred_type == "string" and not index.hasnans


def _fits_nanoseconds(index: pd.DatetimeIndex) -> bool:
    """Whether datetimes can be read back: files hold them in units that are read as nanoseconds."""
    try:
        index.as_unit("ns")
    except pd.errors.OutOfBoundsDatetime:
        return False
    return True
