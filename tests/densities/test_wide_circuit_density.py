"""`CircuitDensity` of circuits with leaves over several columns, against mixtures of SciPy's distributions."""

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

import pymc_spn as ps
from pymc_spn.circuits.evaluation.elliptical_parts import (
    wide_rows_and_gradient_of,
    wide_rows_of,
    with_parts,
)
from pymc_spn.circuits.evaluation.packed_layout import pack
from pymc_spn.circuits.evaluation.parameters import flatten
from pymc_spn.circuits.evaluation.wide_leaves import layout_of
from tests.densities.density_problems import differences
from tests.modes import PLAIN, REWRITTEN

PAIR, TRIPLE, OUTLYING = "multivariate_gaussian[2]", "multivariate_gaussian[3]", "multivariate_student_t[2]"
PARTS = [  # columns and families of the leaves of each product, columns in no order
    [("ca", PAIR), ("bd", OUTLYING)],
    [("dba", TRIPLE), ("c", "gaussian")],
    [("cd", PAIR), ("a", "gaussian"), ("b", "student_t")],
]
WEIGHTS = np.array([0.5, 0.3, 0.2])


def scale_of(rng, d):
    load = 0.5 + rng.random(d)
    return np.outer(load, load) + 0.3 * np.eye(d)


def parameters_of(family, d, rng):
    dof = [3.0 + 4.0 * rng.random()] if "student" in family else []
    if d == 1:
        return [rng.normal(), 0.5 + rng.random(), *dof]
    return [*dof, *rng.normal(size=d), *scale_of(rng, d).ravel()]


def mixture():
    """The circuit with its parameters, and the leaves (columns, family, parameters) of each product."""
    rng = np.random.default_rng(3)
    leaves = [[(tuple(c), f, np.array(parameters_of(f, len(c), rng))) for c, f in part] for part in PARTS]
    made = [
        ps.circuits.product_of([ps.circuits.leaf(c if len(c) > 1 else c[0], *own) for c, *own in p]) for p in leaves
    ]
    return ps.circuits.mixture_of(made, weights=WEIGHTS), leaves


def rows_with_gaps(columns, n=12):
    """Among them one row without a cell and then a complete one."""
    x = np.random.default_rng(4).normal(size=(n, 4))
    for i, gaps in enumerate(["a", "b", "cd", "abcd", "", "bd", "abc", "d", "c", "ac"]):
        x[i, [columns.index(g) for g in gaps]] = np.nan
    return x


def log_leaf(family, own, x):
    """Log density of the observed cells of a row under a leaf, by SciPy."""
    seen, d = ~np.isnan(x), x.size
    if not seen.any():
        return 0.0
    if d == 1:
        law = stats.norm(*own[:2]) if family == "gaussian" else stats.t(own[2], *own[:2])
        return float(law.logpdf(x[0]))
    first = int("student" in family)
    location, scale = own[first : first + d], own[first + d :].reshape(d, d)
    place = {"mean" if first == 0 else "loc": location[seen]}
    own_scale = scale[np.ix_(seen, seen)]
    if first:
        return float(stats.multivariate_t(shape=own_scale, df=own[0], **place).logpdf(x[seen]))
    return float(stats.multivariate_normal(cov=own_scale, **place).logpdf(x[seen]))


def reference(leaves, columns, x, weights=WEIGHTS, log_of=log_leaf):
    """Log densities (n,) of rows, leaf by leaf."""
    logs = [
        [sum(log_of(f, own, row[[columns.index(c) for c in cols]]) for cols, f, own in part) for row in x]
        for part in leaves
    ]
    return np.logaddexp.reduce(np.array(logs) + np.log(weights)[:, None], axis=0)


def problem():
    given, leaves = mixture()
    circuit = given.circuit
    flat = flatten(circuit, given.leaf_parameters)
    layout = pack(layout_of(circuit)[0], 4, flat.begin, flat.width)
    packed = with_parts(layout, circuit, flat.begin, flat.width)
    return given, leaves, flat, packed, rows_with_gaps(list(circuit.names))


