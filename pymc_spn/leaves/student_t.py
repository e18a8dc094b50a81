"""Student t leaves: Gaussian ones whose mean and precision are integrated out."""

import math
from typing import Any

import numpy as np

from pymc_spn.leaves.conjugate_pieces import NORMAL_GAMMA_PRIOR, Conjugate
from pymc_spn.leaves.family_pieces import Kernels, Predictive
from pymc_spn.leaves.gaussian import Gaussian
from pymc_spn.leaves.interval_moments import (
    NARROW,
    NEGLIGIBLE,
    about,
    cubic_panels,
    graded_points,
    powers_of,
    weighted_moments,
)
from pymc_spn.leaves.kernel_forms import REAL, STUDENT, located, student
from pymc_spn.leaves.leaf_family import UnivariateFamily
from pymc_spn.leaves.leaf_statistics import NormalGamma
from pymc_spn.leaves.normal_cells import draw_normal, log_normal_mass
from pymc_spn.leaves.student_cells import draw_student, log_student_integral
from pymc_spn.leaves.tail_probabilities import log_gamma_ratio
from pymc_spn.numerics.elementary import digamma, fast_log, fast_log1p, half_step_log_gamma, larger
from pymc_spn.numerics.gamma_ratios import log_rising_from
from pymc_spn.numerics.kernel_options import bare_kernel

LOG_PI = math.log(math.pi)
LOG_2PI = math.log(2.0 * math.pi)


def normal_gamma(p: np.ndarray) -> NormalGamma:
    """Posterior whose predictive is the Student t (location, scale, degrees of freedom)."""
    half = 0.5 * p[..., 2]
    return NormalGamma(p[..., 0], np.ones(p.shape[:-1]), half, 0.5 * half * np.square(p[..., 1]))


