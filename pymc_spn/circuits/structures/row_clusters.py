"""Rows of a table in clusters, for learners of structure that look at one cluster after the other."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

STEPS = 20  # of k-means
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
    points = [
        _levels(x) if is_level[d] else _numbers(x) for d, x in zip(columns, values[rows][:, columns].T, strict=True)
    ]
    distinct = np.unique(np.stack([p.at for p in points], axis=1), axis=0).shape[0]
    n_clusters = min(n_clusters, distinct)
    if n_clusters == 1:
        return [rows]
    label = _k_means(points, rows.size, n_clusters, rng)
    clusters = [rows[label == k] for k in range(n_clusters)]
    return [cluster for cluster in clusters if cluster.size]


class _Coordinates(NamedTuple):
    """A column as k-means sees it: one number a row, or an indicator of each level, of which the rows hold the code."""

    at: np.ndarray  # (n,) where the rows are; codes of levels as floats, K where missing
    shares: np.ndarray  # (K,) of the levels, which is where missing ones are; empty for numbers
    scale: float  # of all indicators of the column; 1 for numbers

    def centre(self, members: np.ndarray) -> np.ndarray:
        """Mean (1,) or (K,) of some rows (n,), all in units of the indicators."""
        if self.shares.size == 0:
            return np.array([self.at[members].mean()])
        counts = np.bincount(self.at[members].astype(np.int64), minlength=self.shares.size + 1)
        return (counts[:-1] + counts[-1] * self.shares) / counts.sum()

    def squared_distances(self, centre: np.ndarray) -> np.ndarray:
        """Of all rows (n,) from a centre: those from an indicator need no more than its code."""
        if self.shares.size == 0:
            return np.square(self.at - centre[0])
        of_levels = (1.0 - 2.0 * centre) + np.square(centre).sum()
        table = np.append(of_levels, np.square(centre - self.shares).sum()) / self.scale**2
        return table[self.at.astype(np.int64)]


def _numbers(x: np.ndarray) -> _Coordinates:
    seen = ~np.isnan(x)
    at = np.zeros(x.size)
    if seen.any():
        own = x[seen]
        size = np.abs(own).max()
        if size > LARGE or 0.0 < size < 1.0 / LARGE:
            own = own / size
        own = own - own.mean()
        at[seen] = own / (own.std() or 1.0)
    return _Coordinates(at, np.empty(0), 1.0)


def _levels(x: np.ndarray) -> _Coordinates:
    seen = ~np.isnan(x)
    levels, codes = np.unique(x[seen], return_inverse=True)
    if levels.size < 2:
        return _numbers(np.zeros(x.size))  # missing or not, all rows are alike
    at = np.full(x.size, float(levels.size))
    at[seen] = codes
    shares = np.bincount(codes) / codes.size
    return _Coordinates(at, shares, float(np.sqrt((shares * (1.0 - shares)).mean())))


def _k_means(points: list[_Coordinates], n_rows: int, n_clusters: int, rng: np.random.Generator) -> np.ndarray:
    """Clusters (n,) of the rows by Lloyd's algorithm from centres of k-means++ (Arthur and Vassilvitskii 2007).

    Same draws and steps as SciPy's `kmeans2`, which would need every indicator of every level as a number.
    """

    def distances(centre: list[np.ndarray]) -> np.ndarray:
        return np.sum([p.squared_distances(c) for p, c in zip(points, centre, strict=True)], axis=0)

    nearest, centres = np.full(n_rows, np.inf), []
    chosen = int(rng.integers(n_rows))
    while True:
        centres.append([p.centre(np.array([chosen])) for p in points])
        if len(centres) == n_clusters:
            break
        nearest = np.minimum(nearest, np.maximum(distances(centres[-1]), 0.0))
        chosen = min(int(np.searchsorted((nearest / nearest.sum()).cumsum(), rng.uniform())), n_rows - 1)
    label = np.full(n_rows, -1)
    for _ in range(STEPS):
        previous, label = label, np.argmin([distances(centre) for centre in centres], axis=0)
        if np.array_equal(label, previous):
            break
        for k in range(n_clusters):
            members = np.flatnonzero(label == k)
            if members.size:  # an empty one stays where it was
                centres[k] = [p.centre(members) for p in points]
    return label
