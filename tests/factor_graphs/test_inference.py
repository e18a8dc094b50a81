"""Every answer about small graphs against enumeration of all configurations."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings

from pymc_spn import FactorGraph
from pymc_spn.factor_graphs import inference
from tests.factor_graphs.graphs import build, given_labels, graphs
from tests.reference_factor_graphs import all_configurations, joint, log_sum, log_values, probabilities

BOUND = 1e-12  # the issue's; rounding of some twenty operations stays below 1e-14
quick = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def infer(fg, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # impossible evidence
        return fg.compile().infer(*args, **kwargs)


def close(a, b, scale=1.0):
    return np.max(np.abs(np.asarray(a) - np.asarray(b)), initial=0.0) <= BOUND * max(1.0, scale)


def test_unknown_columns_of_rows_are_left_out():
    fg = FactorGraph({"a": 2, "b": 2})
    fg.add_factor(("a", "b"), np.log([[0.1, 0.2], [0.3, 0.4]]))
    rows = pd.DataFrame({"b": [0, 1], "id": [7, 8]})
    with pytest.warns(UserWarning, match="given: unknown columns are ignored: 'id'"):
        found = fg.compile().infer(rows).marginal("a")
    np.testing.assert_array_equal(found, fg.compile().infer(rows[["b"]]).marginal("a"))


@quick
@given(graphs())
def test_sums_equal_enumeration(problem):
    cards, factors, codes = problem
    fg = build(cards, factors)
    r = infer(fg, given_labels(codes))
    values = log_values(cards, factors, codes)
    total = log_sum(values)
    if total == -np.inf:
        assert float(r.log_z) == -np.inf
        assert all(np.all(m == 0.0) for m in r.marginals().values())
        assert all(np.all(r.factor_marginal(i) == 0.0) for i in range(len(factors)))
        assert float(r.entropy()) == 0.0
        return
    assert close(r.log_z, total, abs(total))
    assert close(r.log_evidence, total - log_sum(log_values(cards, factors)), abs(total))
    p = probabilities(values)
    for v in range(len(cards)):
        assert close(r.marginal(f"v{v}"), joint(cards, p, [v]))
    for i, (scope, _) in enumerate(factors):
        assert close(r.factor_marginal(i), joint(cards, p, scope))
    for a in range(len(cards)):
        for b in range(a):
            assert close(r.pairwise(f"v{a}", f"v{b}"), joint(cards, p, [a, b]))
    assert close(r.entropy(), -sum(x * np.log(x) for x in p if x > 0), abs(total))


@quick
@given(graphs(max_variables=5, ties=True))
def test_maxima_equal_enumeration_with_ties(problem):
    cards, factors, codes = problem
    fg = build(cards, factors)
    r = infer(fg, given_labels(codes))
    values = log_values(cards, factors, codes)
    best = values.max()
    if best == -np.inf:
        for query in (r.map, lambda: r.kbest(2), lambda: r.sample(1)):
            with pytest.raises(ValueError, match="the evidence has probability zero"):
                query()
        return
    found = r.map()
    assert float(found.log_value) == pytest.approx(best, abs=1e-12)
    assert float(found.log_probability) == pytest.approx(best - log_sum(values), abs=1e-12)
    assert tuple(found.state.values) == all_configurations(cards)[int(np.argmax(values))]  # the first in order
    assert int(found.n_maximisers) == np.sum(values >= best - 1e-9)
    for v in range(len(cards)):
        expected = [
            max(x for x, c in zip(values, all_configurations(cards), strict=True) if c[v] == s) for s in range(cards[v])
        ]
        np.testing.assert_allclose(r.max_marginal(f"v{v}"), expected, atol=1e-12)
    k = 6
    ranked = np.sort(values)[::-1][:k]
    top = r.kbest(k)
    np.testing.assert_allclose(top.log_value[: len(ranked)], ranked, atol=1e-12)
    assert np.all(top.log_value[len(ranked) :] == -np.inf)
    possible = [tuple(x) for x, v in zip(top.state.values, top.log_value.values, strict=True) if v > -np.inf]
    assert len(set(possible)) == len(possible)
    for x, value in zip(possible, top.log_value.values, strict=False):
        assert values[all_configurations(cards).index(x)] == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("room", [None, 60])
def test_pairs_outside_a_clique_take_one_run_of_all_states_where_there_is_room(monkeypatch, room):
    """A run for each state worked all tables out anew: 173 s for the ends of a chain of three with 1000 states."""
    rng = np.random.default_rng(2)
    cards, runs, run = (4, 3, 2, 5), [], inference.run
    factors = [(s, rng.normal(size=[cards[v] for v in s])) for s in [(0, 1), (1, 2), (2, 3)]]
    columns = {"v0": [1, None, None, 2, None], "v3": [None, None, 4, 0, None]}
    soft = rng.normal(size=(5, 2))
    r = infer(build(cards, factors), columns, soft_evidence={"v2": soft})
    monkeypatch.setattr(inference, "run", lambda *a, **k: runs.append(1) or run(*a, **k))
    if room is not None:
        monkeypatch.setattr(inference, "MOST_BELIEFS", room)
    for a, b in ((0, 3), (3, 0), (0, 2), (3, 1)):
        found = r.pairwise(f"v{a}", f"v{b}")
        assert found.dims == ("row", f"v{a}", f"v{b}")
        for i in range(5):
            codes = [columns["v0"][i], None, None, columns["v3"][i]]
            p = probabilities(log_values(cards, factors, codes, {2: soft[i]}))
            assert close(found[i], joint(cards, p, [a, b]))
    assert len(runs) == (4 if room is None else 4 + 4 + 2 + 3)


def test_rows_with_gaps_and_soft_evidence_equal_enumeration_row_by_row():
    rng = np.random.default_rng(1)
    cards = (2, 3, 2, 1, 3)
    factors = [(s, rng.normal(size=[cards[v] for v in s])) for s in [(0, 1), (1, 2), (2, 0, 4), (3,), (3, 1)]]
    fg = build(cards, factors)
    n = 21  # two groups of eight and a rest
    codes = [[int(rng.integers(k)) if rng.random() < 0.4 else None for k in cards] for _ in range(n)]
    soft = {v: rng.normal(size=(n, cards[v])) for v in (1, 4)}
    soft[4][3, 1] = -np.inf
    columns = {f"v{v}": [np.nan if c[v] is None else c[v] for c in codes] for v in range(len(cards))}
    r = infer(fg, columns, soft_evidence={f"v{v}": s for v, s in soft.items()})
    draws = r.sample(5, random_seed=3)
    found = r.map()
    for i in range(n):
        values = log_values(cards, factors, codes[i], {v: s[i] for v, s in soft.items()})
        p = probabilities(values)
        assert close(r.log_z[i], log_sum(values), abs(log_sum(values)))
        for v in range(len(cards)):
            assert close(r.marginal(f"v{v}")[i], joint(cards, p, [v]))
        assert close(r.pairwise("v0", "v4")[i], joint(cards, p, [0, 4]))
        assert close(r.factor_marginal(2)[i], joint(cards, p, (2, 0, 4)))
        assert close(r.entropy()[i], -sum(x * np.log(x) for x in p if x > 0), 10)
        assert tuple(found.state[i].values) == all_configurations(cards)[int(np.argmax(p))]
        for x in draws[i].values:
            assert p[all_configurations(cards).index(tuple(x))] > 0


def test_rows_of_several_levels_are_named_by_their_text():
    rows = pd.DataFrame({"v0": [0, 1]}, index=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["row", "time"]))
    found = infer(build((2, 2), [((0, 1), np.zeros((2, 2)))]), rows).marginal("v1")
    assert found["row"].values.tolist() == ["('a', 1)", "('b', 2)"]


def test_draws_have_the_enumerated_frequencies():
    rng = np.random.default_rng(5)
    cards = (2, 3, 2)
    factors = [((0, 1), rng.normal(size=(2, 3))), ((1, 2), rng.normal(size=(3, 2))), ((0, 2), rng.normal(size=(2, 2)))]
    r = infer(build(cards, factors))
    p = probabilities(log_values(cards, factors))
    n = 20_000
    drawn = r.sample(n, random_seed=2).values @ (6, 2, 1)
    observed = np.bincount(drawn, minlength=12)
    g = 2 * np.sum(observed * np.log(observed / (n * p)))
    assert g < 31.3  # 0.1 % point of chi squared with 11 degrees of freedom; draws of the marginals alone give 2,000


def test_draws_depend_on_the_seed_alone():
    fg = FactorGraph.ising((3, 3), 0.5)
    a, b, c = (infer(fg).sample(50, random_seed=s) for s in (1, 1, 2))
    assert a.equals(b) and not a.equals(c)


def test_the_lecture_s_table_separates_map_from_marginals():
    fg = FactorGraph({"x1": 2, "x2": 2})
    with np.errstate(divide="ignore"):
        fg.add_factor(("x1", "x2"), np.log([[0.3, 0.4], [0.3, 0.0]]))
    r = infer(fg)
    assert r.map().state.values.tolist() == [0, 1]
    assert [int(r.marginal(v).values.argmax()) for v in ("x1", "x2")] == [0, 0]
    np.testing.assert_allclose(r.marginal("x2"), [0.6, 0.4], atol=1e-15)


def test_ties_of_a_uniform_graph_are_broken_by_declared_order_and_counted():
    fg = FactorGraph({"a": 3, "b": ["q", "p"], "c": 2})
    fg.add_factor(("c", "a"), np.zeros((2, 3)))
    found = infer(fg).map()
    assert found.state.values.tolist() == [0, "q", 0]
    assert float(found.n_maximisers) == 12.0


def test_a_maximiser_is_first_in_declared_order_even_if_marginal_argmaxes_are_not_one():
    fg = FactorGraph({"a": 2, "b": 2, "c": 2})
    table = np.full((2, 2, 2), -1.0)
    table[0, 1, 1] = table[1, 0, 0] = 0.0
    fg.add_factor(("a", "b", "c"), table)
    found = infer(fg).map()
    assert found.state.values.tolist() == [0, 1, 1]
    assert int(found.n_maximisers) == 2
