"""`cutset_network` against networks built by trying every forest and every division, with tables counted row by row."""

import itertools
import math
from dataclasses import replace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln

import pymc_spn as ps
from pymc_spn.circuits.structures import circuit_builders, level_scores
from pymc_spn.circuits.structures.level_scores import (
    BayesianInformation,
    DirichletEvidence,
    LevelCounter,
    heaviest_tree,
)
from pymc_spn.circuits.structures.or_trees import Growth, grow_or_tree, rooted_at_centres
from tests.shared_circuits import coded as table_of

N_LEVELS = (2, 3, 3, 2, 2)
STATES = np.array(list(itertools.product(*(range(k) for k in N_LEVELS))), float)


def contexts(seed, n):
    """Where `on`, b is a noisy copy of a or, unless `d`, of the level after; elsewhere e is one of d."""
    rng = np.random.default_rng(seed)
    on, d = rng.random(n) < 0.6, rng.random(n) < 0.4
    a = rng.integers(0, 3, n)
    b = np.where(on & (rng.random(n) < 0.9), (a + ~d) % 3, rng.integers(0, 3, n))
    e = np.where(on | (rng.random(n) < 0.1), rng.random(n) < 0.5, d)
    return pd.DataFrame({"on": on, "a": pd.Categorical(a, range(3)), "b": pd.Categorical(b, range(3)),
                         "d": d, "e": e.astype(bool)})  # fmt: skip


def chained(seed, n):
    """Each column depends on the one before alone."""
    rng = np.random.default_rng(seed)
    values = [rng.integers(0, 2, n)]
    for k in N_LEVELS[1:]:
        values.append(np.where(rng.random(n) < 0.7, values[-1] % k, rng.integers(0, k, n)))
    return pd.DataFrame(
        {f"c{i}": pd.Categorical(x, range(k)) for i, (x, k) in enumerate(zip(values, N_LEVELS, strict=True))}
    )


def with_gaps(df, share):
    gaps = df.mask(np.random.default_rng(9).random(df.shape) < share)
    return gaps.astype({name: "boolean" for name in df.columns if df[name].dtype == bool})


def coded(df):
    return ps.Table.from_frame(df).values


