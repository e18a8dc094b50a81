"""Student t leaves: Gaussian ones whose mean and precision are integrated out."""

import math
from typing import Any

import numpy as np
from scipy.special import gammaln

from pymc_spn.leaves.family_pieces import Boxes, Kernels, Predictive, Symbols, located_link
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
from pymc_spn.leaves.kernel_forms import REAL, STUDENT, first, located, student, widen
from pymc_spn.leaves.leaf_family import UnivariateFamily
from pymc_spn.leaves.leaf_statistics import NormalGamma
from pymc_spn.leaves.tail_probabilities import log_gamma_ratio
from pymc_spn.numerics.elementary import digamma, half_step_log_gamma
from pymc_spn.numerics.kernel_options import inner_kernel

DOF = 5.0  # of leaves from a network with outputs of 0


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


def box_rows(params: NormalGamma) -> np.ndarray:
    """(centre, scale, degrees of freedom, log scale) (n, 4) from posteriors."""
    nu, scale = 2.0 * params.a, Gaussian.predictive_scale(params)
    log_scale = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(np.pi * nu) - np.log(scale)
    return np.stack([params.mu, scale, nu, log_scale], axis=1)


@inner_kernel
def _box_log(a, b, c, e, x):
    t = (x - a) / b
    return e - 0.5 * (c + 1.0) * math.log1p(t * t / c)


@inner_kernel
def _widen_at(p, x, low, high, shift, out):
    if low <= x <= high:
        b = p[1]
        c = p[2]
        t = (x - p[0]) / b
        u = 1.0 + t * t / c
        q = (c + 1.0) / c
        value = math.exp(_box_log(p[0], b, c, p[3], x) - shift)
        widen(value, -q * t / (u * b), q * ((c + 2.0) * t * t / c - 1.0) / (u * u * b * b), out)


def _box_ranges(p, low, high, shift, out):
    out[0] = out[2] = math.inf
    out[1] = out[3] = -math.inf
    _widen_at(p, low, low, high, shift, out)
    _widen_at(p, high, low, high, shift, out)
    if low == high:
        return
    a = math.sqrt(p[2] / (p[2] + 2.0))
    for c in (-math.sqrt(3.0), -1.0, 0.0, 1.0, math.sqrt(3.0)):
        _widen_at(p, p[0] + c * a * p[1], low, high, shift, out)


def _pull(p, x, share):
    away = x - p[0]
    stiff = share * (p[2] + 1.0) / (p[2] * p[1] * p[1] + away * away)
    return -stiff * away, stiff


def in_jax(jax: Any, theta: Any, u: Any, zero: float) -> Any:
    location, scale, dof = jax.columns(theta)
    lead = jax.gammaln(0.5 * dof + 0.5) - jax.gammaln(0.5 * dof) - 0.5 * jax.log(math.pi * dof) - jax.log(scale)
    z = (u - location) / (scale * jax.sqrt(dof))
    return jax.chosen(jax.abs(z) < math.sqrt(-zero), lambda z: lead - 0.5 * (dof + 1.0) * jax.log1p(z * z), z, zero)


def link(pt: Any, o: Any, at: Any) -> tuple[Any, ...]:
    return (*located_link(pt, o, at), DOF * pt.exp(o[2]))


def box_row(p: np.ndarray) -> tuple[Any, ...]:
    """Those of one leaf (3,)."""
    return tuple(box_rows(normal_gamma(p[None]))[0])


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
    boxes=Boxes(
        row=box_row,
        log_value=_box_log,
        mode=first,
        ranges=_box_ranges,
        pull=_pull,
    ),
    symbols=Symbols(
        in_jax=in_jax,
        are_valid=lambda jax, p: p[:, 1:] > 0.0,
        is_located=True,
        n_outputs=3,
        link=link,
    ),
)


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


def sums(prior: np.ndarray, n: np.ndarray, s1: np.ndarray, s2: np.ndarray) -> tuple[np.ndarray, ...]:
    """Posterior (mu, rho, a, b), in coded units."""
    mu0, rho0, a0, b0 = prior.T
    rho, shifted = rho0 + n, s1 - n * mu0
    spread = s2 - 2.0 * mu0 * s1 + n * mu0**2 - shifted**2 / rho
    return mu0 + shifted / rho, rho, a0 + 0.5 * n, b0 + 0.5 * np.maximum(spread, 0.0)


def _from_sums(
    prior: np.ndarray, n: np.ndarray, s1: np.ndarray, s2: np.ndarray, centre: float, scale: float
) -> np.ndarray:
    mean, rho, a, b = sums(prior, n, s1, s2)
    return np.stack([mean * scale + centre, rho, a, b * scale**2], axis=1)


PREDICTIVE = Predictive(
    prior=Gaussian,
    posterior=posterior,
    leaf_rows=leaf_rows,
    moments=raw_moments,
    whole_moments=lambda params: (params.mu, Gaussian.predictive_variance(params)),
    bulk=lambda params: (params.mu, Gaussian.predictive_scale(params)),
    from_sums=_from_sums,
    box_rows=box_rows,
    moments_within=moments_within,
    about_within=about_within,
    draw_within=draw_within,
)