def moments_within(params: NormalGamma, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance within an interval."""
    dof = 2.0 * params.a
    width, origin, away, weight = student_points(params, low, high, 2)
    mean, variance = weighted_moments(away, weight)
    if math.isinf(low) or math.isinf(high):
        infinite = np.where(math.isinf(low) & math.isinf(high), np.nan, math.copysign(np.inf, high))
        mean = np.where(dof > 1.0, mean, infinite)
        variance = np.where(dof > 2.0, variance, np.inf)
    return origin + width * mean, width**2 * variance


def about_within(params: NormalGamma, low: float, high: float, centre: np.ndarray, order: int) -> np.ndarray:
    """E[(X - centre)^k | low <= X <= high] (n, order + 1); infinite, with the sign of the end, where there is none."""
    width, origin, away, weight = student_points(params, low, high, order)
    away = (origin - centre)[:, None] + width[:, None] * away
    return powers_of(away, weight, order, 2.0 * params.a, low, high)


def student_points(params: NormalGamma, low: float, high: float, order: int) -> tuple[np.ndarray, ...]:
    """Unit and origin (n,), distances from it in that unit and weights (n, points).

    Quadrature in w, x = mu + scale sqrt(dof) sinh(w): the density is then cosh(w)^-dof. The ends of a narrow interval
    would differ in their last digits alone: there in x, from its point nearest to mu.
    """
    dof = 2.0 * params.a
    width = Gaussian.predictive_scale(params) * np.sqrt(dof)
    ends = np.arcsinh((low - params.mu) / width), np.arcsinh((high - params.mu) / width)
    w, weight = graded_points(*ends, dof, lambda w: np.logaddexp(w, -w), order)
    away, nearest = np.sinh(w), np.clip(params.mu, low, high)
    z, below, above = (nearest - params.mu) / width, (low - nearest) / width, (high - nearest) / width
    narrow = above - below < NARROW * np.hypot(1.0, z)
    away[narrow], weight[narrow] = near_points(z[narrow], below[narrow], above[narrow], 0.5 * (dof[narrow] + 1.0))
    return width, np.where(narrow, nearest, params.mu), away, weight


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


def student_problem(parameters: np.ndarray) -> tuple[int, str] | None:
    """First bad row and the rule that it breaks."""
    if parameters.shape[1] != 3:
        return 0, "rows must be (location, scale, degrees of freedom)"
    wrong = ~(np.isfinite(parameters).all(axis=1) & (parameters[:, 1:] > 0).all(axis=1))
    rule = "location must be finite, scale and degrees of freedom positive"
    return (int(np.argmax(wrong)), rule) if np.any(wrong) else None


def log_density(p: np.ndarray, x: Any) -> np.ndarray:
    location, scale, dof = p[..., 0], p[..., 1], p[..., 2]
    z2 = np.square((np.asarray(x, dtype=np.float64) - location) / scale)
    norm = log_gamma_ratio(0.5 * dof, 0.5) - 0.5 * np.log(np.pi * dof) - np.log(scale)
    return norm - 0.5 * (dof + 1.0) * np.log1p(z2 / dof)


def _variance(p: np.ndarray) -> np.ndarray:
    dof = p[..., 2]
    finite = np.square(p[..., 1]) * dof / np.where(dof > 2, dof - 2, 1.0)
    return np.where(dof > 2, finite, np.where(dof > 1, np.inf, np.nan))


def coefficients(theta, width, out):
    dof = theta[2]
    out[0] = half_step_log_gamma(0.5 * dof) - 0.5 * math.log(math.pi * dof) - math.log(theta[1])
    out[1] = theta[0]
    out[2] = 1.0 / (theta[1] * math.sqrt(dof))
    out[3] = 0.5 * (dof + 1.0)


def add_gradient(theta, width, u, x, flow, out):
    scale, dof = theta[1], theta[2]
    z = (u - theta[0]) / scale
    w = (dof + 1.0) / (dof + z * z)
    out[0] += flow * w * z / scale
    out[1] += flow * (w * z * z - 1.0) / scale
    part = digamma(0.5 * dof + 0.5) - digamma(0.5 * dof) - 1.0 / dof
    out[2] += flow * 0.5 * (part - math.log1p(z * z / dof) + w * z * z / dof)


def _value_slope(theta, u, x):
    z = (u - theta[0]) / theta[1]
    return -(theta[2] + 1.0) * z / (theta[2] + z * z) / theta[1]


def _draw_one(rng, theta):
    return theta[0] + theta[1] * rng.standard_normal() / math.sqrt(rng.standard_gamma(0.5 * theta[2]) * 2.0 / theta[2])


def draw_within(params: NormalGamma, low: float, high: float, u: np.ndarray) -> np.ndarray:
    """The u-quantile between the ends, by halving in x = mu + scale sinh(w)."""
    scale = Gaussian.predictive_scale(params)
    first, last = (np.clip(np.arcsinh((v - params.mu) / scale), -340.0, 340.0) for v in (low, high))
    log_total = Gaussian.predictive_log_interval(params, low, high)
    with np.errstate(divide="ignore"):
        target = np.log(u) + log_total
    for _ in range(64):
        middle = 0.5 * (first + last)
        x = np.clip(params.mu + scale * np.sinh(middle), low, high)
        below = Gaussian.predictive_log_interval(params, low, x) < target
        first, last = np.where(below, middle, first), np.where(below, last, middle)
    return np.clip(params.mu + scale * np.sinh(0.5 * (first + last)), low, high)


def raw_moments(params: NormalGamma, centre: float | np.ndarray, order: int) -> np.ndarray:
    """Even central moments of t: scale^k nu^(k/2) prod_{i=1}^{k/2} (2i - 1) / (nu - 2i)."""
    nu, scale = 2.0 * params.a, Gaussian.predictive_scale(params)
    own = np.zeros((nu.size, order + 1))
    for k in range(0, order + 1, 2):
        value = scale**k * nu ** (k // 2)
        for i in range(1, k // 2 + 1):
            value = value * (2 * i - 1) / np.where(nu > 2 * i, nu - 2 * i, np.nan)
        own[:, k] = np.where(nu > k, value, np.inf)
    with np.errstate(invalid="ignore"):
        out = about(own, params.mu - centre)
    for k in range(order + 1):
        out[nu <= k, k] = np.inf if k % 2 == 0 else np.nan
    out[:, 0] = 1.0
    return out


def posterior(parameters: np.ndarray) -> NormalGamma:
    """From rows (n, 4)."""
    return NormalGamma(*parameters.T)


def leaf_rows(params: NormalGamma) -> np.ndarray:
    """(location, scale, degrees of freedom) (n, 3)."""
    return np.stack([params.mu, np.sqrt((1.0 + 1.0 / params.rho) * params.b / params.a), 2.0 * params.a], axis=1)


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


def _draw_predictive(rng, p0, p1, p2, p3, offset):
    return p0 + rng.standard_normal() * math.sqrt((1.0 + 1.0 / p1) * p3 / rng.standard_gamma(p2))


def _simulate(rng: np.random.Generator, prior: np.ndarray, offset: float, n: int) -> np.ndarray:
    mu0, rho0, a0, b0 = prior
    precision = rng.gamma(a0) / b0
    mean = mu0 + rng.standard_normal() / np.sqrt(rho0 * precision)
    drawn: np.ndarray = mean + rng.standard_normal(n) / np.sqrt(precision)
    return drawn


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
    draw=_draw_predictive,
    simulate=_simulate,
    log_cell=_log_cell,
    draw_in_cell=_draw_in_cell,
    draw_parameters=_draw_parameters,
    log_cell_given=_log_cell_given,
    draw_in_cell_given=_draw_in_cell_given,
    log_whole_number=_log_whole_number,
)
PREDICTIVE = Predictive(
    prior=Gaussian,
    leaves="student_t",
    conjugate=CONJUGATE,
    posterior=posterior,
    leaf_rows=leaf_rows,
    moments=raw_moments,
    whole_moments=lambda params: (params.mu, Gaussian.predictive_variance(params)),
    bulk=lambda params: (params.mu, Gaussian.predictive_scale(params)),
    in_units=_in_units,
    moments_within=moments_within,
    about_within=about_within,
    draw_within=draw_within,
)
STUDENT_T = UnivariateFamily(
    name="student_t",
    n_parameters=3,
    is_density=True,
    log_density=log_density,
    check=student_problem,
    mean=lambda p: np.where(p[..., 2] > 1, p[..., 0], np.nan),
    variance=_variance,
    mode=lambda p: p[..., 0],
    draw=lambda p, rng: p[..., 0] + p[..., 1] * rng.standard_t(p[..., 2]),
    log_interval=lambda p, low, high: Gaussian.predictive_log_interval(normal_gamma(p), low, high),
    moments_within=lambda p, low, high: moments_within(normal_gamma(p), low, high),
    kernels=Kernels(STUDENT, REAL, student, coefficients, add_gradient, _draw_one, located, value_slope=_value_slope),
    predictive=PREDICTIVE,
)
