"""The smallest floating-point number at which a rising condition holds, by halving over the numbers in their order."""

from collections.abc import Callable

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
