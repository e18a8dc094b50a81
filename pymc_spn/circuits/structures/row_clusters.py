"""Rows of a table in clusters, for learners of structure that look at one cluster after the other."""

from collections.abc import Sequence

import numpy as np

from pymc_spn.numerics.k_means import join_points, k_means

ROUNDS = 20  # of k-means
LARGE = 1e100  # the squares of numbers far beyond have no place


def row_clusters(
    values: np.ndarray,
    is_level: np.ndarray,
    columns: Sequence[int],
    rows: np.ndarray,
    n_clusters: int,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Rows by k-means on some columns: numbers at unit scale, levels as indicators, gaps at the mean.

    Parameters
    ----------
    values : (N, D) float64
        Levels as integers, NaN where missing.
    is_level : (D,) bool
    columns : sequence of int
    rows : (n,) int64
    n_clusters : int
        At most; fewer where fewer rows are distinct.
    rng : numpy.random.Generator

    Returns
    -------
    list of (n_k,) int64
        None is empty; the rows keep their order.
    """
    cells = zip(columns, values[rows][:, columns].T, strict=True)
    points = join_points([_levels(x) if is_level[d] else _numbers(x) for d, x in cells])
    n_distinct, others = 1, points.at  # np.unique of rows takes ten times as long, and Ctrl-C ended in a TypeError
    while n_distinct <= n_clusters and (others := others[(others != others[0]).any(axis=1)]).size:
        n_distinct += 1
    n_clusters = min(n_clusters, n_distinct)
    if n_clusters == 1:
        return [rows]
    label = k_means(rng, points, np.arange(rows.size), 0, len(columns), n_clusters, ROUNDS)
    clusters = [rows[label == k] for k in range(n_clusters)]
    return [cluster for cluster in clusters if cluster.size]


def _numbers(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """A column of numbers for `join_points`."""
    seen = ~np.isnan(x)
    at = np.zeros(x.size)
    if seen.any():
        own = x[seen]
        size = np.abs(own).max()
        if size > LARGE or 0.0 < size < 1.0 / LARGE:
            own = own / size
        own = own - own.mean()
        at[seen] = own / (own.std() or 1.0)
    return at, np.empty(0), 1.0


def _levels(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """A column of levels for `join_points`: all its indicators have one scale."""
    seen = ~np.isnan(x)
    levels, codes = np.unique(x[seen], return_inverse=True)
    if levels.size < 2:
        return _numbers(np.zeros(x.size))  # missing or not, all rows are alike
    at = np.full(x.size, float(levels.size))
    at[seen] = codes
    shares = np.bincount(codes) / codes.size
    return at, shares, 1.0 / float((shares * (1.0 - shares)).mean())
