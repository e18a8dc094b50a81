"""Equivalence classes and linear extensions against enumeration."""

import math

import numpy as np
import pytest
import reference_dags as brute

import pymc_spn as ps
from pymc_spn.dags.dag import to_cpdags
from pymc_spn.dags.prefix_lattice import log_linear_extensions


def test_classes_are_those_of_skeleton_and_colliders():
    """Verma and Pearl: two graphs are equivalent if skeleton and v-structures agree; an edge of the class is directed
    where all members agree."""
    graphs = brute.all_dags(4)
    keys = {}
    for s, g in enumerate(graphs):
        skeleton = g | g.T
        colliders = tuple(
            (a, c, b)
            for c in range(4)
            for a in range(4)
            for b in range(a)
            if g[a, c] and g[b, c] and not skeleton[a, b]
        )
        keys.setdefault((skeleton.tobytes(), colliders), []).append(s)
    assert len(keys) == 185  # classes of four variables
    found = to_cpdags(graphs)
    for members in keys.values():
        union = graphs[members].any(axis=0)
        assert (found[members] == union).all()


def test_linear_extensions_are_counted():
    graphs = brute.all_dags(4)
    counts = brute.extension_counts(4)
    found = log_linear_extensions(graphs[::7].swapaxes(1, 2), "graph")
    np.testing.assert_allclose(found, np.log(counts[::7]), atol=1e-12)
    assert log_linear_extensions(np.zeros((1, 10, 10), bool), "graph") == pytest.approx(np.log(3628800))


def test_parts_that_no_edge_joins_are_counted_by_themselves():
    """Of sixty-four variables, of which the ideals of the whole are more than 2^28."""
    edges = [(i, i + 1) for i in range(29)] + [(30, 32), (31, 32), (33, 34), (33, 35), (36, 63)]
    matrix = np.zeros((64, 64), bool)
    matrix[tuple(np.transpose(edges))] = True
    shuffled = np.random.default_rng(0).permutation(64)
    before = matrix[np.ix_(shuffled, shuffled)].T
    orders = 2 * 2 * math.factorial(64) // (math.factorial(30) * 6 * 6 * 2)
    assert log_linear_extensions(before[None], "graph") == pytest.approx(math.log(orders), rel=1e-13)


def test_graph_refusals_and_views(monkeypatch):
    with pytest.raises(ValueError, match="adjacency has a cycle"):
        ps.DAG.from_edges("ab", [("a", "b"), ("b", "a")])
    with pytest.raises(ValueError, match="adjacency must be bool of shape"):
        ps.DAG(("a", "b"), np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"names must be distinct, got \['a', 'a'\]"):
        ps.DAG(("a", "a"), np.zeros((2, 2), bool))
    with pytest.raises(ValueError, match=r"names: .a.x00. holds a NUL, which no file keeps"):
        ps.DAG(("a\0", "a"), np.zeros((2, 2), bool))
    with pytest.raises(ValueError, match=r"graphs\[1\] has a cycle"):
        to_cpdags(np.array([[[0, 1], [0, 0]], [[0, 1], [1, 0]]]))
    assert repr(ps.DAG.from_edges("abc", [("a", "b")])) == "DAG(3 variables, 1 edges)"
    monkeypatch.setattr("pymc_spn.dags.prefix_lattice.MOST_IDEALS", 10_000)
    with pytest.raises(ValueError, match="graph 0 has more than 10,000 order ideals"):
        star = np.zeros((40, 40), bool)
        star[7] = np.arange(40) != 7
        log_linear_extensions(star.T[None], "graph")
    chain = ps.DAG.from_edges("abc", [("a", "b"), ("b", "c")])
    assert chain.order == ("a", "b", "c")
    assert set(chain.to_networkx().edges) == set(chain.edges) == {("a", "b"), ("b", "c")}
    assert chain.cpdag().undirected == [("a", "b"), ("b", "c")] and chain.cpdag().directed == []
    collider = ps.DAG.from_edges("abc", [("a", "b"), ("c", "b")])
    assert collider.cpdag().directed == [("a", "b"), ("c", "b")]
    assert collider.cpdag() != chain.cpdag()


def test_graphs_are_written_for_other_programs():
    graph = ps.DAG.from_edges(["a b", "c", 'd"\\'], [("a b", "c"), ("c", 'd"\\')])
    text = graph.to_dot()
    assert text.startswith('digraph {\n  "a b";\n  "c";\n') and '  "c" -> "d\\"\\\\";\n' in text
    with pytest.raises(ValueError, match="names must not hold double quotes for dagitty"):
        graph.to_dagitty()
    chain = ps.DAG.from_edges("abc", [("a", "b"), ("b", "c")])
    assert chain.to_dagitty() == 'dag {\n  "a";\n  "b";\n  "c";\n  "a" -> "b";\n  "b" -> "c";\n}'
    either = chain.cpdag()
    assert either.to_dagitty().startswith("pdag {") and '"a" -- "b";' in either.to_dagitty()
    assert '"a" -> "b" [dir=none];' in either.to_dot()
    assert set(either.to_networkx().edges) == {("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")}
    assert ps.DAG.from_networkx(chain.to_networkx()) == chain and chain.undirected == []
    with pytest.raises(ValueError, match="adjacency has a cycle"):
        ps.DAG.from_networkx(either.to_networkx())
    with pytest.raises(TypeError, match=r"graph must be a networkx\.DiGraph; got Graph"):
        ps.DAG.from_networkx(chain.to_networkx().to_undirected())


def test_graphs_are_equal_by_names_and_edges():
    chain = ps.DAG.from_edges("abc", [("a", "b"), ("b", "c")])
    assert chain == ps.DAG.from_edges("abc", [("b", "c"), ("a", "b")]) and len({chain, chain}) == 1
    assert chain != ps.DAG.from_edges("abc", [("a", "b")]) and chain != ps.DAG.from_edges("acb", chain.edges)
    turned = ps.DAG.from_edges("abc", [("c", "b"), ("b", "a")])
    assert turned != chain and turned.cpdag() == chain.cpdag() and chain.cpdag() != chain
