"""Leaves for positive columns of wide range: those of Gaussian columns on the logs, with the Jacobian."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from pymc_spn.leaves import gaussian as of_logs
from pymc_spn.leaves.interval_moments import NARROW, NODES, WEIGHTS, Points, by_points
from pymc_spn.leaves.kernel_forms import LOGARITHM
from pymc_spn.leaves.leaf_family import UnivariateFamily
from pymc_spn.leaves.leaf_statistics import variance_of
from pymc_spn.leaves.palette_entry import PaletteEntry, constant_variance, sample_variance
from pymc_spn.leaves.tail_probabilities import log_width

_LOG_CUTS = np.concatenate([np.arange(-42.0, -8.0), np.arange(-8.0, 8.0, 0.25), np.arange(8.0, 43.0)])
_END_CUTS = np.concatenate([np.arange(0.5, 8.0, 0.5), 8.0 * 1.5 ** np.arange(12.0)])


@dataclass(frozen=True)
class LogNormal(PaletteEntry):
    """Log-normal leaf on x > 0 with a normal-gamma prior.

    The prior is on mean and precision of log x. The predictive is a log-Student t: its tails are so heavy that it has
    no mean.

    Parameters
    ----------
    log_mean, log_variance : float, optional
        Centre and scale of the prior in logs; None takes them from the observed column.
    relative_scale : float
        Factor on the column's ``leaf_scale`` for these leaves.

    Examples
    --------
    >>> positive = {"age": "positive", "income": "positive"}
    >>> fit = ps.fit_variational(df, kinds=positive, leaves={"income": [ps.leaves.LogNormal()]})
    """

    log_mean: float | None = None
    log_variance: float | None = None
    relative_scale: float = 1.0
    family: ClassVar[str] = "log_normal"
    kinds: ClassVar[tuple[str, ...]] = ("positive",)
    finite: ClassVar[tuple[str, ...]] = ("log_mean",)
    positive: ClassVar[tuple[str, ...]] = ("log_variance", "relative_scale")

    def refuse_column(self, name: str, values: np.ndarray) -> None:
        """Refuse zeros, which have no log."""
        zero = np.flatnonzero(values <= 0.0)
        if zero.size:
            raise ValueError(
                f"leaves[{name!r}]: LogNormal leaves need values above 0; column {name!r} has {values[zero[0]]:g} at "
                f"position {zero[0]}"
            )

    def completed(self, observed: np.ndarray, grid: float) -> Self:
        """Return the entry with the mean and variance of the column's logs."""
        logs = np.log(observed) if observed.size else np.zeros(1)
        mean, variance = self.log_mean, self.log_variance
        if mean is None:
            mean = float(logs.mean())
        if variance is None:
            variance = variance_of(logs) or constant_variance(logs, grid / math.exp(mean))
        return replace(self, log_mean=mean, log_variance=variance)

    def fitted(self, sample: np.ndarray, observed: np.ndarray, floor: float, grid: float) -> Self:
        """Return the entry with the mean and variance of the sample's logs."""
        logs, all_logs = np.log(sample), np.log(observed)
        variance = sample_variance(logs, all_logs, floor, grid / float(np.exp(all_logs.mean())))
        return replace(self, log_mean=float(logs.mean()), log_variance=variance)

    def coded_constants(self, centre: float, scale: float, grid: float) -> tuple[float, float, float]:
        """Return mean and variance of the logs, and the variance of rounding.

        The latter is taken at the geometric mean.
        """
        assert self.log_mean is not None and self.log_variance is not None
        floor = (grid / math.exp(self.log_mean)) ** 2 / 12.0
        return self.log_mean - math.log(scale), self.log_variance, floor


def _log_density(of_log: Callable[[np.ndarray, Any], np.ndarray], p: np.ndarray, x: Any) -> np.ndarray:
    """Log density of the log carried over to x > 0, ``-inf`` elsewhere, NaN at NaN."""
    x = np.asarray(x, dtype=np.float64)
    inside = (x > 0.0) & (x < np.inf)
    logs = np.log(np.where(inside, x, 1.0))
    return np.where(np.isnan(x), np.nan, np.where(inside, of_log(p, logs) - logs, -np.inf))


