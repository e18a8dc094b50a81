"""Exponential leaves on values of at least 0, and the Lomax leaves that they are with the rate integrated out.

Formulas: Yokoi and Sato (2024), Table 8.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pymc_spn.leaves.conjugate_pieces import GAMMA_PRIOR, Conjugate
from pymc_spn.leaves.family_pieces import Kernels, Predictive
from pymc_spn.leaves.interval_moments import (
    NARROW,
    NEGLIGIBLE,
    Points,
    about,
    by_points,
    cubic_panels,
    graded_points,
)
from pymc_spn.leaves.kernel_forms import IMPOSSIBLE, LINEAR, NOT_NEGATIVE, POWER, all_positive, linear
from pymc_spn.leaves.leaf_family import UnivariateFamily, are_positive, checked_rows
from pymc_spn.leaves.palette_entry import MeanEntry
from pymc_spn.numerics.elementary import digamma, fast_log, fast_log1p
from pymc_spn.numerics.gamma_ratios import log_rising_from
from pymc_spn.numerics.kernel_options import inner_kernel


@dataclass(frozen=True)
class Exponential(MeanEntry):
    """Exponential leaf on x >= 0 with a gamma prior on the rate.

    Parameters
    ----------
    mean : float, optional
        Mean of the column that the prior is built around; None takes it from the observed column.
    relative_scale : float
        Factor on the column's ``leaf_scale`` for these leaves.

    Examples
    --------
    >>> positive = {"age": "positive", "income": "positive"}
    >>> fit = ps.fit_variational(df, kinds=positive, leaves={"income": [ps.leaves.Exponential()]})
    """

    family: ClassVar[str] = "exponential"
    kinds: ClassVar[tuple[str, ...]] = ("positive",)


RATE_RULE = checked_rows("rate", "rate must be positive and finite", lambda p: p[:, 0] > 0)


def draw_rates(posteriors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rates (n, 1) from gamma posteriors (alpha, beta, ..)."""
    return rng.gamma(posteriors[:, 0], 1.0 / posteriors[:, 1])[:, None]


def _exponential_log_density(p: np.ndarray, x: Any) -> np.ndarray:
    rate, x = p[..., 0], np.asarray(x, dtype=np.float64)
    with np.errstate(divide="ignore"):  # a rate may be drawn below all floating-point numbers
        return np.where(x < 0, -np.inf, np.log(rate) - rate * np.where(x < 0, 0.0, x))


