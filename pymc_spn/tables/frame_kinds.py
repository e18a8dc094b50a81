"""Tables of polars and pyarrow as those of pandas, and back."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pymc_spn.numerics.quoted_values import quoted, some
from pymc_spn.numerics.trust_warnings import OWN_FILES
from pymc_spn.tables.column import FRAMES

# top modules of objects that are no such tables
OWN = {"builtins", "collections", "numpy", "pandas", "pymc_spn", "pytensor", "xarray"}

HINTS = {
    "Decimal": "cast it to Float64",
    "Int128": "cast it to Int64 or Float64",
    "UInt128": "cast it to UInt64 or Float64",
    "Binary": "decode it to strings",
    "Time": "convert it to a number, e.g. seconds",
    "List": "put its parts into columns of their own",
    "Array": "put its parts into columns of their own",
    "Struct": "put its fields into columns of their own, e.g. unnest",
}


def pandas_frame(data: Any, argument: str = "data") -> Any:
    """The same table as a pandas DataFrame; anything but a table of pandas, polars or pyarrow is returned as it is.

    Parameters
    ----------
    data : object
        Columns of numbers without gaps are not copied. Rows of polars and pyarrow are numbered from 0. Nulls and NaN
        are missing. An Enum, and a dictionary of Arrow that says so, is an ordered category, a Categorical an unordered
        one of the values that occur.
    argument : str
        What messages call it.

    Raises
    ------
    TypeError
        If the table is lazy, or a column has a dtype for which there is no column kind, such as a list.
    ValueError
        If two columns of a pyarrow table have one name.
    """
    if isinstance(data, pd.DataFrame):
        return _with_categories(data)
    if type(data).__module__.partition(".")[0] in OWN:
        return data
    if is_of_dask(data):  # before narwhals, which has a package of its own for it
        raise TypeError(
            f"{argument} must be a table in memory, got a dask {type(data).__name__}; compute() it first. Questions of "
            "posteriors that answer row by row take a dask DataFrame as it is, such as log_density and predict"
        )
    import narwhals.stable.v2 as nw

    refuse_duplicates(getattr(data, "column_names", ()))  # of pyarrow; polars has none
    frame = nw.from_native(data, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        kind = type(data)
        raise TypeError(
            f"{argument} must be a table in memory, got a {kind.__module__.partition('.')[0]} {kind.__name__}; collect "
            "it first"
        )
    if not isinstance(frame, nw.DataFrame):
        return data
    columns = {cells.name: _cells(cells) for cells in frame.iter_columns()}
    return pd.DataFrame(columns, pd.RangeIndex(len(frame)), copy=False)


def is_of_dask(data: Any) -> bool:
    """Whether it is a collection of Dask, such as a DataFrame in partitions."""
    return type(data).__module__.partition(".")[0] == "dask"


def column_array(values: Any) -> Any:
    """A column of polars or pyarrow as an array of pandas or NumPy, since its rows have no labels; else as it is."""
    if type(values).__module__.partition(".")[0] in OWN:
        return values
    import narwhals.stable.v2 as nw

    series = nw.from_native(values, series_only=True, pass_through=True)
    return _cells(series) if isinstance(series, nw.Series) else values


def frame_kind(data: Any) -> str | None:
    """ "polars" or "pyarrow" for a table of these, None for anything else."""
    if type(data).__module__.partition(".")[0] in OWN:
        return None
    import narwhals.stable.v2 as nw

    frame = nw.from_native(data, pass_through=True)
    kind = frame.implementation.value if isinstance(frame, nw.DataFrame) else None
    return kind if kind in FRAMES else None


def frame_of_kind(frame: pd.DataFrame, kind: str | None) -> Any:
    """A DataFrame as a table of polars or pyarrow, without its row labels; itself where kind is None.

    Missing cells are nulls. Ordered categories become an Enum of polars and an ordered dictionary of pyarrow, unordered
    ones a Categorical and a dictionary. But polars has categories of strings alone, and gets those of numbers as
    numbers.

    Raises
    ------
    ImportError
        If the library is not installed.
    """
    if kind is None:
        return frame
    if kind == "pyarrow":
        import pyarrow as pa

        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    import polars as pl  # by itself: from_dict of narwhals makes a Categorical of an Enum

    return pl.DataFrame([_polars_series(str(name), cells) for name, cells in frame.items()])


def labelled_frame_of_kind(frame: pd.DataFrame, kind: str | None, label: str) -> Any:
    """A DataFrame as `frame_of_kind`; in polars and pyarrow its row labels are the first column, called `label`."""
    return frame if kind is None else frame_of_kind(frame.rename_axis(label).reset_index(), kind)


def single_row(data: Any) -> Any:
    """A row that is a Series or a mapping of values as a DataFrame; anything else is returned as it is."""
    if isinstance(data, pd.Series):
        return data.to_frame().T.infer_objects()
    is_row = isinstance(data, Mapping) and data and all(np.ndim(value) == 0 for value in data.values())
    return pd.DataFrame([data]) if is_row else data


def shared_columns(given: Sequence[str], known: Sequence[str], argument: str = "data") -> list[str]:
    """Names of rows that are known, in their order; the others are left out, and a warning names them.

    Raises
    ------
    ValueError
        If none is known.
    """
    shared, others = [n for n in given if n in known], [n for n in given if n not in known]
    if not shared:
        raise ValueError(f"{argument} must have a column of {some(known)}, got {some(given)}")
    if others:
        warnings.warn(
            f"{argument}: unknown columns are ignored: {some(others)}. Known columns: {some(known)}",
            UserWarning,
            skip_file_prefixes=OWN_FILES,
        )
    return shared


def refuse_duplicates(names: Sequence[str]) -> None:
    """Refuse a name that two columns have."""
    if len(set(names)) < len(names):
        first = next(name for position, name in enumerate(names) if name in names[:position])
        raise ValueError(f"column names must be unique, got {quoted(first)} {list(names).count(first)} times")


def _cells(cells: Any) -> Any:
    """An array that pandas takes for a column, from a narwhals Series."""
    import narwhals.stable.v2 as nw

    dtype, native = cells.dtype, cells.to_native()
    if dtype.is_float() or (dtype.is_temporal() and dtype != nw.Time):
        return cells.to_numpy()  # nulls are NaN, or NaT
    if dtype == nw.Boolean or (dtype.is_integer() and str(dtype) not in HINTS):
        gaps, is_bool = cells.is_null().to_numpy().astype(bool), dtype == nw.Boolean
        filled = cells.fill_null(False if is_bool else 0).to_numpy() if gaps.any() else cells.to_numpy()
        filled = filled.astype(bool, copy=False) if is_bool else filled
        if not gaps.any():
            return filled
        return pd.arrays.BooleanArray(filled, gaps) if is_bool else pd.arrays.IntegerArray(filled, gaps)
    if dtype == nw.String:
        return pd.array(cells.to_numpy(), dtype="str")
    if dtype == nw.Enum:
        return pd.Categorical(cells.to_list(), list(dtype.categories), ordered=True)
    if dtype == nw.Categorical:  # a dictionary of Arrow may have an order, and numbers as its values
        return native.to_pandas().array if hasattr(native, "unify_dictionaries") else pd.Categorical(cells.to_list())
    if cells.null_count() == len(cells):
        return np.full(len(cells), None, object)
    hint = HINTS.get(str(dtype).partition("(")[0], "cast it to a number or to strings")
    shown = getattr(native, "type", dtype) if dtype == nw.Unknown else dtype
    raise TypeError(f"column {cells.name!r}: dtype {shown} is refused; {hint}")


def _polars_series(name: str, cells: pd.Series) -> Any:
    """A polars Series of a column that `decode` makes."""
    import polars as pl

    dtype, missing = cells.dtype, cells.isna().to_numpy()
    own: Any = None
    if isinstance(dtype, pd.CategoricalDtype):
        if dtype.categories.inferred_type == "string":
            own = pl.Enum(dtype.categories.tolist()) if dtype.ordered else pl.Categorical
    elif pd.api.types.is_bool_dtype(dtype):
        own = pl.Boolean
    elif pd.api.types.is_numeric_dtype(dtype):
        numpy_dtype = np.dtype(getattr(dtype, "numpy_dtype", dtype))
        if numpy_dtype.kind == "f" or not missing.any():
            return pl.Series(name, cells.to_numpy(numpy_dtype, na_value=np.nan), nan_to_null=True)
        own = pl.Series(np.empty(0, numpy_dtype)).dtype
    elif not missing.all():
        own = pl.String
    values = [None if gap else value for value, gap in zip(cells.tolist(), missing, strict=True)]
    return pl.Series(name, values, own)


def _with_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with dictionaries of Arrow, which pandas keeps as such in its ArrowDtype, as categories."""
    found = [k for k, t in enumerate(frame.dtypes) if isinstance(t, pd.ArrowDtype) and "dictionary" in str(t)]
    if not found:
        return frame
    parts = [frame.iloc[:, k] for k in range(frame.shape[1])]
    for k in found:
        cells = parts[k].array.__arrow_array__().to_pandas()
        parts[k] = pd.Series(cells.array, frame.index, name=parts[k].name)
    return pd.concat(parts, axis=1)
