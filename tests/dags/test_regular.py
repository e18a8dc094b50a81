"""The paper's regular network: determinism, closed-form weights, number of orders, oracles, other forms."""

from itertools import permutations

import numpy as np
import pytest
import reference_dags as brute

import pymc_spn as ps
from pymc_spn.dags.regular_tree import RegularTree, measure
from tests.dags.score_tables import gaussian_table, rough_scores

ORACLES = ["random", "order_mcmc", "partition_mcmc"]


def order_weight(scores, order):
    """Log of the summed weight of all graphs that fit an order, parent set by parent set."""
    total = 0.0
    for p, i in enumerate(order):
        allowed = sum(1 << int(j) for j in order[:p])
        logs = [
            value
            for m, value in enumerate(scores.of(scores.names[i]))
            if not sum(1 << scores.position(x) for x in scores.parents_of_index(i, m)) & ~allowed
        ]
        total += np.logaddexp.reduce(logs)
    return total


def orders_of_tree(tree, t=0):
    """All orders below a node, by walking the tree."""
    if tree.ptr[t] == tree.ptr[t + 1]:
        return [(int(tree.scope[t]).bit_length() - 1,)]
    return [
        a + b
        for p in range(tree.ptr[t], tree.ptr[t + 1])
        for a in orders_of_tree(tree, 2 * p + 1)
        for b in orders_of_tree(tree, 2 * p + 2)
    ]


@pytest.fixture(scope="module")
def six():
    scores = ps.LocalScores.from_data(gaussian_table(6, n=30, seed=3))
    return scores, ps.OrderSPN.regular(scores, [5, 3, 2], random_seed=1)


def test_mass_weights_and_orders_against_enumeration(six):
    """Log mass is that of the orders, each counted once; closed-form weights give the posterior on the support."""
    scores, post = six
    orders = orders_of_tree(post.tree)
    assert len(set(orders)) == len(orders) == post.tree.n_orders()
    weights = np.array([order_weight(scores, o) for o in orders])
    total = np.logaddexp.reduce(weights)
    assert float(post.log_mass) == pytest.approx(total, abs=1e-10)
    names = scores.names
    for order, weight in list(zip(orders, weights, strict=True))[::17]:
        found = float(post.order_probability([names[i] for i in order]))
        assert found == pytest.approx(np.exp(weight - total), rel=1e-9)
    everything = np.array(list(permutations(range(6))))
    inside = post.lattice.holds(everything)
    assert {tuple(o) for o in everything[inside]} == set(orders)
    assert not inside.all()


def test_edges_against_enumeration_of_the_support(six):
    scores, post = six
    expected, total = np.zeros((6, 6)), 0.0
    for order in orders_of_tree(post.tree):
        weight = np.exp(order_weight(scores, order) - float(post.log_mass))
        total += weight
        for p, i in enumerate(order):
            allowed = sum(1 << int(j) for j in order[:p])
            logs = scores.of(scores.names[i])
            masks = [sum(1 << scores.position(x) for x in scores.parents_of_index(i, m)) for m in range(logs.size)]
            fits = np.array([not m & ~allowed for m in masks])
            share = np.where(fits, np.exp(logs - logs[fits].max()), 0.0)
            share /= share.sum()
            for j in range(6):
                expected[j, i] += weight * share[[bool(m >> j & 1) for m in masks]].sum()
    assert total == pytest.approx(1.0, abs=1e-10)
    np.testing.assert_allclose(post.edge_probabilities(), expected, atol=1e-10)


def test_queries_agree_with_draws(six):
    """Sampling, conditioning and effects run on the tree as they do on a lattice."""
    scores, post = six
    graphs = post.sample(4000, random_seed=2).values
    edges = post.edge_probabilities().values
    assert np.abs(graphs.mean(axis=0) - edges).max() < 5 * 0.5 / np.sqrt(4000)
    j, i = np.unravel_index(np.argmin(np.abs(edges - 0.5)), edges.shape)
    edge = (scores.names[j], scores.names[i])
    given = post.condition(present=[edge])
    assert float(post.probability(present=[edge])) == pytest.approx(edges[j, i], abs=1e-10)
    assert float(given.edge_probabilities().sel(parent=edge[0], child=edge[1])) == pytest.approx(1.0)
    assert np.isfinite(post.causal_effects()).all()


