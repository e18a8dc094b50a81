"""What the kind of a column of numbers depends on, so that facts of parts of the rows add up to those of all."""

from typing import Any, NamedTuple, Self

import numpy as np

EXACT_LIMIT = 2.0**53  # whole numbers below this are exact in float64
MOST_ORDINAL = 1_000  # levels of an ordinal column that is asked for


class NumberFacts(NamedTuple):
    """Facts of some numbers, missing ones left out. Merged facts are exact, mean and variance up to rounding."""

    n: int
    is_whole: bool  # all are whole, and small enough to be exact
    low: float
    high: float
    mean: float  # of whole numbers, else NaN
    variance: float  # with divisor n
    values: Any  # distinct whole numbers (k,), ascending; None if they are not whole or lie far apart
    rows: Any  # number of rows of each (k,)

    @classmethod
    def of(cls, numbers: np.ndarray, every_value: bool = False) -> Self:
        """Facts of numbers (N,), NaN where missing.

        Parameters
        ----------
        numbers : (N,) float64
        every_value : bool
            Whether distinct whole numbers are kept however far apart they lie.
        """
        present = numbers[~np.isnan(numbers)]
        if present.size == 0:
            return cls(0, True, np.inf, -np.inf, 0.0, 0.0, np.zeros(0), np.zeros(0, np.int64))
        has_fractions = bool((np.floor(present) != present).any())
        low, high = float(present.min()), float(present.max())
        is_whole = not has_fractions and max(-low, high) < EXACT_LIMIT
        mean = variance = np.nan
        values = rows = None
        if is_whole:
            mean, variance = float(present.mean()), float(present.var())
        if (every_value and not has_fractions) or (is_whole and high - low < MOST_ORDINAL):
            values, rows = np.unique(present, return_counts=True)
        return cls(present.size, is_whole, low, high, mean, variance, values, rows)

    def merged(self, other: Self, every_value: bool = False) -> Self:
        """Facts of the numbers of both."""
        if self.n == 0 or other.n == 0:
            return other if self.n == 0 else self
        n = self.n + other.n
        low, high = min(self.low, other.low), max(self.high, other.high)
        values = rows = None
        if self.values is not None and other.values is not None and (every_value or high - low < MOST_ORDINAL):
            every, at = np.unique(np.concatenate([self.values, other.values]), return_inverse=True)
            values, rows = every, np.bincount(at, np.concatenate([self.rows, other.rows])).astype(np.int64)
        step = other.mean - self.mean
        mean = self.mean + step * other.n / n
        variance = (self.variance * self.n + other.variance * other.n + step * step * self.n * other.n / n) / n
        is_whole = self.is_whole and other.is_whole
        return type(self)(n, is_whole, low, high, mean, variance, values, rows)
