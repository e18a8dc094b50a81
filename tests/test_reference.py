"""The brute-force reference against quadrature, limits and simulation: the yardstick is measured first."""

import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import dblquad, quad

from tests.reference import (
    BERNOULLI,
    CATEGORICAL,
    EXPONENTIAL,
    GAUSSIAN,
    NARROW,
    POISSON,
    Problem,
    all_states,
    canonical,
    digits_from_state,
    enumerate_states,
    independent_total_variation,
    labelled_states,
    log_evidence,
    log_joint,
    log_leave_one_out,
    log_marginal,
    log_prior,
    log_relabellings,
    simulate,
    state_from_digits,
    tiny_problems,
    total_variation,
    without_row,
)
from tests.reference_queries import covariance, log_posterior_predictive, log_predictive, mean, probability

PROBLEMS = {name: problem for name, problem in tiny_problems().items() if name != "two_trees"}  # the largest


def line(n, positive_only=False):
    """Gauss-Legendre nodes and weights of the real line, cut at 0 where an exponential leaf jumps."""
    u, w = np.polynomial.legendre.leggauss(n)
    u, w = (u + 1) / 2, w / 2
    x, dx = u / (1 - u), w / (1 - u) ** 2
    return (x, dx) if positive_only else (np.r_[-x[::-1], x], np.r_[dx[::-1], dx])


# ---- leaves
def test_gaussian_marginal_by_quadrature():
    prior, values = GAUSSIAN[1], [0.2, 1.7, 1.4]

    # Gauss-Legendre on a grid: twice the nodes change it by 1e-14; the ends cut off 2e-9
    u, du = np.polynomial.legendre.leggauss(400)
    mu, dmu = 15 * u, 15 * du
    tau, dtau = (15 * (part[:, None]) for part in (u + 1, du))
    integrand = stats.norm.pdf(mu, prior["mu0"], (prior["rho0"] * tau) ** -0.5) * np.prod(
        [stats.norm.pdf(x, mu, tau**-0.5) for x in values], axis=0
    )
    integral = (integrand * dmu * stats.gamma.pdf(tau, prior["a0"], scale=1 / prior["b0"]) * dtau).sum()
    assert log_marginal("gaussian", prior, values) == pytest.approx(math.log(integral), abs=1e-5)


@pytest.mark.parametrize(
    ("family", "prior", "values", "likelihood"),
    [
        (*EXPONENTIAL, [0.3, 2.0, 0.9], lambda t, x: stats.expon.pdf(x, scale=1 / t).prod()),
        (*POISSON, [0.0, 3.0, 1.0], lambda t, x: stats.poisson.pmf(x, t).prod()),
    ],
)
def test_rate_marginals_by_quadrature(family, prior, values, likelihood):
    def integrand(rate):
        return likelihood(rate, values) * stats.gamma.pdf(rate, prior["alpha"], scale=1 / prior["beta"])

    integral, _ = quad(integrand, 0, 60, epsabs=1e-13, epsrel=1e-10, points=[1, 3])
    assert log_marginal(family, prior, values) == pytest.approx(math.log(integral), abs=1e-8)


def test_bernoulli_and_categorical_marginals_by_quadrature():
    # smooth priors (alpha >= 2): no singular corners
    prior = {"alpha": [2.0, 3.0]}
    integral, _ = quad(lambda p: (1 - p) ** 2 * p * stats.beta.pdf(p, 3, 2), 0, 1)
    assert log_marginal("bernoulli", prior, [0, 1, 0]) == pytest.approx(math.log(integral), abs=1e-8)
    alpha = [2.0, 2.5, 3.0]

    def integrand(q, p):
        return p**2 * (1 - p - q) * stats.dirichlet.pdf([p, q, 1 - p - q], alpha)

    integral, _ = dblquad(integrand, 0, 1, 0, lambda p: 1 - p)
    closed = log_marginal("categorical", {"alpha": alpha}, [0, 2, 0])
    assert closed == pytest.approx(math.log(integral), abs=1e-7)


