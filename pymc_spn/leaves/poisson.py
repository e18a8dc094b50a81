"""Poisson leaves on counts, and the negative binomial leaves that they are with the rate integrated out.

Formulas: Yokoi and Sato (2024), Table 8.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import betainc, gammainc, gammaincc, gammaln, xlogy

from pymc_spn.leaves.conjugate_pieces import GAMMA_PRIOR, Conjugate
from pymc_spn.leaves.exponential import RATE_RULE, add_gamma_marginal, draw_rates, gamma_slope
from pymc_spn.leaves.family_pieces import LARGEST_SIZE, Kernels, Predictive
from pymc_spn.leaves.interval_moments import NEGLIGIBLE, from_factorial, weighted_moments
from pymc_spn.leaves.kernel_forms import FACTORIAL, LINEAR, RISING, all_positive, linear
from pymc_spn.leaves.leaf_family import UnivariateFamily, are_positive, on_counts
from pymc_spn.leaves.palette_entry import CountEntry
from pymc_spn.leaves.tail_probabilities import (
    UNDERFLOW,
    counts_between,
    log_beta_ratio,
    log_betainc,
    log_difference,
    log_gamma_ratio,
)
from pymc_spn.numerics.elementary import digamma, fast_log
from pymc_spn.numerics.gamma_ratios import log_counts, log_negative_binomial, stirling_rest
from pymc_spn.numerics.kernel_options import inner_kernel

LARGEST_DRAWN = 2.0**60  # rate up to which NumPy's generator draws; a normal variate is as good far below it
SUMMED_COUNTS = 64  # an interval of at most so many counts is summed term by term
SERIES_TERMS = 100_000
FEW_EVENTS = 1e5  # log gammas of up to so many are differences without losing 1e-9, in half the time
SUMMED = 256  # counts in an interval that are summed one by one
LOST = 1e-10  # relative error of a variance by E[X^2] - E[X]^2 from which it is summed about its own centre
BLOCKS = 200_000  # of neighbouring counts that are summed together; most often blocks of one


@dataclass(frozen=True)
class Poisson(CountEntry):
    """Poisson leaf on counts with a gamma prior on the rate.

    Parameters
    ----------
    mean : float, optional
        Mean of the column that the prior is built around; None takes it from the observed column.
    relative_scale : float
        Factor on the column's ``leaf_scale`` for these leaves.

    Examples
    --------
    >>> visits = df.assign(visits=rng.poisson(30, 80))
    >>> fit = ps.fit_variational(visits, kinds={"visits": "count"}, leaves={"visits": [ps.leaves.Poisson()]})
    """

    family: ClassVar[str] = "poisson"


def _log_mass(p: np.ndarray, x: Any) -> np.ndarray:
    """Log mass of leaves (..., 1), the rate."""
    rate = p[..., 0]
    return on_counts(x, lambda k: xlogy(k, rate) - rate - gammaln(k + 1.0))


def _mixed_log_mass(p: np.ndarray, x: Any) -> np.ndarray:
    """Log mass of the negative binomial (..., 2) with success probability beta / (beta + 1)."""
    alpha, beta = p[..., 0], p[..., 1]

    def log_mass(k: np.ndarray) -> np.ndarray:
        rise = log_gamma_ratio(alpha, k) - gammaln(k + 1.0)
        return rise - alpha * np.log1p(1.0 / beta) - k * np.log1p(beta)

    return on_counts(x, log_mass)


def _mixed_cdf(p: np.ndarray, x: Any) -> np.ndarray:
    alpha, beta, x = p[..., 0], p[..., 1], np.asarray(x, dtype=np.float64)
    k = np.where((x >= 0) & np.isfinite(x), np.floor(x), 0.0)
    inside = betainc(alpha, k + 1.0, beta / (beta + 1.0))
    return np.where(np.isnan(x), np.nan, np.where(x < 0, 0.0, np.where(np.isposinf(x), 1.0, inside)))


def _mixed_log_interval(p: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """log P(low <= X <= high), both ends included, accurate in both tails."""
    alpha, beta, low, high = np.broadcast_arrays(p[..., 0], p[..., 1], low, high)
    first, last, empty = counts_between(low, high)
    n_terms = last - first + 1.0
    result = np.full(alpha.shape, -np.inf)
    summed = ~empty & (n_terms <= SUMMED_COUNTS)
    if np.any(summed):
        offsets = np.arange(int(n_terms[summed].max()))[:, None]
        mass = _mixed_log_mass(np.stack([alpha[summed], beta[summed]], axis=-1), first[summed] + offsets)
        mass = np.where(offsets < n_terms[summed], mass, -np.inf)
        top = mass.max(axis=0)
        result[summed] = top + np.log(np.exp(mass - top).sum(axis=0))
    by_tails = ~empty & ~summed
    if np.any(by_tails):
        a, b, f, g = alpha[by_tails], beta[by_tails], first[by_tails], last[by_tails]
        above = f > a / b  # measure in the tail that holds the interval
        upper = log_difference(_log_at_least(a, b, f), _log_at_least(a, b, g + 1.0))
        lower = log_difference(_log_below(a, b, g + 1.0), _log_below(a, b, f))
        result[by_tails] = np.where(above, upper, lower)
    return result


def draw_counts(rate: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Poisson counts (float64) of any rates, also of those whose counts no integer holds."""
    large = rate > LARGEST_DRAWN
    drawn = rng.poisson(np.where(large, 0.0, rate)).astype(np.float64)
    if np.any(large):
        rate = np.minimum(rate, np.finfo(np.float64).max)  # a drawn one may be infinite
        drawn = np.where(large, np.rint(rate + np.sqrt(rate) * rng.standard_normal(rate.shape)), drawn)
        drawn = np.minimum(drawn, np.finfo(np.float64).max)
    return drawn


