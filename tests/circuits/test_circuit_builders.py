"""Random tensorised networks and hidden Chow-Liu trees: their shape by hand, their mass by enumeration."""

import itertools
import math

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pymc_spn as ps
from pymc_spn.circuits.structures import circuit_builders
from tests.shared_circuits import coded, random_parameters, reference_log_density

NAMES = ["a", "b", "c", "d"]
BITS = dict.fromkeys(NAMES, "bernoulli")


def test_a_random_network_has_the_nodes_of_the_paper():
    """One division of two columns: 2 x 3 leaves, 9 products, 1 root; with two repetitions the same, since the region
    graph is a set."""
    for repetitions in (1, 2):
        for seed in range(6):  # halves in both orders
            leaves = {"a": "gaussian", "b": "poisson"}
            circuit = ps.circuits.rat_spn(
                ["a", "b"], leaves, depth=5, repetitions=repetitions, n_leaves=3, random_seed=seed
            )
            assert (circuit.n_sum, circuit.n_product, circuit.n_leaf) == (1, 9, 6)
    circuit = ps.circuits.rat_spn(NAMES, BITS, depth=1, repetitions=1, n_leaves=3, random_seed=0)
    assert (circuit.n_sum, circuit.n_product, circuit.n_leaf) == (1, 9 + 2 * 3, 2 * 2 * 3)
    circuit = ps.circuits.rat_spn(NAMES, BITS, depth=2, repetitions=1, n_sums=2, n_leaves=3, random_seed=0)
    assert (circuit.n_sum, circuit.n_product, circuit.n_leaf) == (1 + 2 * 2, 4 + 2 * 9, 4 * 3)


@pytest.mark.parametrize(("n_leaf", "n_product"), [(12, 3), (4, 1)])
def test_without_divisions_it_is_a_mixture(n_leaf, n_product):
    circuit = ps.circuits.rat_spn(NAMES, BITS, depth=0, n_leaves=n_product)
    assert (circuit.n_sum, circuit.n_product, circuit.n_leaf) == (1, n_product, n_leaf)
    assert ps.circuits.rat_spn(["a"], {"a": "gaussian"}, n_leaves=3).n_leaf == 3


@given(st.integers(0, 10_000))
def test_every_random_network_is_a_distribution(seed):
    rng = np.random.default_rng(seed)
    sizes = {"depth": int(rng.integers(0, 4)), "repetitions": int(rng.integers(1, 4))}
    circuit = ps.circuits.rat_spn(
        NAMES, BITS, **sizes, n_sums=int(rng.integers(1, 4)), n_leaves=int(rng.integers(1, 4)), random_seed=seed
    )
    log_weights, parameters = random_parameters(circuit, rng)
    cells = np.array(list(itertools.product((0.0, 1.0), repeat=4)))
    logs = circuit.with_parameters(log_weights, parameters).log_density(cells).values
    assert math.fsum(np.exp(logs)) == pytest.approx(1.0, abs=1e-12)
    assert logs[5] == pytest.approx(reference_log_density(circuit, cells[5], log_weights, parameters), abs=1e-12)


def test_one_seed_gives_one_network_and_families_take_turns():
    made = [
        ps.circuits.rat_spn(NAMES, {n: ["gaussian", "log_normal"] for n in NAMES}, random_seed=s) for s in (1, 1, 2)
    ]
    assert made[0] == made[1] and made[0] != made[2]
    assert made[0].leaves_of("gaussian").size == made[0].leaves_of("log_normal").size


def chain(n, rng):
    """a - b - c - d - e, each a noisy copy of the one before."""
    x = [rng.integers(0, 2, n)]
    for _ in range(4):
        x.append(np.where(rng.random(n) < 0.1, 1 - x[-1], x[-1]))
    return pd.DataFrame(dict(zip("cabed", x, strict=True))).astype(bool)


def test_the_hidden_tree_follows_the_dependence_and_sums_its_states_out():
    df = chain(500, np.random.default_rng(0))
    circuit = ps.circuits.hidden_chow_liu_tree(df, 3)
    assert (circuit.n_sum, circuit.n_leaf) == (1 + 4 * 3, 15)
    root = circuit.children_of(0)
    assert all(circuit.scope(v) == tuple("cabed") for v in root)
    parts = sorted(circuit.scope(int(c)) for c in circuit.children_of(root[0]))
    assert parts == [("b",), ("c", "a"), ("e", "d")]  # the centre of the chain c a b e d is b
    rng = np.random.default_rng(1)
    log_weights, parameters = random_parameters(circuit, rng)
    cells = np.array(list(itertools.product((0.0, 1.0), repeat=5)))
    logs = circuit.with_parameters(log_weights, parameters).log_density(cells).values
    assert math.fsum(np.exp(logs)) == pytest.approx(1.0, abs=1e-12)
    assert logs[9] == pytest.approx(reference_log_density(circuit, cells[9], log_weights, parameters), abs=1e-12)


