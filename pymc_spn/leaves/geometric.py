"""Leaves for counts of failures before a success: geometric, with a beta prior on the probability."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from pymc_spn.leaves.family_pieces import (
    LARGEST_SIZE,
    Kernels,
)
from pymc_spn.leaves.kernel_forms import COUNT, LINEAR, linear
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
from pymc_spn.leaves.negative_binomial import moments_within
from pymc_spn.leaves.tail_probabilities import counts_between, log_beta_ratio

MULTIPLIED = 64  # counts of an interval at most; the odds of stopping at each are small beside rounding otherwise


class BetaProbability(NamedTuple):
    """probability ~ Beta(alpha, beta)."""

    alpha: Any
    beta: Any


@dataclass(frozen=True)
class Geometric(CountEntry):
    """Geometric leaf on counts k = 0, 1, .. with mass p (1 - p)^k and a beta prior on p.

    The predictive is beta-geometric: P(X >= k) = B(alpha, beta + k) / B(alpha, beta).

    Parameters
    ----------
    mean : float, optional
        Mean of the column that the prior is built round; None takes it from the observed column.
    relative_scale : float
        Factor on the column's ``leaf_scale`` for this palette entry.

    Examples
    --------
    >>> visits = df.assign(visits=rng.geometric(0.1, 80) - 1)
    >>> fit = ps.fit_variational(visits, kinds={"visits": "count"}, leaves={"visits": [ps.leaves.Geometric()]})
    """

    family: ClassVar[str] = "geometric"

    def prior(
        self, constants: LeafConstants, leaf_scale: float, leaf_shape: float = 1.5, precision_ratio: float = 0.05
    ) -> BetaProbability:
        """Beta (alpha = 1 / s, beta = mean / s), s the leaf's scale: the odds against success are the mean."""
        s = np.asarray(require_positive("Geometric", "leaf_scale", leaf_scale) * self.relative_scale)
        return BetaProbability(1.0 / s, constants.mean / s)

    @staticmethod
    def statistics(values: npt.ArrayLike, n_levels: int = 0) -> Moments:
        """Moments of the values along the last axis, NaN left out."""
        require_where("Geometric", "counts", values, is_count(values))
        return moments(values)

    @staticmethod
    def posterior(prior: BetaProbability, statistics: Moments) -> BetaProbability:
        """Parameters after the data."""
        return BetaProbability(prior.alpha + statistics.n, prior.beta + statistics.n * statistics.mean)

    @staticmethod
    def log_marginal(prior: BetaProbability, statistics: Moments) -> np.ndarray:
        """Log marginal likelihood of the data in nats: B(alpha + n, beta + sum) / B(alpha, beta)."""
        n, total = statistics.n, statistics.n * statistics.mean
        return log_beta_ratio(prior.beta, prior.alpha, n) + log_beta_ratio(
            np.asarray(prior.alpha) + n, prior.beta, total
        )

    @staticmethod
    def predictive_log_density(params: BetaProbability, x: npt.ArrayLike) -> np.ndarray:
        """Log mass of the beta-geometric distribution, ``-inf`` off the counts."""
        x = np.asarray(x, dtype=np.float64)
        k = np.where(is_count(x), x, 0.0)
        alpha, beta = np.asarray(params.alpha, dtype=np.float64), np.asarray(params.beta, dtype=np.float64)
        log_mass = np.log(alpha / (alpha + beta + k)) + log_beta_ratio(alpha, beta, k)
        return np.where(np.isnan(x), np.nan, np.where(is_count(x), log_mass, -np.inf))

    @staticmethod
    def _log_at_least(params: BetaProbability, k: Any) -> np.ndarray:
        """log P(X >= k) for k >= 0 or infinite, in closed form."""
        k = np.asarray(k, dtype=np.float64)
        finite = np.where(np.isinf(k), 0.0, k)
        alpha, beta = np.asarray(params.alpha, dtype=np.float64), np.asarray(params.beta, dtype=np.float64)
        return np.where(np.isinf(k), -np.inf, log_beta_ratio(alpha, beta, finite))

    @staticmethod
    def predictive_cdf(params: BetaProbability, x: npt.ArrayLike) -> np.ndarray:
        """P(X <= x)."""
        x = np.asarray(x, dtype=np.float64)
        k = np.where((x >= 0) & np.isfinite(x), np.floor(x), 0.0)
        inside = -np.expm1(Geometric._log_at_least(params, k + 1.0))
        return np.where(np.isnan(x), np.nan, np.where(x < 0, 0.0, np.where(np.isposinf(x), 1.0, inside)))

    @staticmethod
    def predictive_log_interval(params: BetaProbability, low: npt.ArrayLike, high: npt.ArrayLike) -> np.ndarray:
        """log P(low <= X <= high), both ends included: of its first count or more, and then of no more than its last.

        The second factor by a product over the counts where they are few.
        """
        low, high = np.broadcast_arrays(np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64))
        first, last = np.maximum(np.ceil(low), 0.0), np.floor(high)
        empty = ~(last >= first) | np.isinf(first)
        start = np.where(empty, 0.0, first)
        n = np.where(empty, 1.0, last - start + 1.0)
        alpha, beta = np.asarray(params.alpha, dtype=np.float64), np.asarray(params.beta, dtype=np.float64)
        beyond = Geometric._log_at_least(BetaProbability(alpha, beta + start), n)
        few = np.broadcast_to((n <= MULTIPLIED) & (n < beta + start), beyond.shape)
        if np.any(few):
            alpha, first_odds, n = (np.broadcast_to(v, few.shape)[few] for v in (alpha, alpha + beta + start, n))
            offsets = np.arange(n.max())[:, None]
            factors = np.where(offsets < n, np.log1p(-alpha / (first_odds + offsets)), 0.0)
            beyond = np.array(beyond)
            beyond[few] = factors.sum(axis=0)
        with np.errstate(divide="ignore"):
            result = Geometric._log_at_least(params, start) + np.log(-np.expm1(beyond))
        return np.where(empty, -np.inf, result)

    @staticmethod
    def predictive_interval(params: BetaProbability, low: npt.ArrayLike, high: npt.ArrayLike) -> np.ndarray:
        """P(low <= X <= high), both ends included."""
        return np.exp(Geometric.predictive_log_interval(params, low, high))

    @staticmethod
    def predictive_mean(params: BetaProbability) -> np.ndarray:
        """Mean beta / (alpha - 1), infinite for alpha <= 1."""
        alpha = np.asarray(params.alpha, dtype=np.float64)
        return np.where(alpha > 1.0, params.beta / np.where(alpha > 1.0, alpha - 1.0, 1.0), np.inf)

    @staticmethod
    def predictive_variance(params: BetaProbability) -> np.ndarray:
        """Variance, infinite for 1 < alpha <= 2, NaN below, where the mean is infinite."""
        alpha, beta = np.asarray(params.alpha, dtype=np.float64), np.asarray(params.beta, dtype=np.float64)
        a = np.where(alpha > 2.0, alpha, 3.0)
        finite = a * beta * (a + beta - 1.0) / (np.square(a - 1.0) * (a - 2.0))
        return np.where(alpha > 2.0, finite, np.where(alpha > 1.0, np.inf, np.nan))

    @staticmethod
    def predictive_mode(params: BetaProbability) -> np.ndarray:
        """Count of largest mass, 0."""
        return np.zeros(np.broadcast_shapes(*(np.shape(p) for p in params)))

    @staticmethod
    def predictive_draw(
        params: BetaProbability, rng: np.random.Generator, size: int | tuple[int, ...] | None = None
    ) -> np.ndarray:
        """Random counts (float64) of shape `size`, or of the parameters."""
        return draw_failures(Geometric.draw_parameters(params, rng, size)[..., 0], rng)

    @staticmethod
    def draw_parameters(
        params: BetaProbability, rng: np.random.Generator, size: int | tuple[int, ...] | None = None
    ) -> np.ndarray:
        """Leaf parameters (..., 1): the probability, kept off 0 and 1 where a draw rounds to them."""
        size = np.broadcast_shapes(*(np.shape(p) for p in params)) if size is None else size
        p = rng.beta(params.alpha, params.beta, size=size)
        return np.clip(p, np.finfo(np.float64).tiny, 1.0 - 2.0**-53)[..., None]

    @staticmethod
    def leaf_log_density(parameters: np.ndarray, x: npt.ArrayLike) -> np.ndarray:
        """Log mass of a leaf with parameters (..., 1), the probability."""
        p, x = parameters[..., 0], np.asarray(x, dtype=np.float64)
        k = np.where(is_count(x), x, 0.0)
        log_mass = np.log(p) + k * np.log1p(-p)
        return np.where(np.isnan(x), np.nan, np.where(is_count(x), log_mass, -np.inf))

    @staticmethod
    def parameter_problem(parameters: np.ndarray) -> tuple[int, str] | None:
        """First bad row of (n, p) leaf parameters and the rule it breaks."""
        if parameters.shape[1] != 1:
            return 0, "rows must be (probability,)"
        wrong = ~((parameters[:, 0] > 0) & (parameters[:, 0] < 1))
        return (int(np.argmax(wrong)), "the probability must be above 0 and below 1") if np.any(wrong) else None


