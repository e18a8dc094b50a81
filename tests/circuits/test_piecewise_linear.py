"""`piecewise_linear` against the function that NumPy interpolates, and integrals of its pieces in closed form."""

import json

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_spn as ps
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from tests.modes import PLAIN

KNOTS = np.array([-2.0, -1.5, 0.0, 0.25, 3.0, 4.0])
HEIGHTS = {
    "inside": [0.0, 1.0, 0.2, 2.0, 0.5, 0.0],
    "jumps": [1.0, 0.1, 0.2, 0.0, 0.5, 3.0],
    "gap": [0.0, 1.0, 0.0, 0.0, 2.0, 0.0],
    "flat": [1.0] * 6,
}


@pytest.fixture(params=HEIGHTS)
def known(request):
    """The density at the knots, scaled to integrate to 1, and the circuit."""
    f = np.array(HEIGHTS[request.param])
    f = f / np.trapezoid(f, KNOTS)
    return f, ps.circuits.piecewise_linear(KNOTS, f)


def integral(f, low=-np.inf, high=np.inf, power=0):
    """Of x to the power of up to 2 times the density: two Gauss points are exact on each piece."""
    cuts = np.unique(np.clip([*KNOTS, low, high], max(low, KNOTS[0]), min(high, KNOTS[-1])))
    half = 0.5 * np.diff(cuts)
    x = cuts[:-1] + half + half * np.array([[-1.0], [1.0]]) / np.sqrt(3.0)
    return float((half * x**power * np.interp(x, KNOTS, f)).sum())


def test_the_density_is_linear_between_the_knots(known):
    f, line = known
    x = np.unique(np.concatenate([KNOTS, np.random.default_rng(0).uniform(-2, 4, 200)]))
    found = np.exp(line.log_density(x[:, None]).values)
    np.testing.assert_allclose(found, np.interp(x, KNOTS, f), rtol=1e-13, atol=1e-15)
    for outside in (np.nextafter(KNOTS[0], -9.0), np.nextafter(KNOTS[-1], 9.0)):
        assert line.log_density([[outside]]).values[0] == -np.inf
    assert line.circuit.n_leaf == np.count_nonzero(f) and repr(line) == f"ParameterisedCircuit({line.circuit!r})"


def test_probabilities_moments_and_draws(known):
    f, line = known
    for low, high in ((-9.0, 9.0), (-1.9, -1.6), (-1.0, 0.1), (0.3, 9.0), (3.5, 4.0), (5.0, 6.0)):
        found = line.probability({"x": (low, high)})
        assert float(found) == pytest.approx(integral(f, low, high), rel=1e-13, abs=1e-15)
    moments = line.moments([[np.nan]])
    mean = integral(f, power=1)
    assert moments["mean"].values[0, 0] == pytest.approx(mean, rel=1e-13)
    assert moments["covariance"].values[0, 0, 0] == pytest.approx(integral(f, power=2) - mean**2, rel=1e-12)
    x = line.sample(4000, random_seed=2).to_numpy()[:, 0]
    cdf = lambda v: line.cdf(v, "x").values  # noqa: E731
    assert stats.kstest(x, cdf).pvalue > 1e-4 > stats.kstest(x + 0.15, cdf).pvalue


def test_the_largest_density_is_at_a_knot_or_an_end(known):
    f, line = known
    found = line.mpe()
    assert found.certified and float(found.log_density) == pytest.approx(np.log(f.max()), abs=1e-12)
    assert np.interp(found.value["x"].item(), KNOTS, f) == pytest.approx(f.max(), rel=1e-12)
    within = line.mpe({"x": (-1.75, -0.5)})
    largest = np.interp([-1.75, -1.5, -0.5], KNOTS, f).max()
    expected = np.log(largest) - float(line.log_probability({"x": (-1.75, -0.5)}))
    assert within.certified and float(within.log_density) == pytest.approx(expected, abs=1e-9)


def test_inner_products(known):
    """Of squares piece by piece; with a bell by many Gauss points."""
    f, line = known
    a, b = f[:-1], f[1:]
    square = (np.diff(KNOTS) * (a * a + a * b + b * b)).sum() / 3.0
    found = ps.circuits.renyi_entropy(line)
    assert float(found) == pytest.approx(-np.log(square), abs=1e-13) and found.attrs == {"exactness": "exact"}
    bell = ps.circuits.complete_tree(["x"], n_children=1).circuit({"x": "gaussian"}), [0.0], {"gaussian": [[0.5, 0.8]]}
    node, weight = np.polynomial.legendre.leggauss(60)
    half = 0.5 * np.diff(KNOTS)[:, None]
    x = KNOTS[:-1, None] + half * (1.0 + node)
    exact = (half * weight * np.interp(x, KNOTS, f) * stats.norm(0.5, 0.8).pdf(x)).sum()
    found = ps.circuits.log_inner_product(line, bell)
    assert float(found) == pytest.approx(np.log(exact), abs=1e-12) and found.attrs["exactness"] == "numerical"


def test_as_the_density_of_a_variable():
    f = np.array(HEIGHTS["inside"])
    line = ps.circuits.piecewise_linear(KNOTS, f, normalise=True)
    rows = np.array([[-1.2], [0.1], [2.0], [np.nan]])
    with pm.Model() as model:
        ps.CircuitDensity("y", line.circuit, **line.parameters, observed=rows)
    expected = np.log(np.interp(rows[:3, 0], KNOTS, f) / np.trapezoid(f, KNOTS)).sum()
    assert model.compile_logp(mode=PLAIN)({}) == pytest.approx(expected, rel=1e-13)
    with pm.Model() as model:
        ps.CircuitDensity("y", line.circuit, **line.parameters)
    assert np.isfinite(model.compile_logp(mode=PLAIN)(model.initial_point()))