# ---- determinism
def tree_of(names, splits_of_root, halves):
    """Three-level tree by hand: splits of the root, and one split of each of their parts with two variables."""
    splits, ptr = list(splits_of_root), [0, len(splits_of_root)]
    level = []
    whole = (1 << len(names)) - 1
    for s in splits_of_root:
        level += [s, whole & ~s]
    waiting = level
    while waiting:
        following = []
        for scope in waiting:
            if scope.bit_count() > 1:
                half = halves(scope)
                splits.append(half)
                following += [half, scope & ~half]
                ptr.append(ptr[-1] + 1)
            else:
                ptr.append(ptr[-1])
        waiting = following
    return RegularTree(names, splits, ptr)


def lowest(scope):
    return scope & -scope


NAMES = [f"v{i}" for i in range(6)]


def test_a_split_that_occurs_twice_is_refused():
    with pytest.raises(ValueError, match=r"node 0 has the split \{v0, v1, v2\} twice: its orders could count twice"):
        tree_of(NAMES, [0b000111, 0b111000, 0b000111], lowest)


def test_splits_must_be_halves():
    """{0}, {0,1}, {3,4,5} would over-count."""
    with pytest.raises(ValueError, match=r"node 0 has the split \{v0\} which is no half of it"):
        tree_of(NAMES, [0b000001, 0b000011, 0b111000], lowest)


def test_the_planted_mistake_would_over_count(six, monkeypatch):
    """Without the check, the value of a network with a nested split is above the mass of its orders."""
    scores, _ = six
    monkeypatch.setattr(RegularTree, "check_deterministic", lambda self: None)
    nested = tree_of(scores.names, [0b000001, 0b000011, 0b111000], lowest)
    orders = set(orders_of_tree(nested))
    true = np.logaddexp.reduce([order_weight(scores, o) for o in orders])
    assert float(ps.OrderSPN(scores, nested.paths, "regular").log_mass) > true + 1e-6
    assert len(orders) < nested.n_orders()


def test_arrays_that_are_no_tree_are_refused():
    good = tree_of(NAMES, [0b000111], lowest)
    with pytest.raises(ValueError, match=r"node \d+ orders .* and has 0 splits"):
        RegularTree((*NAMES, "v6"), good.splits, good.ptr)
    with pytest.raises(ValueError, match=r"ptr must rise from 0 to 5, the number of splits, in 12 entries"):
        RegularTree(tuple(NAMES), good.splits, good.ptr[:-1])
    for wrong in (0, 0b111111, 0b1000000):
        with pytest.raises(ValueError, match=r"split \d must be a part of what its node orders, got"):
            RegularTree(tuple(NAMES), [wrong, *good.splits[1:]], good.ptr)


# ---- sizes
@pytest.mark.parametrize(("d", "factors"), [(4, [3, 2]), (8, [7, 4, 2]), (8, [70, 6, 1]), (16, [4, 3, 6, 2])])
@pytest.mark.parametrize("oracle", ORACLES)
def test_proposition_six(d, factors, oracle):
    """Orders: product of K_j^(2^j). Edges: sum over levels of (2^i + 2^(i-1)) times the product of earlier factors."""
    scores = ps.LocalScores.from_data(gaussian_table(d, seed=d), max_candidates=6)
    tree = ps.OrderSPN.regular(scores, factors, oracle=oracle, random_seed=3).tree
    expected = 1
    for j, k in enumerate(factors):
        expected *= k ** (2**j)
    assert tree.n_orders() == expected
    n_edges = sum((2**i + 2 ** (i - 1)) * int(np.prod(factors[:i])) for i in range(1, len(factors) + 1))
    assert 3 * tree.splits.size == n_edges
    sizes = np.bitwise_count(tree.scope.view(np.uint64))
    assert (sizes[1::2] == sizes[2::2]).all()


