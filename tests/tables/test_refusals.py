"""Every refusal of a table, by the words that name column, row, rule and value."""

import re

import numpy as np
import pandas as pd
import pytest

from pymc_spn.tables import Column, Table

ROWS = ["r0", "r1", "r2"]


def one(cells, dtype=None):
    return pd.DataFrame({"a": pd.Series(cells, index=ROWS, dtype=dtype)})


@pytest.mark.parametrize(
    "cells",
    [
        pd.Series(pd.to_datetime(["2026-01-01", "2026-01-03", None])),
        pd.Series(pd.PeriodIndex(["2026-01", "2026-02", None], freq="M")),
        pd.Series(pd.to_timedelta([1, 2, None], unit="D")),
        pd.Series([pd.Timestamp("2026-01-01").date(), pd.Timestamp("2026-01-03").date(), None], dtype=object),
    ],
)
def test_what_the_hints_for_times_say_works(cells):
    """Step by step, as the messages say, until the column is taken; also where a frame holds such cells as objects."""
    for x in (cells, cells.astype(object)):
        for _ in range(4):
            try:
                table = Table.from_frame({"a": x})
                break
            except TypeError as error:
                first = re.search(
                    r"x = (.*?), then|with (x\.dt\.to_timestamp\(\))|(\(x - .*\.days)|(x\.dt\.total.*\))", str(error)
                )
                x = eval(next(group for group in first.groups() if group), {"pd": pd, "x": x})
        assert table.columns[0].kind in ("real", "count") and np.isnan(table.values[2, 0])
        assert 0 < table.values[1, 0] - table.values[0, 0] < 100_000


@pytest.mark.parametrize(
    ("cells", "kind", "words"),
    [
        ([1.0, 2.5, 3.0], "count", "'count' needs whole numbers, got 2.5"),
        ([1.0, -2.0, 3.0], "count", "'count' needs values >= 0, got -2.0"),
        ([1, -2, 3], "count", "'count' needs values >= 0, got -2"),
        ([1.0, np.inf, 3.0], "count", r"'count' needs finite values \(missing is NaN\), got inf"),
        ([1.0, -np.inf, np.nan], None, "'real' needs finite values .*, got -inf"),
        ([0.0, -1.0, np.nan], "positive", "'positive' needs values >= 0, got -1.0"),
        ([1.0, 2.5, np.nan], "categorical", "'categorical' needs whole numbers, got 2.5"),
        ([1.0, np.inf, np.nan], "categorical", "'categorical' needs finite values .*, got inf"),
        ([1, 2, 0], "binary", "'binary' needs bool, 0 and 1 or exactly two levels, got 2"),
        ([0, 2**53, 1], None, r"integers must lie within \+-\(2\*\*53 - 1\).*, got 9007199254740992"),
    ],
)
def test_values_against_their_rule(cells, kind, words):
    kinds = None if kind is None else {"a": kind}
    with pytest.raises(ValueError, match=rf"column 'a', row 'r1' \(position 1\): .*{words}$"):
        Table.from_frame(one(cells), kinds=kinds)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["u", 3, "v"], r"object column mixes str and int: convert with astype\(str\).*, got 3"),
        (["u", 3.5, None], "object column mixes str and float: .*, got 3.5"),
        ([0, True, 1], "object column mixes int and bool: .*, got True"),
        ([None, 3, 4], r"object column of numbers: convert with astype\(float\).*, got 3"),
        ([None, 3.5, 4], r"object column of numbers: convert with astype\(float\).*, got 3.5"),
        ([None, np.float64(3.5), 4.0], "object column of numbers: .*, got .*3.5"),
        ([None, pd.Timedelta(1), None], "object column of Timedelta: .*total_seconds"),
        ([None, 1j, None], "object column of complex: split it"),
        ([None, b"u", b"v"], r"object column of bytes: convert with x.str.decode\('utf-8'\), got b'u'"),
        ([None, pd.Timestamp("2026-01-01"), None], "object column of Timestamp: .*days since a date"),
        ([None, pd.Timestamp("2026-01-01").date(), None], "object column of date: .*days since a date"),
        ([None, pd.Period("2026-01"), None], r"object column of Period: .*infer_objects\(\), then .*to_timestamp\(\)"),
        ([None, [1], [2]], "object column of list: convert with astype"),
    ],
)
def test_object_columns(cells, words):
    with pytest.raises(TypeError, match=rf"column 'a', row 'r1' \(position 1\): {words}"):
        Table.from_frame(one(cells, object))


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (pd.date_range("2026-01-01", periods=3), r"dtype datetime64.* is refused; .*dt\.days"),
        (pd.date_range("2026-01-01", periods=3, tz="UTC"), r"dtype datetime64.*UTC.* is refused; .*dt\.days"),
        (pd.period_range("2026-01", periods=3, freq="M"), r"dtype period.* is refused; .*dt\.days"),
        (pd.to_timedelta([1, 2, 3], unit="D"), r"dtype timedelta64.* is refused; .*total_seconds"),
        (np.array([1j, 2, 3]), "dtype complex128 is refused; split it into a real and an imaginary column"),
        (pd.arrays.SparseArray([0, 0, 1]), r"dtype Sparse.* is refused; convert with x\.sparse\.to_dense"),
        (pd.interval_range(0, 3), "dtype interval.* is refused; convert with astype"),
        (np.array([1, 2, 3], dtype=np.longdouble), r"dtype .* is refused; convert with astype\(float\)"),
        (pd.Categorical(pd.interval_range(0, 3)), r"categories must be all str or all numbers.*rename_cat"),
        (pd.Categorical([1, "u", 1]), r"categories must be all str or all numbers, got 1, 'u'"),
    ],
)
def test_dtypes(cells, words):
    with pytest.raises(TypeError, match=f"column 'a': {words}"):
        Table.from_frame({"a": cells})


