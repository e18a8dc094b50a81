"""Whether the chains of a network have met: in the repr, as a warning, as a table, also after saving."""

import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import pymc_spn as ps
from pymc_spn.networks import posterior
from pymc_spn.networks.records import run_weights
from pymc_spn.numerics import chain_mixing
from tests.hand_made_records import problem_of, sampled_tree

pytestmark = pytest.mark.usefixtures("integrated")

ROWS = pd.DataFrame({"x0": [1.2, np.nan, 0.3], "x1": [1, 0, 1], "x2": [3, 2, 0]})
LEVEL = {"P(x1 = 1)": lambda post: post.probability({"x1": 1}, per_draw=True)}


def tree_with(apart, chains=2, draws=12):
    """Chains whose recorded log joints are apart by so many standard deviations."""
    tree = sampled_tree("missing", draws=draws, chains=chains)
    noise = np.random.default_rng(2).normal(size=(chains, draws))
    joint = ("chain", "draw"), noise + apart * np.arange(chains)[:, None]
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().assign(x_log_joint=joint))
    return tree


@pytest.fixture(autouse=True)
def short_chains_warn(monkeypatch):
    monkeypatch.setattr(chain_mixing, "FEWEST_DRAWS", 20)
    monkeypatch.setattr(run_weights, "FEWEST", 13)  # too few draws for the log density of rows


def test_chains_apart_are_seen_and_warned_of_once(tmp_path):
    with pytest.warns(ps.ConvergenceWarning, match="R-hat of the log joint.*Tune longer") as seen:
        post = ps.SPNPosterior.from_idata(tree_with(9.0))
    assert len(seen) == 1 and seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        good = ps.SPNPosterior.from_idata(tree_with(0.0))
        alone = ps.SPNPosterior.from_idata(tree_with(0.0, chains=1))
        some = post.condition({"x2": (0, 4)})
    r_hat, size = post.diagnose().loc["log_joint", ["r_hat", "ess_bulk"]]
    assert r_hat > 1.5 and f"log joint: R-hat {r_hat:.2f}, effective size {size:.0f})" in repr(post)
    assert f"R-hat {r_hat:.2f}" in repr(some) and "R-hat needs two chains" in repr(alone)
    assert good.diagnose().loc["log_joint", "r_hat"] < 1.3
    some.save(tmp_path / "post.nc")
    assert repr(ps.load(tmp_path / "post.nc")) == repr(some)  # and warns no more
    tree = tree_with(9.0)
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().drop_vars("x_log_joint"))
    assert "R-hat" not in repr(ps.SPNPosterior.from_idata(tree))


def test_diagnosis_is_of_the_values_of_each_draw():
    post = ps.SPNPosterior.from_idata(tree_with(0.0))
    found = post.diagnose(LEVEL, ROWS, max_rows=2)
    own = ["log_joint", "log_density, mean of rows", "log_density[0]", "log_density[2]"]
    assert found.index.tolist() == [*own, "P(x1 = 1)"]
    logs = post.log_density(ROWS, per_draw=True)
    for name, values in (
        ("log_density[2]", logs.sel(row=2)),
        ("log_density, mean of rows", logs.mean("row")),
        ("P(x1 = 1)", post.probability({"x1": 1}, per_draw=True)),
    ):
        r_hat, size = chain_mixing.r_hat_and_size(values.values[:, :, None])
        assert found.loc[name, ["r_hat", "ess_bulk"]].tolist() == [r_hat[0], size[0]]
        assert found.loc[name, "mean"] == pytest.approx(float(values.mean()))
    training = post.diagnose(max_rows=1000)
    n_seen = int((~np.isnan(problem_of("missing").X).all(axis=1)).sum())
    assert len(training) == 2 + n_seen
    for other in (post.condition({"x2": 3}), post.condition([{"x2": {1}}, {"x0": (0.5, None)}]), post.marginal(["x0"])):
        pd.testing.assert_frame_equal(other.diagnose(max_rows=1000), training)  # of the posterior as sampled
    some = post.condition({"x2": 3})
    asked = some.diagnose(LEVEL, ROWS[["x0", "x1"]])  # and these of the condition
    assert asked.loc["P(x1 = 1)", "mean"] == pytest.approx(float(LEVEL["P(x1 = 1)"](some).mean()))


def test_answers_use_as_many_draws_as_carry_information(tmp_path, monkeypatch):
    """Averages are those of the chosen draws alone; what has a value for each draw, or is saved, has all of them."""
    tree = tree_with(0.0, draws=60)
    every = ps.SPNPosterior.from_idata(tree, max_draws=None)
    few = ps.SPNPosterior.from_idata(tree, max_draws=11)  # six of each chain
    assert "draws" not in every.log_density(ROWS).attrs and "draws" not in few.log_density(ROWS, per_draw=True).attrs
    chosen = np.linspace(0, 59, 6).round().astype(int)
    for one, other in (
        (few, every),
        (few.condition({"x2": (0, 4)}), every.condition({"x2": (0, 4)})),
        (few.condition([{"x1": {1}}, {"x2": 0}]), every.condition([{"x1": {1}}, {"x2": 0}])),
        (few.marginal(["x0", "x2"]), every.marginal(["x0", "x2"])),
    ):
        df = ROWS[[c.name for c in one.columns]].iloc[[0, 2]]
        found, each = one.log_density(df), other.log_density(df, per_draw=True)
        assert found.attrs["draws"] == "12 of 120" and found.attrs["learner"] == each.attrs["learner"]
        weight = one.part_weights if hasattr(one, "part_weights") else None
        assert weight is None or weight.attrs["draws"] == "12 of 120"
        xr.testing.assert_identical(one.log_density(df, per_draw=True), each)
        if one in (few,):
            mean = np.log(np.exp(each.isel(draw=chosen)).mean(("chain", "draw")))
            np.testing.assert_allclose(found, mean, rtol=1e-12)
    assert "2 chains of 60 draws, answers from 12 of 120" in repr(few)
    xr.testing.assert_identical(few.log_likelihood(), every.log_likelihood())
    xr.testing.assert_identical(few.leaf_types("x0"), every.leaf_types("x0"))
    pd.testing.assert_frame_equal(few.diagnose(), every.diagnose())
    few.condition({"x2": (0, 4)}).save(tmp_path / "few.nc")
    again = ps.load(tmp_path / "few.nc")
    xr.testing.assert_identical(again.log_density(ROWS), few.condition({"x2": (0, 4)}).log_density(ROWS))
    whole = ps.SPNPosterior.from_idata(tmp_path / "few.nc", max_draws=None)
    xr.testing.assert_identical(whole.log_density(ROWS), every.condition({"x2": (0, 4)}).log_density(ROWS))
    weights = few.stacked().run_weights
    np.testing.assert_allclose(weights, every.stacked().run_weights, rtol=1e-12)
    size = chain_mixing.Mixing.of(tree["posterior"]["x_log_joint"].values).size
    monkeypatch.setattr(posterior, "FEWEST_DRAWS", 8)
    monkeypatch.setattr(posterior, "DRAWS_OF_SIZE", 20.0 / size)
    assert ps.SPNPosterior.from_idata(tree).log_density(ROWS).attrs["draws"] == "20 of 120"
    with pytest.raises(ValueError, match="max_draws must be an integer of at least 1, got 0"):
        ps.SPNPosterior.from_idata(tree, max_draws=0)
