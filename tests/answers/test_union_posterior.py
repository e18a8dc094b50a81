"""The posterior given a union: disjoint parts against inclusion and exclusion, which are different sums."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given as property_of
from hypothesis import settings
from hypothesis import strategies as st

import pymc_spn as ps
from pymc_spn.events.disjoint_events import complement, disjoint_events
from pymc_spn.events.events import holds
from pymc_spn.leaves.intervals import Interval
from pymc_spn.leaves.leaf_predictives import TOLERANCE
from pymc_spn.tables import Column
from tests.hand_made_records import posterior_of, problem_of, sampled_tree, schema_of, tree_of

pytestmark = pytest.mark.usefixtures("integrated")

COLUMNS = (
    Column("real", "real", None, "float64"),
    Column("count", "count", None, "int64"),
    Column("level", "categorical", ("a", "b", "c"), "object"),
)
IS_DENSITY = (True, False, False)
UNION = [{"x0": (0.2, 1.1)}, {"x0": (0.8, None), "x1": 1}, {"x2": [(0, 1), (4, 6)]}, {"x2": {2, 3}, "x1": {0}}]

SMALL = [{"x0": (0.2, 1.1)}, {"x2": (4, 6), "x1": 1}]


def within(rows, events):
    """Whether each row satisfies all of an event's columns."""
    return np.all([holds(event, rows[:, d]) for d, event in events.items()], axis=0) | np.zeros(len(rows), bool)


@property_of(st.integers(0, 10_000))
@settings(max_examples=60)
def test_parts_exclude_each_other_and_make_the_union(seed):
    rng = np.random.default_rng(seed)

    def one():
        low = rng.integers(0, 8, 2).astype(float)
        event = {
            0: Interval(low[0], low[0] + rng.integers(0, 4)),
            1: Interval(low[1] + rng.choice([0.0, 0.5]), low[1] + 2.3) if rng.random() < 0.5 else
               frozenset(float(x) for x in rng.integers(0, 8, 3)),
            2: frozenset(float(x) for x in rng.choice(3, rng.integers(1, 3), replace=False)),
        }  # fmt: skip
        return {d: event[d] for d in rng.permutation(3)[: rng.integers(1, 4)].tolist()}

    events = [one() for _ in range(rng.integers(1, 5))]
    parts = disjoint_events("given", events, COLUMNS, IS_DENSITY)
    rows = np.column_stack([rng.integers(0, 24, 400) / 2, rng.integers(0, 12, 400), rng.integers(0, 3, 400)])
    held = sum(within(rows, part).astype(int) for part in parts)
    np.testing.assert_array_equal(held, np.any([within(rows, e) for e in events], axis=0).astype(int))


def test_complements():
    below, above = complement(Interval(1.0, 2.0), COLUMNS[0], True)
    assert below.high == np.nextafter(1.0, 0.0) and above.low == np.nextafter(2.0, 3.0)
    assert complement(Interval(0.5, 3.7), COLUMNS[1], False) == [Interval(-np.inf, 0.0), Interval(4.0, np.inf)]
    assert complement(frozenset({0.0, 3.0}), COLUMNS[1], False) == [Interval(1.0, 2.0), Interval(4.0, np.inf)]
    assert complement(frozenset({1.0}), COLUMNS[2], False) == [frozenset({0.0, 2.0})]
    assert complement(frozenset({0.0, 1.0, 2.0}), COLUMNS[2], False) == []


INFORMATION = [
    lambda p, **given: p.entropy("x0", **given),
    lambda p, **given: p.entropy("x1", **given),
    lambda p, **given: p.entropy(["x0", "x1"], method="monte-carlo", n=50, random_seed=1, **given),
    lambda p, **given: p.mutual_information("x0", "x1", n=50, random_seed=1, **given),
    lambda p, **given: p.mutual_information("x1", ["x0", "x2"], n=50, random_seed=1, **given),
    lambda p, **given: p.dependence(n=50, random_seed=1, **given)["mutual_information"],
    lambda p, **given: p.event_information({"x1": 1}, {"x2": (0, 3)}, **given),
    lambda p, **given: p.moment(2, **given),
    lambda p, **given: p.moment(3, central=True, **given),
    lambda p, **given: p.cdf([0.3, 1.0], "x0", **given),
    lambda p, **given: p.quantile([0.1, 0.7], "x2", **given),
]


