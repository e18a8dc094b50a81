"""The evaluation engine: densities on every path, draws, moments and best completions of explicit circuits."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymc_spn.circuits.evaluation.circuit_passes import NOWHERE, linear_values, log_values, make_block
from pymc_spn.circuits.evaluation.completion import MOST, Parameterised
from pymc_spn.circuits.evaluation.leaf_forms import read_values
from pymc_spn.circuits.structures.circuit import LEAF, Circuit
from pymc_spn.circuits.structures.region_trees import complete_tree
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.numerics.kernel_options import kernel
from pymc_spn.numerics.read_only_views import read_only_view
from pymc_spn.tables import Column
from tests.shared_circuits import (
    DENSITIES,
    SCIPY,
    WITH_A_FORMULA,
    build,
    coded,
    crossed_circuit,
    leaf_log_density,
    random_parameters,
    reference_log_density,
)


@kernel
def roots_of_rows(layout, log_weights, weight, coefficients, table, values, is_linear, out):
    """Log densities in linear space alone, NaN where it loses a row, or in logs."""
    block = make_block(layout, weight, coefficients, table, (values.shape[0] + 7) // 8 * 8)
    read_values(values, 0, layout.input_column, layout.input_reading, block.u, block.base, block.present)
    if is_linear:
        linear_values(layout, block)
    else:
        log_values(layout, log_weights, block)
    out[:] = block.roots[: out.size]


def roots(circuit, values, log_weights, parameters, is_linear):
    out = np.empty(len(values))
    given = Parameterised(circuit, log_weights, parameters)
    roots_of_rows(*given.inputs(given.values(values)), is_linear, out)
    return np.where(out < NOWHERE, -np.inf, out)


def by_logs(circuit, values, log_weights, parameters):
    """All rows in logs."""
    return roots(circuit, values, log_weights, parameters, False)


def probes(family, theta):
    """Values in the bulk and the tails, values off the support, and a missing one."""
    if family in ("bernoulli", "categorical"):
        return np.array([0.0, 1.0, 2.0, 7.0, 0.5, -1.0, np.nan])
    if family in DENSITIES:
        return np.array([0.3, 1.0, -0.7, 0.0, 2.5, 40.0, 1e4, 1e-9, -np.inf, np.inf, np.nan])
    return np.array([0.0, 1.0, 4.0, 30.0, 1.5, -2.0, np.inf, np.nan])


@pytest.mark.parametrize("family", WITH_A_FORMULA)
def test_every_leaf_is_its_textbook_density(family):
    circuit = build([("sum", [1, 2, 3]), *[("leaf", 0, family)] * 3], ["a"], (family,))
    log_weights, parameters = random_parameters(circuit, np.random.default_rng(2))
    x = probes(family, parameters[family][0])
    expected = []
    for v in x:
        try:
            expected.append(reference_log_density(circuit, [v], log_weights, parameters))
        except (OverflowError, ValueError):
            expected.append(-np.inf)
    for rows in (x[:, None], np.tile(x[:, None], (5, 1))):  # one by one, and in blocks
        got = Parameterised(circuit, log_weights, parameters).log_density(rows)  # codes of no level, too
        np.testing.assert_allclose(got, np.resize(expected, len(rows)), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(by_logs(circuit, x[:, None], log_weights, parameters), expected, rtol=1e-12, atol=1e-12)
    one = EXPLICIT[family].log_density(parameters[family][0], x[:2])
    np.testing.assert_allclose(one, [leaf_log_density(family, parameters[family][0], v) for v in x[:2]], rtol=1e-12)


@pytest.mark.parametrize("family", WITH_A_FORMULA)
def test_moments_and_mode_of_leaves(family):
    rng = np.random.default_rng(3)
    circuit = build([("leaf", 0, family)], ["a"], (family,))
    _, parameters = random_parameters(circuit, rng)
    theta, leaf = parameters[family], EXPLICIT[family]
    if family in ("lomax", "beta_geometric"):
        theta = theta + 4.0  # so that there is a variance
    if family == "student_t":
        theta = theta + np.array([0.0, 0.0, 8.0])
    mode = leaf.mode(theta)[0]
    near = [mode - 1.0, mode + 1.0] if family not in DENSITIES else [mode + 1e-3, mode - 1e-3]
    at = leaf.log_density(theta[0], np.array([mode, *near]))
    assert at[0] >= max(at[1:]) - 1e-12
    if family in SCIPY and leaf.numeric:
        exact = SCIPY[family](theta[0])
        assert leaf.mean(theta)[0] == pytest.approx(exact.mean())
        assert leaf.variance(theta)[0] == pytest.approx(exact.var())


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 40, MOST + 3])
def test_shared_nodes_and_mixed_leaves(rows):
    """Crossed products, so that nodes have many parents, over columns of three families each."""
    for families in (("gaussian", "student_t"), ("log_normal", "exponential", "lomax"), ("poisson", "geometric")):
        circuit = crossed_circuit(5, 3, 4, families)
        assert np.bincount(circuit.children).max() > 2
        rng = np.random.default_rng(rows)
        log_weights, parameters = random_parameters(circuit, rng)
        values = np.floor(rng.gamma(2.0, 1.0, (rows, 5))) + (0 if "poisson" in families else 0.5)
        values[rng.random(values.shape) < 0.2] = np.nan
        got = circuit.with_parameters(log_weights, parameters).log_density(values).values
        some = rng.integers(rows, size=5)
        expected = [reference_log_density(circuit, values[n], log_weights, parameters) for n in some]
        np.testing.assert_allclose(got[some], expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(got, by_logs(circuit, values, log_weights, parameters), rtol=0, atol=1e-12)


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 40), st.integers(0, 99))
def test_wide_sums_and_shared_leaves(n_columns, n_sums, n_leaves, seed):
    rng = np.random.default_rng(seed)
    n_leaves = min(n_leaves, 40 if n_columns < 3 else 5)
    circuit = crossed_circuit(n_columns, n_sums, n_leaves) if n_columns > 1 else build(
        [("sum", range(1, n_leaves + 1)), *[("leaf", 0, "gaussian")] * n_leaves], ["x0"], ("gaussian",)
    )  # fmt: skip
    log_weights, parameters = random_parameters(circuit, rng)
    values = rng.normal(size=(9, n_columns))
    got = circuit.with_parameters(log_weights, parameters).log_density(values).values
    expected = [reference_log_density(circuit, row, log_weights, parameters) for row in values[:2]]
    np.testing.assert_allclose(got[:2], expected, rtol=0, atol=1e-12)


def test_a_node_that_is_read_too_early_is_noticed():
    """The planted mistake: one edge leads to another node."""
    circuit = crossed_circuit(4, 3, 3)
    log_weights, parameters = random_parameters(circuit, np.random.default_rng(0))
    values = np.random.default_rng(1).normal(size=(16, 4))
    given, out = Parameterised(circuit, log_weights, parameters), np.empty(16)
    layout, *rest = given.inputs(values)
    right, wrong = given.log_density(values), 0
    for e in range(layout.children.size):
        children = layout.children.copy()
        children[e] = layout.node_of_leaf[-1] if children[e] != layout.node_of_leaf[-1] else layout.node_of_leaf[0]
        roots_of_rows(layout._replace(children=read_only_view(children)), *rest, True, out)
        wrong += not np.allclose(out, right, rtol=0, atol=1e-9)
    assert wrong > 0.9 * layout.children.size


@pytest.mark.parametrize("scale", [1.0, 10.0, 40.0, 400.0])
def test_outliers_are_as_exact_as_the_rest(scale):
    """At 40 standard deviations some rows underflow in linear space; they go through the logs."""
    tree = complete_tree([f"x{d}" for d in range(6)], n_children=2)
    circuit = tree.circuit({name: ["gaussian"] for name in tree.names})
    rng = np.random.default_rng(5)
    log_weights, parameters = random_parameters(circuit, rng)
    parameters["gaussian"][:, 1] = 1.0
    values = scale * rng.normal(size=(60, 6))
    values[:20, 1:] = rng.normal(size=(20, 5))  # one far cell; all cells far
    got = circuit.with_parameters(log_weights, parameters).log_density(values).values
    expected = np.array([reference_log_density(circuit, row, log_weights, parameters) for row in values])
    assert np.abs((got - expected) / np.maximum(1.0, np.abs(expected) / 1000.0)).max() <= 1e-12


def test_rows_that_linear_space_loses_go_through_the_logs():
    """Every column is at the peak of some leaf, but of no tree's: the root underflows although no shift is small."""
    nodes = [("sum", [1, 2]), ("product", [3, 5]), ("product", [4, 6])]
    nodes += [("leaf", 0, "gaussian")] * 2 + [("leaf", 1, "gaussian")] * 2
    circuit = build(nodes, ["a", "b"], ("gaussian",))
    log_weights, parameters = np.log([0.5, 0.5]), {"gaussian": np.array([[0.0, 1], [100, 1], [0, 1], [100, 1]])}
    values = np.tile([[0.0, 100.0], [0.0, 0.0], [1.0, 103.0]], (4, 1))
    out = roots(circuit, values, log_weights, parameters, True)
    assert np.isnan(out).tolist() == 4 * [True, False, True]
    expected = [reference_log_density(circuit, row, log_weights, parameters) for row in values]
    np.testing.assert_allclose(
        circuit.with_parameters(log_weights, parameters).log_density(values).values, expected, rtol=1e-15
    )
    few = circuit.with_parameters(log_weights, parameters).log_density(values[:3]).values
    np.testing.assert_allclose(few, expected[:3], rtol=1e-15)


