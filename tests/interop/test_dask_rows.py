"""Answers about dask DataFrames and Datasets in chunks are those about the table in memory, and are found lazily."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import pymc_spn as ps

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")

N = 40
SIZES = ["small", "large"]
QUESTIONS = {
    "log_density": ("log_density", {}),
    "label": ("predict", {"target": "g"}),
    "truth": ("predict", {"target": "b"}),
    "category": ("predict", {"target": "s"}),
    "number": ("predict", {"target": "n"}),
    "levels": ("predict_proba", {"target": "g"}),
    "sd": ("predict_sd", {"target": "x"}),
    "quantile": ("predict_quantile", {"target": "x", "q": 0.1}),
    "quantiles": ("predict_quantile", {"target": "x", "q": [0.1, 0.9]}),
    "own cell": ("predict_cdf", {"target": "z"}),
    "cells": ("cell_p_value", {}),
}
DTYPES = {"label": "str", "truth": "boolean", "category": pd.CategoricalDtype(SIZES)}


def table():
    rng = np.random.default_rng(1)
    x = rng.normal(size=N)
    cells = {"x": x, "z": x + rng.normal(size=N), "n": rng.poisson(40, N), "g": rng.choice(["u", "v", "w"], N)}
    sizes = pd.Categorical(rng.choice(SIZES, N), SIZES)
    return pd.DataFrame(cells | {"b": rng.random(N) < 0.5, "s": sizes}, index=np.arange(100, 100 + N))


def with_gaps():
    frame = table().astype({"n": float, "b": "boolean"})
    for row, name in ((103, "n"), (110, "g"), (115, "b"), (120, "x"), (125, "n"), (130, "s")):
        frame.loc[row, name] = pd.NA if name == "b" else None if name in "gs" else np.nan
    return frame


@pytest.fixture(scope="module")
def post():
    return ps.fit_variational(table(), random_seed=1, restarts=1, max_steps=10, progressbar=False)


@pytest.fixture(scope="module")
def ddf():
    return dd.from_pandas(with_gaps(), npartitions=3)


def plain(values):
    values = np.asarray(values).astype(object)
    return np.where(pd.isna(values), None, values)


@pytest.mark.parametrize("name", QUESTIONS)
def test_partitions_answer_as_the_table_in_memory(post, ddf, name):
    question, options = QUESTIONS[name]
    usual = getattr(post, question)(ddf.compute(), **options)
    lazy = getattr(post, question)(ddf, **options)
    assert lazy.divisions == ddf.divisions
    found = lazy.compute(scheduler="synchronous")
    assert found.index.equals(ddf.compute().index)
    np.testing.assert_array_equal(plain(found), plain(usual))
    if usual.ndim == 1:
        assert lazy.dtype == found.dtype == DTYPES.get(name, np.float64)
        assert lazy.name == usual.name
    else:
        assert list(lazy.columns) == usual[usual.dims[1]].values.tolist() and (lazy.dtypes == np.float64).all()


def test_a_partition_that_is_answered_as_another_is_seen(post, ddf):
    swapped = dd.concat([ddf.partitions[1], ddf.partitions[0], ddf.partitions[2]], interleave_partitions=False)
    usual, found = post.log_density(ddf.compute()).values, post.log_density(swapped).compute()
    assert not np.array_equal(found, usual)
    np.testing.assert_array_equal(found.sort_index(), usual)


def test_nothing_is_computed_before_it_is_asked_for(post):
    def fail(part):
        raise RuntimeError("computed")

    lazy = dd.from_pandas(with_gaps(), npartitions=2).map_partitions(fail, meta=with_gaps().iloc[:0])
    answers = [post.log_density(lazy), post.predict(lazy, "g"), post.impute(lazy, random_seed=1)]
    for answer in answers:
        with pytest.raises(RuntimeError, match="computed"):
            answer.compute(scheduler="synchronous")


@pytest.mark.parametrize("name", ["log_density", "label", "levels", "cells"])
def test_chunks_of_a_dataset_answer_as_the_table(post, name):
    question, options = QUESTIONS[name]
    frame = with_gaps()
    usual = getattr(post, question)(frame, **options)
    objects = {c: frame[c].astype(object).where(frame[c].notna(), None) for c in "bs"}
    chunks = frame.assign(**objects).rename_axis("case").to_xarray().chunk(15)
    lazy = getattr(post, question)(chunks, **options)
    assert lazy.dims == usual.dims and lazy.chunks[0] == (15, 15, 10)
    assert lazy.attrs["exactness"] == usual.attrs["exactness"]
    found = lazy.compute(scheduler="synchronous")
    np.testing.assert_array_equal(plain(found), plain(usual))
    assert found["row"].equals(usual["row"])


def test_each_draw_has_a_dimension_of_a_dataset_alone(post, ddf):
    frame = table()[["x", "z", "n"]]
    some = post.marginal(["x", "z", "n"])
    lazy = some.log_density(frame.to_xarray().chunk(15), per_draw=True)
    assert lazy.dims == ("chain", "draw", "row") and lazy.chunks[2] == (15, 15, 10)
    np.testing.assert_array_equal(lazy.compute(), some.log_density(frame, per_draw=True))
    with pytest.raises(ValueError, match=r"^log_density of a dask DataFrame cannot have the dimensions"):
        post.log_density(ddf, per_draw=True)


def test_conditions_and_marginals_answer_lazily(post, ddf):
    given = post.condition({"g": "u"}).marginal(["x", "s"])
    np.testing.assert_array_equal(given.log_density(ddf[["x", "s"]]), given.log_density(with_gaps()[["x", "s"]]))


def test_imputed_partitions_have_streams_of_their_own(post, ddf):
    lazy = post.impute(ddf, random_seed=3)
    found = lazy.compute(scheduler="synchronous")
    assert found.dtypes.equals(lazy.dtypes) and found.notna().all(axis=None)
    observed = with_gaps().notna().to_numpy()
    np.testing.assert_array_equal(plain(found)[observed], plain(with_gaps())[observed])
    pd.testing.assert_frame_equal(lazy.compute(scheduler="threads"), found)
    pd.testing.assert_frame_equal(lazy.partitions[2].compute(), found[found.index >= lazy.divisions[2]])
    pd.testing.assert_frame_equal(post.impute(ddf, random_seed=3).compute(), found)
    others = [post.impute(ddf, random_seed=4).compute(), *(one.compute() for one in post.impute(ddf, 2, 3))]
    assert not others[0].equals(found) and not others[1].equals(others[2])
    same_cells = dd.concat([dd.from_pandas(with_gaps().iloc[20:21], npartitions=1)] * 2)
    twice = post.impute(same_cells, random_seed=1).compute()["x"].tolist()
    assert twice[0] != twice[1]
    generator = np.random.default_rng(3)
    first, second = (post.impute(ddf, random_seed=generator).compute() for _ in range(2))
    assert first.equals(found) and not second.equals(found)


def test_rows_are_drawn_in_partitions(post):
    lazy = post.sample(10, {"g": "u"}, random_seed=1, npartitions=3)
    assert lazy.divisions == (0, 3, 6, 9)
    found = lazy.compute(scheduler="synchronous")
    assert found.dtypes.equals(lazy.dtypes) and found.index.tolist() == list(range(10))
    assert (found["g"] == "u").all() and found["x"].is_unique
    pd.testing.assert_frame_equal(lazy.partitions[1].compute(), found.iloc[3:6])
    pd.testing.assert_frame_equal(lazy.compute(scheduler="threads"), found)
    with pytest.raises(ValueError, match=r"^npartitions must be at most n, 2, got 3$"):
        post.sample(2, npartitions=3)
    with pytest.raises(ValueError, match="npartitions must be an integer of at least 1, got 0"):
        post.sample(2, npartitions=0)


def test_what_is_wrong_is_said_at_once_or_with_its_partition(post, ddf):
    with pytest.raises(ValueError, match="must have a column of 'x', 'z'"):
        post.log_density(ddf[["x"]].rename(columns={"x": "y"}))
    np.testing.assert_array_equal(post.log_density(ddf[["x"]]).compute(), post.log_density(ddf.compute()[["x"]]))
    with pytest.raises(ValueError, match="target must name one of the columns"):
        post.predict(ddf, "q")
    with pytest.raises(TypeError, match=r"predict\(\) missing 1 required positional argument: .target."):
        post.predict(ddf)
    with pytest.raises(TypeError, match=r"^df must be a dask DataFrame, got a dask Series$"):
        post.log_density(ddf["x"])
    with pytest.raises(TypeError, match="got a dask Array; name its columns by"):
        post.log_density(ddf.to_dask_array())
    with pytest.raises(TypeError, match=r"got a dask DataFrame; compute\(\) it first"):
        post.anomaly(ddf)
    with pytest.raises(ValueError, match="must have one dimension, that of the rows"):
        post.log_density(table()[["x", "z"]].to_xarray().expand_dims("more").chunk(5))
    strange = with_gaps()
    strange.loc[130, "g"] = "q"
    strange = dd.from_pandas(strange, npartitions=3)
    with pytest.raises(ValueError, match=r"^partition 2: column 'g', row 130 .*unseen level"):
        post.log_density(strange).compute()
    found = post.log_density(strange, unseen="missing").compute()
    assert np.isfinite(found).all()
    parts = [dask.delayed(table().iloc[:20]), dask.delayed(table().iloc[20:].drop(columns="z"))]
    odd = dd.from_delayed(parts, meta=table().iloc[:0], verify_meta=False)
    assert np.isfinite(post.log_density(odd).compute()).all()


def test_categories_need_not_be_known(post, ddf):
    unknown = ddf.assign(s=ddf["s"].cat.as_unknown())
    np.testing.assert_array_equal(post.log_density(unknown), post.log_density(ddf))
    assert post.impute(unknown, random_seed=1).dtypes["s"] == pd.CategoricalDtype(SIZES)


def test_dask_is_loaded_for_its_own_tables_alone():
    code = (
        "import sys\nsys.modules['dask'] = sys.modules['distributed'] = None\n"
        "import pandas as pd, numpy as np, pymc_spn as ps\n"
        "df = pd.DataFrame({'g': list('uvuv')})\n"
        "post = ps.fit_variational(df, random_seed=1, restarts=1, max_steps=3, progressbar=False)\n"
        "post.log_density(df), post.sample(2)\n"
        "for call in (lambda: ps.sample_chains(lambda: None, client=1), lambda: post.sample(2, npartitions=1)):\n"
        "    try:\n        call()\n"
        "    except ImportError as error:\n        print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    hint = 'needs Dask: install the extra "dask" of pymc_spn'
    assert run.stdout.splitlines() == [f"client {hint}", f"npartitions {hint}"]
