"""Leaves that are distributions of SciPy: answers against formulas over the components and against own families."""

import math

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import logsumexp

import pymc_spn as ps
from pymc_spn.leaves.scipy_leaves import log_density_at, log_interval_of
from tests.shared_circuits import PARAMETERS, SCIPY, crossed_circuit

SHARES = np.array([0.5, 0.3, 0.2])
OF_X = (stats.skewnorm(4.0, 1.0, 2.0), stats.gumbel_r(0.0, 1.5), stats.norm(0.0, 1.0))
OF_K = (stats.skellam(2.0, 1.0), stats.zipf(4.5), stats.poisson(2.0))


@pytest.fixture(scope="module")
def mixture():
    """Three products of x and k; the leaves of the last are of families of the package."""
    parts = [ps.circuits.product_of([ps.circuits.leaf("x", OF_X[i]), ps.circuits.leaf("k", OF_K[i])]) for i in range(2)]
    parts.append(
        ps.circuits.product_of(
            [ps.circuits.leaf("x", "gaussian", (0.0, 1.0)), ps.circuits.leaf("k", "poisson", (2.0,))]
        )
    )
    return ps.circuits.mixture_of(parts, SHARES)


def component_logs(values):
    """Log share and density (3, N) of each component, missing cells summed out."""
    x, k = values.T
    logs = np.array([np.nan_to_num(a.logpdf(x)) + np.nan_to_num(b.logpmf(k)) for a, b in zip(OF_X, OF_K, strict=True)])
    return logs + np.log(SHARES)[:, None]


def rows():
    rng = np.random.default_rng(0)
    values = np.column_stack([rng.normal(size=30), rng.integers(1, 5, 30)]).astype(np.float64)
    values[3, 0] = values[5, 1] = np.nan
    values[6] = np.nan
    return values


def test_densities_and_marginals_are_those_of_the_components(mixture):
    values = rows()
    values[7] = 900.0, 3.0  # far out, where linear space underflows: the Gumbel component alone is left
    logs = mixture.log_density(values).values
    np.testing.assert_allclose(logs, logsumexp(component_logs(values), axis=0), rtol=1e-12, atol=1e-12)
    impossible = mixture.log_density([[0.0, 0.5], [np.inf, 1.0], [0.0, -3.0]]).values
    assert np.isneginf(impossible[:2]).all()
    assert impossible[2] == pytest.approx(np.log(0.5) + OF_X[0].logpdf(0.0) + OF_K[0].logpmf(-3), abs=1e-12)


@pytest.mark.parametrize("families", [("gaussian", "lomax", "student_t"), ("poisson", "binomial", "negative_binomial")])
def test_a_shared_circuit_answers_as_with_its_own_families(families):
    circuit = crossed_circuit(4, 3, 3, families)
    kind = "scipy_discrete" if families[0] == "poisson" else "scipy_continuous"
    other = crossed_circuit(4, 3, 3, (kind,))
    rng = np.random.default_rng(1)
    own = {name: PARAMETERS[name](rng, circuit.leaves_of(name).size, 0) for name in families}
    frozen = {leaf: SCIPY[f](p) for f in families for leaf, p in zip(circuit.leaves_of(f), own[f], strict=True)}
    weights = rng.exponential(size=circuit.n_sum_edges)
    log_weights = np.log(weights / np.bincount(circuit.edge_sum, weights)[circuit.edge_sum])
    theirs = {kind: [frozen[leaf] for leaf in other.leaves_of(kind)]}
    values = circuit.with_parameters(log_weights, own).sample(40, random_seed=2).to_numpy(copy=True)
    values[rng.random(values.shape) < 0.3] = np.nan
    # SciPy's formulas round in other places
    np.testing.assert_allclose(
        other.with_parameters(log_weights, theirs).log_density(values).values,
        circuit.with_parameters(log_weights, own).log_density(values).values,
        atol=1e-10,
    )
    found, expected = (c.with_parameters(log_weights, p).moments(values) for c, p in ((other, theirs), (circuit, own)))
    np.testing.assert_allclose(found["mean"], expected["mean"], rtol=1e-10)
    np.testing.assert_allclose(found["covariance"], expected["covariance"], rtol=1e-8, atol=1e-10)
    event = {"x0": (0.2, 3.0), "x1": [(None, 0.5), (1.0, 2.0)], "x3": 1.0 if families[0] == "poisson" else (0.1, 0.2)}
    found, expected = (
        c.with_parameters(log_weights, p).log_probability(event, given={"x2": (0.0, 2.0)})
        for c, p in ((other, theirs), (circuit, own))
    )
    assert float(found) == pytest.approx(float(expected), abs=1e-10)


