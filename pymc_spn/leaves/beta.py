"""Beta leaves on values between 0 and 1, with two shapes."""

import math
from typing import Any

import numpy as np
from scipy.special import betaln, polygamma
from scipy.special import digamma as np_digamma

from pymc_spn.leaves.family_pieces import MOST_STEPS, NARROW, NEWTON_END, Boxes, Fit, Kernels, Symbols
from pymc_spn.leaves.kernel_forms import (
    HALF_LOG_2PI,
    IMPOSSIBLE,
    LARGE_SHAPE,
    LOG_ODDS,
    SIGMOIDS,
    all_positive,
    fourth,
    times,
)
from pymc_spn.leaves.leaf_family import UnivariateFamily, are_positive
from pymc_spn.leaves.tail_probabilities import (
    STIRLING_FROM,
    log_beta,
    log_betainc,
    log_difference,
    log_narrow_integral,
    stirling_rest,
)
from pymc_spn.numerics.elementary import digamma, fast_exp, fast_log1p
from pymc_spn.numerics.gamma_draws import log_gamma_draw
from pymc_spn.numerics.gamma_ratios import stirling_rest as stirling_rest_at
from pymc_spn.numerics.kernel_options import inner_kernel

SMALLEST_SHARE, LARGEST_SHARE = 5e-324, 1.0 - 2.0**-53  # next to 0 and to 1, which the leaves do not take
LEAST_GAP = 1e-13  # between 1 and the sum of geometric means below which it is rounding


def _log_density(p: np.ndarray, x: Any) -> np.ndarray:
    alpha, beta = p[..., 0], p[..., 1]
    x = np.asarray(x, dtype=np.float64)
    inside = (x > 0) & (x < 1)
    y = np.where(inside, x, 0.5)
    logs = (alpha - 1.0) * np.log(y) + (beta - 1.0) * np.log1p(-y) - log_beta(alpha, beta)
    a, b = np.maximum(alpha, STIRLING_FROM), np.maximum(beta, STIRLING_FROM)
    away = y * b - (1.0 - y) * a  # (a + b) times the distance from the mean
    front = 0.5 * np.log(a / (2.0 * np.pi) * (b / (a + b))) + stirling_rest(a + b) - stirling_rest(a) - stirling_rest(b)
    near = (np.minimum(alpha, beta) >= STIRLING_FROM) & (np.abs(away) < 0.5 * np.minimum(a, b))
    away = np.where(near, away, 0.0)
    ratios = a * np.log1p(away / a) + b * np.log1p(-away / b)
    logs = np.where(near, front + ratios - np.log(y) - np.log1p(-y), logs)
    return np.where(np.isnan(x), np.nan, np.where(inside, logs, -np.inf))


def _variance(p: np.ndarray) -> np.ndarray:
    total = p[..., 0] + p[..., 1]
    return p[..., 0] / total * (p[..., 1] / total) / (total + 1.0)


def _mode(p: np.ndarray) -> np.ndarray:
    """Between 0 and 1 where both parameters are above 1; the mean where there is none."""
    has_one = (p > 1.0).all(axis=-1)
    above = p - np.where(has_one, 1.0, 0.0)[..., None]
    return above[..., 0] / above.sum(axis=-1)