DURATIONS = pd.Series(pd.to_timedelta([1, 2, 3], unit="D"))
NUMBERS = one([1.0, 2.0, 3.0])
AB = Table.from_frame({"a": [1.0], "b": [2.0]}).columns
SHIFTED = pd.Series([1, 2], index=[1, 2])
REFUSED = [
    # cells and levels
    (lambda: {"a": pd.Categorical([1, 2**53 + 1])}, {}, "'a', row .*: integers must lie .*9007199254740993"),
    (lambda: {"a": pd.Categorical([1.0, np.inf])}, {}, r"column 'a': levels must be finite, got \(1\.0, inf"),
    (
        lambda: {"a": DURATIONS.astype("duration[ns][pyarrow]")},
        {},
        TypeError,
        r"dtype duration.* is .*dt\.total_seconds",
    ),
    # kinds
    *(
        (lambda: NUMBERS, {"kinds": {"a": k}}, "column 'a': unknown kind .*; the kinds are real, positive,")
        for k in ("nominal", None, 3, ["real"])
    ),
    (lambda: NUMBERS, {"kinds": {"b": "real"}}, "kinds names column 'b', which does .*; the columns are 'a'"),
    (lambda: NUMBERS, {"kinds": ["real"]}, TypeError, r"kinds must map column names to kinds, got \['real'\]"),
    (lambda: one(["u", "v", "w"], "str"), {"kinds": {"a": "count"}}, TypeError, "'a': kind 'count' needs numbers, got"),
    (lambda: one(["u", "v", "w"], object), {"kinds": {"a": "real"}}, TypeError, "'a': kind 'real' needs numbers, got"),
    (
        lambda: one([1, 2, 3], "category"),
        {"kinds": {"a": "positive"}},
        TypeError,
        "kind 'positive' needs .*convert with",
    ),
    (lambda: one([True, False, True], "bool"), {"kinds": {"a": "real"}}, TypeError, "kind 'real' needs .*convert with"),
    *(
        (lambda c=c: {"a": c}, {"kinds": {"a": "binary"}}, "'binary' needs exactly two levels, got [13]: 'u'")
        for c in (["u", "v", "w"], ["u", "u", "u"], pd.Categorical(["u"] * 3))
    ),
    *(
        (lambda d=d: one([None] * 3, d), {}, "column 'a': all values are missing; drop the column")
        for d in ("float64", "object", "str", "string", "Int64", "boolean", "category")
    ),
    # shapes
    (lambda: pd.DataFrame({"a": [], "b": []}), {}, r"data has no rows \(columns 'a', 'b'\)"),
    (lambda: pd.DataFrame(index=[0]), {}, "data has no columns"),
    (lambda: {}, {}, "data has no columns"),
    (lambda: np.empty((3, 0)), {}, "data has no columns"),
    (lambda: np.zeros(3), {}, r"two dimensions \(rows, columns\), got shape \(3,\)"),
    (lambda: np.zeros((3, 2)), {"names": ["a"]}, r"the array has 2 columns, expected 1: \['a'\]"),
    (lambda: {"a": [1, 2], "b": [1]}, {}, "columns must have equal lengths, got {'a': 2, 'b': 1}"),
    (lambda: {"a": 3.0}, {}, "column 'a': values must be one-dimensional"),
    (lambda: {"a": np.zeros((2, 2))}, {}, "column 'a': values must be one-dimensional"),
    (lambda: {"a": "text"}, {}, "column 'a': values must be one-dimensional"),
    (lambda: {"a": pd.Series([1, 2]), "b": SHIFTED}, {}, "column 'b': its row labels differ from those of"),
    # types
    (lambda: NUMBERS.loc["r0"], {}, TypeError, r"got Series; a row is df.loc\[\[label\]\], a column to_frame\(\)"),
    *(
        (lambda d=d: d, {}, TypeError, "data must be a DataFrame, a mapping of columns, a 2-D array or a Table")
        for d in ([[1.0]], pd.Series([1.0]), None, "file.csv")
    ),
    # names
    (lambda: pd.DataFrame([[1, 2]], columns=["a", "a"]), {}, "names must be unique, got 'a' 2 times"),
    (lambda: pd.DataFrame([[1, 2]], columns=[1, "1"]), {}, "names must be unique, got '1' 2 times"),
    (lambda: np.zeros((1, 2)), {"names": ["a", "a"]}, "column names must be unique, got 'a' 2 times"),
    *(
        (lambda k=k: {k: [1.0]}, {}, TypeError, "column names must be str or int, got .*; rename the columns")
        for k in (1.5, ("a", "b"), True)
    ),
    (lambda: NUMBERS, {"names": ["a"]}, TypeError, "names is for 2-D arrays, got it with a DataFrame"),
    (lambda: Table.from_frame(NUMBERS), {"names": ["a"]}, TypeError, "names is for 2-D arrays, got it with a Table"),
    # schemas
    (lambda: {"c": [1.0]}, {"schema": AB}, "data must have a column of 'a', 'b', got 'c'"),
    (lambda: np.zeros((1, 3)), {"schema": AB}, "the array has 3 columns, expected 2"),
    (lambda: NUMBERS, {"kinds": {"a": "real"}, "schema": AB}, "kinds and schema exclude each other"),
    (lambda: {"a": [1.0]}, {"schema": ["a"]}, TypeError, "schema must hold Column objects, got 'a'"),
    (lambda: {"a": [1.0]}, {"schema": []}, "schema must hold at least one column, got none"),
    (lambda: {"a": [1.0]}, {"schema": [AB[0]] * 2}, "column names must be unique, got 'a' 2 times"),
    *(
        (lambda c=c: {"a": c}, {"schema": AB[:1]}, TypeError, r"'a': kind 'real' needs numbers, got .*astype\(float\)")
        for c in (["1", "2", "3"], [True, False, True], pd.Categorical([1, 2, 3]))
    ),
]