def test_sizes_that_are_no_power_of_two():
    scores = ps.LocalScores.from_data(gaussian_table(11, seed=1), max_candidates=5)
    tree = ps.OrderSPN.regular(scores, [4, 2, 2, 1], random_seed=3).tree
    sizes = np.bitwise_count(tree.scope.view(np.uint64)).astype(int)
    assert set(sizes[2::2] - sizes[1::2]) == {0, 1}
    assert tree.n_orders() == len(set(orders_of_tree(tree)))
    drawn = ps.OrderSPN(scores, tree.paths, "regular").sample(50, random_seed=1)
    assert all(brute.is_acyclic(g) for g in drawn.values)


@pytest.mark.parametrize(("d", "factors"), [(16, [64, 16, 6, 2]), (32, [32, 8, 2, 6, 2])])
def test_the_papers_factors_run(d, factors):
    scores = ps.LocalScores.from_data(gaussian_table(d, n=100, seed=2), max_candidates=8)
    post = ps.OrderSPN.regular(scores, factors, random_seed=1)
    expected = 1
    for j, k in enumerate(factors):
        expected *= k ** (2**j)
    assert post.tree.n_orders() == expected
    assert post.edge_probabilities().values.max() <= 1 + 1e-12


def test_all_splits_make_it_exact():
    scores = rough_scores(4)
    exact = ps.OrderSPN.exact(scores)
    for oracle in ORACLES:
        post = ps.OrderSPN.regular(scores, [6, 2], oracle=oracle, random_seed=0)
        assert float(post.log_mass) == pytest.approx(float(exact.log_mass), abs=1e-10)
        np.testing.assert_allclose(post.edge_probabilities(), exact.edge_probabilities(), atol=1e-10)
    best = ps.OrderSPN.regular(scores, [3, 2], random_seed=0)
    others = [ps.OrderSPN.regular(scores, [3, 2], oracle="random", random_seed=s) for s in range(5)]
    assert float(best.log_mass) >= max(float(o.log_mass) for o in others) - 1e-12


# ---- oracles
def test_oracles_find_more_than_chance():
    scores = ps.LocalScores.from_data(gaussian_table(12, n=80, seed=5))
    mass = {
        o: np.mean([float(ps.OrderSPN.regular(scores, [16, 6, 3, 2], o, s).log_mass) for s in range(3)])
        for o in ORACLES
    }
    assert mass["order_mcmc"] > mass["random"] + 3 and mass["partition_mcmc"] > mass["random"] + 3


@pytest.mark.parametrize("oracle", ORACLES)
def test_seeds_decide(oracle):
    scores = ps.LocalScores.from_data(gaussian_table(8, seed=5))
    one, same, other = (ps.OrderSPN.regular(scores, [5, 2, 1], oracle, s).tree for s in (1, 1, 2))
    np.testing.assert_array_equal(one.scope, same.scope)
    assert not np.array_equal(one.scope, other.scope)


@pytest.mark.parametrize("oracle", ORACLES)
def test_knowledge_is_kept(oracle):
    """Every order of the tree keeps tiers and required edges; fewer splits where knowledge leaves fewer."""
    scores = ps.LocalScores.from_data(
        gaussian_table(6, seed=4), tiers=[["v0", "v3", "v4"], ["v1", "v2", "v5"]], required=[("v3", "v0")]
    )
    post = ps.OrderSPN.regular(scores, [6, 3, 2], oracle, 0)
    assert np.diff(post.tree.ptr)[0] == 1  # the tiers leave one split
    for order in orders_of_tree(post.tree):
        assert set(order[:3]) == {0, 3, 4} and order.index(3) < order.index(0)
    exact = ps.OrderSPN.exact(scores)
    assert float(post.log_mass) == pytest.approx(float(exact.log_mass), abs=1e-10)


