import json
import math
import subprocess
import sys
from dataclasses import asdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from pymc_spn.leaves.binomial import BetaTrials, Binomial
from pymc_spn.leaves.families import (
    FAMILIES,
    Bernoulli,
    Categorical,
    DirichletLevels,
    Exponential,
    GammaRate,
    Gaussian,
    LeafConstants,
    NormalGamma,
    Poisson,
)
from pymc_spn.leaves.family_codes import CATEGORICAL, EXPONENTIAL, POISSON
from pymc_spn.leaves.geometric import BetaProbability, Geometric
from pymc_spn.leaves.leaf_events import log_interval
from pymc_spn.leaves.leaf_predictives import log_masses
from pymc_spn.leaves.log_normal import LogNormal
from pymc_spn.leaves.tail_probabilities import log_betainc, log_difference, log_gamma_ratio

REAL = np.array([1.7, -0.4, 2.2, 0.9])
WAITS = np.array([0.3, 2.1, 0.05, 1.4])
COUNTS = np.array([0.0, 3.0, 1.0, 7.0])
LEVELS = np.array([2.0, 0.0, 2.0, 1.0])

# (family, prior, data, levels); small shapes, so that heavy tails are there
CASES = {
    "gaussian": (Gaussian, NormalGamma(0.5, 0.3, 1.5, 0.8), REAL, 0),
    "exponential": (Exponential, GammaRate(2.5, 1.2), WAITS, 0),
    "log_normal": (LogNormal, NormalGamma(0.1, 0.4, 1.5, 0.6), WAITS, 0),
    "poisson": (Poisson, GammaRate(1.7, 0.6), COUNTS, 0),
    "geometric": (Geometric, BetaProbability(2.3, 1.6), COUNTS, 0),
    "binomial": (Binomial(12), BetaTrials(1.4, 2.3, 12.0), COUNTS, 0),
    "bernoulli": (Bernoulli, DirichletLevels(np.array([0.7, 1.6])), np.array([1.0, 0.0, 1.0, 1.0]), 2),
    "categorical": (Categorical, DirichletLevels(np.array([0.4, 1.5, 0.9])), LEVELS, 3),
}
ON_COUNTS = ("poisson", "geometric", "binomial")
RATES = {"exponential": lambda x, r: r * math.exp(-r * x), "poisson": lambda x, r: stats.poisson.pmf(x, r)}


def gamma_density(x, shape, rate):
    return math.exp(shape * math.log(rate) + (shape - 1) * math.log(x) - rate * x - math.lgamma(shape)) if x else 0.0


def integrated_likelihood(name, prior, data):
    """Integral of likelihood times prior over the leaf's parameters, by quadrature only."""
    if name == "log_normal":  # carried over to the logs, each value with its Jacobian
        logs = np.log(data)
        return integrated_likelihood("gaussian", prior, logs) * math.exp(-logs.sum())
    if name == "geometric":
        log_norm = math.lgamma(prior.alpha + prior.beta) - math.lgamma(prior.alpha) - math.lgamma(prior.beta)
        return integrate.quad(
            lambda p: math.exp(
                log_norm + (prior.alpha + len(data) - 1) * math.log(p) + (prior.beta + data.sum() - 1) * math.log1p(-p)
            ),
            0,
            1,
            epsabs=0,
            epsrel=1e-9,
        )[0]
    if name == "binomial":
        return integrate.quad(
            lambda p: stats.binom.pmf(data, prior.trials, p).prod() * stats.beta.pdf(p, prior.alpha, prior.beta),
            0,
            1,
            epsabs=0,
            epsrel=1e-9,
        )[0]
    if name == "gaussian":
        # Gauss-Legendre in (sqrt(tau), mu), where the integrand is smooth; twice the nodes change it by 3e-14
        u, du = np.polynomial.legendre.leggauss(120)
        root, droot = (math.sqrt(60.0) / 2 * part[:, None] for part in (u + 1, du))
        tau, sd = root**2, 1 / root
        u, du = np.polynomial.legendre.leggauss(240)
        span = 9 * sd / math.sqrt(min(1.0, prior.rho)) + np.ptp([prior.mu, *data])
        mu = np.mean([prior.mu, *data]) + span * u
        inner = stats.norm.pdf(mu, prior.mu, sd / math.sqrt(prior.rho))
        for x in data:
            inner = inner * stats.norm.pdf(x, mu, sd)
        outer = stats.gamma.pdf(tau, prior.a, scale=1 / prior.b) * 2 * root * droot
        return float((inner * span * du * outer).sum())
    if name in RATES:
        return integrate.quad(
            lambda r: math.prod(RATES[name](x, r) for x in data) * gamma_density(r, prior.alpha, prior.beta),
            0,
            np.inf,
            epsabs=0,
            epsrel=1e-8,
            limit=200,
        )[0]
    alpha, counts = prior.alpha, np.bincount(data.astype(int), minlength=prior.alpha.size)
    norm = math.exp(math.lgamma(alpha.sum()) - sum(math.lgamma(a) for a in alpha))
    # Dirichlet by its sticks: p0 = v, p1 = (1 - v) w, p2 = (1 - v) (1 - w), the ends as weights of the rule
    powers = alpha + counts
    result, rest = norm, powers.sum()
    for a in powers[:-1]:
        rest -= a
        result *= integrate.quad(lambda v: 1.0, 0, 1, weight="alg", wvar=(a - 1, rest - 1))[0]
    return result


