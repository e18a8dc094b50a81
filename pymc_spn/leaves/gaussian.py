"""Gaussian leaves on real values, with a mean and a standard deviation, and their conjugate prior.

Formulas: Yokoi and Sato (2024), Table 8. The third argument of its Student t is the degrees of freedom times scale^2.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, stdtr

from pymc_spn.leaves.family_pieces import NARROW, Kernels
from pymc_spn.leaves.kernel_forms import HALF_LOG_2PI, QUADRATIC, REAL, located, quadratic
from pymc_spn.leaves.leaf_family import UnivariateFamily
from pymc_spn.leaves.leaf_statistics import (
    LeafConstants,
    Moments,
    NormalGamma,
    moments,
    observed_values,
    require_finite,
    require_positive,
    variance_of,
)
from pymc_spn.leaves.palette_entry import PaletteEntry, constant_variance, sample_variance
from pymc_spn.leaves.tail_probabilities import (
    UNDERFLOW,
    log_betainc,
    log_difference,
    log_gamma_ratio,
    log_narrow_integral,
)
from pymc_spn.numerics.elementary import fast_log

LOG_2PI = np.log(2.0 * np.pi)


@dataclass(frozen=True)
class Gaussian(PaletteEntry):
    """Gaussian leaf with a normal-gamma prior on mean and precision.

    Parameters
    ----------
    mean, variance : float, optional
        Centre and scale of the prior in the column's units; None takes them from the observed column.
    relative_scale : float
        Factor on the column's ``leaf_scale`` for this palette entry.

    Examples
    --------
    >>> fit = ps.fit_variational(df, leaves={"age": [ps.leaves.Gaussian(), ps.leaves.Gaussian(relative_scale=0.1)]})
    """

    mean: float | None = None
    variance: float | None = None
    relative_scale: float = 1.0
    family: ClassVar[str] = "gaussian"
    kinds: ClassVar[tuple[str, ...]] = ("real", "positive", "integer", "count")

    def __post_init__(self) -> None:
        if self.mean is not None:
            require_finite("Gaussian", "mean", self.mean)
        if self.variance is not None:
            require_positive("Gaussian", "variance", self.variance)
        require_positive("Gaussian", "relative_scale", self.relative_scale)

    def completed(self, observed: np.ndarray, grid: float) -> Self:
        """With mean and variance of the column."""
        mean, variance = self.mean, self.variance
        if mean is None:
            mean = float(observed.mean()) if observed.size else 1.0
        if variance is None:
            variance = (variance_of(observed) if observed.size else 1.0) or constant_variance(observed, grid)
        return replace(self, mean=mean, variance=variance)

    def fitted(self, sample: np.ndarray, observed: np.ndarray, floor: float, grid: float) -> Self:
        """With mean and variance of the sample."""
        return replace(self, mean=float(sample.mean()), variance=sample_variance(sample, observed, floor, grid))

    def coded_constants(self, centre: float, scale: float, grid: float) -> tuple[float, float, float]:
        """Mean, variance and the variance of rounding."""
        assert self.mean is not None and self.variance is not None
        return (self.mean - centre) / scale, self.variance / scale**2, grid**2 / 12.0 / scale**2

    def constants(self, values: npt.ArrayLike, resolution: float = 0.0, n_levels: int = 0) -> LeafConstants:
        """Mean and variance of the observed values where the entry does not give them."""
        mean, variance = self.mean, self.variance
        if mean is None or variance is None:
            found = moments(observed_values("Gaussian", values))
            mean = float(found.mean) if mean is None else mean
            variance = float(found.ssd / found.n) if variance is None else variance
        return LeafConstants(mean=mean, variance=variance, resolution=resolution)

    def prior(
        self, constants: LeafConstants, leaf_scale: float, leaf_shape: float = 1.5, precision_ratio: float = 0.05
    ) -> NormalGamma:
        """Normal-gamma (mu0, rho0, a0, b0) with ``b0 = a0 max(s variance, resolution^2 / 12)``.

        s is the leaf's scale, ``leaf_scale * relative_scale``. The floor is the variance of rounding; without it b0
        would vanish on repeated values.
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
    def statistics(values: npt.ArrayLike, n_levels: int = 0) -> Moments:
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
    def predictive_log_density(params: NormalGamma, x: npt.ArrayLike) -> np.ndarray:
        """Log density of the Student-t predictive."""
        width = 2.0 * (1.0 + 1.0 / np.asarray(params.rho)) * params.b
        power = np.asarray(params.a) + 0.5
        return (
            log_gamma_ratio(params.a, 0.5)
            - 0.5 * np.log(np.pi * width)
            - power * np.log1p(np.square(np.asarray(x, dtype=np.float64) - params.mu) / width)
        )

    @staticmethod
    def predictive_cdf(params: NormalGamma, x: npt.ArrayLike) -> np.ndarray:
        """P(X <= x)."""
        z = (np.asarray(x, dtype=np.float64) - params.mu) / Gaussian.predictive_scale(params)
        return stdtr(2.0 * np.asarray(params.a), z)

    @staticmethod
    def predictive_log_interval(params: NormalGamma, low: npt.ArrayLike, high: npt.ArrayLike) -> np.ndarray:
        """log P(low <= X <= high), accurate for narrow cells and far tails."""
        with np.errstate(invalid="ignore"):  # of two infinite ends
            width = np.subtract(high, low)
        return student_log_interval(params, low, high, width)

    @staticmethod
    def predictive_interval(params: NormalGamma, low: npt.ArrayLike, high: npt.ArrayLike) -> np.ndarray:
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
    def predictive_draw(
        params: NormalGamma, rng: np.random.Generator, size: int | tuple[int, ...] | None = None
    ) -> np.ndarray:
        """Random values of shape `size`, or of the parameters."""
        size = np.broadcast_shapes(*(np.shape(p) for p in params)) if size is None else size
        return params.mu + Gaussian.predictive_scale(params) * rng.standard_t(2.0 * np.asarray(params.a), size=size)

    @staticmethod
    def draw_parameters(
        params: NormalGamma, rng: np.random.Generator, size: int | tuple[int, ...] | None = None
    ) -> np.ndarray:
        """Leaf parameters (..., 2): mean and standard deviation."""
        size = np.broadcast_shapes(*(np.shape(p) for p in params)) if size is None else size
        sd = 1.0 / np.sqrt(rng.gamma(params.a, 1.0 / np.asarray(params.b), size=size))
        return np.stack([params.mu + sd / np.sqrt(params.rho) * rng.standard_normal(size), sd], axis=-1)

    @staticmethod
    def leaf_log_density(parameters: np.ndarray, x: npt.ArrayLike) -> np.ndarray:
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


