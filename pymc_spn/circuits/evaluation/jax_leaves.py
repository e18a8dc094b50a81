"""Leaves of a circuit in JAX: what `leaf_forms` has for one leaf, for all leaves of a family and all rows at once.

JAX differentiates both sides of a choice, and a NaN or infinity on the side that is not taken spoils the gradient.
Where a result is not used, its argument is therefore replaced by a harmless one first.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln

from pymc_spn.circuits.evaluation.leaf_forms import FACTORIAL, HALF_LOG_2PI, LOG_ODDS, LOGARITHM, NOT_NEGATIVE, REAL
from pymc_spn.circuits.evaluation.packed_layout import TOLERANCE
from pymc_spn.leaves.family_codes import (
    BERNOULLI,
    BETA,
    BETA_BINOMIAL,
    BETA_GEOMETRIC,
    BINOMIAL,
    CATEGORICAL,
    EXPONENTIAL,
    GAMMA,
    GAUSSIAN,
    GEOMETRIC,
    HYPERGEOMETRIC,
    LAPLACE,
    LOG_NORMAL,
    LOG_STUDENT_T,
    LOMAX,
    NEGATIVE_BINOMIAL,
    POISSON,
    STUDENT_T,
    TRIANGULAR,
    UNIFORM,
    WEIBULL,
)
from pymc_spn.leaves.plain_leaves import LARGEST_TRIALS

LOCATED = (GAUSSIAN, LOG_NORMAL, STUDENT_T, LOG_STUDENT_T, LAPLACE)  # the first parameter is any number


def log_of_zero(dtype: Any) -> float:
    """A finite number in its place, so that no difference of two is NaN; sums over 10⁸ columns stay finite."""
    return 1e-8 * float(jnp.finfo(dtype).min)


class Cells(NamedTuple):
    """Cells as leaves of one reading see them, each (I, N); see `leaf_forms.read_value`."""

    u: Any
    base: Any
    is_possible: Any  # observed, and a value that the leaves can take
    otherwise: Any  # log density where not; that of a missing cell is 0


def read(x: Any, reading: int) -> Cells:
    """Cells from values (I, N), NaN where missing."""
    if reading == REAL:
        is_possible = jnp.isfinite(x)
    elif reading == NOT_NEGATIVE:
        is_possible = (x >= 0.0) & (x < math.inf)
    elif reading == LOGARITHM:
        is_possible = (x > 0.0) & (x < math.inf)
    elif reading == LOG_ODDS:
        is_possible = (x > 0.0) & (x < 1.0)
    else:
        is_possible = (x >= 0.0) & (x < math.inf) & (x == jnp.floor(x))
    otherwise = jnp.where(jnp.isnan(x), 0.0, log_of_zero(x.dtype))
    u = jnp.where(is_possible, x, 0.5 if reading == LOG_ODDS else 1.0)
    if reading == LOGARITHM:
        u = jnp.log(u)
        return Cells(u, -u, is_possible, otherwise)
    if reading == LOG_ODDS:
        y, z = jnp.log(u), jnp.log1p(-u)
        return Cells(y - z, -(y + z), is_possible, otherwise)
    if reading not in (REAL, NOT_NEGATIVE):
        u = jax.lax.stop_gradient(u)  # masses have no derivative in the value
    base = -gammaln(u + 1.0) if reading == FACTORIAL else jnp.zeros_like(u)
    return Cells(u, base, is_possible, otherwise)


def leaf_log_densities(code: int, theta: Any, cells: Cells) -> Any:
    """Log densities (L, N) of leaves of one family, from parameters (L, p) within their bounds and cells (L, N)."""
    zero = log_of_zero(theta.dtype)
    logs = FORMS[code](theta, cells.u, zero) + cells.base
    return jnp.where(cells.is_possible, jnp.where(logs > zero, logs, zero), cells.otherwise)


def are_within_bounds(code: int, theta: Any) -> Any:
    """Whether all parameters (L, p) of a family are, as in `packed_layout.is_valid`."""
    first, second = theta[:, 0], theta[:, -1]
    if code == UNIFORM:
        is_inside = first < second
    elif code == TRIANGULAR:
        is_inside = (first <= theta[:, 1]) & (theta[:, 1] <= second) & (first < second)
    elif code == BINOMIAL:
        is_inside = (
            (first >= 1.0) & (first <= LARGEST_TRIALS) & (first == jnp.floor(first)) & (second > 0.0) & (second < 1.0)
        )
    elif code == HYPERGEOMETRIC:
        is_inside = (theta == jnp.floor(theta)) & (theta >= 0.0) & (theta <= theta[:, :1]) & (theta[:, :1] >= 1.0)
    elif code == BETA_BINOMIAL:
        is_inside = (theta > 0.0) & ((first <= LARGEST_TRIALS) & (first == jnp.floor(first)))[:, None]
    elif code == GEOMETRIC:
        is_inside = (theta > 0.0) & (theta < 1.0)
    elif code == BERNOULLI:
        is_inside = (theta >= 0.0) & (theta <= 1.0)
    elif code == CATEGORICAL:
        is_inside = (theta >= 0.0).all(axis=1) & (jnp.abs(theta.sum(axis=1) - 1.0) < TOLERANCE)
    else:
        is_inside = theta[:, 1 if code in LOCATED else 0 :] > 0.0
    return is_inside.all() & jnp.isfinite(theta).all()


def chosen(condition: Any, f: Callable[[Any], Any], x: Any, otherwise: Any) -> Any:
    """f(x) where the condition holds, and without an infinite derivative where not."""
    return jnp.where(condition, f(jnp.where(condition, x, 1.0)), otherwise)


def columns(theta: Any) -> Any:
    """Each parameter as (L, 1)."""
    return theta.T[:, :, None]


def gaussian(theta: Any, u: Any, zero: float) -> Any:
    location, scale = columns(theta)
    z = (u - location) / scale
    return chosen(jnp.abs(z) < math.sqrt(-zero), lambda z: -0.5 * z * z - jnp.log(scale) - HALF_LOG_2PI, z, zero)


def exponential(theta: Any, u: Any, zero: float) -> Any:
    (rate,) = columns(theta)
    return jnp.log(rate) - rate * u


def poisson(theta: Any, u: Any, zero: float) -> Any:
    (mean,) = columns(theta)
    return jnp.log(mean) * u - mean


def geometric(theta: Any, u: Any, zero: float) -> Any:
    (p,) = columns(theta)
    return jnp.log(p) + jnp.log1p(-p) * u


def categorical(theta: Any, u: Any, zero: float) -> Any:
    logs = chosen(theta > 0.0, jnp.log, theta, zero)
    levels = jnp.arange(theta.shape[1])
    logs = jnp.where(u[:, :, None] == levels, logs[:, None, :], 0.0).sum(axis=2)
    return jnp.where(u < theta.shape[1], logs, zero)


def bernoulli(theta: Any, u: Any, zero: float) -> Any:
    return categorical(jnp.concatenate([1.0 - theta, theta], axis=1), u, zero)


def student_t(theta: Any, u: Any, zero: float) -> Any:
    location, scale, dof = columns(theta)
    lead = gammaln(0.5 * dof + 0.5) - gammaln(0.5 * dof) - 0.5 * jnp.log(math.pi * dof) - jnp.log(scale)
    z = (u - location) / (scale * jnp.sqrt(dof))
    return chosen(jnp.abs(z) < math.sqrt(-zero), lambda z: lead - 0.5 * (dof + 1.0) * jnp.log1p(z * z), z, zero)


def lomax(theta: Any, u: Any, zero: float) -> Any:
    shape, scale = columns(theta)
    return jnp.log(shape) - jnp.log(scale) - (shape + 1.0) * jnp.log1p(u / scale)


def negative_binomial(theta: Any, u: Any, zero: float) -> Any:
    shape, rate = columns(theta)
    lead = -shape * jnp.log1p(1.0 / rate) - gammaln(shape)
    return lead - jnp.log1p(rate) * u + gammaln(shape + u)


def beta_geometric(theta: Any, u: Any, zero: float) -> Any:
    a, b = columns(theta)
    return jnp.log(a) + gammaln(a + b) - gammaln(b) + gammaln(b + u) - gammaln(a + b + 1.0 + u)


def laplace(theta: Any, u: Any, zero: float) -> Any:
    location, scale = columns(theta)
    away = u - location
    sign = jax.lax.stop_gradient(jnp.sign(away))  # JAX takes the derivative of |x| at 0 to be 1
    return -sign * away / scale - jnp.log(2.0 * scale)


def uniform(theta: Any, u: Any, zero: float) -> Any:
    low, high = columns(theta)
    return jnp.where((low <= u) & (u <= high), -jnp.log(high - low), zero)


def triangular(theta: Any, u: Any, zero: float) -> Any:
    lower, mode, upper = columns(theta)
    rises, falls = (lower < u) & (u < mode), (mode < u) & (u < upper)
    away = jnp.where(rises, u - lower, jnp.where(falls, upper - u, 1.0))
    span = jnp.where(rises, mode - lower, jnp.where(falls, upper - mode, 1.0))
    logs = jnp.log(away / span) + jnp.log(2.0 / (upper - lower))
    return jnp.where(rises | falls | (u == mode), logs, zero)


def gamma(theta: Any, u: Any, zero: float) -> Any:
    shape, rate = columns(theta)
    lead = shape * jnp.log(rate) - gammaln(shape)
    return chosen(u < math.log(-zero), lambda u: lead + shape * u - rate * jnp.exp(u), u, zero)


def weibull(theta: Any, u: Any, zero: float) -> Any:
    shape, scale = columns(theta)
    t = shape * (u - jnp.log(scale))
    return chosen(t < math.log(-zero), lambda t: jnp.log(shape) + t - jnp.exp(t), t, zero)


def beta(theta: Any, u: Any, zero: float) -> Any:
    a, b = columns(theta)
    lead = gammaln(a + b) - gammaln(a) - gammaln(b)
    return lead - a * jax.nn.softplus(-u) - b * jax.nn.softplus(u)


def binomial(theta: Any, u: Any, zero: float) -> Any:
    n, p = columns(theta)
    lead = gammaln(n + 1.0) + n * jnp.log1p(-p)
    log_odds = jnp.log(p) - jnp.log1p(-p)
    return chosen(u <= n, lambda u: lead + log_odds * u - gammaln(n - u + 1.0), u, zero)


def beta_binomial(theta: Any, u: Any, zero: float) -> Any:
    n, a, b = columns(theta)
    lead = gammaln(n + 1.0) + gammaln(a + b) - gammaln(a) - gammaln(b) - gammaln(a + b + n)

    def rising(u: Any) -> Any:
        return lead + gammaln(a + u) + gammaln(b + n - u) - gammaln(n - u + 1.0)

    return chosen(u <= n, rising, u, zero)


def hypergeometric(theta: Any, u: Any, zero: float) -> Any:
    population, successes, draws = columns(theta)
    failures, others = population - successes, population - draws
    lead = gammaln(successes + 1.0) + gammaln(failures + 1.0) + gammaln(draws + 1.0) + gammaln(others + 1.0)
    is_possible = (u <= successes) & (u <= draws) & (draws - u <= failures)

    def remaining(total: Any) -> Any:
        return gammaln(jnp.where(is_possible, total - u, 0.0) + 1.0)

    left = remaining(successes) + remaining(draws) + remaining(failures - draws + 2.0 * u)
    return jnp.where(is_possible, lead - gammaln(population + 1.0) - left, zero)


FORMS = {
    GAUSSIAN: gaussian,
    LOG_NORMAL: gaussian,
    EXPONENTIAL: exponential,
    POISSON: poisson,
    GEOMETRIC: geometric,
    BERNOULLI: bernoulli,
    CATEGORICAL: categorical,
    STUDENT_T: student_t,
    LOG_STUDENT_T: student_t,
    LOMAX: lomax,
    NEGATIVE_BINOMIAL: negative_binomial,
    BETA_GEOMETRIC: beta_geometric,
    LAPLACE: laplace,
    UNIFORM: uniform,
    TRIANGULAR: triangular,
    GAMMA: gamma,
    BETA: beta,
    WEIBULL: weibull,
    BINOMIAL: binomial,
    HYPERGEOMETRIC: hypergeometric,
    BETA_BINOMIAL: beta_binomial,
}  # the factorial and the Jacobians of log and log odds are in `Cells.base`
