"""`integral_circuit`: circuits by quadrature against normal laws in closed form, integrals by SciPy, and in a model."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.integrate import quad_vec, simpson
from scipy.special import beta, expit
from scipy.stats import bernoulli, multivariate_normal, norm, poisson

import pymc_spn as ps
from pymc_spn.densities import integral_circuits
from pymc_spn.densities.integral_circuits import IntegralCircuit
from tests.modes import PLAIN

NAMES = ("a", "b", "c", "d")
PARENT = {"a": "c", "b": "a", "c": None, "d": "c"}
CORRELATION = {"a": 0.8, "b": 0.5, "d": -0.6}
INTERCEPT, SLOPE, SD = np.array([0.5, -1.0, 0.0, 2.0]), np.array([1.0, 0.7, -1.2, 1.5]), np.array([0.6, 0.8, 0.7, 1.0])
GAUSSIANS = dict.fromkeys(NAMES, "gaussian")
TREE = IntegralCircuit(NAMES, GAUSSIANS, PARENT, 8, interval=(-9.0, 9.0))


def standard_normal(z):
    return -0.5 * z**2


def given_parent(correlation):
    """Log density of standard normal variables, each correlated with its parent, without what z does not change."""
    return lambda z, z_parent, edge: -0.5 * (z - correlation[edge] * z_parent) ** 2 / (1.0 - correlation[edge] ** 2)


def normal_leaves(z, column):
    return INTERCEPT[column] + SLOPE[column] * z, SD[column]


def parameters(tree):
    correlation = np.array([CORRELATION[name] for _, name in tree.edges])
    return tree.log_weights(standard_normal, given_parent(correlation)), tree.leaf_parameters(
        {"gaussian": normal_leaves}
    )


def normal_law():
    """Mean and covariance of the four columns: path products of correlations, slopes, and the leaves' variance."""
    hidden = np.eye(4)
    for i, j, path in ((0, 2, "a"), (1, 0, "b"), (1, 2, "ab"), (3, 2, "d"), (3, 0, "da"), (3, 1, "dab")):
        hidden[i, j] = hidden[j, i] = math.prod(CORRELATION[name] for name in path)
    return INTERCEPT, SLOPE * hidden * SLOPE[:, None] + np.diag(SD**2)


def rows(n, seed=0):
    return np.random.default_rng(seed).multivariate_normal(*normal_law(), n)


@pytest.mark.parametrize(("rule", "errors"), [("trapezoid", (9, 0.6, 1e-4, 1e-13)), ("legendre", (20, 3, 0.05, 3e-8))])
def test_a_tree_of_normal_variables_is_the_normal_law_its_error_falling_geometrically(rule, errors):
    """Errors measured: 5, 0.24, 4e-5 and 2e-15 with 8, 16, 32 and 64 points by the one rule, 9, 1.3, 0.02 and 1e-8."""
    mean, cov = normal_law()
    x = rows(20)
    expected = multivariate_normal(mean, cov).logpdf(x)
    gaps = x.copy()
    gaps[::2, 0] = gaps[1::2, 1:3] = np.nan
    kept = [np.flatnonzero(~np.isnan(row)) for row in gaps]
    expected_gaps = [
        multivariate_normal(mean[k], cov[np.ix_(k, k)]).logpdf(row[k]) for k, row in zip(kept, gaps, strict=True)
    ]
    for n, error in zip((8, 16, 32, 64), errors, strict=True):
        tree = dataclasses.replace(TREE, n_points=n, rule=rule)
        found = [np.abs(tree.circuit.with_parameters(*parameters(tree)).log_density(x).values - expected).max()]
        found += [
            np.abs(tree.circuit.with_parameters(*parameters(tree)).log_density(gaps).values - expected_gaps).max()
        ]
        print(rule, n, found)
        assert max(found) < error
        assert n == 64 or found[0] > 0.1 * error  # it is there, so that the tolerances say how it falls


