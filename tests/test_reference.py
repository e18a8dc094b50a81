"""The brute-force reference against quadrature, limits and simulation: the yardstick is measured first."""

import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import dblquad, quad

from tests.reference import (
    CATEGORICAL,
    EXPONENTIAL,
    GAUSSIAN,
    POISSON,
    canonical,
    digits_from_state,
    enumerate_states,
    labelled_states,
    log_evidence,
    log_joint,
    log_marginal,
    tiny_problems,
    total_variation,
)

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


# ---- keys


# ---- predictive


# without counts that have Gaussian leaves: these learn by less than the mass that predictives have
CONJUGATE = [name for name in PROBLEMS if name not in ("palette", "splits")]


# ---- forward simulation
