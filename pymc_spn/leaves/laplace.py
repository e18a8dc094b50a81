"""Laplace leaves on real values, with a location and a scale."""

import math
from typing import Any

import numpy as np

from pymc_spn.leaves.family_pieces import Boxes, Fit, Kernels, Symbols, finite, located_link
from pymc_spn.leaves.kernel_forms import ABSOLUTE, REAL, first, located
from pymc_spn.leaves.leaf_family import UnivariateFamily, checked_rows


def _log_density(p: np.ndarray, x: Any) -> np.ndarray:
    return -np.abs(np.asarray(x, dtype=np.float64) - p[..., 0]) / p[..., 1] - np.log(2.0 * p[..., 1])


def _log_interval(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    z_low, z_high = (low - p[..., 0]) / p[..., 1], (high - p[..., 0]) / p[..., 1]
    mirrored = z_low > 0.0
    near, far = np.where(mirrored, -z_low, z_high), np.where(mirrored, -z_high, z_low)
    below = np.minimum(near, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.where(np.isneginf(far), np.inf, below - far)
        one_side = below + np.log(-np.expm1(-gap))
        both_sides = np.log(-np.expm1(np.minimum(far, 0.0)) - np.expm1(-np.maximum(near, 0.0)))
    return np.log(0.5) + np.where(near > 0.0, both_sides, np.where(np.isneginf(below), -np.inf, one_side))


def _inner_product(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    distance = np.abs(p[..., 0] - q[..., 0])
    slow, fast = 1.0 / np.maximum(p[..., 1], q[..., 1]), 1.0 / np.minimum(p[..., 1], q[..., 1])
    gap = fast - slow  # 0 at equal scales, where the quotient is the distance
    between = np.where(gap > 0.0, -np.expm1(-gap * distance) / np.where(gap > 0.0, gap, 1.0), distance)
    return np.log(slow * fast / (2.0 * (slow + fast))) - slow * distance + np.log1p(slow * between)


def _coefficients(theta, width, out):
    out[0] = -math.log(2.0 * theta[1])
    out[1] = theta[0]
    out[2] = 1.0 / theta[1]


def _form(lead, a, b, c, table, u):
    return lead - abs(u - a) * b


def _add_gradient(theta, width, u, x, flow, out):
    away = (u - theta[0]) / theta[1]
    out[0] += flow * np.sign(away) / theta[1]
    out[1] += flow * (abs(away) - 1.0) / theta[1]


def _value_slope(theta, u, x):
    return np.sign(theta[0] - u) / theta[1]


def _draw_one(rng, theta):
    away = rng.standard_exponential()
    return theta[0] + theta[1] * (away if rng.random() < 0.5 else -away)


def _box_log(a, b, c, e, x):
    return e - abs(x - a) / b


def _box_ranges(p, low, high, shift, out):
    """The first derivative falls at the kink, where an end is one-sided."""
    at_low = math.exp(p[3] - abs(low - p[0]) / p[1] - shift)
    at_high = math.exp(p[3] - abs(high - p[0]) / p[1] - shift)
    top = math.exp(p[3] - shift) if low <= p[0] <= high else max(at_low, at_high)
    if low == high:
        out[0] = out[1] = at_low * np.sign(p[0] - low) / p[1]
    elif high <= p[0]:
        out[0] = at_low / p[1]
        out[1] = at_high / p[1]
    elif low >= p[0]:
        out[0] = -at_low / p[1]
        out[1] = -at_high / p[1]
    else:
        out[0] = -top / p[1]
        out[1] = top / p[1]
    out[2] = -math.inf if low < p[0] < high else min(at_low, at_high) / (p[1] * p[1])
    out[3] = top / (p[1] * p[1])


def _pull(p, x, share):
    stiff = share / (p[1] * max(abs(x - p[0]), 1e-9 * p[1]))
    return stiff * (p[0] - x), stiff


def _averages(u: np.ndarray, kept: float) -> tuple[Any, Any]:
    median = np.median(u)
    return median, np.abs(u - median).mean()


def best_leaf(x: np.ndarray, weight: np.ndarray, distance: float) -> tuple[float, float]:
    """Location and scale of largest posterior density: the weighted median and the mean distance from it.

    Parameters
    ----------
    x : (n,) float64
        Ascending: the cells, and the median at which the observations of the prior lie.
    weight : (n,) float64
        Expected uses of the cells, and the number of observations that the prior is worth.
    distance : float
        That these are farther away, in total.
    """
    below = np.cumsum(weight)
    location = x[np.searchsorted(below, 0.5 * below[-1])]
    return location, (float(weight @ np.abs(x - location)) + distance) / below[-1]


def _of_rows(
    x: np.ndarray, weight: np.ndarray, rows: float, mean: float, variance: float
) -> tuple[float, float] | None:
    """The observations of the prior are as far again from every place as the column's values are on average."""
    if rows == 0.0 and not np.any(weight > 0.0):
        return None
    at = int(np.searchsorted(x, mean, side="right"))
    return best_leaf(np.insert(x, at, mean), np.insert(weight, at, rows), rows * variance)


def _log_prior(own: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return -np.log(2.0 * own[:, 1]) - (variance + np.abs(own[:, 0] - mean)) / own[:, 1]


def _in_jax(jax: Any, theta: Any, u: Any, zero: float) -> Any:
    location, scale = jax.columns(theta)
    away = u - location
    sign = jax.constant(jax.sign(away))  # JAX takes the derivative of |x| at 0 to be 1
    return -sign * away / scale - jax.log(2.0 * scale)


LAPLACE = UnivariateFamily(
    name="laplace",
    n_parameters=2,
    is_density=True,
    log_density=_log_density,
    check=checked_rows("location, scale", "location must be finite, scale positive and finite", lambda p: p[:, 1] > 0),
    mean=lambda p: p[..., 0],
    variance=lambda p: 2.0 * np.square(p[..., 1]),
    mode=lambda p: p[..., 0],
    draw=lambda p, rng: rng.laplace(p[..., 0], p[..., 1]),
    log_interval=_log_interval,
    kinks=lambda p: p[:, 0],
    inner_products={"laplace": _inner_product},
    kernels=Kernels(ABSOLUTE, REAL, _form, _coefficients, _add_gradient, _draw_one, located, value_slope=_value_slope),
    boxes=Boxes(
        row=lambda p: (p[0], p[1], 0.0, -np.log(2.0 * p[1])),
        log_value=_box_log,
        mode=first,
        ranges=_box_ranges,
        pull=_pull,
        bends=lambda p: p[:, 0],
    ),
    fit=Fit(
        can_take=finite,
        averages=_averages,
        leaves=lambda mean, variance: np.column_stack([mean, variance]),
        said="median {:g} and mean distance {:g} from it",
        of_rows=_of_rows,
        log_prior=_log_prior,
        near=lambda cell, usable, mean, variance: np.column_stack([np.where(usable, cell, mean), variance]),
    ),
    symbols=Symbols(
        in_jax=_in_jax, are_valid=lambda jax, p: p[:, 1] > 0.0, is_located=True, n_outputs=2, link=located_link
    ),
)