def draw_failures(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Geometric counts (float64) of probabilities p, also where no integer holds them."""
    with np.errstate(divide="ignore", over="ignore"):
        drawn = np.floor(-rng.standard_exponential(p.shape) / np.log1p(-p))
    return np.minimum(drawn, np.finfo(np.float64).max)


def _log_interval(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    first, last, empty = counts_between(low, high)
    log_going_on = np.log1p(-p[..., 0])
    out = first * log_going_on + np.log(-np.expm1((last - first + 1.0) * log_going_on))
    return np.where(empty, -np.inf, out)


def _moments_within(p: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    return moments_within(GammaRate(np.ones(p.shape[:-1]), p[..., 0] / (1.0 - p[..., 0])), low, high)


def _coefficients(theta, width, out):
    out[0] = math.log(theta[0])
    out[1] = math.log1p(-theta[0])


def _add_gradient(theta, width, u, x, flow, out):
    out[0] += flow * (1.0 / theta[0] - u / (1.0 - theta[0]))


def _draw_one(rng, theta):
    return min(np.floor(-rng.standard_exponential() / math.log1p(-theta[0])), LARGEST_SIZE)


def _are_valid(theta):
    return 0.0 < theta[0] < 1.0


GEOMETRIC = UnivariateFamily(
    name="geometric",
    n_parameters=1,
    is_density=False,
    log_density=Geometric.leaf_log_density,
    check=Geometric.parameter_problem,
    mean=lambda p: (1.0 - p[..., 0]) / p[..., 0],
    variance=lambda p: (1.0 - p[..., 0]) / np.square(p[..., 0]),
    mode=lambda p: np.zeros(p.shape[:-1]),
    draw=lambda p, rng: draw_failures(p[..., 0], rng),
    log_interval=_log_interval,
    lowest=0.0,
    moments_within=_moments_within,
    kernels=Kernels(LINEAR, COUNT, linear, _coefficients, _add_gradient, _draw_one, _are_valid),
)
