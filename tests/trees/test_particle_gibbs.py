"""The conditional filter's transition matrix: by enumeration, and of the compiled kernel."""

from collections import Counter
from functools import cache

import numpy as np
import pandas as pd
import pytest

import pymc_spn as ps
from pymc_spn.trees.features import make_features, make_rules
from pymc_spn.trees.fit import PROPOSALS
from pymc_spn.trees.leaves import make_leaf_prior, make_response
from pymc_spn.trees.particle_kernels import NODE, pick_particle, run_particles
from pymc_spn.trees.resampling import MULTINOMIAL
from tests import reference_trees as ref
from tests.reference_particle_gibbs import Tiny, kernel_row
from tests.trees.small_trees import draws_of, words

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
    leaf = make_leaf_prior("classes", np.array([0.7]), 2, len(y), 0.0)
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


def default_and_full(default, names, others):
    """All pairs; those not in ``default`` belong to the long form, since each compiles kernels of its own."""
    marks = {True: (), False: pytest.mark.full}
    return [pytest.param(a, b, marks=marks[(a, b) in default]) for a in names for b in others]


@pytest.mark.parametrize(
    ("name", "proposal"),
    default_and_full([("three rows", "optimal")], ["three rows", "two features"], ["prior", "optimal"]),
)
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


@pytest.mark.parametrize(
    ("categorical", "step"),
    default_and_full(
        [("onehot", "particle_gibbs"), ("onehot", "chipman")], ["onehot", "subset"], ["particle_gibbs", "chipman"]
    ),
)
def test_long_chains_have_the_exact_posterior(step, categorical):
    """Gaps, ties and levels; every fifth of 15,000 sweeps against as many independent draws.

    A chain whose change move forgets the density of the rules is 4.0 to 4.7 times further away than independent draws.
    """
    from pymc_spn.trees.chipman_kernels import chipman_sweep

    frame = pd.DataFrame(
        {"a": [0.0, 100.0, np.nan, 200.0, np.nan, 500.0], "b": [1.0, 1.0, 4.0, 2.0, 0.0, 3.0], "c": list("uvwuvw")}
    )
    family, n = ps.leaves.ClassLeaves(1.0), 3000
    coded, family = family.code([0, 1, 2, 1, 0, 2])
    exact = ps.trees.exact_tree_evidence(
        frame, [0, 1, 2, 1, 0, 2], family, alpha_s=0.9, beta_s=0.7, categorical=categorical
    )
    features = make_features(frame, categorical)
    response = make_response(family, coded)
    leaf, rules = make_leaf_prior("classes", np.array([1.0]), 3, 6, 0.0), make_rules(0.9, 0.7, None, 2)
    rng, counts, options = np.random.default_rng(1), Counter(), features.scratch(3)
    tree = np.array([[-1, 0, 0, -1]], np.int32)
    for s in range(5 * n):
        if step == "chipman":
            tree, *_ = chipman_sweep(rng, features.codes, response, leaf, rules, tree, 5, 1.0)
        else:
            log_weight, decisions, begin = run_particles(
                rng,
                features.codes,
                response,
                leaf,
                rules,
                8,
                PROPOSALS["empirical" if categorical == "subset" else "optimal"],
                NODE,
                MULTINOMIAL,
                0.5,
                tree,
                options,
                np.zeros(4, np.int64),
            )
            m = pick_particle(rng, log_weight)
            tree = decisions[begin[m] : begin[m + 1]].copy()
        if s % 5 == 4:
            counts[tree[0].tobytes(), len(tree)] += 1
    draws = [t.decisions for t in exact.sample_trees(40_000, 3)]
    truth = Counter((d[0].tobytes(), len(d)) for d in draws)
    far = distance(counts, n, truth, len(draws))
    floor = []
    for k in range(5):
        some = draws[k * n : (k + 1) * n]
        floor.append(distance(Counter((d[0].tobytes(), len(d)) for d in some), n, truth, len(draws)))
    assert far < 2.0 * np.mean(floor)


