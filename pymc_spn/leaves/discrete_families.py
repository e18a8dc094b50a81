"""Leaves for counts and levels: Poisson, Bernoulli, Categorical, with their conjugate priors.

Formulas: Yokoi and Sato (2024), Table 8, with the categorical predictive alpha_N / sum(alpha_N).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import betainc, gammaln, xlogy

from pymc_spn.leaves.leaf_statistics import (
    DirichletLevels,
    GammaRate,
    LeafConstants,
    Moments,
    moments,
    observed_values,
    require_positive,
    require_where,
)
from pymc_spn.leaves.tail_probabilities import log_betainc, log_difference, log_gamma_ratio
from pymc_spn.numerics.own_names import own_names

LARGEST_DRAWN = 2.0**60  # rate up to which NumPy's generator draws; a normal variate is as good far below it
SUMMED_COUNTS = 64  # an interval of at most so many counts is summed term by term


def _is_count(x: Any) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    return (x >= 0) & (x == np.floor(x)) & np.isfinite(x)


@dataclass(frozen=True)
class Poisson:
    """Poisson leaf on counts with a gamma prior on the rate.

    Parameters
    ----------
    mean : float, optional
        Mean of the column that the prior is built round; None takes it from the observed column.
    relative_scale : float
        Factor on the column's ``leaf_scale`` for this palette entry.
    """

    mean: float | None = None
    relative_scale: float = 1.0
    family: ClassVar[str] = "poisson"

    def __post_init__(self) -> None:
        if self.mean is not None:
            require_positive("Poisson", "mean", self.mean)
        require_positive("Poisson", "relative_scale", self.relative_scale)

    def constants(self, values: Any, resolution: float = 0.0, n_levels: int = 0) -> LeafConstants:
        """Mean of the observed values where the entry does not give it.

        A column of zeros alone counts as half an event in all its rows, since a gamma prior needs a mean.
        """
        mean = self.mean
        if mean is None:
            x = observed_values("Poisson", values)
            require_where("Poisson", "counts", x, _is_count(x))
            mean = max(float(x.sum()), 0.5) / x.size
        return LeafConstants(mean=mean, resolution=resolution)

    def prior(
        self, constants: LeafConstants, leaf_scale: Any, leaf_shape: Any = 1.5, precision_ratio: Any = 0.05
    ) -> GammaRate:
        """Gamma (alpha = 1 / s, beta = alpha / mean), s the leaf's scale; shape and ratio are not used."""
        s = require_positive("Poisson", "leaf_scale", leaf_scale) * self.relative_scale
        return GammaRate(1.0 / np.asarray(s), 1.0 / (np.asarray(s) * constants.mean))

    @staticmethod
    def statistics(values: Any, n_levels: int = 0) -> Moments:
        """Moments and minus the sum of log x! along the last axis, NaN left out."""
        require_where("Poisson", "counts", values, _is_count(values))
        log_factorial = gammaln(np.nan_to_num(np.asarray(values, dtype=np.float64)) + 1.0).sum(axis=-1)
        return moments(values)._replace(log_base=-log_factorial)

    @staticmethod
    def posterior(prior: GammaRate, statistics: Moments) -> GammaRate:
        """Parameters after the data."""
        return GammaRate(prior.alpha + statistics.n * statistics.mean, prior.beta + statistics.n)

    @staticmethod
    def log_marginal(prior: GammaRate, statistics: Moments) -> np.ndarray:
        """Log marginal likelihood of the data in nats; needs ``log_base``."""
        n, total = statistics.n, statistics.n * statistics.mean
        return (
            log_gamma_ratio(prior.alpha, total)
            - prior.alpha * np.log1p(n / np.asarray(prior.beta))
            - total * np.log(prior.beta + n)
            + statistics.log_base
        )

    @staticmethod
    def predictive_log_density(params: GammaRate, x: Any) -> np.ndarray:
        """Log mass of the negative binomial with success probability beta / (beta + 1)."""
        x, beta = np.asarray(x, dtype=np.float64), np.asarray(params.beta, dtype=np.float64)
        k = np.where(_is_count(x), x, 0.0)
        log_mass = (
            log_gamma_ratio(params.alpha, k)
            - gammaln(k + 1.0)
            - params.alpha * np.log1p(1.0 / beta)
            - k * np.log1p(beta)
        )
        return np.where(np.isnan(x), np.nan, np.where(_is_count(x), log_mass, -np.inf))

    @staticmethod
    def predictive_cdf(params: GammaRate, x: Any) -> np.ndarray:
        """P(X <= x)."""
        x, beta = np.asarray(x, dtype=np.float64), np.asarray(params.beta, dtype=np.float64)
        k = np.where((x >= 0) & np.isfinite(x), np.floor(x), 0.0)
        inside = betainc(params.alpha, k + 1.0, beta / (beta + 1.0))
        return np.where(np.isnan(x), np.nan, np.where(x < 0, 0.0, np.where(np.isposinf(x), 1.0, inside)))

    @staticmethod
    def predictive_log_interval(params: GammaRate, low: Any, high: Any) -> np.ndarray:
        """log P(low <= X <= high), both ends included, accurate in both tails."""
        alpha, beta, low, high = np.broadcast_arrays(
            *(np.asarray(v, dtype=np.float64) for v in (params.alpha, params.beta, low, high))
        )
        first, last = np.maximum(np.ceil(low), 0.0), np.floor(high)
        n_terms = np.where(
            last >= first,
            np.where(np.isinf(first), 0.0, last) - np.where(np.isinf(first), 0.0, first) + 1.0,
            0.0,
        )
        empty = ~(last >= first) | np.isinf(first)
        result = np.full(alpha.shape, -np.inf)
        summed = ~empty & (n_terms <= SUMMED_COUNTS)
        if np.any(summed):
            offsets = np.arange(int(n_terms[summed].max()))[:, None]
            k = first[summed] + offsets
            mass = Poisson.predictive_log_density(GammaRate(alpha[summed], beta[summed]), k)
            mass = np.where(offsets < n_terms[summed], mass, -np.inf)
            top = mass.max(axis=0)
            result[summed] = top + np.log(np.exp(mass - top).sum(axis=0))
        by_tails = ~empty & ~summed
        if np.any(by_tails):
            a, b, f, g = alpha[by_tails], beta[by_tails], first[by_tails], last[by_tails]
            above = f > a / b  # measure in the tail that holds the interval
            upper = log_difference(_log_at_least(a, b, f), _log_at_least(a, b, g + 1.0))
            lower = log_difference(_log_below(a, b, g + 1.0), _log_below(a, b, f))
            result[by_tails] = np.where(above, upper, lower)
        return result

    @staticmethod
    def predictive_interval(params: GammaRate, low: Any, high: Any) -> np.ndarray:
        """P(low <= X <= high), both ends included."""
        return np.exp(Poisson.predictive_log_interval(params, low, high))

    @staticmethod
    def predictive_mean(params: GammaRate) -> np.ndarray:
        """Mean alpha / beta."""
        return params.alpha / np.asarray(params.beta, dtype=np.float64)

    @staticmethod
    def predictive_variance(params: GammaRate) -> np.ndarray:
        """Variance alpha (beta + 1) / beta^2."""
        beta = np.asarray(params.beta, dtype=np.float64)
        return params.alpha / beta * (1.0 + 1.0 / beta)

    @staticmethod
    def predictive_mode(params: GammaRate) -> np.ndarray:
        """Smallest count of largest mass up to ties: floor((alpha - 1) / beta), 0 for alpha <= 1."""
        return np.maximum(np.floor((np.asarray(params.alpha) - 1.0) / params.beta), 0.0)

    @staticmethod
    def predictive_draw(params: GammaRate, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        """Random counts (float64) of shape `size`, or of the parameters."""
        return draw_counts(Poisson.draw_parameters(params, rng, size)[..., 0], rng)

    @staticmethod
    def draw_parameters(params: GammaRate, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        """Leaf parameters (..., 1): the rate."""
        size = np.broadcast_shapes(*(np.shape(p) for p in params)) if size is None else size
        return rng.gamma(params.alpha, 1.0 / np.asarray(params.beta), size=size)[..., None]

    @staticmethod
    def leaf_log_density(parameters: np.ndarray, x: Any) -> np.ndarray:
        """Log mass of a leaf with parameters (..., 1), the rate."""
        rate, x = parameters[..., 0], np.asarray(x, dtype=np.float64)
        k = np.where(_is_count(x), x, 0.0)
        log_mass = xlogy(k, rate) - rate - gammaln(k + 1.0)
        return np.where(np.isnan(x), np.nan, np.where(_is_count(x), log_mass, -np.inf))

    @staticmethod
    def parameter_problem(parameters: np.ndarray) -> tuple[int, str] | None:
        """First bad row of (n, p) leaf parameters and the rule it breaks."""
        if parameters.shape[1] != 1:
            return 0, "rows must be (rate,)"
        wrong = ~(np.isfinite(parameters[:, 0]) & (parameters[:, 0] > 0))
        return (int(np.argmax(wrong)), "rate must be positive and finite") if np.any(wrong) else None


def draw_counts(rate: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Poisson counts (float64) of any rates, also of those whose counts no integer holds."""
    large = rate > LARGEST_DRAWN
    drawn = rng.poisson(np.where(large, 0.0, rate)).astype(np.float64)
    if np.any(large):
        rate = np.minimum(rate, np.finfo(np.float64).max)  # a drawn one may be infinite
        drawn = np.where(large, np.rint(rate + np.sqrt(rate) * rng.standard_normal(rate.shape)), drawn)
        drawn = np.minimum(drawn, np.finfo(np.float64).max)
    return drawn


def _log_at_least(alpha: np.ndarray, beta: np.ndarray, k: np.ndarray) -> np.ndarray:
    """log P(X >= k) of the negative binomial, k > 0 or infinite."""
    finite = np.where(np.isinf(k) | (k < 1), 1.0, k)
    inside = log_betainc(alpha, finite, beta / (beta + 1.0), -np.log1p(1.0 / beta), -np.log1p(beta), upper=True)
    return np.where(np.isinf(k), -np.inf, np.where(k < 1, 0.0, inside))


def _log_below(alpha: np.ndarray, beta: np.ndarray, k: np.ndarray) -> np.ndarray:
    """log P(X < k) of the negative binomial."""
    finite = np.where(np.isinf(k) | (k < 1), 1.0, k)
    inside = log_betainc(alpha, finite, beta / (beta + 1.0), -np.log1p(1.0 / beta), -np.log1p(beta))
    return np.where(np.isinf(k), 0.0, np.where(k < 1, -np.inf, inside))


class _Levels:
    """What Bernoulli and Categorical share: a Dirichlet on K levels, coded 0..K-1 on the last axis."""

    relative_scale: float
    family: ClassVar[str]

    def __post_init__(self) -> None:
        require_positive(type(self).__name__, "relative_scale", self.relative_scale)

    def constants(self, values: Any, resolution: float = 0.0, n_levels: int = 0) -> LeafConstants:
        """The number of levels; nothing is taken from the values."""
        if n_levels < 1:
            raise ValueError(f"{type(self).__name__}: n_levels must be at least 1, got {n_levels}")
        return LeafConstants(resolution=resolution, n_levels=int(n_levels))

    def prior(
        self, constants: LeafConstants, leaf_scale: Any, leaf_shape: Any = 1.5, precision_ratio: Any = 0.05
    ) -> DirichletLevels:
        """Dirichlet with ``1 / s`` at each level, s the leaf's scale; shape and ratio are not used."""
        s = require_positive(type(self).__name__, "leaf_scale", leaf_scale) * self.relative_scale
        s = np.asarray(s, dtype=np.float64)
        return DirichletLevels(np.repeat(1.0 / s[..., None], constants.n_levels, axis=-1))

    @classmethod
    def statistics(cls, values: Any, n_levels: int = 2) -> np.ndarray:
        """(..., K) number of values at each level, NaN left out."""
        x = np.asarray(values, dtype=np.float64)
        require_where(cls.__name__, f"levels 0..{n_levels - 1}", x, _is_count(x) & (x < n_levels))
        return (x[..., None] == np.arange(n_levels)).sum(axis=-2).astype(np.float64)

    @staticmethod
    def posterior(prior: DirichletLevels, statistics: np.ndarray) -> DirichletLevels:
        """Parameters after the data."""
        return DirichletLevels(prior.alpha + statistics)

    @staticmethod
    def log_marginal(prior: DirichletLevels, statistics: np.ndarray) -> np.ndarray:
        """Log marginal likelihood of the values (in their order) in nats."""
        counts = np.asarray(statistics, dtype=np.float64)
        return log_gamma_ratio(prior.alpha, counts).sum(axis=-1) - log_gamma_ratio(
            np.sum(prior.alpha, axis=-1), counts.sum(axis=-1)
        )

    @staticmethod
    def predictive_probabilities(params: DirichletLevels) -> np.ndarray:
        """(..., K) alpha / sum(alpha)."""
        alpha = np.asarray(params.alpha, dtype=np.float64)
        return alpha / alpha.sum(axis=-1, keepdims=True)

    @classmethod
    def predictive_log_density(cls, params: DirichletLevels, x: Any) -> np.ndarray:
        """Log mass, ``-inf`` off the levels."""
        return _log_mass(cls.predictive_probabilities(params), x)

    @classmethod
    def predictive_cdf(cls, params: DirichletLevels, x: Any) -> np.ndarray:
        """P(X <= x) in the order of the codes."""
        return _cumulative(cls.predictive_probabilities(params), x)

    @classmethod
    def predictive_interval(cls, params: DirichletLevels, low: Any, high: Any) -> np.ndarray:
        """P(low <= X <= high) over the codes, both ends included."""
        p = cls.predictive_probabilities(params)
        levels = np.arange(p.shape[-1])
        inside = (levels >= np.asarray(low)[..., None]) & (levels <= np.asarray(high)[..., None])
        return np.where(inside, p, 0.0).sum(axis=-1)

    @classmethod
    def predictive_log_interval(cls, params: DirichletLevels, low: Any, high: Any) -> np.ndarray:
        """log P(low <= X <= high) over the codes, both ends included."""
        with np.errstate(divide="ignore"):
            return np.log(cls.predictive_interval(params, low, high))

    @classmethod
    def predictive_mode(cls, params: DirichletLevels) -> np.ndarray:
        """Code of largest mass, the first of equals."""
        return np.argmax(np.asarray(params.alpha), axis=-1).astype(np.float64)

    @classmethod
    def predictive_draw(cls, params: DirichletLevels, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        """Random codes (float64) of shape `size`, or of the parameters."""
        p = cls.predictive_probabilities(params)
        cumulative = np.cumsum(p, axis=-1)[..., :-1]  # the last level takes what rounding leaves
        u = rng.random(p.shape[:-1] if size is None else size)
        return (u[..., None] >= cumulative).sum(axis=-1).astype(np.float64)


@own_names
@dataclass(frozen=True)
class Bernoulli(_Levels):
    """Bernoulli leaf on levels 0 and 1 with a Dirichlet (beta) prior.

    Parameters
    ----------
    relative_scale : float
        Factor on the column's ``leaf_scale`` for this palette entry.
    """

    relative_scale: float = 1.0
    family: ClassVar[str] = "bernoulli"

    def constants(self, values: Any, resolution: float = 0.0, n_levels: int = 2) -> LeafConstants:
        """Two levels; nothing is taken from the values."""
        if n_levels != 2:
            raise ValueError(f"Bernoulli: n_levels must be 2, got {n_levels}")
        return super().constants(values, resolution, n_levels)

    @classmethod
    def predictive_mean(cls, params: DirichletLevels) -> np.ndarray:
        """P(X = 1)."""
        return cls.predictive_probabilities(params)[..., 1]

    @classmethod
    def predictive_variance(cls, params: DirichletLevels) -> np.ndarray:
        """P(X = 0) P(X = 1)."""
        p = cls.predictive_probabilities(params)
        return p[..., 0] * p[..., 1]

    @staticmethod
    def draw_parameters(params: DirichletLevels, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        """Leaf parameters (..., 1): the probability of level 1."""
        alpha = np.asarray(params.alpha, dtype=np.float64)
        return rng.beta(alpha[..., 1], alpha[..., 0], size=alpha.shape[:-1] if size is None else size)[..., None]

    @staticmethod
    def leaf_log_density(parameters: np.ndarray, x: Any) -> np.ndarray:
        """Log mass of a leaf with parameters (..., 1), the probability of level 1."""
        return _log_mass(np.concatenate([1.0 - parameters, parameters], axis=-1), x)

    @staticmethod
    def parameter_problem(parameters: np.ndarray) -> tuple[int, str] | None:
        """First bad row of (n, p) leaf parameters and the rule it breaks."""
        if parameters.shape[1] != 1:
            return 0, "rows must be (probability of level 1,)"
        wrong = ~((parameters[:, 0] >= 0) & (parameters[:, 0] <= 1))
        return (int(np.argmax(wrong)), "the probability must be within 0 and 1") if np.any(wrong) else None


@own_names
@dataclass(frozen=True)
class Categorical(_Levels):
    """Categorical leaf on levels 0..K-1 with a Dirichlet prior. Its codes have no mean or variance.

    Parameters
    ----------
    relative_scale : float
        Factor on the column's ``leaf_scale`` for this palette entry.
    """

    relative_scale: float = 1.0
    family: ClassVar[str] = "categorical"

    @staticmethod
    def draw_parameters(params: DirichletLevels, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        """Leaf parameters (..., K): the probabilities of the levels."""
        alpha = np.asarray(params.alpha, dtype=np.float64)
        shape = (*(alpha.shape[:-1] if size is None else np.atleast_1d(size)), alpha.shape[-1])
        # log Gamma(a) draws as log Gamma(a + 1) + log(u) / a: small alpha does not underflow to 0 / 0
        log_g = np.log(rng.standard_gamma(alpha + 1.0, size=shape)) + np.log1p(-rng.random(shape)) / alpha
        g = np.exp(log_g - log_g.max(axis=-1, keepdims=True))
        return g / g.sum(axis=-1, keepdims=True)

    @staticmethod
    def leaf_log_density(parameters: np.ndarray, x: Any) -> np.ndarray:
        """Log mass of a leaf with parameters (..., K), the probabilities of the levels."""
        return _log_mass(parameters, x)

    @staticmethod
    def parameter_problem(parameters: np.ndarray) -> tuple[int, str] | None:
        """First bad row of (n, p) leaf parameters and the rule it breaks."""
        wrong = ~((parameters >= 0).all(axis=1) & (np.abs(parameters.sum(axis=1) - 1.0) < 1e-6))
        return (int(np.argmax(wrong)), "probabilities must be at least 0 and add up to 1") if np.any(wrong) else None


def _codes(p: np.ndarray, x: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(p, x, valid code or 0) broadcast against each other, levels of p on its last axis."""
    x = np.asarray(x, dtype=np.float64)
    shape = np.broadcast_shapes(p.shape[:-1], x.shape)
    x = np.broadcast_to(x, shape)
    return np.broadcast_to(p, (*shape, p.shape[-1])), x, np.where(_is_count(x) & (x < p.shape[-1]), x, 0.0)


def _log_mass(p: np.ndarray, x: Any) -> np.ndarray:
    p, x, code = _codes(p, x)
    with np.errstate(divide="ignore"):
        log_mass = np.log(np.take_along_axis(p, code[..., None].astype(np.int64), axis=-1)[..., 0])
    return np.where(np.isnan(x), np.nan, np.where(x == code, log_mass, -np.inf))


def _cumulative(p: np.ndarray, x: Any) -> np.ndarray:
    p, x, _ = _codes(p, x)
    below = np.where(np.arange(p.shape[-1]) <= x[..., None], p, 0.0).sum(axis=-1)
    return np.where(np.isnan(x), np.nan, np.minimum(below, 1.0))
