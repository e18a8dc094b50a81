"""Queries that draw, against enumeration: classes, ancestors, the structure-modular target."""

import numpy as np
import pytest
import reference_dags as brute
from reference_dags import score_function, table
from scipy.special import logsumexp

import pymc_spn as ps
from pymc_spn.dags.dag import to_cpdags


@pytest.fixture(scope="module")
def post():
    return ps.OrderSPN.exact(ps.LocalScores.from_data(table(4)))


@pytest.fixture(scope="module")
def truth():
    """Probabilities of all graphs: order-modular, and each graph once."""
    _, by_order = brute.posterior(score_function(table(4)), 4)
    logs = np.log(by_order) - np.log(brute.extension_counts(4))
    return by_order, np.exp(logs - logsumexp(logs))


def test_each_graph_once(post, truth):
    answer = post.structure_modular(draws=20_000, random_seed=0)
    exact = np.einsum("g,gij->ij", truth[1], brute.all_dags(4))
    other = np.einsum("g,gij->ij", truth[0], brute.all_dags(4))
    edges = answer.edge_probability
    error = edges.attrs["mcse"]
    assert np.all(np.abs(edges.values - exact) < 5 * error + 1e-9)
    assert np.any(np.abs(edges.values - other) > 10 * error)  # the two targets are apart, and seen to be
    assert edges.attrs["target"] == "structure-modular" and post.edge_probabilities().attrs["target"] == "order-modular"
    ratio = truth[1] / truth[0]
    expected = 1 / np.sum(truth[0] * ratio**2)  # ESS of perfect draws, by sums over graphs
    assert answer.attrs["draws_after_weighting"] / 20_000 == pytest.approx(expected, rel=0.05)


def test_graphs_within_tiers_are_weighted_by_orders_within_tiers():
    df = table(4)
    tiers = [["a", "b"], ["c", "d"]]
    post = ps.OrderSPN.exact(ps.LocalScores.from_data(df, tiers=tiers))
    score = score_function(df)
    precede = ((0, 2), (0, 3), (1, 2), (1, 3))
    _, p = brute.posterior(lambda i, q: -np.inf if i < 2 and q & {2, 3} else score(i, q), 4, precede)
    counts = brute.extension_counts(4, precede)
    once = np.divide(p, counts, out=np.zeros_like(p), where=p > 0)
    exact = np.einsum("g,gij->ij", once / once.sum(), brute.all_dags(4))
    edges = post.structure_modular(draws=5_000, random_seed=0).edge_probability
    assert np.all(np.abs(edges.values - exact) < 5 * edges.attrs["mcse"] + 1e-3)  # an edge of 0.999997 never lacks


def test_classes_and_ancestors(post, truth):
    graphs = brute.all_dags(4)
    classes = to_cpdags(graphs)
    answer = post.equivalence_classes(draws=20_000, random_seed=0)
    assert float(answer.probability.sum()) == pytest.approx(1.0)
    assert (np.diff(answer.probability) <= 0).all()
    for k in range(3):
        same = (classes == answer.cpdag.values[k]).all(axis=(1, 2))
        mcse = answer.probability.attrs["mcse"][k]
        assert abs(float(answer.probability[k]) - truth[0][same].sum()) < 5 * mcse
    paths = graphs.copy()
    for k in range(4):
        paths |= paths[:, :, k, None] & paths[:, None, k, :]
    found = post.ancestor_probabilities(draws=20_000, random_seed=0)
    exact = np.einsum("g,gij->ij", truth[0], paths)
    assert np.all(np.abs(found.values - exact) < 5 * found.attrs["mcse"] + 1e-9)


def test_averages_over_draws_name_support_candidates_and_condition():
    scores = ps.LocalScores.from_data(table(4), max_candidates=2)
    post = ps.OrderSPN.regular(scores, [5, 2], random_seed=0)
    given = {"absent": [("a", "b")]}
    exact = post.edge_probabilities(given)
    limits = {name: exact.attrs[name] for name in ("target", "support", "candidates", "given")}
    classes = post.equivalence_classes(20, given, random_seed=0)
    once = post.structure_modular(20, given, random_seed=0)
    for answer in (classes, classes.probability, post.ancestor_probabilities(20, given, random_seed=0)):
        assert limits.items() <= answer.attrs.items()
    for answer in (once, once.edge_probability):
        assert (limits | {"target": "structure-modular"}).items() <= answer.attrs.items()


def test_draws_as_a_datatree(post, tmp_path):
    tree = post.to_datatree(chains=2, draws=50, random_seed=0)
    assert tree["posterior"].log_score.dims == ("chain", "draw")
    graph = tree["graphs"].graph
    assert graph.dims == ("chain", "draw", "parent", "child") and graph.shape == (2, 50, 4, 4)
    first = graph.values[1, 7]
    assert tree["posterior"].log_score.values[1, 7] == post.scores.log_score(first)
    assert tree["posterior"].n_edges.values[1, 7] == first.sum()
    assert not np.array_equal(graph.values[0], graph.values[1])
    place = tree["graphs"].position.values[1, 7]
    assert all(place[j] < place[i] for j, i in np.argwhere(first))
    tree.to_netcdf(tmp_path / "draws.nc", engine="h5netcdf")


def test_too_many_orders_to_count_are_refused(post, monkeypatch):
    monkeypatch.setattr("pymc_spn.dags.prefix_lattice.MOST_IDEALS", 2)
    with pytest.raises(ValueError, match=r"draw \d has more than 2 order ideals, so its orders are not counted"):
        post.structure_modular(draws=10, random_seed=0)
