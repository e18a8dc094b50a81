"""Squares of sums of circuits: against sums over levels and Gauss points, products multiplied out, grids."""

import re
import warnings
from itertools import product
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.pytensorf import gradient
from scipy import stats

import pymc_spn as ps
from pymc_spn.circuits.algebra import signed_mixtures
from pymc_spn.densities.symbolic_products import SymbolicProduct
from tests.modes import PLAIN
from tests.shared_circuits import coded, random_parameters

UNREWRITTEN = {"compile_kwargs": {"mode": PLAIN}}
COLUMNS = ["a", "k", "on"]
LEAVES = {"a": ["gaussian"], "k": ["categorical"], "on": ["bernoulli"]}
NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)
GRID, AREA = 14.0 * NODES, 14.0 * WEIGHTS  # Gaussian leaves below are within it by 8 standard deviations and smooth
TABLE = np.array([[a, k, on] for a, k, on in product(GRID, range(3), range(2))])
MASS = np.repeat(AREA, 6)


def frame(rows, columns=COLUMNS):
    return pd.DataFrame(rows, columns=columns)


def component(seed, n_children=2):
    rng = np.random.default_rng(seed)
    circuit = ps.circuits.complete_tree(COLUMNS, n_children=n_children).circuit(LEAVES)
    degree = np.bincount(circuit.edge_sum, minlength=circuit.n_nodes)
    log_weights = np.log(np.concatenate([rng.dirichlet(np.ones(k)) for k in degree[degree > 0]]))
    n = {name: circuit.leaves_of(name).size for name in circuit.families}
    return circuit, log_weights, {
        "gaussian": np.column_stack([rng.normal(0, 1.5, n["gaussian"]), rng.uniform(0.5, 1.5, n["gaussian"])]),
        "categorical": rng.dirichlet(np.ones(3), n["categorical"]),
        "bernoulli": rng.uniform(0.1, 0.9, (n["bernoulli"], 1)),
    }  # fmt: skip


COMPONENTS = [component(1), component(2), component(3, 1)]
COEFFICIENTS = np.array([[1.0, -1.2, 0.3], [0.2, 0.1, -0.6]])


@pytest.fixture(scope="module")
def squares():
    return ps.circuits.SumOfSquares(COMPONENTS, COEFFICIENTS)


@pytest.fixture(scope="module")
def density():
    """Of all rows of `TABLE`, by the definition."""
    parts = np.exp(
        [circuit.with_parameters(*parameters).log_density(TABLE).values for circuit, *parameters in COMPONENTS]
    )
    found = np.square(COEFFICIENTS @ parts).sum(axis=0)
    return found / (found @ MASS)