@pytest.mark.parametrize("n_rows", [1, 40])
def test_weights_below_the_smallest_float(n_rows):
    """A branch of weight exp(-2000) is all that counts in a row that lies 100 standard deviations from the other."""
    columns = ("product", [3, 4]), ("product", [5, 6])
    leaves = [("leaf", d, "gaussian") for d in (0, 1, 0, 1)]
    circuit = build([("sum", [1, 2]), *columns, *leaves], ["a", "b"], ("gaussian",))
    parameters = {"gaussian": np.array([[0.0, 1.0], [0.0, 1.0], [100.0, 1.0], [3.0, 2.0]])}
    log_weights = np.array([0.0, -2000.0])
    rows = np.tile([100.0, 1.0], (n_rows, 1))
    expected = reference_log_density(circuit, rows[0], log_weights, parameters)
    assert -2010 < expected < -2000
    np.testing.assert_allclose(
        circuit.with_parameters(log_weights, parameters).log_density(rows).values, expected, rtol=1e-14
    )


def test_impossible_rows_and_zero_weights():
    circuit = build(
        [("sum", [1, 2]), ("leaf", 0, "exponential"), ("leaf", 0, "gaussian")], ["a"], ("exponential", "gaussian")
    )
    parameters = {"exponential": [[1.0]], "gaussian": [[0.0, 1.0]]}
    with np.errstate(divide="ignore"):
        log_weights = np.log([1.0, 0.0])
    values = np.tile([[-1.0], [2.0]], (10, 1))
    got = circuit.with_parameters(log_weights, parameters).log_density(values).values
    np.testing.assert_allclose(got, np.tile([-np.inf, -2.0], 10), atol=1e-13)
    np.testing.assert_allclose(
        circuit.with_parameters(log_weights, parameters).log_density(values[:2]).values, [-np.inf, -2.0], atol=1e-13
    )


