"""Log densities by JAX against those by Numba: blocks of rows and draws, all kinds of leaves, gaps, conditions."""

import subprocess
import sys
from functools import cache
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats

import pymc_spn as ps
from pymc_spn.leaves.intervals import Interval
from pymc_spn.leaves.tail_probabilities import log_gamma_ratio
from pymc_spn.networks.records import draw_blocks
from pymc_spn.networks.records.joint_predictives import JointPredictives
from tests.hand_made_records import law_of
from tests.reference import tiny_problems
from tests.sampled_runs import draw

jax = pytest.importorskip("jax")

NAMES = ("mixed", "missing", "splits", "infinite_splits", "skewed", "infinite_skewed", "two_trees")
PROBLEMS = {name: tiny_problems()[name] for name in NAMES}
HALVES = 0.5 * np.arange(3.0)
SINGLE = 1e-6  # what float32 promises, of the largest term of a row's log density


@pytest.fixture
def single():
    with jax.enable_x64(False):
        yield


def assert_agree(found, expected, tolerance):
    """Logs that are off by less than a share of themselves, or of 1 where they are smaller: terms are of that size."""
    found, expected = np.asarray(found), np.asarray(expected)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    some = np.isfinite(expected)
    off = np.abs(found[some] - expected[some]) / np.maximum(np.abs(expected[some]), 1.0)
    assert off.max(initial=0.0) < tolerance


@cache
def mixed():
    """A table with gaps: cells, positive numbers, counts, levels and columns that depend on each other.

    Groups are narrow next to what is between them, and in the first one a column nearly determines another.
    """
    rng = np.random.default_rng(0)
    group = rng.integers(3, size=150)
    a = rng.normal(np.array([0.0, 3.0, 6.0])[group], 1.0)
    b = 2.0 * a + rng.normal(size=150) * np.array([1e-3, 0.5, 1.0])[group]
    frame = pd.DataFrame(
        {
            "a": a,
            "b": b,
            "far": rng.normal(1e6 + np.array([0.0, 2e3, 3e3])[group], 1.0),
            "age": np.round(rng.normal(np.array([20.0, 40.0, 60.0])[group], 5.0)),
            "wait": rng.gamma(2.0, np.array([1.0, 2.0, 5.0])[group]),
            "n": rng.poisson(np.array([1, 5, 30])[group]),
            "colour": np.array(list("xyz"))[(group + rng.integers(2, size=150)) % 3],
        }
    )
    return frame.mask(rng.random(frame.shape) < 0.1)


@cache
def sampled():
    with pm.Model() as model:
        ps.SPN("x", observed=mixed(), kinds={"n": "count"})
    return ps.SPNPosterior.from_idata(draw(model, draws=5, tune=10, chains=2))


@cache
def fitted():
    return ps.fit_variational(mixed(), kinds={"n": "count"}, max_steps=5, random_seed=1, progressbar=False)


def rows_to_ask():
    """Some of the table, one without a cell, some far out of it."""
    frame = mixed().head(90).copy()
    frame.loc[3] = None
    frame["a"] = frame["a"].astype(float)
    frame.loc[[5, 8, 9], "a"] = [1e6, -1e12, 1e25]
    frame.loc[[11], "wait"] = 1e9
    return frame


@pytest.mark.parametrize("name", PROBLEMS)
def test_tiny_networks_have_the_densities_of_the_kernels(name, monkeypatch):
    with jax.enable_x64(name in ("mixed", "missing", "infinite_skewed")):
        check_tiny_network(name, 1e-12 if jax.config.jax_enable_x64 else SINGLE, monkeypatch)