def test_values_outside_the_support_are_impossible():
    assert log_marginal(*EXPONENTIAL, [1.0, -0.1]) == -np.inf
    assert log_marginal(*POISSON, [0.5]) == -np.inf
    assert log_marginal(*POISSON, [-1.0]) == -np.inf
    assert log_marginal(*CATEGORICAL, [3.0]) == -np.inf
    assert log_marginal(*GAUSSIAN, []) == 0.0


# ---- enumeration
@pytest.mark.parametrize("name", PROBLEMS)
def test_probabilities_sum_to_one(name):
    problem = PROBLEMS[name]
    assert sum(enumerate_states(problem).values()) == pytest.approx(1, abs=1e-12)
    assert sum(enumerate_states(problem, prior=True).values()) == pytest.approx(1, abs=1e-12)
    assert len(enumerate_states(problem)) == len(all_states(problem))  # no key twice


@pytest.mark.parametrize(
    ("name", "n_labelled"), [("mixed", 4096), ("palette", 1024), ("missing", 1024), ("depths", 5832)]
)
def test_labelled_states_give_the_same_posterior(name, n_labelled):
    problem = PROBLEMS[name]
    exact, labelled = enumerate_states(problem), Counter()
    states = list(labelled_states(problem))
    assert len(states) == n_labelled
    for state in states:
        labelled[canonical(digits_from_state(problem, state), problem)] += math.exp(log_joint(problem, state))
    assert math.log(sum(labelled.values())) == pytest.approx(log_evidence(problem), abs=1e-10)
    assert set(labelled) == set(exact)
    assert total_variation(labelled, exact) < 1e-12


@pytest.mark.parametrize("name", ["infinite", "infinite_discrete", "infinite_missing"])
def test_infinite_width_is_the_limit_of_finite_width(name):
    infinite = PROBLEMS[name]
    exact, evidence = enumerate_states(infinite), log_evidence(infinite)
    widths = (256, 512, 1024)  # multiples of the palette size
    finite = [replace(infinite, children=width) for width in widths]
    errors = np.array([log_evidence(problem) - evidence for problem in finite])
    distances = np.array([total_variation(enumerate_states(problem), exact) for problem in finite])
    for error in (errors, distances):  # first order: halved at every doubling, up to O(1 / width)
        assert np.abs(error[:-1] / error[1:] - 2).max() < 0.05
    assert np.abs(errors).max() < 20 / widths[0]
    assert abs(2 * errors[2] - errors[1]) < 20 / widths[1] ** 2  # Richardson: second order


