import json
import math
from dataclasses import asdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from pymc_spn.leaves import Bernoulli, Binomial, Categorical, Exponential, Gaussian, Geometric, LogNormal, Poisson
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.families import FAMILIES, PREDICTIVES
from pymc_spn.leaves.family_codes import CATEGORICAL, CODE, EXPONENTIAL, GAUSSIAN
from pymc_spn.leaves.leaf_events import log_interval
from pymc_spn.leaves.leaf_predictives import log_masses
from pymc_spn.leaves.tail_probabilities import log_betainc, log_difference, log_gamma_ratio
from tests.reference import log_leaf_predictive, log_marginal

REAL = np.array([1.7, -0.4, 2.2, 0.9])
WAITS = np.array([0.3, 2.1, 0.05, 1.4])
COUNTS = np.array([0.0, 3.0, 1.0, 7.0])
LEVELS = np.array([2.0, 0.0, 2.0, 1.0])

# prior and data; small shapes, so that heavy tails are there
CASES = {
    "gaussian": ({"mu0": 0.5, "rho0": 0.3, "a0": 1.5, "b0": 0.8}, REAL),
    "exponential": ({"alpha": 2.5, "beta": 1.2}, WAITS),
    "log_normal": ({"mu0": 0.1, "rho0": 0.4, "a0": 1.5, "b0": 0.6}, WAITS),
    "poisson": ({"alpha": 1.7, "beta": 0.6}, COUNTS),
    "geometric": ({"alpha": 2.3, "beta": 1.6}, COUNTS),
    "binomial": ({"alpha": 1.4, "beta": 2.3, "trials": 12.0}, COUNTS),
    "categorical": ({"alpha": [0.4, 1.5, 0.9]}, LEVELS),
}
STUDENT_T, LOMAX, NEGATIVE_BINOMIAL = EXPLICIT["student_t"], EXPLICIT["lomax"], EXPLICIT["negative_binomial"]
BETA_GEOMETRIC, BETA_BINOMIAL, LEVEL = EXPLICIT["beta_geometric"], EXPLICIT["beta_binomial"], EXPLICIT["categorical"]


def interval(family, p, low, high):
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    return np.exp(log_interval(family.name, p, low, high))


def posterior(name, data):
    """Row (1, P) of the posterior of a leaf, by the pieces of the samplers."""
    part, (prior, _) = PREDICTIVES[CODE[name]].conjugate, CASES[name]
    if name == "categorical":
        return (np.array(prior["alpha"]) + np.bincount(data.astype(int), minlength=3))[None]
    start = (*prior.values(), 0.0, 0.0)[:4]
    s1 = s2 = 0.0
    for x in np.log(data) if name == "log_normal" else data:
        s1, s2 = part.add(s1, s2, 1.0, x, 0.0, 0.0, start[2])
    return np.array([part.posterior(float(len(data)), s1, s2, *start)])


def predictive(name, data=None):
    """Family of the predictive, its parameters (p,), and the row of the posterior."""
    part, row = PREDICTIVES[CODE[name]], posterior(name, CASES[name][1] if data is None else data)
    return part.leaves, part.leaf_rows(row)[0], row


@pytest.mark.parametrize("name", CASES)
def test_predictives_are_ratios_of_marginal_likelihoods(name):
    prior, data = CASES[name]
    for n in range(len(data)):
        family, p, _ = predictive(name, data[:n])
        expected = log_leaf_predictive(name, prior, data[:n], data[n])
        assert family.log_density(p, data[n]) == pytest.approx(expected, rel=1e-11, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "likelihood"),
    [("geometric", lambda x, p: p * (1.0 - p) ** x), ("binomial", lambda x, p: stats.binom.pmf(x, 12, p))],
)
def test_marginal_likelihoods_of_probabilities_by_quadrature(name, likelihood):
    prior, data = CASES[name]
    beta = stats.beta(prior["alpha"], prior["beta"])
    integral, _ = integrate.quad(lambda p: np.prod(likelihood(data, p)) * beta.pdf(p), 0, 1, epsabs=0, epsrel=1e-9)
    assert math.exp(log_marginal(name, prior, data)) == pytest.approx(integral, rel=1e-7)


