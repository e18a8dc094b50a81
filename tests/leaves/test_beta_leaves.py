"""Beta leaves where they differ from others: both ends open, poles there, and values in log odds."""

import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import betaln, digamma, gammaln, logsumexp

import pymc_spn as ps
from pymc_spn.circuits.evaluation.density import compile_circuit
from pymc_spn.circuits.evaluation.packed_layout import pack, rows_and_gradient_of
from pymc_spn.circuits.evaluation.parameters import flatten
from pymc_spn.densities.free_rows import typical_row
from pymc_spn.leaves.beta import beta_shapes
from pymc_spn.leaves.family_codes import BETA
from pymc_spn.leaves.leaf_events import log_interval
from pymc_spn.leaves.leaf_inner_products import log_inner_products
from pymc_spn.leaves.leaf_products import leaf_products
from pymc_spn.maxima.box_leaves import derivative_ranges
from tests.modes import PLAIN
from tests.shared_circuits import LEAVES_BY_FAMILY, build, mixture

LEAF = build([("leaf", 0, "beta")], ["a"], ("beta",))
SHAPES = ([2.5, 4.0], [0.3, 0.02], [1.0, 1.0], [900.0, 40.0])
INSIDE = np.array([5e-324, 1e-12, 0.2, 0.5, 0.97, 1.0 - 1e-9, 1.0 - 2.0**-53])


@pytest.mark.parametrize("row", SHAPES)
def test_densities_up_to_the_ends_which_are_outside(row):
    """One by one and in blocks; exponents of some hundred leave 1e-12 of the logs."""
    a, b = row
    expected = (a - 1) * np.log(INSIDE) + (b - 1) * np.log1p(-INSIDE) - betaln(a, b)
    for rows in (INSIDE, np.tile(INSIDE, 2)):
        found = LEAF.with_parameters(np.zeros(0), {"beta": [row]}).log_density(rows[:, None]).values
        np.testing.assert_allclose(found, np.resize(expected, rows.size), rtol=1e-12, atol=1e-12)
    outside = LEAF.with_parameters(np.zeros(0), {"beta": [row]}).log_density([[0.0], [1.0], [-0.1], [1.1], [np.inf]])
    assert np.all(np.isneginf(outside))
    drawn = LEAF.with_parameters(np.zeros(0), {"beta": [row]}).sample(2_000, random_seed=1).to_numpy()
    assert np.isfinite(LEAF.with_parameters(np.zeros(0), {"beta": [row]}).log_density(drawn).values).all()
    moments = LEAF.with_parameters(np.zeros(0), {"beta": [row]}).moments([[np.nan]])
    exact = stats.beta(a, b)
    np.testing.assert_allclose(
        [moments["mean"].values[0, 0], moments["covariance"].values[0, 0, 0]], [exact.mean(), exact.var()]
    )


@pytest.mark.parametrize("row", SHAPES)
def test_gradients_are_those_of_the_formula(row):
    a, b = row
    flat = flatten(LEAF, {"beta": np.array([row])})
    packed = pack(compile_circuit(LEAF).layout, 1, flat.begin, flat.width)
    for x in INSIDE[1:-1]:
        _, _, of_theta, of_value = rows_and_gradient_of(packed, np.array([[x]]), np.zeros(0), flat.theta, np.ones(1))
        both = digamma(a + b)
        exact = [np.log(x) - digamma(a) + both, np.log1p(-x) - digamma(b) + both]
        np.testing.assert_allclose(of_theta, exact, rtol=1e-9, atol=1e-9)
        assert of_value[0, 0] == pytest.approx((a - 1) / x - (b - 1) / (1 - x), rel=1e-12, abs=1e-12)
    for outside in (0.0, 1.0, 2.0):
        _, *gradients = rows_and_gradient_of(packed, np.array([[outside]]), np.zeros(0), flat.theta, np.ones(1))
        assert not any(g.any() for g in gradients)


