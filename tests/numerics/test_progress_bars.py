"""Progress bars: when they show, that every builder counts all of its steps, and that counting changes nothing."""

import copy
import dataclasses
import functools
import pickle
import threading
from typing import ClassVar

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_spn as ps
from pymc_spn.factor_graphs import passes
from pymc_spn.networks.records import draw_blocks
from pymc_spn.numerics import progress_bars
from pymc_spn.numerics.answer_steps import current_bar, each
from pymc_spn.numerics.progress_bars import ProgressBar
from pymc_spn.trees import predictive_quantiles
from tests.hand_made_records import sampled_tree
from tests.indian_chefs.handmade_networks import of_networks

FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 5)), columns=list("abcde"))


class Recorder:
    """Stands for PyMC's progress."""

    made: ClassVar[list] = []

    def __init__(self, progressbar):
        assert progressbar
        self.made.append(self)
        self.count, self.open = None, False

    def __enter__(self):
        self.open = True

    def __exit__(self, *error):
        self.open = False

    def add_task(self, description, completed, total):
        self.description, self.count, self.total = description, completed, total
        return 7

    def advance(self, task, advance=1):
        assert task == 7 and self.open
        self.count += advance

    def update(self, task, total):
        assert task == 7 and self.open
        self.total = total


@pytest.fixture
def bars(monkeypatch):
    import pymc.progress_bar

    monkeypatch.setattr(pymc.progress_bar, "create_simple_progress", Recorder)
    monkeypatch.setattr(Recorder, "made", [])
    return Recorder.made


def test_a_bar_shows_when_patience_is_over_and_is_full_at_the_end(bars, monkeypatch):
    with ProgressBar("work", 10, True) as bar:
        bar.advance()
        assert not bars
        monkeypatch.setattr(progress_bars, "PATIENCE", 0.0)
        bar.advance(3)
        assert (bars[0].description, bars[0].count, bars[0].total) == ("work", 4, 10)
        bar.advance()
        assert bars[0].count == 5
    assert bars[0].count == 10 and not bars[0].open and len(bars) == 1
    bar.advance()  # after the end: nothing
    assert len(bars) == 1
    with pytest.raises(TypeError, match="progressbar must be True or False, got 1"):
        ProgressBar("work", 10, 1)


def test_none_shows_where_none_is_wanted_or_all_is_done(bars, monkeypatch):
    monkeypatch.setattr(progress_bars, "PATIENCE", 0.0)
    with ProgressBar("work", 2, False) as bar:
        bar.advance()
    with ProgressBar("work", 1, True) as bar:
        bar.advance()
    assert not bars


def test_an_error_closes_it_where_it_stands(bars, monkeypatch):
    monkeypatch.setattr(progress_bars, "PATIENCE", 0.0)
    with pytest.raises(ZeroDivisionError), ProgressBar("work", 4, True) as bar:
        bar.advance()
        raise ZeroDivisionError
    assert bars[0].count == 1 and not bars[0].open


