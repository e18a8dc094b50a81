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
    simulate,
    state_from_digits,
    tiny_problems,
    total_variation,
    without_row,
)
from tests.reference_queries import log_posterior_predictive, probability

PROBLEMS = {name: problem for name, problem in tiny_problems().items() if name != "two_trees"}  # the largest


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
