"""Runs weighed by stacking: the weights are a maximum, and answers are those of the weighted mixture."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import logsumexp

import pymc_spn as ps
from pymc_spn.networks.records.run_weights import FoundOfRuns, by_run, members
from pymc_spn.numerics.chain_mixing import Mixing
from pymc_spn.numerics.draw_averages import fewer_draws
from pymc_spn.numerics.trust_warnings import ConvergenceWarning
from tests.hand_made_records import new_rows, sampled_tree, states_of, weighted_posterior
from tests.sampled_runs import draw, model_of

pytestmark = pytest.mark.usefixtures("integrated")


def test_runs_are_read_in_order():
    """Two chains of five records: runs 0, 0, 1, 1, 1 and one run. Longer runs are taken evenly."""
    runs = np.array([[0, 0, 1, 1, 1], [0, 0, 0, 0, 0]])
    found = members(runs)
    assert list(found) == [(0, 0), (0, 1), (1, 0)]
    np.testing.assert_array_equal(found[0, 1], [2, 3, 4])
    np.testing.assert_array_equal(by_run(np.arange(10).reshape(2, 5), runs), [[0, 1], [2, 4], [5, 9]])
    # two draws after each that is recorded are of its run
    np.testing.assert_array_equal(by_run(np.arange(15)[None], runs[:1])[0], [0, 1, 2, 3, 4, 5])


def test_weights_are_a_maximum():
    rng = np.random.default_rng(1)
    found = FoundOfRuns(rng.normal(-1.0, 1.0, (3, 1, 40)), np.zeros(3, int))
    weights, logs = found.weights_of(np.arange(3)), found.of_draws[:, 0]

    def gain(weights):
        return logsumexp(np.log(weights)[:, None] + logs, axis=0).sum() + np.log(weights).sum()

    others = rng.dirichlet(np.ones(3), 2000)
    assert weights.sum() == pytest.approx(1.0)
    assert max(gain(w) for w in others) < gain(weights) + 1e-3
    of_rows = logsumexp(np.log(3.0 * weights)[:, None] + logs, axis=0) - logsumexp(logs, axis=0)
    assert found.gain(weights) == pytest.approx((of_rows.mean(), of_rows.std() / np.sqrt(40)))
    alike = FoundOfRuns(rng.normal(-1.0, 1.0, 40) + rng.normal(0.0, 1e-3, (4, 1, 40)), np.zeros(4, int))
    assert np.abs(alike.weights_of(np.arange(4)) - 0.25).max() < 0.01


def test_kinds_are_weighed_and_runs_where_those_of_a_kind_have_not_met():
    """Of runs 0, 2 and 1, 3 the second kind predicts better by a nat; later, one of its runs has gone elsewhere."""
    rng = np.random.default_rng(0)
    of_draws = rng.normal(-1.0, 0.3, 50) + rng.normal(0.0, 0.3, (4, 60, 50))
    of_draws[::2] -= 1.0
    kinds = np.array([0, 1, 0, 1])
    met = FoundOfRuns(of_draws, kinds)
    assert met.heaviest.tolist() == [False, True, False, True] and met.mixing.has_met
    weights = met.weights()
    assert weights[0] == weights[2] < 0.02 and weights[1] == weights[3] > 0.48
    of_draws[3] -= 0.5
    apart = FoundOfRuns(of_draws, kinds)
    assert not apart.mixing.has_met and apart.weights()[1] > 0.85
    assert apart.weights().sum() == pytest.approx(1.0)


def test_rows_are_left_out_of_each_run():
    """From all draws and rows, where they are few, by the predictive of each row given the others."""
    states = states_of(sampled_tree("missing", draws=30, chains=3))
    logs = states.leave_one_out().reshape(3, 30, -1)
    found = states.found_of_runs
    seen = ~np.isnan(states.record.table).all(axis=1)
    np.testing.assert_array_equal(found.of_draws, logs[:, :, seen])
    np.testing.assert_allclose(found.left_out, logsumexp(logs, axis=1)[:, seen] - np.log(30))
    assert str(found.mixing) == str(Mixing.of(logs[:, :, seen].mean(axis=2), "log density of rows"))
    some = states.leave_one_out(np.array([2, 40]), np.array([2, 0]))
    np.testing.assert_array_equal(some, logs.reshape(90, -1)[np.ix_([2, 40], [2, 0])])


def test_answers_are_those_of_the_weighted_mixture(tmp_path):
    post = ps.SPNPosterior.from_idata(sampled_tree("missing", draws=30, chains=3))
    stacked = post.stacked()
    weights = stacked.run_weights
    assert weights.dims == ("chain", "run") and weights.shape == (3, 1) and weights.values.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(post.run_weights, 1 / 3)
    rows = new_rows("missing")
    per_draw = post.log_density(rows, per_draw=True).values
    with np.errstate(divide="ignore"):
        expected = logsumexp(per_draw + np.log(weights.values / 30)[:, :, None], axis=(0, 1))
    found = stacked.log_density(rows)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    assert 0 < found.attrs["draws_after_weighting"] <= 90
    stacked.save(tmp_path / "stacked.nc")
    np.testing.assert_array_equal(ps.SPNPosterior.from_idata(tmp_path / "stacked.nc").log_density(rows), found)
    assert len(stacked.sample(5, random_seed=0)) == 5


def test_fewer_draws_are_those_that_count():
    equal = fewer_draws(np.zeros(9), 3)
    np.testing.assert_array_equal(np.flatnonzero(equal == 0.0), [0, 4, 8])
    uneven = np.log(np.repeat([0.8, 0.2, 1e-300], 3))
    # along cumulative weights 0.8, 1.6, 2.4, 2.6, 2.8, 3 at 0.3, 0.9, 1.5, 2.1, 2.7
    np.testing.assert_allclose(np.exp(fewer_draws(uneven, 5)), [1, 2, 1, 0, 1, 0, 0, 0, 0])
    assert fewer_draws(uneven, 9) is uneven
    states = states_of(sampled_tree("missing", draws=30, chains=3))
    post, stacked = weighted_posterior(states), weighted_posterior(states, np.repeat(np.log([0.02, 0.96, 0.02]), 30))
    rows = new_rows("missing")
    circuit = stacked.as_circuit(max_draws=12)
    assert set(circuit.draws) <= set(range(30, 60)) and len(circuit.draws) == 12
    per_draw = post.log_density(rows, per_draw=True).values.reshape(90, -1)
    expected = logsumexp(per_draw[circuit.draws], axis=0) - np.log(12)
    np.testing.assert_allclose(circuit.log_density(rows), expected, atol=1e-10)
    best = stacked.mpe(max_draws=12)
    assert float(best.log_density) == pytest.approx(float(circuit.log_density(best.value)[0]), abs=1e-8)


def test_a_run_that_is_stuck_loses_its_weight():
    """Its rows stay in one group where there are two: reading the draws says so and weighs it less."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random(80) < 0.5, -3.0, 3.0)[:, None] + rng.normal(0.0, 0.5, (80, 2))
    idata = sampled_two_groups(pd.DataFrame(x, columns=["a", "b"]))
    with pytest.warns(
        ConvergenceWarning, match="over 2 chains of 60 draws: the chains have not converged, so answers weight"
    ) as w:
        post = ps.SPNPosterior.from_idata(idata)
    assert post.run_weights.values[1, 0] < 0.1 and "runs weighted by 0.9" in repr(post)
    with pytest.warns(ConvergenceWarning, match="so answers average over all of them"):
        equal = ps.SPNPosterior.from_idata(idata, weights="equal")
    np.testing.assert_array_equal(equal.run_weights, 0.5)
    np.testing.assert_array_equal(equal.stacked().run_weights, post.run_weights)
    fresh = np.where(rng.random(400) < 0.5, -3.0, 3.0)[:, None] + rng.normal(0.0, 0.5, (400, 2))
    gain = float(post.log_density(fresh).mean()) - float(equal.log_density(fresh).mean())
    told = float(str(w[0].message).split("left out: ")[1].split()[0])
    assert gain > 0.1 and gain == pytest.approx(told, abs=0.1)
    # what is asked of each draw, and of runs, is of draws as they are
    np.testing.assert_array_equal(post.log_likelihood()["x"], equal.log_likelihood()["x"])
    np.testing.assert_array_equal(post.diagnose(max_rows=1), equal.diagnose(max_rows=1))
    np.testing.assert_array_equal(post.diagnose(max_rows=0), equal.diagnose(max_rows=1)[:2])


