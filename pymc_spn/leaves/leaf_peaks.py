"""Where leaves of one column are largest within an interval or among some values."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.leaves.leaf_family import UnivariateFamily


class ColumnRange(NamedTuple):
    """low <= x <= high, ends whole numbers for masses; or some values alone.

    Parameters
    ----------
    low, high : float
    values : tuple of float or None
    """

    low: float
    high: float
    values: tuple[float, ...] | None


def largest_within(
    log_density: Callable[[np.ndarray], np.ndarray],
    mode: np.ndarray,
    lowest: Any,
    highest: Any,
    within: ColumnRange,
) -> tuple[np.ndarray, np.ndarray]:
    """Where leaves (n,) of one column are largest within a box, and their log densities there; ``-inf`` outside.

    A leaf is largest at its mode or, if that is outside of the box or the leaf falls towards its middle, at an end.

    Parameters
    ----------
    log_density : callable
        Of values (n, k).
    mode, lowest, highest : (n,) float64
    within : ColumnRange
    """
    low, high, values = within
    if values is not None and not values:
        return np.full(mode.size, low), np.full(mode.size, -np.inf)
    if values is not None:
        tried = np.broadcast_to(values, (mode.size, len(values)))
        is_empty = np.zeros(mode.size, np.bool_)
    else:
        first, last = np.broadcast_to(np.maximum(low, lowest), mode.shape), np.minimum(high, highest)
        last = np.broadcast_to(last, mode.shape)
        is_empty = first > last
        middle = np.clip(np.where(is_empty, 0.0, mode), first, np.maximum(first, last))
        ends = (np.where(np.isfinite(end), end, middle) for end in (first, last))
        tried = np.stack([middle, *ends], axis=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        logs = np.nan_to_num(log_density(tried), nan=-np.inf, posinf=-np.inf, neginf=-np.inf)
    best = logs.argmax(axis=1)[:, None]
    found = np.take_along_axis(logs, best, 1)[:, 0]
    return np.take_along_axis(tried, best, 1)[:, 0], np.where(is_empty, -np.inf, found)


def largest_of_leaves(
    family: UnivariateFamily, parameters: np.ndarray, within: ColumnRange
) -> tuple[np.ndarray, np.ndarray]:
    """The same of leaves (n, p) of a family that has modes."""
    if family.probabilities is not None and within.values is None:
        levels = np.arange(float(family.probabilities(parameters[:1]).shape[1]))
        within = within._replace(values=tuple(levels[(levels >= within.low) & (levels <= within.high)].tolist()))
    mode, ends = np.asarray(family.mode(parameters), np.float64), family.support(parameters)
    return largest_within(lambda x: family.log_density(parameters[:, None], x), mode, *ends, within)
