"""Leaves for real columns: Gaussian and Exponential, with their conjugate priors.

Formulas: Yokoi and Sato (2024), Table 8. The third argument of its Student t is the degrees of freedom times scale^2.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import stdtr

from pymc_spn.leaves.leaf_statistics import (
    GammaRate,
    LeafConstants,
    Moments,
    NormalGamma,
    moments,
    observed_values,
    require_finite,
    require_positive,
    require_where,
)
from pymc_spn.leaves.tail_probabilities import (
    UNDERFLOW,
    log_betainc,
    log_difference,
    log_gamma_ratio,
    log_narrow_integral,
)

LOG_2PI = np.log(2.0 * np.pi)


@dataclass(frozen=True)
class Gaussian:
    """Gaussian leaf with a normal-gamma prior on mean and precision.

    Parameters
    ----------
    mean, variance : float, optional
        Centre and scale of the prior in the column's units; None takes them from the observed column.
    relative_scale : float
        Factor on the column's ``leaf_scale`` for this palette entry.
    """

    mean: float | None = None
    variance: float | None = None
    relative_scale: float = 1.0
    family: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        if self.mean is not None:
            require_finite("Gaussian", "mean", self.mean)
        if self.variance is not None:
            require_positive("Gaussian", "variance", self.variance)
        require_positive("Gaussian", "relative_scale", self.relative_scale)

    def constants(self, values: Any, resolution: float = 0.0, n_levels: int = 0) -> LeafConstants:
        """Mean and variance of the observed values where the entry does not give them."""
        mean, variance = self.mean, self.variance
        if mean is None or variance is None:
            found = moments(observed_values("Gaussian", values))
            mean = float(found.mean) if mean is None else mean
            variance = float(found.ssd / found.n) if variance is None else variance
        return LeafConstants(mean=mean, variance=variance, resolution=resolution)

    def prior(
        self, constants: LeafConstants, leaf_scale: Any, leaf_shape: Any = 1.5, precision_ratio: Any = 0.05
    ) -> NormalGamma:
        """Normal-gamma (mu0, rho0, a0, b0) with ``b0 = a0 max(s variance, resolution^2 / 12)``.

        s is the leaf's scale, ``leaf_scale * relative_scale``. The floor is the variance
        of rounding; without it b0 would vanish on repeated values.
        """
        s = require_positive("Gaussian", "leaf_scale", leaf_scale) * self.relative_scale
        require_positive("Gaussian", "leaf_shape", leaf_shape)
        require_positive("Gaussian", "precision_ratio", precision_ratio)
        spread = np.maximum(s * constants.variance, np.square(constants.resolution) / 12.0)
        if not np.all(spread > 0):
            raise ValueError(
                "Gaussian: variance must be positive, got a constant column with resolution 0; "
                "give Gaussian(variance=...) or a resolution"
            )
        return NormalGamma(constants.mean, precision_ratio, leaf_shape, leaf_shape * spread)

    @staticmethod
    def statistics(values: Any, n_levels: int = 0) -> Moments:
        """Moments of the values along the last axis, NaN left out."""
        return moments(values)

    @staticmethod
    def posterior(prior: NormalGamma, statistics: Moments) -> NormalGamma:
        """Parameters after the data."""
        n, mean, ssd = statistics.n, statistics.mean, statistics.ssd
        rho = prior.rho + n
        shift = mean - prior.mu
        return NormalGamma(
            prior.mu + n * shift / rho,
            rho,
            prior.a + 0.5 * n,
            prior.b + 0.5 * ssd + 0.5 * prior.rho * n / rho * shift**2,
        )

    @staticmethod
    def log_marginal(prior: NormalGamma, statistics: Moments) -> np.ndarray:
        """Log marginal likelihood of the data in nats."""
        after, n = Gaussian.posterior(prior, statistics), statistics.n
        growth = np.log1p((after.b - prior.b) / prior.b)
        return (
            log_gamma_ratio(prior.a, 0.5 * n)
            - prior.a * growth
            - 0.5 * n * (np.log(after.b) + LOG_2PI)
            - 0.5 * np.log1p(n / np.asarray(prior.rho))
        )

    @staticmethod
    def predictive_scale(params: NormalGamma) -> np.ndarray:
        """Scale of the Student t with ``2 a`` degrees of freedom: ``sqrt((1 + 1 / rho) b / a)``."""
        return np.sqrt((1.0 + 1.0 / np.asarray(params.rho)) * params.b / params.a)

    @staticmethod
    def predictive_log_density(params: NormalGamma, x: Any) -> np.ndarray:
        """Log density of the Student-t predictive."""
        width = 2.0 * (1.0 + 1.0 / np.asarray(params.rho)) * params.b
        power = np.asarray(params.a) + 0.5
        return (
            log_gamma_ratio(params.a, 0.5)
            - 0.5 * np.log(np.pi * width)
            - power * np.log1p(np.square(np.asarray(x, dtype=np.float64) - params.mu) / width)
        )

    @staticmethod
    def predictive_cdf(params: NormalGamma, x: Any) -> np.ndarray:
        """P(X <= x)."""
        z = (np.asarray(x, dtype=np.float64) - params.mu) / Gaussian.predictive_scale(params)
        return stdtr(2.0 * np.asarray(params.a), z)

    @staticmethod
    def predictive_log_interval(params: NormalGamma, low: Any, high: Any) -> np.ndarray:
        """log P(low <= X <= high), accurate for narrow cells and far tails."""
        with np.errstate(invalid="ignore"):  # of two infinite ends
            width = np.subtract(high, low)
        return student_log_interval(params, low, high, width)

    @staticmethod
    def predictive_interval(params: NormalGamma, low: Any, high: Any) -> np.ndarray:
        """P(low <= X <= high)."""
        return np.exp(Gaussian.predictive_log_interval(params, low, high))

    @staticmethod
    def predictive_mean(params: NormalGamma) -> np.ndarray:
        """Mean, NaN where it does not exist (a <= 1/2)."""
        return np.where(np.asarray(params.a) > 0.5, params.mu, np.nan)

    @staticmethod
    def predictive_variance(params: NormalGamma) -> np.ndarray:
        """Variance, infinite for 1/2 < a <= 1, NaN below."""
        a = np.asarray(params.a, dtype=np.float64)
        finite = (1.0 + 1.0 / np.asarray(params.rho)) * params.b / np.where(a > 1.0, a - 1.0, 1.0)
        return np.where(a > 1.0, finite, np.where(a > 0.5, np.inf, np.nan))

    @staticmethod
    def predictive_mode(params: NormalGamma) -> np.ndarray:
        """Value of largest density."""
        return np.broadcast_to(
            np.asarray(params.mu, dtype=np.float64), np.broadcast_shapes(*(np.shape(p) for p in params))
        )

    @staticmethod
    def predictive_draw(params: NormalGamma, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        """Random values of shape `size`, or of the parameters."""
        size = np.broadcast_shapes(*(np.shape(p) for p in params)) if size is None else size
        return params.mu + Gaussian.predictive_scale(params) * rng.standard_t(2.0 * np.asarray(params.a), size=size)

    @staticmethod
    def draw_parameters(params: NormalGamma, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        """Leaf parameters (..., 2): mean and standard deviation."""
        size = np.broadcast_shapes(*(np.shape(p) for p in params)) if size is None else size
        sd = 1.0 / np.sqrt(rng.gamma(params.a, 1.0 / np.asarray(params.b), size=size))
        return np.stack([params.mu + sd / np.sqrt(params.rho) * rng.standard_normal(size), sd], axis=-1)

    @staticmethod
    def leaf_log_density(parameters: np.ndarray, x: Any) -> np.ndarray:
        """Log density of a leaf with parameters (..., 2), mean and standard deviation."""
        mean, sd = parameters[..., 0], parameters[..., 1]
        with np.errstate(over="ignore"):  # so far away the density is 0
            return -0.5 * np.square((np.asarray(x, dtype=np.float64) - mean) / sd) - np.log(sd) - 0.5 * LOG_2PI

    @staticmethod
    def parameter_problem(parameters: np.ndarray) -> tuple[int, str] | None:
        """First bad row of (n, p) leaf parameters and the rule it breaks."""
        if parameters.shape[1] != 2:
            return 0, "rows must be (mean, standard deviation)"
        wrong = ~(np.isfinite(parameters).all(axis=1) & (parameters[:, 1] > 0))
        return (int(np.argmax(wrong)), "mean must be finite, standard deviation positive") if np.any(wrong) else None


def student_log_interval(params: NormalGamma, low: Any, high: Any, width: Any) -> np.ndarray:
    """log P(low <= X <= high) of the Student-t predictive; `width` is high - low with all digits."""
    scale = Gaussian.predictive_scale(params)
    arrays = (2.0 * np.asarray(params.a), low, high, width, params.mu, scale)
    dof, low, high, width, mu, scale = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in arrays))
    z_low, z_high = (low - mu) / scale, (high - mu) / scale
    mirrored = z_low > -z_high  # work in the lower tail, where the cdf keeps its digits
    near, far = np.where(mirrored, -z_low, z_high), np.where(mirrored, -z_high, z_low)
    with np.errstate(divide="ignore"):
        # P = F(near) - F(far); a near end above 0 means that the interval holds the centre
        result = log_difference(_log_lower_tail(dof, near), _log_lower_tail(dof, far))
    finite = np.isfinite(low) & np.isfinite(high)
    a, b = np.where(finite, low, mu), np.where(finite, high, mu)
    broadcast = NormalGamma(mu, params.rho, params.a, params.b)
    ends = Gaussian.predictive_log_density(broadcast, a), Gaussian.predictive_log_density(broadcast, b)
    # beside the scale, or beside the distance of an interval on one side of the centre
    beside = np.maximum(np.minimum(1.0, np.sqrt(dof)), -near)
    narrow = finite & (width > 0.0) & (width < 0.25 * scale * beside) & (np.abs(ends[0] - ends[1]) < 0.5)
    if np.any(narrow):
        inside = log_narrow_integral(lambda x: Gaussian.predictive_log_density(broadcast, x), a, b, width)
        result = np.where(narrow, inside, result)
    return np.where((high > low) | narrow, result, -np.inf)


def _log_lower_tail(dof: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Log cdf of the standard Student t; by the incomplete beta function where the cdf underflows."""
    plain = stdtr(dof, z)
    result = np.log(plain)
    lost = (plain < UNDERFLOW) & np.isfinite(z)
    if np.any(lost):
        with np.errstate(over="ignore"):  # so far away nothing is left
            nu, t2 = dof[lost], np.square(z[lost])
        result = np.array(result)
        result[lost] = -np.log(2.0) + log_betainc(0.5 * nu, 0.5, nu / (nu + t2), -np.log1p(t2 / nu), -np.log1p(nu / t2))
    return result


