"""Ordered partitions against enumeration of graphs; every move of the chain against its stationary distribution."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import reference_dags as brute

import pymc_spn as ps
from pymc_spn.dags import partition_mcmc_graphs as graphs_of
from pymc_spn.dags import partition_mcmc_kernels as kernels
from pymc_spn.dags.edges_of_orders import edges_given_orders, pair_matrix
from pymc_spn.dags.mcmc_chain import OrderChain, PartitionChain
from tests.dags.score_tables import (
    arrays,
    expected_total_variation,
    gaussian_table,
    level_of,
    rough_scores,
    total_variation,
    weights_by_level,
)


@pytest.mark.parametrize("spread", [0.5, 4.0, 25.0])
def test_weight_of_every_partition_is_the_sum_over_its_graphs(spread):
    """At a spread of 25 nats most differences of two sums cancel to nothing and parent sets are counted."""
    scores = rough_scores(4, spread)
    expected, *_ = weights_by_level(scores)
    assert len(expected) > 50
    for blocks, value in expected.items():
        found = graphs_of.blocks_log_weight(np.array(blocks), *arrays(scores))
        assert found == pytest.approx(value, abs=1e-9)


def test_bounds_are_bounds_and_would_be_wrong_as_values():
    scores = rough_scores(4, 25.0)
    expected, *_ = weights_by_level(scores)
    parts = np.zeros(5, np.int64)
    n_unsure = 0
    for blocks, value in expected.items():
        n = graphs_of.parts_of_blocks(np.array(blocks), parts)
        bound, sure = kernels.partition_log_weight(parts, n, 0, False, *arrays(scores))
        assert bound >= value - 1e-9
        if sure:
            assert bound == pytest.approx(value, abs=1e-9)
        n_unsure += not sure
    assert n_unsure > 10


def test_block_numbers_that_are_no_partition_weigh_nothing():
    scores = rough_scores(3)
    for blocks in ([0, 2, 2], [1, 1, 1], [-1, 0, 0], [0, 3, 1]):
        assert graphs_of.blocks_log_weight(np.array(blocks), *arrays(scores)) == -np.inf


def test_levels_are_longest_paths():
    parts, masks = np.zeros(6, np.int64), np.empty(5, np.int64)
    out = np.empty(5, np.int64)
    for graph in brute.all_dags(5)[::37]:
        masks[:] = (graph * (1 << np.arange(5))[:, None]).sum(axis=0)
        order = np.array(brute.orders_of(graph)[0])
        n = graphs_of.levels(masks, order, parts)
        graphs_of.blocks_of_parts(parts, n, out)
        assert tuple(out) == level_of(graph)


@pytest.mark.parametrize("spread", [1.0, 12.0])
def test_relocation_draws_from_its_full_conditional(spread):
    """From one partition, many times: frequencies of all places against normalised weights."""
    scores = rough_scores(4, spread, seed=3)
    weights, *_ = weights_by_level(scores)
    rng = np.random.default_rng(5)
    begin = (0, 1, 1, 2)
    v, n_draws = 1, 20_000
    counts = {}
    parts, out = np.zeros(5, np.int64), np.empty(4, np.int64)
    for _ in range(n_draws):
        n = graphs_of.parts_of_blocks(np.array(begin), parts)
        n, weight = kernels.relocate(rng, parts, n, v, 0, *arrays(scores), np.empty((6, 6)))
        graphs_of.blocks_of_parts(parts, n, out)
        counts[tuple(out)] = counts.get(tuple(out), 0) + 1
        if len(counts) < 5:
            assert weight == pytest.approx(weights[tuple(out)], abs=1e-9)
    reached = {k: w for k, w in weights.items() if without(k, v) == without(begin, v)}
    assert len(reached) > 3
    logs = np.array(list(reached.values()))
    p = np.exp(logs - logs.max())
    p /= p.sum()
    for key, share in zip(reached, p, strict=True):
        assert abs(counts.get(key, 0) / n_draws - share) < 5 * np.sqrt(share * (1 - share) / n_draws) + 1e-4
    assert set(counts) <= set(reached)


def without(blocks, v):
    """The partition that is left when v is taken out."""
    rest = [b for i, b in enumerate(blocks) if i != v]
    rank = {b: k for k, b in enumerate(sorted(set(rest)))}
    return tuple(rank[b] for b in rest)


def chain_graphs(chain, n_draws, seed=1, thin=1):
    rng = np.random.default_rng(seed)
    chain.start(rng)
    for _ in range(50):
        chain.sweep(rng)
    out = np.empty((n_draws, chain.scores.d), np.int64)
    for s in range(n_draws):
        for _ in range(thin):
            chain.sweep(rng)
        chain.draw_graph(rng)
        out[s] = chain.parents
    return out


@pytest.mark.parametrize("kind", ["rough", "steep", "knowledge", "data"])
def test_partition_chain_draws_graphs_by_their_scores(kind):
    """Total variation to the enumerated structure-modular posterior, at most twice that of independent draws.

    The order-modular posterior is farther away than that (`test_order_bias_would_be_seen`).
    """
    scores = {
        "rough": lambda: rough_scores(4, 1.0),
        "steep": lambda: rough_scores(4, 6.0, seed=2),
        "knowledge": lambda: rough_scores(4, 1.0, required=[("v0", "v2")], tiers=[["v0", "v1"], ["v2", "v3"]]),
        "data": lambda: ps.LocalScores.from_data(gaussian_table(4)),
    }[kind]()
    _, _, graphs, logs = weights_by_level(scores)
    p = np.exp(logs)
    n = 30_000
    found = total_variation(chain_graphs(PartitionChain(scores), n, thin=2), graphs, p)
    assert found < 2 * expected_total_variation(p, n)


def test_partition_chain_at_five_variables():
    scores = ps.LocalScores.from_data(gaussian_table(5, n=25, seed=6))
    _, _, graphs, logs = weights_by_level(scores)
    masks = chain_graphs(PartitionChain(scores), 20_000, thin=2)
    drawn = (masks[:, None, :] >> np.arange(5)[:, None] & 1).mean(axis=0)
    exact = np.tensordot(np.exp(logs), graphs, 1)
    assert np.abs(drawn - exact).max() < 5 * 0.5 / np.sqrt(20_000 / 2)  # at least every second draw counts


def test_reversals_of_edges_keep_the_law_of_graphs():
    """In turns with redrawn parents of one variable, which alone reach all graphs; a law by edges would be seen."""
    scores = rough_scores(4, 1.0)
    _, _, graphs, logs = weights_by_level(scores)
    rng, parents, n = np.random.default_rng(5), np.zeros(4, np.int64), 20_000
    out, n_reversed = np.empty((n, 4), np.int64), 0
    for s in range(n):
        n_reversed += graphs_of.reverse_edges(rng, 3, parents, scores.candidates, *arrays(scores))
        _redraw_parents(rng, scores, parents, int(rng.integers(4)))
        out[s] = parents
    assert n_reversed > n / 2
    p = np.exp(logs)
    by_edges = p * graphs.sum(axis=(1, 2))
    bound = 1.5 * expected_total_variation(p, n)  # draws that follow each other are alike
    assert total_variation(out, graphs, p) < bound < total_variation(out, graphs, by_edges / by_edges.sum())


def _redraw_parents(rng, scores, parents, v):
    parents[v] = 0
    below = 1 << v
    for _ in range(4):
        below |= sum(1 << i for i in range(4) if parents[i] & below)
    sets = [m for m in range(16) if m & below == 0]
    logs = np.array([scores.log_scores[scores.offsets[v] + scores.index_of_parents(v, m)] for m in sets])
    p = np.exp(logs - logs.max())
    parents[v] = rng.choice(sets, p=p / p.sum())


def test_order_bias_would_be_seen():
    scores = rough_scores(4, 1.0)
    _, _, graphs, logs = weights_by_level(scores)
    biased = np.exp(logs) * brute.extension_counts(4)
    biased /= biased.sum()
    gap = 0.5 * np.abs(biased - np.exp(logs)).sum()
    assert gap > 3 * 2 * expected_total_variation(np.exp(logs), 30_000)
    found = total_variation(chain_graphs(OrderChain(scores), 30_000), graphs, biased)
    assert found < 2 * expected_total_variation(biased, 30_000)


def test_a_partition_behind_a_base():
    """Weights of two variables behind two that stand before them: every parent may lie in the base."""
    scores = rough_scores(4, 2.0, seed=4)
    base = 0b0101
    parts = np.zeros(3, np.int64)
    total = 0.0
    for blocks in ((0b1010,), (0b0010, 0b1000), (0b1000, 0b0010)):
        parts[: len(blocks)] = blocks
        total += np.exp(kernels.partition_log_weight(parts, len(blocks), base, True, *arrays(scores))[0])
    expected = 0.0
    for graph in brute.all_dags(4):
        inner = graph[np.ix_([1, 3], [1, 3])]
        if brute.is_acyclic(inner) and not graph[:, [0, 2]].any():
            expected += _two(scores, graph)
    assert total == pytest.approx(expected, rel=1e-10)


def _two(scores, graph):
    value = 0.0
    for i in (1, 3):
        m = scores.index_of_parents(i, sum(1 << int(j) for j in np.flatnonzero(graph[:, i])))
        value += scores.log_scores[scores.offsets[i] + m]
    return np.exp(value)


def test_starts_differ_and_keep_required_edges():
    scores = rough_scores(5, required=[("v0", "v1"), ("v1", "v2")])
    chain = PartitionChain(scores)
    states = set()
    for seed in range(20):
        chain.start(np.random.default_rng(seed))
        states.add(tuple(chain.state))
        assert chain.log_score > -np.inf
        assert chain.state[0] < chain.state[1] < chain.state[2]
    assert len(states) > 3


def test_scores_without_a_graph_are_refused():
    both = {"a": {("b",): 0.0}, "b": {("a",): 0.0}}
    scores = ps.LocalScores.from_table(both)
    for make in (OrderChain, PartitionChain):
        with pytest.raises(ValueError, match="no order was found in which every variable has a possible parent set"):
            make(scores).start(np.random.default_rng(0))


def test_sixty_four_variables():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.normal(size=(80, 64)))
    data[1] += data[0]
    data[63] += data[1]
    scores = ps.LocalScores.from_data(data, max_candidates=4)
    for make in (OrderChain, PartitionChain):
        masks = chain_graphs(make(scores), 40)
        edges = (masks[:, None, :] >> np.arange(64)[:, None] & 1).astype(bool)
        for graph in edges[::10]:
            assert brute.is_acyclic(graph)
        assert (edges | edges.transpose(0, 2, 1))[:, 1, 63].mean() > 0.9


def test_parents_given_an_order_have_their_probabilities():
    """Within few candidates and within many, which are gone through in two ways; of another order they are others."""
    scores, rng, n = ps.LocalScores.from_data(gaussian_table(12)), np.random.default_rng(4), 4_000
    chain = OrderChain(scores)
    orders = np.array([rng.permutation(12) for _ in range(2)])
    chain.order[:] = orders[0]
    masks = np.empty((n, 12), np.int64)
    for s in range(n):
        chain.draw_graph(rng)
        masks[s] = chain.parents
    found = (masks[:, None] >> np.arange(12)[:, None] & 1).mean(axis=0)
    expected = pair_matrix(scores, edges_given_orders(scores, scores.log_sums, orders))
    error = 5 * np.sqrt(expected * (1 - expected) / n) + 1e-9
    away = np.abs(found - expected)
    assert (away[0] < error[0]).all() and (away[1] > error[1]).any()


def test_order_of_orders():
    """Frequencies of all 24 orders against their weights."""
    scores = rough_scores(4, 0.7, seed=8)
    chain = OrderChain(scores)
    rng = np.random.default_rng(2)
    chain.start(rng)
    n = 20_000
    counts = {}
    for _ in range(n):
        chain.sweep(rng)
        counts[tuple(chain.order)] = counts.get(tuple(chain.order), 0) + 1
    orders = list(permutations(range(4)))
    logs = []
    for order in orders:
        chain.order = np.array(order)
        logs.append(chain.log_score)
    p = np.exp(np.array(logs) - max(logs))
    p /= p.sum()
    for order, share in zip(orders, p, strict=True):
        assert abs(counts.get(order, 0) / n - share) < 6 * np.sqrt(2 * share * (1 - share) / n)
