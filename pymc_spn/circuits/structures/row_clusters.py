"""Rows of a table in clusters, for learners of structure that look at one cluster after the other."""

import warnings
from collections.abc import Sequence

import numpy as np

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
    from scipy.cluster.vq import kmeans2

    blocks = []
    for d in columns:
        x = values[rows, d]
        seen = ~np.isnan(x)
        block = (x[:, None] == np.unique(x[seen])).astype(np.float64) if is_level[d] else x[:, None].copy()
        if seen.any():
            size = np.abs(block[seen]).max()
            if size > LARGE or 0.0 < size < 1.0 / LARGE:
                block /= size
            block -= block[seen].mean(axis=0)
            block /= block[seen].std() or 1.0
        block[~seen] = 0.0
        blocks.append(block)
    points = np.hstack(blocks)
    n_clusters = min(n_clusters, np.unique(points, axis=0).shape[0])
    if n_clusters == 1:
        return [rows]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "One of the clusters is empty", UserWarning)  # it is left out below
        _, label = kmeans2(points, n_clusters, minit="++", rng=rng, missing="warn", iter=20)
    clusters = [rows[label == k] for k in range(n_clusters)]
    return [cluster for cluster in clusters if cluster.size]
