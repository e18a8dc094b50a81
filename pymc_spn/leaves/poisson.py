"""Poisson leaves on counts, with a rate, and their conjugate prior.

Formulas: Yokoi and Sato (2024), Table 8.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, gammainc, gammaincc, gammaln, xlogy

from pymc_spn.leaves.family_pieces import (
    LARGEST_SIZE,
    Kernels,
)
from pymc_spn.leaves.kernel_forms import FACTORIAL, LINEAR, all_positive, linear
from pymc_spn.leaves.leaf_family import UnivariateFamily
from pymc_spn.leaves.leaf_statistics import (
    GammaRate,
    LeafConstants,
    Moments,
    is_count,
    moments,
    require_positive,
    require_where,
)
from pymc_spn.leaves.mean_entries import CountEntry
from pymc_spn.leaves.tail_probabilities import (
    UNDERFLOW,
    counts_between,
    log_betainc,
    log_difference,
    log_gamma_ratio,
)
from pymc_spn.numerics.elementary import fast_log
from pymc_spn.numerics.kernel_options import inner_kernel

LARGEST_DRAWN = 2.0**60  # rate up to which NumPy's generator draws; a normal variate is as good far below it
SUMMED_COUNTS = 64  # an interval of at most so many counts is summed term by term
SERIES_TERMS = 100_000


@dataclass(frozen=True)
class Poisson(CountEntry):
    """Poisson leaf on counts with a gamma prior on the rate.

    Parameters
    ----------
    mean : float, optional
        Mean of the column that the prior is built round; None takes it from the observed column.
    relative_scale : float
        Factor on the column's ``leaf_scale`` for this palette entry.

    Examples
    --------
    >>> visits = df.assign(visits=rng.poisson(30, 80))
    >>> fit = ps.fit_variational(visits, kinds={"visits": "count"}, leaves={"visits": [ps.leaves.Poisson()]})
    """

    family: ClassVar[str] = "poisson"

    def prior(
        self, constants: LeafConstants, leaf_scale: float, leaf_shape: float = 1.5, precision_ratio: float = 0.05
    ) -> GammaRate:
        """Gamma (alpha = 1 / s, beta = alpha / mean), s the leaf's scale; shape and ratio are not used."""
        s = require_positive("Poisson", "leaf_scale", leaf_scale) * self.relative_scale
        return GammaRate(1.0 / np.asarray(s), 1.0 / (np.asarray(s) * constants.mean))

    @staticmethod
    def statistics(values: npt.ArrayLike, n_levels: int = 0) -> Moments:
        """Moments and minus the sum of log x! along the last axis, NaN left out."""
        require_where("Poisson", "counts", values, is_count(values))
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
    def predictive_log_density(params: GammaRate, x: npt.ArrayLike) -> np.ndarray:
        """Log mass of the negative binomial with success probability beta / (beta + 1)."""
        x, beta = np.asarray(x, dtype=np.float64), np.asarray(params.beta, dtype=np.float64)
        k = np.where(is_count(x), x, 0.0)
        log_mass = (
            log_gamma_ratio(params.alpha, k)
            - gammaln(k + 1.0)
            - params.alpha * np.log1p(1.0 / beta)
            - k * np.log1p(beta)
        )
        return np.where(np.isnan(x), np.nan, np.where(is_count(x), log_mass, -np.inf))

    @staticmethod
    def predictive_cdf(params: GammaRate, x: npt.ArrayLike) -> np.ndarray:
        """P(X <= x)."""
        x, beta = np.asarray(x, dtype=np.float64), np.asarray(params.beta, dtype=np.float64)
        k = np.where((x >= 0) & np.isfinite(x), np.floor(x), 0.0)
        inside = betainc(params.alpha, k + 1.0, beta / (beta + 1.0))
        return np.where(np.isnan(x), np.nan, np.where(x < 0, 0.0, np.where(np.isposinf(x), 1.0, inside)))

    @staticmethod
    def predictive_log_interval(params: GammaRate, low: npt.ArrayLike, high: npt.ArrayLike) -> np.ndarray:
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
    def predictive_interval(params: GammaRate, low: npt.ArrayLike, high: npt.ArrayLike) -> np.ndarray:
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
    def predictive_draw(
        params: GammaRate, rng: np.random.Generator, size: int | tuple[int, ...] | None = None
    ) -> np.ndarray:
        """Random counts (float64) of shape `size`, or of the parameters."""
        return draw_counts(Poisson.draw_parameters(params, rng, size)[..., 0], rng)

    @staticmethod
    def draw_parameters(
        params: GammaRate, rng: np.random.Generator, size: int | tuple[int, ...] | None = None
    ) -> np.ndarray:
        """Leaf parameters (..., 1): the rate."""
        size = np.broadcast_shapes(*(np.shape(p) for p in params)) if size is None else size
        return rng.gamma(params.alpha, 1.0 / np.asarray(params.beta), size=size)[..., None]

    @staticmethod
    def leaf_log_density(parameters: np.ndarray, x: npt.ArrayLike) -> np.ndarray:
        """Log mass of a leaf with parameters (..., 1), the rate."""
        rate, x = parameters[..., 0], np.asarray(x, dtype=np.float64)
        k = np.where(is_count(x), x, 0.0)
        log_mass = xlogy(k, rate) - rate - gammaln(k + 1.0)
        return np.where(np.isnan(x), np.nan, np.where(is_count(x), log_mass, -np.inf))

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


