"""Exponential leaves on values of at least 0, with a rate, and their conjugate prior.

Formulas: Yokoi and Sato (2024), Table 8.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from pymc_spn.leaves.family_pieces import (
    Kernels,
)
from pymc_spn.leaves.kernel_forms import LINEAR, NOT_NEGATIVE, all_positive, linear
from pymc_spn.leaves.leaf_family import UnivariateFamily
from pymc_spn.leaves.leaf_statistics import (
    GammaRate,
    LeafConstants,
    Moments,
    moments,
    observed_values,
    require_positive,
    require_where,
)
from pymc_spn.leaves.mean_entries import MeanEntry
from pymc_spn.leaves.tail_probabilities import log_gamma_ratio
from pymc_spn.numerics.elementary import fast_log


@dataclass(frozen=True)
class Exponential(MeanEntry):
    """Exponential leaf on x >= 0 with a gamma prior on the rate.

    Parameters
    ----------
    mean : float, optional
        Mean of the column that the prior is built round; None takes it from the observed column.
    relative_scale : float
        Factor on the column's ``leaf_scale`` for this palette entry.

    Examples
    --------
    >>> positive = {"age": "positive", "income": "positive"}
    >>> fit = ps.fit_variational(df, kinds=positive, leaves={"income": [ps.leaves.Exponential()]})
    """

    family: ClassVar[str] = "exponential"
    kinds: ClassVar[tuple[str, ...]] = ("positive",)

    def constants(self, values: npt.ArrayLike, resolution: float = 0.0, n_levels: int = 0) -> LeafConstants:
        """Mean of the observed values where the entry does not give it."""
        mean = self.mean
        if mean is None:
            x = observed_values("Exponential", values)
            Exponential.statistics(x)
            mean = require_positive("Exponential", "mean of the column", float(x.mean()))
        return LeafConstants(mean=mean, resolution=resolution)

    def prior(
        self, constants: LeafConstants, leaf_scale: float, leaf_shape: float = 1.5, precision_ratio: float = 0.05
    ) -> GammaRate:
        """Gamma (alpha = 1 / s, beta = alpha mean), s the leaf's scale; shape and ratio are not used."""
        s = require_positive("Exponential", "leaf_scale", leaf_scale) * self.relative_scale
        return GammaRate(1.0 / np.asarray(s), constants.mean / np.asarray(s))

    @staticmethod
    def statistics(values: npt.ArrayLike, n_levels: int = 0) -> Moments:
        """Moments of the values along the last axis, NaN left out."""
        require_where("Exponential", "at least 0", values, np.asarray(values, dtype=np.float64) >= 0)
        return moments(values)

    @staticmethod
    def posterior(prior: GammaRate, statistics: Moments) -> GammaRate:
        """Parameters after the data."""
        return GammaRate(prior.alpha + statistics.n, prior.beta + statistics.n * statistics.mean)

    @staticmethod
    def log_marginal(prior: GammaRate, statistics: Moments) -> np.ndarray:
        """Log marginal likelihood of the data in nats."""
        n, total = statistics.n, statistics.n * statistics.mean
        return (
            log_gamma_ratio(prior.alpha, n)
            - prior.alpha * np.log1p(total / np.asarray(prior.beta))
            - n * np.log(prior.beta + total)
        )

    @staticmethod
    def predictive_log_density(params: GammaRate, x: npt.ArrayLike) -> np.ndarray:
        """Log density of the Lomax predictive, ``-inf`` below 0."""
        x, beta = np.asarray(x, dtype=np.float64), np.asarray(params.beta)
        inside = np.log(params.alpha / beta) - (np.asarray(params.alpha) + 1.0) * np.log1p(
            np.where(x < 0, 0.0, x) / beta
        )
        return np.where(x < 0, -np.inf, inside)

    @staticmethod
    def predictive_cdf(params: GammaRate, x: npt.ArrayLike) -> np.ndarray:
        """P(X <= x)."""
        x = np.asarray(x, dtype=np.float64)
        return -np.expm1(-np.asarray(params.alpha) * np.log1p(np.where(x < 0, 0.0, x) / np.asarray(params.beta)))

    @staticmethod
    def predictive_log_interval(params: GammaRate, low: npt.ArrayLike, high: npt.ArrayLike) -> np.ndarray:
        """log P(low <= X <= high): a Lomax beyond `low` is a Lomax again, so nothing cancels."""
        alpha, beta = np.asarray(params.alpha), np.asarray(params.beta)
        start = np.maximum(np.asarray(low, dtype=np.float64), 0.0)
        stop = np.asarray(high, dtype=np.float64)
        empty = ~(stop > start)
        begin, width = np.where(empty, 0.0, start), np.where(empty, 1.0, stop - np.where(empty, 0.0, start))
        with np.errstate(divide="ignore"):  # an interval too short for a number
            share = np.log(-np.expm1(-alpha * np.log1p(width / (beta + begin))))
        return np.where(empty, -np.inf, share - alpha * np.log1p(begin / beta))

    @staticmethod
    def predictive_interval(params: GammaRate, low: npt.ArrayLike, high: npt.ArrayLike) -> np.ndarray:
        """P(low <= X <= high)."""
        return np.exp(Exponential.predictive_log_interval(params, low, high))

    @staticmethod
    def predictive_mean(params: GammaRate) -> np.ndarray:
        """Mean, infinite for alpha <= 1."""
        alpha = np.asarray(params.alpha, dtype=np.float64)
        return np.where(alpha > 1.0, params.beta / np.where(alpha > 1.0, alpha - 1.0, 1.0), np.inf)

    @staticmethod
    def predictive_variance(params: GammaRate) -> np.ndarray:
        """Variance, infinite for 1 < alpha <= 2, NaN below, where the mean is infinite."""
        alpha = np.asarray(params.alpha, dtype=np.float64)
        a = np.where(alpha > 2.0, alpha, 3.0)
        finite = np.square(params.beta / (a - 1.0)) * a / (a - 2.0)
        return np.where(alpha > 2.0, finite, np.where(alpha > 1.0, np.inf, np.nan))

    @staticmethod
    def predictive_mode(params: GammaRate) -> np.ndarray:
        """Value of largest density, 0."""
        return np.zeros(np.broadcast_shapes(*(np.shape(p) for p in params)))

    @staticmethod
    def predictive_draw(
        params: GammaRate, rng: np.random.Generator, size: int | tuple[int, ...] | None = None
    ) -> np.ndarray:
        """Random values of shape `size`, or of the parameters."""
        size = np.broadcast_shapes(*(np.shape(p) for p in params)) if size is None else size
        return params.beta * rng.pareto(params.alpha, size=size)

    @staticmethod
    def draw_parameters(
        params: GammaRate, rng: np.random.Generator, size: int | tuple[int, ...] | None = None
    ) -> np.ndarray:
        """Leaf parameters (..., 1): the rate."""
        size = np.broadcast_shapes(*(np.shape(p) for p in params)) if size is None else size
        return rng.gamma(params.alpha, 1.0 / np.asarray(params.beta), size=size)[..., None]

    @staticmethod
    def leaf_log_density(parameters: np.ndarray, x: npt.ArrayLike) -> np.ndarray:
        """Log density of a leaf with parameters (..., 1), the rate."""
        rate, x = parameters[..., 0], np.asarray(x, dtype=np.float64)
        with np.errstate(divide="ignore"):  # a rate may be drawn below all floating-point numbers
            return np.where(x < 0, -np.inf, np.log(rate) - rate * np.where(x < 0, 0.0, x))

    @staticmethod
    def parameter_problem(parameters: np.ndarray) -> tuple[int, str] | None:
        """First bad row of (n, p) leaf parameters and the rule it breaks."""
        if parameters.shape[1] != 1:
            return 0, "rows must be (rate,)"
        wrong = ~(np.isfinite(parameters[:, 0]) & (parameters[:, 0] > 0))
        return (int(np.argmax(wrong)), "rate must be positive and finite") if np.any(wrong) else None


