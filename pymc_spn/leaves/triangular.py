"""Triangular leaves with a lower end, a mode and an upper end; a mixture of them is a piecewise linear density."""

import math
from typing import Any

import numpy as np

from pymc_spn.leaves.family_pieces import Boxes, Kernels, Symbols
from pymc_spn.leaves.kernel_forms import IMPOSSIBLE, REAL, TENT
from pymc_spn.leaves.leaf_family import UnivariateFamily, checked_rows
from pymc_spn.numerics.elementary import fast_log


def _log_density(p: np.ndarray, x: Any) -> np.ndarray:
    """Log of 2 / (upper - lower) times the share of the way from the nearer end to the mode.

    Continuous in the value and in the parameters, except for a mode at an end: that end belongs to the leaf, and the
    density jumps there. The derivatives jump at both ends and at the mode; outside the log density is ``-inf``.
    """
    lower, mode, upper = p[..., 0], p[..., 1], p[..., 2]
    x = np.asarray(x, dtype=np.float64)
    rises, falls = (lower <= x) & (x < mode), (mode < x) & (x <= upper)
    away = np.where(rises, x - lower, np.where(falls, upper - x, 1.0))
    span = np.where(rises, mode - lower, np.where(falls, upper - mode, 1.0))
    with np.errstate(divide="ignore"):
        inside = np.log(away / span) + np.log(2.0 / (upper - lower))
    return np.where(np.isnan(x), np.nan, np.where(rises | falls | (x == mode), inside, -np.inf))


def _are_right(p: np.ndarray) -> np.ndarray:
    return (p[:, 0] <= p[:, 1]) & (p[:, 1] <= p[:, 2]) & (p[:, 0] < p[:, 2])


def _variance(p: np.ndarray) -> np.ndarray:
    rise, fall = p[..., 1] - p[..., 0], p[..., 2] - p[..., 1]
    return (np.square(rise) + rise * fall + np.square(fall)) / 18.0


