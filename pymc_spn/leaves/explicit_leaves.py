"""Leaves with explicit parameters, as rows (..., p): what a `Circuit` may hold, by name.

Beside the conjugate families stand the predictives of their leaves (Student t, Lomax, negative binomial, ..), so that
a posterior predictive is itself such a circuit, families without a place in the collapsed sampler (`plain_leaves`), and
distributions of SciPy (`scipy_leaves`), of which a row holds one in the place of parameters.
NaN in a value gives NaN.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_spn.leaves.binomial import BetaTrials, Binomial
from pymc_spn.leaves.discrete_families import Bernoulli, Categorical, Poisson, draw_counts
from pymc_spn.leaves.geometric import BetaProbability, Geometric, draw_failures
from pymc_spn.leaves.leaf_statistics import GammaRate
from pymc_spn.leaves.log_normal import LogNormal
from pymc_spn.leaves.plain_leaves import (
    PLAIN,
    TRIALS_RULE,
    ExplicitLeaf,
    all_positive,
    are_trials,
    checked_rows,
)
from pymc_spn.leaves.real_families import Exponential, Gaussian
from pymc_spn.leaves.scipy_leaves import SCIPY_LEAVES
from pymc_spn.leaves.tail_probabilities import log_gamma_ratio


def _student_problem(parameters: np.ndarray) -> tuple[int, str] | None:
    if parameters.shape[1] != 3:
        return 0, "rows must be (location, scale, degrees of freedom)"
    wrong = ~(np.isfinite(parameters).all(axis=1) & (parameters[:, 1:] > 0).all(axis=1))
    rule = "location must be finite, scale and degrees of freedom positive"
    return (int(np.argmax(wrong)), rule) if np.any(wrong) else None


def on_positives(x: Any, log_density: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Density of log x carried over to x > 0, ``-inf`` elsewhere, NaN at NaN."""
    x = np.asarray(x, dtype=np.float64)
    logs = np.log(np.where(x > 0, x, 1.0))
    with np.errstate(invalid="ignore"):
        inside = np.where(np.isposinf(x), -np.inf, log_density(logs) - logs)
    return np.where(np.isnan(x), np.nan, np.where(x > 0, inside, -np.inf))


def _student_log_density(p: np.ndarray, x: Any) -> np.ndarray:
    location, scale, dof = p[..., 0], p[..., 1], p[..., 2]
    z2 = np.square((np.asarray(x, dtype=np.float64) - location) / scale)
    norm = log_gamma_ratio(0.5 * dof, 0.5) - 0.5 * np.log(np.pi * dof) - np.log(scale)
    return norm - 0.5 * (dof + 1.0) * np.log1p(z2 / dof)


def _student_variance(p: np.ndarray) -> np.ndarray:
    dof = p[..., 2]
    finite = np.square(p[..., 1]) * dof / np.where(dof > 2, dof - 2, 1.0)
    return np.where(dof > 2, finite, np.where(dof > 1, np.inf, np.nan))


def _lomax_log_density(p: np.ndarray, x: Any) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    inside = np.log(p[..., 0] / p[..., 1]) - (p[..., 0] + 1.0) * np.log1p(np.where(x < 0, 0.0, x) / p[..., 1])
    return np.where(x < 0, -np.inf, inside)


def _lomax_mean(p: np.ndarray) -> np.ndarray:
    alpha = p[..., 0]
    return np.where(alpha > 1, p[..., 1] / np.where(alpha > 1, alpha - 1, 1.0), np.inf)


def _lomax_variance(p: np.ndarray) -> np.ndarray:
    a = np.where(p[..., 0] > 2, p[..., 0], 3.0)
    finite = np.square(p[..., 1] / (a - 1)) * a / (a - 2)
    return np.where(p[..., 0] > 2, finite, np.where(p[..., 0] > 1, np.inf, np.nan))


def _beta_geometric_mean(p: np.ndarray) -> np.ndarray:
    a = p[..., 0]
    return np.where(a > 1, p[..., 1] / np.where(a > 1, a - 1, 1.0), np.inf)


