"""The warm-up's gradient against differences, and its pooled likelihood against a plain computation."""

import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import norm

from pymc_spn.indian_chefs import warm_up_kernels as kernels
from pymc_spn.indian_chefs.regression_kernels import NetworkPrior
from pymc_spn.indian_chefs.warm_up import PooledAscent, RaceStage, layered_parents, race, random_start

PRIOR = NetworkPrior(0.7, 1.3, 0.5, 0.4)


def small_problem(seed=0):
    """Two observed nodes, three lower units, two roots, and an edge inside each layer."""
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(30, 2))
    parents = layered_parents(2, 3, 2)
    parents[6, 5] = parents[3, 2] = 1
    parameters = rng.normal(size=(9, 7)) * 0.7
    parameters[:7] *= parents
    parameters[8] = rng.normal(size=7) * 0.5
    return rng, data, parents, parameters, np.array([6, 5, 4, 3, 2, 1, 0])


def plain_log_likelihood(data, parents, parameters, order, noise):
    """Pooled log likelihood and log prior in double precision, node by node."""
    k = len(parents)
    weights, biases, log_rho = parameters[:k], parameters[k], parameters[k + 1]
    outputs = np.zeros_like(noise)
    means = {}
    for i in order:
        mean = biases[i] + weights[:, i] @ outputs
        means[i] = mean
        if i >= data.shape[1]:
            outputs[i] = expit(mean + noise[i] * np.exp(-0.5 * log_rho[i]))
    each = sum(norm.logpdf(data[:, [d]], means[d], np.exp(-0.5 * log_rho[d])) for d in range(data.shape[1]))
    rho = np.exp(log_rho)
    log_prior = -0.5 * PRIOR.weight_precision * (weights**2).sum() - 0.5 * PRIOR.bias_precision * (biases**2).sum()
    log_prior += (PRIOR.precision_shape * log_rho - PRIOR.precision_rate * rho).sum()
    return (logsumexp(each, axis=1) - np.log(noise.shape[1])).sum(), log_prior


def test_pooled_likelihood_and_gradient_against_differences():
    rng, data, parents, parameters, order = small_problem()
    ascent, work = PooledAscent(data, parents, order, PRIOR), kernels.warm_up_work(7, 2, 50)
    value = ascent.log_likelihood(rng, parameters, np.arange(30), work, True)
    noise = work.noise.astype(float)
    plain, _ = plain_log_likelihood(data, parents, parameters, order, noise)
    assert value == pytest.approx(plain, rel=2e-6)  # single precision
    gradient = np.zeros((9, 7))
    kernels.backward(2, ascent.order, parents, parameters, work, gradient)
    gradient += ascent.prior_gradient(parameters)
    differences = np.zeros((9, 7))
    for r, c in np.ndindex(9, 7):
        if r < 7 and not parents[r, c]:
            continue
        up, down = parameters.copy(), parameters.copy()
        up[r, c] += 1e-5
        down[r, c] -= 1e-5
        differences[r, c] = sum(plain_log_likelihood(data, parents, up, order, noise)) - sum(
            plain_log_likelihood(data, parents, down, order, noise)
        )
    differences /= 2e-5
    assert np.abs(gradient - differences).max() < 2e-5 * np.abs(differences).max()  # single precision, sums of 50


def test_a_wrong_sign_in_the_gradient_would_be_seen():
    rng, data, parents, parameters, order = small_problem(1)
    ascent = PooledAscent(data, parents, order, PRIOR)
    before = ascent.score(np.random.default_rng(5), parameters)
    ascent.climb(rng, parameters, np.zeros((2, 9, 7)), 0, np.full(60, 0.03), 200)
    assert ascent.score(np.random.default_rng(5), parameters) > before + 0.2


def test_the_race_keeps_the_best_and_is_reproducible():
    rng = np.random.default_rng(3)
    t = rng.uniform(0, 2 * np.pi, 200)
    data = np.column_stack([np.cos(t), np.sin(t)]) + 0.1 * rng.normal(size=(200, 2))
    stages = (RaceStage(3, 20, 100), RaceStage(1, 40, 200))
    first = race(np.random.default_rng(1), data, 4, 2, stages=stages)
    again = race(np.random.default_rng(1), data, 4, 2, stages=stages)
    np.testing.assert_array_equal(first.weights, again.weights)
    assert np.all(first.weights[first.parents == 0] == 0.0)
    above = first.reputations[:, None] > first.reputations[None, :]
    assert np.all(above[first.parents == 1])
    untrained = random_start(np.random.default_rng(1), data, 4, 2)
    ascent = PooledAscent(data, first.parents, np.arange(8)[::-1], NetworkPrior())
    assert first.score > ascent.score(np.random.default_rng(0), untrained)


def test_a_constant_column_has_a_start():
    rng = np.random.default_rng(0)
    data = np.column_stack([rng.normal(size=60), np.zeros(60)])
    start = race(rng, data, 2, 1, stages=(RaceStage(2, 30, 50), RaceStage(1, 60, 50)))
    assert np.isfinite(start.score) and np.isfinite(start.weights).all() and (start.precisions > 0.0).all()
