"""Tables: kinds from dtypes, overrides, missing cells, the check at prediction, the way back."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymc_spn.tables import Column, Table, decode


@pytest.fixture
def frame():
    """One column of each dtype, a missing cell where the dtype has one."""
    levels = ["low", "mid", "high"]
    return pd.DataFrame(
        {
            "length": [0.5, np.nan, -1.25, 2.0],
            "weight": np.array([0.1, 2.0, 3.0, np.nan], dtype="float32"),
            "rings": [4, 0, 7, 7],
            "shift": [-1, 0, 1, 2],
            "byte": np.array([0, 255, 3, 1], dtype="uint8"),
            "flag": [True, False, True, True],
            "text": pd.Series(["b", "a", None, "b"], dtype="str"),
            "object": pd.Series(["x", np.nan, "y", "x"], dtype=object),
            "string": pd.Series(["u", pd.NA, "v", "u"], dtype="string"),
            "grade": pd.Categorical(["mid", None, "low", "mid"], categories=levels, ordered=True),
            "colour": pd.Categorical(["red", "blue", None, "red"], categories=["red", "green", "blue"]),
            "code": pd.Categorical([30, 10, 30, None], categories=[30, 10, 20]),
            "n": pd.array([1, None, 3, 0], dtype="Int64"),
            "yes": pd.array([True, None, False, True], dtype="boolean"),
            "x": pd.array([1.5, None, 3.25, 0.0], dtype="Float64"),
            "constant": [2.5] * 4,
        }
    ).set_axis(["r1", "r2", "r3", "r4"])


def test_kinds_and_levels_follow_dtypes(frame):
    columns = {column.name: column for column in Table.from_frame(frame).columns}
    assert {name: column.kind for name, column in columns.items()} == {
        "length": "real",
        "weight": "real",
        "rings": "count",
        "shift": "integer",
        "byte": "count",
        "flag": "binary",
        "text": "categorical",
        "object": "categorical",
        "string": "categorical",
        "grade": "categorical",
        "colour": "categorical",
        "code": "categorical",
        "n": "count",
        "yes": "binary",
        "x": "real",
        "constant": "real",
    }
    assert columns["flag"].levels == (False, True) == columns["yes"].levels
    assert columns["text"].levels == ("a", "b")  # sorted, not as they appear
    assert columns["grade"].levels == ("low", "mid", "high")  # unused levels stay, in order
    assert columns["colour"].levels == ("red", "green", "blue")
    assert columns["code"].levels == (30, 10, 20)
    assert columns["length"].levels is None


def test_values_are_codes_with_nan_where_missing(frame):
    table = Table.from_frame(frame)
    coded = pd.DataFrame(table.values, columns=list(table.names))
    np.testing.assert_array_equal(coded["length"], [0.5, np.nan, -1.25, 2.0])
    np.testing.assert_array_equal(coded["flag"], [1, 0, 1, 1])
    np.testing.assert_array_equal(coded["text"], [1, 0, np.nan, 1])
    np.testing.assert_array_equal(coded["grade"], [1, np.nan, 0, 1])
    np.testing.assert_array_equal(coded["code"], [0, 1, 0, np.nan])
    np.testing.assert_array_equal(coded["yes"], [1, np.nan, 0, 1])
    np.testing.assert_array_equal(np.isnan(table.values), frame.isna())


def test_values_are_read_only_contiguous_and_not_the_callers():
    data = np.arange(6.0).reshape(3, 2)
    for table in (Table.from_frame(data), Table(Table.from_frame(data).columns, data, pd.RangeIndex(3))):
        assert table.values.flags.c_contiguous
        with pytest.raises(ValueError, match="read-only"):
            table.values[0, 0] = 9.0
    data[0, 0] = 7.0
    assert table.values[0, 0] == 0.0


def test_round_trip_of_every_dtype(frame):
    pd.testing.assert_frame_equal(Table.from_frame(frame).to_frame(), frame)


def test_repr_is_one_line(frame):
    assert repr(Table.from_frame(frame[["length", "grade"]])) == ("Table(4 rows; length: real, grade: categorical(3))")


@pytest.mark.parametrize(
    ("cells", "kind", "levels", "coded"),
    [
        (np.array([2.0, 1.0, np.nan]), "count", None, [2, 1, np.nan]),
        (np.array([3.0, -1.0, np.nan]), "categorical", (-1, 3), [1, 0, np.nan]),
        (np.array([3, 7, 3]), "categorical", (3, 7), [0, 1, 0]),
        (np.array([3, 7, 3]), "real", None, [3, 7, 3]),
        (np.array([0.5, 7.0, 3.0]), "positive", None, [0.5, 7, 3]),
        (np.array([1, 0, 1]), "binary", (0, 1), [1, 0, 1]),
        (np.array([1.0, 1.0, np.nan]), "binary", (0, 1), [1, 1, np.nan]),
        (np.array([True, True, True]), "binary", (False, True), [1, 1, 1]),
        (np.array([True, False, True]), "categorical", (False, True), [1, 0, 1]),
        (["no", "yes", None], "binary", ("no", "yes"), [0, 1, np.nan]),
        (pd.Categorical(["b", "b", "b"], categories=["b", "a"]), "binary", ("b", "a"), [0, 0, 0]),
    ],
)
def test_override(cells, kind, levels, coded):
    table = Table.from_frame({"a": cells}, kinds={"a": kind})
    assert (table.columns[0].kind, table.columns[0].levels) == (kind, levels)
    np.testing.assert_array_equal(table.values[:, 0], coded)
    pd.testing.assert_frame_equal(table.to_frame(), pd.DataFrame({"a": cells}))


def test_defaults_that_are_not_guessed():
    table = Table.from_frame({"whole": [1.0, 2.0], "two": ["a", "b"], "one": ["a", "a"]})
    assert [column.kind for column in table.columns] == ["real", "categorical", "categorical"]


def ids(n_levels, n_rows, dtype=None):
    cells = [f"id {i % n_levels}" for i in range(n_rows)]
    return pd.DataFrame({"id": pd.Series(cells, dtype=dtype), "city": pd.Series(list("uvw") * n_rows)[:n_rows]})


@pytest.mark.parametrize("dtype", [None, "string", object])
def test_text_that_looks_like_identifiers_is_warned_of(dtype):
    frame = ids(200, 220, dtype)
    words = r"looks like names or identifiers: 'id' \(200 levels in 220 cells\).*kinds=\{'id': 'categorical'\}"
    with pytest.warns(UserWarning, match=words) as caught:
        table = Table.from_frame(frame)
    assert len(caught) == 1 and caught[0].filename == __file__ and len(table.columns[0].levels) == 200
    gaps = frame.assign(id=frame["id"].where(np.arange(220) % 4 == 0))  # of the cells that are there
    with pytest.warns(UserWarning, match=r"'id' \(50 levels in 55 cells\)"):
        Table.from_frame(gaps)


def test_whole_numbers_that_look_like_identifiers_are_warned_of():
    """A sequence, and numbers by the name of their column; but no ages, counts, amounts or years."""
    rng = np.random.default_rng(0)
    zips = rng.integers(10_000, 99_999, 100)
    for frame in (pd.DataFrame({"row": np.arange(100)}), pd.DataFrame({"home zip": zips}), pd.DataFrame({"ID": zips})):
        with pytest.warns(UserWarning, match=f"look like identifiers: '{frame.columns[0]}'") as caught:
            Table.from_frame(frame)
        assert len(caught) == 1 and caught[0].filename == __file__
        Table.from_frame(frame, {frame.columns[0]: "categorical"})
    gaps = np.where(np.arange(100) % 9 == 0, np.nan, zips)  # integers with gaps are floats in pandas
    cells, pl, pa = pd.DataFrame({"zip": pd.array(gaps, "Int64")}), *map(pytest.importorskip, ("polars", "pyarrow"))
    for rows in ({"zip": gaps}, {"zip": zips}, pl.from_pandas(cells), pa.Table.from_pandas(cells)):
        with pytest.warns(UserWarning, match="look like identifiers: 'zip'"):
            Table.from_frame(rows)
    for n in (10, 30, 100, 1_000):
        people = rng.lognormal(12.0, 2.0, n).astype(int)
        years = 1900 + np.arange(n) % 200
        plain = {
            "age": rng.integers(18, 90, n),
            "visits": rng.poisson(3, n),
            "people": people,
            "year": years,
            "paid": zips[:n],
        }
        Table.from_frame({name: x for name, x in plain.items() if len(x) == n})


def test_other_text_is_not_warned_of():
    """Few levels, levels that repeat, levels that somebody has declared, and rows by a known schema."""
    for n_levels, n_rows in ((20, 20), (100, 200), (300, 1_000)):
        Table.from_frame(ids(n_levels, n_rows))
    Table.from_frame(ids(200, 220, "category"))
    table = Table.from_frame(ids(200, 220), kinds={"id": "categorical"})
    assert table.columns[0].kind == "categorical"
    Table.from_frame(ids(200, 200), schema=table.columns)


def test_arrays_and_names():
    data = np.array([[1, -1], [2, 0]])
    table = Table.from_frame(data)
    assert table.names == ("x0", "x1")
    assert [column.kind for column in table.columns] == ["count", "integer"]
    assert Table.from_frame(data, names=["a", "b"]).names == ("a", "b")
    assert Table.from_frame(pd.DataFrame(data), kinds={0: "real"}).names == ("0", "1")
    masked = np.ma.masked_array(data, mask=[[False, True], [False, False]])
    assert np.isnan(Table.from_frame(masked).values[0, 1])


def test_column_slices_and_object_arrays():
    data = np.array([["a", "b"], ["c", None]], dtype=object)
    assert [column.levels for column in Table.from_frame(data).columns] == [("a", "c"), ("b",)]


def test_table_passes_through(frame):
    table = Table.from_frame(frame)
    assert Table.from_frame(table) is table
    assert Table.from_frame(table, schema=table.columns) is table
    changed = Table.from_frame(table, kinds={"rings": "real"})
    assert changed.columns[2].kind == "real"


# At prediction.


def test_schema_matches_columns_by_name(frame):
    table = Table.from_frame(frame)
    shuffled = Table.from_frame(frame[frame.columns[::-1]].iloc[[2, 0]], schema=table.columns)
    assert shuffled.names == table.names
    np.testing.assert_array_equal(shuffled.values, table.values[[2, 0]])
    assert list(shuffled.index) == ["r3", "r1"]


def test_schema_allows_what_a_query_needs(frame):
    columns = Table.from_frame(frame).columns
    assert Table.from_frame(frame.iloc[:0], schema=columns).values.shape == (0, len(columns))
    assert Table.from_frame(pd.DataFrame(columns=frame.columns), schema=columns).values.shape[0] == 0
    for nothing in (
        pd.DataFrame(np.nan, index=[0], columns=frame.columns),
        pd.DataFrame(None, index=[0], columns=frame.columns, dtype=object),
        pd.DataFrame(pd.NA, index=[0], columns=frame.columns, dtype="string"),
    ):
        assert np.isnan(Table.from_frame(nothing, schema=columns).values).all()


def test_schema_codes_the_same_values_in_other_dtypes(frame):
    table = Table.from_frame(frame)
    hidden = np.random.default_rng(1).random(frame.shape) < 0.3
    blanked = Table.from_frame(frame.mask(hidden), schema=table.columns)  # bool becomes object, int float
    np.testing.assert_array_equal(blanked.values, np.where(hidden, np.nan, table.values))
    other = frame.astype({"grade": object, "text": "category", "object": "string", "code": "Float64", "flag": "int64"})
    recoded = Table.from_frame(other, schema=table.columns)
    np.testing.assert_array_equal(recoded.values, table.values)
    reordered = frame.assign(colour=frame["colour"].cat.set_categories(["new", "blue", "red"]))
    np.testing.assert_array_equal(Table.from_frame(reordered, schema=table.columns).values, table.values)


def test_schema_with_a_bare_array_is_positional():
    columns = Table.from_frame({"a": [0.5], "b": [2]}).columns
    assert Table.from_frame(np.array([[2.5, 3.0]]), schema=columns).names == ("a", "b")


# Decoding draws.


def test_decode_widens_only_when_it_must():
    def decoded(values, dtype, kind="real"):
        return decode(np.array(values)[:, None], [Column("a", kind, None, dtype)])["a"]

    assert decoded([1.0, 2.0], "int64").dtype == "int64"
    assert decoded([1.0, np.nan], "int64").dtype == "Int64"
    assert decoded([1.0, np.nan], "uint8").dtype == "UInt8"
    assert decoded([1.0, np.nan], ">i4").dtype == "Int32"
    assert decoded([1.0, 2.5], "int64").dtype == "float64"
    assert decoded([1.0, 2.5, np.nan], "Int64").dtype == "Float64"
    assert decoded([1.0, 300.0], "uint8", "count").tolist() == [1, 300]
    assert decoded([1.0, 300.0], "UInt8", "count").dtype == "Int64"
    assert decoded([1e20], "int64").tolist() == [1e20]
    assert decoded([1e39, 1.0], "float32").tolist() == [1e39, 1.0]
    assert decoded([1e39, 1.0], "Float32").dtype == "Float64"
    flag = Column("f", "binary", (False, True), "bool")
    assert decode([[1.0], [np.nan]], [flag])["f"].tolist() == [True, pd.NA]
    assert decode([[1.0], [0.0]], [flag])["f"].dtype == bool


@pytest.mark.parametrize("values", [["b", "a", "b"], [3, 1, 3], [0.5, 2.0, 0.5]], ids=["string", "int64", "double"])
def test_arrow_columns_and_categories_come_back(values):
    pa = pytest.importorskip("pyarrow")
    column = pd.Series(values, dtype=pd.ArrowDtype(pa.array(values).type))
    frame = pd.DataFrame({"plain": column, "level": column.astype("category")})
    frame["ordered"] = frame["level"].cat.as_ordered()
    table = Table.from_frame(frame)
    pd.testing.assert_frame_equal(table.to_frame(), frame)
    schema = tuple(Column.from_json(json.loads(json.dumps(column.to_json()))) for column in table.columns)
    pd.testing.assert_frame_equal(decode(table.values, schema), frame)


def test_decode_keeps_the_index_given():
    column = Column("a", "real", None, "float64")
    assert list(decode([[1.0], [2.0]], (column,), index=["u", "v"]).index) == ["u", "v"]
    assert list(decode([[1.0], [2.0]], (column,)).index) == [0, 1]


def test_an_index_of_several_levels_stays_one():
    index = pd.MultiIndex.from_tuples([("u", 1), ("v", 2)], names=["group", "time"])
    found = Table.from_frame(pd.DataFrame({"a": [1.0, 2.0]}, index=index)).to_frame().index
    pd.testing.assert_index_equal(found, index)


def test_decode_refuses():
    column = Column("a", "categorical", ("u", "v"), "str")
    for code in (2.0, -1.0, 0.5, np.inf):
        with pytest.raises(ValueError, match=rf"column 'a', row at position 1: a code must .* 0\.\.1, got {code}"):
            decode([[0.0], [code]], [column])
    with pytest.raises(ValueError, match=r"values must have shape \(rows, 1\), got \(1, 2\)"):
        decode([[0.0, 1.0]], [column])
    with pytest.raises(ValueError, match="index must have one label for each of 1 rows, got 2"):
        decode([[0.0]], [column], index=[1, 2])


# Properties.

words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4)  # names refuse NUL
CELLS = {
    "float64": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    "float32": st.none() | st.floats(width=32, allow_nan=False, allow_infinity=False),
    "int64": st.integers(-(2**53) + 1, 2**53 - 1),
    "uint8": st.integers(0, 255),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "bool": st.booleans(),
    "str": st.none() | words,
    "object": st.none() | words,
    "string": st.none() | words,
    "Int64": st.none() | st.integers(-(2**53) + 1, 2**53 - 1),
    "UInt8": st.none() | st.integers(0, 255),
    "boolean": st.none() | st.booleans(),
    "Float64": st.none() | st.floats(allow_nan=False, allow_infinity=False),
}
CATEGORIES = st.one_of(
    st.lists(words, min_size=1, max_size=4, unique=True),
    st.lists(st.integers(-(2**53) + 1, 2**53 - 1), min_size=1, max_size=4, unique=True),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=4, unique=True),
    st.just([True, False]),
)


@st.composite
def series(draw, n_rows):
    dtype = draw(st.sampled_from([*CELLS, "category"]))
    if dtype == "category":
        levels = draw(CATEGORIES)
        cells = st.none() | st.sampled_from(levels)
        dtype = pd.CategoricalDtype(levels, ordered=draw(st.booleans()))
    else:
        cells = CELLS[dtype]
    cells = draw(st.lists(cells, min_size=n_rows, max_size=n_rows).filter(lambda cells: set(cells) != {None}))
    if dtype in ("object", "float32", "float64"):
        cells = [np.nan if cell is None else cell for cell in cells]
    return pd.Series(cells, dtype=dtype)


@st.composite
def frames(draw):
    n_rows = draw(st.integers(1, 6))
    names = draw(st.lists(words, min_size=1, max_size=4, unique=True))
    return pd.DataFrame({name: draw(series(n_rows)) for name in names})


@settings(max_examples=150, deadline=None)
@given(frames())
def test_frames_survive_coding_and_json(frame):
    table = Table.from_frame(frame)
    pd.testing.assert_frame_equal(table.to_frame(), frame, check_column_type=False)
    text = json.dumps([column.to_json() for column in table.columns])
    columns = tuple(Column.from_json(fields) for fields in json.loads(text))
    assert columns == table.columns
    assert [list(map(type, column.levels or ())) for column in columns] == [
        list(map(type, column.levels or ())) for column in table.columns
    ]
    again = Table.from_frame(frame, schema=columns)
    np.testing.assert_array_equal(again.values, table.values)
    pd.testing.assert_frame_equal(decode(table.values, columns), frame, check_column_type=False)


@settings(max_examples=60, deadline=None)
@given(frames(), st.randoms(use_true_random=False))
def test_coding_goes_row_by_row(frame, random):
    table = Table.from_frame(frame)
    rows = [random.randrange(len(frame)) for _ in range(3)]
    part = Table.from_frame(frame.iloc[rows], schema=table.columns)
    np.testing.assert_array_equal(part.values, table.values[rows])


@pytest.mark.parametrize(
    "cells", [[True, None, False], [False, True, True], [np.nan, True, False], [pd.NA, True, False]]
)
def test_objects_of_bools_are_nullable_bools(cells):
    series = pd.Series(cells, dtype=object)
    table = Table.from_frame({"flag": series})
    (column,) = table.columns
    assert (column.kind, column.levels, column.dtype) == ("binary", (False, True), "boolean")
    pd.testing.assert_series_equal(table.to_frame()["flag"], series.astype("boolean"), check_names=False)
    again = Table.from_frame({"flag": series}, schema=table.columns)
    np.testing.assert_array_equal(again.values, table.values)


def test_unseen_levels_are_missing_where_that_is_asked():
    frame = pd.DataFrame(
        {"t": list("ab"), "c": pd.Categorical(["u", "v"]), 2: [1, 2], "b": [True, False], "x": [0.5, 1.0]}
    )
    table = Table.from_frame(frame, kinds={2: "categorical"})
    new = pd.DataFrame(
        {"t": ["z", "b"], "c": pd.Categorical(["v", "w"]), 2: [7, 2], "b": [False, True], "x": [3.0, 4.0]}
    )
    found = Table.from_frame(new, schema=table.columns, unseen="missing")
    np.testing.assert_array_equal(found.values, [[np.nan, 1, np.nan, 0, 3], [1, np.nan, 1, 1, 4]])
    numbers = Table.from_frame(frame[[2, "x"]], kinds={2: "categorical"}).columns
    found = Table.from_frame(np.array([[7.0, 3.0], [2.0, 4.0]]), schema=numbers, unseen="missing")
    np.testing.assert_array_equal(found.values, [[np.nan, 3], [1, 4]])
    with pytest.raises(ValueError, match="unseen level"):
        Table.from_frame(new, schema=table.columns)
    with pytest.raises(ValueError, match=r"column 't', row 0 .* unseen level .*, got 3"):  # no level of text at all
        Table.from_frame(new.assign(t=3), schema=table.columns, unseen="missing")
    with pytest.raises(ValueError, match='unseen must be "error" or "missing", got \'drop\''):
        Table.from_frame(new, schema=table.columns, unseen="drop")
