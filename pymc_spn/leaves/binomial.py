"""Leaves for counts of successes among a known number of trials: binomial, and beta-binomial.

The second are the first with the probability of success integrated out.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import gammaln

from pymc_spn.leaves.conjugate_pieces import BETA_PRIOR, Conjugate
from pymc_spn.leaves.family_pieces import Kernels, Predictive
from pymc_spn.leaves.geometric import draw_probabilities
from pymc_spn.leaves.interval_moments import from_factorial
from pymc_spn.leaves.kernel_forms import FACTORIAL, FALLING, IMPOSSIBLE, URN
from pymc_spn.leaves.leaf_family import UnivariateFamily, checked_rows, on_counts
from pymc_spn.leaves.palette_entry import PaletteEntry
from pymc_spn.leaves.tail_probabilities import counts_between, log_betainc, log_difference, log_gamma_ratio
from pymc_spn.numerics.elementary import digamma
from pymc_spn.numerics.gamma_draws import log_gamma_draw
from pymc_spn.numerics.gamma_ratios import log_rising, log_rising_from
from pymc_spn.numerics.kernel_options import bare_inner_kernel
from pymc_spn.numerics.quoted_values import quoted

SUMMED = 256  # counts of an interval that are summed at a time
HELD = 4_000_000  # masses held at a time (32 MB)
LARGEST_TRIALS = 2.0**53  # beyond it float64 does not tell whole numbers apart
TRIALS_RULE = "from 1 to 2^53"


@dataclass(frozen=True)
class Binomial(PaletteEntry):
    """Binomial leaf on counts of successes, with a beta prior on their probability.

    Counts are 0 .. n_trials. The predictive is beta-binomial. No count of the column may exceed ``n_trials``, whatever
    other leaves the column has.

    Parameters
    ----------
    n_trials : int
        Number of trials, at least 1; for ratings from 0 to 10 it is 10.
    mean : float, optional
        Mean of the column that the prior is built around, above 0 and below ``n_trials``; None takes it from the
        observed column.
    relative_scale : float
        Factor on the column's ``leaf_scale`` for these leaves.

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
        super().__post_init__()

    @property
    def largest(self) -> float:  # type: ignore[override]
        """Number of trials."""
        return float(self.n_trials)

    def refuse_column(self, name: str, values: np.ndarray) -> None:
        """Refuse counts above the number of trials."""
        above = np.flatnonzero(values > self.n_trials)
        if above.size:
            raise ValueError(
                f"leaves[{name!r}]: Binomial leaves with n_trials={self.n_trials} need counts of at most "
                f"{self.n_trials}; column {name!r} has {values[above[0]]:g} at position {above[0]}"
            )

    def completed(self, observed: np.ndarray, grid: float) -> Self:
        """Return the entry with the mean of the column.

        If the column has no success, or no failure, it counts as if all its rows together had half of one.
        """
        if self.mean is not None:
            return self
        n, total = observed.size, float(observed.sum())
        mean = min(max(total, 0.5), n * self.n_trials - 0.5) / n if n else 0.5 * self.n_trials
        return replace(self, mean=mean)

    def fitted(self, sample: np.ndarray, observed: np.ndarray, floor: float, grid: float) -> Self:
        """Return the entry with the mean of the sample, since there is no closed form."""
        return replace(self, mean=None).completed(sample, grid)

    def coded_constants(self, centre: float, scale: float, grid: float) -> tuple[float, float, float]:
        """Return the mean and the number of trials."""
        assert self.mean is not None
        return self.mean, float(self.n_trials), 0.0