# ---- keys
def relabel(digits, problem, rng):
    """Rename the labels of every node, each copy of a palette entry to another copy of the same entry."""
    renamed = np.full_like(digits, -1)
    for region in problem.region_list:
        names = {}
        n_entries, width = problem.n_options(region), problem.n_children(region)
        for n, row in enumerate(digits):
            if row[region.index] >= 0:
                node = tuple(row[list(region.ancestors)])
                entry = row[region.index] % n_entries
                copies = range(entry, 60 if width == math.inf else width, n_entries)
                order = names.setdefault((node, entry), rng.permutation(copies))
                renamed[n, region.index] = order[row[region.index] // n_entries]
    return renamed


@pytest.mark.parametrize("name", PROBLEMS)
def test_canonical_ignores_names_and_nothing_else(name):
    problem, rng = PROBLEMS[name], np.random.default_rng(3)
    states = all_states(problem)
    changed = 0
    for i in rng.choice(len(states), 40):
        digits = digits_from_state(problem, states[i])
        assert state_from_digits(digits) == states[i]
        other = relabel(digits, problem, rng)
        changed += not np.array_equal(digits, other)
        assert canonical(other, problem) == canonical(digits, problem)
        renamed = log_joint(problem, state_from_digits(other))
        assert renamed == pytest.approx(log_joint(problem, states[i]), abs=1e-12)
    assert changed > 5


def test_canonical_refuses_labels_which_cannot_be():
    problem = PROBLEMS["missing"]
    digits = digits_from_state(problem, all_states(problem)[0])
    for row, region, label in [(0, 0, 2), (0, 1, -1), (2, 2, 0)]:  # too large, not drawn, not observed
        wrong = digits.copy()
        wrong[row, region] = label
        with pytest.raises(ValueError, match=rf"digits\[{row}, {region}\]"):
            canonical(wrong, problem)


def test_total_variation():
    exact = {"a": 0.5, "b": 0.5}
    assert total_variation({"a": 1, "c": 1}, exact) == 0.5
    assert total_variation({"a": 3, "b": 3}, exact) == 0.0
    # |share - 1/2| of n fair coins has mean 1 / sqrt(2 pi n), here 0.00399
    assert 0 < independent_total_variation(exact, 10_000, np.random.default_rng(1)) < 0.02


# ---- predictive


# without counts that have Gaussian leaves: these learn by less than the mass that predictives have
CONJUGATE = [name for name in PROBLEMS if name not in ("palette", "splits")]


@pytest.mark.parametrize("name", CONJUGATE)
def test_predictive_is_a_ratio_of_evidences(name):
    problem = PROBLEMS[name]
    shorter = without_row(problem, 0)
    assert log_posterior_predictive(shorter, problem.X[:1])[0] == pytest.approx(
        log_leave_one_out(problem, 0), abs=1e-10
    )


@pytest.mark.parametrize("name", CONJUGATE)
def test_predictive_of_one_state_sums_the_joint_over_the_new_row(name):
    problem = PROBLEMS[name]
    old = without_row(problem, 2) if len(problem.X) > 2 else without_row(problem, 1)
    full = replace(problem, X=np.vstack([old.X, problem.X[:1]]))
    n_old = len(old.X)
    totals, given = Counter(), {}
    for state in all_states(full):
        joint = math.exp(log_joint(full, state) + log_relabellings(full, state))
        key = canonical(digits_from_state(old, state[:n_old]), old)
        totals[key] += joint
        given[key] = state[:n_old]
    for key, state in given.items():
        exact = math.log(totals[key]) - log_joint(old, state) - log_relabellings(old, state)
        assert log_predictive(old, state, full.X[-1:])[0] == pytest.approx(exact, abs=1e-10)


def test_leave_one_out_is_what_harmonic_means_over_states_say():
    problem = PROBLEMS["infinite_missing"]
    states, posterior = all_states(problem), np.array(list(enumerate_states(problem).values()))
    for n in range(len(problem.X)):
        shorter = without_row(problem, n)
        per_state = [log_predictive(shorter, state[:n] + state[n + 1 :], problem.X[n : n + 1])[0] for state in states]
        harmonic = -math.log((posterior * np.exp(-np.array(per_state))).sum())
        assert harmonic == pytest.approx(log_leave_one_out(problem, n), abs=1e-10)


# ---- queries
@pytest.mark.parametrize("name", ["mixed", "infinite"])
def test_interval_probability_is_the_integral_of_the_predictive(name):
    problem = PROBLEMS[name]
    u, w = np.polynomial.legendre.leggauss(24)
    (a, b), (c, d) = (0.2, 2.0), (0.1, 1.3)
    rows = np.array(list(itertools.product((b - a) / 2 * u + (a + b) / 2, (d - c) / 2 * u + (c + d) / 2)))
    weights = np.outer((b - a) / 2 * w, (d - c) / 2 * w).ravel()
    integral = (np.exp(log_posterior_predictive(problem, rows)) * weights).sum()
    assert probability(problem, {0: (a, b), 1: (c, d)}) == pytest.approx(integral, abs=1e-8)
    conditional = probability(problem, {0: (a, b)}, given={1: (c, d)}) * probability(problem, {1: (c, d)})
    assert conditional == pytest.approx(integral, abs=1e-8)


@pytest.mark.parametrize("name", PROBLEMS)
def test_intervals_and_points_are_coherent(name):
    problem = PROBLEMS[name]
    everything = {d: (None, None) for d in range(len(problem.palettes))}
    assert probability(problem, everything) == pytest.approx(1, abs=1e-7)
    below, above = probability(problem, {0: (None, 0.7)}), probability(problem, {0: (0.7, None)})
    assert below + above == pytest.approx(1, abs=1e-7)
    last = len(problem.palettes) - 1
    point = probability(problem, {0: 1.0}, given={last: 1.0})
    rows = np.full((2, last + 1), np.nan)
    rows[:, last], rows[0, 0] = 1.0, 1.0
    both, given = np.exp(log_posterior_predictive(problem, rows))
    assert point == pytest.approx(both / given, rel=1e-10)


def test_sets_are_sums_of_points():
    problem = PROBLEMS["infinite_discrete"]
    points = [probability(problem, {1: float(k)}, given={0: 1.0}) for k in (0, 2)]
    assert probability(problem, {1: {0, 2}}, given={0: 1.0}) == pytest.approx(sum(points), abs=1e-12)
    with pytest.raises(ValueError, match="probability zero"):
        probability(PROBLEMS["infinite"], {0: {1.0}})


@pytest.mark.parametrize("name", ["mixed", "infinite"])
def test_moments_are_integrals_of_the_predictive(name):
    x, dx = line(100)
    rows = np.array(list(itertools.product(x, x)))
    mass = np.exp(log_posterior_predictive(PROBLEMS[name], rows)) * np.outer(dx, dx).ravel()
    centre = mass @ rows
    # the grid sees tails as heavy as x**-4 (exponential leaves of shape 3), hence the wide second bound
    np.testing.assert_allclose(mean(PROBLEMS[name]), centre, atol=1e-4)
    grid = (rows - centre).T @ ((rows - centre) * mass[:, None])
    np.testing.assert_allclose(covariance(PROBLEMS[name]), grid, atol=0.02)


# ---- forward simulation


@pytest.mark.parametrize("children", [2, "infinite"])
def test_simulated_tables_and_labels_follow_the_joint(children):
    palettes = [[BERNOULLI, ("bernoulli", {"alpha": [2.0, 0.5]})], [BERNOULLI]]
    problem = Problem(((0,), (1,)), children, 1.0, 0.6, palettes)
    exact = {}
    for cells in itertools.product((0.0, 1.0), repeat=4):
        with_data = replace(problem, X=np.reshape(cells, (2, 2)))
        evidence = math.exp(log_evidence(with_data))
        exact |= {(cells, key): evidence * p for key, p in enumerate_states(with_data).items()}
    assert sum(exact.values()) == pytest.approx(1, abs=1e-12)
    rng, draws, counts = np.random.default_rng(5), 6000, Counter()
    for _ in range(draws):
        X, digits = simulate(problem, 2, rng)
        counts[tuple(X.ravel().tolist()), canonical(digits, replace(problem, X=X))] += 1
    distance = total_variation(counts, exact)
    independent = [independent_total_variation(exact, draws, rng) for _ in range(200)]
    assert abs(distance - np.mean(independent)) < 5 * np.std(independent)


@pytest.mark.parametrize("leaf", [GAUSSIAN, NARROW, EXPONENTIAL, POISSON, CATEGORICAL])
def test_simulated_cells_follow_the_prior_predictive(leaf):
    problem = Problem((0,), "infinite", 1.0, 1.0, [[leaf]])
    rng, draws = np.random.default_rng(2), 3000
    x = np.array([simulate(problem, 1, rng)[0][0, 0] for _ in range(draws)])
    prior = replace(problem, X=np.empty((0, 1)))
    for cut in (0.0, 0.6, 1.5):
        p = probability(prior, {0: (None, cut)})
        assert abs((x <= cut).mean() - p) <= 5 * math.sqrt(p * (1 - p) / draws)  # five standard errors


def test_prior_of_an_urn_by_hand():
    # two entries, three children: label 2 is entry 0 again, so the masses are 1/4, 1/2, 1/4 of alpha = 2
    problem = Problem((0,), 3, 1.0, 2.0, [[GAUSSIAN, NARROW]], np.zeros((2, 1)))
    assert [problem.child_mass(problem.region_list[0], c) for c in range(3)] == [0.5, 1.0, 0.5]
    assert math.exp(log_prior(problem, [{0: 0}, {0: 0}])) == pytest.approx(0.5 / 2 * 1.5 / 3)
    assert math.exp(log_prior(problem, [{0: 0}, {0: 2}])) == pytest.approx(0.5 / 2 * 0.5 / 3)
    infinite = replace(problem, children="infinite")
    assert math.exp(log_prior(infinite, [{0: 1}, {0: 1}])) == pytest.approx(1 / 2 * 1 / 3)
    assert math.exp(log_prior(infinite, [{0: 1}, {0: 3}])) == pytest.approx(1 / 2 * 2 / 3 * 1 / 2)