def _log_interval(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    alpha, beta, start, stop = np.broadcast_arrays(
        p[..., 0], p[..., 1], np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    )
    with np.errstate(divide="ignore"):
        log_start, log_stop = np.log(start), np.log(stop)
        after_start, after_stop = np.log1p(-start), np.log1p(-stop)
    lower = log_difference(
        log_betainc(alpha, beta, stop, log_stop, after_stop), log_betainc(alpha, beta, start, log_start, after_start)
    )
    upper = log_difference(
        log_betainc(alpha, beta, start, log_start, after_start, upper=True),
        log_betainc(alpha, beta, stop, log_stop, after_stop, upper=True),
    )
    mean = alpha / (alpha + beta)
    out = np.array(np.where(start > mean, upper, lower))  # measured in the tail that holds the interval
    width, room = stop - start, np.minimum(start, 1.0 - stop)
    spread = np.sqrt(mean * (1.0 - mean) / (alpha + beta + 1.0))
    narrow = (width > 0.0) & (width < NARROW * np.minimum(spread, room))
    narrow &= (start < 0.5) | (width < np.square(1.0 - stop))  # points within are rounded, most felt next to 1
    if np.any(narrow):
        a, b, x, y = alpha[narrow], beta[narrow], start[narrow], stop[narrow]
        steep = np.abs((a - 1.0) * np.log(y / x) + (b - 1.0) * np.log1p(-(y - x) / (1.0 - x))) > 0.5
        own = np.stack([a, b], axis=-1)
        inside = log_narrow_integral(lambda t: _log_density(own, t), x, y, y - x)
        out[narrow] = np.where(steep, out[narrow], inside)
    return np.where(width > 0.0, out, -np.inf)


def _inner_product(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    alpha, beta = p[..., 0] + q[..., 0] - 1.0, p[..., 1] + q[..., 1] - 1.0
    finite = (alpha > 0.0) & (beta > 0.0)
    alpha, beta = np.where(finite, alpha, 1.0), np.where(finite, beta, 1.0)
    logs = log_beta(alpha, beta) - log_beta(p[..., 0], p[..., 1]) - log_beta(q[..., 0], q[..., 1])
    # the smaller one first, so that their share is not rounded to 1
    turned = (alpha > beta)[..., None]
    p, q, both = (np.where(turned, r[..., ::-1], r) for r in (p, q, np.stack([alpha, beta], axis=-1)))
    large = np.maximum(p.min(axis=-1), q.min(axis=-1)) >= STIRLING_FROM
    x = np.where(large, both[..., 0] / (alpha + beta), 0.5)
    # leaves know their log densities to all digits where shapes are large, of which logs of gamma functions keep none
    at_a_point = _log_density(p, x) + _log_density(q, x) - _log_density(both, x)
    return np.where(finite, np.where(large, at_a_point, logs), np.inf)


def _coefficients(theta, width, out):
    both = theta[0] + theta[1]
    out[1] = theta[0]
    out[2] = theta[1]
    if both > LARGE_SHAPE:
        rests = stirling_rest_at(both) - stirling_rest_at(theta[0]) - stirling_rest_at(theta[1])
        out[0] = 0.5 * math.log(theta[0] * (theta[1] / both)) - HALF_LOG_2PI + rests
        out[3] = _sigmoids(theta[0], theta[1], math.log(theta[0]) - math.log(theta[1]))
    else:
        out[0] = math.lgamma(both) - math.lgamma(theta[0]) - math.lgamma(theta[1])


@inner_kernel
def _sigmoids(a, b, u):
    """a log x + b log(1 - x), where u are the log odds of x."""
    nearer = a * u if u < 0.0 else -b * u
    return nearer - (a + b) * fast_log1p(fast_exp(-abs(u)))


def _form(lead, a, b, c, table, u):
    if a + b > LARGE_SHAPE:
        t = u - math.log(a / b)  # from where the density of the log odds is largest
        if abs(t) < 0.5:
            return lead + a * t - (a + b) * math.log1p(a / (a + b) * math.expm1(t))
    return lead + (_sigmoids(a, b, u) - c)


def _add_gradient(theta, width, u, x, flow, out):
    small = -math.log1p(math.exp(-abs(u)))  # log of the larger of x and 1 - x
    total = digamma(theta[0] + theta[1])
    out[0] += flow * (min(u, 0.0) + small - digamma(theta[0]) + total)
    out[1] += flow * (min(-u, 0.0) + small - digamma(theta[1]) + total)


def _value_slope(theta, u, x):
    return (theta[0] - 1.0) / x - (theta[1] - 1.0) / (1.0 - x) if 0.0 < x < 1.0 else 0.0


def _draw_one(rng, theta):
    log_odds = log_gamma_draw(rng, theta[0]) - log_gamma_draw(rng, theta[1])
    return min(max(1.0 / (1.0 + math.exp(-log_odds)), SMALLEST_SHARE), LARGEST_SHARE)


def _box_row(p: np.ndarray) -> tuple[Any, ...]:
    """(alpha - 1, beta - 1, log density at the mode, mode), the first two above 0."""
    k, mode = p - 1.0, float(_mode(p))
    top = float(_log_density(p, mode)) - _box_log.py_func(k[0], k[1], 0.0, mode, mode)
    return k[0], k[1], top, mode


@inner_kernel
def _box_log(a, b, c, e, x):
    if not 0.0 < x < 1.0:
        return IMPOSSIBLE
    m = a / (a + b)
    rest = b / (a + b)
    away = x - m if x < 0.5 else rest - (1.0 - x)
    if abs(away) < 0.5 * min(m, rest):  # large terms that nearly cancel: what is left of each after the first order
        return c + a * (math.log1p(away / m) - away / m) + b * (math.log1p(-away / rest) + away / rest)
    return c + a * (math.log(x) - math.log(m)) + b * (math.log1p(-x) - math.log(rest))


def _box_ranges(p, low, high, shift, out):
    """Of f = c x^k (1 - x)^l the first in closed form, the second by its factors.

    With s = k + l the second derivative is c x^(k - 2) (1 - x)^(l - 2) times a parabola. The parabola is
    s (s - 1) x^2 - 2 k (s - 1) x + k (k - 1). The factor before it has at most one turn, at (k - 2) / (s - 4).
    """
    k = p[0]
    m = p[1]
    if high <= 0.0 or low >= 1.0:
        return
    if (low <= 0.0 and k < 2.0) or (high >= 1.0 and m < 2.0):
        out[0] = out[2] = -math.inf  # a derivative has a pole or a jump at an end
        out[1] = out[3] = math.inf
        return
    s = k + m
    start = max(low, 0.0)
    stop = min(high, 1.0)
    parabola_start = (s * (s - 1.0) * start - 2.0 * k * (s - 1.0)) * start + k * (k - 1.0)
    parabola_stop = (s * (s - 1.0) * stop - 2.0 * k * (s - 1.0)) * stop + k * (k - 1.0)
    parabola_low = min(parabola_start, parabola_stop)
    parabola_high = max(parabola_start, parabola_stop)
    turn = k / s
    if start < turn < stop:
        at = k * (k - 1.0) - k * k * (s - 1.0) / s
        parabola_low = min(parabola_low, at)
        parabola_high = max(parabola_high, at)
    factor_low = min(_factor(p, start, shift), _factor(p, stop, shift))
    factor_high = max(_factor(p, start, shift), _factor(p, stop, shift))
    turn = (k - 2.0) / (s - 4.0) if s != 4.0 else -1.0
    if start < turn < stop:
        factor_low = min(factor_low, _factor(p, turn, shift))
        factor_high = max(factor_high, _factor(p, turn, shift))
    out[2], out[3] = times(factor_low, factor_high, parabola_low, parabola_high)
    is_outside = low <= 0.0 or high >= 1.0  # where the derivatives are 0, as at these ends
    out[0] = 0.0 if is_outside else math.inf
    out[1] = 0.0 if is_outside else -math.inf
    if is_outside:
        out[2] = min(out[2], 0.0)
        out[3] = max(out[3], 0.0)
    for x in (start, stop):
        if 0.0 < x < 1.0:
            _widen_first(p, x, start, stop, shift, out)
    if low == high:
        return
    root = k * k * (s - 1.0) * (s - 1.0) - s * (s - 1.0) * k * (k - 1.0)
    if s != 1.0 and root >= 0.0:
        for sign in (-1.0, 1.0):
            x = (k * (s - 1.0) + sign * math.sqrt(root)) / (s * (s - 1.0))
            if 0.0 < x < 1.0:
                _widen_first(p, x, start, stop, shift, out)


@inner_kernel
def _widen_first(p, x, low, high, shift, out):
    """Widen the range of the first derivative by its value at x, if x lies inside."""
    if low <= x <= high:
        v = math.exp(_box_log(p[0], p[1], p[2], p[3], x) - shift)
        first = v * (p[0] / x - p[1] / (1.0 - x)) if v > 0.0 else 0.0  # the slope may be infinite there
        out[0] = min(out[0], first)
        out[1] = max(out[1], first)


@inner_kernel
def _factor(p, x, shift):
    """c x^(k - 2) (1 - x)^(l - 2); at an end only where its power is not negative."""
    if 0.0 < x < 1.0:
        return math.exp(_box_log(p[0], p[1], p[2], p[3], x) - 2.0 * (math.log(x) + math.log1p(-x)) - shift)
    if p[0 if x <= 0.0 else 1] != 2.0:
        return 0.0
    s = p[0] + p[1]
    return math.exp(p[2] - p[0] * math.log(p[0] / s) - p[1] * math.log(p[1] / s) - shift)


def _pull(p, x, share):
    if not 0.0 < x < 1.0:
        return 0.0, 0.0
    force = share * (p[0] / x - p[1] / (1.0 - x))
    return force, share * (p[0] / (x * x) + p[1] / ((1.0 - x) * (1.0 - x)))


def beta_shapes(mean_log: np.ndarray, mean_log_rest: np.ndarray) -> np.ndarray:
    """Alpha and beta (n, 2) of largest density for these means (n,) of the logs of x and of 1 - x; else infinite.

    Newton's method (Minka 2000, Estimating a Dirichlet distribution) on a concave function, with no parameter divided
    by more than ten in a step. The geometric means of x and 1 - x add up to less than 1, by half the inverse of alpha +
    beta where that is large. Below 1e-13 there is nothing but rounding.
    """
    means = np.stack([mean_log, mean_log_rest])
    gap = 1.0 - np.exp(means).sum(axis=0)
    varies = gap > LEAST_GAP
    means = np.where(varies, means, np.log(0.25))
    shapes = 0.5 + 0.5 * np.exp(means) / (1.0 - np.exp(means).sum(axis=0))
    for _ in range(MOST_STEPS):
        total = shapes.sum(axis=0)
        slope = means - np_digamma(shapes) + np_digamma(total)
        inverse, shared = 1.0 / polygamma(1, shapes), polygamma(1, total)
        step = inverse * (slope + shared * (inverse * slope).sum(axis=0) / (1.0 - shared * inverse.sum(axis=0)))
        new = np.maximum(shapes + step, 0.1 * shapes)
        moved, shapes = np.abs(new / shapes - 1.0).max(initial=0.0), new
        if moved < NEWTON_END:
            break
    return np.where(varies, shapes, np.inf).T


def _best(own: np.ndarray, moments: np.ndarray, rows: float, mean: np.ndarray, variance: np.ndarray) -> Any:
    n, logs, rests = moments
    n = np.where(n + rows > 0.0, n + rows, 1.0)
    return (logs + rows * mean) / n, (rests + rows * variance) / n


def _near(cell: np.ndarray, usable: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """At the column's alpha + beta."""
    shapes = beta_shapes(mean, variance)
    total = shapes.sum(axis=1)
    centre = shapes[:, 0] / total
    centre = np.where(usable, 0.5 * (centre + cell), centre)
    return np.column_stack([total * centre, total * (1.0 - centre)])


def _in_jax(jax: Any, theta: Any, u: Any, zero: float) -> Any:
    a, b = jax.columns(theta)
    lead = jax.gammaln(a + b) - jax.gammaln(a) - jax.gammaln(b)
    return lead - a * jax.softplus(-u) - b * jax.softplus(u)


def _link(pt: Any, o: Any, at: Any) -> tuple[Any, Any]:
    mean, total = pt.sigmoid(o[0] + np.log(at.share) - np.log1p(-at.share)), 2.0 * pt.exp(o[1])
    return mean * total, (1.0 - mean) * total


def _product_of_tensors(pt: Any, p: Any, q: Any) -> tuple[Any, Any]:
    def log_beta_of(shapes: Any) -> Any:
        return pt.gammaln(shapes).sum(axis=1) - pt.gammaln(shapes.sum(axis=1))

    shapes = p + q - 1.0
    converges = pt.all(shapes > 0.0, axis=1)
    shapes = pt.switch(converges[:, None], shapes, 1.0)
    return pt.switch(converges, log_beta_of(shapes) - log_beta_of(p) - log_beta_of(q), np.inf), shapes


BETA = UnivariateFamily(
    name="beta",
    n_parameters=2,
    is_density=True,
    log_density=_log_density,
    check=are_positive("alpha", "beta"),
    mean=lambda p: p[..., 0] / (p[..., 0] + p[..., 1]),
    variance=_variance,
    mode=_mode,
    draw=lambda p, rng: np.clip(rng.beta(p[..., 0], p[..., 1]), SMALLEST_SHARE, LARGEST_SHARE),
    log_interval=_log_interval,
    lowest=0.0,
    highest=1.0,
    open_ends=(2, "0 and 1"),
    products={"beta": ("beta", lambda p, q: p + q - 1.0)},
    inner_products={"beta": _inner_product},
    exponent_at_zero=lambda p: p[..., 0],
    kernels=Kernels(
        SIGMOIDS, LOG_ODDS, _form, _coefficients, _add_gradient, _draw_one, all_positive, value_slope=_value_slope
    ),
    boxes=Boxes(row=_box_row, log_value=_box_log, mode=fourth, ranges=_box_ranges, pull=_pull),
    fit=Fit(
        can_take=lambda x: np.isfinite(x) & (x > 0) & (x < 1),
        averages=lambda u, kept: (np.log(u).mean(), np.log1p(-u).mean()),
        leaves=beta_shapes,
        said="mean log {:g} and mean log of the rest to 1 {:g}",
        best=_best,
        statistics=lambda x, own: (x.size, np.log(x).sum(), np.log1p(-x).sum()),
        log_prior=lambda own, mean, variance: (own[:, 0] - 1.0) * mean + (own[:, 1] - 1.0) * variance - betaln(*own.T),
        near=_near,
    ),
    symbols=Symbols(
        in_jax=_in_jax,
        location=lambda pt, p: p[:, 0] / p.sum(axis=1),
        n_outputs=2,
        link=_link,
        product=_product_of_tensors,
        bounds=((0.0, np.inf), (0.0, np.inf)),
    ),
)