def _log_interval(p: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """log P(low <= X <= high), accurate for narrow cells and far tails."""
    low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
    with np.errstate(divide="ignore"):
        return of_logs.log_interval_of_width(p, np.log(low), np.log(high), log_width(low, high))


def _log_student_cdf(p: np.ndarray, x: Any) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return of_logs.student_cdf(p, np.log(np.maximum(x, 0.0)))


def _points(p: np.ndarray, low: float, high: float, order: int) -> Points:
    """Gauss points in u = log x: by sinh round the leaf, and graded towards the upper end, where x^k weighs most.

    Without an upper end there are no moments.
    """
    location, scale, dof = p.T
    if math.isinf(high):
        return Points(location, np.zeros((len(p), 1)), np.ones((len(p), 1)), np.zeros(len(p)))
    with np.errstate(divide="ignore"):
        first, last = float(np.log(low)), float(np.log(high))
    cuts = location[:, None] + scale[:, None] * np.sinh(_LOG_CUTS)
    cuts = np.concatenate([cuts, np.broadcast_to(last - _END_CUTS, (cuts.shape[0], _END_CUTS.size))], axis=1)
    lowest = max(first, float(cuts.min()))
    ends = np.broadcast_to([lowest, max(last, lowest)], (cuts.shape[0], 2))
    cuts = np.sort(np.concatenate([np.clip(cuts, lowest, max(last, lowest)), ends], axis=1), axis=1)
    half = 0.5 * np.diff(cuts, axis=1)[:, :, None]
    u = (cuts[:, :-1, None] + half * (1.0 + NODES)).reshape(len(cuts), -1)
    logs = of_logs.student_log_density(p[:, None], u)
    mass = np.exp(logs - logs.max(axis=1, keepdims=True)) * (half * WEIGHTS).reshape(len(cuts), -1)
    origin, away = np.full(len(p), low), np.exp(u) - low
    if low > 0.0 and high - low < NARROW * low:  # in digits of u the ends may be one
        width = scale * np.sqrt(dof)
        with np.errstate(over="ignore"):
            nearest = np.clip(np.exp(location), low, high)
        z = (np.log(nearest) - location) / width
        below, above = (np.log1p((end - nearest) / nearest) / width for end in (low, high))
        narrow = np.flatnonzero(above - below < NARROW * np.hypot(1.0, z))
        y, near = of_logs.near_points(z[narrow], below[narrow], above[narrow], 0.5 * (dof[narrow] + 1.0))
        origin[narrow], mass[narrow] = nearest[narrow], 0.0
        away[narrow, : y.shape[1]] = nearest[narrow, None] * np.expm1(width[narrow, None] * y)
        mass[narrow, : y.shape[1]] = near
    return Points(origin, away, mass, dof)


def _student_mode(p: np.ndarray) -> np.ndarray:
    """Largest local maximum of the density of x: with z = (log x - m) / s, s (z^2 + v) = -(v + 1) z.

    Near x = 0 the density grows without bound for every v, but so slowly that the mass there is nothing. The local
    maximum stands for the mode where there is one, the location where there is none.
    """
    location, scale, dof = p[..., 0], p[..., 1], p[..., 2]
    root = np.square(dof + 1.0) - 4.0 * np.square(scale) * dof
    z = np.where(root >= 0, (-(dof + 1.0) + np.sqrt(np.maximum(root, 0.0))) / (2.0 * scale), 0.0)
    return np.exp(location + scale * z)


def _student_slope(theta, u, x):
    z = (u - theta[0]) / theta[1]
    return (-(theta[2] + 1.0) * z / (theta[2] + z * z) / theta[1] - 1.0) / x


def _draw_student(rng, theta):
    away = theta[1] * rng.standard_normal() / math.sqrt(rng.standard_gamma(0.5 * theta[2]) * 2.0 / theta[2])
    return math.exp(theta[0] + away)


def _normal_slope(theta, u, x):
    return ((theta[0] - u) / (theta[1] * theta[1]) - 1.0) / x


def _draw_normal(rng, theta):
    return math.exp(theta[0] + theta[1] * rng.standard_normal())


def _in_units(parameters: np.ndarray, centre: float, scale: float) -> np.ndarray:
    return parameters + np.array([math.log(scale), 0.0, 0.0, 0.0])


def _bulk(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    centre = np.exp(p[:, 0])
    return centre, np.sinh(np.minimum(p[:, 1], 3.0)) * centre


def _add(s1, s2, sign, u, offset, cell, trials):
    return s1 + sign * u, s2 + sign * u * u


LOG_NORMAL = UnivariateFamily(
    name="log_normal",
    n_parameters=2,
    is_density=True,
    log_density=partial(_log_density, of_logs.gaussian_log_density),
    check=of_logs.GAUSSIAN_RULE,
    mean=lambda p: np.exp(p[..., 0] + 0.5 * np.square(p[..., 1])),
    variance=lambda p: np.expm1(np.square(p[..., 1])) * np.exp(2.0 * p[..., 0] + np.square(p[..., 1])),
    mode=lambda p: np.exp(p[..., 0] - np.square(p[..., 1])),
    draw=lambda p, rng: np.exp(p[..., 0] + p[..., 1] * rng.standard_normal(p.shape[:-1])),
    log_interval=_log_interval,
    lowest=0.0,
    is_of_logs=True,
    kernels=of_logs.GAUSSIAN_KERNELS._replace(reading=LOGARITHM, draw=_draw_normal, value_slope=_normal_slope),
    location=lambda pt, p: pt.exp(p[:, 0]),
)
LOG_STUDENT_T = UnivariateFamily(
    name="log_student_t",
    n_parameters=3,
    is_density=True,
    log_density=partial(_log_density, of_logs.student_log_density),
    check=of_logs.STUDENT_RULE,
    mean=lambda p: np.full(p.shape[:-1], np.inf),
    variance=lambda p: np.full(p.shape[:-1], np.nan),
    mode=_student_mode,
    draw=lambda p, rng: np.exp(p[..., 0] + p[..., 1] * rng.standard_t(p[..., 2])),
    log_interval=_log_interval,
    lowest=0.0,
    is_of_logs=True,
    grows_at_zero=True,
    cdf=_log_student_cdf,
    bulk=_bulk,
    raw_moments=lambda p, centre, order: np.where(np.arange(order + 1) > 0, np.inf, np.ones((len(p), 1))),
    **by_points(_points, lowest=0.0),
    kernels=of_logs.STUDENT_KERNELS._replace(reading=LOGARITHM, draw=_draw_student, value_slope=_student_slope),
    location=lambda pt, p: pt.exp(p[:, 0]),
)
PREDICTIVE = of_logs.PREDICTIVE._replace(
    entry=LogNormal,
    leaves=LOG_STUDENT_T,
    conjugate=of_logs.CONJUGATE._replace(reading=LOGARITHM, add=_add, log_whole_number=None),
    in_units=_in_units,
)
