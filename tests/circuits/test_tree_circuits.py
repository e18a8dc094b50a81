"""Circuits that are trees as structures of learners: the same tree as regions, what is refused, and a model of one."""

import itertools
from collections import Counter

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln, logsumexp

import pymc_spn as ps
from pymc_spn.circuits.structures.circuit import LEAF, PRODUCT
from pymc_spn.circuits.structures.tree_circuits import tree_of_circuit
from tests.networks.coded_tables import reference_entry
from tests.reference import log_marginal
from tests.shared_circuits import changed, circuit_of, crossed_circuit


def form(circuit, node=0):
    """What stands at a node, whatever the order of children; products of one child and sums of one are no nodes."""
    if circuit.kind[node] == LEAF:
        return int(circuit.leaf_column[node])
    below = [form(circuit, int(c)) for c in circuit.children_of(node)]
    if len(below) == 1:
        return below[0]
    return ("product" if circuit.kind[node] == PRODUCT else "sum", frozenset(Counter(below).items()))


def gaussian(tree):
    return tree.circuit({name: "gaussian" for name in tree.names})


@given(
    n_columns=st.integers(1, 6),
    width=st.integers(1, 4),
    n_parts=st.integers(2, 3),
    split=st.sampled_from(["order", "random", "per_product"]),
    repetitions=st.integers(1, 3),
    build=st.sampled_from([ps.circuits.complete_tree, ps.circuits.skewed_tree]),
    seed=st.integers(0, 99),
)
@settings(max_examples=60)
def test_a_tree_written_out_and_read_back_is_the_same(n_columns, width, n_parts, split, repetitions, build, seed):
    tree = build([f"x{d}" for d in range(n_columns)], width, n_parts, split, repetitions if n_columns > 1 else 1, seed)
    explicit = gaussian(tree)
    found = tree_of_circuit(explicit)
    assert form(gaussian(found)) == form(explicit)
    assert found.n_regions <= tree.n_regions
    assert found.n_induced_trees() == tree.n_induced_trees()
    if split == "order" and repetitions == 1 and width > 1:
        assert found == tree  # copies share their regions again


def irregular():
    """Over three columns: two products alike of five children, several widths of one region, one sum below another."""
    pair = ("product", ("leaf", "a"), ("leaf", "b"))
    wide = ("sum", pair, pair, pair)
    narrow = ("sum", pair, pair)
    tree = (
        "sum",
        ("product", narrow, ("leaf", "c")),
        ("product", ("leaf", "c"), narrow),
        ("product", wide, ("sum", ("leaf", "c"), ("leaf", "c"))),
        ("product", ("leaf", "b"), ("leaf", "c"), ("leaf", "a")),
        ("sum", ("product", ("leaf", "a"), ("leaf", "b"), ("leaf", "c")), ("product", narrow, ("leaf", "c"))),
    )
    return written_out(tree, {"a": "gaussian", "b": "poisson", "c": "gaussian"})


def written_out(tree, family):
    """The circuit of a nested tuple, numbered by depth: children come after their parents."""
    nodes, waiting = [], [tree]
    for what, *below in waiting:  # grows
        if what == "leaf":
            nodes.append((below[0], family[below[0]]))
        else:
            nodes.append((what, [len(waiting) + i for i in range(len(below))]))
            waiting.extend(below)
    return circuit_of(nodes, list(family), tuple(dict.fromkeys(family.values())))


def test_an_irregular_tree_has_regions_of_its_own():
    circuit = irregular()
    tree = tree_of_circuit(circuit)
    assert form(tree.circuit({"a": "gaussian", "b": "poisson", "c": "gaussian"})) == form(circuit)
    assert tree.n_children[0] == tree.n_splits[0] == 5  # two alike of five: no fewer splits serve as many children each
    # by hand: pairs 2, 2 and 3 x two leaves of c, the three columns, and below the last sum three columns or a pair
    assert tree.n_induced_trees() == 2 + 2 + 3 * 2 + 1 + (1 + 2)


def table(rng, n=40):
    group = rng.random(n) < 0.5
    frame = pd.DataFrame(
        {"c": rng.normal(size=n), "a": rng.normal(np.where(group, -2, 2)), "b": rng.poisson(1 + 5 * group)}
    )
    return frame.mask(rng.random(frame.shape) < 0.1).astype({"b": "Int64"})


def test_a_circuit_as_the_structure_of_a_model():
    """Columns in the circuit's order, families of its leaves; equal to the model of the tree where that exists."""
    df = table(np.random.default_rng(1))
    tree = ps.circuits.complete_tree(["a", "b", "c"], n_children=2)
    families = {"a": ["gaussian"], "b": ["poisson", "gaussian"], "c": ["gaussian"]}
    entries = {"a": ps.leaves.Gaussian(), "b": [ps.leaves.Poisson(), ps.leaves.Gaussian()]}
    given = {"observed": df, "resolution": {"a": 0.01, "b": 1.0, "c": 0.01}, "concentration": 1.0, "leaf_scale": 0.3}
    drawn = []
    for structure, leaves in ((tree.circuit(families), None), (tree, entries)):
        with pm.Model():
            ps.SPN("x", structure, leaves=leaves, **given)
            drawn.append(pm.sample(20, tune=20, chains=1, cores=1, random_seed=3, progressbar=False))
    logs = [ps.SPNPosterior.from_idata(idata).log_density(df).values for idata in drawn]
    np.testing.assert_array_equal(*logs)