def _exponential_log_interval(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    start = np.maximum(low, 0.0)
    begin = np.where(np.isinf(start), 0.0, start)
    width = np.where(high > start, high - begin, 0.0)
    with np.errstate(divide="ignore"):
        return -p[..., 0] * begin + np.log(-np.expm1(-p[..., 0] * width))


def _lomax_log_density(p: np.ndarray, x: Any) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    inside = np.log(p[..., 0] / p[..., 1]) - (p[..., 0] + 1.0) * np.log1p(np.where(x < 0, 0.0, x) / p[..., 1])
    return np.where(x < 0, -np.inf, inside)


def _mean(p: np.ndarray) -> np.ndarray:
    alpha = p[..., 0]
    return np.where(alpha > 1, p[..., 1] / np.where(alpha > 1, alpha - 1, 1.0), np.inf)


def _variance(p: np.ndarray) -> np.ndarray:
    a = np.where(p[..., 0] > 2, p[..., 0], 3.0)
    finite = np.square(p[..., 1] / (a - 1)) * a / (a - 2)
    return np.where(p[..., 0] > 2, finite, np.where(p[..., 0] > 1, np.inf, np.nan))


def _lomax_log_interval(p: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """log P(low <= X <= high): a Lomax beyond `low` is a Lomax again, so nothing cancels."""
    alpha, beta = p[..., 0], p[..., 1]
    start = np.maximum(np.asarray(low, dtype=np.float64), 0.0)
    stop = np.asarray(high, dtype=np.float64)
    empty = ~(stop > start)
    begin, width = np.where(empty, 0.0, start), np.where(empty, 1.0, stop - np.where(empty, 0.0, start))
    with np.errstate(divide="ignore"):  # an interval too short for a number
        share = np.log(-np.expm1(-alpha * np.log1p(width / (beta + begin))))
    return np.where(empty, -np.inf, share - alpha * np.log1p(begin / beta))


def _lomax_cdf(p: np.ndarray, x: Any) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    return -np.expm1(-p[..., 0] * np.log1p(np.where(x < 0, 0.0, x) / p[..., 1]))


def _points(p: np.ndarray, low: float, high: float, order: int) -> Points:
    """As `gaussian.student_points`: in w, x = beta (e^w - 1), or in x from the lower end.

    The density of w is e^(-alpha w).
    """
    alpha, beta = p.T
    ends = np.log1p(low / beta), np.log1p(high / beta)
    w, weight = graded_points(*ends, alpha, lambda w: w, order)
    away, size, above = np.expm1(w), 1.0 + low / beta, (high - low) / beta
    narrow = above < NARROW * size
    power, size = alpha[narrow] + 1.0, size[narrow]
    reach = size * np.minimum(np.expm1(-NEGLIGIBLE / power), 1.0)
    y, spacing = cubic_panels(np.zeros(size.shape), np.minimum(above[narrow], reach))
    away[narrow], weight[narrow] = y, np.exp(-power[:, None] * np.log1p(y / size[:, None])) * spacing
    return Points(np.where(narrow, low, 0.0), beta[:, None] * away, weight, alpha)


def _exp_coefficients(theta, width, out):
    out[0] = fast_log(theta[0])
    out[1] = -theta[0]


def _add_exp_gradient(theta, width, u, x, flow, out):
    out[0] += flow * (1.0 / theta[0] - u)


def _exp_slope(theta, u, x):
    return -theta[0]


def _exp_draw(rng, theta):
    return rng.standard_exponential() / theta[0]


def _lomax_coefficients(theta, width, out):
    out[0] = math.log(theta[0] / theta[1])
    out[1] = 0.0
    out[2] = 1.0 / theta[1]
    out[3] = theta[0] + 1.0


def _form(lead, a, b, c, table, u):
    t = u * b
    return lead - c * fast_log1p(t) if t < 1e300 else IMPOSSIBLE


def _add_lomax_gradient(theta, width, u, x, flow, out):
    alpha, beta = theta[0], theta[1]
    out[0] += flow * (1.0 / alpha - math.log1p(u / beta))
    out[1] += flow * ((alpha + 1.0) * u / (beta * (beta + u)) - 1.0 / beta)


def _lomax_slope(theta, u, x):
    return -(theta[0] + 1.0) / (theta[1] + u)


def _lomax_draw(rng, theta):
    return theta[1] * math.expm1(rng.standard_exponential() / theta[0])


def _raw_moments(p: np.ndarray, centre: float, order: int) -> np.ndarray:
    """E X^k = k! beta^k / ((alpha - 1) .. (alpha - k))."""
    alpha, beta = p.T
    own = np.ones((alpha.size, order + 1))
    for k in range(1, order + 1):
        fall = np.where(alpha > k, alpha - k, np.nan)
        own[:, k] = np.where(alpha > k, own[:, k - 1] * k * beta / fall, np.inf)
    with np.errstate(invalid="ignore"):
        out = about(own, np.full(alpha.size, -centre))
    for k in range(1, order + 1):
        out[alpha <= k, k] = np.inf
    return out


def _in_units(parameters: np.ndarray, centre: float, scale: float) -> np.ndarray:
    return parameters * np.array([1.0, scale, 1.0, 1.0])


def _draw_within(p: np.ndarray, low: float, high: float, u: np.ndarray) -> np.ndarray:
    alpha, beta = p.T
    first, last = (np.log1p(np.maximum(v, 0.0) / beta) for v in (low, high))
    w = first - np.log1p(u * np.expm1(-alpha * (last - first))) / alpha
    return np.clip(beta * np.expm1(w), low, high)


def _prior(mean, variance, floor, scale, n_levels, leaf_shape, precision_ratio):
    a = 1.0 / scale
    return a, a * mean, 0.0, 0.0


def _conjugate_posterior(n, s1, s2, p0, p1, p2, p3):
    return p0 + n, p1 + s1, 0.0, 0.0


def _add(s1, s2, sign, u, offset, cell, trials):
    return s1 + sign * (u + offset), s2


def _predictive(p0, p1, p2, p3, half_step, cell):
    return fast_log(p0 / p1), p0 + 1.0, 0.0, 0.0, 1.0 / p1


def _log_predictive(u, offset, log_scale, power, centre, curvature, slope, trials):
    if u + offset < 0.0:
        return IMPOSSIBLE
    return log_scale - power * fast_log1p((u + offset) * slope)


def _log_density_of(u, offset, p0, p1, p2, p3, half_step, cell):
    return math.log(p0 / p1) - (p0 + 1.0) * fast_log1p((u + offset) / p1)


@inner_kernel
def add_gamma_marginal(log_p, events, exposure, base, p0, p1, first):
    """log_p plus the log of rate^events exp(-rate exposure - base), integrated over a gamma prior of the rate."""
    return log_p + (
        log_rising_from(p0, events, first) - p0 * math.log1p(exposure / p1) - events * math.log(p1 + exposure) - base
    )


@inner_kernel
def gamma_slope(events, exposure, p0, p1, first, log_rate, by_rate):
    """Its derivative in the shape p0; the rate p1 is ``by_rate`` times the shape."""
    a = p0 + events
    b = p1 + exposure
    return digamma(a) - first + log_rate - math.log(b) + by_rate * (p0 / p1 - a / b)


def _add_log_marginal(log_p, n, s1, s2, p0, p1, p2, p3, first, second):
    return add_gamma_marginal(log_p, n, s1, 0.0, p0, p1, first)


def _add_slopes(out, n, s1, s2, p0, p1, p2, p3, first, second, constants, leaf_scale, second_log):
    by_shape = gamma_slope(n, s1, p0, p1, first, second_log, constants[0])
    out[0] -= by_shape / (leaf_scale * constants[3] * leaf_scale)


def _expected(p0, p1, p2, p3, cell):
    return digamma(p0) - math.log(p1), 0.0, 0.0, p0 / p1


def _draw_predictive(rng, p0, p1, p2, p3, offset):
    rate = rng.standard_gamma(p0) / p1
    return rng.standard_exponential() / rate - offset


def _log_cell(low, high, offset, log_scale, power, centre, curvature, slope):
    alpha = power - 1.0
    start = math.log1p(max(low + offset, 0.0) * slope)
    stop = math.log1p(max(high + offset, 0.0) * slope)
    return -alpha * start + math.log(-math.expm1(-alpha * (stop - start))) if stop > start else IMPOSSIBLE


def _draw_in_cell(rng, low, high, offset, power, centre, curvature, slope):
    alpha = power - 1.0
    beta = 1.0 / slope
    start = math.log1p(max(low + offset, 0.0) / beta)
    stop = math.log1p((high + offset) / beta)
    w = start - math.log1p(rng.random() * math.expm1(-alpha * (stop - start))) / alpha
    return beta * math.expm1(w) - offset


def _draw_parameters(rng, p0, p1, p2, p3):
    return rng.standard_gamma(p0) / p1, 0.0


def _log_cell_given(low, high, offset, first, second):
    start = max(low + offset, 0.0)
    return math.log(-math.expm1(-first * (high + offset - start))) - first * start


def _draw_in_cell_given(rng, low, high, offset, first, second):
    start = max(low + offset, 0.0)
    return low - math.log1p(rng.random() * math.expm1(-first * (high + offset - start))) / first


CONJUGATE = Conjugate(
    reading=NOT_NEGATIVE,
    prior_form=GAMMA_PRIOR,
    prior=_prior,
    posterior=_conjugate_posterior,
    is_vector=True,
    add=_add,
    predictive=_predictive,
    log_predictive=_log_predictive,
    log_density=_log_density_of,
    add_log_marginal=_add_log_marginal,
    add_slopes=_add_slopes,
    expected=_expected,
    draw=_draw_predictive,
    log_cell=_log_cell,
    draw_in_cell=_draw_in_cell,
    draw_parameters=_draw_parameters,
    log_cell_given=_log_cell_given,
    draw_in_cell_given=_draw_in_cell_given,
)
EXPONENTIAL = UnivariateFamily(
    name="exponential",
    n_parameters=1,
    is_density=True,
    log_density=_exponential_log_density,
    check=RATE_RULE,
    mean=lambda p: 1.0 / p[..., 0],
    variance=lambda p: 1.0 / np.square(p[..., 0]),
    mode=lambda p: np.zeros(p.shape[:-1]),
    draw=lambda p, rng: rng.standard_exponential(p.shape[:-1]) / p[..., 0],
    log_interval=_exponential_log_interval,
    lowest=0.0,
    kernels=Kernels(
        LINEAR,
        NOT_NEGATIVE,
        linear,
        _exp_coefficients,
        _add_exp_gradient,
        _exp_draw,
        all_positive,
        _exp_slope,
    ),
    location=lambda pt, p: 1.0 / p[:, 0],
)
LOMAX = UnivariateFamily(
    name="lomax",
    n_parameters=2,
    is_density=True,
    log_density=_lomax_log_density,
    check=are_positive("shape", "scale"),
    mean=_mean,
    variance=_variance,
    mode=lambda p: np.zeros(p.shape[:-1]),
    draw=lambda p, rng: p[..., 1] * rng.pareto(p[..., 0]),
    log_interval=_lomax_log_interval,
    lowest=0.0,
    cdf=_lomax_cdf,
    bulk=lambda p: (np.zeros(len(p)), np.maximum(p[:, 1] / p[:, 0], 1e-300)),
    raw_moments=_raw_moments,
    **by_points(_points, lowest=0.0),
    draw_within=_draw_within,
    kernels=Kernels(
        POWER,
        NOT_NEGATIVE,
        _form,
        _lomax_coefficients,
        _add_lomax_gradient,
        _lomax_draw,
        all_positive,
        _lomax_slope,
    ),
    location=lambda pt, p: p[:, 1] / p[:, 0],
)
PREDICTIVE = Predictive(
    entry=Exponential,
    leaves=LOMAX,
    leaf_rows=lambda posteriors: posteriors[:, :2],
    draw_parameters=draw_rates,
    conjugate=CONJUGATE,
    in_units=_in_units,
)
