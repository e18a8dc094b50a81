"""Prometheus: decompositions against single linkage and by hand, leaves against fits, and what it is worth."""

import numpy as np
import pandas as pd
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

import pymc_spn as ps
from pymc_spn.circuits.estimation.assigned_rows import ASSIGNED
from pymc_spn.circuits.structures import circuit_builders
from pymc_spn.circuits.structures.spanning_decompositions import spanning_decompositions

N = 400


def refit(fit, df, **arguments):
    return ps.fit_em(fit.circuit, df, start=(fit.log_weights, fit.leaf_parameters), **arguments)


def density(fit, df):
    return fit.log_density(df).values


@pytest.mark.parametrize("seed", range(5))
def test_decompositions_are_those_of_single_linkage(seed):
    """Parts of a maximum spanning tree without its weakest edges are the clusters of single linkage."""
    strength = np.random.default_rng(seed).random((7, 7))
    strength = strength + strength.T
    distance = strength.max() - strength
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance), "single")
    found = list(spanning_decompositions(strength))
    assert [len(parts) for parts in found] == [2, 3, 4, 5, 6, 7]
    for n, parts in enumerate(found, 2):
        label = fcluster(tree, n, "maxclust")
        assert {frozenset(part) for part in parts} == {
            frozenset(np.flatnonzero(label == k).tolist()) for k in range(1, n + 1)
        }
    assert list(spanning_decompositions(np.zeros((3, 3)))) == [[(0, 2), (1,)], [(0,), (1,), (2,)]]
    assert list(spanning_decompositions(np.zeros((1, 1)))) == []


def correlated(pairs, n, rng):
    """Standard normal columns along a tree, each with its correlation with its parent."""
    x = {pairs[0][0]: rng.normal(size=n)}
    for parent, child, r in pairs:
        x[child] = r * x[parent] + np.sqrt(1.0 - r * r) * rng.normal(size=n)
    return pd.DataFrame(x)[list("abcd")]


def two_trees(seed=0):
    """Two groups of 400 and 600 rows far apart: chains a = b - c = d and d - b - c = a, with strong (=) edges."""
    rng = np.random.default_rng(seed)
    first = correlated([("a", "b", 0.97), ("b", "c", 0.4), ("c", "d", 0.8)], N, rng)
    second = correlated([("d", "b", 0.4), ("b", "c", 0.8), ("c", "a", 0.97)], N + 200, rng) + 20.0
    return pd.concat([first, second], ignore_index=True)


@pytest.mark.parametrize("dependence", ["mutual_information", "rdc"])
def test_each_cluster_has_the_decompositions_of_its_tree_and_shares_their_parts(dependence):
    """The edges go from the weakest to the strongest in each of two chains; nodes are counted by hand."""
    df = two_trees()
    fit = ps.circuits.prometheus(df, max_depth=2, dependence=dependence, random_seed=1)
    circuit = fit.circuit
    of_root = [frozenset("".join(circuit.scope(v)) for v in circuit.children_of(p)) for p in circuit.children_of(0)]
    first = [{"ab", "cd"}, {"ab", "c", "d"}, {"a", "b", "c", "d"}]
    second = [{"abc", "d"}, {"ac", "b", "d"}, {"a", "b", "c", "d"}]
    assert sorted(map(sorted, of_root)) == sorted(map(sorted, first + second))
    # parts of several columns: a sum of two products of single columns; then three products and four leaves a cluster
    assert circuit.n_sum == 1 + 4
    assert circuit.n_product == 4 * 2 + 2 * 3
    assert circuit.n_leaf == 2 * (2 + 2 + 3 + 2) + 2 * 4
    shares = {}
    for log_weight, parts in zip(fit.log_weights[: len(of_root)], of_root, strict=True):
        shares.setdefault(parts, []).append(np.exp(log_weight))
    assert shares[frozenset({"ab", "cd"})] == [pytest.approx(0.4 / 3.0)]
    assert shares[frozenset({"abc", "d"})] == [pytest.approx(0.6 / 3.0)]
    assert sorted(shares[frozenset("abcd")]) == [pytest.approx(0.4 / 3.0), pytest.approx(0.6 / 3.0)]
    # the leaf of d below {abc, d}: the rows of the second group and one row more that is the whole column's average
    (product,) = (v for v, parts in zip(circuit.children_of(0), of_root, strict=True) if parts == {"abc", "d"})
    leaf = next(v for v in circuit.children_of(product) if circuit.scope(v) == ("d",))
    assert np.count_nonzero(circuit.children == leaf) == 3
    x, whole = df["d"].to_numpy()[N:], df["d"].to_numpy()
    mean = (x.sum() + whole.mean()) / (x.size + 1)
    variance = (np.square(x - mean).sum() + whole.var() + (whole.mean() - mean) ** 2) / (x.size + 1)
    own = fit.leaf_parameters["gaussian"][circuit.leaves_of("gaussian").tolist().index(leaf)]
    np.testing.assert_allclose(own, [mean, np.sqrt(variance)], rtol=1e-12)
    assert fit.log_likelihood == pytest.approx(density(fit, df).sum(), abs=1e-9)
    assert fit.objective.tolist() == [fit.log_likelihood] and not fit.converged