def test_the_hidden_tree_finds_more_than_independent_columns_and_needs_its_states():
    """2,000 rows of the chain, of which the tree with two states holds the truth (9 parameters of 31 of the table).

    Twice the number of rows times the distance from the table of shares is then chi-squared with 22 degrees of
    freedom: 0.0055 nats a row, five standard deviations more are 0.014.
    """
    df = chain(2_000, np.random.default_rng(3))
    logs = {}
    for n_states in (1, 2):
        circuit = ps.circuits.hidden_chow_liu_tree(df, n_states)
        fit = ps.fit_em(circuit, df, random_seed=0, max_steps=2_000)
        logs[n_states] = fit.log_likelihood / len(df)
    shares = df.value_counts(normalize=True).to_numpy()
    table = (shares * np.log(shares)).sum()
    assert logs[1] == pytest.approx(-sum(binary_entropy(df[c]) for c in df), abs=1e-3)
    assert table >= logs[2] > table - 0.014


def binary_entropy(column):
    p = column.mean()
    return -(p * math.log(p) + (1 - p) * math.log(1 - p))


def test_columns_of_a_table_choose_their_leaves_and_gaps_are_left_out_pair_by_pair():
    rng = np.random.default_rng(0)
    df = pd.DataFrame(
        {"r": rng.normal(size=40), "n": rng.poisson(3, 40), "g": rng.choice(list("xyz"), 40), "t": rng.random(40) < 0.5}
    )
    df.loc[[1, 7], "r"] = np.nan
    circuit = ps.circuits.hidden_chow_liu_tree(df, 2, dependence="rdc", random_seed=1)
    assert set(circuit.families) == {"gaussian", "poisson", "categorical", "bernoulli"}
    fit = ps.fit_em(circuit, df, random_seed=1)
    assert np.isfinite(fit.log_likelihood)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"depth": -1}, ValueError, "depth must be an integer of at least 0, got -1"),
        ({"n_sums": 1.5}, ValueError, "n_sums must be an integer of at least 1, got 1.5"),
        ({"leaves": None}, ValueError, "leaves must be given where columns are names only, as 'a' is"),
        ({"leaves": ["gaussian"]}, TypeError, "leaves must be a mapping"),
        ({"leaves": {**BITS, "z": "gaussian"}}, ValueError, "'z' is not a column"),
        ({"leaves": {n: "gaussian" for n in "abc"}}, ValueError, "'d' is missing"),
        ({"leaves": {**BITS, "a": []}}, ValueError, "at most n_leaves=4, got 0 for 'a'"),
        ({"leaves": {**BITS, "a": ["poisson"] * 5}}, ValueError, "at most n_leaves=4, got 5 for 'a'"),
        ({"leaves": {**BITS, "a": None}}, TypeError, "a family or a list of them for every column, got None for 'a'"),
        ({"leaves": {**BITS, "a": [["gaussian"]]}}, TypeError, "got .*'gaussian'.* for 'a'"),
        ({"leaves": {**BITS, "a": "cauchy"}}, ValueError, "leaves must name families among .* 'cauchy' for 'a'"),
        ({"columns": []}, ValueError, "columns must hold at least one column"),
    ],
)
def test_bad_arguments_of_random_networks_are_named(change, error, message):
    with pytest.raises(error, match=message):
        ps.circuits.rat_spn(**{"columns": NAMES, "leaves": BITS, **change})


def test_bad_arguments_of_hidden_trees_are_named(monkeypatch):
    df = chain(20, np.random.default_rng(0))
    with pytest.raises(ValueError, match="n_states must be an integer of at least 1, got 0"):
        ps.circuits.hidden_chow_liu_tree(df, 0)
    for dependence in ("pearson", ["rdc"]):
        with pytest.raises(ValueError, match="dependence must be one of"):
            ps.circuits.hidden_chow_liu_tree(df, 2, dependence=dependence)
    with pytest.raises(ValueError, match="zzz"):
        ps.circuits.hidden_chow_liu_tree(ps.Table.from_frame(df), 2, kinds={"zzz": "real"})
    monkeypatch.setattr(circuit_builders, "MAX_EDGES", 20)
    with pytest.raises(ValueError, match="more than 20 edges"):
        ps.circuits.hidden_chow_liu_tree(df, 4)