@pytest.mark.parametrize("ask", INFORMATION)
def test_a_union_is_given_or_a_condition(ask):
    """What was given had to be a condition first, and the condition did not have the question."""
    post = posterior_of("missing")
    found, other = ask(post.condition(SMALL)), ask(post, given=SMALL)
    np.testing.assert_allclose(found, other, rtol=1e-12)
    assert found.attrs["exactness"] == other.attrs["exactness"] and found.attrs.keys() == other.attrs.keys()


def test_moments_that_are_infinite_are_named():
    """Log-normal leaves have no mean of their predictive, unless every part bounds the column."""
    post = posterior_of("skewed")
    open_ended = post.condition([{"x0": (0.5, None)}, {"x1": (2, None)}])
    assert open_ended.mean().attrs["infinite_mean"] == ["x0"] == post.mean().attrs["infinite_mean"]
    assert open_ended.cov().attrs["infinite_variance"] == ["x0"]
    bounded = post.condition([{"x0": (0.5, 1.0)}, {"x0": (2.0, 3.0)}])
    assert "infinite_mean" not in bounded.mean().attrs and np.isfinite(bounded.cov()).all()


def test_marks_of_moments_are_those_of_all_parts():
    """The weakest exactness and every column named by a part, whichever of them comes first."""
    problem = problem_of("missing")
    schema = schema_of(problem)
    schema.hyperparameters["leaf_shape"] = {"fixed": [0.4, 1.5, 1.5]}
    digits = np.zeros((1, 5, 3, 5), np.int8)
    post = ps.SPNPosterior.from_idata(tree_of(schema, problem.X, digits, np.ones((1, 5, 2)), np.ones((1, 5))))
    parts = [{"x1": {0}}, {"x1": {1}, "x0": (0.2, 1.1)}]
    joined = {"tolerance": TOLERANCE, "principal_value": ["x0"]}
    for given in (parts, parts[::-1]):
        union = post.condition(given)
        weights = [float(post.probability(part)) / float(post.probability(given)) for part in given]
        expected = sum(w * post.mean(part).values for w, part in zip(weights, given, strict=True))
        np.testing.assert_allclose(union.mean(), expected, rtol=1e-12)
        for found in (union.mean(), union.cov(), union.mean(per_draw=True), union.cov(per_draw=True)):
            assert {k: found.attrs.get(k) for k in joined} == joined
            assert found.attrs["exactness"].removesuffix(" given the draws") == "numerical"
    exact = post.condition([{"x1": {0}}, {"x1": {1}, "x2": {2}}]).mean()
    assert exact.attrs["exactness"] == "exact given the draws" and "tolerance" not in exact.attrs
    named = posterior_of("palette").condition([{"x0": {1}}, {"x2": (0, 1)}]).mean().attrs
    assert named["left_out"] == ["x1"]


# ---- single columns


def test_quantiles_where_the_distribution_function_is_flat():
    """The end of a part."""
    apart = posterior_of("missing").condition({"x0": [(0.2, 0.6), (0.9, 1.4)]})
    flat = float(apart.cdf(0.75, "x0"))
    below, above = apart.quantile([flat - 1e-9, flat + 1e-9], "x0").values
    assert 0.6 - 1e-6 < below < 0.6 and 0.9 < above < 0.9 + 1e-6
    mixed = apart._law.column(0).mixed(np.exp(apart._law.log_weights))
    assert mixed.quantile(mixed.cdf(np.array([0.75]))[0]).tolist() == [0.6]
    assert apart.quantile([0.0, 1.0], "x0").values.tolist() == [0.2, 1.4]


