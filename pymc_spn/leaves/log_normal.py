"""Leaves for positive columns of wide range: a Gaussian leaf on the logs, with the Jacobian."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from pymc_spn.leaves import gaussian as of_logs
from pymc_spn.leaves.family_pieces import Kernels
from pymc_spn.leaves.gaussian import Gaussian, normal_log_interval, student_log_interval
from pymc_spn.leaves.kernel_forms import LOGARITHM, QUADRATIC, located, quadratic
from pymc_spn.leaves.leaf_family import UnivariateFamily
from pymc_spn.leaves.leaf_statistics import (
    LeafConstants,
    Moments,
    NormalGamma,
    observed_values,
    require_finite,
    require_positive,
    require_where,
    variance_of,
)
from pymc_spn.leaves.palette_entry import PaletteEntry, constant_variance, sample_variance
from pymc_spn.leaves.tail_probabilities import log_width


def _logs(x: Any) -> np.ndarray:
    """log x, NaN where x is missing, minus infinity at 0 and below."""
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isnan(x), np.nan, np.where(x > 0, np.log(x), -np.inf))


@dataclass(frozen=True)
class LogNormal(PaletteEntry):
    """Log-normal leaf on x > 0 with a normal-gamma prior on mean and precision of log x.

    The predictive is a log-Student t: its tails are so heavy that it has no mean.

    Parameters
    ----------
    log_mean, log_variance : float, optional
        Centre and scale of the prior, of the logs; None takes them from the observed column.
    relative_scale : float
        Factor on the column's ``leaf_scale`` for this palette entry.

    Examples
    --------
    >>> positive = {"age": "positive", "income": "positive"}
    >>> fit = ps.fit_variational(df, kinds=positive, leaves={"income": [ps.leaves.LogNormal()]})
    """

    log_mean: float | None = None
    log_variance: float | None = None
    relative_scale: float = 1.0
    family: ClassVar[str] = "log_normal"
    kinds: ClassVar[tuple[str, ...]] = ("positive",)

    def __post_init__(self) -> None:
        if self.log_mean is not None:
            require_finite("LogNormal", "log_mean", self.log_mean)
        if self.log_variance is not None:
            require_positive("LogNormal", "log_variance", self.log_variance)
        require_positive("LogNormal", "relative_scale", self.relative_scale)

    def refuse_column(self, name: str, values: np.ndarray) -> None:
        """Zeros, which have no log."""
        zero = np.flatnonzero(values <= 0.0)
        if zero.size:
            raise ValueError(
                f"leaves[{name!r}]: LogNormal leaves need values above 0; column {name!r} has {values[zero[0]]:g} at "
                f"position {zero[0]}"
            )

    def completed(self, observed: np.ndarray, grid: float) -> Self:
        """With mean and variance of the column's logs."""
        logs = np.log(observed) if observed.size else np.zeros(1)
        mean, variance = self.log_mean, self.log_variance
        if mean is None:
            mean = float(logs.mean())
        if variance is None:
            variance = variance_of(logs) or constant_variance(logs, grid / math.exp(mean))
        return replace(self, log_mean=mean, log_variance=variance)

    def fitted(self, sample: np.ndarray, observed: np.ndarray, floor: float, grid: float) -> Self:
        """With mean and variance of the sample's logs."""
        logs, all_logs = np.log(sample), np.log(observed)
        variance = sample_variance(logs, all_logs, floor, grid / float(np.exp(all_logs.mean())))
        return replace(self, log_mean=float(logs.mean()), log_variance=variance)

    def coded_constants(self, centre: float, scale: float, grid: float) -> tuple[float, float, float]:
        """Mean and variance of the logs, and the variance of rounding at the geometric mean."""
        assert self.log_mean is not None and self.log_variance is not None
        floor = (grid / math.exp(self.log_mean)) ** 2 / 12.0
        return self.log_mean - math.log(scale), self.log_variance, floor

    def constants(self, values: npt.ArrayLike, resolution: float = 0.0, n_levels: int = 0) -> LeafConstants:
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
        self, constants: LeafConstants, leaf_scale: float, leaf_shape: float = 1.5, precision_ratio: float = 0.05
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
    def statistics(values: npt.ArrayLike, n_levels: int = 0) -> Moments:
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
    def predictive_log_density(params: NormalGamma, x: npt.ArrayLike) -> np.ndarray:
        """Log density of the log-Student t, ``-inf`` at 0 and below."""
        logs = _logs(x)
        inside = np.where(np.isinf(logs), 0.0, logs)
        density = Gaussian.predictive_log_density(params, inside) - inside
        return np.where(np.isinf(logs), -np.inf, density)

    @staticmethod
    def predictive_cdf(params: NormalGamma, x: npt.ArrayLike) -> np.ndarray:
        """P(X <= x)."""
        return Gaussian.predictive_cdf(params, _logs(x))

    @staticmethod
    def predictive_log_interval(params: NormalGamma, low: npt.ArrayLike, high: npt.ArrayLike) -> np.ndarray:
        """log P(low <= X <= high), accurate for narrow cells and far tails."""
        width = log_width(np.maximum(low, 0.0), np.maximum(high, 0.0))
        return student_log_interval(params, _logs(low), _logs(high), width)

    @staticmethod
    def predictive_interval(params: NormalGamma, low: npt.ArrayLike, high: npt.ArrayLike) -> np.ndarray:
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
    def predictive_draw(
        params: NormalGamma, rng: np.random.Generator, size: int | tuple[int, ...] | None = None
    ) -> np.ndarray:
        """Random values of shape `size`, or of the parameters; the largest floats stand for what overflows."""
        with np.errstate(over="ignore", under="ignore"):
            drawn = np.exp(Gaussian.predictive_draw(params, rng, size))
        limits = np.finfo(np.float64)
        return np.clip(drawn, limits.tiny, limits.max)

    @staticmethod
    def draw_parameters(
        params: NormalGamma, rng: np.random.Generator, size: int | tuple[int, ...] | None = None
    ) -> np.ndarray:
        """Leaf parameters (..., 2): mean and standard deviation of log x."""
        return Gaussian.draw_parameters(params, rng, size)

    @staticmethod
    def leaf_log_density(parameters: np.ndarray, x: npt.ArrayLike) -> np.ndarray:
        """Log density of a leaf with parameters (..., 2), mean and standard deviation of log x."""
        logs = _logs(x)
        inside = np.where(np.isinf(logs), 0.0, logs)
        return np.where(np.isinf(logs), -np.inf, Gaussian.leaf_log_density(parameters, inside) - inside)

    @staticmethod
    def parameter_problem(parameters: np.ndarray) -> tuple[int, str] | None:
        """First bad row of (n, p) leaf parameters and the rule it breaks."""
        return Gaussian.parameter_problem(parameters)