def test_saved_and_loaded(six, tmp_path):
    _, post = six
    post.save(tmp_path / "post.nc")
    again = ps.OrderSPN.load(tmp_path / "post.nc")
    assert again.kind == "regular"
    np.testing.assert_array_equal(again.tree.scope, post.tree.scope)
    assert again.edge_probabilities().equals(post.edge_probabilities())
    assert again.tree.n_orders() == post.tree.n_orders()


def coverage_of(post):
    return tuple(float(post.edge_probabilities().attrs[name]) for name in ("coverage", "coverage_se"))


def test_supports_know_their_coverage(tmp_path, monkeypatch):
    """Against the mass of the enumerated orders inside. Power: counting orders with some prefix inside is seen."""
    scores = ps.LocalScores.from_data(brute.table(5))
    orders = np.array(list(permutations(range(5))))
    p = np.exp([order_weight(scores, order) for order in orders])
    p /= p.sum()
    with pytest.warns(ps.CoverageWarning, match=r"holds 0\.\d+ ± 0\.\d+ of the posterior over orders.*ps\.DagOrder"):
        post = ps.OrderSPN.regular(scores, [2, 2, 1], random_seed=0)
    exact = ps.OrderSPN.exact(scores)
    mass = p[post._holds(orders)].sum()
    assert mass == pytest.approx(np.exp(float(post.log_mass - exact.log_mass)), rel=1e-9) and 0.02 < mass < 0.5
    share, error = coverage_of(post)
    assert abs(share - mass) < 4.0 * error < 0.2
    assert post.log_mass.attrs["exactness"] == "exact on the support" and exact.log_mass.attrs["exactness"] == "exact"
    assert "coverage" not in exact.log_mass.attrs
    words = f"coverage {share:.3f} ± {error:.3f}"
    conditioned = post.condition(present=[("a", "b")])
    conditioned.save(tmp_path / "post.nc")
    for other in (conditioned, ps.load(tmp_path / "post.nc")):
        assert f"{words} before the condition" in repr(other)
    assert f"{words})" in repr(post) and "coverage" not in repr(exact)
    part = np.isin(np.cumsum(1 << orders, axis=1), post.lattice.masks)[:, 1:4].any(axis=1)
    monkeypatch.setattr(post, "_holds", lambda drawn: np.array([part[(orders == o).all(axis=1)][0] for o in drawn]))
    share, error = coverage_of(measure(post, np.random.default_rng(0)))
    assert abs(share - mass) > 4.0 * error


# ---- refusals
@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"oracle": "gadget"}, ValueError, "oracle must be one of .*'order_mcmc'.*, got 'gadget'"),
        ({"expansion_factors": [3]}, ValueError, "one entry for each of the 2 levels of 4 variables, got"),
        ({"expansion_factors": [3, 0]}, ValueError, r"expansion_factors\[1\] must be an integer of at least 1, got 0"),
        ({"expansion_factors": [3, 1.5]}, ValueError, r"expansion_factors\[1\] must be an integer of at least 1"),
        ({"expansion_factors": "3, 2"}, TypeError, "must be a sequence of integers"),
        ({"expansion_factors": [10**4, 10**4]}, ValueError, "nodes, more than 50,000,000; use smaller factors"),
    ],
)
def test_bad_arguments_are_refused(change, error, sentence):
    with pytest.raises(error, match=sentence):
        ps.OrderSPN.regular(**{"scores": rough_scores(4), "expansion_factors": [3, 2]} | change)


def test_others_have_no_tree():
    with pytest.raises(ValueError, match=r"only OrderSPN.regular has a tree; this one is of kind 'exact'"):
        _ = ps.OrderSPN.exact(rough_scores(4)).tree
