"""Building graphs, exchange with other formats, and every refusal of the surface once."""

import itertools
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from pymc_spn import FactorGraph


def test_networkx_and_back():
    rng = np.random.default_rng(0)
    fg = FactorGraph({"a": 2, "b": ["x", "y", "z"], "c": 2})
    fg.add_factor(("b", "a"), rng.normal(size=(3, 2)))
    fg.add_factor(("a", "b"), rng.normal(size=(2, 3)))
    fg.add_factor((), 1.5)
    graph = fg.to_networkx()
    assert nx.is_bipartite(graph) and graph.number_of_nodes() == 6
    again = FactorGraph.from_networkx(graph)
    assert again.states == fg.states
    assert [again.scope_of(f) for f in range(3)] == [fg.scope_of(f) for f in range(3)]
    assert again.compile().log_z == fg.compile().log_z
    graph.remove_edge(("factor", 0), "a")
    with pytest.raises(ValueError, match=r"factor node \('factor', 0\) must be joined to exactly its scope"):
        FactorGraph.from_networkx(graph)
    with pytest.raises(ValueError, match="must have kind 'variable' or 'factor', got None"):
        FactorGraph.from_networkx(nx.path_graph(2))


def test_a_long_graph_is_exported_in_memory_of_its_size():
    """Each table was a view of a copy of all tables."""
    rng = np.random.default_rng(0)
    fg = FactorGraph({f"v{i}": 2 for i in range(300)})
    for i in range(1, 300):
        fg.add_factor((f"v{i - 1}", f"v{i}"), rng.normal(size=(2, 2)))
    graph = fg.to_networkx()
    tables = [data["log_table"] for _, data in graph.nodes(data=True) if data["kind"] == "factor"]
    assert all((table.base is None or table.base.size == 4) and table.shape == (2, 2) for table in tables)
    assert np.array_equal(tables[7], fg.log_table(7)) and fg.log_table(7).base is None


def test_pgmpy_models_are_read_through_their_tables():
    """Objects with pgmpy's interface (TabularCPD: own variable first); the next test takes pgmpy's own."""
    a = SimpleNamespace(variables=["a"], values=np.array([0.3, 0.7]), state_names={"a": ["n", "y"]})
    b = SimpleNamespace(
        variables=["b", "a"], values=np.array([[0.9, 0.2], [0.1, 0.8]]), state_names={"a": ["n", "y"], "b": [0, 1]}
    )
    net = SimpleNamespace(get_cpds=lambda: [a, b], nodes=lambda: ["a", "b"])
    r = FactorGraph.from_pgmpy(net).compile().infer({"b": 1})
    assert float(r.marginal("a").sel(a="y")) == pytest.approx(0.56 / 0.59, abs=1e-14)
    field = SimpleNamespace(get_factors=lambda: [b], nodes=lambda: ["a", "b"])
    assert FactorGraph.from_pgmpy(field).compile().log_z == pytest.approx(np.log(2.0), abs=1e-14)
    with pytest.raises(TypeError, match="model must be a network of pgmpy"):
        FactorGraph.from_pgmpy(object())
    with pytest.raises(ValueError, match="every variable must occur in a table, 'c' occurs in none"):
        FactorGraph.from_pgmpy(SimpleNamespace(get_cpds=lambda: [a], nodes=lambda: ["a", "c"]))


@pytest.mark.filterwarnings("ignore")  # pgmpy's own imports warn of its next version
def test_networks_of_pgmpy_itself_give_its_marginals():
    pytest.importorskip("pgmpy", reason="pgmpy is not installed")
    from pgmpy.factors.discrete import DiscreteFactor, TabularCPD
    from pgmpy.inference import VariableElimination
    from pgmpy.models import DiscreteBayesianNetwork, DiscreteMarkovNetwork

    net = DiscreteBayesianNetwork([("a", "c"), ("b", "c")])
    net.add_cpds(
        TabularCPD("a", 2, [[0.3], [0.7]], state_names={"a": ["n", "y"]}),
        TabularCPD("b", 3, [[0.2], [0.5], [0.3]], state_names={"b": ["low", "mid", "high"]}),
        TabularCPD(
            "c",
            2,
            np.array([[0.9, 0.8, 0.7, 0.4, 0.3, 0.2], [0.1, 0.2, 0.3, 0.6, 0.7, 0.8]]),
            evidence=["a", "b"],
            evidence_card=[2, 3],
            state_names={"c": ["no", "yes"], "a": ["n", "y"], "b": ["low", "mid", "high"]},
        ),
    )
    expected = VariableElimination(net).query(["b"], evidence={"c": "yes"}, show_progress=False)
    found = FactorGraph.from_pgmpy(net).compile().infer({"c": "yes"}).marginal("b")
    for state in ("low", "mid", "high"):
        assert float(found.sel(b=state)) == pytest.approx(expected.get_value(b=state), abs=1e-12)
    field = DiscreteMarkovNetwork([("a", "b")])
    field.add_factors(DiscreteFactor(["a", "b"], [2, 2], [1.0, 2.0, 3.0, 4.0]))
    assert FactorGraph.from_pgmpy(field).compile().log_z == pytest.approx(np.log(10.0), abs=1e-14)


