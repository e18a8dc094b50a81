"""Ctrl-C in every family: `pm.sample` returns what was drawn, builders raise KeyboardInterrupt, nothing is damaged."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from interrupts import outcomes_of_interrupts

import pymc_spn as ps

FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=list("abc"))
POSITIVE = (FRAME["a"] > 0).to_numpy()
GRAPH = ps.FactorGraph.hmm(300, np.log(np.full(3, 1 / 3)), np.log(np.full((3, 3), 1 / 3)))
MANY = 5000


@cache
def scores():
    return ps.LocalScores.from_data(FRAME, progressbar=False)


def tree(**more):
    post = ps.fit_tree(FRAME, POSITIVE, "binary", particles=40, random_seed=1, progressbar=False, **more)
    return post.predict_proba(FRAME)


def variational():
    structure = ps.circuits.complete_tree(list("abc"), n_children=2)
    post = ps.fit_variational(FRAME, structure, restarts=1, max_steps=20, random_seed=1, progressbar=False)
    return post.log_density(FRAME)


def infer():
    return GRAPH.compile().infer(given={"z0": 1}).marginal("z9")


BUILDERS = {
    "fit_tree": tree,
    "fit_tree on 2 threads": lambda: tree(n_jobs=2),
    "fit_variational": variational,
    "LocalScores": lambda: ps.LocalScores.from_data(FRAME, progressbar=False).log_scores,
    "OrderSPN.exact": lambda: ps.OrderSPN.exact(scores(), progressbar=False).edge_probabilities(),
    "sample_indian_chefs": lambda: (
        ps.indian_chefs.sample_indian_chefs(1.0, 1.0, 1.0, 2, draws=20, random_seed=1).parents
    ),
    "JunctionTree.infer": infer,
}


@pytest.mark.parametrize("name", BUILDERS)
def test_builders_raise_keyboard_interrupt(name):
    build = BUILDERS[name]
    expected = build()

    def again_and_again(begin):
        np.testing.assert_array_equal(build(), expected)  # after the interrupt before, too
        begin()
        while True:
            build()

    outcomes = outcomes_of_interrupts(again_and_again, [0.002, 0.01, 0.05, 0.2], whole_group=True)
    assert [outcome for outcome, _ in outcomes] == ["KeyboardInterrupt"] * 4


@cache
def model():
    """One model with each family."""
    with pm.Model() as model:
        ps.SPN("net", ps.circuits.complete_tree(list("abc"), n_children=2), observed=FRAME)
        ps.DagOrder("order", scores())
        ps.DagPartition("partition", scores())
        features = ps.DecisionTree("tree", FRAME[["b", "c"]])
        ps.TreeResponse("y", features, observed=POSITIVE, family=ps.leaves.BinaryLeaves())
        graph = ps.IndianChefsProcess("graph", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=list("abc"))
        ps.NLGBN("data", graph, observed=FRAME, scaling=ps.indian_chefs.UnitScaling.from_data(FRAME))
    return model


def sample(begin, at, tune, cores=1):
    """Shape of what an interrupted run has, after it has been read and asked."""
    calls = []

    def callback(trace, draw):
        calls.append(draw)
        if len(calls) == at:
            begin()

    with model(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = pm.sample(
            MANY, tune=tune, chains=cores, cores=cores, mp_ctx="fork", random_seed=1, callback=callback,
            progressbar=False, compute_convergence_checks=False, spn={"record_every": 1},
        )  # fmt: skip
    for answer in (
        ps.SPNPosterior.from_idata(idata).log_density(FRAME),
        ps.DagDraws.from_idata(idata, "partition").edge_probabilities(),
        ps.TreePosterior.from_idata(idata).predict_proba(FRAME[["b", "c"]]),
        ps.NLGBNPosterior.from_idata(idata).log_density(FRAME),
    ):
        assert np.isfinite(answer).all()
    return dict(idata["posterior"].sizes)


@pytest.mark.parametrize("cores", [1, 2])
def test_samplers_return_what_was_drawn(cores):
    outcomes = outcomes_of_interrupts(lambda begin: sample(begin, 8, 2, cores), [0.0, 0.03], whole_group=True)
    for sizes, _ in outcomes:
        assert isinstance(sizes, dict), sizes
        assert 1 <= sizes["chain"] <= cores and 2 <= sizes["draw"] < MANY  # PyMC leaves short chains out


def test_in_tuning_there_is_nothing_to_return():
    """PyMC's own words; its steps say the same."""
    ((outcome, _),) = outcomes_of_interrupts(lambda begin: sample(begin, 3, MANY), [0.02])
    assert "Not enough samples to build a trace" in outcome
