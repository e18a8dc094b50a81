"""Leaves of a recorded state in the units of the data: event probabilities, moments, draws.

The families do the mathematics; here stands which leaf has which family, and what an event (an interval or a
set of values) does to it.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.circuits.gibbs.network import DISCRETE, EMPTY_LEAF, EXPONENTIAL, GAUSSIAN, POISSON
from pymc_spn.circuits.leaves.families import (
    Categorical,
    DirichletLevels,
    Exponential,
    GammaRate,
    Gaussian,
    NormalGamma,
    Poisson,
)

FAMILY: dict[int, Any] = {
    GAUSSIAN: Gaussian,
    EXPONENTIAL: Exponential,
    POISSON: Poisson,
    DISCRETE: Categorical,
}
SUMMED = 256  # counts in an interval that are summed one by one
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
PANELS = 24
TOLERANCE = 1e-8  # relative, of moments under an interval


class Interval(NamedTuple):
    """low <= x <= high."""

    low: float
    high: float


class Leaves(NamedTuple):
    """Posteriors of some leaves of one column, in the units of the data.

    Parameters
    ----------
    family : (n,) int
        Family codes of `network`.
    parameters : (n, p) float64
        Gaussian (mu, rho, a, b), Exponential and Poisson (alpha, beta, ., .), levels (alpha_1 .. alpha_K).
    """

    family: np.ndarray
    parameters: np.ndarray


def leaves_of_column(net: Any, compiled: Any, c: int) -> Leaves:
    """All leaf slots of a column, place by place."""
    places = [leaves_at(net, compiled, int(d)) for d in np.flatnonzero(net.source == c)]
    if len(places) == 1:
        return places[0]
    return Leaves(np.concatenate([p.family for p in places]), np.concatenate([p.parameters for p in places]))


def leaves_at(net: Any, compiled: Any, d: int) -> Leaves:
    """All leaf slots at place d of a column, the prior slots first."""
    r, c = net.leaf_region[d], net.source[d]
    slots = slice(net.begin[r], net.begin[r] + net.top[r])
    entry = net.entry[slots]
    family, prior, n = net.entry_family[entry], net.prior[entry], net.edge_count[slots].astype(np.float64)
    if compiled.n_levels[c] > 0:
        at = net.level_begin[d]
        counts = net.level_count[at : at + net.n_levels[d] * net.capacity[r]].reshape(net.n_levels[d], -1)
        return Leaves(family, counts[:, : net.top[r]].T + prior[:, :1])
    s1, s2 = net.s1[slots], net.s2[slots]
    centre, scale = compiled.centre[c], compiled.scale[c]
    out = np.zeros((entry.size, 4))
    g, x, p = family == GAUSSIAN, family == EXPONENTIAL, family == POISSON
    mu0, rho0, a0, b0 = prior[g].T
    rho, shifted = rho0 + n[g], s1[g] - n[g] * mu0
    spread = s2[g] - 2.0 * mu0 * s1[g] + n[g] * mu0**2 - shifted**2 / rho
    b = b0 + 0.5 * np.maximum(spread, 0.0)
    out[g] = np.stack([(mu0 + shifted / rho) * scale + centre, rho, a0 + 0.5 * n[g], b * scale**2], axis=1)
    out[x, 0], out[x, 1] = prior[x, 0] + n[x], (prior[x, 1] + s1[x]) * scale
    out[p, 0], out[p, 1] = prior[p, 0] + s1[p], prior[p, 1] + n[p]
    return Leaves(family, out)


def posterior_of(code: int, parameters: np.ndarray) -> Any:
    """Parameters (n, p) of one family as its named tuple."""
    if code == GAUSSIAN:
        return NormalGamma(*parameters.T)
    if code == DISCRETE:
        return DirichletLevels(parameters)
    return GammaRate(parameters[:, 0], parameters[:, 1])


def by_family(leaves: Leaves) -> Any:
    """(code, which leaves, their posterior) for each family that occurs."""
    for code in np.unique(leaves.family).tolist():
        which = leaves.family == code
        yield code, which, posterior_of(code, leaves.parameters[which])


def log_event(leaves: Leaves, event: Any) -> np.ndarray:
    """Log probability (n,) of an `Interval` or a set of coded values in each leaf; very low for 0."""
    out = np.empty(leaves.family.size)
    for code, which, params in by_family(leaves):
        if isinstance(event, Interval):
            out[which] = FAMILY[code].predictive_log_interval(params, event.low, event.high)
        else:
            with np.errstate(divide="ignore"):
                out[which] = np.log(FAMILY[code].predictive_set(params, event))
    return np.maximum(out, EMPTY_LEAF)


def leaf_moments(leaves: Leaves, event: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (n,) of each leaf's predictive, given that the value lies in the event.

    Levels count by their codes. Leaves that exclude the event get 0. A Student t of one degree of freedom or
    fewer has no mean: its centre, the principal value, stands for it.
    """
    mean, variance = np.empty(leaves.family.size), np.empty(leaves.family.size)
    for code, which, params in by_family(leaves):
        if code == DISCRETE:
            p = Categorical.predictive_probabilities(params)
            if event is not None:
                p = p * np.isin(np.arange(p.shape[1]), list(event))
            mean[which], variance[which] = _weighted(np.arange(p.shape[1], dtype=np.float64), p)
        elif event is None:
            mean[which] = params.mu if code == GAUSSIAN else FAMILY[code].predictive_mean(params)
            spread = FAMILY[code].predictive_variance(params)
            variance[which] = np.where(np.isnan(spread), np.inf, spread)
        elif not isinstance(event, Interval):
            x = np.array(sorted(event), dtype=np.float64)
            mass = np.zeros((np.count_nonzero(which), x.size))
            if code == POISSON:
                mass = np.exp(Poisson.predictive_log_density(GammaRate(*(v[:, None] for v in params)), x))
            mean[which], variance[which] = _weighted(x, mass)
        elif code == POISSON:
            mean[which], variance[which] = _count_moments(params, event)
        else:
            rule = _student_moments if code == GAUSSIAN else _lomax_moments
            mean[which], variance[which] = rule(params, event)
    return mean, variance


