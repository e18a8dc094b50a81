"""The posterior object against enumeration: densities, leave-one-out, records, saving and loading."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy.special import logsumexp

import pymc_spn as ps
from pymc_spn.gibbs.exact import evaluate_regions_by_logs
from pymc_spn.networks.records.record import region_labels
from pymc_spn.tables import decode
from tests.called_kernels import called
from tests.hand_made_records import (
    enumerated_law,
    enumerated_tree,
    law_of,
    new_rows,
    posterior_of,
    problem_of,
    sampled_tree,
    schema_of,
    states_of,
    tree_of,
    weighted_posterior,
)
from tests.reference import (
    GAUSSIAN,
    NARROW,
    Problem,
    log_leaf_predictive,
    log_leave_one_out,
    state_from_digits,
)
from tests.reference_queries import log_posterior_predictive, log_predictive

pytestmark = pytest.mark.usefixtures("integrated")

evaluate_regions_by_logs = called(evaluate_regions_by_logs)

PROBLEMS = [
    "mixed",
    "palette",
    "missing",
    "depths",
    "infinite",
    "infinite_missing",
    "splits",
    "infinite_splits",
    "two_trees",
    "skewed",
    "infinite_skewed",
]
TOLERANCE = 1e-10


# ---- densities
@pytest.mark.parametrize("name", PROBLEMS)
def test_log_density_is_the_enumerated_predictive(name):
    post, rows = posterior_of(name), new_rows(name)
    found = post.log_density(decode(rows, post.columns))
    np.testing.assert_allclose(found, log_posterior_predictive(problem_of(name), rows), atol=TOLERANCE)
    assert found.attrs["exactness"] == "exact given the draws"
    assert found.values[-1] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", ["palette", "infinite_missing"])
def test_each_draw_has_the_predictive_of_its_state(name):
    problem, post, rows = problem_of(name), posterior_of(name), new_rows(name)
    found = post.log_density(decode(rows, post.columns), per_draw=True)
    assert found.dims == ("chain", "draw", "row")
    digits = ps.unpack(enumerated_tree(problem)[0])["x"]["digits"].values[0]
    exact = [log_predictive(problem, state_from_digits(d), rows) for d in digits]
    np.testing.assert_allclose(found.values[0], exact, atol=TOLERANCE)


def test_far_away_rows_have_finite_logs():
    """With one child everywhere the predictive is a product of leaves, whose logs the reference has."""
    problem = Problem(((0,), (1,)), 1, 1.5, 0.8, [[GAUSSIAN], [NARROW]], problem_of("depths").X)
    rows = np.array([[1e4, -1e90], [1e130, 2e150]])
    exact = [
        sum(log_leaf_predictive(*leaf, problem.X[:, d], x[d]) for d, leaf in enumerate((GAUSSIAN, NARROW)))
        for x in rows
    ]
    np.testing.assert_allclose(enumerated_law(problem).states.log_densities(rows, {})[0], exact, rtol=1e-12)


def test_a_value_outside_the_support_of_some_or_all_leaves():
    problem, law = problem_of("mixed"), law_of("mixed")
    rows = np.array([[-0.7, 0.5], [0.5, -2.0], [-1.0, -1.0]])
    logs = law.states.log_densities(rows, {})
    exact = log_posterior_predictive(problem, rows)
    np.testing.assert_allclose(logsumexp(logs + law.log_weights[:, None], axis=0), exact, atol=TOLERANCE)
    only = ps.leaves.Exponential(mean=1.0)
    schema = schema_of(problem)
    schema = type(schema)(**(schema.__dict__ | {"palette": ((only,), schema.palette[1])}))
    digits = np.zeros((1, 1, 4, 3), np.int8)
    tree = tree_of(schema, problem.X, digits, np.ones((1, 1, 2)), np.ones((1, 1)))
    states = states_of(tree)
    assert np.isneginf(states.log_densities(rows, {})[0]).tolist() == [True, False, True]


def test_the_average_is_that_of_the_draws():
    post = ps.SPNPosterior.from_idata(sampled_tree())
    df = decode(new_rows("missing"), post.columns)
    mean, each = post.log_density(df), post.log_density(df, per_draw=True)
    np.testing.assert_allclose(mean, logsumexp(each, axis=(0, 1)) - np.log(48), atol=1e-13)
    spread = np.exp(each - mean).std(("chain", "draw"), ddof=1).values / np.sqrt(48)
    error = mean.attrs["mcse_chain"]
    assert error.shape == (6,) and np.isfinite(error).all() and error[-1] == 0.0
    np.testing.assert_allclose(error[:-1], spread[:-1], rtol=0.6)  # the chains are nearly independent


def test_zero_rows_other_column_orders_and_few_draws():
    post = ps.SPNPosterior.from_idata(sampled_tree(draws=3))
    df = decode(new_rows("missing"), post.columns)
    assert post.log_density(df.iloc[:0]).shape == (0,)
    assert post.impute(df.iloc[:0], n=2)[1].shape == (0, 3)
    assert post.sample(0, given={"x0": (0, 1)}).shape == (0, 3) and post.draw_circuits(0) == []
    found = post.log_density(df)
    np.testing.assert_array_equal(post.log_density(df[df.columns[::-1]]), found)
    assert "mcse_chain" not in found.attrs and "3 draws" in found.attrs["mcse_chain_note"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda df: df.add_prefix("y"), "data must have a column of 'x0', 'x1', 'x2', got 'yx0', 'yx1', 'yx2'"),
        (lambda df: df.assign(x2=-1), "kind 'count' needs values >= 0"),
        (lambda df: df.assign(x1=7), "unseen level"),
    ],
)
def test_new_data_are_checked_by_the_schema(change, message):
    post = posterior_of("missing")
    with pytest.raises(ValueError, match=message):
        post.log_density(change(decode(new_rows("missing"), post.columns)))


def test_rows_as_people_have_them():
    """Columns that are absent are gaps, others travel with the answer, and a row is a Series or a mapping."""
    post = posterior_of("missing")
    df = decode(new_rows("missing"), post.columns)
    lacks = df.drop(columns="x1")
    for ask in (post.log_density, lambda rows: post.predict(rows, "x0"), lambda rows: post.anomaly(rows).log_density):
        np.testing.assert_array_equal(ask(lacks), ask(df.assign(x1=np.nan)))
    with pytest.warns(UserWarning, match="unknown columns are ignored: 'id'. Known columns: 'x0'") as caught:
        np.testing.assert_array_equal(post.log_density(df.assign(id=7)), post.log_density(df))
    assert len(caught) == 1 and caught[0].filename == __file__
    row = df.dropna().iloc[0]
    for one in (row, row.to_dict(), row.to_frame().T):
        assert float(post.log_density(one)[0]) == float(post.log_density(df.dropna().head(1))[0])
    assert float(post.log_density({"x0": row["x0"]})[0]) == float(post.log_probability({"x0": row["x0"]}))
    with pytest.warns(UserWarning, match="ignored: 'id'"):
        done = post.impute(lacks.assign(id=7), random_seed=1)
    assert list(done) == ["x0", "x2", "id"] and (done["id"] == 7).all() and done.notna().all(axis=None)


# ---- leave-one-out
@pytest.mark.parametrize("name", ["missing", "depths", "infinite", "infinite_missing", "infinite_splits", "two_trees"])
def test_leave_one_out_is_the_ratio_of_evidences(name):
    """The harmonic mean over all states is exact leave-one-out.

    Not of counts with Gaussian leaves, which the states weigh by less than their mass.
    """
    problem, law = problem_of(name), law_of(name)
    logs = weighted_posterior(law.states).log_likelihood()["x"]
    assert logs.dims == ("chain", "draw", "x_row")
    found = -logsumexp(law.log_weights[:, None] - logs.values[0], axis=0)
    np.testing.assert_allclose(found, [log_leave_one_out(problem, n) for n in range(len(problem.X))], atol=1e-9)


@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto distribution")
def test_rows_without_a_cell_are_no_data():
    """az.loo stopped at them: "All tail values are the same"."""
    import arviz as az

    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(12, 2)), columns=["a", "b"], index=list("abcdefghijkl"))
    table.loc[["c", "f"]] = np.nan
    with pm.Model():
        ps.SPN("x", ps.circuits.complete_tree(["a", "b"]), observed=table)
        idata = pm.sample(30, tune=5, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True)
    post = ps.SPNPosterior.from_idata(idata)
    idata["log_likelihood"] = post.log_likelihood()
    logs = idata["log_likelihood"]["x"]
    assert "".join(logs["x_row"].values) == "abdeghijkl"
    everything = states_of(idata).leave_one_out()
    np.testing.assert_array_equal(logs.values.reshape(60, -1), np.delete(everything, [2, 5], axis=1))
    assert np.isfinite(az.loo(idata).elpd)


# ---- records


def test_unpack_labels_the_digits_and_leaves_the_original():
    tree = sampled_tree(record_every=4)
    before = tree.copy(deep=True)
    unpacked = ps.unpack(tree)
    xr.testing.assert_identical(tree, before)
    assert "x_digits" not in unpacked["sample_stats"] and "x_moved" in unpacked["sample_stats"]
    digits = unpacked["x"]["digits"]
    assert digits.dims == ("chain", "record", "x_row", "x_region")
    assert digits["x_region"].values.tolist() == ["x0..x2", "x0", "x1..x2", "x1", "x2"]
    assert region_labels(schema_of(problem_of("missing")).structure) == digits["x_region"].values.tolist()
    assert digits["draw"].values[:3].tolist() == [0, 4, 8]
    assert digits["x_row"].values.tolist() == [10, 11, 12]
    every = ps.unpack(sampled_tree())["x"]["digits"]
    np.testing.assert_array_equal(digits, every)
    assert (digits.values[..., 1, 1] == -1).all()  # that cell is missing
    xr.testing.assert_identical(ps.unpack(unpacked), unpacked)


def test_several_networks_and_none():
    tree, other = sampled_tree(), sampled_tree("infinite", network="y")
    for group in ("constant_data", "observed_data", "posterior", "sample_stats"):
        tree[group] = xr.DataTree(xr.merge([tree[group].dataset, other[group].dataset]))
    with pytest.raises(ValueError, match=r"several sum-product networks. Choose one with name=, one of \['x', 'y'\]"):
        ps.SPNPosterior.from_idata(tree)
    with pytest.raises(ValueError, match=r"name must be one of \['x', 'y'\], got 'z'"):
        ps.unpack(tree, "z")
    assert ps.SPNPosterior.from_idata(tree, "y").name == "y"
    with pytest.raises(ValueError, match="holds no sum-product network"):
        ps.unpack(xr.DataTree())
    short = sampled_tree(draws=1, record_every=4)
    short["sample_stats"] = xr.DataTree(short["sample_stats"].to_dataset().isel(draw=slice(2)))
    with pytest.raises(ValueError, match="no complete record: a state takes 4 draws and there are 2"):
        ps.unpack(short)
    lost = sampled_tree()
    lost["posterior"] = xr.DataTree(lost["posterior"].to_dataset().drop_vars("x_concentration"))
    with pytest.raises(ValueError, match="concentration of 'x' is the variable 'x_concentration'"):
        ps.SPNPosterior.from_idata(lost)


READ = """
import sys
import numpy as np
import pandas as pd
import pymc_spn as ps

