"""Moments of leaf predictives, whole or within an interval: closed forms, sums over counts, Gauss panels."""

import math

import numpy as np

from pymc_spn.leaves.families import (
    BetaProbability,
    BetaTrials,
    Binomial,
    GammaRate,
    Gaussian,
    NormalGamma,
    Poisson,
)
from pymc_spn.leaves.tail_probabilities import log_beta_ratio

SUMMED = 256  # Poisson counts in an interval that are summed one by one
LOST = 1e-10  # relative error of a variance by E[X^2] - E[X]^2 from which it is summed about its own centre
NEGLIGIBLE = -45.0  # log of a mass relative to the largest one
BLOCKS = 200_000  # of neighbouring counts that are summed together; most often blocks of one
ONE_BY_ONE = 4096  # counts of a beta-geometric leaf; beyond, its mass is smooth at their scale and goes by panels
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
PANELS = 24
NARROW = 0.25  # of an interval beside the distance over which the density varies as a power
_LOG_CUTS = np.concatenate([np.arange(-42.0, -8.0), np.arange(-8.0, 8.0, 0.25), np.arange(8.0, 43.0)])
_END_CUTS = np.concatenate([np.arange(0.5, 8.0, 0.5), 8.0 * 1.5 ** np.arange(12.0)])


def weighted_moments(x: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of points under weights (n, points); 0 where all weights are."""
    total = weight.sum(axis=1)
    p = weight / np.where(total > 0, total, 1.0)[:, None]
    mean = (p * x).sum(axis=1)
    return mean, ((np.sqrt(p) * (x - mean[:, None])) ** 2).sum(axis=1)  # squares alone may be too large


def count_moments(params: GammaRate, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """By sums where the interval is short, else by x NB(x; alpha) = alpha/beta NB(x - 1; alpha + 1).

    Where that would lose the variance, far out or beside a large mean, by masses about the largest one.
    """
    low = max(math.ceil(low) if low > -math.inf else 0, 0)
    if high - low <= SUMMED:
        x = np.arange(low, math.floor(high) + 1.0)
        logs = Poisson.predictive_log_density(GammaRate(*(v[:, None] for v in params)), x)
        return weighted_moments(x, np.exp(logs - logs.max(axis=1, keepdims=True)) if x.size else np.zeros(logs.shape))
    alpha, beta = params
    total = Poisson.predictive_log_interval(params, low, high)
    first = Poisson.predictive_log_interval(GammaRate(alpha + 1.0, beta), low - 1.0, high - 1.0) - total
    second = Poisson.predictive_log_interval(GammaRate(alpha + 2.0, beta), low - 2.0, high - 2.0) - total
    mean = alpha / beta * np.exp(first)
    variance = alpha * (alpha + 1.0) / beta**2 * np.exp(second) + mean - mean**2
    rounding = np.finfo(np.float64).eps * (1.0 + np.abs(total)) * mean**2  # logs are rounded to eps of their size
    for n in np.flatnonzero(~(rounding < LOST * variance) & np.isfinite(total)):
        mean[n], variance[n] = _summed_counts(float(alpha[n]), float(beta[n]), float(low), float(np.floor(high)))
    return mean, variance


def _summed_counts(alpha: float, beta: float, low: float, last: float) -> tuple[float, float]:
    """Mean and variance of one negative binomial leaf from masses relative to the largest one within the interval.

    Of more than `BLOCKS` counts that have some mass neighbours are taken together, as their masses hardly differ.
    """
    peak = min(max(low, math.floor(max(alpha - 1.0, 0.0) / beta)), last)
    reach = [0.0, 0.0]
    for side, room in enumerate((peak - low, last - peak)):
        width = 1.0
        while width < room and _log_fall(alpha, beta, peak, np.array([width if side else -width]))[0] > NEGLIGIBLE:
            width *= 2.0
        reach[side] = min(width, room)
    size = reach[0] + reach[1] + 1.0
    edges = np.unique(np.floor(np.linspace(0.0, size, int(min(size, BLOCKS)) + 1))) - reach[0]
    count = np.diff(edges)
    away = edges[:-1] + 0.5 * (count - 1.0)  # from the peak, so that far out no digit is lost
    later = np.maximum(peak + away + 0.5, 0.5)
    slope = np.log1p((alpha - 1.0 - beta * later) / (later * (1.0 + beta)))  # of the log masses within a block
    within = (np.square(count) - 1.0) / 12.0
    mass = count * np.exp(_log_fall(alpha, beta, peak, away)) * (1.0 + 0.5 * within * np.square(slope))
    mass /= mass.sum()
    away = away + within * slope
    mean = float(mass @ away)
    return peak + mean, float(mass @ (np.square(away - mean) + within))


def _log_fall(alpha: float, beta: float, peak: float, away: np.ndarray) -> np.ndarray:
    """Log masses (n,) at counts away from the peak less that at the peak, as products of ratios of neighbours.

    Upwards these are (alpha + k) / ((k + 1) (1 + beta)).
    """
    start, steps = peak + np.minimum(away, 0.0), np.abs(away)
    if alpha == 1.0:
        rise = np.zeros(away.shape)
    elif alpha > 1.0:
        rise = -log_beta_ratio(alpha - 1.0, start + 1.0, steps)
    else:
        rise = log_beta_ratio(1.0 - alpha, start + alpha, steps)
    return np.sign(away) * (rise - steps * math.log1p(beta))


def student_moments(params: NormalGamma, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance within an interval."""
    dof = 2.0 * params.a
    width, origin, away, weight = _student_points(params, low, high, 2)
    mean, variance = weighted_moments(away, weight)
    if math.isinf(low) or math.isinf(high):
        infinite = np.where(math.isinf(low) & math.isinf(high), np.nan, math.copysign(np.inf, high))
        mean = np.where(dof > 1.0, mean, infinite)
        variance = np.where(dof > 2.0, variance, np.inf)
    return origin + width * mean, width**2 * variance


def student_about(params: NormalGamma, low: float, high: float, centre: np.ndarray, order: int) -> np.ndarray:
    """E[(X - centre)^k | low <= X <= high] (n, order + 1); infinite, with the sign of the end, where there is none."""
    width, origin, away, weight = _student_points(params, low, high, order)
    away = (origin - centre)[:, None] + width[:, None] * away
    return _powers(away, weight, order, 2.0 * params.a, low, high)


def student_whole(params: NormalGamma, centre: float | np.ndarray, order: int) -> np.ndarray:
    """As `student_about` without an interval; NaN of odd order where there is none.

    Even central moments are scale^k nu^(k/2) prod_{i=1}^{k/2} (2i - 1) / (nu - 2i).
    """
    nu, scale = 2.0 * params.a, Gaussian.predictive_scale(params)
    own = np.zeros((nu.size, order + 1))
    for k in range(0, order + 1, 2):
        value = scale**k * nu ** (k // 2)
        for i in range(1, k // 2 + 1):
            value = value * (2 * i - 1) / np.where(nu > 2 * i, nu - 2 * i, np.nan)
        own[:, k] = np.where(nu > k, value, np.inf)
    with np.errstate(invalid="ignore"):
        out = about(own, params.mu - centre)
    for k in range(order + 1):
        out[nu <= k, k] = np.inf if k % 2 == 0 else np.nan
    out[:, 0] = 1.0
    return out


def _student_points(params: NormalGamma, low: float, high: float, order: int) -> tuple[np.ndarray, ...]:
    """Unit and origin (n,), distances from it in that unit and weights (n, points).

    Quadrature in w, x = mu + scale sqrt(dof) sinh(w): the density is then cosh(w)^-dof. The ends of a narrow interval
    would differ in their last digits alone: there in x, from its point nearest to mu.
    """
    dof = 2.0 * params.a
    width = Gaussian.predictive_scale(params) * np.sqrt(dof)
    ends = np.arcsinh((low - params.mu) / width), np.arcsinh((high - params.mu) / width)
    w, weight = _graded_points(*ends, dof, lambda w: np.logaddexp(w, -w), order)
    away, nearest = np.sinh(w), np.clip(params.mu, low, high)
    z, below, above = (nearest - params.mu) / width, (low - nearest) / width, (high - nearest) / width
    narrow = above - below < NARROW * np.hypot(1.0, z)
    away[narrow], weight[narrow] = _near_points(z[narrow], below[narrow], above[narrow], 0.5 * (dof[narrow] + 1.0))
    return width, np.where(narrow, nearest, params.mu), away, weight


def _near_points(
    z: np.ndarray, below: np.ndarray, above: np.ndarray, power: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Distances from z and weights (n, points) under a density (1 + x^2)^-power between z + below and z + above.

    z is the point of that narrow interval which is nearest to 0. As far as there is mass, which ends early where the
    power is large.
    """
    size = np.hypot(1.0, z)
    room = np.minimum(np.expm1(-NEGLIGIBLE / power), 1.0)  # by which 1 + x^2 grows at most
    reach = size * room / (np.abs(z) / size + np.sqrt(np.square(z / size) + room))
    y, spacing = _cubic_panels(np.maximum(below, -reach), np.minimum(above, reach))
    rise = y / size[:, None] * ((2.0 * z[:, None] + y) / size[:, None])
    return y, np.exp(-power[:, None] * np.log1p(rise)) * spacing


def lomax_moments(params: GammaRate, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance within an interval."""
    if high < 0:
        return np.zeros(params.alpha.shape), np.zeros(params.alpha.shape)
    origin, away, weight = _lomax_points(params, low, high, 2)
    mean, variance = weighted_moments(away, weight)
    if math.isinf(high):
        mean = np.where(params.alpha > 1.0, mean, np.inf)
        variance = np.where(params.alpha > 2.0, variance, np.inf)
    return origin + params.beta * mean, params.beta**2 * variance


def lomax_about(params: GammaRate, low: float, high: float, centre: np.ndarray, order: int) -> np.ndarray:
    """As `student_about`."""
    if high < 0:
        return np.zeros((params.alpha.size, order + 1))
    origin, away, weight = _lomax_points(params, low, high, order)
    away = (origin - centre)[:, None] + params.beta[:, None] * away
    return _powers(away, weight, order, params.alpha, 0.0, high)


def _lomax_points(params: GammaRate, low: float, high: float, order: int) -> tuple[np.ndarray, ...]:
    """As `_student_points`, in units of beta: in w, x = beta (e^w - 1), or in x from the lower end.

    The density of w is e^(-alpha w).
    """
    start = max(low, 0.0)
    ends = np.log1p(start / params.beta), np.log1p(high / params.beta)
    w, weight = _graded_points(*ends, params.alpha, lambda w: w, order)
    away, size, above = np.expm1(w), 1.0 + start / params.beta, (high - start) / params.beta
    narrow = above < NARROW * size
    power, size = params.alpha[narrow] + 1.0, size[narrow]
    reach = size * np.minimum(np.expm1(-NEGLIGIBLE / power), 1.0)
    y, spacing = _cubic_panels(np.zeros(size.shape), np.minimum(above[narrow], reach))
    away[narrow], weight[narrow] = y, np.exp(-power[:, None] * np.log1p(y / size[:, None])) * spacing
    return np.where(narrow, start, 0.0), away, weight


def _powers(away: np.ndarray, weight: np.ndarray, order: int, power: np.ndarray, low: float, high: float) -> np.ndarray:
    """Averages (n, order + 1) of powers of distances (n, points); infinite from the power of the tail on."""
    p = weight / weight.sum(axis=1, keepdims=True)
    out = np.stack([(p * away**k).sum(axis=1) for k in range(order + 1)], axis=1)
    if math.isinf(low) or math.isinf(high):
        for k in range(1, order + 1):
            out[power <= k, k] = math.inf if math.isinf(high) else (-1.0) ** k * math.inf
    return out


def _graded_points(low, high, power, fall, order):
    """Points and weights (n, points) for moments of e^w under a density exp(-power fall(w)) between low and high.

    Gauss-Legendre panels on both sides of the point nearest to 0, graded towards it, as far as finite moments reach.
    """
    highest = np.clip(np.ceil(power) - 1.0, 0.0, order)
    decay = np.maximum(power - highest, 0.1)
    furthest = 680.0 / max(order, 2)  # moments of what is further are no numbers
    reach = np.minimum(np.arccosh(np.exp(np.minimum(45.0 / decay, furthest))), furthest)
    nearest = np.clip(0.0, low, high)
    ends = np.maximum(low, nearest - reach) - nearest, np.minimum(high, nearest + reach) - nearest
    away, spacing = _cubic_panels(*ends)
    w = nearest[:, None] + away
    logs = -power[:, None] * fall(w)
    return w, np.exp(logs - logs.max(axis=1, keepdims=True)) * spacing


def _cubic_panels(below: np.ndarray, above: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gauss points and weights (n, points) from 0 down to ``below`` and up to ``above``, graded towards 0."""
    s = ((np.arange(PANELS)[:, None] + 0.5 * (_NODES + 1.0)) / PANELS).ravel()
    points = np.concatenate([end[:, None] * s**3 for end in (below, above)], axis=1)
    spacing = np.concatenate([np.abs(end)[:, None] * s**2 for end in (below, above)], axis=1)
    return points, spacing * np.tile(_WEIGHTS, 2 * PANELS)


def log_student_about(params: NormalGamma, low: float, high: float, centre: np.ndarray, order: int) -> np.ndarray:
    """E[(X - centre)^k | low <= X <= high] (n, order + 1) of log-normal leaves; infinite for high = inf.

    Gauss panels in u = log x: by sinh round the leaf, and graded towards the upper end, where x^k weighs most.
    """
    out = np.ones((params.mu.size, order + 1))
    if math.isinf(high) or order == 0:
        out[:, 1:] = np.inf
        return out
    scale = Gaussian.predictive_scale(params)
    with np.errstate(divide="ignore"):
        first, last = float(np.log(max(low, 0.0))), float(np.log(max(high, 0.0)))
    cuts = params.mu[:, None] + scale[:, None] * np.sinh(_LOG_CUTS)
    cuts = np.concatenate([cuts, np.broadcast_to(last - _END_CUTS, (cuts.shape[0], _END_CUTS.size))], axis=1)
    lowest = max(first, float(cuts.min()))
    ends = np.broadcast_to([lowest, max(last, lowest)], (cuts.shape[0], 2))
    cuts = np.sort(np.concatenate([np.clip(cuts, lowest, max(last, lowest)), ends], axis=1), axis=1)
    half = 0.5 * np.diff(cuts, axis=1)[:, :, None]
    u = (cuts[:, :-1, None] + half * (1.0 + _NODES)).reshape(len(cuts), -1)
    logs = Gaussian.predictive_log_density(NormalGamma(*(v[:, None] for v in params)), u)
    mass = np.exp(logs - logs.max(axis=1, keepdims=True)) * (half * _WEIGHTS).reshape(len(cuts), -1)
    total = mass.sum(axis=1)
    away = np.exp(u) - centre[:, None]
    for k in range(1, order + 1):
        out[:, k] = np.where(total > 0, (mass * away**k).sum(axis=1) / np.where(total > 0, total, 1.0), 0.0)
    if low > 0.0 and high - low < NARROW * low:  # in digits of u the ends may be one
        width = scale * np.sqrt(2.0 * params.a)
        with np.errstate(over="ignore"):
            nearest = np.clip(np.exp(params.mu), low, high)
        z = (np.log(nearest) - params.mu) / width
        below, above = (np.log1p((end - nearest) / nearest) / width for end in (low, high))
        narrow = above - below < NARROW * np.hypot(1.0, z)
        y, mass = _near_points(z[narrow], below[narrow], above[narrow], params.a[narrow] + 0.5)
        own = nearest[narrow, None]
        away = (own - centre[narrow, None]) + own * np.expm1(width[narrow, None] * y)
        out[narrow] = _powers(away, mass, order, params.a[narrow], low, high)
    return out


def log_student_moments(params: NormalGamma, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance within an interval."""
    if high <= 0.0:
        return np.zeros(params.mu.shape), np.zeros(params.mu.shape)
    if math.isinf(high):
        return np.full(params.mu.shape, np.inf), np.full(params.mu.shape, np.inf)
    start = max(low, 0.0)
    mean = start + log_student_about(params, low, high, np.full(params.mu.shape, start), 1)[:, 1]
    return mean, log_student_about(params, low, high, mean, 2)[:, 2]


def about(own: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Moments about another centre from moments (n, K + 1) about one's own; shift (n,) = own - other."""
    out = np.zeros_like(own)
    for k in range(own.shape[1]):
        for j in range(k + 1):
            out[:, k] += math.comb(k, j) * own[:, j] * shift ** (k - j)
    return out


def from_factorial(factorial: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Moments (n, K + 1) about -shift from factorial moments, by Stirling numbers."""
    order = factorial.shape[1] - 1
    stirling = np.zeros((order + 1, order + 1))
    stirling[0, 0] = 1.0
    for n in range(1, order + 1):
        for k in range(1, n + 1):
            stirling[n, k] = stirling[n - 1, k - 1] + k * stirling[n - 1, k]
    return about(factorial @ stirling.T, shift)


def _beta_geometric_whole(params: BetaProbability, centre: np.ndarray, order: int) -> np.ndarray:
    """Factorial moments k! beta (beta + 1) .. / ((alpha - 1) .. (alpha - k)); infinite for alpha <= k."""
    alpha, beta = params
    factorial = np.ones((alpha.size, order + 1))
    for k in range(1, order + 1):
        fall = np.where(alpha > k, alpha - k, 1.0)
        factorial[:, k] = factorial[:, k - 1] * k * (beta + k - 1.0) / fall
    out = from_factorial(factorial, -centre)
    for k in range(1, order + 1):
        out[alpha <= k, k] = np.inf
    return out


def beta_geometric_about(
    params: BetaProbability, low: float, high: float, centre: np.ndarray, order: int
) -> np.ndarray:
    """E[(X - centre)^k | low <= X <= high] (n, order + 1) of geometric leaves, ``centre`` (n,).

    What exceeds a count that is reached is beta-geometric again, with beta larger by that count.
    """
    first = float(max(math.ceil(low), 0)) if low > -math.inf else 0.0
    if math.isinf(high):
        return _beta_geometric_whole(BetaProbability(params.alpha, params.beta + first), centre - first, order)
    last = float(math.floor(high))
    if last < first:
        return np.concatenate([np.ones((params.alpha.size, 1)), np.zeros((params.alpha.size, order))], axis=1)
    x = np.arange(first, min(last, first + ONE_BY_ONE) + 1.0)
    weight = np.ones(x.size)
    if last > x[-1]:  # the midpoint rule backwards: a sum over counts as an integral from half a count before
        start, stop = x[-1] + 0.5, last + 0.5
        cuts = start * np.exp(np.linspace(0.0, math.log(stop / start), 2 + int(4.0 * math.log(stop / start))))
        half = 0.5 * np.diff(cuts)
        x = np.concatenate([x, (cuts[:-1, None] + half[:, None] * (1.0 + _NODES)).ravel()])
        weight = np.concatenate([weight, (half[:, None] * _WEIGHTS).ravel()])
    alpha, beta = (v[:, None] for v in params)
    logs = log_beta_ratio(alpha, beta, x) - np.log(alpha + beta + x)  # also between the counts
    mass = np.exp(logs - logs.max(axis=1, keepdims=True)) * weight
    mass = mass / mass.sum(axis=1, keepdims=True)
    away = x - centre[:, None]
    return np.stack([(mass * away**k).sum(axis=1) for k in range(order + 1)], axis=1)


def beta_geometric_moments(params: BetaProbability, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance within an interval."""
    mean = beta_geometric_about(params, low, high, np.zeros(params.alpha.shape), 1)[:, 1]
    if not np.all(np.isfinite(mean)):
        finite = np.where(np.isfinite(mean), mean, 0.0)
        second = beta_geometric_about(params, low, high, finite, 2)[:, 2]
        return mean, np.where(np.isfinite(mean), second, np.inf)
    return mean, beta_geometric_about(params, low, high, mean, 2)[:, 2]


def counts_within(params: BetaTrials, low: float, high: float) -> np.ndarray:
    """Counts (n,) of an interval that some leaf allows."""
    first = max(math.ceil(low), 0) if low > -math.inf else 0
    return np.arange(float(first), math.floor(min(high, params.trials.max(initial=0.0))) + 1.0)


def _beta_binomial_whole(params: BetaTrials, centre: np.ndarray, order: int) -> np.ndarray:
    """Factorial moments m (m - 1) .. a (a + 1) .. / ((a + b) (a + b + 1) ..)."""
    alpha, beta, trials = params
    factorial = np.ones((alpha.size, order + 1))
    for k in range(1, order + 1):
        share = (alpha + k - 1.0) / (alpha + beta + k - 1.0)
        factorial[:, k] = factorial[:, k - 1] * np.maximum(trials - k + 1.0, 0.0) * share
    return from_factorial(factorial, -centre)


def beta_binomial_about(params: BetaTrials, low: float, high: float, centre: np.ndarray, order: int) -> np.ndarray:
    """E[(X - centre)^k | low <= X <= high] (n, order + 1) of binomial leaves, ``centre`` (n,); 0 without mass there."""
    if low <= 0.0 and high >= params.trials.max(initial=0.0):
        return _beta_binomial_whole(params, centre, order)
    x = counts_within(params, low, high)
    logs = Binomial.predictive_log_density(BetaTrials(*(v[:, None] for v in params)), x)
    top = logs.max(axis=1, keepdims=True, initial=-np.inf)
    mass = np.exp(logs - np.where(np.isneginf(top), 0.0, top))
    total = mass.sum(axis=1, keepdims=True)
    mass = mass / np.where(total > 0.0, total, 1.0)
    away = x - centre[:, None]
    return np.stack([np.ones(centre.size), *((mass * away**k).sum(axis=1) for k in range(1, order + 1))], axis=1)


def beta_binomial_moments(params: BetaTrials, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance within an interval."""
    mean = beta_binomial_about(params, low, high, np.zeros(params.alpha.shape), 1)[:, 1]
    return mean, beta_binomial_about(params, low, high, mean, 2)[:, 2]
