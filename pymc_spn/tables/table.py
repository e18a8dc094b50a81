"""Tables: a frame, a dict of columns or an array as coded floats, and the way back."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pymc_spn.numerics.html_repr import Facts, as_html, elided
from pymc_spn.numerics.quoted_values import quoted, some
from pymc_spn.numerics.trust_warnings import OWN_FILES
from pymc_spn.tables import coding
from pymc_spn.tables.column import Column, as_name, by_name, list_of_columns
from pymc_spn.tables.frame_kinds import (
    column_array,
    frame_kind,
    frame_of_kind,
    pandas_frame,
    refuse_duplicates,
    shared_columns,
    single_row,
)
from pymc_spn.tables.unseen_levels import is_unseen_missing, known_levels

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

    from pymc_spn.tables.inputs import Kinds, TableLike


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Coded data and its schema, made by `Table.from_frame`.

    Parameters
    ----------
    columns : tuple of Column
    values : (N, D) float64
        Numbers as they are, levels as codes 0..K-1, NaN where missing. Read-only, C order.
    index : pandas.Index
        Row labels.

    Examples
    --------
    >>> table = ps.Table.from_frame(df)
    >>> table.names
    ('age', 'income', 'job')
    """

    columns: tuple[Column, ...]
    values: np.ndarray
    index: pd.Index

    def __post_init__(self) -> None:
        columns = check_columns(self.columns, "columns")
        values = np.ascontiguousarray(self.values, dtype=np.float64)
        if values.flags.writeable:
            values = values.copy() if values is self.values else values
            values.flags.writeable = False
        if values.shape != (len(self.index), len(columns)):
            raise ValueError(
                f"values must have shape ({len(self.index)}, {len(columns)}) (rows, columns), got {values.shape}"
            )
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "values", values)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names, a tuple of str.

        Examples
        --------
        >>> ps.Table.from_frame(df).names
        ('age', 'income', 'job')
        """
        return tuple(column.name for column in self.columns)

    @classmethod
    def from_frame(
        cls,
        data: "TableLike",
        kinds: "Kinds | None" = None,
        *,
        schema: Sequence[Column] | None = None,
        names: Sequence[str] | None = None,
        unseen: str = "error",
    ) -> "Table":
        """Code data, by its dtypes or by a known schema.

        Without a schema the kinds follow dtypes and values. Integers are ``binary`` if all are 0 or 1, and
        ``ordinal`` if they are few and repeat. That means at most 12 values from the smallest to the largest, half of
        them present, five rows for each and three for either end. Other integers are ``count``. They are ``integer`` if
        a value is negative or they vary less than counts can, as years do (a variance below the mean by three standard
        errors). Floats are ``real``, with one exception, which does not hold for a 2-D array (its dtype is one for
        all). Whole floats are read as integers if cells are missing, since pandas stores integers with gaps as floats.
        They are also read so if they are binary or ordinal by the same rule. Bool is ``binary``; category, strings and
        object columns of str are ``categorical``, with two levels too. Nullable dtypes count as their base. Category
        levels keep their order, other levels are sorted; those of an ordinal column are all whole numbers between the
        ends. NaN, None and ``pd.NA`` are missing. Object columns of bools, as with None among them, count as
        ``boolean``. Datetimes, complex numbers and object columns of anything else than str are refused. Of text with
        more than 20 levels, and more levels than half the cells, a warning says that it looks like names or
        identifiers, unless `kinds` has the column.

        With a schema, columns are matched by name in any order (those of a bare array by position). Columns that the
        data lack are missing, others are left out with a warning, and a row may be a Series or a mapping of values.
        Values must follow the rules of their column. A column may then be wholly missing and the data may have no rows.
        Columns that mark gaps (`Column.indicates`) are filled in from the gaps.

        Parameters
        ----------
        data : DataFrame of pandas, polars or pyarrow, mapping of column name to 1-D values, 2-D array, or Table
            Integer labels become str; those of a bare array are ``x0``, ``x1``, ... Rows of polars and pyarrow are
            numbered from 0. An Enum of polars is an ordered category, a Categorical an unordered one.
        kinds : mapping of column name to kind, optional
            Overrides: ``real``, ``positive`` (values >= 0), ``integer`` (whole), ``count`` (whole, >= 0), ``ordinal``
            (whole numbers whose probabilities are learned one by one). Further kinds: ``binary`` (bool, 0 and
            1, or exactly two levels), ``categorical`` (whole numbers may be levels).
        schema : sequence of Column, optional
            The columns of an earlier table; excludes `kinds`.
        names : sequence of str, optional
            Column names of a 2-D array.
        unseen : {"error", "missing"}
            What to do with a level that the schema does not have.

        Returns
        -------
        Table

        Raises
        ------
        TypeError
            If a dtype or an argument cannot be used, or an object column mixes types.
        ValueError
            If a value breaks its column's rule; the message names column, row, rule and value. If a column is
            duplicated or wholly missing, there are no rows, or no column is in the schema.

        Warns
        -----
        UserWarning
            If text whose kind is not given has nearly as many levels as cells, or columns are not in the schema.

        Examples
        --------
        >>> table = ps.Table.from_frame(df)
        >>> [column.kind for column in table.columns]
        ['real', 'real', 'categorical']

        >>> import pyarrow as pa, pymc_spn as ps
        >>> ps.Table.from_frame(pa.table({"age": [31.5, None, 47.2], "smoker": [True, False, None]}))
        Table(3 rows; age: real, smoker: binary(2))
        """
        if schema is not None:
            if kinds is not None:
                raise ValueError("kinds and schema exclude each other: a schema holds the kinds")
            schema = check_columns(schema, "schema")
            is_unseen_missing(unseen)
        if isinstance(data, Table):
            if names is not None:
                raise TypeError("names is for 2-D arrays, got it with a Table")
            if kinds is None and (schema is None or schema == data.columns):
                return data
            frame, kind = data.to_pandas(), kind_of_columns(data.columns)
        else:
            frame, kind = _as_frame(data, names, schema), frame_kind(data)
        if schema is not None:
            frame = _with_gaps_marked(frame, schema)
        if schema is None:
            schema = _infer_schema(frame, {} if kinds is None else kinds, not isinstance(data, np.ndarray))
            schema = of_kind(schema, kind)
        else:
            frame = known_levels(_match(frame, schema), schema, unseen)
        coded = np.empty((len(frame), len(schema)), order="F")
        for position, column in enumerate(schema):
            coded[:, position] = coding.encode(frame.iloc[:, position], column)
        values = np.ascontiguousarray(coded)
        values.flags.writeable = False
        return cls(tuple(schema), values, frame.index)

    def to_frame(self) -> "IntoDataFrame":
        """Decode to a DataFrame or pyarrow table, as the table was.

        Examples
        --------
        >>> ps.Table.from_frame(df).to_frame().equals(df)
        True
        """
        return frame_of_kind(self.to_pandas(), kind_of_columns(self.columns))

    def to_pandas(self) -> pd.DataFrame:
        """Decode to a DataFrame of pandas with the row labels.

        Examples
        --------
        >>> ps.Table.from_frame(df).to_pandas().equals(df)
        True
        """
        return decode(self.values, self.columns, self.index)

    def __repr__(self) -> str:
        fields = [
            f"{column.name}: {column.kind}" + (f"({len(column.levels)})" if column.levels is not None else "")
            for column in self.columns
        ]
        return f"Table({len(self.index)} rows; {elided(fields)})"

    def _repr_html_(self) -> str:
        gaps = np.isnan(self.values).sum(axis=0)
        facts = {"rows": f"{len(self.index):,} rows", "columns": f"{len(self.columns)} columns"}
        facts["gaps"] = f"{gaps.sum():,} of {self.values.size:,} cells are missing"
        return as_html(Facts("Table", facts), list_of_columns(self.columns, gaps))


def decode(values: np.ndarray, columns: Sequence[Column], index: pd.Index | None = None) -> pd.DataFrame:
    """Decode an array of codes to a pandas DataFrame with the original dtypes.

    A bool or integer column with missing cells gets the nullable dtype (``boolean``, ``Int64``). An integer
    column with fractions gets ``float64`` (``Float64`` if it was nullable), and one beyond its dtype's range
    ``int64``. Missing cells of object columns are NaN.

    Parameters
    ----------
    values : (N, D) array_like of float
        Coded as in `Table.values`.
    columns : sequence of Column
    index : pandas.Index or sequence, optional
        Row labels, by default 0..N-1; an Index is kept as it is.

    Returns
    -------
    pandas.DataFrame

    Raises
    ------
    ValueError
        If the shape does not fit the columns, or a code is not that of a level.
    """
    columns = check_columns(columns, "columns")
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != len(columns):
        raise ValueError(f"values must have shape (rows, {len(columns)}), got {values.shape}")
    if not isinstance(index, pd.Index):  # pd.Index would make tuples of the labels of a MultiIndex
        index = pd.RangeIndex(len(values)) if index is None else pd.Index(index)
    if len(index) != len(values):
        raise ValueError(f"index must have one label for each of {len(values)} rows, got {len(index)}")
    decoded = {
        column.name: coding.decode(values[:, position], column, index) for position, column in enumerate(columns)
    }
    return pd.DataFrame(decoded, index=index)


def of_kind(columns: Iterable[Column], kind: str | None) -> tuple[Column, ...]:
    """The columns as those of a table of polars, pyarrow or pandas (None)."""
    return tuple(replace(column, frame=kind) for column in columns)


def table_of_kind(table: Table, kind: str | None) -> Table:
    """The table as one of polars, pyarrow or pandas (None)."""
    return table if kind is None else replace(table, columns=of_kind(table.columns, kind))


def kind_of_columns(columns: Sequence[Column]) -> str | None:
    """What table rows of the columns are given back in: "polars", "pyarrow" or None for pandas."""
    return next((column.frame for column in columns if column.frame is not None), None)


def ordinals_as_integers(table: Table) -> Table:
    """The table with its ordinal columns as the numbers that they hold, for what does not learn level by level."""
    if all(column.kind != "ordinal" for column in table.columns):
        return table
    columns = tuple(
        replace(column, kind="integer", levels=None) if column.kind == "ordinal" else column for column in table.columns
    )
    return Table(columns, table.values + [column.origin for column in table.columns], table.index)


def check_columns(columns: Iterable[Any], argument: str) -> tuple[Column, ...]:
    """Tuple of Column with distinct names, at least one."""
    columns = tuple(columns)
    for column in columns:
        if not isinstance(column, Column):
            raise TypeError(f"{argument} must hold Column objects, got {quoted(column)}")
    if not columns:
        raise ValueError(f"{argument} must hold at least one column, got none")
    refuse_duplicates([column.name for column in columns])
    return columns


def _as_frame(data: Any, names: Sequence[str] | None, schema: Sequence[Column] | None) -> pd.DataFrame:
    """DataFrame with unique str names from anything that `Table.from_frame` accepts."""
    if names is not None and not isinstance(data, np.ndarray):
        raise TypeError(f"names is for 2-D arrays, got it with a {type(data).__name__}")
    data = pandas_frame(data) if schema is None else single_row(pandas_frame(data))
    if isinstance(data, pd.DataFrame):
        frame = data
    elif isinstance(data, Mapping):
        frame = _frame_of_mapping(data)
    elif isinstance(data, np.ndarray):
        if data.ndim != 2:
            raise ValueError(f"an array must have two dimensions (rows, columns), got shape {data.shape}")
        if names is not None:
            names = list(names)
        elif schema is not None:
            names = [column.name for column in schema]
            if data.shape[1] < len(names):
                names = [column.name for column in schema if column.indicates is None]
        else:
            names = [f"x{position}" for position in range(data.shape[1])]
        if len(names) != data.shape[1]:
            raise ValueError(f"the array has {data.shape[1]} columns, expected {len(names)}: {quoted(names)}")
        frame = pd.DataFrame(data)
        frame.columns = pd.Index(names, dtype=object)
    else:
        if isinstance(data, pd.Series):
            way = "a row is df.loc[[label]], a column to_frame()"
        elif hasattr(data, "get_value"):  # pm.Data, which the package does not import here
            way = "give the table itself, or get_value() of a pm.Data variable"
        elif isinstance(data, list | tuple):
            way = "rows as lists are pd.DataFrame(rows, columns=[...]) or np.asarray(rows)"
        else:
            way = "convert with to_frame(), to_pandas() or np.asarray()"
        raise TypeError(
            f"data must be a DataFrame, a mapping of columns, a 2-D array or a Table, got {type(data).__name__}; {way}"
        )
    if frame.shape[1] == 0:
        raise ValueError("data has no columns")
    labels = [_name(label) for label in frame.columns]
    refuse_duplicates(labels)
    return frame.set_axis(pd.Index(labels, dtype=object), axis="columns")


def _frame_of_mapping(data: Mapping[Any, Any]) -> pd.DataFrame:
    """DataFrame of a dict of columns; pandas alone would align or broadcast in silence."""
    lengths, index, data = {}, None, {name: column_array(cells) for name, cells in data.items()}
    for name, cells in data.items():
        if np.ndim(cells) != 1 and not isinstance(cells, pd.Series | pd.Index | list | tuple):
            raise ValueError(
                f"column {name!r}: values must be one-dimensional, got {quoted(cells)}; of a single row [value], and "
                "a row in a dict is pd.DataFrame([row])"
            )
        lengths[name] = len(cells)
        if isinstance(cells, pd.Series):
            if index is not None and not cells.index.equals(index):
                raise ValueError(f"column {name!r}: its row labels differ from those of other columns")
            index = cells.index
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns must have equal lengths, got {lengths}")
    return pd.DataFrame(data, index=index)


def _name(label: Any) -> str:
    name = as_name(label)
    if isinstance(name, str):
        return str(name)
    raise TypeError(f"column names must be str or int, got {quoted(label)}; rename the columns")


def _infer_schema(frame: pd.DataFrame, kinds: Any, own_dtypes: bool) -> tuple[Column, ...]:
    if not isinstance(kinds, Mapping):
        raise TypeError(f"kinds must map column names to kinds, got {quoted(kinds)}")
    kinds = {_name(label): kind for label, kind in by_name("kinds", kinds).items()}
    for name, kind in kinds.items():
        if name not in frame.columns:
            raise ValueError(
                f"kinds names column {name!r}, which does not exist; the columns are {some(list(frame.columns))}"
            )
        coding.check_kind(kind, name)
    if len(frame) == 0:
        raise ValueError(f"data has no rows (columns {some(list(frame.columns))})")
    schema = tuple(coding.infer_column(cells, name, kinds.get(name), own_dtypes) for name, cells in frame.items())
    warn_of_identifiers(frame, schema, kinds)
    return schema


def warn_of_identifiers(frame: pd.DataFrame, schema: Iterable[Column], kinds: Any) -> None:
    """Name the columns of a frame that look like identifiers, and whose kind is not given."""
    guessed = [(frame[column.name], column) for column in schema if column.name not in kinds]
    numbers = [column.name for cells, column in guessed if coding.is_identifier(cells, column)]
    if numbers:
        warnings.warn(
            f"whole numbers that look like identifiers: {some(numbers)}. They are read as amounts. Drop them if they "
            f"identify rows, or give their kind: kinds={{{numbers[0]!r}: 'categorical'}} or 'count'",
            UserWarning,
            skip_file_prefixes=OWN_FILES,
        )
    unique = {column.name: cells for cells, column in guessed if coding.is_nearly_unique(cells, column)}
    if unique:
        found = ((name, cells.nunique(), cells.notna().sum()) for name, cells in unique.items())
        listed = ", ".join(f"{name!r} ({levels} levels in {present} cells)" for name, levels, present in found)
        warnings.warn(
            f"text that looks like names or identifiers: {listed}. Such levels say nothing about other rows. Drop "
            "the column, convert numbers and dates that are text, or declare categories with "
            f"kinds={{{next(iter(unique))!r}: 'categorical'}} of ps.Table.from_frame",
            UserWarning,
            skip_file_prefixes=OWN_FILES,
        )


def with_gaps_marked(data: Any, schema: Sequence[Column]) -> Any:
    """The data with the columns that mark gaps, if the schema has any; else as they are."""
    recorded = [column for column in schema if column.indicates is None]
    if isinstance(data, Table) or len(recorded) == len(schema):
        return data
    if isinstance(data, np.ndarray) and (data.ndim != 2 or data.shape[1] != len(recorded)):
        return data
    return _with_gaps_marked(_as_frame(data, None, schema), schema)


def mark_gaps(table: Table, names: Any) -> Table:
    """The table with a column more for each of some columns: True where that one has no value.

    Parameters
    ----------
    table : Table
    names : sequence of str or int
        Columns that have gaps.

    Returns
    -------
    Table
        The new columns are behind the others and are called ``<name>_is_missing``.

    Raises
    ------
    TypeError, ValueError
        If it is not a list of names of columns that have gaps, or the table has a column of that name.
    """
    names = names_of_marked(names)
    columns, values = list(table.columns), [table.values]
    for position, name in enumerate(names):
        if name not in table.names:
            raise ValueError(
                f"missing_not_at_random must name columns among {some(list(table.names))}; got {quoted(name)}"
            )
        if name in names[:position]:
            raise ValueError(f"missing_not_at_random names column {name!r} twice")
        gaps = np.isnan(table.values[:, [table.names.index(name)]])
        if not gaps.any():
            raise ValueError(f"missing_not_at_random names column {name!r}, which has no missing cell: leave it out")
        columns.append(Column(f"{name}_is_missing", "binary", (False, True), "bool", name))
        if columns[-1].name in table.names:
            raise ValueError(
                f"missing_not_at_random adds a column {columns[-1].name!r}, and the table has one: rename that"
            )
        values.append(gaps)
    return Table(tuple(columns), np.concatenate(values, axis=1), table.index)


def names_of_marked(names: Any) -> list[str]:
    """Names of the columns whose gaps are to be marked; refused if they are no list."""
    if isinstance(names, str | Mapping) or not isinstance(names, Iterable):
        raise TypeError(f"missing_not_at_random must be a list of names of columns, got {quoted(names)}")
    return [as_name(label) for label in names]


def _with_gaps_marked(frame: pd.DataFrame, schema: Sequence[Column]) -> pd.DataFrame:
    """The frame with the schema's columns that mark gaps, where it does not have them."""
    marks = [c for c in schema if c.indicates is not None and c.name not in frame.columns]
    if not marks:
        return frame
    unknown = pd.Series(pd.array([pd.NA] * len(frame), dtype="boolean"), frame.index)
    new = {c.name: frame[c.indicates].isna() if c.indicates in frame.columns else unknown for c in marks}
    return pd.concat([frame, pd.DataFrame(new, index=frame.index)], axis=1)


def _match(frame: pd.DataFrame, schema: Sequence[Column]) -> pd.DataFrame:
    """The frame's columns in the schema's order: those that it lacks are gaps, others are left out with a warning."""
    known, given = [column.name for column in schema], list(frame.columns)
    if known == given:
        return frame
    shared_columns(given, known)
    return frame.reindex(columns=known)


def refuse_other_columns(data: Any, schema: Sequence[Column]) -> None:
    """Refuse rows to learn from that lack columns of a schema, or have others."""
    names = data.names if isinstance(data, Table) else _as_frame(data, None, schema).columns
    known = [column.name for column in schema]
    for wrong, rule in (
        ([c.name for c in schema if c.indicates is None and c.name not in names], "missing from the data"),
        (sorted(set(names).difference(known)), "not in the schema"),
    ):
        if wrong:
            raise ValueError(f"column {some(wrong)}: {rule}; the schema has {some(known)}")