def test_moments_given_other_cells_are_those_of_the_normal_law():
    tree = dataclasses.replace(TREE, n_points=64)
    mean, cov = normal_law()
    x = rows(3, seed=1)
    x[:, [1, 2]] = np.nan
    given, asked = [0, 3], [1, 2]
    gain = cov[np.ix_(asked, given)] @ np.linalg.inv(cov[np.ix_(given, given)])
    found = tree.circuit.with_parameters(*parameters(tree)).moments(x)
    np.testing.assert_allclose(
        found["mean"].values[:, asked], mean[asked] + (x[:, given] - mean[given]) @ gain.T, atol=1e-10
    )
    expected = cov[np.ix_(asked, asked)] - gain @ cov[np.ix_(given, asked)]
    np.testing.assert_allclose(
        found["covariance"].values[:, 1:3, 1:3], np.broadcast_to(expected, (3, 2, 2)), atol=1e-10
    )


MIXED = {"n": "poisson", "t": "bernoulli", "x": "gaussian"}
TABLE = pd.DataFrame({"n": [0, 3, 9, 1], "t": [True, False, True, True], "x": [0.2, -1.0, 2.5, 0.0]})
LEAVES = {
    "poisson": lambda z, column: np.exp(0.5 + 0.4 * z),
    "bernoulli": lambda z, column: (expit(1.5 * z - 0.2),),
    "gaussian": lambda z, column: np.stack([0.3 + 0.9 * z, np.full(z.shape, 0.7)], axis=1),
}


def mixed_leaves(n, t, x, z):
    """Density of the cells of one row, without those that are missing, at hidden values."""
    out = 1.0 if math.isnan(n) else poisson.pmf(n, np.exp(0.5 + 0.4 * z))
    out *= 1.0 if math.isnan(t) else bernoulli.pmf(t, expit(1.5 * z - 0.2))
    return out * (1.0 if math.isnan(x) else norm.pdf(x, 0.3 + 0.9 * z, 0.7))


def test_one_hidden_variable_under_leaves_of_several_families_is_the_integral():
    star = ps.circuits.integral_circuit(TABLE, 64, tree="star", interval=(-8.0, 8.0))
    assert star.leaves == MIXED and star.edges == () and star.circuit.n_sum == 1
    values = ps.Table.from_frame(TABLE).values.copy()
    values[3, 0] = values[0, 2] = np.nan
    found = (
        star.circuit.with_parameters(star.log_weights(norm.logpdf), star.leaf_parameters(LEAVES))
        .log_density(values)
        .values
    )
    for row, own in zip(values, found, strict=True):
        exact, _ = quad_vec(lambda z, row=row: norm.pdf(z) * mixed_leaves(*row, z), -12, 12, epsabs=0, epsrel=1e-11)
        assert own == pytest.approx(math.log(exact), abs=1e-10)


def test_any_density_of_a_child_given_its_parent_is_normalised_at_each_value_of_the_parent():
    """A skewed density whose integral depends on the parent, against Simpson's rule on a fine grid."""
    tree = IntegralCircuit(("n", "x"), {c: MIXED[c] for c in "nx"}, {"x": None, "n": "x"}, 64, interval=(-7.0, 7.0))

    def energy(z, z_parent):
        return -((z - np.sin(z_parent)) ** 2) * (1.0 + 0.5 * np.tanh(z_parent)) - 0.3 * np.log1p(np.exp(2.0 * z))

    leaves = tree.leaf_parameters({k: LEAVES[k] for k in ("poisson", "gaussian")})
    log_weights = tree.log_weights(norm.logpdf, lambda z, z_parent, edge: energy(z, z_parent))
    (found,) = tree.circuit.with_parameters(log_weights, leaves).log_density([[2.0, -0.5]]).values
    grid = np.linspace(-7.0, 7.0, 801)  # step 0.0175: Simpson's rule to 1e-9 of the integral
    density = np.exp(energy(grid, grid[:, None]))
    density /= simpson(density, grid)[:, None]
    below = simpson(density * mixed_leaves(2.0, math.nan, math.nan, grid), grid)
    exact = simpson(norm.pdf(grid) * mixed_leaves(math.nan, math.nan, -0.5, grid) * below, grid)
    assert found == pytest.approx(math.log(exact), abs=1e-8)