def test_what_bounds_the_size():
    df = two_trees()
    independent = ps.circuits.prometheus(df, max_depth=0)
    assert (independent.circuit.n_sum, independent.circuit.n_product, independent.circuit.n_leaf) == (0, 1, 4)
    assert ps.circuits.prometheus(df, min_rows=501).circuit == independent.circuit  # too few rows to cluster
    assert ps.circuits.prometheus(df[["a"]]).circuit.n_nodes == 1
    mixture = ps.circuits.prometheus(df, max_depth=1, n_clusters=3, random_seed=0)
    assert (mixture.circuit.n_sum, mixture.circuit.n_product, mixture.circuit.n_leaf) == (1, 3, 12)
    one = ps.circuits.prometheus(df, max_depth=2, max_decompositions=1, random_seed=0).circuit
    assert sorted(sorted("".join(one.scope(v)) for v in one.children_of(p)) for p in one.children_of(0)) == [
        ["ab", "cd"], ["abc", "d"],
    ]  # fmt: skip
    sizes = [
        ps.circuits.prometheus(df, max_depth=depth, min_rows=20, random_seed=0).circuit.n_edges for depth in (1, 2, 3)
    ]
    assert sizes[0] < sizes[1] < sizes[2]


def test_columns_with_fewer_distinct_rows_than_clusters_keep_their_dependence():
    """Two clusters, ten rows of ones and thirty of zeros, each with one row more at the column's average."""
    on = np.arange(40) % 4 == 0
    fit = ps.circuits.prometheus(pd.DataFrame({"a": on, "b": on}), n_clusters=3, min_rows=5, random_seed=0)
    assert (fit.circuit.n_sum, fit.circuit.n_product) == (1, 2)
    share = (10.0 + 0.5) / 41.0
    one, zero = (10.0 + share) / 11.0, share / 31.0
    apart = 0.25 * one * (1.0 - one) + 0.75 * zero * (1.0 - zero)
    assert np.exp(density(fit, pd.DataFrame({"a": [True], "b": [False]}))) == pytest.approx([apart], rel=1e-12)


def values_of(family, rng, n):
    return {
        "gaussian": lambda: rng.normal(1.0, 2.0, n), "laplace": lambda: rng.laplace(1.0, 2.0, n),
        "log_normal": lambda: rng.lognormal(size=n), "gamma": lambda: rng.gamma(3.0, size=n),
        "exponential": lambda: rng.exponential(2.0, n), "poisson": lambda: rng.poisson(3.0, n).astype(float),
        "geometric": lambda: rng.geometric(0.3, n) - 1.0, "bernoulli": lambda: rng.integers(0, 2, n).astype(float),
        "categorical": lambda: rng.integers(0, 3, n).astype(float), "beta": lambda: rng.beta(2.0, 3.0, n),
        "weibull": lambda: 2.0 * rng.weibull(1.5, n),
    }[family]()  # fmt: skip


def test_leaves_of_rows_are_those_of_em():
    """One leaf a column: a step of EM from anywhere ends there, with gaps. Then two: both are where one would be."""
    rng = np.random.default_rng(0)
    df = pd.DataFrame({family: values_of(family, rng, 60) for family in ASSIGNED})
    df = df.mask(rng.random(df.shape) < 0.2)
    leaves = {family: family for family in ASSIGNED}
    fit = ps.circuits.prometheus(df, leaves, max_depth=0, leaf_prior_rows=2.5)
    other = ps.fit_em(fit.circuit, df, leaf_prior_rows=2.5, restarts=1, random_seed=0)
    for family in ASSIGNED:
        np.testing.assert_allclose(fit.leaf_parameters[family], other.leaf_parameters[family], rtol=1e-9)
    both = ps.circuits.prometheus(df[["gamma"]], {"gamma": ["gamma", "laplace"]}, max_depth=0, leaf_prior_rows=2.5)
    assert both.circuit.n_sum == 1 and np.exp(both.log_weights) == pytest.approx([0.5, 0.5])
    np.testing.assert_array_equal(both.leaf_parameters["gamma"], fit.leaf_parameters["gamma"])


def mixed(n, seed):
    """A hidden class moves numbers, a count and levels; x and y are correlated in it; one cell in eight is missing."""
    rng = np.random.default_rng(seed)
    z, u = rng.integers(0, 3, n), rng.normal(size=n)
    df = pd.DataFrame({
        "x": u + 3.0 * z, "y": u + 0.3 * rng.normal(size=n), "n": rng.poisson(2.0 + 4.0 * z),
        "g": pd.Categorical.from_codes(np.where(rng.random(n) < 0.8, z, rng.integers(0, 3, n)), list("uvw")),
        "t": rng.random(n) < np.where(z == 1, 0.9, 0.2),
    })  # fmt: skip
    return df.mask(rng.random(df.shape) < 0.125).astype({"n": "Int64", "t": "boolean"})


