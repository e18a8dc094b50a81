"""What somebody who knows PyMC, pandas or pgmpy tries first: it works, or the message leads on."""

import pickle
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats

import pymc_spn as ps
from pymc_spn.numerics.first_guesses import LeadsOn, nearest
from tests.hand_made_records import sampled_tree

ROWS = pd.DataFrame({"x0": [0.5, 1.5], "x1": [0, 1], "x2": [2, 7]})
NUMBERS = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=list("abc"))


@pytest.fixture(scope="module")
def post():
    return ps.SPNPosterior.from_idata(sampled_tree("missing", draws=8))


@pytest.fixture(scope="module")
def graphs():
    return ps.DagPosterior.from_data(NUMBERS)


@pytest.fixture(scope="module")
def field():
    graph = ps.FactorGraph({"rain": ["no", "yes"], "wet": 2})
    graph.add_factor(("rain", "wet"), np.log([[0.9, 0.1], [0.2, 0.8]]))
    return graph


NAMES = {
    "ps.Spn": (ps, "ps.SPN?"),
    "ps.SumProductNetwork": (ps, "ps.SPN?"),
    "ps.BayesianNetwork": (ps, "ps.DagPosterior, which learns its graph"),
    "ps.complete_tree": (ps, "ps.circuits.complete_tree?"),
    "ps.plot_graph": (ps, "ps.plots.plot_graph?"),
    "ps.Gaussian": (ps, "ps.leaves.Gaussian?"),
    "dags.DAG": (ps.dags, "ps.DAG?"),
    "leaves.Normal": (ps.leaves, "ps.leaves.Gaussian?"),
    "circuits.chow_lui_tree": (ps.circuits, "ps.circuits.chow_liu_tree?"),
}


VERBS = {
    "save": "results save themselves, post.save(path), and ps.load(path) reads them",
    "fit": "ps.fit_variational(df), ps.fit_tree(X, y) and ps.DagPosterior.from_data(df) learn from a table",
    "sample": "pm.sample() draws from a model, and post.sample(n)",
    "predict": "post.predict(df, target)",
}


@pytest.mark.parametrize("verb", VERBS)
def test_functions_that_are_methods_here(verb):
    with pytest.raises(AttributeError) as caught:
        getattr(ps, verb)
    assert f"module 'pymc_spn' has no attribute {verb!r}: " in str(caught.value) and VERBS[verb] in str(caught.value)


@pytest.mark.parametrize("guess", NAMES)
def test_names_of_the_package(guess):
    module, meant = NAMES[guess]
    with pytest.raises(AttributeError) as caught:
        getattr(module, guess.split(".")[1])
    assert f"did you mean {meant}" in str(caught.value)
    with pytest.raises(AttributeError, match=r"has no attribute '_repr_png_'$"):
        module._repr_png_  # noqa: B018  notebooks ask for such names


