"""What a kind of leaf with explicit parameters is, and the kinds that have no module of their own.

Laplace, gamma, Weibull, beta, uniform, triangular, binomial and hypergeometric leaves: for circuits that are given,
built or fitted, and for parameters with priors of the user's own in `CircuitDensity`. Of these `binomial` integrates
one out. A mixture of uniform leaves is a histogram, one of triangular leaves a piecewise linear density
(`structures.piecewise_linear`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from pymc_spn.leaves.tail_probabilities import STIRLING_FROM, log_beta, stirling_rest

SMALLEST_SHARE, LARGEST_SHARE = 5e-324, 1.0 - 2.0**-53  # next to 0 and to 1, which beta leaves do not take
SMALLEST_SIZE, LARGEST_SIZE = 5e-324, 1.7976931348623157e308  # of gamma and Weibull leaves, which may round to 0 or inf
LARGEST_TRIALS = 2.0**53  # beyond it float64 does not tell whole numbers apart
TRIALS_RULE = "from 1 to 2^53"
LARGEST_POPULATION = 1e9 - 1.0  # NumPy's generator draws from smaller ones
Problem = Callable[[np.ndarray], tuple[int, str] | None]


class ExplicitLeaf(NamedTuple):
    """One kind of leaf; the functions take parameters (..., p).

    Parameters
    ----------
    is_density : bool
        Whether it has a density, else masses.
    log_density : callable
        Of parameters and values (...), in nats.
    problem : callable
        Of parameters (n, p): the first bad row and the rule that it breaks, or None.
    mean, variance, mode : callable
        NaN where there is none; an infinite mean or variance is ``inf``.
    draw : callable
        Of parameters and a generator: one value for each leading index.
    numeric : bool
        Whether values are numbers and not levels.
    lowest, highest : float
        Ends of the support that hold whatever the parameters are.
    """

    is_density: bool
    log_density: Callable[[np.ndarray, Any], np.ndarray]
    problem: Problem
    mean: Callable[[np.ndarray], np.ndarray]
    variance: Callable[[np.ndarray], np.ndarray]
    mode: Callable[[np.ndarray], np.ndarray]
    draw: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    numeric: bool = True
    lowest: float = -np.inf
    highest: float = np.inf


def checked_rows(names: str, rule: str, is_right: Callable[[np.ndarray], np.ndarray]) -> Problem:
    """Check that rows have the parameters ``names``, finite, and that ``is_right`` of (n, p) holds for each (n,)."""
    width = names.count(",") + 1

    def problem(parameters: np.ndarray) -> tuple[int, str] | None:
        if parameters.shape[1] != width:
            return 0, f"rows must be ({names}{',' if width == 1 else ''})"
        finite = np.isfinite(parameters).all(axis=1)
        wrong = ~finite
        wrong[finite] = ~is_right(parameters[finite])
        return (int(np.argmax(wrong)), rule) if np.any(wrong) else None

    return problem


def all_positive(*names: str) -> Problem:
    """Check that rows have these parameters, all positive and finite."""
    rule = f"{' and '.join(names)} must be positive and finite"
    return checked_rows(", ".join(names), rule, lambda p: (p > 0).all(axis=1))


def on_counts(x: Any, log_mass: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Log mass at counts, ``-inf`` at other numbers, NaN at NaN."""
    x = np.asarray(x, dtype=np.float64)
    is_count = (x >= 0) & (x == np.floor(x)) & np.isfinite(x)
    return np.where(np.isnan(x), np.nan, np.where(is_count, log_mass(np.where(is_count, x, 0.0)), -np.inf))


def _laplace(p: np.ndarray, x: Any) -> np.ndarray:
    return -np.abs(np.asarray(x, dtype=np.float64) - p[..., 0]) / p[..., 1] - np.log(2.0 * p[..., 1])


