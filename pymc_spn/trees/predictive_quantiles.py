"""Quantiles and distribution functions of a response given rows: mixtures of the leaves that a row reaches."""

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betainc, ndtri, stdtr

from pymc_spn.numerics.answer_steps import each
from pymc_spn.numerics.halving import reach_levels, smallest_whole_reaching
from pymc_spn.numerics.row_mixtures import RowMixtures
from pymc_spn.trees.forest_kernels import shares_of_leaves
from pymc_spn.trees.leaf_kernels import NORMAL
from pymc_spn.trees.predictives import density_terms, leaf_log_density, moment_payload

if TYPE_CHECKING:
    from pymc_spn.trees.draws import TreeDraws

BLOCK_VALUES = 2_000_000  # values of leaves held at a time (16 MB)
LARGEST_COUNT = 1e15  # of a quantile
REST = 1e-13  # of the smaller tail: what the search of a quantile may leave


class LeafPredictives:
    """Distribution functions and densities of all leaves of drawn trees.

    Parameters
    ----------
    draws : TreeDraws
        Of a real or count response.
    """

    def __init__(self, draws: "TreeDraws") -> None:
        self.draws = draws
        self.is_real = draws.family.kernel == NORMAL
        self.terms = density_terms(draws, draws.nodes.size, draws.nodes.statistics, draws.tree_of_node)
        moments = moment_payload(draws)
        self.mean = moments[:, 0]
        self.width = self.terms[:, 2] if self.is_real else np.sqrt(moments[:, 1])

    def cdf(self, leaf: np.ndarray, x: np.ndarray) -> np.ndarray:
        """P(Y <= x) (P, Q) of leaves (P,) at points (P, Q) of their own."""
        one, two, three = (self.terms[leaf, k, None] for k in range(3))
        if self.is_real:
            return stdtr(one, (x - two) / three)
        return np.where(x < 0.0, 0.0, betainc(one, np.maximum(x, 0.0) + 1.0, two / (two + 1.0)))

    def density(self, leaf: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Density or mass (P, Q) of leaves (P,) at points (P, Q) of their own."""
        out = np.empty(x.shape)
        for k in range(x.shape[1]):
            out[:, k] = np.exp(leaf_log_density(self.draws, self.terms[leaf], x[:, k]))
        return out


def predictive_quantiles(
    draws: "TreeDraws", weights: list[np.ndarray], values: np.ndarray, soft: bool, q: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Quantiles at new rows, and what groups of trees contribute to them.

    Parameters
    ----------
    draws : TreeDraws
        Of a real or count response.
    weights : list of (T,) float64
        Of the trees of each of G groups; all together they add up to 1.
    values : (m, D) float64
    soft : bool
    q : (Q,) float64
        Within 0 and 1.

    Returns
    -------
    quantiles : (m, Q) float64
    away : (G, m, Q) float64
        Each group's share times what it alone answers differently, to first order; NaN where there is no density.
    """
    laws, shares = LeafPredictives(draws), np.array([w.sum() for w in weights])
    step = max(1, BLOCK_VALUES // (draws.n_trees * max(q.size, 1)))
    found, away = [np.zeros((0, q.size))], [np.zeros((len(weights), 0, q.size))]
    for start in each(range(0, len(values), step)):
        groups = [_mixtures(draws, w, values[start : start + step], soft) for w in weights]
        x = _quantiles(laws, _joined(groups), q)
        found.append(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            below = np.stack([g.sums(laws.cdf(g.component, x[g.row])) for g in groups])
            density = np.sum([g.sums(laws.density(g.component, x[g.row])) for g in groups], axis=0)
            away.append((below - shares[:, None, None] * q) / density)
    return np.concatenate(found), np.concatenate(away, axis=1)


def predictive_cdf(
    draws: "TreeDraws", weights: list[np.ndarray], values: np.ndarray, soft: bool, y: np.ndarray
) -> np.ndarray:
    """What groups of trees add (G, m) to P(Y <= y) at new rows (m, D), each with its own y (m,).

    Parameters are those of `predictive_quantiles`.
    """
    laws, step = LeafPredictives(draws), max(1, BLOCK_VALUES // draws.n_trees)
    found = [np.zeros((len(weights), 0))]
    for start in each(range(0, len(values), step)):
        rows, x = values[start : start + step], y[start : start + step, None].astype(np.float64)
        groups = [_mixtures(draws, w, rows, soft) for w in weights]
        found.append(np.stack([g.sums(laws.cdf(g.component, x[g.row]))[:, 0] for g in groups]))
    return np.concatenate(found, axis=1)


def _quantiles(laws: LeafPredictives, mixtures: RowMixtures, q: np.ndarray) -> np.ndarray:
    inner = (q > 0.0) & (q < 1.0)
    levels = q[inner]
    out = np.where(q <= 0.0, -np.inf if laws.is_real else 0.0, np.full((mixtures.n_rows, q.size), np.inf))
    mean, width = laws.mean[mixtures.component, None], laws.width[mixtures.component, None]
    centre = mixtures.sums(mean)
    length = mixtures.sums(width + np.abs(mean - centre[mixtures.row]))
    start = centre + length * ndtri(levels)

    def below(some: RowMixtures, x: np.ndarray) -> np.ndarray:
        return some.sums(laws.cdf(some.component, x[some.row]))

    if not laws.is_real:
        high = np.maximum(np.ceil(start), 0.0)
        ends = high - 1.0, high, -1.0, LARGEST_COUNT
        out[:, inner] = smallest_whole_reaching(lambda x: below(mixtures, x) < levels, *ends)
        return out

    def slope(some: RowMixtures, x: np.ndarray) -> np.ndarray:
        return some.sums(laws.density(some.component, x[some.row]))

    out[:, inner] = reach_levels(
        lambda rows, x: below(mixtures.of_rows(rows), x),
        lambda rows, x: slope(mixtures.of_rows(rows), x),
        levels,
        np.full(start.shape, -np.inf),
        np.full(start.shape, np.inf),
        start,
        length[:, 0],
        REST,
    )
    return out


def _mixtures(draws: "TreeDraws", weights: np.ndarray, values: np.ndarray, soft: bool) -> RowMixtures:
    """Leaves that rows reach in trees with these weights."""
    room = len(values) * int(np.count_nonzero(weights))
    while True:
        row, leaf, share = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room)
        n = shares_of_leaves(draws.flat, weights, values, soft, row, leaf, share)
        if n <= room:
            return RowMixtures(row[:n], leaf[:n], share[:n], len(values))
        room = n


def _joined(groups: list[RowMixtures]) -> RowMixtures:
    row = np.concatenate([g.row for g in groups])
    order = np.argsort(row, kind="stable")
    component, weight = np.concatenate([g.component for g in groups]), np.concatenate([g.weight for g in groups])
    return RowMixtures(row[order], component[order], weight[order], groups[0].n_rows)
