"""Hypergeometric leaves: successes among draws, without putting back, from a population with so many successes."""

import math
from typing import Any

import numpy as np
from scipy.special import gammaln

from pymc_spn.leaves.family_pieces import Boxes, Kernels, Symbols
from pymc_spn.leaves.kernel_forms import FACTORIAL, IMPOSSIBLE, MATCHING
from pymc_spn.leaves.leaf_family import UnivariateFamily, checked_rows, on_counts
from pymc_spn.leaves.tail_probabilities import counts_between
from pymc_spn.numerics.elementary import digamma

LARGEST_POPULATION = 1e9 - 1.0  # NumPy's generator draws from smaller ones


def _log_density(p: np.ndarray, x: Any) -> np.ndarray:
    population, successes, draws = p[..., 0], p[..., 1], p[..., 2]
    failures = population - successes

    def log_mass(k: np.ndarray) -> np.ndarray:
        possible = (k <= successes) & (k <= draws) & (draws - k <= failures)
        k = np.where(possible, k, np.maximum(draws - failures, 0.0))
        total = _log_choose(successes, k) + _log_choose(failures, draws - k) - _log_choose(population, draws)
        return np.where(possible, total, -np.inf)

    return on_counts(x, log_mass)


def _log_choose(n: Any, k: Any) -> np.ndarray:
    """Log of the number of sets of k among n."""
    return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)


def _are_right(p: np.ndarray) -> np.ndarray:
    whole = (p == np.floor(p)).all(axis=1) & (p >= 0).all(axis=1)
    return whole & (p[:, 0] >= 1) & (p[:, 0] <= LARGEST_POPULATION) & (p[:, 1:].max(axis=1) <= p[:, 0])


def _variance(p: np.ndarray) -> np.ndarray:
    population, share, draws = p[..., 0], p[..., 1] / p[..., 0], p[..., 2]
    return draws * share * (1.0 - share) * (population - draws) / np.maximum(population - 1.0, 1.0)


def _mode(p: np.ndarray) -> np.ndarray:
    return np.floor((p[..., 2] + 1.0) * (p[..., 1] + 1.0) / (p[..., 0] + 2.0))


def _draw(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    population, successes, draws = np.moveaxis(p, -1, 0).astype(np.int64)
    return np.asarray(rng.hypergeometric(successes, population - successes, draws), np.float64)


def _log_interval(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Masses from the largest one within the interval outwards, by the ratios of neighbours, until they are nothing."""
    population, successes, draws, mode, first, last, empty = np.broadcast_arrays(
        p[..., 0], p[..., 1], p[..., 2], _mode(p), *counts_between(low, high)
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
    at_top = _log_density(np.stack([population, successes, draws], axis=-1), np.where(nothing, 0.0, top))
    return np.where(nothing, -np.inf, at_top + np.log(total))


def _coefficients(theta, width, out):
    successes, draws = theta[1], theta[2]
    failures, others = theta[0] - successes, theta[0] - draws
    both = math.lgamma(successes + 1.0) + math.lgamma(failures + 1.0)
    out[0] = both + math.lgamma(draws + 1.0) + math.lgamma(others + 1.0) - math.lgamma(theta[0] + 1.0)
    out[1] = successes
    out[2] = draws
    out[3] = failures - draws


def _form(lead, a, b, c, table, u):
    if u > a or u > b or u < -c:
        return IMPOSSIBLE
    return lead - math.lgamma(a - u + 1.0) - math.lgamma(b - u + 1.0) - math.lgamma(c + u + 1.0)


def _add_gradient(theta, width, u, x, flow, out):
    """All three as if they were continuous."""
    population, successes, draws = theta[0], theta[1], theta[2]
    rest = population - successes - draws + u  # failures that are not drawn
    if u <= successes and u <= draws and rest >= 0.0:
        failures = digamma(population - successes + 1.0)
        others = digamma(population - draws + 1.0)
        left = digamma(rest + 1.0)
        out[0] += flow * (failures + others - left - digamma(population + 1.0))
        out[1] += flow * (digamma(successes + 1.0) - failures - digamma(successes - u + 1.0) + left)
        out[2] += flow * (digamma(draws + 1.0) - others - digamma(draws - u + 1.0) + left)


def _draw_one(rng, theta):
    drawn = 0.0
    for i in range(int(theta[2])):
        if rng.random() * (theta[0] - i) < theta[1] - drawn:
            drawn += 1.0
    return drawn


def _are_valid(theta):
    population, successes, draws = theta[0], theta[1], theta[2]
    if not 1.0 <= population < math.inf or population != np.floor(population):
        return False
    if not (0.0 <= successes <= population and 0.0 <= draws <= population):
        return False
    return successes == np.floor(successes) and draws == np.floor(draws)


def _box_row(p: np.ndarray) -> tuple[Any, ...]:
    """(successes, draws, failures - draws, log constant)."""
    failures, others = p[0] - p[1], p[0] - p[2]
    constant = gammaln(np.array([p[1], failures, p[2], others]) + 1.0).sum() - gammaln(p[0] + 1.0)
    return p[1], p[2], failures - p[2], constant


def _box_log(a, b, c, e, x):
    if x < 0.0 or x > a or x > b or x < -c:
        return IMPOSSIBLE
    return e - math.lgamma(x + 1.0) - math.lgamma(a - x + 1.0) - math.lgamma(b - x + 1.0) - math.lgamma(c + x + 1.0)


def _box_mode(p):
    return math.floor((p[0] + 1.0) * (p[1] + 1.0) / (p[0] + p[1] + p[2] + 2.0))


def _in_jax(jax: Any, theta: Any, u: Any, zero: float) -> Any:
    population, successes, draws = jax.columns(theta)
    failures, others = population - successes, population - draws
    lead = jax.gammaln(successes + 1.0) + jax.gammaln(failures + 1.0) + jax.gammaln(draws + 1.0)
    is_possible = (u <= successes) & (u <= draws) & (draws - u <= failures)

    def remaining(total: Any) -> Any:
        return jax.gammaln(jax.where(is_possible, total - u, 0.0) + 1.0)

    left = remaining(successes) + remaining(draws) + remaining(failures - draws + 2.0 * u)
    lead = lead + jax.gammaln(others + 1.0) - jax.gammaln(population + 1.0)
    return jax.where(is_possible, lead - left, zero)


HYPERGEOMETRIC = UnivariateFamily(
    name="hypergeometric",
    n_parameters=3,
    is_density=False,
    log_density=_log_density,
    check=checked_rows(
        "population, successes, draws",
        "population must be a whole number from 1 to 999999999, successes and draws from 0 to the population",
        _are_right,
    ),
    mean=lambda p: p[..., 2] * p[..., 1] / p[..., 0],
    variance=_variance,
    mode=_mode,
    draw=_draw,
    log_interval=_log_interval,
    stays_as_given=True,
    lowest=0.0,
    ends=lambda p: (np.maximum(p[:, 1] + p[:, 2] - p[:, 0], 0.0), np.minimum(p[:, 1], p[:, 2])),
    kernels=Kernels(MATCHING, FACTORIAL, _form, _coefficients, _add_gradient, _draw_one, _are_valid),
    boxes=Boxes(row=_box_row, log_value=_box_log, mode=_box_mode, is_one_sided=True),
    symbols=Symbols(
        in_jax=_in_jax,
        are_valid=lambda jax, p: (p == jax.floor(p)) & (p >= 0.0) & (p <= p[:, :1]) & (p[:, :1] >= 1.0),
    ),
)
