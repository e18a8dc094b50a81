"""Leaves for positive columns of wide range: a Gaussian leaf on the logs, with the Jacobian."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pymc_spn.leaves.leaf_statistics import (
    LeafConstants,
    Moments,
    NormalGamma,
    observed_values,
    require_finite,
    require_positive,
    require_where,
)
from pymc_spn.leaves.real_families import Gaussian, student_log_interval
from pymc_spn.leaves.tail_probabilities import log_width


def _logs(x: Any) -> np.ndarray:
    """log x, NaN where x is missing, minus infinity at 0 and below."""
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isnan(x), np.nan, np.where(x > 0, np.log(x), -np.inf))


@dataclass(frozen=True)
class LogNormal:
    """Log-normal leaf on x > 0 with a normal-gamma prior on mean and precision of log x.

    The predictive is a log-Student t: its tails are so heavy that it has no mean.

    Parameters
    ----------
    log_mean, log_variance : float, optional
        Centre and scale of the prior, of the logs; None takes them from the observed column.
    relative_scale : float
        Factor on the column's ``leaf_scale`` for this palette entry.
    """

    log_mean: float | None = None
    log_variance: float | None = None
    relative_scale: float = 1.0
    family: ClassVar[str] = "log_normal"

    def __post_init__(self) -> None:
        if self.log_mean is not None:
            require_finite("LogNormal", "log_mean", self.log_mean)
        if self.log_variance is not None:
            require_positive("LogNormal", "log_variance", self.log_variance)
        require_positive("LogNormal", "relative_scale", self.relative_scale)

    def constants(self, values: Any, resolution: float = 0.0, n_levels: int = 0) -> LeafConstants:
        """Mean and variance of the logs where the entry does not give them.

        `resolution` is that of the column; on the scale of the logs it is taken at the column's geometric mean.
        """
        mean, variance = self.log_mean, self.log_variance
        if mean is None or variance is None:
            x = observed_values("LogNormal", values)
            found = LogNormal.statistics(x)
            mean = float(found.mean) if mean is None else mean
            variance = float(found.ssd / found.n) if variance is None else variance
        return LeafConstants(mean=mean, variance=variance, resolution=resolution / np.exp(mean))

    def prior(
        self, constants: LeafConstants, leaf_scale: Any, leaf_shape: Any = 1.5, precision_ratio: Any = 0.05
    ) -> NormalGamma:
        """Normal-gamma of the logs, as `Gaussian.prior`."""
        s = require_positive("LogNormal", "leaf_scale", leaf_scale) * self.relative_scale
        require_positive("LogNormal", "leaf_shape", leaf_shape)
        require_positive("LogNormal", "precision_ratio", precision_ratio)
        spread = np.maximum(s * constants.variance, np.square(constants.resolution) / 12.0)
        if not np.all(spread > 0):
            raise ValueError(
                "LogNormal: log_variance must be positive, got a constant column with resolution 0; "
                "give LogNormal(log_variance=...) or a resolution"
            )
        return NormalGamma(constants.mean, precision_ratio, leaf_shape, leaf_shape * spread)

    @staticmethod
    def statistics(values: Any, n_levels: int = 0) -> Moments:
        """Moments of the logs along the last axis and minus their sum, the Jacobian; NaN left out."""
        require_where("LogNormal", "above 0", values, np.asarray(values, dtype=np.float64) > 0)
        logs = _logs(values)
        return Gaussian.statistics(logs)._replace(log_base=-np.where(np.isnan(logs), 0.0, logs).sum(axis=-1))

    @staticmethod
    def posterior(prior: NormalGamma, statistics: Moments) -> NormalGamma:
        """Parameters after the data."""
        return Gaussian.posterior(prior, statistics)

    @staticmethod
    def log_marginal(prior: NormalGamma, statistics: Moments) -> np.ndarray:
        """Log marginal likelihood of the data in nats; needs ``log_base``."""
        return Gaussian.log_marginal(prior, statistics) + statistics.log_base

    @staticmethod
    def predictive_log_density(params: NormalGamma, x: Any) -> np.ndarray:
        """Log density of the log-Student t, ``-inf`` at 0 and below."""
        logs = _logs(x)
        inside = np.where(np.isinf(logs), 0.0, logs)
        density = Gaussian.predictive_log_density(params, inside) - inside
        return np.where(np.isinf(logs), -np.inf, density)

    @staticmethod
    def predictive_cdf(params: NormalGamma, x: Any) -> np.ndarray:
        """P(X <= x)."""
        return Gaussian.predictive_cdf(params, _logs(x))

    @staticmethod
    def predictive_log_interval(params: NormalGamma, low: Any, high: Any) -> np.ndarray:
        """log P(low <= X <= high), accurate for narrow cells and far tails."""
        width = log_width(np.maximum(low, 0.0), np.maximum(high, 0.0))
        return student_log_interval(params, _logs(low), _logs(high), width)

    @staticmethod
    def predictive_interval(params: NormalGamma, low: Any, high: Any) -> np.ndarray:
        """P(low <= X <= high)."""
        return np.exp(LogNormal.predictive_log_interval(params, low, high))

    @staticmethod
    def predictive_mean(params: NormalGamma) -> np.ndarray:
        """Infinite: every Student t has tails heavier than the exponential function grows."""
        return np.full(np.broadcast_shapes(*(np.shape(p) for p in params)), np.inf)

    @staticmethod
    def predictive_variance(params: NormalGamma) -> np.ndarray:
        """NaN, since the mean is infinite."""
        return np.full(np.broadcast_shapes(*(np.shape(p) for p in params)), np.nan)

    @staticmethod
    def predictive_mode(params: NormalGamma) -> np.ndarray:
        """Largest local maximum of the density; where there is none, the median.

        Towards 0 every log-Student density grows without bound, on next to no mass.
        """
        scale, dof = Gaussian.predictive_scale(params), 2.0 * np.asarray(params.a, dtype=np.float64)
        root = np.square(dof + 1.0) - 4.0 * np.square(scale) * dof
        z = np.where(root >= 0, (np.sqrt(np.maximum(root, 0.0)) - (dof + 1.0)) / (2.0 * scale), 0.0)
        return np.exp(params.mu + scale * z)

    @staticmethod
    def predictive_draw(params: NormalGamma, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        """Random values of shape `size`, or of the parameters; the largest floats stand for what overflows."""
        with np.errstate(over="ignore", under="ignore"):
            drawn = np.exp(Gaussian.predictive_draw(params, rng, size))
        limits = np.finfo(np.float64)
        return np.clip(drawn, limits.tiny, limits.max)

    @staticmethod
    def draw_parameters(params: NormalGamma, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        """Leaf parameters (..., 2): mean and standard deviation of log x."""
        return Gaussian.draw_parameters(params, rng, size)

    @staticmethod
    def leaf_log_density(parameters: np.ndarray, x: Any) -> np.ndarray:
        """Log density of a leaf with parameters (..., 2), mean and standard deviation of log x."""
        logs = _logs(x)
        inside = np.where(np.isinf(logs), 0.0, logs)
        return np.where(np.isinf(logs), -np.inf, Gaussian.leaf_log_density(parameters, inside) - inside)

    @staticmethod
    def parameter_problem(parameters: np.ndarray) -> tuple[int, str] | None:
        """First bad row of (n, p) leaf parameters and the rule it breaks."""
        return Gaussian.parameter_problem(parameters)
