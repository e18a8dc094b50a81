"""Gaussian leaves on real values, and the Student t leaves that they are with mean and precision integrated out.

Formulas: Yokoi and Sato (2024), Table 8. The third argument of its Student t is the degrees of freedom times scale^2.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import log_ndtr, stdtr

from pymc_spn.leaves.conjugate_pieces import NORMAL_GAMMA_PRIOR, Conjugate
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
from pymc_spn.leaves.kernel_forms import HALF_LOG_2PI, QUADRATIC, REAL, STUDENT, located, quadratic, student
from pymc_spn.leaves.leaf_family import UnivariateFamily, checked_rows
from pymc_spn.leaves.leaf_statistics import variance_of
from pymc_spn.leaves.normal_cells import draw_normal, log_normal_mass
from pymc_spn.leaves.palette_entry import PaletteEntry, constant_variance, sample_variance
from pymc_spn.leaves.student_cells import draw_student, log_student_integral
from pymc_spn.leaves.tail_probabilities import (
    UNDERFLOW,
    log_betainc,
    log_difference,
    log_gamma_ratio,
    log_narrow_integral,
)
from pymc_spn.numerics.elementary import digamma, fast_log, fast_log1p, half_step_log_gamma, larger
from pymc_spn.numerics.gamma_ratios import log_rising_from
from pymc_spn.numerics.kernel_options import bare_kernel

LOG_PI = math.log(math.pi)
LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Gaussian(PaletteEntry):
    """Gaussian leaf with a normal-gamma prior on mean and precision.

    Parameters
    ----------
    mean, variance : float, optional
        Centre and scale of the prior in the column's units; None takes them from the observed column.
    relative_scale : float
        Factor on the column's ``leaf_scale`` for these leaves.

    Examples
    --------
    >>> fit = ps.fit_variational(df, leaves={"age": [ps.leaves.Gaussian(), ps.leaves.Gaussian(relative_scale=0.1)]})
    """

    mean: float | None = None
    variance: float | None = None
    relative_scale: float = 1.0
    family: ClassVar[str] = "gaussian"
    kinds: ClassVar[tuple[str, ...]] = ("real", "positive", "integer", "count")
    finite: ClassVar[tuple[str, ...]] = ("mean",)
    positive: ClassVar[tuple[str, ...]] = ("variance", "relative_scale")

    def completed(self, observed: np.ndarray, grid: float) -> Self:
        """Return the entry with the mean and variance of the column."""
        mean, variance = self.mean, self.variance
        if mean is None:
            mean = float(observed.mean()) if observed.size else 1.0
        if variance is None:
            variance = (variance_of(observed) if observed.size else 1.0) or constant_variance(observed, grid)
        return replace(self, mean=mean, variance=variance)

    def fitted(self, sample: np.ndarray, observed: np.ndarray, floor: float, grid: float) -> Self:
        """Return the entry with the mean and variance of the sample."""
        return replace(self, mean=float(sample.mean()), variance=sample_variance(sample, observed, floor, grid))

    def coded_constants(self, centre: float, scale: float, grid: float) -> tuple[float, float, float]:
        """Return the mean, the variance and the variance of rounding."""
        assert self.mean is not None and self.variance is not None
        return (self.mean - centre) / scale, self.variance / scale**2, grid**2 / 12.0 / scale**2


def draw_gaussians(posteriors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Mean and standard deviation (n, 2) of a leaf from each normal-gamma posterior (mu, rho, a, b) (n, 4)."""
    mu, rho, a, b = posteriors.T
    sd = 1.0 / np.sqrt(rng.gamma(a, 1.0 / b))
    return np.stack([mu + sd / np.sqrt(rho) * rng.standard_normal(sd.shape), sd], axis=-1)


def gaussian_log_density(p: np.ndarray, x: Any) -> np.ndarray:
    """Log density of leaves (..., 2), mean and standard deviation."""
    with np.errstate(over="ignore"):  # so far away the density is 0
        return _standard_log_density(None, (np.asarray(x, dtype=np.float64) - p[..., 0]) / p[..., 1]) - np.log(
            p[..., 1]
        )


