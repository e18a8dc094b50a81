"""The conditional filter's transition matrix: by enumeration, and of the compiled kernel."""

from collections import Counter
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pymc_spn as ps
from pymc_spn.trees.features import make_features, make_rules
from pymc_spn.trees.fit import PROPOSALS
from pymc_spn.trees.leaves import make_leaf_prior, make_response
from pymc_spn.trees.particle_kernels import NODE, pick_particle, run_particles
from pymc_spn.trees.predictives import training_leaves
from pymc_spn.trees.resampling import MULTINOMIAL
from pymc_spn.trees.tree import Tree
from tests import reference_trees as ref
from tests.reference_particle_gibbs import Tiny, kernel_row
from tests.trees.small_trees import (
    FAMILIES,
    RESPONSES,
    RULES,
    draws_of,
    enumerated,
    mixed_frame,
    posterior,
    probabilities,
    words,
)

ALPHA_S, BETA_S = 0.8, 0.3
TABLES = {
    "three rows": ([[0.0], [1.0], [3.0]], [0, 1, 0]),
    "four rows": ([[0.0], [1.0], [3.0], [3.5]], [0, 1, 1, 0]),
    "two features": ([[0.0, 1.0], [1.0, 0.0], [3.0, 0.0]], [0, 1, 0]),
}


def problem(name):
    X, y = TABLES[name]
    kinds = ["cut"] * len(X[0])

    def log_leaf(v):
        return ref.log_marginal("classes", v, alpha=0.7, K=2)

    tiny = Tiny(X, y, kinds, ALPHA_S, BETA_S, log_leaf)
    trees = ref.all_trees(X, y, kinds, [1.0] * len(kinds), ALPHA_S, BETA_S, log_leaf)
    z = ref.log_evidence(trees)
    return tiny, {ref.breadth_first(t): float(np.exp(v - z)) for t, v in trees}


def matrix(tiny, truth, proposal, ancestors="multinomial"):
    rows = [kernel_row(tiny, tree, proposal, ancestors) for tree in truth]
    return np.array([[row[tree] for tree in truth] for row in rows])


