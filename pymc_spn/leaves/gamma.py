"""Gamma leaves on positive values, with a shape and a rate."""

import math
from typing import Any

import numpy as np
from scipy.special import digamma as np_digamma
from scipy.special import gammaln, polygamma

from pymc_spn.leaves.family_pieces import LARGEST_SIZE, NARROW, SMALLEST_SIZE, Boxes, Fit, Kernels, Symbols, positive
from pymc_spn.leaves.kernel_forms import (
    EXPONENT,
    HALF_LOG_2PI,
    IMPOSSIBLE,
    LARGE_SHAPE,
    LOGARITHM,
    all_positive,
    fourth,
    widen,
)
from pymc_spn.leaves.leaf_family import UnivariateFamily, are_positive
from pymc_spn.leaves.tail_probabilities import (
    STIRLING_FROM,
    log_difference,
    log_gammainc,
    log_narrow_integral,
    stirling_rest,
)
from pymc_spn.numerics.elementary import digamma, fast_exp
from pymc_spn.numerics.gamma_ratios import stirling_rest as stirling_rest_at
from pymc_spn.numerics.kernel_options import inner_kernel

EPSILON = 2.0**-52


def _log_density(p: np.ndarray, x: Any) -> np.ndarray:
    shape, rate = p[..., 0], p[..., 1]
    x = np.asarray(x, dtype=np.float64)
    inside = (x > 0) & np.isfinite(x)
    y = np.where(inside, x, 1.0)
    large, few = np.maximum(shape, STIRLING_FROM), np.minimum(shape, STIRLING_FROM)
    logs = few * np.log(rate) - gammaln(few) + few * np.log(y) - rate * y
    t = np.log(y) - np.log(large / rate)
    with np.errstate(over="ignore"):
        deviance = large * (np.expm1(t) - t)
    by_deviance = 0.5 * np.log(large / (2.0 * np.pi)) - stirling_rest(large) - deviance
    logs = np.where(shape < STIRLING_FROM, logs, by_deviance) - np.log(y)
    return np.where(np.isnan(x), np.nan, np.where(inside, logs, -np.inf))


def _powers(p: np.ndarray, y: np.ndarray, power: np.ndarray) -> np.ndarray:
    shape, rate = p[..., 0], p[..., 1]
    return shape * np.log(rate) - gammaln(shape) + power * y - rate * np.exp(y)


def _rounding(p: np.ndarray, x: np.ndarray, in_logs: bool) -> np.ndarray:
    """What the terms lose (n,), which nearly cancel where the shape is large."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        y = x if in_logs else np.log(x)
        terms = np.abs(p[:, 0] * np.log(p[:, 1])) + np.abs(gammaln(p[:, 0])) + np.abs(p[:, 0] * y)
        return EPSILON * np.nan_to_num(terms + p[:, 1] * np.exp(y), posinf=0.0)


def _log_interval(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    shape, start, stop = np.broadcast_arrays(
        p[..., 0], np.maximum(low, 0.0) * p[..., 1], np.maximum(high, 0.0) * p[..., 1]
    )
    upper = log_difference(log_gammainc(shape, start, True), log_gammainc(shape, stop, True))
    lower = log_difference(log_gammainc(shape, stop, False), log_gammainc(shape, start, False))
    out = np.array(np.where(start > shape, upper, lower))  # measured in the tail that holds the interval
    width = np.broadcast_to((high - low) * p[..., 1], shape.shape)  # where it is narrow both ends are above 0
    narrow = (width < NARROW * np.minimum(np.sqrt(shape), start)) & (width > 0.0)
    if np.any(narrow):
        a, x, y = shape[narrow], start[narrow], stop[narrow]
        unit_rate = np.stack([a, np.ones_like(a)], axis=-1)
        inside = log_narrow_integral(lambda t: _log_density(unit_rate, t), x, y, width[narrow])
        steep = np.abs((a - 1.0) * np.log(y / x) - (y - x)) > 0.5
        out[narrow] = np.where(steep, out[narrow], inside)
    return out


def _inner_product(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    a, b, shape = p[..., 0], q[..., 0], p[..., 0] + q[..., 0] - 1.0
    converges = shape > 0.0
    shape = np.where(converges, shape, 1.0)
    total = p[..., 1] + q[..., 1]
    logs = a * np.log(p[..., 1] / total) + b * np.log(q[..., 1] / total) + np.log(total)
    logs = logs + gammaln(shape) - gammaln(a) - gammaln(b)
    with np.errstate(over="ignore"):
        x = shape / total
    large = (np.maximum(a, b) >= STIRLING_FROM) & np.isfinite(x)
    x, both = np.where(large, x, 1.0), np.stack([shape, total], axis=-1)
    # leaves know their log densities to all digits where shapes are large, of which logs of gamma functions keep none
    at_a_point = _log_density(p, x) + _log_density(q, x) - _log_density(both, x)
    return np.where(converges, np.where(large, at_a_point, logs), np.inf)


def as_gamma(rate: np.ndarray) -> np.ndarray:
    """Exponential leaves (..., 1) as gamma leaves of shape 1."""
    return np.concatenate([np.ones_like(rate), rate], axis=-1)


def _product(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.column_stack([p[:, 0] + q[:, 0] - 1.0, p[:, 1] + q[:, 1]])


def exponential_inner_product(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Of two exponential leaves."""
    return _inner_product(as_gamma(p), as_gamma(q))


