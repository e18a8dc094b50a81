"""`CircuitDensity`: value, gradient and draws against the circuit itself."""

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from scipy.special import betaln, gammaln

import pymc_spn as ps
from pymc_spn.circuits.evaluation.packed_layout import draw_row, pack, rows_and_gradient_of, rows_of
from pymc_spn.circuits.evaluation.parameters import flatten
from pymc_spn.circuits.evaluation.wide_leaves import layout_of
from pymc_spn.circuits.structures.region_trees import complete_tree
from pymc_spn.densities.circuit_density import CircuitDensity
from pymc_spn.densities.circuit_ops import CircuitRows, CircuitRowsAndGradient
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from tests.densities.density_problems import differences, problem
from tests.modes import BY_PYTHON, PLAIN, REWRITTEN
from tests.shared_circuits import DENSITIES, WITH_A_FORMULA, build, crossed_circuit, random_parameters

GAUSSIANS = complete_tree(["a", "b"], n_children=2).circuit({"a": ["gaussian"], "b": ["gaussian"]})


@pytest.mark.parametrize(
    "families",
    [DENSITIES, ("gaussian", "student_t"), ("poisson", "geometric"),
     ("negative_binomial", "beta_geometric"), ("bernoulli",), ("categorical",)]
)  # fmt: skip
def test_gradients_are_the_differences_of_the_value(families):
    circuit, log_weights, parameters, flat, packed, values = problem(families)
    cotangent = np.random.default_rng(1).normal(size=len(values))
    rows, grad_weights, grad_theta, grad_values = rows_and_gradient_of(
        packed, values, log_weights, flat.theta, cotangent
    )
    np.testing.assert_allclose(
        rows, circuit.with_parameters(log_weights, parameters).log_density(values).values, rtol=0, atol=1e-12
    )
    np.testing.assert_array_equal(rows_of(packed, values, log_weights, flat.theta), rows)
    allowed = {"rtol": 2e-5, "atol": 2e-6}
    found = differences(lambda w: cotangent @ rows_of(packed, values, w, flat.theta), log_weights)
    np.testing.assert_allclose(grad_weights, found, **allowed)
    found = differences(lambda t: cotangent @ rows_of(packed, values, log_weights, t), flat.theta)
    np.testing.assert_allclose(grad_theta, found, **allowed)
    if families[0] in DENSITIES:
        found = differences(lambda v: cotangent @ rows_of(packed, v, log_weights, flat.theta), values)
        np.testing.assert_allclose(grad_values, found, **allowed)
    else:
        assert not grad_values.any()
    assert np.abs(grad_theta).max() > 0.01
    flows = np.bincount(circuit.edge_sum, grad_weights, minlength=circuit.n_nodes)[0]
    assert flows == pytest.approx(cotangent.sum(), abs=1e-12)  # what leaves the root is what came in


def reference_rows(circuit, values, log_weights, parameters):
    """Log densities (N,) node by node from the leaves' log masses, whatever their parameters."""
    logs = np.zeros((circuit.n_nodes, len(values)))
    for f in circuit.families:
        for leaf, own in zip(circuit.leaves_of(f), parameters[f], strict=True):
            x = values[:, circuit.leaf_column[leaf]]
            logs[leaf] = np.where(np.isnan(x), 0.0, EXPLICIT[f].log_density(own, np.nan_to_num(x)))
    for v in range(circuit.n_nodes - 1, -1, -1):
        below = circuit.children_of(v)
        if circuit.kind[v] == 0:
            logs[v] = np.logaddexp.reduce(logs[below] + log_weights[circuit.edge_sum == v][:, None], axis=0)
        elif below.size:
            logs[v] = logs[below].sum(axis=0)
    return logs[0]


