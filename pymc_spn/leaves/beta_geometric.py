"""Beta-geometric leaves: geometric ones whose probability is integrated out."""

import math

import numpy as np

from pymc_spn.leaves.conjugate_pieces import BETA_PRIOR, Conjugate
from pymc_spn.leaves.family_pieces import LARGEST_SIZE, Kernels, Predictive
from pymc_spn.leaves.geometric import BetaProbability, Geometric
from pymc_spn.leaves.interval_moments import NODES, WEIGHTS, count_within, from_factorial
from pymc_spn.leaves.kernel_forms import COUNT, RISING_RATIO, all_positive
from pymc_spn.leaves.leaf_family import UnivariateFamily, are_positive
from pymc_spn.leaves.tail_probabilities import log_beta_ratio
from pymc_spn.numerics.elementary import digamma
from pymc_spn.numerics.gamma_draws import log_gamma_draw
from pymc_spn.numerics.gamma_ratios import log_rising, log_rising_from

LARGEST_COUNT = 2.0**53  # beyond it float64 does not tell counts apart: it stands for all that are larger
ONE_BY_ONE = 4096  # counts; beyond, the mass is smooth at their scale and goes by panels


def beta_probability(p: np.ndarray) -> BetaProbability:
    """Posterior whose predictive is the beta-geometric (alpha, beta)."""
    return BetaProbability(p[..., 0], p[..., 1])


def _about_whole(params: BetaProbability, centre: np.ndarray, order: int) -> np.ndarray:
    """Factorial moments k! beta (beta + 1) .. / ((alpha - 1) .. (alpha - k)); infinite for alpha <= k."""
    alpha, beta = params
    factorial = np.ones((alpha.size, order + 1))
    for k in range(1, order + 1):
        fall = np.where(alpha > k, alpha - k, 1.0)
        factorial[:, k] = factorial[:, k - 1] * k * (beta + k - 1.0) / fall
    out = from_factorial(factorial, -centre)
    for k in range(1, order + 1):
        out[alpha <= k, k] = np.inf
    return out


def about_within(params: BetaProbability, low: float, high: float, centre: np.ndarray, order: int) -> np.ndarray:
    """E[(X - centre)^k | low <= X <= high] (n, order + 1) of geometric leaves, ``centre`` (n,).

    What exceeds a count that is reached is beta-geometric again, with beta larger by that count.
    """
    first = float(max(math.ceil(low), 0)) if low > -math.inf else 0.0
    if math.isinf(high):
        return _about_whole(BetaProbability(params.alpha, params.beta + first), centre - first, order)
    last = float(math.floor(high))
    if last < first:
        return np.concatenate([np.ones((params.alpha.size, 1)), np.zeros((params.alpha.size, order))], axis=1)
    x = np.arange(first, min(last, first + ONE_BY_ONE) + 1.0)
    weight = np.ones(x.size)
    if last > x[-1]:  # the midpoint rule backwards: a sum over counts as an integral from half a count before
        start, stop = x[-1] + 0.5, last + 0.5
        cuts = start * np.exp(np.linspace(0.0, math.log(stop / start), 2 + int(4.0 * math.log(stop / start))))
        half = 0.5 * np.diff(cuts)
        x = np.concatenate([x, (cuts[:-1, None] + half[:, None] * (1.0 + NODES)).ravel()])
        weight = np.concatenate([weight, (half[:, None] * WEIGHTS).ravel()])
    alpha, beta = (v[:, None] for v in params)
    logs = log_beta_ratio(alpha, beta, x) - np.log(alpha + beta + x)  # also between the counts
    mass = np.exp(logs - logs.max(axis=1, keepdims=True)) * weight
    mass = mass / mass.sum(axis=1, keepdims=True)
    away = x - centre[:, None]
    return np.stack([(mass * away**k).sum(axis=1) for k in range(order + 1)], axis=1)


