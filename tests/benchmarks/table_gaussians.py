"""Rivals of a table model that are Gaussians in scores of the numeric columns: mixtures, a copula.

Coded columns are independent categories with one count added to each level. Densities, what is missing in a row and
levels are answered in closed form.
"""

import warnings

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri
from sklearn.covariance import ledoit_wolf
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from tests.benchmarks.table_rules import VALIDATION

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
ROWS_A_COMPONENT = 8  # at least
FLOORS = (1e-3, 1e-4, 1e-5, 1e-6)  # of the variances of standardised columns
FEW_ROWS = 1000  # up to which every row is a validation row once
PATIENCE = 2  # sizes in a row that gain nothing, after which no larger one is tried
BANDWIDTHS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.4)  # times the normal reference rule
MOST_KERNELS = 2000
BACKGROUND = 0.01  # share of a wide normal distribution, so that rows outside of the kernels have a density
WIDE = 3.0  # its standard deviation, in those of the column
POINTS = 101  # equally likely scores over which a mean is taken: quantile functions have steps
LOG_2PI = np.log(2.0 * np.pi)


class Linear:
    """Standardised values as scores."""

    def __init__(self, x):
        self.centre, self.spread = x.mean(), x.std()

    def scores(self, x):
        return (x - self.centre) / self.spread

    def log_slopes(self, x, z):
        """Log of the derivative of the scores ``z`` at values ``x``."""
        return np.full(x.shape, -np.log(self.spread))

    def means(self, mean, variance):
        """Mean of the column where the score is normal."""
        return self.centre + self.spread * mean


class Kernels:
    """Normal scores under a kernel density, its bandwidth chosen by validation values.

    Parameters
    ----------
    x, validation : (N,) and (V,) float
    """

    def __init__(self, x, validation, rng):
        self.middle, self.wide = x.mean(), WIDE * x.std()
        self.nodes = x if len(x) <= MOST_KERNELS else rng.choice(x, MOST_KERNELS, replace=False)
        rule = 1.06 * x.std() * len(self.nodes) ** -0.2
        values = []
        for factor in BANDWIDTHS:
            self.width = factor * rule
            values.append(self.log_density(validation).mean())
        self.width = BANDWIDTHS[int(np.argmax(values))] * rule
        far = self.middle + x.std() * np.arange(-9, 10)
        self.grid = np.unique(np.concatenate([np.quantile(x, np.linspace(0, 1, 301)), far]))
        self.grid_scores = self.scores(self.grid)

    def log_density(self, x):
        u = (x[:, None] - self.nodes) / self.width
        near = logsumexp(-0.5 * u**2, axis=1) - np.log(len(self.nodes) * self.width)
        far = -0.5 * ((x - self.middle) / self.wide) ** 2 - np.log(self.wide)
        return np.logaddexp(np.log1p(-BACKGROUND) + near, np.log(BACKGROUND) + far) - 0.5 * LOG_2PI

    def tail(self, x, sign):
        """Probability below (1) or above (-1) of ``x``."""
        near = ndtr(sign * (x[:, None] - self.nodes) / self.width).mean(axis=1)
        return (1.0 - BACKGROUND) * near + BACKGROUND * ndtr(sign * (x - self.middle) / self.wide)

    def scores(self, x):
        below, above = self.tail(x, 1.0), self.tail(x, -1.0)
        return np.where(below < above, ndtri(below), -ndtri(above))

    def log_slopes(self, x, z):
        return self.log_density(x) + 0.5 * z**2 + 0.5 * LOG_2PI

    def means(self, mean, variance):
        nodes = ndtri((np.arange(POINTS) + 0.5) / POINTS)
        z = mean[..., None] + np.sqrt(variance)[..., None] * nodes
        return np.interp(z, self.grid_scores, self.grid).mean(axis=-1)


