"""Every Markov kernel over orders, partitions and graphs keeps its law: pi P = pi, by transitions from all states.

The law is enumerated and some hundred transitions from each state estimate P. A planted mistake in each test is seen.
"""

from itertools import permutations, product

import numpy as np
import pytest
import reference_dags as brute

from pymc_spn.dags import order_gibbs_kernels as orders_of
from pymc_spn.dags import partition_mcmc_graphs as graphs_of
from pymc_spn.dags import partition_mcmc_kernels as partitions_of
from pymc_spn.dags.mcmc_chain import OrderChain, PartitionChain
from tests.dags.score_tables import arrays, rough_scores, weights_by_level

SCORES = {
    "rough": lambda: rough_scores(4, 1.0),
    "steep": lambda: rough_scores(4, 6.0, seed=2),
    "knowledge": lambda: rough_scores(4, 1.0, required=[("v0", "v2")], tiers=[["v0", "v1"], ["v2", "v3"]]),
}
NEAR, FAR = 5.0, 6.0  # standard errors of pi P: of at most some hundred states, and of a planted mistake
LEAST = 10  # transitions from a state


def normalised(logs):
    """Probabilities of the keys with positive weight."""
    top = max(logs.values())
    whole = sum(np.exp(v - top) for v in logs.values())
    return {k: float(np.exp(v - top) / whole) for k, v in logs.items() if v > -np.inf}


def transitions(law, step, total, after=None):
    """(states, later states) numbers of transitions, more from probable states; no other state may be reached."""
    place = {key: i for i, key in enumerate(law if after is None else after)}
    counts = np.zeros((len(law), len(place)))
    for i, (key, p) in enumerate(law.items()):
        for _ in range(LEAST + round(total * p)):
            counts[i, place[step(key)]] += 1.0
    return counts


def distance(law, counts, after=None):
    """Largest deviation of the law after one transition, in standard errors."""
    p, q = np.array(list(law.values())), np.array(list((law if after is None else after).values()))
    n = counts.sum(axis=1, keepdims=True)
    shares, weights = counts / n, p[:, None] / n
    variance = (p[:, None] * weights * shares * (1.0 - shares)).sum(axis=0) + np.square(weights.max())
    return float(np.max(np.abs(p @ shares - q) / np.sqrt(variance)))


def assert_kept(law, step, total):
    """The law is kept, one whose weights have a power is not, and all states lead to the most probable one."""
    counts = transitions(law, step, total)
    assert distance(law, counts) < NEAR
    assert distance(flatter(law), counts) > FAR
    steps = (counts > 0.0) | np.eye(len(law), dtype=bool)
    for _ in range(6):
        steps = (steps.astype(float) @ steps) > 0.0
    assert steps[:, np.argmax(list(law.values()))].all()


def flatter(law, power=0.8):
    """The planted mistake: weights to a power."""
    return normalised({k: power * np.log(p) for k, p in law.items()})


def of_orders(scores):
    chain, logs = OrderChain(scores), {}
    for order in permutations(range(scores.d)):
        chain.order[:] = order
        logs[order] = chain.log_score
    return normalised(logs)


def of_partitions(scores):
    return normalised(weights_by_level(scores)[0])


def of_graphs(scores, bias=1.0):
    """By parent sets as bits; structure-modular, or with numbers of orders as bias."""
    graphs = brute.all_dags(scores.d)
    logs = np.array([scores.log_score(g) for g in graphs]) + np.log(np.maximum(bias, 1e-300))
    sets = (graphs * (1 << np.arange(scores.d))[:, None]).sum(axis=1)
    return normalised(dict(zip(map(tuple, sets.tolist()), logs.tolist(), strict=True)))


@pytest.mark.parametrize("kind", SCORES)
def test_sweeps_of_orders(kind):
    scores, rng = SCORES[kind](), np.random.default_rng(1)
    chain, law = OrderChain(scores), of_orders(scores)

    def step(order):
        chain.order[:] = order
        chain.sweep(rng)
        return tuple(chain.order.tolist())

    assert_kept(law, step, 10_000)


