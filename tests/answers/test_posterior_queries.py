"""Queries to the posterior against quadrature over all states, identities, and frequencies of draws."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given as property_of
from hypothesis import settings
from hypothesis import strategies as st
from scipy import stats

import pymc_spn as ps
from pymc_spn.laws.column_laws import ColumnLaw
from pymc_spn.laws.raw_moments import raw_moments
from pymc_spn.leaves.family_codes import POISSON
from pymc_spn.leaves.intervals import Likelihood
from pymc_spn.leaves.leaf_predictives import Leaves, leaf_moments, log_event
from pymc_spn.networks.records import column_leaves, recorded_states
from pymc_spn.tables import Table, decode
from tests import reference_queries
from tests.hand_made_records import (
    law_of,
    posterior_of,
    problem_of,
    sampled_tree,
    schema_of,
    states_of,
    tree_of,
    weighted_posterior,
)

pytestmark = pytest.mark.usefixtures("integrated")

PROBLEMS = ["palette", "missing", "depths", "infinite_missing", "splits", "infinite_splits", "two_trees"]
SKEWED = ["skewed", "infinite_skewed"]  # columns whose mean is infinite until they are bounded
SIGMAS = 5.0  # standard errors that a frequency or mean may be off

# event, given; in the words of the user and of the reference (levels as codes)
QUERIES = {
    "palette": [
        ({"x0": (0.5, 2.0), "x1": {"a", "c"}}, {"x2": (1, None)}, {0: (0.5, 2.0), 1: {0, 2}}, {2: (1, None)}),
        ({"x1": "b", "x2": {0, 3}}, {"x0": (None, 1.5)}, {1: 1, 2: {0, 3}}, {0: (None, 1.5)}),
        ({"x0": (1, 3)}, {"x1": "c", "x2": 2}, {0: (1, 3)}, {1: 2, 2: 2}),
    ],
    "missing": [
        ({"x0": (0.5, 2.0)}, {"x1": 1, "x2": (0, 1)}, {0: (0.5, 2.0)}, {1: 1, 2: (0, 1)}),
        ({"x0": 0.7, "x1": {0}}, {"x2": (2.5, 6)}, {0: 0.7, 1: {0}}, {2: (2.5, 6)}),
        ({"x2": 4}, {"x0": 1.1}, {2: 4}, {0: 1.1}),
    ],
    "depths": [({"x0": (-1, 1), "x1": (0.5, None)}, None, {0: (-1, 1), 1: (0.5, None)}, None)],
    "infinite_missing": [
        ({"x0": (None, 1.0), "x2": (1, None)}, {"x1": {1}}, {0: (None, 1.0), 2: (1, None)}, {1: {1}}),
        ({"x1": 1}, {"x0": (3, 30)}, {1: 1}, {0: (3, 30)}),
    ],
}
QUERIES["skewed"] = [
    ({"x0": (0.5, 2.0)}, {"x1": (None, 3)}, {0: (0.5, 2.0)}, {1: (None, 3)}),
    ({"x0": 0.9}, {"x1": 2}, {0: 0.9}, {1: 2}),
    ({"x1": (2, None)}, {"x0": (1.0, None)}, {1: (2, None)}, {0: (1.0, None)}),
]
QUERIES["infinite_skewed"] = [({"x1": {1, 3}}, {"x0": (0.1, 3.0)}, {1: {1, 3}}, {0: (0.1, 3.0)})]
QUERIES |= {"splits": QUERIES["palette"], "infinite_splits": QUERIES["infinite_missing"]}
CASES = [(name, *query) for name, queries in QUERIES.items() for query in queries]


# ---- probabilities
@pytest.mark.parametrize(("name", "event", "given", "ref_event", "ref_given"), CASES)
def test_probability_is_that_of_all_states(name, event, given, ref_event, ref_given):
    post, problem = posterior_of(name), problem_of(name)
    found = post.probability(event, given)
    assert found == pytest.approx(reference_queries.probability(problem, ref_event, ref_given), rel=1e-9)
    assert found.attrs["exactness"] == "exact given the draws" and found.attrs["mcse_chain"] >= 0


def events_of(column, is_density):
    """Points, intervals (one end may be open) and sets that one column can have with some probability."""
    if column.levels is not None:
        levels = st.sampled_from(column.levels)
        return st.one_of(levels, st.sets(levels, min_size=1))
    low, high = st.floats(0.05, 1.5), st.floats(2.0, 6.0)  # 2 is between them, whatever they are
    spans = [st.tuples(low, high), st.tuples(st.none(), high), st.tuples(low, st.none())]
    points = st.floats(0.05, 6.0) if column.kind in ("real", "positive") else st.integers(0, 6)
    return st.one_of(points, *spans, *([] if is_density else [st.sets(st.integers(0, 6), min_size=1)]))


@cache
def few_states(name):
    return states_of(sampled_tree(name, draws=4, chains=1))


@st.composite
def questions(draw):
    """A posterior with draws of any weights, an event and a condition on other columns."""
    states = few_states(draw(st.sampled_from(PROBLEMS + SKEWED)))
    seed, spread = draw(st.integers(0, 2**16)), draw(st.sampled_from([0.0, 1.0, 5.0]))
    weights = np.random.default_rng(seed).normal(scale=spread, size=states.n_draws)
    post = weighted_posterior(states, weights)
    about = draw(st.lists(st.sampled_from(["event", "given", "nothing"]), min_size=len(post.columns), max_size=3))
    found = {"event": {}, "given": {}, "nothing": {}}
    for column, role, is_density in zip(post.columns, about, states.compiled.is_density, strict=False):
        if role != "nothing":
            found[role][column.name] = draw(events_of(column, bool(is_density)))
    return post, found["event"], found["given"]


@property_of(asked=questions())
@settings(max_examples=40, deadline=None)
def test_probabilities_are_those_of_one_law(asked):
    """p(A | B) p(B) = p(A, B), also by `condition`; what one column can be adds up to 1 whatever is known of others."""
    post, event, given = asked
    found, known, joint = (float(post.probability(*q)) for q in [(event, given), (given,), (event | given,)])
    assert found * known == pytest.approx(joint, rel=1e-10, abs=1e-300)
    assert float(post.condition(given).probability(event)) == pytest.approx(found, rel=1e-10, abs=1e-300)
    for column in post.columns:
        name = column.name
        if name in given:
            continue
        if column.levels is not None:
            parts = [float(post.probability({name: level}, given)) for level in column.levels]
            assert sum(parts) == pytest.approx(1.0, abs=1e-12)
            assert float(post.probability({name: set(column.levels)}, given)) == pytest.approx(1.0, abs=1e-12)
        else:
            assert float(post.probability({name: (None, None)}, given)) == pytest.approx(1.0, abs=1e-12)
            cuts = [(None, 1.3), (np.nextafter(1.3, 2), None)]
            assert sum(float(post.probability({name: e}, given)) for e in cuts) == pytest.approx(1.0, abs=1e-10)


def two_draws():
    """Two draws of one chain with hyperparameters that make them differ, on the problem with gaps."""
    problem = problem_of("missing")
    digits = np.zeros((1, 2, 3, 5), np.int8)
    digits[0, 1, :, 0] = [0, 1, 1]
    return ps.SPNPosterior.from_idata(
        tree_of(schema_of(problem), problem.X, digits, [[[1.0, 1.0], [3.0, 0.2]]], [[1.0, 0.4]])
    )


def test_a_condition_weights_the_draws_by_hand():
    post = two_draws()
    event, given = {"x0": (0.5, 2.0)}, {"x1": 1, "x2": 3}
    joint, known, ratio = (post.probability(*q, per_draw=True) for q in [(event | given,), (given,), (event, given)])
    np.testing.assert_allclose(ratio, joint / known, rtol=1e-12)
    found = post.probability(event, given)
    assert found == pytest.approx(float(joint.sum() / known.sum()), rel=1e-12)
    assert abs(float(found - ratio.mean())) > 1e-4  # the average of ratios is something else
    assert found.attrs["draws_after_weighting"] == pytest.approx(float(known.sum() ** 2 / (known**2).sum()))
    means = post.mean(given, per_draw=True)
    np.testing.assert_allclose(post.mean(given), np.average(means, axis=1, weights=known[0])[0], rtol=1e-12)
    assert "mcse_chain_note" in found.attrs
    row = pd.DataFrame({"x0": [1.0], "x1": [1], "x2": [3]})
    df = pd.DataFrame({"x0": [1.0]})
    conditional = post.condition(given).log_density(df)
    np.testing.assert_allclose(conditional, post.log_density(row) - np.log(float(post.probability(given))), rtol=1e-12)


def test_an_event_in_a_column_that_is_known_to_lie_in_an_interval():
    post = posterior_of("missing")
    within = post.condition({"x0": (0.5, 2.0), "x2": {1, 2, 3}})
    assert [c.name for c in within.columns] == ["x0", "x1", "x2"]
    part, whole = (float(post.probability({"x0": e, "x2": {1, 2, 3}})) for e in [(1.0, 2.0), (0.5, 2.0)])
    assert within.probability({"x0": (1.0, 9.0)}) == pytest.approx(part / whole, rel=1e-12)
    assert within.probability({"x0": (3.0, 9.0)}) == 0.0
    assert within.probability({"x2": 7}) == 0.0
    rows = pd.DataFrame({"x0": [1.0, 3.0, np.nan], "x1": [1, 1, 1], "x2": [2.0, 2.0, np.nan]})
    logs = within.log_density(rows)
    exact = post.log_density(rows)[0] - np.log(whole)
    assert logs[0] == pytest.approx(float(exact), rel=1e-12) and logs[1] == -np.inf
    joint = post.probability({"x1": 1, "x0": (0.5, 2.0), "x2": {1, 2, 3}})
    assert logs[2] == pytest.approx(np.log(float(joint) / whole), rel=1e-12)
    assert np.isneginf(within.log_density(rows, per_draw=True).values[..., 1]).all()


@pytest.mark.parametrize("count", [1500, 20_000])
def test_a_set_of_one_count_is_that_count_however_rare(count):
    post = posterior_of("missing")  # masses of 1e-440 and less
    as_set, as_interval, as_point = ({"x2": what} for what in ({count}, (count, count), count))
    x = [0.5, 1.0, 2.0]

    def answers(given):
        return np.concatenate(
            [
                np.ravel(post.mean(given=given, per_draw=True).sel(column=["x0", "x1"])),
                np.ravel(post.cdf(x, "x0", given=given, per_draw=True)),
                np.ravel(post.probability({"x1": 1}, given=given, per_draw=True)),
                [float(post.cdf(1.0, "x0", given=given))],
            ]
        )

    expected = answers(as_point)
    assert np.isfinite(expected).all()
    for given in (as_set, as_interval):
        np.testing.assert_allclose(answers(given), expected, rtol=1e-9)
        np.testing.assert_allclose(post.mean(given, per_draw=True).sel(column="x2"), count)
        np.testing.assert_array_equal(post.cdf([count - 1.0, count], "x2", given=given, per_draw=True)[..., 0], 0.0)
        np.testing.assert_allclose(post.cdf([count - 1.0, count], "x2", given=given, per_draw=True)[..., 1], 1.0)


def test_rare_counts_of_one_leaf():
    # masses of neighbours c and c + 1 of a negative binomial leaf are as 1 to (alpha + c) / ((c + 1) (1 + beta))
    alpha, beta, c = np.array([0.7, 4.0, 30.0]), np.array([0.5, 2.0, 9.0]), 20_000.0
    parameters = np.column_stack([alpha, beta, np.zeros((3, 2))])
    leaves = Leaves(np.full(3, POISSON), parameters)
    event = frozenset([c, c + 1.0])
    second = (alpha + c) / ((c + 1.0) * (1.0 + beta))
    p = second / (1.0 + second)
    one = np.array([stats.nbinom.logpmf(c, a, b / (1.0 + b)) for a, b in zip(alpha, beta, strict=True)])
    assert np.all(one < -745.0)  # exp gives 0
    np.testing.assert_allclose(log_event(leaves, event), one + np.log1p(second), rtol=1e-10)
    soft = Likelihood((c, c + 1.0), (-3.0, -3.0))
    np.testing.assert_allclose(log_event(leaves, soft), one + np.log1p(second) - 3.0, rtol=1e-10)
    mean, variance = leaf_moments(leaves, event)
    np.testing.assert_allclose(mean - c, p, rtol=1e-8)
    np.testing.assert_allclose(variance, p * (1.0 - p), rtol=1e-8)
    law = ColumnLaw(leaves, np.full(3, 1.0 / 3.0), np.zeros(1, np.int64), event)
    np.testing.assert_allclose(
        law.leaf_cdf(np.array([c - 1.0, c, c + 1.0])), np.stack([0.0 * p, 1.0 - p, 1.0 + 0.0 * p], 1)
    )
    np.testing.assert_allclose(raw_moments(leaves, c, 2, event), np.stack([1.0 + 0.0 * p, p, p], axis=1), rtol=1e-8)


# ---- moments
@pytest.mark.parametrize("name", ["palette", "missing", "infinite_missing", "splits"])
@pytest.mark.parametrize("known", ["nothing", "point", "interval"])
def test_mean_and_cov_are_those_of_all_states(name, known):
    post, problem = posterior_of(name), problem_of(name)
    numbers = [d for d, c in enumerate(post.columns) if c.kind != "categorical"]
    given, ref = None, None
    if known == "interval":
        given, ref = {"x0": (0.2, 1.5)}, {0: (0.2, 1.5)}
    elif known == "point":
        last = len(post.columns) - 1
        given, ref = {f"x{last}": 2}, {last: 2.0}
    mean, cov = post.mean(given), post.cov(given)
    exact, spread = reference_queries.moments(problem, ref, second=True)
    spread = spread[np.ix_(numbers, numbers)]
    np.testing.assert_allclose(mean, exact[numbers], rtol=1e-7)
    np.testing.assert_allclose(cov, spread, rtol=1e-6, atol=1e-7)
    assert mean["column"].values.tolist() == [post.columns[d].name for d in numbers]
    assert mean.attrs.get("left_out", []) == [c.name for c in post.columns if c.kind == "categorical"]
    if known == "interval" and post.columns[0].kind != "categorical":
        assert mean.attrs["exactness"] == "numerical given the draws" and mean.attrs["tolerance"] == 1e-8


def test_tails_too_heavy_for_a_variance_are_named():
    problem = problem_of("depths")
    schema = schema_of(problem)
    schema.hyperparameters["leaf_shape"] = {"fixed": [0.4, 0.9]}
    digits = np.zeros((1, 5, 3, 3), np.int8)
    post = ps.SPNPosterior.from_idata(tree_of(schema, problem.X, digits, np.ones((1, 5, 2)), np.ones((1, 5))))
    assert np.isfinite(post.mean()).all() and post.mean().attrs["principal_value"] == ["x0"]
    cov = post.cov()
    assert cov.attrs["infinite_variance"] == ["x0", "x1"] and np.isfinite(cov.values[0, 1])
    # a variance that is infinite took the errors of all others with it
    np.testing.assert_array_equal(np.isfinite(cov.attrs["mcse_chain"]), np.isfinite(cov.values))
    bounded = post.cov(given={"x0": (0, 9), "x1": (-9, 9)})
    assert np.isfinite(bounded).all() and "infinite_variance" not in bounded.attrs


def test_draws_without_weight_do_not_count_whatever_their_moments():
    """Against the posterior without the draws whose leaves have no variance, and where every draw has no mean."""
    problem, bad = problem_of("depths"), np.arange(12) % 3 == 1
    schema = schema_of(problem)
    schema.hyperparameters["leaf_shape"] = {"variable": "x_shape"}
    tree = tree_of(schema, problem.X, np.zeros((1, 12, 3, 3), np.int8), np.ones((1, 12, 2)), np.ones((1, 12)))
    shapes = np.where(bad, 0.4, np.linspace(2.1, 3.0, 12))[None, :, None] * np.ones(2)
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().assign(x_shape=(("chain", "draw", "d"), shapes)))
    whole = weighted_posterior(states_of(tree), np.where(bad, -1e4, 0.0))
    chosen = {name: tree[name].to_dataset().isel(draw=~bad) for name in ("posterior", "sample_stats")}
    few = ps.SPNPosterior.from_idata(tree.assign({name: xr.DataTree(part) for name, part in chosen.items()}))
    assert np.isinf(whole.cov(per_draw=True)[0, 1, 0, 0])
    for ask in (
        lambda post: post.mean(),
        lambda post: post.cov(),
        lambda post: post.moment(2),
        lambda post: post.moment(1),
        lambda post: post.moment(2, central=True),
    ):
        found = ask(whole)
        np.testing.assert_allclose(found, ask(few), rtol=1e-12, atol=1e-14)
        assert not {"infinite_variance", "no_moment", "principal_value"} & found.attrs.keys()
        assert np.isfinite(found.attrs["mcse_chain"]).all()
    row = pd.DataFrame({"x0": [np.nan], "x1": [1.0]})
    assert "principal_value" not in whole.predict(row, "x0").attrs
    assert "principal_value" in whole.mean(per_draw=True).attrs  # which has the draws without weight
    states = states_of(sampled_tree("skewed"))
    skewed = weighted_posterior(states, np.where(np.arange(states.n_draws) % 2, -1e4, 0.0))
    row = skewed.predict(pd.DataFrame({"x0": [np.nan], "x1": [3]}), "x0")
    for infinite in (skewed.mean()[0], skewed.moment(1)[0], row[0]):
        assert np.isposinf(infinite)
    assert skewed.mean().attrs["infinite_mean"] == ["x0"] == row.attrs["infinite_mean"]


# ---- simulation
@pytest.mark.parametrize(("name", "event", "given"), [case[:3] for case in CASES[::3]])
def test_frequencies_of_draws_are_probabilities(name, event, given):
    n = 4_000
    post = posterior_of(name)
    drawn = post.sample(n, given=given, random_seed=7)
    assert [str(t) for t in drawn.dtypes] == [c.dtype for c in post.columns]
    for what, known in [(event, None), (given or {}, 1.0)]:
        inside = np.ones(n, bool)
        asked = {k: v for k, v in what.items() if not (isinstance(v, float) and known is None)}
        for column, e in asked.items():
            x = drawn[column]
            if isinstance(e, tuple):
                inside &= (x >= (-np.inf if e[0] is None else e[0])) & (x <= (np.inf if e[1] is None else e[1]))
            else:
                inside &= x.isin(e if isinstance(e, set) else {e})
        p = float(post.probability(asked, given)) if known is None else known
        assert abs(inside.mean() - p) <= SIGMAS * np.sqrt(p * (1 - p) / n)


def test_drawn_circuits_average_to_the_collapsed_predictive():
    name, n = "infinite_missing", 1500
    post = posterior_of(name)
    rows = np.where(np.isnan(problem_of(name).X[:2]), 1.0, problem_of(name).X[:2])
    df = Table.from_frame(decode(rows, post.columns), schema=post.columns)
    circuits = post.draw_circuits(n, random_seed=5)
    densities = np.exp([c.log_density(df).values for c in circuits])
    off = densities.mean(axis=0) - np.exp(post.log_density(df).values)
    assert (np.abs(off) < SIGMAS * densities.std(axis=0) / np.sqrt(n)).all()
    assert all(0.0 < c.unoccupied_mass < 1.0 for c in circuits)
    one = circuits[0]
    assert one.circuit.columns == post.columns and (one.chain, one.draw) in [(0, d) for d in range(10_000)]
    (finite,), schema = posterior_of("depths").draw_circuits(1), law_of("depths").schema  # every copy of every node
    sizes = {c.name: len(p) for c, p in zip(schema.columns, schema.palette, strict=True)}
    assert finite.circuit.n_nodes == schema.structure.n_nodes(sizes)


# ---- memory
@pytest.mark.parametrize("n_kept", [0, 3])
def test_networks_that_are_not_kept_give_the_same_answers(n_kept, monkeypatch):
    """Leaves of kept networks are asked all at once, those of others one draw after the other; blocks of both."""
    whole, given = few_states("missing"), {"x0": (0.5, 2.0), "x2": {0, 1, 3}}
    seen, gap = {"x0": [0.7, np.nan], "x1": [1, 0], "x2": [2, 2]}, {"x1": [1, 0], "x2": [2, np.nan]}

    def answers(states):
        post = weighted_posterior(states)
        union = post.condition([given, {"x1": 1}])
        return [
            post.probability({"x1": 1}, given, per_draw=True),
            post.mean(given, per_draw=True),
            post.cov({"x1": 1}, per_draw=True),
            post.cdf([0.6, 1.0], "x0", given, per_draw=True),
            post.condition({"x2": (0, 3)}).predict(gap, "x0"),
            union.log_density(seen, per_draw=True),
            union.mean(per_draw=True),
            post.sample(20, given, random_seed=1).to_numpy(np.float64),
        ]

    expected = answers(whole)
    net = whole.network(0)
    size = recorded_states.own_bytes(net)
    monkeypatch.setattr(recorded_states, "KEPT_BYTES", int((n_kept - 0.5) * size))
    monkeypatch.setattr(column_leaves, "BLOCK", 7)
    monkeypatch.setattr(column_leaves, "HELD", 20)
    states = recorded_states.RecordedStates(whole.record)
    for found, value in zip(answers(states), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-12)
    assert sum(states.network(s).leaves is states.network(s).leaves for s in range(4)) == n_kept < states.n_draws == 4


# ---- refusals


@pytest.mark.parametrize(
    "end",
    [
        pd.NA,
        pd.Timestamp("2020"),
        np.datetime64("2020"),
        np.timedelta64(3, "s"),
        1j,
        True,
        np.True_,
        [3],
        b"3",
        10**400,
    ],
)
def test_ends_of_intervals_are_numbers(end):
    post = posterior_of("missing")
    message = "ends of an interval are numbers or None, column 'x0' has "
    for interval in ((end, 60.0), (0.0, end)):
        with pytest.raises(TypeError, match=f"event: {message}"):
            post.probability({"x0": interval})
        with pytest.raises(TypeError, match=f"given: {message}"):
            post.mean(given={"x0": interval})
    with pytest.raises(ValueError, match=f"event: {message}.*: NaN is neither"):
        post.probability({"x0": (np.nan, None)})
    found = post.probability({"x0": (np.float32(0.5), post.quantile(1.0, "x0"))})  # an answer is a number
    assert float(found) == float(post.probability({"x0": (0.5, None)}))


@pytest.mark.parametrize("missing", [np.nan, pd.NA, np.float32("nan")])
def test_what_is_asked_is_not_missing_and_what_is_given_may_be(missing):
    """A missing value asks nothing and would have probability 1; a row with gaps is a condition on the rest of it."""
    post = posterior_of("palette")
    message = r"column '.*' has the missing value .*; leave the column out"
    for name in ("x0", "x1", "x2"):
        with pytest.raises(ValueError, match=f"^event: {message}"):
            post.probability({name: missing})
        with pytest.raises(ValueError, match=rf"^event\[1\]: {message}"):
            post.probability([{"x0": 1}, {name: missing}])
        with pytest.raises(ValueError, match=rf"^given\[0\]: {message}"):
            post.condition([{name: missing}, {"x1": "b"}])
        assert float(post.probability({"x0": 1}, given={name: missing})) == float(post.probability({"x0": 1}))
    with pytest.raises(ValueError, match=f"^first: {message}"):
        post.event_information({"x0": missing}, {"x1": "b"})


def test_no_column_is_left_where_all_are_given():
    post = posterior_of("missing").condition({"x0": 0.5, "x1": 1, "x2": 2})
    df = pd.DataFrame({"x0": [0.5], "x1": [1], "x2": [2]})
    for ask in (lambda: post.sample(2), lambda: post.log_density(df), lambda: post.impute(df), post.mean):
        with pytest.raises(ValueError, match=r"no column is left to ask for: all are given, 'x0' 0\.5, 'x1' 1, 'x2' 2"):
            ask()
    with pytest.raises(ValueError, match="no column is left to ask for"):
        post.quantile(0.5, "x0")
    assert float(post.probability({})) == 1.0


def test_conditions_that_contradict_each_other():
    post = posterior_of("missing").condition({"x0": (0.5, 1.0), "x1": 1})
    with pytest.raises(ValueError, match=r"column 'x0' cannot be within \(2, 3\): .* within \(0.5, 1\)"):
        post.mean(given={"x0": (2, 3)})
    with pytest.raises(ValueError, match="given names column 'x1'; the columns are"):
        post.mean(given={"x1": 1})
    with pytest.raises(ValueError, match=r"row 4: column 'x0' cannot be 5.0: .* within \(0.5, 1\)"):
        post.impute(pd.DataFrame({"x0": [0.7, 5.0], "x2": [1, 1]}, index=[3, 4]))
    for refused in (post.log_likelihood, lambda: post.draw_circuits(1)):
        with pytest.raises(ValueError, match="needs the posterior as sampled"):
            refused()


def test_other_arguments_are_refused():
    post = posterior_of("palette")
    with pytest.raises(ValueError, match="n must be an integer of at least 0, got -1"):
        post.sample(-1)
    gaps = pd.DataFrame({"x0": [1], "x1": ["a"], "x2": [None]})
    for ask in (
        post.sample,
        post.draw_circuits,
        post.condition([{"x0": (0, 1)}, {"x1": "a"}]).sample,
        lambda n: post.impute(gaps, n=n),
        lambda n: post.entropy(method="monte-carlo", n=n),
        lambda n: post.mutual_information("x0", "x1", method="monte-carlo", n=n),
        lambda n: post.predictive_p_value(gaps, n=n),
    ):
        with pytest.raises(ValueError, match=r"n = 1,000,000,000,000 needs .* gigabytes of memory, more than half of"):
            ask(10**12)
    with pytest.raises(ValueError, match="columns names 'z'"):
        post.marginal(["z"])
    for columns in (None, {"x0": 1}):
        with pytest.raises(TypeError, match="columns must be a list of names, got "):
            post.marginal(columns)
    assert [c.name for c in post.marginal("x1").columns] == ["x1"]
    assert [c.name for c in post.marginal(c for c in ("x1", "x0")).columns] == ["x0", "x1"]
    for known in (post, post.condition([{"x0": (0, 1)}, {"x0": (2, 3)}])):
        with pytest.raises(TypeError, match=r"given must map column names .* got None"):
            known.condition(None)
    with pytest.raises(ValueError, match="moments need a numeric column"):
        post.marginal(["x1"]).mean()