def test_bulk_factors_equal_single_ones():
    rng = np.random.default_rng(2)
    tables = rng.normal(size=(3, 2, 2))
    names = ["a", "b", "c", "d"]
    one, many = FactorGraph(dict.fromkeys(names, 2)), FactorGraph(dict.fromkeys(names, 2))
    many.add_factors(list(itertools.pairwise(names)), tables)
    for i in range(3):
        one.add_factor(names[i : i + 2], tables[i])
    tree = FactorGraph.tree(list(itertools.pairwise(names)), 2, tables)
    assert one.compile().log_z == many.compile().log_z == tree.compile().log_z


def two():
    return FactorGraph({"a": ["no", "yes"], "b": 3})


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: FactorGraph(["a"]), TypeError, "variables must be a mapping"),
        (lambda: FactorGraph({"a": 0}), ValueError, "variable 'a' must have at least one state, got 0"),
        (lambda: FactorGraph({"a": ["x", "x"]}), ValueError, "states of variable 'a' must differ"),
        (lambda: FactorGraph({"a": ["x", 1]}), TypeError, "must be all str, all int or all bool"),
        (lambda: two().add_factor(("a", "b"), np.zeros((3, 2))), ValueError, r"must have shape \(2, 3\).*got \(3, 2\)"),
        (lambda: two().add_factor(("a", "z"), np.zeros((2, 2))), ValueError, "unknown variable 'z'; the variables are"),
        (lambda: two().add_factor(("a", "a"), np.zeros((2, 2))), ValueError, "variables must be distinct"),
        (lambda: two().add_factor("a", np.zeros(2)), TypeError, "a sequence of names, got the single string"),
        (
            lambda: two().add_factor(("a", "b"), [[0, 0, 0], [0, np.nan, 0]]),
            ValueError,
            r"log_table of factor \('a', 'b'\) must be finite or -inf, got nan at \(a='yes', b=1\)",
        ),
        (lambda: two().add_factor(("b",), [0, np.inf, 0]), ValueError, "got inf at .b=1."),
        (lambda: two().add_factor(("a",), ["x", "y"]), TypeError, "must hold numbers"),
        (lambda: two().compile(max_table=0), ValueError, "max_table must be an integer of at least 1, got 0"),
        (lambda: two().compile(max_table=2**31), ValueError, r"max_table must be below 2\^31, got 2,147,483,648"),
        (lambda: FactorGraph({"a": 10**12}), ValueError, "states of variable 'a' = 1,000,000,000,000 needs 48,000 gig"),
        (lambda: FactorGraph.hmm(10**12, [0, 0], np.zeros((2, 2))), ValueError, "n_steps = 1,000,000,000,000 needs"),
        (lambda: FactorGraph.ising((10**6, 10**6), 1.0), ValueError, r"shape = \(1000000, 1000000\) needs 500,000"),
        (lambda: FactorGraph({}).compile(), ValueError, "at least one variable"),
        (lambda: two().compile().infer({"z": 1}), ValueError, "unknown variable 'z'"),
        (
            lambda: two().compile().infer(pd.DataFrame({"a": ["no", "maybe"]}, index=["r", "s"])),
            ValueError,
            r"given\['a'\] must be a state of the variable in row 's': 'maybe' is none of \('no', 'yes'\)",
        ),
        (lambda: two().compile().infer({"b": 3}), ValueError, r"given\['b'\].*3 is none of \(0, 1, 2\)"),
        (lambda: two().compile().infer({"b": [0.0, 1.5]}), ValueError, "in row 1: 1.5 is none of"),
        (lambda: two().compile().infer({"a": "no", "b": [1, 2]}), ValueError, "scalars only or columns only"),
        (lambda: two().compile().infer({"a": [], "b": []}), ValueError, "at least one row"),
        (lambda: two().compile().infer({"a": ["no"], "b": [1, 2]}), ValueError, "columns of equal length"),
        (lambda: two().compile().infer(3), TypeError, "given must be a DataFrame"),
        (lambda: two().compile().infer({"b": {1: 2}}), ValueError, r"given\['b'\] must be.*\{1: 2\} is none of"),
        (
            lambda: two().compile().infer({"a": pd.Series(["no"], index=[4]), "b": pd.Series([1], index=[5])}),
            ValueError,
            "given must have Series of equal index labels, together they have 2 rows",
        ),
        (lambda: two().compile().infer(soft_evidence=[0, 0]), TypeError, "soft_evidence must be a mapping"),
        (
            lambda: two().compile().infer(soft_evidence={"b": [0, np.nan, 0]}),
            ValueError,
            r"soft_evidence\['b'\] must be finite or -inf, got nan at state 1",
        ),
        (lambda: two().compile().infer(soft_evidence={"b": [0, 0]}), ValueError, r"must have shape \(3,\)"),
        (lambda: two().compile().infer().marginal("z"), ValueError, "unknown variable 'z'"),
        (lambda: two().compile().infer().pairwise("a", "a"), ValueError, "two different variables"),
        (lambda: two().compile().infer().factor_marginal(0), ValueError, "factor must be an integer within"),
        (lambda: two().compile().infer().factor_marginal("a"), ValueError, "factor must be an integer within"),
        (lambda: two().add_factors([("a",), ("a", "b")], [0, 0]), ValueError, r"but \('a',\) and \('a', 'b'\) differ"),
        (lambda: FactorGraph({"a": {"x", "y"}}), TypeError, "must be a count or a sequence of labels"),
        (lambda: FactorGraph({"a": 2.0}), TypeError, "must be a count or a sequence of labels"),
        (lambda: FactorGraph.ising(2.5, 1.0), ValueError, "shape must be a length"),
        (lambda: FactorGraph.ising(3, "a"), ValueError, "coupling must be a finite number"),
        (lambda: FactorGraph({"row": 2}).compile().infer({"row": [0, 1]}).marginal("row"), ValueError, "called 'row'"),
        (lambda: two().compile().infer().kbest(0), ValueError, "k must be an integer of at least 1"),
        (lambda: two().compile().infer().sample(0), ValueError, "n must be an integer of at least 1"),
        (lambda: FactorGraph.tree([("a", "b"), ("b", "c"), ("c", "a")], 2, np.eye(2)), ValueError, "closes a cycle"),
        (lambda: FactorGraph.hmm(0, [0.0], [[0.0]]), ValueError, "n_steps must be an integer of at least 1, got 0"),
        (lambda: FactorGraph.ising((2, 2), 1.0, periodic=True), ValueError, "sides of at least 3"),
        (lambda: FactorGraph.ising(3, np.nan), ValueError, "coupling must be a finite number"),
        (
            lambda: FactorGraph.from_bayesian_network({"a": 2, "b": 2}, {"a": ["b"], "b": ["a"]},
                                                      {"a": np.full((2, 2), 0.5), "b": np.full((2, 2), 0.5)}),
            ValueError,
            "parents must not close a cycle",
        ),
        (lambda: FactorGraph.from_bayesian_network({"a": 2}, {}, {}), ValueError, "'a' is missing"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_columns_beside_a_series_take_its_index():
    r = two().compile().infer({"a": ["no", "yes"], "b": pd.Series([1, 2], index=["r", "s"])})
    assert r.log_z.indexes["row"].tolist() == ["r", "s"]
    assert r.map().state.sel(row="s").values.tolist() == ["yes", 2]
    scalar = r.map().state.sel(row="s", variable="b")  # an answer as the next question's evidence
    assert float(two().compile().infer({"b": scalar}).marginal("b").sel(b=2)) == 1.0
