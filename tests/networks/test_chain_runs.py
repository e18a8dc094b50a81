"""Several runs in one chain: how many, what each goes on with, and when there are none."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from numpy.testing import assert_array_equal

import pymc_spn as ps
from pymc_spn.gibbs.chain_runs import FEWEST_SWEEPS, MOST_RUNS, n_runs_of, restore, state_of
from tests.sampled_runs import draw, model_of


def table():
    """Correlated columns with gaps, one of them recorded in cells, and levels."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 1)) + rng.normal(0.0, 0.5, (60, 3))
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(b=np.round(x[:, 1] * 2.0) / 2.0, level=x[:, 0] > 0.0)
    return frame.mask(rng.random(frame.shape) < 0.1)


def step_of(tune, draws, kernel=None, sweeps=1, **spn):
    """A step, and the points and statistics of all its draws."""
    with pm.Model() as model:
        ps.SPN("x", observed=table(), **spn)
        step = ps.steps.TopDownSPNStep(kernel=kernel, sweeps=sweeps, rng=0)
    step.setup_chain(0, tune, draws)
    return step, model.initial_point(0)


def test_number_of_runs():
    assert n_runs_of(0, 1000) == n_runs_of(2 * FEWEST_SWEEPS - 1, 1000) == n_runs_of(1000, 1) == 1
    assert n_runs_of(2 * FEWEST_SWEEPS, 1000) == 2 and n_runs_of(1000, 3) == 3
    assert n_runs_of(10_000, 1000) == MOST_RUNS


def test_a_state_comes_back():
    """With cells and missing values that are part of it: the log joint depends on all of them."""
    step, point = step_of(0, 10)
    for _ in range(5):
        point, _ = step.step(point)
    chain = step.chain
    kept, log_joint = state_of(chain), chain.sampler.statistics()[0]
    assert chain.rounding is not None and chain.sampler.filled_at.any()
    for _ in range(5):
        point, _ = step.step(point)
    assert abs(chain.sampler.statistics()[0] - log_joint) > 1e-3
    restore(chain, kept._replace(filled=chain.sampler.filled))  # a planted mistake: the missing values of another state
    assert not abs(chain.sampler.statistics()[0] - log_joint) < 1e-3  # NaN where a cell was in no such leaf
    restore(chain, kept)
    assert chain.sampler.statistics()[0] == pytest.approx(log_joint, abs=1e-9)  # rounding of sums
    assert_array_equal(chain.sampler.digits(), kept.digits)