# -- draws, moments, best completions ------------------------------------------------------------------


def small_discrete(seed):
    rng = np.random.default_rng(seed)
    circuit = complete_tree(["a", "b", "c"], n_children=2).circuit({name: ["categorical"] for name in "abc"})
    log_weights, parameters = random_parameters(circuit, rng)
    parameters["categorical"] = rng.dirichlet(np.full(3, 0.3), circuit.n_leaf)  # sharp, so that columns depend
    states = np.array(list(itertools.product(range(3), repeat=3)), float)
    return (
        circuit,
        log_weights,
        parameters,
        states,
        np.exp(circuit.with_parameters(log_weights, parameters).log_density(states).values),
    )


def test_draws_have_the_circuits_probabilities():
    circuit, log_weights, parameters, states, p = small_discrete(4)
    n = 40_000
    drawn = circuit.with_parameters(log_weights, parameters).sample(n, random_seed=1).to_numpy()
    codes = drawn @ [9, 3, 1]
    counts = np.bincount(codes.astype(int), minlength=27)
    assert ((counts - n * p) ** 2 / (n * p)).sum() < 70  # 26 degrees of freedom; 70 has probability 1e-5
    given = np.tile([np.nan, 2.0, np.nan], (n, 1))
    completed = circuit.with_parameters(log_weights, parameters).impute(given, random_seed=2).to_numpy()
    assert np.all(completed[:, 1] == 2.0)
    q = np.where(states[:, 1] == 2.0, p, 0.0) / p[states[:, 1] == 2.0].sum()
    counts = np.bincount((completed @ [9, 3, 1]).astype(int), minlength=27)
    assert ((counts - n * q)[q > 0] ** 2 / (n * q)[q > 0]).sum() < 40 and counts[q == 0].sum() == 0
    # the same draws by the marginal, not the conditional, weights would fail the same test
    marginal = np.array([p[states[:, 0] == k].sum() for k in range(3)])
    conditional = np.array([q[states[:, 0] == k].sum() for k in range(3)])
    assert n * ((marginal - conditional) ** 2 / conditional).sum() > 200
    again = circuit.with_parameters(log_weights, parameters).sample(50, random_seed=np.random.default_rng(1)).to_numpy()
    np.testing.assert_array_equal(
        again, circuit.with_parameters(log_weights, parameters).sample(50, random_seed=1).to_numpy()
    )
    assert not np.array_equal(
        again, circuit.with_parameters(log_weights, parameters).sample(50, random_seed=3).to_numpy()
    )