def _coefficients(theta, width, out):
    out[1] = theta[0]
    out[2] = theta[1]
    if theta[0] > LARGE_SHAPE:
        out[0] = 0.5 * math.log(theta[0]) - HALF_LOG_2PI - stirling_rest_at(theta[0])
        out[2] = math.log(theta[0] / theta[1])  # where the density of the log is largest
    else:
        out[0] = theta[0] * math.log(theta[1]) - math.lgamma(theta[0])


@inner_kernel
def _beyond_linear(t):
    """exp(t) - 1 - t."""
    return math.expm1(t) - t if t < 690.0 else -IMPOSSIBLE


def _form(lead, a, b, c, table, u):
    return lead + a * u - b * fast_exp(u) if a <= LARGE_SHAPE else lead - a * _beyond_linear(u - b)


def _add_gradient(theta, width, u, x, flow, out):
    out[0] += flow * (math.log(theta[1]) - digamma(theta[0]) + u)
    out[1] += flow * (theta[0] / theta[1] - x)


def _value_slope(theta, u, x):
    return (theta[0] - 1.0) / x - theta[1]


def _draw_one(rng, theta):
    return min(max(rng.standard_gamma(theta[0]) / theta[1], SMALLEST_SIZE), LARGEST_SIZE)


def _box_row(p: np.ndarray) -> tuple[Any, ...]:
    """(shape - 1, rate, log density at the mode, mode) of a shape of at least 1."""
    mode = (p[0] - 1.0) / p[1]
    top = float(_log_density(p, mode)) if mode > 0.0 else np.log(p[1])
    return p[0] - 1.0 if mode > 0.0 else 0.0, p[1], top, mode


@inner_kernel
def _box_log(a, b, c, e, x):
    if x < 0.0:
        return IMPOSSIBLE
    if a == 0.0:
        return c - b * x
    if x <= 0.0:
        return IMPOSSIBLE
    u = (x - e) / e
    return c + (a * (math.log1p(u) - u) if abs(u) < 0.5 else a * (math.log(x) - math.log(e)) - b * (x - e))


@inner_kernel
def _widen_at(p, x, low, high, shift, out):
    if low <= x <= high:
        g = p[0] / x - p[1] if x > 0.0 else 0.0
        h = g * g - p[0] / (x * x) if x > 0.0 else 0.0
        widen(math.exp(_box_log(p[0], p[1], p[2], p[3], x) - shift), g, h, out)


def _box_ranges(p, low, high, shift, out):
    """Extremes lie at the ends and where the second and the third derivative vanish.

    With k = shape - 1 and w = k - rate x these are w^2 = k and w^3 - 3 k w + 2 k = 0.
    """
    out[0] = out[2] = math.inf
    out[1] = out[3] = -math.inf
    _widen_at(p, low, low, high, shift, out)
    _widen_at(p, high, low, high, shift, out)
    if low == high:
        return
    k = p[0]
    if low <= 0.0 and 0.0 < k < 2.0:
        out[0] = out[2] = -math.inf  # a derivative has a pole at 0
        out[1] = out[3] = math.inf
        return
    for sign in (-1.0, 1.0):
        _widen_at(p, (k + sign * math.sqrt(k)) / p[1], low, high, shift, out)
    if k >= 1.0:
        angle = math.acos(-1.0 / math.sqrt(k)) / 3.0
        for turn in range(3):
            w = 2.0 * math.sqrt(k) * math.cos(angle - 2.0 * math.pi * turn / 3.0)
            _widen_at(p, (k - w) / p[1], low, high, shift, out)
    elif k > 0.0:
        root = math.sqrt(k * k * (1.0 - k))
        w = np.cbrt(-k + root) + np.cbrt(-k - root)
        _widen_at(p, (k - w) / p[1], low, high, shift, out)


def _pull(p, x, share):
    if not x > 0.0:
        return 0.0, 0.0
    return share * (p[0] / x - p[1]), share * p[0] / (x * x)


