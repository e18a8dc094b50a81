"""Forward draws (`pm.draw`, `pm.sample_prior_predictive`) against enumeration of orders and of graphs.

3,000 draws over at most 60 classes: the chi-square test at 1e-4 detects a law whose total variation distance from the
right one is above about 0.08; one that forgets scores, tiers or the parents' last block is 0.2 and more away.
"""

from itertools import permutations

import numpy as np
import pymc as pm
import pytest
from scipy.stats import chisquare

import pymc_spn as ps
from pymc_spn.dags import forward_draws
from pymc_spn.dags.partition_sum_kernels import partition_sums
from pymc_spn.dags.prefix_lattice import PrefixLattice
from tests.dags.score_tables import arrays, rough_scores, weights_by_level

DRAWS = 3000


def model_of(kind, scores):
    with pm.Model() as model:
        {"order": ps.DagOrder, "partition": ps.DagPartition}[kind]("g", scores)
    return model


def order_laws(scores):
    """Probability of each tuple of positions."""
    logs = {}
    for order in permutations(range(scores.d)):
        total, prefix = 0.0, 0
        for i in order:
            if int(scores.precede_sets[i]) & ~prefix:
                total = -np.inf
                break
            part = scores.log_sums[scores.offsets[i] : scores.offsets[i + 1]]
            total += part[scores.index_of_parents(i, prefix & scores.candidate_sets[i])]
            prefix |= 1 << i
        logs[tuple(np.argsort(order).tolist())] = total
    top = max(logs.values())
    whole = sum(np.exp(v - top) for v in logs.values())
    return {k: np.exp(v - top) / whole for k, v in logs.items() if v > -np.inf}


def partition_laws(scores):
    weights, total, _, _ = weights_by_level(scores)
    return {k: np.exp(v - total) for k, v in weights.items()}


def agree(drawn, law):
    """Chi-square test of draws against a law, rare classes together."""
    found, times = np.unique(drawn, axis=0, return_counts=True)
    seen = {tuple(k): n for k, n in zip(found.tolist(), times, strict=True)}
    assert seen.keys() <= law.keys()
    common = [k for k, p in law.items() if p * len(drawn) >= 8]
    rare = 1 - sum(law[k] for k in common)
    observed = [seen.get(k, 0) for k in common]
    expected = [law[k] * len(drawn) for k in common]
    if rare * len(drawn) > 1:
        observed, expected = [*observed, len(drawn) - sum(observed)], [*expected, rare * len(drawn)]
    return chisquare(observed, np.array(expected) * sum(observed) / sum(expected)).pvalue


@pytest.mark.parametrize(("kind", "tiers"), [("order", [["v0", "v2"], ["v1", "v3"]]), ("partition", None)])
def test_draws_follow_the_enumerated_law(kind, tiers):
    scores = rough_scores(4, spread=1.0, tiers=tiers)
    law = {"order": order_laws, "partition": partition_laws}[kind](scores)
    model = model_of(kind, scores)
    drawn = pm.draw(model["g"], draws=DRAWS, random_seed=1)
    assert drawn.dtype == np.int64
    assert agree(drawn, law) > 1e-4
    uniform = {k: 1 / len(law) for k in law}
    assert agree(drawn, uniform) < 1e-4  # the test has power
    np.testing.assert_array_equal(drawn[:50], pm.draw(model["g"], draws=50, random_seed=1))
    assert (drawn[:50] != pm.draw(model["g"], draws=50, random_seed=2)).any()


@pytest.mark.parametrize("spread", [0.5, 25.0])
def test_sums_over_partitions_are_those_over_graphs(spread):
    scores = rough_scores(4, spread=spread)
    sums = np.full(3**4, -np.inf)
    partition_sums(4, *arrays(scores), sums)
    assert sums[0] == pytest.approx(weights_by_level(scores)[1], abs=1e-10)


@pytest.mark.parametrize("kind", ["order", "partition"])
def test_prior_predictive_draws_scores_and_edges_of_the_same_state(kind):
    scores = rough_scores(4, spread=1.0)
    with model_of(kind, scores) as model:
        prior = pm.sample_prior_predictive(800, random_seed=3).prior
        logp = model.compile_logp([model["g"]], jacobian=False)
    values = prior["g"].values[0]
    beside = (prior[f"g_{name}"].values[0, :40] for name in ("log_score", "n_edges"))
    for state, log_score, edges in zip(values[:40], *beside, strict=True):
        point = {"g": state, "g_log_score": log_score, "g_n_edges": edges}
        assert log_score == pytest.approx(float(logp(point)), abs=1e-9)
    _, _, graphs, logs = weights_by_level(scores)
    if kind == "partition":
        p, n = np.exp(logs), graphs.sum(axis=(1, 2))
        mean, sd = float(p @ n), float(np.sqrt(p @ n**2 - (p @ n) ** 2))
    else:
        drawn = ps.OrderSPN.exact(scores).sample(4000, random_seed=1).values.sum(axis=(1, 2))
        mean, sd = float(ps.OrderSPN.exact(scores).edge_probabilities().sum()), float(drawn.std())
    assert abs(float(prior["g_n_edges"].mean()) - mean) < 4.5 * sd / np.sqrt(800)


def test_what_is_too_large_is_refused_with_the_way_out(monkeypatch):
    monkeypatch.setattr(forward_draws, "MOST_PREFIXES", 8)
    monkeypatch.setattr(forward_draws, "MOST_IN_PARTITION", 3)
    scores = rough_scores(4, seed=9)
    with pytest.raises(ValueError, match="4 variables have more than 8; draw by"):
        pm.draw(model_of("order", scores)["g"])
    with pytest.raises(ValueError, match="at most 3 variables, got 4; draw by"):
        pm.draw(model_of("partition", scores)["g"])


def test_sums_are_made_once_for_each_model(monkeypatch):
    made = []
    make = PrefixLattice.all_prefixes
    monkeypatch.setattr(PrefixLattice, "all_prefixes", lambda d: (made.append(d), make(d))[1])
    models = [model_of("order", rough_scores(4, seed=s)) for s in (101, 102)]  # of no other test
    for _ in range(3):
        for model in models:
            pm.draw(model["g"], draws=5, random_seed=1)
    assert len(made) == 2