def levels(rng, n):
    """a, c and d, of three, four and two levels, each a noisy copy of b, which has two."""
    b = rng.integers(0, 2, n)
    a = np.where(rng.random(n) < 0.7, b, rng.integers(0, 3, n))
    c = np.where(rng.random(n) < 0.8, 3 * b, rng.integers(0, 4, n))
    d = np.where(rng.random(n) < 0.5, b, rng.integers(0, 2, n))
    return pd.DataFrame({"a": pd.Categorical.from_codes(a, list("xyz")), "b": b.astype(bool),
                         "c": pd.Categorical.from_codes(c, list("pqrs")), "d": d.astype(bool)})  # fmt: skip


def test_a_chow_liu_tree_is_its_conditional_shares():
    """Density by multiplying shares that pandas counts, with the prior's rows added by hand."""
    df = levels(np.random.default_rng(0), 300)
    fit = ps.circuits.chow_liu_tree(df, prior_rows=2.0)
    values = ps.Table.from_frame(df).values
    rows = np.array(list(itertools.product(range(3), range(2), range(4), range(2))), float)
    logs = fit.log_density(coded(fit.circuit, rows)).values
    assert math.fsum(np.exp(logs)) == pytest.approx(1.0, abs=1e-12)
    n_levels = (3, 2, 4, 2)
    whole = [(np.bincount(values[:, d].astype(int), minlength=k) + 2.0 / k) / 302.0 for d, k in enumerate(n_levels)]

    def given(child, parent):
        counts = pd.crosstab(values[:, parent], values[:, child]).to_numpy()
        return (counts + 2.0 * whole[child]) / (counts.sum(axis=1, keepdims=True) + 2.0)

    a, b, c, d = rows.astype(int).T
    expected = np.log(whole[1][b] * given(0, 1)[b, a] * given(2, 1)[b, c] * given(3, 1)[b, d])
    np.testing.assert_allclose(logs, expected, atol=1e-12)
    assert fit.log_likelihood == pytest.approx(fit.log_density(df).values.sum())
    best = fit.mpe()
    assert best.certified and float(best.log_density) == pytest.approx(logs.max(), abs=1e-12)


def test_no_other_tree_is_closer_to_the_table():
    """Without a prior to speak of, against all sixteen trees of four columns."""
    df = levels(np.random.default_rng(1), 400)
    codes = ps.Table.from_frame(df).values.astype(int)
    n = len(df)

    def information(d, e):
        joint = pd.crosstab(codes[:, d], codes[:, e]).to_numpy() / n
        outer = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
        return float((joint[joint > 0] * np.log(joint[joint > 0] / outer[joint > 0])).sum())

    entropies = sum(float(-(p * np.log(p)).sum()) for d in range(4) for p in [np.bincount(codes[:, d]) / n])
    pairs = list(itertools.combinations(range(4), 2))
    trees = [t for t in itertools.combinations(pairs, 3) if len({v for e in t for v in e}) == 4]
    trees = [t for t in trees if nx.is_tree(nx.Graph(t))]
    assert len(trees) == 16
    best = max(sum(information(*e) for e in t) for t in trees) - entropies
    found = ps.circuits.chow_liu_tree(df, prior_rows=1e-9).log_likelihood / n
    assert found == pytest.approx(best, abs=1e-9)


def test_a_chow_liu_tree_of_a_table_with_gaps_is_a_start_for_em():
    df = levels(np.random.default_rng(2), 200)
    df = df.mask(np.random.default_rng(3).random(df.shape) < 0.2)
    df["b"], df["d"] = df["b"].astype("boolean"), df["d"].astype("boolean")
    fit = ps.circuits.chow_liu_tree(df)
    better = ps.fit_em(
        fit.circuit, df, leaf_prior_rows=0.0, edge_prior_rows=0.0, start=(fit.log_weights, fit.leaf_parameters)
    )
    assert better.log_likelihood > fit.log_likelihood
    for family, own in fit.leaf_parameters.items():
        np.testing.assert_allclose(better.leaf_parameters[family], own, atol=1e-300)  # each state keeps its level


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prior_rows": 0.0}, "prior_rows must be a positive finite number, got 0.0"),
        ({"prior_rows": True}, "prior_rows must be a positive finite number, got True"),
        ({"data": pd.DataFrame({"a": [0.5, 1.5, 2.5]})}, "'a' is real; hidden_chow_liu_tree takes numbers"),
    ],
)
def test_what_a_chow_liu_tree_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        ps.circuits.chow_liu_tree(**{"data": levels(np.random.default_rng(0), 20), **change})