def test_tails_and_narrow_intervals_keep_their_digits():
    """For whole shapes a probability is a sum of binomial ones: P(X <= x) = P(Binomial(a + b - 1, x) >= a)."""

    def log_below(a, b, x):
        return logsumexp(stats.binom.logpmf(np.arange(a, a + b), a + b - 1, x))

    def log_above(a, b, x):
        return logsumexp(stats.binom.logpmf(np.arange(a), a + b - 1, x))

    for a, b, x in ((40, 60, 1e-9), (4000, 6000, 0.2), (4000, 6000, 0.3), (3, 2, 1e-150)):  # 40 standard deviations
        assert log_interval("beta", [a, b], -1.0, x) == pytest.approx(log_below(a, b, x), rel=1e-11)
    for a, b, x in ((40, 60, 1 - 1e-9), (4000, 6000, 0.6), (4000, 6000, 0.45)):
        assert log_interval("beta", [a, b], x, 7.0) == pytest.approx(log_above(a, b, x), rel=1e-11)
        exact = log_above(a, b, x) + np.log1p(-np.exp(log_above(a, b, 0.5 + 0.5 * x) - log_above(a, b, x)))
        assert log_interval("beta", [a, b], x, 0.5 + 0.5 * x) == pytest.approx(exact, rel=1e-11)
    narrow = stats.beta(4, 2).logpdf(0.3) + np.log(1e-9)
    assert log_interval("beta", [4.0, 2.0], 0.3 - 0.5e-9, 0.3 + 0.5e-9) == pytest.approx(narrow, abs=1e-6)
    assert log_interval("beta", [0.5, 0.2], -np.inf, np.inf) == 0.0
    assert log_interval("beta", [[0.5, 0.2]] * 2, [1.0, -3.0], [2.0, 0.0]).tolist() == [-np.inf] * 2


@pytest.mark.parametrize("other", [f for f in LEAVES_BY_FAMILY if f != "uniform"])
def test_inner_products_of_a_flat_leaf_are_probabilities(other):
    """Beta(1, 1) is uniform from 0 to 1; leaves far outside, narrow ones, and ones with poles at 0."""
    further = {"gaussian": [[5.0, 0.1], [0.7, 1e-5], [-40.0, 1.0]], "triangular": [[0.9, 0.9, 0.9001]]}
    further |= {"laplace": [[9.0, 0.01]], "beta": [[0.1, 0.02]], "gamma": [[0.05, 9.0]]}
    q = LEAVES_BY_FAMILY[other] + further.get(other, [])
    found, error = log_inner_products("beta", np.array([[1.0, 1.0]]), other, np.array(q))
    exact = log_interval(other, np.array(q), 0.0, 1.0)
    np.testing.assert_allclose(found[0], exact, rtol=0, atol=max(1e-10, error))
    assert error < 1e-9


def test_inner_products_with_poles():
    """At 0 against Gamma(a, b): a confluent hypergeometric function, by its series; and where there is no integral."""
    (a, b), (shape, rate) = (0.4, 0.3), (0.8, 2.0)
    k = np.arange(60.0)
    ratios = np.concatenate([[0.0], np.cumsum(np.log((a + shape - 1 + k) / (a + shape - 1 + b + k) * rate / (k + 1)))])
    series = np.sum(np.exp(ratios) * (-1.0) ** np.arange(61))
    exact = betaln(a + shape - 1, b) - betaln(a, b) + shape * np.log(rate) - gammaln(shape) + np.log(series)
    found, error = log_inner_products("beta", np.array([[a, b]]), "gamma", np.array([[shape, rate]]))
    assert found[0, 0] == pytest.approx(exact, abs=1e-11) and error == 1e-11
    infinite = [("beta", [0.4, 2.0]), ("gamma", [0.6, 1.0]), ("log_student_t", [0.0, 1.0, 3.0])]
    for other, q in infinite:
        assert np.isposinf(log_inner_products("beta", np.array([[0.4, 0.3]]), other, np.array([q]))[0]).all()
    assert np.isposinf(log_inner_products("beta", np.array([[3.0, 0.3]]), "beta", np.array([[2.0, 0.7]]))[0]).all()
    family, product = leaf_products("beta", np.array([[2.0, 0.7]]), "beta", np.array([[3.0, 1.5]]))
    assert family == "beta" and product == pytest.approx(np.array([[4.0, 1.2]]))


@pytest.mark.parametrize("row", [[1.4, 3.5], [3.0, 3.0], [2.0, 2.0], [3.5, 2.1], [40.0, 7.0], [5.0, 3.0]])
def test_derivatives_over_boxes(row):
    """Within the ranges at fifty points of boxes inside, at the ends and across them."""
    (k, m), rng = np.array(row) - 1.0, np.random.default_rng(0)
    mode = k / (k + m)
    p, out = np.array([k, m, stats.beta(*row).logpdf(mode), mode]), np.empty(4)
    for _ in range(60):
        low, high = np.sort(rng.choice([0.0, 1.0, -0.1, 1.2, *rng.random(8)], 2, replace=False))
        derivative_ranges(BETA, p, low, high, 0.3, out)
        x = rng.uniform(max(low, 1e-9), min(high, 1 - 1e-9), 50)
        f, g = np.exp(stats.beta(*row).logpdf(x) - 0.3), k / x - m / (1 - x)
        first, second = f * g, f * (g * g - k / x**2 - m / (1 - x) ** 2)
        slack = 1e-9 * (1.0 + np.abs(second).max())
        assert out[0] - slack <= first.min() and first.max() <= out[1] + slack
        assert out[2] - slack <= second.min() and second.max() <= out[3] + slack
    derivative_ranges(BETA, p, 0.3, 0.3, 0.0, out)
    assert out[0] == out[1] and out[2] == pytest.approx(out[3])