POSTERIOR = {
    "a row in a dict": (lambda p: p.log_density(ROWS.iloc[0].to_dict()), "pd.DataFrame([row])"),
    "rows in lists": (lambda p: p.log_density([[0.5, 0, 2]]), "pd.DataFrame(rows, columns=[...])"),
    "a Series": (lambda p: p.log_density(ROWS.iloc[0]), "a row is df.loc[[label]]"),
    "columns by name": (lambda p: p.predict(x0=0.5), "SPNPosterior.predict() got an unexpected keyword argument 'x0'"),
    "columns go": (lambda p: p.probability(x1=1), "given, per_draw; columns go into a dict, {'x1': 1}"),
    "no target": (lambda p: p.predict(ROWS), "argument: 'target'. Its arguments are df, target"),
    "seed": (lambda p: p.sample(5, seed=1), "Its arguments are n, given, random_seed"),
    "a column as condition": (lambda p: p.mean("x0"), "as in 'x0 < 1'; questions about one column are"),
    "summary": (lambda p: p.summary(), "diagnose()"),
    "logp": (lambda p: p.logp(ROWS), "log_density(df)"),
    "map": (lambda p: p.map(), "mpe()"),
    "loo": (lambda p: p.loo(), "az.loo(idata)"),
    "a slip": (lambda p: p.probabilty("x1 == 1"), "did you mean 'probability'?"),
    "idata": (lambda p: ps.SPNPosterior(sampled_tree("missing", draws=8)), "ps.SPNPosterior.from_idata(idata)"),
    "trees of idata": (lambda p: ps.TreePosterior({}), "ps.TreePosterior.from_idata(idata)"),
    "a table": (lambda p: ps.Table(ROWS), "Make it by ps.Table.from_frame(df)"),
    "scores": (lambda p: ps.LocalScores(NUMBERS), "Make it by ps.LocalScores.from_data(df)"),
    "graphs": (lambda p: ps.DagPosterior(NUMBERS), "Make it by ps.DagPosterior.from_data(df)"),
    "edges": (lambda p: ps.DAG(list("abc"), [("a", "b")]), "edges go into ps.DAG.from_edges(names, edges)"),
    "edges alone": (lambda p: ps.DAG([("a", "b")]), "Make it by ps.DAG.from_edges(names, edges)"),
    "a call": (lambda p: p(ROWS), "'SPNPosterior' object is not callable: questions are methods, such as log_"),
    "a column first": (lambda p: p.quantile("x0", 0.5), "numbers come first, then the column, as in quantile(0.5,"),
    "a column, a point": (lambda p: p.cdf("x0", 1.0), "numbers come first, then the column, as in cdf(1.0, 'x0')"),
    "&&": (lambda p: p.probability("x0 > 1 && x1 == 1"), "cannot be read: write and in place of && at position 7"),
    "||": (lambda p: p.mpe("x0 > 1 || x1 == 1"), "given: 'x0 > 1 || x1 == 1' cannot be read: write or in place of ||"),
    "bic": (lambda p: ps.DagPosterior.from_data(NUMBERS, score="bic"), "got 'bic'. ps.BGe() is for numbers, ps.BDeu()"),
    "variables": (lambda p: ps.FactorGraph(["a", "b"]), "a mapping of names to states, such as {'wet': 2}"),
}  # fmt: skip


@pytest.mark.parametrize("guess", POSTERIOR)
def test_posteriors_and_how_objects_are_made(guess, post):
    ask, way = POSTERIOR[guess]
    with pytest.raises((TypeError, ValueError, AttributeError)) as caught:
        ask(post)
    assert way in str(caught.value)


def test_graphs_scores_and_fields(graphs, field):
    for asked, name, way in (
        (graphs, "summary", "edge_probabilities()"),
        (graphs, "edges", "edge_probabilities()"),
        (graphs, "edge_probability", "did you mean 'edge_probabilities'?"),
        (graphs, "do", "causal_effects()"),
        (graphs.scores, "scores", "of(name)"),
        (field, "infer", "compile().infer(given={...})"),
        (field, "query", "compile().infer(given={...})"),
        (field.compile(), "marginal", "infer(given={...})"),
        (field.compile().infer({"wet": 1}), "query", "marginal(name)"),
    ):
        with pytest.raises(AttributeError) as caught:
            getattr(asked, name)
        assert f"{type(asked).__name__!r} object has no attribute {name!r}" in str(caught.value)
        assert way in str(caught.value)
        assert hasattr(asked, way.split("(")[0].strip("'?").rpartition("'")[2])  # what it names is there
    with pytest.raises(
        TypeError, match=r"JunctionTree.infer\(\) got an unexpected keyword argument 'evidence'. Its arg"
    ):
        field.compile().infer(evidence={"wet": 1})


@pytest.fixture(scope="module")
def trees():
    return ps.fit_tree(NUMBERS[["a", "b"]], NUMBERS["c"], islands=2, particles=20, random_seed=1)