def after(name):
    family, prior, data, n_levels = CASES[name]
    return family, family.posterior(prior, family.statistics(data, n_levels))


@pytest.mark.parametrize("name", CASES)
def test_marginal_likelihood_is_the_integral(name):
    family, prior, data, n_levels = CASES[name]
    if name in ("gaussian", "log_normal"):
        data = data[:2]
    got = family.log_marginal(prior, family.statistics(data, n_levels))
    assert math.exp(got) == pytest.approx(integrated_likelihood(name, prior, data), rel=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_predictive_is_the_integral_of_the_likelihood(name):
    """Predictive of the posterior = ratio of two integrals of likelihood times prior."""
    family, prior, data, n_levels = CASES[name]
    seen, new = data[:1], data[1:2] if name in ("gaussian", "log_normal") else data[1:3]
    params = family.posterior(prior, family.statistics(seen, n_levels))
    for x in new:
        both = integrated_likelihood(name, prior, np.append(seen, x))
        expected = both / integrated_likelihood(name, prior, seen)
        assert math.exp(family.predictive_log_density(params, x)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_marginal_likelihood_is_the_product_of_sequential_predictives(name):
    family, prior, data, n_levels = CASES[name]
    total, params = 0.0, prior
    for x in data:
        total += family.predictive_log_density(params, x)
        params = family.posterior(params, family.statistics(np.array([x]), n_levels))
    assert family.log_marginal(prior, family.statistics(data, n_levels)) == pytest.approx(total, abs=1e-12)
    at_once = family.posterior(prior, family.statistics(data, n_levels))
    for one, other in zip(params, at_once, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


@given(
    data=st.lists(st.floats(-5, 5), min_size=0, max_size=8),
    offset=st.sampled_from([0.0, 1e3, 1e6]),
    a=st.floats(0.1, 1e4),
)
def test_gaussian_does_not_cancel_far_from_zero(data, offset, a):
    """Raw sums would lose all digits at an offset of 1e6; the data is moved by exact binary fractions."""
    x = np.round(np.array(data) * 1024) / 1024
    near, far = NormalGamma(0.25, 0.5, a, 0.5 * a), NormalGamma(0.25 + offset, 0.5, a, 0.5 * a)
    here, there = Gaussian.statistics(x), Gaussian.statistics(x + offset)
    assert there.ssd == pytest.approx(here.ssd, rel=1e-12, abs=1e-12)
    expected = Gaussian.log_marginal(near, here)
    assert Gaussian.log_marginal(far, there) == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_no_data_changes_nothing():
    for family, prior, data, n_levels in CASES.values():
        empty = family.statistics(np.full(3, np.nan), n_levels)
        for one, other in zip(family.posterior(prior, empty), prior, strict=True):
            np.testing.assert_array_equal(one, other)
        assert family.log_marginal(prior, empty) == 0.0
        gaps = family.statistics(np.append(data, np.nan), n_levels)
        assert np.array_equal(np.ravel(gaps), np.ravel(family.statistics(data, n_levels)))


def test_table_8_gaussian_scale_as_printed_is_wrong():
    """scale^2 = (1 + 1 / rho) b / a; the paper prints 2 (1 + 1 / rho) b, which is 2 a times too large."""
    prior, x = NormalGamma(0.4, 2.0, 2.3, 1.1), 0.9
    by_integration = integrated_likelihood("gaussian", prior, np.array([x]))
    printed = stats.t.pdf(x, 2 * prior.a, prior.mu, math.sqrt(2 * (1 + 1 / prior.rho) * prior.b))
    assert math.exp(Gaussian.predictive_log_density(prior, x)) == pytest.approx(by_integration, rel=1e-7)
    assert abs(printed / by_integration - 1) > 0.3
    scale = math.sqrt((1 + 1 / prior.rho) * prior.b / prior.a)
    assert stats.t.pdf(x, 2 * prior.a, prior.mu, scale) == pytest.approx(by_integration, rel=1e-7)
    assert Gaussian.predictive_scale(prior) == pytest.approx(scale)


def test_predictives_are_the_named_distributions():
    x = np.array([0.0, 0.2, 1.0, 5.0, 40.0])
    lomax = stats.lomax.logpdf(x, 2.5, scale=1.2)
    np.testing.assert_allclose(Exponential.predictive_log_density(GammaRate(2.5, 1.2), x), lomax, rtol=1e-12)
    k = np.array([0.0, 1.0, 4.0, 30.0])
    negative_binomial = stats.nbinom.logpmf(k, 1.7, 0.6 / 1.6)
    np.testing.assert_allclose(Poisson.predictive_log_density(GammaRate(1.7, 0.6), k), negative_binomial, rtol=1e-12)
    off = np.array([-1.0, 1.5, np.inf])
    assert np.all(np.isneginf(Poisson.predictive_log_density(GammaRate(1.7, 0.6), off)))
    assert np.isneginf(Exponential.predictive_log_density(GammaRate(2.5, 1.2), -0.1))
    levels = DirichletLevels(np.array([1.0, 3.0]))
    got = Categorical.predictive_log_density(levels, np.array([0.0, 1.0, 2.0, -1.0, 0.5]))
    np.testing.assert_allclose(got, [np.log(0.25), np.log(0.75), -np.inf, -np.inf, -np.inf])


@pytest.mark.parametrize("name", CASES)
def test_missing_values_stay_missing(name):
    family, params = after(name)
    for f in (family.predictive_log_density, family.predictive_cdf):
        assert np.isnan(f(params, np.nan))
    theta = family.draw_parameters(params, np.random.default_rng(1))
    assert np.isnan(family.leaf_log_density(theta, np.nan))


# -- cdf, intervals, sets, mode -----------------------------------------------------------------------


def support_grid(name):
    return {
        "gaussian": np.array([-30.0, -1.0, 0.0, 0.9, 1.1, 4.0, 100.0]),
        "exponential": np.array([-1.0, 0.0, 0.01, 0.7, 3.0, 50.0]),
        "log_normal": np.array([-1.0, 0.0, 0.01, 0.7, 3.0, 50.0]),
        "poisson": np.array([-1.0, 0.0, 0.5, 1.0, 4.0, 4.5, 60.0]),
        "geometric": np.array([-1.0, 0.0, 0.5, 1.0, 4.0, 4.5, 60.0]),
        "binomial": np.array([-1.0, 0.0, 0.5, 1.0, 4.0, 4.5, 12.0, 60.0]),
        "bernoulli": np.array([-0.5, 0.0, 0.3, 1.0, 2.0]),
        "categorical": np.array([-0.5, 0.0, 0.3, 1.0, 2.0, 7.0]),
    }[name]


def mass_by_density(name, density, low, high):
    """Integral or sum of a density over the closed interval."""
    if name == "log_normal":  # on the logs, where the density is smooth at 0
        ends = [math.log(v) if v > 0 else -np.inf for v in (low, high)]
        on_logs = lambda y: density(math.exp(y)) + y if -700 < y < 700 else -np.inf  # noqa: E731
        return mass_by_density("gaussian", on_logs, *ends) if ends[1] > ends[0] else 0.0
    if name in ("gaussian", "exponential"):
        start = max(low, 0.0) if name == "exponential" else low
        if not high > start:
            return 0.0
        if name == "gaussian" and start < 0.9 < high:  # quad would miss the centre in a long interval
            return mass_by_density(name, density, start, 0.9) + mass_by_density(name, density, 0.9, high)
        return integrate.quad(lambda x: math.exp(density(x)), start, high, epsabs=1e-13, epsrel=1e-11, limit=300)[0]
    last = math.floor(min(high, 300.0))
    return sum(math.exp(density(float(k))) for k in range(max(math.ceil(low), 0), last + 1))


@pytest.mark.parametrize("name", CASES)
def test_cdf_is_the_integral_of_the_density(name):
    family, params = after(name)
    theta = family.draw_parameters(params, np.random.default_rng(4))
    below = -np.inf if name == "gaussian" else 0.0
    for x in support_grid(name):
        expected = mass_by_density(name, lambda v: family.predictive_log_density(params, v), below, x)
        assert family.predictive_cdf(params, x) == pytest.approx(expected, rel=1e-8, abs=1e-11)
        expected = mass_by_density(name, lambda v: family.leaf_log_density(theta, v), below, x)
        assert np.exp(log_interval(name, theta, -np.inf, x)) == pytest.approx(expected, rel=1e-8, abs=1e-11)
    for x, value in ((-np.inf, 0.0), (np.inf, 1.0)):
        assert family.predictive_cdf(params, x) == pytest.approx(value, abs=1e-15)
        assert np.exp(log_interval(name, theta, -np.inf, x)) == pytest.approx(value, abs=1e-15)


@pytest.mark.parametrize("name", CASES)
def test_intervals_are_closed_and_add_up(name):
    family, params = after(name)
    grid = support_grid(name)
    for low in grid:
        for high in grid:
            expected = mass_by_density(name, lambda v: family.predictive_log_density(params, v), low, high)
            got = family.predictive_interval(params, low, high)
            assert got == pytest.approx(expected, rel=1e-8, abs=1e-12)
    step = 0.5 if name in (*ON_COUNTS, "bernoulli", "categorical") else 0.0  # cut between the counts
    cuts = (
        np.array([-np.inf, -0.1, 0.4, 1.3, 20.0, np.inf]) if not step else np.array([-np.inf, 0.5, 1.5, 20.5, np.inf])
    )
    pieces = family.predictive_interval(params, cuts[:-1], cuts[1:])
    assert pieces.sum() == pytest.approx(1.0, abs=1e-14)
    assert family.predictive_interval(params, -np.inf, np.inf) == pytest.approx(1.0, abs=1e-15)
    assert family.predictive_log_interval(params, 3.0, 2.0) == -np.inf


@pytest.mark.parametrize("dof", [0.4, 3.7, 40.0, 4_000.0])
@pytest.mark.parametrize(("low", "high"), [(3, 9), (-9, -3), (30, 31), (60, np.inf), (-np.inf, -60), (5, 5 + 1e-9)])
def test_gaussian_intervals_keep_their_digits_in_the_tails(dof, low, high):
    """Against quadrature of the log density with its largest value taken out."""
    params = NormalGamma(0.0, 1.0, dof / 2, dof / 4)  # scale 1
    assert Gaussian.predictive_scale(params) == pytest.approx(1.0)
    near, far = sorted((abs(low), abs(high)))
    top = Gaussian.predictive_log_density(params, float(near))
    # x = near + s u with the decay length s of the density at the near end; far infinite in u's own variable
    s = min(far - near, (dof + near**2) / ((dof + 1) * near))
    integral = integrate.quad(
        lambda u: math.exp(Gaussian.predictive_log_density(params, near + s * u) - top),
        0,
        (far - near) / s,
        epsabs=0,
        epsrel=1e-11,
        limit=400,
    )[0]
    expected = float(top) + math.log(s * integral)
    # 5 + 1e-9 is itself known to 1e-7 only of its distance from 5; the code uses the same rounded distance
    assert Gaussian.predictive_log_interval(params, low, high) == pytest.approx(expected, rel=1e-9, abs=1e-8)


def test_gaussian_cells_are_density_times_width_when_narrow():
    params = NormalGamma(0.3, 0.7, 2.0, 1.4)
    x = np.array([-40.0, -1.0, 0.3, 2.0, 1e4])
    got = Gaussian.predictive_log_interval(params, x, x + 1e-6)
    width = (x + 1e-6) - x
    middle = x + 0.5 * width
    np.testing.assert_allclose(got, Gaussian.predictive_log_density(params, middle) + np.log(width), rtol=0, atol=1e-12)
    assert np.isneginf(Gaussian.predictive_log_interval(params, 1.0, 1.0))


@pytest.mark.parametrize("width", [0.05, 0.24, 0.26, 1.0])
def test_gaussian_narrow_and_wide_rules_agree(width):
    """On both sides of the switch from quadrature to differences of the cdf."""
    for params in (NormalGamma(0.0, 1.0, 0.3, 0.15), NormalGamma(0.0, 1.0, 50.0, 25.0)):
        low = np.linspace(-3, 3, 61)
        got = Gaussian.predictive_interval(params, low, low + width)
        cdf = Gaussian.predictive_cdf(params, low + width) - Gaussian.predictive_cdf(params, low)
        np.testing.assert_allclose(got, cdf, rtol=1e-12, atol=2e-16)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 3), (100, 1_000), (2_000, np.inf), (40_000, np.inf), (200, 264), (400, 500)]
)
@pytest.mark.parametrize(("alpha", "beta"), [(1.7, 0.6), (0.3, 0.001), (400.0, 2.0), (30_000.0, 10.0)])
def test_poisson_intervals_keep_their_digits_in_the_tails(alpha, beta, low, high):
    """Against the sum of the masses, from the largest downwards, in logs."""
    params = GammaRate(alpha, beta)
    k = np.arange(low, min(high, 200_000) + 1.0)
    expected = special.logsumexp(Poisson.predictive_log_density(params, k))
    assert Poisson.predictive_log_interval(params, low, high) == pytest.approx(expected, rel=1e-10, abs=1e-9)