def test_legendre_is_the_rule_for_densities_that_do_not_vanish_at_the_ends():
    """Probabilities of levels themselves hidden, uniform: the share of k ones among six is a beta function."""
    names = tuple("abcdef")
    cells = np.tril(np.ones((6, 6)))
    exact = np.log([beta(k + 1, 7 - k) for k in range(1, 7)])
    found = {}
    for rule in ("legendre", "trapezoid"):
        star = IntegralCircuit(names, dict.fromkeys(names, "bernoulli"), None, 8, rule, (0.0, 1.0))
        leaves = star.leaf_parameters({"bernoulli": lambda z, column: z})
        found[rule] = star.circuit.with_parameters(star.log_weights(lambda z: 0.0), leaves).log_density(cells).values
        assert star.point_weights.sum() == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_allclose(found["legendre"], exact, atol=1e-13)
    z = np.linspace(0.0, 1.0, 8)
    np.testing.assert_allclose(
        found["trapezoid"], np.log([np.trapezoid(z**k * (1.0 - z) ** (6 - k), z) for k in range(1, 7)]), atol=1e-13
    )
    assert np.abs(found["trapezoid"] - exact).max() > 0.01


def test_the_tree_is_learned_or_given_and_columns_choose_their_leaves():
    steps = np.random.default_rng(0).normal(size=(300, 4))
    frame = pd.DataFrame(np.cumsum(steps, axis=1), columns=list("badc")).assign(k=np.arange(300) % 3)
    tree = ps.circuits.integral_circuit(frame, 4, dependence="rdc", random_seed=1)
    assert {frozenset(edge) for edge in tree.edges} >= {frozenset("ba"), frozenset("ad"), frozenset("dc")}
    assert tree.leaves["k"] == "categorical"
    other = ps.circuits.hidden_chow_liu_tree(frame, 4, dependence="rdc", random_seed=1)
    assert (other.n_sum_edges, other.n_leaf) == (tree.circuit.n_sum_edges, tree.circuit.n_leaf)
    given = ps.circuits.integral_circuit(frame[list(NAMES)], 4, tree=PARENT)
    assert (
        given.edges == (("c", "a"), ("c", "d"), ("a", "b"))
        and given.circuit == dataclasses.replace(TREE, n_points=4, columns=given.columns).circuit
    )
    assert "a tree of 4 hidden variables, 4 points by 'trapezoid' on (-6.0, 6.0)" in repr(given)


