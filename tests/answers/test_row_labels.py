"""Row labels that netCDF has no type for: they must not lose a run, and answers carry them as their text."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import pymc_spn as ps

pytestmark = pytest.mark.usefixtures("integrated")

FRAME = pd.DataFrame({"a": [0.1, 0.4, 0.7, 2.1, 2.4, 2.6], "b": pd.Categorical(list("uvuvvu"))})
INDEXES = {
    "multi": pd.MultiIndex.from_product([["u", "v"], [1, 2, 3]], names=["row", "time"]),
    "zone": pd.date_range("2026-01-01", periods=6, tz="Europe/Berlin"),
    "period": pd.period_range("2026-01", periods=6, freq="M"),
    "named": pd.Index(list("qrstuv"), name="who"),  # as set_index("who") makes it
}
QUERIES = {
    "log_density": lambda post, df: post.log_density(df),
    "per_draw": lambda post, df: post.log_density(df, per_draw=True),
    "anomaly": lambda post, df: post.anomaly(df),
    "predictive_p_value": lambda post, df: post.predictive_p_value(df, n=99),
    "predict_cdf": lambda post, df: post.predict_cdf(df, "a"),
    "cell_p_value": lambda post, df: post.cell_p_value(df),
    "co_clustering": lambda post, df: post.co_clustering(df),
    "row_similarity": lambda post, df: post.row_similarity(df),
    "nearest_rows": lambda post, df: post.nearest_rows(df.index, k=2),
    "predict_proba": lambda post, df: post.predict_proba(df, "b"),
    "predict": lambda post, df: post.predict(df, "a"),
    "union": lambda post, df: post.condition([{"b": "u"}, {"a": (0, 1)}]).log_density(df),
    "circuit": lambda post, df: post.as_circuit().log_density(df),
}


@pytest.fixture(scope="module", params=INDEXES)
def run(request):
    frame = FRAME.set_axis(INDEXES[request.param])
    with pm.Model():
        ps.SPN("x", ps.circuits.complete_tree(ps.Table.from_frame(frame).columns), observed=frame)
        return frame, pm.sample(4, tune=4, chains=1, random_seed=1, progressbar=False, quiet=True)


def test_the_run_and_the_posterior_are_saved(run, tmp_path):
    frame, idata = run
    labels = [str(label) for label in frame.index]
    assert idata["observed_data"]["x_row"].values.tolist() == labels
    idata.to_netcdf(tmp_path / "run.nc")
    post = ps.SPNPosterior.from_idata(tmp_path / "run.nc")
    post.save(tmp_path / "posterior.nc")
    again = ps.SPNPosterior.from_idata(tmp_path / "posterior.nc")
    assert again.co_clustering()["row"].values.tolist() == labels
    xr.testing.assert_identical(again.log_density(frame), post.log_density(frame))


@pytest.mark.parametrize("query", QUERIES)
def test_answers_carry_the_labels_as_text(query, run, tmp_path):
    frame, idata = run
    answer = QUERIES[query](ps.SPNPosterior.from_idata(idata), frame)
    assert answer["row"].values.tolist() == [str(label) for label in frame.index]
    answer.to_netcdf(tmp_path / "answer.nc", engine="h5netcdf")


def test_training_rows_are_named_by_their_own_labels(run):
    frame, idata = run
    post = ps.SPNPosterior.from_idata(idata)
    found = post.row_similarity(frame.index.tolist()[3:])  # tuples, dates with a zone, periods
    assert found["row"].values.tolist() == [str(label) for label in frame.index[3:]]


def test_completed_tables_keep_their_index(run):
    frame, idata = run
    gaps = frame.assign(a=[np.nan, *frame["a"][1:]])
    found = ps.SPNPosterior.from_idata(idata).impute(gaps, n=1, random_seed=1)
    pd.testing.assert_index_equal(found.index, frame.index)
    pd.testing.assert_frame_equal(found[1:], frame[1:], check_flags=False)


def test_observed_rows_of_a_circuit():
    circuit = ps.circuits.complete_tree(["x"], n_children=2).circuit({"x": ["gaussian"]})
    rows = pd.DataFrame({"x": np.zeros(6)}, index=INDEXES["multi"])
    with pm.Model() as model:
        parameters = {"gaussian": np.tile([0.0, 1.0], (2, 1))}
        ps.CircuitDensity("x", circuit, np.full(2, -np.log(2)), parameters, observed=rows)
    assert list(model.coords["x_row"]) == [str(label) for label in rows.index]