def _weighted(x: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of points under weights (n, points); 0 where all weights are."""
    total = weight.sum(axis=1)
    p = weight / np.where(total > 0, total, 1.0)[:, None]
    mean = (p * x).sum(axis=1)
    return mean, (p * (x - mean[:, None]) ** 2).sum(axis=1)


def _count_moments(params: GammaRate, event: Interval) -> tuple[np.ndarray, np.ndarray]:
    """By sums where the interval is short, else by x NB(x; alpha) = alpha/beta NB(x - 1; alpha + 1)."""
    low, high = max(math.ceil(event.low) if event.low > -math.inf else 0, 0), event.high
    if high - low <= SUMMED:
        x = np.arange(low, math.floor(high) + 1.0)
        logs = Poisson.predictive_log_density(GammaRate(*(v[:, None] for v in params)), x)
        return _weighted(x, np.exp(logs - logs.max(axis=1, keepdims=True)) if x.size else np.zeros(logs.shape))
    alpha, beta = params
    total = Poisson.predictive_log_interval(params, low, high)
    first = Poisson.predictive_log_interval(GammaRate(alpha + 1.0, beta), low - 1.0, high - 1.0) - total
    second = Poisson.predictive_log_interval(GammaRate(alpha + 2.0, beta), low - 2.0, high - 2.0) - total
    mean = alpha / beta * np.exp(first)
    return mean, alpha * (alpha + 1.0) / beta**2 * np.exp(second) + mean - mean**2


def _student_moments(params: NormalGamma, event: Interval) -> tuple[np.ndarray, np.ndarray]:
    """By quadrature in w, x = mu + scale sqrt(dof) sinh(w): the density is then cosh(w)^-dof."""
    dof = 2.0 * params.a
    width = Gaussian.predictive_scale(params) * np.sqrt(dof)
    low, high = np.arcsinh((event.low - params.mu) / width), np.arcsinh((event.high - params.mu) / width)
    mean, variance = _by_quadrature(low, high, dof, np.sinh, lambda w: np.log(np.cosh(w)))
    unbounded = math.isinf(event.low) or math.isinf(event.high)
    if unbounded:
        infinite = np.where(math.isinf(event.low) & math.isinf(event.high), np.nan, math.copysign(np.inf, event.high))
        mean = np.where(dof > 1.0, mean, infinite)
        variance = np.where(dof > 2.0, variance, np.inf)
    return params.mu + width * mean, width**2 * variance


def _lomax_moments(params: GammaRate, event: Interval) -> tuple[np.ndarray, np.ndarray]:
    """By quadrature in w, x = beta (e^w - 1): the density is then e^(-alpha w)."""
    if event.high < 0:
        return np.zeros(params.alpha.shape), np.zeros(params.alpha.shape)
    low, high = np.log1p(max(event.low, 0.0) / params.beta), np.log1p(event.high / params.beta)
    mean, variance = _by_quadrature(low, high, params.alpha, np.expm1, lambda w: w)
    if math.isinf(event.high):
        mean = np.where(params.alpha > 1.0, mean, np.inf)
        variance = np.where(params.alpha > 2.0, variance, np.inf)
    return params.beta * mean, params.beta**2 * variance


def _by_quadrature(low, high, power, value, fall):
    """Mean and variance (n,) of ``value(w)`` under a density exp(-power fall(w)) between low and high.

    Gauss-Legendre panels on both sides of the point nearest to 0, graded towards it.
    """
    decay = np.where(power > 2.0, power - 2.0, np.maximum(power - 1.0, 0.1))  # of the second or first moment
    reach = np.minimum(np.arccosh(np.exp(np.minimum(45.0 / decay, 339.0))), 340.0)
    nearest = np.clip(0.0, low, high)
    ends = np.maximum(low, nearest - reach) - nearest, np.minimum(high, nearest + reach) - nearest
    s = ((np.arange(PANELS)[:, None] + 0.5 * (_NODES + 1.0)) / PANELS).ravel()
    w = nearest[:, None] + np.concatenate([end[:, None] * s**3 for end in ends], axis=1)
    spacing = np.concatenate([np.abs(end)[:, None] * s**2 for end in ends], axis=1)
    logs = -power[:, None] * fall(w)
    weight = np.exp(logs - logs.max(axis=1, keepdims=True)) * spacing * np.tile(_WEIGHTS, 2 * PANELS)
    return _weighted(value(w), weight)


def draw_in_event(leaves: Leaves, event: Any, rng: np.random.Generator) -> np.ndarray:
    """One value (n,) from each leaf's predictive, given that it lies in the event."""
    out = np.empty(leaves.family.size)
    for code, which, params in by_family(leaves):
        u = rng.random(np.count_nonzero(which))
        if not isinstance(event, Interval):
            x = np.array(sorted(event), dtype=np.float64)
            if code == DISCRETE:
                weight = Categorical.predictive_probabilities(params)[:, x.astype(np.int64)]
            elif code == POISSON:
                logs = Poisson.predictive_log_density(GammaRate(*(v[:, None] for v in params)), x)
                weight = np.exp(logs - logs.max(axis=1, keepdims=True))
            else:
                weight = np.ones((u.size, x.size))  # never chosen: a set has no mass under a density
            cumulative = np.cumsum(weight, axis=1)
            out[which] = x[(u[:, None] * cumulative[:, -1:] >= cumulative[:, :-1]).sum(axis=1)]
        elif code == GAUSSIAN:
            out[which] = _invert_student(params, event, u)
        elif code == EXPONENTIAL:
            low, high = (np.log1p(np.maximum(v, 0.0) / params.beta) for v in event)
            w = low - np.log1p(u * np.expm1(-params.alpha * (high - low))) / params.alpha
            out[which] = np.clip(params.beta * np.expm1(w), event.low, event.high)
        else:
            out[which] = _invert_counts(params, event, u)
    return out


def _invert_student(params: NormalGamma, event: Interval, u: np.ndarray) -> np.ndarray:
    """The u-quantile between the ends, by halving in x = mu + scale sinh(w)."""
    scale = Gaussian.predictive_scale(params)
    low, high = (np.clip(np.arcsinh((v - params.mu) / scale), -340.0, 340.0) for v in event)
    log_total = Gaussian.predictive_log_interval(params, event.low, event.high)
    with np.errstate(divide="ignore"):
        target = np.log(u) + log_total
    for _ in range(64):
        middle = 0.5 * (low + high)
        x = np.clip(params.mu + scale * np.sinh(middle), event.low, event.high)
        below = Gaussian.predictive_log_interval(params, event.low, x) < target
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.clip(params.mu + scale * np.sinh(0.5 * (low + high)), event.low, event.high)


def _invert_counts(params: GammaRate, event: Interval, u: np.ndarray) -> np.ndarray:
    """Smallest count up to which the interval holds a share u of its mass."""
    first = max(math.ceil(event.low), 0) if event.low > -math.inf else 0
    log_total = Poisson.predictive_log_interval(params, event.low, event.high)
    with np.errstate(divide="ignore"):
        target = np.log(u) + log_total
    low, high = np.full(u.size, first - 1.0), np.full(u.size, float(first))
    last = math.floor(event.high) if event.high < math.inf else math.inf

    def short(x: np.ndarray) -> np.ndarray:
        return Poisson.predictive_log_interval(params, event.low, x) < target

    step = 1.0
    while np.any(more := short(high) & (high < last)):
        low, high = np.where(more, high, low), np.where(more, np.minimum(high + step, last), high)
        step *= 2.0
    while np.any(high - low > 1.0):
        middle = np.floor(0.5 * (low + high))
        below = short(middle)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high
