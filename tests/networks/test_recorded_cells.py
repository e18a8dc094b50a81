"""Which columns are recorded in cells by default, what a model says of it, and runs with the default."""

from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_spn as ps
from pymc_spn.gibbs.recorded_cells import recorded_cells
from tests.hand_made_records import states_of
from tests.sampled_runs import assert_same, draw, model_of

RNG = np.random.default_rng(0)
SMOOTH = RNG.normal(size=300)
TENTHS = np.round(RNG.normal(size=300), 1)


def cells_of(x, rounded="auto", kind="real", resolution="auto", leaves=None, **arguments):
    """Names, width and grid point that the rule finds for one column."""
    table = ps.Table.from_frame(pd.DataFrame({"x": x}), kinds={"x": kind})
    leaves = None if leaves is None else {"x": leaves}
    found = recorded_cells(table.columns, table.values, leaves, resolution, rounded, **arguments)
    return found.names == ("x",), found.resolution["x"], found.grid_points[0]


@pytest.mark.parametrize(
    ("x", "width"),
    {
        "tenths": (TENTHS, 0.1),
        "with gaps": (np.where(np.arange(300) % 7 == 0, np.nan, TENTHS), 0.1),
        "arithmetic noise": (TENTHS + RNG.choice([-1e-15, 0.0, 1e-15], 300), 0.1),
        "standardised": ((TENTHS - 0.0371) / 3.3, 0.1 / 3.3),
        "two values": (np.where(SMOOTH > 0.3, 0.05 / 3.0, -0.07 / 3.0), 0.04),
        "few strays": (np.where(np.arange(300) % 60 == 0, 0.123, TENTHS), 0.1),
    }.values(),
)
def test_columns_whose_values_repeat_on_a_grid_are_in_cells(x, width):
    is_cell, found, point = cells_of(x)
    assert is_cell and found == pytest.approx(width, rel=1e-6)
    on_grid = np.abs((x - point) / found - np.round((x - point) / found)) < 1e-6
    assert np.mean(on_grid[~np.isnan(x)]) > 0.97
    assert not cells_of(x, rounded=False)[0] and cells_of(x, rounded=True)[0] and cells_of(x, rounded=["x"])[0]


@pytest.mark.parametrize(
    ("x", "arguments"),
    {
        "smooth": (SMOOTH, {}),
        "smooth, each twice": (np.tile(SMOOTH[:150], 2), {}),
        "three decimals": (np.round(SMOOTH, 3), {}),
        "noise alone": (5.0 + 1e-12 * RNG.integers(0, 5, 300), {}),
        "noise on a constant": (np.where(SMOOTH > 0.0, 1.0, 1.0 + 2e-16), {}),
        "constant": (np.full(300, 2.5), {}),
        "repeats without a step": (RNG.choice([0.1234567, np.pi, np.e, np.sqrt(2.0)], 300), {}),
        "no grid wanted": (TENTHS, {"resolution": 0.0}),
        "log-normal leaves": (np.exp(TENTHS).round(1) + 0.1, {"kind": "positive", "leaves": ps.leaves.LogNormal()}),
        "whole numbers": (np.round(10.0 * TENTHS), {"kind": "integer"}),
        "levels": (np.round(TENTHS), {"kind": "categorical"}),
        "drawn gaps": (np.where(np.arange(300) % 7 == 0, np.nan, TENTHS), {"drawn": True}),
    }.values(),
)  # fmt: skip
def test_other_columns_stay_exact(x, arguments):
    assert not cells_of(x, **arguments)[0]


def mixed(n=120):
    """A smooth column, tenths, a standardised column of few values with gaps, and levels."""
    rng = np.random.default_rng(3)
    side = rng.integers(0, 2, n)
    frame = pd.DataFrame({"smooth": rng.normal(side), "tenths": np.round(rng.normal(3.0 * side), 1)})
    ratio = np.round(rng.normal(size=n), 1)
    frame["ratio"] = np.where(np.arange(n) % 9 == 0, np.nan, (ratio - 0.123) / 7.7)
    return frame.assign(side=np.where(side, "b", "a"))


@cache
def sampled(joint_leaves="auto"):
    """A default run on the mixed table, and what it said."""
    model = model_of(observed=mixed(), joint_leaves=joint_leaves)
    return draw(model, draws=15, tune=25)


def test_by_default_a_model_is_in_cells_and_says_so(caplog):
    caplog.set_level("INFO", logger="pymc")
    model = model_of(observed=mixed())
    (line,) = [m for m in caplog.messages if "rounded to" in m]
    said = "tenths rounded to 0.1, ratio to 0.013"
    assert line.startswith("Structure of 'x': splits learned from the table (")
    wide = "multivariate leaves over 3 columns"
    assert line.endswith(f"regions), {wide}, {said}. Change with structure= or joint_leaves= or rounded=")
    idata = sampled()
    post = ps.SPNPosterior.from_idata(idata)
    assert said in repr(post)
    assert_same(draw(model, draws=15, tune=25), idata)
    caplog.clear()
    with pm.Model():
        ps.SPN("x", ps.circuits.complete_tree(["a", "b"], 2), observed={"a": TENTHS, "b": SMOOTH})
    assert caplog.messages[-1] == "Values of 'x': a rounded to 0.1. Change with rounded="
    caplog.clear()
    with pm.Model():
        ps.SPN("x", ps.circuits.complete_tree(["a", "b"]), observed={"a": TENTHS, "b": SMOOTH}, rounded=["a"])
    assert not any("rounded to" in m for m in caplog.messages)  # as it was asked for


