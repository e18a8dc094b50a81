"""Gaussian leaves of columns of whole numbers, each of which stands for its unit cell."""

from typing import Any

import numpy as np

from pymc_spn.leaves import student_t
from pymc_spn.leaves.family_pieces import Predictive
from pymc_spn.leaves.gaussian import Gaussian
from pymc_spn.leaves.leaf_statistics import NormalGamma
from pymc_spn.leaves.rounded_moments import rounded_about, rounded_moments


class RoundedGaussian(Gaussian):
    """The predictive of a Gaussian leaf, a Student t, rounded to whole numbers; moments in `rounded_moments`."""

    @staticmethod
    def predictive_log_density(params: NormalGamma, x: Any) -> np.ndarray:
        """Log mass of the cell of a whole number x, ``log P(x - 1/2 <= X <= x + 1/2)``."""
        x = np.asarray(x, dtype=np.float64)
        with np.errstate(invalid="ignore"):
            return np.where(np.floor(x) == x, Gaussian.predictive_log_interval(params, x - 0.5, x + 0.5), -np.inf)

    @staticmethod
    def predictive_cdf(params: NormalGamma, x: Any) -> np.ndarray:
        """P(X <= x)."""
        return Gaussian.predictive_cdf(params, np.floor(np.asarray(x, dtype=np.float64)) + 0.5)

    @staticmethod
    def predictive_log_interval(params: NormalGamma, low: Any, high: Any) -> np.ndarray:
        """log P(low <= X <= high), of the cells whose whole numbers are in the interval."""
        return Gaussian.predictive_log_interval(params, *cells_within(low, high))


class RoundedCount(RoundedGaussian):
    """The same on counts: all that is below 1/2 counts as 0 (Canale and Dunson 2011, section 2)."""

    @staticmethod
    def predictive_log_density(params: NormalGamma, x: Any) -> np.ndarray:
        """Log mass of a count x."""
        x = np.asarray(x, dtype=np.float64)
        with np.errstate(invalid="ignore"):
            inside = Gaussian.predictive_log_interval(params, np.where(x == 0.0, -np.inf, x - 0.5), x + 0.5)
            return np.where((np.floor(x) == x) & (x >= 0.0), inside, -np.inf)

    @staticmethod
    def predictive_cdf(params: NormalGamma, x: Any) -> np.ndarray:
        """P(X <= x)."""
        x = np.asarray(x, dtype=np.float64)
        return np.where(x < 0.0, 0.0, RoundedGaussian.predictive_cdf(params, x))

    @staticmethod
    def predictive_log_interval(params: NormalGamma, low: Any, high: Any) -> np.ndarray:
        """log P(low <= X <= high)."""
        high = np.asarray(high, dtype=np.float64)
        first, last = count_cells_within(low, high)
        with np.errstate(divide="ignore"):
            return np.where(high < 0.0, -np.inf, Gaussian.predictive_log_interval(params, first, last))


def count_cells_within(low: Any, high: Any) -> tuple[Any, Any]:
    """As `cells_within` of counts: the cell of 0 has no lower end."""
    first, last = cells_within(low, high)
    return np.where(first < 0.0, -np.inf, first), np.maximum(last, -0.5)


def cells_within(low: Any, high: Any) -> tuple[Any, Any]:
    """Ends of the cells of the whole numbers between low and high; the second is not above the first for none."""
    return np.ceil(np.asarray(low, dtype=np.float64)) - 0.5, np.floor(np.asarray(high, dtype=np.float64)) + 0.5


def _draw_within_cells(params: NormalGamma, low: float, high: float, u: np.ndarray, least: float) -> np.ndarray:
    """What lies on the outer edge of an outermost cell may round to the number beyond."""
    return np.clip(np.round(student_t.draw_within(params, low, high, u)), max(low + 0.5, least), high - 0.5)


def _draw_number(params: NormalGamma, low: float, high: float, u: np.ndarray) -> np.ndarray:
    first, last = cells_within(low, high)
    return _draw_within_cells(params, float(first), float(last), u, -np.inf)


def _draw_count(params: NormalGamma, low: float, high: float, u: np.ndarray) -> np.ndarray:
    first, last = count_cells_within(low, high)
    return _draw_within_cells(params, float(first), float(last), u, 0.0)


def _predictive(prior: Any, leaves: str, is_count: bool, draw_within: Any) -> Predictive:
    def whole_moments(params: NormalGamma) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = rounded_moments(params, -np.inf, np.inf, is_count)
        centre = np.maximum(params.mu, 0.0) if is_count else params.mu
        return np.where(params.a > 0.5, mean, centre), variance

    def moments(params: NormalGamma, centre: float, order: int) -> np.ndarray:
        return rounded_about(params, -np.inf, np.inf, np.full(params.mu.size, centre), order, is_count)

    return student_t.PREDICTIVE._replace(
        prior=prior,
        leaves=leaves,
        conjugate=None,
        moments=moments,
        whole_moments=whole_moments,
        moments_within=lambda params, low, high: rounded_moments(params, low, high, is_count),
        about_within=lambda params, low, high, at, order: rounded_about(params, low, high, at, order, is_count),
        draw_within=draw_within,
        has_masses=True,
        lowest=0.0 if is_count else -np.inf,
    )


ROUNDED_PREDICTIVE = _predictive(RoundedGaussian, "rounded_gaussian", False, _draw_number)
COUNT_PREDICTIVE = _predictive(RoundedCount, "rounded_count", True, _draw_count)
