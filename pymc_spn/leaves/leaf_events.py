"""Log probabilities of closed intervals under leaves with explicit parameters, by name of the family.

Every difference of two distribution functions is taken in the tail that holds the interval, in logs, so that far tails
and narrow intervals keep their digits.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
from scipy.special import gammainc, gammaincc, log_ndtr

from pymc_spn.leaves.binomial import BetaTrials, Binomial
from pymc_spn.leaves.discrete_families import Poisson
from pymc_spn.leaves.explicit_leaves import EXPLICIT
from pymc_spn.leaves.geometric import BetaProbability, Geometric
from pymc_spn.leaves.leaf_statistics import GammaRate, NormalGamma
from pymc_spn.leaves.log_normal import LogNormal
from pymc_spn.leaves.real_families import LOG_2PI, Exponential, Gaussian
from pymc_spn.leaves.scipy_leaves import CONTINUOUS, DISCRETE, SCIPY, scipy_log_interval
from pymc_spn.leaves.tail_probabilities import (
    UNDERFLOW,
    log_betainc,
    log_difference,
    log_gammainc,
    log_narrow_integral,
    log_width,
)

NARROW = 0.25  # standard deviations below which an interval is integrated rather than taken as a difference
SERIES_TERMS = 100_000


def log_interval(family: str, parameters: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """log P(low <= X <= high) of leaves, both ends included.

    Parameters
    ----------
    family : str
        Name in `EXPLICIT`.
    parameters : (..., p) float64, or (..., 1) objects of SciPy's distributions
    low, high : float64
        Broadcast against the leading shape of the parameters; ``low > high`` is the empty interval.

    Returns
    -------
    (...) float64
        In nats, ``-inf`` where the interval has no mass.
    """
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    empty = ~(low <= high)
    start, stop = np.where(empty, 0.0, low), np.where(empty, 0.0, high)
    own = parameters if family in SCIPY else np.asarray(parameters, dtype=np.float64)
    # squares and logarithms of the farthest numbers, where a density has nothing left
    with np.errstate(all="ignore") if EXPLICIT[family].is_density else nullcontext():
        return np.where(empty, -np.inf, _LOG_INTERVAL[family](own, start, stop))


def normal_gamma(p: np.ndarray) -> NormalGamma:
    """Posterior whose predictive is the Student t (location, scale, degrees of freedom)."""
    half = 0.5 * p[..., 2]
    return NormalGamma(p[..., 0], np.ones(p.shape[:-1]), half, 0.5 * half * np.square(p[..., 1]))


def gamma_rate(p: np.ndarray) -> GammaRate:
    """Posterior whose predictive is the Lomax or the negative binomial (alpha, beta)."""
    return GammaRate(p[..., 0], p[..., 1])


def beta_probability(p: np.ndarray) -> BetaProbability:
    """Posterior whose predictive is the beta-geometric (alpha, beta)."""
    return BetaProbability(p[..., 0], p[..., 1])


def beta_trials(p: np.ndarray) -> BetaTrials:
    """Posterior whose predictive is the beta-binomial (number of trials, alpha, beta)."""
    return BetaTrials(p[..., 1], p[..., 2], p[..., 0])


def _gaussian(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return _normal(p, low, high, high - low)


def _normal(p: np.ndarray, low: np.ndarray, high: np.ndarray, width: np.ndarray) -> np.ndarray:
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


def _log_normal(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
    with np.errstate(divide="ignore"):
        return _normal(p, np.log(low), np.log(high), log_width(low, high))


def _exponential(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    start = np.maximum(low, 0.0)
    begin = np.where(np.isinf(start), 0.0, start)
    width = np.where(high > start, high - begin, 0.0)
    with np.errstate(divide="ignore"):
        return -p[..., 0] * begin + np.log(-np.expm1(-p[..., 0] * width))


def _counts(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First and last count of an interval, and whether there is none."""
    first, last = np.maximum(np.ceil(low), 0.0), np.floor(high)
    empty = ~(last >= first) | np.isinf(first)
    return np.where(empty, 0.0, first), np.where(empty, 0.0, last), empty


