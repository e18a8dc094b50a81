"""`DagPosterior`: sampled orders against the exact posterior, with their standard errors; the choice of the engine."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from reference_dags import table

import pymc_spn as ps
from pymc_spn.dags.imputed_posterior import ImputedDagPosterior
from tests.dags.score_tables import linear_table, listed_scores

# standard errors come from 20 stretches: a difference over its error has a t law with 19 degrees of freedom, beyond
# which 6 lies with probability 1e-5; those of all edges of one test are some hundred
FAR = 6.0


@pytest.fixture(scope="module")
def scores():
    return ps.LocalScores.from_data(linear_table(6, 60, 3), progressbar=False)


@pytest.fixture(scope="module")
def exact(scores):
    return ps.DagPosterior.from_scores(scores)


@pytest.fixture(scope="module")
def sampled(scores):
    return ps.DagPosterior.from_scores(scores, "orders", random_seed=1)


def assert_near(found, exact, far=FAR):
    """Within the standard errors, which are not wide; what is certain in all orders is so in the exact answer."""
    error = np.asarray(found.attrs["mcse"])
    difference = np.abs(
        (found - (exact.sel(found.coords) if found.ndim else exact)).values
    )  # parent sets stand in an order of their own
    assert (difference <= far * error + 1e-4).all()
    assert (error < 0.1).all()  # of probabilities, and of effects in standard deviations
    assert found.attrs["exactness"].endswith("given the draws")


QUESTIONS = {
    "edges": lambda post: post.edge_probabilities(),
    "edges given": lambda post: post.edge_probabilities({"present": [("a", "b")], "absent": [("c", "d")]}),
    "probability": lambda post: post.probability([("a", "b"), ("e", "f")], [("c", "d")]),
    "parent sets": lambda post: post.parent_set_probabilities("f", None),
    "before": lambda post: post.before_probabilities(),
    "effects": lambda post: post.causal_effects(),
    "ancestors": lambda post: post.ancestor_probabilities(4_000, random_seed=1),
    "each graph once": lambda post: post.structure_modular(4_000, random_seed=1).edge_probability,
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_sampled_orders_answer_as_all_orders(exact, sampled, question):
    ask = QUESTIONS[question]
    expected = ask(exact)
    # draws of the exact posterior have errors of their own
    assert_near(ask(sampled), expected, FAR * np.sqrt(2.0) if "mcse" in expected.attrs else FAR)


def test_orders_that_count_by_their_weight_are_seen_to_be_wrong(exact, sampled):
    """The planted mistake: paths that are not divided by the weights of their orders."""
    paths = sampled._lattice
    wrong = sampled._on(replace(paths, log_starts=np.zeros_like(paths.log_starts)), sampled.evidence)
    with pytest.raises(AssertionError):
        assert_near(wrong.edge_probabilities(), exact.edge_probabilities())


def test_standard_errors_are_those_of_repeated_samples(scores, exact):
    """Squared differences over squared errors: 1.12 is the mean of the squares of a t law with 19 degrees."""
    ratios = []
    truth = exact.edge_probabilities().values
    for seed in range(40):
        edges = ps.DagPosterior.from_scores(scores, "orders", draws=200, random_seed=seed).edge_probabilities()
        ratios.append(np.square((edges.values - truth)[truth > 0.0] / edges.attrs["mcse"][truth > 0.0]).mean())
    assert 0.7 < np.mean(ratios) < 1.7  # 40 samples of 30 edges that hang together: about 0.15 either way


@pytest.mark.parametrize("n_present", [2, 9])
def test_conditions_that_few_orders_meet_draw_orders_anew(exact, sampled, n_present):
    graph = exact.sample(1, random_seed=5)[0].values[::-1, ::-1]  # against the order of the columns
    names = exact.names
    present = [(names[j], names[i]) for j, i in np.argwhere(graph)][:n_present]
    given = sampled.condition(present)
    assert (given._lattice is not sampled._lattice) == (n_present > 2) and given._share_that_counts >= 0.1
    assert_near(given.edge_probabilities(), exact.condition(present).edge_probabilities())
    found, expected = sampled.probability(present), float(exact.probability(present))
    assert abs(float(found) - expected) < FAR * float(found.attrs["mcse"]) and found.attrs["mcse"] < expected
    assert sampled.condition(present)._lattice is given._lattice  # drawn once


def test_conditions_go_on_from_conditions(exact, sampled):
    first, second = [("f", "a")], [("e", "a"), ("d", "b")]
    found = sampled.condition(first).condition(second)
    assert found.evidence == exact.condition(first + second).evidence
    assert_near(found.edge_probabilities(), exact.condition(first + second).edge_probabilities())


def test_what_is_impossible_is_refused(sampled):
    with pytest.raises(ValueError, match="probability zero: "):
        sampled.condition([("a", "b"), ("b", "a")])
    with pytest.raises(ValueError, match="probability zero"):
        sampled.edge_probabilities({"present": [("a", "b"), ("b", "c"), ("c", "a")]})
    assert float(sampled.probability([("a", "b"), ("b", "a")])) == 0.0


def test_draws_and_the_maximum(exact, sampled):
    drawn = sampled.sample(4_000, random_seed=1)
    edges = sampled.edge_probabilities()
    assert np.abs(drawn.mean("draw") - edges).max() < 5.0 * 0.5 / np.sqrt(4_000)
    best = sampled.most_probable()
    assert np.isnan(best.log_probability)
    score = sampled.scores.log_score(best.graph.adjacency)
    assert score == pytest.approx(sampled.scores.log_score(exact.most_probable().graph.adjacency))
    effects = sampled.sample_effects(4_000, random_seed=2)
    mean = sampled.causal_effects()
    assert np.abs(effects.mean("draw") - mean).max() < 5.0 * float(effects.std("draw").max()) / np.sqrt(4_000)


def test_classes_hold_as_often(exact, sampled):
    found, expected = (post.equivalence_classes(20_000, random_seed=1) for post in (sampled, exact))
    for k in range(3):
        same = (expected.cpdag == found.cpdag.isel({"class": k})).all(("parent", "child")).values
        assert same.sum() == 1
        error = np.hypot(found.probability.attrs["mcse"][k], expected.probability.attrs["mcse"][same][0])
        assert abs(found.probability.values[k] - expected.probability.values[same][0]) < FAR * error


def test_the_same_seed_gives_the_same_bits(scores, sampled):
    again = ps.DagPosterior.from_scores(scores, "orders", random_seed=1)
    np.testing.assert_array_equal(again.edge_probabilities(), sampled.edge_probabilities())
    rare = [("f", "a"), ("e", "a")]
    np.testing.assert_array_equal(
        again.condition(rare).before_probabilities(), sampled.condition(rare).before_probabilities()
    )


def test_the_engine_is_chosen_and_named(exact, sampled):
    assert (exact.engine, sampled.engine) == ("exact", "orders")
    assert repr(exact).startswith("DagPosterior(exact: 6 variables, all orders, log mass ")
    assert repr(sampled).startswith("DagPosterior(6 variables, 2,000 orders of 4 chains, R-hat of edges 1.0")
    marks = sampled.edge_probabilities().attrs
    assert marks["engine"] == "orders" and marks["effective_orders"] == sampled.effective_orders > 200.0
    assert 1.0 <= marks["r_hat"] < 1.05 and "mcse" not in exact.edge_probabilities().attrs
    wide = ps.DagPosterior.from_data(linear_table(6, 60, 3), max_candidates=2, progressbar=False)
    assert "candidates" in wide.edge_probabilities().attrs
    assert "candidates" not in ps.DagPosterior.from_data(linear_table(6, 60, 3)).edge_probabilities().attrs


def test_more_variables_than_can_be_summed_over_are_sampled_unless_tiers_leave_few_orders():
    rng = np.random.default_rng(0)
    names = [f"v{i}" for i in range(24)]
    df = pd.DataFrame(rng.normal(size=(50, 24)), columns=names)
    make = partial(ps.DagPosterior.from_data, df, max_candidates=3, draws=50, random_seed=0, progressbar=False)
    assert make().engine == "orders"
    assert make(tiers=[names[:8], names[8:16], names[16:]]).engine == "exact"


def test_tiers_hold_in_sampled_orders():
    tiers = [["c", "d"], ["a", "b"]]
    scores = ps.LocalScores.from_data(table(4), tiers=tiers)
    found, exact = (ps.DagPosterior.from_scores(scores, engine, random_seed=1) for engine in ("orders", "exact"))
    assert_near(found.edge_probabilities(), exact.edge_probabilities())
    assert float(found.before_probabilities().sel(before="c", after="a")) == pytest.approx(1.0, abs=1e-9)  # a sum


def test_orders_of_pm_sample_answer_as_well(scores, exact):
    with pm.Model():
        ps.DagOrder("g", scores)
        idata = pm.sample(500, tune=50, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True)
    post = ps.DagPosterior.from_idata(idata)
    np.testing.assert_array_equal(post.scores.log_scores, scores.log_scores)
    np.testing.assert_array_equal(post.causal_effects(), ps.DagPosterior.from_idata(idata, scores).causal_effects())
    assert_near(post.edge_probabilities(), exact.edge_probabilities())
    np.testing.assert_allclose(
        post.edge_probabilities(), ps.DagDraws.from_idata(idata).edge_probabilities(scores), atol=1e-12
    )
    with pytest.raises(ValueError, match="values are others"):
        ps.DagPosterior.from_idata(idata, ps.LocalScores.from_data(linear_table(6, 60, 4), progressbar=False))


def test_files_keep_every_bit(sampled, tmp_path):
    for name, post in (("whole", sampled), ("given", sampled.condition([("f", "a"), ("e", "a")]))):
        post.save(tmp_path / f"{name}.nc")
        again = ps.load(tmp_path / f"{name}.nc")
        assert type(again) is ps.DagPosterior and repr(again) == repr(post)
        np.testing.assert_array_equal(again.edge_probabilities(), post.edge_probabilities())
    # the seed, too: orders that are drawn anew under a condition are the same
    path = list(zip("fedcb", "edcba", strict=True))
    again, given = ps.load(tmp_path / "whole.nc").condition(path), sampled.condition(path)
    assert given._lattice is not sampled._lattice
    np.testing.assert_array_equal(again.edge_probabilities(), given.edge_probabilities())


def test_what_a_sample_cannot_say_is_refused(sampled):
    with pytest.raises(ValueError, match="does not know the log evidence"):
        sampled.log_mass  # noqa: B018
    with pytest.raises(ValueError, match="sample of orders; before_probabilities"):
        sampled.order_probability(list("abcdef"))


def test_bad_arguments_are_named(scores):
    df = linear_table(3, 20, 0)
    with pytest.raises(ValueError, match="engine must be one of 'auto', 'exact', 'orders', got 'mcmc'"):
        ps.DagPosterior.from_data(df, engine="mcmc")
    with pytest.raises(ValueError, match="draws must be an integer of at least 4, got 2"):
        ps.DagPosterior.from_scores(scores, "orders", draws=2)
    with pytest.raises(ValueError, match="chains must be an integer of at least 1, got 0"):
        ps.DagPosterior.from_scores(scores, "orders", chains=0)
    with pytest.raises(TypeError, match="scores"):
        ps.DagPosterior.from_scores(df)
    with pytest.raises(ValueError, match="missing"):
        ps.DagPosterior.from_data(df.where(df > 0.0))


def test_chains_that_have_not_met_warn(sampled):
    paths = replace(sampled._lattice, r_hat=1.4)
    with pytest.warns(ps.ConvergenceWarning, match="R-hat of the edges is 1.40 over 4 chains of 500 draws"):
        sampled._on(paths, sampled.evidence)._warned()


def test_a_condition_that_no_sampled_order_allows_is_drawn_anew():
    """Of b before a there is one order in some 10,000, so that 50 hold none."""
    scores = listed_scores(
        {
            "a": {(): 0.0, ("b",): -1.0, ("c",): -1.0},
            "b": {(): -9.0, ("a",): 0.0, ("c",): -9.5, ("a", "c"): -0.5},
            "c": {(): 0.0, ("b",): 0.5},
        }
    )
    exact = ps.OrderSPN.exact(scores)
    few = ps.DagPosterior.from_scores(scores, engine="orders", draws=25, chains=2, random_seed=3)
    edges, place = few.edge_probabilities(), (1, 0)  # b -> a
    assert edges.values[place] == 0.0 and np.isnan(edges.attrs["mcse"][place])
    assert not edges.attrs["mcse"].diagonal().any()
    told, theirs = few.condition(present=[("b", "a")]), exact.condition(present=[("b", "a")]).edge_probabilities()
    found = told.edge_probabilities()
    away, mcse = np.abs(found - theirs).values, np.nan_to_num(found.attrs["mcse"])
    assert found.values[place] == pytest.approx(1.0)
    assert (away <= FAR * mcse + 1e-9).all()
    assert np.abs(edges - theirs).max() > 0.9
    p = few.probability(present=[("b", "a")])
    assert float(p) == pytest.approx(1 / 100) and np.isnan(p.attrs["mcse"])
    assert float(exact.probability(present=[("b", "a")])) < 1e-4
    assert few.probability(present=[("a", "b"), ("b", "a")]) == 0.0


def test_a_notebook_shows_the_edges_that_are_answered(exact, sampled, monkeypatch):
    known = sampled.condition(present=[("a", "d")])
    for post in (exact, sampled, known):
        edges = post.edge_probabilities().values
        linked, heads = np.triu(edges + edges.T > 0.5, 1), edges > 0.5
        html = post._repr_html_()
        assert (html.count("<line "), html.count("<polygon ")) == (linked.sum(), heads.sum())
    assert "<title>a -&gt; d: 1.000; d -&gt; a: 0.000</title>" in html
    monkeypatch.setattr("pymc_spn.dags.order_queries.MOST_FOR_PICTURE", 3 * exact.scores.log_scores.size)
    shown = ["svg" in ImputedDagPosterior([exact] * n)._repr_html_() for n in (3, 4)]
    assert shown == [True, False]  # of many tables it would take too long
