"""Circuits with leaves over several columns beside others, against tables of all states and mixtures of Gaussians."""

import copy
import itertools
import json
import pickle

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats

import pymc_spn as ps
from pymc_spn.answers.answers import Answers
from pymc_spn.circuits.structures.circuit import Circuit
from pymc_spn.circuits.structures.parameterised import ParameterisedCircuit
from pymc_spn.leaves.explicit_leaves import LEAF_FAMILIES
from pymc_spn.leaves.leaf_family import LeafFamily
from tests.toy_families import toys

NAN = np.nan
PAIR, TRIPLE = "multivariate_gaussian[2]", "multivariate_gaussian[3]"


@pytest.fixture(autouse=True)
def with_toys():
    with toys():
        yield


def circuit_of(nodes, columns, families):
    """Circuit of (kind, children) and ("leaf", columns, family) entries."""
    kinds = {"sum": 0, "product": 1, "leaf": 2}
    below = [() if kind == "leaf" else node[0] for kind, *node in nodes]
    own = [node[0] if kind == "leaf" else (-1,) for kind, *node in nodes]
    return Circuit(
        kind=np.array([kinds[kind] for kind, *_ in nodes]),
        child_ptr=np.cumsum([0, *map(len, below)]),
        children=np.array([c for children in below for c in children], np.int64),
        leaf_column=np.array([c[0] for c in own]),
        leaf_family=np.array([families.index(node[1]) if kind == "leaf" else -1 for kind, *node in nodes]),
        families=families,
        columns=columns,
        further_columns={v: c[1:] for v, c in enumerate(own) if len(c) > 1},
    )


def of_levels():
    """Tables over a (two levels) and b (three) in one product, a leaf for each in another; c is always by itself."""
    circuit = circuit_of(
        [("sum", (1, 2, 3)), ("product", (4, 5)), ("product", (6, 7)), ("product", (8, 9, 10)),
         ("leaf", (0, 1), "joint_table"), ("leaf", (2,), "categorical"),
         ("leaf", (2,), "categorical"), ("leaf", (0, 1), "joint_table"),
         ("leaf", (1,), "categorical"), ("leaf", (0,), "categorical"), ("leaf", (2,), "categorical")],
        ("a", "b", "c"), ("categorical", "joint_table"),
    )  # fmt: skip
    weights = np.array([0.5, 0.2, 0.3])
    tables = np.array([[0.1, 0.2, 0.05, 0.3, 0.05, 0.3], [0.3, 0.0, 0.1, 0.1, 0.4, 0.1]])
    levels = np.array([[0.2, 0.8, 0.0], [0.7, 0.3, 0.0], [0.2, 0.3, 0.5], [0.6, 0.4, 0.0], [0.1, 0.9, 0.0]])
    joint = (
        0.5 * tables[0].reshape(2, 3, 1) * levels[0][:2]
        + 0.2 * tables[1].reshape(2, 3, 1) * levels[1][:2]
        + 0.3 * levels[3][:2, None, None] * levels[2][None, :, None] * levels[4][:2]
    )
    parameters = {"categorical": levels, "joint_table": tables}
    return ParameterisedCircuit(circuit, np.log(weights), parameters), joint


def covariance(rng, d):
    load = 0.5 + rng.random(d)
    return np.outer(load, load) + 0.2 * np.eye(d)


