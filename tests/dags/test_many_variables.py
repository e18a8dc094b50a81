"""Graphs of more variables than a word has bits, candidate parents that grow, and the search for the best graph."""

import numpy as np
import pandas as pd
import pytest

import pymc_spn as ps
from pymc_spn.dags import candidate_growth, candidates, local_scores
from pymc_spn.dags.constraints import read_constraints
from pymc_spn.dags.scores import BGe
from pymc_spn.dags.structure_prior import prior_terms
from pymc_spn.tables import read_table
from tests.dags.score_tables import linear_table, listed_scores


@pytest.fixture(scope="module")
def small():
    """Scores of five variables, all of which may be parents of each."""
    return ps.LocalScores.from_data(linear_table(5, 40, 3))


@pytest.fixture(scope="module")
def wide(small):
    """The same five among 70, of which no other has a parent or is one; what is below them must stand behind."""
    some, names = [3, 17, 40, 64, 69], [f"w{i}" for i in range(70)]
    table = {name: {(): 0.0} for name in names}
    for i, place in enumerate(some):
        table[names[place]] = {
            tuple(names[some["abcde".index(v)]] for v in small.parents_of_index(i, m)): float(small.of("abcde"[i])[m])
            for m in range(16)
        }
    return listed_scores(table), [names[place] for place in some]


def test_orders_of_seventy_variables_answer_as_the_five_that_matter(small, wide):
    scores, some = wide
    exact, post = ps.OrderSPN.exact(small), ps.DagPosterior.from_scores(scores, draws=1_000, random_seed=4)
    assert post.engine == "orders" and post.scores.d == 70
    pairs = {"parent": some, "child": some}
    known = {"present": [("a", "b")], "absent": [("c", "d")]}
    here = {key: [(some["abcde".index(a)], some["abcde".index(b)]) for a, b in edges] for key, edges in known.items()}
    for ours, theirs in ((post, exact), (post.condition(**here), exact.condition(**known))):
        found, expected = ours.edge_probabilities(), theirs.edge_probabilities().values
        mcse = pd.DataFrame(np.nan_to_num(found.attrs["mcse"]), scores.names, scores.names).loc[some, some].to_numpy()
        away = np.abs(found.sel(pairs).values - expected)
        assert (away <= 5 * mcse + 1e-9).all()
        assert away.max() < 0.1 and (np.abs(found.sel(pairs).values - expected.T) > 5 * mcse + 1e-9).any()
        assert found.values.sum() == pytest.approx(found.sel(pairs).values.sum(), abs=1e-12)
    before = post.before_probabilities()
    away = before.sel(before=some, after=some).values - exact.before_probabilities().values
    assert np.abs(away).max() < 0.1
    assert before.sel(before="w0", after="w1") == pytest.approx(0.5, abs=0.1)
    best, theirs = post.most_probable(), exact.most_probable()
    assert scores.log_score(best.graph.adjacency) == pytest.approx(small.log_score(theirs.graph.adjacency))
    graphs = post.sample(50, random_seed=1)
    assert all(ps.DAG(scores.names, graph).cpdag() for graph in graphs.values)
    classes = post.equivalence_classes(200, random_seed=2)
    assert float(classes.probability.sum()) == pytest.approx(1.0)


def test_what_needs_sets_as_bits_says_so_for_seventy_variables(wide, tmp_path):
    scores, some = wide
    post = ps.DagPosterior.from_scores(scores, draws=20, chains=2, random_seed=0)
    rule = r"at most 64 variables are possible, got 70; ps.DagPosterior with engine='orders'"
    for ask in (
        lambda: ps.OrderSPN.regular(scores, [2] * 7),
        lambda: post.structure_modular(5),
        lambda: ps.DagOrder("order", scores),
        lambda: ps.DagPartition("partition", scores),
    ):
        with pytest.raises(ValueError, match=rule):
            ask()
    with pytest.raises(ValueError, match="a sum over all orders: at most 64"):
        ps.OrderSPN.exact(scores)
    told = post.condition(present=[(some[0], some[4])])
    told.save(tmp_path / "wide.nc")
    again = ps.load(tmp_path / "wide.nc")
    np.testing.assert_array_equal(again.edge_probabilities(), told.edge_probabilities())


@pytest.fixture(scope="module")
def few(module_patch):
    """A table of nine columns, its scores with at most three grown candidates, and with all."""
    for room, value in ((candidates, {"FIRST": 2, "MOST": 3}), (local_scores, {"FIRST": 2, "MOST": 3})):
        for name, number in value.items():
            module_patch.setattr(room, name, number)
    module_patch.setattr(candidate_growth, "MOST", 3)
    module_patch.setattr(local_scores, "ALL_CANDIDATES", 4)
    df = linear_table(9, 60, 12)
    return df, ps.LocalScores.from_data(df), ps.LocalScores.from_data(df, max_candidates=8)


