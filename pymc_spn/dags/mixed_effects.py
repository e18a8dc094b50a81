"""Means of a numeric variable when another is set, in conditional Gaussian networks: exact sums in each graph.

The mean of a numeric variable is its intercept plus the sum of its numeric parents' means times their coefficients; all
of these depend on levels. Multiplied out, that is a sum over walks: a walk starts at the effect, goes on to a numeric
parent, and stops at an intercept or at the cause. Each step of a walk is one more variable with levels. So the sum over
walks and over levels is a sum of the kind that `level_effects` does, one variable at a time.
"""

from typing import NamedTuple

import numpy as np

from pymc_spn.dags.causal_effects import regression
from pymc_spn.dags.level_effects import Factor, Family, in_each_graph, law_of, table_of_levels
from pymc_spn.dags.mixed_rows import MixedRows
from pymc_spn.dags.scores import scale_matrix
from pymc_spn.numerics.memory_limits import refuse_memory


class Coefficients(NamedTuple):
    """Posterior of the regression of a numeric variable on l numeric parents, in each of q configurations of levels."""

    levels: tuple[int, ...]  # parents with levels
    numbers: tuple[int, ...]  # numeric parents
    mean: np.ndarray  # (q, l)
    spread: np.ndarray  # (q, l, l), times its transpose the inverse of the parents' scale matrix
    rest: np.ndarray  # (q,)
    df: np.ndarray  # (q,), of rest / variance, a chi-squared variable
    at: np.ndarray  # (q, 1 + l), posterior means of the child and its parents
    n_mean: np.ndarray  # (q,), rows behind them, the prior's included
    units: np.ndarray  # (1 + l,), of the child, and of its coefficients
    centres: np.ndarray  # (1 + l,), of the child and its parents


def means_when_set(
    graphs: np.ndarray, rows: MixedRows, cause: int, effect: int, rng: np.random.Generator | None
) -> np.ndarray:
    """(n, levels of the cause, 2): E(effect | do(cause)) in each graph, a constant and what a numeric cause multiplies.

    Parameters
    ----------
    graphs : (n, d, d) bool
        Parents by children.
    rows : MixedRows
    cause, effect : int
        Numbers of two variables. The effect is numeric; a numeric cause has one level, and the mean is linear in it.
    rng : Generator, optional
        Draw probabilities, coefficients and variances from their posterior. Without it they are integrated out: each
        term of the sum is a product of parameters of different variables, which are independent given the graph.
    """
    numbers = frozenset(rows.numeric.tolist())
    known: dict[Family, Coefficients] = {}

    def mean_of(families: tuple[Family, ...]) -> np.ndarray:
        numeric = [f for f in _children_first(families) if f[0] in numbers]
        state = {child: t for t, (child, *_) in enumerate(numeric)} | {-1: len(numeric)}
        state.setdefault(cause, len(numeric) + 1)
        levels = np.concatenate([rows.n_levels, np.full(len(numeric) + 1, len(numeric) + 2)])
        factors = [table_of_levels(rows, f, rng) for f in families if f[0] not in numbers]
        for t, family in enumerate(numeric):
            if family not in known:
                known[family] = posterior_of(rows, family)
            factors.append(_step(known[family], state, t, rows.n_levels, rng))
        return law_of(factors, cause, levels.size - 1, levels)[:, -2:]

    return in_each_graph(graphs, cause, effect, mean_of, rng is None)


def posterior_of(rows: MixedRows, family: Family) -> Coefficients:
    """Normal-Wishart posterior in each configuration; the prior where there are no rows.

    Given l numeric parents the degrees of freedom are alpha_w + n - k + l + 1, k being the number of numeric variables,
    as in `causal_effects`. The intercept is what makes the posterior means fit, plus a normal error with the variance
    of a mean of alpha_mu + n rows. The mean vector given the precision is normal (Geiger and Heckerman 2002,
    doi:10.1214/aos/1035844981).
    """
    child, *parents = family
    is_number = np.isin(parents, rows.numeric).tolist()
    levels = tuple(j for j, number in zip(parents, is_number, strict=True) if not number)
    numbers = tuple(j for j, number in zip(parents, is_number, strict=True) if number)
    places = rows.places((child, *numbers))
    shape = tuple(rows.n_levels[list(levels)])
    k, q = len(places), int(np.prod(shape, dtype=np.int64))
    refuse_memory("coefficients of all configurations", 8.0 * q * k**2, "use fewer candidates, or max_indegree=")
    matrices = np.broadcast_to(rows.prior_scale * np.eye(k), (q, k, k)).copy()
    n, at = np.zeros(q), np.zeros((q, k))
    for configuration, own in rows.configurations(child, levels):
        place = np.ravel_multi_index(configuration, shape) if shape else 0
        x = own[:, places]
        matrices[place] = scale_matrix(x, rows.alpha_mu, rows.prior_scale)
        n[place] = len(x)
        at[place] = x.sum(axis=0) / (rows.alpha_mu + len(x))
    mean, root, rest = regression(matrices, 0, np.arange(1, k))
    df, n_mean = rows.alpha_w + n - rows.numeric.size + k, rows.alpha_mu + n
    units = rows.units[places].copy()
    units[1:] = units[0] / units[1:]
    spread = np.linalg.inv(root).swapaxes(1, 2)
    return Coefficients(levels, numbers, mean, spread, rest, df, at, n_mean, units, rows.centres[places])


def intercept_and_slopes(known: Coefficients, rng: np.random.Generator | None) -> np.ndarray:
    """(q, 1 + l) in the units of the data: posterior means, or one draw."""
    slopes, noise = known.mean, 0.0
    if rng is not None:
        sd = np.sqrt(known.rest / rng.chisquare(known.df))
        normal = rng.standard_normal(known.at.shape)
        slopes = slopes + sd[:, None] * (known.spread @ normal[:, 1:, None])[..., 0]
        noise = sd / np.sqrt(known.n_mean) * normal[:, 0]
    out = np.empty(known.at.shape)
    out[:, 0] = known.at[:, 0] - (slopes * known.at[:, 1:]).sum(axis=1) + noise
    out[:, 1:] = slopes
    out *= known.units
    out[:, 0] += known.centres[0] - out[:, 1:] @ known.centres[1:]
    return out


def _step(
    known: Coefficients, state: dict[int, int], t: int, n_levels: np.ndarray, rng: np.random.Generator | None
) -> Factor:
    """How a walk goes on from variable t: to a numeric parent, or to its intercept; other walks stay where they are."""
    n_states, shape = len(state), tuple(n_levels[list(known.levels)])
    values = intercept_and_slopes(known, rng)
    refuse_memory("the mean of an effect in one graph", 8.0 * len(values) * n_states**2, "use fewer candidates")
    table = np.zeros((*shape, n_states, n_states))
    stay = np.arange(n_states) != t
    table[..., stay, stay] = 1.0
    table[..., t, [state[-1], *(state[j] for j in known.numbers)]] = values.reshape(*shape, -1)
    at = n_levels.size + t
    return ((*known.levels, at, at + 1), table) if t else ((*known.levels, at + 1), table[..., 0, :])


def _children_first(families: tuple[Family, ...]) -> list[Family]:
    """Families in an order in which each child stands before its parents."""
    left, found = list(families), []
    while left:
        parents = {j for _, *of_child in left for j in of_child}
        ready = [f for f in left if f[0] not in parents]
        found += ready
        left = [f for f in left if f not in ready]
    return found
