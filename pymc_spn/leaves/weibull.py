"""Weibull leaves on positive values, with a shape and a scale."""

import math
from typing import Any

import numpy as np
from scipy.special import gammaln

from pymc_spn.leaves.family_pieces import (
    LARGEST_SIZE,
    MOST_STEPS,
    NEWTON_END,
    SMALLEST_SIZE,
    Boxes,
    Fit,
    Kernels,
    Symbols,
    positive,
)
from pymc_spn.leaves.kernel_forms import EXTREME, IMPOSSIBLE, LOGARITHM, all_positive, fourth, times
from pymc_spn.leaves.leaf_family import UnivariateFamily, are_positive
from pymc_spn.numerics.elementary import fast_exp
from pymc_spn.numerics.kernel_options import inner_kernel

EQUAL = 1e-14  # spread of logs that is rounding


def _log_density(p: np.ndarray, x: Any) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    inside = (x > 0) & np.isfinite(x)
    y = np.log(np.where(inside, x, 1.0))
    return np.where(np.isnan(x), np.nan, np.where(inside, _of_log(p, y) - y, -np.inf))


def _of_log(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log density of the log of the value, y: a Gumbel density of minimum values."""
    t = p[..., 0] * (y - np.log(p[..., 1]))
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(t < 700.0, np.log(p[..., 0]) + t - np.exp(t), -np.inf)


def _at_log(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    t = p[..., 0] * (y - np.log(p[..., 1]))
    return np.log(p[..., 0] / p[..., 1]) + (p[..., 0] - 1.0) * (y - np.log(p[..., 1])) - np.exp(t)


def _variance(p: np.ndarray) -> np.ndarray:
    first = gammaln(1.0 + 1.0 / p[..., 0])
    with np.errstate(over="ignore"):
        return np.square(p[..., 1] * np.exp(first)) * np.expm1(gammaln(1.0 + 2.0 / p[..., 0]) - 2.0 * first)


def _mode(p: np.ndarray) -> np.ndarray:
    shape = np.maximum(p[..., 0], 1.0)
    return p[..., 1] * (1.0 - 1.0 / shape) ** (1.0 / shape)


def _draw(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        drawn = p[..., 1] * rng.standard_exponential(p.shape[:-1]) ** (1.0 / p[..., 0])
    return np.clip(drawn, SMALLEST_SIZE, LARGEST_SIZE)


def _log_interval(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """With hazards s = (x / scale)^shape up to both ends: -s_low plus the log of 1 - exp(-(s_high - s_low))."""
    shape, start, stop = np.broadcast_arrays(p[..., 0], np.maximum(low, 0.0), np.maximum(high, 0.0))
    some = (stop > start) & np.isfinite(start)
    begin, end = np.where(some, start, 1.0), np.where(some, stop, 2.0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_low, log_high = shape * np.log(begin / p[..., 1]), shape * np.log(end / p[..., 1])
        growth = shape * np.log1p((end - begin) / begin)  # of the log hazard, also over a narrow interval
        between = log_low + np.where(growth < 30.0, np.log(np.expm1(np.minimum(growth, 30.0))), growth)
        between = np.where(begin > 0.0, between, log_high)
        inside = np.where(between < -40.0, between, np.log(-np.expm1(-np.exp(between))))
        return np.where(some, inside - np.exp(log_low), -np.inf)


def _coefficients(theta, width, out):
    out[0] = math.log(theta[0])
    out[1] = math.log(theta[1])
    out[2] = theta[0]


def _form(lead, a, b, c, table, u):
    t = (u - a) * b
    return lead + t - fast_exp(t) if t < 690.0 else IMPOSSIBLE  # the density is 0


def _add_gradient(theta, width, u, x, flow, out):
    away = u - math.log(theta[1])
    if theta[0] * away < 690.0:
        beyond = math.expm1(theta[0] * away)
        out[0] += flow * (1.0 / theta[0] - away * beyond)
        out[1] += flow * theta[0] / theta[1] * beyond


def _value_slope(theta, u, x):
    if x > 0.0 and theta[0] * (u - math.log(theta[1])) < 690.0:
        return -(1.0 + theta[0] * math.expm1(theta[0] * (u - math.log(theta[1])))) / x
    return 0.0


def _draw_one(rng, theta):
    return min(max(theta[1] * rng.standard_exponential() ** (1.0 / theta[0]), SMALLEST_SIZE), LARGEST_SIZE)


@inner_kernel
def _box_log(a, b, c, e, x):
    if x < 0.0:
        return IMPOSSIBLE
    t = a * math.log(x / b) if x > 0.0 else 700.0
    return c + t - math.exp(t) - math.log(x) if t < 700.0 else IMPOSSIBLE


@inner_kernel
def _slopes(a, b, c, x):
    if x <= 0.0:
        return 0.0, 0.0
    g = (a - 1.0 - a * (x / b) ** a) / x
    return g, g * g - (a - 1.0) * (1.0 + a * (x / b) ** a) / (x * x)


def _box_ranges(p, low, high, shift, out):
    """Over low >= 0 the first in closed form, the second by its factors.

    With k the shape and s = (x / scale)^k the first derivative is f (k - 1 - k s) / x. The second is f / x^2, which
    turns at k s = k - 3, times the parabola k^2 s^2 - 3 k (k - 1) s + (k - 1) (k - 2).
    """
    k = p[0]
    if low <= 0.0 and k < 3.0:
        out[0] = out[2] = -math.inf  # a derivative has a pole or a jump at 0
        out[1] = out[3] = math.inf
        return
    s_low = min((low / p[1]) ** k, 1e100)  # far beyond where f is 0
    s_high = min((high / p[1]) ** k, 1e100)
    at_low = k * s_low * (k * s_low - 3.0 * (k - 1.0)) + (k - 1.0) * (k - 2.0)
    at_high = k * s_high * (k * s_high - 3.0 * (k - 1.0)) + (k - 1.0) * (k - 2.0)
    parabola_low = min(at_low, at_high)
    parabola_high = max(at_low, at_high)
    if s_low < 1.5 * (k - 1.0) / k < s_high:
        parabola_low = (k - 1.0) * (k - 2.0) - 2.25 * (k - 1.0) * (k - 1.0)
    factor_low = min(_factor(p, low, shift), _factor(p, high, shift))
    factor_high = max(_factor(p, low, shift), _factor(p, high, shift))
    if s_low < 1.0 - 3.0 / k < s_high:
        factor_high = _factor(p, p[1] * (1.0 - 3.0 / k) ** (1.0 / k), shift)
    out[2], out[3] = times(factor_low, factor_high, parabola_low, parabola_high)
    out[0] = 0.0 if low <= 0.0 else math.inf
    out[1] = 0.0 if low <= 0.0 else -math.inf
    if low > 0.0:
        _widen_first(p, low, low, high, shift, out)
    if high > 0.0:
        _widen_first(p, high, low, high, shift, out)
    if low == high:
        return
    for sign in (-1.0, 1.0):
        s = (3.0 * (k - 1.0) + sign * math.sqrt((k - 1.0) * (5.0 * k - 1.0))) / (2.0 * k)
        if s > 0.0:
            _widen_first(p, p[1] * s ** (1.0 / k), low, high, shift, out)


@inner_kernel
def _factor(p, x, shift):
    """f / x^2; at 0 only where its power is not negative."""
    if x <= 0.0:
        return math.exp(p[2] - 3.0 * math.log(p[1]) - shift) if p[0] == 3.0 else 0.0
    return math.exp(_box_log(p[0], p[1], p[2], p[3], x) - 2.0 * math.log(x) - shift)


@inner_kernel
def _widen_first(p, x, low, high, shift, out):
    """Widen the range of the first derivative by its value at x, if x lies inside."""
    if low <= x <= high:
        v = math.exp(_box_log(p[0], p[1], p[2], p[3], x) - shift)
        first = v * _slopes(p[0], p[1], p[2], x)[0] if v > 0.0 else 0.0  # the slope may be infinite there
        out[0] = min(out[0], first)
        out[1] = max(out[1], first)


def _pull(p, x, share):
    if not x > 0.0:
        return 0.0, 0.0
    hazard = (x / p[1]) ** p[0]
    force = share * (p[0] - 1.0 - p[0] * hazard) / x
    return force, share * (p[0] - 1.0) * (1.0 + p[0] * hazard) / (x * x)


def best_leaf(y: np.ndarray, weight: np.ndarray, rows: float = 0.0, usual: float = 1.0) -> tuple[float, float]:
    """Shape and scale of largest posterior density for logs (n,) of values with weights (n,), some of them positive.

    The prior is that of a shape alone, ``rows (log k - k / usual)``, a gamma density with its mode at `usual`, the
    shape that fits the whole column. A value's density is at most k / (e x), so that keeps the objective bounded.
    Observations of the column, as of other families, would bind scales that are smaller than its own: their hazards are
    powers.

    The shape is where the mean of y under weights times exp(k y) exceeds that under the weights by 1 / k. This is in
    Cohen (1965), Maximum likelihood estimation in the Weibull distribution, Technometrics 7. Here it exceeds it by (1 +
    r) / k - r / usual with r the rows of the prior for each of the data. The difference rises in k; Newton's steps
    change k by a factor of at most five. Without prior equal values have an infinite shape.
    """
    y, weight = y[weight > 0.0], weight[weight > 0.0]
    total = float(weight.sum())
    top = y.max()
    away = y - top
    mean = float(weight @ away) / total
    spread = np.sqrt(float(weight @ np.square(away - mean)) / total)
    if rows == 0.0 and not spread > EQUAL * max(1.0, abs(top)):
        return np.inf, float(np.exp(top))
    of_logs = spread * np.sqrt(6.0) / np.pi  # 1 / k if it is that of a Gumbel variable
    shape = (total + rows) / (rows / usual + total * of_logs)
    for _ in range(MOST_STEPS):
        tilted = weight * np.exp(shape * away)
        tilted_mean = float(tilted @ away) / float(tilted.sum())
        tilted_variance = float(tilted @ np.square(away - tilted_mean)) / float(tilted.sum())
        excess = total * (tilted_mean - mean) - (total + rows) / shape + rows / usual
        new = shape - excess / (total * tilted_variance + (total + rows) / shape**2)
        new = min(max(new, 0.2 * shape), 5.0 * shape)
        moved, shape = abs(new / shape - 1.0), new
        if moved < NEWTON_END:
            break
    return shape, float(np.exp(top + np.log(float(weight @ np.exp(shape * away)) / total) / shape))


def _of_rows(
    x: np.ndarray, weight: np.ndarray, rows: float, mean: float, variance: float
) -> tuple[float, float] | None:
    return best_leaf(np.log(x), weight, rows, mean) if np.any(weight > 0.0) else None


def _averages(u: np.ndarray, kept: float) -> tuple[Any, Any]:
    shape, scale = best_leaf(np.log(u), np.ones(u.size))
    return np.float64(shape), np.float64(scale)


def _near(cell: np.ndarray, usable: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """At the column's shape."""
    return np.column_stack([mean, np.where(usable, 0.5 * (variance + cell), variance)])


def _in_jax(jax: Any, theta: Any, u: Any, zero: float) -> Any:
    shape, scale = jax.columns(theta)
    t = shape * (u - jax.log(scale))
    return jax.chosen(t < math.log(-zero), lambda t: jax.log(shape) + t - jax.exp(t), t, zero)


WEIBULL = UnivariateFamily(
    name="weibull",
    n_parameters=2,
    is_density=True,
    log_density=_log_density,
    check=are_positive("shape", "scale"),
    mean=lambda p: p[..., 1] * np.exp(gammaln(1.0 + 1.0 / p[..., 0])),
    variance=_variance,
    mode=_mode,
    draw=_draw,
    log_interval=_log_interval,
    lowest=0.0,
    open_ends=(1, "0"),
    exponent_at_zero=lambda p: p[..., 0],
    features=lambda p, in_logs: (np.log(p[:, 1:]), 1.0 / p[:, :1]),
    of_log=_of_log,
    at_log=_at_log,
    kernels=Kernels(
        EXTREME, LOGARITHM, _form, _coefficients, _add_gradient, _draw_one, all_positive, value_slope=_value_slope
    ),
    boxes=Boxes(
        row=lambda p: (p[0], p[1], np.log(p[0]), float(_mode(p))),
        log_value=_box_log,
        mode=fourth,
        is_one_sided=True,
        ranges=_box_ranges,
        pull=_pull,
    ),
    fit=Fit(
        can_take=positive,
        averages=_averages,
        leaves=lambda mean, variance: np.column_stack([mean, variance]),
        said="best shape {:g} and scale {:g}",
        of_rows=_of_rows,
        log_prior=lambda own, mean, variance: np.log(own[:, 0]) - own[:, 0] / mean,
        near=_near,
    ),
    symbols=Symbols(
        in_jax=_in_jax,
        location=lambda pt, p: p[:, 1],
        n_outputs=2,
        link=lambda pt, o, at: (pt.exp(o[0]), pt.exp(o[1]) * at.size),
    ),
)
