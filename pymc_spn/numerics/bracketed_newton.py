"""Points at which distribution functions reach levels: Newton's method within brackets, for many at a time."""

from collections.abc import Callable

import numpy as np

from pymc_spn.numerics.halving import ordered

ROUNDING = 8.0 * float(np.finfo(np.float64).eps)  # of a level: what is left of it is the rounding of the function
PATIENCE = 40  # steps by lengths, after which brackets are halved over the floating-point numbers, 64 times at most


def reach_levels(
    value: Callable[[np.ndarray, np.ndarray], np.ndarray],
    slope: Callable[[np.ndarray, np.ndarray], np.ndarray],
    level: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    start: np.ndarray,
    length: np.ndarray,
    rest: float = ROUNDING,
) -> np.ndarray:
    """Points (M, Q) at which function m reaches level q, to the rounding of its values or to a share of the tail.

    Parameters
    ----------
    value, slope : callable
        Of the numbers (k,) of functions and points (k, Q): values of functions that rise with their points, and slopes.
    level : (Q,) float64
        Between 0 and 1.
    low, high : (M, Q) float64
        Ends, which may be infinite; `value` is below the level at the one, at least the level at the other.
    start : (M, Q) float64
        Where the search begins, within the ends.
    length : (M,) float64
        Positive: how far the search goes at first where one end is infinite.
    rest : float
        Share of the smaller tail that may be left. A step is the last one where two in a row foretell a next one that
        changes less: errors of Newton's method are as the squares of those before.
    """
    x, low, high = (np.array(v, np.float64) for v in (start, low, high))
    last = np.full(x.shape, np.inf)  # lengths of the steps before
    active = np.arange(len(x))
    enough = rest * np.minimum(level, 1.0 - level)
    for n_steps in range(PATIENCE + 64):
        at, below, above = x[active], low[active], high[active]
        gap = level - value(active, at)
        below, above = np.where(gap > 0.0, at, below), np.where(gap > 0.0, above, at)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slopes = slope(active, at)
            step = gap / slopes
            follows = (at + step > below) & (at + step < above) & (np.abs(step) <= 0.5 * last[active])
            foreseen = np.abs(step) ** 3 / last[active] ** 2  # length of the step after
            is_last = follows & np.isfinite(last[active]) & (foreseen * slopes <= enough)
            between = _between(below, above, at, length[active, None] * 4.0**n_steps, n_steps < PATIENCE)
            moved = np.where(follows, at + step, between)
        is_there = np.abs(gap) <= np.maximum(enough, ROUNDING * level)
        is_done = is_there | is_last | (moved == at) | (np.nextafter(below, np.inf) >= above)
        last[active] = np.where(follows, np.abs(step), np.inf)
        low[active], high[active] = below, above
        # a bracket without a number inside ends at the smallest point that reaches the level
        x[active] = np.where(is_done, np.where(is_there, at, np.where(is_last, moved, above)), moved)
        # what is done stays where it is: its own bracket has closed
        low[active], high[active] = (np.where(is_done, x[active], end) for end in (low[active], high[active]))
        active = active[~is_done.all(axis=1)]
        if not active.size:
            break
    return x


def _between(low: np.ndarray, high: np.ndarray, at: np.ndarray, far: np.ndarray, by_lengths: bool) -> np.ndarray:
    """Points within brackets: the middle, beyond the present point where an end is infinite."""
    whole, part = ordered(np.array(low)), ordered(np.array(high))
    halved = ordered((whole >> 1) + (part >> 1) + (whole & part & 1)).view(np.float64)
    if not by_lengths:
        return halved
    beyond = np.where(np.isinf(high), np.minimum(at + far, high), np.maximum(at - far, low))
    middle = np.where(np.isinf(low) | np.isinf(high), beyond, 0.5 * low + 0.5 * high)
    return np.where((middle > low) & (middle < high), middle, halved)