def _poisson(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    rate, first, last, empty = np.broadcast_arrays(p[..., 0], *_counts(low, high))
    above = first > rate  # measure in the tail that holds the interval
    upper = log_difference(_poisson_tail(rate, first, True), _poisson_tail(rate, last + 1.0, True))
    lower = log_difference(_poisson_tail(rate, last, False), _poisson_tail(rate, first - 1.0, False))
    one = Poisson.leaf_log_density(rate[..., None], np.where(np.isinf(first), 0.0, first))
    out = np.where(first == last, one, np.where(above, upper, lower))
    return np.where(empty, -np.inf, out)


def _poisson_tail(rate: np.ndarray, k: np.ndarray, above: bool) -> np.ndarray:
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


def _geometric(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    first, last, empty = _counts(low, high)
    log_going_on = np.log1p(-p[..., 0])
    out = first * log_going_on + np.log(-np.expm1((last - first + 1.0) * log_going_on))
    return np.where(empty, -np.inf, out)


def _levels(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    code = np.arange(p.shape[-1])
    inside = (code >= low[..., None]) & (code <= high[..., None])
    with np.errstate(divide="ignore"):
        return np.log((p * inside).sum(axis=-1))


def _bernoulli(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return _levels(np.concatenate([1.0 - p, p], axis=-1), low, high)


def _laplace(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    z_low, z_high = (low - p[..., 0]) / p[..., 1], (high - p[..., 0]) / p[..., 1]
    mirrored = z_low > 0.0
    near, far = np.where(mirrored, -z_low, z_high), np.where(mirrored, -z_high, z_low)
    below = np.minimum(near, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.where(np.isneginf(far), np.inf, below - far)
        one_side = below + np.log(-np.expm1(-gap))
        both_sides = np.log(-np.expm1(np.minimum(far, 0.0)) - np.expm1(-np.maximum(near, 0.0)))
    return np.log(0.5) + np.where(near > 0.0, both_sides, np.where(np.isneginf(below), -np.inf, one_side))


def _uniform(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        inside = np.log(np.maximum(np.minimum(high, p[..., 1]) - np.maximum(low, p[..., 0]), 0.0))
    return inside - np.log(p[..., 1] - p[..., 0])


def _triangular(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """On each side of the mode the length of what is inside times the sum of the heights at its ends."""
    lower, mode, upper = p[..., 0], p[..., 1], p[..., 2]

    def side(start: np.ndarray, stop: np.ndarray, heights: np.ndarray, span: np.ndarray) -> np.ndarray:
        some = (stop > start) & (heights > 0.0)
        length, heights = np.where(some, stop - start, 1.0), np.where(some, heights, 1.0)
        return np.where(some, np.log(length / (upper - lower)) + np.log(heights / np.where(some, span, 1.0)), -np.inf)

    first, last = np.maximum(low, lower), np.minimum(high, mode)
    left = side(first, last, (first - lower) + (last - lower), mode - lower)
    first, last = np.maximum(low, mode), np.minimum(high, upper)
    return np.logaddexp(left, side(first, last, (upper - first) + (upper - last), upper - mode))


def _gamma(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    shape, start, stop = np.broadcast_arrays(
        p[..., 0], np.maximum(low, 0.0) * p[..., 1], np.maximum(high, 0.0) * p[..., 1]
    )
    upper = log_difference(log_gammainc(shape, start, True), log_gammainc(shape, stop, True))
    lower = log_difference(log_gammainc(shape, stop, False), log_gammainc(shape, start, False))
    out = np.array(np.where(start > shape, upper, lower))  # measured in the tail that holds the interval
    width = np.broadcast_to((high - low) * p[..., 1], shape.shape)  # where it is narrow both ends are above 0
    narrow = (width < NARROW * np.minimum(np.sqrt(shape), start)) & (width > 0.0)
    if np.any(narrow):
        a, x, y = shape[narrow], start[narrow], stop[narrow]
        unit_rate, log_density = np.stack([a, np.ones_like(a)], axis=-1), EXPLICIT["gamma"].log_density
        inside = log_narrow_integral(lambda t: log_density(unit_rate, t), x, y, width[narrow])
        steep = np.abs((a - 1.0) * np.log(y / x) - (y - x)) > 0.5
        out[narrow] = np.where(steep, out[narrow], inside)
    return out


def _weibull(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """With hazards s = (x / scale)^shape up to both ends: -s_low plus the log of 1 - exp(-(s_high - s_low))."""
    shape, start, stop = np.broadcast_arrays(p[..., 0], np.maximum(low, 0.0), np.maximum(high, 0.0))
    some = (stop > start) & np.isfinite(start)
    begin, end = np.where(some, start, 1.0), np.where(some, stop, 2.0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_low, log_high = shape * np.log(begin / p[..., 1]), shape * np.log(end / p[..., 1])
        growth = shape * np.log1p((end - begin) / begin)  # of the log hazard, also over a narrow interval
        between = log_low + np.where(growth < 30.0, np.log(np.expm1(np.minimum(growth, 30.0))), growth)
        between = np.where(begin > 0.0, between, log_high)
        inside = np.where(between < -40.0, between, np.log(-np.expm1(-np.exp(between))))
        return np.where(some, inside - np.exp(log_low), -np.inf)


def _beta(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    alpha, beta, start, stop = np.broadcast_arrays(
        p[..., 0], p[..., 1], np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    )
    with np.errstate(divide="ignore"):
        log_start, log_stop = np.log(start), np.log(stop)
        after_start, after_stop = np.log1p(-start), np.log1p(-stop)
    lower = log_difference(
        log_betainc(alpha, beta, stop, log_stop, after_stop), log_betainc(alpha, beta, start, log_start, after_start)
    )
    upper = log_difference(
        log_betainc(alpha, beta, start, log_start, after_start, upper=True),
        log_betainc(alpha, beta, stop, log_stop, after_stop, upper=True),
    )
    mean = alpha / (alpha + beta)
    out = np.array(np.where(start > mean, upper, lower))  # measured in the tail that holds the interval
    width, room = stop - start, np.minimum(start, 1.0 - stop)
    spread = np.sqrt(mean * (1.0 - mean) / (alpha + beta + 1.0))
    narrow = (width > 0.0) & (width < NARROW * np.minimum(spread, room))
    narrow &= (start < 0.5) | (width < np.square(1.0 - stop))  # points within are rounded, most felt next to 1
    if np.any(narrow):
        a, b, x, y = alpha[narrow], beta[narrow], start[narrow], stop[narrow]
        steep = np.abs((a - 1.0) * np.log(y / x) + (b - 1.0) * np.log1p(-(y - x) / (1.0 - x))) > 0.5
        own, log_density = np.stack([a, b], axis=-1), EXPLICIT["beta"].log_density
        inside = log_narrow_integral(lambda t: log_density(own, t), x, y, y - x)
        out[narrow] = np.where(steep, out[narrow], inside)
    return np.where(width > 0.0, out, -np.inf)


def _binomial(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    n, success, first, last, empty = np.broadcast_arrays(p[..., 0], p[..., 1], *_counts(low, high))
    above = first > n * success
    upper = log_difference(_binomial_tail(n, success, first, True), _binomial_tail(n, success, last + 1.0, True))
    lower = log_difference(_binomial_tail(n, success, last, False), _binomial_tail(n, success, first - 1.0, False))
    one = EXPLICIT["binomial"].log_density(np.stack([n, success], axis=-1), np.where(np.isinf(first), 0.0, first))
    return np.where(empty, -np.inf, np.where(first == last, one, np.where(above, upper, lower)))


def _binomial_tail(n: np.ndarray, success: np.ndarray, k: np.ndarray, above: bool) -> np.ndarray:
    """log P(X >= k), or log P(X <= k), at whole k."""
    sure, never = (k < 1.0, k > n) if above else (k >= n, k < 0.0)
    k = np.where(sure | never, 1.0 if above else 0.0, k)
    log_success, log_failure = np.log(success), np.log1p(-success)
    if above:
        inside = log_betainc(k, n - k + 1.0, success, log_success, log_failure)
    else:
        inside = log_betainc(n - k, k + 1.0, 1.0 - success, log_failure, log_success)
    return np.where(never, -np.inf, np.where(sure, 0.0, inside))


def _hypergeometric(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Masses from the largest one within the interval outwards, by the ratios of neighbours, until they are nothing."""
    leaf = EXPLICIT["hypergeometric"]
    population, successes, draws, mode, first, last, empty = np.broadcast_arrays(
        p[..., 0], p[..., 1], p[..., 2], leaf.mode(p), *_counts(low, high)
    )
    rest = population - successes - draws
    first, last = np.maximum(first, -rest), np.minimum(last, np.minimum(successes, draws))
    nothing = empty | (first > last)
    top = np.clip(mode, first, np.where(nothing, first, last))
    total = np.ones(top.shape)
    for step in (1.0, -1.0):
        k, term = top, np.where(nothing, 0.0, 1.0)
        while np.any(term > 1e-17 * total):
            lower, k = np.minimum(k, k + step), k + step
            inside = (first <= k) & (k <= last) & ~nothing
            up, down = (successes - lower) * (draws - lower), (lower + 1.0) * (rest + lower + 1.0)
            ratio = np.where(inside, up if step > 0 else down, 0.0) / np.where(inside, down if step > 0 else up, 1.0)
            term = term * ratio
            total = total + term
    at_top = leaf.log_density(np.stack([population, successes, draws], axis=-1), np.where(nothing, 0.0, top))
    return np.where(nothing, -np.inf, at_top + np.log(total))


_LOG_INTERVAL: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "gaussian": _gaussian,
    "log_normal": _log_normal,
    "exponential": _exponential,
    "poisson": _poisson,
    "geometric": _geometric,
    "bernoulli": _bernoulli,
    "categorical": _levels,
    "student_t": lambda p, low, high: Gaussian.predictive_log_interval(normal_gamma(p), low, high),
    "log_student_t": lambda p, low, high: LogNormal.predictive_log_interval(normal_gamma(p), low, high),
    "lomax": lambda p, low, high: Exponential.predictive_log_interval(gamma_rate(p), low, high),
    "negative_binomial": lambda p, low, high: Poisson.predictive_log_interval(gamma_rate(p), low, high),
    "beta_geometric": lambda p, low, high: Geometric.predictive_log_interval(beta_probability(p), low, high),
    "beta_binomial": lambda p, low, high: Binomial.predictive_log_interval(beta_trials(p), low, high),
    "laplace": _laplace,
    "uniform": _uniform,
    "triangular": _triangular,
    "gamma": _gamma,
    "weibull": _weibull,
    "beta": _beta,
    "binomial": _binomial,
    "hypergeometric": _hypergeometric,
    CONTINUOUS: scipy_log_interval,
    DISCRETE: scipy_log_interval,
}
