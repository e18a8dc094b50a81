"""Log-Student t leaves: log-normal ones whose mean and precision are integrated out."""

import math
from typing import Any

import numpy as np

from pymc_spn.leaves import student_t as of_logs
from pymc_spn.leaves.family_pieces import Boxes, Kernels, Predictive
from pymc_spn.leaves.gaussian import Gaussian
from pymc_spn.leaves.interval_moments import NARROW, NODES, WEIGHTS, powers_of
from pymc_spn.leaves.kernel_forms import IMPOSSIBLE, LOGARITHM, STUDENT, located, student, times
from pymc_spn.leaves.leaf_family import UnivariateFamily
from pymc_spn.leaves.leaf_statistics import NormalGamma
from pymc_spn.leaves.log_normal import LogNormal
from pymc_spn.leaves.student_t import near_points, normal_gamma
from pymc_spn.numerics.kernel_options import inner_kernel, kernel

_LOG_CUTS = np.concatenate([np.arange(-42.0, -8.0), np.arange(-8.0, 8.0, 0.25), np.arange(8.0, 43.0)])
_END_CUTS = np.concatenate([np.arange(0.5, 8.0, 0.5), 8.0 * 1.5 ** np.arange(12.0)])


def about_within(params: NormalGamma, low: float, high: float, centre: np.ndarray, order: int) -> np.ndarray:
    """E[(X - centre)^k | low <= X <= high] (n, order + 1) of log-normal leaves; infinite for high = inf.

    Gauss panels in u = log x: by sinh round the leaf, and graded towards the upper end, where x^k weighs most.
    """
    out = np.ones((params.mu.size, order + 1))
    if math.isinf(high) or order == 0:
        out[:, 1:] = np.inf
        return out
    scale = Gaussian.predictive_scale(params)
    with np.errstate(divide="ignore"):
        first, last = float(np.log(max(low, 0.0))), float(np.log(max(high, 0.0)))
    cuts = params.mu[:, None] + scale[:, None] * np.sinh(_LOG_CUTS)
    cuts = np.concatenate([cuts, np.broadcast_to(last - _END_CUTS, (cuts.shape[0], _END_CUTS.size))], axis=1)
    lowest = max(first, float(cuts.min()))
    ends = np.broadcast_to([lowest, max(last, lowest)], (cuts.shape[0], 2))
    cuts = np.sort(np.concatenate([np.clip(cuts, lowest, max(last, lowest)), ends], axis=1), axis=1)
    half = 0.5 * np.diff(cuts, axis=1)[:, :, None]
    u = (cuts[:, :-1, None] + half * (1.0 + NODES)).reshape(len(cuts), -1)
    logs = Gaussian.predictive_log_density(NormalGamma(*(v[:, None] for v in params)), u)
    mass = np.exp(logs - logs.max(axis=1, keepdims=True)) * (half * WEIGHTS).reshape(len(cuts), -1)
    total = mass.sum(axis=1)
    away = np.exp(u) - centre[:, None]
    for k in range(1, order + 1):
        out[:, k] = np.where(total > 0, (mass * away**k).sum(axis=1) / np.where(total > 0, total, 1.0), 0.0)
    if low > 0.0 and high - low < NARROW * low:  # in digits of u the ends may be one
        width = scale * np.sqrt(2.0 * params.a)
        with np.errstate(over="ignore"):
            nearest = np.clip(np.exp(params.mu), low, high)
        z = (np.log(nearest) - params.mu) / width
        below, above = (np.log1p((end - nearest) / nearest) / width for end in (low, high))
        narrow = above - below < NARROW * np.hypot(1.0, z)
        y, mass = near_points(z[narrow], below[narrow], above[narrow], params.a[narrow] + 0.5)
        own = nearest[narrow, None]
        away = (own - centre[narrow, None]) + own * np.expm1(width[narrow, None] * y)
        out[narrow] = powers_of(away, mass, order, params.a[narrow], low, high)
    return out


