"""Negative binomial leaves: Poisson ones whose rate is integrated out."""

import math

import numpy as np

from pymc_spn.leaves.conjugate_pieces import GAMMA_PRIOR, Conjugate
from pymc_spn.leaves.family_pieces import Kernels, Predictive
from pymc_spn.leaves.interval_moments import NEGLIGIBLE, count_within, from_factorial, weighted_moments
from pymc_spn.leaves.kernel_forms import FACTORIAL, RISING, all_positive
from pymc_spn.leaves.leaf_family import UnivariateFamily, are_positive
from pymc_spn.leaves.leaf_statistics import GammaRate
from pymc_spn.leaves.lomax import add_gamma_marginal, gamma_rate, gamma_slope, leaf_rows, posterior
from pymc_spn.leaves.poisson import Poisson, draw_count
from pymc_spn.leaves.tail_probabilities import log_beta_ratio
from pymc_spn.numerics.elementary import digamma, fast_log
from pymc_spn.numerics.gamma_ratios import log_counts, log_negative_binomial, stirling_rest

FEW_EVENTS = 1e5  # log gammas of up to so many are differences without losing 1e-9, in half the time
SUMMED = 256  # counts in an interval that are summed one by one
LOST = 1e-10  # relative error of a variance by E[X^2] - E[X]^2 from which it is summed about its own centre
BLOCKS = 200_000  # of neighbouring counts that are summed together; most often blocks of one


