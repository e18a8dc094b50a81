"""The order posterior against enumeration of all pairs of order and graph; every query, every support."""

import numpy as np
import pandas as pd
import pytest
import reference_dags as brute
from reference_dags import score_function, table

import pymc_spn as ps
from pymc_spn.dags import passes as passes_module
from pymc_spn.dags.dag import to_cpdags
from pymc_spn.dags.prefix_lattice import PrefixLattice
from pymc_spn.dags.regular_tree import grow
from tests.dags.score_tables import listed_scores

TOLERANCE = 1e-10


def named(pairs):
    return [("abcdef"[j], "abcdef"[i]) for j, i in pairs]


EVIDENCE = [((), ()), (((0, 2),), ((1, 3),)), (((3, 1), (0, 1)), ((2, 3), (2, 0)))]


def supports(df, pairs):
    """Posterior objects with the pairs that each should stand for."""
    scores = ps.LocalScores.from_data(df)
    d = df.shape[1]
    full = brute.Pairs(score_function(df), d)
    yield ps.OrderSPN.exact(scores), full
    yield ps.OrderSPN(scores, PrefixLattice.all_prefixes(d), "exact"), full
    tree = grow(scores, [5, 2], "random", np.random.default_rng(0))
    inside = [o for o in full.orders if tree.paths.holds(np.array([o]))[0]]
    assert 1 < len(inside) < len(full.orders)
    if pairs:
        yield ps.OrderSPN(scores, tree.paths, "regular"), brute.Pairs(score_function(df), d, inside)


@pytest.mark.parametrize("logs", [False, True], ids=["linear", "logs"])
@pytest.mark.parametrize("evidence", EVIDENCE)
def test_every_query_equals_enumeration(monkeypatch, evidence, logs):
    if logs:
        monkeypatch.setattr(passes_module, "nothing_lost", lambda *_: False)
    df = table(4)
    present, absent = evidence
    given = {"present": named(present), "absent": named(absent)}
    for post, pairs in supports(df, True):
        matrices = post.scores.gaussian.matrices
        everything = pairs.answers()
        expected = pairs.answers(present, absent)
        assert float(post.log_mass) == pytest.approx(everything["log_total"], abs=TOLERANCE)
        probability = np.exp(expected["log_total"] - everything["log_total"])
        assert float(post.probability(**given)) == pytest.approx(probability, abs=TOLERANCE)
        conditioned = post.condition(**given)
        assert float(conditioned.log_mass) == pytest.approx(expected["log_total"], abs=TOLERANCE)
        for edges in (post.edge_probabilities(given), conditioned.edge_probabilities()):
            np.testing.assert_allclose(edges, expected["edges"], atol=TOLERANCE)
        np.testing.assert_allclose(post.before_probabilities(given), expected["before"], atol=TOLERANCE)
        for order, p in zip(pairs.orders, expected["orders"], strict=True):
            assert float(post.order_probability([df.columns[i] for i in order], given)) == pytest.approx(
                p, abs=TOLERANCE
            )
        for i, name in enumerate(df):
            answer = post.parent_set_probabilities(name, most=None, given=given)
            reference = pairs.parent_sets(i, expected["graphs"])
            for label, p in zip(answer.parents.values, answer.values, strict=True):
                parents = [] if label == "(none)" else label.split(", ")
                assert p == pytest.approx(reference[sum(1 << list(df).index(x) for x in parents)], abs=TOLERANCE)
        best = post.most_probable(given)
        assert best.log_probability == pytest.approx(expected["best"], abs=TOLERANCE)
        o = [tuple(df.columns[i] for i in order) for order in pairs.orders].index(best.order)  # ties are common
        g = int(np.flatnonzero((pairs.graphs == best.graph.adjacency).all(axis=(1, 2)))[0])
        assert pairs.keep(present, absent)[o, g] - expected["log_total"] == pytest.approx(expected["best"], abs=1e-9)
        np.testing.assert_allclose(
            post.causal_effects(given), pairs.effects(expected["graphs"], matrices), atol=TOLERANCE
        )


def test_five_variables_and_all_graphs():
    df = table(5)
    post = ps.OrderSPN.exact(ps.LocalScores.from_data(df))
    log_total, p = brute.posterior(score_function(df), 5)
    assert float(post.log_mass) == pytest.approx(log_total, abs=TOLERANCE)
    graphs = brute.all_dags(5)
    np.testing.assert_allclose(post.edge_probabilities(), np.einsum("g,gij->ij", p, graphs), atol=TOLERANCE)
    hit = graphs[:, 0, 1] & graphs[:, 1, 3] & ~graphs[:, 2, 4]
    asked = post.probability(present=[("a", "b"), ("b", "d")], absent=[("c", "e")])
    assert float(asked) == pytest.approx(p[hit].sum(), abs=TOLERANCE)