def of_numbers():
    """Blocks over x and z, and over z, x and y in this order, beside leaves over one column; a list of (w, m, c)."""
    rng = np.random.default_rng(1)
    circuit = circuit_of(
        [("sum", (1, 4, 2)), ("product", (3, 5)), ("product", (6, 7, 8)), ("leaf", (0, 2), PAIR),
         ("leaf", (2, 0, 1), TRIPLE), ("leaf", (1,), "gaussian"),
         ("leaf", (0,), "gaussian"), ("leaf", (1,), "gaussian"), ("leaf", (2,), "gaussian")],
        ("x", "y", "z"), ("gaussian", PAIR, TRIPLE),
    )  # fmt: skip
    two, three = (rng.normal(size=2), covariance(rng, 2)), (rng.normal(size=3) + 1.0, covariance(rng, 3))
    single = np.column_stack([rng.normal(size=4), rng.gamma(3.0, 0.4, 4)])
    parameters = {
        "gaussian": single,
        PAIR: np.concatenate([two[0], two[1].ravel()])[None],
        TRIPLE: np.concatenate([three[0], three[1].ravel()])[None],
    }
    mean, cov = np.zeros(3), np.zeros((3, 3))
    mean[[0, 2]], cov[np.ix_([0, 2], [0, 2])], mean[1], cov[1, 1] = *two, single[0, 0], single[0, 1] ** 2
    order = np.argsort([2, 0, 1])
    parts = [
        (0.3, mean, cov),
        (0.45, three[0][order], three[1][np.ix_(order, order)]),
        (0.25, single[1:, 0], np.diag(single[1:, 1] ** 2)),
    ]
    return ParameterisedCircuit(circuit, np.log([w for w, *_ in parts]), parameters), parts


def log_normals(parts, row):
    seen = ~np.isnan(row)
    return np.log(
        sum(w * stats.multivariate_normal.pdf(row[seen], m[seen], c[np.ix_(seen, seen)]) for w, m, c in parts)
    )


def given_row(parts, row):
    """Mixture of the missing columns given the others."""
    o, u = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
    found = []
    for w, m, c in parts:
        slope = np.linalg.solve(c[np.ix_(o, o)], c[np.ix_(o, u)]).T
        density = stats.multivariate_normal.pdf(row[o], m[o], c[np.ix_(o, o)]) if o.size else 1.0
        found.append((w * density, m[u] + slope @ (row[o] - m[o]), c[np.ix_(u, u)] - slope @ c[np.ix_(o, u)]))
    total = sum(w for w, *_ in found)
    return [(w / total, m, c) for w, m, c in found]


def moments_of(parts):
    mean = sum(w * m for w, m, _ in parts)
    return mean, sum(w * (c + np.outer(m - mean, m - mean)) for w, m, c in parts)


def cdf_of(parts, d, x):
    return sum(w * stats.norm.cdf(x, m[d], np.sqrt(c[d, d])) for w, m, c in parts)


ROWS = np.array([[0.3, 0.2, -1.0], [NAN, 1.0, 0.5], [0.4, NAN, NAN], [NAN, NAN, 2.0], [1.0, NAN, 0.1], [NAN] * 3])


def test_a_circuit_is_kept_by_json_pickles_and_copies_and_told_from_others():
    model, _ = of_numbers()
    circuit = model.circuit
    for other in (Circuit.from_json(json.loads(json.dumps(circuit.to_json()))), pickle.loads(pickle.dumps(circuit))):
        assert other == circuit and hash(other) == hash(circuit)
        assert other.further_columns == {3: (2,), 4: (0, 1)}
    assert copy.deepcopy(circuit) == circuit
    data = circuit.to_json()
    data["further_columns"] = [[3, 2], [4, 1, 0]]
    assert Circuit.from_json(data) != circuit
    assert circuit.scope(4) == ("x", "y", "z") and circuit.columns_of(4) == (2, 0, 1)
    assert circuit.to_networkx().nodes[3] == {
        "kind": "leaf",
        "columns": ("x", "z"),
        "family": PAIR,
    }
    many = [f"x{d}" for d in range(130)]
    wide = circuit_of(
        [("leaf", tuple(range(130)), "multivariate_gaussian[130]")], many, ("multivariate_gaussian[130]",)
    )
    assert wide.scope(0) == tuple(many)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([("sum", (1, 2)), ("leaf", (0, 1), PAIR), ("leaf", (0,), "gaussian")], "circuit is not smooth"),
        ([("product", (1, 2)), ("leaf", (0, 1), PAIR), ("leaf", (1,), "gaussian")],
         "children 1 and 2 of product 0 both contain 'y'"),
        ([("leaf", (0, 0), PAIR)], r"further_columns\[0\] must be distinct"),
        ([("leaf", (0, 2), PAIR)], r"further_columns\[0\] must be in 0..1, got \(2,\)"),
        ([("leaf", (0, 1), "gaussian_lump[2]")], "families must be among"),
    ],
)  # fmt: skip
def test_scopes_are_those_of_all_columns(nodes, message):
    families = tuple(dict.fromkeys(node[2] for node in nodes if node[0] == "leaf"))
    with pytest.raises(ValueError, match=message):
        circuit_of(nodes, ("x", "y"), families)