@pytest.mark.parametrize("case", REFUSED)
def test_tables_that_are_refused(case):
    data, arguments, *error, words = case
    with pytest.raises(*error or [ValueError], match=words):
        Table.from_frame(data(), **arguments)


# Against a schema.


@pytest.mark.parametrize(
    ("first", "kind", "later", "words"),
    [
        (["u", "v", "u"], None, ["u", "w", None], r"unseen level \(known levels: 'u', 'v'\), got 'w'"),
        (["u", "v", "u"], None, ["u", 1, "u"], "object column mixes str and int: .*, got 1"),
        (["u", "v", "u"], None, [np.nan, 3.0, 1.0], "unseen level .*, got 3.0"),
        ([1, 2, 1], "categorical", [1, 3, 2], r"unseen level \(known levels: 1, 2\), got 3"),
        ([1, 2, 1], "categorical", [None, "u", "v"], "unseen level .*, got 'u'"),
        ([0, 1, 1], "binary", [0.0, 0.5, 1.0], "unseen level .*, got 0.5"),
        ([True, False, True], None, [0, 2, 1], "unseen level .*, got 2"),
        ([1, 2, 3], None, [1.0, 2.5, 3.0], "kind 'count' needs whole numbers, got 2.5"),
        ([1, 2, 3], None, [1, -1, 3], "kind 'count' needs values >= 0, got -1"),
        ([1.0, 2.0, 3.0], "positive", [0, -1, 3], "kind 'positive' needs values >= 0, got -1"),
        ([1.0, 2.0, 3.0], None, [None, 3, "u"], "object column mixes int and str"),
        ([1.5, 2.0, 3.0], None, [None, np.inf, 1.0], "kind 'real' needs finite values .*, got inf"),
    ],
)
def test_values_against_a_schema(first, kind, later, words):
    columns = Table.from_frame(one(first), kinds=None if kind is None else {"a": kind}).columns
    position = 2 if words.endswith("int and str") else 1
    with pytest.raises(
        (ValueError, TypeError), match=rf"column 'a', row 'r{position}' \(position {position}\): {words}"
    ):
        Table.from_frame(one(later), schema=columns)


