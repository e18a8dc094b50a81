import copy
import itertools
import json
import math
import pickle

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pymc_spn.circuits.evaluation import completion
from pymc_spn.circuits.structures.circuit import LEAF, PRODUCT, SUM, Circuit
from pymc_spn.circuits.structures.region_trees import complete_tree, skewed_tree
from pymc_spn.leaves import Bernoulli, Gaussian
from pymc_spn.tables import Column
from tests.shared_circuits import ARRAYS, changed, circuit_of


@st.composite
def explicit_trees(draw):
    n = draw(st.integers(1, 5))
    build = draw(st.sampled_from([complete_tree, skewed_tree]))
    tree = build(
        [f"x{d}" for d in range(n)],
        n_children=draw(st.integers(1, 2)),
        n_parts=draw(st.integers(2, 3)),
        split="random",
        random_seed=draw(st.integers(0, 99)),
    )
    palettes = st.lists(st.sampled_from(["bernoulli", "categorical"]), min_size=1, max_size=3, unique=True)
    leaves = {name: draw(palettes) for name in tree.names}
    return tree, leaves, tree.circuit(leaves)


def random_parameters(circuit, rng, n_levels=2):
    weights = rng.gamma(1.0, size=circuit.n_sum_edges) + 0.05
    total = np.bincount(circuit.edge_sum, weights=weights, minlength=circuit.n_nodes)
    parameters = {}
    for family in circuit.families:
        n = circuit.leaves_of(family).size
        draws = {
            "gaussian": lambda n: np.column_stack([rng.normal(size=n), rng.gamma(3.0, size=n)]),
            "bernoulli": lambda n: rng.random((n, 1)),
            "categorical": lambda n: rng.dirichlet(np.ones(n_levels), size=n),
        }
        parameters[family] = draws[family](n)
    return np.log(weights / total[circuit.edge_sum]), parameters


def reference_density(circuit, row, log_weights, parameters, node=0):
    """Density of one row by recursion and textbook formulas."""
    if circuit.kind[node] == LEAF:
        x = row[circuit.leaf_column[node]]
        if math.isnan(x):
            return 1.0
        family = circuit.families[circuit.leaf_family[node]]
        theta = parameters[family][circuit.leaves_of(family).tolist().index(node)]
        return {
            "bernoulli": lambda: theta[0] if x == 1 else 1 - theta[0],
            "categorical": lambda: theta[int(x)],
        }[family]()
    below = [reference_density(circuit, row, log_weights, parameters, c) for c in circuit.children_of(node)]
    if circuit.kind[node] == PRODUCT:
        return math.prod(below)
    return sum(w * b for w, b in zip(np.exp(log_weights[circuit.edge_sum == node]), below, strict=True))


# -- the explicit tree --------------------------------------------------------------------------------


@given(explicit_trees())
def test_explicit_tree_has_the_counted_nodes(case):
    tree, leaves, circuit = case
    sizes = {name: len(p) for name, p in leaves.items()}
    assert circuit.n_sum == tree.n_sum_nodes()
    assert circuit.n_product == tree.n_product_nodes()
    assert circuit.n_leaf == tree.n_leaves(sizes)
    assert circuit.n_nodes == tree.n_nodes(sizes) == circuit.n_edges + 1
    assert circuit.n_sum_edges == circuit.n_product + circuit.n_leaf
    sum_scopes = [circuit.scope(s) for s in np.flatnonzero(circuit.kind == SUM)]
    copies = tree.copies(tree.width(sizes))
    assert sorted(sum_scopes) == sorted(tree.scope(r) for r in range(tree.n_regions) for _ in range(copies[r]))
    for s in np.flatnonzero(circuit.kind == SUM):
        children = circuit.children_of(s)
        if np.all(circuit.kind[children] == LEAF):
            (name,) = circuit.scope(s)
            held = [circuit.families[circuit.leaf_family[c]] for c in children]
            assert held == list(itertools.islice(itertools.cycle(leaves[name]), len(held)))


def test_paper_size_is_built_and_evaluated():
    """Wine at C_s = 4 (Table 9): 18,285 nodes."""
    tree = complete_tree([f"x{d}" for d in range(14)], n_children=4)
    circuit = tree.circuit({name: [Gaussian()] for name in tree.names})
    assert (circuit.n_sum, circuit.n_nodes) == (3_657, 18_285)
    rng = np.random.default_rng(1)
    log_weights, parameters = random_parameters(circuit, rng)
    values = rng.normal(size=(300, 14))  # more than one block
    got = circuit.with_parameters(log_weights, parameters).log_density(values).values
    assert completion.MOST < 300
    assert got[200] == pytest.approx(
        circuit.with_parameters(log_weights, parameters).log_density(values[200:201]).values[0], rel=1e-13
    )