@pytest.mark.parametrize("sweeps", [1, 2])
def test_draws_go_on_from_each_run_in_turn(sweeps):
    tune, draws = (2 * FEWEST_SWEEPS + 20) // sweeps, 10  # two runs, of whole draws each
    step, point = step_of(tune, draws, sweeps=sweeps)
    ends = []
    for n in range(tune):
        point, _ = step.step(point)
        if n + 1 in (tune // 2, tune):
            ends.append(state_of(step.chain))
    step.tune = False
    restored = []

    def before_sweep(chain, rng, original=step.chain.runs.before_sweep):
        original(chain, rng)
        restored.append(state_of(chain))

    step.chain.runs.before_sweep = before_sweep
    for _ in range(draws):
        point, _ = step.step(point)
    for at, end in ((0, ends[0]), (draws // 2 * sweeps, ends[1])):
        assert_array_equal(restored[at].digits, end.digits)
        assert_array_equal(restored[at].filled, end.filled)
        for one, other in zip(restored[at].hyperparameters, end.hyperparameters, strict=True):
            np.testing.assert_array_max_ulp(one, other, 1)  # the point has their logs
    assert not np.array_equal(ends[0].digits, ends[1].digits)
    for i, name in enumerate(("x_concentration_log__", "x_leaf_scale_log__")):
        np.testing.assert_array_max_ulp(np.exp(point[name]), step.chain.sampler.hyperparameters[i], 1)


def has_kinds(tune=2 * FEWEST_SWEEPS, **spn):
    if spn.get("leaf_scale") == "modelled":
        with pm.Model() as model:
            ps.SPN("x", observed=table(), leaf_scale=pm.HalfNormal("scale", 1.0))
            names = [v for v in model.value_vars if v.name.startswith("x_")]
            step = ps.steps.TopDownSPNStep(names, rng=0)
        step.setup_chain(0, tune, 10)
        point = model.initial_point(0)
    else:
        step, point = step_of(tune, 10, **spn)
    step.step(point)
    return step.chain.runs is not None


def clumped_table():
    """A column of few values beside two smooth ones."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2)) @ [[1.0, 0.8, 0.0], [0.0, 0.6, 1.0]] + 5.0
    x[:, 2] = x[rng.integers(0, 12, 200), 2] + rng.normal(0.0, 1e-3, 200)
    return pd.DataFrame(x, columns=["a", "b", "c"])


def test_runs_take_turns_in_leaves_over_several_columns():
    """Leaves of all three columns, of the smooth ones, of none."""
    with pm.Model() as model:
        ps.SPN("x", observed=clumped_table())
        step = ps.steps.TopDownSPNStep(rng=0)
    step.setup_chain(0, 3 * FEWEST_SWEEPS, 9)
    point, held, recorded, is_open = model.initial_point(0), [], [], []
    for n in range(3 * FEWEST_SWEEPS + 9):
        step.tune = n < 3 * FEWEST_SWEEPS
        point, (stats,) = step.step(point)
        sampler = step.chain.sampler
        joints, begin = sampler.net.joints, sampler.net.edges.begin
        kinds = np.where(sampler.slots < 0, -2, sampler.net.edges.split[begin + np.maximum(sampler.slots, 0)])
        if not step.tune:
            recorded.append(stats["x_run"])
            held.append({r for r in np.flatnonzero((kinds == joints.split).any(axis=0)) if joints.split[r] >= 0})
            is_open.append({sampler.structure.scope(r) for r in np.flatnonzero(joints.is_open & (joints.split >= 0))})
    smooth = next(r for r in range(sampler.structure.n_regions) if set(sampler.structure.scope(r)) == {"a", "b"})
    assert recorded == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert held[3:] == [{smooth}] * 3 + [set()] * 3
    assert {len(columns) for columns in is_open[3]} == {2} and {"c"} <= set().union(*is_open[0])


@pytest.mark.parametrize(
    "tune, runs", [(8, [[0], [1], [2], [0]]), (2 * FEWEST_SWEEPS, [[0, 1], [1, 2], [2, 3], [0, 1]])]
)
def test_each_chain_begins_with_another_kind(tune, runs):
    """So that short chains have all kinds together; weights are by the place of a run in its chain."""
    idata = draw(model_of(observed=clumped_table()), 8, tune=tune, chains=4, random_seed=1)
    assert [list(np.unique(own)) for own in idata.sample_stats["x_run"].values] == runs
    post = ps.SPNPosterior.from_idata(idata)
    found = post._states.found_of_runs
    assert_array_equal(found.kinds, np.concatenate(runs) % 3)
    assert found.units == ("chains" if tune == 8 else "runs")
    assert post.run_weights.shape == (4, len(runs[0])) and post.run_weights.values.sum() == pytest.approx(1.0)


def test_when_runs_are_of_kinds():
    assert has_kinds() and has_kinds(tune=FEWEST_SWEEPS)
    assert not has_kinds(start="prior")
    assert not has_kinds(joint_leaves=None)
    assert not has_kinds(leaf_scale="modelled")  # it belongs to the point that other steps move


def test_chains_through_pm_sample_are_reproducible():
    """The chains of one process and of several are the same, and what is read from them is a state of each draw."""
    found = []
    for cores in (1, 2):
        with pm.Model():
            ps.SPN("x", observed=table())
            found.append(
                pm.sample(
                    8, tune=2 * FEWEST_SWEEPS, chains=2, cores=cores, random_seed=1, progressbar=False,
                    compute_convergence_checks=False,
                )
            )  # fmt: skip
    logs = [idata.posterior["x_log_joint"].values for idata in found]
    assert_array_equal(*logs)
    post = ps.SPNPosterior.from_idata(found[0])
    assert np.isfinite(post.log_density(table()).values).all()
    states = post._with_all_draws._states  # with cells, gaps and leaves over several columns
    some, every = (states.leave_one_out(np.array([1, 5]), rows) for rows in (np.array([7, 2]), None))
    np.testing.assert_allclose(some, every[:, [7, 2]], rtol=1e-9)  # rounding of sums, from which rows are taken
    few = ps.SPNPosterior.from_idata(found[0], max_draws=2)  # of each chain one, and one of the run that it is not of
    assert len(few._states.record.draws) == 2 and set(few._states.record.runs[0]) == {0, 1}
    np.testing.assert_allclose(few.run_weights, post.run_weights)
    np.testing.assert_allclose(few._with_all_draws.run_weights, post.run_weights)
