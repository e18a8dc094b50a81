"""Labels of rows: what a netCDF file gives back stays, everything else becomes its text."""

import datetime

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from pymc_spn.tables import row_labels

KEPT = [
    pd.RangeIndex(3),
    pd.Index([3, 1, 2], dtype="uint8"),
    pd.Index([1.5, np.nan, 2]),
    pd.Index([True, False, True]),
    pd.Index(["b", "a", "a"]),
    pd.Index(["b", "a", "a"], dtype=object),
    pd.date_range("2020", periods=3),
    pd.timedelta_range("1h", periods=3),
]
HELD = [  # plain labels in a dtype that netCDF does not know
    (pd.CategoricalIndex(["b", "a", "b"]), ["b", "a", "b"]),
    (pd.CategoricalIndex([2, 1, 2]), [2, 1, 2]),
    (pd.Index([2, 1, 3], dtype="Int64"), [2, 1, 3]),
    (pd.Index([2, 1, 3], dtype=object), [2, 1, 3]),
]
TEXT = [
    (pd.MultiIndex.from_product([["a"], [2, 1, 0]], names=["row", "time"]), ["('a', 2)", "('a', 1)", "('a', 0)"]),
    (pd.Index([(1, 2), (3, 4)], tupleize_cols=False), ["(1, 2)", "(3, 4)"]),
    (pd.date_range("2020", periods=1, tz="UTC"), ["2020-01-01 00:00:00+00:00"]),
    (pd.DatetimeIndex(np.array(["3000-01-01"], "datetime64[s]")), ["3000-01-01 00:00:00"]),
    (pd.period_range("2020-01", periods=2, freq="M"), ["2020-01", "2020-02"]),
    (pd.interval_range(0, 2), ["(0, 1]", "(1, 2]"]),
    (pd.Index([datetime.date(2020, 1, 1)]), ["2020-01-01"]),
    (pd.Index(["a", None], dtype=object), ["a", "None"]),
    (pd.Index(["a", 1, 2.5], dtype=object), ["a", "1", "2.5"]),
    (pd.Index([1, None], dtype="Int64"), ["1", "<NA>"]),
    (pd.Index([2**70, 1], dtype=object), [str(2**70), "1"]),
]


def through_a_file(labels, path):
    table = xr.Dataset({"x": ("row", np.zeros(len(labels)))}, {"row": labels})
    table.to_netcdf(path, engine="h5netcdf")
    return xr.load_dataset(path, engine="h5netcdf")["row"].to_index()


@pytest.mark.parametrize("index", KEPT, ids=lambda i: f"{i.dtype}")
def test_plain_labels_stay(index, tmp_path):
    assert row_labels(index) is index
    assert through_a_file(index, tmp_path / "x.nc").equals(index.astype(object) if index.dtype == "str" else index)


@pytest.mark.parametrize(
    ("index", "expected"), HELD + TEXT, ids=lambda i: str(i.dtype) if isinstance(i, pd.Index) else ""
)
def test_other_labels_become_plain_ones(index, expected, tmp_path):
    found = row_labels(index)
    assert found.nlevels == 1 and found.tolist() == expected
    assert through_a_file(found, tmp_path / "x.nc").tolist() == expected


@pytest.mark.parametrize("index", [i.rename("who") for i in KEPT], ids=lambda i: f"{i.dtype}")
def test_the_name_of_an_index_is_no_dimension(index):
    found = xr.DataArray(np.zeros(len(index)), {"row": row_labels(index)}, ["row"])
    assert found["row"].dims == ("row",) and index.name == "who"


def test_a_sequence_is_a_sequence_of_labels():
    assert row_labels(range(2)).tolist() == [0, 1]
    assert row_labels([(1, 2), (3, 4)]).tolist() == ["(1, 2)", "(3, 4)"]


@pytest.mark.parametrize(("label", "what"), [("b\0", "a NUL"), ("b\ud800", "half of a surrogate pair")])
def test_labels_that_no_file_keeps_are_refused(label, what):
    with pytest.raises(ValueError, match=rf"row 1: its label 'b.*' holds {what}, which no file keeps"):
        row_labels(pd.Index(["a", label], dtype=object))  # pandas itself refuses the second otherwise