def test_several_threads_lose_no_step(bars, monkeypatch):
    monkeypatch.setattr(progress_bars, "PATIENCE", 0.0)
    with ProgressBar("work", 401, True) as bar:
        threads = [threading.Thread(target=lambda: [bar.advance() for _ in range(100)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert bar.done == bars[0].count == 400


@pytest.mark.parametrize("again", [copy.deepcopy, lambda built: pickle.loads(pickle.dumps(built))])
def test_what_was_built_can_be_copied_with_its_bar(again):
    post = ps.OrderSPN.exact(scores())
    assert b"ProgressBar" in pickle.dumps(post)  # that of the builder
    np.testing.assert_array_equal(again(post).edge_probabilities(), post.edge_probabilities())
    assert not again(ProgressBar("work", 3, True)).show


def scores():
    return ps.LocalScores.from_data(FRAME)


BUILDERS = {
    "Scoring parent sets": lambda **k: ps.LocalScores.from_data(FRAME, max_candidates=2, **k).log_scores,
    "Summing over orders": lambda **k: float(ps.OrderSPN.exact(scores(), **k).log_mass),
    "Growing trees": lambda **k: (
        ps.fit_tree(FRAME, FRAME["a"] > 0, family="binary", particles=8, random_seed=1, **k).predict(FRAME).values
    ),
    "Variational ascent": lambda **k: (
        ps.fit_variational(
            FRAME, ps.circuits.complete_tree(list("abcde"), n_children=2), max_steps=5, random_seed=1, **k
        )
        .log_density(FRAME)
        .values
    ),
}


@pytest.mark.parametrize("description", BUILDERS)
def test_builders_count_all_their_steps(description, monkeypatch):
    closed = []
    leave = ProgressBar.__exit__
    monkeypatch.setattr(ProgressBar, "__exit__", lambda bar, *e: (closed.append(bar), leave(bar, *e))[1])
    silent = BUILDERS[description](progressbar=False)
    shown = BUILDERS[description](progressbar=True)
    np.testing.assert_array_equal(shown, silent)
    mine = [bar for bar in closed if bar.description == description]
    assert len(mine) >= 2 and all(bar.done == bar.total > 1 for bar in mine)


ROWS = pd.DataFrame({"x0": [0.5, 1.5, np.nan], "x1": [0, 1, 1], "x2": [2, np.nan, 7]})
ANSWERS = {
    "mpe": lambda p, **k: float(p.mpe({"x0": 0.5}, **k).log_density),
    "dependence": lambda p, **k: p.dependence(n=50, random_seed=1, **k)["mutual_information"].values,
    "explain": lambda p, **k: p.explain(ROWS.iloc[0], **k)["shapley"].values,
    "predictive_p_value": lambda p, **k: p.predictive_p_value(ROWS, n=99, random_seed=1, **k)["p_value"].values,
    "cell_p_value": lambda p, **k: p.cell_p_value(ROWS, **k).values,
    "diagnose": lambda p, **k: p.diagnose(**k).to_numpy(),
}


@functools.cache
def posterior():
    return ps.SPNPosterior.from_idata(sampled_tree("missing", draws=20))


@pytest.mark.parametrize("question", ANSWERS)
def test_answers_that_last_count_their_steps(question, bars, monkeypatch):
    post, ask = posterior(), ANSWERS[question]
    monkeypatch.setattr(draw_blocks, "ROWS", 2)  # of a piece: few rows are several pieces
    monkeypatch.setattr(progress_bars, "PATIENCE", 60.0)
    silent = ask(post, progressbar=False)
    assert not bars
    np.testing.assert_array_equal(ask(post), silent)
    assert not bars  # it is soon done
    monkeypatch.setattr(progress_bars, "PATIENCE", -1.0)
    np.testing.assert_array_equal(ask(post), silent)
    assert len(bars) == 1 and bars[0].count == bars[0].total > 1 and not bars[0].open
    with pytest.raises(TypeError, match="progressbar must be True or False, got 1"):
        ask(post, progressbar=1)


def test_the_bar_of_an_answer_is_that_of_its_thread():
    seen = []
    with progress_bars.counted("work", True) as bar:
        thread = threading.Thread(target=lambda: seen.append(current_bar()))
        thread.start()
        thread.join()
        assert current_bar() is bar and seen[0] is not bar
    assert current_bar() is not bar


# ---- families besides networks


@functools.cache
def graphs(engine):
    return ps.DagPosterior.from_data(FRAME, engine=engine, chains=2, draws=50, random_seed=1, progressbar=False)


@functools.cache
def trees():
    few = {"islands": 2, "particles": 6, "random_seed": 1, "progressbar": False}
    fitted = ps.fit_tree(FRAME[["a", "b"]], FRAME["c"] + FRAME["a"], **few)
    return ps.TreePosterior(dataclasses.replace(fitted._draws, log_evidence=None))  # as those of two chains


STATES = {"z0": [0, 1] * 10}  # more rows than a kernel's lanes


def inference():
    chain = ps.FactorGraph.hmm(4, np.log([0.5, 0.5]), np.log([[0.9, 0.1], [0.1, 0.9]]))
    return chain.compile().infer(STATES, progressbar=False)


@functools.cache
def hidden_states():
    chain = ps.FactorGraph.hmm(4, np.log([0.5, 0.5]), np.log([[0.9, 0.1], [0.1, 0.9]]))
    with pm.Model() as model:
        mu = pm.Normal("mu", sigma=10.0, shape=2)
        states = ps.DiscreteField("z", chain)
        data = {"y": [0.1, 0.3, 5.2, 4.9]}
        ps.FieldEmission("y", states, components={"y": pm.Normal.dist(mu, 1.0)}, observed=data)
    return az.from_dict({"posterior": {"mu": np.tile([0.0, 5.0], (2, 5, 1))}}), model


@functools.cache
def networks():
    weights = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [2.0, -2.5, 0.0]])
    one = weights, [-1.0, 0.5, 0.2], [4.0, 2.0, 0.5]
    return of_networks([[one] * 3] * 2, "nonlinear gaussian")


@functools.cache
def levels():
    return ps.DagPosterior.from_data((FRAME[["a", "b", "c"]] > 0.0).astype("category"), ps.BDeu(), progressbar=False)


RARE = {"present": [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]}  # sampled orders must be drawn anew for it
OUTPUTS = pd.DataFrame({"x": [0.5, 0.2], "y": [0.4, np.nan]})
SMALL = {"n_pool": 20, "random_seed": 1}


def fresh():
    """Sampled orders without those that were drawn for a condition."""
    post = copy.copy(graphs("orders"))
    post.__dict__.pop("_drawn_under", None)
    return post


def imputed():
    return ps.dags.ImputedDagPosterior([graphs("exact")] * 2)


def of_orders(ask):
    return lambda **k: ask(fresh(), **k)


def of_graphs(ask):
    return lambda **k: ask(graphs("exact"), **k)


def of_trees(ask):
    return lambda **k: ask(trees(), **k)


def of_fields(ask):
    return lambda **k: ask(inference(), **k)


def of_belief_networks(ask):
    return lambda **k: ask(networks(), **k)


FAMILIES = {
    "edges given": of_orders(lambda p, **k: p.edge_probabilities(RARE, **k).values),
    "edges": of_graphs(lambda p, **k: p.edge_probabilities(**k).values),
    "edge table": of_graphs(lambda p, **k: p.edge_table(given={"absent": [("a", "b")]}, **k).to_numpy()),
    "consensus": of_graphs(lambda p, **k: p.consensus(0.1, **k).adjacency),
    "condition": of_orders(lambda p, **k: p.condition(RARE["present"], **k).lattice.orders),
    "probability": of_orders(lambda p, **k: float(p.probability(RARE["present"], **k))),
    "parent sets": of_orders(lambda p, **k: p.parent_set_probabilities("a", given=RARE, **k).values),
    "before": of_orders(lambda p, **k: p.before_probabilities(RARE, **k).values),
    "most probable": of_orders(lambda p, **k: p.most_probable(**k).graph.adjacency),
    "graphs": of_graphs(lambda p, **k: p.sample(7, random_seed=1, **k).values),
    "classes": of_graphs(lambda p, **k: p.equivalence_classes(9, random_seed=1, **k)["compelled"].values),
    "ancestors": of_graphs(lambda p, **k: p.ancestor_probabilities(9, random_seed=1, **k).values),
    "structures": of_graphs(lambda p, **k: p.structure_modular(9, random_seed=1, **k)["weight"].values),
    "tree of graphs": of_graphs(lambda p, **k: p.to_datatree(2, 5, None, 1, **k)["graphs"]["graph"].values),
    "effects": of_orders(lambda p, **k: p.causal_effects(**k).values),
    "drawn effects": of_graphs(lambda p, **k: p.sample_effects(5, random_seed=1, **k).values),
    "tables, edges": lambda **k: imputed().edge_probabilities(**k).values,
    "tables, condition": lambda **k: imputed().condition(RARE["present"][:1], **k).log_shares,
    "tables, graphs": lambda **k: imputed().sample(7, random_seed=1, **k).values,
    "tables, effects": lambda **k: imputed().causal_effects(**k).values,
    "tables, drawn effects": lambda **k: imputed().sample_effects(7, random_seed=1, **k).values,
    "tables": lambda **k: (
        ps.dags.ImputedDagPosterior.from_data(FRAME, [FRAME, FRAME], **k).edge_probabilities(progressbar=False).values
    ),
    "levels when set": lambda **k: (
        levels().probabilities_when_set("a", "b", draws=9, random_seed=1, **k).values
    ),
    "drawn levels": lambda **k: levels().sample_when_set("a", "b", 9, random_seed=1, **k).values,
    "importance": of_trees(lambda p, **k: p.variable_importance(**k)["log_predictive"].values),
    "dependence": of_trees(lambda p, **k: p.partial_dependence("a", [0.0, 1.0], **k).values),
    "curves": of_trees(lambda p, **k: p.ice("a", [0.0, 1.0], **k).values),
    "quantiles": of_trees(lambda p, **k: p.predict_quantile(FRAME[["a", "b"]], [0.1, 0.9], **k).values),
    "left out": of_trees(lambda p, **k: p.log_likelihood(**k).values),
    "trees": of_trees(lambda p, **k: p.diagnose(**k).to_numpy()),
    "evidence": of_fields(lambda p, **k: p.tree.infer(STATES, **k).marginal("z3").values),
    "configurations": of_fields(lambda p, **k: p.map(**k)["log_value"].values),
    "best": of_fields(lambda p, **k: p.kbest(3, **k)["log_value"].values),
    "states": of_fields(lambda p, **k: p.sample(5, random_seed=1, **k).values),
    "entropy": of_fields(lambda p, **k: p.entropy(**k).values),
    "hidden states": lambda **k: (
        ps.factor_graphs.recover_discrete(hidden_states()[0], model=hidden_states()[1], random_seed=1, **k)
        .z_samples.values
    ),
    "density": of_belief_networks(lambda p, **k: p.log_density(OUTPUTS, **SMALL, **k).values),
    "mean": of_belief_networks(lambda p, **k: p.predict(OUTPUTS, "y", **SMALL, **k).values),
    "gaps": of_belief_networks(lambda p, **k: p.impute(OUTPUTS, **SMALL, **k).to_numpy()),
    "rows": of_belief_networks(lambda p, **k: p.log_likelihood(OUTPUTS, **SMALL, **k)[p.schema.name].values),
    "fantasies": of_belief_networks(lambda p, **k: p.sample(9, random_seed=1, **k).to_numpy()),
    "fantasies given": of_belief_networks(lambda p, **k: p.sample(9, {"x": 0.5}, **SMALL, **k).to_numpy()),
}  # fmt: skip


@pytest.mark.parametrize("question", FAMILIES)
def test_answers_of_other_families_count_their_steps(question, bars, monkeypatch):
    monkeypatch.setattr(passes, "PIECE", 1)  # few rows are several pieces
    monkeypatch.setattr(predictive_quantiles, "BLOCK_VALUES", 1)
    closed, leave = [], ProgressBar.__exit__
    monkeypatch.setattr(ProgressBar, "__exit__", lambda bar, *e: (closed.append(bar), leave(bar, *e))[1])
    ask = FAMILIES[question]
    silent = ask(progressbar=False)
    assert not bars
    closed.clear()
    monkeypatch.setattr(progress_bars, "PATIENCE", -1.0)
    np.testing.assert_array_equal(ask(progressbar=True), silent)
    shown = [bar for bar in closed if bar.total]
    assert sum(bar.done for bar in shown) > 1 and all(bar.done == bar.total for bar in shown)
    assert len(bars) <= 1 and not any(bar.open for bar in bars)  # two at once are an error in a terminal
    with pytest.raises(TypeError, match="progressbar must be True or False, got 1"):
        ask(progressbar=1)


def test_a_question_within_an_answer_counts_in_its_bar(bars, monkeypatch):
    monkeypatch.setattr(progress_bars, "PATIENCE", -1.0)
    with progress_bars.counted("outer", True) as bar:
        before = bar.total
        with progress_bars.counted("inner", True) as inner:
            assert inner is bar
            assert list(each("abc")) == ["a", "b", "c"]
        assert current_bar() is bar and bar.total == before + 3 and bar.done == 3
    assert [made.description for made in bars] == ["outer"] and current_bar() is not bar
    with progress_bars.counted("outer", False), progress_bars.counted("inner", True):
        list(each("abc"))
    assert len(bars) == 1  # what asked for none gets none of its questions'