def test_poisson_single_counts_keep_their_digits():
    """One count of a wide distribution, where a difference of cdfs would lose six digits and more."""
    params = GammaRate(1e6, 1e-3)
    k = np.array([9.99e8, 1e9, 1.001e9])
    got = Poisson.predictive_log_interval(params, k, k)
    np.testing.assert_allclose(got, Poisson.predictive_log_density(params, k), rtol=1e-14)


def test_exponential_tail_is_exact():
    params = GammaRate(3.0, 2.0)
    assert np.isneginf(Exponential.predictive_log_interval(GammaRate(2.0, 1e5), 0.0, 5e-324))  # no warning
    got = Exponential.predictive_log_interval(params, 1e200, np.inf)
    assert got == pytest.approx(-3 * np.log1p(1e200 / 2.0), rel=1e-14)
    narrow = Exponential.predictive_interval(params, 1e6, 1e6 + 1e-3)
    width = (1e6 + 1e-3) - 1e6
    assert narrow == pytest.approx(width * math.exp(Exponential.predictive_log_density(params, 1e6)), rel=1e-8)


def test_interval_broadcasts():
    params = NormalGamma(np.zeros(3), np.ones(3), np.full(3, 2.0), np.ones(3))
    assert Gaussian.predictive_log_interval(params, np.zeros((2, 1)), np.ones((2, 1))).shape == (2, 3)
    assert Gaussian.predictive_cdf(params, 1.0).shape == (3,)
    rates = GammaRate(np.full(3, 2.0), np.ones(3))
    for family in (Exponential, Poisson):
        assert family.predictive_log_interval(rates, np.zeros((2, 1)), np.full((2, 1), 99.0)).shape == (2, 3)
    levels = DirichletLevels(np.ones((3, 4)))
    assert Categorical.predictive_interval(levels, np.zeros((2, 1)), np.ones((2, 1))).shape == (2, 3)
    assert Categorical.predictive_log_density(levels, np.zeros((2, 1))).shape == (2, 3)


