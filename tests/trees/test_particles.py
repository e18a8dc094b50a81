"""Top-down particle filtering against the exact recursion: evidence, posterior over trees, sharing, seeds."""

import re
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import pymc_spn as ps
from pymc_spn.trees.features import make_features, make_rules
from pymc_spn.trees.fit import run_island
from pymc_spn.trees.leaves import make_leaf_prior, make_response
from pymc_spn.trees.particle_kernels import EXPANSIONS, NODE, OPTIMAL, TABLES
from pymc_spn.trees.resampling import MULTINOMIAL, SYSTEMATIC, draw_offspring
from tests.reference import total_variation
from tests.trees.small_trees import (
    FAMILIES,
    RESPONSES,
    RULES,
    draws_of,
    enumerated,
    frequencies,
    mixed_frame,
    probabilities,
)

PROPOSALS = ["prior", "optimal", "empirical"]


def ten_rows():
    """Two features, one tie, unequal gaps."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(10, 2)) ** 3
    x[1, 0] = x[0, 0]
    return x, rng.integers(0, 3, 10), rng.normal(size=10) + 2.0 * (x[:, 0] > 0)


def relative_evidences(x, y, family, exact, n_runs, **settings):
    """Evidence estimates over the exact evidence; their mean must be one."""
    runs = [
        ps.fit_tree(x, y, family, islands=1, random_seed=s, **RULES, **settings).log_evidence.item()
        for s in range(n_runs)
    ]
    return np.exp(np.array(runs) - exact)


@pytest.mark.parametrize("expansion", ["node", "layer"])
@pytest.mark.parametrize("proposal", PROPOSALS)
def test_evidence_is_unbiased(proposal, expansion):
    """Without the gap's share in the empirical weights |z| is 4.7 to 6.2 in 15 of its 16 cells."""
    x, y, _ = ten_rows()
    family = ps.leaves.ClassLeaves(2.0)
    exact = ps.trees.exact_tree_evidence(x, y, family, **RULES).log_evidence.item()
    settings = {"proposal": proposal, "expansion": expansion}
    ratio = relative_evidences(x, y, family, exact, 60, particles=100, ess_threshold=0.5, **settings)
    z = (ratio.mean() - 1.0) / (ratio.std(ddof=1) / np.sqrt(len(ratio)))
    assert abs(z) < 4.5


@pytest.mark.parametrize(
    ("family", "categorical"), [("classes", "onehot"), ("binary", "subset"), ("real", "onehot"), ("counts", "subset")]
)
def test_posterior_over_trees_with_gaps_and_levels(family, categorical):
    frame, y = mixed_frame(), RESPONSES[family]
    truth = probabilities(enumerated(frame, y, family, categorical))
    for proposal in PROPOSALS:
        post = ps.fit_tree(
            frame,
            y,
            FAMILIES[family][0],
            categorical=categorical,
            proposal=proposal,
            particles=20_000,
            islands=1,
            ess_threshold=0.5,
            random_seed=2,
            **RULES,
        )
        assert total_variation(frequencies(post), truth) < 0.1


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_missing_values_are_sent_by_a_fair_coin_a_priori(proposal):
    """A coin of 0.4 would be 19 standard errors away."""
    family = ps.leaves.ClassLeaves(1.0, levels=[0])
    post = ps.fit_tree(
        mixed_frame(), [0] * 5, family, proposal=proposal, particles=20_000, islands=1, random_seed=1, **RULES
    )
    sides = {"left": 0.0, "right": 0.0}
    for tree, weight in frequencies(post).items():
        if tree[0] is not None and tree[0][0] == 0:
            sides[tree[0][1][-1]] += weight
    assert abs(sides["left"] / sum(sides.values()) - 0.5) < 5.0 * 0.5 / np.sqrt(20_000 * sum(sides.values()))


