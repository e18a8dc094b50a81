"""Tables of pandas, its nullable and Arrow dtypes, polars and pyarrow: the same content is the same table."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pymc_spn as ps
from pymc_spn.tables import Column, Table, frame_kinds

rng = np.random.default_rng(0)
N = 100


def with_gaps(values, every=9):
    return [None if row % every == 4 else value for row, value in enumerate(values)]


SIZES = ["small", "medium", "large", "huge"]
CELLS = {  # what the cells are, and Python values with None for gaps
    "real": ("float", with_gaps(rng.normal(size=N).tolist())),
    "whole floats": ("float", with_gaps(rng.integers(1, 6, N).astype(float).tolist())),
    "halves": ("float32", with_gaps((rng.integers(-9, 9, N) / 2.0).tolist())),
    "counts": ("int", with_gaps(rng.poisson(4.0, N).tolist())),
    "all counts": ("int", rng.poisson(40.0, N).tolist()),
    "ratings": ("int8", with_gaps(rng.integers(1, 6, N).tolist())),
    "years": ("int", with_gaps(rng.integers(1990, 2021, N).tolist())),
    "flags": ("int", with_gaps(rng.integers(0, 2, N).tolist())),
    "bools": ("bool", with_gaps((rng.random(N) < 0.5).tolist())),
    "all bools": ("bool", (rng.random(N) < 0.5).tolist()),
    "text": ("text", with_gaps(rng.choice(["b", "a", "ü"], N).tolist())),
    "category": ("category", with_gaps(rng.choice(["b", "a", "c"], N).tolist())),
    "ordered": ("ordered", with_gaps(rng.choice(SIZES[:3], N).tolist())),  # one level does not occur
}
ARROW = {
    "float": pa.float64(),
    "float32": pa.float32(),
    "int": pa.int64(),
    "int8": pa.int8(),
    "bool": pa.bool_(),
    "text": pa.string(),
}
POLARS = {
    "float": pl.Float64,
    "float32": pl.Float32,
    "int": pl.Int64,
    "int8": pl.Int8,
    "bool": pl.Boolean,
    "text": pl.String,
    "category": pl.Categorical,
    "ordered": pl.Enum(SIZES),
}
NULLABLE = {
    "float": "Float64",
    "float32": "Float32",
    "int": "Int64",
    "int8": "Int8",
    "bool": "boolean",
    "text": "string",
}
KINDS = ("nullable", "arrow strings", "ArrowDtype", "polars", "pyarrow")


def arrow(what, cells):
    if what == "category":
        return pa.array(pd.Categorical(cells))
    if what == "ordered":
        codes = pa.array([None if cell is None else SIZES.index(cell) for cell in cells], pa.int8())
        return pa.DictionaryArray.from_arrays(codes, pa.array(SIZES), ordered=True)
    return pa.array(cells, ARROW[what])


def table_of(kind, cells=CELLS):
    """The cells as a table of one kind; "pandas" is the usual one, whose integers with gaps are nullable."""
    if kind == "polars":
        return pl.DataFrame({name: pl.Series(name, x, POLARS[what]) for name, (what, x) in cells.items()})
    if kind == "pyarrow":
        return pa.table({name: arrow(*own) for name, own in cells.items()})
    if kind == "ArrowDtype":
        return table_of("pyarrow", cells).to_pandas(types_mapper=pd.ArrowDtype)
    out = {}
    for name, (what, x) in cells.items():
        if what in ("category", "ordered"):
            out[name] = pd.Categorical(x, SIZES if what == "ordered" else None, ordered=what == "ordered")
        elif kind == "nullable" or (what in ("int", "int8") and None in x):
            out[name] = pd.array(x, dtype=NULLABLE[what])
        elif what == "text":
            out[name] = pd.array(x, dtype="string[pyarrow]" if kind == "arrow strings" else "str")
        else:
            out[name] = pd.Series(
                x, dtype={"bool": object if None in x else bool}.get(what, what.replace("float32", "f4"))
            )
    return pd.DataFrame(out)


def check_same(kind, cells=CELLS):
    """The table of a kind is that of pandas, to the last bit."""
    usual, found = Table.from_frame(table_of("pandas", cells)), Table.from_frame(table_of(kind, cells))
    for a, b in zip(usual.columns, found.columns, strict=True):
        assert (a.name, a.kind, a.levels, a.dtype.endswith(" ordered")) == (
            b.name,
            b.kind,
            b.levels,
            b.dtype.endswith(" ordered"),
        )
        assert [type(level) for level in a.levels or ()] == [type(level) for level in b.levels or ()]
    np.testing.assert_array_equal(usual.values, found.values)
    assert found.index.equals(pd.RangeIndex(N))


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_cells_are_the_same_table(kind, name):
    check_same(kind, {name: CELLS[name]})


@pytest.mark.parametrize("kind", KINDS)
def test_new_rows_are_coded_by_the_columns_of_another_kind(kind):
    usual = Table.from_frame(table_of("pandas"))
    part = {name: (what, x[:20]) for name, (what, x) in reversed(CELLS.items())}
    found = Table.from_frame(table_of(kind, part), schema=usual.columns)
    np.testing.assert_array_equal(found.values, usual.values[:20])
    back = Table.from_frame(table_of("pandas", part), schema=Table.from_frame(table_of(kind)).columns)
    np.testing.assert_array_equal(back.values, usual.values[:20])


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("counts", lambda cells: cells.fill_null(0).to_numpy()),
        ("ordered", lambda cells: pd.Categorical(cells.to_list())),
        ("real", lambda cells: cells.to_numpy().astype(np.float32)),
        ("bools", lambda cells: cells.fill_null(0).to_numpy()),
    ],
)
def test_a_planted_mistake_is_found(name, mistake, monkeypatch):
    monkeypatch.setattr(frame_kinds, "_cells", mistake)
    with pytest.raises(AssertionError):
        check_same("polars", {name: CELLS[name]})


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_a_table_comes_back_as_it_was(kind):
    given = table_of(kind)
    back = Table.from_frame(given).to_frame()
    assert type(back) is type(given)
    if kind == "polars":
        assert back.schema == given.schema and back.equals(given)
    else:
        assert back.to_pydict() == given.to_pydict()
        assert [f.type.ordered for f in back.schema if pa.types.is_dictionary(f.type)] == [False, True]


def test_nan_is_missing_and_comes_back_as_null():
    table = Table.from_frame(pl.DataFrame({"x": [1.5, float("nan"), None]}))
    assert np.isnan(table.values[1:]).all()
    assert table.to_frame()["x"].to_list() == [1.5, None, None]


def test_categories_of_numbers_are_numbers_in_polars():
    schema = Table.from_frame(pd.DataFrame({"g": pd.Categorical([3, 1, 3])})).columns
    columns = tuple(Column.from_json({**c.to_json(), "frame": "polars"}) for c in schema)
    assert Table(columns, np.array([[0.0], [1.0], [np.nan]]), pd.RangeIndex(3)).to_frame()["g"].to_list() == [
        1,
        3,
        None,
    ]


def test_a_column_remembers_its_table_and_is_equal_without():
    column = Table.from_frame(table_of("polars", {"x": CELLS["real"]})).columns[0]
    usual = Table.from_frame(table_of("pandas", {"x": CELLS["real"]})).columns[0]
    assert column == usual and column.frame == "polars" and usual.frame is None
    assert Column.from_json(column.to_json()).frame == "polars" and "frame" not in usual.to_json()
    with pytest.raises(ValueError, match="frame must be one of"):
        Column("x", "real", None, "float64", frame="excel")


def test_numbers_are_not_copied():
    given = pl.DataFrame({"x": np.arange(5.0), "k": np.arange(5)})
    frame = frame_kinds.pandas_frame(given)
    for name in given.columns:
        assert np.shares_memory(frame[name].to_numpy(), given[name].to_numpy())


def test_columns_of_a_mapping():
    found = Table.from_frame({name: x for name, x in zip(CELLS, table_of("polars").iter_columns(), strict=True)})
    np.testing.assert_array_equal(found.values, Table.from_frame(table_of("pandas")).values)
    assert found.columns == Table.from_frame(table_of("polars")).columns


REFUSED = [
    (pl.LazyFrame({"a": [1]}), "data must be a table in memory, got a polars LazyFrame; collect it first"),
    (pa.table([pa.array([1]), pa.array([2])], ["a", "a"]), "column names must be unique, got 'a' 2 times", ValueError),
    (pl.DataFrame({"a": [[1, 2]]}), r"column 'a': dtype List\(Int64\) is refused; put its parts into"),
    (pa.table({"a": [{"b": 1}]}), r"column 'a': dtype Struct\({'b': Int64}\) is refused; put its fields"),
    (pl.DataFrame({"a": [1]}, {"a": pl.Int128}), "column 'a': dtype Int128 is refused; cast it to Int64"),
    (pl.DataFrame({"a": [b"x"]}), "column 'a': dtype Binary is refused; decode it to strings"),
    (pl.DataFrame({"a": [1]}, {"a": pl.Decimal(5, 1)}), "dtype Decimal.* is refused; cast it to Float64"),
    (pl.DataFrame({"a": [object()]}, {"a": pl.Object}), "column 'a': dtype Object is refused; cast it to"),
    (pl.DataFrame({"a": [None, None]}), "column 'a': all values are missing; drop the column", ValueError),
    (pa.table({"a": pa.nulls(2)}), "column 'a': all values are missing; drop the column", ValueError),
    (pl.DataFrame(), "data has no columns", ValueError),
    (pl.DataFrame({"a": []}, {"a": pl.Int64}), "data has no rows", ValueError),
    (pl.DataFrame({"a": [1.0, np.inf]}), r"column 'a', row 1 \(position 1\): kind 'real' needs finite", ValueError),
    (pl.DataFrame({"a": [1, 2**60]}), r"column 'a', row 1 \(position 1\): integers must lie within", ValueError),
    (pl.Series("a", [1]), "data must be a DataFrame, a mapping of columns, a 2-D array or a Table, got Ser"),
    (object(), "data must be a DataFrame, a mapping of columns, a 2-D array or a Table, got object"),
]


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    frame, message, *error = case
    with pytest.raises(*error or [TypeError], match=message):
        ps.Table.from_frame(frame)


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
@pytest.mark.parametrize("what", ["dates", "differences"])
def test_dates_are_refused_in_the_words_that_pandas_gets(kind, what):
    days = pd.Series(pd.to_datetime(["2020-01-01", "2020-03-01"]).as_unit("us"))
    cells = days if what == "dates" else days - days.iloc[0]
    made = pl.DataFrame({"d": cells.to_numpy()}) if kind == "polars" else pa.table({"d": cells.to_numpy()})
    with pytest.raises(TypeError) as usual:
        Table.from_frame(pd.DataFrame({"d": cells}))
    with pytest.raises(TypeError) as found:
        Table.from_frame(made)
    assert str(found.value) == str(usual.value)


def test_dictionaries_of_arrow_in_pandas_are_categories():
    frame = table_of("ArrowDtype", {"g": CELLS["ordered"]}).set_axis(np.arange(N) + 7)
    table = Table.from_frame(frame)
    assert table.columns[0].dtype == "category[str] ordered" and table.columns[0].levels == tuple(SIZES)
    assert table.index.equals(frame.index)
    assert (
        Table.from_frame(frame.iloc[:5], schema=table.columns).values[:, 0].tolist()[:4] == table.values[:4, 0].tolist()
    )


def test_a_wholly_null_column_is_known_at_prediction():
    schema = Table.from_frame(table_of("pandas", {"g": CELLS["text"], "x": CELLS["real"]})).columns
    for frame in (
        pl.DataFrame({"g": [None], "x": [None]}),
        pa.table({"g": pa.nulls(1), "x": pa.nulls(1)}),
        pa.table({"g": pa.nulls(1), "x": pa.nulls(1)}).to_pandas(types_mapper=pd.ArrowDtype),
    ):
        assert np.isnan(Table.from_frame(frame, schema=schema).values).all()