class ByTrying:
    """The greedy cutset network by its definition: all forests of all candidates, one directed family at a time."""

    def __init__(self, values, score="evidence", rows=1.0, prior_rows=1.0, max_depth=9):
        self.score, self.prior_rows, self.n = score, prior_rows, len(values)
        self.divided_by, self.gains = [], []
        self.root = self.grow(values, tuple(range(values.shape[1])), rows, max_depth)

    def term(self, child, n_child, parent, n_parent, rows):
        """Score of a column given another, from the rows one by one."""
        total = 0.0
        for level in range(n_parent):
            counts = np.array([sum(child[parent == level] == k) for k in range(n_child)])
            if self.score == "bic":
                total += sum(c * math.log(c / counts.sum()) for c in counts if c) - (n_child - 1) * math.log(self.n) / 2
            else:
                prior = rows / n_parent
                total += gammaln(prior) - gammaln(prior + counts.sum())
                total += sum(gammaln(c + prior / n_child) - gammaln(prior / n_child) for c in counts)
        return total

    def forest(self, values, columns, rows):
        k = N_LEVELS
        alone = {}
        for d in columns:
            x = values[~np.isnan(values[:, d]), d]
            alone[d] = self.term(x, k[d], np.zeros(x.size), 1, rows)
        gain = {}
        for d, e in itertools.combinations(columns, 2):
            x, y = values[~np.isnan(values[:, [d, e]]).any(axis=1)][:, [d, e]].T
            gain[d, e] = self.term(y, k[e], x, k[d], rows) - self.term(y, k[e], np.zeros(x.size), 1, rows)
        found = []
        for n in range(max(len(columns), 1)):
            for edges in itertools.combinations(gain, n):
                graph = nx.Graph(edges)
                graph.add_nodes_from(columns)
                if not columns or nx.is_forest(graph):
                    found.append((sum(alone.values()) + sum(gain[e] for e in edges), edges))
        return max(found)

    def grow(self, values, columns, rows, depth):
        _, edges = self.forest(values, columns, rows)
        best = None
        for d in columns if depth and len(values) >= 20 else ():
            seen = values[~np.isnan(values[:, d])]
            if np.unique(seen[:, d]).size > 1:
                rest = tuple(c for c in columns if c != d)
                parts = [seen[seen[:, d] == k] for k in range(N_LEVELS[d])]
                total = self.term(seen[:, d], N_LEVELS[d], np.zeros(len(seen)), 1, rows)
                total += sum(self.forest(part, rest, rows / N_LEVELS[d])[0] for part in parts)
                gain = total - self.forest(seen, columns, rows)[0]
                if gain > 1e-6 and (best is None or gain > best[0]):
                    best = gain, d, parts, rest
        if best is None:
            return self.tables(values, columns, edges)
        gain, d, parts, rest = best
        self.divided_by.append(d)
        self.gains.append(gain)
        shares = self.shares(values[:, d], N_LEVELS[d])
        below = [self.grow(part, rest, rows / N_LEVELS[d], depth - 1) for part in parts]
        return lambda row: math.log(shares[int(row[d])]) + below[int(row[d])](row)

    def shares(self, x, k, whole=None):
        whole = np.full(k, 1.0 / k) if whole is None else whole
        x = x[~np.isnan(x)]
        return np.array([(np.sum(x == level) + self.prior_rows * whole[level]) / (x.size + self.prior_rows)
                         for level in range(k)])  # fmt: skip

    def tables(self, values, columns, edges):
        graph = nx.Graph(edges)
        graph.add_nodes_from(columns)
        families = []
        for tree in nx.connected_components(graph):
            centre = min(nx.center(graph.subgraph(tree)))
            families.append((centre, None, self.shares(values[:, centre], N_LEVELS[centre])))
            for p, c in nx.bfs_edges(graph, centre):
                whole = self.shares(values[:, c], N_LEVELS[c])
                given = [self.shares(values[values[:, p] == k, c], N_LEVELS[c], whole) for k in range(N_LEVELS[p])]
                families.append((c, p, given))
        return lambda row: sum(
            math.log(table[int(row[c])] if p is None else table[int(row[p])][int(row[c])]) for c, p, table in families
        )


def densities(fit, rows=STATES):
    return fit.log_density(table_of(fit.circuit, rows)).values


def kept_apart(fit):
    """The circuit with the level of each leaf declared."""
    circuit, supports = fit.circuit, {}
    for family in circuit.families:
        for leaf, own in zip(circuit.leaves_of(family), fit.leaf_parameters[family], strict=True):
            supports[int(leaf)] = 1 << int(own[0] if family == "bernoulli" else np.argmax(own))
    return replace(circuit, leaf_support=[supports[leaf] for leaf in circuit.leaves.tolist()])


def column_at_root(circuit):
    """The column whose leaves stand directly below the root's products."""
    below = circuit.children_of(int(circuit.children_of(0)[0]))
    (leaf,) = [v for v in below.tolist() if circuit.leaf_column[v] >= 0]
    return int(circuit.leaf_column[leaf])


@pytest.mark.parametrize(
    ("arguments", "share"),
    [
        ({}, 0.0),
        ({"equivalent_sample_size": 5.0, "prior_rows": 3.0}, 0.0),
        ({"score": "bic"}, 0.0),
        ({"max_depth": 1}, 0.25),
        ({"score": "bic", "max_depth": 2}, 0.1),
    ],
)
def test_the_network_that_trying_everything_finds(arguments, share):
    """Column, score and every density; gammaln and sums of a few hundred terms of size 1e3 round at 1e-9 at most."""
    df = contexts(0, 400)
    df = with_gaps(df, share) if share else df
    slow = ByTrying(
        coded(df), arguments.get("score", "evidence"), arguments.get("equivalent_sample_size", 1.0),
        arguments.get("prior_rows", 1.0), arguments.get("max_depth", 9),
    )  # fmt: skip
    fit = ps.circuits.cutset_network(df, **arguments)
    assert len(slow.divided_by) >= 1 and column_at_root(fit.circuit) == slow.divided_by[0]
    np.testing.assert_allclose(sorted(np.diff(fit.objective)), sorted(slow.gains), atol=1e-8)
    assert np.all(np.diff(fit.objective) > 0.0)
    logs = densities(fit)
    np.testing.assert_allclose(logs, [slow.root(row) for row in STATES], atol=1e-11)
    assert math.fsum(np.exp(logs)) == pytest.approx(1.0, abs=1e-12)
    assert fit.log_likelihood == pytest.approx(densities(fit, coded(df)).sum())
    kept_apart(fit).check_deterministic()


