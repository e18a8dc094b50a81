"""Fits from parquet files and dask DataFrames against fits from the same rows in memory."""

import sys
import tempfile

import numpy as np
import pandas as pd
import pytest

import pymc_spn as ps
from pymc_spn.gibbs.sampler import place_columns
from pymc_spn.networks import learners
from pymc_spn.networks.learners import HYPERPARAMETERS, PRIORS
from pymc_spn.networks.variational import assignments, coordinate_ascent, partitioned_fit
from pymc_spn.networks.variational.active_tree import no_statistics
from pymc_spn.networks.variational.fit import spread_palette
from pymc_spn.networks.variational.partitioned_fit import FROM_THE_TOP
from pymc_spn.networks.variational.partitioned_rows import PartitionedRows
from pymc_spn.networks.variational.summaries import summaries_of
from tests.tables_in_partitions import BLOCK, GROUPS, N_ROWS, lower_limits, mixed_rows, write

pytest.importorskip("pyarrow")


@pytest.fixture
def in_parts(monkeypatch):
    lower_limits(monkeypatch)


def both_ascents(folder, block_of, n_passes=6):
    """Ascents from blocks in a folder, and from the same rows in memory, with one start and one division.

    ``block_of`` takes the number of a block and says which stands in its place: a mistake that is to be seen.
    """
    frame = mixed_rows()
    fit = ps.fit_variational(frame[:250], random_seed=1, progressbar=False, restarts=1, max_steps=8)._states
    schema, structure, spread = fit.schema, fit.structure, spread_palette(fit.schema)
    tree, statistics = fit.fit.tree(structure, spread), fit.fit.statistics
    hyper = tuple(fit.fit.hyperparameters[k] for k in HYPERPARAMETERS)
    learned = np.ones((len(HYPERPARAMETERS), len(schema.columns)), np.bool_)
    priors = np.array([PRIORS[k] for k in HYPERPARAMETERS], np.float64)
    summaries = summaries_of(tree, structure, spread, statistics)
    logs = assignments.expected_logs(tree, statistics, summaries, spread, hyper)
    values = ps.Table.from_frame(frame, schema=schema.columns).values
    division = np.array_split(np.arange(N_ROWS // BLOCK), GROUPS)

    rows = PartitionedRows(folder, structure, spread)
    for part in np.array_split(values, [70, 300, 301]):
        rows.add(part)
    rows.end()
    assert rows.sizes == [BLOCK] * (N_ROWS // BLOCK)
    groups = [rows.without_lists(np.array([block_of(b) for b in own]), tree) for own in division]

    nothing = no_statistics(tree)
    pieces = []
    for own in division:
        x = np.concatenate([values[b * BLOCK : (b + 1) * BLOCK] for b in own])
        base = coordinate_ascent.base_logs(structure, spread, x)
        ptr = np.zeros(len(x) + 1, np.int64)
        placed = place_columns(structure, schema.code(x))
        pieces.append(assignments.AssignedRows(placed, base, ptr, np.zeros(0, np.int32), nothing, 0.0, 0.0))

    runs = []
    for where, parts in ((rows, groups), (assignments.RowsInMemory, pieces)):
        runs.append(
            coordinate_ascent.climb(
                structure,
                spread,
                tree,
                lambda _, where=where, parts=parts: where.assigned(tree, summaries, logs, parts, FROM_THE_TOP),
                N_ROWS,
                0.0,
                hyper,
                learned,
                priors,
                n_passes,
                1e-12,
                n_batches=GROUPS,
                rows=where,
            )
        )
    return *runs, tree


def test_passes_over_blocks_are_those_of_the_rows_in_memory(in_parts, monkeypatch, tmp_path):
    monkeypatch.setattr(coordinate_ascent, "WORTH", 0.0)  # edges are dropped whenever one is empty
    stored, held, tree = both_ascents(tmp_path, lambda block: block)
    assert held.tree.option.size < tree.option.size  # so lists were renumbered
    assert len(held.bounds) >= 5 and np.diff(held.bounds).min() > 0.0
    np.testing.assert_allclose(stored.bounds, held.bounds, rtol=1e-8)
    for a, b in zip(stored.statistics, held.statistics, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)
    for a, b in zip(stored.hyperparameters, held.hyperparameters, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)  # an optimiser ends at its own tolerance
    lists = {file.name for file in tmp_path.glob("lists*")}
    assert lists == {name for group in stored.pieces for _, name in group.blocks}  # and no others are left
    assert stored.statistics.edge_count[: stored.tree.edge_begin[1]].sum() == pytest.approx(N_ROWS, rel=1e-12)


@pytest.mark.parametrize("mistake", ["a block twice", "old numbers of edges"])
def test_a_mistake_is_seen(in_parts, monkeypatch, tmp_path, mistake):
    monkeypatch.setattr(coordinate_ascent, "WORTH", 0.0)
    if mistake == "old numbers of edges":
        real = PartitionedRows.kept
        monkeypatch.setattr(
            PartitionedRows,
            "kept",
            lambda *given: [group._replace(number=None) for group in real(*given)],
        )
    stored, held, _ = both_ascents(tmp_path, lambda block: 0 if block == 7 and mistake == "a block twice" else block)
    n = min(len(stored.bounds), len(held.bounds))
    assert np.abs(stored.bounds[:n] / held.bounds[:n] - 1.0).max() > 1e-6  # against 1e-8


def test_a_folder_and_dask_give_one_fit_that_saves_and_answers(in_parts, tmp_path):
    dask = pytest.importorskip("dask.dataframe")
    frame = mixed_rows()
    folder = write(frame, tmp_path / "table")
    post = ps.fit_variational(folder, random_seed=1, progressbar=False, max_steps=3)
    assert len(post._states.fit.bounds) == 1 and 2 <= len(post._states.fit.bounds[0]) <= 4
    assert post._states.schema.columns == ps.Table.from_frame(frame).columns
    assert np.diff(post._states.fit.bounds[0]).min() > 0.0
    ends = [0, 207, 407]
    parts = [frame[a:b] for a, b in zip(ends, [*ends[1:], None], strict=True)]
    again = ps.fit_variational(
        dask.from_map(lambda i: parts[i], range(3), meta=frame[:0]), random_seed=1, progressbar=False, max_steps=3
    )
    new = mixed_rows(40, 8)
    expected = post.log_density(new).values
    np.testing.assert_array_equal(again.log_density(new).values, expected)
    post.save(tmp_path / "fit.nc")
    np.testing.assert_array_equal(ps.load(tmp_path / "fit.nc").log_density(new).values, expected)
    whole = ps.fit_variational(frame, random_seed=1, progressbar=False)
    # rows vary by 2 nats; with the same model fits from 250 and from 600 rows end within a few hundredths of each other
    assert expected.mean() > whole.log_density(new).values.mean() - 0.25
    other = ps.fit_variational(folder, random_seed=2, progressbar=False, max_steps=3)
    assert (other.log_density(new).values != expected).any()
    assert other._states.schema.structure.to_json() == post._states.schema.structure.to_json()


def test_few_rows_of_a_file_are_a_table_like_others(tmp_path):
    frame = mixed_rows(200)
    frame.to_parquet(tmp_path / "one.parquet", index=False)
    given = {"random_seed": 1, "progressbar": False, "restarts": 1, "max_steps": 4}
    post, expected = (ps.fit_variational(df, **given) for df in (str(tmp_path / "one.parquet"), frame))
    assert post.bound == expected.bound
    np.testing.assert_array_equal(post.log_density(frame).values, expected.log_density(frame).values)


@pytest.mark.parametrize("kind", ["files", "dask"])
def test_identifiers_are_warned_of(in_parts, tmp_path, kind):
    """Where some of the rows are looked at alone, before anything is learned."""
    frame = mixed_rows().assign(number=np.arange(N_ROWS), name=[f"id {i}" for i in range(N_ROWS)])
    if kind == "files":
        df = write(frame, tmp_path / "table")
    else:
        df = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)
    numbers, text = "numbers that look like identifiers: 'number'", r"names or identifiers: 'name' \(250 levels in 250"
    with pytest.warns(UserWarning, match=numbers), pytest.warns(UserWarning, match=text):
        with pytest.raises(TypeError, match="leaves must be a dict"):
            ps.fit_variational(df, leaves="none", progressbar=False)
    with pytest.raises(TypeError, match="leaves must be a dict"):
        kinds = {"number": "count", "name": "categorical"}
        ps.fit_variational(df, leaves="none", kinds=kinds, progressbar=False)


def test_ctrl_c_leaves_no_files(in_parts, monkeypatch, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    seen = []

    def interrupted(*args, **kwargs):
        seen.extend(scratch.rglob("rows*.npy"))
        raise KeyboardInterrupt

    monkeypatch.setattr(partitioned_fit, "first_pass", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ps.fit_variational(write(mixed_rows(), tmp_path / "table"), random_seed=1, progressbar=False)
    assert seen and not list(scratch.iterdir())


def broken(frame, what):
    """The frame with a mistake in the second of three files, and what is said of it."""
    frame = frame.copy()
    if what == "infinite":
        frame.loc[250, "a"] = np.inf
    if what == "support":
        frame["a"] = np.abs(frame["a"]) + 0.1
        frame.loc[250, "a"] = 0.0
    return frame


def test_errors_name_the_partition(in_parts, monkeypatch, tmp_path):
    frame = mixed_rows()

    def refused(error, message, df, **given):
        with pytest.raises(error, match=message):
            ps.fit_variational(df, random_seed=1, progressbar=False, **given)

    refused(FileNotFoundError, "df: there is no file or folder .*nowhere", tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    refused(ValueError, r"df: the folder .*empty' holds no file \*.parquet", tmp_path / "empty")
    (tmp_path / "empty" / "notes.csv").touch()
    refused(ValueError, r"df: the folder .*empty' holds 'notes\.csv', which .* is not a parquet", tmp_path / "empty")
    refused(ValueError, "df must name a file or folder, got ''", "")
    (tmp_path / "hive" / "year=2020").mkdir(parents=True)
    frame.to_parquet(tmp_path / "hive" / "year=2020" / "a.parquet")
    refused(ValueError, "df: the name of the folder 'year=2020'.*dask.dataframe.read_parquet", tmp_path / "hive")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.parquet").write_text("a,b")
    refused(ValueError, "partition 'a.parquet': it is not a parquet file", tmp_path / "text")

    said = "partition 'part1.parquet': column 'a', row 250.*needs finite values .*, got inf"
    said = said.replace("row 250", "row 43")  # its second file begins with row 207
    refused(ValueError, said, write(broken(frame, "infinite"), tmp_path / "infinite"))
    leaves = {"a": ps.leaves.LogNormal()}
    kinds = {"a": "positive"}
    said = r"partition 'part1.parquet': leaves\['a'\]: LogNormal leaves need values above 0; row 43 is 0.0"
    given = {"leaves": leaves, "kinds": kinds, "rounded": False}
    monkeypatch.setattr(learners, "SAMPLE_ROWS", 100)  # the row is not among them
    refused(ValueError, said, write(broken(frame, "support"), tmp_path / "support"), **given)

    folder = write(frame, tmp_path / "dtype")
    other = frame[207:407].assign(count=frame["count"][207:407] + 0.5)
    other.to_parquet(folder / "part1.parquet", index=False)
    refused(TypeError, "partition 'part1.parquet': column 'count' is float64, and int64 before", folder)
    other.drop(columns="b").to_parquet(folder / "part1.parquet", index=False)
    refused(ValueError, "partition 'part1.parquet': its columns are .*'stars'.* before", folder)

    known = tuple(ps.Table.from_frame(frame[["a", "text"]]).columns)
    structure = ps.circuits.complete_tree(list(known))
    unseen = frame[["a", "text"]].copy()
    unseen.loc[250, "text"] = "black"
    said = r"partition 'part1.parquet': column 'text', row 43 .*: unseen level .*, got 'black'"
    refused(ValueError, said, write(unseen, tmp_path / "unseen"), structure=structure)
    refused(ValueError, "column 'b': all values are missing", write(frame.assign(b=np.nan), tmp_path / "missing"))
    refused(ValueError, "df has no rows in 3 partitions", write(frame[:0], tmp_path / "norows"))
    refused(ValueError, "kinds names column 'c'", write(frame, tmp_path / "kinds"), kinds={"c": "real"})
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    refused(ImportError, "is read by pyarrow: pip install pyarrow", tmp_path / "kinds")


def test_a_column_may_be_missing_in_whole_files(in_parts, tmp_path):
    frame = mixed_rows()
    empty = ["b", "count", "text"]
    first, rest = frame[:300], frame[300:].assign(**dict.fromkeys(empty))
    posts = []
    for name, parts in (("after", (first, rest)), ("before", (rest, first))):
        (tmp_path / name).mkdir()
        for number, part in enumerate(parts):
            part.to_parquet(tmp_path / name / f"part{number}.parq", index=False)
        posts.append(ps.fit_variational(tmp_path / name, random_seed=1, progressbar=False, max_steps=1))
        columns = {c.name: c for c in posts[-1].columns}
        assert [columns[c].kind for c in empty] == ["real", "count", "categorical"]
        assert columns["text"].levels == ("blue", "green", "red")
    small = tmp_path / "few"
    small.mkdir()
    frame[:90].to_parquet(small / "a.PQ", index=False)
    frame[90:180].assign(b=None).to_parquet(small / "b.PQ", index=False)
    given = {"random_seed": 1, "progressbar": False, "restarts": 1, "max_steps": 4}
    one, other = (
        ps.fit_variational(df, **given) for df in (small, pd.concat([frame[:90], frame[90:180].assign(b=np.nan)]))
    )
    assert one.bound == other.bound


def test_a_table_gives_its_rows_each_time(in_parts, tmp_path):
    dask, seen = pytest.importorskip("dask.dataframe"), []

    def part(number):
        seen.append(number)
        return mixed_rows(300 if seen.count(number) < 2 else 20, seed=number)

    with pytest.raises(ValueError, match="df had 600 rows when it was read first, and 40 rows the second time"):
        ps.fit_variational(dask.from_map(part, range(2), meta=mixed_rows(1)[:0]), progressbar=False)


def test_dask_errors_name_the_number(in_parts):
    dask = pytest.importorskip("dask.dataframe")
    with pytest.raises(TypeError, match=r"partition 0: it must be a DataFrame of pandas .*, got ndarray"):
        of_arrays = dask.from_map(lambda i: np.ones((2, 5)), range(1), meta=mixed_rows(1)[:0])
        ps.fit_variational(of_arrays, progressbar=False)
    frame = mixed_rows()
    frame.loc[250, "a"] = np.inf
    with pytest.raises(ValueError, match=r"partition 1: column 'a', row 250.* got inf"):
        ps.fit_variational(dask.from_pandas(frame, npartitions=3), progressbar=False)