def test_what_cannot_be_is_named():
    nodes, families = [("leaf", (0, 1), TRIPLE)], (TRIPLE,)
    circuit = circuit_of(nodes, ("x", "y"), families)
    with pytest.raises(
        ValueError, match=r"multivariate_gaussian\[3\] leaves are over 3 columns, leaf 0 is over 'x' and 'y'"
    ):
        circuit.with_parameters([], {TRIPLE: np.zeros((1, 12))})
    with pytest.raises(ValueError, match=r"further_columns must be given for leaves, got 7"):
        Circuit([2], [0, 0], [], [0], [0], families, ("x",), {7: [1]})
    model, _ = of_numbers()
    with (
        pm.Model(),
        pytest.raises(ValueError, match=r"of a CircuitDensity must have no joint_table leaves; leaf . of 'a' and 'b'"),
    ):
        tables, _ = of_levels()
        ps.CircuitDensity("x", tables.circuit, tables.log_weights, tables.leaf_parameters)
    assert tables.mpe().upper_bound is None
    bad = dict(model.leaf_parameters)
    bad[PAIR] = bad[PAIR] * [[1.0, 1.0, -1.0, -1.0, -1.0, -1.0]]
    with pytest.raises(ValueError, match=r"positive definite, got .* leaf 3 of 'x' and 'z'"):
        ParameterisedCircuit(model.circuit, model.log_weights, bad)


