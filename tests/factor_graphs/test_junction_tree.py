"""Plans: width, refusal, running intersection, planning time; circuits of the plan."""

import pickle
import time

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from pymc_spn import FactorGraph
from pymc_spn.factor_graphs.plan import TooWideError
from tests.factor_graphs.graphs import build, graphs
from tests.reference_factor_graphs import all_configurations, log_sum, log_values
from tests.shared_circuits import coded, codes_of


@settings(max_examples=60, deadline=None, derandomize=True)
@given(graphs(max_variables=6))
def test_cliques_form_a_junction_tree(problem):
    cards, factors, _ = problem
    tree = build(cards, factors).compile()
    plan = tree.plan
    cliques = [set(plan.variables_of(c).tolist()) for c in range(plan.n_cliques)]
    parent = plan.arrays.parent
    assert all(p == -1 or p > c for c, p in enumerate(parent))
    for scope, _ in factors:
        wide = {v for v in scope if cards[v] > 1}
        assert not wide or any(wide <= c for c in cliques)
    for v in range(len(cards)):  # running intersection: the cliques with v hang together
        holding = [c for c in range(plan.n_cliques) if v in cliques[c]]
        joined = nx.Graph([(c, parent[c]) for c in holding if parent[c] in holding])
        joined.add_nodes_from(holding)
        assert nx.is_connected(joined)
    for a in range(plan.n_cliques):
        assert not any(a != b and cliques[a] <= cliques[b] for b in range(plan.n_cliques))


@pytest.mark.parametrize(("n", "width", "entries"), [(4, 4, None), (10, 13, 41_824), (12, 16, 261_472)])
def test_grids_have_the_width_that_min_fill_finds(n, width, entries):
    tree = FactorGraph.ising((n, n), 0.1).compile()
    assert tree.width == width
    assert entries is None or tree.n_entries == entries
    assert f"width found by min-fill: {width}" in tree.report()


def test_a_wide_grid_is_refused_with_the_clique_and_a_way_out():
    with pytest.raises(TooWideError, match=r"min-fill can make next, \{x\d+_\d+, .*max_table=16,7"):
        FactorGraph.ising((40, 40), 0.1).compile()
    with pytest.raises(ValueError, match=r"has 1,024 entries, more than max_table=1,000. Raise max_table"):
        build((4,) * 5, [((0, 1, 2, 3, 4), np.zeros((4,) * 5))]).compile(max_table=1000)


def test_planning_is_linear_on_long_chains_stars_and_trees():
    """A hundred thousand variables in a second on an idle machine; the bound leaves room for a loaded one."""
    n = 100_000
    rng = np.random.default_rng(0)
    ahead = np.arange(1, n)
    parents = {"chain": ahead - 1, "star": np.zeros(n - 1, int), "tree": (rng.random(n - 1) * ahead).astype(int)}
    FactorGraph.ising(3, 1.0).compile()  # compiles the planner
    for shape, parent in parents.items():
        fg = FactorGraph({f"v{i}": 3 for i in range(n)})
        fg.add_factors([(f"v{i}", f"v{j}") for i, j in zip(parent, ahead, strict=True)], np.zeros((3, 3)))
        begin = time.process_time()
        tree = fg.compile()
        assert time.process_time() - begin < 4.0, shape
        assert tree.width == 1


def test_tables_of_equal_cliques_are_shared():
    """A homogeneous chain keeps one transition table, whatever its length; a changing one keeps them all."""
    rng = np.random.default_rng(0)
    step = rng.normal(size=(3, 3))
    assert (
        FactorGraph.hmm(500, np.zeros(3), step).compile().plan.arrays.table_start[-1] == 3 * 9
    )  # first, between, last
    other = FactorGraph.hmm(500, np.zeros(3), rng.normal(size=(499, 3, 3)))
    assert other.compile().plan.arrays.table_start[-1] == 499 * 9


@settings(max_examples=60, deadline=None, derandomize=True)
@given(graphs(max_variables=5))
def test_circuits_equal_the_graph_and_are_no_larger_than_its_finite_entries(problem):
    cards, factors, _ = problem
    fg = build(cards, factors)
    values = log_values(cards, factors)
    total = log_sum(values)
    tree = fg.compile()
    if total == -np.inf:
        with pytest.raises(ValueError, match="impossible"):
            tree.to_circuit()
        return
    circuit = tree.to_circuit()
    circuit.circuit.check_smooth()
    circuit.circuit.check_decomposable()
    assert circuit.log_z == pytest.approx(total, abs=1e-10)
    rows = np.array(all_configurations(cards), dtype=float)
    found = circuit.log_density(coded(circuit.circuit, rows)).values + circuit.log_z
    finite = values > -np.inf
    np.testing.assert_allclose(found[finite], values[finite], atol=1e-10)
    assert np.all(found[~finite] == -np.inf)
    assert circuit.circuit.n_sum_edges <= finite_entries(tree)
    gaps = rows.copy()
    gaps[:, 0] = np.nan
    marginal = (
        tree.infer({f"v{i}": gaps[:, i] for i in range(1, len(cards))}) if len(cards) > 1 and finite.all() else None
    )
    if marginal is not None:
        np.testing.assert_allclose(
            circuit.log_density(coded(circuit.circuit, gaps)) + circuit.log_z, marginal.log_z, atol=1e-10
        )


