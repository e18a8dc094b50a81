"""Leaves for counts of failures before a success: geometric, and beta-geometric with the probability integrated out."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pymc_spn.leaves.conjugate_pieces import BETA_PRIOR, Conjugate
from pymc_spn.leaves.family_pieces import LARGEST_SIZE, Kernels, Predictive
from pymc_spn.leaves.interval_moments import NODES, WEIGHTS, from_factorial
from pymc_spn.leaves.kernel_forms import COUNT, LINEAR, RISING_RATIO, all_positive, linear
from pymc_spn.leaves.leaf_family import UnivariateFamily, are_positive, checked_rows, on_counts
from pymc_spn.leaves.palette_entry import CountEntry
from pymc_spn.leaves.poisson import moments_within as negative_binomial_within
from pymc_spn.leaves.tail_probabilities import counts_between, log_beta_ratio
from pymc_spn.numerics.elementary import digamma
from pymc_spn.numerics.gamma_draws import log_gamma_draw
from pymc_spn.numerics.gamma_ratios import log_rising, log_rising_from

MULTIPLIED = 64  # counts of an interval at most; the odds of stopping at each are small beside rounding otherwise
LARGEST_COUNT = 2.0**53  # beyond it float64 does not tell counts apart: it stands for all that are larger
ONE_BY_ONE = 4096  # counts; beyond, the mass is smooth at their scale and goes by panels


@dataclass(frozen=True)
class Geometric(CountEntry):
    """Geometric leaf on counts, with a beta prior on the probability p.

    The mass is p (1 - p)^k at k = 0, 1, .. The predictive is beta-geometric: P(X >= k) = B(alpha, beta + k) / B(alpha,
    beta).

    Parameters
    ----------
    mean : float, optional
        Mean of the column that the prior is built around; None takes it from the observed column.
    relative_scale : float
        Factor on the column's ``leaf_scale`` for these leaves.

    Examples
    --------
    >>> visits = df.assign(visits=rng.geometric(0.1, 80) - 1)
    >>> fit = ps.fit_variational(visits, kinds={"visits": "count"}, leaves={"visits": [ps.leaves.Geometric()]})
    """

    family: ClassVar[str] = "geometric"


def draw_probabilities(posteriors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Probabilities (n,) from beta posteriors (alpha, beta, ..), kept off 0 and 1 where a draw rounds to them."""
    return np.clip(rng.beta(posteriors[..., 0], posteriors[..., 1]), np.finfo(np.float64).tiny, 1.0 - 2.0**-53)


def _log_mass(p: np.ndarray, x: Any) -> np.ndarray:
    """Log mass of leaves (..., 1), the probability."""
    return on_counts(x, lambda k: np.log(p[..., 0]) + k * np.log1p(-p[..., 0]))


def _mixed_log_mass(p: np.ndarray, x: Any) -> np.ndarray:
    """Log mass of the beta-geometric distribution (..., 2)."""
    alpha, beta = p[..., 0], p[..., 1]
    return on_counts(x, lambda k: np.log(alpha / (alpha + beta + k)) + log_beta_ratio(alpha, beta, k))


def _log_at_least(alpha: np.ndarray, beta: np.ndarray, k: np.ndarray) -> np.ndarray:
    """log P(X >= k) for k >= 0 or infinite, in closed form: B(alpha, beta + k) / B(alpha, beta)."""
    return np.where(np.isinf(k), -np.inf, log_beta_ratio(alpha, beta, np.where(np.isinf(k), 0.0, k)))


def _mixed_cdf(p: np.ndarray, x: Any) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    k = np.where((x >= 0) & np.isfinite(x), np.floor(x), 0.0)
    inside = -np.expm1(_log_at_least(p[..., 0], p[..., 1], k + 1.0))
    return np.where(np.isnan(x), np.nan, np.where(x < 0, 0.0, np.where(np.isposinf(x), 1.0, inside)))