def draw_successes_and_trials(posteriors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Trials and probability (n, 2) from beta posteriors (alpha, beta, trials, ..)."""
    return np.stack([posteriors[:, 2], draw_probabilities(posteriors, rng)], axis=-1)


def _mixed_log_mass(p: np.ndarray, x: Any) -> np.ndarray:
    """Log mass of the beta-binomial distribution (..., 3), ``-inf`` off the counts 0 .. trials."""
    trials, alpha, beta = p[..., 0], p[..., 1], p[..., 2]

    def log_mass(k: np.ndarray) -> np.ndarray:
        inside = k <= trials
        k = np.where(inside, k, 0.0)
        both = log_gamma_ratio(alpha, k) + log_gamma_ratio(beta, trials - k)
        logs = _log_choose(trials, k) + both - log_gamma_ratio(alpha + beta, trials)
        return np.where(inside, logs, -np.inf)

    return on_counts(x, log_mass)


def _mixed_log_interval(p: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """log P(low <= X <= high), both ends included, by the sum of the masses in logs: accurate in both tails."""
    trials, alpha, beta, low, high = np.broadcast_arrays(p[..., 0], p[..., 1], p[..., 2], low, high)
    first, last = np.maximum(np.ceil(low), 0.0), np.minimum(np.floor(high), trials)
    some = last >= first
    result = np.full(alpha.shape, -np.inf)
    n_terms = int(np.max(np.where(some, last, -1.0) - np.where(some, first, 0.0), initial=-1.0)) + 1
    one = np.stack([trials, alpha, beta], axis=-1)[..., None, :]
    for start in range(0, n_terms, SUMMED):
        k = np.where(some, first, 0.0)[..., None] + np.arange(start, min(start + SUMMED, n_terms))
        inside = some[..., None] & (k <= last[..., None])
        logs = np.where(inside, _mixed_log_mass(one, k), -np.inf)
        top = logs.max(axis=-1)
        shift = np.where(np.isneginf(top), 0.0, top)
        with np.errstate(divide="ignore"):
            result = np.logaddexp(result, shift + np.log(np.exp(logs - shift[..., None]).sum(axis=-1)))
    return np.where(some & (first == 0.0) & (last == trials), 0.0, np.minimum(result, 0.0))


def _mixed_mean(p: np.ndarray) -> np.ndarray:
    return p[..., 0] * (p[..., 1] / (p[..., 1] + p[..., 2]))


def _mixed_variance(p: np.ndarray) -> np.ndarray:
    """m p (1 - p) (a + b + m) / (a + b + 1), m trials of mean probability p."""
    trials, alpha, beta = p[..., 0], p[..., 1], p[..., 2]
    both = alpha + beta
    return trials * (alpha / both) * (beta / both) * ((both + trials) / (both + 1.0))


def _mixed_mode(p: np.ndarray) -> np.ndarray:
    """Smallest count of largest mass, up to ties.

    P(x + 1) >= P(x) if and only if x (a + b - 2) <= m (a - 1) - (b - 1): one peak where a + b > 2, else the
    larger end.
    """
    m, alpha, beta = p[..., 0], p[..., 1], p[..., 2]
    peaked = alpha + beta > 2.0
    turn = (m * (alpha - 1.0) - (beta - 1.0)) / np.where(peaked, alpha + beta - 2.0, 1.0)
    return np.where(peaked, np.clip(np.ceil(turn), 0.0, m), np.where(alpha > beta, m, 0.0))


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


def counts_within(p: np.ndarray, low: float, high: float) -> np.ndarray:
    """Counts (n,) of an interval that some leaf allows."""
    first = max(math.ceil(low), 0) if low > -math.inf else 0
    return np.arange(float(first), math.floor(min(high, p[:, 0].max(initial=0.0))) + 1.0)


def _about_whole(p: np.ndarray, centre: np.ndarray, order: int) -> np.ndarray:
    """Factorial moments m (m - 1) .. a (a + 1) .. / ((a + b) (a + b + 1) ..)."""
    trials, alpha, beta = p.T
    factorial = np.ones((alpha.size, order + 1))
    for k in range(1, order + 1):
        share = (alpha + k - 1.0) / (alpha + beta + k - 1.0)
        factorial[:, k] = factorial[:, k - 1] * np.maximum(trials - k + 1.0, 0.0) * share
    return from_factorial(factorial, -centre)


def about_within(p: np.ndarray, low: float, high: float, centre: np.ndarray, order: int) -> np.ndarray:
    """E[(X - centre)^k | low <= X <= high] (n, order + 1) of binomial leaves, ``centre`` (n,); 0 without mass there."""
    if low <= 0.0 and high >= p[:, 0].max(initial=0.0):
        return _about_whole(p, centre, order)
    x = counts_within(p, low, high)
    logs = _mixed_log_mass(p[:, None], x)
    top = logs.max(axis=1, keepdims=True, initial=-np.inf)
    mass = np.exp(logs - np.where(np.isneginf(top), 0.0, top))
    total = mass.sum(axis=1, keepdims=True)
    mass = mass / np.where(total > 0.0, total, 1.0)
    away = x - centre[:, None]
    return np.stack([np.ones(centre.size), *((mass * away**k).sum(axis=1) for k in range(1, order + 1))], axis=1)


def moments_within(p: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance within an interval."""
    mean = about_within(p, low, high, np.zeros(len(p)), 1)[:, 1]
    return mean, about_within(p, low, high, mean, 2)[:, 2]


def _binomial_coefficients(theta, width, out):
    out[0] = math.lgamma(theta[0] + 1.0) + theta[0] * math.log1p(-theta[1])
    out[1] = math.log(theta[1]) - math.log1p(-theta[1])
    out[2] = theta[0]


def _binomial_form(lead, a, b, c, table, u):
    return lead + a * u - math.lgamma(b - u + 1.0) if u <= b else IMPOSSIBLE


def _add_binomial_gradient(theta, width, u, x, flow, out):
    if u <= theta[0]:  # the number of trials as if it were continuous
        out[0] += flow * (digamma(theta[0] + 1.0) - digamma(theta[0] - u + 1.0) + math.log1p(-theta[1]))
        out[1] += flow * (u / theta[1] - (theta[0] - u) / (1.0 - theta[1]))


def _binomial_draw(rng, theta):
    return float(rng.binomial(int(theta[0]), theta[1]))


def _are_binomial(theta):
    n = theta[0]
    return 1.0 <= n <= LARGEST_TRIALS and n == np.floor(n) and 0.0 < theta[1] < 1.0


def _mixed_coefficients(theta, width, out):
    both = theta[1] + theta[2]
    norm = math.lgamma(both) - math.lgamma(both + theta[0]) - math.lgamma(theta[1]) - math.lgamma(theta[2])
    out[0] = math.lgamma(theta[0] + 1.0) + norm
    out[1] = theta[1]
    out[2] = theta[2] + theta[0]
    out[3] = theta[0]


def _mixed_form(lead, a, b, c, table, u):
    return lead + math.lgamma(a + u) + math.lgamma(b - u) - math.lgamma(c - u + 1.0) if u <= c else IMPOSSIBLE


def _add_mixed_gradient(theta, width, u, x, flow, out):
    if u <= theta[0]:  # the number of trials as if it were continuous
        n, alpha, beta = theta[0], theta[1], theta[2]
        total, after = digamma(alpha + beta) - digamma(alpha + beta + n), digamma(beta + n - u)
        out[0] += flow * (digamma(n + 1.0) - digamma(n - u + 1.0) + after - digamma(alpha + beta + n))
        out[1] += flow * (total + digamma(alpha + u) - digamma(alpha))
        out[2] += flow * (total + after - digamma(beta))


def _mixed_draw(rng, theta):
    log_odds = log_gamma_draw(rng, theta[1]) - log_gamma_draw(rng, theta[2])
    return float(rng.binomial(int(theta[0]), 1.0 / (1.0 + math.exp(-log_odds))))


def _are_mixed(theta):
    if not (theta[0] <= LARGEST_TRIALS and theta[0] == np.floor(theta[0])):
        return False
    return 0.0 < theta[0] and 0.0 < theta[1] < math.inf and 0.0 < theta[2] < math.inf


def _draw_within(p: np.ndarray, low: float, high: float, u: np.ndarray) -> np.ndarray:
    """Smallest count up to which the interval holds a share u of its mass, by the masses of its few counts."""
    x = counts_within(p, low, high)
    out = np.full(u.size, max(math.ceil(low), 0.0) if low > -math.inf else 0.0)
    step = max(1, HELD // max(x.size, 1))
    for i in range(0, u.size if x.size else 0, step):
        part = slice(i, i + step)
        logs = _mixed_log_mass(p[part, None], x)
        cumulative = np.cumsum(np.exp(logs - logs.max(axis=1, keepdims=True)), axis=1)
        out[part] = x[(u[part, None] * cumulative[:, -1:] >= cumulative[:, :-1]).sum(axis=1)]
    return out


@bare_inner_kernel
def log_beta_binomial(x, rest, a, b, constant):
    """Log mass of x successes and ``rest`` failures; the constant is log trials! less the rising factorial of a + b."""
    choose = constant - math.lgamma(x + 1.0) - math.lgamma(rest + 1.0)
    return choose + log_rising(a, x) + log_rising(b, rest)


def _prior(mean, variance, floor, scale, n_levels, leaf_shape, precision_ratio):
    """The variance of the entry is its number of trials."""
    a = 1.0 / scale
    return a * mean / variance, a * (variance - mean) / variance, variance, 0.0


def _conjugate_posterior(n, s1, s2, p0, p1, p2, p3):
    return p0 + s1, p1 + n * p2 - s1, p2, 0.0


def _add(s1, s2, sign, u, offset, cell, trials):
    x = u + offset
    s2 += sign * math.lgamma(x + 1.0)
    return s1 + sign * x, s2 + sign * (math.lgamma(trials - x + 1.0) - math.lgamma(trials + 1.0))


def _predictive(p0, p1, p2, p3, half_step, cell):
    return math.lgamma(p2 + 1.0) - log_rising(p0 + p1, p2), 0.0, p0, 0.0, p1


def _log_predictive(u, offset, log_scale, power, centre, curvature, slope, trials):
    x = u + offset
    rest = trials - x
    if rest < 0.0:
        return IMPOSSIBLE
    return log_beta_binomial(x, rest, centre, slope, log_scale)


def _log_density_of(u, offset, p0, p1, p2, p3, half_step, cell):
    x = u + offset
    return log_beta_binomial(x, p2 - x, p0, p1, math.lgamma(p2 + 1.0) - log_rising(p0 + p1, p2))


def _add_log_marginal(log_p, n, s1, s2, p0, p1, p2, p3, first, second):
    log_p += log_rising_from(p0, s1, first) + log_rising_from(p1, n * p2 - s1, second) - s2
    return log_p - log_rising(p0 + p1, n * p2)


def _add_slopes(out, n, s1, s2, p0, p1, p2, p3, first, second, constants, leaf_scale, second_log):
    both = p0 + p1
    by_both = digamma(both) - digamma(both + n * p2)
    by_alpha = digamma(p0 + s1) - first + by_both
    by_beta = digamma(p1 + (n * p2 - s1)) - second + by_both
    out[0] -= (by_alpha * p0 + by_beta * p1) / leaf_scale


def _expected(p0, p1, p2, p3, cell):
    """Without a square the centre is free for the number of trials."""
    return p2 * (digamma(p1) - digamma(p0 + p1)), p2, 0.0, digamma(p1) - digamma(p0)


def _log_base(x, centre):
    return math.lgamma(centre + 1.0) - math.lgamma(centre - x + 1.0)


@bare_inner_kernel
def draw_successes(rng, trials, log_odds):
    """Binomial variate by the waiting times between the rarer outcomes: some trials min(p, 1 - p) + 1 steps."""
    rare = math.exp(-abs(log_odds))
    rate = math.log1p(rare)  # - log(1 - p) of the rarer outcome: its odds are `rare`
    found = 0.0
    at = np.floor(rng.standard_exponential() / rate) + 1.0 if rate > 0.0 else math.inf
    while at <= trials:
        found += 1.0
        at += np.floor(rng.standard_exponential() / rate) + 1.0
    return found if log_odds < 0.0 else trials - found


def _draw_predictive(rng, p0, p1, p2, p3, offset):
    success = log_gamma_draw(rng, p0)
    failure = log_gamma_draw(rng, p1)
    return draw_successes(rng, p2, success - failure) - offset


CONJUGATE = Conjugate(
    reading=FACTORIAL,
    prior_form=BETA_PRIOR,
    prior=_prior,
    posterior=_conjugate_posterior,
    add=_add,
    predictive=_predictive,
    log_predictive=_log_predictive,
    log_density=_log_density_of,
    add_log_marginal=_add_log_marginal,
    add_slopes=_add_slopes,
    expected=_expected,
    log_base=_log_base,
    draw=_draw_predictive,
)
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
    kernels=Kernels(
        FALLING,
        FACTORIAL,
        _binomial_form,
        _binomial_coefficients,
        _add_binomial_gradient,
        _binomial_draw,
        _are_binomial,
    ),
)
BETA_BINOMIAL = UnivariateFamily(
    name="beta_binomial",
    n_parameters=3,
    is_density=False,
    log_density=_mixed_log_mass,
    check=checked_rows(
        "number of trials, alpha, beta",
        f"number of trials must be a whole number {TRIALS_RULE}, alpha and beta positive and finite",
        lambda p: are_trials(p[:, 0]) & (p[:, 1:] > 0).all(axis=1),
    ),
    mean=_mixed_mean,
    variance=_mixed_variance,
    mode=_mixed_mode,
    draw=lambda p, rng: _draw(np.stack([p[..., 0], draw_probabilities(p[..., 1:], rng)], axis=-1), rng),
    log_interval=_mixed_log_interval,
    lowest=0.0,
    ends=lambda p: (np.zeros(len(p)), p[:, 0]),
    bulk=lambda p: (_mixed_mean(p), np.sqrt(_mixed_variance(p))),
    raw_moments=lambda p, centre, order: about_within(p, 0.0, np.inf, np.full(len(p), centre), order),
    moments_within=moments_within,
    about_within=about_within,
    draw_within=_draw_within,
    kernels=Kernels(URN, FACTORIAL, _mixed_form, _mixed_coefficients, _add_mixed_gradient, _mixed_draw, _are_mixed),
)
PREDICTIVE = Predictive(
    entry=Binomial,
    leaves=BETA_BINOMIAL,
    leaf_rows=lambda posteriors: posteriors[:, [2, 0, 1]],
    draw_parameters=draw_successes_and_trials,
    conjugate=CONJUGATE,
)