def test_effects_through_other_variables_are_not_small():
    """What the effect test would miss if the recursion stopped at direct effects, or left out those of the prefix."""
    df = table(4)
    pairs = brute.Pairs(score_function(df), 4)
    post = ps.OrderSPN.exact(ps.LocalScores.from_data(df))
    direct = np.eye(4)
    for g, p in zip(pairs.graphs, pairs.answers()["graphs"], strict=True):
        for i in range(4):
            parents = np.flatnonzero(g[:, i])
            matrix = post.scores.gaussian.matrices[i]
            if parents.size:
                direct[parents, i] += p * np.linalg.solve(matrix[np.ix_(parents, parents)], matrix[parents, i])
    assert np.abs(post.causal_effects() - direct).max() > 0.01


def test_no_probability_rounds_above_one():
    post = ps.OrderSPN.exact(ps.LocalScores.from_data(table(4)))
    for pair in [("a", "b"), ("b", "c"), ("b", "d"), ("d", "b")]:
        given = {"present": [pair]}
        assert post.edge_probabilities(given).max() <= 1.0 and post.before_probabilities(given).max() <= 1.0


@pytest.mark.parametrize("tiers", [None, [["c", "a"], ["b", "d"]], [["c"], ["d"]]])
def test_knowledge_restricts_the_enumeration(tiers):
    df = table(4)
    scores = ps.LocalScores.from_data(df, required=[("a", "b")], forbidden=[("c", "d")], tiers=tiers)
    post = ps.OrderSPN.exact(scores)
    base = score_function(df)
    early = [(j, i) for j in "abcd" for i in "abcd" if tiers and j in tiers[0] and i in tiers[1]]
    early = tuple(("abcd".index(j), "abcd".index(i)) for j, i in early)
    late = {i: {k for j, k in early if j == i} for i in range(4)}

    def score(i, parents):
        bad = (i == 1 and 0 not in parents) or (i == 3 and 2 in parents) or parents & late.get(i, set())
        return -np.inf if bad else base(i, parents)

    log_total, p = brute.posterior(score, 4, early)
    assert post.lattice.n_prefixes < 16
    assert float(post.log_mass) == pytest.approx(log_total, abs=TOLERANCE)
    np.testing.assert_allclose(post.edge_probabilities(), np.einsum("g,gij->ij", p, brute.all_dags(4)), atol=TOLERANCE)
    graphs = post.sample(200, random_seed=0).values
    assert graphs[:, 0, 1].all() and not graphs[:, 2, 3].any()


def test_edges_as_a_table_and_as_one_graph():
    post = ps.OrderSPN.exact(ps.LocalScores.from_data(table(4)))
    edges = post.edge_probabilities()
    rows = post.edge_table()
    assert list(rows.columns) == ["parent", "child", "probability", "mcse", "reversed"]
    assert len(rows) == 12 and rows["probability"].is_monotonic_decreasing and (rows["mcse"] == 0.0).all()
    for row in rows.itertuples():
        assert row.probability == edges.sel(parent=row.parent, child=row.child)
        assert row.reversed == edges.sel(parent=row.child, child=row.parent)
    assert (post.edge_table(0.4)["probability"] >= 0.4).all() and len(post.edge_table(1.0)) == 0
    given = {"present": [("d", "a")]}
    assert post.edge_table(given=given)["probability"][0] == pytest.approx(1.0, abs=TOLERANCE)
    for threshold in (0.0, 0.2, 0.5):
        graph = post.consensus(threshold)
        above = edges.values > threshold
        assert not (graph.adjacency & ~above).any()
        for j, i in np.argwhere(above & ~graph.adjacency):  # left out for a circle of edges at least as probable
            stronger = graph.adjacency & (edges.values >= edges.values[j, i])
            for _ in range(4):
                stronger = stronger | (stronger.astype(int) @ stronger > 0)
            assert stronger[i, j]
    assert ("d", "a") in post.consensus(given=given).edges
    with pytest.raises(ValueError, match=r"threshold must be a number from 0 to 1, got 1\.5"):
        post.consensus(1.5)
    with pytest.raises(ValueError, match="least must be a number from 0 to 1, got True"):
        post.edge_table(True)