def _mixed_log_interval(p: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """log P(low <= X <= high), both ends included: of its first count or more, and then of no more than its last.

    The second factor by a product over the counts where they are few.
    """
    alpha, beta, start, last, empty = np.broadcast_arrays(p[..., 0], p[..., 1], *counts_between(low, high))
    n = np.where(empty, 1.0, last - start + 1.0)
    beyond = np.array(_log_at_least(alpha, beta + start, n))
    few = (n <= MULTIPLIED) & (n < beta + start)
    if np.any(few):
        offsets = np.arange(n[few].max())[:, None]
        first_odds = (alpha + beta + start)[few]
        factors = np.where(offsets < n[few], np.log1p(-alpha[few] / (first_odds + offsets)), 0.0)
        beyond[few] = factors.sum(axis=0)
    with np.errstate(divide="ignore"):
        result = _log_at_least(alpha, beta, start) + np.log(-np.expm1(beyond))
    return np.where(empty, -np.inf, result)


def draw_failures(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Geometric counts (float64) of probabilities p, also where no integer holds them."""
    with np.errstate(divide="ignore", over="ignore"):
        drawn = np.floor(-rng.standard_exponential(p.shape) / np.log1p(-p))
    return np.minimum(drawn, np.finfo(np.float64).max)


def _log_interval(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    first, last, empty = counts_between(low, high)
    log_going_on = np.log1p(-p[..., 0])
    out = first * log_going_on + np.log(-np.expm1((last - first + 1.0) * log_going_on))
    return np.where(empty, -np.inf, out)


def _moments_within(p: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    odds = p[:, 0] / (1.0 - p[:, 0])
    return negative_binomial_within(np.stack([np.ones(len(p)), odds], axis=1), low, high)


def _about_whole(p: np.ndarray, centre: np.ndarray, order: int) -> np.ndarray:
    """Factorial moments k! beta (beta + 1) .. / ((alpha - 1) .. (alpha - k)); infinite for alpha <= k."""
    alpha, beta = p.T
    factorial = np.ones((alpha.size, order + 1))
    for k in range(1, order + 1):
        fall = np.where(alpha > k, alpha - k, 1.0)
        factorial[:, k] = factorial[:, k - 1] * k * (beta + k - 1.0) / fall
    out = from_factorial(factorial, -centre)
    for k in range(1, order + 1):
        out[alpha <= k, k] = np.inf
    return out


def about_within(p: np.ndarray, low: float, high: float, centre: np.ndarray, order: int) -> np.ndarray:
    """E[(X - centre)^k | low <= X <= high] (n, order + 1) of geometric leaves, ``centre`` (n,).

    What exceeds a count that is reached is beta-geometric again, with beta larger by that count.
    """
    first = float(max(math.ceil(low), 0)) if low > -math.inf else 0.0
    if math.isinf(high):
        return _about_whole(p + np.array([0.0, first]), centre - first, order)
    last = float(math.floor(high))
    if last < first:
        return np.concatenate([np.ones((len(p), 1)), np.zeros((len(p), order))], axis=1)
    x = np.arange(first, min(last, first + ONE_BY_ONE) + 1.0)
    weight = np.ones(x.size)
    if last > x[-1]:  # the midpoint rule backwards: a sum over counts as an integral from half a count before
        start, stop = x[-1] + 0.5, last + 0.5
        cuts = start * np.exp(np.linspace(0.0, math.log(stop / start), 2 + int(4.0 * math.log(stop / start))))
        half = 0.5 * np.diff(cuts)
        x = np.concatenate([x, (cuts[:-1, None] + half[:, None] * (1.0 + NODES)).ravel()])
        weight = np.concatenate([weight, (half[:, None] * WEIGHTS).ravel()])
    alpha, beta = (v[:, None] for v in p.T)
    logs = log_beta_ratio(alpha, beta, x) - np.log(alpha + beta + x)  # also between the counts
    mass = np.exp(logs - logs.max(axis=1, keepdims=True)) * weight
    mass = mass / mass.sum(axis=1, keepdims=True)
    away = x - centre[:, None]
    return np.stack([(mass * away**k).sum(axis=1) for k in range(order + 1)], axis=1)


def moments_within(p: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance within an interval."""
    mean = about_within(p, low, high, np.zeros(len(p)), 1)[:, 1]
    if not np.all(np.isfinite(mean)):
        finite = np.where(np.isfinite(mean), mean, 0.0)
        second = about_within(p, low, high, finite, 2)[:, 2]
        return mean, np.where(np.isfinite(mean), second, np.inf)
    return mean, about_within(p, low, high, mean, 2)[:, 2]


def _mean(p: np.ndarray) -> np.ndarray:
    a = p[..., 0]
    return np.where(a > 1, p[..., 1] / np.where(a > 1, a - 1, 1.0), np.inf)


def _variance(p: np.ndarray) -> np.ndarray:
    b = p[..., 1]
    a = np.where(p[..., 0] > 2, p[..., 0], 3.0)
    finite = b * (a + b - 1.0) * a / (np.square(a - 1.0) * (a - 2.0))
    return np.where(p[..., 0] > 2, finite, np.where(p[..., 0] > 1, np.inf, np.nan))


def _geometric_coefficients(theta, width, out):
    out[0] = math.log(theta[0])
    out[1] = math.log1p(-theta[0])


def _add_geometric_gradient(theta, width, u, x, flow, out):
    out[0] += flow * (1.0 / theta[0] - u / (1.0 - theta[0]))


def _geometric_draw(rng, theta):
    return min(np.floor(-rng.standard_exponential() / math.log1p(-theta[0])), LARGEST_SIZE)


def _is_probability(theta):
    return 0.0 < theta[0] < 1.0


def _mixed_coefficients(theta, width, out):
    out[0] = math.log(theta[0]) + log_rising(theta[1], theta[0])
    out[1] = theta[1]
    out[2] = theta[0] + 1.0


def _mixed_form(lead, a, b, c, table, u):
    return lead - log_rising(a + u, b)


def _add_mixed_gradient(theta, width, u, x, flow, out):
    alpha, beta = theta[0], theta[1]
    total = digamma(alpha + beta) - digamma(alpha + beta + 1.0 + u)
    out[0] += flow * (1.0 / alpha + total)
    out[1] += flow * (total + digamma(beta + u) - digamma(beta))


def _mixed_draw(rng, theta):
    log_odds = log_gamma_draw(rng, theta[0]) - log_gamma_draw(rng, theta[1])
    return min(np.floor(rng.standard_exponential() / math.log1p(math.exp(log_odds))), LARGEST_SIZE)


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
)
GEOMETRIC = UnivariateFamily(
    name="geometric",
    n_parameters=1,
    is_density=False,
    log_density=_log_mass,
    check=checked_rows(
        "probability", "the probability must be above 0 and below 1", lambda p: (p[:, 0] > 0) & (p[:, 0] < 1)
    ),
    mean=lambda p: (1.0 - p[..., 0]) / p[..., 0],
    variance=lambda p: (1.0 - p[..., 0]) / np.square(p[..., 0]),
    mode=lambda p: np.zeros(p.shape[:-1]),
    draw=lambda p, rng: draw_failures(p[..., 0], rng),
    log_interval=_log_interval,
    lowest=0.0,
    moments_within=_moments_within,
    kernels=Kernels(
        LINEAR, COUNT, linear, _geometric_coefficients, _add_geometric_gradient, _geometric_draw, _is_probability
    ),
)
BETA_GEOMETRIC = UnivariateFamily(
    name="beta_geometric",
    n_parameters=2,
    is_density=False,
    log_density=_mixed_log_mass,
    check=are_positive("alpha", "beta"),
    mean=_mean,
    variance=_variance,
    mode=lambda p: np.zeros(p.shape[:-1]),
    draw=lambda p, rng: draw_failures(draw_probabilities(p, rng), rng),
    log_interval=_mixed_log_interval,
    lowest=0.0,
    cdf=_mixed_cdf,
    bulk=lambda p: (np.zeros(len(p)), 1.0 + p[:, 1] / p[:, 0]),
    raw_moments=lambda p, centre, order: about_within(p, 0.0, np.inf, np.full(len(p), centre), order),
    moments_within=moments_within,
    about_within=about_within,
    kernels=Kernels(
        RISING_RATIO, COUNT, _mixed_form, _mixed_coefficients, _add_mixed_gradient, _mixed_draw, all_positive
    ),
)
PREDICTIVE = Predictive(
    entry=Geometric,
    leaves=BETA_GEOMETRIC,
    leaf_rows=lambda posteriors: posteriors[:, :2],
    draw_parameters=lambda posteriors, rng: draw_probabilities(posteriors, rng)[:, None],
    conjugate=CONJUGATE,
)
