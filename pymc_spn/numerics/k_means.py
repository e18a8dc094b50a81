"""k-means on rows of numbers and levels.

A column of K levels counts as K indicators. A row has one of them, so that its squared distance from a centre depends
on its code alone. Centres are kept as tables of distances by code, and no indicator is ever written down. This is NumPy
on whole columns, since it runs before anything is sampled, where compiling would take longer.
"""

from typing import NamedTuple

import numpy as np


class ClusteredRows(NamedTuple):
    """Rows as k-means sees them.

    Parameters
    ----------
    at : (N, D) float64
        Numbers at unit scale, 0 where missing; codes of levels, K where missing.
    n_levels : (D,) int64
        K of each column of levels, 0 for numbers.
    first : (D,) int64
        Where the shares of a column's levels begin.
    shares : (S,) float64
        Of the levels, which is where a missing one stands among the indicators.
    weight : (D,) float64
        Of squared distances between the indicators of a column's levels.
    """

    at: np.ndarray
    n_levels: np.ndarray
    first: np.ndarray
    shares: np.ndarray
    weight: np.ndarray


def join_points(columns):
    """Points of columns, each (codes or numbers (N,), shares (K,) of its levels if it has any, weight)."""
    n_levels = np.array([shares.size for _, shares, _ in columns], np.int64)
    return ClusteredRows(
        np.ascontiguousarray(np.stack([at for at, _, _ in columns], axis=1)),
        n_levels,
        np.cumsum(n_levels) - n_levels,
        np.concatenate([shares for _, shares, _ in columns]),
        np.array([weight for _, _, weight in columns], np.float64),
    )


def k_means(rng, points, rows, begin, end, k, rounds):
    """Clusters of some rows by Lloyd's algorithm from a start by k-means++ (Arthur and Vassilvitskii 2007).

    Parameters
    ----------
    rng : numpy.random.Generator
    points : ClusteredRows
    rows : (n,) int64
    begin, end : int
        Columns that count.
    k : int
        Clusters, at most as many as rows.
    rounds : int
        At most.

    Returns
    -------
    (n,) int64
        Below k. Some clusters may be empty, all but the first where all rows are alike.
    """
    columns = [_column(points, rows, d) for d in range(begin, end)]
    labels = np.zeros(rows.size, np.int64)
    nearest = np.full(rows.size, np.inf)
    centres = []
    for c in range(k):
        pick = int(rng.integers(0, rows.size))  # the first centre; of others where rounding leaves none chosen
        if c > 0:
            reached = np.cumsum(nearest)
            if reached[-1] <= 0.0:
                return labels
            beyond = np.searchsorted(reached, rng.random() * reached[-1], side="right")
            pick = int(beyond) if beyond < rows.size else pick
        centres.append([column.centre(np.zeros(1, np.int64), np.array([pick]))[0] for column in columns])
        distance = np.maximum(_squared_distances(columns, centres[c], rows.size), 0.0)
        closer = distance < nearest
        nearest[closer], labels[closer] = distance[closer], c
    for _ in range(rounds):
        members = np.arange(rows.size)
        occupied = np.unique(labels)
        for place, column in enumerate(columns):
            found = column.centre(labels, members)
            for c in occupied:  # an empty one stays where it was
                centres[c][place] = found[c]
        chosen = np.argmin([_squared_distances(columns, centre, rows.size) for centre in centres], axis=0)
        if np.array_equal(chosen, labels):
            break
        labels = chosen
    return labels


def _squared_distances(columns, centre, n):
    total = np.zeros(n)
    for column, at in zip(columns, centre, strict=True):
        total += column.squares(at)
    return total


def _column(points, rows, d):
    x, k = points.at[rows, d], points.n_levels[d]
    if k == 0:
        return _NumberColumn(x)
    return _LevelColumn(x.astype(np.int64), points.shares[points.first[d] : points.first[d] + k], points.weight[d])


class _NumberColumn:
    """A column of numbers; a centre is a mean."""

    def __init__(self, x):
        self.x = x

    def centre(self, labels, members):
        """Of each label the centre of its members; of labels without any it is not a number."""
        with np.errstate(invalid="ignore"):
            return np.bincount(labels, self.x[members]) / np.bincount(labels)

    def squares(self, mean):
        return (self.x - mean) ** 2


class _LevelColumn:
    """A column of levels; a centre is a table of squared distances from each code, the last that of missing ones."""

    def __init__(self, codes, shares, weight):
        self.codes, self.shares, self.weight = codes, shares, weight

    def centre(self, labels, members):
        width = self.shares.size + 1
        counts = np.bincount(labels * width + self.codes[members], minlength=(labels.max() + 1) * width)
        counts = counts.reshape(-1, width)
        with np.errstate(invalid="ignore"):
            means = (counts[:, :-1] + counts[:, -1:] * self.shares) / counts.sum(1, keepdims=True)
        out = np.empty(counts.shape)
        out[:, :-1] = 1.0 - 2.0 * means + (means**2).sum(1, keepdims=True)
        out[:, -1] = ((means - self.shares) ** 2).sum(1)
        return self.weight * out

    def squares(self, table):
        return table[self.codes]