def test_masses_of_values():
    """Where families meet: leaves of densities have no masses, values between counts have none."""
    params = GammaRate(np.array([1.7]), np.array([0.6]))
    x = np.array([0.0, 3.0, 9.0, 0.5])
    expected = np.append(stats.nbinom.logpmf([0, 3, 9], 1.7, 0.6 / 1.6), -np.inf)
    np.testing.assert_allclose(log_masses(POISSON, params, x)[0], expected, rtol=1e-12)
    levels = DirichletLevels(np.array([[1.0, 2.0, 1.0], [1.0, 1.0, 2.0]]))
    found = log_masses(CATEGORICAL, levels, np.array([0.0, 2.0]))
    np.testing.assert_allclose(np.exp(found), [[0.25, 0.25], [0.25, 0.5]])
    assert np.isneginf(log_masses(EXPONENTIAL, params, x)).all()


@pytest.mark.parametrize("name", CASES)
def test_mode_has_the_largest_density(name):
    family, params = after(name)
    top = family.predictive_log_density(params, family.predictive_mode(params))
    if name == "log_normal":  # without bound towards 0; the largest local maximum from some way on
        params = params._replace(b=0.3)
        top = family.predictive_log_density(params, family.predictive_mode(params))
    low = {"gaussian": -4.0, "log_normal": 0.05}.get(name, 0.0)
    grid = np.linspace(low, 10, 10_001) if name not in ON_COUNTS else np.arange(200.0)
    assert np.all(family.predictive_log_density(params, grid) <= top)