@pytest.mark.parametrize(("family", "theta"), [("binomial", [5.0, 0.3]), ("beta_binomial", [5.0, 0.7, 1.8])])
def test_gradients_of_leaves_on_trials(family, theta):
    """Against differences of the formula, in which the number of trials need not be whole."""
    circuit = build([("leaf", 0, family)], ["a"], (family,))
    flat = flatten(circuit, {family: np.array([theta])})
    packed = pack(layout_of(circuit)[0], 1, flat.begin, flat.width)
    x = np.array([0.0, 2.0, 5.0, np.nan])
    rows, _, found, _ = rows_and_gradient_of(packed, x[:, None], np.zeros(0), flat.theta, np.ones(4))

    def log_mass(t):
        k, n = x[:3], t[0]
        log_choose = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
        if family == "binomial":
            return log_choose + k * np.log(t[1]) + (n - k) * np.log1p(-t[1])
        return log_choose + betaln(t[1] + k, t[2] + n - k) - betaln(t[1], t[2])

    np.testing.assert_allclose(rows, np.append(log_mass(flat.theta), 0.0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found, differences(lambda t: log_mass(t).sum(), flat.theta), rtol=1e-7)


@pytest.mark.parametrize("family", WITH_A_FORMULA)
def test_parameters_out_of_bounds_have_no_density(family):
    _, log_weights, _, flat, packed, values = problem((family,))
    assert np.isfinite(rows_of(packed, values, log_weights, flat.theta)).all()
    assert np.isneginf(rows_of(packed, values, log_weights + 1e-3, flat.theta)).all()
    bad = {"gaussian": (1, -0.1), "log_normal": (1, 0.0), "student_t": (2, 0.0), "log_student_t": (1, -1.0)}
    at, value = bad.get(family, (0, -0.5))
    for x in (value, np.nan, np.inf):
        theta = flat.theta.copy()
        theta[at] = x
        rows, *gradients = rows_and_gradient_of(packed, values, log_weights, theta, np.ones(len(values)))
        assert np.isneginf(rows).all() and not any(g.any() for g in gradients)


def test_rows_of_density_zero_add_no_gradient():
    _, log_weights, _, flat, packed, values = problem(("exponential", "lomax"))
    values[2] = -1.0
    ones = np.ones(len(values))
    rows, *gradients = rows_and_gradient_of(packed, values, log_weights, flat.theta, ones)
    ones[2] = 0.0
    _, *without = rows_and_gradient_of(packed, values, log_weights, flat.theta, ones)
    assert np.isneginf(rows[2])
    for one, other in zip(gradients, without, strict=True):
        np.testing.assert_array_equal(one, other)


def gradients_by_rows(packed, values, log_weights, theta):
    """Gradients of the sum of all rows: alone, and beside a row of density 0, which has its block run in logs."""
    ones = np.ones(len(values) + 1)
    together = rows_and_gradient_of(packed, values, log_weights, theta, ones[1:])[1:]
    beside = np.concatenate([values, np.full((1, values.shape[1]), np.inf)])
    in_logs = rows_and_gradient_of(packed, beside, log_weights, theta, ones)[1:]
    return together, (*in_logs[:2], in_logs[2][:-1])


@pytest.mark.parametrize("least", [0.0, 1e-310, 1e-290])
@pytest.mark.parametrize("family", ["bernoulli", "categorical"])
def test_probabilities_of_zero_have_their_derivatives(family, least):
    """The density is linear in each, so that the derivative is a difference of two densities over one of them."""
    circuit, log_weights, parameters, flat, packed, values = problem((family, "poisson"), n_columns=4)
    own = parameters[family]
    own[0::3, 0] = least
    own[1::3, -1] = 1.0 if family == "bernoulli" else least
    own /= 1.0 if family == "bernoulli" else own.sum(axis=1, keepdims=True)
    values[0, 0], values[1, 1] = 5.0, np.nan  # no level
    theta = flatten(circuit, parameters).theta
    logs = reference_rows(circuit, values, log_weights, parameters)
    expected = np.zeros(own.shape)
    for i in np.ndindex(own.shape):
        changed = own.copy()
        changed[i] = 0.0 if own[i] == 1.0 else 1.0
        with np.errstate(divide="ignore"):
            moved = reference_rows(circuit, values, log_weights, parameters | {family: changed})
        expected[i] = np.expm1(moved - logs).sum() / (changed[i] - own[i])
    for _, found, _ in gradients_by_rows(packed, values, log_weights, theta):
        begin = flat.begin[circuit.families.index(family)]
        np.testing.assert_allclose(found[begin : begin + own.size], expected.ravel(), rtol=1e-9, atol=1e-11)
    assert np.abs(expected[(own < 1e-280) | (own == 1.0)]).max() > 0.1


def test_derivative_in_a_probability_of_zero_where_the_row_needs_logs():
    """One leaf of each product is a thousand sd away, so that linear space loses the row; d log f / dp = 0.5 / 0.15."""
    nodes = [("sum", (1, 2)), ("product", (3, 4, 5)), ("product", (6, 7, 8))]
    nodes += [("leaf", d, f) for _ in range(2) for d, f in enumerate(["gaussian", "gaussian", "bernoulli"])]
    circuit = build(nodes, ["a", "b", "c"], ("gaussian", "bernoulli"))
    means = np.array([0.0, 1e3, 1e3, 0.0])
    parameters = {"gaussian": np.column_stack([means, np.ones(4)]), "bernoulli": np.array([[0.0], [0.3]])}
    flat = flatten(circuit, parameters)
    packed = pack(layout_of(circuit)[0], 3, flat.begin, flat.width)
    begin = flat.begin[circuit.families.index("bernoulli")]
    for _, found, _ in gradients_by_rows(packed, np.array([[0.0, 0.0, 1.0]]), np.log([0.5, 0.5]), flat.theta):
        np.testing.assert_allclose(found[begin : begin + 2], [0.5 / 0.15, 0.5 / 0.15], rtol=1e-9)


def test_leaves_that_exclude_a_value_have_no_part_in_the_gradient():
    """At 0 the density and its slope are those of the Gaussian leaf, whatever a log-normal one would divide by."""
    circuit = ps.circuits.mixture_of(
        [ps.circuits.leaf("a", "log_normal", (0.0, 1.0)), ps.circuits.leaf("a", "gaussian", (0.5, 1.0))]
    )
    flat = flatten(circuit.circuit, circuit.leaf_parameters)
    packed = pack(layout_of(circuit.circuit)[0], 1, flat.begin, flat.width)
    for _, of_theta, of_values in gradients_by_rows(packed, np.zeros((1, 1)), circuit.log_weights, flat.theta):
        assert of_values.item() == pytest.approx(0.5, rel=1e-12)
        assert of_theta.tolist() == pytest.approx([0.0, 0.0, -0.5, 0.25 - 1.0], rel=1e-12)


@pytest.mark.parametrize("beyond", [np.inf, 1e308])
def test_a_row_whose_leaves_are_all_minus_infinity_adds_nothing(beyond):
    """Two exponential leaves at infinity, or where rate times value is: the gradient is that of the other row."""
    circuit = build([("sum", (1, 2)), ("leaf", 0, "exponential"), ("leaf", 0, "exponential")], ["a"], ("exponential",))
    flat = flatten(circuit, {"exponential": np.array([[20.0], [30.0]])})
    packed = pack(layout_of(circuit)[0], 1, flat.begin, flat.width)
    log_weights, values = np.log([0.5, 0.5]), np.array([[beyond], [0.1]])
    density = 0.5 * np.array([20.0, 30.0]) * np.exp([-2.0, -3.0])
    share = density / density.sum()
    for of_weights, of_theta, of_values in gradients_by_rows(packed, values, log_weights, flat.theta):
        np.testing.assert_allclose(of_weights, share, rtol=1e-12)
        np.testing.assert_allclose(of_theta, share * (1.0 / np.array([20.0, 30.0]) - 0.1), rtol=1e-12)
        np.testing.assert_allclose(of_values.ravel(), [0.0, -share @ [20.0, 30.0]], rtol=1e-12)


def test_value_and_gradient_are_one_operation():
    """Unless the cotangent needs the rows, where two are right and one would be a cycle."""
    _, log_weights, _, flat, packed, values = problem(("gaussian",))
    w, t = pt.dvector("w"), pt.dvector("t")
    rows = CircuitRows()(packed, values, w, t)
    logs = rows_of(packed, values, log_weights, flat.theta)
    share = np.exp(logs) / np.exp(logs).sum()
    for total, cotangent, n_rows_ops in ((rows.sum(), np.ones(len(logs)), 0), (pt.logsumexp(rows), share, 1)):
        f = pytensor.function([w, t], [total, *pt.grad(total, [w, t])], mode=REWRITTEN)
        _, grad_w, grad_t = f(log_weights, flat.theta)
        _, expected_w, expected_t, _ = rows_and_gradient_of(packed, values, log_weights, flat.theta, cotangent)
        np.testing.assert_allclose(grad_w, expected_w, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(grad_t, expected_t, rtol=1e-10, atol=1e-12)
        ops = [type(n.op) for n in f.maker.fgraph.toposort()]
        assert ops.count(CircuitRowsAndGradient) == 1
        assert ops.count(CircuitRows) == n_rows_ops
    plain = pytensor.function([w, t], [rows, *pt.grad(rows.sum(), [w])], mode=Mode("py", None))
    np.testing.assert_array_equal(plain(log_weights, flat.theta)[0], logs)


@pytest.mark.parametrize("family", WITH_A_FORMULA)
def test_compiled_draws_are_those_of_the_leaf(family):
    circuit = build([("leaf", 0, family)], ["a"], (family,))
    rng = np.random.default_rng(3)
    _, parameters = random_parameters(circuit, rng)
    flat = flatten(circuit, parameters)
    packed = pack(layout_of(circuit)[0], 1, flat.begin, flat.width)
    n = 20_000
    compiled = np.sort([draw_row(rng, packed, np.empty(0), flat.theta)[0] for _ in range(n)])
    drawn = np.sort(EXPLICIT[family].draw(np.repeat(parameters[family], n, axis=0), rng))
    both = np.unique(np.concatenate([compiled, drawn]))
    distance = np.abs(np.searchsorted(compiled, both, "right") - np.searchsorted(drawn, both, "right")).max() / n
    assert distance < 0.0225  # two-sample Kolmogorov-Smirnov: exceeded once in ten thousand
    shifted = np.abs(np.searchsorted(compiled * 1.1 + 0.1, both, "right") - np.searchsorted(drawn, both, "right"))
    assert shifted.max() / n > 0.0225


def test_model_with_gaps_draws_and_pointwise_values():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(12, 2)), columns=["a", "b"], index=[f"r{i}" for i in range(12)])
    frame.iloc[2, 1] = np.nan
    log_weights, parameters = random_parameters(GAUSSIANS, rng)
    with pm.Model() as model:
        shift = pm.Normal("shift")
        moved = pt.as_tensor(parameters["gaussian"]) + pt.stack([shift, pt.constant(0.0)])
        CircuitDensity("x", GAUSSIANS, log_weights, {"gaussian": moved}, observed=frame)
    assert [v.name for v in model.free_RVs] == ["shift"]  # the gap is summed out, not sampled
    point = {"shift": np.array(0.3)}
    found = model.compile_fn(model.logp(sum=False)[1], mode=PLAIN)(point)
    expected = (
        GAUSSIANS.with_parameters(log_weights, {"gaussian": parameters["gaussian"] + [[0.3, 0.0]]})
        .log_density(frame)
        .values
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    posterior = az.from_dict({"posterior": {"shift": np.full((2, 300), 0.3)}})
    with model:
        idata = pm.compute_log_likelihood(posterior, progressbar=False, **BY_PYTHON)
        drawn, again = (
            pm.sample_posterior_predictive(posterior, random_seed=1, progressbar=False, **how).posterior_predictive["x"]
            for how in ({}, BY_PYTHON)
        )
    assert idata["log_likelihood"]["x"].dims == ("chain", "draw", "x_row")
    np.testing.assert_allclose(idata["log_likelihood"]["x"][0, 0], expected, rtol=1e-12)
    assert drawn.dims == ("chain", "draw", "x_row", "x_column") and drawn.x_row.values.tolist() == list(frame.index)
    np.testing.assert_array_equal(drawn, again)
    moments = GAUSSIANS.with_parameters(log_weights, {"gaussian": parameters["gaussian"] + [[0.3, 0.0]]}).moments(
        [[np.nan, np.nan]]
    )
    flat = drawn.values.reshape(-1, 2)
    error = np.sqrt(np.diag(moments["covariance"].values[0]) / len(flat))
    assert np.all(np.abs(flat.mean(axis=0) - moments["mean"].values[0]) < 5 * error)


def test_rows_as_a_list_are_numbered():
    with pm.Model() as model:
        parameters = {"gaussian": np.tile([0.0, 1.0], (8, 1))}
        CircuitDensity("x", GAUSSIANS, np.full(10, -np.log(2)), parameters, observed=[[0.0, 1.0], [2.0, np.nan]])
    assert list(model.coords["x_row"]) == [0, 1]


def test_a_circuit_as_prior_of_a_row():
    """Not observed: the row itself moves, positive columns on the log scale with its Jacobian."""
    circuit = crossed_circuit(2, 1, 2, ("log_normal", "lomax"))
    log_weights, parameters = random_parameters(circuit, np.random.default_rng(4))
    with pm.Model() as model:
        CircuitDensity("x", circuit, log_weights, parameters)
    assert model.named_vars_to_dims["x"] == ("x_column",)
    start = model.initial_point()
    (name,) = start
    logp, dlogp = model.compile_logp(mode=PLAIN), model.compile_dlogp(mode=PLAIN)
    at = np.array([0.2, -0.4])
    expected = circuit.with_parameters(log_weights, parameters).log_density(np.exp(at)[None]).values[0] + at.sum()
    assert logp({name: at}) == pytest.approx(expected, rel=1e-12)
    found = differences(lambda v: float(logp({name: v})), at)
    np.testing.assert_allclose(dlogp({name: at}), found, rtol=1e-6)
    assert np.isfinite(logp(start))


def test_dirichlet_weights_are_a_prior_on_every_sum():
    uneven = build(
        [("sum", [1, 2, 3]), *[("product", [4, 6])] * 2, ("product", [5, 6]), ("sum", [7, 8]), ("sum", [7, 8]),
         ("leaf", 1, "gaussian"), *[("leaf", 0, "gaussian")] * 2],
        ["a", "b"],
        ("gaussian",),
    )  # fmt: skip
    with pm.Model() as model:
        log_weights = ps.circuits.dirichlet_log_weights(uneven, 2.0, "w")
    assert [v.name for v in model.free_RVs] == ["w_2", "w_3"]
    drawn = np.exp(pm.draw(log_weights, 2_000, random_seed=1))
    assert drawn.shape == (2_000, uneven.n_sum_edges)
    np.testing.assert_allclose(drawn[:, :3].sum(axis=1), 1.0)
    np.testing.assert_allclose(drawn.mean(axis=0), [1 / 3] * 3 + [0.5] * 4, atol=0.02)
    assert drawn[:, 3].var() == pytest.approx(0.25 / 5, rel=0.1)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"circuit": "tree"}, TypeError, "circuit must be a ps.Circuit; got str"),
        ({"leaf_parameters": [1.0]}, TypeError, "leaf_parameters must be a mapping from families, got"),
        ({"leaf_parameters": {}}, ValueError, "'gaussian' is missing"),
        ({"log_weights": np.zeros(3)}, ValueError, r"log_weights must have shape \(10,\), got \(3,\)"),
        ({"log_weights": np.zeros(10)}, ValueError, "weights of each sum must add up to 1, got 2.0 at sum 0"),
        ({"log_weights": pt.dvector(shape=(4,))}, ValueError, r"must have shape \(10,\), got \(4,\)"),
        ({"leaf_parameters": {"gaussian": pt.zeros((8, 3))}}, ValueError, r"must have shape \(8, 2\).*got \(8, 3\)"),
        ({"leaf_parameters": {"gaussian": np.zeros((8, 2))}}, ValueError, "standard deviation positive"),
        ({"observed": np.zeros((3, 3))}, ValueError, r"observed must have shape \(rows, 2\), got \(3, 3\)"),
        ({"observed": pd.DataFrame({"b": [0.0], "c": [0.0]})}, ValueError,
         r"observed must have the circuit's columns \['a', 'b'\]; missing \['a'\], unknown \['c'\]"),
        ({"observed": np.zeros((0, 2))}, ValueError, "observed must have at least one row"),
        ({"observed": pd.DataFrame({"a": ["1.5"], "b": [0.0]})}, TypeError, "observed: column 'a' must hold numbers"),
        ({"observed": np.array([["1.5", "0.0"]])}, TypeError, "observed must hold numbers, .* got text"),
        ({"observed": np.zeros((3, 2), complex)}, TypeError, "observed must be rows of numbers, .* complex numbers"),
        ({"shape": (4,), "observed": None}, ValueError, r"shape must end in the number of columns, 2, got \(4,\)"),
        ({"shape": (4, 2)}, ValueError, "shape must not be given where observed is"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(change, error, message):
    fine = {"name": "x", "circuit": GAUSSIANS, "log_weights": np.full(10, -np.log(2)), "observed": np.zeros((3, 2))}
    fine["leaf_parameters"] = {"gaussian": np.tile([0.0, 1.0], (8, 1))}
    with pm.Model(), pytest.raises(error, match=message):
        CircuitDensity(**(fine | change))


def test_rows_of_all_sorts_are_the_same_rows():
    """Frames in any order of columns, nullable and object ones, and masked arrays, whose mask was dropped."""
    weights, leaves = np.full(10, -np.log(2)), {"gaussian": np.tile([0.0, 1.0], (8, 1)) + 0.1 * np.arange(8)[:, None]}
    rows = np.array([[1.0, 2.0], [np.nan, 5.0], [3.0, np.nan]])
    frame = pd.DataFrame(rows, columns=["a", "b"])
    exact = GAUSSIANS.with_parameters(weights, leaves).log_density(rows).values
    masked = np.ma.masked_array(np.where(np.isnan(rows), 7.0, rows), np.isnan(rows))
    np.testing.assert_array_equal(GAUSSIANS.with_parameters(weights, leaves).log_density(masked).values, exact)
    for given in (frame[["b", "a"]], frame.astype("Int64"), frame.astype(object), masked):
        with pm.Model() as model:
            CircuitDensity("x", GAUSSIANS, weights, leaves, observed=given)
        assert model.compile_logp(mode=PLAIN)({}) == pytest.approx(exact.sum(), rel=1e-14)


def test_numbers_beside_tensors_are_checked():
    beside = build([("product", [1, 2]), ("leaf", 0, "gaussian"), ("leaf", 1, "poisson")], ["a", "b"],
                   ("gaussian", "poisson"))  # fmt: skip
    rates = {"gaussian": pt.dmatrix(shape=(1, 2)), "poisson": [[-1.0]]}
    with pm.Model(), pytest.raises(ValueError, match=r"\['poisson'\]: rate must be .* got \[-1.0\] .* of 'b'"):
        CircuitDensity("x", beside, np.zeros(0), rates, observed=np.zeros((1, 2)))


def test_bad_tensors_and_masses_are_refused():
    counts = build([("leaf", 0, "poisson")], ["a"], ("poisson",))
    with pm.Model(), pytest.raises(ValueError, match="needs densities in all columns, 'a' has a poisson leaf"):
        CircuitDensity("x", counts, [], {"poisson": [[1.0]]})
    with pm.Model() as model:
        scale = pm.Normal("scale")
        parameters = pt.stack([pt.zeros(8), pt.ones(8) * scale], axis=1)
        CircuitDensity("x", GAUSSIANS, np.full(10, -np.log(2)), {"gaussian": parameters}, observed=np.zeros((3, 2)))
    logp = model.compile_logp(mode=PLAIN)
    assert np.isneginf(logp({"scale": np.array(-1.0)})) and np.isfinite(logp({"scale": np.array(1.0)}))
    assert model.compile_dlogp(mode=PLAIN)({"scale": np.array(-1.0)}) == pytest.approx(1.0)  # the prior's alone
    with pytest.raises(ValueError, match=r"alpha must be one number or have shape \(10,\), got \(3,\)"), pm.Model():
        ps.circuits.dirichlet_log_weights(GAUSSIANS, np.ones(3))
    with pytest.raises(ValueError, match="alpha must be positive and finite, got -1"), pm.Model():
        ps.circuits.dirichlet_log_weights(GAUSSIANS, -1.0)


def test_a_coordinate_of_the_columns_has_their_order():
    """A product has the columns of its parts one after the other, and a frame is read by names: labels are not."""
    frame = pd.DataFrame({"a": [1.0, 2.0, np.nan], "b": [10.0, 20.0, 30.0]})
    part = ps.circuits.product_of(
        [ps.circuits.leaf("b", "gaussian", (20.0, 10.0)), ps.circuits.leaf("a", "gaussian", (2.0, 1.0))]
    )
    parameters = part.circuit, part.log_weights, part.leaf_parameters
    message = r"coordinate 'column' must have the columns in the order .* \['b', 'a'\], got \['a', 'b'\]"
    for make in (
        lambda: ps.CircuitDensity("x", *parameters, observed=frame, dims=("row", "column")),
        lambda: ps.CircuitDensity("x", *parameters, dims="column"),
        lambda: ps.CircuitDensity("x", *parameters, observed=pm.Data("d", np.ones((3, 2)), dims=("row", "column"))),
    ):
        with pm.Model(coords={"row": frame.index, "column": frame.columns}), pytest.raises(ValueError, match=message):
            make()
    for labels in (["b", "a"], ["first", "second"]):
        with pm.Model(coords={"column": labels}) as model:
            ps.CircuitDensity("x", *parameters, observed=frame, dims=("row", "column"))
        np.testing.assert_array_equal(model.rvs_to_values[model["x"]].eval()[:, 0], frame["b"])