# ---- the most probable row
def best_on_grid(union, counts):
    """Largest log density of rows on a grid within the union."""
    x = np.round(np.linspace(0.3, 5.0, 95), 2)
    grid = pd.DataFrame({"x0": np.tile(np.repeat(x, counts), 2), "x1": np.repeat([0, 1], x.size * counts)})
    grid["x2"] = np.tile(np.arange(counts), 2 * x.size)
    return float(union.log_density(grid).max())


def test_most_probable_rows():
    post = posterior_of("missing")
    union = post.condition([{"x0": (1.6, 2.5)}, {"x0": (0.3, 0.8), "x1": 1}, {"x0": (3.0, 5.0), "x2": (1, 3)}])
    found = union.mpe()
    assert found.log_density.attrs["exactness"] == "local maximum given the draws"
    assert float(found.log_density) == pytest.approx(float(union.log_density(found.value)[0]), abs=1e-9)
    grid = best_on_grid(union, 8)
    assert grid - 1e-9 <= float(found.log_density) <= grid + 1e-2  # a step of the grid is 0.05
    assert float(found.upper_bound) >= float(found.log_density)
    assert list(found.value.columns) == ["x0", "x1", "x2"] and "draws_after_weighting" in found.value.attrs
    known = union.mpe(given={"x1": 0})
    apart = post.condition([{"x0": (1.6, 2.5), "x1": 0}, {"x0": (3.0, 5.0), "x2": (1, 3), "x1": 0}]).mpe()
    assert known.value["x1"].tolist() == [0]
    assert float(known.log_density) == pytest.approx(float(apart.log_density), abs=2e-6)


def test_most_probable_rows_of_overlapping_parts():
    """In a marginal the parts overlap: the bound is that of the sum of their densities."""
    post = posterior_of("missing")
    grid = pd.DataFrame({"x1": np.repeat([0, 1], 12), "x2": np.tile(np.arange(12), 2)})
    for given in (
        [{"x0": (0.0, 0.3)}, {"x0": (1.0, 1.4), "x2": (0, 3)}],
        [{"x0": (0.0, 0.3), "x2": (4, None)}, {"x0": (1.0, 1.4)}, {"x0": (1.6, 3.0), "x1": 0}],
    ):
        union = post.condition(given).marginal(["x1", "x2"])
        found, best = union.mpe(), float(union.log_density(grid).max())
        assert float(found.log_density) == pytest.approx(float(union.log_density(found.value)[0]), abs=1e-9)
        assert float(found.log_density) == pytest.approx(best, abs=1e-9) and float(found.upper_bound) >= best - 1e-9
    some = ps.SPNPosterior.from_idata(sampled_tree("missing")).condition(SMALL).mpe(max_draws=3)
    assert float(some.upper_bound) >= float(some.log_density) > -np.inf


def test_conditions_of_a_union():
    """Points, against the posterior given both; unions are those of `tests/events`."""
    post = posterior_of("missing")
    union = post.condition(SMALL)
    point = union.condition({"x0": 0.5})
    assert [c.name for c in point.columns] == ["x1", "x2"]
    p = float(post.probability({"x0": 0.5, "x1": 1}, SMALL)) / float(post.probability({"x0": 0.5}, SMALL))
    assert float(point.probability({"x1": 1})) == pytest.approx(p, rel=1e-10)
    assert float(union.mean(given={"x0": 0.5}).sel(column="x1")) == pytest.approx(p, rel=1e-10)
    assert float(union.probability({"x1": 1}, given={"x0": 0.5})) == pytest.approx(p, rel=1e-10)
    drawn = union.sample(50, given={"x0": 0.5}, random_seed=1)
    assert (drawn.x1.isin([0, 1])).all() and (drawn.x0 == 0.5).all()