# -- moments and draws --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_draws_have_the_mean_and_variance(name):
    """Within five standard errors of 40,000 draws; sharper parameters, so that the fourth moment exists."""
    family, params = after(name)
    if name == "gaussian":
        params = params._replace(a=6.0)
    elif name in ("exponential", "geometric"):
        params = params._replace(alpha=9.0)
    elif name == "log_normal":  # no moments: those of the logs
        cells = np.bincount(
            (
                10 * family.predictive_cdf(params, family.predictive_draw(params, np.random.default_rng(1), 40_000))
            ).astype(int),
            minlength=10,
        )
        assert np.all(np.abs(cells - 4_000) < 5 * math.sqrt(3_600))
        assert np.isinf(family.predictive_mean(params)) and np.isnan(family.predictive_variance(params))
        return
    x = family.predictive_draw(params, np.random.default_rng(11), 40_000)
    if name == "categorical":
        p = family.predictive_probabilities(params)
        error = np.sqrt(p * (1 - p) / x.size)
        assert np.all(np.abs(np.bincount(x.astype(int), minlength=3) / x.size - p) < 5 * error)
        return
    mean, variance = family.predictive_mean(params), family.predictive_variance(params)
    assert abs(x.mean() - mean) < 5 * math.sqrt(variance / x.size)
    squares = (x - mean) ** 2
    assert abs(squares.mean() - variance) < 5 * squares.std() / math.sqrt(x.size)
    # the law, not only two moments: ten cells of the cdf
    if name in ("gaussian", "exponential"):
        cells = np.bincount((10 * family.predictive_cdf(params, x)).astype(int), minlength=10)
        assert np.all(np.abs(cells - x.size / 10) < 5 * math.sqrt(x.size * 0.09))


@pytest.mark.parametrize("name", CASES)
def test_leaves_with_drawn_parameters_average_to_the_predictive(name):
    family, params = after(name)
    theta = family.draw_parameters(params, np.random.default_rng(12), 40_000)
    assert theta.shape == (40_000, {"gaussian": 2, "log_normal": 2, "binomial": 2, "categorical": 3}.get(name, 1))
    assert family.parameter_problem(theta) is None
    for x in CASES[name][2][:2]:
        density = np.exp(family.leaf_log_density(theta, x))
        expected = math.exp(family.predictive_log_density(params, x))
        assert abs(density.mean() - expected) < 5 * density.std() / 200
        below = np.exp(log_interval(name, theta, -np.inf, x))
        assert abs(below.mean() - family.predictive_cdf(params, x)) < 5 * below.std() / 200 + 1e-12


@pytest.mark.parametrize("name", CASES)
def test_draws_take_the_shape_of_the_parameters_and_the_seed(name):
    family, params = after(name)
    stacked = type(params)(*(np.stack([np.asarray(v)] * 3) for v in params))
    one = family.predictive_draw(stacked, np.random.default_rng(5))
    two = family.predictive_draw(stacked, np.random.default_rng(5))
    assert one.shape == (3,) and np.array_equal(one, two)
    assert family.draw_parameters(stacked, np.random.default_rng(5)).shape[:1] == (3,)
    assert family.predictive_draw(params, np.random.default_rng(5), 4).shape == (4,)


def test_moments_that_do_not_exist_are_not_numbers():
    assert np.isnan(Gaussian.predictive_mean(NormalGamma(1.0, 1.0, 0.5, 1.0)))
    assert np.isinf(Gaussian.predictive_variance(NormalGamma(1.0, 1.0, 1.0, 1.0)))
    assert np.isnan(Gaussian.predictive_variance(NormalGamma(1.0, 1.0, 0.4, 1.0)))
    assert np.isinf(Exponential.predictive_mean(GammaRate(1.0, 1.0)))
    assert np.isinf(Exponential.predictive_variance(GammaRate(2.0, 1.0)))
    assert np.isnan(Exponential.predictive_variance(GammaRate(0.5, 1.0)))


def test_geometric_moments_and_tails():
    assert np.isinf(Geometric.predictive_mean(BetaProbability(1.0, 1.0)))
    assert np.isinf(Geometric.predictive_variance(BetaProbability(2.0, 1.0)))
    assert np.isnan(Geometric.predictive_variance(BetaProbability(0.5, 1.0)))
    for params in (BetaProbability(2.3, 1.6), BetaProbability(400.0, 1e5), BetaProbability(0.3, 0.01)):
        np.testing.assert_allclose(
            Geometric.predictive_log_density(params, np.arange(40.0)),
            stats.betanbinom.logpmf(np.arange(40), 1, params.alpha, params.beta),
            rtol=1e-7,
        )
        for low, high in ((0, 3), (10, 60), (200, 900)):  # against the sum of the masses in logs
            expected = special.logsumexp(Geometric.predictive_log_density(params, np.arange(low, high + 1.0)))
            assert Geometric.predictive_log_interval(params, low, high) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert Geometric.predictive_log_density(BetaProbability(2.3, 1.6), 1.5) == -np.inf