def on_both_sides(theta, flat, circuit):
    """The parameters with scale matrices made symmetric: the density is defined for those alone."""
    theta = theta.copy()
    for f, name in enumerate(circuit.families):
        if "multivariate" not in name:
            continue
        d, first = int(name[-2]), int("student" in name)
        own = theta[flat.begin[f] :][: circuit.leaves_of(name).size * flat.width[f]].reshape(-1, flat.width[f])
        scale = own[:, first + d :].reshape(-1, d, d)
        own[:, first + d :] = (0.5 * (scale + np.swapaxes(scale, 1, 2))).reshape(len(own), -1)
    return theta


def test_densities_are_those_of_scipy_with_gaps():
    given, leaves, flat, packed, x = problem()
    columns = list(given.circuit.names)
    rows = wide_rows_of(packed, x, np.asarray(given.log_weights), flat.theta)
    rounding = {"rtol": 0, "atol": 1e-12}  # a few operations on numbers of size ten
    np.testing.assert_allclose(rows, reference(leaves, columns, x), **rounding)

    def without_determinant(family, own, row):
        if row.size == 1 or np.isnan(row).all():
            return log_leaf(family, own, row)
        seen = ~np.isnan(row)
        scale = own[-(row.size**2) :].reshape(row.size, row.size)[np.ix_(seen, seen)]
        return log_leaf(family, own, row) + 0.5 * np.linalg.slogdet(scale)[1]

    for wrong in (
        reference(leaves, columns, x, log_of=without_determinant),
        reference([[(c[::-1], f, own) for c, f, own in part] for part in leaves], columns, x),
    ):
        assert not np.allclose(rows, wrong, **rounding)


def test_gradients_are_the_differences_of_the_value():
    given, _, flat, packed, x = problem()
    log_weights = np.asarray(given.log_weights)
    cotangent = np.random.default_rng(5).normal(size=len(x))
    rows, grad_weights, grad_theta, grad_values = wide_rows_and_gradient_of(
        packed, x, log_weights, flat.theta, cotangent
    )
    np.testing.assert_array_equal(rows, wide_rows_of(packed, x, log_weights, flat.theta))
    allowed = {"rtol": 2e-5, "atol": 2e-6}  # of central differences with steps of 1e-6
    total = lambda v, w, t: cotangent @ wide_rows_of(packed, v, w, on_both_sides(t, flat, given.circuit))  # noqa: E731
    of_weights = differences(lambda w: total(x, w, flat.theta), log_weights)
    of_theta = differences(lambda t: total(x, log_weights, t), flat.theta)
    of_values = differences(lambda v: total(v, log_weights, flat.theta), x)
    np.testing.assert_allclose(grad_weights, of_weights, **allowed)
    np.testing.assert_allclose(grad_theta, of_theta, **allowed)
    np.testing.assert_allclose(grad_values, of_values, **allowed)
    assert np.abs(grad_theta).min() > 1e-4  # every parameter counts
    assert not np.allclose(grad_theta, 2.0 * of_theta, **allowed)


def test_parameters_of_no_leaf_have_no_density():
    """Far rows have density zero and no gradient."""
    given, _, flat, packed, x = problem()
    log_weights, ones = np.asarray(given.log_weights), np.ones(len(x))
    families = list(given.circuit.families)
    begin = {name: flat.begin[families.index(name)] for name in families}
    for at, value in (
        (begin[PAIR], np.nan),
        (begin[PAIR] + 2, -1.0),  # a variance
        (begin[PAIR] + 3, 0.123),  # one of two equal covariances
        (begin[TRIPLE] + 3, np.inf),
        (begin[OUTLYING], 0.0),  # degrees of freedom
    ):
        theta = flat.theta.copy()
        theta[at] = value
        rows, *gradients = wide_rows_and_gradient_of(packed, x, log_weights, theta, ones)
        assert np.isneginf(rows).all() and not any(g.any() for g in gradients)
    singular = flat.theta.copy()
    singular[begin[PAIR] + 2 : begin[PAIR] + 6] = [1.0, 1.0, 1.0, 1.0]
    assert np.isneginf(wide_rows_of(packed, x, log_weights, singular)).all()
    far = x.copy()
    far[4] = 1e200
    far[5, 0] = np.inf
    rows, *gradients = wide_rows_and_gradient_of(packed, far, log_weights, flat.theta, ones)
    assert np.isneginf(rows[[4, 5]]).all() and all(np.isfinite(g).all() for g in gradients)