def normal_log_interval(p: np.ndarray, low: np.ndarray, high: np.ndarray, width: np.ndarray) -> np.ndarray:
    """log P(low <= X <= high) of leaves (..., 2); `width` is high - low with all digits."""
    z_low, z_high = (low - p[..., 0]) / p[..., 1], (high - p[..., 0]) / p[..., 1]
    mirrored = z_low > -z_high
    near, far = np.where(mirrored, -z_low, z_high), np.where(mirrored, -z_high, z_low)
    out = log_difference(log_ndtr(near), log_ndtr(far))
    width = np.broadcast_to(width / p[..., 1], out.shape)
    narrow = (width > 0.0) & (width < NARROW) & (width * np.abs(near + far) < 1.0)
    if np.any(narrow):
        first, last, between = far[narrow], near[narrow], width[narrow]
        out[narrow] = log_narrow_integral(lambda z: -0.5 * (np.square(z) + LOG_2PI), first, last, between)
    return out


def coefficients(theta, width, out):
    out[0] = -fast_log(theta[1]) - HALF_LOG_2PI
    out[1] = theta[0]
    out[2] = math.sqrt(0.5) / theta[1]


def add_gradient(theta, width, u, x, flow, out):
    z = (u - theta[0]) / theta[1]
    out[0] += flow * z / theta[1]
    out[1] += flow * (z * z - 1.0) / theta[1]


def _value_slope(theta, u, x):
    return (theta[0] - u) / (theta[1] * theta[1])


def _draw_one(rng, theta):
    return theta[0] + theta[1] * rng.standard_normal()


GAUSSIAN = UnivariateFamily(
    name="gaussian",
    n_parameters=2,
    is_density=True,
    log_density=Gaussian.leaf_log_density,
    check=Gaussian.parameter_problem,
    mean=lambda p: p[..., 0],
    variance=lambda p: np.square(p[..., 1]),
    mode=lambda p: p[..., 0],
    draw=lambda p, rng: p[..., 0] + p[..., 1] * rng.standard_normal(p.shape[:-1]),
    log_interval=lambda p, low, high: normal_log_interval(p, low, high, high - low),
    kernels=Kernels(
        QUADRATIC, REAL, quadratic, coefficients, add_gradient, _draw_one, located, value_slope=_value_slope
    ),
)
