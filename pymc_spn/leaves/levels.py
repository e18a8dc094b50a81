"""Leaves on levels: Bernoulli ones on two, with the probability of the second, and categorical ones, with all.

Formulas: Yokoi and Sato (2024), Table 8, with the categorical predictive alpha_N / sum(alpha_N).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pymc_spn.leaves.conjugate_pieces import DIRICHLET_PRIOR, Conjugate
from pymc_spn.leaves.family_codes import CODE
from pymc_spn.leaves.family_pieces import Kernels, Predictive
from pymc_spn.leaves.kernel_forms import IMPOSSIBLE, LEVEL, SWITCH, TABLE, log_or_impossible
from pymc_spn.leaves.leaf_family import UnivariateFamily, checked_rows, on_counts
from pymc_spn.leaves.leaf_statistics import require_positive
from pymc_spn.leaves.palette_entry import PaletteEntry
from pymc_spn.numerics.quoted_values import quoted

TOLERANCE = 1e-5  # how far probabilities may be from adding up to 1


class Levels(PaletteEntry):
    """What Bernoulli and Categorical share: a Dirichlet on K levels, coded 0..K-1 on the last axis."""

    relative_scale: float
    probabilities: tuple[float, ...] | None
    family: ClassVar[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        if self.probabilities is not None:
            given = np.asarray(require_positive(name, "probabilities", self.probabilities), np.float64)
            if given.ndim != 1 or abs(given.sum() - 1.0) > TOLERANCE:
                raise ValueError(f"{name}: probabilities must be of all levels and add up to 1, got {quoted(given)}")
            object.__setattr__(self, "probabilities", tuple((given / given.sum()).tolist()))

    def centre(self, values: np.ndarray, n_levels: int) -> np.ndarray:
        """Return the centre (K,) of the prior.

        If the entry does not give it, it is the frequencies of the observed codes (n,). Each of K levels then counts as
        if it had sqrt(K) values more. The centre uses the column twice: with only half a value more, levels that few
        rows or none have get too little probability in new rows.
        """
        name = type(self).__name__
        if n_levels < 1:
            raise ValueError(f"{name}: n_levels must be at least 1, got {n_levels}")
        if self.probabilities is None:
            counts = np.bincount(values.astype(np.int64), minlength=n_levels) + n_levels**0.5
            return counts / counts.sum()
        if len(self.probabilities) != n_levels:
            raise ValueError(f"{name}: probabilities must be of the {n_levels} levels, got {len(self.probabilities)}")
        return np.array(self.probabilities)


@dataclass(frozen=True)
class Bernoulli(Levels):
    """Bernoulli leaf on levels 0 and 1 with a Dirichlet (beta) prior.

    Parameters
    ----------
    relative_scale : float
        Factor on the column's ``leaf_scale`` for these leaves.
    probabilities : sequence of float, optional
        Centre of the prior: of the first and of the second level. None takes the frequencies of the observed column,
        with sqrt(2) more rows on each level.

    Examples
    --------
    >>> flags = df.assign(owner=rng.random(80) < 0.5)
    >>> fit = ps.fit_variational(flags, leaves={"owner": [ps.leaves.Bernoulli()]})
    """

    relative_scale: float = 1.0
    probabilities: tuple[float, ...] | None = None
    family: ClassVar[str] = "bernoulli"
    kinds: ClassVar[tuple[str, ...]] = ("binary",)
    code = CODE["categorical"]


@dataclass(frozen=True)
class Categorical(Levels):
    """Categorical leaf on levels 0..K-1 with a Dirichlet prior.

    Its codes have no mean or variance.

    Parameters
    ----------
    relative_scale : float
        Factor on the column's ``leaf_scale`` for these leaves.
    probabilities : sequence of float, optional
        Centre of the prior, with the levels in their order. None takes the frequencies of the observed column, with
        sqrt(K) more rows on each of K levels; ``[1 / K] * K`` is a uniform centre.

    Examples
    --------
    >>> fit = ps.fit_variational(df, leaves={"job": [ps.leaves.Categorical(relative_scale=0.5)]})
    """

    relative_scale: float = 1.0
    probabilities: tuple[float, ...] | None = None
    family: ClassVar[str] = "categorical"
    kinds: ClassVar[tuple[str, ...]] = ("ordinal", "binary", "categorical")


def draw_shares(alpha: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Probabilities of levels (n, K) from Dirichlet posteriors."""
    # log Gamma(a) draws as log Gamma(a + 1) + log(u) / a: small alpha does not underflow to 0 / 0
    log_g = np.log(rng.standard_gamma(alpha + 1.0)) + np.log1p(-rng.random(alpha.shape)) / alpha
    g = np.exp(log_g - log_g.max(axis=-1, keepdims=True))
    return g / g.sum(axis=-1, keepdims=True)


