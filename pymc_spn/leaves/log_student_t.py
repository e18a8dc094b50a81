"""Log-Student t leaves: log-normal ones whose mean and precision are integrated out."""

import math
from typing import Any

import numpy as np

from pymc_spn.leaves import student_t as of_logs
from pymc_spn.leaves.family_pieces import Kernels, Predictive
from pymc_spn.leaves.gaussian import Gaussian
from pymc_spn.leaves.interval_moments import NARROW, NODES, WEIGHTS, powers_of
from pymc_spn.leaves.kernel_forms import LOGARITHM, STUDENT, located, student
from pymc_spn.leaves.leaf_family import UnivariateFamily
from pymc_spn.leaves.leaf_statistics import NormalGamma
from pymc_spn.leaves.log_normal import LogNormal
from pymc_spn.leaves.student_t import near_points, normal_gamma

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
    location=lambda pt, p: pt.exp(p[:, 0]),
    predictive=PREDICTIVE,
)