def test_exchanges_of_replicas():
    """Two replicas of three variables, of which the second has weights to the power of one half."""
    scores, rng, out = rough_scores(3, 1.0), np.random.default_rng(2), np.empty((1, 3), np.int64)
    powers = np.array([1.0, 0.5])
    cold, sums = of_orders(scores), powers[:, None] * scores.log_sums
    hot = normalised({k: log_weight(scores, k, 0.5) for k in cold})
    law = {(a, b): cold[a] * hot[b] for a, b in product(cold, hot)}
    where = scores.slots, scores.offsets

    def step(pair, powers=powers):
        states = np.array(pair)
        orders_of.chain_of_orders(rng, states, powers, 1, *where, sums, scores.must_precede, out)
        return tuple(map(tuple, states.tolist()))

    assert_kept(law, step, 10_000)
    wrong = transitions(law, lambda pair: step(pair, np.array([1.0, 0.0])), 10_000)  # exchanges by other powers
    assert distance(law, wrong) > FAR


def log_weight(scores, order, power):
    """Log weight of an order whose sums over parent sets have a power."""
    total, prefix = 0.0, 0
    for i in order:
        part = scores.log_sums[scores.offsets[i] : scores.offsets[i + 1]]
        total += power * part[scores.index_of_parents(i, prefix & scores.candidate_sets[i])]
        prefix |= 1 << i
    return total


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("move", ["relocation", "sweep"])
def test_moves_of_partitions(kind, move):
    """A sweep has relocations, exchanges and reversals of edges in a graph given the partition."""
    scores, rng = SCORES[kind](), np.random.default_rng(3)
    chain, law, out = PartitionChain(scores), of_partitions(scores), np.empty(4, np.int64)
    logs = weights_by_level(scores)[0]

    def step(blocks):
        chain.state = blocks
        if move == "sweep":
            chain.sweep(rng)
            return tuple(chain.state.tolist())
        for v in rng.permutation(4)[:2]:
            n, weight = partitions_of.relocate(rng, chain.parts, chain.n_parts, v, 0, *arrays(scores), chain._scratch)
            chain.n_parts = n
        graphs_of.blocks_of_parts(chain.parts, n, out)
        after = tuple(out.tolist())
        assert abs(weight - logs[after]) < 1e-9
        return after

    assert_kept(law, step, 8_000)


def test_reversals_of_edges():
    """A law by numbers of edges, of which one is drawn, would be seen."""
    scores, rng = rough_scores(4, 1.0), np.random.default_rng(5)
    law, parents, n_reversed = of_graphs(scores), np.zeros(4, np.int64), 0

    def step(sets):
        nonlocal n_reversed
        parents[:] = sets
        n_reversed += graphs_of.reverse_edges(rng, 2, parents, scores.candidates, *arrays(scores))
        return tuple(parents.tolist())

    counts = transitions(law, step, 40_000)
    assert distance(law, counts) < NEAR and n_reversed > 20_000
    by_edges = normalised({k: np.log(p * (0.5 + sum(s.bit_count() for s in k))) for k, p in law.items()})
    assert distance(by_edges, counts) > FAR


@pytest.mark.parametrize("kind", ["order", "partition"])
def test_graphs_given_a_state(kind):
    """Mixed over the states they have the posterior, structure-modular of partitions and order-modular of orders."""
    scores, rng = rough_scores(4, 1.0), np.random.default_rng(6)
    chain = {"order": OrderChain, "partition": PartitionChain}[kind](scores)
    states = {"order": of_orders, "partition": of_partitions}[kind](scores)
    biased = of_graphs(scores, brute.extension_counts(4))
    law, wrong = (biased, of_graphs(scores)) if kind == "order" else (of_graphs(scores), biased)

    def step(state):
        chain.state = np.argsort(state) if kind == "order" else state
        chain.draw_graph(rng)
        return tuple(chain.parents.tolist())

    counts = transitions(states, step, 20_000, law)
    assert distance(states, counts, law) < NEAR and distance(states, counts, wrong) > FAR