def moments_within(params: BetaProbability, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance within an interval."""
    mean = about_within(params, low, high, np.zeros(params.alpha.shape), 1)[:, 1]
    if not np.all(np.isfinite(mean)):
        finite = np.where(np.isfinite(mean), mean, 0.0)
        second = about_within(params, low, high, finite, 2)[:, 2]
        return mean, np.where(np.isfinite(mean), second, np.inf)
    return mean, about_within(params, low, high, mean, 2)[:, 2]


def _mean(p: np.ndarray) -> np.ndarray:
    a = p[..., 0]
    return np.where(a > 1, p[..., 1] / np.where(a > 1, a - 1, 1.0), np.inf)


def _variance(p: np.ndarray) -> np.ndarray:
    b = p[..., 1]
    a = np.where(p[..., 0] > 2, p[..., 0], 3.0)
    finite = b * (a + b - 1.0) * a / (np.square(a - 1.0) * (a - 2.0))
    return np.where(p[..., 0] > 2, finite, np.where(p[..., 0] > 1, np.inf, np.nan))


def _coefficients(theta, width, out):
    out[0] = math.log(theta[0]) + log_rising(theta[1], theta[0])
    out[1] = theta[1]
    out[2] = theta[0] + 1.0


def _form(lead, a, b, c, table, u):
    return lead - log_rising(a + u, b)


def _add_gradient(theta, width, u, x, flow, out):
    alpha, beta = theta[0], theta[1]
    total = digamma(alpha + beta) - digamma(alpha + beta + 1.0 + u)
    out[0] += flow * (1.0 / alpha + total)
    out[1] += flow * (total + digamma(beta + u) - digamma(beta))


def _draw_one(rng, theta):
    log_odds = log_gamma_draw(rng, theta[0]) - log_gamma_draw(rng, theta[1])
    return min(np.floor(rng.standard_exponential() / math.log1p(math.exp(log_odds))), LARGEST_SIZE)


def _raw_moments(params: BetaProbability, centre: float, order: int) -> np.ndarray:
    return about_within(params, 0.0, np.inf, np.full(params.alpha.size, centre), order)


def _prior(mean, variance, floor, scale, n_levels, leaf_shape, precision_ratio):
    a = 1.0 / scale
    return a, a * mean, 0.0, 0.0


def _conjugate_posterior(n, s1, s2, p0, p1, p2, p3):
    return p0 + n, p1 + s1, 0.0, 0.0


def _add(s1, s2, sign, u, offset, cell, trials):
    return s1 + sign * (u + offset), s2


def _predictive(p0, p1, p2, p3, half_step, cell):
    return math.log(p0) + log_rising(p1, p0), 0.0, p1, 0.0, p0 + 1.0


def _log_predictive(u, offset, log_scale, power, centre, curvature, slope, trials):
    return log_scale - log_rising(centre + u + offset, slope)


def _log_density_of(u, offset, p0, p1, p2, p3, half_step, cell):
    return math.log(p0) + log_rising(p1, p0) - log_rising(p1 + (u + offset), p0 + 1.0)


def _add_log_marginal(log_p, n, s1, s2, p0, p1, p2, p3, first, second):
    log_p += log_rising_from(p0, n, first)
    if p0 + n < s1:  # of two forms that with the smaller terms
        return log_p + (log_rising_from(p1, p0, second) - log_rising(p1 + s1, p0 + n))
    return log_p + (log_rising_from(p1, s1, second) - log_rising(p0 + p1, n + s1))


def _add_slopes(out, n, s1, s2, p0, p1, p2, p3, first, second, constants, leaf_scale, second_log):
    both = p0 + p1
    by_both = digamma(both) - digamma(both + n + s1)
    by_alpha = digamma(p0 + n) - first + by_both
    by_beta = digamma(p1 + s1) - second + by_both
    out[0] -= (by_alpha + constants[0] * by_beta) / (leaf_scale * constants[3] * leaf_scale)


def _expected(p0, p1, p2, p3, cell):
    both = digamma(p0 + p1)
    return digamma(p0) - both, 0.0, 0.0, both - digamma(p1)


def _draw_predictive(rng, p0, p1, p2, p3, offset):
    success = rng.standard_gamma(p0)
    failure = rng.standard_gamma(p1)
    rate = math.log1p(success / failure) if failure > 0.0 else math.inf  # - log(1 - p)
    k = np.floor(rng.standard_exponential() / rate) if rate > 0.0 else LARGEST_COUNT
    return min(k, LARGEST_COUNT) - offset


def _simulate(rng: np.random.Generator, prior: np.ndarray, offset: float, n: int) -> np.ndarray:
    p = Geometric.draw_parameters(BetaProbability(prior[0], prior[1]), rng)[0]
    with np.errstate(divide="ignore"):
        k = np.floor(-rng.standard_exponential(n) / np.log1p(-p))
    return np.minimum(k, LARGEST_COUNT) - offset


CONJUGATE = Conjugate(
    reading=COUNT,
    prior_form=BETA_PRIOR,
    prior=_prior,
    posterior=_conjugate_posterior,
    add=_add,
    predictive=_predictive,
    log_predictive=_log_predictive,
    log_density=_log_density_of,
    add_log_marginal=_add_log_marginal,
    add_slopes=_add_slopes,
    expected=_expected,
    draw=_draw_predictive,
    simulate=_simulate,
)
PREDICTIVE = Predictive(
    prior=Geometric,
    leaves="beta_geometric",
    conjugate=CONJUGATE,
    posterior=beta_probability,
    leaf_rows=lambda params: np.stack([params.alpha, params.beta], axis=1),
    moments=_raw_moments,
    bulk=lambda params: (np.zeros(params.alpha.shape), 1.0 + params.beta / params.alpha),
    lowest=0.0,
    moments_within=moments_within,
    about_within=about_within,
    draw_within=lambda params, low, high, u: count_within(Geometric, params, low, high, u),
    has_masses=True,
)
BETA_GEOMETRIC = UnivariateFamily(
    name="beta_geometric",
    n_parameters=2,
    is_density=False,
    log_density=lambda p, x: Geometric.predictive_log_density(beta_probability(p), x),
    check=are_positive("alpha", "beta"),
    mean=_mean,
    variance=_variance,
    mode=lambda p: np.zeros(p.shape[:-1]),
    draw=lambda p, rng: Geometric.predictive_draw(beta_probability(p), rng),
    log_interval=lambda p, low, high: Geometric.predictive_log_interval(beta_probability(p), low, high),
    lowest=0.0,
    moments_within=lambda p, low, high: moments_within(beta_probability(p), low, high),
    kernels=Kernels(RISING_RATIO, COUNT, _form, _coefficients, _add_gradient, _draw_one, all_positive),
    predictive=PREDICTIVE,
)