def test_palette_entries_and_names_are_the_same():
    tree = complete_tree(["a", "b"], n_children=3)
    named = tree.circuit({"a": ["gaussian"], "b": ["gaussian", "bernoulli"]})
    assert named == tree.circuit({"a": "gaussian", "b": [Gaussian(), Bernoulli()]})
    with pytest.raises(ValueError, match=r"families must be among .* got 'gauss'"):
        tree.circuit({"a": "gauss", "b": "gauss"})


# -- evaluation ---------------------------------------------------------------------------------------


@settings(deadline=None)  # the first example compiles
@given(explicit_trees(), st.integers(0, 1_000))
def test_density_is_the_textbook_recursion_and_has_mass_one(case, seed):
    _, _, circuit = case
    log_weights, parameters = random_parameters(circuit, np.random.default_rng(seed))
    cells = [(0.0, 1.0, np.nan)] * len(circuit.columns)
    values = np.array(list(itertools.product(*cells)))
    got = circuit.with_parameters(log_weights, parameters).log_density(values).values
    expected = [reference_density(circuit, row, log_weights, parameters) for row in values]
    np.testing.assert_allclose(np.exp(got), expected, rtol=1e-12)
    full = ~np.isnan(values).any(axis=1)
    assert np.exp(got[full]).sum() == pytest.approx(1.0, abs=1e-12)
    # a missing cell is the sum over its values
    for row, value in zip(values, got, strict=True):
        agrees = np.all(np.isnan(row) | (values == row), axis=1)
        assert np.exp(got[full & agrees]).sum() == pytest.approx(np.exp(value), abs=1e-12)


MIXTURE = complete_tree(["a", "b"], n_children=2).circuit({"a": ["gaussian"], "b": ["bernoulli"]})
HALVES = np.full(MIXTURE.n_sum_edges, -np.log(2.0))
FINE = {"gaussian": np.tile([0.0, 1.0], (4, 1)), "bernoulli": np.full((4, 1), 0.5)}


@pytest.mark.parametrize(
    ("values", "log_weights", "parameters", "message"),
    [
        (np.zeros((3, 1)), HALVES, FINE, r"df must have shape \(rows, 2\), got \(3, 1\)"),
        (np.zeros((3, 2)), HALVES[1:], FINE, r"log_weights must have shape \(10,\), got \(9,\)"),
        (np.zeros((3, 2)), np.zeros(10), FINE, "weights of each sum must add up to 1, got 2.0 at sum 0"),
        (
            np.zeros((3, 2)),
            np.full(10, np.nan),
            FINE,
            "log_weights must be at most 0, got nan at entry 0, of sum 0",
        ),
        (np.zeros((3, 2)), HALVES, FINE | {"poisson": [[1.0]]}, "got 'poisson'"),
        (np.zeros((3, 2)), HALVES, {"gaussian": FINE["gaussian"]}, "'bernoulli' is missing"),
        (np.zeros((3, 2)), HALVES, FINE | {"bernoulli": np.ones(4)}, r"must have shape \(4, p\), got \(4,\)"),
        (
            np.zeros((3, 2)),
            HALVES,
            FINE | {"bernoulli": np.array([[0.5], [0.5], [1.5], [0.5]])},
            r"leaf_parameters\['bernoulli'\]: .* within 0 and 1, got \[1.5\] at row 2, leaf 13 of 'b'",
        ),
        (np.zeros((3, 2)), HALVES, FINE | {"gaussian": np.zeros((4, 2))}, "standard deviation positive"),
        (np.zeros((3, 2)), HALVES, FINE | {"gaussian": np.zeros((4, 3))}, "rows must be"),
    ],
)
def test_bad_parameters_are_refused(values, log_weights, parameters, message):
    with pytest.raises(ValueError, match=message):
        MIXTURE.with_parameters(log_weights, parameters).log_density(values)


# -- structural checks --------------------------------------------------------------------------------


def test_errors_name_nodes_and_columns():
    twice = [("product", [1, 2]), ("sum", [3]), ("sum", [4, 5]), ("age", "categorical"), ("product", [6, 7])]
    twice += [("product", [8, 9]), ("age", "categorical"), ("sex", "categorical")]
    twice += [("sex", "categorical"), ("age", "categorical")]
    with pytest.raises(ValueError, match="not decomposable: children 1 and 2 of product 0 both contain 'age'"):
        circuit_of(twice, ["age", "sex"])
    uneven = [("sum", [1, 2]), ("product", [3, 4]), ("age", "categorical")]
    uneven += [("age", "categorical"), ("sex", "categorical")]
    with pytest.raises(ValueError, match="not smooth: children 1 and 2 of sum 0 differ, 'sex' is in the scope of"):
        circuit_of(uneven, ["age", "sex"])