def _beta_geometric_variance(p: np.ndarray) -> np.ndarray:
    b = p[..., 1]
    a = np.where(p[..., 0] > 2, p[..., 0], 3.0)
    finite = b * (a + b - 1.0) * a / (np.square(a - 1.0) * (a - 2.0))
    return np.where(p[..., 0] > 2, finite, np.where(p[..., 0] > 1, np.inf, np.nan))


def _trials(p: np.ndarray) -> BetaTrials:
    return BetaTrials(p[..., 1], p[..., 2], p[..., 0])


def _levels(p: np.ndarray) -> np.ndarray:
    return np.concatenate([1.0 - p, p], axis=-1) if p.shape[-1] == 1 else p


def _draw_level(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    cumulative = np.cumsum(p, axis=-1)
    u = rng.random(p.shape[:-1])[..., None] * cumulative[..., -1:]
    code = (u >= cumulative).sum(axis=-1)
    return np.minimum(code, p.shape[-1] - 1).astype(np.float64)


def _mean_code(p: np.ndarray) -> np.ndarray:
    """Mean of codes 0..K-1, which is a number where their levels have an order."""
    return (np.arange(p.shape[-1]) * p).sum(axis=-1)


def _zeros(p: np.ndarray) -> np.ndarray:
    return np.zeros(p.shape[:-1])


EXPLICIT: dict[str, ExplicitLeaf] = {
    "gaussian": ExplicitLeaf(
        True,
        Gaussian.leaf_log_density,
        Gaussian.parameter_problem,
        lambda p: p[..., 0],
        lambda p: np.square(p[..., 1]),
        lambda p: p[..., 0],
        lambda p, rng: p[..., 0] + p[..., 1] * rng.standard_normal(p.shape[:-1]),
    ),
    "log_normal": ExplicitLeaf(
        True,
        LogNormal.leaf_log_density,
        LogNormal.parameter_problem,
        lambda p: np.exp(p[..., 0] + 0.5 * np.square(p[..., 1])),
        lambda p: np.expm1(np.square(p[..., 1])) * np.exp(2.0 * p[..., 0] + np.square(p[..., 1])),
        lambda p: np.exp(p[..., 0] - np.square(p[..., 1])),
        lambda p, rng: np.exp(p[..., 0] + p[..., 1] * rng.standard_normal(p.shape[:-1])),
        lowest=0.0,
    ),
    "exponential": ExplicitLeaf(
        True,
        Exponential.leaf_log_density,
        Exponential.parameter_problem,
        lambda p: 1.0 / p[..., 0],
        lambda p: 1.0 / np.square(p[..., 0]),
        _zeros,
        lambda p, rng: rng.standard_exponential(p.shape[:-1]) / p[..., 0],
        lowest=0.0,
    ),
    "poisson": ExplicitLeaf(
        False,
        Poisson.leaf_log_density,
        Poisson.parameter_problem,
        lambda p: p[..., 0],
        lambda p: p[..., 0],
        lambda p: np.floor(p[..., 0]),
        lambda p, rng: draw_counts(p[..., 0], rng),
        lowest=0.0,
    ),
    "geometric": ExplicitLeaf(
        False,
        Geometric.leaf_log_density,
        Geometric.parameter_problem,
        lambda p: (1.0 - p[..., 0]) / p[..., 0],
        lambda p: (1.0 - p[..., 0]) / np.square(p[..., 0]),
        _zeros,
        lambda p, rng: draw_failures(p[..., 0], rng),
        lowest=0.0,
    ),
    "bernoulli": ExplicitLeaf(
        False,
        Bernoulli.leaf_log_density,
        Bernoulli.parameter_problem,
        lambda p: p[..., 0],
        lambda p: p[..., 0] * (1.0 - p[..., 0]),
        lambda p: (p[..., 0] > 0.5).astype(np.float64),
        lambda p, rng: _draw_level(_levels(p), rng),
    ),
    "categorical": ExplicitLeaf(
        False,
        Categorical.leaf_log_density,
        Categorical.parameter_problem,
        _mean_code,
        lambda p: ((np.arange(p.shape[-1]) - _mean_code(p)[..., None]) ** 2 * p).sum(axis=-1),
        lambda p: np.argmax(p, axis=-1).astype(np.float64),
        _draw_level,
        numeric=False,
    ),
    "student_t": ExplicitLeaf(
        True,
        _student_log_density,
        _student_problem,
        lambda p: np.where(p[..., 2] > 1, p[..., 0], np.nan),
        _student_variance,
        lambda p: p[..., 0],
        lambda p, rng: p[..., 0] + p[..., 1] * rng.standard_t(p[..., 2]),
    ),
    "lomax": ExplicitLeaf(
        True,
        _lomax_log_density,
        all_positive("shape", "scale"),
        _lomax_mean,
        _lomax_variance,
        _zeros,
        lambda p, rng: p[..., 1] * rng.pareto(p[..., 0]),
        lowest=0.0,
    ),
    "log_student_t": ExplicitLeaf(
        True,
        lambda p, x: on_positives(x, lambda y: _student_log_density(p, y)),
        _student_problem,
        lambda p: np.full(p.shape[:-1], np.inf),
        lambda p: np.full(p.shape[:-1], np.nan),
        lambda p: _log_student_mode(p),
        lambda p, rng: np.exp(p[..., 0] + p[..., 1] * rng.standard_t(p[..., 2])),
        lowest=0.0,
    ),
    "negative_binomial": ExplicitLeaf(
        False,
        lambda p, x: Poisson.predictive_log_density(GammaRate(p[..., 0], p[..., 1]), x),
        all_positive("alpha", "beta"),
        lambda p: p[..., 0] / p[..., 1],
        lambda p: p[..., 0] / p[..., 1] * (1.0 + 1.0 / p[..., 1]),
        lambda p: np.maximum(np.floor((p[..., 0] - 1.0) / p[..., 1]), 0.0),
        lambda p, rng: Poisson.predictive_draw(GammaRate(p[..., 0], p[..., 1]), rng),
        lowest=0.0,
    ),
    "beta_geometric": ExplicitLeaf(
        False,
        lambda p, x: Geometric.predictive_log_density(BetaProbability(p[..., 0], p[..., 1]), x),
        all_positive("alpha", "beta"),
        _beta_geometric_mean,
        _beta_geometric_variance,
        _zeros,
        lambda p, rng: Geometric.predictive_draw(BetaProbability(p[..., 0], p[..., 1]), rng),
        lowest=0.0,
    ),
    "beta_binomial": ExplicitLeaf(
        False,
        lambda p, x: Binomial.predictive_log_density(_trials(p), x),
        checked_rows(
            "number of trials, alpha, beta",
            f"number of trials must be a whole number {TRIALS_RULE}, alpha and beta positive and finite",
            lambda p: are_trials(p[:, 0]) & (p[:, 1:] > 0).all(axis=1),
        ),
        lambda p: Binomial.predictive_mean(_trials(p)),
        lambda p: Binomial.predictive_variance(_trials(p)),
        lambda p: Binomial.predictive_mode(_trials(p)),
        lambda p, rng: Binomial.predictive_draw(_trials(p), rng),
        lowest=0.0,
    ),
    **PLAIN,
    **SCIPY_LEAVES,
}


def _log_student_mode(p: np.ndarray) -> np.ndarray:
    """Largest local maximum of the density of x: with z = (log x - m) / s, s (z^2 + v) = -(v + 1) z.

    Near x = 0 the density grows without bound for every v, but so slowly that the mass there is nothing; the local
    maximum stands for the mode where there is one, the location where there is none.
    """
    location, scale, dof = p[..., 0], p[..., 1], p[..., 2]
    root = np.square(dof + 1.0) - 4.0 * np.square(scale) * dof
    z = np.where(root >= 0, (-(dof + 1.0) + np.sqrt(np.maximum(root, 0.0))) / (2.0 * scale), 0.0)
    return np.exp(location + scale * z)
