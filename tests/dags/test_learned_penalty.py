"""The edge penalty that the table decides: its evidence by enumeration, and where the search ends."""

import re
from math import factorial

import numpy as np
import pandas as pd
import pytest
import reference_dags as brute
from reference_dags import table
from scipy.special import logsumexp

import pymc_spn as ps
from pymc_spn.dags.passes import Support
from pymc_spn.dags.structure_prior import PRECISION, log_evidence

TOLERANCE = 1e-10  # of sums over some hundred pairs of order and graph, in nats
KNOWLEDGE = {
    "nothing": {},
    "tiers": {"tiers": [["b"], ["a", "c"]]},
    "edges": {"required": [("a", "b")], "forbidden": [("c", "a")]},
    "few parents": {"max_indegree": 1},
}


def by_enumeration(scores, penalties):
    """Log sums over all pairs of order and graph, with the data and without, for each penalty."""
    d, before = scores.d, scores.must_precede
    precede = tuple((j, i) for i in range(d) for j in range(d) if before[i, j])
    graphs, counts = brute.all_dags(d), brute.extension_counts(d, precede)
    logs = np.array([scores.log_score(graph) for graph in graphs])
    some = np.isfinite(logs) & (counts > 0)
    prior = np.log(counts[some]) - np.multiply.outer(penalties, graphs[some].sum(axis=(1, 2)))
    return logsumexp(logs[some] + prior, axis=-1), logsumexp(prior, axis=-1)


def by_sums(scores, penalty):
    """The same evidence as the search finds it."""
    sizes = np.concatenate([np.bitwise_count(np.arange(1 << int(k))) for k in scores.n_candidates])
    return log_evidence(Support.of_all(scores), penalty * sizes)


def penalty_of(scores):
    return float(re.fullmatch(r"edge penalty (-?[0-9.]+), learned", scores.prior).group(1))


@pytest.mark.parametrize("known", KNOWLEDGE)
@pytest.mark.parametrize("penalty", [-1.5, 0.0, 0.8, 4.0])
def test_evidence_is_that_of_all_pairs_of_order_and_graph(known, penalty):
    scores = ps.LocalScores.from_data(table(3), prior="uniform", **KNOWLEDGE[known])
    total, mass = by_enumeration(scores, penalty)
    found = by_sums(scores, penalty)
    assert found == pytest.approx(total - mass, abs=TOLERANCE)
    assert abs(found - total) > 0.1  # the mistake: a prior that is not normalised
    if known == "nothing":
        steps = np.arange(3)
        assert mass == pytest.approx(np.log(factorial(3)) + (steps * np.logaddexp(0.0, -penalty)).sum(), abs=TOLERANCE)


@pytest.mark.parametrize("known", KNOWLEDGE)
def test_the_learned_penalty_is_the_mode_of_the_enumerated_posterior(known):
    plain = ps.LocalScores.from_data(table(3), prior="uniform", **KNOWLEDGE[known])
    scores = ps.LocalScores.from_data(table(3), prior="learned", **KNOWLEDGE[known])
    grid = np.arange(-4.0, 4.0, 0.001)
    totals, masses = by_enumeration(plain, grid)
    odds = np.logaddexp(0.0, grid) + np.logaddexp(0.0, -grid)
    best = grid[np.argmax(totals - masses - odds)]
    assert abs(penalty_of(scores) - best) < 2 * PRECISION  # that of the search, a step of the grid and the rounded text
    wrong = grid[np.argmax(totals - odds)]  # the mistake again: it wants as many edges as there can be
    assert abs(wrong - best) > 0.1
    again = ps.LocalScores.from_data(table(3), prior=ps.dags.EdgePenalty(penalty_of(scores)), **KNOWLEDGE[known])
    np.testing.assert_allclose(scores.log_scores, again.log_scores, atol=2e-3)  # the text is rounded
    assert type(scores) is ps.LocalScores and repr(scores).startswith("LocalScores(3 variables, BGe, prior edge pen")


@pytest.mark.parametrize("density", [0.0, 0.9])
def test_expected_edges_are_those_of_the_penalty(density):
    """pi = (E + 1) / (M + 2), at ten variables, with chosen candidates and with levels as well."""
    rng = np.random.default_rng(3)
    weights = np.triu(rng.normal(size=(8, 8)) * (rng.random((8, 8)) < density), 1)
    x = rng.normal(size=(150, 8)) @ np.linalg.inv(np.eye(8) - weights)
    frames = pd.DataFrame(x / x.std(axis=0)), pd.DataFrame((x > 0.0).astype(int))
    for df in frames:
        scores = ps.LocalScores.from_data(df, prior="learned")
        edges = float(ps.OrderSPN.exact(scores).edge_probabilities().sum())
        pi = 1.0 / (1.0 + np.exp(penalty_of(scores)))
        assert pi == pytest.approx((edges + 1.0) / 30.0, abs=1e-3)  # by the precision of the search


def test_chosen_candidates():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(100, 4)).cumsum(axis=0)
    df = pd.DataFrame((x - x.mean(axis=0)) / x.std(axis=0), columns=list("abcd"))
    few = ps.LocalScores.from_data(df, prior="learned", max_candidates=2)
    chosen = ps.LocalScores.from_data(df, max_candidates=2)
    np.testing.assert_array_equal(few.candidates, chosen.candidates)  # those of the fair prior
    assert ps.DagPosterior.from_data(df, prior="learned").engine == "exact"


def test_what_cannot_be_learned_is_refused():
    df = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 24)), columns=[f"v{i}" for i in range(24)])
    with pytest.raises(ValueError, match=r"prior = 'learned' sums over all orders .* at most 22 variables"):
        ps.LocalScores.from_data(df, prior="learned")
    tiers = [list(df)[i : i + 6] for i in range(0, 24, 6)]
    scores = ps.LocalScores.from_data(df, prior="learned", tiers=tiers, max_candidates=4, progressbar=False)
    assert penalty_of(scores) > 2.0
    with pytest.raises(ValueError, match=r"dag_log_evidence: give prior=ps.dags.EdgePenalty"):
        ps.dags.dag_log_evidence(table(3), prior="learned")
    with pytest.raises(ValueError, match=r"prior must be 'fair', 'uniform', 'learned', an EdgePenalty"):
        ps.LocalScores.from_data(table(3), prior="learnt")