@pytest.mark.parametrize("proposal", ["prior", "optimal"])
@pytest.mark.parametrize("expansion", ["node", "layer"])
def test_prior_sums_to_one(proposal, expansion):
    """With one class every leaf is worth one: the estimate is one exactly, whatever is resampled."""
    x, *_ = ten_rows()
    family = ps.leaves.ClassLeaves(1.0, levels=[0])
    post = ps.fit_tree(x, np.zeros(10, int), family, proposal=proposal, expansion=expansion, islands=1, random_seed=1)
    assert post.log_evidence.item() == pytest.approx(0.0, abs=1e-12)


def test_prior_sums_to_one_in_mean_for_the_empirical_proposal():
    x, *_ = ten_rows()
    family = ps.leaves.ClassLeaves(1.0, levels=[0])
    ratio = relative_evidences(x, np.zeros(10, int), family, 0.0, 100, particles=200, proposal="empirical")
    assert abs(ratio.mean() - 1.0) < 4.0 * ratio.std() / 10.0
    assert ratio.std() > 0.0


def test_tables_are_shared_between_particles():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 4))
    y = (x[:, 0] > 0.3).astype(int) + (x[:, 1] > 0).astype(int)
    features, family = make_features(x), ps.leaves.ClassLeaves(levels=(0, 1, 2))
    response, leaf = make_response(family, y), make_leaf_prior(family, np.array([5.0]), y)
    task, rules = (100, np.random.default_rng(1)), make_rules(0.95, 0.5, None, 2)
    *_, counters = run_island(task, features, response, leaf, rules, OPTIMAL, NODE, 0.1)
    assert counters[EXPANSIONS] > 4 * counters[TABLES]  # one table an expansion without sharing; 9.9 here


def test_many_values_cost_as_much_as_few():
    """Sorting within the node: the options of a node with as many values as rows are those of a full scan."""
    rng = np.random.default_rng(0)
    for n in (30, 200, 5000):
        x, y = rng.normal(size=(n, 1)), rng.normal(size=n)
        family = ps.leaves.NormalLeaves(0.0, 0.1, 1.5, 0.5)
        post = ps.fit_tree(x, y, family, max_depth=1, particles=2, islands=1, random_seed=0)
        order = np.argsort(x[:, 0])
        xs, ys = x[order, 0], y[order]
        gains = [
            np.log((b - a) / (xs[-1] - xs[0])) + _normal(ys[: i + 1]) + _normal(ys[i + 1 :])
            for i, (a, b) in enumerate(pairwise(xs))
        ]
        exact = np.logaddexp(np.log(0.05) + _normal(ys), np.log(0.95) + np.logaddexp.reduce(gains))
        assert post.log_evidence.item() == pytest.approx(exact, rel=1e-11)


def _normal(y):
    """NIG(0, 0.1, 1.5, 0.5) log marginal in closed form."""
    from scipy.special import gammaln

    n, k, a, b = len(y), 0.1, 1.5, 0.5
    bn = b + 0.5 * ((y - y.mean()) ** 2).sum() + 0.5 * k * n * y.mean() ** 2 / (k + n)
    value = gammaln(a + n / 2) - gammaln(a) + a * np.log(b) - (a + n / 2) * np.log(bn)
    return value + 0.5 * np.log(k / (k + n)) - n / 2 * np.log(2 * np.pi)


def test_seeds_and_threads():
    x, y, _ = ten_rows()
    settings = {"particles": 40, "islands": 4, "weights": "equal"}
    one = ps.fit_tree(x, y, random_seed=3, n_jobs=1, **settings)
    two = ps.fit_tree(x, y, random_seed=3, n_jobs=3, **settings)
    other = ps.fit_tree(x, y, random_seed=4, **settings)
    np.testing.assert_array_equal(draws_of(one).decisions, draws_of(two).decisions)
    np.testing.assert_array_equal(one.log_evidence_islands, two.log_evidence_islands)
    assert len(np.unique(one.log_evidence_islands)) == 4
    assert not np.array_equal(one.log_evidence_islands, other.log_evidence_islands)


