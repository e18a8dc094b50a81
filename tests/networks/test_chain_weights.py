"""Chains weighed by stacking: the weights are a maximum, and answers are those of the weighted mixture."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import pymc_spn as ps
from pymc_spn.networks.records.chain_weights import left_out_densities, stacking_weights
from pymc_spn.numerics.draw_averages import fewer_draws
from tests.hand_made_records import new_rows, sampled_tree, states_of, weighted_posterior

pytestmark = pytest.mark.usefixtures("integrated")


def test_left_out_densities_are_harmonic_means_where_no_row_matters_much():
    """1 / E[1 / p] over draws that have seen the row; smoothing changes little at small Pareto shapes."""
    of_draws = np.random.default_rng(0).normal(-1.0, 0.1, (2, 400, 5))
    found, shapes = left_out_densities(of_draws)
    plain = np.log(400) - logsumexp(-of_draws, axis=1)
    assert found.shape == shapes.shape == (2, 5) and shapes.max() < 0.5
    np.testing.assert_allclose(found, plain, atol=1e-3)


def test_draws_that_agree_about_a_row_need_no_smoothing():
    """A row without any cell, and one that most draws see alike."""
    of_draws = np.zeros((1, 40, 2))
    of_draws[0, :10, 1] = 1.0
    found, shapes = left_out_densities(of_draws)
    assert np.isneginf(shapes).all()
    np.testing.assert_allclose(found[0], [0.0, -np.log(0.75 + 0.25 * np.exp(-1.0))], atol=1e-12)


def test_weights_are_a_maximum():
    rng = np.random.default_rng(1)
    of_draws = rng.normal(-1.0, 0.05, (3, 100, 40)) + rng.normal(0.0, 1.0, (3, 1, 40))
    weights = stacking_weights(of_draws)
    logs = left_out_densities(of_draws)[0]

    def gain(weights):
        return logsumexp(np.log(weights)[:, None] + logs, axis=0).sum() + np.log(weights).sum()

    others = rng.dirichlet(np.ones(3), 2000)
    assert weights.sum() == pytest.approx(1.0)
    assert max(gain(w) for w in others) < gain(weights) + 1e-3
    nearly = rng.normal(-1.0, 1.0, (100, 40)) + rng.normal(0.0, 1e-3, (4, 100, 40))
    assert np.abs(stacking_weights(nearly) - 0.25).max() < 0.01


def test_answers_are_those_of_the_weighted_mixture(tmp_path):
    post = ps.SPNPosterior.from_idata(sampled_tree("missing", draws=30, chains=3))
    stacked = post.stacked()
    weights = stacked.chain_weights
    assert weights.dims == ("chain",) and weights.values.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(post.chain_weights, 1 / 3)
    rows = new_rows("missing")
    per_draw = post.log_density(rows, per_draw=True).values
    with np.errstate(divide="ignore"):
        expected = logsumexp(per_draw + np.log(weights.values / 30)[:, None, None], axis=(0, 1))
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


def test_a_chain_that_is_stuck_loses_its_weight():
    """Its rows stay in one group where there are two."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random(80) < 0.5, -3.0, 3.0)[:, None] + rng.normal(0.0, 0.5, (80, 2))
    idata = sampled_two_groups(pd.DataFrame(x, columns=["a", "b"]))
    post = ps.SPNPosterior.from_idata(idata)
    stacked = post.stacked()
    assert stacked.chain_weights.values[1] < 0.1
    fresh = np.where(rng.random(400) < 0.5, -3.0, 3.0)[:, None] + rng.normal(0.0, 0.5, (400, 2))
    assert float(stacked.log_density(fresh).mean()) > float(post.log_density(fresh).mean()) + 0.1


def sampled_two_groups(frame):
    """Two chains of draws, the assignments of the second one replaced by a single group."""
    import pymc as pm

    with pm.Model():
        ps.SPN("x", ps.circuits.complete_tree(frame.columns, n_children=2), observed=frame)
        idata = pm.sample(
            tune=60, draws=30, chains=2, cores=1, progressbar=False, random_seed=1, compute_convergence_checks=False
        )
    digits = idata["sample_stats"]["x_digits"]
    digits.values[1] = 0
    return idata


def test_what_stacked_refuses():
    one = ps.SPNPosterior.from_idata(sampled_tree("missing", draws=8, chains=1))
    with pytest.raises(ValueError, match="at least two chains, this posterior has 1"):
        one.stacked()
    few = ps.SPNPosterior.from_idata(sampled_tree("missing", draws=29, chains=2))
    with pytest.raises(ValueError, match="at least 30 recorded draws a chain, this posterior has 29"):
        few.stacked()
    post = ps.SPNPosterior.from_idata(sampled_tree("missing", draws=30, chains=2))
    name = post.columns[0].name
    for derived in (post.marginal([name]), post.condition({name: (None, 50.0)}), post.stacked()):
        with pytest.raises(ValueError, match="the posterior as sampled, no condition, marginal or weights"):
            derived.stacked()


def test_unreliable_weights_say_so():
    heavy = -np.random.default_rng(0).pareto(0.5, (2, 200, 10))
    with pytest.warns(UserWarning, match=r"leave-one-out is unreliable \(Pareto shape above 0.7\)"):
        stacking_weights(heavy)