MORE = {
    "a call": (lambda f, g, t: f("rain"), "'Inference' object is not callable: marginal(name), marginals()"),
    "a call of graphs": (lambda f, g, t: g(NUMBERS), "questions are methods, such as edge_probabilities()"),
    "a call of trees": (lambda f, g, t: t(NUMBERS), "'TreePosterior' object is not callable: predict(X)"),
    "an item": (lambda f, g, t: f["rain"], "'Inference' object is not subscriptable: marginal(name)"),
    "two names": (lambda f, g, t: f.marginal(["rain", "wet"]), "unknown variable ['rain', 'wet']"),
    "map of one": (lambda f, g, t: f.map("rain"), "Inference.map() takes 1 positional argument but 2 were given. It"),
    "size": (lambda f, g, t: f.sample(size=3), "argument 'size'. Its arguments are n, random_seed"),
    "a table of a network": (lambda f, g, t: f.tree.graph.add_cpd("wet"), "add_factor(variables, log_table) links"),
    "edges first": (lambda f, g, t: ps.DAG.from_edges([("a", "b")]), "Its arguments are names, edges"),
    "edges, names": (lambda f, g, t: ps.DAG.from_edges([("a", "b")], ["a"]), "edges come after names"),
    "nodes": (lambda f, g, t: g.most_probable().graph.nodes, "'DAG' object has no attribute 'nodes': names"),
    "an edge": (lambda f, g, t: g["a"], "not subscriptable: edge_probabilities().sel(parent='a', child='b')"),
    "n": (lambda f, g, t: g.sample(n=5), "argument 'n'. Its arguments are draws, given, random_seed"),
    "data for scores": (lambda f, g, t: ps.OrderSPN.exact(NUMBERS), "use ps.DagPosterior.from_data(df)"),
    "no circuit": (lambda f, g, t: ps.fit_em(NUMBERS), "argument: 'observed'. Its arguments are circuit, observed"),
    "a table as circuit": (lambda f, g, t: ps.fit_em(NUMBERS, NUMBERS), "ps.fit_variational(df) needs none"),
    "a table to load": (lambda f, g, t: ps.load(NUMBERS), "got a DataFrame of shape (40, 3); a result of pm.sample"),
    "column": (lambda f, g, t: t.predict(b=1), "TreePosterior.predict() got an unexpected keyword argument 'b'. Its"),
    "target": (lambda f, g, t: t.predict(NUMBERS, "c"), "3 were given. Its arguments are X, soft, unseen"),
    "a density": (lambda f, g, t: t.log_density(NUMBERS), "log_predictive(X, y)"),
    "a feature": (lambda f, g, t: t.partial_dependence(NUMBERS), "feature must be one of ['a', 'b'], got a DataFrame"),
    "random_state": (
        lambda f, g, t: ps.fit_variational(NUMBERS, random_state=1), "Did you mean 'random_seed'? Its arguments are df"
    ),
}  # fmt: skip


@pytest.mark.parametrize("guess", MORE)
def test_guesses_at_graphs_fields_and_trees(guess, field, graphs, trees):
    ask, way = MORE[guess]
    with pytest.raises((TypeError, ValueError, AttributeError)) as caught:
        ask(field.compile().infer(), graphs, trees)
    assert way in str(caught.value)


def test_an_object_that_refuses_items_is_still_one_object(graphs):
    assert np.array([graphs], dtype=object).shape == (1,)
    assert not pd.api.types.is_list_like(graphs)
    with pytest.raises(TypeError, match="not subscriptable"):
        list(graphs)


def test_what_an_object_cannot_answer_is_not_offered(post):
    assert {"mpe", "condition", "log_density"} <= set(dir(post)) and "do" not in dir(post)
    with pytest.raises(NotImplementedError, match=r"do\(\) is not offered"):
        post.do(x0=1)
    lacking = ps.circuits.leaf("x", stats.skewnorm(4.0))
    assert "mpe" not in dir(lacking) and "condition" in dir(lacking)
    with pytest.raises(AttributeError, match="the search needs bounds of every leaf"):  # its own error
        lacking.mpe()


def test_errors_of_a_property_and_of_a_question_stay_as_they_are(post):
    class Broken(LeadsOn):
        _instead = {"missing_part": "the other part"}  # noqa: RUF012

        @property
        def value(self):
            return self.missing_part

    with pytest.raises(AttributeError, match="'Broken' object has no attribute 'missing_part': the other part"):
        Broken().value  # noqa: B018
    assert not hasattr(Broken(), "value") and nearest("Valu", ["value", "other"]) == "value"
    with pytest.raises(TypeError) as caught:
        post.log_density(3)
    assert "Its arguments" not in str(caught.value)
    assert repr(pickle.loads(pickle.dumps(post))) == repr(post)