post = ps.SPNPosterior.from_idata(sys.argv[1])
df = pd.DataFrame({"x0": [0.4, np.nan, 2.0], "x1": [1, 0, np.nan], "x2": [2.0, 1.0, np.nan]})
print(post.log_density(df).values.tobytes().hex())
print(post.mean().values.tobytes().hex(), post.cov().values.tobytes().hex())
print(post.probability({"x0": (0.5, 2.0)}).values.tobytes().hex())
print(post.sample(5, random_seed=1).to_numpy().tobytes().hex())
print(post.condition({"x0": (0.1, None)}).mean().values.tobytes().hex())
if len(post.columns) == 3 and "given" not in repr(post):
    print(post.log_likelihood()["x"].values.tobytes().hex())
"""


def read_here(path, capsys):
    capsys.readouterr()
    argv, sys.argv = sys.argv, ["read", str(path)]
    try:
        exec(READ, {})
    finally:
        sys.argv = argv
    return capsys.readouterr().out


def test_another_process_gives_the_same_bits(tmp_path, capsys):
    tree = sampled_tree(record_every=2)
    sampled, saved, conditioned = (tmp_path / f"{n}.nc" for n in ("sampled", "saved", "conditioned"))
    tree.to_netcdf(sampled, engine="h5netcdf")
    post = ps.SPNPosterior.from_idata(tree)
    post.log_density(decode(new_rows("missing"), post.columns))  # leaves networks in memory
    post.save(saved)
    derived = post.condition({"x2": (1, 3), "x1": 1}).marginal(["x0", "x2"])
    derived.save(conditioned)
    here = read_here(sampled, capsys)
    assert here == read_here(saved, capsys)
    code = [sys.executable, "-c", READ, str(saved)]
    there = subprocess.run(code, capture_output=True, text=True, check=True).stdout
    assert there == here
    again = ps.SPNPosterior.from_idata(conditioned)
    assert repr(again) == repr(derived) and "'x2' within (1, 3)" in repr(again)
    np.testing.assert_array_equal(again.mean(), derived.mean())


def test_a_file_that_was_read_may_be_written_again(tmp_path):
    """By the posterior that came of it, unpacked or not: nothing of it is left in the file."""
    path, post = tmp_path / "post.nc", ps.SPNPosterior.from_idata(sampled_tree())
    for first in (post.save, lambda path: ps.unpack(sampled_tree()).to_netcdf(path, engine="h5netcdf")):
        for read in (ps.SPNPosterior.from_idata, ps.load):
            first(path)
            read(path).condition({"x1": 1}).save(path)
            again = ps.SPNPosterior.from_idata(path)
            np.testing.assert_array_equal(again.mean(), post.condition({"x1": 1}).mean())
