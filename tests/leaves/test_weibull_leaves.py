"""Weibull leaves: tails that fall like exponentials of powers, poles at 0, exponential leaves among them."""

import warnings

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaincc, gammaln

import pymc_spn as ps
from pymc_spn.circuits.evaluation.density import compile_circuit
from pymc_spn.circuits.evaluation.packed_layout import draw_row, pack, rows_and_gradient_of
from pymc_spn.circuits.evaluation.parameters import flatten
from pymc_spn.leaves.family_codes import WEIBULL
from pymc_spn.leaves.leaf_events import log_interval
from pymc_spn.leaves.leaf_inner_products import log_inner_products
from pymc_spn.leaves.weibull import best_leaf as weibull_leaf
from pymc_spn.maxima.box_leaves import derivative_ranges
from tests.shared_circuits import LEAVES_BY_FAMILY, build, mixture

LEAF = build([("leaf", 0, "weibull")], ["a"], ("weibull",))
SHAPES = ([1.0, 2.0], [0.3, 5.0], [2.5, 0.7], [60.0, 1e4])


@pytest.mark.parametrize("row", SHAPES)
def test_densities_gradients_and_moments(row):
    """Against the formula and its derivatives, up to where the density underflows; at 0 and below it is 0."""
    k, scale = row
    t = np.array([-30.0, -2.0, 0.0, 0.7, 3.0, 6.0])  # log hazards
    x = scale * np.exp(t / k)
    expected = np.log(k / x) + t - np.exp(t)
    for rows in (x, np.tile(x, 2)):
        found = LEAF.with_parameters(np.zeros(0), {"weibull": [row]}).log_density(rows[:, None]).values
        np.testing.assert_allclose(found, np.resize(expected, rows.size), rtol=1e-11, atol=1e-11)
    beyond = [[0.0], [-1.0], [np.inf], [scale * np.exp(800.0 / k) if k > 2 else -2.0]]
    assert np.all(np.isneginf(LEAF.with_parameters(np.zeros(0), {"weibull": [row]}).log_density(beyond).values))
    flat = flatten(LEAF, {"weibull": np.array([row])})
    packed = pack(compile_circuit(LEAF).layout, 1, flat.begin, flat.width)
    for v, s in zip(x, np.exp(t), strict=True):
        _, _, of_theta, of_value = rows_and_gradient_of(packed, np.array([[v]]), np.zeros(0), flat.theta, np.ones(1))
        exact = [1.0 / k - np.log(s) / k * (s - 1.0), k / scale * (s - 1.0)]
        np.testing.assert_allclose(of_theta, exact, rtol=1e-9, atol=1e-11 * k)
        assert of_value[0, 0] == pytest.approx((k - 1.0 - k * s) / v, rel=1e-9, abs=1e-11 * k / v)
    _, *gradients = rows_and_gradient_of(packed, np.array(beyond), np.zeros(0), flat.theta, np.ones(4))
    assert not any(g.any() for g in gradients)
    exact = stats.weibull_min(k, scale=scale)
    found = LEAF.with_parameters(np.zeros(0), {"weibull": [row]}).moments([[np.nan]])
    np.testing.assert_allclose(
        [found["mean"].values[0, 0], found["covariance"].values[0, 0, 0]], [exact.mean(), exact.var()], rtol=1e-9
    )
    drawn = LEAF.with_parameters(np.zeros(0), {"weibull": [row]}).sample(2_000, random_seed=1).to_numpy()[:, 0]
    assert stats.kstest(drawn, exact.cdf).pvalue > 1e-4  # the probability of a false alarm


@pytest.mark.parametrize("row", SHAPES)
def test_intervals_keep_their_digits_in_both_tails(row):
    k, scale = row
    at = lambda s: scale * s ** (1.0 / k)  # noqa: E731
    for s in (1e-80, 1e-3, 2.0, 500.0, 1e5):
        assert log_interval("weibull", row, at(s), np.inf) == pytest.approx(-s, rel=1e-12, abs=1e-90)
        below = np.log(s) if s < 1e-20 else np.log(-np.expm1(-s))
        assert log_interval("weibull", row, -1.0, at(s)) == pytest.approx(below, rel=1e-12, abs=1e-15)
        between = -s + np.log(-np.expm1(-s)) if s > 1e-20 else np.log(s)
        assert log_interval("weibull", row, at(s), at(2.0 * s)) == pytest.approx(between, rel=1e-11)
    x = at(3.0)
    width = (x + 1e-9 * x) - x
    narrow = stats.weibull_min(k, scale=scale).logpdf(x) + np.log(width)
    assert log_interval("weibull", row, x, x + width) == pytest.approx(narrow, abs=1e-6)
    assert log_interval("weibull", row, -np.inf, np.inf) == 0.0
    assert log_interval("weibull", [row, row], [2.0, -3.0], [2.0, 0.0]).tolist() == [-np.inf] * 2


