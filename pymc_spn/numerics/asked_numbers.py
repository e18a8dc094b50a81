"""Numbers that a question is asked at: points, levels and shares, checked."""

from collections.abc import Callable
from numbers import Real
from typing import Any, TypeGuard

import numpy as np

from pymc_spn.numerics.memory_limits import refuse_count
from pymc_spn.numerics.quoted_values import quoted


def is_int(value: Any) -> bool:
    """An integer that is not a bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_real(value: Any) -> TypeGuard[float]:
    """A real number that is not a bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_order(question: str, numbers: Any, column: Any) -> None:
    """Refuse a column's name in the place of the numbers."""
    if isinstance(numbers, str) and not isinstance(column, str):
        call = f"{question}({quoted(column)}, {quoted(numbers)})"
        raise TypeError(f"{question}: numbers come first, then the column, as in {call}; got {quoted(numbers)} first")


def checked_points(x: Any) -> np.ndarray:
    """Points of a distribution function, () or (n,)."""
    return _numbers("x must be a number or a sequence of numbers without NaN", x, lambda points: ~np.isnan(points))


def checked_levels(q: Any) -> np.ndarray:
    """Levels of quantiles, () or (n,)."""
    rule = "q must be a number or a sequence of numbers within 0 and 1"
    held = np.asarray(q, dtype=object).ravel()
    if any(isinstance(level, bool | np.bool_) for level in held):  # NumPy takes them for 0 and 1
        raise TypeError(f"{rule}, got {quoted(q)}")
    return _numbers(rule, q, lambda levels: (levels >= 0.0) & (levels <= 1.0))


def checked_count(argument: str, n: Any, least: int = 0, bytes_each: float = 0.0) -> int:
    """A number of rows or draws as an int; refused if it needs too much memory.

    Raises
    ------
    ValueError
        If it is not an integer of at least `least`, or so many of `bytes_each` need more memory than there is.
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < least:
        raise ValueError(f"{argument} must be an integer of at least {least}, got {quoted(n)}")
    refuse_count(argument, int(n), bytes_each)
    return int(n)


def check_prob(prob: Any, argument: str = "prob") -> None:
    """Check that a probability of an interval or a tail lies strictly between 0 and 1."""
    if isinstance(prob, bool) or not isinstance(prob, int | float | np.number):
        raise TypeError(f"{argument} must be a number within 0 and 1, got {quoted(prob)}")
    if not 0.0 < prob < 1.0:
        raise ValueError(f"{argument} must be within 0 and 1, got {quoted(prob)}")


def _numbers(rule: str, given: Any, fit: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Numbers () or (n,) that all fit; text is none, whatever NumPy makes of it."""
    try:
        array = np.asarray(given)
        numbers = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{rule}, got {quoted(given)}") from error
    if array.dtype.kind not in "biufO" or any(isinstance(v, str | bytes) for v in np.asarray(given, object).ravel()):
        raise TypeError(f"{rule}, got {quoted(given)}")
    if numbers.ndim > 1 or not np.all(fit(numbers)):
        raise ValueError(f"{rule}, got {quoted(given)}")
    return numbers