def sampled_two_groups(frame):
    """Two chains of draws, the assignments of the second one replaced by a single group."""

    idata = draw(
        model_of(ps.circuits.complete_tree(frame.columns, n_children=2), observed=frame),
        tune=60,
        draws=60,
        chains=2,
        random_seed=1,
    )
    digits = idata["sample_stats"]["x_digits"]
    digits.values[1] = 0
    told = ["x_log_joint", "x_occupied_nodes", "x_occupied_leaves"]  # of other states
    idata["sample_stats"] = xr.DataTree(idata["sample_stats"].to_dataset().drop_vars(told))
    return idata


def test_what_stacked_refuses():
    for draws, chains, words in ((8, 1, "8 draws of 1 runs"), (3, 2, "6 draws of 2 runs")):
        few = ps.SPNPosterior.from_idata(sampled_tree("missing", draws=draws, chains=chains))
        with pytest.raises(ValueError, match=f"two runs of at least 4 recorded draws; this posterior has {words}"):
            few.stacked()
    post = ps.SPNPosterior.from_idata(sampled_tree("missing", draws=30, chains=2))
    name = post.columns[0].name
    for derived in (post.marginal([name]), post.condition({name: (None, 50.0)})):
        with pytest.raises(ValueError, match="the posterior as sampled, no condition or marginal"):
            derived.stacked()
    with pytest.raises(ValueError, match='weights must be "auto" or "equal", got \'other\''):
        ps.SPNPosterior.from_idata(sampled_tree("missing", draws=30, chains=2), weights="other")