def test_moments_are_those_of_the_enumerated_conditional():
    circuit = crossed_circuit(4, 2, 3, ("poisson", "bernoulli"))
    # one family for each column keeps the enumeration small
    families = ("bernoulli", "poisson", "bernoulli", "poisson")
    nodes = []
    for v in range(circuit.n_nodes):
        d = circuit.leaf_column[v]
        nodes.append(("leaf", d, families[d]) if circuit.kind[v] == LEAF else
                     ("sum" if circuit.kind[v] == 0 else "product", circuit.children_of(v)))  # fmt: skip
    circuit = build(nodes, circuit.columns, ("bernoulli", "poisson"))
    log_weights, parameters = random_parameters(circuit, np.random.default_rng(8))
    grid = np.array(list(itertools.product(range(2), range(40), range(2), range(40))), float)
    p = np.exp(circuit.with_parameters(log_weights, parameters).log_density(grid).values)
    for row in ([np.nan] * 4, [1.0, np.nan, np.nan, np.nan], [np.nan, 3.0, np.nan, 0.0]):
        got = circuit.with_parameters(log_weights, parameters).moments([row])
        fits = np.all(np.isnan(row) | (grid == row), axis=1)
        q = p * fits / p[fits].sum()
        mean = q @ grid
        cov = (grid - mean).T @ ((grid - mean) * q[:, None])
        np.testing.assert_allclose(got["mean"].values[0], mean, rtol=1e-9)
        np.testing.assert_allclose(got["covariance"].values[0], cov, atol=1e-9)
    assert "covariance" not in circuit.with_parameters(log_weights, parameters).moments([row], covariance=False)


def test_moments_do_not_cancel_and_leave_levels_out():
    nodes = [("sum", [1, 2]), ("product", [3, 5]), ("product", [4, 6])]
    nodes += [("leaf", 0, "gaussian")] * 2 + [("leaf", 1, "categorical")] * 2
    circuit = build(nodes, ["a", "b"], ("gaussian", "categorical"))
    parameters = {"gaussian": [[1e8, 1e-3], [1e8 + 1.0, 1e-3]], "categorical": [[0.9, 0.1], [0.1, 0.9]]}
    got = circuit.with_parameters(np.log([0.5, 0.5]), parameters).moments([[np.nan, np.nan], [np.nan, 1.0]])
    assert got["covariance"].values[0, 0, 0] == pytest.approx(0.25 + 1e-6, rel=1e-7)
    assert got["mean"].values[1, 0] - 1e8 == pytest.approx(0.9, abs=1e-7)
    assert np.isnan(got["mean"].values[0, 1]) and np.isnan(got["covariance"].values[0, 0, 1])