def test_table_8_gaussian_scale_as_printed_is_wrong():
    """scale^2 = (1 + 1 / rho) b / a; the paper prints 2 (1 + 1 / rho) b, which is 2 a times too large."""
    prior, x = {"mu0": 0.4, "rho0": 2.0, "a0": 2.3, "b0": 1.1}, 0.9
    by_marginal = math.exp(log_marginal("gaussian", prior, [x]))
    printed = stats.t.pdf(x, 2 * 2.3, 0.4, math.sqrt(2 * (1 + 1 / 2.0) * 1.1))
    assert abs(printed / by_marginal - 1) > 0.3
    location, scale, dof = PREDICTIVES[GAUSSIAN].leaf_rows(np.array([list(prior.values())]))[0]
    assert (location, scale, dof) == (0.4, pytest.approx(math.sqrt((1 + 1 / 2.0) * 1.1 / 2.3)), 4.6)
    assert stats.t.pdf(x, dof, location, scale) == pytest.approx(by_marginal, rel=1e-7)


# -- cdf, intervals, sets, mode -----------------------------------------------------------------------


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


@pytest.mark.parametrize("dof", [0.4, 3.7, 40.0, 4_000.0])
@pytest.mark.parametrize(("low", "high"), [(3, 9), (-9, -3), (30, 31), (60, np.inf), (-np.inf, -60), (5, 5 + 1e-9)])
def test_gaussian_intervals_keep_their_digits_in_the_tails(dof, low, high):
    """Against quadrature of the log density with its largest value taken out."""
    p = np.array([0.0, 1.0, dof])
    near, far = sorted((abs(low), abs(high)))
    top = STUDENT_T.log_density(p, float(near))
    # x = near + s u with the decay length s of the density at the near end; far infinite in u's own variable
    s = min(far - near, (dof + near**2) / ((dof + 1) * near))
    integral = integrate.quad(
        lambda u: math.exp(STUDENT_T.log_density(p, near + s * u) - top),
        0,
        (far - near) / s,
        epsabs=0,
        epsrel=1e-11,
        limit=400,
    )[0]
    expected = float(top) + math.log(s * integral)
    # 5 + 1e-9 is itself known to 1e-7 only of its distance from 5; the code uses the same rounded distance
    assert log_interval("student_t", p, low, high) == pytest.approx(expected, rel=1e-9, abs=1e-8)


def test_gaussian_cells_are_density_times_width_when_narrow():
    p = np.array([0.3, math.sqrt((1 + 1 / 0.7) * 1.4 / 2.0), 4.0])
    x = np.array([-40.0, -1.0, 0.3, 2.0, 1e4])
    got = log_interval("student_t", p, x, x + 1e-6)
    width = (x + 1e-6) - x
    expected = STUDENT_T.log_density(p, x + 0.5 * width) + np.log(width)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)
    assert np.isneginf(log_interval("student_t", p, 1.0, 1.0))


@pytest.mark.parametrize("width", [0.05, 0.24, 0.26, 1.0])
def test_gaussian_narrow_and_wide_rules_agree(width):
    """On both sides of the switch from quadrature to differences of the cdf."""
    for dof in (0.6, 100.0):
        low, p = np.linspace(-3, 3, 61), np.array([0.0, 1.0, dof])
        cdf = STUDENT_T.below(p, low + width) - STUDENT_T.below(p, low)
        np.testing.assert_allclose(interval(STUDENT_T, p, low, low + width), cdf, rtol=1e-12, atol=2e-16)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 3), (100, 1_000), (2_000, np.inf), (40_000, np.inf), (200, 264), (400, 500)]
)
@pytest.mark.parametrize(("alpha", "beta"), [(1.7, 0.6), (0.3, 0.001), (400.0, 2.0), (30_000.0, 10.0)])
def test_poisson_intervals_keep_their_digits_in_the_tails(alpha, beta, low, high):
    """Against the sum of the masses, from the largest downwards, in logs."""
    p = np.array([alpha, beta])
    expected = special.logsumexp(NEGATIVE_BINOMIAL.log_density(p, np.arange(low, min(high, 200_000) + 1.0)))
    assert log_interval("negative_binomial", p, low, high) == pytest.approx(expected, rel=1e-10, abs=1e-9)