def student_log_density(p: np.ndarray, x: Any) -> np.ndarray:
    """Log density of leaves (..., 3), location, scale and degrees of freedom."""
    z = (np.asarray(x, dtype=np.float64) - p[..., 0]) / p[..., 1]
    return _standard_log_density(p[..., 2], z) - np.log(p[..., 1])


def _standard_log_density(dof: Any, z: np.ndarray) -> np.ndarray:
    """Of the standard Student t, or of the standard normal."""
    if dof is None:
        return -0.5 * np.square(z) - HALF_LOG_2PI
    norm = log_gamma_ratio(0.5 * dof, 0.5) - 0.5 * np.log(np.pi * dof)
    return norm - 0.5 * (dof + 1.0) * np.log1p(np.square(z) / dof)


def log_interval_of_width(p: np.ndarray, low: Any, high: Any, width: Any) -> np.ndarray:
    """log P(low <= X <= high) of Gaussian leaves (..., 2) or Student t's (..., 3), in narrow cells and far tails.

    `width` is high - low with all digits.
    """
    location, scale, dof = p[..., 0], p[..., 1], p[..., 2] if p.shape[-1] == 3 else np.inf
    z_low, z_high, width, dof = np.broadcast_arrays(
        (low - location) / scale, (high - location) / scale, width / scale, dof
    )
    mirrored = z_low > -z_high  # work in the lower tail, where the cdf keeps its digits
    near, far = np.where(mirrored, -z_low, z_high), np.where(mirrored, -z_high, z_low)
    log_tail = log_ndtr if p.shape[-1] == 2 else partial(_log_lower_tail, dof)
    with np.errstate(divide="ignore"):
        # P = F(near) - F(far); a near end above 0 means that the interval holds the centre
        out = np.array(log_difference(log_tail(near), log_tail(far)))
    # beside the scale, or beside the distance of an interval on one side of the centre
    beside = np.maximum(np.minimum(1.0, np.sqrt(dof)), -near)
    narrow = np.array(np.isfinite(near) & np.isfinite(far) & (width > 0.0) & (width < NARROW * beside))
    if np.any(narrow):
        own = None if p.shape[-1] == 2 else dof[narrow]
        density = partial(_standard_log_density, own)
        inside = log_narrow_integral(density, far[narrow], near[narrow], width[narrow])
        flat = np.abs(density(near[narrow]) - density(far[narrow])) < 0.5
        out[narrow] = np.where(flat, inside, out[narrow])
        narrow[narrow] = flat
    return np.where((z_high > z_low) | narrow, out, -np.inf)