def test_the_criterion_is_likelihood_less_half_the_log_of_rows_for_each_free_weight():
    df = contexts(1, 600)
    fit = ps.circuits.cutset_network(df, score="bic", prior_rows=1e-9)
    circuit = fit.circuit
    free = circuit.n_sum_edges - circuit.n_sum
    assert fit.objective[-1] == pytest.approx(fit.log_likelihood - free * math.log(600) / 2, abs=1e-5)
    assert fit.objective.size > 1


def test_the_evidence_is_what_rows_say_one_after_the_other():
    """Chain rule: each row's predictive probability under the rows before, of one column given one other."""
    df = contexts(2, 60)[["on", "b"]]
    values = coded(df)
    counts, total = np.full((2, 3), 2.0 / 6), 0.0
    for on, b in values.astype(int):
        total += math.log(counts[on, b] / counts.sum())
        counts[on, b] += 1.0
    alone = 0.0
    for d, k in enumerate((2, 3)):
        own = np.full(k, 2.0 / k)
        for x in values[:, d].astype(int):
            alone += math.log(own[x] / own.sum())
            own[x] += 1.0
    counter = LevelCounter.of(values, [2, 3])
    pairs, score = counter.pairs(np.arange(60)), DirichletEvidence(2.0)
    assert counter.pair_gains(pairs, score)[0, 1] == pytest.approx(total - alone, abs=1e-9)
    fit = ps.circuits.cutset_network(df, equivalent_sample_size=2.0)
    assert fit.objective[-1] == pytest.approx(max(total, alone), abs=1e-9)  # divided or not, it is the same


def test_rows_of_one_tree_are_not_divided_and_rows_of_two_are():
    """The same rows are divided where nothing is asked for a parameter, so that the first half could fail."""
    tree = chained(3, 4000)
    fit = ps.circuits.cutset_network(tree)
    assert fit.objective.size == 1
    np.testing.assert_allclose(densities(fit), densities(ps.circuits.chow_liu_tree(tree)), atol=1e-12)
    counter = LevelCounter.of(coded(tree), list(N_LEVELS))
    free = Growth(BayesianInformation(0.0), True, 1, 20, 5)
    nodes, path = grow_or_tree(counter, counter.pairs(np.arange(4000)), free, np.random.default_rng(0))
    assert len(nodes) > 1 and path[1] > path[0]
    for score in ("evidence", "bic"):
        assert ps.circuits.cutset_network(tree, score=score).objective.size == 1
        assert ps.circuits.cutset_network(contexts(3, 4000), score=score).objective.size > 1


def test_new_rows_of_contexts_are_denser_than_under_one_tree():
    train, new = contexts(4, 800), coded(contexts(5, 2000))
    cutset, tree = (densities(f, new) for f in (ps.circuits.cutset_network(train), ps.circuits.chow_liu_tree(train)))
    gain = cutset - tree
    assert gain.mean() > 0.05 and gain.mean() > 5.0 * gain.std() / math.sqrt(gain.size)


def test_several_networks_are_their_average():
    df = contexts(6, 300)
    rng = np.random.default_rng(7)
    singles = np.stack([densities(ps.circuits.cutset_network(df, n_candidates=2, random_seed=rng)) for _ in range(4)])
    fit = ps.circuits.cutset_network(df, n_candidates=2, n_networks=4, random_seed=7)
    assert np.ptp(singles, axis=0).max() > 0.01
    np.testing.assert_allclose(densities(fit), np.log(np.exp(singles).mean(axis=0)), atol=1e-12)
    assert fit.circuit.n_leaf == sum(N_LEVELS)  # shared by all
    with pytest.raises(ValueError, match="not deterministic"):
        kept_apart(fit).check_deterministic()
    default = ps.circuits.cutset_network(df, n_networks=4, random_seed=7)  # three of five columns
    np.testing.assert_allclose(
        densities(default),
        densities(ps.circuits.cutset_network(df, n_candidates=3, n_networks=4, random_seed=7)),
        atol=1e-12,
    )


