"""Leaves for counts of successes among a known number of trials: binomial, with a beta prior on the probability."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from pymc_spn.leaves.family_pieces import Kernels
from pymc_spn.leaves.kernel_forms import FACTORIAL, FALLING, IMPOSSIBLE
from pymc_spn.leaves.leaf_family import UnivariateFamily, checked_rows, on_counts
from pymc_spn.leaves.leaf_statistics import (
    LeafConstants,
    Moments,
    moments,
    observed_values,
    require_positive,
    require_where,
)
from pymc_spn.leaves.palette_entry import PaletteEntry
from pymc_spn.leaves.tail_probabilities import counts_between, log_betainc, log_difference, log_gamma_ratio
from pymc_spn.numerics.elementary import digamma
from pymc_spn.numerics.quoted_values import quoted

SUMMED = 256  # counts of an interval that are summed at a time
LARGEST_TRIALS = 2.0**53  # beyond it float64 does not tell whole numbers apart
TRIALS_RULE = "from 1 to 2^53"


class BetaTrials(NamedTuple):
    """probability ~ Beta(alpha, beta), of each of so many trials."""

    alpha: Any
    beta: Any
    trials: Any


@dataclass(frozen=True)
class Binomial(PaletteEntry):
    """Binomial leaf on counts 0 .. n_trials of successes, with a beta prior on the probability of success.

    The predictive is beta-binomial. No count of the column may exceed ``n_trials``, whatever else its palette holds.

    Parameters
    ----------
    n_trials : int
        Number of trials, at least 1; of ratings from 0 to 10 it is 10.
    mean : float, optional
        Mean of the column that the prior is built round, above 0 and below ``n_trials``; None takes it from the
        observed column.
    relative_scale : float
        Factor on the column's ``leaf_scale`` for this palette entry.

    Examples
    --------
    >>> hits = df.assign(hits=rng.binomial(20, 0.4, 80))
    >>> fit = ps.fit_variational(hits, kinds={"hits": "count"}, leaves={"hits": [ps.leaves.Binomial(20)]})
    """

    n_trials: int
    mean: float | None = None
    relative_scale: float = 1.0
    family: ClassVar[str] = "binomial"
    kinds: ClassVar[tuple[str, ...]] = ("count",)

    def __post_init__(self) -> None:
        n = self.n_trials
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(f"Binomial: n_trials must be an integer of at least 1, got {quoted(n)}")
        object.__setattr__(self, "n_trials", int(n))  # NumPy's integers are none to JSON
        if self.mean is not None and not 0.0 < self.mean < n:
            raise ValueError(f"Binomial: mean must be above 0 and below n_trials={n}, got {self.mean}")
        require_positive("Binomial", "relative_scale", self.relative_scale)

    @property
    def largest(self) -> float:  # type: ignore[override]
        """The number of trials."""
        return float(self.n_trials)

    def refuse_column(self, name: str, values: np.ndarray) -> None:
        """Counts above the number of trials."""
        above = np.flatnonzero(values > self.n_trials)
        if above.size:
            raise ValueError(
                f"leaves[{name!r}]: Binomial leaves with n_trials={self.n_trials} need counts of at most "
                f"{self.n_trials}; column {name!r} has {values[above[0]]:g} at position {above[0]}"
            )

    def completed(self, observed: np.ndarray, grid: float) -> Self:
        """With the mean of the column."""
        if self.mean is not None:
            return self
        return replace(self, mean=self.constants(observed).mean if observed.size else 0.5 * self.n_trials)

    def fitted(self, sample: np.ndarray, observed: np.ndarray, floor: float, grid: float) -> Self:
        """With the mean of the sample, since there is no closed form."""
        return replace(self, mean=None).completed(sample, grid)

    def coded_constants(self, centre: float, scale: float, grid: float) -> tuple[float, float, float]:
        """Mean and number of trials."""
        assert self.mean is not None
        return self.mean, float(self.n_trials), 0.0

    def constants(self, values: npt.ArrayLike, resolution: float = 0.0, n_levels: int = 0) -> LeafConstants:
        """Mean of the observed values where the entry does not give it.

        A column without a success, or without a failure, counts as half of one in all its rows.
        """
        mean = self.mean
        if mean is None:
            x = observed_values("Binomial", values)
            self._require_counts(x)
            mean = min(max(float(x.sum()), 0.5), x.size * self.n_trials - 0.5) / x.size
        return LeafConstants(mean=mean, resolution=resolution)

    def _require_counts(self, values: Any) -> None:
        x = np.asarray(values, dtype=np.float64)
        allowed = (x >= 0) & (x <= self.n_trials) & (x == np.floor(x))
        require_where("Binomial", f"counts of at most n_trials={self.n_trials}", x, allowed)

    def prior(
        self, constants: LeafConstants, leaf_scale: float, leaf_shape: float = 1.5, precision_ratio: float = 0.05
    ) -> BetaTrials:
        """Beta with alpha + beta = 1 / s trials, s the leaf's scale, and the column's mean."""
        s = np.asarray(require_positive("Binomial", "leaf_scale", leaf_scale) * self.relative_scale)
        share, n = constants.mean / self.n_trials, float(self.n_trials)
        return BetaTrials(share / s, (n - constants.mean) / n / s, n)

    def statistics(self, values: npt.ArrayLike, n_levels: int = 0) -> Moments:
        """Moments and the sum of the log binomial coefficients along the last axis, NaN left out."""
        self._require_counts(values)
        x = np.asarray(values, dtype=np.float64)
        log_choose = _log_choose(float(self.n_trials), np.nan_to_num(x))
        return moments(x)._replace(log_base=np.where(np.isnan(x), 0.0, log_choose).sum(axis=-1))

    @staticmethod
    def posterior(prior: BetaTrials, statistics: Moments) -> BetaTrials:
        """Parameters after the data."""
        n, mean = statistics.n, statistics.mean
        return BetaTrials(prior.alpha + n * mean, prior.beta + n * (prior.trials - mean), prior.trials)

    @staticmethod
    def log_marginal(prior: BetaTrials, statistics: Moments) -> np.ndarray:
        """Log marginal likelihood of the data in nats; needs ``log_base``."""
        n, mean = statistics.n, statistics.mean
        return (
            log_gamma_ratio(prior.alpha, n * mean)
            + log_gamma_ratio(prior.beta, n * (prior.trials - mean))
            - log_gamma_ratio(np.asarray(prior.alpha) + prior.beta, n * prior.trials)
            + statistics.log_base
        )

    @staticmethod
    def predictive_log_density(params: BetaTrials, x: npt.ArrayLike) -> np.ndarray:
        """Log mass of the beta-binomial distribution, ``-inf`` off the counts 0 .. trials."""
        alpha, beta, trials = (np.asarray(v, dtype=np.float64) for v in params)

        def log_mass(k: np.ndarray) -> np.ndarray:
            inside = k <= trials
            k = np.where(inside, k, 0.0)
            both = log_gamma_ratio(alpha, k) + log_gamma_ratio(beta, trials - k)
            logs = _log_choose(trials, k) + both - log_gamma_ratio(alpha + beta, trials)
            return np.where(inside, logs, -np.inf)

        return on_counts(x, log_mass)

    @staticmethod
    def predictive_cdf(params: BetaTrials, x: npt.ArrayLike) -> np.ndarray:
        """P(X <= x)."""
        x = np.asarray(x, dtype=np.float64)
        below = np.exp(Binomial.predictive_log_interval(params, -np.inf, np.where(np.isnan(x), -1.0, x)))
        return np.where(np.isnan(x), np.nan, below)

    @staticmethod
    def predictive_log_interval(params: BetaTrials, low: npt.ArrayLike, high: npt.ArrayLike) -> np.ndarray:
        """log P(low <= X <= high), both ends included, by the sum of the masses in logs: accurate in both tails."""
        alpha, beta, trials, low, high = np.broadcast_arrays(
            *(np.asarray(v, dtype=np.float64) for v in (*params, low, high))
        )
        first, last = np.maximum(np.ceil(low), 0.0), np.minimum(np.floor(high), trials)
        some = last >= first
        result = np.full(alpha.shape, -np.inf)
        n_terms = int(np.max(np.where(some, last, -1.0) - np.where(some, first, 0.0), initial=-1.0)) + 1
        one = BetaTrials(alpha[..., None], beta[..., None], trials[..., None])
        for start in range(0, n_terms, SUMMED):
            k = np.where(some, first, 0.0)[..., None] + np.arange(start, min(start + SUMMED, n_terms))
            inside = some[..., None] & (k <= last[..., None])
            logs = np.where(inside, Binomial.predictive_log_density(one, k), -np.inf)
            top = logs.max(axis=-1)
            shift = np.where(np.isneginf(top), 0.0, top)
            with np.errstate(divide="ignore"):
                result = np.logaddexp(result, shift + np.log(np.exp(logs - shift[..., None]).sum(axis=-1)))
        return np.where(some & (first == 0.0) & (last == trials), 0.0, np.minimum(result, 0.0))

    @staticmethod
    def predictive_interval(params: BetaTrials, low: npt.ArrayLike, high: npt.ArrayLike) -> np.ndarray:
        """P(low <= X <= high), both ends included."""
        return np.exp(Binomial.predictive_log_interval(params, low, high))

    @staticmethod
    def predictive_mean(params: BetaTrials) -> np.ndarray:
        """Mean trials alpha / (alpha + beta)."""
        alpha = np.asarray(params.alpha, dtype=np.float64)
        return params.trials * (alpha / (alpha + params.beta))

    @staticmethod
    def predictive_variance(params: BetaTrials) -> np.ndarray:
        """Variance m p (1 - p) (a + b + m) / (a + b + 1), m trials of mean probability p."""
        alpha, beta = np.asarray(params.alpha, dtype=np.float64), np.asarray(params.beta, dtype=np.float64)
        both = alpha + beta
        return params.trials * (alpha / both) * (beta / both) * ((both + params.trials) / (both + 1.0))

    @staticmethod
    def predictive_mode(params: BetaTrials) -> np.ndarray:
        """Smallest count of largest mass, up to ties.

        P(x + 1) >= P(x) if and only if x (a + b - 2) <= m (a - 1) - (b - 1): one peak where a + b > 2, else the
        larger end.
        """
        alpha, beta, m = (np.asarray(v, dtype=np.float64) for v in params)
        peaked = alpha + beta > 2.0
        turn = (m * (alpha - 1.0) - (beta - 1.0)) / np.where(peaked, alpha + beta - 2.0, 1.0)
        return np.where(peaked, np.clip(np.ceil(turn), 0.0, m), np.where(alpha > beta, m, 0.0))

    @staticmethod
    def predictive_draw(
        params: BetaTrials, rng: np.random.Generator, size: int | tuple[int, ...] | None = None
    ) -> np.ndarray:
        """Random counts (float64) of shape `size`, or of the parameters."""
        return _draw(Binomial.draw_parameters(params, rng, size), rng)

    @staticmethod
    def draw_parameters(
        params: BetaTrials, rng: np.random.Generator, size: int | tuple[int, ...] | None = None
    ) -> np.ndarray:
        """Leaf parameters (..., 2): trials and probability, kept off 0 and 1 where a draw rounds to them."""
        size = np.broadcast_shapes(*(np.shape(p) for p in params)) if size is None else size
        p = np.clip(rng.beta(params.alpha, params.beta, size=size), np.finfo(np.float64).tiny, 1.0 - 2.0**-53)
        return np.stack(np.broadcast_arrays(np.asarray(params.trials, dtype=np.float64), p), axis=-1)

    @staticmethod
    def leaf_log_density(parameters: np.ndarray, x: npt.ArrayLike) -> np.ndarray:
        """Log mass of a leaf with parameters (..., 2), trials and probability."""
        return _log_density(parameters, x)

    @staticmethod
    def parameter_problem(parameters: np.ndarray) -> tuple[int, str] | None:
        """First bad row of (n, p) leaf parameters and the rule it breaks."""
        return BINOMIAL.check(parameters)


def _log_choose(n: Any, k: np.ndarray) -> np.ndarray:
    """Log binomial coefficients of counts k <= n, 0 at both ends."""
    fewer = np.minimum(k, n - k)
    return log_gamma_ratio(n - fewer + 1.0, fewer) - gammaln(fewer + 1.0)


def _log_density(p: np.ndarray, x: Any) -> np.ndarray:
    n, success = p[..., 0], p[..., 1]

    def log_mass(k: np.ndarray) -> np.ndarray:
        rest = np.maximum(n - k, 0.0)
        choose = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(rest + 1.0)
        return np.where(k <= n, choose + k * np.log(success) + rest * np.log1p(-success), -np.inf)

    return on_counts(x, log_mass)


def are_trials(n: np.ndarray) -> np.ndarray:
    """Whether numbers are such of trials, see `TRIALS_RULE`."""
    return (n >= 1) & (n <= LARGEST_TRIALS) & (n == np.floor(n))


def _mode(p: np.ndarray) -> np.ndarray:
    return np.minimum(np.floor((p[..., 0] + 1.0) * p[..., 1]), p[..., 0])


def _draw(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.binomial(p[..., 0].astype(np.int64), p[..., 1]).astype(np.float64)


def _log_interval(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    n, success, first, last, empty = np.broadcast_arrays(p[..., 0], p[..., 1], *counts_between(low, high))
    above = first > n * success
    upper = log_difference(_tail(n, success, first, True), _tail(n, success, last + 1.0, True))
    lower = log_difference(_tail(n, success, last, False), _tail(n, success, first - 1.0, False))
    one = _log_density(np.stack([n, success], axis=-1), np.where(np.isinf(first), 0.0, first))
    return np.where(empty, -np.inf, np.where(first == last, one, np.where(above, upper, lower)))


def _tail(n: np.ndarray, success: np.ndarray, k: np.ndarray, above: bool) -> np.ndarray:
    """log P(X >= k), or log P(X <= k), at whole k."""
    sure, never = (k < 1.0, k > n) if above else (k >= n, k < 0.0)
    k = np.where(sure | never, 1.0 if above else 0.0, k)
    log_success, log_failure = np.log(success), np.log1p(-success)
    if above:
        inside = log_betainc(k, n - k + 1.0, success, log_success, log_failure)
    else:
        inside = log_betainc(n - k, k + 1.0, 1.0 - success, log_failure, log_success)
    return np.where(never, -np.inf, np.where(sure, 0.0, inside))


def _coefficients(theta, width, out):
    out[0] = math.lgamma(theta[0] + 1.0) + theta[0] * math.log1p(-theta[1])
    out[1] = math.log(theta[1]) - math.log1p(-theta[1])
    out[2] = theta[0]


def _form(lead, a, b, c, table, u):
    return lead + a * u - math.lgamma(b - u + 1.0) if u <= b else IMPOSSIBLE


def _add_gradient(theta, width, u, x, flow, out):
    if u <= theta[0]:  # the number of trials as if it were continuous
        out[0] += flow * (digamma(theta[0] + 1.0) - digamma(theta[0] - u + 1.0) + math.log1p(-theta[1]))
        out[1] += flow * (u / theta[1] - (theta[0] - u) / (1.0 - theta[1]))


def _draw_one(rng, theta):
    return float(rng.binomial(int(theta[0]), theta[1]))


def _are_valid(theta):
    n = theta[0]
    return 1.0 <= n <= LARGEST_TRIALS and n == np.floor(n) and 0.0 < theta[1] < 1.0


BINOMIAL = UnivariateFamily(
    name="binomial",
    n_parameters=2,
    is_density=False,
    log_density=_log_density,
    check=checked_rows(
        "number of trials, probability",
        f"number of trials must be a whole number {TRIALS_RULE}, probability above 0 and below 1",
        lambda p: are_trials(p[:, 0]) & (p[:, 1] > 0) & (p[:, 1] < 1),
    ),
    mean=lambda p: p[..., 0] * p[..., 1],
    variance=lambda p: p[..., 0] * p[..., 1] * (1.0 - p[..., 1]),
    mode=_mode,
    draw=_draw,
    log_interval=_log_interval,
    lowest=0.0,
    ends=lambda p: (np.zeros(len(p)), p[:, 0]),
    kernels=Kernels(FALLING, FACTORIAL, _form, _coefficients, _add_gradient, _draw_one, _are_valid),
)