def _gamma(p: np.ndarray, x: Any) -> np.ndarray:
    shape, rate = p[..., 0], p[..., 1]
    x = np.asarray(x, dtype=np.float64)
    inside = (x > 0) & np.isfinite(x)
    y = np.where(inside, x, 1.0)
    large, few = np.maximum(shape, STIRLING_FROM), np.minimum(shape, STIRLING_FROM)
    logs = few * np.log(rate) - gammaln(few) + few * np.log(y) - rate * y
    t = np.log(y) - np.log(large / rate)
    with np.errstate(over="ignore"):
        deviance = large * (np.expm1(t) - t)
    by_deviance = 0.5 * np.log(large / (2.0 * np.pi)) - stirling_rest(large) - deviance
    logs = np.where(shape < STIRLING_FROM, logs, by_deviance) - np.log(y)
    return np.where(np.isnan(x), np.nan, np.where(inside, logs, -np.inf))


def _weibull(p: np.ndarray, x: Any) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    inside = (x > 0) & np.isfinite(x)
    y = np.log(np.where(inside, x, 1.0))
    return np.where(np.isnan(x), np.nan, np.where(inside, weibull_of_log(p, y) - y, -np.inf))


def weibull_of_log(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log density of the log of the value, y: a Gumbel density of minimum values."""
    t = p[..., 0] * (y - np.log(p[..., 1]))
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(t < 700.0, np.log(p[..., 0]) + t - np.exp(t), -np.inf)


def _weibull_variance(p: np.ndarray) -> np.ndarray:
    first = gammaln(1.0 + 1.0 / p[..., 0])
    with np.errstate(over="ignore"):
        return np.square(p[..., 1] * np.exp(first)) * np.expm1(gammaln(1.0 + 2.0 / p[..., 0]) - 2.0 * first)


def _draw_weibull(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        drawn = p[..., 1] * rng.standard_exponential(p.shape[:-1]) ** (1.0 / p[..., 0])
    return np.clip(drawn, SMALLEST_SIZE, LARGEST_SIZE)


def _weibull_mode(p: np.ndarray) -> np.ndarray:
    shape = np.maximum(p[..., 0], 1.0)
    return p[..., 1] * (1.0 - 1.0 / shape) ** (1.0 / shape)


def _beta(p: np.ndarray, x: Any) -> np.ndarray:
    alpha, beta = p[..., 0], p[..., 1]
    x = np.asarray(x, dtype=np.float64)
    inside = (x > 0) & (x < 1)
    y = np.where(inside, x, 0.5)
    logs = (alpha - 1.0) * np.log(y) + (beta - 1.0) * np.log1p(-y) - log_beta(alpha, beta)
    a, b = np.maximum(alpha, STIRLING_FROM), np.maximum(beta, STIRLING_FROM)
    away = y * b - (1.0 - y) * a  # (a + b) times the distance from the mean
    front = 0.5 * np.log(a / (2.0 * np.pi) * (b / (a + b))) + stirling_rest(a + b) - stirling_rest(a) - stirling_rest(b)
    near = (np.minimum(alpha, beta) >= STIRLING_FROM) & (np.abs(away) < 0.5 * np.minimum(a, b))
    away = np.where(near, away, 0.0)
    ratios = a * np.log1p(away / a) + b * np.log1p(-away / b)
    logs = np.where(near, front + ratios - np.log(y) - np.log1p(-y), logs)
    return np.where(np.isnan(x), np.nan, np.where(inside, logs, -np.inf))


def _beta_variance(p: np.ndarray) -> np.ndarray:
    total = p[..., 0] + p[..., 1]
    return p[..., 0] / total * (p[..., 1] / total) / (total + 1.0)


def _beta_mode(p: np.ndarray) -> np.ndarray:
    """Between 0 and 1 where both parameters are above 1; the mean where there is none."""
    has_one = (p > 1.0).all(axis=-1)
    above = p - np.where(has_one, 1.0, 0.0)[..., None]
    return above[..., 0] / above.sum(axis=-1)


def _uniform(p: np.ndarray, x: Any) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    inside = (x >= p[..., 0]) & (x <= p[..., 1])
    return np.where(np.isnan(x), np.nan, np.where(inside, -np.log(p[..., 1] - p[..., 0]), -np.inf))


def _triangular(p: np.ndarray, x: Any) -> np.ndarray:
    """Log of 2 / (upper - lower) times the share of the way from the nearer end to the mode.

    Continuous in the value and in the parameters, but for a mode at an end: that end belongs to the leaf, and the
    density jumps there. The derivatives jump at both ends and at the mode; outside the log density is ``-inf``.
    """
    lower, mode, upper = p[..., 0], p[..., 1], p[..., 2]
    x = np.asarray(x, dtype=np.float64)
    rises, falls = (lower <= x) & (x < mode), (mode < x) & (x <= upper)
    away = np.where(rises, x - lower, np.where(falls, upper - x, 1.0))
    span = np.where(rises, mode - lower, np.where(falls, upper - mode, 1.0))
    with np.errstate(divide="ignore"):
        inside = np.log(away / span) + np.log(2.0 / (upper - lower))
    return np.where(np.isnan(x), np.nan, np.where(rises | falls | (x == mode), inside, -np.inf))


def _triangular_rows(p: np.ndarray) -> np.ndarray:
    return (p[:, 0] <= p[:, 1]) & (p[:, 1] <= p[:, 2]) & (p[:, 0] < p[:, 2])


def _triangular_variance(p: np.ndarray) -> np.ndarray:
    rise, fall = p[..., 1] - p[..., 0], p[..., 2] - p[..., 1]
    return (np.square(rise) + rise * fall + np.square(fall)) / 18.0


def _draw_triangular(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """By the inverse of the distribution function, which is a root on either side of the mode."""
    lower, mode, upper = p[..., 0], p[..., 1], p[..., 2]
    width, below = upper - lower, rng.random(p.shape[:-1])
    rise, fall = (mode - lower) / width, (upper - mode) / width
    left, right = lower + width * np.sqrt(below * rise), upper - width * np.sqrt((1.0 - below) * fall)
    return np.clip(np.where(below < rise, left, right), lower, upper)  # rounding may lead past an end


def _binomial(p: np.ndarray, x: Any) -> np.ndarray:
    n, success = p[..., 0], p[..., 1]

    def log_mass(k: np.ndarray) -> np.ndarray:
        rest = np.maximum(n - k, 0.0)
        choose = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(rest + 1.0)
        return np.where(k <= n, choose + k * np.log(success) + rest * np.log1p(-success), -np.inf)

    return on_counts(x, log_mass)


def are_trials(n: np.ndarray) -> np.ndarray:
    """Whether numbers are such of trials, see `TRIALS_RULE`."""
    return (n >= 1) & (n <= LARGEST_TRIALS) & (n == np.floor(n))


def _binomial_rows(p: np.ndarray) -> np.ndarray:
    return are_trials(p[:, 0]) & (p[:, 1] > 0) & (p[:, 1] < 1)


def _hypergeometric(p: np.ndarray, x: Any) -> np.ndarray:
    population, successes, draws = p[..., 0], p[..., 1], p[..., 2]
    failures = population - successes

    def log_mass(k: np.ndarray) -> np.ndarray:
        possible = (k <= successes) & (k <= draws) & (draws - k <= failures)
        k = np.where(possible, k, np.maximum(draws - failures, 0.0))
        total = log_choose(successes, k) + log_choose(failures, draws - k) - log_choose(population, draws)
        return np.where(possible, total, -np.inf)

    return on_counts(x, log_mass)


def log_choose(n: Any, k: Any) -> np.ndarray:
    """Log of the number of sets of k among n."""
    return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)


def _hypergeometric_rows(p: np.ndarray) -> np.ndarray:
    whole = (p == np.floor(p)).all(axis=1) & (p >= 0).all(axis=1)
    return whole & (p[:, 0] >= 1) & (p[:, 0] <= LARGEST_POPULATION) & (p[:, 1:].max(axis=1) <= p[:, 0])


def _hypergeometric_variance(p: np.ndarray) -> np.ndarray:
    population, share, draws = p[..., 0], p[..., 1] / p[..., 0], p[..., 2]
    return draws * share * (1.0 - share) * (population - draws) / np.maximum(population - 1.0, 1.0)


def _draw_hypergeometric(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    population, successes, draws = np.moveaxis(p, -1, 0).astype(np.int64)
    return np.asarray(rng.hypergeometric(successes, population - successes, draws), np.float64)


PLAIN: dict[str, ExplicitLeaf] = {
    "laplace": ExplicitLeaf(
        True,
        _laplace,
        checked_rows("location, scale", "location must be finite, scale positive and finite", lambda p: p[:, 1] > 0),
        lambda p: p[..., 0],
        lambda p: 2.0 * np.square(p[..., 1]),
        lambda p: p[..., 0],
        lambda p, rng: rng.laplace(p[..., 0], p[..., 1]),
    ),
    "gamma": ExplicitLeaf(
        True,
        _gamma,
        all_positive("shape", "rate"),
        lambda p: p[..., 0] / p[..., 1],
        lambda p: p[..., 0] / np.square(p[..., 1]),
        lambda p: np.maximum(p[..., 0] - 1.0, 0.0) / p[..., 1],
        lambda p, rng: np.clip(rng.standard_gamma(p[..., 0]) / p[..., 1], SMALLEST_SIZE, LARGEST_SIZE),
        lowest=0.0,
    ),
    "weibull": ExplicitLeaf(
        True,
        _weibull,
        all_positive("shape", "scale"),
        lambda p: p[..., 1] * np.exp(gammaln(1.0 + 1.0 / p[..., 0])),
        _weibull_variance,
        _weibull_mode,
        _draw_weibull,
        lowest=0.0,
    ),
    "beta": ExplicitLeaf(
        True,
        _beta,
        all_positive("alpha", "beta"),
        lambda p: p[..., 0] / (p[..., 0] + p[..., 1]),
        _beta_variance,
        _beta_mode,
        lambda p, rng: np.clip(rng.beta(p[..., 0], p[..., 1]), SMALLEST_SHARE, LARGEST_SHARE),
        lowest=0.0,
        highest=1.0,
    ),
    "uniform": ExplicitLeaf(
        True,
        _uniform,
        checked_rows("low, high", "low and high must be finite, low below high", lambda p: p[:, 0] < p[:, 1]),
        lambda p: 0.5 * (p[..., 0] + p[..., 1]),
        lambda p: np.square(p[..., 1] - p[..., 0]) / 12.0,
        lambda p: 0.5 * (p[..., 0] + p[..., 1]),
        lambda p, rng: p[..., 0] + (p[..., 1] - p[..., 0]) * rng.random(p.shape[:-1]),
    ),
    "triangular": ExplicitLeaf(
        True,
        _triangular,
        checked_rows(
            "lower, mode, upper",
            "lower, mode and upper must be finite, lower below upper, mode neither below lower nor above upper",
            _triangular_rows,
        ),
        lambda p: p[..., 0] + ((p[..., 1] - p[..., 0]) + (p[..., 2] - p[..., 0])) / 3.0,
        _triangular_variance,
        lambda p: p[..., 1],
        _draw_triangular,
    ),
    "binomial": ExplicitLeaf(
        False,
        _binomial,
        checked_rows(
            "number of trials, probability",
            f"number of trials must be a whole number {TRIALS_RULE}, probability above 0 and below 1",
            _binomial_rows,
        ),
        lambda p: p[..., 0] * p[..., 1],
        lambda p: p[..., 0] * p[..., 1] * (1.0 - p[..., 1]),
        lambda p: np.minimum(np.floor((p[..., 0] + 1.0) * p[..., 1]), p[..., 0]),
        lambda p, rng: rng.binomial(p[..., 0].astype(np.int64), p[..., 1]).astype(np.float64),
        lowest=0.0,
    ),
    "hypergeometric": ExplicitLeaf(
        False,
        _hypergeometric,
        checked_rows(
            "population, successes, draws",
            "population must be a whole number from 1 to 999999999, successes and draws from 0 to the population",
            _hypergeometric_rows,
        ),
        lambda p: p[..., 2] * p[..., 1] / p[..., 0],
        _hypergeometric_variance,
        lambda p: np.floor((p[..., 2] + 1.0) * (p[..., 1] + 1.0) / (p[..., 0] + 2.0)),
        _draw_hypergeometric,
        lowest=0.0,
    ),
}