def test_a_leaf_that_does_not_fall_towards_an_end_has_no_mode():
    with pytest.raises(ValueError, match=r"\['beta'\] must have shapes above 1 .* towards 0 and 1; got 0.7 at row 0"):
        LEAF.with_parameters(np.zeros(0), {"beta": [[2.0, 0.7]]}).mpe()
    best = LEAF.with_parameters(np.zeros(0), {"beta": [[3.0, 2.0]]}).mpe()
    assert best.certified and best.value["a"].item() == pytest.approx(2 / 3, abs=1e-6)


def test_shapes_from_mean_logs():
    """Newton's method undoes the digamma functions, from 1e-3 to 1e6; rounding grows with the larger shape."""
    a, b = (10.0 ** np.stack(np.meshgrid(np.arange(-3, 7), np.arange(-3, 7)))).reshape(2, -1)
    found = beta_shapes(digamma(a) - digamma(a + b), digamma(b) - digamma(a + b))
    worst = 1e-9 + 2e-12 * np.maximum(a, b)
    assert np.all(np.abs(found / np.column_stack([a, b]) - 1.0) < worst[:, None])
    assert np.isinf(beta_shapes(np.log([0.25]), np.log([0.75]))).all()


def test_planted_leaves_come_back_and_no_step_goes_down():
    """Five standard errors of shapes from some 800 of 2,000 rows: a quarter of their size."""
    rng = np.random.default_rng(3)
    first = rng.random(2_000) < 0.4
    rows = np.column_stack([np.where(first, rng.beta(8, 2, 2_000), rng.beta(2, 6, 2_000)), rng.normal(first * 4.0)])
    rows[rng.random(rows.shape) < 0.1] = np.nan
    circuit = mixture(("beta", "gaussian"))
    fit = ps.fit_em(circuit, rows, restarts=2, random_seed=0)
    assert np.diff(fit.objective).min() >= -1e-9 * np.abs(fit.objective).max() and fit.converged
    found = sorted(fit.leaf_parameters["beta"].tolist())
    np.testing.assert_allclose(found, [[2.0, 6.0], [8.0, 2.0]], rtol=0.25)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        quick = ps.fit_em(circuit, rows[:300], restarts=1, random_seed=0, batch_size=100, max_steps=30)
        one = ps.fit_em(LEAF, rows[:200, :1], restarts=1)
    assert np.diff(quick.objective[1:]).min() >= -1e-9 * np.abs(quick.objective).max()
    x = rows[:200, 0][~np.isnan(rows[:200, 0])]
    np.testing.assert_allclose(one.leaf_parameters["beta"][0], stats.beta.fit(x, floc=0, fscale=1)[:2], rtol=1e-6)
    with pytest.raises(ValueError, match=r"'a' has mean log -1.38629 and mean log of the rest .*, .* no beta leaf"):
        ps.fit_em(LEAF, np.full((3, 1), 0.25))
    with pytest.raises(ValueError, match="row 1 has density 0 under the start, no leaf of column 'a' can take 1"):
        ps.fit_em(LEAF, np.array([[0.2], [1.0], [0.3]]))


def test_a_share_that_is_not_observed_moves_on_its_log_odds():
    circuit = build(
        [("product", (1, 2, 3)), ("leaf", 0, "beta"), ("leaf", 1, "gamma"), ("leaf", 2, "gaussian")],
        ["s", "g", "n"], ("beta", "gamma", "gaussian"),
    )  # fmt: skip
    parameters = {"beta": [[2.0, 3.0]], "gamma": [[3.0, 1.0]], "gaussian": [[1.0, 2.0]]}
    with pm.Model() as model:
        x = ps.CircuitDensity("x", circuit, np.zeros(0), parameters)
    (value,) = model.value_vars
    y = np.array([0.7, -0.4, 0.2])
    share = 1.0 / (1.0 + np.exp(-y[0]))
    row = np.array([[share, np.exp(y[1]), y[2]]])
    exact = (
        circuit.with_parameters(np.zeros(0), parameters).log_density(row).values[0]
        + np.log(share * (1.0 - share))
        + y[1]
    )
    assert model.compile_logp(mode=PLAIN)({value.name: y}) == pytest.approx(exact, abs=1e-12)
    there = model.rvs_to_transforms[x].forward(pt.as_tensor(row[0])).eval(mode=PLAIN)
    np.testing.assert_allclose(there, y, atol=1e-12)
    typical = typical_row(circuit, np.array([2.0, 3.0, 3.0, 1.0, 1.0, 2.0]))
    np.testing.assert_allclose(typical.eval(mode=PLAIN), [0.4, 3.0, 1.0])