@given(explicit_trees(), st.data())
def test_a_leaf_of_another_column_is_found(case, data):
    _, _, circuit = case
    assume(len(circuit.columns) > 1)
    leaf = data.draw(st.sampled_from(circuit.leaves.tolist()))
    column = data.draw(st.integers(0, len(circuit.columns) - 1).filter(lambda c: c != circuit.leaf_column[leaf]))
    moved = circuit.leaf_column.copy()
    moved[leaf] = column
    broken = "not smooth: children .* of sum|not decomposable: children .* of product|every column must occur"
    with pytest.raises(ValueError, match=broken) as caught:
        changed(circuit, leaf_column=moved)
    assert any(repr(circuit.names[c]) in str(caught.value) for c in (column, circuit.leaf_column[leaf]))


def verdict(circuit, children):
    """Which rule the rewired arrays break, by sets and recursion; None if they are a circuit."""

    def scope(node):
        if circuit.kind[node] == LEAF:
            return {circuit.names[circuit.leaf_column[node]]}
        return set().union(*map(scope, below[node]))

    below = [children[circuit.child_ptr[i] : circuit.child_ptr[i + 1]].tolist() for i in range(circuit.n_nodes)]
    if any(c <= node for node, listed in enumerate(below) for c in listed):
        return "children must have larger numbers than their parent"
    for node, listed in enumerate(below):
        scopes = [scope(c) for c in listed]
        if circuit.kind[node] == SUM and any(x != scopes[0] for x in scopes):
            return "not smooth"
    for node, listed in enumerate(below):
        scopes = [scope(c) for c in listed]
        if circuit.kind[node] == PRODUCT and any(x & y for x, y in itertools.combinations(scopes, 2)):
            return "not decomposable"
    return None


@given(explicit_trees(), st.data())
def test_two_exchanged_edges_are_judged_as_by_recursion(case, data):
    """Edges that lead to nodes of equal scope may be exchanged, others may not; no node is orphaned by it."""
    _, _, circuit = case
    edges = st.integers(0, circuit.n_edges - 1)
    first, second = data.draw(edges), data.draw(edges)
    exchanged = circuit.children.copy()
    exchanged[[first, second]] = exchanged[[second, first]]
    broken = verdict(circuit, exchanged)
    if broken is None:
        changed(circuit, children=exchanged)
    else:
        with pytest.raises(ValueError, match=broken):
            changed(circuit, children=exchanged)


def test_an_orphan_is_found():
    nodes = [("sum", [1]), ("a", "categorical"), ("a", "categorical")]
    with pytest.raises(ValueError, match="every node but the root must be a child, node 2 is none"):
        circuit_of(nodes, ["a"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": [0, 1]}, r"child_ptr must have 3 entries for 2 nodes, got 16"),
        ({"kind": np.full(15, 7)}, r"kind must be 0 \(sum\), 1 \(product\) or 2 \(leaf\), got 7 at node 0"),
        ({"kind": []}, "at least one node"),
        ({"children": MIXTURE.children[:-1]}, "child_ptr must rise from 0"),
        (
            {"kind": np.where(np.arange(15) == 1, LEAF, MIXTURE.kind)},
            "a leaf must have no children, got 2 at node 1",
        ),
        (
            {"kind": np.where(np.arange(15) == 14, SUM, MIXTURE.kind)},
            "a sum or product must have at least one child, got 0 at node 14",
        ),
        (
            {"leaf_family": np.zeros(15, int)},
            "leaf_family must be in 0..1 at leaves and -1 elsewhere, got 0 at node 0",
        ),
        (
            {"leaf_column": np.full(15, 2)},
            "leaf_column must be in 0..1 at leaves and -1 elsewhere, got 2 at node 0",
        ),
        ({"families": ("gaussian", "gaussian")}, "families must be distinct"),
        ({"columns": ("a", "b", "c")}, "every column must occur in a leaf, 'c' occurs in none"),
    ],
)
def test_broken_arrays_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        changed(MIXTURE, **change)


def test_children_listed_twice():
    with pytest.raises(ValueError, match="sum 0 lists child 1 twice"):
        circuit_of([("sum", [1, 1]), ("a", "categorical")], ["a"])
    with pytest.raises(ValueError, match="not decomposable: product 0 lists child 1 twice, and it contains 'a'"):
        circuit_of([("product", [1, 1]), ("a", "categorical")], ["a"])


