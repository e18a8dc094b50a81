"""Leaves of a recorded state in the units of the data: event probabilities, moments, draws.

The families do the mathematics; here stands which leaf has which family, and what an event (an interval or a
set of values) does to it.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from pymc_spn.leaves.families import (
    BetaProbability,
    BetaTrials,
    Binomial,
    Categorical,
    DirichletLevels,
    Exponential,
    GammaRate,
    Gaussian,
    Geometric,
    LogNormal,
    NormalGamma,
    Poisson,
)
from pymc_spn.leaves.family_codes import (
    BINOMIAL,
    CATEGORICAL,
    EXPONENTIAL,
    GAUSSIAN,
    GEOMETRIC,
    LOG_NORMAL,
    POISSON,
    ROUNDED,
    ROUNDED_COUNT,
    ROUNDED_GAUSSIAN,
)
from pymc_spn.leaves.interval_moments import (
    beta_binomial_moments,
    beta_geometric_moments,
    count_moments,
    counts_within,
    log_student_moments,
    lomax_moments,
    student_moments,
    weighted_moments,
)
from pymc_spn.leaves.rounded_gaussian import RoundedCount, RoundedGaussian, cells_within, count_cells_within
from pymc_spn.leaves.rounded_moments import rounded_moments
from pymc_spn.networks.gibbs.network import EMPTY_LEAF
from pymc_spn.numerics.halving import smallest_whole_reaching

FAMILY: dict[int, Any] = {
    GAUSSIAN: Gaussian,
    EXPONENTIAL: Exponential,
    LOG_NORMAL: LogNormal,
    POISSON: Poisson,
    GEOMETRIC: Geometric,
    BINOMIAL: Binomial,
    CATEGORICAL: Categorical,
    ROUNDED_GAUSSIAN: RoundedGaussian,
    ROUNDED_COUNT: RoundedCount,
}
COUNTS = (POISSON, GEOMETRIC, BINOMIAL)
WHOLE = (*COUNTS, *ROUNDED)  # families with masses on whole numbers
TOLERANCE = 1e-8  # relative, of moments under an interval
HELD = 4_000_000  # masses held at a time (32 MB)


class Interval(NamedTuple):
    """low <= x <= high."""

    low: float
    high: float


class Likelihood(NamedTuple):
    """Soft evidence: what was seen of a column has these probabilities given its values, 0 given all others.

    Parameters
    ----------
    values : tuple of float
        Coded, ascending.
    log_weights : tuple of float
        Logs of the likelihoods.
    """

    values: tuple[float, ...]
    log_weights: tuple[float, ...]

    def within(self, inside: Any) -> "Likelihood | None":
        """For the values of which ``inside`` is true alone; None for none."""
        kept = [(x, w) for x, w in zip(self.values, self.log_weights, strict=True) if inside(x)]
        return Likelihood(*zip(*kept, strict=True)) if kept else None

    def times(self, other: "Likelihood") -> "Likelihood | None":
        """Both as independent evidence."""
        weight = dict(zip(other.values, other.log_weights, strict=True))
        both = self.within(weight.__contains__)
        if both is None:
            return None
        return Likelihood(both.values, tuple(w + weight[x] for x, w in zip(*both, strict=True)))


class Leaves(NamedTuple):
    """Posteriors of some leaves of one column, in the units of the data.

    Parameters
    ----------
    family : (n,) int
        Family codes of `network`.
    parameters : (n, p) float64
        Gaussian and log-normal (mu, rho, a, b), Exponential, Poisson and Geometric (alpha, beta, ., .),
        Binomial (alpha, beta, trials, .), levels (alpha_1 .. alpha_K).
    """

    family: np.ndarray
    parameters: np.ndarray


def leaves_of_column(net: Any, compiled: Any, c: int) -> Leaves:
    """All leaf slots of a column, place by place, as events see them."""
    places = [leaves_at(net, compiled, int(d)) for d in np.flatnonzero(net.source == c)]
    family = np.concatenate([p.family for p in places])
    return as_masses(Leaves(family, np.concatenate([p.parameters for p in places])), compiled, c)


def as_masses(leaves: Leaves, compiled: Any, c: int) -> Leaves:
    """Leaves of a column in which Gaussian ones are rounded where it has masses."""
    if compiled.is_density[c]:
        return leaves
    code = ROUNDED_COUNT if compiled.is_count[c] else ROUNDED_GAUSSIAN
    return leaves._replace(family=np.where(leaves.family == GAUSSIAN, code, leaves.family))


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
    g, x, p = (family == GAUSSIAN) | (family == LOG_NORMAL), family == EXPONENTIAL, family == POISSON
    mu0, rho0, a0, b0 = prior[g].T
    rho, shifted = rho0 + n[g], s1[g] - n[g] * mu0
    spread = s2[g] - 2.0 * mu0 * s1[g] + n[g] * mu0**2 - shifted**2 / rho
    b = b0 + 0.5 * np.maximum(spread, 0.0)
    mean, in_logs = mu0 + shifted / rho, family[g] == LOG_NORMAL
    mean = np.where(in_logs, mean + math.log(scale), mean * scale + centre)
    out[g] = np.stack([mean, rho, a0 + 0.5 * n[g], np.where(in_logs, b, b * scale**2)], axis=1)
    out[x, 0], out[x, 1] = prior[x, 0] + n[x], (prior[x, 1] + s1[x]) * scale
    out[p, 0], out[p, 1] = prior[p, 0] + s1[p], prior[p, 1] + n[p]
    k = family == GEOMETRIC
    out[k, 0], out[k, 1] = prior[k, 0] + n[k], prior[k, 1] + s1[k]
    b = family == BINOMIAL
    out[b, 0], out[b, 1] = prior[b, 0] + s1[b], prior[b, 1] + n[b] * prior[b, 2] - s1[b]
    out[b, 2] = prior[b, 2]
    return Leaves(family, out)


def posterior_of(code: int, parameters: np.ndarray) -> Any:
    """Parameters (n, p) of one family as its named tuple."""
    if code in (GAUSSIAN, LOG_NORMAL, *ROUNDED):
        return NormalGamma(*parameters.T)
    if code == GEOMETRIC:
        return BetaProbability(parameters[:, 0], parameters[:, 1])
    if code == BINOMIAL:
        return BetaTrials(*parameters[:, :3].T)
    if code == CATEGORICAL:
        return DirichletLevels(parameters)
    return GammaRate(parameters[:, 0], parameters[:, 1])


def by_family(leaves: Leaves) -> Any:
    """(code, which leaves, their posterior) for each family that occurs."""
    for code in np.unique(leaves.family).tolist():
        which = leaves.family == code
        yield code, which, posterior_of(code, leaves.parameters[which])


def log_masses(code: int, params: Any, x: np.ndarray) -> np.ndarray:
    """Log masses (n, X) of values under leaves of one family, -inf where these are densities."""
    if code == CATEGORICAL:
        return Categorical.predictive_log_density(DirichletLevels(params.alpha[:, None]), x)
    if code in WHOLE:
        return FAMILY[code].predictive_log_density(type(params)(*(v[:, None] for v in params)), x)
    return np.full((params[0].size, x.size), -np.inf)


def relative_masses(logs: np.ndarray) -> np.ndarray:
    """Masses (n, X) as parts of the largest one of each leaf, which alone may be too small for a number; 0 for none."""
    largest = logs.max(axis=1, keepdims=True, initial=-np.inf)
    return np.exp(logs - np.where(np.isfinite(largest), largest, 0.0))


def log_event(leaves: Leaves, event: Any) -> np.ndarray:
    """Log probability (n,) of an `Interval`, a `Likelihood` or a set of coded values in each leaf; very low for 0."""
    out = np.empty(leaves.family.size)
    for code, which, params in by_family(leaves):
        if isinstance(event, Interval):
            out[which] = FAMILY[code].predictive_log_interval(params, event.low, event.high)
            continue
        x, log_weight = event if isinstance(event, Likelihood) else (sorted(event), 0.0)
        logs = log_masses(code, params, np.array(x, dtype=np.float64)) + log_weight
        with np.errstate(divide="ignore"):
            out[which] = logs.max(axis=1, initial=EMPTY_LEAF) + np.log(relative_masses(logs).sum(axis=1))
    return np.maximum(out, EMPTY_LEAF)


def leaf_moments(leaves: Leaves, event: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (n,) of each leaf's predictive, given that the value lies in the event.

    Levels count by their codes. Leaves that exclude the event get 0. A Student t of one degree of freedom or
    fewer has no mean: its centre, the principal value, stands for it.
    """
    mean, variance = np.empty(leaves.family.size), np.empty(leaves.family.size)
    for code, which, params in by_family(leaves):
        if code == CATEGORICAL:
            p = Categorical.predictive_probabilities(params)
            if event is not None:
                p = p * np.isin(np.arange(p.shape[1]), list(event))
            mean[which], variance[which] = weighted_moments(np.arange(p.shape[1], dtype=np.float64), p)
        elif event is None:
            if code in ROUNDED:
                first, spread = _WITHIN[code](params, -np.inf, np.inf)
                centre = np.maximum(params.mu, 0.0) if code == ROUNDED_COUNT else params.mu
                mean[which] = np.where(params.a > 0.5, first, centre)
            else:
                mean[which] = params.mu if code == GAUSSIAN else FAMILY[code].predictive_mean(params)
                spread = FAMILY[code].predictive_variance(params)
            variance[which] = np.where(np.isnan(spread), np.inf, spread)
        elif not isinstance(event, Interval):
            x = np.array(sorted(event), dtype=np.float64)
            mean[which], variance[which] = weighted_moments(x, relative_masses(log_masses(code, params, x)))
        else:
            mean[which], variance[which] = _WITHIN[code](params, *event)
    return mean, variance