def finite_entries(tree):
    from pymc_spn.factor_graphs.linear_messages import log_tables

    arrays = tree.plan.arrays
    tables = np.empty(arrays.table_start[-1])
    log_tables(arrays, tree.graph.potentials(), tables, np.empty(arrays.table_start.size - 1))
    size = arrays.n_rows * arrays.n_cols
    starts = arrays.table_start[arrays.table]
    return sum(int(np.sum(tables[a : a + n] > -np.inf)) for a, n in zip(starts, size, strict=True))


def test_determinism_shrinks_the_circuit():
    """x3 = x1 or x2: the table has eight entries and four of them are possible."""
    table = np.full((2, 2, 2), -np.inf)
    for a in range(2):
        for b in range(2):
            table[a, b, a | b] = 0.0
    fg = build((2, 2, 2), [((0, 1, 2), table)])
    assert fg.compile().to_circuit().circuit.n_sum_edges == 4
    assert build((2, 2, 2), [((0, 1, 2), np.zeros((2, 2, 2)))]).compile().to_circuit().circuit.n_sum_edges == 8


def test_a_compiled_circuit_survives_pickling_and_keeps_its_labels():
    fg = FactorGraph.tree([("p", "q")], {"p": ["x", "y"], "q": 3}, np.arange(6.0).reshape(2, 3))
    circuit = fg.compile().to_circuit()
    copy = pickle.loads(pickle.dumps(circuit))
    assert copy.circuit == circuit.circuit and copy.circuit.columns[0].levels == ("x", "y")
    assert copy.log_z == circuit.log_z and np.array_equal(copy.log_weights, circuit.log_weights)
    for held in (circuit, copy):
        with pytest.raises(ValueError, match="read-only"):
            held.log_weights[0] = 0.0
        with pytest.raises(ValueError, match="read-only"):
            held.leaf_parameters["categorical"][0, 0] = 0.5
    row = coded(circuit.circuit, [[1.0, np.nan]])
    assert copy.log_density(row) == circuit.log_density(row)


def test_later_factors_do_not_reach_a_compiled_tree():
    fg = FactorGraph({"a": 2})
    tree = fg.compile()
    fg.add_factor(("a",), [0.0, 5.0])
    assert tree.infer().marginal("a").values.tolist() == [0.5, 0.5]


def test_a_compiled_circuit_answers_as_enumeration_does():
    """It said that it carries its parameters, and asked for them."""
    rng = np.random.default_rng(3)
    fg = FactorGraph({"a": ["x", "y"], "b": 3, "c": 2})
    fg.add_factor(("a", "b"), np.where(rng.random((2, 3)) < 0.2, -np.inf, rng.normal(size=(2, 3))))
    fg.add_factor(("b", "c"), rng.normal(size=(3, 2)))
    circuit = fg.compile().to_circuit()
    rows = np.array(list(np.ndindex(2, 3, 2)), float)
    p = np.exp(np.array([fg.log_table(0)[a, b] + fg.log_table(1)[b, c] for a, b, c in rows.astype(int)]))
    assert circuit.log_z == pytest.approx(np.log(p.sum()), abs=1e-12)
    p /= p.sum()
    is_y, b_known = rows[:, 0] == 1, rows[:, 1] > 0
    known = {"b": {1, 2}}
    assert float(circuit.probability({"a": "y"})) == pytest.approx(p[is_y].sum(), abs=1e-12)
    given_b = p[is_y & b_known].sum() / p[b_known].sum()
    assert float(circuit.probability({"a": "y"}, given=known)) == pytest.approx(given_b, abs=1e-12)
    assert float(circuit.condition(known).probability("a == 'y'")) == pytest.approx(given_b, abs=1e-12)
    assert float(circuit.entropy()) == pytest.approx(-np.sum(p[p > 0] * np.log(p[p > 0])), abs=1e-10)
    assert np.array_equal(codes_of(circuit.circuit, circuit.mpe().value)[0], rows[np.argmax(p)])
    draws = codes_of(circuit.circuit, circuit.sample(4000, random_seed=0))
    share = np.array([np.mean((draws == row).all(axis=1)) for row in rows])
    assert np.all(np.abs(share - p) <= 5.0 * np.sqrt(p * (1.0 - p) / 4000))
    filled = circuit.impute(coded(circuit.circuit, [[np.nan, 0.0, 1.0]] * 5), random_seed=1)
    assert np.all(filled[["b", "c"]] == [0, 1]) and set(filled["a"]) <= {"x", "y"}