def test_unseen_category_counts_only_where_used():
    columns = Table.from_frame(one(["u", "v", "u"], "category")).columns
    later = one(["u", "w", "v"], "category")
    with pytest.raises(ValueError, match=r"row 'r1' \(position 1\): unseen level .*, got 'w'"):
        Table.from_frame(later, schema=columns)
    assert Table.from_frame(later.iloc[[0, 2]], schema=columns).values.ravel().tolist() == [0.0, 1.0]


def test_long_level_lists_are_cut():
    columns = Table.from_frame({"a": [f"level {i:02}" for i in range(12)]}).columns
    with pytest.raises(ValueError, match=r"'level 07', ... 12 in all\), got 'u'"):
        Table.from_frame({"a": ["u"]}, schema=columns)


def test_direct_construction():
    columns = Table.from_frame({"a": [1.0]}).columns
    with pytest.raises(ValueError, match=r"values must have shape \(2, 1\) \(rows, columns\), got \(1, 1\)"):
        Table(columns, np.zeros((1, 1)), pd.RangeIndex(2))


# Columns.


@pytest.mark.parametrize(
    "case",
    [
        ((1, "real", None, "float64"), TypeError, "a column's name must be a str, got 1"),
        (("a\0", "real", None, "float64"), r"column 'a.x00': its name holds a NUL"),
        (("\ud800", "real", None, "float64"), r"column '.ud800': its name holds half of a surrogate pair"),
        (("a", "binary", ("u", "\0"), "str"), r"column 'a': its level '.x00' holds a NUL, which no file"),
        (("a", "real", None, float), TypeError, "column 'a': dtype must be a str, got <class 'float'>"),
        (("a", "nominal", None, "float64"), "column 'a': unknown kind 'nominal'"),
        (("a", "ordinal", (1, 3), "int64"), "kind 'ordinal' needs consecutive integers"),
        (("a", "ordinal", (1.0, 2.0), "float64"), "kind 'ordinal' needs consecutive integers"),
        (("a", "ordinal", (), "int64"), "kind 'ordinal' needs consecutive integers"),
        (("a", "real", (1, 2), "float64"), r"kind 'real' has no levels, got \(1, 2\)"),
        (("a", "categorical", None, "str"), TypeError, "kind 'categorical' needs a tuple of levels, got None"),
        (("a", "categorical", ["u"], "str"), TypeError, r"needs a tuple of levels, got \['u'\]"),
        (("a", "categorical", ("u", 1), "str"), TypeError, "levels must be all str, all int"),
        (("a", "categorical", (b"u",), "str"), TypeError, "levels must be all str, all int"),
        (("a", "categorical", (1.0, np.nan), "float64"), "levels must be"),
        (("a", "categorical", (1.0, float("inf")), "float64"), "levels must be finite"),
        (("a", "categorical", ("u", "u"), "str"), r"levels must differ, got \('u', 'u'\)"),
        (("a", "binary", ("u",), "str"), "kind 'binary' needs exactly two levels, got"),
    ],
)
def test_columns(case):
    fields, *error, words = case
    with pytest.raises(*error or [ValueError], match=words):
        Column(*fields)


def test_json_fields():
    with pytest.raises(ValueError, match=r"needs name, kind, levels and dtype, got \{'name': 'a'\}"):
        Column.from_json({"name": "a"})