def distance(a, n, b, m):
    return 0.5 * sum(abs(a[k] / n - b[k] / m) for k in {*a, *b})


def joint_statistics(step, family_name, n_passes, seed, believed_beta_s=BETA_S):
    """Leaves, depth and missing directions of trees, response and tree drawn in turn (Geweke's joint test).

    ``believed_beta_s`` is the chain's; another than that of the prior plants a mistake.
    """
    from pymc_spn.trees.chipman_kernels import chipman_sweep
    from pymc_spn.trees.draws import TreeDraws
    from pymc_spn.trees.leaves import family_to_json, numbers_of_family
    from pymc_spn.trees.predictives import training_leaves
    from pymc_spn.trees.tree import Tree

    frame = pd.DataFrame({"a": [0.0, 100.0, np.nan, 200.0, 350.0, 500.0, 20.0], "c": list("uvwuvwu")})
    family = (
        ps.leaves.ClassLeaves(0.5, levels=(0, 1))
        if family_name == "classes"
        else ps.leaves.NormalLeaves(0.0, 0.3, 1.5, 1.0)
    )
    features, rules = make_features(frame), make_rules(ALPHA_S, believed_beta_s, None, 2)
    numbers, rng, tree = numbers_of_family(family), np.random.default_rng(seed), np.array([[-1, 0, 0, -1]], np.int32)
    out = []
    for _ in range(n_passes):
        draws = TreeDraws(
            name="tree",
            features=features,
            y=np.zeros(7),
            family=family_to_json(family),
            decisions=tree,
            begin=np.array([0, len(tree)]),
            weights=np.ones(1),
            group=np.zeros(1, int),
            draw=np.zeros(1, int),
            parameters=numbers[None],
            rules=np.array([[ALPHA_S, BETA_S]]),
            max_depth=-1,
            min_size=2,
            notes={},
        )
        leaf_of = training_leaves(draws, 0)
        y = np.empty(7)
        for leaf in np.unique(leaf_of):
            here = leaf_of == leaf
            if family_name == "classes":
                y[here] = rng.random(here.sum()) < rng.beta(0.25, 0.25)
            else:
                variance = 1.0 / rng.gamma(1.5, 1.0)
                y[here] = rng.normal(rng.normal(0.0, np.sqrt(variance / 0.3)), np.sqrt(variance), here.sum())
        response = make_response(family, y)
        centre = float(y.mean()) if family_name == "real" else 0.0
        prior = make_leaf_prior(family.family, numbers, response.n_statistics, 7, centre)
        if step == "chipman":
            tree, *_ = chipman_sweep(rng, features.codes, response, prior, rules, tree, 10, 1.0)
        else:
            options = features.scratch(response.n_statistics)
            arguments = (features.codes, response, prior, rules, 6, PROPOSALS[step], NODE, MULTINOMIAL, 0.7, tree)
            log_weight, decisions, begin = run_particles(rng, *arguments, options, np.zeros(4, np.int64))
            m = pick_particle(rng, log_weight)
            tree = decisions[begin[m] : begin[m + 1]].copy()
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


@pytest.mark.parametrize(
    ("family", "step"),
    default_and_full(
        [("classes", "chipman"), ("classes", "optimal")],
        ["classes", "real"],
        ["chipman", "optimal", "prior", "empirical"],
    ),
)
def test_response_and_tree_drawn_in_turn_have_the_prior(step, family):
    """Geweke's joint test."""
    assert np.abs(standard_errors_from_prior(joint_statistics(step, family, 2000, 5))).max() < 5.0


@pytest.mark.parametrize("step", ["chipman", "optimal"])
def test_the_joint_test_notices_a_prior_of_other_depth(step):
    """A chain that splits as if beta_s were 0.8 is 13 and 19 standard errors away; at 0.5 it is 4 and 7."""
    drawn = joint_statistics(step, "classes", 2000, 5, believed_beta_s=0.8)
    assert np.abs(standard_errors_from_prior(drawn)).max() > 5.0


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