def _log_interval(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    start = np.maximum(low, 0.0)
    begin = np.where(np.isinf(start), 0.0, start)
    width = np.where(high > start, high - begin, 0.0)
    with np.errstate(divide="ignore"):
        return -p[..., 0] * begin + np.log(-np.expm1(-p[..., 0] * width))


def _coefficients(theta, width, out):
    out[0] = fast_log(theta[0])
    out[1] = -theta[0]


def _add_gradient(theta, width, u, x, flow, out):
    out[0] += flow * (1.0 / theta[0] - u)


def _value_slope(theta, u, x):
    return -theta[0]


def _draw_one(rng, theta):
    return rng.standard_exponential() / theta[0]


EXPONENTIAL = UnivariateFamily(
    name="exponential",
    n_parameters=1,
    is_density=True,
    log_density=Exponential.leaf_log_density,
    check=Exponential.parameter_problem,
    mean=lambda p: 1.0 / p[..., 0],
    variance=lambda p: 1.0 / np.square(p[..., 0]),
    mode=lambda p: np.zeros(p.shape[:-1]),
    draw=lambda p, rng: rng.standard_exponential(p.shape[:-1]) / p[..., 0],
    log_interval=_log_interval,
    lowest=0.0,
    kernels=Kernels(
        LINEAR, NOT_NEGATIVE, linear, _coefficients, _add_gradient, _draw_one, all_positive, value_slope=_value_slope
    ),
    location=lambda pt, p: 1.0 / p[:, 0],
)