@pytest.mark.parametrize("proposal", ["prior", "optimal"])
@pytest.mark.parametrize("name", TABLES)
def test_the_algorithm_leaves_the_posterior_unchanged(name, proposal):
    tiny, truth = problem(name)
    pi = np.array(list(truth.values()))
    P = matrix(tiny, truth, proposal)
    np.testing.assert_allclose(P.sum(1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(pi @ P, pi, rtol=1e-11)


@pytest.mark.parametrize("proposal", ["prior", "optimal"])
def test_overwritten_systematic_resampling_is_found(proposal):
    """With a single resampling step the mistake leaves the posterior unchanged; four rows have two."""
    tiny, truth = problem("four rows")
    pi, planted = np.array(list(truth.values())), matrix(tiny, truth, proposal, "overwritten")
    np.testing.assert_allclose(planted.sum(1), 1.0, rtol=1e-12)
    print(np.abs(pi @ planted - pi).max())
    assert np.abs(pi @ planted - pi).max() > 1e-4


def compiled_row(name, tree, proposal, n_runs, seed):
    """Frequencies of the next tree by the compiled kernel."""
    X, y = TABLES[name]
    features = make_features(np.array(X))
    family = ps.leaves.ClassLeaves(0.7)
    coded, family = family.code(y)
    response = make_response(family, coded)
    leaf = make_leaf_prior(family, np.array([0.7]), coded)
    options, rng, counts = features.scratch(2), np.random.default_rng(seed), Counter()
    arguments = (features.codes, response, leaf, make_rules(ALPHA_S, BETA_S, None, 2), 2, PROPOSALS[proposal], NODE)
    for _ in range(n_runs):
        log_weight, decisions, begin = run_particles(
            rng, *arguments, MULTINOMIAL, 1.01, tree, options, np.zeros(4, np.int64)
        )
        m = pick_particle(rng, log_weight)
        counts[words(decisions[begin[m] : begin[m + 1]], features)] += 1
    return counts


def as_decisions(key, X):
    """Decisions of the package from those of the reference."""
    out = []
    for d in key:
        if d is None:
            out.append((-1, 0, 0, -1))
        else:
            values = sorted({row[d[0]] for row in X})
            out.append((d[0], values.index(d[1][0]), values.index(d[1][1]), -1))
    return np.array(out, np.int32)


@pytest.mark.parametrize(("name", "proposal"), [("three rows", "optimal"), ("two features", "prior")])
def test_the_compiled_kernel_has_the_enumerated_matrix(name, proposal):
    tiny, truth = problem(name)
    n_runs = 5_000
    for seed, tree in enumerate(truth):
        exact = kernel_row(tiny, tree, proposal)
        drawn = compiled_row(name, as_decisions(tree, TABLES[name][0]), proposal, n_runs, seed)
        assert set(drawn) <= set(exact)
        for key, p in exact.items():
            error = np.sqrt(p * (1.0 - p) / n_runs)
            assert abs(drawn[key] / n_runs - p) < 5.0 * error + 1e-12


def next_tree(rng, features, response, leaf, rules, particles, proposal, tree, options):
    """Decisions of the tree after one draw of particle Gibbs."""
    arguments = (features.codes, response, leaf, rules, particles, PROPOSALS[proposal], NODE, MULTINOMIAL, 0.7, tree)
    log_weight, decisions, begin = run_particles(rng, *arguments, options, np.zeros(4, np.int64))
    m = pick_particle(rng, log_weight)
    return decisions[begin[m] : begin[m + 1]].copy()


def chi_squared_after_a_draw(categorical, proposal, believed_alpha):
    """p value of trees one draw after independent trees of the exact posterior, against its probabilities.

    The table has gaps, ties and levels. ``believed_alpha`` is the chain's; another than the posterior's is a mistake.
    """
    frame, y, n = mixed_frame(), RESPONSES["classes"], 8_000
    family, _ = FAMILIES["classes"]
    starts = ps.trees.exact_tree_evidence(frame, y, family, categorical=categorical, **RULES).sample_trees(n, 3)
    features = make_features(frame, categorical)
    coded, family = family.code(y)
    response, rules = make_response(family, coded), make_rules(RULES["alpha_s"], RULES["beta_s"], None, 2)
    leaf = make_leaf_prior(family, np.array([believed_alpha]), coded)
    rng, options = np.random.default_rng(1), features.scratch(response.n_statistics)
    drawn = Counter()
    for start in starts:
        after = next_tree(rng, features, response, leaf, rules, 4, proposal, start.decisions, options)
        drawn[words(after, features)] += 1
    truth = probabilities(enumerated(frame, y, "classes", categorical))
    assert set(drawn) <= set(truth)
    often = [tree for tree, p in truth.items() if p * n > 5]
    found = np.array([drawn[tree] for tree in often] + [n - sum(drawn[tree] for tree in often)])
    expected = n * np.array([truth[tree] for tree in often])
    return stats.chisquare(found, np.append(expected, n - expected.sum())).pvalue


@pytest.mark.parametrize(("categorical", "proposal"), [("onehot", "optimal"), ("subset", "empirical")])
def test_a_draw_leaves_the_exact_posterior_unchanged(categorical, proposal):
    assert chi_squared_after_a_draw(categorical, proposal, 2.0) > 1e-4
    assert chi_squared_after_a_draw(categorical, proposal, 0.5) < 1e-9


def joint_statistics(n_passes, seed, believed_beta_s=BETA_S):
    """Leaves, depth and missing directions of trees, classes and tree drawn in turn (Geweke's joint test).

    ``believed_beta_s`` is the chain's; another than that of the prior plants a mistake.
    """
    frame = pd.DataFrame({"a": [0.0, 100.0, np.nan, 200.0, 350.0, 500.0, 20.0], "c": list("uvwuvwu")})
    family = ps.leaves.ClassLeaves(0.5, levels=(0, 1))
    features, rules = make_features(frame), make_rules(ALPHA_S, believed_beta_s, None, 2)
    options, rng, tree = features.scratch(2), np.random.default_rng(seed), np.array([[-1, 0, 0, -1]], np.int32)
    prior = make_leaf_prior(family, np.array([0.5]), np.zeros(7))
    start, out = posterior(frame, np.zeros(7, int), [tree], family)._draws, []
    for _ in range(n_passes):
        draws = start.only(tree, [0.5], [ALPHA_S, BETA_S])
        leaf_of = training_leaves(draws, 0)
        y = np.empty(7)
        for leaf in np.unique(leaf_of):
            here = leaf_of == leaf
            y[here] = rng.random(here.sum()) < rng.beta(0.25, 0.25)
        tree = next_tree(rng, features, make_response(family, y), prior, rules, 6, "optimal", tree, options)
        shape = Tree(tree)
        out.append((shape.n_leaves, shape.depth.max(), tree[0, 0] == 0, (tree[:, 3] == 0).sum(), tree[0, 1]))
    return np.array(out, float)


@cache
def prior_statistics():
    """The same of 20,000 trees from the prior: those of a filter whose response says nothing."""
    silent = ps.leaves.ClassLeaves(1.0, levels=(0,))
    frame = pd.DataFrame({"a": [0.0, 100.0, np.nan, 200.0, 350.0, 500.0, 20.0], "c": list("uvwuvwu")})
    settings = {"particles": 20_000, "islands": 1, "proposal": "prior", "alpha_s": ALPHA_S, "beta_s": BETA_S}
    d = draws_of(ps.fit_tree(frame, [0] * 7, silent, random_seed=9, **settings))
    first, x = d.begin[:-1], d.decisions
    sides = np.add.reduceat((x[:, 3] == 0).astype(float), first)
    n_leaves, depth = np.add.reduceat((x[:, 0] < 0).astype(float), first), np.maximum.reduceat(d.depth, first)
    return np.column_stack([n_leaves, depth, x[first, 0] == 0, sides, x[first, 1]])


def test_response_and_tree_drawn_in_turn_have_the_prior():
    """Geweke's joint test. A chain that splits as if beta_s were 0.8 is far away, at 0.5 some 7 standard errors."""
    assert np.abs(standard_errors_from_prior(joint_statistics(2000, 5))).max() < 5.0
    drawn = joint_statistics(2000, 5, believed_beta_s=0.8)
    assert np.abs(standard_errors_from_prior(drawn)).max() > 6.0


def standard_errors_from_prior(drawn):
    """Difference of each statistic's mean from its prior's, in Monte Carlo standard errors at the chain's ESS."""
    import arviz as az

    truth, z = prior_statistics(), []
    for k in range(5):
        ess = float(az.ess(drawn[None, :, k]))
        assert ess > 100
        error = np.sqrt(drawn[:, k].var() / ess + truth[:, k].var() / len(truth))
        z.append((drawn[:, k].mean() - truth[:, k].mean()) / error)
    return np.array(z)