_WITHIN: dict[int, Any] = {
    GAUSSIAN: student_moments,
    ROUNDED_GAUSSIAN: lambda params, low, high: rounded_moments(params, low, high, False),
    ROUNDED_COUNT: lambda params, low, high: rounded_moments(params, low, high, True),
    LOG_NORMAL: log_student_moments,
    EXPONENTIAL: lomax_moments,
    POISSON: count_moments,
    GEOMETRIC: beta_geometric_moments,
    BINOMIAL: beta_binomial_moments,
}


def draw_in_event(leaves: Leaves, event: Any, rng: np.random.Generator) -> np.ndarray:
    """One value (n,) from each leaf's predictive, given that it lies in the event."""
    out = np.empty(leaves.family.size)
    for code, which, params in by_family(leaves):
        u = rng.random(np.count_nonzero(which))
        if not isinstance(event, Interval):
            x = np.array(sorted(event), dtype=np.float64)
            if code == CATEGORICAL:
                weight = Categorical.predictive_probabilities(params)[:, x.astype(np.int64)]
            elif code in WHOLE:
                weight = relative_masses(log_masses(code, params, x))
            else:
                weight = np.ones((u.size, x.size))  # never chosen: a set has no mass under a density
            cumulative = np.cumsum(weight, axis=1)
            out[which] = x[(u[:, None] * cumulative[:, -1:] >= cumulative[:, :-1]).sum(axis=1)]
        elif code == GAUSSIAN:
            out[which] = _invert_student(params, event, u)
        elif code in ROUNDED:
            ends = count_cells_within(*event) if code == ROUNDED_COUNT else cells_within(*event)
            cells = Interval(*(float(end) for end in ends))
            # what lies on the outer edge of an outermost cell may round to the number beyond
            x = np.round(_invert_student(params, cells, u))
            least = 0.0 if code == ROUNDED_COUNT else -np.inf
            out[which] = np.clip(x, max(cells.low + 0.5, least), cells.high - 0.5)
        elif code == LOG_NORMAL:
            with np.errstate(divide="ignore"):
                logs = Interval(float(np.log(max(event.low, 0.0))), float(np.log(max(event.high, 0.0))))
            out[which] = np.clip(np.exp(_invert_student(params, logs, u)), event.low, event.high)
        elif code == EXPONENTIAL:
            low, high = (np.log1p(np.maximum(v, 0.0) / params.beta) for v in event)
            w = low - np.log1p(u * np.expm1(-params.alpha * (high - low))) / params.alpha
            out[which] = np.clip(params.beta * np.expm1(w), event.low, event.high)
        elif code == BINOMIAL:
            out[which] = _invert_successes(params, event, u)
        else:
            out[which] = _invert_counts(FAMILY[code], params, event, u)
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


