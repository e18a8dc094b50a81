"""Uniform leaves between two ends that belong to them; a mixture of them is a histogram."""

import math
from typing import Any

import numpy as np

from pymc_spn.leaves.family_pieces import Boxes, Fit, Kernels, Symbols, finite
from pymc_spn.leaves.kernel_forms import BOX, IMPOSSIBLE, REAL
from pymc_spn.leaves.leaf_family import UnivariateFamily, checked_rows


def _log_density(p: np.ndarray, x: Any) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    inside = (x >= p[..., 0]) & (x <= p[..., 1])
    return np.where(np.isnan(x), np.nan, np.where(inside, -np.log(p[..., 1] - p[..., 0]), -np.inf))


def _log_interval(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        inside = np.log(np.maximum(np.minimum(high, p[..., 1]) - np.maximum(low, p[..., 0]), 0.0))
    return inside - np.log(p[..., 1] - p[..., 0])


def _inner_product(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    length = np.minimum(p[..., 1], q[..., 1]) - np.maximum(p[..., 0], q[..., 0])
    with np.errstate(divide="ignore"):
        common = np.log(np.maximum(length, 0.0))
    return common - np.log(p[..., 1] - p[..., 0]) - np.log(q[..., 1] - q[..., 0])


def _product(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.column_stack([np.maximum(p[:, 0], q[:, 0]), np.minimum(p[:, 1], q[:, 1])])


def _coefficients(theta, width, out):
    out[0] = -math.log(theta[1] - theta[0])
    out[1] = theta[0]
    out[2] = theta[1]


def _form(lead, a, b, c, table, u):
    return lead if a <= u and u <= b else IMPOSSIBLE


def _add_gradient(theta, width, u, x, flow, out):
    inside = 1.0 if theta[0] <= u and u <= theta[1] else 0.0
    out[0] += flow * inside / (theta[1] - theta[0])
    out[1] -= flow * inside / (theta[1] - theta[0])


def _draw_one(rng, theta):
    return theta[0] + (theta[1] - theta[0]) * rng.random()


def _are_valid(theta):
    return -math.inf < theta[0] < theta[1] < math.inf


def _box_log(a, b, c, e, x):
    return e if a <= x <= b else IMPOSSIBLE


def _box_mode(p):
    return 0.5 * (p[0] + p[1])


def _box_ranges(p, low, high, shift, out):
    if low <= p[1] and high >= p[0] and not (low >= p[0] and high <= p[1]):
        out[0] = out[2] = -math.inf  # it jumps
        out[1] = out[3] = math.inf


def _log_prior(own: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """An observation of density exp(-column's length / length) / length, see `best_ends`."""
    length = own[:, 1] - own[:, 0]
    return -np.log(length) - (variance - mean) / length


def _near(cell: np.ndarray, usable: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Half as long as the column, with the cell inside."""
    return np.column_stack([np.where(usable, 0.5 * (end + cell), end) for end in (mean, variance)])


def _in_jax(jax: Any, theta: Any, u: Any, zero: float) -> Any:
    low, high = jax.columns(theta)
    return jax.where((low <= u) & (u <= high), -jax.log(high - low), zero)


UNIFORM = UnivariateFamily(
    name="uniform",
    n_parameters=2,
    is_density=True,
    log_density=_log_density,
    check=checked_rows("low, high", "low and high must be finite, low below high", lambda p: p[:, 0] < p[:, 1]),
    mean=lambda p: 0.5 * (p[..., 0] + p[..., 1]),
    variance=lambda p: np.square(p[..., 1] - p[..., 0]) / 12.0,
    mode=lambda p: 0.5 * (p[..., 0] + p[..., 1]),
    draw=lambda p, rng: p[..., 0] + (p[..., 1] - p[..., 0]) * rng.random(p.shape[:-1]),
    log_interval=_log_interval,
    stays_as_given=True,
    ends=lambda p: (p[:, 0], p[:, 1]),
    within=lambda p, low, high: np.array([max(p[0], low), min(p[1], high)]),
    is_flat=True,
    kinks=lambda p: p,
    products={"uniform": ("uniform", _product)},
    inner_products={"uniform": _inner_product},
    kernels=Kernels(BOX, REAL, _form, _coefficients, _add_gradient, _draw_one, _are_valid),
    boxes=Boxes(
        row=lambda p: (p[0], p[1], 0.0, -np.log(p[1] - p[0])),
        log_value=_box_log,
        mode=_box_mode,
        ranges=_box_ranges,
        jumps=lambda p: (p[:, 0], p[:, 1]),
    ),
    fit=Fit(  # of the ends, which are kept unless they are to be learned
        can_take=finite,
        averages=lambda u, kept: (u.min(), u.max()),
        leaves=lambda mean, variance: np.column_stack([mean, variance]),
        said="least value {:g} and largest value {:g}",
        log_prior=_log_prior,
        near=_near,
    ),
    symbols=Symbols(
        in_jax=_in_jax,
        are_valid=lambda jax, p: p[:, 0] < p[:, 1],
        location=lambda pt, p: p.mean(axis=1),
    ),
)