class GaussianTable:
    """A density over all columns of a table.

    Parameters
    ----------
    numeric : (D,) bool
    margins : list
        `Linear` or `Kernels` for each numeric column.
    weights : (K,) float
    means : (K, d) float
    covariances : (K, d, d) float
        Of the scores.
    level_logs : list of arrays
        Log probabilities for each coded column.
    chosen : str
        What validation rows chose, for the report.
    """

    def __init__(self, numeric, margins, weights, means, covariances, level_logs, chosen=""):
        self.numeric, self.margins, self.chosen = numeric, margins, chosen
        self.log_weights, self.means, self.covariances = np.log(weights), means, covariances
        self.level_logs = level_logs

    def log_density(self, values):
        """Log density of rows (M, D), cells that are NaN summed out; nats (M,)."""
        known = ~np.isnan(values)
        logs = np.zeros(len(values))
        for d, table in zip(np.flatnonzero(~self.numeric), self.level_logs, strict=True):
            logs[known[:, d]] += table[values[known[:, d], d].astype(int)]
        if not self.numeric.any():
            return logs
        z, slopes = self.scored(values[:, self.numeric])
        return logs + slopes + logsumexp(self.component_logs(z), axis=1)

    def scored(self, x):
        """Scores of numeric cells (M, d), and the log slopes of each row's added up (M,)."""
        z, slopes = np.full(x.shape, np.nan), np.zeros(len(x))
        for j, margin in enumerate(self.margins):
            seen = ~np.isnan(x[:, j])
            z[seen, j] = margin.scores(x[seen, j])
            slopes[seen] += margin.log_slopes(x[seen, j], z[seen, j])
        return z, slopes

    def component_logs(self, z):
        """Log of weight times density of the known scores, for each component (M, K)."""
        logs = np.empty((len(z), len(self.log_weights)))
        for seen, rows in patterns(~np.isnan(z)):
            for k, (mean, covariance) in enumerate(zip(self.means, self.covariances, strict=True)):
                factor = np.linalg.cholesky(covariance[np.ix_(seen, seen)])
                u = np.linalg.solve(factor, (z[np.ix_(rows, seen)] - mean[seen]).T)
                size = 0.5 * seen.sum() * LOG_2PI + np.log(np.diag(factor)).sum()
                logs[rows, k] = self.log_weights[k] - 0.5 * np.square(u).sum(axis=0) - size
        return logs

    def fill(self, values):
        """Means of missing numeric cells and the most probable levels of coded ones, given the rest of the row."""
        filled = values.copy()
        for d, table in zip(np.flatnonzero(~self.numeric), self.level_logs, strict=True):
            filled[np.isnan(values[:, d]), d] = table.argmax()
        places = np.flatnonzero(self.numeric)
        if not places.size:
            return filled
        z, _ = self.scored(values[:, places])
        logs = self.component_logs(z)
        shares = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        for seen, rows in patterns(~np.isnan(z)):
            gaps = np.flatnonzero(~seen)
            if not gaps.size:
                continue
            found = np.zeros((len(rows), gaps.size))
            for k, (mean, covariance) in enumerate(zip(self.means, self.covariances, strict=True)):
                gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, gaps)]).T
                centre = mean[gaps] + (z[np.ix_(rows, seen)] - mean[seen]) @ gain.T
                variance = np.diag(covariance)[gaps] - np.einsum("ij,ji->i", gain, covariance[np.ix_(seen, gaps)])
                for i, j in enumerate(gaps):
                    spread = np.full(len(rows), max(variance[i], 0.0))
                    found[:, i] += shares[rows, k] * self.margins[j].means(centre[:, i], spread)
            filled[np.ix_(rows, places[gaps])] = found
        return filled


def patterns(seen):
    """Each pattern of known cells (d,), and the rows that have it."""
    for pattern in np.unique(seen, axis=0):
        yield pattern, np.flatnonzero((seen == pattern).all(axis=1))


def level_logs(table, numeric):
    """Log probabilities of the levels of each coded column, one count added to each."""
    found = []
    for d in np.flatnonzero(~numeric):
        counts = np.bincount(table.values[:, d].astype(int), minlength=len(table.columns[d].levels)) + 1.0
        found.append(np.log(counts / counts.sum()))
    return found


def mixture(prepared, seed, kind):
    """A mixture of ``full`` or ``diag`` Gaussians; None without numeric columns.

    Validation rows choose the number of components and the floor of the variances, by cross-validation where rows are
    few; all rows are then learned from.
    """
    numeric, learning = prepared.numeric, prepared.learning
    if not numeric.any():
        return None
    margins = [Linear(x) for x in learning.values[:, numeric].T]
    together = np.column_stack([m.scores(x) for m, x in zip(margins, learning.values[:, numeric].T, strict=True)])
    parts = [np.s_[r::VALIDATION] for r in range(VALIDATION if len(together) <= FEW_ROWS else 1)]
    splits = [(np.delete(together, part, axis=0), together[part]) for part in parts]

    def score(size, floor):
        return np.mean([fitted(train, size, kind, floor, seed, 1).score(rest) for train, rest in splits])

    best = (-np.inf, 1, FLOORS[0])
    for floor in FLOORS:
        top, idle = -np.inf, 0
        for size in (k for k in SIZES if ROWS_A_COMPONENT * k <= len(splits[0][0]) or k == 1):
            value = score(size, floor)
            top, idle = (value, 0) if value > top else (top, idle + 1)
            best = max(best, (value, size, floor))
            if idle == PATIENCE:
                break
    _, size, floor = best
    found = fitted(together, size, kind, floor, seed, 3)
    covariances = found.covariances_ if kind == "full" else np.array([np.diag(v) for v in found.covariances_])
    chosen = f"{size} components, floor {floor:g}"
    return GaussianTable(
        numeric, margins, found.weights_, found.means_, covariances, level_logs(learning, numeric), chosen
    )


def fitted(z, size, kind, floor, seed, n_init):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = GaussianMixture(size, covariance_type=kind, reg_covar=floor, n_init=n_init, random_state=seed)
        return model.fit(z)


def copula(prepared, seed):
    """Kernel margins and a Gaussian copula, its correlations shrunk as by Ledoit and Wolf."""
    numeric, learning = prepared.numeric, prepared.learning
    rng = np.random.default_rng(seed)
    parts = [t.values[:, numeric].T for t in (prepared.train, prepared.validation)]
    margins = [Kernels(x, v, rng) for x, v in zip(*parts, strict=True)]
    n_numeric = int(numeric.sum())
    correlations = np.eye(n_numeric)
    if n_numeric > 1:
        ranks = learning.values[:, numeric].argsort(axis=0).argsort(axis=0)
        z = ndtri((ranks + 0.5) / len(ranks))
        covariance = ledoit_wolf(z)[0]
        spread = np.sqrt(np.diag(covariance))
        correlations = covariance / np.outer(spread, spread)
    one = np.ones(1), np.zeros((1, n_numeric)), correlations[None]
    return GaussianTable(numeric, margins, *one, level_logs(learning, numeric))