def test_intervals_in_far_tails_keep_their_digits():
    far = log_interval_of(stats.norm(), np.array([30.0, -31.0]), np.array([31.0, -30.0]))
    exact = stats.norm.logsf(30.0) + math.log1p(-math.exp(stats.norm.logsf(31.0) - stats.norm.logsf(30.0)))
    np.testing.assert_allclose(far, exact, rtol=1e-13)
    counts = log_interval_of(stats.poisson(3.0), np.array([-1.0, 2.5, 4.0]), np.array([0.5, 2.9, np.inf]))
    np.testing.assert_allclose(counts, [-3.0, -np.inf, stats.poisson(3.0).logsf(3)], rtol=1e-14)


def test_draws_have_the_conditional_distribution(mixture):
    n = 4_000
    given = np.tile([0.4, np.nan], (n, 1))
    drawn = mixture.impute(given, random_seed=3).to_numpy()
    assert np.all(drawn[:, 0] == 0.4)
    logs = component_logs(given[:1])[:, 0]
    shares = np.exp(logs - logsumexp(logs))
    counts = np.arange(-2, 6)
    exact = sum(s * b.pmf(counts) for s, b in zip(shares, OF_K, strict=True))
    found = (drawn[:, 1:] == counts).mean(axis=0)
    assert np.all(np.abs(found - exact) < 4.5 * np.sqrt(exact * (1.0 - exact) / n))  # binomial errors of eight shares
    x = mixture.sample(n, random_seed=4).to_numpy()[:, 0]
    test = stats.kstest(x, lambda t: sum(s * a.cdf(t) for s, a in zip(SHARES, OF_X, strict=True)))
    assert test.pvalue > 1e-4


def test_a_point_of_infinite_density_does_not_belong_to_the_leaf():
    assert np.isneginf(ps.circuits.leaf("x", stats.gamma(0.5)).log_density([[0.0]]).values).all()


def test_a_density_that_scipy_does_not_know_is_no_missing_cell():
    class Broken(stats.rv_continuous):
        def _logpdf(self, x):
            return np.where(x > 2.0, np.nan, -x)

    broken = ps.circuits.leaf("x", Broken(a=0.0, name="broken")())
    with pytest.raises(ValueError, match=r"SciPy's broken distribution has logpdf NaN at 3\.0"):
        broken.log_density([[1.0], [3.0]])
    assert log_density_at(stats.norm(), np.array([np.nan, 0.0]))[0] != 0.0


@pytest.mark.parametrize(
    ("distribution", "parameters", "error", "message"),
    [
        (stats.norm, None, TypeError, "name of a family or a frozen distribution"),
        (stats.multivariate_normal([0.0, 0.0]), None, TypeError, "name of a family or a frozen distribution"),
        (stats.norm(0.0, -1.0), None, ValueError, r"must be valid, got norm\(0\.0, -1\.0\) at row 0, leaf 0 of 'x'"),
        (stats.norm([0.0, 1.0]), None, ValueError, "without arrays among its parameters"),
        (stats.skellam(2.0, 1.0, loc=0.5), None, ValueError, r"whole numbers, got skellam\(2\.0, 1\.0, loc=0\.5\)"),
        (stats.rv_discrete(values=([0, 1.5, 2], [0.2, 0.3, 0.5]))(), None, ValueError, "masses on whole numbers"),
        (stats.norm(), (0.0, 1.0), ValueError, "parameters must be left out if a distribution of scipy.stats is given"),
        ("gaussian", None, ValueError, "parameters must be given for a gaussian leaf"),
        ("gaussian", (0.0, -1.0), ValueError, "standard deviation positive"),
        ("normal", (0.0, 1.0), ValueError, "distribution must be among"),
        ("scipy_continuous", (0.0, 1.0), ValueError, "distribution must be among"),
    ],
)
def test_what_is_no_leaf_is_refused(distribution, parameters, error, message):
    with pytest.raises(error, match=message):
        ps.circuits.leaf("x", distribution, parameters)