def _draw(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """By the inverse of the distribution function, which is a root on either side of the mode."""
    lower, mode, upper = p[..., 0], p[..., 1], p[..., 2]
    width, below = upper - lower, rng.random(p.shape[:-1])
    rise, fall = (mode - lower) / width, (upper - mode) / width
    left, right = lower + width * np.sqrt(below * rise), upper - width * np.sqrt((1.0 - below) * fall)
    return np.clip(np.where(below < rise, left, right), lower, upper)  # rounding may lead past an end


def _log_interval(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """On each side of the mode the length of what is inside times the sum of the heights at its ends."""
    lower, mode, upper = p[..., 0], p[..., 1], p[..., 2]

    def side(start: np.ndarray, stop: np.ndarray, heights: np.ndarray, span: np.ndarray) -> np.ndarray:
        some = (stop > start) & (heights > 0.0)
        length, heights = np.where(some, stop - start, 1.0), np.where(some, heights, 1.0)
        return np.where(some, np.log(length / (upper - lower)) + np.log(heights / np.where(some, span, 1.0)), -np.inf)

    first, last = np.maximum(low, lower), np.minimum(high, mode)
    left = side(first, last, (first - lower) + (last - lower), mode - lower)
    first, last = np.maximum(low, mode), np.minimum(high, upper)
    return np.logaddexp(left, side(first, last, (upper - first) + (upper - last), upper - mode))


def _inner_product(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Piece by piece between all ends and modes: the integral of a product of two linear functions from their ends.

    Values are f, g at the start and F, G at the stop of a length l. Its integral is l (2 f g + f G + F g + 2 F G) / 6.
    Nothing is subtracted but parameters from parameters.
    """
    shape = (*np.broadcast_shapes(p.shape[:-1], q.shape[:-1]), 3)
    p, q = np.broadcast_to(p, shape), np.broadcast_to(q, shape)
    first, last = np.maximum(p[..., :1], q[..., :1]), np.minimum(p[..., 2:], q[..., 2:])
    cuts = np.sort(np.clip(np.concatenate([p, q], axis=-1), first, np.maximum(first, last)), axis=-1)
    start, stop = cuts[..., :-1], cuts[..., 1:]
    (f, big_f), (g, big_g) = (_log_heights(r, start, stop) for r in (p, q))
    terms = [np.log(2.0) + f + g, f + big_g, big_f + g, np.log(2.0) + big_f + big_g]
    with np.errstate(divide="ignore"):
        logs = np.log((stop - start) / 6.0) + np.logaddexp.reduce(terms, axis=0)
    return np.logaddexp.reduce(logs, axis=-1)


def _log_heights(p: np.ndarray, start: np.ndarray, stop: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log density at the start and the stop of pieces (..., n) within the support, each on one side of the mode."""
    lower, mode, upper = (p[..., i, None] for i in range(3))
    rises = (stop <= mode) & (lower < mode)
    span = np.where(rises, mode - lower, np.where(upper > mode, upper - mode, 1.0))
    top = np.log(2.0 / (upper - lower))
    with np.errstate(divide="ignore"):  # pieces of no length may lie outside
        at_start, at_stop = (
            np.log(np.maximum(np.where(rises, x - lower, upper - x), 0.0) / span) for x in (start, stop)
        )
    return top + at_start, top + at_stop


def _features(p: np.ndarray, in_logs: bool) -> tuple[np.ndarray, np.ndarray]:
    mode, upper = p[:, 1:2], p[:, 2:]
    if not in_logs:
        return mode, upper - p[:, :1]
    return np.log(np.where(mode > 0.0, mode, upper)), np.ones_like(upper)


def _coefficients(theta, width, out):
    out[0] = math.log(2.0 / (theta[2] - theta[0]))
    out[1] = theta[0]
    out[2] = theta[1]
    out[3] = theta[2]


def _form(lead, a, b, c, table, u):
    share = 1.0 if u == b else (u - a) / (b - a) if u < b else (c - u) / (c - b)
    if share <= 0.0:
        return IMPOSSIBLE
    return lead + (fast_log(share) if share > 1e-300 else math.log(share))


def _add_gradient(theta, width, u, x, flow, out):
    lower, mode, upper = theta[0], theta[1], theta[2]
    inside = flow if lower <= u and u <= upper else 0.0
    out[0] += inside / (upper - lower)
    out[2] -= inside / (upper - lower)
    if inside != 0.0 and lower < u < mode:  # at the mode the derivative in it jumps, from one sign to the other
        out[0] -= flow * (mode - u) / ((u - lower) * (mode - lower))
        out[1] -= flow / (mode - lower)
    elif inside != 0.0 and mode < u < upper:
        out[1] += flow / (upper - mode)
        out[2] += flow * (u - mode) / ((upper - u) * (upper - mode))


def _value_slope(theta, u, x):
    if theta[0] < u < theta[1]:
        return 1.0 / (u - theta[0])
    return -1.0 / (theta[2] - u) if theta[1] < u < theta[2] else 0.0


def _draw_one(rng, theta):
    width, below = theta[2] - theta[0], rng.random()
    rise, fall = (theta[1] - theta[0]) / width, (theta[2] - theta[1]) / width
    left, right = theta[0] + width * math.sqrt(below * rise), theta[2] - width * math.sqrt((1.0 - below) * fall)
    return min(max(left if below < rise else right, theta[0]), theta[2])


def _are_valid(theta):
    return -math.inf < theta[0] <= theta[1] <= theta[2] < math.inf and theta[0] < theta[2]


def _box_log(a, b, c, e, x):
    share = 1.0 if x == b else (x - a) / (b - a) if x < b else (c - x) / (c - b)
    return e + math.log(share) if share > 0.0 else IMPOSSIBLE


def _box_mode(p):
    return p[1]


def _box_ranges(p, low, high, shift, out):
    """Slopes of the pieces that the interval meets, infinite at jumps.

    At kinks inside the first derivative rises (the ends) or falls (the mode) at once; at an end of the interval only
    what is inside counts.
    """
    lower = p[0]
    mode = p[1]
    upper = p[2]
    top = math.exp(p[3] - shift)
    if low == high:
        slope = top / (mode - lower) if lower < low < mode else 0.0
        slope = -top / (upper - mode) if mode < low < upper else slope
        out[0] = out[1] = slope
        return
    if (lower == mode and low < lower <= high) or (upper == mode and low <= upper < high):
        out[0] = out[2] = -math.inf
        out[1] = out[3] = math.inf
        return
    is_outside = low < lower or upper < high
    rises = low < mode and lower < high and lower < mode
    falls = low < upper and mode < high and mode < upper
    out[0] = -top / (upper - mode) if falls else 0.0 if is_outside else top / (mode - lower)
    out[1] = top / (mode - lower) if rises else 0.0 if is_outside else -top / (upper - mode)
    out[2] = -math.inf if low < mode < high else 0.0
    out[3] = math.inf if low < lower < high or low < upper < high else 0.0


def _pull(p, x, share):
    """Touches from below up to the mode."""
    if not p[0] < x < p[2]:
        return 0.0, 0.0
    away = x - p[0] if x <= p[1] else p[2] - x
    return share * np.sign(p[1] - x) / away, share / (away * away)


def _in_jax(jax: Any, theta: Any, u: Any, zero: float) -> Any:
    lower, mode, upper = jax.columns(theta)
    rises, falls = (lower < u) & (u < mode), (mode < u) & (u < upper)
    away = jax.where(rises, u - lower, jax.where(falls, upper - u, 1.0))
    span = jax.where(rises, mode - lower, jax.where(falls, upper - mode, 1.0))
    logs = jax.log(away / span) + jax.log(2.0 / (upper - lower))
    return jax.where(rises | falls | (u == mode), logs, zero)


TRIANGULAR = UnivariateFamily(
    name="triangular",
    n_parameters=3,
    is_density=True,
    log_density=_log_density,
    check=checked_rows(
        "lower, mode, upper",
        "lower, mode and upper must be finite, lower below upper, mode neither below lower nor above upper",
        _are_right,
    ),
    mean=lambda p: p[..., 0] + ((p[..., 1] - p[..., 0]) + (p[..., 2] - p[..., 0])) / 3.0,
    variance=_variance,
    mode=lambda p: p[..., 1],
    draw=_draw,
    log_interval=_log_interval,
    stays_as_given=True,
    ends=lambda p: (p[:, 0], p[:, 2]),
    kinks=lambda p: p,
    inner_products={"triangular": _inner_product},
    features=_features,
    kernels=Kernels(TENT, REAL, _form, _coefficients, _add_gradient, _draw_one, _are_valid, value_slope=_value_slope),
    boxes=Boxes(
        row=lambda p: (p[0], p[1], p[2], np.log(2.0 / (p[2] - p[0]))),
        log_value=_box_log,
        mode=_box_mode,
        ranges=_box_ranges,
        pull=_pull,
        jumps=lambda p: (p[p[:, 0] == p[:, 1], 0], p[p[:, 1] == p[:, 2], 2]),
        bends=lambda p: p[:, 1],
    ),
    symbols=Symbols(
        in_jax=_in_jax,
        are_valid=lambda jax, p: (p[:, 0] <= p[:, 1]) & (p[:, 1] <= p[:, 2]) & (p[:, 0] < p[:, 2]),
        location=lambda pt, p: p.mean(axis=1),
    ),
)