def moments_within(params: NormalGamma, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance within an interval."""
    if high <= 0.0:
        return np.zeros(params.mu.shape), np.zeros(params.mu.shape)
    if math.isinf(high):
        return np.full(params.mu.shape, np.inf), np.full(params.mu.shape, np.inf)
    start = max(low, 0.0)
    mean = start + about_within(params, low, high, np.full(params.mu.shape, start), 1)[:, 1]
    return mean, about_within(params, low, high, mean, 2)[:, 2]


def _log_density(p: np.ndarray, x: Any) -> np.ndarray:
    """That of the log carried over to x > 0, ``-inf`` elsewhere, NaN at NaN."""
    x = np.asarray(x, dtype=np.float64)
    logs = np.log(np.where(x > 0, x, 1.0))
    with np.errstate(invalid="ignore"):
        inside = np.where(np.isposinf(x), -np.inf, of_logs.log_density(p, logs) - logs)
    return np.where(np.isnan(x), np.nan, np.where(x > 0, inside, -np.inf))


def _mode(p: np.ndarray) -> np.ndarray:
    """Largest local maximum of the density of x: with z = (log x - m) / s, s (z^2 + v) = -(v + 1) z.

    Near x = 0 the density grows without bound for every v, but so slowly that the mass there is nothing. The local
    maximum stands for the mode where there is one, the location where there is none.
    """
    location, scale, dof = p[..., 0], p[..., 1], p[..., 2]
    root = np.square(dof + 1.0) - 4.0 * np.square(scale) * dof
    z = np.where(root >= 0, (-(dof + 1.0) + np.sqrt(np.maximum(root, 0.0))) / (2.0 * scale), 0.0)
    return np.exp(location + scale * z)


def _value_slope(theta, u, x):
    z = (u - theta[0]) / theta[1]
    return (-(theta[2] + 1.0) * z / (theta[2] + z * z) / theta[1] - 1.0) / x


def _draw_one(rng, theta):
    away = theta[1] * rng.standard_normal() / math.sqrt(rng.standard_gamma(0.5 * theta[2]) * 2.0 / theta[2])
    return math.exp(theta[0] + away)


@inner_kernel
def _box_log(a, b, c, e, x):
    if x <= 0.0:
        return IMPOSSIBLE
    y = math.log(x)
    t = (y - a) / b
    return e - 0.5 * (c + 1.0) * math.log1p(t * t / c) - y


@kernel
def log_student_turn(scale, freedom, sign):
    """z of the local maximum (sign 1) or minimum (-1) of the density, u = centre + scale z; else 0."""
    root = (freedom + 1.0) ** 2 - 4.0 * scale * scale * freedom
    return (sign * math.sqrt(root) - (freedom + 1.0)) / (2.0 * scale) if root > 0.0 else 0.0


def _box_mode(p):
    return math.exp(p[0] + p[1] * log_student_turn(p[1], p[2], 1.0))


def _box_turns(p):
    """The density falls from infinity at 0 to a minimum before it rises to its mode."""
    lowest = math.exp(p[0] + p[1] * log_student_turn(p[1], p[2], -1.0))
    return lowest, math.exp(p[0] + p[1] * log_student_turn(p[1], p[2], 1.0))


@inner_kernel
def _at_point(p, x, shift, out):
    if x <= 0.0:
        return
    z = (math.log(x) - p[0]) / p[1]
    g = -(p[2] + 1.0) * z / (p[1] * (p[2] + z * z))
    h = -(p[2] + 1.0) * (p[2] - z * z) / (p[1] * p[1] * (p[2] + z * z) * (p[2] + z * z))
    value = math.exp(_box_log(p[0], p[1], p[2], p[3], x) - shift)
    out[0] = out[1] = value * ((g - 1.0) / x)
    out[2] = out[3] = value * (((g - 1.0) * (g - 2.0) + h) / (x * x))


def _box_ranges(p, low, high, shift, out):
    """Over low > 0 by interval arithmetic on the factors.

    With g and h the derivatives of the log density of u = log x they are f (g - 1) / x and f ((g - 1) (g - 2) + h) /
    x^2.
    """
    if low == high:
        _at_point(p, low, shift, out)
        return
    m = p[0]
    s = p[1]
    v = p[2]
    z0 = (math.log(low) - m) / s if low > 0.0 else -math.inf
    z1 = (math.log(high) - m) / s
    if low <= 0.0:
        out[0] = out[2] = -math.inf
        out[1] = out[3] = math.inf
        return
    g0 = -(v + 1.0) * z0 / (s * (v + z0 * z0))
    g1 = -(v + 1.0) * z1 / (s * (v + z1 * z1))
    g_low = min(g0, g1)
    g_high = max(g0, g1)
    h0 = -(v + 1.0) * (v - z0 * z0) / (s * s * (v + z0 * z0) ** 2)
    h1 = -(v + 1.0) * (v - z1 * z1) / (s * s * (v + z1 * z1) ** 2)
    h_low = min(h0, h1)
    h_high = max(h0, h1)
    for sign in (-1.0, 1.0):
        if z0 < sign * math.sqrt(v) < z1:
            g_low = min(g_low, -sign * (v + 1.0) / (2.0 * s * math.sqrt(v)))
            g_high = max(g_high, -sign * (v + 1.0) / (2.0 * s * math.sqrt(v)))
        if z0 < sign * math.sqrt(3.0 * v) < z1:
            h_high = max(h_high, (v + 1.0) / (8.0 * s * s * v))
    if z0 < 0.0 < z1:
        h_low = min(h_low, -(v + 1.0) / (s * s * v))
    at_low = _box_log(m, s, v, p[3], low)
    at_high = _box_log(m, s, v, p[3], high)
    least = min(at_low, at_high)
    most = max(at_low, at_high)
    for sign in (-1.0, 1.0):
        x = math.exp(m + s * log_student_turn(s, v, sign))
        if low < x < high:
            at = _box_log(m, s, v, p[3], x)
            least = min(least, at)
            most = max(most, at)
    f_low = math.exp(least - shift)
    f_high = math.exp(most - shift)
    a, b = times(f_low / high, f_high / low, g_low - 1.0, g_high - 1.0)
    out[0] = a
    out[1] = b
    # (g - 1) (g - 2) is a parabola with its vertex at 3/2
    ends = ((g_low - 1.0) * (g_low - 2.0), (g_high - 1.0) * (g_high - 2.0))
    q_low = -0.25 if g_low < 1.5 < g_high else min(ends[0], ends[1])
    a, b = times(f_low / (high * high), f_high / (low * low), q_low + h_low, max(ends[0], ends[1]) + h_high)
    out[2] = a
    out[3] = b


def _pull(p, x, share):
    if not x > 0.0:
        return 0.0, 0.0
    z = (math.log(x) - p[0]) / p[1]
    steep = (p[2] + 1.0) / (p[1] * p[1] * (p[2] + z * z))
    return -share * (1.0 + steep * p[1] * z) / x, share * (1.0 + steep) / (x * x)


def _raw_moments(params: NormalGamma, centre: float, order: int) -> np.ndarray:
    return about_within(params, 0.0, np.inf, np.full(params.mu.size, centre), order)


def _draw_within(params: NormalGamma, low: float, high: float, u: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        ends = float(np.log(max(low, 0.0))), float(np.log(max(high, 0.0)))
    return np.clip(np.exp(of_logs.draw_within(params, *ends, u)), low, high)


def _in_units(parameters: np.ndarray, centre: float, scale: float) -> np.ndarray:
    return parameters + np.array([math.log(scale), 0.0, 0.0, 0.0])


def _bulk(params: NormalGamma) -> tuple[np.ndarray, np.ndarray]:
    centre = np.exp(params.mu)
    return centre, np.sinh(np.minimum(Gaussian.predictive_scale(params), 3.0)) * centre


def _add(s1, s2, sign, u, offset, cell, trials):
    return s1 + sign * u, s2 + sign * u * u


PREDICTIVE = Predictive(
    prior=LogNormal,
    leaves="log_student_t",
    conjugate=of_logs.CONJUGATE._replace(reading=LOGARITHM, add=_add, log_whole_number=None),
    posterior=of_logs.posterior,
    leaf_rows=of_logs.leaf_rows,
    moments=_raw_moments,
    bulk=_bulk,
    lowest=0.0,
    in_units=_in_units,
    box_rows=of_logs.box_rows,
    moments_within=moments_within,
    about_within=about_within,
    draw_within=_draw_within,
)
LOG_STUDENT_T = UnivariateFamily(
    name="log_student_t",
    n_parameters=3,
    is_density=True,
    log_density=_log_density,
    check=of_logs.student_problem,
    mean=lambda p: np.full(p.shape[:-1], np.inf),
    variance=lambda p: np.full(p.shape[:-1], np.nan),
    mode=_mode,
    draw=lambda p, rng: np.exp(p[..., 0] + p[..., 1] * rng.standard_t(p[..., 2])),
    log_interval=lambda p, low, high: LogNormal.predictive_log_interval(normal_gamma(p), low, high),
    lowest=0.0,
    is_of_logs=True,
    grows_at_zero=True,
    moments_within=lambda p, low, high: moments_within(normal_gamma(p), low, high),
    kernels=Kernels(
        STUDENT,
        LOGARITHM,
        student,
        of_logs.coefficients,
        of_logs.add_gradient,
        _draw_one,
        located,
        value_slope=_value_slope,
    ),
    boxes=Boxes(
        row=of_logs.box_row,
        log_value=_box_log,
        mode=_box_mode,
        is_one_sided=True,
        turns=_box_turns,
        ranges=_box_ranges,
        pull=_pull,
        reach=lambda p: (0.0, -np.inf),  # it may be large at 0
    ),
    location=lambda pt, p: pt.exp(p[:, 0]),
    predictive=PREDICTIVE,
)