def test_columns_drawn_at_random_divide_without_asking():
    tree = chained(8, 300)
    assert ps.circuits.cutset_network(tree).objective.size == 1
    found = [ps.circuits.cutset_network(tree, score=None, max_depth=2, random_seed=seed) for seed in (0, 0, 1, 2, 3)]
    assert found[0].circuit == found[1].circuit
    assert len({column_at_root(f.circuit) for f in found}) > 1
    for fit in found[1:]:
        assert fit.circuit.n_sum > ps.circuits.chow_liu_tree(tree).circuit.n_sum
        assert math.fsum(np.exp(densities(fit))) == pytest.approx(1.0, abs=1e-12)
        kept_apart(fit).check_deterministic()


def test_what_stops_divisions():
    df = contexts(9, 400)
    assert [ps.circuits.cutset_network(df, max_depth=d).objective.size for d in (0, 1)] == [1, 2]
    assert [ps.circuits.cutset_network(df, min_rows=n).objective.size for n in (400, 401)] == [2, 1]
    forest, tree = ps.circuits.cutset_network(df, max_depth=0), ps.circuits.chow_liu_tree(df)
    assert forest.circuit.n_sum < tree.circuit.n_sum  # edges that lose are left out


def test_exact_questions():
    fit = ps.circuits.cutset_network(contexts(10, 300), n_networks=2, random_seed=1)
    mass = np.exp(densities(fit))
    on, a, b, d, _ = STATES.T
    given = (a == 2) & (d == 0)
    event = {"on": True, "b": {1, 2}}
    found = fit.probability(event, given={"a": 2, "d": False})
    assert float(found) == pytest.approx(mass[given & (on == 1) & (b > 0)].sum() / mass[given].sum(), abs=1e-12)
    best = fit.mpe({"a": 2, "d": False})
    assert best.certified
    assert float(best.log_density) == pytest.approx(math.log(mass[given].max() / mass[given].sum()), abs=1e-12)


def test_gaps_are_summed_out_by_em_from_here():
    df = with_gaps(contexts(11, 300), 0.2)
    fit = ps.circuits.cutset_network(df, max_depth=1)
    assert fit.objective.size == 2
    better = ps.fit_em(
        fit.circuit, df, leaf_prior_rows=0.0, edge_prior_rows=0.0, start=(fit.log_weights, fit.leaf_parameters)
    )
    assert better.log_likelihood > fit.log_likelihood + 0.1
    kept_apart(better).check_deterministic()  # each leaf keeps its level


def test_small_tables():
    one = ps.circuits.cutset_network(pd.DataFrame({"a": [True, False, True]}), n_networks=2, random_seed=0)
    np.testing.assert_allclose(np.exp(densities(one, np.array([[0.0], [1.0]]))), [1.5 / 4, 2.5 / 4], atol=1e-12)
    same = pd.DataFrame({"a": [True] * 30, "b": pd.Categorical(["u"] * 30, ["u"]), "c": [True, False] * 15})
    fit = ps.circuits.cutset_network(same, score=None, random_seed=0)
    rows = np.array(list(itertools.product((0, 1), (0,), (0, 1))), float)
    assert math.fsum(np.exp(densities(fit, rows))) == pytest.approx(1.0, abs=1e-12)
    assert column_at_root(fit.circuit) == 2  # the only column with two levels there