def test_names_of_classes_are_not_looked_for_in_their_objects():
    law = ps.circuits.leaf("x", "gaussian", (0.0, 1.0))
    assert not hasattr(law, "__name__")  # pytest and functools ask any object for it
    with pytest.raises(AttributeError, match="has no attribute '__name__'"):
        _ = law.circuit.__name__


MADE = {
    ps.SPN: "ps.SPN('x', observed=df); ps.fit_variational(df) needs no model",
    ps.CircuitDensity: "ps.CircuitDensity('x', circuit, log_weights, leaf_parameters, observed=df)",
    ps.IndianChefsProcess: "ps.IndianChefsProcess('graph', alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=['a', 'b'])",
    ps.NLGBN: "ps.NLGBN('x', graph, observed=df), graph a ps.IndianChefsProcess",
    ps.LinearGaussianNetwork: "ps.LinearGaussianNetwork('x', graph, observed=df), graph a ps.IndianChefsProcess",
    ps.SigmoidBeliefNetwork: "ps.SigmoidBeliefNetwork('x', graph, observed=df), graph a ps.IndianChefsProcess",
    ps.DecisionTree: "ps.DecisionTree('tree', X); ps.fit_tree(X, y) needs no model",
    ps.TreeResponse: "ps.TreeResponse('y', ps.DecisionTree('tree', X), observed=y)",
    ps.DiscreteField: "ps.DiscreteField('z', graph), graph a ps.FactorGraph",
    ps.FieldEmission: "ps.FieldEmission('y', field, observed={'y': values}), field a ps.DiscreteField",
    ps.DagOrder: "ps.DagOrder('order', ps.LocalScores.from_data(df)); ps.DagPosterior.from_data(df) needs no model",
    ps.DagPartition: "ps.DagPartition('levels', ps.LocalScores.from_data(df))",
}


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_what_is_made_within_a_model(make):
    way = f"Write with pm.Model(): {MADE[make]}"
    for arguments, named, said in (
        ((NUMBERS,), {}, "name must be a string, got a DataFrame of shape (40, 3). "),
        ((NUMBERS, NUMBERS), {}, "name must be a string, got a DataFrame of shape (40, 3). "),
        ((), {"name": 1}, "name must be a string, got 1. "),
        ((), {}, "missing "),
        (("x",), {"columns": 3}, "got an unexpected keyword argument 'columns'. "),
    ):
        for place in (nullcontext(), pm.Model()):
            with place, pytest.raises(TypeError) as caught:
                make(*arguments, **named)
            assert said in str(caught.value) and way in str(caught.value)


OUTSIDE = {
    "a network": (lambda s, f: ps.SPN("x", observed=NUMBERS), ps.SPN),
    "chefs": (lambda s, f: ps.IndianChefsProcess("g", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=["a"]),
              ps.IndianChefsProcess),
    "a tree": (lambda s, f: ps.DecisionTree("t", NUMBERS), ps.DecisionTree),
    "a field": (lambda s, f: ps.DiscreteField("z", f), ps.DiscreteField),
    "an order": (lambda s, f: ps.DagOrder("o", s), ps.DagOrder),
}  # fmt: skip


@pytest.mark.parametrize("guess", OUTSIDE)
def test_what_is_made_without_a_model(guess, graphs, field):
    ask, make = OUTSIDE[guess]
    with pytest.raises(TypeError) as caught:
        ask(graphs.scores, field)
    assert f"No model on context stack. Write with pm.Model(): {MADE[make]}" in str(caught.value)


def test_errors_within_what_is_made_stay_as_they_are(graphs):
    with pm.Model(), pytest.raises(TypeError) as caught:
        ps.DagOrder("o", NUMBERS)
    assert "scores must be a LocalScores" in str(caught.value) and "Write with" not in str(caught.value)


def test_only_what_says_what_to_ask_counts_as_callable(post, graphs, field):
    assert not callable(field) and not callable(graphs.scores) and not callable(ps.circuits.complete_tree(["a", "b"]))
