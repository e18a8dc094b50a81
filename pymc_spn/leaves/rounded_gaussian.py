"""Gaussian leaves of columns of whole numbers, each of which stands for its unit cell."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pymc_spn.leaves import gaussian
from pymc_spn.leaves.gaussian import student_cdf, student_log_interval
from pymc_spn.leaves.leaf_family import UnivariateFamily
from pymc_spn.leaves.rounded_moments import rounded_about, rounded_moments


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundedStudent(UnivariateFamily):
    """Student t's rounded to whole numbers; of counts all that is below 1/2 counts as 0.

    Canale and Dunson (2011), section 2.
    """

    def moments(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance, with the centre for a mean that does not exist."""
        mean, variance = rounded_moments(parameters, -np.inf, np.inf, self.lowest == 0.0)
        return np.where(parameters[:, 2] > 1.0, mean, np.maximum(parameters[:, 0], self.lowest)), variance


def _log_mass(is_count: bool, p: np.ndarray, x: Any) -> np.ndarray:
    """Log mass of the cell of a whole number x, ``log P(x - 1/2 <= X <= x + 1/2)``."""
    x = np.asarray(x, dtype=np.float64)
    low = np.where(x == 0.0, -np.inf, x - 0.5) if is_count else x - 0.5
    with np.errstate(invalid="ignore"):
        inside = (np.floor(x) == x) & ((x >= 0.0) | (not is_count))
        return np.where(inside, student_log_interval(p, low, x + 0.5), -np.inf)


def _cdf(is_count: bool, p: np.ndarray, x: Any) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    return np.where((x < 0.0) & is_count, 0.0, student_cdf(p, np.floor(x) + 0.5))


def _log_interval(is_count: bool, p: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """log P(low <= X <= high), of the cells whose whole numbers are in the interval."""
    ends = count_cells_within(low, high) if is_count else cells_within(low, high)
    with np.errstate(divide="ignore"):
        return np.where((np.asarray(high) < 0.0) & is_count, -np.inf, student_log_interval(p, *ends))


def count_cells_within(low: Any, high: Any) -> tuple[Any, Any]:
    """As `cells_within` of counts: the cell of 0 has no lower end."""
    first, last = cells_within(low, high)
    return np.where(first < 0.0, -np.inf, first), np.maximum(last, -0.5)


def cells_within(low: Any, high: Any) -> tuple[Any, Any]:
    """Ends of the cells of the whole numbers between low and high; the second is not above the first for none."""
    return np.ceil(np.asarray(low, dtype=np.float64)) - 0.5, np.floor(np.asarray(high, dtype=np.float64)) + 0.5


def _family(name: str, is_count: bool) -> RoundedStudent:
    def raw_moments(p: np.ndarray, centre: float, order: int) -> np.ndarray:
        return rounded_about(p, -np.inf, np.inf, np.full(len(p), centre), order, is_count)

    return RoundedStudent(
        name=name,
        is_density=False,
        log_density=partial(_log_mass, is_count),
        check=gaussian.STUDENT_RULE,
        mean=lambda p: rounded_moments(p, -np.inf, np.inf, is_count)[0],
        variance=lambda p: rounded_moments(p, -np.inf, np.inf, is_count)[1],
        mode=lambda p: np.round(p[..., 0]),
        draw=lambda p, rng: np.maximum(np.round(gaussian.STUDENT_T.draw(p, rng)), 0.0 if is_count else -np.inf),
        log_interval=partial(_log_interval, is_count),
        lowest=0.0 if is_count else -np.inf,
        cdf=partial(_cdf, is_count),
        bulk=gaussian.STUDENT_T.bulk,
        raw_moments=raw_moments,
        moments_within=lambda p, low, high: rounded_moments(p, low, high, is_count),
        about_within=lambda p, low, high, at, order: rounded_about(p, low, high, at, order, is_count),
    )


ROUNDED_PREDICTIVE = gaussian.PREDICTIVE._replace(leaves=_family("rounded_gaussian", False), conjugate=None)
COUNT_PREDICTIVE = gaussian.PREDICTIVE._replace(leaves=_family("rounded_count", True), conjugate=None)