def induced_trees(circuit, node=0):
    """Choices of one row: dicts from sum to child, and the leaves that are reached."""
    if circuit.kind[node] == LEAF:
        return [({}, (node,))]
    below = [(int(c), induced_trees(circuit, int(c))) for c in circuit.children_of(node)]
    if circuit.kind[node] != PRODUCT:
        return [({node: c, **choice}, leaves) for c, trees in below for choice, leaves in trees]
    combined = [({}, ())]
    for _, trees in below:
        combined = [(c | d, m + n) for c, m in combined for d, n in trees]
    return combined


def log_joints(circuit, values, entries, concentration):
    """Of every assignment of rows to induced trees, by Dirichlet-multinomial sums and conjugate leaves (equation 5)."""
    trees, found = induced_trees(circuit), []
    for rows in itertools.product(range(len(trees)), repeat=len(values)):
        edges = Counter(edge for n in rows for edge in trees[n][0].items())
        visits = Counter(s for n in rows for s in trees[n][0])
        total = 0.0
        for s, n in visits.items():
            mass = concentration[len({int(circuit.leaf_column[c]) for c in below_leaves(circuit, s)}) == 1]
            total += gammaln(mass) - gammaln(mass + n)
            share = mass / len(circuit.children_of(s))
            total += sum(gammaln(share + m) - gammaln(share) for (of, _), m in edges.items() if of == s)
        for leaf in {leaf for n in rows for leaf in trees[n][1]}:
            d = circuit.leaf_column[leaf]
            seen = np.array([v[d] for v, n in zip(values, rows, strict=True) if leaf in trees[n][1]])
            total += entries[d](seen)
        found.append(total)
    return np.array(found)


def leaf_marginal(entry, column):
    family, prior = reference_entry(entry.completed(column.to_numpy(float), 0.0), 0.0, (0.3, 1.5, 0.2))
    return lambda values: log_marginal(family, prior, values)


def below_leaves(circuit, node):
    if circuit.kind[node] == LEAF:
        return [node]
    return [leaf for c in circuit.children_of(node) for leaf in below_leaves(circuit, int(c))]


def test_draws_on_an_irregular_tree_are_from_the_enumerated_posterior():
    """14 induced trees for each of three rows: every log joint is one of the 2,744, and their mean is the exact one.

    The planted mistake, the concentration of univariate sums taken for all sums, moves the mean by more than the bound.
    """
    circuit = irregular()
    df = pd.DataFrame({"a": [-1.0, 1.2, 1.1], "b": [0, 4, 5], "c": [0.3, 0.1, -0.4]})
    with pm.Model():
        ps.SPN(
            "x",
            circuit,
            observed=df,
            resolution=0.0,
            concentration=[0.3, 3.0],
            leaf_scale=0.3,
            leaf_shape=1.5,
            precision_ratio=0.2,
            joint_leaves=None,
        )
        idata = pm.sample(2_000, tune=100, chains=2, cores=1, random_seed=2, progressbar=False)
    drawn = idata.posterior["x_log_joint"]
    marginals = [
        leaf_marginal(entry, df[name])
        for name, entry in zip("abc", (ps.leaves.Gaussian(), ps.leaves.Poisson(), ps.leaves.Gaussian()), strict=True)
    ]
    exact = log_joints(circuit, df.to_numpy(float), marginals, (0.3, 3.0))
    distance = np.abs(np.unique(drawn)[:, None] - exact).min(axis=1)
    assert distance.max() < 1e-9 * np.abs(exact).max()
    error = drawn.std() / np.sqrt(az.ess(drawn.to_numpy()))
    mean = np.sum(np.exp(exact - logsumexp(exact)) * exact)
    assert abs(float(drawn.mean()) - mean) < 4.5 * error
    wrong = log_joints(circuit, df.to_numpy(float), marginals, (3.0, 3.0))
    assert abs(np.sum(np.exp(wrong - logsumexp(wrong)) * wrong) - mean) > 7 * error


AB = ("product", ("leaf", "a"), ("leaf", "b"))
BAD = {
    "shared": (
        lambda: crossed_circuit(2, 2, 2),
        {},
        "structure must be a tree, and node .* several parents",
    ),
    "a sum over sums of one column": (
        lambda: written_out(("sum", ("sum", ("leaf", "a"), ("leaf", "a")), ("leaf", "a")), {"a": "gaussian"}),
        {},
        "the children of sum 0 of the circuit, over one column, must be leaves, got the sum 1",
    ),
    "no prior": (
        lambda: written_out(("sum", AB, AB), {"a": "student_t", "b": "gaussian"}),
        {},
        r"leaves\['a'\] must be given: .* 'student_t', a family without a conjugate prior",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_structure_is_refused(case):
    build, given, message = BAD[case]
    circuit = build()
    df = pd.DataFrame({c: [0.1, 0.2, 0.4] for c in circuit.names})
    with pm.Model(), pytest.raises(ValueError, match=message):
        ps.SPN("x", circuit, observed=df, **given)
    with pytest.raises(ValueError, match=message):
        ps.fit_variational(df, circuit)


def test_leaves_that_no_palette_deals_are_refused():
    tree = ps.circuits.complete_tree(["a", "b"], n_children=[2, 3])
    circuit = tree.circuit({"a": ["poisson", "gaussian"], "b": "gaussian"})
    families = np.array(circuit.leaf_family)
    of_a = np.flatnonzero(circuit.leaf_column == 0)
    families[of_a[:3]] = circuit.families.index("poisson")
    other = changed(circuit, leaf_family=families)
    df = table(np.random.default_rng(1))[["a", "b"]].round()
    with pm.Model(), pytest.raises(ValueError, match=r"leaves\['a'\] must be given: below node .* has the leaves"):
        ps.SPN("x", other, observed=df)
    with pm.Model():  # leaves= decides
        assert ps.SPN("x", other, observed=df, leaves={"a": ps.leaves.Gaussian()}) is not None