@pytest.mark.parametrize(
    "params",
    [
        BetaTrials(2.3, 1.6, 10.0),
        BetaTrials(400.0, 1e5, 10_000.0),
        BetaTrials(0.3, 0.01, 30.0),
        BetaTrials(1e6, 3e6, 8.0),
    ],
)
def test_binomial_masses_moments_and_tails(params):
    """Masses by SciPy, which loses digits at large parameters; intervals by sums in extended precision."""
    m = int(params.trials)
    x = np.arange(m + 1.0)
    law = stats.betabinom(m, params.alpha, params.beta)
    logs = Binomial.predictive_log_density(params, x)
    np.testing.assert_allclose(logs, law.logpmf(x), rtol=1e-6, atol=1e-6)
    assert abs(math.fsum(np.exp(logs)) - 1.0) < 1e-10  # log binomial coefficients near 7,000 carry 1e-12
    assert Binomial.predictive_mean(params) == pytest.approx(law.mean())
    assert Binomial.predictive_variance(params) == pytest.approx(law.var())
    for low, high in ((0, 3), (m - 2, m), (m // 2, m), (1, m - 1), (m, np.inf), (-np.inf, 0.5)):
        inside = logs[(x >= low) & (x <= high)]
        expected = float(inside.max()) + math.log(math.fsum(np.exp(inside - inside.max())))
        assert Binomial.predictive_log_interval(params, low, high) == pytest.approx(expected, rel=1e-13, abs=1e-10)
    assert Binomial.predictive_log_interval(params, 0, m) == 0.0
    assert Binomial.predictive_log_interval(params, m + 1, np.inf) == -np.inf
    assert Binomial.predictive_cdf(params, m + 5.0) == 1.0
    assert np.isneginf(Binomial.predictive_log_density(params, np.array([1.5, m + 1.0]))).all()


@given(st.floats(0.05, 6.0), st.floats(0.05, 6.0), st.integers(1, 40))
def test_the_mode_of_a_binomial_leaf(alpha, beta, m):
    """One peak, or the larger end: the smallest count that no other exceeds by more than rounding."""
    params = BetaTrials(alpha, beta, float(m))
    logs = Binomial.predictive_log_density(params, np.arange(m + 1.0))
    mode = float(Binomial.predictive_mode(params))
    assert logs[int(mode)] >= logs.max() - 1e-12
    if alpha + beta > 2.0:
        rises = np.diff(logs) > 1e-12
        assert not rises[int(mode) :].any() and rises[: max(int(mode) - 1, 0)].all()


def test_priors_of_the_unpaired_families_follow_their_column():
    x = np.array([1.0, np.e, np.e**2, np.nan])
    constants = LogNormal().constants(x, resolution=0.1)
    assert (constants.mean, constants.variance) == (pytest.approx(1.0), pytest.approx(2 / 3))
    assert constants.resolution == pytest.approx(0.1 / np.e)
    prior = LogNormal(relative_scale=0.5).prior(constants, 0.4)
    assert prior.b == pytest.approx(1.5 * 0.2 * 2 / 3)
    assert LogNormal(1.0, 1e-9).prior(LogNormal(1.0, 1e-9).constants(x, 0.1), 0.4).b > 1e-4  # the floor of rounding
    counts = Geometric().constants(COUNTS)
    prior = Geometric().prior(counts, 0.25)
    assert counts.mean == 2.75 and (prior.alpha, prior.beta) == (4.0, 11.0)  # mean odds against success
    assert Geometric().constants(np.zeros(4)).mean == pytest.approx(1 / 8)
    ratings = Binomial(11).constants(COUNTS)
    prior = Binomial(11, relative_scale=0.5).prior(ratings, 0.25)
    assert ratings.mean == 2.75 and prior == (2.0, 6.0, 11.0)  # eight trials, a quarter of them successes
    assert Binomial(3).constants(np.zeros(4)).mean == pytest.approx(1 / 8)
    assert Binomial(3).constants(np.full(4, 3.0)).mean == pytest.approx(3 - 1 / 8)
    assert json.dumps(asdict(Binomial(np.int64(3)))) == '{"n_trials": 3, "mean": null, "relative_scale": 1.0}'
    flat = LogNormal().constants(np.full(3, 2.0))
    with pytest.raises(ValueError, match="LogNormal: log_variance must be positive, got a constant column"):
        LogNormal().prior(flat, 1.0)
    for call, message in (
        (lambda: LogNormal.statistics([1.0, 0.0]), "LogNormal: values must be above 0, got 0.0 at position 1"),
        (lambda: Geometric.statistics([1.0, 0.5]), "Geometric: values must be counts, got 0.5 at position 1"),
        (lambda: LogNormal(log_mean=np.nan), "LogNormal: log_mean must be finite"),
        (lambda: LogNormal(log_variance=0.0), "LogNormal: log_variance must be positive"),
        (lambda: Geometric(mean=0.0), "Geometric: mean must be positive"),
        (lambda: Binomial(True), "Binomial: n_trials must be an integer of at least 1, got True"),
        (lambda: Binomial(2.0), "Binomial: n_trials must be an integer of at least 1, got 2.0"),
        (lambda: Binomial(0), "Binomial: n_trials must be an integer of at least 1, got 0"),
        (lambda: Binomial(4, mean=4.0), "Binomial: mean must be above 0 and below n_trials=4, got 4.0"),
        (
            lambda: Binomial(4).constants([1.0, 5.0]),
            "values must be counts of at most n_trials=4, got 5.0 at position 1",
        ),
        (
            lambda: Binomial(4).statistics([1.0, 0.5]),
            "values must be counts of at most n_trials=4, got 0.5 at position 1",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert Geometric.parameter_problem(np.array([[0.5], [1.0]])) == (1, "the probability must be above 0 and below 1")


def test_small_dirichlet_masses_draw_probabilities():
    theta = Categorical.draw_parameters(DirichletLevels(np.full(4, 1e-4)), np.random.default_rng(1), 500)
    assert Categorical.parameter_problem(theta) is None
    np.testing.assert_allclose(theta.max(axis=1), 1.0, atol=0.1)


# -- priors from a column -----------------------------------------------------------------------------


def test_priors_follow_their_column():
    x = np.array([1.0, 2.0, 6.0, np.nan])
    constants = Gaussian().constants(x)
    assert (constants.mean, constants.variance) == (3.0, pytest.approx(14 / 3))
    prior = Gaussian(relative_scale=2.0).prior(constants, 0.3, leaf_shape=1.5, precision_ratio=0.05)
    assert prior == (3.0, 0.05, 1.5, pytest.approx(1.5 * 0.6 * 14 / 3))
    assert Gaussian(mean=1.0, variance=2.0).constants(x)[:2] == (1.0, 2.0)
    assert Exponential().prior(Exponential().constants(x), 0.25) == (4.0, pytest.approx(12.0))
    assert Poisson().prior(Poisson().constants(x), 0.25) == (4.0, pytest.approx(4 / 3))
    assert Poisson(mean=8.0).prior(Poisson(mean=8.0).constants(x), 0.5) == (2.0, pytest.approx(0.25))
    levels = Categorical().prior(Categorical().constants(x, n_levels=7), 0.5)
    np.testing.assert_allclose(levels.alpha, 14 / (3 + 7**1.5) * (7**0.5 + np.array([0, 1, 1, 0, 0, 0, 1])))
    share = Bernoulli(relative_scale=0.5, probabilities=[0.25, 0.75])
    assert share.prior(share.constants(x), 0.5).alpha.tolist() == [2.0, 6.0]
    assert Bernoulli().constants([]).mean.tolist() == [0.5, 0.5]


def test_prior_means_are_the_column_means():
    """The closed forms of Table 8: prior mean of a count, and the prior mean rate of a waiting time."""
    assert Poisson.predictive_mean(Poisson().prior(LeafConstants(mean=7.0), 0.3)) == pytest.approx(7.0)
    prior = Exponential().prior(LeafConstants(mean=7.0), 0.3)
    assert prior.alpha / prior.beta == pytest.approx(1 / 7)


def test_rounding_floors_the_scale():
    constant = LeafConstants(mean=3.0, variance=0.0, resolution=0.5)
    assert Gaussian().prior(constant, 0.3, 1.5, 0.05).b == pytest.approx(1.5 * 0.25 / 12)
    with pytest.raises(ValueError, match="variance must be positive, got a constant column with resolution 0"):
        Gaussian().prior(constant._replace(resolution=0.0), 0.3, 1.5, 0.05)
    all_zero = Poisson().prior(Poisson().constants(np.zeros(10)), 1.0)
    assert all_zero == (1.0, pytest.approx(20.0))


def test_priors_take_a_scale_per_leaf():
    constants = LeafConstants(mean=3.0, variance=2.0)
    scale = np.array([0.1, 1.0, 10.0])
    levels = Categorical().prior(Categorical().constants([0.0, 1.0], n_levels=2), scale)
    assert np.shape(Categorical.predictive_log_density(levels, 1.0)) == (3,)
    for entry in (Gaussian(), Exponential(), Poisson()):
        prior = entry.prior(constants, scale)
        assert np.shape(entry.predictive_log_density(prior, 1.0)) == (3,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Gaussian(variance=0.0), "Gaussian: variance must be positive and finite, got 0.0"),
        (lambda: Gaussian(mean=np.nan), "Gaussian: mean must be finite, got nan"),
        (lambda: Poisson(mean=-1.0), "Poisson: mean must be positive and finite, got -1.0"),
        (
            lambda: Categorical(relative_scale=0.0),
            "Categorical: relative_scale must be positive and finite, got 0.0",
        ),
        (
            lambda: Gaussian().prior(LeafConstants(0.0, 1.0), -0.1),
            "Gaussian: leaf_scale must be positive .* got -0.1",
        ),
        (
            lambda: Gaussian().prior(LeafConstants(0.0, 1.0), 1.0, 0.0),
            "Gaussian: leaf_shape must be positive",
        ),
        (
            lambda: Gaussian().prior(LeafConstants(0.0, 1.0), 1.0, 1.0, 0.0),
            "Gaussian: precision_ratio must be",
        ),
        (lambda: Gaussian().constants([np.nan]), "Gaussian: the column must have an observed value"),
        (lambda: Gaussian().constants([1.0, np.inf]), "Gaussian: values must be finite, got inf"),
        (
            lambda: Exponential().constants([0.0, 0.0]),
            "Exponential: mean of the column must be positive .* got 0.0",
        ),
        (
            lambda: Exponential.statistics([1.0, -2.0]),
            "Exponential: values must be at least 0, got -2.0 at position 1",
        ),
        (lambda: Poisson.statistics([1.0, 2.5]), "Poisson: values must be counts, got 2.5 at position 1"),
        (
            lambda: Poisson.statistics([[1.0], [-1.0]]),
            r"Poisson: values must be counts, got -1.0 at position \(1, 0\)",
        ),
        (
            lambda: Bernoulli.statistics([2.0]),
            r"Bernoulli: values must be levels 0..1, got 2.0 at position 0",
        ),
        (lambda: Categorical().constants([]), "Categorical: n_levels must be at least 1, got 0"),
        (lambda: Bernoulli().constants([], n_levels=3), "Bernoulli: n_levels must be 2, got 3"),
        (lambda: Categorical(probabilities=[0.5, 0.4]), "probabilities must be of all levels and add up to 1"),
        (lambda: Categorical(probabilities=[1.0, 0.0]), "Categorical: probabilities must be positive .* got 0.0"),
        (lambda: Categorical(probabilities=[1.0]).constants([], n_levels=2), "must be of the 2 levels, got 1"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_entries_are_values():
    assert Gaussian() == Gaussian() and Gaussian(mean=1.0) != Gaussian()
    assert hash(Poisson()) == hash(Poisson())
    with pytest.raises(AttributeError):
        Gaussian().mean = 2.0
    assert set(FAMILIES) == set(CASES)
    assert all(FAMILIES[name] in (CASES[name][0], type(CASES[name][0])) for name in FAMILIES)


# -- special functions --------------------------------------------------------------------------------


@given(st.floats(1e-3, 1e3), st.integers(0, 200))
def test_gamma_ratio_is_a_product(a, m):
    expected = math.fsum(math.log(a + i) for i in range(m))
    assert log_gamma_ratio(a, m) == pytest.approx(expected, rel=1e-11, abs=1e-11)


def test_gamma_ratio_at_large_arguments():
    """sqrt(a) (1 - 1 / (8 a) + ...) where the plain difference has an error of 1e-6 and more."""
    a = 1e10
    assert log_gamma_ratio(a, 0.5) == pytest.approx(0.5 * math.log(a) - 1 / (8 * a), abs=1e-14)
    assert abs(special.gammaln(a + 0.5) - special.gammaln(a) - 0.5 * math.log(a)) > 1e-7


@pytest.mark.parametrize("upper", [False, True])
def test_log_betainc_continues_where_the_function_underflows(upper):
    """Leading term of the series, times its first corrections, at x = 1e-40 and a = 9: about 1e-360."""
    a, b, x = 9.0, 0.5, 1e-40
    expected = a * math.log(x) - math.log(a) - special.betaln(a, b)
    args = (b, a, 1.0, math.log1p(-x), math.log(x)) if upper else (a, b, x, math.log(x), math.log1p(-x))
    assert log_betainc(*args, upper=upper) == pytest.approx(expected, rel=1e-14)
    plain = log_betainc(3.0, 2.0, 0.4, math.log(0.4), math.log(0.6), upper=upper)
    assert math.exp(plain) == pytest.approx(stats.binom.sf(2, 4, 0.4) if not upper else stats.binom.cdf(2, 4, 0.4))


def test_log_difference_at_its_ends():
    ninf = -np.inf
    got = log_difference([0.0, 0.0, ninf, -1e300, 0.0], [ninf, 0.0, ninf, ninf, -1e-18])
    np.testing.assert_array_equal(got[:4], [0.0, ninf, ninf, -1e300])
    assert got[4] == pytest.approx(math.log(1e-18))


def test_import_is_light():
    modules = [f"pymc_spn.circuits.structures.{name}" for name in ("circuit", "regions")]
    code = f"import sys, {', '.join(modules)}\n"
    code += "print(sorted({'numba', 'scipy.stats'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("beta", [1, 7, 10**5, 10**8])
@pytest.mark.parametrize("first", [0, 3, 10**5, 10**8])
def test_geometric_masses_keep_their_digits_at_large_counts(beta, first):
    """Under alpha = 2 the probability of k counts or more is a fraction of whole numbers."""

    def at_least(k):
        return Fraction(beta * (beta + 1), (beta + k) * (beta + k + 1))

    law = BetaProbability(2.0, float(beta))
    for n in (1, 2, 64, 65, 10**6):
        exact = at_least(first) - at_least(first + n)
        found = Geometric.predictive_interval(law, float(first), first + n - 1.0)
        assert found == pytest.approx(float(exact), rel=1e-10)
    assert np.exp(Geometric.predictive_log_density(law, float(first))) == pytest.approx(
        float(at_least(first) - at_least(first + 1)), rel=1e-12
    )
    tail = np.exp(Geometric.predictive_log_interval(law, 1e17, np.inf))
    assert tail == pytest.approx(float(at_least(10**17)), rel=1e-12)
    np.testing.assert_array_equal(Geometric.predictive_cdf(law, [1e200, 1.7e308]), 1.0)