def test_poisson_single_counts_keep_their_digits():
    """One count of a wide distribution, where a difference of cdfs would lose six digits and more."""
    p, k = np.array([1e6, 1e-3]), np.array([9.99e8, 1e9, 1.001e9])
    got = log_interval("negative_binomial", p, k, k)
    np.testing.assert_allclose(got, NEGATIVE_BINOMIAL.log_density(p, k), rtol=1e-14)


def test_exponential_tail_is_exact():
    p = np.array([3.0, 2.0])
    assert np.isneginf(LOMAX.log_interval(np.array([2.0, 1e5]), np.array(0.0), np.array(5e-324)))  # no warning
    got = log_interval("lomax", p, 1e200, np.inf)
    assert got == pytest.approx(-3 * np.log1p(1e200 / 2.0), rel=1e-14)
    width = (1e6 + 1e-3) - 1e6
    expected = width * math.exp(LOMAX.log_density(p, 1e6))
    assert interval(LOMAX, p, 1e6, 1e6 + 1e-3) == pytest.approx(expected, rel=1e-8)


def test_masses_of_values():
    """Where families meet: leaves of densities have no masses, values between counts have none."""
    p = np.array([[1.7, 0.6]])
    x = np.array([0.0, 3.0, 9.0, 0.5])
    expected = np.append(stats.nbinom.logpmf([0, 3, 9], 1.7, 0.6 / 1.6), -np.inf)
    np.testing.assert_allclose(log_masses(NEGATIVE_BINOMIAL, p, x)[0], expected, rtol=1e-12)
    levels = PREDICTIVES[CATEGORICAL].leaf_rows(np.array([[1.0, 2.0, 1.0], [1.0, 1.0, 2.0]]))
    found = log_masses(LEVEL, levels, np.array([0.0, 2.0]))
    np.testing.assert_allclose(np.exp(found), [[0.25, 0.25], [0.25, 0.5]])
    assert np.isneginf(log_masses(PREDICTIVES[EXPONENTIAL].leaves, p, x)).all()


# -- moments and draws --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_leaves_with_drawn_parameters_average_to_the_predictive(name):
    family, p, row = predictive(name)
    theta = PREDICTIVES[CODE[name]].draw_parameters(np.tile(row, (40_000, 1)), np.random.default_rng(12))
    leaves = EXPLICIT[name]
    assert theta.shape == (40_000, leaves.n_parameters or 3)
    assert leaves.problem(theta) is None
    for x in CASES[name][1][:2]:
        density = np.exp(leaves.log_density(theta, x))
        assert abs(density.mean() - math.exp(family.log_density(p, x))) < 5 * density.std() / 200
        below = interval(leaves, theta, -np.inf, x)
        assert abs(below.mean() - family.below(p, np.array(x))) < 5 * below.std() / 200 + 1e-12


def test_moments_that_do_not_exist_are_not_numbers():
    for family, p, mean, variance in (
        (STUDENT_T, [1.0, 1.0, 1.0], np.nan, np.nan),
        (STUDENT_T, [1.0, 1.0, 2.0], 1.0, np.inf),
        (LOMAX, [1.0, 1.0], np.inf, np.nan),
        (LOMAX, [2.0, 1.0], 1.0, np.inf),
        (LOMAX, [0.5, 1.0], np.inf, np.nan),
        (BETA_GEOMETRIC, [1.0, 1.0], np.inf, np.nan),
        (BETA_GEOMETRIC, [2.0, 1.0], 1.0, np.inf),
        (BETA_GEOMETRIC, [0.5, 1.0], np.inf, np.nan),
    ):
        np.testing.assert_array_equal([family.mean(np.array(p)), family.variance(np.array(p))], [mean, variance])


def test_geometric_masses_and_tails():
    for p in np.array([(2.3, 1.6), (400.0, 1e5), (0.3, 0.01)]):
        expected = stats.betanbinom.logpmf(np.arange(40), 1, *p)
        np.testing.assert_allclose(BETA_GEOMETRIC.log_density(p, np.arange(40.0)), expected, rtol=1e-7)
        for low, high in ((0, 3), (10, 60), (200, 900)):  # against the sum of the masses in logs
            expected = special.logsumexp(BETA_GEOMETRIC.log_density(p, np.arange(low, high + 1.0)))
            assert log_interval("beta_geometric", p, low, high) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert BETA_GEOMETRIC.log_density(np.array([2.3, 1.6]), 1.5) == -np.inf