def test_what_classes_share_is_enumerated():
    """4,000 draws: the bound is 5 standard errors of a share, at most .04."""
    df = table(4)
    post = ps.OrderSPN.exact(ps.LocalScores.from_data(df))
    _, p = brute.posterior(score_function(df), 4)
    classes = to_cpdags(brute.all_dags(4))
    both = classes & classes.swapaxes(1, 2)
    found = post.equivalence_classes(4_000, random_seed=0)
    compelled, reversible = (np.einsum("g,gij->ij", p, share) for share in (classes & ~both, both))
    assert 0.05 < compelled.max() and np.abs(compelled - reversible).max() > 0.2  # so the one is not the other
    np.testing.assert_allclose(found["compelled"], compelled, atol=0.04)
    np.testing.assert_allclose(found["reversible"], reversible, atol=0.04)
    share = found["reversible"]
    np.testing.assert_allclose(share.attrs["mcse"], np.sqrt(share * (1 - share) / 4_000), atol=1e-12)


def test_restricted_candidates_are_named_and_exact_for_what_is_left():
    df = table(5)
    scores = ps.LocalScores.from_data(df, max_candidates=2)
    post = ps.OrderSPN.exact(scores)
    base = score_function(df)
    allowed = [set(row[:n]) for row, n in zip(scores.candidates, scores.n_candidates, strict=True)]
    log_total, p = brute.posterior(lambda i, q: base(i, q) if q <= allowed[i] else -np.inf, 5)
    edges = post.edge_probabilities()
    assert "restricted for a, b, c, d, e" in edges.attrs["candidates"]
    assert float(post.log_mass) == pytest.approx(log_total, abs=TOLERANCE)
    np.testing.assert_allclose(edges, np.einsum("g,gij->ij", p, brute.all_dags(5)), atol=TOLERANCE)
    child = 0
    outside = next(j for j in range(1, 5) if j not in allowed[child])
    edge = [(df.columns[outside], "a")]
    assert float(post.probability(present=edge)) == 0.0  # not dropped in silence
    assert float(post.probability(absent=edge)) == 1.0
    with pytest.raises(ValueError, match="the evidence has probability zero"):
        post.condition(present=edge)


def test_draws_follow_the_posterior_and_the_seed():
    df = table(4)
    post = ps.OrderSPN.exact(ps.LocalScores.from_data(df))
    pairs = brute.Pairs(score_function(df), 4)
    given = {"present": [("a", "c")], "absent": [("b", "d")]}
    expected = pairs.answers(((0, 2),), ((1, 3),))
    n = 20_000
    draws = post.sample(n, given, random_seed=3)
    keys = {g.tobytes(): k for k, g in enumerate(pairs.graphs)}
    place = {tuple(o): k for k, o in enumerate(pairs.orders)}
    seen = np.zeros((len(pairs.orders), len(pairs.graphs)))
    for g, position in zip(draws.values, draws.position.values, strict=True):
        seen[place[tuple(np.argsort(position))], keys[g.tobytes()]] += 1
    logs = pairs.keep(((0, 2),), ((1, 3),))
    p = np.exp(logs - expected["log_total"])
    assert not seen[p == 0].any()
    big = p * n > 20
    chi2 = ((seen[big] - n * p[big]) ** 2 / (n * p[big])).sum()
    assert big.sum() > 30 and chi2 < big.sum() + 5 * np.sqrt(2 * big.sum())
    np.testing.assert_array_equal(draws, post.sample(n, given, random_seed=3))
    assert not np.array_equal(draws, post.sample(n, given, random_seed=4))


@pytest.mark.parametrize("kind", ["exact", "regular"])
def test_answers_are_marked_by_their_support(kind):
    scores = ps.LocalScores.from_data(table(4))
    made = {"exact": (), "regular": ([2, 2],)}[kind]
    post, seed = getattr(ps.OrderSPN, kind)(scores, *made), {"random_seed": 1}
    answers = [
        post.log_mass,
        post.edge_probabilities(),
        post.edge_probabilities(given={"absent": [("a", "b")]}),
        post.condition(absent=[("a", "b")]).edge_probabilities(),
        post.probability(present=[("a", "b")]),
        post.parent_set_probabilities("a"),
        post.before_probabilities(),
        post.order_probability(["a", "b", "c", "d"]),
        post.causal_effects(),
        post.sample(2, **seed),
        post.sample_effects(2, **seed),
        post.ancestor_probabilities(20, **seed),
        post.equivalence_classes(20, **seed).probability,
        post.structure_modular(20, **seed).edge_probability,
    ]
    marks = {answer.attrs["exactness"] for answer in answers}
    scope = "" if kind == "exact" else " on the support"
    assert marks == {f"{mark}{scope}" for mark in ("exact", "exact simulation", "monte-carlo")}
    assert all(("coverage" in answer.attrs) == (kind != "exact") for answer in answers)
    assert post.structure_modular(20, **seed).weight.attrs["exactness"] == "exact given the draws"