@pytest.mark.parametrize("learner", ["sampling", "variational"])
def test_densities_of_cells_compare_between_learners(learner, tmp_path):
    """Mass over width in columns in cells, of draws as of a fit, also after a round trip."""
    frame = mixed()
    if learner == "sampling":
        post = ps.SPNPosterior.from_idata(sampled(None))
    else:
        post = ps.fit_variational(frame, joint_leaves=None, random_seed=1)
    schema = post._states.schema
    assert schema.rounded == ("tenths", "ratio")
    width = dict(zip(schema.structure.names, schema.resolution, strict=True))
    row = frame.iloc[[1]].assign(smooth=np.nan)
    logs = post.log_density(row)
    assert logs.attrs["exactness"].startswith("numerical")
    cell: dict = {c: (row[c].item() - width[c] / 2.0, row[c].item() + width[c] / 2.0) for c in schema.rounded}
    mass = float(post.probability(cell | {"side": {row["side"].item()}}))
    assert float(logs[0]) == pytest.approx(np.log(mass) - sum(np.log(width[c]) for c in schema.rounded), abs=1e-7)
    assert float(post.log_density(row, cells=False)[0]) != pytest.approx(float(logs[0]), abs=1e-6)
    alone = frame[["tenths"]].assign(smooth=np.nan, ratio=np.nan, side=None)
    assert post.log_density(alone).mean() < -np.log(0.1)  # which no law of the cells exceeds
    post.save(tmp_path / "post.nc")
    read = ps.load(tmp_path / "post.nc")
    np.testing.assert_array_equal(read.log_density(frame), post.log_density(frame))
    assert read._states.schema.grid_points == schema.grid_points != ()


def test_tables_without_repeats_are_as_ever():
    frame = pd.DataFrame({"a": SMOOTH[:60], "b": np.round(SMOOTH[100:160], 3), "n": np.arange(60) % 7})
    runs = []
    for rounded in ("auto", False):
        model = model_of(observed=frame, rounded=rounded)
        runs.append(draw(model, draws=6, tune=6))
    assert_same(*runs)
    fits = [ps.fit_variational(frame, random_seed=1, rounded=rounded) for rounded in ("auto", False)]
    assert fits[0].bound == fits[1].bound


@pytest.mark.filterwarnings("ignore:equal values are far more frequent")
def test_estimators_take_cells_and_names_of_columns():
    frame = mixed()[["smooth", "tenths", "ratio"]]
    few = {"restarts": 1, "max_steps": 5, "random_state": 1}
    found = [ps.sklearn.SPNDensity(rounded=r, **few).fit(frame).posterior_ for r in ("auto", ["tenths"], False)]
    assert [post._states.schema.rounded for post in found[:2]] == [("tenths", "ratio"), ("tenths",)]
    assert (
        ps.sklearn.SPNRegressor(**few)
        .fit(frame[["smooth", "ratio"]], frame["tenths"])
        .posterior_._states.schema.rounded
    )
    with pytest.raises(ValueError, match="rounded names the column 'age', which is not in the table"):
        ps.sklearn.SPNImputer(rounded=["age"], **few).fit(frame)


def test_the_record_gives_the_state_back_where_gaps_are_drawn():
    """Columns without gaps are in cells, and the drawn cells enter the completed table beside exact values."""
    frame = mixed()
    with pm.Model() as model:
        x = ps.SPN(
            "x",
            ps.circuits.complete_tree(list(frame)),
            observed=frame,
            resolution={"ratio": 0.1 / 7.7},
            rounded="auto",
            missing="draw",
        )
        used = ps.completed_columns(x)["ratio"]
        pm.Normal("y", 0.5 * used, 1.0, observed=np.zeros(len(frame)))
    idata = draw(model, draws=12, tune=12)
    states = states_of(idata)
    assert states.schema.rounded == ("tenths",)
    ticket = idata["posterior"]["x_log_joint"].values.ravel()
    for s in (0, 13, 23):
        sampler = states.load(s)
        sampler.jacobian = states.log_jacobian(states.completed(s)).sum()
        assert sampler.statistics()[0] == pytest.approx(ticket[s], rel=1e-9)
    post = ps.SPNPosterior.from_idata(idata)
    assert np.isfinite(post.log_likelihood()["x"].values).all()


def test_a_width_that_is_given_counts():
    assert cells_of(TENTHS, resolution=0.5) == (True, 0.5, 0.0)
    assert cells_of(TENTHS, resolution={"x": 0.2})[:2] == (True, 0.2)


def test_a_list_names_columns_that_can_be_in_cells():
    with pytest.raises(ValueError, match="rounded names the column 'y', which is not in the table"):
        cells_of(TENTHS, rounded=["y"])
    for x, words, arguments in (
        (SMOOTH, r"no recording grid; give resolution=\{'x': ...\}", {}),
        (np.round(TENTHS), "no Gaussian or log-normal leaves", {"kind": "categorical"}),
        (np.where(TENTHS > 0.0, np.nan, TENTHS), 'with missing="draw"', {"drawn": True}),
        (TENTHS + 9.0, "under Gaussian leaves alone",
         {"kind": "positive", "leaves": ps.leaves.LogNormal(), "only_gaussian": True}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"column 'x' cannot be treated as rounded: .*{words}"):
            cells_of(x, rounded=["x"], **arguments)
        assert not cells_of(x, **arguments)[0]
    assert cells_of(TENTHS, rounded=[]) == cells_of(TENTHS, rounded=False)