def moments_within(params: GammaRate, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """By sums where the interval is short, else by x NB(x; alpha) = alpha/beta NB(x - 1; alpha + 1).

    Where that would lose the variance, far out or beside a large mean, by masses about the largest one.
    """
    low = max(math.ceil(low) if low > -math.inf else 0, 0)
    if high - low <= SUMMED:
        x = np.arange(low, math.floor(high) + 1.0)
        logs = Poisson.predictive_log_density(GammaRate(*(v[:, None] for v in params)), x)
        return weighted_moments(x, np.exp(logs - logs.max(axis=1, keepdims=True)) if x.size else np.zeros(logs.shape))
    alpha, beta = params
    total = Poisson.predictive_log_interval(params, low, high)
    first = Poisson.predictive_log_interval(GammaRate(alpha + 1.0, beta), low - 1.0, high - 1.0) - total
    second = Poisson.predictive_log_interval(GammaRate(alpha + 2.0, beta), low - 2.0, high - 2.0) - total
    mean = alpha / beta * np.exp(first)
    variance = alpha * (alpha + 1.0) / beta**2 * np.exp(second) + mean - mean**2
    rounding = np.finfo(np.float64).eps * (1.0 + np.abs(total)) * mean**2  # logs are rounded to eps of their size
    for n in np.flatnonzero(~(rounding < LOST * variance) & np.isfinite(total)):
        mean[n], variance[n] = _summed_counts(float(alpha[n]), float(beta[n]), float(low), float(np.floor(high)))
    return mean, variance


def _summed_counts(alpha: float, beta: float, low: float, last: float) -> tuple[float, float]:
    """Mean and variance of one negative binomial leaf from masses relative to the largest one within the interval.

    Of more than `BLOCKS` counts that have some mass neighbours are taken together, as their masses hardly differ.
    """
    peak = min(max(low, math.floor(max(alpha - 1.0, 0.0) / beta)), last)
    reach = [0.0, 0.0]
    for side, room in enumerate((peak - low, last - peak)):
        width = 1.0
        while width < room and _log_fall(alpha, beta, peak, np.array([width if side else -width]))[0] > NEGLIGIBLE:
            width *= 2.0
        reach[side] = min(width, room)
    size = reach[0] + reach[1] + 1.0
    edges = np.unique(np.floor(np.linspace(0.0, size, int(min(size, BLOCKS)) + 1))) - reach[0]
    count = np.diff(edges)
    away = edges[:-1] + 0.5 * (count - 1.0)  # from the peak, so that far out no digit is lost
    later = np.maximum(peak + away + 0.5, 0.5)
    slope = np.log1p((alpha - 1.0 - beta * later) / (later * (1.0 + beta)))  # of the log masses within a block
    within = (np.square(count) - 1.0) / 12.0
    mass = count * np.exp(_log_fall(alpha, beta, peak, away)) * (1.0 + 0.5 * within * np.square(slope))
    mass /= mass.sum()
    away = away + within * slope
    mean = float(mass @ away)
    return peak + mean, float(mass @ (np.square(away - mean) + within))


def _log_fall(alpha: float, beta: float, peak: float, away: np.ndarray) -> np.ndarray:
    """Log masses (n,) at counts away from the peak less that at the peak, as products of ratios of neighbours.

    Upwards these are (alpha + k) / ((k + 1) (1 + beta)).
    """
    start, steps = peak + np.minimum(away, 0.0), np.abs(away)
    if alpha == 1.0:
        rise = np.zeros(away.shape)
    elif alpha > 1.0:
        rise = -log_beta_ratio(alpha - 1.0, start + 1.0, steps)
    else:
        rise = log_beta_ratio(1.0 - alpha, start + alpha, steps)
    return np.sign(away) * (rise - steps * math.log1p(beta))


def _coefficients(theta, width, out):
    out[0] = -theta[0] * math.log1p(1.0 / theta[1]) - math.lgamma(theta[0])
    out[1] = -math.log1p(theta[1])
    out[2] = theta[0]


def _form(lead, a, b, c, table, u):
    return lead + a * u + math.lgamma(b + u)


def _add_gradient(theta, width, u, x, flow, out):
    alpha, beta = theta[0], theta[1]
    out[0] += flow * (digamma(alpha + u) - digamma(alpha) - math.log1p(1.0 / beta))
    out[1] += flow * (alpha / (beta * (beta + 1.0)) - u / (beta + 1.0))


def _draw_one(rng, theta):
    return draw_count(rng, rng.standard_gamma(theta[0]) / theta[1])


def _raw_moments(params: GammaRate, centre: float, order: int) -> np.ndarray:
    """Factorial moments alpha (alpha + 1) .. / beta^k, then Stirling numbers."""
    factorial = np.ones((params.alpha.size, order + 1))
    for k in range(1, order + 1):
        factorial[:, k] = factorial[:, k - 1] * (params.alpha + k - 1) / params.beta
    return from_factorial(factorial, np.full(params.alpha.size, -centre))


def _bulk(params: GammaRate) -> tuple[np.ndarray, np.ndarray]:
    spread = np.sqrt(params.alpha / params.beta * (1.0 + 1.0 / params.beta))
    return Poisson.predictive_mode(params), np.maximum(spread, 1e-300)


def _prior(mean, variance, floor, scale, n_levels, leaf_shape, precision_ratio):
    a = 1.0 / scale
    return a, a / mean, 0.0, 0.0


def _conjugate_posterior(n, s1, s2, p0, p1, p2, p3):
    return p0 + s1, p1 + n, 0.0, 0.0


def _add(s1, s2, sign, u, offset, cell, trials):
    return s1 + sign * (u + offset), s2 + sign * math.lgamma(u + offset + 1.0)


def _predictive(p0, p1, p2, p3, half_step, cell):
    return (
        -p0 * math.log1p(1.0 / p1) - math.lgamma(p0),
        p1,
        p0,
        stirling_rest(p0),
        -fast_log(p1 + 1.0),
    )


def _log_predictive(u, offset, log_scale, power, centre, curvature, slope, trials):
    x = u + offset
    if centre + x < FEW_EVENTS:
        return log_scale + math.lgamma(centre + x) - math.lgamma(x + 1.0) + x * slope
    return log_negative_binomial(x, centre, power, curvature)


def _log_density_of(u, offset, p0, p1, p2, p3, half_step, cell):
    return log_negative_binomial(u + offset, p0, p1, stirling_rest(p0))


def _add_log_marginal(log_p, n, s1, s2, p0, p1, p2, p3, first, second):
    if s1 > 0.0 and p0 + s1 > FEW_EVENTS:  # the largest terms are rounded alike under all priors
        largest = s1 * (math.log(s1 / n) - 1.0) - s2
        return log_p + (log_counts(s1, n, p0, p1, stirling_rest(p0)) + largest)
    return add_gamma_marginal(log_p, s1, n, s2, p0, p1, first)


def _add_slopes(out, n, s1, s2, p0, p1, p2, p3, first, second, constants, leaf_scale, second_log):
    by_shape = gamma_slope(s1, n, p0, p1, first, second_log, 1.0 / constants[0])
    out[0] -= by_shape / (leaf_scale * constants[3] * leaf_scale)


def _expected(p0, p1, p2, p3, cell):
    return -p0 / p1, 0.0, 0.0, math.log(p1) - digamma(p0)


def _draw_rate(rng, p0, p1, p2, p3, offset):
    """Numba's Poisson variates need reference counts."""
    return rng.standard_gamma(p0) / p1


def _simulate(rng: np.random.Generator, prior: np.ndarray, offset: float, n: int) -> np.ndarray:
    return rng.poisson(rng.gamma(prior[0]) / prior[1], n).astype(np.float64) - offset


CONJUGATE = Conjugate(
    reading=FACTORIAL,
    prior_form=GAMMA_PRIOR,
    prior=_prior,
    posterior=_conjugate_posterior,
    add=_add,
    predictive=_predictive,
    log_predictive=_log_predictive,
    log_density=_log_density_of,
    add_log_marginal=_add_log_marginal,
    add_slopes=_add_slopes,
    expected=_expected,
    draw=_draw_rate,
    finish=lambda rng, rates: rng.poisson(rates),
    simulate=_simulate,
)
PREDICTIVE = Predictive(
    prior=Poisson,
    leaves="negative_binomial",
    conjugate=CONJUGATE,
    posterior=posterior,
    leaf_rows=leaf_rows,
    moments=_raw_moments,
    bulk=_bulk,
    lowest=0.0,
    moments_within=moments_within,
    draw_within=lambda params, low, high, u: count_within(Poisson, params, low, high, u),
    has_masses=True,
)
NEGATIVE_BINOMIAL = UnivariateFamily(
    name="negative_binomial",
    n_parameters=2,
    is_density=False,
    log_density=lambda p, x: Poisson.predictive_log_density(gamma_rate(p), x),
    check=are_positive("alpha", "beta"),
    mean=lambda p: p[..., 0] / p[..., 1],
    variance=lambda p: p[..., 0] / p[..., 1] * (1.0 + 1.0 / p[..., 1]),
    mode=lambda p: np.maximum(np.floor((p[..., 0] - 1.0) / p[..., 1]), 0.0),
    draw=lambda p, rng: Poisson.predictive_draw(gamma_rate(p), rng),
    log_interval=lambda p, low, high: Poisson.predictive_log_interval(gamma_rate(p), low, high),
    lowest=0.0,
    moments_within=lambda p, low, high: moments_within(gamma_rate(p), low, high),
    kernels=Kernels(RISING, FACTORIAL, _form, _coefficients, _add_gradient, _draw_one, all_positive),
    predictive=PREDICTIVE,
)