def test_drawn_effects_have_the_exact_means():
    df = table(4)
    post = ps.OrderSPN.exact(ps.LocalScores.from_data(df))
    draws = post.sample_effects(20_000, random_seed=1)
    error = (draws.mean("draw") - post.causal_effects()) / (draws.std("draw") / np.sqrt(20_000) + 1e-12)
    assert np.abs(error).max() < 5
    assert draws.dims == ("draw", "cause", "effect")
    assert draws.attrs["exactness"] == post.sample(1, random_seed=1).attrs["exactness"] == "exact simulation"


def test_drawn_effects_are_zero_where_no_path_leads():
    """Exactly, so that intervals which exclude zero can be told; the inverse of an unsorted matrix is not."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 8)) @ (np.eye(8) + np.tril(rng.normal(size=(8, 8)), -1))  # the last variable first
    post = ps.OrderSPN.exact(ps.LocalScores.from_data(pd.DataFrame(x, columns=list("abcdefgh")), standardize=True))
    graphs = post.sample(500, random_seed=1).values
    effects = post.sample_effects(500, random_seed=1).values
    reached = graphs | np.eye(8, dtype=bool)
    for _ in range(3):
        reached = (reached.astype(int) @ reached) > 0
    assert ((effects != 0.0) == reached).all() and not np.signbit(effects[~reached]).any()
    inverse = np.linalg.inv(np.eye(8) - np.where(graphs, effects, 0.0))
    assert (inverse[~reached] != 0.0).any()


def test_coefficients_have_the_spread_of_a_wishart_posterior():
    """Given a graph with one edge, the slope's variance is that of the normal-Wishart posterior, drawn directly."""
    from scipy.stats import wishart

    from pymc_spn.dags.causal_effects import effects_of_graphs

    df = table(3, n=12)
    moments = ps.LocalScores.from_data(df).gaussian
    graph = np.zeros((3, 3), bool)
    graph[0, 1] = graph[2, 1] = True
    rng = np.random.default_rng(0)
    order, repeated = (np.repeat(x[None], 40_000, axis=0) for x in (np.array([2, 0, 1]), graph))
    ours = effects_of_graphs(order, repeated, moments, rng)[:, [0, 2], 1]
    precision = wishart(moments.alpha_w + 12, np.linalg.inv(moments.matrices[1])).rvs(40_000, random_state=rng)
    covariance = np.linalg.inv(precision)
    slopes = np.linalg.solve(covariance[:, [[0], [2]], [0, 2]], covariance[:, [0, 2], 1][..., None])[..., 0]
    np.testing.assert_allclose(ours.mean(axis=0), slopes.mean(axis=0), atol=5 * slopes.std() / 200)
    np.testing.assert_allclose(ours.var(axis=0), slopes.var(axis=0), rtol=0.06)  # degrees of freedom one off: 0.13


def test_saved_posteriors_answer_the_same(tmp_path):
    df = table(5)
    scores = ps.LocalScores.from_data(df)
    tiers = ps.LocalScores.from_data(df, tiers=[["a", "b"], ["c", "d", "e"]])
    for post in (ps.OrderSPN.exact(scores), ps.OrderSPN.exact(tiers)):
        conditioned = post.condition(present=[("a", "c")])
        conditioned.save(tmp_path / "post.nc")
        again = ps.OrderSPN.load(tmp_path / "post.nc")
        for ask in (
            lambda p: p.edge_probabilities(),
            lambda p: p.causal_effects(),
            lambda p: p.sample(20, random_seed=0),
        ):
            np.testing.assert_array_equal(ask(conditioned), ask(again))
        assert float(again.log_mass) == float(conditioned.log_mass)
        assert ask(again).attrs["given"] == "a -> c"