def test_shared_nodes_and_many_columns():
    """A DAG (both products share the last factor) over more columns than one machine word has bits."""
    columns = [f"x{d}" for d in range(130)]
    n = len(columns)
    rest = list(range(5, 5 + n - 1))
    nodes = [("sum", [1, 2]), ("product", [3, *rest]), ("product", [4, *rest]), ("x0", "categorical")]
    nodes += [("x0", "categorical")] + [(name, "categorical") for name in columns[1:]]
    circuit = circuit_of(nodes, columns)
    assert circuit.scope(0) == tuple(columns) and circuit.scope(3) == ("x0",)
    log_weights, parameters = random_parameters(circuit, np.random.default_rng(1))
    values = np.random.default_rng(2).integers(0, 2, size=(5, n)).astype(float)
    expected = [reference_density(circuit, row, log_weights, parameters) for row in values]
    np.testing.assert_allclose(
        circuit.with_parameters(log_weights, parameters).log_density(values).values, np.log(expected), rtol=1e-12
    )
    nodes[2] = ("product", [4, *rest[:-1], rest[-2] + 1])
    nodes[-1] = ("x128", "categorical")
    with pytest.raises(ValueError, match=r"children 132 and 133 of product \d both contain 'x128'|occurs in none"):
        circuit_of(nodes, columns)


# -- the object ---------------------------------------------------------------------------------------


def test_frozen_and_copied():
    for name in (*ARRAYS, "edge_sum", "edge_child"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(MIXTURE, name)[0] = 0
    with pytest.raises(AttributeError):
        MIXTURE.kind = None
    again = pickle.loads(pickle.dumps(MIXTURE))
    assert again == MIXTURE == copy.deepcopy(MIXTURE) and hash(again) == hash(MIXTURE)
    assert not again.children.flags.writeable
    assert MIXTURE != changed(MIXTURE, columns=("a", "c")) and MIXTURE != 1
    assert repr(MIXTURE) == "Circuit(2 columns, 5 sums, 2 products, 8 leaves, 14 edges)"
    assert MIXTURE.kind.dtype == np.int8
    given_array = np.array(MIXTURE.children)
    kept = changed(MIXTURE, children=given_array)
    given_array[:] = 0
    assert kept == MIXTURE


LEAF_OF = circuit_of([("a", "gaussian")], ["a"], ("gaussian",))
TYPED = complete_tree([Column("a", "real", None, "float64"), Column("b", "categorical", ("x", "y"), "str")], 2)
WRITTEN = {
    "names": MIXTURE,
    "one leaf, half open": LEAF_OF,
    "schema": TYPED.circuit({"a": ["gaussian", "exponential"], "b": ["categorical"]}),
    "levels and none": circuit_of(
        [("sum", [1, 2]), ("a", "categorical"), ("a", "categorical")],
        ["a"],
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_json_round_trip(name):
    again = Circuit.from_json(json.loads(json.dumps(WRITTEN[name].to_json(), allow_nan=False)))
    assert again == WRITTEN[name]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda d: [], TypeError, "data must be the mapping that to_json returned, got list"),
        (lambda d: d | {"format": "circuit/9"}, ValueError, "data must have format 'circuit/1', got 'circuit/9'"),
        (lambda d: {k: v for k, v in d.items() if k != "kind"}, ValueError, "data must have .*'kind'"),
        (lambda d: d | {"more": 1}, ValueError, "data must have .*'more'"),
        (lambda d: d | {"children": [0.5]}, ValueError, "children must hold integers, got 0.5 at place 0"),
        (lambda d: d | {"kind": [256]}, ValueError, r"kind must be within -128..127, got 256 at place 0"),
        (lambda d: d | {"families": "gaussian"}, TypeError, "families must be a list, got 'gaussian'"),
        (lambda d: d | {"columns": ["a", 1]}, ValueError, "columns must hold names .*, got 1 at place 1"),
        (lambda d: d | {"leaf_family": [9] * len(d["kind"])}, ValueError, "leaf_family must be in 0"),
    ],
)
def test_other_json_is_refused(change, error, message):
    with pytest.raises(error, match=message):
        Circuit.from_json(change(MIXTURE.to_json()))


def test_flat_weights_follow_node_order():
    assert MIXTURE.edge_sum.tolist() == sorted(MIXTURE.edge_sum.tolist())
    for s in np.unique(MIXTURE.edge_sum):
        assert MIXTURE.edge_child[MIXTURE.edge_sum == s].tolist() == MIXTURE.children_of(s).tolist()


def test_queries_refuse_what_is_not_there():
    with pytest.raises(ValueError, match=r"node must be within 0..14, got 15"):
        MIXTURE.scope(15)
    with pytest.raises(ValueError, match=r"family must be among .* got 'poisson'"):
        MIXTURE.leaves_of("poisson")


def test_networkx_graph():
    graph = MIXTURE.to_networkx()
    assert nx.is_arborescence(graph)
    assert graph.nodes[0] == {"kind": "sum"}
    assert graph.nodes[14] == {"kind": "leaf", "columns": ("b",), "family": "bernoulli"}
    for node in range(MIXTURE.n_nodes):
        ranked = sorted(graph.successors(node), key=lambda c: graph.edges[node, c]["position"])
        assert ranked == MIXTURE.children_of(node).tolist()