def test_parameters_of_a_circuit_are_checked(mixture):
    own = mixture.leaf_parameters
    for wrong, error, message in (
        ([OF_X[0]], ValueError, r"must have shape \(2, p\), got \(1, 1\)"),
        ([OF_X[0], OF_K[0]], ValueError, r"frozen continuous distributions .* got skellam\(2\.0, 1\.0\) at row 1"),
        ([OF_X[0], 3.0], ValueError, r"frozen continuous distributions .* got \[3\.0\] at row 1"),
        (OF_X[0], TypeError, "must be a sequence of distributions, got rv_continuous_frozen"),
    ):
        with pytest.raises(error, match=message):
            mixture.circuit.with_parameters(mixture.log_weights, {**own, "scipy_continuous": wrong})


def test_questions_that_need_a_formula_are_refused(mixture):
    with pm.Model(), pytest.raises(ValueError, match="the circuit of a CircuitDensity must have no scipy_cont"):
        ps.CircuitDensity("rows", mixture.circuit, mixture.log_weights, mixture.leaf_parameters, rows())


@pytest.mark.parametrize(
    ("distribution", "low", "high"),
    [
        (stats.genlogistic(0.4), 45.0, np.inf),  # the quantile of SciPy is infinite
        (stats.pearson3(0.1), 9.5, 12.0),  # .. one end of the interval
        (stats.rice(0.8), 8.0, np.inf),  # .. coarse
        (stats.cauchy(), 1e8, np.inf),  # .. right
        (stats.geom(0.5), 100.0, np.inf),
        (stats.yulesimon(11), 86.0, np.inf),  # .. ends in a RuntimeError
        (stats.poisson(1e7), 1.001e7, np.inf),  # beyond the masses that are added
        (stats.nbinom(0.3, 1e-5), 10.0, np.inf),
        (stats.poisson(4.0), -np.inf, 2.0),  # below a number, with a first one and without
        (stats.skellam(2, 1), -np.inf, -3.0),
    ],
    ids=lambda v: v.dist.name if hasattr(v, "dist") else "",
)
def test_draws_in_far_tails_have_their_shares(distribution, low, high):
    """Quarters of the tail by the leaf's own probabilities hold a quarter of 2,000 draws each, within five errors."""
    leaf = ps.circuits.leaf("a", distribution)
    drawn = leaf.sample(2_000, given={"a": (low, high)}, random_seed=1).to_numpy()[:, 0]
    assert np.all((drawn >= low) & (drawn <= high) & np.isfinite(drawn))

    def share(x):
        ends = (np.full(x.shape, low), x)
        logs = leaf.log_probability_of_rows({"a": ends}).values
        return np.exp(logs - float(leaf.log_probability({"a": (low, high)})))

    cuts = np.quantile(drawn, [0.25, 0.5, 0.75], method="inverted_cdf")
    expected, observed = share(cuts), [np.mean(drawn <= cut) for cut in cuts]
    np.testing.assert_allclose(observed, expected, atol=5.0 * 0.5 / np.sqrt(2_000))


@pytest.mark.parametrize("distribution", [stats.skellam(2, 1), stats.zipf(3.0), stats.dlaplace(0.8)])
def test_the_set_of_one_number_has_its_mass(distribution):
    leaf = ps.circuits.leaf("a", distribution)
    for x in (1, 20, 50, 100_000 if distribution.dist.name == "zipf" else 60):
        found = float(leaf.log_probability({"a": {x}}))
        assert found == pytest.approx(distribution.logpmf(x), rel=1e-12)
        several = float(leaf.probability({"a": (x, x + 4)}))
        assert several == pytest.approx(distribution.pmf(np.arange(x, x + 5)).sum(), rel=1e-12)


def test_infinite_cells_have_density_zero_and_circles_are_refused():
    leaf = ps.circuits.leaf("a", stats.rice(0.8))
    logs = leaf.log_density([[np.inf], [-np.inf], [np.nan], [1.0]]).values
    np.testing.assert_array_equal(logs, [-np.inf, -np.inf, 0.0, stats.rice(0.8).logpdf(1.0)])
    with pytest.raises(ValueError, match="a density on a circle, which has no end"):
        ps.circuits.leaf("a", stats.vonmises(4.0))
    with pytest.raises(ValueError, match="parameters of each distribution must be numbers"):
        ps.circuits.leaf("a", stats.norm("one", 1))