def student_log_interval(p: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """log P(low <= X <= high) of leaves."""
    with np.errstate(invalid="ignore"):  # of two infinite ends
        return log_interval_of_width(p, low, high, np.subtract(high, low))


def _log_lower_tail(dof: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Log cdf of the standard Student t; by the incomplete beta function where the cdf underflows."""
    plain = stdtr(dof, z)
    result = np.log(plain)
    lost = (plain < UNDERFLOW) & np.isfinite(z)
    if np.any(lost):
        with np.errstate(over="ignore"):  # so far away nothing is left
            nu, t2 = dof[lost], np.square(z[lost])
        result = np.array(result)
        result[lost] = -np.log(2.0) + log_betainc(0.5 * nu, 0.5, nu / (nu + t2), -np.log1p(t2 / nu), -np.log1p(nu / t2))
    return result


def student_cdf(p: np.ndarray, x: Any) -> np.ndarray:
    """P(X <= x)."""
    return stdtr(p[..., 2], (np.asarray(x, dtype=np.float64) - p[..., 0]) / p[..., 1])


def _student_variance(p: np.ndarray) -> np.ndarray:
    dof = p[..., 2]
    finite = np.square(p[..., 1]) * dof / np.where(dof > 2, dof - 2, 1.0)
    return np.where(dof > 2, finite, np.where(dof > 1, np.inf, np.nan))


def student_points(p: np.ndarray, low: float, high: float, order: int) -> Points:
    """Points within an interval.

    Quadrature in w, x = mu + scale sqrt(dof) sinh(w): the density is then cosh(w)^-dof. The ends of a narrow interval
    would differ in their last digits alone: there in x, from its point nearest to mu.
    """
    location, scale, dof = p.T
    width = scale * np.sqrt(dof)
    ends = np.arcsinh((low - location) / width), np.arcsinh((high - location) / width)
    w, weight = graded_points(*ends, dof, lambda w: np.logaddexp(w, -w), order)
    away, nearest = np.sinh(w), np.clip(location, low, high)
    z, below, above = (nearest - location) / width, (low - nearest) / width, (high - nearest) / width
    narrow = above - below < NARROW * np.hypot(1.0, z)
    away[narrow], weight[narrow] = near_points(z[narrow], below[narrow], above[narrow], 0.5 * (dof[narrow] + 1.0))
    return Points(np.where(narrow, nearest, location), width[:, None] * away, weight, dof)


def near_points(
    z: np.ndarray, below: np.ndarray, above: np.ndarray, power: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Distances from z and weights (n, points) under a density (1 + x^2)^-power between z + below and z + above.

    z is the point of that narrow interval which is nearest to 0. As far as there is mass, which ends early where the
    power is large.
    """
    size = np.hypot(1.0, z)
    room = np.minimum(np.expm1(-NEGLIGIBLE / power), 1.0)  # by which 1 + x^2 grows at most
    reach = size * room / (np.abs(z) / size + np.sqrt(np.square(z / size) + room))
    y, spacing = cubic_panels(np.maximum(below, -reach), np.minimum(above, reach))
    rise = y / size[:, None] * ((2.0 * z[:, None] + y) / size[:, None])
    return y, np.exp(-power[:, None] * np.log1p(rise)) * spacing


def student_raw_moments(p: np.ndarray, centre: float | np.ndarray, order: int) -> np.ndarray:
    """Even central moments of t: scale^k nu^(k/2) prod_{i=1}^{k/2} (2i - 1) / (nu - 2i)."""
    location, scale, nu = p.T
    own = np.zeros((nu.size, order + 1))
    for k in range(0, order + 1, 2):
        value = scale**k * nu ** (k // 2)
        for i in range(1, k // 2 + 1):
            value = value * (2 * i - 1) / np.where(nu > 2 * i, nu - 2 * i, np.nan)
        own[:, k] = np.where(nu > k, value, np.inf)
    with np.errstate(invalid="ignore"):
        out = about(own, location - centre)
    for k in range(order + 1):
        out[nu <= k, k] = np.inf if k % 2 == 0 else np.nan
    out[:, 0] = 1.0
    return out


def gaussian_coefficients(theta, width, out):
    out[0] = -fast_log(theta[1]) - HALF_LOG_2PI
    out[1] = theta[0]
    out[2] = math.sqrt(0.5) / theta[1]


def add_gaussian_gradient(theta, width, u, x, flow, out):
    z = (u - theta[0]) / theta[1]
    out[0] += flow * z / theta[1]
    out[1] += flow * (z * z - 1.0) / theta[1]


def _gaussian_slope(theta, u, x):
    return (theta[0] - u) / (theta[1] * theta[1])


def _draw_normal(rng, theta):
    return theta[0] + theta[1] * rng.standard_normal()


def student_coefficients(theta, width, out):
    dof = theta[2]
    out[0] = half_step_log_gamma(0.5 * dof) - 0.5 * math.log(math.pi * dof) - math.log(theta[1])
    out[1] = theta[0]
    out[2] = 1.0 / (theta[1] * math.sqrt(dof))
    out[3] = 0.5 * (dof + 1.0)


def add_student_gradient(theta, width, u, x, flow, out):
    scale, dof = theta[1], theta[2]
    z = (u - theta[0]) / scale
    w = (dof + 1.0) / (dof + z * z)
    out[0] += flow * w * z / scale
    out[1] += flow * (w * z * z - 1.0) / scale
    part = digamma(0.5 * dof + 0.5) - digamma(0.5 * dof) - 1.0 / dof
    out[2] += flow * 0.5 * (part - math.log1p(z * z / dof) + w * z * z / dof)


def _student_slope(theta, u, x):
    z = (u - theta[0]) / theta[1]
    return -(theta[2] + 1.0) * z / (theta[2] + z * z) / theta[1]


def _draw_student(rng, theta):
    return theta[0] + theta[1] * rng.standard_normal() / math.sqrt(rng.standard_gamma(0.5 * theta[2]) * 2.0 / theta[2])


def student_rows(posteriors: np.ndarray) -> np.ndarray:
    """(location, scale, degrees of freedom) (n, 3) of the predictives of normal-gamma posteriors (n, 4)."""
    mu, rho, a, b = posteriors.T
    return np.stack([mu, np.sqrt((1.0 + 1.0 / rho) * b / a), 2.0 * a], axis=1)


def _in_units(parameters: np.ndarray, centre: float, scale: float) -> np.ndarray:
    mean, rho, a, b = parameters.T
    return np.stack([mean * scale + centre, rho, a, b * scale**2], axis=1)


@bare_kernel
def gaussian_posterior(n, s1, s2, p0, p1, p2, p3):
    """Normal-gamma posterior (mean, rho, a, b) from n values with sum s1 and sum of squares s2."""
    rho = p1 + n
    shifted = s1 - n * p0  # sum of y - p0: the form without cancellation when y is centred near p0
    spread = s2 - 2.0 * p0 * s1 + n * p0 * p0 - shifted * shifted / rho
    return p0 + shifted / rho, rho, p2 + 0.5 * n, p3 + 0.5 * larger(spread, 0.0)


def _prior(mean, variance, floor, scale, n_levels, leaf_shape, precision_ratio):
    return mean, precision_ratio, leaf_shape, leaf_shape * max(scale * variance, floor)


def _add(s1, s2, sign, u, offset, cell, trials):
    return s1 + sign * u, s2 + sign * (u * u + cell)


def _predictive(p0, p1, p2, p3, half_step, cell):
    """Scale^2 is (1 + 1/rho) b / a. A cell's mean log density is a factor, see `gibbs.leaf_kernels`."""
    width = 2.0 * p3 * (p1 + 1.0) / p1
    log_scale = half_step - 0.5 * (LOG_PI + fast_log(width))
    if cell > 0.0:
        growth = 0.5 * cell / p3
        log_scale -= (p2 + 0.5) * math.log1p(growth)
        width *= 1.0 + growth
    return log_scale, p2 + 0.5, p0, 1.0 / width, 0.0


def _log_predictive(u, offset, log_scale, power, centre, curvature, slope, trials):
    t = u - centre
    return log_scale - power * fast_log1p(t * t * curvature)


def _log_density_of(u, offset, p0, p1, p2, p3, half_step, cell):
    width = 2.0 * p3 * (p1 + 1.0) / p1
    t = u - p0
    peak = half_step - 0.5 * (LOG_PI + fast_log(width))
    return peak - (p2 + 0.5) * fast_log1p(t * t / width + 0.5 * cell / p3)


def _add_log_marginal(log_p, n, s1, s2, p0, p1, p2, p3, first, second):
    _, rho, _, excess = gaussian_posterior(n, s1, s2, p0, p1, p2, 0.0)
    log_b = math.log(p3 + excess)
    log_p += log_rising_from(p2, 0.5 * n, first) - p2 * math.log1p(excess / p3) - 0.5 * n * (log_b + LOG_2PI)
    return log_p + 0.5 * math.log(p1 / rho)


def _add_slopes(out, n, s1, s2, p0, p1, p2, p3, first, second, constants, leaf_scale, second_log):
    mean, rho, a, excess = gaussian_posterior(n, s1, s2, p0, p1, p2, 0.0)
    b = p3 + excess
    by_b = p2 / p3 - a / b
    if leaf_scale * constants[3] * constants[1] > constants[2]:
        out[0] += by_b * p2 * constants[3] * constants[1]
    out[1] += digamma(a) - first + second_log - math.log(b) + by_b * p3 / p2
    out[2] += 0.5 * (1.0 / p1 - 1.0 / rho) - 0.5 * a / b * (mean - p0) ** 2


def _expected(p0, p1, p2, p3, cell):
    squared = 0.5 * p2 / p3
    return 0.5 * (digamma(p2) - math.log(p3) - LOG_2PI - 1.0 / p1) - squared * cell, p0, squared, 0.0


def _draw_predicted(rng, p0, p1, p2, p3, offset):
    return p0 + rng.standard_normal() * math.sqrt((1.0 + 1.0 / p1) * p3 / rng.standard_gamma(p2))


def _log_cell(low, high, offset, log_scale, power, centre, curvature, slope):
    root = math.sqrt(curvature)
    z_low = (low - centre) * root
    z_high = (high - centre) * root
    log_mass = log_scale - math.log(root) + log_student_integral(z_low, z_high, (high - low) * root, power)
    return min(log_mass, 0.0)


def _draw_in_cell(rng, low, high, offset, power, centre, curvature, slope):
    root = math.sqrt(curvature)
    return centre + draw_student(rng, (low - centre) * root, (high - centre) * root, power) / root


def _draw_parameters(rng, p0, p1, p2, p3):
    root = max(math.sqrt(rng.standard_gamma(p2) / p3), 1e-150)  # not 0, in which gamma variates of small shapes end
    return p0 + rng.standard_normal() / (root * math.sqrt(p1)), root


def _log_cell_given(low, high, offset, first, second):
    return log_normal_mass((low - first) * second, (high - first) * second, (high - low) * second)


def _draw_in_cell_given(rng, low, high, offset, first, second):
    return draw_normal(rng, low, high, first, second)


def _log_whole_number(u, is_first, log_scale, power, centre, curvature):
    root = math.sqrt(curvature)
    low = -math.inf if is_first else (u - 0.5 - centre) * root
    length = math.inf if is_first else root
    log_integral = log_student_integral(low, (u + 0.5 - centre) * root, length, power)
    return min(log_scale - math.log(root) + log_integral, 0.0)


CONJUGATE = Conjugate(
    reading=REAL,
    prior_form=NORMAL_GAMMA_PRIOR,
    prior=_prior,
    posterior=gaussian_posterior,
    is_vector=True,
    add=_add,
    predictive=_predictive,
    log_predictive=_log_predictive,
    log_density=_log_density_of,
    add_log_marginal=_add_log_marginal,
    add_slopes=_add_slopes,
    expected=_expected,
    draw=_draw_predicted,
    log_cell=_log_cell,
    draw_in_cell=_draw_in_cell,
    draw_parameters=_draw_parameters,
    log_cell_given=_log_cell_given,
    draw_in_cell_given=_draw_in_cell_given,
    log_whole_number=_log_whole_number,
)
GAUSSIAN_RULE = checked_rows(
    "mean, standard deviation", "mean must be finite, standard deviation positive", lambda p: p[:, 1] > 0
)
STUDENT_RULE = checked_rows(
    "location, scale, degrees of freedom",
    "location must be finite, scale and degrees of freedom positive",
    lambda p: (p[:, 1:] > 0).all(axis=1),
)
GAUSSIAN_KERNELS = Kernels(
    QUADRATIC, REAL, quadratic, gaussian_coefficients, add_gaussian_gradient, _draw_normal, located, _gaussian_slope
)
STUDENT_KERNELS = Kernels(
    STUDENT, REAL, student, student_coefficients, add_student_gradient, _draw_student, located, _student_slope
)
GAUSSIAN = UnivariateFamily(
    name="gaussian",
    n_parameters=2,
    is_density=True,
    log_density=gaussian_log_density,
    check=GAUSSIAN_RULE,
    mean=lambda p: p[..., 0],
    variance=lambda p: np.square(p[..., 1]),
    mode=lambda p: p[..., 0],
    draw=lambda p, rng: p[..., 0] + p[..., 1] * rng.standard_normal(p.shape[:-1]),
    log_interval=lambda p, low, high: log_interval_of_width(p, low, high, high - low),
    kernels=GAUSSIAN_KERNELS,
)
STUDENT_T = UnivariateFamily(
    name="student_t",
    n_parameters=3,
    is_density=True,
    log_density=student_log_density,
    check=STUDENT_RULE,
    mean=lambda p: np.where(p[..., 2] > 1, p[..., 0], np.nan),
    variance=_student_variance,
    mode=lambda p: p[..., 0],
    draw=lambda p, rng: p[..., 0] + p[..., 1] * rng.standard_t(p[..., 2]),
    log_interval=student_log_interval,
    cdf=student_cdf,
    bulk=lambda p: (p[:, 0], p[:, 1]),
    raw_moments=student_raw_moments,
    **by_points(student_points),
    kernels=STUDENT_KERNELS,
)
PREDICTIVE = Predictive(
    entry=Gaussian,
    leaves=STUDENT_T,
    leaf_rows=student_rows,
    draw_parameters=draw_gaussians,
    conjugate=CONJUGATE,
    in_units=_in_units,
)
