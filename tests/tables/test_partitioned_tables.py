"""Schemas of tables that are read in parts against those of the tables in memory."""

import numpy as np
import pandas as pd
import pytest

import pymc_spn as ps
from pymc_spn.numerics.progress_bars import ProgressBar
from pymc_spn.tables import partitioned_tables
from pymc_spn.tables.coding import ColumnFacts
from pymc_spn.tables.number_facts import NumberFacts
from pymc_spn.tables.partitioned_tables import ParquetFiles, TableFacts, read_partitions


def columns(n=400):
    rng = np.random.default_rng(2)
    years = rng.integers(1960, 2020, n)
    frame = pd.DataFrame({"real": rng.normal(size=n), "years": years, "counts": rng.poisson(30, n) * 2})
    frame["under"] = 50 + rng.integers(0, 20, n)  # varies less than counts can
    frame["below"] = rng.integers(-40, 40, n)
    frame["stars"] = rng.integers(1, 8, n)
    frame["flags"] = rng.integers(0, 2, n)
    frame["scale"] = np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 4, n))
    frame["whole"] = rng.integers(0, 500, n).astype(float)
    frame["bool"] = rng.random(n) < 0.3
    frame["maybe"] = np.where(rng.random(n) < 0.2, None, rng.random(n) < 0.5)
    frame["text"] = np.array(["b", "a", "c", "d"])[np.searchsorted([0.3, 0.6, 0.99], rng.random(n))]
    frame["rare"] = np.where(np.arange(n) == n - 1, "late", "usual")
    frame["order"] = pd.Categorical(np.array(["low", "high"])[rng.integers(0, 2, n)], ["low", "high"], ordered=True)
    frame["gaps"] = pd.array(np.where(np.arange(n) > 350, None, rng.integers(0, 900, n)), "Int64")
    return frame


@pytest.mark.parametrize(
    "kinds", [{}, {"years": "categorical", "whole": "integer", "stars": "count", "below": "ordinal"}]
)
def test_facts_of_parts_lead_to_the_schema_of_all_rows(kinds):
    frame = columns()
    facts = TableFacts(kinds)
    for part in np.split(np.arange(len(frame)), [1, 3, 90, 200, 351]):
        facts.add(frame.iloc[part])
    assert facts.n_rows == len(frame)
    assert facts.schema() == ps.Table.from_frame(frame, kinds).columns


def test_facts_of_numbers_add_up():
    rng = np.random.default_rng(1)
    numbers = np.where(rng.random(500) < 0.1, np.nan, rng.poisson(8.0, 500))
    parts = [NumberFacts.of(part) for part in np.split(numbers, [0, 7, 300])]
    whole, total = NumberFacts.of(numbers), parts[0]
    for part in parts[1:]:
        total = total.merged(part)
    assert total[:4] == whole[:4]
    np.testing.assert_allclose(total[4:6], whole[4:6], rtol=1e-13)
    np.testing.assert_array_equal(total.values, whole.values)
    np.testing.assert_array_equal(total.rows, whole.rows)
    wrong = parts[-1].merged(parts[-1]).merged(parts[-2])  # a part twice
    assert abs(wrong.variance / whole.variance - 1.0) > 1e-3


def test_categories_of_parts_are_put_together():
    one, two = pd.Series(["a", "b"], dtype="category"), pd.Series(["c", "a"], dtype="category")
    facts = ColumnFacts.of(one, "x").merged(ColumnFacts.of(two, "x"), "x")
    assert facts.column("x", None).levels == ("a", "b", "c")
    ordered = [ColumnFacts.of(part.cat.as_ordered(), "x") for part in (one, two)]
    with pytest.raises(ValueError, match=r"column 'x' has the ordered categories .* before: give all partitions"):
        ordered[0].merged(ordered[1], "x")


def test_the_sample_takes_every_row_as_often(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(partitioned_tables, "AT_ONCE", 16)
    for number in range(4):
        pd.DataFrame({"x": np.arange(25.0) + 25 * number}).to_parquet(tmp_path / f"{number}.parquet")
    files, seen = ParquetFiles(tmp_path), np.zeros(100)
    for seed in range(60):
        found = read_partitions(files, None, 10, np.random.default_rng(seed), ProgressBar("", 4, False))
        x = found.sample["x"].to_numpy().astype(int)
        assert x.size == 10 and (np.diff(x) > 0).all() and found.n_rows == 100
        seen[x] += 1
    # 6 of 60 expected: five standard deviations of a binomial with p = 0.1 are 11.6
    assert np.abs(seen - 6).max() < 12
    assert np.abs(seen.reshape(4, 25).sum(axis=1) - 150).max() < 5 * np.sqrt(600 * 0.25 * 0.75)
    assert found.sample.index[0][0].endswith(".parquet")