@pytest.mark.parametrize("other", LEAVES_BY_FAMILY)
def test_inner_products_of_shape_one_are_those_of_an_exponential_leaf(other):
    q = np.array(LEAVES_BY_FAMILY[other])
    found, error = log_inner_products("weibull", np.array([[1.0, 0.5]]), other, q)
    exact, of_exponential = log_inner_products("exponential", np.array([[2.0]]), other, q)
    np.testing.assert_allclose(found, exact, rtol=0, atol=max(1e-10, error + of_exponential))
    assert error < 1e-9


def test_inner_products_of_two_leaves_of_one_shape():
    """In closed form: k^2 Gamma(2 - 1/k) / (k (a b)^k (a^-k + b^-k)^(2 - 1/k)), finite for shapes above 1/2."""
    for k in (0.51, 0.9, 2.5, 30.0):
        a, b = 1.5, 4.0
        power = 2.0 - 1.0 / k
        exact = np.log(k) + gammaln(power) - k * np.log(a * b) - power * np.logaddexp(-k * np.log(a), -k * np.log(b))
        found, error = log_inner_products("weibull", np.array([[k, a]]), "weibull", np.array([[k, b]]))
        assert found[0, 0] == pytest.approx(exact, abs=1e-10) and error < 1e-10
    for other, q in (
        ("weibull", [0.4, 1.0]),
        ("gamma", [0.5, 1.0]),
        ("beta", [0.2, 3.0]),
        ("log_student_t", [0, 1, 3]),
    ):
        assert np.isposinf(log_inner_products("weibull", np.array([[0.5, 1.0]]), other, np.array([q]))[0]).all()
    rayleigh = log_inner_products("weibull", np.array([[2.0, 1.0]]), "uniform", np.array([[0.5, 1.5]]))[0][0, 0]
    assert rayleigh == pytest.approx(np.log(gammaincc(1.0, 0.25) - gammaincc(1.0, 2.25)), abs=1e-14)


@pytest.mark.parametrize("row", [[1.4, 3.5], [2.0, 1.0], [3.0, 0.5], [4.2, 1.5], [20.0, 2.0]])
def test_derivatives_over_boxes(row):
    """Within the ranges at fifty points of boxes above 0, and far out, where nothing is left."""
    (k, scale), rng, out = row, np.random.default_rng(0), np.empty(4)
    p = np.array([k, scale, np.log(k), 0.0])
    for _ in range(60):
        low, high = np.sort(scale * rng.choice([0.0, 40.0, *(1.5 * rng.random(8))], 2, replace=False))
        derivative_ranges(WEIBULL, p, low, high, 0.3, out)
        x = rng.uniform(max(low, 1e-6), high, 50)
        s = (x / scale) ** k
        f = np.exp(stats.weibull_min(k, scale=scale).logpdf(x) - 0.3)
        some = f > 0.0
        x, s, f = x[some], s[some], f[some]
        first = f * (k - 1.0 - k * s) / x
        second = f / x**2 * (k**2 * s**2 - 3 * k * (k - 1) * s + (k - 1) * (k - 2))
        slack = 1e-9 * (1.0 + np.abs(second).max(initial=0.0))
        assert out[0] - slack <= first.min(initial=np.inf) and first.max(initial=-np.inf) <= out[1] + slack
        assert out[2] - slack <= second.min(initial=np.inf) and second.max(initial=-np.inf) <= out[3] + slack
        assert not np.isnan(out).any()


def test_what_a_leaf_cannot_do_is_named():
    with pytest.raises(ValueError, match=r"\['weibull'\] must have shapes above 1 .* towards 0; got 0.7 at row 0"):
        LEAF.with_parameters(np.zeros(0), {"weibull": [[0.7, 2.0]]}).mpe()
    with pytest.raises(ValueError, match="'a' has best shape inf and scale 2, from which no weibull leaf can be made"):
        ps.fit_em(LEAF, np.full((3, 1), 2.0))
    with pytest.raises(ValueError, match="batch_size must be None with weibull leaves, which need all rows at once"):
        ps.fit_em(LEAF, np.array([[1.0], [2.0]]), batch_size=1)
    with pytest.raises(ValueError, match="row 1 has density 0 under the start, no leaf of column 'a' can take 0"):
        ps.fit_em(LEAF, np.array([[1.0], [0.0], [2.0]]))
    best = LEAF.with_parameters(np.zeros(0), {"weibull": [[3.0, 2.0]]}).mpe()
    assert best.certified and best.value["a"].item() == pytest.approx(2 * (2 / 3) ** (1 / 3), abs=1e-6)


@pytest.mark.parametrize("shape", [0.05, 1.0, 3.0, 500.0])
def test_a_weighted_leaf_is_where_the_likelihood_is_flat(shape):
    """Its derivatives in shape and scale vanish there, up to the rounding of sums; equal values have no shape."""
    rng = np.random.default_rng(1)
    y, weight = np.log(rng.weibull(shape, 40)) + 3.0, rng.random(40) * (rng.random(40) < 0.8)
    for rows in (0.0, 2.5):
        k, scale = weibull_leaf(y, weight, rows, 1.7)
        t = k * (y - np.log(scale))
        assert weight @ np.expm1(t) == pytest.approx(0.0, abs=1e-10)
        assert weight @ (1.0 - t * np.expm1(t)) + rows * (1.0 - k / 1.7) == pytest.approx(0.0, abs=1e-9)
    assert np.isinf(weibull_leaf(np.full(3, 0.7), np.ones(3))[0])
    assert weibull_leaf(np.full(3, 0.7), np.ones(3), 1.0, 2.0)[0] == pytest.approx(8.0)  # 4 / k = 1 / 2
    assert weibull_leaf(np.array([0.0, 0.7]), np.full(2, 1e-306), 1.0, 2.0)[0] == pytest.approx(2.0)