def test_density_is_normalised(squares, density):
    """Gauss points integrate the smooth density to rounding."""
    np.testing.assert_allclose(np.exp(squares.log_density(TABLE)), density, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("missing", [p for p in product([False, True], repeat=3) if any(p)])
def test_missing_cells_are_summed_out(squares, density, missing):
    kept = ~np.array(missing)
    rows = np.where(kept, TABLE, np.nan)[::7]
    found = np.exp(squares.log_density(rows))
    for row, value in list(zip(rows, found, strict=True))[:: max(1, len(rows) // 20)]:
        alike = np.all((TABLE == row) | ~kept, axis=1)
        own = MASS if missing[0] else np.ones(len(TABLE))
        assert value == pytest.approx(density[alike] @ own[alike], rel=1e-10, abs=1e-13)


def test_events_and_moments(squares, density):
    inside = (TABLE[:, 1] == 1) | (TABLE[:, 1] == 2)
    known = TABLE[:, 2] == 1
    expected = density[inside & known] @ MASS[inside & known] / (density[known] @ MASS[known])
    assert squares.probability({"k": {1, 2}}, given={"on": 1}) == pytest.approx(expected, rel=1e-11)
    cut = np.array([-1.0, 0.5])
    below = squares.probability({"a": (np.full(2, -np.inf), cut)}, given=[{"on": 1}, {"k": 0}])
    either = known | (TABLE[:, 1] == 0)
    fine = np.linspace(-14, 14, 40_001)
    rows = np.array([[a, k, on] for k, on in ((0, 0), (0, 1), (1, 1), (2, 1)) for a in fine])
    curve = np.exp(squares.log_density(rows)).reshape(4, -1).sum(axis=0)
    step = fine[1] - fine[0]
    sums = np.concatenate([[0.0], np.cumsum(0.5 * (curve[1:] + curve[:-1]) * step)])
    # trapezoids of 0.0007 width: their error is the width squared times the slope over 12
    np.testing.assert_allclose(below, np.interp(cut, fine, sums) / (density[either] @ MASS[either]), rtol=1e-6)
    moments = squares.moments([[np.nan, np.nan, 1.0]])
    share = density[known] * MASS[known] / (density[known] @ MASS[known])
    mean = share @ TABLE[known, 0]
    assert moments.mean[0, 0] == pytest.approx(mean, abs=1e-11) and moments.mean[0, 2] == 1.0
    assert np.isnan(moments.mean[0, 1])  # categorical
    assert moments.covariance[0, 0, 0] == pytest.approx(share @ (TABLE[known, 0] - mean) ** 2, rel=1e-10)
    both = squares.moments(np.full((1, 3), np.nan))
    total = density * MASS
    mean = total @ TABLE
    assert both.covariance[0, 0, 2] == pytest.approx(total @ (TABLE[:, 0] * TABLE[:, 2]) - mean[0] * mean[2], abs=1e-11)


@pytest.mark.parametrize(("least", "n"), [(0.0, 3_000), (2.0, 300)])  # by rejection, by distribution functions
def test_draws_have_the_law(squares, density, least, n, monkeypatch):
    """Levels by a chi-squared and numbers by a Kolmogorov-Smirnov test at 1e-4; three times that for two chances."""
    monkeypatch.setattr(signed_mixtures, "LEAST_ACCEPTANCE", least)
    rows = np.full((n, 3), np.nan)
    rows[:, 2] = 1.0
    drawn = squares.complete(rows, random_seed=3)
    assert np.all(drawn[:, 2] == 1.0)
    known = TABLE[:, 2] == 1
    expected = [density[known & (TABLE[:, 1] == k)] @ MASS[known & (TABLE[:, 1] == k)] for k in range(3)]
    counts = np.bincount(drawn[:, 1].astype(int), minlength=3)
    assert stats.chisquare(counts, np.array(expected) / sum(expected) * n).pvalue > 1e-4

    def cdf(x):
        return squares.probability({"a": (np.full(x.size, -np.inf), x)}, given={"on": 1})

    assert stats.kstest(drawn[:, 0], cdf).pvalue > 1e-4
    assert np.array_equal(drawn, squares.complete(rows, random_seed=3))


def test_nearly_cancelling_components():
    """Gaussians a thousandth apart: the squared difference is that of a derivative, x^2 times a Gaussian."""
    circuit = ps.circuits.complete_tree(["x"], n_children=1).circuit({"x": ["gaussian"]})
    parts = [(circuit, np.zeros(circuit.n_sum_edges), {"gaussian": np.array([[m, 1.0]])}) for m in (-5e-4, 5e-4)]
    squares = ps.circuits.SumOfSquares(parts, [1.0, -1.0])
    assert squares.acceptance_rate < 1e-6
    x = np.linspace(-3, 3, 13)[:, None]
    # of order (d x)^2 is the difference to the derivative
    density = 2.0 * np.square(x[:, 0]) * stats.norm.pdf(x[:, 0], 0.0, np.sqrt(0.5))
    np.testing.assert_allclose(np.exp(squares.log_density(x)), density, rtol=1e-5, atol=1e-7)
    drawn = squares.sample(2_000, random_seed=1)[:, 0]
    # y = 2 x^2 is chi-squared of 3 degrees of freedom; 1e-4 is the test's level
    assert stats.kstest(2.0 * drawn**2, stats.chi2(3).cdf).pvalue > 1e-4
    assert abs(np.mean(drawn > 0) - 0.5) < 4 * 0.5 / np.sqrt(2_000)


@pytest.mark.parametrize("family", ["gaussian", "log_normal", "exponential", "gamma", "beta", "geometric", "bernoulli"])
def test_symbolic_products_of_families(family):
    """As `multiply` does it in NumPy, to rounding; with sums of different widths, so that weights meet weights."""
    rng = np.random.default_rng(0)
    circuits = [
        ps.circuits.complete_tree(["a", "b"], n_children=k).circuit({"a": [family], "b": [family]}) for k in (2, 3)
    ]
    given = []
    for circuit in circuits:
        log_weights, parameters = random_parameters(circuit, rng)
        if family == "beta":
            parameters[family] += 0.6  # shapes that add up to more than one
        given.append((log_weights, parameters))
    symbolic = SymbolicProduct(*circuits, n_levels=2)
    tensors = [(pt.as_tensor_variable(w), {f: pt.as_tensor_variable(p) for f, p in own.items()}) for w, own in given]
    log_inner, log_weights, leaves = symbolic.evaluate(*tensors)
    found = pytensor.function([], [log_inner, log_weights, leaves[family]], mode=PLAIN)()
    expected = ps.circuits.multiply(*((c, *own) for c, own in zip(circuits, given, strict=True)))
    assert symbolic.circuit == expected.circuit
    assert found[0] == pytest.approx(expected.log_normaliser, abs=1e-12)
    np.testing.assert_allclose(found[1], expected.log_weights, atol=1e-11)
    np.testing.assert_allclose(found[2], expected.leaf_parameters[family], rtol=1e-11)


def test_scale_of_coefficients(squares):
    """No scale is too large or small to be squared, and arrays that change later do not change the density."""
    rows = TABLE[::501]
    expected = squares.log_density(rows)
    for scale in (1e200, 1e-200, 5e-324):
        own = scale * np.array([[1.0, -2.0, 1.0]])
        found = ps.circuits.SumOfSquares(COMPONENTS, own)
        same = ps.circuits.SumOfSquares(COMPONENTS, [1.0, -2.0, 1.0])
        np.testing.assert_allclose(found.log_density(rows), same.log_density(rows), rtol=1e-12)
        assert found.log_normaliser == pytest.approx(same.log_normaliser + 2.0 * np.log(scale), rel=1e-12)
    coefficients, (circuit, log_weights, leaves) = COEFFICIENTS.copy(), COMPONENTS[0]
    leaves = {name: own.copy() for name, own in leaves.items()}
    own = ps.circuits.SumOfSquares([(circuit, log_weights, leaves), *COMPONENTS[1:]], coefficients)
    coefficients[:], leaves["gaussian"][:] = 1.0, 1.0
    np.testing.assert_array_equal(own.log_density(rows), expected)


def test_far_term_with_a_tiny_coefficient():
    """Far out the wide component alone is left, though its coefficient squared is no number."""
    circuit = ps.circuits.complete_tree(["x"], n_children=1).circuit({"x": ["gaussian"]})
    parts = [(circuit, np.zeros(circuit.n_sum_edges), {"gaussian": np.array([[0.0, s]])}) for s in (1.0, 10.0)]
    squares = ps.circuits.SumOfSquares(parts, [1.0, -1e-200])
    expected = 2.0 * (np.log(1e-200) + stats.norm.logpdf(60.0, 0.0, 10.0)) - squares.log_normaliser
    assert squares.log_density([[60.0]])[0] == pytest.approx(expected, rel=1e-14)
    with pytest.raises(ValueError, match="has density zero under the circuit"):
        squares.probability({"x": 0.3}, given={"x": 1e300})


def test_columns_with_kinds_beside_names():
    """As in `multiply`, a circuit that knows names alone goes with one that knows levels, in either order."""
    data = pd.DataFrame({"k": pd.Categorical(["lo", "hi", "hi"], ["lo", "hi"]), "m": pd.Categorical(list("uvu"))})
    tree = ps.circuits.chow_liu_tree(data)
    plain = ps.circuits.complete_tree(["k", "m"], n_children=1).circuit({"k": ["categorical"], "m": ["categorical"]})
    other = plain, np.zeros(plain.n_sum_edges), {"categorical": np.array([[0.3, 0.7], [0.8, 0.2]])}
    rows = np.array(list(product(range(2), repeat=2)), float)
    logs = [
        tree.log_density(coded(tree.circuit, rows)).values,
        plain.with_parameters(*other[1:]).log_density(rows).values,
    ]
    density = np.square(np.array([1.0, -0.5]) @ np.exp(logs))
    for components, signed in (([tree, other], [1.0, -0.5]), ([other, tree], [-0.5, 1.0])):
        squares = ps.circuits.SumOfSquares(components, signed)
        np.testing.assert_allclose(np.exp(squares.log_density(rows)), density / density.sum(), rtol=1e-12)
        assert squares.probability({"k": "hi"}) == pytest.approx(density[2:].sum() / density.sum(), rel=1e-12)
        with pm.Model() as model:
            ps.circuits.SumOfSquaresDensity("x", components, signed, data)
        found = model.compile_logp(sum=True, mode=PLAIN)({})
        assert found == pytest.approx(np.log(density[[0, 3, 2]] / density.sum()).sum(), rel=1e-12)


@pytest.fixture(scope="module")
def model():
    """Two components with random parameters, and rows with gaps."""
    rows = ps.circuits.SumOfSquares(COMPONENTS, COEFFICIENTS).sample(12, random_seed=5)
    rows[2, 0] = rows[3, 1] = np.nan
    rows[4, 1:] = np.nan
    with pm.Model() as model:
        coefficients = pm.Normal("coefficients", shape=(2, 2), initval=COEFFICIENTS[:, ::2])
        operands = []
        for k, (circuit, log_weights, parameters) in enumerate(COMPONENTS[::2]):
            means = pm.Normal(
                f"means_{k}", 0, 2, shape=len(parameters["gaussian"]), initval=parameters["gaussian"][:, 0]
            )
            scale = pm.HalfNormal(f"scale_{k}", initval=0.8)
            levels = pm.Dirichlet(f"levels_{k}", np.ones((len(parameters["categorical"]), 3)))
            gaussian = pt.stack([means, pt.full_like(means, scale)], axis=1)
            given = {"gaussian": gaussian, "categorical": levels, "bernoulli": parameters["bernoulli"]}
            operands.append(
                (circuit, ps.circuits.dirichlet_log_weights(circuit, 2.0) if k == 0 else log_weights, given)
            )
        ps.circuits.SumOfSquaresDensity("x", operands, coefficients, frame(rows))
    return model, rows, coefficients, operands


def test_log_density_in_a_model(model):
    """The same as of numbers, one term a row, also where cells are missing; the gradient by central differences."""
    model, rows, coefficients, operands = model
    point = model.initial_point()

    tensors = [coefficients, *(t for _, weights, own in operands for t in (weights, *own.values()))]
    outputs = model.replace_rvs_by_values([pt.as_tensor_variable(t) for t in tensors])
    logs = model.logp(sum=False)
    total = pt.sum([log.sum() for log in logs])
    outputs += [logs[-1], total, gradient(total, model.continuous_value_vars)]
    compiled = model.compile_fn(outputs, inputs=model.value_vars, on_unused_input="ignore", mode=PLAIN)
    signed, *numbers, terms, _, slope = compiled(point)
    found = iter(numbers)
    parts = [(circuit, next(found), {f: next(found) for f in own}) for circuit, _, own in operands]
    np.testing.assert_allclose(terms, ps.circuits.SumOfSquares(parts, signed).log_density(rows), rtol=1e-10)
    rng = np.random.default_rng(1)
    for _ in range(3):
        direction = {v.name: rng.normal(size=point[v.name].shape) for v in model.continuous_value_vars}
        ends = [compiled({k: point[k] + step * d for k, d in direction.items()})[-2] for step in (1e-5, -1e-5)]
        along = np.concatenate([direction[v.name].ravel() for v in model.continuous_value_vars]) @ slope
        # differences of a function near 100 over 2e-5: rounding 1e-9, the third derivative 1e-10 times itself
        assert along == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-5)


def test_parameters_out_of_bounds():
    """Density zero, as of `CircuitDensity`; and no number for a row with a gap where none was declared."""
    circuit, log_weights, parameters = COMPONENTS[2]
    rows = frame(ps.circuits.SumOfSquares(COMPONENTS, COEFFICIENTS).sample(3, random_seed=1))
    scale, weight = pt.dscalar("scale"), pt.dscalar("weight")
    gaussian = pt.stack([pt.zeros(1), scale.reshape((1,))], axis=1)
    levels = pt.stack([[weight, 0.3, 0.3]])
    given = parameters | {"gaussian": gaussian, "categorical": levels}
    with pm.Model() as model:
        ps.circuits.SumOfSquaresDensity("x", [(circuit, log_weights, given), COMPONENTS[1]], [1.0, -0.5], rows)
    value = pytensor.function([scale, weight], model.logp(model["x"], sum=False), mode=PLAIN)
    assert np.all(np.isfinite(value(1.0, 0.4)))
    assert np.all(np.isneginf(value(-1.0, 0.4))) and np.all(np.isneginf(value(1.0, 0.5)))


def test_coefficients_of_no_density():
    """-inf, never NaN, where nothing is left; no other scale matters; data of another length are refused."""
    circuit, none, parameters = COMPONENTS[2]
    parts, rows = [(circuit, none, parameters)] * 2 + [COMPONENTS[1]], frame(TABLE[:2400:999])
    with pm.Model() as model:
        ps.circuits.SumOfSquaresDensity("x", parts, pm.Data("coefficients", [1.0, -0.3, 0.2]), rows)
    value = model.compile_logp(vars=[model["x"]], sum=False, mode=PLAIN)
    expected = value({})[0]
    np.testing.assert_allclose(
        expected, ps.circuits.SumOfSquares(parts, [1.0, -0.3, 0.2]).log_density(rows), rtol=1e-11
    )
    for scale in (1e200, -1e-200):
        model.set_data("coefficients", scale * np.array([1.0, -0.3, 0.2]))
        np.testing.assert_allclose(value({})[0], expected, rtol=1e-11)
    for nothing in ([0.0, 0.0, 0.0], [1.0, -1.0, 0.0]):
        model.set_data("coefficients", nothing)
        assert np.all(np.isneginf(value({})[0]))
    model.set_data("coefficients", [1.0, 0.5])
    with pytest.raises(AssertionError, match="SpecifyShape"):
        value({})
    gamma = ps.circuits.complete_tree(["x"], n_children=1).circuit({"x": ["gamma"]})
    steep = gamma, np.zeros(gamma.n_sum_edges), {"gamma": np.array([[0.4, 1.0]])}
    with pm.Model() as model:
        ps.circuits.SumOfSquaresDensity("x", [steep], [1.0], frame([[0.5], [1.0]], ["x"]))
    assert np.all(np.isneginf(model.compile_logp(sum=False, mode=PLAIN)({})))


def test_draws_in_a_model():
    """Levels and numbers tested as above; compiled, since a fall back to Python would warn."""
    circuit = ps.circuits.complete_tree(["a", "k"], n_children=1).circuit({"a": ["gaussian"], "k": ["categorical"]})
    none = np.zeros(circuit.n_sum_edges)
    parts = [
        (circuit, none, {"gaussian": np.array([[0.0, 1.5]]), "categorical": np.array([[0.2, 0.3, 0.5]])}),
        (circuit, none, {"gaussian": np.array([[0.5, 1.0]]), "categorical": np.array([[0.4, 0.5, 0.1]])}),
    ]
    squares = ps.circuits.SumOfSquares(parts, [1.0, -0.5])
    with pm.Model(), warnings.catch_warnings():
        warnings.simplefilter("error")
        variable = ps.circuits.SumOfSquaresDensity("x", parts, [1.0, -0.5], frame(np.zeros((3, 2)), ["a", "k"]))
        drawn = pm.draw(variable, 600, random_seed=2)
    assert drawn.shape == (600, 3, 2)
    drawn = drawn.reshape(-1, 2)
    counts = np.bincount(drawn[:, 1].astype(int), minlength=3)
    expected = np.array([squares.probability({"k": k}) for k in range(3)])
    assert stats.chisquare(counts, expected * len(drawn)).pvalue > 1e-4

    def cdf(x):
        return squares.probability({"a": (np.full(x.size, -np.inf), x)})

    assert stats.kstest(drawn[:, 0], cdf).pvalue > 1e-4


def test_posterior_of_a_coefficient():
    """NUTS against a grid over the only free number, whose every normaliser is that of the object with numbers."""
    circuit = ps.circuits.complete_tree(["x"], n_children=1).circuit({"x": ["gaussian"]})
    parts = [
        (circuit, np.zeros(circuit.n_sum_edges), {"gaussian": np.array([[m, s]])}) for m, s in ((0, 2.0), (0.5, 1))
    ]
    rows = ps.circuits.SumOfSquares(parts, [1.0, -0.4]).sample(40, random_seed=1)
    with pm.Model() as model:
        c = pm.Normal("c", 0.0, 1.0)
        ps.circuits.SumOfSquaresDensity("x", parts, pt.stack([1.0, c]), frame(rows, ["x"]))
        idata = pm.sample(
            250, tune=200, chains=2, cores=1, random_seed=1, progressbar=False, compute_convergence_checks=False,
            nuts_sampler="pymc", **UNREWRITTEN,
        )  # fmt: skip
        pm.compute_log_likelihood(idata, progressbar=False)
    grid = np.linspace(-4, 4, 401)
    squares = [ps.circuits.SumOfSquares(parts, [1.0, value]) for value in grid]
    logs = [s.log_density(rows).sum() - 0.5 * value**2 for s, value in zip(squares, grid, strict=True)]
    weights = np.exp(logs - np.max(logs))
    weights /= weights.sum()
    mean = weights @ grid
    sd = np.sqrt(weights @ (grid - mean) ** 2)
    drawn = idata.posterior["c"]
    ess = float(az.ess(drawn))
    assert abs(float(drawn.mean()) - mean) < 4.5 * sd / np.sqrt(ess)
    assert float(drawn.std()) == pytest.approx(sd, rel=4.5 / np.sqrt(ess))  # the distribution is nearly normal
    with model:
        predicted = pm.sample_posterior_predictive(idata, random_seed=2, progressbar=False, **UNREWRITTEN)
    predicted = predicted.posterior_predictive["x"]
    expected = sum(w * s.moments([[np.nan]]).mean[0, 0] for w, s in zip(weights, squares, strict=True))
    # 4.5 standard errors: of the draws of c, and of 500 x 40 rows
    error = np.hypot(float(predicted.mean("x_row").std()) / np.sqrt(ess), float(predicted.std()) / np.sqrt(20_000))
    assert abs(float(predicted.mean()) - expected) < 4.5 * error
    last = ps.circuits.SumOfSquares(parts, [1.0, float(drawn[1, -1])])
    np.testing.assert_allclose(idata.log_likelihood["x"][1, -1], last.log_density(rows), rtol=1e-9)


def test_bad_input(squares):
    one = COMPONENTS[0]
    cases = [
        (lambda: ps.circuits.SumOfSquares([], [1.0]), "components must hold at least one circuit"),
        (
            lambda: ps.circuits.SumOfSquares(COMPONENTS, [1.0, 2.0]),
            r"coefficients must have shape \(3,\) or .* got \(2,\)",
        ),
        (
            lambda: ps.circuits.SumOfSquares(COMPONENTS, [1.0, np.nan, 0.0]),
            r"finite, got nan in row 0 for components\[1\]",
        ),
        (lambda: ps.circuits.SumOfSquares(COMPONENTS, [0.0, 0.0, 0.0]), "coefficients must not all be 0"),
        (
            lambda: ps.circuits.SumOfSquares([one, one], [1.0, -1.0]),
            "coefficients must not cancel each other everywhere",
        ),
        (lambda: squares.sample(-1), "n must be an integer of at least 0, got -1"),
        (lambda: squares.probability({"z": 1}), "names column 'z'"),
        (lambda: squares.log_density(np.zeros((2, 2))), r"values must have shape \(rows, 3\)"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()
    for wrong in (["1", "2", "3"], [True, True, False], [1.0, None, 2.0], np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])):
        with pytest.raises(TypeError, match="coefficients must be an array of real numbers"):
            ps.circuits.SumOfSquares(COMPONENTS, wrong)
    circuit, log_weights, leaves = one
    with pytest.raises(TypeError, match=r"components\[1\]: gaussian must be numbers, got the tensor"):
        ps.circuits.SumOfSquares([one, (circuit, log_weights, leaves | {"gaussian": pt.dmatrix()})], [1.0, 1.0])
    with pytest.raises(ValueError, match=r"components\[1\]: log_weights must have shape"):
        ps.circuits.SumOfSquares([one, (circuit, np.zeros(1), leaves)], [1.0, 0.0])
    heavy = ps.circuits.complete_tree(["x"], n_children=1).circuit({"x": ["student_t"]})
    with pytest.raises(ValueError, match=r"components\[0\] has no square: the product of student_t and student_t"):
        ps.circuits.SumOfSquares([(heavy, np.zeros(1), {"student_t": np.array([[0.0, 1.0, 4.0]])})], [1.0])
    with pytest.raises(TypeError, match=r"components\[1\] must have a circuit"):
        ps.circuits.SumOfSquares([one, "circuit"], [1.0, 1.0])
    other = ps.circuits.complete_tree(["a", "k", "off"], n_children=1).circuit(
        {"a": "gaussian", "k": "categorical", "off": "bernoulli"}
    )
    far = (other, *component(1, 1)[1:])
    with pytest.raises(ValueError, match=r"same columns in the same order.*components\[1\]"):
        ps.circuits.SumOfSquares([component(1, 1), far], [1.0, 1.0])


def test_bad_input_in_a_model(squares):
    rows = frame(squares.sample(3, random_seed=1))
    circuit = ps.circuits.complete_tree(COLUMNS, n_children=1).circuit({**LEAVES, "a": ["student_t"]})
    heavy = (circuit, np.zeros(circuit.n_sum_edges), COMPONENTS[2][2] | {"student_t": np.array([[0.0, 1.0, 4.0]])})
    del heavy[2]["gaussian"]
    skewed = ps.circuits.complete_tree(COLUMNS, n_children=1).circuit({**LEAVES, "a": ["exponential"]})
    mixed = (skewed, np.zeros(skewed.n_sum_edges), {**heavy[2], "exponential": np.ones((1, 1))})
    del mixed[2]["student_t"]
    cases = [
        (
            [heavy],
            [1.0],
            rows,
            ValueError,
            r"components\[0\] has no square: leaves must be of families .* column 'a' has student_t leaves",
        ),
        ([COMPONENTS[2], mixed], [1.0, 1.0], rows, ValueError, "column 'a' has gaussian and exponential leaves"),
        (
            [COMPONENTS[2], (*COMPONENTS[0][:1], [0.0], {})],
            [1.0, 1.0],
            rows,
            ValueError,
            r"components\[1\]: leaf_param",
        ),
        (COMPONENTS, [1.0, 1.0], rows, ValueError, "coefficients must have shape"),
        (COMPONENTS, pt.vector("c", shape=(2,)), rows, ValueError, "coefficients must have shape"),
        (COMPONENTS, pytensor.shared(np.ones(2)), rows, ValueError, r"coefficients must have shape .* got \(2,\)"),
        (COMPONENTS, pt.zvector(), rows, TypeError, "coefficients must be a tensor of real numbers, got complex128"),
        (COMPONENTS, [1.0, pt.dscalar(), 0.0], rows, TypeError, "coefficients must be one array or one tensor"),
        (COMPONENTS, [1.0, 1.0, 1.0], None, TypeError, "observed must be a DataFrame, a Table or an array"),
        (COMPONENTS, [1.0, 1.0, 1.0], rows.to_numpy()[:, :2], ValueError, "observed must have shape"),
        ("circuits", [1.0], rows, TypeError, "components must be a sequence"),
    ]
    for components, coefficients, observed, error, message in cases:
        with pm.Model(), pytest.raises(error, match=message):
            ps.circuits.SumOfSquaresDensity("x", components, coefficients, observed)


def test_the_example_in_the_documents_warns_of_nothing_and_has_the_numbers_that_stand_there():
    text = (Path(__file__).parents[2] / "docs" / "circuits_engine.md").read_text(encoding="utf-8")
    (block,) = (
        b
        for b in re.findall("```python\n(.*?)```", text, re.DOTALL)
        if "ps.circuits.SumOfSquaresDensity(" in b and "find_MAP" in b
    )
    found = {"np": np, "pd": pd, "pm": pm, "pt": pt, "ps": ps}
    exec(block, found)
    squares, df = found["squares"], found["df"]
    assert squares.log_density(df).mean() == pytest.approx(-3.65, abs=0.005)
    assert squares.probability({"a": (-1, 1), "b": (-1, 1)}) == pytest.approx(0.04, abs=0.005)