def test_parameters_that_are_random_are_differentiated_sampled_and_predicted_from():
    """A chain of three columns: posterior density in closed form, its differences, planted values, new rows.

    Hidden values are 0.39 wide given all else and the step of 20 points is 0.53: an error of
    2 exp(-2 (0.39 pi / 0.53)^2) or 5e-5 a row at most.
    """
    rng = np.random.default_rng(3)
    planted, n_rows = np.array([0.8, -0.7]), 150
    hidden = np.array([[1.0, 0.8, -0.56], [0.8, 1.0, -0.7], [-0.56, -0.7, 1.0]])
    x = rng.multivariate_normal(np.zeros(3), hidden + 0.36 * np.eye(3), n_rows)
    x[0, 1] = np.nan
    tree = ps.circuits.integral_circuit(
        pd.DataFrame(x, columns=list("abc")), 20, tree={"a": None, "b": "a", "c": "b"}, interval=(-5.0, 5.0)
    )
    with pm.Model() as model:
        rho = pm.Uniform("rho", -1.0, 1.0, shape=2)
        sd = pm.HalfNormal("sd")
        weights = tree.log_weights(standard_normal, given_parent(rho))
        leaves = tree.leaf_parameters({"gaussian": lambda z, column: (z, sd)})
        ps.CircuitDensity("x", tree.circuit, weights, leaves, observed=x)
    logp, dlogp = model.compile_logp(mode=PLAIN), model.compile_dlogp(mode=PLAIN)

    def exact(values):
        r, s = np.tanh(values[:2] / 2.0), math.exp(values[2])
        cov = np.array([[1.0, r[0], r[0] * r[1]], [r[0], 1.0, r[1]], [r[0] * r[1], r[1], 1.0]]) + s**2 * np.eye(3)
        out = multivariate_normal(cov=cov).logpdf(x[1:]).sum()
        out += multivariate_normal(cov=cov[::2, ::2]).logpdf(x[0, ::2])
        return out + np.log((1.0 - r**2) / 4.0).sum() + math.log(2.0) + norm.logpdf(s) + values[2]

    def at(values):
        return {"rho_interval__": values[:2], "sd_log__": np.array(values[2])}

    point = np.array([2.0, -1.5, -0.4])
    steps = 1e-5 * np.eye(3)
    print(logp(at(point)) - exact(point))
    assert logp(at(point)) == pytest.approx(exact(point), abs=n_rows * 5e-5)
    found = [(float(logp(at(point + s))) - float(logp(at(point - s)))) / 2e-5 for s in steps]
    np.testing.assert_allclose(dlogp(at(point)), found, rtol=1e-6)
    with model:
        idata = pm.sample(
            400, tune=200, chains=1, cores=1, random_seed=1, progressbar=False, compute_convergence_checks=False,
            nuts_sampler="pymc", compile_kwargs={"mode": PLAIN},
        )  # fmt: skip
        drawn = pm.sample_posterior_predictive(idata, random_seed=2, progressbar=False, compile_kwargs={"mode": PLAIN})
    posterior = idata.posterior
    error = posterior["rho"].std(("chain", "draw")).values
    print(posterior["rho"].mean(("chain", "draw")).values, error, posterior["sd"].mean().values)
    assert np.all(np.abs(posterior["rho"].mean(("chain", "draw")).values - planted) < 4.0 * error)
    assert np.all(error < 0.1) and abs(float(posterior["sd"].mean()) - 0.6) < 4.0 * float(posterior["sd"].std())
    predicted = drawn.posterior_predictive["x"]
    assert predicted.shape == (1, 400, n_rows, 3)
    r, s = posterior["rho"].values[0], posterior["sd"].values[0]
    pairs = np.array([np.mean(predicted[..., i] * predicted[..., i + 1]) for i in range(2)])  # 60,000 rows
    np.testing.assert_allclose(pairs, r.mean(axis=0), atol=5 * 1.6 / math.sqrt(60_000))  # sd of a product at most 1.6
    assert np.mean(predicted**2) == pytest.approx(1.0 + np.mean(s**2), abs=5 * 2.0 / math.sqrt(60_000))