def _invert_counts(family: Any, params: Any, event: Interval, u: np.ndarray) -> np.ndarray:
    """Smallest count up to which the interval holds a share u of its mass."""
    first = max(math.ceil(event.low), 0) if event.low > -math.inf else 0
    log_total = family.predictive_log_interval(params, event.low, event.high)
    with np.errstate(divide="ignore"):
        target = np.log(u) + log_total
    last = math.floor(event.high) if event.high < math.inf else math.inf

    def short(x: np.ndarray) -> np.ndarray:
        return family.predictive_log_interval(params, event.low, x) < target

    ends = np.full(u.size, first - 1.0), np.full(u.size, float(first))
    return smallest_whole_reaching(short, *ends, first - 1.0, last)


def _invert_successes(params: BetaTrials, event: Interval, u: np.ndarray) -> np.ndarray:
    """As `_invert_counts`, by the masses of all counts of the interval, which has few under these leaves."""
    x = counts_within(params, *event)
    out = np.full(u.size, max(math.ceil(event.low), 0.0) if event.low > -math.inf else 0.0)
    step = max(1, HELD // max(x.size, 1))
    for i in range(0, u.size if x.size else 0, step):
        part = slice(i, i + step)
        logs = Binomial.predictive_log_density(BetaTrials(*(v[part, None] for v in params)), x)
        cumulative = np.cumsum(np.exp(logs - logs.max(axis=1, keepdims=True)), axis=1)
        out[part] = x[(u[part, None] * cumulative[:, -1:] >= cumulative[:, :-1]).sum(axis=1)]
    return out