def test_impossible_evidence_is_refused_by_name():
    circuit = build(
        [("product", [1, 2]), ("leaf", 0, "exponential"), ("leaf", 1, "gaussian")],
        ["a", "b"],
        ("exponential", "gaussian"),
    )
    held = circuit.with_parameters([], {"exponential": [[1.0]], "gaussian": [[0.0, 1.0]]})
    rows = [[1.0, np.nan], [-1.0, np.nan]]
    with pytest.raises(ValueError, match="row 1 has density 0 in its observed cells"):
        held.moments(rows)
    with pytest.raises(ValueError, match=r"column 'a' cannot be -1\.0, its probability is zero under the circuit"):
        held.mpe({"a": -1.0})
    with pytest.warns(UserWarning, match=r"density is zero under the circuit in 1 of 2 rows: 1 .*column 'a' is -1"):
        assert np.isnan(held.impute(rows, random_seed=1)["b"]).tolist() == [False, True]
    with pytest.raises(ValueError, match="n must be an integer of at least 0, got -1"):
        held.sample(-1)


PAIR = build([("product", [1, 2]), ("leaf", 0, "exponential"), ("leaf", 1, "gaussian")], ["a", "b"], WITH_A_FORMULA)
PAIR_PARAMETERS = {"exponential": [[1.0]], "gaussian": [[0.0, 1.0]]}


def pair_frame():
    """Columns in another order than the circuit's, one of them nullable with a gap."""
    return pd.DataFrame({"b": [0.5, -1.0], "a": pd.array([2, None], dtype="Int64")})


@pytest.mark.parametrize(
    "case",
    [
        (lambda f: f.assign(c=1), UserWarning, "unknown columns are ignored: 'c'"),
        (lambda f: pd.DataFrame(f.to_numpy()), "df must have a column of 'a', 'b', got '0', '1'"),
        (lambda f: f.set_axis(["a", "a"], axis=1), "df must have distinct columns, 'a' occurs twice"),
        (lambda f: f.assign(a=["1", "2"]), TypeError, "df: column 'a' must hold numbers, .*got dtype str"),
        (lambda f: f.assign(a=pd.Categorical([1, 2])), TypeError, "column 'a' must hold .*got dtype category"),
        (lambda f: f.assign(a=pd.Series([1, "2"], dtype=object)), TypeError, "column 'a' must hold .*got dtype object"),
        (lambda f: f.assign(a=pd.Timestamp("2026")), TypeError, "column 'a' must hold .*got dtype datetime64"),
        (lambda f: [["u", "v"]], TypeError, "levels that the circuit does not know as codes; got text"),
        (lambda f: np.array([["1", 2]], object), TypeError, "levels that the circuit does not know as codes; got text"),
        (
            lambda f: np.array([[3, 4]], "M8[D]"),
            TypeError,
            r"dtype datetime64\[D\] is not numeric; .* \(x - x.min\(\)\) /",
        ),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_name(case):
    change, *error, message = case
    with pytest.raises(*error or [ValueError], match=message):
        PAIR.with_parameters([], PAIR_PARAMETERS).log_density(change(pair_frame()))


def test_levels_of_a_frame_are_those_that_the_circuit_knows():
    """Levels that are whole numbers are no codes."""
    grade = Column("grade", "categorical", (1, 2, 3), "int64")
    text = Column("text", "categorical", ("u", "v"), "str")
    circuit = Circuit([1, 2, 2], [0, 2, 2, 2], [1, 2], [-1, 0, 1], [-1, 0, 0], ("categorical",), (grade, text))
    given = [], {"categorical": np.array([[0.7, 0.2, 0.1], [0.4, 0.6, 0.0]])}
    frame = pd.DataFrame({"text": ["v", "u", None], "grade": [1, 3, np.nan]})
    np.testing.assert_allclose(
        circuit.with_parameters(*given).log_density(frame).values, np.log([0.42, 0.04, 1.0]), atol=1e-15
    )
    codes = coded(circuit, [[0, 1], [2, 0], [np.nan, np.nan]])
    np.testing.assert_array_equal(
        circuit.with_parameters(*given).log_density(frame), circuit.with_parameters(*given).log_density(codes)
    )
    with pytest.raises(ValueError, match=r"column 'grade', row 1 .*unseen level \(known levels: 1, 2, 3\), got 0"):
        circuit.with_parameters(*given).log_density(frame[:2].assign(grade=[1, 0]))