@pytest.mark.parametrize("n_rows", [6, 100])
def test_densities_and_moments_of_rows_with_gaps(n_rows):
    model, parts = of_numbers()
    rows = np.resize(ROWS, (n_rows, 3))
    by_hand = np.array([0.0 if np.isnan(row).all() else log_normals(parts, row) for row in rows])
    logs = model.log_density(rows).values
    np.testing.assert_allclose(logs, by_hand, rtol=1e-11, atol=1e-12)
    found = model.moments(rows)
    means, covariances = found["mean"].values, found["covariance"].values
    for n, row in enumerate(rows[:6]):
        u = np.flatnonzero(np.isnan(row))
        if u.size:
            mean, cov = moments_of(given_row(parts, row))
            np.testing.assert_allclose(means[n, u], mean, rtol=1e-10)
            np.testing.assert_allclose(covariances[n][np.ix_(u, u)], cov, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(means[~np.isnan(rows)], rows[~np.isnan(rows)])
    np.testing.assert_allclose(model.moments(rows, covariance=False)["mean"], means, rtol=1e-12)


def test_far_rows_lose_nothing():
    model, parts = of_numbers()
    rows = np.array([[40.0, -50.0, 60.0], [200.0, NAN, -300.0]])
    terms = [
        [np.log(w) + stats.multivariate_normal.logpdf(r[s], m[s], c[np.ix_(s, s)]) for w, m, c in parts]
        for r in rows for s in [~np.isnan(r)]
    ]  # fmt: skip
    np.testing.assert_allclose(model.log_density(rows), np.logaddexp.reduce(terms, axis=1), rtol=1e-11)


def test_draws_and_completions_are_joint_within_a_leaf():
    model, parts = of_numbers()
    rows = model.sample(6000, random_seed=2).to_numpy(float)
    done = model.impute(np.tile(ROWS[2], (6000, 1)), random_seed=3).to_numpy(float)
    assert np.all(done[:, 0] == 0.4)
    direction = np.array([1.0, 0.3, -1.0])
    for drawn, law, along in ((rows, parts, direction), (done[:, 1:], given_row(parts, ROWS[2]), direction[1:])):
        cdf = lambda x, law=law, along=along: sum(  # noqa: E731
            w * stats.norm.cdf(x, along @ m, np.sqrt(along @ c @ along)) for w, m, c in law
        )
        assert stats.kstest(drawn @ along, cdf).pvalue > 1e-3
    mean, cov = moments_of(parts)
    wrong = rows.copy()  # as if the cells of a leaf had been drawn each by itself: the test would see it
    wrong[:, 2] = np.random.default_rng(4).permutation(wrong[:, 2])
    cdf = lambda x: sum(w * stats.norm.cdf(x, direction @ m, np.sqrt(direction @ c @ direction)) for w, m, c in parts)  # noqa: E731
    assert stats.kstest(wrong @ direction, cdf).pvalue < 1e-3
    np.testing.assert_allclose(model.mean(), mean, rtol=1e-10)
    np.testing.assert_allclose(model.cov(), cov, rtol=1e-10)


def test_probabilities_of_points_and_boxes():
    model, parts = of_numbers()
    for event, known in (
        ({"x": (0.0, 1.0)}, None),
        ({"z": (0.0, 1.0), "x": 0.3}, None),
        ({"x": (0.0, 1.0), "z": (-1.0, 0.5)}, None),
        ({"x": [(0.0, 0.5), (1.0, None)], "y": (None, 0.0)}, None),
        ({"x": (0.0, 1.0), "y": (-1.0, 0.5)}, {"z": 0.2}),
        ({"y": (None, 0.3)}, {"x": (0.0, 0.7)}),
    ):
        assert float(model.probability(event, known)) == pytest.approx(by_hand(parts, event, known), rel=2e-4)
    for event, mark in (({"x": (0.0, 1.0), "z": (-1.0, 0.5)}, "numerical"), ({"x": (0.0, 1.0), "y": 0.2}, "exact")):
        marked = Answers(model._law).probability(event)
        assert marked.attrs["exactness"].startswith(mark) and ("tolerance" in marked.attrs) == (mark == "numerical")
    ends = np.array([0.0, -1.0]), np.array([1.0, 2.0])
    several = model.log_probability_of_rows({"x": np.array([0.1, 0.2]), "z": ends})
    each = [by_hand(parts, {"x": x, "z": z}, None) for x, z in ((0.1, (0.0, 1.0)), (0.2, (-1.0, 2.0)))]
    np.testing.assert_allclose(np.exp(several), each, rtol=2e-4)


def by_hand(parts, event, known):
    both = log_boxes(parts, event | (known or {}))
    return both / log_boxes(parts, known) if known else both


def log_boxes(parts, event):
    """Density of points times probability of boxes, by SciPy's multivariate normal."""
    names = ("x", "y", "z")
    row = np.array([event[n] if isinstance(event.get(n), float) else NAN for n in names])
    choices = [event.get(n, (None, None)) for n in names]
    choices = [c if isinstance(c, list) else [c] for c in choices if not isinstance(c, float)]
    total = 0.0
    for w, m, c in parts:
        ((_, mean, cov),) = given_row([(w, m, c)], row)
        seen = ~np.isnan(row)
        density = stats.multivariate_normal.pdf(row[seen], m[seen], c[np.ix_(seen, seen)]) if seen.any() else 1.0
        for box in itertools.product(*choices):
            ends = np.array([[-np.inf if a is None else a, np.inf if b is None else b] for a, b in box])
            law = stats.multivariate_normal(mean, cov)
            total += w * density * law.cdf(ends[:, 1], lower_limit=ends[:, 0])
    return total


def test_columns_given_rows():
    model, parts = of_numbers()
    x = np.array([-1.0, 0.2, 1.5])
    np.testing.assert_allclose(model.cdf(x, "z"), cdf_of(parts, 2, x), rtol=1e-10)
    rest = given_row(parts, np.array([0.4, NAN, NAN]))
    np.testing.assert_allclose(model.cdf(x, "z", given={"x": 0.4}), cdf_of(rest, 1, x), rtol=1e-10)
    at = model.quantile([0.1, 0.5, 0.9], "z", given={"x": 0.4}).to_numpy()
    np.testing.assert_allclose(cdf_of(rest, 1, at), [0.1, 0.5, 0.9], rtol=1e-9)
    within = (cdf_of(parts, 0, x.clip(-0.5, 1.0)) - cdf_of(parts, 0, -0.5)) / np.diff(
        cdf_of(parts, 0, np.array([-0.5, 1.0]))
    )
    np.testing.assert_allclose(model.cdf(x, "x", given={"x": (-0.5, 1.0)}), within, rtol=1e-9, atol=1e-12)


def test_conditions_and_marginals_are_circuits():
    model, parts = of_numbers()
    given = model.condition({"x": 0.4})
    rest = given_row(parts, np.array([0.4, NAN, NAN]))
    assert {LEAF_FAMILIES[f].n_columns for f in given.circuit.families} == {1, 2}
    for row in ROWS[:4, 1:]:
        wanted = 0.0 if np.isnan(row).all() else log_normals(rest, row)
        assert given.log_density(row[None]).values[0] == pytest.approx(wanted, rel=1e-11, abs=1e-12)
    np.testing.assert_allclose(given.cov(), moments_of(rest)[1], rtol=1e-10)
    one = model.condition({"x": 0.4, "z": 0.1, "y": (0.5, 2.0)})  # whose leaves are over one column again
    best, grid = one.mpe(), np.linspace(0.5, 2.0, 2001)[:, None]
    assert 0.0 <= float(best.log_density) - one.log_density(grid).values.max() + 1e-9 < 1e-4
    with pytest.raises(ValueError, match=r"row 0: column 'y' cannot be 3\.0: the circuit is conditioned on it being"):
        one.impute(np.array([[3.0]]))
    pair = model.marginal(["y", "z"])
    some = [(w, m[1:], c[1:, 1:]) for w, m, c in parts]
    for row in ROWS[:4, 1:]:
        wanted = 0.0 if np.isnan(row).all() else log_normals(some, row)
        assert pair.log_density(row[None]).values[0] == pytest.approx(wanted, rel=1e-11, abs=1e-12)
    with pytest.raises(ValueError, match=r"no closed form within an interval of 'x'; probability and sample take one"):
        model.condition({"x": (0.0, 1.0)})
    inside = model.sample(4000, given={"x": (0.0, 1.0), "z": (-1.0, 0.7)}, random_seed=6).to_numpy(float)
    assert np.all((inside[:, 0] >= 0.0) & (inside[:, 0] <= 1.0) & (inside[:, 2] >= -1.0) & (inside[:, 2] <= 0.7))
    box = {"x": (0.0, 1.0), "z": (-1.0, 0.7)}
    for event in ({"x": (0.0, 0.4)}, {"z": (-1.0, -0.2)}, {"x": (0.0, 0.5), "z": (0.0, 0.7)}, {"y": (None, 0.2)}):
        share = np.ones(len(inside), bool)
        for name, (low, high) in event.items():
            share &= (inside[:, "xyz".index(name)] <= high) & (
                inside[:, "xyz".index(name)] >= (-np.inf if low is None else low)
            )
        p = log_boxes(parts, box | event) / log_boxes(parts, box)
        assert abs(share.mean() - p) < 5.0 * np.sqrt(p * (1 - p) / len(inside)) + 1e-3


def test_tables_answer_as_the_table_of_all_states():
    model, joint = of_levels()
    states = np.array(list(itertools.product(range(2), range(3), range(2))), float)
    flat = joint.ravel()
    assert flat.sum() == pytest.approx(1.0)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(np.exp(model.log_density(states)), flat, rtol=1e-12)
    for event in ({"a": 1}, {"b": {0, 2}}, {"a": 0, "b": {1, 2}}, {"b": {0, 1}, "c": 1}, {"a": {0, 1}, "b": 2}):
        inside = np.ones(len(states), bool)
        for name, value in event.items():
            inside &= np.isin(states[:, "abc".index(name)], list(value) if isinstance(value, set) else [value])
        assert float(model.probability(event)) == pytest.approx(flat[inside].sum(), rel=1e-12)
        drawn = model.sample(3000, given=event, random_seed=9).to_numpy(float)
        own = np.array([(drawn == s).all(axis=1).mean() for s in states])
        wanted = np.where(inside, flat, 0.0) / flat[inside].sum()
        assert np.all(np.abs(own - wanted) < 5.0 * np.sqrt(wanted * (1.0 - wanted) / 3000) + 1e-12)
        kept = [n for n in "abc" if not isinstance(event.get(n), int)]
        given = model.condition(event)
        for state in states:
            row = state[["abc".index(n) for n in kept]]
            alike = np.all(states[:, ["abc".index(n) for n in kept]] == row, axis=1)
            found = np.exp(given.log_density(row[None]).values[0])
            assert found == pytest.approx(wanted[alike].sum(), rel=1e-11, abs=1e-14)
    likely = model.probability({"b": {0: 0.2, 2: 0.7}, "a": 1})
    wanted = sum(p * {0: 0.2, 2: 0.7}.get(int(s[1]), 0.0) for s, p in zip(states, flat, strict=True) if s[0] == 1)
    assert float(likely) == pytest.approx(wanted, rel=1e-12)
    soft = model.condition({"b": {0: 0.2, 2: 0.7}})
    weight = flat * np.array([{0: 0.2, 2: 0.7}.get(int(s[1]), 0.0) for s in states])
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(np.exp(soft.log_density(states)), weight / weight.sum(), rtol=1e-11, atol=1e-15)
    assert float(model.entropy()) == pytest.approx(-np.sum(flat[flat > 0] * np.log(flat[flat > 0])), rel=1e-12)
    ab = joint.sum(axis=2)
    information = np.sum(ab[ab > 0] * np.log((ab / (ab.sum(1, keepdims=True) * ab.sum(0)))[ab > 0]))
    found = model.mutual_information("a", "b")
    assert found.attrs["exactness"] == "exact" and float(found) == pytest.approx(information, rel=1e-11)
    done = model.impute(np.tile([1.0, NAN, NAN], (3000, 1)), random_seed=10).to_numpy(float)
    share = joint[1] / joint[1].sum()
    own = np.array([[(done[:, 1:] == (b, c)).all(axis=1).mean() for c in range(2)] for b in range(3)])
    assert np.all(np.abs(own - share) < 5.0 * np.sqrt(share * (1.0 - share) / 3000) + 1e-12)


def test_builders_and_fits_take_such_leaves():
    model, parts = of_numbers()
    pair = ps.circuits.leaf(("x", "z"), PAIR, model.leaf_parameters[PAIR][0])
    first = ps.circuits.product_of([pair, ps.circuits.leaf("y", "gaussian", model.leaf_parameters["gaussian"][0])])
    alone = [(1.0, parts[0][1][[0, 2]], parts[0][2][np.ix_([0, 2], [0, 2])])]
    assert float(pair.log_density(np.array([[0.3, NAN]]))[0]) == pytest.approx(
        log_normals(alone, np.array([0.3, NAN])), rel=1e-12
    )
    ((_, mean, _),) = given_row(alone, np.array([NAN, 0.3]))
    np.testing.assert_allclose(pair.moments(np.array([[NAN, 0.3]]))["mean"][0, 0], mean[0])
    assert pair.condition({"z": 0.3}).circuit.families == ("gaussian",)
    assert pair.sample(3, random_seed=0).shape == (3, 2)
    block = ps.circuits.leaf(("z", "x", "y"), TRIPLE, model.leaf_parameters[TRIPLE][0])
    both = ps.circuits.mixture_of([first, block], [0.4, 0.6])
    swapped = [(0.4, *parts[0][1:]), (0.6, *parts[1][1:])]
    rows = ROWS[:5][:, [0, 2, 1]]  # columns of the first part, one after the other
    assert both.circuit.names == ("x", "z", "y")
    np.testing.assert_allclose(both.log_density(rows), [log_normals(swapped, row) for row in ROWS[:5]], rtol=1e-11)


def test_a_planted_mistake_is_seen(monkeypatch):
    """A family that leaves its correlations out of the law of one column given the others."""
    model, parts = of_numbers()
    kind = type(LEAF_FAMILIES["multivariate_gaussian"])
    whole = kind.column_of_rows

    def alone(self, parameters, rows, column):
        return whole(self, parameters, np.full_like(rows, NAN), column)

    monkeypatch.setattr(kind, "column_of_rows", alone)
    monkeypatch.setattr(kind, "draw_missing", LeafFamily.draw_missing)  # which asks for one column after the other
    found = float(model.probability({"z": (0.0, 1.0), "x": 0.3}))
    done = model.impute(np.tile(ROWS[2], (6000, 1)), random_seed=3).to_numpy(float)
    assert abs(found - by_hand(parts, {"z": (0.0, 1.0), "x": 0.3}, None)) > 1e-3
    along = np.array([1.0, -0.7])
    law = given_row(parts, ROWS[2])
    cdf = lambda x: sum(w * stats.norm.cdf(x, along @ m, np.sqrt(along @ c @ along)) for w, m, c in law)  # noqa: E731
    assert stats.kstest(done[:, 1:] @ along, cdf).pvalue < 1e-3


def test_one_column_row_by_row_is_that_of_the_mixture_given_the_row():
    """Leaves over several columns have a law of their own in each row."""
    circuit, parts = of_numbers()
    rows = pd.DataFrame([[0.3, 0.1, 1.2], [1.5, NAN, -0.4], [NAN, 0.2, NAN], [0.0, NAN, NAN]], columns=["x", "y", "z"])
    for target in rows:
        known = rows.to_numpy().copy()
        known[:, list(rows).index(target)] = NAN
        q = circuit.predict_quantile(rows, target, [0.05, 0.6])
        below, own = circuit.predict_cdf(rows, target, 0.4), circuit.cell_p_value(rows).sel(column=target)
        mean, sd = circuit.predict(rows, target), circuit.predict_sd(rows, target)
        for k, row in enumerate(known):
            place = int((np.flatnonzero(np.isnan(row)) == list(rows).index(target)).argmax())
            single = [(w, m[place], np.sqrt(c[place, place])) for w, m, c in given_row(parts, row)]
            cdf = lambda x, single=single: sum(w * stats.norm.cdf(x, m, s) for w, m, s in single)  # noqa: E731
            average = sum(w * m for w, m, _ in single)
            assert float(mean[k]) == pytest.approx(average, rel=1e-9, abs=1e-12)
            spread = sum(w * (s**2 + (m - average) ** 2) for w, m, s in single)
            assert float(sd[k]) == pytest.approx(np.sqrt(spread), rel=1e-9)
            assert float(below[k]) == pytest.approx(cdf(0.4), rel=1e-9)
            np.testing.assert_allclose([cdf(float(x)) for x in q[k]], [0.05, 0.6], rtol=1e-9)
            x = rows[target][k]
            tail = NAN if np.isnan(x) else 2.0 * min(cdf(x), 1.0 - cdf(x))
            assert float(own[k]) == pytest.approx(tail, rel=1e-8, nan_ok=True)


def test_levels_row_by_row_are_those_of_the_table():
    circuit, joint = of_levels()
    codes = np.array(list(itertools.product(range(2), range(3), range(2))), np.float64)
    rows = pd.DataFrame(codes, columns=["a", "b", "c"])
    for d, target in enumerate(rows):
        found = circuit.predict_proba(rows, target)
        for k, row in enumerate(codes.astype(int)):
            own = joint[tuple(slice(None) if e == d else row[e] for e in range(3))]
            np.testing.assert_allclose(found[k, : own.size], own / own.sum(), rtol=1e-10, atol=1e-15)
