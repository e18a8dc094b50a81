"""Moments of the leaves of a column about a common centre, of any order and given an event."""

from math import comb
from typing import Any

import numpy as np

from pymc_spn.leaves.family_codes import (
    BINOMIAL,
    CATEGORICAL,
    EXPONENTIAL,
    GAUSSIAN,
    GEOMETRIC,
    LOG_NORMAL,
    POISSON,
    ROUNDED_COUNT,
    ROUNDED_GAUSSIAN,
)
from pymc_spn.leaves.interval_moments import (
    about,
    beta_binomial_about,
    beta_geometric_about,
    from_factorial,
    log_student_about,
    lomax_about,
    student_about,
    student_whole,
)
from pymc_spn.leaves.rounded_moments import rounded_about
from pymc_spn.networks.records.leaf_predictives import FAMILY, Interval, Leaves, by_family, log_masses, relative_masses

LOG_NEGLIGIBLE = -42.0  # log share of a leaf's counts that sums leave out


def raw_moments(leaves: Leaves, centre: float, order: int, event: Any = None) -> np.ndarray:
    """E[(X - centre)^k] (n, order + 1) of each leaf for k = 0 .. order, infinite or NaN where it does not exist.

    Given an event by quadrature or sums. Leaves that exclude the event get 0.
    """
    out = np.empty((leaves.family.size, order + 1))
    for code, which, params in by_family(leaves):
        if event is None:
            out[which] = _MOMENTS[code](params, centre, order)
        else:
            out[which] = _moments_within(code, params, centre, order, event)
    return out


def _moments_within(code: int, params: Any, centre: float, order: int, event: Any) -> np.ndarray:
    """By sums over a set or over counts, else as the family has it."""
    if isinstance(event, Interval) and code in _ABOUT:
        excluded = np.isneginf(FAMILY[code].predictive_log_interval(params, *event))
        inside = _ABOUT[code](params, *event, np.full(excluded.size, centre), order)
        return np.where(excluded[:, None], 0.0, inside)
    if isinstance(event, Interval):
        first = max(np.ceil(event.low), 0.0)
        last = np.floor(event.high)
        if np.isinf(last):
            last = first + 16.0
            log_all = FAMILY[code].predictive_log_interval(params, first, np.inf)
            while np.any(FAMILY[code].predictive_log_interval(params, last, np.inf) - log_all > LOG_NEGLIGIBLE):
                last = first + 2.0 * (last - first)
        x = np.arange(first, max(first, last) + 1.0)
    else:
        x = np.array(sorted(event), dtype=np.float64)
    mass = relative_masses(log_masses(code, params, x))
    total = mass.sum(axis=1, keepdims=True)
    mass = mass / np.where(total > 0, total, 1.0)
    return np.stack([(mass * (x - centre) ** k).sum(axis=1) for k in range(order + 1)], axis=1)


def _rounded_whole(params: Any, centre: float, order: int, is_count: bool) -> np.ndarray:
    return rounded_about(params, -np.inf, np.inf, np.full(params.mu.size, centre), order, is_count)


def _lomax_moments(params: Any, centre: float, order: int) -> np.ndarray:
    """E X^k = k! beta^k / ((alpha - 1) .. (alpha - k))."""
    own = np.ones((params.alpha.size, order + 1))
    for k in range(1, order + 1):
        fall = np.where(params.alpha > k, params.alpha - k, np.nan)
        own[:, k] = np.where(params.alpha > k, own[:, k - 1] * k * params.beta / fall, np.inf)
    with np.errstate(invalid="ignore"):
        out = about(own, np.full(params.alpha.size, -centre))
    for k in range(1, order + 1):
        out[params.alpha <= k, k] = np.inf
    return out


def _count_moments(params: Any, centre: float, order: int) -> np.ndarray:
    """Factorial moments alpha (alpha + 1) .. / beta^k, then Stirling numbers."""
    factorial = np.ones((params.alpha.size, order + 1))
    for k in range(1, order + 1):
        factorial[:, k] = factorial[:, k - 1] * (params.alpha + k - 1) / params.beta
    return from_factorial(factorial, np.full(params.alpha.size, -centre))


def _level_moments(params: Any, centre: float, order: int) -> np.ndarray:
    p = FAMILY[CATEGORICAL].predictive_probabilities(params)
    x = np.arange(p.shape[1]) - centre
    return p @ np.stack([x**k for k in range(order + 1)], axis=1)


_ABOUT: dict[int, Any] = {
    GAUSSIAN: student_about,
    ROUNDED_GAUSSIAN: lambda p, low, high, at, order: rounded_about(p, low, high, at, order, False),
    ROUNDED_COUNT: lambda p, low, high, at, order: rounded_about(p, low, high, at, order, True),
    EXPONENTIAL: lomax_about,
    LOG_NORMAL: log_student_about,
    GEOMETRIC: beta_geometric_about,
    BINOMIAL: beta_binomial_about,
}
_MOMENTS: dict[int, Any] = {
    GAUSSIAN: student_whole,
    ROUNDED_GAUSSIAN: lambda p, centre, order: _rounded_whole(p, centre, order, False),
    ROUNDED_COUNT: lambda p, centre, order: _rounded_whole(p, centre, order, True),
    LOG_NORMAL: lambda p, centre, order: log_student_about(p, 0.0, np.inf, np.full(p.mu.size, centre), order),
    GEOMETRIC: lambda p, centre, order: beta_geometric_about(p, 0.0, np.inf, np.full(p.alpha.size, centre), order),
    BINOMIAL: lambda p, centre, order: beta_binomial_about(p, 0.0, np.inf, np.full(p.alpha.size, centre), order),
    EXPONENTIAL: _lomax_moments,
    POISSON: _count_moments,
    CATEGORICAL: _level_moments,
}


def about_mean(raw: np.ndarray, order: int) -> float:
    """Central moment from moments (order + 1,) about any point."""
    with np.errstate(invalid="ignore"):
        return float(sum(comb(order, j) * raw[j] * (-raw[1]) ** (order - j) for j in range(order + 1)))