def test_counts_of_blocks_and_of_what_is_left(monkeypatch):
    values = coded(with_gaps(contexts(12, 50), 0.3))
    counter = LevelCounter.of(values, list(N_LEVELS))
    levels = [(d, k) for d, n in enumerate(N_LEVELS) for k in range(n)]
    expected = [[sum((values[:, d] == k) & (values[:, e] == m)) for e, m in levels] for d, k in levels]
    monkeypatch.setattr(level_scores, "BLOCK", 7)
    pairs = counter.pairs(np.arange(50))
    np.testing.assert_array_equal(pairs, expected)
    groups, tables = counter.divided(np.arange(50), pairs, 1)
    assert sorted(np.concatenate(groups)) == list(range(50))
    for group, table, level in zip(groups, tables, (0.0, 1.0, 2.0, np.nan), strict=True):
        np.testing.assert_array_equal(values[group, 1], level)
        np.testing.assert_array_equal(table, counter.pairs(group))


def test_networks_that_are_too_large_are_refused(monkeypatch):
    monkeypatch.setattr(circuit_builders, "MAX_EDGES", 60)
    ps.circuits.cutset_network(contexts(15, 60), max_depth=0)
    with pytest.raises(ValueError, match="more than 60 edges; take fewer nodes in a region or fewer divisions"):
        ps.circuits.cutset_network(contexts(15, 60), score=None, random_seed=0)


def test_trees_against_networkx():
    rng = np.random.default_rng(13)
    for n in (1, 2, 3, 7, 12):
        weights = rng.random((n, n)) * (rng.random((n, n)) < 0.5)
        weights = np.triu(weights, 1) + np.triu(weights, 1).T
        edges = heaviest_tree(weights)
        total = nx.maximum_spanning_tree(nx.from_numpy_array(weights + 1.0)).size("weight") - (n - 1)
        assert weights[edges[:, 0], edges[:, 1]].sum() == pytest.approx(total)
        kept = edges[weights[edges[:, 0], edges[:, 1]] > 0.0]
        forest = nx.Graph(kept.tolist())
        forest.add_nodes_from(range(n))
        parent = rooted_at_centres(list(range(n)), kept.tolist())
        centres = {min(nx.center(forest.subgraph(tree))) for tree in nx.connected_components(forest)}
        assert {v for v, above in parent.items() if above is None} == centres
        assert {frozenset(e) for e in parent.items() if None not in e} == {frozenset(e) for e in kept.tolist()}
        order = list(parent)
        assert all(above is None or order.index(v) < order.index(above) for v, above in parent.items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": "mdl"}, "score must be 'evidence', 'bic' or None, got 'mdl'"),
        ({"score": ["bic"]}, "score must be 'evidence', 'bic' or None"),
        ({"equivalent_sample_size": 0}, "equivalent_sample_size must be a positive finite number, got 0"),
        ({"prior_rows": math.inf}, "prior_rows must be a positive finite number, got inf"),
        ({"max_depth": -1}, "max_depth must be an integer of at least 0, got -1"),
        ({"max_depth": True}, "max_depth must be an integer of at least 0, got True"),
        ({"min_rows": 0}, "min_rows must be an integer of at least 1, got 0"),
        ({"min_rows": None}, "min_rows must be an integer of at least 1, got None"),
        ({"n_networks": 1.5}, "n_networks must be an integer of at least 1, got 1.5"),
        ({"n_candidates": 0}, "n_candidates must be an integer from 1 to the 5 columns, or None; got 0"),
        ({"n_candidates": 6}, "n_candidates must be an integer from 1 to the 5 columns, or None; got 6"),
        ({"n_candidates": 5, "n_networks": 2}, "below the 5 columns for n_networks=2, which would be all alike; got 5"),
        ({"n_candidates": 2, "score": None}, "n_candidates must be None where score is None.* got 2"),
        ({"kinds": {"zzz": "binary"}}, "zzz"),
        ({"data": pd.DataFrame({"a": [True, False], "b": [0.5, 1.5]})}, "columns of levels only, 'b' is real"),
        ({"data": pd.DataFrame({"a": [True, False], "b": [1, 5]})}, "columns of levels only, 'b' is count"),
        ({"data": pd.DataFrame({"a": [0, 1, 2]}), "kinds": {"a": "binary"}}, "'a'"),
    ],
)
def test_what_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        ps.circuits.cutset_network(**{"data": contexts(14, 30), **change})
