"""k-means on rows of numbers and levels.

A column of K levels counts as K indicators. A row has one of them, so that its squared distance from a centre depends
on its code alone: centres are kept as tables of distances by code, and no indicator is ever written down.
"""

from typing import NamedTuple

import numpy as np

from pymc_spn.numerics.kernel_options import inner_kernel, kernel


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


@kernel
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
    labels = np.zeros(rows.size, np.int64)
    place = np.zeros(end - begin + 1, np.int64)
    for d in range(begin, end):
        place[d - begin + 1] = place[d - begin] + points.n_levels[d] + 1
    centres = np.zeros((k, place[end - begin]))
    nearest = np.full(rows.size, np.inf)
    for c in range(k):
        pick = rng.integers(0, rows.size)  # the first centre; of others where rounding leaves none chosen
        if c > 0:
            total = nearest.sum()
            if total <= 0.0:
                return labels
            u = rng.random() * total
            for i in range(rows.size):
                u -= nearest[i]
                if u < 0.0:
                    pick = i
                    break
        count_row(points, rows[pick], begin, end, place, centres[c])
        settle_centre(points, begin, end, place, 1, centres[c])
        for i in range(rows.size):
            distance = max(squared_distance(points, rows[i], begin, end, place, centres[c]), 0.0)
            if distance < nearest[i]:
                nearest[i] = distance
                labels[i] = c
    sizes = np.zeros(k, np.int64)
    for _ in range(rounds):
        sizes[:] = 0
        for i in range(rows.size):
            sizes[labels[i]] += 1
        for c in range(k):
            if sizes[c] > 0:  # an empty one stays where it was
                centres[c] = 0.0
        for i in range(rows.size):
            count_row(points, rows[i], begin, end, place, centres[labels[i]])
        for c in range(k):
            if sizes[c] > 0:
                settle_centre(points, begin, end, place, sizes[c], centres[c])
        changed = False
        for i in range(rows.size):
            best = np.inf
            chosen = labels[i]
            for c in range(k):
                distance = squared_distance(points, rows[i], begin, end, place, centres[c])
                if distance < best:
                    best = distance
                    chosen = c
            changed |= chosen != labels[i]
            labels[i] = chosen
        if not changed:
            break
    return labels


@inner_kernel
def count_row(points, n, begin, end, place, out):
    """Add a row to sums of numbers and counts of codes (W,)."""
    for d in range(begin, end):
        at = place[d - begin]
        if points.n_levels[d] > 0:
            out[at + int(points.at[n, d])] += 1.0
        else:
            out[at] += points.at[n, d]


@inner_kernel
def settle_centre(points, begin, end, place, size, out):
    """From sums and counts (W,) of ``size`` rows to means of numbers, and squared distances from each code."""
    for d in range(begin, end):
        at = place[d - begin]
        k = points.n_levels[d]
        if k == 0:
            out[at] /= size
            continue
        missing = out[at + k]
        square = 0.0
        away = 0.0
        for level in range(k):
            share = points.shares[points.first[d] + level]
            mean = (out[at + level] + missing * share) / size
            square += mean * mean
            away += (mean - share) * (mean - share)
            out[at + level] = mean
        for level in range(k):
            out[at + level] = points.weight[d] * (1.0 - 2.0 * out[at + level] + square)
        out[at + k] = points.weight[d] * away


@inner_kernel
def squared_distance(points, n, begin, end, place, centre):
    """Of a row from a centre."""
    total = 0.0
    for d in range(begin, end):
        at = place[d - begin]
        x = points.at[n, d]
        if points.n_levels[d] > 0:
            total += centre[at + int(x)]
        else:
            t = x - centre[at]
            total += t * t
    return total