@dataclass(frozen=True)
class Exponential:
    """Exponential leaf on x >= 0 with a gamma prior on the rate.

    Parameters
    ----------
    mean : float, optional
        Mean of the column that the prior is built round; None takes it from the observed column.
    relative_scale : float
        Factor on the column's ``leaf_scale`` for this palette entry.
    """

    mean: float | None = None
    relative_scale: float = 1.0
    family: ClassVar[str] = "exponential"

    def __post_init__(self) -> None:
        if self.mean is not None:
            require_positive("Exponential", "mean", self.mean)
        require_positive("Exponential", "relative_scale", self.relative_scale)

    def constants(self, values: Any, resolution: float = 0.0, n_levels: int = 0) -> LeafConstants:
        """Mean of the observed values where the entry does not give it."""
        mean = self.mean
        if mean is None:
            x = observed_values("Exponential", values)
            Exponential.statistics(x)
            mean = require_positive("Exponential", "mean of the column", float(x.mean()))
        return LeafConstants(mean=mean, resolution=resolution)

    def prior(
        self, constants: LeafConstants, leaf_scale: Any, leaf_shape: Any = 1.5, precision_ratio: Any = 0.05
    ) -> GammaRate:
        """Gamma (alpha = 1 / s, beta = alpha mean), s the leaf's scale; shape and ratio are not used."""
        s = require_positive("Exponential", "leaf_scale", leaf_scale) * self.relative_scale
        return GammaRate(1.0 / np.asarray(s), constants.mean / np.asarray(s))

    @staticmethod
    def statistics(values: Any, n_levels: int = 0) -> Moments:
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
    def predictive_log_density(params: GammaRate, x: Any) -> np.ndarray:
        """Log density of the Lomax predictive, ``-inf`` below 0."""
        x, beta = np.asarray(x, dtype=np.float64), np.asarray(params.beta)
        inside = np.log(params.alpha / beta) - (np.asarray(params.alpha) + 1.0) * np.log1p(
            np.where(x < 0, 0.0, x) / beta
        )
        return np.where(x < 0, -np.inf, inside)

    @staticmethod
    def predictive_cdf(params: GammaRate, x: Any) -> np.ndarray:
        """P(X <= x)."""
        x = np.asarray(x, dtype=np.float64)
        return -np.expm1(-np.asarray(params.alpha) * np.log1p(np.where(x < 0, 0.0, x) / np.asarray(params.beta)))

    @staticmethod
    def predictive_log_interval(params: GammaRate, low: Any, high: Any) -> np.ndarray:
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
    def predictive_interval(params: GammaRate, low: Any, high: Any) -> np.ndarray:
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
    def predictive_draw(params: GammaRate, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        """Random values of shape `size`, or of the parameters."""
        size = np.broadcast_shapes(*(np.shape(p) for p in params)) if size is None else size
        return params.beta * rng.pareto(params.alpha, size=size)

    @staticmethod
    def draw_parameters(params: GammaRate, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        """Leaf parameters (..., 1): the rate."""
        size = np.broadcast_shapes(*(np.shape(p) for p in params)) if size is None else size
        return rng.gamma(params.alpha, 1.0 / np.asarray(params.beta), size=size)[..., None]

    @staticmethod
    def leaf_log_density(parameters: np.ndarray, x: Any) -> np.ndarray:
        """Log density of a leaf with parameters (..., 1), the rate."""
        rate, x = parameters[..., 0], np.asarray(x, dtype=np.float64)
        return np.where(x < 0, -np.inf, np.log(rate) - rate * np.where(x < 0, 0.0, x))

    @staticmethod
    def parameter_problem(parameters: np.ndarray) -> tuple[int, str] | None:
        """First bad row of (n, p) leaf parameters and the rule it breaks."""
        if parameters.shape[1] != 1:
            return 0, "rows must be (rate,)"
        wrong = ~(np.isfinite(parameters[:, 0]) & (parameters[:, 0] > 0))
        return (int(np.argmax(wrong)), "rate must be positive and finite") if np.any(wrong) else None