@pytest.fixture(scope="module")
def module_patch():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def test_edges_that_candidates_leave_out_are_estimated(few, tmp_path):
    _, grown, whole = few
    assert grown.n_candidates.max() == 3 and len(grown.restricted) == 9
    exact = ps.OrderSPN.exact(whole).edge_probabilities().values
    post = ps.OrderSPN.exact(grown)
    answer = post.edge_probabilities()
    outside = ~np.eye(9, dtype=bool) & (grown.slots.T < 0)
    np.testing.assert_array_equal(outside, ~np.isnan(grown.outside))
    np.testing.assert_array_equal(answer.values[outside], grown.outside[outside])
    assert answer.attrs["exactness"] == "monte-carlo" and "edges left out" in answer.attrs["candidates"]
    # one step from the restricted posterior towards the whole one: nearer to it than zero is, for all and for most
    errors = np.abs(answer.values - exact)[outside]
    assert errors.sum() < 0.6 * exact[outside].sum()
    assert grown.left_out == grown.outside[outside].max() < 0.5
    post.save(tmp_path / "grown.nc")
    np.testing.assert_array_equal(ps.load(tmp_path / "grown.nc").edge_probabilities(), answer)


def _at(scores, edge):
    return scores.position(edge[0]), scores.position(edge[1])


def test_what_is_known_of_edges_that_were_left_out(few):
    _, grown, _ = few
    post = ps.OrderSPN.exact(grown)
    parent, child = np.argwhere(~np.eye(9, dtype=bool) & (grown.slots.T < 0))[0]
    edge = grown.names[parent], grown.names[child]
    rule = rf"present names '{edge[0]}' -> '{edge[1]}', but '{edge[0]}' is not a candidate parent"
    for ask in (post.condition, post.probability, lambda present: post.sample(1, {"present": present})):
        with pytest.raises(ValueError, match=rule):
            ask(present=[edge])
    there = next(e for e in post.most_probable().graph.edges if not np.isnan(grown.outside[_at(grown, e[::-1])]))
    turned = post.condition(present=[there]).edge_probabilities()
    assert turned.values[_at(grown, there)] == pytest.approx(1.0) and turned.values[_at(grown, there[::-1])] == 0.0
    told = post.condition(absent=[edge]).edge_probabilities()
    assert told.sel(parent=edge[0], child=edge[1]) == 0.0
    assert told.sel(parent=edge[1], child=edge[0]) > 0.0


def test_estimates_are_conditional_probabilities_given_order_and_other_parents(few):
    """Against the scores of all candidates, for one order and graph; with the order turned they are others."""
    df, grown, whole = few
    scorer = BGe().scorer(read_table(df), np.zeros(df.shape, bool))
    terms = prior_terms("fair", grown.names)[:2]
    known = scorer, read_constraints(grown.names, None, None, None), terms
    rng = np.random.default_rng(1)
    order, graph = rng.permutation(9), np.zeros((9, 9), bool)
    for p, child in enumerate(order):
        graph[[j for j in order[:p] if grown.slots[child, j] >= 0], child] = True
    added, swapped = candidate_growth.outside_probabilities(grown, *known, order[None], graph[None], {})
    turned, _ = candidate_growth.outside_probabilities(grown, *known, order[None, ::-1].copy(), graph[None], {})
    place = np.argsort(order)

    def weight(child, parents):
        bits = sum(1 << int(j) for j in parents)
        return whole.of(grown.names[child])[whole.index_of_parents(child, bits)]

    seen = 0
    for parent, child in np.argwhere(~np.eye(9, dtype=bool) & (grown.slots.T < 0)):
        own = np.flatnonzero(graph[:, child])
        if place[parent] > place[child]:
            assert added[parent, child] == swapped[parent, child] == 0.0
            continue
        now, more = weight(child, own), weight(child, [*own, parent])
        assert added[parent, child] == pytest.approx(1 / (1 + np.exp(now - more)), rel=1e-9)
        assert turned[parent, child] == 0.0
        if own.size:
            others = [weight(child, [parent, *(j for j in own if j != left)]) for left in own]
            assert swapped[parent, child] == pytest.approx(1 / (1 + np.exp(now - max(others))), rel=1e-9)
        seen += 1
    assert seen > 5


