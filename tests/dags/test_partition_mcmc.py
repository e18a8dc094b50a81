"""Weights of ordered partitions against enumeration of graphs; starts, refusals and many variables."""

import numpy as np
import pandas as pd
import pytest
import reference_dags as brute

import pymc_spn as ps
from pymc_spn.dags import partition_mcmc_graphs as graphs_of
from pymc_spn.dags import partition_mcmc_kernels as kernels
from pymc_spn.dags.mcmc_chain import OrderChain, PartitionChain
from pymc_spn.dags.parent_set_scores import edges_given_orders, pair_matrix, places_of_orders
from tests.dags.score_tables import (
    arrays,
    gaussian_table,
    level_of,
    listed_scores,
    rough_scores,
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
        bound = kernels.partition_log_weight(parts, n, 0, False, *arrays(scores))
        assert bound.real >= value - 1e-9
        if bound.imag == 0.0:
            assert bound.real == pytest.approx(value, abs=1e-9)
        n_unsure += bound.imag > 0.0
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


def test_a_partition_behind_a_base():
    """Weights of two variables behind two that stand before them: every parent may lie in the base."""
    scores = rough_scores(4, 2.0, seed=4)
    base = 0b0101
    parts = np.zeros(3, np.int64)
    total = 0.0
    for blocks in ((0b1010,), (0b0010, 0b1000), (0b1000, 0b0010)):
        parts[: len(blocks)] = blocks
        total += np.exp(kernels.partition_log_weight(parts, len(blocks), base, True, *arrays(scores)).real)
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
    scores = listed_scores(both)
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
    expected = pair_matrix(scores, edges_given_orders(scores, scores.log_sums, places_of_orders(scores, orders)))
    error = 5 * np.sqrt(expected * (1 - expected) / n) + 1e-9
    away = np.abs(found - expected)
    assert (away[0] < error[0]).all() and (away[1] > error[1]).any()