def test_a_model_has_the_density_and_the_slope_of_the_circuit():
    given, leaves, _, _, x = problem()
    circuit, columns = given.circuit, list(given.circuit.names)
    arguments = circuit, given.log_weights, given.leaf_parameters
    with pm.Model() as model:
        ps.CircuitDensity("x", *arguments, observed=pd.DataFrame(x, columns=columns))
        ps.CircuitDensity("free", *arguments)
    logs = model.compile_fn(model.logp(model["x"], sum=False), inputs=[], point_fn=False, mode=PLAIN)()
    np.testing.assert_allclose(logs[0], reference(leaves, columns, x), rtol=0, atol=1e-12)

    start = model.initial_point()["free"]
    locations = {c: [] for c in columns}
    for part in leaves:
        for cols, family, own in part:
            first = int("student" in family) if len(cols) > 1 else 0
            for j, c in enumerate(cols):
                locations[c].append(own[first + j])
    np.testing.assert_allclose(start, [np.mean(locations[c]) for c in columns], rtol=1e-12)
    slope = model.compile_dlogp(model["free"], mode=REWRITTEN)(model.initial_point())
    found = differences(lambda v: reference(leaves, columns, v[None])[0], start)
    np.testing.assert_allclose(slope, found, rtol=2e-5, atol=2e-6)


def test_draws_have_the_moments_of_the_circuit():
    """To 5 standard errors, in both ways in which PyTensor draws; dof above 4 keeps fourth moments finite."""
    rng = np.random.default_rng(7)
    outlying = np.array([9.0, 1.0, -1.0, *scale_of(rng, 2).ravel()])
    pair = np.array([-2.0, 0.5, *scale_of(rng, 2).ravel()])
    lone = ps.circuits.leaf("b", "gaussian", (0.0, 1.0))
    made = ps.circuits.mixture_of(
        [ps.circuits.product_of([ps.circuits.leaf(("c", "a"), OUTLYING, outlying), lone]),
         ps.circuits.product_of([ps.circuits.leaf(("a", "c"), PAIR, pair), lone])],
        weights=[0.4, 0.6],
    )  # fmt: skip
    n = 4_000
    with pm.Model() as model:
        ps.CircuitDensity("x", made.circuit, made.log_weights, made.leaf_parameters, shape=(n, 3))
    centre, spread = np.asarray(made.mean()), np.asarray(made.cov())
    for mode in (None, REWRITTEN):
        drawn = pm.draw(model["x"], random_seed=8, mode=mode)
        product = (drawn - centre)[:, :, None] * (drawn - centre)[:, None]
        assert np.all(np.abs(drawn.mean(axis=0) - centre) < 5 * drawn.std(axis=0) / np.sqrt(n))
        assert np.all(np.abs(product.mean(axis=0) - spread) < 5 * product.std(axis=0) / np.sqrt(n))


def test_bad_parameters_are_named():
    given, _ = mixture()
    circuit, own = given.circuit, dict(given.leaf_parameters)
    wrong = own[PAIR].copy()
    wrong[1, 2:] = [1.0, 2.0, 2.0, 1.0]
    with pm.Model():
        with pytest.raises(
            ValueError, match=r"covariance must be symmetric and positive definite, .* at row 1, leaf \d+ of"
        ):
            ps.CircuitDensity("x", circuit, given.log_weights, own | {PAIR: wrong})
        with pytest.raises(ValueError, match=r"rows must be \(location \(2,\), covariance \(2, 2\) row by row\)"):
            ps.CircuitDensity("x", circuit, given.log_weights, own | {PAIR: wrong[:, :5]})
        tensor = pt.as_tensor_variable(pm.Normal("m", shape=(2, 5)))
        with pytest.raises(ValueError, match=r"gaussian\[2\]'\] must have shape \(2, 6\), .*got \(2, 5\)"):
            ps.CircuitDensity("x", circuit, given.log_weights, own | {PAIR: tensor})
    with pm.Model() as model:
        scale = pm.Normal("scale", -9.0, 1e-9)
        tensor = pt.set_subtensor(pt.as_tensor_variable(own[PAIR])[0, 2], scale)
        ps.CircuitDensity("x", circuit, given.log_weights, own | {PAIR: tensor})
    with pytest.raises(ValueError, match="nothing can be drawn from a CircuitDensity whose parameters are out of"):
        pm.draw(model["x"], mode=REWRITTEN)