def _log_interval(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
    with np.errstate(divide="ignore"):
        return normal_log_interval(p, np.log(low), np.log(high), log_width(low, high))


def _value_slope(theta, u, x):
    return ((theta[0] - u) / (theta[1] * theta[1]) - 1.0) / x


def _draw_one(rng, theta):
    return math.exp(theta[0] + theta[1] * rng.standard_normal())


LOG_NORMAL = UnivariateFamily(
    name="log_normal",
    n_parameters=2,
    is_density=True,
    log_density=LogNormal.leaf_log_density,
    check=LogNormal.parameter_problem,
    mean=lambda p: np.exp(p[..., 0] + 0.5 * np.square(p[..., 1])),
    variance=lambda p: np.expm1(np.square(p[..., 1])) * np.exp(2.0 * p[..., 0] + np.square(p[..., 1])),
    mode=lambda p: np.exp(p[..., 0] - np.square(p[..., 1])),
    draw=lambda p, rng: np.exp(p[..., 0] + p[..., 1] * rng.standard_normal(p.shape[:-1])),
    log_interval=_log_interval,
    lowest=0.0,
    is_of_logs=True,
    kernels=Kernels(
        QUADRATIC,
        LOGARITHM,
        quadratic,
        of_logs.coefficients,
        of_logs.add_gradient,
        _draw_one,
        located,
        value_slope=_value_slope,
    ),
    location=lambda pt, p: pt.exp(p[:, 0]),
)
