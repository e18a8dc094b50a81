"""How whole numbers are read: by their values, so that no column gets a kind that these refute."""

import logging

import numpy as np
import pandas as pd
import pytest

from pymc_spn.tables import Table, describe_columns, read_table

rng = np.random.default_rng(0)
RATINGS = rng.integers(1, 6, 100)
YEARS = rng.integers(1990, 2021, 100)
GAP = [np.nan]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, 1, 1, 0], "binary"),
        ([1, 1, 1], "binary"),
        (pd.array([0, None, 1], dtype="Int8"), "binary"),
        ([0.0, 1.0, 1.0], "binary"),
        ([0.0, 1.0, np.nan], "binary"),
        ([0.0, 0.0], "real"),  # of floats that are all one number nothing is known
        ([0.0, 1.0, 0.5], "real"),
        (RATINGS, "ordinal"),
        (-RATINGS, "ordinal"),
        (RATINGS.astype(float), "ordinal"),
        (np.append(RATINGS, GAP), "ordinal"),
        (RATINGS[:20], "count"),  # fewer than five rows a level
        (np.append(RATINGS, [9, 9]), "count"),  # two rows at an end: a sample of counts has such
        (np.append(RATINGS.clip(1, 4), [11] * 3), "count"),  # fewer than half of the numbers from 1 to 11
        (np.repeat(np.arange(13), 9), "count"),
        (rng.poisson(4.0, 100), "count"),
        (np.array([2.0, 7.0, 3.0, 900.0]), "real"),
        (np.array([2.0, 7.0, 3.0, 900.0, np.nan]), "real"),  # others need not be whole
        (YEARS, "integer"),  # vary less than any mixture of Poisson leaves
        (np.append(YEARS, GAP), "real"),  # of integers with gaps pandas makes floats
        (pd.array([*YEARS, None], dtype="Int64"), "integer"),
        (YEARS.astype(float), "real"),
        ([-3, 5, 800], "integer"),
        ([1e300, 2.0, np.nan], "real"),  # no integers that floats tell apart
    ],
)
def test_numbers_get_a_kind_that_their_values_allow(values, kind):
    table = Table.from_frame(pd.DataFrame({"a": values}))
    (column,) = table.columns
    assert column.kind == kind
    assert Table.from_frame(table.to_frame(), schema=table.columns).columns == table.columns
    pd.testing.assert_frame_equal(table.to_frame(), pd.DataFrame({"a": values}))


def test_floats_of_an_array_are_real():
    """Their dtype is one for all columns, and says nothing of a single one."""
    assert {c.kind for c in Table.from_frame(np.array([[0.0, 1.0], [1.0, np.nan]])).columns} == {"real"}
    assert {c.kind for c in Table.from_frame(np.array([[0, 1], [1, 0]])).columns} == {"binary"}


def test_ordinal_levels_are_all_numbers_between_the_ends():
    with_a_hole = np.repeat([1, 2, 4, 5], 9)
    (column,) = Table.from_frame({"rating": with_a_hole}).columns
    assert column.levels == (1, 2, 3, 4, 5) and column.origin == 1.0
    known = Table.from_frame({"rating": [3.0, np.nan, 5.0]}, schema=(column,))
    np.testing.assert_array_equal(known.values[:, 0], [2.0, np.nan, 4.0])
    for wrong in (6, 2.5):
        with pytest.raises(ValueError, match=r"unseen level \(known levels: 1 to 5; learn with kinds=.*'count'"):
            Table.from_frame({"rating": [wrong]}, schema=(column,))
    (chosen,) = Table.from_frame({"a": [3.0, 7.0]}, kinds={"a": "ordinal"}).columns
    assert chosen.levels == (3, 4, 5, 6, 7)
    with pytest.raises(ValueError, match="column 'a': kind 'ordinal' takes up to 1000 levels, got 0 to 1000"):
        Table.from_frame({"a": [0, 1000]}, kinds={"a": "ordinal"})


def test_how_columns_were_read_is_reported_once(caplog):
    frame = pd.DataFrame({"year": YEARS, "rating": RATINGS, "up": RATINGS > 2, "x": rng.normal(size=100), "y": 0.5})
    with caplog.at_level(logging.INFO, "pymc"):
        table = read_table(frame, name="s")
        read_table(table)
        read_table(frame[["up", "x"]])
        read_table(frame, {"year": "count", "rating": "real"})
    assert [record.getMessage() for record in caplog.records] == [
        "Columns of 's': year integer; rating ordinal 1..5; up binary; x, y real. Change with kinds={'year': 'real'}"
    ]
    caplog.clear()
    gaps = pd.DataFrame({"year": np.append(YEARS, GAP), "rating": np.append(RATINGS, 3)})
    with caplog.at_level(logging.INFO, "pymc"):
        read_table(gaps)
        read_table(gaps[["year"]], {"year": "integer"})
        read_table(gaps[["rating"]], ordinals=False)
    assert [record.getMessage() for record in caplog.records] == [
        "Columns: year real; rating ordinal 1..5. 'year' holds whole numbers and gaps, and was read as real. "
        "Change with kinds={'year': 'integer'}",
        "Columns: rating integer. Change with kinds={'rating': 'real'}",
    ]
    many = Table.from_frame(pd.DataFrame(rng.normal(size=(3, 9)), columns=list("abcdefghi")))
    assert describe_columns(many.columns) == "a, b, c, d, e, f, ... (9) real"