def test_refusals():
    df = table(4)
    scores = ps.LocalScores.from_data(df)
    post = ps.OrderSPN.exact(scores)
    for call, sentence in [
        (lambda: post.probability(present=[("a", "z")]), r"present\[0\] names 'z', which is not a variable"),
        (lambda: post.condition([("a", "b")], [("a", "b")]), "'a' -> 'b' is present and absent at once"),
        (
            lambda: post.edge_probabilities({"edges": []}),
            "given must be a mapping with the keys 'present' and 'absent'",
        ),
        (lambda: post.condition([("a", "b"), ("b", "a")]), "the evidence has probability zero: b -> a, a -> b"),
        (lambda: post.sample(0), "draws must be an integer of at least 1, got 0"),
        (lambda: post.order_probability(["a", "b"]), "order must hold every variable once"),
        (lambda: post.order_probability(["a", "b", 2, 3]), "order must hold every variable once"),
        (lambda: post.parent_set_probabilities("z"), "there is no variable 'z'"),
        (lambda: ps.OrderSPN.exact(scores, max_gigabytes=1e-7), "2.4 = 16 prefixes and needs .* gigabytes"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            call()
    assert float(post.probability(present=[("a", "b"), ("b", "a")])) == 0.0
    for make in (ps.OrderSPN.exact, lambda data: ps.OrderSPN.regular(data, [2, 2])):
        with pytest.raises(TypeError, match="scores must be a LocalScores; got DataFrame"):
            make(df)
    circular = listed_scores({"a": {("b",): 0.0}, "b": {("a",): 0.0}})
    with pytest.raises(ValueError, match="scores: no order was found"):
        ps.OrderSPN.exact(circular)
    discrete = pd.DataFrame({c: pd.Categorical(np.arange(40) % (2 + k)) for k, c in enumerate("ab")})
    with pytest.raises(ValueError, match="causal effects need BGe scores, these are 'BDeu'"):
        ps.OrderSPN.exact(ps.LocalScores.from_data(discrete)).causal_effects()


def test_a_number_names_the_variable_as_its_digits_do():
    """Columns of a DataFrame without names of its own; edges of numbers were unknown variables."""
    df = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)))
    named = df.rename(columns=str)
    knowledge = {"required": [(0, 1)], "forbidden": [(np.int64(2), 0)], "tiers": [[0], [1, 2]]}
    as_text = {"required": [("0", "1")], "forbidden": [("2", "0")], "tiers": [["0"], ["1", "2"]]}
    scores = ps.LocalScores.from_data(df, **knowledge)
    np.testing.assert_array_equal(scores.log_scores, ps.LocalScores.from_data(named, **as_text).log_scores)
    post = ps.OrderSPN.exact(scores)
    assert float(post.probability(present=[(0, 1)])) == float(post.probability(present=[("0", "1")])) == 1.0
    for ask in (
        lambda f: post.edge_probabilities(given={"absent": [(f(1), f(2))]}),
        lambda f: post.parent_set_probabilities(f(2)),
        lambda f: post.order_probability([f(0), f(2), f(1)]),
    ):
        assert ask(int).identical(ask(str))
    np.testing.assert_array_equal(scores.of(1), scores.of("1"))
    assert ps.DAG.from_edges(range(3), [(0, 2)]) == ps.DAG.from_edges(["0", "1", "2"], [("0", "2")])
    for order in ("012", 3):
        with pytest.raises(TypeError, match=f"order must be a sequence of names, from first to last, got {order!r}"):
            post.order_probability(order)
    with pytest.raises(ValueError, match=r"required\[0\] names 7, which is not a variable"):
        ps.LocalScores.from_data(df, required=[(7, 0)])


def test_one_and_two_variables():
    for d in (1, 2):
        post = ps.OrderSPN.exact(ps.LocalScores.from_data(table(3).iloc[:, :d]))
        assert post.edge_probabilities().shape == (d, d)
        assert post.sample(3, random_seed=0).shape == (3, d, d)
        assert np.diag(post.causal_effects()).tolist() == [1.0] * d


def test_sums_over_too_many_orders_are_refused():
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 64)))
    with pytest.raises(ValueError, match=r"2\^64 = 1.84e\+19 prefixes and needs 2.95e\+11 gigabytes"):
        ps.OrderSPN.exact(ps.LocalScores.from_data(rows, max_candidates=6))


def test_closed_sets_of_tiers():
    precede = np.array([0, 0, 0b11, 0b11, 0b11, 0b11111])[:, None] >> np.arange(6) & 1 == 1
    lattice = PrefixLattice.closed_under(precede, 1000)
    assert lattice.n_prefixes == 4 + 7 + 1
    assert PrefixLattice.closed_under(precede, 11) is None
    orders = np.array([[0, 1, 2, 3, 4, 5], [1, 0, 4, 2, 3, 5], [0, 2, 1, 3, 4, 5]])
    assert lattice.holds(orders).tolist() == [True, True, False]
    full = PrefixLattice.all_prefixes(6)
    rebuilt = PrefixLattice.closed_under(np.zeros((6, 6), bool), 64)
    for name in ("masks", "ptr", "source", "variable"):
        np.testing.assert_array_equal(getattr(full, name), getattr(rebuilt, name))
