"""The smallest number at which a rising condition holds: of all floating-point numbers, or of the whole ones."""

from collections.abc import Callable
from typing import Any

import numpy as np


def ordered(x: np.ndarray) -> np.ndarray:
    """Integers in the order of the floating-point numbers, neighbours of neighbours; it is its own inverse."""
    bits = x.view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


def smallest_reaching(is_short: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Smallest number (n,) above ``low`` at which ``is_short`` no longer holds, ``high`` where it holds below.

    At most 64 steps, whatever the size of the numbers, and the last digit is that of ``is_short``.

    Parameters
    ----------
    is_short : callable
        Of numbers (n,): whether each is too small. True stands before False.
    low, high : (n,) float64
        Infinite ends are numbers like others.
    """
    below, above = ordered(np.array(low, np.float64)), ordered(np.array(high, np.float64))
    while np.any(below < above - 1):
        middle = (below >> 1) + (above >> 1) + (below & above & 1)
        with np.errstate(over="ignore"):  # the ends of the floating-point numbers are infinitely far from a leaf
            short = is_short(ordered(middle).view(np.float64))
        below, above = np.where(short, middle, below), np.where(short, above, middle)
    return ordered(above).view(np.float64) + 0.0  # no -0


def smallest_at_levels(
    rise: Callable[[np.ndarray], np.ndarray], level: np.ndarray, low: np.ndarray, high: np.ndarray, whole: bool = False
) -> np.ndarray:
    """Smallest number (n,) above ``low`` at which ``rise`` reaches each level, ``high`` where it does not before.

    As `smallest_reaching`, to the last digit of ``rise``, but by Chandrupatla's method on the integers that count the
    numbers. The next point is that of the parabola through the last three, where these allow for one. After two points
    that do not halve a bracket comes one that does. Of smooth functions it takes some 20 values for a level where
    halving takes 64, of many levels some 14 for each, since points that are equal are asked once.

    Parameters
    ----------
    rise : callable
        Of numbers (k,): values that do not fall.
    level : (n,) float64
    low, high : (n,) float64
        Infinite ends are numbers like others.
    whole : bool
        Whether only whole numbers count; the ends are such, and finite.

    References
    ----------
    Chandrupatla (1997), doi:10.1016/S0965-9978(96)00051-8.
    """
    code: Callable[[Any], Any] = (lambda x: x.astype(np.int64)) if whole else ordered
    number: Callable[[Any], Any] = (lambda k: k.astype(np.float64)) if whole else lambda k: ordered(k).view(np.float64)
    out, which = np.array(high, np.float64), np.arange(level.size)
    last, other = code(np.array(low, np.float64)), code(np.array(high, np.float64))
    points = np.stack([last, other, last])  # the last, the other end of its bracket, the one before
    excess = np.full(points.shape, np.nan)  # of the values over the levels
    n_slow = np.zeros(level.size, np.int64)  # points since the bracket was last halved
    while which.size:
        below, above = points[:2].min(axis=0), points[:2].max(axis=0)
        is_open = below < above - 1
        out[which[~is_open]] = number(above[~is_open])
        which, points, excess, n_slow = which[is_open], points[:, is_open], excess[:, is_open], n_slow[is_open]
        below, above = below[is_open], above[is_open]
        middle = (below >> 1) + (above >> 1) + (below & above & 1)
        foretold, is_foretold = _next_point(points, excess)
        new = np.where(is_foretold & (n_slow < 2), np.clip(foretold, below + 1, above - 1), middle)
        asked, place = np.unique(new, return_inverse=True)
        with np.errstate(over="ignore"):  # the ends of the floating-point numbers are infinitely far from a leaf
            found = rise(number(asked))[place] - level[which]
        on_last = (found < 0.0) == (points[0] < points[1])  # else it is on the side of the other end
        points = np.stack([new, np.where(on_last, points[1], points[0]), np.where(on_last, points[0], points[1])])
        excess = np.stack([found, np.where(on_last, excess[1], excess[0]), np.where(on_last, excess[0], excess[1])])
        length = np.abs(points[1].astype(np.float64) - new)
        n_slow = np.where(length <= 0.5 * (above.astype(np.float64) - below), 0, n_slow + 1)
    return out + 0.0  # no -0


def _next_point(points: np.ndarray, excess: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the parabola of the inverse through three points (3, n) has its zero, and whether it is to be trusted."""
    is_near = np.ptp(points.astype(np.float64), axis=0) < 2.0**60  # differences are integers, too
    to_other, to_old = np.where(is_near, points[1:] - points[0], 1).astype(np.float64)
    a, b, c = excess
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        step = to_other * (a / (b - a)) * (c / (b - c)) + to_old * (a / (c - a)) * (b / (c - b))
        along, up = to_other / (to_other - to_old), (a - b) / (c - b)
        is_smooth = (up**2 < along) & ((1.0 - up) ** 2 < 1.0 - along)
    trusted = is_near & is_smooth & (np.abs(step) < 2.0**60)
    return points[0] + np.where(trusted, np.rint(step), 0.0).astype(np.int64), trusted


def smallest_whole_reaching(
    is_short: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray, least: Any, largest: float
) -> np.ndarray:
    """Smallest whole number (...) at which ``is_short`` no longer holds, by doubling and halving from a guess.

    Parameters
    ----------
    is_short : callable
        Of numbers (...): whether each is too small. True stands before False.
    low, high : (...) float64
        Whole and finite, where the search begins: low below high.
    least : float or (...) float64
        Known to be too small, or minus infinity.
    largest : float
        What the search does not go beyond, in either direction; where that is still too small, it is the answer.
    """
    step = 1.0
    while np.any(long := ~is_short(low) & (low > least) & (low > -largest)):
        low, high = np.where(long, np.maximum(low - step, least), low), np.where(long, low, high)
        step *= 2.0
    step = 1.0
    while np.any(short := is_short(high) & (high < largest)):
        low, high = np.where(short, high, low), np.where(short, np.minimum(high + step, largest), high)
        step *= 2.0
    while np.any(high - low > 1.0):
        middle = np.floor(0.5 * (low + high))
        below = is_short(middle)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high


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