def test_weights_of_given_knots_are_fitted():
    """At a maximum of the likelihood the mean ratio of leaf to density is 1 for leaves with weight, else at most 1."""
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.triangular(-2.0, -1.5, 0.0, 150), rng.uniform(0.0, 3.0, 50)])[:, None]
    line = ps.circuits.piecewise_linear(KNOTS[:-1], np.ones(5), normalise=True)
    fit = ps.fit_em(
        line.circuit, x, start=(None, line.leaf_parameters), edge_prior_rows=0.0, leaf_prior_rows=0.0,
        max_steps=5_000, tolerance=1e-12, random_seed=0,
    )  # fmt: skip
    leaves = fit.leaf_parameters["triangular"]
    np.testing.assert_array_equal(leaves, line.leaf_parameters["triangular"])
    with np.errstate(divide="ignore"):
        of_leaves = np.exp(EXPLICIT["triangular"].log_density(leaves, x))
    ratio = (of_leaves / np.exp(fit.log_density(x).values)[:, None]).mean(axis=0)
    used = np.exp(fit.log_weights) > 1e-3
    np.testing.assert_allclose(ratio[used], 1.0, atol=1e-4)
    assert used.sum() >= 4 and ratio.max() < 1.0 + 1e-4
    back = ps.circuits.CircuitFit.from_json(json.loads(json.dumps(fit.to_json())))
    assert back.circuit == fit.circuit and np.array_equal(back.leaf_parameters["triangular"], leaves)
    assert np.array_equal(back.log_weights, fit.log_weights)


def test_sums_of_a_larger_circuit_share_knots():
    """Two products, each with a piecewise linear density of `a` beside a bell for `b`."""
    rng, n = np.random.default_rng(4), 3000
    low = rng.random(n) < 0.5
    rows = np.column_stack([np.where(low, rng.triangular(0, 0, 2, n), rng.triangular(1, 3, 3, n)), 6.0 * low])
    rows[:, 1] += rng.normal(size=n)
    knots = np.linspace(0.0, 3.0, 5)
    hats = ps.circuits.piecewise_linear(knots, np.ones(5), normalise=True).leaf_parameters["triangular"]
    tree = ps.circuits.complete_tree(["a", "b"], n_children=[2, 5]).circuit({"a": "triangular", "b": "gaussian"})
    start = None, {"triangular": np.tile(hats, (2, 1))}
    fit = ps.fit_em(tree, rows, start=start, restarts=1, tolerance=1e-4, random_seed=1)
    grid = np.column_stack([knots, np.full(5, 6.0)])
    alone = float(fit.log_density([[np.nan, 6.0]])[0])
    given = np.exp(fit.log_density(grid).values - alone)
    truth = stats.triang(0.0, 0.0, 2.0).pdf(knots)
    assert np.abs(given - truth).max() < 0.12  # 0.04 to 0.09 over twelve seeds
    other = fit.log_density(np.column_stack([knots, np.zeros(5)])).values
    assert np.argmax(other) == 4 and np.argmax(given) == 0


def test_columns_and_scales():
    column = ps.Column("income", "positive", None, "float64")
    line = ps.circuits.piecewise_linear([1, 2, 4], [0, 3, 0], column=column, normalise=True)
    assert line.circuit.columns == (column,) and line.leaf_parameters["triangular"].tolist() == [[1.0, 2.0, 4.0]]
    assert line.log_weights.tolist() == [0.0]
    off = ps.circuits.piecewise_linear([0.0, 1.0], [1.0, 1.0 + 1e-6])  # as far off as weights may be: kept as it is
    assert np.exp(off.log_density([[0.0], [1.0]]).values) == pytest.approx([1.0, 1.0 + 1e-6], rel=1e-12)


@pytest.mark.parametrize(
    ("knots", "densities", "error", "message"),
    [
        (["a", "b"], [1, 1], TypeError, "knots must be a list of numbers, got"),
        ([0, 1], None, ValueError, r"densities must be a list of numbers, got an array of shape \(\)"),
        ([[0, 1]], [1, 1], ValueError, r"knots must be a list of numbers, got an array of shape \(1, 2\)"),
        ([0], [1], ValueError, "knots must hold at least two numbers, got 1"),
        ([0, 1, 2], [1, 1], ValueError, "densities must have one number for each of the 3 knots, got 2"),
        ([0, 1, np.inf], [1, 1, 1], ValueError, "knots must be finite, got inf at place 2"),
        ([0, 1], [1, np.nan], ValueError, "densities must be finite, got nan at place 1"),
        ([0, 2, 2], [1, 1, 1], ValueError, "knots must increase strictly, got 2 at place 2, after 2"),
        ([0, 3, 2], [1, 1, 1], ValueError, "knots must increase strictly, got 2 at place 2, after 3"),
        ([0, 1, 2], [1, -0.5, 1], ValueError, "densities must not be negative, got -0.5 at place 1, knot 1"),
        ([0, 1], [0, 0], ValueError, "densities must not all be 0"),
        ([0, 1, 3], [0, 1, 0.5], ValueError, "must integrate to 1 between the knots, got 2; normalise=True divides"),
        ([0, 1e-200], [1e-200, 0], ValueError, "densities must have a positive finite integral, got 0"),
        ([-1e308, 1e308], [1, 0], ValueError, "densities must have a positive finite integral, got inf"),
    ],
)
def test_bad_input_is_refused(knots, densities, error, message):
    with pytest.raises(error, match=message):
        ps.circuits.piecewise_linear(knots, densities)