@pytest.mark.parametrize("p", [(10.0, 2.3, 1.6), (10_000.0, 400.0, 1e5), (30.0, 0.3, 0.01), (8.0, 1e6, 3e6)])
def test_binomial_masses_moments_and_tails(p):
    """Masses by SciPy, which loses digits at large parameters; intervals by sums in extended precision."""
    p, m = np.array(p), int(p[0])
    x = np.arange(m + 1.0)
    law = stats.betabinom(m, *p[1:])
    logs = BETA_BINOMIAL.log_density(p, x)
    np.testing.assert_allclose(logs, law.logpmf(x), rtol=1e-6, atol=1e-6)
    assert abs(math.fsum(np.exp(logs)) - 1.0) < 1e-10  # log binomial coefficients near 7,000 carry 1e-12
    assert BETA_BINOMIAL.mean(p) == pytest.approx(law.mean())
    assert BETA_BINOMIAL.variance(p) == pytest.approx(law.var())
    for low, high in ((0, 3), (m - 2, m), (m // 2, m), (1, m - 1), (m, np.inf), (-np.inf, 0.5)):
        inside = logs[(x >= low) & (x <= high)]
        expected = float(inside.max()) + math.log(math.fsum(np.exp(inside - inside.max())))
        assert log_interval("beta_binomial", p, low, high) == pytest.approx(expected, rel=1e-13, abs=1e-10)
    assert log_interval("beta_binomial", p, 0, m) == 0.0
    assert log_interval("beta_binomial", p, m + 1, np.inf) == -np.inf
    assert BETA_BINOMIAL.below(p, np.array(m + 5.0)) == 1.0
    assert np.isneginf(BETA_BINOMIAL.log_density(p, np.array([1.5, m + 1.0]))).all()


@given(st.floats(0.05, 6.0), st.floats(0.05, 6.0), st.integers(1, 40))
def test_the_mode_of_a_binomial_leaf(alpha, beta, m):
    """One peak, or the larger end: the smallest count that no other exceeds by more than rounding."""
    p = np.array([float(m), alpha, beta])
    logs = BETA_BINOMIAL.log_density(p, np.arange(m + 1.0))
    mode = float(BETA_BINOMIAL.mode(p))
    assert logs[int(mode)] >= logs.max() - 1e-12
    if alpha + beta > 2.0:
        rises = np.diff(logs) > 1e-12
        assert not rises[int(mode) :].any() and rises[: max(int(mode) - 1, 0)].all()


# -- palette entries ----------------------------------------------------------------------------------


def test_entries_take_from_their_column_what_is_not_given():
    x, zeros, nothing = np.array([1.0, 2.0, 6.0]), np.zeros(4), np.zeros(0)
    entry = Gaussian().completed(x, 0.0)
    assert (entry.mean, entry.variance) == (3.0, pytest.approx(14 / 3))
    assert Gaussian(mean=1.0, variance=2.0).completed(x, 0.0) == Gaussian(mean=1.0, variance=2.0)
    assert Gaussian().completed(np.full(3, 2.0), 0.5).variance == 0.25  # a constant column has its grid
    entry = LogNormal().completed(np.exp([0.0, 1.0, 2.0]), 0.1)
    assert (entry.log_mean, entry.log_variance) == (pytest.approx(1.0), pytest.approx(2 / 3))
    assert entry.coded_constants(0.0, 1.0, 0.1)[2] == pytest.approx((0.1 / np.e) ** 2 / 12.0)  # the floor of rounding
    for leaf in (Exponential, Poisson, Geometric):
        assert leaf().completed(x, 0.0) == leaf(mean=3.0)
        assert leaf().completed(zeros, 0.0).mean == pytest.approx(1 / 5)
    assert Binomial(11).completed(COUNTS, 0.0).mean == 2.75
    assert Binomial(3).completed(zeros, 0.0).mean == pytest.approx(1 / 8)
    assert Binomial(3).completed(np.full(4, 3.0), 0.0).mean == pytest.approx(3 - 1 / 8)
    assert Binomial(3).completed(nothing, 0.0).mean == 1.5
    assert json.dumps(asdict(Binomial(np.int64(3)))) == '{"n_trials": 3, "mean": null, "relative_scale": 1.0}'
    centre = (7**0.5 + np.array([0, 1, 1, 0, 0, 0, 1])) / (3 + 7**1.5)
    np.testing.assert_allclose(Categorical().centre(x, 7), centre)
    assert Bernoulli(probabilities=[0.25, 0.75]).centre(x, 2).tolist() == [0.25, 0.75]
    assert Bernoulli().centre(nothing, 2).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Gaussian(variance=0.0), "Gaussian: variance must be positive and finite, got 0.0"),
        (lambda: Gaussian(mean=np.nan), "Gaussian: mean must be finite, got nan"),
        (lambda: LogNormal(log_mean=np.nan), "LogNormal: log_mean must be finite"),
        (lambda: LogNormal(log_variance=0.0), "LogNormal: log_variance must be positive"),
        (lambda: Poisson(mean=-1.0), "Poisson: mean must be positive and finite, got -1.0"),
        (lambda: Geometric(mean=0.0), "Geometric: mean must be positive"),
        (lambda: Binomial(True), "Binomial: n_trials must be an integer of at least 1, got True"),
        (lambda: Binomial(2.0), "Binomial: n_trials must be an integer of at least 1, got 2.0"),
        (lambda: Binomial(0), "Binomial: n_trials must be an integer of at least 1, got 0"),
        (lambda: Binomial(4, mean=4.0), "Binomial: mean must be above 0 and below n_trials=4, got 4.0"),
        (lambda: Categorical(relative_scale=0.0), "Categorical: relative_scale must be positive and finite, got 0.0"),
        (lambda: Categorical().centre(np.zeros(0), 0), "Categorical: n_levels must be at least 1, got 0"),
        (lambda: Categorical(probabilities=[0.5, 0.4]), "probabilities must be of all levels and add up to 1"),
        (lambda: Categorical(probabilities=[1.0, 0.0]), "Categorical: probabilities must be positive .* got 0.0"),
        (lambda: Categorical(probabilities=[1.0]).centre(np.zeros(0), 2), "must be of the 2 levels, got 1"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_parameters_of_leaves_are_checked():
    for name, rows, expected in (
        ("geometric", [[0.5], [1.0]], (1, "the probability must be above 0 and below 1")),
        ("gaussian", [[0.0, 1.0], [0.0, 0.0]], (1, "mean must be finite, standard deviation positive")),
        ("poisson", [[1.0, 2.0]], (0, "rows must be (rate,)")),
        ("bernoulli", [[1.5]], (0, "the probability must be within 0 and 1")),
        ("categorical", [[0.5, 0.4]], (0, "probabilities must be at least 0 and add up to 1")),
    ):
        assert EXPLICIT[name].problem(np.array(rows)) == expected


def test_entries_are_values():
    assert Gaussian() == Gaussian() and Gaussian(mean=1.0) != Gaussian()
    assert hash(Poisson()) == hash(Poisson())
    with pytest.raises(AttributeError):
        Gaussian().mean = 2.0
    assert set(FAMILIES) == {*CASES, "bernoulli"}


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


@pytest.mark.parametrize("beta", [1, 7, 10**5, 10**8])
@pytest.mark.parametrize("first", [0, 3, 10**5, 10**8])
def test_geometric_masses_keep_their_digits_at_large_counts(beta, first):
    """Under alpha = 2 the probability of k counts or more is a fraction of whole numbers."""

    def at_least(k):
        return Fraction(beta * (beta + 1), (beta + k) * (beta + k + 1))

    p = np.array([2.0, float(beta)])
    for n in (1, 2, 64, 65, 10**6):
        exact = at_least(first) - at_least(first + n)
        assert interval(BETA_GEOMETRIC, p, first, first + n - 1.0) == pytest.approx(float(exact), rel=1e-10)
    mass = np.exp(BETA_GEOMETRIC.log_density(p, float(first)))
    assert mass == pytest.approx(float(at_least(first) - at_least(first + 1)), rel=1e-12)
    tail = interval(BETA_GEOMETRIC, p, 1e17, np.inf)
    assert tail == pytest.approx(float(at_least(10**17)), rel=1e-12)
    np.testing.assert_array_equal(BETA_GEOMETRIC.below(p, np.array([1e200, 1.7e308])), 1.0)