def test_em_from_there_is_ahead_of_independent_columns_on_new_rows():
    """By more than a nat a row: x and y alone share more than that (correlation 0.96 in each class)."""
    train, new = mixed(400, 0), mixed(400, 1)
    start = ps.circuits.prometheus(train, min_rows=40, max_depth=3, random_seed=0)
    assert set(start.circuit.families) == {"gaussian", "poisson", "categorical", "bernoulli"}
    fit = refit(start, train, leaf_prior_rows=3.0)
    independent = refit(ps.circuits.prometheus(train, max_depth=0), train)
    assert fit.log_likelihood > start.log_likelihood
    assert density(fit, new).mean() > density(independent, new).mean() + 1.0
    assert density(start, new).mean() > density(independent, new).mean() + 0.5


@pytest.mark.parametrize("scale", [2.0**600, 2.0**-600])
def test_the_unit_of_a_column_does_not_matter(scale):
    """Powers of two are exact; beyond 1e154 squares overflow, and no warning may leak."""
    rng = np.random.default_rng(0)
    part = 3.0 * (rng.random(200) < 0.5)
    df = pd.DataFrame({"x": part + rng.random(200), "y": part + rng.normal(size=200)})
    leaves = {"x": "laplace", "y": "gaussian"}
    one, other = (
        ps.circuits.prometheus(data, leaves, min_rows=40, max_depth=1, random_seed=0)
        for data in (df, df.assign(x=scale * df["x"]))
    )
    np.testing.assert_array_equal(other.log_weights, one.log_weights)
    np.testing.assert_allclose(other.leaf_parameters["laplace"], scale * one.leaf_parameters["laplace"], rtol=1e-12)
    if scale > 1.0:
        with pytest.raises(ValueError, match=r"column 'x' has mean .* and variance inf"):
            ps.circuits.prometheus(df.assign(x=scale * df["x"]))


def test_one_seed_gives_one_circuit():
    fits = [ps.circuits.prometheus(mixed(200, 0), min_rows=20, random_seed=seed) for seed in (1, 1, 2)]
    assert fits[0].circuit == fits[1].circuit and fits[0].log_likelihood == fits[1].log_likelihood
    for family, own in fits[0].leaf_parameters.items():
        np.testing.assert_array_equal(own, fits[1].leaf_parameters[family])
    assert fits[0].log_likelihood != fits[2].log_likelihood


SMALL = mixed(40, 0)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n_clusters": 1}, ValueError, "n_clusters must be an integer of at least 2, got 1"),
        ({"min_rows": 0}, ValueError, "min_rows must be an integer of at least 1, got 0"),
        ({"max_depth": -1}, ValueError, "max_depth must be an integer of at least 0, got -1"),
        ({"max_decompositions": 0}, ValueError, "max_decompositions must be an integer of at least 1, got 0"),
        ({"dependence": "pearson"}, ValueError, "dependence must be one of .*, got 'pearson'"),
        ({"leaf_prior_rows": 0.0}, ValueError, "leaf_prior_rows must be a positive finite number, got 0.0"),
        ({"kinds": {"zzz": "real"}}, ValueError, "zzz"),
        ({"leaves": ["gaussian"]}, TypeError, "leaves must be a mapping"),
        ({"leaves": {"x": "gaussian"}}, ValueError, "leaves must name families for every column, 'y' is missing"),
        ({"data": SMALL[["x"]], "leaves": {"x": []}}, ValueError, "at least one family for every column, got 0 for"),
        ({"data": SMALL[["x"]], "leaves": {"x": "uniform"}}, ValueError, "must be among .*, got 'uniform' for 'x'"),
        ({"data": SMALL[["x"]], "leaves": {"x": ["gaussian"] * 2}}, ValueError, "each family of a column once, got"),
        (
            {"data": pd.DataFrame({"x": [1.0, 0.5, -2.5]}, index=list("pqr")), "leaves": {"x": "log_normal"}},
            ValueError, r"data: column 'x' has the value -2.5 at row 'r', which its leaves \(log_normal\) cannot take",
        ),
        ({"data": pd.DataFrame({"x": [1.0, 2.5], "y": [3.5, 3.5]})}, ValueError, "data: column 'y' has mean 3.5 and"),
    ],
)  # fmt: skip
def test_what_it_refuses(change, error, message):
    with pytest.raises(error, match=message):
        ps.circuits.prometheus(**{"data": SMALL, **change})


def test_too_many_edges_are_refused(monkeypatch):
    monkeypatch.setattr(circuit_builders, "MAX_EDGES", 20)
    with pytest.raises(ValueError, match="more than 20 edges"):
        ps.circuits.prometheus(SMALL, min_rows=5, random_seed=0)