def gamma_shape(gap: np.ndarray) -> np.ndarray:
    """Shape (n,) at which the log of the mean exceeds the mean log by ``gap``; infinite where the gap is 0.

    Newton's method in 1 / shape (Minka 2002, Estimating a Gamma distribution), at rounding after five steps.
    """
    s = np.where(gap > 0.0, gap, 1.0)
    shape = (3.0 - s + np.sqrt(np.square(s - 3.0) + 24.0 * s)) / (12.0 * s)
    for _ in range(6):
        error = np.log(shape) - np_digamma(shape) - s
        shape = 1.0 / (1.0 / shape + error / (np.square(shape) * (1.0 / shape - polygamma(1, shape))))
    return np.where(gap > 0.0, shape, np.inf)


def _averages(u: np.ndarray, kept: float) -> tuple[Any, Any]:
    """Mean of the values and of their logs."""
    return u.mean(), np.log(u).mean() if np.ptp(u) > 0.0 else np.log(u.mean())


def _leaves(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        shape = gamma_shape(np.log(mean) - variance)
        return np.column_stack([shape, shape / mean])


def _best(own: np.ndarray, moments: np.ndarray, rows: float, mean: np.ndarray, variance: np.ndarray) -> Any:
    n, logs, total = moments
    n = np.where(n + rows > 0.0, n + rows, 1.0)
    return (total + rows * mean) / n, (logs + rows * variance) / n


def _log_prior(own: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    shape, rate = own.T
    return shape * np.log(rate) - gammaln(shape) + (shape - 1.0) * variance - rate * mean


def _near(cell: np.ndarray, usable: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """At the column's shape."""
    shape = _leaves(mean, variance)[:, 0]
    return np.column_stack([shape, shape / np.where(usable, 0.5 * (mean + cell), mean)])


def _in_jax(jax: Any, theta: Any, u: Any, zero: float) -> Any:
    shape, rate = jax.columns(theta)
    lead = shape * jax.log(rate) - jax.gammaln(shape)
    return jax.chosen(u < math.log(-zero), lambda u: lead + shape * u - rate * jax.exp(u), u, zero)


def _product_of_tensors(pt: Any, p: Any, q: Any) -> tuple[Any, Any]:
    a, b, rate = p[:, 0], q[:, 0], p[:, 1] + q[:, 1]
    converges = a + b > 1.0
    shape = pt.switch(converges, a + b - 1.0, 1.0)
    logs = a * pt.log(p[:, 1] / rate) + b * pt.log(q[:, 1] / rate) + pt.log(rate)
    logs += pt.gammaln(shape) - pt.gammaln(a) - pt.gammaln(b)
    return pt.switch(converges, logs, np.inf), pt.stack([shape, rate], axis=1)


GAMMA = UnivariateFamily(
    name="gamma",
    n_parameters=2,
    is_density=True,
    log_density=_log_density,
    check=are_positive("shape", "rate"),
    mean=lambda p: p[..., 0] / p[..., 1],
    variance=lambda p: p[..., 0] / np.square(p[..., 1]),
    mode=lambda p: np.maximum(p[..., 0] - 1.0, 0.0) / p[..., 1],
    draw=lambda p, rng: np.clip(rng.standard_gamma(p[..., 0]) / p[..., 1], SMALLEST_SIZE, LARGEST_SIZE),
    log_interval=_log_interval,
    lowest=0.0,
    open_ends=(1, "0"),
    products={
        "gamma": ("gamma", _product),
        "exponential": ("gamma", lambda p, q: _product(p, as_gamma(q))),
    },
    inner_products={
        "gamma": _inner_product,
        "exponential": lambda p, q: _inner_product(p, as_gamma(q)),
    },
    exponent_at_zero=lambda p: p[..., 0],
    features=lambda p, in_logs: (np.log(p[:, :1] / p[:, 1:]), np.maximum(1.0 / np.sqrt(p[:, :1]), 1.0 / p[:, :1])),
    of_log=lambda p, y: _powers(p, y, p[..., 0]),
    at_log=lambda p, y: _powers(p, y, p[..., 0] - 1.0),
    rounding=_rounding,
    kernels=Kernels(
        EXPONENT, LOGARITHM, _form, _coefficients, _add_gradient, _draw_one, all_positive, value_slope=_value_slope
    ),
    boxes=Boxes(row=_box_row, log_value=_box_log, mode=fourth, is_one_sided=True, ranges=_box_ranges, pull=_pull),
    fit=Fit(
        can_take=positive,
        averages=_averages,
        leaves=_leaves,
        said="mean {:g} and mean log {:g}",
        best=_best,
        statistics=lambda x, own: (x.size, np.log(x).sum(), x.sum()),
        log_prior=_log_prior,
        near=_near,
    ),
    symbols=Symbols(
        in_jax=_in_jax,
        location=lambda pt, p: p[:, 0] / p[:, 1],
        n_outputs=2,
        link=lambda pt, o, at: (pt.exp(o[0]), pt.exp(o[0] - o[1]) / at.size),
        product=_product_of_tensors,
        bounds=((0.0, np.inf), (0.0, np.inf)),
    ),
)
