"""Moments of the leaves of a column about a common centre, of any order and given an event."""

from math import comb
from typing import Any

import numpy as np

from pymc_spn.leaves.intervals import Interval
from pymc_spn.leaves.leaf_family import UnivariateFamily
from pymc_spn.leaves.leaf_predictives import Leaves, by_family, log_masses, relative_masses

LOG_NEGLIGIBLE = -42.0  # log share of a leaf's counts that sums leave out


def raw_moments(leaves: Leaves, centre: float, order: int, event: Any = None) -> np.ndarray:
    """E[(X - centre)^k] (n, order + 1) of each leaf for k = 0 .. order, infinite or NaN where it does not exist.

    Given an event by quadrature or sums. Leaves that exclude the event get 0.
    """
    out = np.empty((leaves.family.size, order + 1))
    for family, which, p in by_family(leaves):
        if event is None:
            out[which] = family.raw_moments(p, centre, order)
        else:
            out[which] = _moments_within(family, p, centre, order, event)
    return out


def _moments_within(family: UnivariateFamily, p: np.ndarray, centre: float, order: int, event: Any) -> np.ndarray:
    """By sums over a set or over counts, else as the family has it."""
    if isinstance(event, Interval) and family.about_within is not None:
        excluded = np.isneginf(family.log_interval(p, *event))
        inside = family.about_within(p, *event, np.full(excluded.size, centre), order)
        return np.where(excluded[:, None], 0.0, inside)
    if isinstance(event, Interval):
        first = max(np.ceil(event.low), 0.0)
        last = np.floor(event.high)
        if np.isinf(last):
            last = first + 16.0
            log_all = family.log_interval(p, first, np.inf)
            while np.any(family.log_interval(p, last, np.inf) - log_all > LOG_NEGLIGIBLE):
                last = first + 2.0 * (last - first)
        x = np.arange(first, max(first, last) + 1.0)
    else:
        x = np.array(sorted(event), dtype=np.float64)
    mass = relative_masses(log_masses(family, p, x))
    total = mass.sum(axis=1, keepdims=True)
    mass = mass / np.where(total > 0, total, 1.0)
    return np.stack([(mass * (x - centre) ** k).sum(axis=1) for k in range(order + 1)], axis=1)


def about_mean(raw: np.ndarray, order: int) -> float:
    """Central moment from moments (order + 1,) about any point."""
    with np.errstate(invalid="ignore"):
        return float(sum(comb(order, j) * raw[j] * (-raw[1]) ** (order - j) for j in range(order + 1)))