def _log_at_least(alpha: np.ndarray, beta: np.ndarray, k: np.ndarray) -> np.ndarray:
    """log P(X >= k) of the negative binomial, k > 0 or infinite."""
    finite = np.where(np.isinf(k) | (k < 1), 1.0, k)
    inside = log_betainc(alpha, finite, beta / (beta + 1.0), -np.log1p(1.0 / beta), -np.log1p(beta), upper=True)
    return np.where(np.isinf(k), -np.inf, np.where(k < 1, 0.0, inside))


def _log_below(alpha: np.ndarray, beta: np.ndarray, k: np.ndarray) -> np.ndarray:
    """log P(X < k) of the negative binomial."""
    finite = np.where(np.isinf(k) | (k < 1), 1.0, k)
    inside = log_betainc(alpha, finite, beta / (beta + 1.0), -np.log1p(1.0 / beta), -np.log1p(beta))
    return np.where(np.isinf(k), 0.0, np.where(k < 1, -np.inf, inside))


def _log_interval(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    rate, first, last, empty = np.broadcast_arrays(p[..., 0], *counts_between(low, high))
    above = first > rate  # measure in the tail that holds the interval
    upper = log_difference(_tail(rate, first, True), _tail(rate, last + 1.0, True))
    lower = log_difference(_tail(rate, last, False), _tail(rate, first - 1.0, False))
    one = _log_mass(rate[..., None], np.where(np.isinf(first), 0.0, first))
    out = np.where(first == last, one, np.where(above, upper, lower))
    return np.where(empty, -np.inf, out)


def _tail(rate: np.ndarray, k: np.ndarray, above: bool) -> np.ndarray:
    """log P(X >= k), or log P(X <= k), at whole k; also where they underflow."""
    if above:
        trivial, impossible = k < 1.0, np.isposinf(k)
    else:
        trivial, impossible = np.isposinf(k), k < 0.0
    inside = np.where(trivial | impossible, 1.0, k)
    plain = gammainc(inside, rate) if above else gammaincc(inside + 1.0, rate)
    with np.errstate(divide="ignore"):
        out = np.array(np.log(plain))  # of one number, too, an array
    lost = ~(trivial | impossible) & (plain < UNDERFLOW)
    if np.any(lost):
        r, at = rate[lost], inside[lost]
        term, total = np.ones(r.size), np.ones(r.size)
        for n in range(SERIES_TERMS):  # ratios of neighbouring masses, all below one so far out
            term = term * (r / (at + n + 1.0) if above else np.maximum(at - n, 0.0) / r)
            total = total + term
            if np.all(term < 1e-17 * total):
                break
        out[lost] = _log_mass(r[:, None], at) + np.log(total)
    return np.where(impossible, -np.inf, np.where(trivial, 0.0, out))


def moments_within(p: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """By sums where the interval is short, else by x NB(x; alpha) = alpha/beta NB(x - 1; alpha + 1).

    Where that would lose the variance, far out or beside a large mean, by masses about the largest one.
    """
    low = max(math.ceil(low) if low > -math.inf else 0, 0)
    if high - low <= SUMMED:
        x = np.arange(low, math.floor(high) + 1.0)
        logs = _mixed_log_mass(p[:, None], x)
        return weighted_moments(x, np.exp(logs - logs.max(axis=1, keepdims=True)) if x.size else np.zeros(logs.shape))
    alpha, beta = p.T
    total = _mixed_log_interval(p, low, high)
    first = _mixed_log_interval(p + np.array([1.0, 0.0]), low - 1.0, high - 1.0) - total
    second = _mixed_log_interval(p + np.array([2.0, 0.0]), low - 2.0, high - 2.0) - total
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


def _poisson_coefficients(theta, width, out):
    out[0] = -theta[0]
    out[1] = fast_log(theta[0])


def _add_poisson_gradient(theta, width, u, x, flow, out):
    out[0] += flow * (u / theta[0] - 1.0)


@inner_kernel
def draw_count(rng, rate):
    """A count; beyond what integers hold a normal variate, as in `draw_counts`."""
    if rate <= LARGEST_DRAWN:
        return float(rng.poisson(rate))
    rate = min(rate, LARGEST_SIZE)
    return min(np.rint(rate + math.sqrt(rate) * rng.standard_normal()), LARGEST_SIZE)


def _poisson_draw(rng, theta):
    return draw_count(rng, theta[0])


def _mixed_coefficients(theta, width, out):
    out[0] = -theta[0] * math.log1p(1.0 / theta[1]) - math.lgamma(theta[0])
    out[1] = -math.log1p(theta[1])
    out[2] = theta[0]


def _mixed_form(lead, a, b, c, table, u):
    return lead + a * u + math.lgamma(b + u)


def _add_mixed_gradient(theta, width, u, x, flow, out):
    alpha, beta = theta[0], theta[1]
    out[0] += flow * (digamma(alpha + u) - digamma(alpha) - math.log1p(1.0 / beta))
    out[1] += flow * (alpha / (beta * (beta + 1.0)) - u / (beta + 1.0))


def _mixed_draw(rng, theta):
    return draw_count(rng, rng.standard_gamma(theta[0]) / theta[1])


def _raw_moments(p: np.ndarray, centre: float, order: int) -> np.ndarray:
    """Factorial moments alpha (alpha + 1) .. / beta^k, then Stirling numbers."""
    alpha, beta = p.T
    factorial = np.ones((alpha.size, order + 1))
    for k in range(1, order + 1):
        factorial[:, k] = factorial[:, k - 1] * (alpha + k - 1) / beta
    return from_factorial(factorial, np.full(alpha.size, -centre))


def _bulk(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return _mixed_mode(p), np.maximum(np.sqrt(_mixed_variance(p)), 1e-300)


def _mixed_mode(p: np.ndarray) -> np.ndarray:
    """Smallest count of largest mass up to ties: floor((alpha - 1) / beta), 0 for alpha <= 1."""
    return np.maximum(np.floor((p[..., 0] - 1.0) / p[..., 1]), 0.0)


def _mixed_variance(p: np.ndarray) -> np.ndarray:
    return p[..., 0] / p[..., 1] * (1.0 + 1.0 / p[..., 1])


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
)
POISSON = UnivariateFamily(
    name="poisson",
    n_parameters=1,
    is_density=False,
    log_density=_log_mass,
    check=RATE_RULE,
    mean=lambda p: p[..., 0],
    variance=lambda p: p[..., 0],
    mode=lambda p: np.floor(p[..., 0]),
    draw=lambda p, rng: draw_counts(p[..., 0], rng),
    log_interval=_log_interval,
    lowest=0.0,
    kernels=Kernels(
        LINEAR, FACTORIAL, linear, _poisson_coefficients, _add_poisson_gradient, _poisson_draw, all_positive
    ),
)
NEGATIVE_BINOMIAL = UnivariateFamily(
    name="negative_binomial",
    n_parameters=2,
    is_density=False,
    log_density=_mixed_log_mass,
    check=are_positive("alpha", "beta"),
    mean=lambda p: p[..., 0] / p[..., 1],
    variance=_mixed_variance,
    mode=_mixed_mode,
    draw=lambda p, rng: draw_counts(rng.gamma(p[..., 0], 1.0 / p[..., 1]), rng),
    log_interval=_mixed_log_interval,
    lowest=0.0,
    cdf=_mixed_cdf,
    bulk=_bulk,
    raw_moments=_raw_moments,
    moments_within=moments_within,
    kernels=Kernels(
        RISING, FACTORIAL, _mixed_form, _mixed_coefficients, _add_mixed_gradient, _mixed_draw, all_positive
    ),
)
PREDICTIVE = Predictive(
    entry=Poisson,
    leaves=NEGATIVE_BINOMIAL,
    leaf_rows=lambda posteriors: posteriors[:, :2],
    draw_parameters=draw_rates,
    conjugate=CONJUGATE,
)