def _log_interval(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    rate, first, last, empty = np.broadcast_arrays(p[..., 0], *counts_between(low, high))
    above = first > rate  # measure in the tail that holds the interval
    upper = log_difference(_tail(rate, first, True), _tail(rate, last + 1.0, True))
    lower = log_difference(_tail(rate, last, False), _tail(rate, first - 1.0, False))
    one = Poisson.leaf_log_density(rate[..., None], np.where(np.isinf(first), 0.0, first))
    out = np.where(first == last, one, np.where(above, upper, lower))
    return np.where(empty, -np.inf, out)


def _tail(rate: np.ndarray, k: np.ndarray, above: bool) -> np.ndarray:
    """log P(X >= k), or log P(X <= k), at whole k; also where they underflow."""
    if above:
        trivial, impossible = k < 1.0, np.isposinf(k)
    else:
        trivial, impossible = np.isposinf(k), k < 0.0
    inside = np.where(trivial | impossible, 1.0, k)
    plain = gammainc(inside, rate) if above else gammaincc(inside + 1.0, rate)
    with np.errstate(divide="ignore"):
        out = np.array(np.log(plain))  # of one number, too, an array
    lost = ~(trivial | impossible) & (plain < UNDERFLOW)
    if np.any(lost):
        r, at = rate[lost], inside[lost]
        term, total = np.ones(r.size), np.ones(r.size)
        for n in range(SERIES_TERMS):  # ratios of neighbouring masses, all below one so far out
            term = term * (r / (at + n + 1.0) if above else np.maximum(at - n, 0.0) / r)
            total = total + term
            if np.all(term < 1e-17 * total):
                break
        out[lost] = Poisson.leaf_log_density(r[:, None], at) + np.log(total)
    return np.where(impossible, -np.inf, np.where(trivial, 0.0, out))


def _coefficients(theta, width, out):
    out[0] = -theta[0]
    out[1] = fast_log(theta[0])


def _add_gradient(theta, width, u, x, flow, out):
    out[0] += flow * (u / theta[0] - 1.0)


@inner_kernel
def draw_count(rng, rate):
    """A count; beyond what integers hold a normal variate, as in `draw_counts`."""
    if rate <= LARGEST_DRAWN:
        return float(rng.poisson(rate))
    rate = min(rate, LARGEST_SIZE)
    return min(np.rint(rate + math.sqrt(rate) * rng.standard_normal()), LARGEST_SIZE)


def _draw_one(rng, theta):
    return draw_count(rng, theta[0])


POISSON = UnivariateFamily(
    name="poisson",
    n_parameters=1,
    is_density=False,
    log_density=Poisson.leaf_log_density,
    check=Poisson.parameter_problem,
    mean=lambda p: p[..., 0],
    variance=lambda p: p[..., 0],
    mode=lambda p: np.floor(p[..., 0]),
    draw=lambda p, rng: draw_counts(p[..., 0], rng),
    log_interval=_log_interval,
    lowest=0.0,
    kernels=Kernels(LINEAR, FACTORIAL, linear, _coefficients, _add_gradient, _draw_one, all_positive),
)