def test_a_parent_that_only_matters_with_another_is_found(module_patch, few):
    """Greedy candidates see each cause of y with few others; two causes that cancel come in once graphs are drawn."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(400, 9))
    x[:, 1] = -0.97 * x[:, 0] + 0.25 * rng.normal(size=400)
    y = x[:, 0] + x[:, 1] + 0.7 * x[:, 2] + 0.7 * x[:, 3] + 0.1 * rng.normal(size=400)
    df = pd.DataFrame(np.column_stack([y, x]), columns=["y", *(f"x{i}" for i in range(9))])
    module_patch.setattr(candidates, "MOST", 6)
    module_patch.setattr(local_scores, "MOST", 6)
    module_patch.setattr(candidate_growth, "MOST", 6)
    greedy, grown = ps.LocalScores.from_data(df, max_candidates=2), ps.LocalScores.from_data(df)
    around_y = ps.OrderSPN.exact(grown).edge_probabilities()
    joined = around_y.sel(parent="y").values + around_y.sel(child="y").values
    assert (joined[1:5] > 0.99).all()
    few_joined = ps.OrderSPN.exact(greedy).edge_probabilities()
    assert (few_joined.sel(parent="y").values + few_joined.sel(child="y").values)[1:5].min() < 0.9


def test_more_parents_than_there_is_room_for_are_warned_of(monkeypatch):
    """Of 19 parents all are found; where 16 is the most, one that is left out is named."""
    for room, names in (
        (candidates, ("FIRST", "MOST")),
        (local_scores, ("FIRST", "MOST")),
        (candidate_growth, ("MOST",)),
    ):
        for name in names:
            monkeypatch.setattr(room, name, {"FIRST": 10, "MOST": 16}[name])
    x = np.random.default_rng(0).normal(size=(500, 20))
    x[:, 19] += x[:, :19].sum(axis=1)
    df = pd.DataFrame(x, columns=[f"x{i}" for i in range(20)])
    assert ps.LocalScores.from_data(df).candidate_list(19) == list(range(19))
    monkeypatch.setattr(candidate_growth, "LARGEST", 16)
    with pytest.warns(ps.CoverageWarning, match="was left out of the 16 candidate parents of 'x19'.*max_candidates="):
        scores = ps.LocalScores.from_data(df)
    assert scores.left_out > 0.2


def test_required_parents_of_one_variable_are_no_candidates_of_others():
    rng = np.random.default_rng(2)
    df = pd.DataFrame(rng.normal(size=(200, 24)), columns=[f"x{i}" for i in range(24)])
    required = [(f"x{i}", "x23") for i in range(17)]
    scores = ps.LocalScores.from_data(df, required=required)
    assert scores.n_candidates[23] == 18 and scores.n_candidates[:23].max() <= 16
    with pytest.raises(ValueError, match="up to 18 candidate parents: the score table"):
        ps.LocalScores.from_data(df, required=required, max_gigabytes=0.002)


def test_a_learned_prior_has_estimates_of_its_own(module_patch, few):
    df, grown, _ = few
    for room in (candidates, local_scores, candidate_growth):
        module_patch.setattr(room, "MOST", 6)
    learned = ps.LocalScores.from_data(df, prior="learned")
    penalty = ps.dags.EdgePenalty(float(learned.prior.split()[2].rstrip(",")))
    given = ps.LocalScores.from_data(df, prior=penalty)
    assert not np.array_equal(learned.outside, grown.outside, equal_nan=True)
    np.testing.assert_allclose(np.nanmax(learned.outside), np.nanmax(given.outside), rtol=0.5)


def test_the_search_from_sampled_orders_finds_the_best_graph():
    for seed in range(3):
        scores = ps.LocalScores.from_data(linear_table(10, 80, seed))
        exact = ps.OrderSPN.exact(scores).most_probable()
        post = ps.DagPosterior.from_scores(scores, engine="orders", draws=50, random_seed=seed)
        found = post.most_probable()
        assert scores.log_score(found.graph.adjacency) == pytest.approx(scores.log_score(exact.graph.adjacency))
        edge = found.graph.edges[0]
        told, theirs = (p.most_probable({"absent": [edge]}) for p in (post, ps.OrderSPN.exact(scores)))
        assert edge not in told.graph.edges
        assert scores.log_score(told.graph.adjacency) == pytest.approx(scores.log_score(theirs.graph.adjacency))
        assert scores.log_score(told.graph.adjacency) < scores.log_score(found.graph.adjacency)
        sampled = max(scores.log_score(graph) for graph in post.sample(200, random_seed=seed).values)
        assert sampled < scores.log_score(found.graph.adjacency) + 1e-9