def check_tiny_network(name, tolerance, monkeypatch):
    states, table = law_of(name).states, PROBLEMS[name].X
    monkeypatch.setattr(draw_blocks, "DRAWS", states.n_draws // 3 + 1)  # blocks of draws of several shapes
    rng = np.random.default_rng(1)
    values = np.stack([rng.choice(column[~np.isnan(column)], 83) for column in table.T], axis=1)
    values[rng.random(values.shape) < 0.2] = np.nan
    values[3, [c.kind == "real" for c in states.schema.columns]] = -40.0  # no Exponential leaf holds it
    values[4, [c.kind == "real" for c in states.schema.columns]] = 1e6
    values[5] = np.nan
    events = {}
    if states.schema.columns[0].kind in ("real", "count"):
        events = {0: Interval(0.2, 1.7)}
        values[60:, 0] = np.nan
    for given in ({}, events):
        found, expected = (states.log_densities(values, given, None, in_jax) for in_jax in (True, False))
        assert_agree(found, expected, tolerance)
        if not given:
            np.testing.assert_array_equal(found[:, 5], 0.0)


QUESTIONS = {
    "rows in cells": lambda p, **engine: p.log_density(rows_to_ask(), **engine),
    "rows at points": lambda p, **engine: p.log_density(rows_to_ask(), cells=False, **engine),
    "each draw": lambda p, **engine: p.log_density(rows_to_ask(), per_draw=True, **engine),
    "a condition": lambda p, **engine: p.condition({"colour": "x", "a": (0.0, 4.0)}).log_density(
        rows_to_ask().drop(columns="colour"), **engine
    ),
    "a union": lambda p, **engine: p.condition("a > 2 or n < 3").log_density(rows_to_ask(), **engine),
    "some columns": lambda p, **engine: p.marginal(["a", "n"]).log_density(rows_to_ask()[["a", "n"]], **engine),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_those_of_numba(question, single):
    ask = QUESTIONS[question]
    found, expected = ask(sampled(), engine="jax"), ask(sampled())
    assert found.dims == expected.dims
    assert_agree(found, expected, SINGLE)


def test_a_fit_has_the_answers_of_numba(single):
    for question in ("rows in cells", "rows at points"):
        assert_agree(QUESTIONS[question](fitted(), engine="jax"), QUESTIONS[question](fitted()), SINGLE)


def test_blocks_of_rows_and_draws_are_put_together(single, monkeypatch):
    from pymc_spn.networks.records import jax_blocks, jax_joints

    post = sampled()
    expected = post.log_density(rows_to_ask(), per_draw=True)
    states = type(post._states)(post._states.record)
    monkeypatch.setattr(states.blocks, "_size", 3)
    monkeypatch.setattr(jax_blocks, "LEAST_ROWS", 32)
    monkeypatch.setattr(jax_blocks, "MOST_ROWS", 32)
    monkeypatch.setattr(jax_joints, "FEWEST", 4)
    monkeypatch.setattr(jax_joints, "CHUNK", 8)
    law = post._law.in_states(states).in_jax()
    values = post._table(rows_to_ask(), "error").values
    assert_agree(law.log_density(values, True), expected.values.reshape(10, -1), SINGLE)


def test_in_float64_answers_are_right_to_rounding():
    with jax.enable_x64(True):
        for question in ("rows in cells", "rows at points"):
            ask = QUESTIONS[question]
            assert_agree(ask(sampled(), engine="jax"), ask(sampled()), 1e-11)


def test_marks_say_what_float32_promises():
    ask = QUESTIONS["rows at points"]
    with jax.enable_x64(False):
        found = ask(sampled(), engine="jax")
        assert found.attrs["exactness"] == "numerical given the draws"
        assert found.attrs["tolerance"] == SINGLE
    with jax.enable_x64(True):
        found = ask(sampled(), engine="jax")
    assert found.attrs["exactness"] == "exact given the draws"
    assert found.attrs.keys() == ask(sampled()).attrs.keys()


def test_narrow_leaves_lose_no_digits(single):
    from pymc_spn.networks.records.jax_draws import JaxRows, TwoNumbers, ValueLeaves, logs_by_value

    centre, width = np.array([1.0 / 3.0, 100.0 / 7.0]), np.array([1e-5, 1e-4])
    x = np.random.default_rng(1).normal(centre[:, None], width[:, None], (2, 50))
    expected = 2.0 - 3.0 * np.log1p(((x - centre[:, None]) / width[:, None]) ** 2)
    found = {}
    for name, low in (("both", 1.0), ("planted mistake", 0.0)):
        leaf_centre, values = (TwoNumbers.of(v, np.float32) for v in (centre, x))
        each = np.arange(2, dtype=np.int32)
        numbers = np.full(2, 2.0, np.float32), np.full(2, 3.0, np.float32), (1.0 / width).astype(np.float32)
        leaf_centre = leaf_centre._replace(low=leaf_centre.low * low)
        leaves = ValueLeaves(each, each, *numbers, leaf_centre, None, None)
        rows = JaxRows(values._replace(low=values.low * low), values.high, np.zeros(x.shape, np.int32))
        found[name] = logs_by_value(leaves, rows, np.zeros(2, np.float32))
    assert_agree(found["both"], expected, SINGLE)
    with pytest.raises(AssertionError):
        assert_agree(found["planted mistake"], expected, SINGLE)


def test_columns_that_nearly_determine_each_other_lose_no_digits(single, monkeypatch):
    from pymc_spn.networks.records import jax_joints
    from pymc_spn.networks.records.jax_draws import logs_of_joints

    dof, location = np.array([7.0, 9.0]), np.array([[0.5, -0.5], [1.0, 2.0]])
    scale = np.array([[[1.0, 1.0 - 1e-7], [1.0 - 1e-7, 1.0]], [[1.0, 0.3], [0.3, 2.0]]])
    parameters = np.column_stack([dof, location, scale.reshape(2, 4)])
    leaves = JointPredictives(
        np.arange(2), np.arange(2), np.array([0, 2]), None, parameters, log_gamma_ratio(0.5 * dof[:, None], HALVES)
    )
    rng, compiled = np.random.default_rng(1), SimpleNamespace(centre=np.zeros(2), scale=np.ones(2))
    values = stats.multivariate_t(location[0], scale[0], 7.0).rvs(60, random_state=rng)
    values[50:, 0] = np.nan  # fewer than share a factor
    expected = np.empty((2, 60))
    for leaf in range(2):
        whole = stats.multivariate_t(location[leaf], scale[leaf], dof[leaf])
        expected[leaf, :50] = whole.logpdf(values[:50])
        one = stats.t(dof[leaf], location[leaf, 1], np.sqrt(scale[leaf, 1, 1]))
        expected[leaf, 50:] = one.logpdf(values[50:, 1])

    def found():
        factors = jax_joints.JointFactors(leaves, compiled, 3, np.dtype(np.float32))
        return np.asarray(logs_of_joints(factors.rows(values, None, {}, 64)))[:2, :60]

    assert_agree(found(), expected, SINGLE)
    for name, mistake in (("AMPLIFIED", np.inf), ("FEWEST", 0)):
        with monkeypatch.context() as patch:
            patch.setattr(jax_joints, name, mistake)
            if name == "FEWEST":  # no mistake: rare gaps have a factor of their own
                assert_agree(found(), expected, SINGLE)
                continue
            with pytest.raises(AssertionError):
                assert_agree(found(), expected, SINGLE)


def test_what_has_no_form_in_jax_is_refused():
    post = sampled()
    with pytest.raises(ValueError, match=r"engine must be 'numba' or 'jax', got 'cuda'"):
        post.log_density(mixed(), engine="cuda")
    with pytest.raises(ValueError, match="engine='jax' answers for posteriors of sum-product networks alone"):
        ps.circuits.piecewise_linear([0, 1, 4], [0.2, 0.5, 0.1], normalise=True).log_density([[0.5]], engine="jax")


def test_without_jax_the_extra_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "pymc_spn.networks.records.jax_blocks", raising=False)
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r"pip install pymc-spn\[jax\]"):
        sampled().log_density(mixed(), engine="jax")


def test_the_kernels_do_not_load_jax():
    code = (
        "import sys\n"
        "import pymc_spn.networks.recorded_law\n"
        "assert not any(m == 'jax' or m.startswith('jax.') for m in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