def test_tensors_and_arrays_give_the_same_parameters_and_impossible_tensors_no_density():
    correlation = np.array([CORRELATION[name] for _, name in TREE.edges])
    log_weights, leaves = parameters(TREE)
    tensors = TREE.log_weights(standard_normal, given_parent(pt.as_tensor(correlation)))
    np.testing.assert_allclose(tensors.eval(), log_weights, rtol=1e-12, atol=1e-12)
    slope = pt.as_tensor(SLOPE)
    by_tensor = TREE.leaf_parameters({"gaussian": lambda z, c: (INTERCEPT[c] + slope[c] * z, SD[c])})
    np.testing.assert_allclose(by_tensor["gaussian"].eval(), leaves["gaussian"], rtol=1e-12)
    with pm.Model() as model:
        width = pm.Normal("width")
        weights = TREE.log_weights(lambda z: pt.log(width) * z, given_parent(correlation))  # NaN below 0
        ps.CircuitDensity("x", TREE.circuit, weights, leaves, observed=rows(2))
    logp = model.compile_logp(mode=PLAIN)
    assert np.isneginf(logp({"width": np.array(-1.0)})) and np.isfinite(logp({"width": np.array(1.0)}))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n_points": 1}, ValueError, "n_points must be an integer of at least 2, got 1"),
        ({"n_points": 8.0}, ValueError, "n_points must be an integer of at least 2, got 8.0"),
        ({"rule": "simpson"}, ValueError, r"rule must be one of \['legendre', 'trapezoid'\], got 'simpson'"),
        ({"interval": (3, -3)}, ValueError, r"two finite numbers \(low, high\) with low < high, got \(3, -3\)"),
        ({"interval": (0, np.inf)}, ValueError, r"with low < high, got \(0, inf\)"),
        ({"interval": 6.0}, ValueError, r"interval must be two numbers \(low, high\), got 6.0"),
        ({"interval": "06"}, ValueError, r"interval must be two numbers \(low, high\), got '06'"),
        ({"interval": (False, True)}, ValueError, r"interval must be two numbers .* got \(False, True\)"),
        ({"interval": {0, 1}}, ValueError, r"interval must be two numbers .* got \{0, 1\}"),
        ({"interval": (-1e308, 1e308)}, ValueError, "interval must have a finite length, got"),
        ({"interval": (0.0, 5e-324)}, ValueError, "wide enough for n_points=4 different points"),
        ({"interval": (1e20, 1e20 + 32768), "rule": "legendre"}, ValueError, "wide enough for n_points=4"),
        ({"n_points": 10**9, "tree": "star"}, ValueError, "n_points=1000000000 makes 1,000,000,000 edges"),
        ({"leaves": {"n": "poisson"}}, ValueError, "leaves must name families for every column, 't' is missing"),
        ({"leaves": {**MIXED, "x": "cauchy"}}, ValueError, "leaves must name families among .* 'cauchy' for 'x'"),
        ({"leaves": {**MIXED, "x": ["gaussian"]}}, TypeError, r"one family for every column, got \['gaussian'\]"),
        ({"leaves": "gaussian"}, TypeError, "leaves must be a mapping from columns to families, got 'gaussian'"),
        ({"tree": "chain"}, ValueError, "tree must be 'chow_liu', 'star' or a mapping .* got 'chain'"),
        ({"tree": {"n": None, "t": "n"}}, ValueError, "a parent, or None, for every column, 'x' is missing"),
        ({"tree": {"n": None, "t": "n", "x": "z"}}, ValueError, "tree must name columns as parents, got 'z' for 'x'"),
        ({"tree": {"n": None, "t": "n", "x": np.array(["n", "t"])}}, ValueError, "columns as parents, got array.* 'x'"),
        ({"tree": {"n": None, "t": "n", "x": "n", "z": "n"}}, ValueError, "tree: 'z' is not a column"),
        ({"tree": {"n": None, "t": None, "x": "n"}}, ValueError, r"one root, .* got \['n', 't'\]"),
        ({"tree": {"n": "t", "t": "x", "x": "n"}}, ValueError, r"one root, .* got \[\]"),
        ({"tree": {"n": None, "t": "x", "x": "t"}}, ValueError, r"to the root 'n', \['t', 'x'\] are on a cycle"),
        ({"dependence": "pearson"}, ValueError, "dependence must be one of .* got 'pearson'"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(change, error, message):
    with pytest.raises(error, match=message):
        ps.circuits.integral_circuit(**{"data": TABLE, "n_points": 4, **change})


@pytest.mark.parametrize(
    ("root", "edge", "error", "message"),
    [
        (None, None, TypeError, "root_log_density must be a function, got None"),
        (standard_normal, None, TypeError, "log_density must be a function, got None"),
        (lambda z: None, None, TypeError, "root_log_density must return an array of numbers or a tensor, got None"),
        (lambda z: z > 0, None, TypeError, r"root_log_density must return an array of numbers .* got array\(\[False"),
        (lambda z: z[:3], None, ValueError, r"root_log_density must return what .* to shape \(8,\), got \(3,\)"),
        (lambda z: pt.zeros(3), None, ValueError, r"broadcasts to shape \(8,\), got \(3,\)"),
        (lambda z: z[:, None], None, ValueError, r"broadcasts to shape \(8,\), got \(8, 1\)"),
        (lambda z: np.log(z - z[3]), None, ValueError, "numbers below infinity, got nan at point 0"),
        (lambda z: np.full(8, -np.inf), None, ValueError, "finite at some point, got -inf at all points"),
        (standard_normal, lambda z, p, e: np.zeros((2, 8, 8)), ValueError, r"to shape \(3, 8, 8\), got \(2, 8, 8\)"),
        (standard_normal, lambda z, p, e: np.where(e == 2, np.inf, -z - p), ValueError,
         "got inf at edge 2, point of the parent 0, point 0"),
        (standard_normal, lambda z, p, e: np.where((p > 8) & (e == 1), -np.inf, z), ValueError,
         "got -inf at all points of edge 1, point of the parent 7"),
    ],
)  # fmt: skip
def test_bad_densities_of_hidden_variables_are_named(root, edge, error, message):
    with np.errstate(all="ignore"), pytest.raises(error, match=message):
        TREE.log_weights(root, edge)


@pytest.mark.parametrize(
    ("functions", "error", "message"),
    [
        (normal_leaves, TypeError, "functions must be a mapping from families, got <function"),
        ({}, ValueError, "functions must be given for .* 'gaussian' is missing"),
        ({"gaussian": lambda z, c: ()}, ValueError, r"functions\['gaussian'\] must return .* got an empty tuple"),
        ({"gaussian": normal_leaves, "poisson": normal_leaves}, ValueError, r"\('gaussian',\), got 'poisson'"),
        ({"gaussian": 1.0}, TypeError, r"functions\['gaussian'\] must be a function, got 1.0"),
        ({"gaussian": lambda z, c: "wide"}, TypeError, "must return an array of numbers or a tensor, got 'wide'"),
        ({"gaussian": lambda z, c: z}, ValueError, r"leaf_parameters\['gaussian'\].*mean, standard deviation"),
        ({"gaussian": lambda z, c: (z, z[:4])}, ValueError, r"parameter 1 must return .* shape \(32,\), got \(4,\)"),
        ({"gaussian": lambda z, c: np.zeros((2, 32))}, ValueError, r"must return shape \(32, p\), got \(2, 32\)"),
        ({"gaussian": lambda z, c: pt.zeros((2, 32))}, ValueError, r"must return shape \(32, p\), got \(2, 32\)"),
        ({"gaussian": lambda z, c: (z, 0.5 * c)}, ValueError, "standard deviation positive.* of 'a'"),
        ({"gaussian": lambda z, c: (np.log(z - z[3]), 1.0)}, ValueError, "mean must be finite.*got .nan, 1.0. at row"),
    ],
)  # fmt: skip
def test_bad_leaf_functions_are_named(functions, error, message):
    with np.errstate(all="ignore"), pytest.raises(error, match=message):
        TREE.leaf_parameters(functions)


def test_it_keeps_what_it_was_made_of():
    parent, leaves = {"x": None, "y": "x"}, {"x": "gaussian", "y": "poisson"}
    tree = ps.circuits.IntegralCircuit(("x", "y"), leaves, parent, 4)
    parent["x"], leaves["x"] = "y", "laplace"
    assert dataclasses.replace(tree, n_points=np.int64(5)).edges == (("x", "y"),) == tree.edges
    assert tree.leaves == {"x": "gaussian", "y": "poisson"}
    assert (
        dataclasses.replace(TREE, columns=ps.Table.from_frame(TABLE).columns, leaves=None, parent=None).leaves == MIXED
    )


def test_a_star_wants_no_density_given_a_parent_and_too_many_points_are_refused(monkeypatch):
    star = dataclasses.replace(TREE, parent=None)
    with pytest.raises(TypeError, match="log_density must not be given where no hidden variable has a parent"):
        star.log_weights(standard_normal, given_parent(np.zeros(3)))
    monkeypatch.setattr(integral_circuits, "MAX_EDGES", 200)
    with pytest.raises(ValueError, match="n_points=9 makes 252 edges below sums, more than 200"):
        dataclasses.replace(TREE, n_points=9)