def draw_second_levels(alpha: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Probabilities of the second of two levels (n, 1), parameters of Bernoulli leaves, from posteriors (n, 2)."""
    return rng.beta(alpha[:, 1], alpha[:, 0])[:, None]


def _log_mass(p: np.ndarray, x: Any) -> np.ndarray:
    """Log mass of leaves (..., K), ``-inf`` off the levels."""

    def log_mass(code: np.ndarray) -> np.ndarray:
        shape, n_levels = np.broadcast_shapes(p.shape[:-1], code.shape), p.shape[-1]
        level = np.broadcast_to(np.minimum(code, n_levels - 1.0), shape)[..., None].astype(np.int64)
        mass = np.take_along_axis(np.broadcast_to(p, (*shape, n_levels)), level, axis=-1)[..., 0]
        with np.errstate(divide="ignore"):
            return np.where(code < n_levels, np.log(mass), -np.inf)

    return on_counts(x, log_mass)


def _cdf(p: np.ndarray, x: Any) -> np.ndarray:
    """P(X <= x) in the order of the codes."""
    x = np.asarray(x, dtype=np.float64)
    below = np.where(np.arange(p.shape[-1]) <= x[..., None], p, 0.0).sum(axis=-1)
    return np.where(np.isnan(x), np.nan, np.minimum(below, 1.0))


def both_levels(p: np.ndarray) -> np.ndarray:
    """Probabilities (..., 2) of Bernoulli leaves (..., 1)."""
    return np.concatenate([1.0 - p, p], axis=-1)


def _draw(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    cumulative = np.cumsum(p, axis=-1)
    u = rng.random(p.shape[:-1])[..., None] * cumulative[..., -1:]
    code = (u >= cumulative).sum(axis=-1)
    return np.minimum(code, p.shape[-1] - 1).astype(np.float64)


def _mean(p: np.ndarray) -> np.ndarray:
    """Mean of codes 0..K-1, which is a number where their levels have an order."""
    return (np.arange(p.shape[-1]) * p).sum(axis=-1)


def _log_interval(p: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    code = np.arange(p.shape[-1])
    inside = (code >= low[..., None]) & (code <= high[..., None])
    with np.errstate(divide="ignore"):
        return np.log((p * inside).sum(axis=-1))


def _switch_coefficients(theta, width, out):
    out[0] = log_or_impossible(1.0 - theta[0])
    out[1] = log_or_impossible(theta[0])


def _switch(lead, a, b, c, table, u):
    return lead if u == 0.0 else a if u == 1.0 else IMPOSSIBLE


def _table_coefficients(theta, width, out):
    out[0] = float(width)


def _table(lead, a, b, c, table, u):
    return table[int(u)] if u < lead else IMPOSSIBLE


def _add_switch_gradient(theta, width, u, x, flow, out):
    out[0] += flow / theta[0] if u == 1.0 else -flow / (1.0 - theta[0])


def _add_table_gradient(theta, width, u, x, flow, out):
    if u < width:
        out[int(u)] += flow / theta[int(u)]


def _draw_switch(rng, theta):
    return 1.0 if rng.random() < theta[0] else 0.0


def _draw_level(rng, theta):
    left = rng.random()
    for v in range(theta.size - 1):
        left -= theta[v]
        if left < 0.0:
            return float(v)
    return float(theta.size - 1)


def _is_share(theta):
    return 0.0 <= theta[0] <= 1.0


def _are_shares(theta):
    total = 0.0
    for x in theta:
        total += x
        if not 0.0 <= x <= 1.0:
            return False
    return abs(total - 1.0) < TOLERANCE


BERNOULLI = UnivariateFamily(
    name="bernoulli",
    n_parameters=1,
    is_density=False,
    log_density=lambda p, x: _log_mass(both_levels(p), x),
    check=checked_rows(
        "probability of level 1",
        "the probability must be within 0 and 1",
        lambda p: (p[:, 0] >= 0) & (p[:, 0] <= 1),
    ),
    mean=lambda p: p[..., 0],
    variance=lambda p: p[..., 0] * (1.0 - p[..., 0]),
    mode=lambda p: (p[..., 0] > 0.5).astype(np.float64),
    draw=lambda p, rng: _draw(both_levels(p), rng),
    log_interval=lambda p, low, high: _log_interval(both_levels(p), low, high),
    probabilities=both_levels,
    ends=lambda p: ((p[:, 0] >= 1.0).astype(np.float64), (p[:, 0] > 0.0).astype(np.float64)),
    kernels=Kernels(SWITCH, LEVEL, _switch, _switch_coefficients, _add_switch_gradient, _draw_switch, _is_share),
)


def _raw_moments(p: np.ndarray, centre: float, order: int) -> np.ndarray:
    x = np.arange(p.shape[1]) - centre
    return p @ np.stack([x**k for k in range(order + 1)], axis=1)


def _problem(parameters: np.ndarray) -> tuple[int, str] | None:
    wrong = ~((parameters >= 0).all(axis=1) & (np.abs(parameters.sum(axis=1) - 1.0) < 1e-6))
    return (int(np.argmax(wrong)), "probabilities must be at least 0 and add up to 1") if np.any(wrong) else None


def _prior(mean, variance, floor, scale, n_levels, leaf_shape, precision_ratio):
    """Mean mass of a level, and the mass of all."""
    a = 1.0 / scale
    return a, a * n_levels, 0.0, 0.0


def _conjugate_posterior(n, s1, s2, p0, p1, p2, p3):
    return p0, p1 + n, 0.0, 0.0


CATEGORICAL = UnivariateFamily(
    name="categorical",
    is_density=False,
    log_density=_log_mass,
    check=_problem,
    mean=_mean,
    variance=lambda p: ((np.arange(p.shape[-1]) - _mean(p)[..., None]) ** 2 * p).sum(axis=-1),
    mode=lambda p: np.argmax(p, axis=-1).astype(np.float64),
    draw=_draw,
    log_interval=_log_interval,
    numeric=False,
    probabilities=lambda p: p,
    ends=lambda p: (
        np.argmax(p > 0.0, axis=1).astype(np.float64),
        p.shape[1] - 1.0 - np.argmax(p[:, ::-1] > 0.0, axis=1),
    ),
    cdf=_cdf,
    bulk=lambda p: (np.zeros(len(p)), np.full(len(p), float(p.shape[1]))),
    raw_moments=_raw_moments,
    kernels=Kernels(TABLE, LEVEL, _table, _table_coefficients, _add_table_gradient, _draw_level, _are_shares),
)
PREDICTIVE = Predictive(
    entry=Categorical,
    leaves=CATEGORICAL,
    leaf_rows=lambda alpha: alpha / alpha.sum(axis=-1, keepdims=True),
    draw_parameters=draw_shares,
    conjugate=Conjugate(reading=LEVEL, prior_form=DIRICHLET_PRIOR, prior=_prior, posterior=_conjugate_posterior),
)
