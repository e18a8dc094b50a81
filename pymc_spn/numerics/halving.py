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