def test_planted_leaves_come_back_and_no_step_goes_down():
    """Five standard errors from some 800 of 2,000 rows, a tenth missing: 15 % of a shape and less of a scale."""
    rng = np.random.default_rng(3)
    first = rng.random(2_000) < 0.4
    x = np.where(first, 2.0 * rng.weibull(4.0, 2_000), 9.0 * rng.weibull(1.5, 2_000))
    rows = np.column_stack([x, rng.laplace(first * 6.0)])
    rows[rng.random(rows.shape) < 0.1] = np.nan
    circuit = mixture(("weibull", "laplace"))
    fit = ps.fit_em(circuit, rows, restarts=2, random_seed=0)
    assert np.diff(fit.objective).min() >= -1e-9 * np.abs(fit.objective).max() and fit.converged
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for seed in range(4):
            part = rows[seed * 20 : seed * 20 + 20]
            few = ps.fit_em(circuit, part, restarts=1, max_steps=25, leaf_prior_rows=0.1, random_seed=seed)
            assert np.diff(few.objective).min() >= -1e-9 * np.abs(few.objective).max()
    found = np.array(sorted(fit.leaf_parameters["weibull"].tolist()))
    np.testing.assert_allclose(found[:, 0], [1.5, 4.0], rtol=0.15)
    np.testing.assert_allclose(found[:, 1], [9.0, 2.0], rtol=0.15)
    one = ps.fit_em(LEAF, rows[:200, :1], restarts=1).leaf_parameters["weibull"][0]
    x = rows[:200, 0][~np.isnan(rows[:200, 0])]
    np.testing.assert_allclose(one, np.array(stats.weibull_min.fit(x, floc=0))[[0, 2]], rtol=1e-3)


@pytest.mark.parametrize("family", ["gamma", "weibull"])
def test_draws_are_in_the_support(family):
    """Shapes so small that nearly half of the draws, or more, round to 0: these stand at the least positive number."""
    circuit = ps.circuits.complete_tree(["x"], n_children=1).circuit({"x": [family]})
    parameters = {"log_weights": np.zeros(circuit.n_sum_edges), "leaf_parameters": {family: np.array([[5e-4, 1.0]])}}
    drawn = circuit.with_parameters(**parameters).sample(200, random_seed=1).to_numpy(copy=True)
    assert drawn.min() == 5e-324 and np.isfinite(drawn).all()
    assert np.isfinite(circuit.with_parameters(**parameters).log_density(drawn).values).all()
    flat = flatten(circuit, parameters["leaf_parameters"])
    packed = pack(compile_circuit(circuit).layout, 1, flat.begin, flat.width)
    rng = np.random.default_rng(1)
    compiled = np.array([draw_row(rng, packed, parameters["log_weights"], flat.theta) for _ in range(200)])
    assert compiled.min() == 5e-324 and np.isfinite(compiled).all()


def test_rows_that_a_leaf_excludes_do_not_move_it():
    """Equal values among others: a steep leaf at the former. No step loses, and the end has no slope in the scales.

    The slope is that of the formula of the density; a flow of 1e-308 from the rows that the steep leaf excludes, where
    its hazard is larger than 1e308, would have the leaf's shape fall back to 2.
    """
    rng = np.random.default_rng(0)
    x = np.concatenate([np.full(500, 1.0), rng.gamma(3.0, 0.4, 500)])
    circuit = ps.circuits.complete_tree(["x"], n_children=2).circuit({"x": "weibull"})
    fit = ps.fit_em(circuit, x[:, None], restarts=1, random_seed=0, tolerance=1e-7, progressbar=False)
    assert fit.converged and fit.objective[-1] > 1411.0
    assert np.diff(fit.objective).min() >= -1e-9 * np.abs(fit.objective).max()
    (k, scale), weight = fit.leaf_parameters["weibull"].T, np.exp(fit.log_weights)
    assert k.max() > 100.0
    log_hazard = k[:, None] * np.log(x / scale[:, None])
    hazard = np.exp(np.minimum(log_hazard, 700.0))
    densities = weight[:, None] * np.exp(np.log(k)[:, None] - np.log(x) + log_hazard - hazard)
    assert fit.log_likelihood == pytest.approx(np.log(densities.sum(axis=0)).sum(), rel=1e-9)
    share = densities / densities.sum(axis=0)
    for s, t in zip(share, hazard, strict=True):
        assert s @ (t - 1.0) == pytest.approx(0.0, abs=1e-3)  # the tolerance's rest; one row is worth up to 1