@pytest.mark.parametrize("scheme", [MULTINOMIAL, SYSTEMATIC])
def test_resampling_is_unbiased(scheme):
    rng = np.random.default_rng(scheme)
    weight = np.array([0.0, 0.5, 0.05, 3.0, 1.45, 0.0])
    drawn = np.array([draw_offspring(rng, weight, scheme, False) for _ in range(20_000)])
    assert (drawn.sum(1) == 6).all() and (drawn[:, [0, 5]] == 0).all()
    error = drawn.std(0) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(0) - 6 * weight / weight.sum()) <= 5 * error + 1e-12).all()


def test_weights_of_islands():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(300, 5))
    y = (x[:, 0] + x[:, 1] + 0.5 * rng.normal(size=300) > 0).astype(int)
    with pytest.warns(UserWarning, match=r"weights by evidence: 1\.\d of 6 islands count"):
        evidence = ps.fit_tree(x, y, particles=12, islands=6, random_seed=1)
    equal = ps.fit_tree(x, y, particles=12, islands=6, weights="equal", random_seed=1)
    stacked = ps.fit_tree(x, y, particles=12, islands=6, weights="stacking", random_seed=1)

    def shares(post):
        return post.weights.groupby("group").sum().values

    log_z = evidence.log_evidence_islands.values
    np.testing.assert_allclose(shares(evidence), np.exp(log_z - log_z.max()) / np.exp(log_z - log_z.max()).sum())
    np.testing.assert_allclose(shares(equal), 1 / 6)
    from pymc_spn.trees.fit import island_predictives

    densities = island_predictives(draws_of(stacked))
    score = [np.log(densities @ shares(p)).mean() for p in (stacked, equal, evidence)]
    assert score[0] > score[1] and score[0] > score[2]
    assert evidence.log_evidence_se.attrs["spread"] == pytest.approx(log_z.std(ddof=1))
    se = evidence.log_evidence_se  # one island outweighs the others
    assert np.isnan(se) and np.isnan(evidence.log_evidence.attrs["mcse"])
    assert re.search(r"rests on 1\.\d of 6 islands.* nats", se.attrs["note"])
    assert evidence.log_evidence.attrs["mcse_note"] == se.attrs["note"]
    with pytest.raises(ValueError, match=r"compares the chains of pm\.sample"):
        evidence.diagnose()
    assert "R-hat" not in repr(evidence)


def test_unlike_numbers_of_particles_are_spread():
    x, y, _ = ten_rows()
    post = ps.fit_tree(x, y, particles=11, islands=4, weights="equal", random_seed=1)
    assert post.weights.groupby("group").count().values.tolist() == [3, 3, 3, 2]


def test_ordered_categories_are_cut_in_their_order():
    levels = pd.CategoricalDtype(["low", "middle", "high"], ordered=True)
    frame = pd.DataFrame({"a": pd.Categorical(["high", "low", "middle", "high", "low"], dtype=levels)})
    numbers = np.array([[2.0], [0.0], [1.0], [2.0], [0.0]])
    y = RESPONSES["classes"]
    one = ps.trees.exact_tree_evidence(frame, y).log_evidence.item()
    assert one == pytest.approx(ps.trees.exact_tree_evidence(numbers, y).log_evidence.item(), 1e-14)


def test_stacking_is_certified_by_its_gap():
    rng = np.random.default_rng(2)
    densities = rng.gamma(1.0, size=(200, 4)) * np.array([1.0, 0.9, 0.5, 0.1])
    from pymc_spn.numerics.draw_averages import stack

    shares = stack(densities, 1e-8)
    best = np.log(densities @ shares).sum() + np.log(shares).sum()
    others = rng.dirichlet(np.ones(4), 5000)
    assert shares.sum() == pytest.approx(1.0) and (shares >= 0.0).all()
    assert (np.log(densities @ others.T).sum(0) + np.log(others).sum(1) <= best + 1e-6).all()
